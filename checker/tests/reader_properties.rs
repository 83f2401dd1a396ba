//! Whatever bytes come in, the reader ends with a history or with one line that says what is wrong, and what was read
//! can be judged. Valid recordings are damaged in many ways, with a fixed seed.

#![allow(
    clippy::disallowed_methods,
    reason = "tests open the files that the judge may not"
)]

use fencepost_checker::history::{Function, History, HistoryError, Name, Pairing, jsonl};
use fencepost_checker::{Model, judge};
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const ROUNDS: usize = 30_000;

/// Pieces that readers stumble over.
const SPLINTERS: &[&str] = &[
    "",
    "\n",
    "\r\n",
    "\0",
    "\u{feff}",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ",",
    ":",
    "null",
    "true",
    "-",
    "-0",
    "1.5",
    "1e400",
    "18446744073709551616",
    "-9223372036854775809",
    "\"info\"",
    "\"type\":\"info\"",
    "\"type\":\"header\"",
    "\"format\":2",
    "\"token\":\"7\"",
    "\"index\":0",
    "\\ud800",
    "\u{202e}",
    "{\"a\":{\"a\":{\"a\":{\"a\":{}}}}}",
    "\"ttl\":-1",
    "\"process\":-3",
];

fn recordings() -> Vec<Vec<u8>> {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");
    let mut found = Vec::new();
    for verdict in ["valid", "invalid"] {
        for entry in
            std::fs::read_dir(format!("{corpus}/{verdict}")).expect("the project's own corpus")
        {
            let path = entry.expect("readable").path();
            if path.extension().is_some_and(|ending| ending == "jsonl") {
                found.push(std::fs::read(path).expect("readable"));
            }
        }
    }
    assert!(found.len() >= 4, "there is something to damage");
    found
}

fn damage(bytes: &mut Vec<u8>, chance: &mut impl Rng) {
    let at = |bytes: &[u8], chance: &mut dyn FnMut(usize) -> usize| {
        if bytes.is_empty() {
            0
        } else {
            chance(bytes.len())
        }
    };
    let mut pick = |bound: usize| chance.random_range(0..bound);
    let place = at(bytes, &mut pick);
    match chance.random_range(0..7) {
        0 => bytes.truncate(place),
        1 if !bytes.is_empty() => bytes[place] = chance.random(),
        2 => {
            let splinter = SPLINTERS.choose(chance).expect("there are some");
            bytes.splice(place..place, splinter.bytes());
        }
        3 => {
            let end = (place + chance.random_range(0..40)).min(bytes.len());
            bytes.drain(place..end);
        }
        4 => {
            let end = (place + chance.random_range(0..400)).min(bytes.len());
            let copy = bytes[place..end].to_vec();
            let to = chance.random_range(0..=bytes.len());
            bytes.splice(to..to, copy);
        }
        _ => {
            // Two lines change places.
            let mut lines: Vec<Vec<u8>> = bytes
                .split(|&byte| byte == b'\n')
                .map(<[u8]>::to_vec)
                .collect();
            let (a, b) = (
                chance.random_range(0..lines.len()),
                chance.random_range(0..lines.len()),
            );
            lines.swap(a, b);
            *bytes = lines.join(&b'\n');
        }
    }
}

#[test]
fn damaged_recordings_are_read_or_refused_in_one_line_and_never_panic() {
    let recordings = recordings();
    let mut chance = ChaCha8Rng::seed_from_u64(3);
    let (mut read, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let mut bytes = recordings
            .choose(&mut chance)
            .expect("there are some")
            .clone();
        for _ in 0..chance.random_range(1..4) {
            damage(&mut bytes, &mut chance);
        }
        let read_at_once = History::read(&bytes);
        assert_eq!(
            told(&read_at_once),
            told(&line_by_line(&bytes)),
            "round {round}: the fast reader and the general parser"
        );
        match read_at_once {
            Ok(history) => {
                read += 1;
                assert!(history.events as usize <= bytes.len());
                for model in [Model::Fencing, Model::FencedRegister] {
                    let judgement = judge(&history, model);
                    assert_eq!(
                        judge(&history, model),
                        judgement,
                        "round {round}: the same history, the same verdict"
                    );
                }
            }
            Err(error) => {
                refused += 1;
                let lines = bytes.split(|&byte| byte == b'\n').count();
                assert!((1..=lines).contains(&error.line), "round {round}: {error}");
                assert!(
                    !error.to_string().contains('\n') && error.message.len() < 2_000,
                    "round {round}: {error}"
                );
            }
        }
    }
    assert!(
        read > ROUNDS / 50 && refused > ROUNDS / 50,
        "both happen: {read} read, {refused} refused"
    );
}

/// The general parser alone, and one line after the other.
fn line_by_line(bytes: &[u8]) -> Result<History, HistoryError> {
    let mut reader = jsonl::Reader::new(bytes);
    let mut pairing = Pairing::new();
    while let Some((number, line)) = reader.next_line()? {
        pairing.push(number, line)?;
    }
    let mut history = pairing.finish();
    let warnings = reader.warnings().iter().cloned();
    history.warnings.splice(0..0, warnings);
    Ok(history)
}

/// All that a history says, or the error, in words: names and values as texts.
fn told(read: &Result<History, HistoryError>) -> String {
    let history = match read {
        Ok(history) => history,
        Err(error) => return format!("{error:?}"),
    };
    let name = |name: Option<Name>| name.map(|name| history.names.text(name));
    let mut told = format!(
        "{:?}\n{:?}\n{:?} {} {} {}\n",
        history.header,
        history.faults,
        history.warnings,
        history.events,
        history.first_time,
        history.last_time
    );
    for op in &history.operations {
        let function = match op.function {
            Function::Other(word) => history.names.text(word).to_owned(),
            known => format!("{known:?}"),
        };
        let names = [
            Some(op.client),
            op.lock,
            op.key,
            op.path,
            op.error,
            op.identity,
            op.session,
        ]
        .map(name);
        told += &format!(
            "{} {function} {names:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}\n",
            op.process,
            op.token,
            history.value(op),
            op.high_water,
            op.ttl_ms,
            op.outcome,
            op.invoked,
            op.completed
        );
    }
    told
}

#[test]
fn what_is_read_and_written_again_reads_the_same() {
    for recording in recordings() {
        let parsed = jsonl::parse(&recording).expect("the corpus is readable");
        let written: String = parsed
            .lines
            .iter()
            .map(|line| jsonl::write(line) + "\n")
            .collect();
        assert_eq!(
            jsonl::parse(written.as_bytes())
                .expect("its own words")
                .lines,
            parsed.lines
        );
    }
}

#[test]
fn more_open_operations_than_any_system_has_are_refused_and_name_their_line() {
    let mut text = String::new();
    for process in 0..=fencepost_checker::history::MAX_OPEN {
        use std::fmt::Write as _;
        let _ = writeln!(
            text,
            "{{\"index\":{process},\"time\":{process},\"process\":{process},\"type\":\"invoke\",\"f\":\"read\",\"key\":\"k\"}}"
        );
    }
    let error = History::read(text.as_bytes()).expect_err("too many");
    assert_eq!(
        (error.line, error.field.as_deref()),
        (fencepost_checker::history::MAX_OPEN + 1, Some("process"))
    );
}

#[test]
fn a_line_that_does_not_end_is_refused_without_being_parsed() {
    let mut bytes = b"{\"index\":0,\"f\":\"".to_vec();
    bytes.resize(64 << 20, b'x');
    let error = History::read(&bytes).expect_err("too long");
    assert_eq!(error.line, 1);
    assert!(error.message.contains("bytes"), "{error}");
}
