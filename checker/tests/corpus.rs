//! A small corpus of the project's own. The folder is the verdict; the table names each finding and the events that
//! prove it.

// The judge reads no files; its tests have to.
#![allow(clippy::disallowed_methods)]

mod witness;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fencepost_checker::fencing::FINDINGS;
use fencepost_checker::finding::Finding;
use fencepost_checker::history::{History, jsonl};
use fencepost_checker::online::{Limits, Online};
use fencepost_checker::verdict::{Judgement, Verdict};
use fencepost_checker::{Model, judge};

type Expected = &'static [(&'static str, &'static [u64])];

const VALID: &[&str] = &[
    "a-holder-that-renews-is-alive",
    "admin-path-fenced",
    "byte-order-mark",
    "conflict-told-as-unknown",
    "counter-passes-31-bits",
    "counter-that-began-at-a-clock",
    "cut-by-a-crash",
    "dead-process-wants-nothing",
    "equal-numbers",
    "grant-raised-the-mark-and-its-write-failed",
    "grant-raised-the-mark-before-its-write-was-in",
    "granted-after-a-lost-release",
    "granted-after-the-lease",
    "grants-that-overlap",
    "held-by-its-own-holder",
    "integers-beyond-64-bits",
    "late-answer",
    "late-release-does-nothing",
    "lock-without-lease-is-held-for-long",
    "log-in-order",
    "lost-acquire-explains-a-token",
    "lost-append-lands-later",
    "lost-write-lands-later",
    "mark-of-a-lost-acquire-beside-2-to-the-53",
    "nobody-is-named",
    "old-mark-in-a-slow-read",
    "older-write-came-first",
    "one-hold-after-the-other-without-lease",
    "one-name-restarted",
    "own-order-at-one-time",
    "refusal-rests-on-a-write-nobody-saw",
    "refused-for-a-write-on-its-way",
    "renewal-beside-the-next-grant",
    "revisions-that-were-waited-for",
    "same-token-of-two-locks",
    "seeded-before-the-fence",
    "session-gives-its-lock-back",
    "session-shares-a-lost-acquire",
    "shared-mark-refuses-on-every-key",
    "write-lands-during-the-read",
    "zombie-refused",
    "zombies-refused-in-a-row",
];

/// What is found here is a warning, so the verdict is valid.
const WARNED: &[(&str, Expected)] = &[
    (
        "clock-as-token",
        &[("timestamp-token", &[0, 1, 4, 5, 8, 9])],
    ),
    (
        "late-release-without-a-known-lease",
        &[("release-of-others-lock", &[2, 3, 4, 5, 6, 7, 8, 9])],
    ),
    ("no-token-left", &[("token-overflow", &[6, 7])]),
    (
        "nobody-gets-a-dead-holders-lock",
        &[("starvation", &[0, 1, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23])],
    ),
    (
        "retries-with-a-pause",
        &[("write-after-refusal", &[6, 7, 8, 9])],
    ),
    (
        "second-key-not-touched-yet",
        &[("partial-fencing", &[4, 5, 6, 7])],
    ),
];

