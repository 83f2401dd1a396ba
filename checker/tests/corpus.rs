//! A small corpus of the project's own. The folder is the verdict; the table names each finding and the events that
//! prove it.

// The judge reads no files; its tests have to.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fencepost_checker::history::History;
use fencepost_checker::verdict::{Judgement, Verdict};
use fencepost_checker::{Model, judge};

type Expected = &'static [(&'static str, &'static [u64])];

const VALID: &[&str] = &[
    "byte-order-mark",
    "cut-by-a-crash",
    "equal-numbers",
    "grants-that-overlap",
    "late-answer",
    "lost-acquire-explains-a-token",
    "lost-write-lands-later",
    "nobody-is-named",
    "refusal-rests-on-a-write-nobody-saw",
    "retries-with-a-pause",
    "session-shares-a-lost-acquire",
    "zombie-refused",
];

const INVALID: &[(&str, Expected)] = &[
    ("counter-forgotten", &[("token-regression", &[0, 1, 6, 7])]),
    (
        "hot-loop",
        &[("hot-retry", &[6, 7, 8, 9, 10, 11, 12, 13, 14, 15])],
    ),
    (
        "own-success-called-refused",
        &[("not-linearizable", &[2, 5])],
    ),
    ("own-token-refused", &[("not-linearizable", &[2, 3])]),
    (
        "refusal-before-its-reason",
        &[("not-linearizable", &[2, 3])],
    ),
    (
        "refused-value-is-read",
        &[("not-linearizable", &[6, 7, 8, 9])],
    ),
    (
        "stale-write-after-successor",
        &[("stale-write-accepted", &[4, 5, 6, 7])],
    ),
    (
        "stale-write-proved-by-a-refusal-that-names-nothing",
        &[("stale-write-accepted", &[6, 7, 8, 9])],
    ),
    ("stolen-token", &[("write-without-grant", &[2, 3])]),
    (
        "stray-mark-beside-a-lost-acquire",
        &[("not-linearizable", &[4, 5])],
    ),
    (
        "two-writers-of-one-epoch",
        &[
            ("duplicate-token", &[0, 1, 2, 3]),
            ("double-writer-in-epoch", &[4, 5, 6, 7]),
        ],
    ),
    (
        "value-comes-back",
        &[("not-linearizable", &[2, 3, 4, 5, 8, 9])],
    ),
    (
        "violation-beside-a-raised-key",
        &[("not-linearizable", &[2, 3, 4, 5, 8, 9])],
    ),
    (
        "violation-outranks-an-unexercised-plan",
        &[("token-regression", &[0, 1, 2, 3])],
    ),
];

fn path(folder: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(folder)
        .join(format!("{name}.jsonl"))
}

fn judged(folder: &str, name: &str) -> Judgement {
    let bytes = fs::read(path(folder, name)).expect("the corpus is readable");
    let history = History::read(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    judge(&history, Model::Fencing)
}

#[test]
fn legal_histories_have_no_finding() {
    for name in VALID {
        let judgement = judged("valid", name);
        assert_eq!(judgement.findings, [], "{name}");
        assert_eq!(judgement.verdict, Verdict::Valid, "{name}");
    }
}

#[test]
fn illegal_histories_have_exactly_their_findings_and_witnesses() {
    for (name, expected) in INVALID {
        let judgement = judged("invalid", name);
        let found: Vec<_> = judgement
            .findings
            .iter()
            .map(|f| (f.finding.as_str(), f.events.as_slice()))
            .collect();
        assert_eq!(found, *expected, "{name}");
        assert_eq!(judgement.verdict, Verdict::Invalid, "{name}");
        assert!(
            judgement
                .findings
                .iter()
                .all(|finding| finding.story.lines().count() > 1),
            "{name}"
        );
    }
}

#[test]
fn every_file_of_the_corpus_is_in_the_table() {
    for (folder, names) in [
        ("valid", VALID.to_vec()),
        ("invalid", INVALID.iter().map(|&(name, _)| name).collect()),
    ] {
        let listed: BTreeSet<PathBuf> = names.iter().map(|name| path(folder, name)).collect();
        let parent = path(folder, "x")
            .parent()
            .expect("a file has a folder")
            .to_owned();
        let entries = fs::read_dir(parent).expect("the corpus is readable");
        let present: BTreeSet<PathBuf> = entries
            .map(|entry| entry.expect("an entry").path())
            .collect();
        assert_eq!(present, listed);
    }
}

#[test]
fn a_history_cut_at_any_line_still_checks_and_an_early_verdict_is_not_taken_back() {
    for (name, _) in INVALID {
        let bytes = fs::read(path("invalid", name)).expect("the corpus is readable");
        let mut proven = false;
        for end in (0..=bytes.len())
            .filter(|&end| end == bytes.len() || bytes[end] == b'\n' || end % 7 == 0)
        {
            let history = History::read(&bytes[..end])
                .unwrap_or_else(|error| panic!("{name} cut at {end}: {error}"));
            let invalid = judge(&history, Model::Fencing).verdict == Verdict::Invalid;
            // A fault's evidence or a later answer may add to the story; a proof stays a proof.
            assert!(invalid || !proven, "{name} cut at {end}");
            proven |= invalid;
        }
        assert!(proven, "{name}");
    }
}

#[test]
fn names_and_the_origin_of_time_do_not_matter() {
    for (name, expected) in INVALID {
        let text = fs::read_to_string(path("invalid", name)).expect("the corpus is readable");
        let renamed = text
            .replace("\"time\":", "\"time\":7")
            .replace("\"c1\"", "\"zoe\"")
            .replace("\"L\"", "\"a lock\"");
        let padded: String = renamed
            .lines()
            .map(|line| format!("{}\n", widen_times(line)))
            .collect();
        let history =
            History::read(padded.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let judgement = judge(&history, Model::Fencing);
        let found: Vec<_> = judgement
            .findings
            .iter()
            .map(|f| (f.finding.as_str(), f.events.as_slice()))
            .collect();
        assert_eq!(found, *expected, "{name}");
    }
}

/// Turns `"time":7N` into 7 hours and N nanoseconds, whatever N's number of digits.
fn widen_times(line: &str) -> String {
    let Some((before, after)) = line.split_once("\"time\":7") else {
        return line.to_owned();
    };
    let digits = after
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(after.len());
    let time: u64 = after[..digits].parse().expect("a time is a number");
    format!(
        "{before}\"time\":{}{}",
        time + 7 * 3_600_000_000_000,
        &after[digits..]
    )
}
