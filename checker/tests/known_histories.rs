//! Histories whose verdicts are known from elsewhere: a register decided by brute force, public incidents retold,
//! and legal histories that a careless checker flags.
//!
//! They lie beside the project where it is developed; where they are absent each test says so and ends.
//! `FENCEPOST_SHARED` names the folder above them where it is another one.

// The judge reads no files; its tests have to.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fencepost_checker::fencing::FINDINGS;
use fencepost_checker::history::{History, Line, jsonl, pair};
use fencepost_checker::verdict::{Judgement, Verdict};
use fencepost_checker::{Model, judge};
use serde_json::Value;

fn folder(name: &str) -> Option<PathBuf> {
    let shared = std::env::var_os("FENCEPOST_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
        PathBuf::from,
    );
    let folder = shared.join("histories").join(name);
    if !folder.is_dir() {
        // Past the capture of the test runner, so that everybody sees it.
        let told = format!("SKIPPED: {} is not there\n", folder.display());
        let _ = std::io::Write::write_all(&mut std::io::stderr(), told.as_bytes());
        return None;
    }
    Some(folder)
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is readable");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.retain(|path| path.to_string_lossy().ends_with(ending));
    files.sort();
    files
}

fn judged(path: &Path) -> (Judgement, Value) {
    let history = History::read(&fs::read(path).expect("readable"))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let expect =
        fs::read(path.with_extension("expect.json")).expect("each history has its expectation");
    (
        judge(&history, Model::Fencing),
        serde_json::from_slice(&expect).expect("the expectation is JSON"),
    )
}

fn names(value: &Value) -> BTreeSet<&str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[test]
fn every_line_of_the_register_decided_by_brute_force_has_its_verdict() {
    let Some(folder) = folder("fenced") else {
        return;
    };
    let mut lines = 0;
    for path in files(&folder, ".jsonl") {
        let text = fs::read_to_string(&path).expect("readable");
        for (number, line) in text.lines().enumerate() {
            let case: Value = serde_json::from_str(line).expect("each line is JSON");
            let events = case["events"].as_array().expect("each line has events");
            let text = events
                .iter()
                .map(|event| format!("{event}\n"))
                .collect::<String>();
            let history = History::read(text.as_bytes()).expect("well-formed");
            let expected = if case["valid"] == true {
                Verdict::Valid
            } else {
                Verdict::Invalid
            };
            let verdict = judge(&history, Model::FencedRegister).verdict;
            assert_eq!(verdict, expected, "{} line {}", path.display(), number + 1);
            lines += 1;
        }
    }
    assert_eq!(lines, 700);
}

#[test]
fn legal_histories_that_look_wrong_have_no_finding() {
    let Some(folder) = folder("controls") else {
        return;
    };
    let paths = files(&folder, ".jsonl");
    assert_eq!(paths.len(), 14);
    for path in paths {
        let (judgement, expect) = judged(&path);
        assert_eq!(expect["finding"], Value::Null);
        assert_eq!(judgement.findings, [], "{}", path.display());
        assert_eq!(judgement.verdict, Verdict::Valid, "{}", path.display());
    }
}

/// Incidents in which nothing unsafe is proven: what was found is a warning.
const WARNED: [&str; 2] = ["partial-fencing", "release-of-others-lock"];

#[test]
fn incidents_have_their_finding_and_never_a_wrong_one() {
    let Some(folder) = folder("incidents") else {
        return;
    };
    let paths = files(&folder, ".jsonl");
    assert_eq!(paths.len(), 16);
    for path in paths {
        let (judgement, expect) = judged(&path);
        let reported: BTreeSet<&str> = judgement
            .findings
            .iter()
            .map(|finding| finding.finding.as_str())
            .collect();
        let wanted = expect["finding"]
            .as_str()
            .expect("an incident has a finding");
        assert!(
            FINDINGS.iter().any(|info| info.name == wanted),
            "{wanted} is a rule"
        );
        let mut allowed = names(&expect["also_ok"]);
        allowed.insert(wanted);
        assert!(
            reported.contains(wanted) && reported.is_subset(&allowed),
            "{}: {reported:?}",
            path.display()
        );
        assert!(reported.is_disjoint(&names(&expect["must_not"])));
        let verdict = if WARNED.contains(&wanted) {
            Verdict::Valid
        } else {
            Verdict::Invalid
        };
        assert_eq!(judgement.verdict, verdict, "{}", path.display());
    }
}

#[test]
fn what_is_read_is_written_back_the_same() {
    let Some(folder) = folder("incidents") else {
        return;
    };
    for path in files(&folder, ".jsonl") {
        let parsed = jsonl::parse(&fs::read(&path).expect("readable")).expect("well-formed");
        let text: Vec<String> = parsed.lines.iter().map(jsonl::write).collect();
        let again =
            jsonl::parse(text.join("\n").as_bytes()).expect("what is written is well-formed");
        assert_eq!(again.lines, parsed.lines, "{}", path.display());
        let history = pair(again).expect("well-formed");
        let events = parsed
            .lines
            .iter()
            .filter(|line| matches!(line, Line::Event(_)))
            .count();
        assert_eq!(history.events, events as u64);
    }
}
