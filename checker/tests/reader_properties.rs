//! Whatever bytes come in, the reader ends with a history or with one line that says what is wrong, and what was read
//! can be judged. Valid recordings are damaged in many ways, with a fixed seed.

#![allow(
    clippy::disallowed_methods,
    reason = "tests open the files that the judge may not"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_checker::generate::{Generator, Settings};
use fencepost_checker::history::{
    Format, Function, History, HistoryError, Intake, MAX_OPEN, Name, Pairing, ReadError, jsonl,
};
use fencepost_checker::{Model, judge};
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

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
    match chance.random_range(0..8) {
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
        5 => without_names(bytes, chance),
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

/// The fields of an object in the order in which they stand.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// A line, or an object in a line, becomes the array of its values.
fn without_names(bytes: &mut Vec<u8>, chance: &mut impl Rng) {
    let mut lines: Vec<Vec<u8>> = bytes
        .split(|&byte| byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    // The first is the header, of which there is one alone.
    let number = if chance.random_bool(0.3) {
        0
    } else {
        chance.random_range(0..lines.len())
    };
    let Ok(Fields(mut fields)) = serde_json::from_slice(&lines[number]) else {
        return;
    };
    let inner: Vec<usize> = (0..fields.len())
        .filter(|&place| fields[place].1.is_object())
        .collect();
    lines[number] = match inner.choose(chance) {
        Some(&place) if chance.random_bool(0.8) => {
            flatten(&mut fields[place].1, chance);
            let fields = fields
                .iter()
                .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        _ => {
            let values: Vec<Value> = fields.into_iter().map(|(_, value)| value).collect();
            Value::from(values).to_string()
        }
    }
    .into_bytes();
    *bytes = lines.join(&b'\n');
}

/// The object, or one within it, becomes the array of its values.
fn flatten(value: &mut Value, chance: &mut impl Rng) {
    let Value::Object(fields) = value else { return };
    let inner: Vec<String> = fields
        .iter()
        .filter(|(_, value)| value.is_object())
        .map(|(name, _)| name.clone())
        .collect();
    match inner.choose(chance) {
        Some(name) if chance.random_bool(0.8) => flatten(&mut fields[name], chance),
        _ => *value = fields.values().cloned().collect(),
    }
}

/// A line of a file that was read which is no object, or holds none where one must be. A last line may have been cut
/// short.
fn misread(bytes: &[u8]) -> Option<String> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    for line in text.split(|&byte| byte == b'\n') {
        let line = line.trim_ascii();
        let told = || Some(String::from_utf8_lossy(line).into_owned());
        match line.first() {
            None => continue,
            Some(b'{') => {}
            Some(_) => return told(),
        }
        let Ok(value) = serde_json::from_slice::<Value>(line) else {
            continue;
        };
        if value["type"].is_object() {
            return told();
        }
        if value["type"] == "header" {
            let (plan, locks) = (&value["plan"], value["locks"].as_object());
            let arrays = [plan, &plan["expect"], &value["locks"], &value["clients"]];
            let of_locks = locks.into_iter().flat_map(|locks| locks.values());
            if arrays.into_iter().chain(of_locks).any(Value::is_array) {
                return told();
            }
        }
    }
    None
}

#[test]
fn an_array_is_no_line_and_no_part_of_one() {
    let good = r#"{"index":1,"time":1,"process":1,"client":"c1","type":"ok","f":"read"}"#;
    let header = r#"{"type":"header","format":1,"locks":{"L":{"keys":["k"]}},"plan":{"expect":{"zombie_writes":1}}}"#;
    let asked = good
        .replace("\"ok\"", "\"invoke\"")
        .replace("\"index\":1", "\"index\":0");
    let read = |lines: &[&str]| History::read(lines.join("\n").as_bytes());
    read(&[header, &asked, good]).expect("as they should be");
    for (line, field, told) in [
        (r#"[1,1,1,"c1","ok","read"]"#, None, "is not a JSON object"),
        (
            r#"[0,1,"pause","begin",1,["w1"]]"#,
            None,
            "is not a JSON object",
        ),
        (
            r#"{"index":1,"time":1,"process":1,"type":{"ok":null},"f":"read"}"#,
            Some("type"),
            "it must be \"invoke\", \"ok\"",
        ),
        (
            r#"{"index":1,"time":1,"type":"fault","fault":"pause","phase":{"begin":null},"id":1}"#,
            Some("phase"),
            "expected a string",
        ),
    ] {
        let error = read(&[header, &asked, line]).expect_err(line);
        assert_eq!((error.line, error.field.as_deref()), (3, field), "{error}");
        assert!(error.message.contains(told), "{error}");
    }
    for (from, to, field) in [
        (header, r#"[1,"7","default"]"#, None),
        (r#"{"keys":["k"]}"#, r#"[["k"]]"#, Some("locks")),
        (r#"{"expect":{"zombie_writes":1}}"#, "[]", Some("plan")),
        (r#"{"zombie_writes":1}"#, "[1]", Some("plan")),
    ] {
        let error = read(&[&header.replace(from, to), &asked, good]).expect_err(to);
        assert_eq!((error.line, error.field.as_deref()), (1, field), "{error}");
        assert!(error.message.contains("object"), "{error}");
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
                assert_eq!(misread(&bytes), None, "round {round}");
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

/// Pieces of EDN and of logs that readers stumble over.
const EDN_SPLINTERS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "#{",
    "#_",
    "#",
    "\"",
    "\\",
    ";",
    "\n",
    ",",
    ":",
    "nil",
    "-",
    "1/2",
    "\u{feff}",
    ":process",
    ":process -1",
    ":type :info",
    ":f :acquire",
    ":value [1 [2 3]]",
    ":time 9",
    ":index 3",
    "^{:a 1}",
    "18446744073709551616",
    "1e400",
    "##NaN",
    "INFO  jepsen.util - 0\t:ok\t:read\t3\n",
    "{:a {:a {:a {}}}}",
];

const JEPSEN: &[(Format, &str)] = &[
    (
        Format::Edn,
        "; x\n[{:process 0, :type :invoke, :f :write, :value [1 3], :time 4}\n {:process :nemesis, :type :info, :f :kill, :value \"n1\"}\n {:process 0, :type :ok, :f :write, :value [1 3], :time 6}\n]",
    ),
    (
        Format::Edn,
        "{:index 0 :process 1 :type :invoke :f :cas :value [1 2]}\n#op{:index 1 :process 1 :type :info :f :cas :error :timeout}\n",
    ),
    (
        Format::JepsenLog,
        "INFO  jepsen.util - 0\t:invoke\t:cas\t[1 2]\nnoise\nINFO  jepsen.util - 0\t:fail\t:cas\t[1 2]\nINFO  jepsen.util - :nemesis\t:info\t:start\tnil\n",
    ),
];

#[test]
fn damaged_files_of_jepsen_are_read_or_refused_the_same_however_they_come() {
    let mut chance = ChaCha8Rng::seed_from_u64(4);
    let (mut read, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let &(format, text) = JEPSEN.choose(&mut chance).expect("there are some");
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..chance.random_range(1..4) {
            if chance.random_bool(0.5) {
                let splinter = EDN_SPLINTERS.choose(&mut chance).expect("there are some");
                let place = chance.random_range(0..=bytes.len());
                bytes.splice(place..place, splinter.bytes());
            } else {
                damage(&mut bytes, &mut chance);
            }
        }
        let whole = History::read_as(&bytes, format);
        let mut intake = Intake::new(format);
        let size = chance.random_range(1..40);
        let pushed = bytes.chunks(size).try_for_each(|block| intake.push(block));
        let in_blocks = pushed.and_then(|()| intake.finish());
        assert_eq!(told(&whole), told(&in_blocks), "round {round}");
        match whole {
            Ok(history) => {
                read += 1;
                assert_eq!(judge(&history, Model::Fencing).stats.events, history.events);
            }
            Err(error) => {
                refused += 1;
                let lines = bytes.split(|&byte| byte == b'\n').count();
                assert!((1..=lines).contains(&error.line), "round {round}: {error}");
            }
        }
    }
    assert!(
        read > ROUNDS / 50 && refused > ROUNDS / 50,
        "both happen: {read} read, {refused} refused"
    );
}

#[test]
fn a_large_file_reads_the_same_at_once_in_blocks_and_line_by_line_damaged_or_not() {
    let settings = Settings {
        operations: 6_000,
        timeouts: 0.02,
        ..Settings::default()
    };
    let mut whole = Vec::new();
    for made in Generator::new(&settings) {
        made.write(&mut whole);
    }
    assert!(
        whole.len() > 1 << 20,
        "many threads read it, in many blocks"
    );
    let mut chance = ChaCha8Rng::seed_from_u64(5);
    for round in 0..12 {
        let mut bytes = whole.clone();
        if round > 0 {
            damage(&mut bytes, &mut chance);
        }
        let expected = told(&line_by_line(&bytes));
        assert_eq!(told(&History::read(&bytes)), expected, "round {round}");
        let streamed = match History::read_stream(&bytes[..]) {
            Err(ReadError::History(error)) => Err(error),
            other => Ok(other.expect("memory is read")),
        };
        assert_eq!(told(&streamed), expected, "round {round}");
        let mut intake = Intake::new(Format::Jsonl);
        let pushed = bytes
            .chunks(70_001)
            .try_for_each(|block| intake.push(block));
        assert_eq!(told(&pushed.and_then(|()| intake.finish())), expected);
    }
}

/// So many bytes of one kind, and how many of them were asked for.
struct Endless {
    byte: u8,
    left: u64,
    read: Arc<AtomicU64>,
}

impl std::io::Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let length = into
            .len()
            .min(usize::try_from(self.left).unwrap_or(usize::MAX));
        into[..length].fill(self.byte);
        self.left -= length as u64;
        self.read.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

#[test]
fn a_line_of_a_gigabyte_is_refused_after_a_few_blocks_in_every_format() {
    for (format, byte) in [
        (Format::Jsonl, b'x'),
        (Format::JepsenLog, b'x'),
        (Format::Edn, b'['),
        (Format::Edn, b'{'),
    ] {
        let read = Arc::new(AtomicU64::new(0));
        let endless = Endless {
            byte,
            left: 1 << 30,
            read: Arc::clone(&read),
        };
        let error = History::read_stream_as(endless, format).expect_err("no history");
        let ReadError::History(error) = error else {
            panic!("{error}")
        };
        assert_eq!(error.line, 1, "{error}");
        let read = read.load(Ordering::Relaxed);
        assert!(read < 4 << 20, "{format}: {read} bytes were asked for");
    }
}

#[test]
fn a_million_open_operations_are_read_and_no_file_with_more_is_read_to_its_end() {
    /// Lines that open an operation each, as they are asked for.
    struct Openings {
        process: u64,
        rest: Vec<u8>,
        most: u64,
    }
    impl std::io::Read for Openings {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            use std::io::Write as _;
            while self.rest.len() < into.len() && self.process < self.most {
                let process = self.process;
                writeln!(
                    self.rest,
                    "{{\"index\":{process},\"time\":0,\"process\":{process},\"type\":\"invoke\",\"f\":\"read\",\"client\":\"c\"}}"
                )?;
                self.process += 1;
            }
            let length = into.len().min(self.rest.len());
            into[..length].copy_from_slice(&self.rest[..length]);
            self.rest.drain(..length);
            Ok(length)
        }
    }
    let openings = |most| Openings {
        process: 0,
        rest: Vec::new(),
        most,
    };
    let history = History::read_stream(openings(1_000_000)).expect("a million");
    assert_eq!(history.operations.len(), 1_000_000);
    let mut many = openings(10_000_000);
    let error = History::read_stream(&mut many).expect_err("too many");
    let ReadError::History(error) = error else {
        panic!("{error}")
    };
    assert_eq!(error.line, MAX_OPEN + 1);
    assert!(
        many.process < 2_000_000,
        "{} lines were asked for",
        many.process
    );
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