const INVALID: &[(&str, Expected)] = &[
    (
        "acknowledged-write-is-gone",
        &[("lost-acked-write", &[2, 3, 4, 5, 6, 7])],
    ),
    (
        "acknowledged-write-left-nothing",
        &[("lost-acked-write", &[2, 3, 4, 5])],
    ),
    (
        "admin-path-not-fenced",
        &[("partial-fencing", &[4, 5, 6, 7])],
    ),
    (
        "check-and-write-are-two-steps",
        &[("non-atomic-check", &[4, 5, 6, 7, 8, 9])],
    ),
    ("counter-forgotten", &[("token-regression", &[0, 1, 6, 7])]),
    (
        "counter-of-32-bits-wraps",
        &[
            ("token-overflow", &[0, 1, 4, 5]),
            ("token-regression", &[0, 1, 4, 5]),
        ],
    ),
    (
        "every-new-holder-refused",
        &[
            ("token-regression", &[0, 1, 6, 7]),
            (
                "fenced-out",
                &[2, 3, 6, 7, 8, 9, 12, 13, 14, 15, 18, 19, 20, 21],
            ),
        ],
    ),
    (
        "granted-while-the-lease-ran",
        &[("overlapping-grant", &[0, 1, 2, 3])],
    ),
    (
        "hot-loop",
        &[("hot-retry", &[6, 7, 8, 9, 10, 11, 12, 13, 14, 15])],
    ),
    (
        "late-release-frees-the-successor",
        &[("release-of-others-lock", &[2, 3, 4, 5, 6, 7])],
    ),
    (
        "log-holds-a-refused-append",
        &[("failed-write-applied", &[6, 7, 8, 9])],
    ),
    (
        "log-holds-an-append-twice",
        &[("not-linearizable", &[2, 3, 4, 5])],
    ),
    ("log-lost-an-append", &[("lost-acked-write", &[4, 5, 6, 7])]),
    (
        "log-took-a-stale-append",
        &[("stale-write-accepted", &[4, 5, 6, 7])],
    ),
    (
        "log-with-a-token-that-falls",
        &[("non-atomic-check", &[4, 5, 6, 7, 8, 9])],
    ),
    ("mark-fell", &[("high-water-lost", &[6, 7, 10, 11])]),
    ("mark-of-32-bits", &[("token-overflow", &[2, 3])]),
    (
        "mark-of-another-lock",
        &[("cross-key-interference", &[2, 3, 6, 7])],
    ),
    (
        "no-token-left-for-anybody",
        &[
            ("fenced-out", &[2, 3, 4, 5, 6, 7]),
            ("token-overflow", &[2, 3]),
        ],
    ),
    (
        "own-success-called-a-conflict",
        &[("failed-write-applied", &[4, 5, 6, 7])],
    ),
    (
        "own-success-called-refused",
        &[("failed-write-applied", &[2, 3, 4, 5])],
    ),
    ("own-token-refused", &[("fresh-write-refused", &[2, 3])]),
    (
        "poisoned-by-a-huge-token",
        &[
            ("write-without-grant", &[0, 1, 4, 5]),
            (
                "fenced-out",
                &[4, 5, 6, 7, 8, 9, 12, 13, 14, 15, 18, 19, 20, 21],
            ),
        ],
    ),
    (
        "refusal-before-its-reason",
        &[("fresh-write-refused", &[0, 1, 2, 3])],
    ),
    (
        "refused-token-is-accepted",
        &[
            ("high-water-lost", &[6, 7, 8, 9]),
            ("stale-write-accepted", &[4, 5, 8, 9]),
        ],
    ),
    (
        "refused-value-is-read",
        &[("failed-write-applied", &[6, 7, 8, 9])],
    ),
    (
        "renewal-of-a-lost-lock",
        &[("phantom-renew", &[0, 1, 2, 3, 4, 5])],
    ),
    (
        "renewal-of-a-released-lock",
        &[("phantom-renew", &[0, 1, 2, 3, 4, 5])],
    ),
    (
        "renewal-told-a-higher-token",
        &[("token-regression", &[2, 3, 6, 7])],
    ),
    (
        "second-key-of-a-shared-mark",
        &[("partial-fencing", &[4, 5, 6, 7])],
    ),
    (
        "second-write-of-one-holder-refused",
        &[("fresh-write-refused", &[2, 3, 4, 5])],
    ),
    (
        "stale-write-after-successor",
        &[("stale-write-accepted", &[4, 5, 6, 7])],
    ),
    (
        "stale-write-proved-by-a-refusal-that-names-nothing",
        &[
            ("high-water-lost", &[6, 7, 8, 9]),
            ("stale-write-accepted", &[4, 5, 6, 7, 8, 9]),
        ],
    ),
    ("stolen-token", &[("write-without-grant", &[0, 1, 2, 3])]),
    (
        "stray-mark-beside-a-lost-acquire",
        &[("not-linearizable", &[4, 5])],
    ),
    (
        "two-holds-of-a-lock-without-lease",
        &[("overlapping-grant", &[0, 1, 2, 3, 4, 5])],
    ),
    (
        "two-locks-share-a-slot",
        &[("cross-key-interference", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9])],
    ),
    (
        "two-names-one-token",
        &[("double-writer-in-epoch", &[0, 1, 2, 3])],
    ),
    (
        "two-orders-of-one-log",
        &[("not-linearizable", &[2, 3, 4, 5, 6, 7, 8, 9])],
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
        &[("lost-acked-write", &[2, 3, 4, 5, 8, 9])],
    ),
    (
        "violation-beside-a-raised-key",
        &[("lost-acked-write", &[2, 3, 4, 5, 8, 9])],
    ),
    (
        "violation-outranks-an-unexercised-plan",
        &[("token-regression", &[0, 1, 2, 3])],
    ),
    (
        "write-without-a-token",
        &[("unfenced-write-accepted", &[2, 3, 4, 5])],
    ),
    (
        "integers-beyond-64-bits-come-back",
        &[("lost-acked-write", &[2, 3, 6, 7, 8, 9])],
    ),
    (
        "stranger-frees-the-lock",
        &[("release-of-others-lock", &[0, 1, 2, 3, 4, 5])],
    ),
    (
        "mark-and-value-forgotten",
        &[
            ("high-water-lost", &[2, 3, 4, 5]),
            ("lost-acked-write", &[2, 3, 4, 5]),
        ],
    ),
    (
        "value-nobody-sent-beside-a-seed",
        &[("not-linearizable", &[6, 7])],
    ),
    (
        "two-processes-of-one-name",
        &[
            ("duplicate-token", &[0, 1, 2, 3, 4, 5]),
            ("double-writer-in-epoch", &[0, 1, 2, 3, 4, 5, 6, 7]),
        ],
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

/// Each name that is not as the table has it, as it would stand there.
fn differences(folder: &str, table: &[(&str, Expected)], verdict: Verdict) -> Vec<String> {
    let mut differences = Vec::new();
    for (name, expected) in table {
        let judgement = judged(folder, name);
        let found: Vec<_> = judgement
            .findings
            .iter()
            .map(|f| (f.finding.as_str(), f.events.as_slice()))
            .collect();
        if found != *expected || judgement.verdict != verdict {
            differences.push(format!("(\"{name}\", &{found:?}),"));
        }
        assert!(
            judgement
                .findings
                .iter()
                .all(|finding| finding.story.lines().count() > 1),
            "{name}"
        );
    }
    differences
}

#[test]
fn illegal_histories_have_exactly_their_findings_and_witnesses() {
    let differences = differences("invalid", INVALID, Verdict::Invalid);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn unsound_but_not_illegal_histories_have_exactly_their_warnings() {
    let differences = differences("warned", WARNED, Verdict::Valid);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn a_resource_that_forgets_mark_and_value_at_once_has_one_root() {
    let findings = judged("invalid", "mark-and-value-forgotten").findings;
    let causes: Vec<Option<usize>> = findings.iter().map(|finding| finding.cause).collect();
    assert_eq!(causes, [None, Some(0)]);
}

/// What a stream says of a history, and what the whole file says: by name, lock, key and count.
fn in_a_stream(folder: &str, name: &str) -> [Vec<String>; 2] {
    let bytes = fs::read(path(folder, name)).expect("the corpus is readable");
    let mut online = Online::new(Model::Fencing, Limits::default());
    let mut reader = jsonl::Reader::new(&bytes);
    while let Some((number, line)) = reader.next_line().expect("well-formed") {
        online.push(number, line).expect("well-formed");
    }
    let streamed = online.finish().expect("well-formed");
    [streamed, judged(folder, name)].map(|judgement| {
        let told = judgement.findings.iter().map(|f| {
            let Finding { finding, count, .. } = f;
            format!(
                "{finding} {:?} {:?} {:?} {count}",
                f.severity, f.lock, f.key
            )
        });
        let mut told: Vec<String> = told.collect();
        told.push(format!("{:?}", judgement.stats.overlap));
        told.sort();
        told
    })
}

#[test]
fn a_stream_says_of_each_history_what_the_whole_says() {
    let legal = VALID.iter().map(|name| ("valid", *name));
    let names = |table: &'static [(&str, Expected)]| table.iter().map(|(name, _)| *name);
    let invalid = names(INVALID).map(|name| ("invalid", name));
    let warned = names(WARNED).map(|name| ("warned", name));
    for (folder, name) in legal.chain(invalid).chain(warned) {
        let [streamed, whole] = in_a_stream(folder, name);
        assert_eq!(streamed, whole, "{name}");
    }
}

#[test]
fn every_witness_alone_proves_its_finding() {
    let mut complaints = Vec::new();
    for (folder, table) in [("invalid", INVALID), ("warned", WARNED)] {
        for (name, _) in table {
            let text = fs::read_to_string(path(folder, name)).expect("the corpus is readable");
            let lines: Vec<&str> = text.lines().collect();
            for finding in judged(folder, name).findings {
                let complaint = witness::complaint(&lines, &finding);
                complaints.extend(complaint.map(|complaint| format!("{name}: {complaint}")));
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn every_rule_has_a_case_in_the_corpus() {
    let cases: BTreeSet<&str> = INVALID
        .iter()
        .chain(WARNED)
        .flat_map(|(_, expected)| expected.iter().map(|&(finding, _)| finding))
        .collect();
    let rules: BTreeSet<&str> = FINDINGS.iter().map(|info| info.name).collect();
    assert_eq!(cases, rules);
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
