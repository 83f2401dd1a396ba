//! The catalogue, the selftest and `run --teeth` through the binary. That every defect is found is the
//! selftest's to show; here is that the ways to it work.

mod support;

use serde_json::Value;
use support::{fencepost, left_behind, only_json, outcome, turn};

fn said(words: &[&str]) -> (i32, String, String) {
    outcome(&fencepost().args(words).output().expect("it runs"))
}

#[test]
fn every_defect_is_listed_with_what_it_must_be_found_as() {
    let (code, stdout, _) = said(&["list", "defects", "--json"]);
    let rows: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(code, 0);
    assert!(rows.len() >= 28, "{} rows", rows.len());
    let (_, plain, _) = said(&["list", "defects"]);
    for (row, line) in rows.iter().zip(plain.lines()) {
        assert!(
            line.starts_with(row["defect"].as_str().expect("a name")),
            "{line}"
        );
    }
    let (code, _, stderr) = said(&["list", "suites", "--page"]);
    assert_eq!((code, stderr.lines().count()), (64, 1), "{stderr}");
}

#[test]
fn a_row_of_the_selftest_is_found_and_its_sound_twin_is_valid() {
    let _turn = turn();
    let (code, stdout, stderr) = said(&["selftest", "--json", "unfenced", "teeth-identity"]);
    let rows: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!((code, rows.len()), (0, 2), "{stdout}{stderr}");
    let unfenced = rows
        .iter()
        .find(|row| row["row"] == "unfenced")
        .expect("a row");
    assert_eq!(unfenced["found_as"][0], "stale-write-accepted");
    assert!(unfenced["seconds"][0].as_f64() < Some(30.0), "{unfenced}");
    let (code, _, stderr) = said(&["selftest", "nosuch"]);
    assert_eq!((code, stderr.lines().count()), (64, 1), "{stderr}");
}

#[test]
fn a_run_with_teeth_counts_because_the_same_plan_without_the_fence_is_red() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let folder = out.path().to_str().expect("a plain name");
    let (code, stdout, stderr) = said(&[
        "run", "teeth", "--teeth", "--seed", "5", "--json", "--out", folder,
    ]);
    let end = only_json(&stdout);
    assert_eq!(
        (code, &end["verdict"]),
        (0, &Value::from("valid")),
        "{end}{stderr}"
    );
    assert_eq!(end["teeth"]["verdict"], "invalid", "{end}");
    assert_eq!(end["teeth"]["findings"][0], "stale-write-accepted");
    let first = std::path::Path::new(end["folder"].as_str().expect("a path"));
    for document in ["run.json", "summary.md", "report.html"] {
        let text = support::read(first, document);
        assert!(
            text.contains(end["teeth"]["run"].as_str().expect("an id")),
            "{document}"
        );
    }
    assert_eq!(
        left_behind(end["run"].as_str().expect("an id")),
        Vec::<String>::new()
    );
    let (code, _, stderr) = said(&["run", "alt-shared-file", "--teeth", "--out", folder]);
    assert_eq!((code, stderr.lines().count()), (64, 1), "{stderr}");
}

/// A run whose only faults are slow answers: a fence is never met in it.
const NEVER_MET: &str = "name = \"slow\"\n[run]\ntime_limit = \"2s\"\n[expect]\nno_fence = true\n\
    [[fault]]\nkind = \"latency\"\nevery = \"500ms\"\nlength = \"300ms\"\n";

