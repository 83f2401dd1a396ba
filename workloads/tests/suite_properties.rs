//! Whatever text is given as a suite, it is read or refused in one line, and never panics. What is read survives being
//! written and read again.

use fencepost_workloads::suite::{BUILT_IN, Suite};
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const ROUNDS: usize = 20_000;

const SPLINTERS: &[&str] = &[
    "",
    "\n",
    "\0",
    "\"",
    "'",
    "[",
    "]",
    "[[fault]]",
    "[run]",
    "=",
    "#",
    "{",
    "}",
    "0",
    "-1",
    "1e9",
    "99999999999999999999",
    "nan",
    "\"0s\"",
    "\"3s..1s\"",
    "\"1s..\"",
    "\"..\"",
    "\"99y\"",
    "true",
    "\u{202e}",
    "\u{7f}",
    "\\u0000",
    "workers = 0",
    "rate = 0",
];

fn damage(text: &mut String, chance: &mut impl Rng) {
    let places: Vec<usize> = text
        .char_indices()
        .map(|(at, _)| at)
        .chain([text.len()])
        .collect();
    let place = *places.choose(chance).expect("at least the end");
    match chance.random_range(0..5) {
        0 => text.truncate(place),
        1 => text.insert_str(place, SPLINTERS.choose(chance).expect("there are some")),
        2 => {
            let end = *places
                .iter()
                .filter(|&&at| at >= place)
                .take(20)
                .collect::<Vec<_>>()
                .choose(chance)
                .expect("place itself");
            text.replace_range(place..*end, "");
        }
        3 => {
            let line = text
                .lines()
                .collect::<Vec<_>>()
                .choose(chance)
                .map_or(String::new(), |line| format!("\n{line}\n"));
            text.insert_str(place, &line);
        }
        _ => {
            let digit = char::from(b'0' + chance.random_range(0..10_u8));
            text.insert(place, digit);
        }
    }
}

#[test]
fn damaged_suites_are_read_or_refused_in_one_line_and_never_panic() {
    let mut chance = ChaCha8Rng::seed_from_u64(5);
    let (mut read, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let mut text = BUILT_IN
            .choose(&mut chance)
            .expect("there is one")
            .text
            .to_owned();
        for _ in 0..chance.random_range(1..4) {
            damage(&mut text, &mut chance);
        }
        match Suite::parse(&text, "my.toml") {
            Ok(suite) => {
                read += 1;
                let written = serde_json::to_string(&suite).expect("plain data");
                assert_eq!(
                    serde_json::from_str::<Suite>(&written).expect("its own words"),
                    suite,
                    "round {round}"
                );
            }
            Err(error) => {
                refused += 1;
                let message = error.to_string();
                assert!(
                    message.starts_with("my.toml") && !message.contains('\n'),
                    "round {round}: {message:?}"
                );
                assert!(
                    error
                        .line
                        .is_none_or(|line| line <= text.lines().count() + 1),
                    "round {round}: {message:?}"
                );
            }
        }
    }
    assert!(
        read > ROUNDS / 50 && refused > ROUNDS / 50,
        "both happen: {read} read, {refused} refused"
    );
}