#[test]
fn a_run_that_would_not_have_shown_what_it_had_to_show_is_not_valid_and_says_so_everywhere() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let suite = out.path().join("slow.toml");
    std::fs::write(&suite, NEVER_MET).expect("written");
    for (more, code, said) in [
        (&[][..], 0, None),
        (&["--teeth"], 2, Some("the same plan without the fence")),
        (
            &["--defect", "unfenced"],
            2,
            Some("the planted defect unfenced was not found"),
        ),
        (&["--faults", "none"], 2, Some("faults: none was planned")),
    ] {
        let ran = fencepost()
            .args(["run", "--json", "--seed", "3", "--out"])
            .arg(out.path())
            .arg(&suite)
            .args(more)
            .output()
            .expect("it runs");
        let (status, stdout, stderr) = outcome(&ran);
        let end = only_json(&stdout);
        assert_eq!(status, code, "{more:?}: {end}{stderr}");
        let folder = std::path::Path::new(end["folder"].as_str().expect("a path"));
        let junit = support::read(folder, "junit.xml");
        let failing = junit.contains("<failure") || junit.contains("<error");
        let verdict: Value =
            serde_json::from_str(&support::read(folder, "verdict.json")).expect("JSON");
        let Some(said) = said else {
            assert_eq!(
                (&verdict["verdict"], failing),
                (&Value::from("valid"), false)
            );
            continue;
        };
        assert_eq!(verdict["verdict"], "unknown", "{more:?}");
        assert!(failing, "{more:?}: {junit}");
        let reason = end["reason"].as_str().expect("a reason");
        assert!(reason.contains(said), "{more:?}: {reason}");
        for document in ["summary.md", "report.html"] {
            let text = support::read(folder, document);
            assert!(text.contains(said), "{more:?}: {document}");
        }
    }
}

#[test]
fn a_planted_defect_that_is_only_a_warning_is_said_to_be_found() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let ran = fencepost()
        .args([
            "run",
            "teeth",
            "--seed",
            "3",
            "--time-limit",
            "5s",
            "--json",
        ])
        .args(["--defect", "timestamp-tokens", "--out"])
        .arg(out.path())
        .output()
        .expect("it runs");
    let (_, stdout, stderr) = outcome(&ran);
    let end = only_json(&stdout);
    assert_ne!(end["verdict"], "invalid", "{end}{stderr}");
    let found = "the planted defect timestamp-tokens was found as timestamp-token, a warning";
    let said = end["defect_found"].as_str().expect("a sentence");
    assert!(said.starts_with(found), "{said}");
    let folder = std::path::Path::new(end["folder"].as_str().expect("a path"));
    for document in ["run.json", "summary.md", "report.html"] {
        assert!(
            support::read(folder, document).contains(found),
            "{document}"
        );
    }
}

/// The evidence of the installed faults of one label, where they ended.
fn evidence(suite: &str, label: &str) -> (Value, Vec<String>) {
    let out = tempfile::tempdir().expect("a folder");
    let ran = fencepost()
        .args([
            "run",
            suite,
            "--seed",
            "7",
            "--time-limit",
            "5s",
            "--json",
            "--out",
        ])
        .arg(out.path())
        .output()
        .expect("it runs");
    let (_, stdout, stderr) = outcome(&ran);
    let end = only_json(&stdout);
    assert_ne!(end["verdict"], "invalid", "{end}{stderr}");
    let folder = std::path::Path::new(end["folder"].as_str().expect("a path"));
    let history = support::read(folder, "history.jsonl");
    let lines = history
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let evidence = lines
        .filter(|line: &Value| {
            line["plan"] == label && line["phase"] == "end" && line["outcome"] == "installed"
        })
        .map(|line| line["evidence"].as_str().expect("evidence").to_owned())
        .collect();
    (end, evidence)
}

#[test]
fn a_stale_holder_is_there_until_it_is_cut_off_and_its_successor_waits_for_that() {
    let _turn = turn();
    let (end, evidence) = evidence("alt-stonith", "kill:holder");
    assert!(!evidence.is_empty(), "{end}");
    for said in evidence {
        assert!(
            said.contains(" was granted ") && said.contains("before a successor wrote"),
            "{said}"
        );
    }
}

#[test]
fn a_resource_is_restarted_between_a_read_of_its_mark_and_the_next_write() {
    let _turn = turn();
    let (end, evidence) = evidence("teeth-restart", "zombie:restart");
    assert!(!evidence.is_empty(), "{end}");
    assert!(
        end["exercise"]["restarts_between"].as_u64() > Some(0),
        "{end}"
    );
    for said in evidence {
        let (read, killed) = (said.find("was told the mark"), said.find("was killed"));
        assert!(read.is_some() && read < killed, "{said}");
    }
}
