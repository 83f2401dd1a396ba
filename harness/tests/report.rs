//! `fencepost report`: a saved run is drawn again from its folder alone, whatever is in it, and a folder that is no
//! run stays as it is. The runs that are kept in results/gallery look as they would if they were drawn today.

mod support;

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{fencepost, left_behind, only_json, outcome, read, short_suite, turn};

/// `run.json` as the first runs wrote it: without anything that came later.
const FIRST_FORM: &str = r#"{
  "format": 1, "run": "81788060",
  "suite": {"name": "default", "run": {"time_limit": "6s", "workers": 5, "clients": 10, "rate": 200.0},
    "target": {"kind": "local"}, "lock": {"kind": "reference", "lease": "1s"}, "resource": {"kind": "reference"},
    "workload": {"kind": "register", "locks": 4, "keys_per_lock": 1},
    "fault": [{"kind": "zombie", "every": "1s 500ms", "length": "6s"}], "expect": {"zombie_writes": 5}},
  "seed": 3013998130, "defect": "unfenced", "started": "2026-11-29T19:34:54.182Z",
  "command_line": ["fencepost", "run", "--defect", "unfenced"],
  "replay": "fencepost run default --seed 3013998130 --defect unfenced",
  "versions": {"fencepost": "0.1.0", "toxiproxy": "2.12.0-fencepost"},
  "machine": {"cores": "2", "kernel": "6.1", "memory_mb": "24105", "os": "Debian GNU/Linux 12 (bookworm)"},
  "clients": {"c1": "w1", "c2": "w2"},
  "plan": [{"id": 1, "label": "zombie", "at_ms": 941, "length_ms": 6000, "worker": null, "delay_ms": null}],
  "phases": [{"name": "set-up", "took_ms": 41}, {"name": "load", "took_ms": 6000}],
  "troubles": []
}"#;

/// `verdict.json` as the first runs wrote it.
const FIRST_VERDICT: &str = r#"{
  "verdict": "invalid", "reason": "stale-write-accepted on key s",
  "findings": [{"finding": "stale-write-accepted", "severity": "violation", "cause": null, "lock": "s", "key": "s", "count": 1,
    "events": [5, 6, 8, 9], "story": "c1 wrote late.\nThat is wrong: as saved."}],
  "coverage": {"zombie_writes": 1, "zombie_writes_refused": 0, "zombie_writes_expected": 5,
    "faults": {"zombie": {"planned": 1, "installed": 1, "skipped": 0, "unknown": 0}}, "unexercised": []},
  "stats": {"events": 8, "operations": 4, "ok": 4, "failed": 0, "unknown": 0, "grants": 2, "writes": 2, "refused": 0,
    "clients": 2, "locks": 1, "keys": 1, "duration_ns": 900000000, "keys_judged": 1, "not_judged": []}
}"#;

/// c1 is stopped, c2 succeeds it, and c1's late write is accepted. The names are for the test to choose.
fn late_write(c1: &str, c2: &str, name: &str) -> String {
    let line = |fields: serde_json::Value| format!("{fields}\n");
    let event = |index: u64,
                 process: u64,
                 client: &str,
                 kind: &str,
                 f: &str,
                 token: Option<u64>| {
        let mut fields = serde_json::json!({"index": index, "time": index * 100_000_000, "process": process,
            "client": client, "type": kind, "f": f, "lock": name, "key": name});
        if let Some(token) = token {
            fields["token"] = token.into();
        }
        if f == "write" {
            fields["value"] = format!("{client}-{token:?}").into();
        }
        fields
    };
    let fault = |index: u64, phase: &str| {
        line(
            serde_json::json!({"index": index, "time": index * 100_000_000, "type": "fault", "fault": "zombie",
            "phase": phase, "id": 1, "on": ["w1"], "client": c1, "lock": name, "token": 1, "plan": name,
            "outcome": "installed", "evidence": name}),
        )
    };
    [
        line(event(0, 1, c1, "invoke", "acquire", None)),
        line(event(1, 1, c1, "ok", "acquire", Some(1))),
        fault(2, "begin"),
        line(event(3, 2, c2, "invoke", "acquire", None)),
        line(event(4, 2, c2, "ok", "acquire", Some(2))),
        line(event(5, 2, c2, "invoke", "write", Some(2))),
        line(event(6, 2, c2, "ok", "write", Some(2))),
        fault(7, "end"),
        line(event(8, 1, c1, "invoke", "write", Some(1))),
        line(event(9, 1, c1, "ok", "write", Some(1))),
    ]
    .concat()
}

/// A folder with a run of the first form, without a verdict.
fn saved(folder: &Path, history: &str) {
    std::fs::write(folder.join("run.json"), FIRST_FORM).expect("written");
    std::fs::write(folder.join("history.jsonl"), history).expect("written");
}

fn report(folder: &Path, words: &[&str]) -> Output {
    fencepost()
        .arg("report")
        .arg(folder)
        .args(words)
        .output()
        .expect("it runs")
}

/// Every file below `folder`, with its content, by name.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            let bytes = std::fs::read(&path).expect("readable");
            files.push((path, bytes));
        }
    }
    files.sort();
    files
}

#[test]
fn a_run_is_drawn_again_from_its_folder_alone_byte_for_byte() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let suite = short_suite(out.path(), 3, "");
    let ran = fencepost()
        .args(["run", "--json", "--defect", "unfenced", "--out"])
        .arg(out.path())
        .arg(&suite)
        .output()
        .expect("it runs");
    let end = only_json(&String::from_utf8_lossy(&ran.stdout));
    let folder = PathBuf::from(end["folder"].as_str().expect("a folder"));
    let before = files(&folder);
    let page = read(&folder, "report.html");
    assert!(
        page.contains("<b>invalid</b>: stale-write-accepted"),
        "{:.2000}",
        page
    );

    std::fs::remove_dir_all(folder.join("plots")).expect("it had plots");
    for name in ["report.html", "summary.md", "junit.xml"] {
        std::fs::write(folder.join(name), "spoilt").expect("written");
    }
    let (code, stdout, stderr) = outcome(&report(&folder, &[]));
    assert_eq!(
        (code, stderr.as_str()),
        (0, ""),
        "drawn, whatever the verdict is"
    );
    let after = files(&folder);
    let names = |files: &[(PathBuf, Vec<u8>)]| -> Vec<PathBuf> {
        files.iter().map(|(path, _)| path.clone()).collect()
    };
    assert_eq!(names(&before), names(&after));
    for ((path, one), (_, other)) in before.iter().zip(&after) {
        assert!(one == other, "{} differs", path.display());
    }
    for line in stdout.lines() {
        assert!(Path::new(line).is_file(), "{line}");
    }
    assert!(stdout.contains("report.html\n") && stdout.contains("plots/handover.png\n"));
}

#[test]
fn one_document_or_picture_goes_to_standard_output_or_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    saved(folder.path(), &late_write("c1", "c2", "s"));
    let before = files(folder.path());
    let out = tempfile::tempdir().expect("a folder");
    for (words, begins) in [
        (&["--format", "html"][..], &b"<!DOCTYPE html>\n"[..]),
        (
            &["--format", "md"],
            b"**invalid: stale-write-accepted on key s",
        ),
        (&["--format", "json"], b"{"),
        (&["--format", "junit"], b"<?xml version=\"1.0\""),
        (&["--plot", "marks"], b"<svg width="),
        (&["--plot", "finding-1", "--format", "svg"], b"<svg width="),
        (&["--plot", "latency", "--format", "png"], b"\x89PNG\r\n"),
    ] {
        let output = report(folder.path(), words);
        assert_eq!(output.status.code(), Some(0), "{words:?}");
        assert!(output.stdout.starts_with(begins), "{words:?}");
        let path = out.path().join("made");
        let path = path.to_str().expect("UTF-8");
        let (code, stdout, _) =
            outcome(&report(folder.path(), &[words, &["--out", path]].concat()));
        assert_eq!((code, stdout.as_str()), (0, ""));
        assert!(
            std::fs::read(path).expect("made") == output.stdout,
            "{words:?}"
        );
    }
    let line = report(folder.path(), &["--format", "json"]);
    let line = only_json(&String::from_utf8_lossy(&line.stdout));
    assert_eq!(line["verdict"], "invalid");
    assert!(
        before == files(folder.path()),
        "the run's folder is as it was"
    );
}

#[test]
fn wrong_words_are_one_line_and_status_64() {
    let folder = tempfile::tempdir().expect("a folder");
    saved(folder.path(), &late_write("c1", "c2", "s"));
    let before = files(folder.path());
    for (words, expected) in [
        (
            &["--plot", "nosuch"][..],
            "--plot: no plot \"nosuch\": holders, latency, quantiles, rate, refusals, lag, marks, handover or finding-1, finding-2 ... is right",
        ),
        (
            &["--format", "nosuch"],
            "fencepost: --format: no \"nosuch\": html, md, json, junit, github, svg, png is right",
        ),
        (&["--format", "x\u{1b}[2J\ny"], "--format: no \"x"),
        (&["--plot", "finding-9"], "finding 9: there is none"),
        (&["--plot", "finding-0"], "no plot \"finding-0\""),
        (
            &["--plot", "marks", "--format", "html"],
            "a picture is svg or png",
        ),
        (&["--format", "png"], "--plot holders, latency"),
        (&["--out", "x"], "--format or --plot says which"),
    ] {
        let (code, stdout, stderr) = outcome(&report(folder.path(), words));
        assert_eq!((code, stdout.as_str()), (64, ""), "{words:?}: {stderr}");
        assert!(stderr.contains(expected), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    assert!(before == files(folder.path()));
}

#[test]
fn a_folder_that_is_no_run_is_one_line_and_stays_as_it_is() {
    let good = late_write("c1", "c2", "s");
    // run.json, history.jsonl, verdict.json, and what is said of them.
    type Row<'r> = (Option<&'r str>, Option<&'r str>, Option<&'r str>, &'r str);
    let rows: [Row<'_>; 7] = [
        (
            None,
            None,
            None,
            "no run: a folder with run.json and history.jsonl",
        ),
        (
            None,
            Some(&good),
            None,
            "no run: a folder with run.json and history.jsonl",
        ),
        (
            Some("{\"format\": 1,\n"),
            Some(&good),
            None,
            "run.json: EOF while parsing",
        ),
        (
            Some("{\"format\": \"x\"}"),
            Some(&good),
            None,
            "run.json: invalid type: string",
        ),
        (Some(FIRST_FORM), None, None, "history.jsonl: No such file"),
        (
            Some(FIRST_FORM),
            Some("{\"index\":0}\n{}\n"),
            None,
            "history.jsonl, line 1",
        ),
        (
            Some(FIRST_FORM),
            Some(&good),
            Some("{\"verdict\":\"fine\"}"),
            "verdict.json: unknown variant",
        ),
    ];
    for (run, history, verdict, expected) in rows {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in [
            ("run.json", run),
            ("history.jsonl", history),
            ("verdict.json", verdict),
        ] {
            if let Some(text) = text {
                std::fs::write(folder.path().join(name), text).expect("written");
            }
        }
        std::fs::write(folder.path().join("report.html"), "of old").expect("written");
        let before = files(folder.path());
        let (code, stdout, stderr) = outcome(&report(folder.path(), &[]));
        assert_eq!((code, stdout.as_str()), (64, ""), "{expected}: {stderr}");
        assert!(stderr.contains(expected), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(before == files(folder.path()), "{expected}");
    }
    let (code, _, stderr) = outcome(&report(Path::new("/proc/no-such-folder"), &[]));
    assert_eq!(code, 64);
    assert!(stderr.contains("/proc/no-such-folder: no run"), "{stderr}");
}

#[test]
fn a_recording_that_lost_its_end_is_a_warning_and_is_drawn() {
    let whole = late_write("c1", "c2", "s");
    let lines = whole.lines().count();
    let in_the_last_line = whole.len() - 20;
    let before_the_witness = whole
        .lines()
        .take(3)
        .map(|line| line.len() + 1)
        .sum::<usize>()
        + 9;
    let at_a_line = whole
        .lines()
        .take(3)
        .map(|line| line.len() + 1)
        .sum::<usize>();
    // How much is left, the line that is cut, and whether the finding's events are gone.
    for (left, cut, lost) in [
        (in_the_last_line, Some(lines), false),
        (before_the_witness, Some(4), true),
        (at_a_line, None, true),
        (0, None, true),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        saved(folder.path(), &whole[..left]);
        std::fs::write(folder.path().join("verdict.json"), FIRST_VERDICT).expect("written");
        std::fs::write(folder.path().join("report.html"), "of old").expect("written");
        let (code, stdout, stderr) = outcome(&report(folder.path(), &[]));
        assert_eq!(code, 0, "{left}: {stderr}");
        assert!(stdout.contains("report.html\n"), "{stdout}");
        let page = read(folder.path(), "report.html");
        assert!(page.contains("<b>invalid</b>"), "what was proven stays so");
        let (at_the_top, _) = page.split_once("<nav>").expect("links");
        let mut told = vec!["verdict.json was made of 8 events and history.jsonl has "];
        let line = cut.map(|line| format!("line {line} was cut short and is dropped"));
        told.extend(line.as_deref());
        for words in told {
            assert!(stderr.contains(words), "{left}: {stderr}");
            assert!(at_the_top.contains(words), "{left}: {at_the_top}");
        }
        assert_eq!(page.contains("Not drawn:"), lost, "{left}");
        assert_eq!(
            stderr.contains("not drawn: plots/finding-1"),
            lost,
            "{stderr}"
        );
        for document in ["html", "md", "json", "junit"] {
            let output = report(folder.path(), &["--format", document]);
            assert_eq!(output.status.code(), Some(0), "{document}");
        }
        let (code, _, stderr) = outcome(&report(folder.path(), &["--plot", "finding-1"]));
        assert_eq!(code, if lost { 64 } else { 0 }, "{stderr}");
    }
}

#[test]
fn a_damaged_recording_is_one_line_that_names_file_line_and_field_and_writes_nothing() {
    let whole = late_write("c1", "c2", "s");
    for (good, bad, expected) in [
        (
            "\"token\":2",
            "\"token\":2.5",
            "history.jsonl, line 5, field token: ",
        ),
        (
            "\"phase\":\"begin\"",
            "\"phase\":7",
            "history.jsonl, line 3, field phase: ",
        ),
        ("\"index\":6", "\"index\":\u{0}6", "history.jsonl, line 7"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let damaged = whole.replacen(good, bad, 1);
        assert_ne!(damaged, whole);
        saved(folder.path(), &damaged);
        std::fs::write(folder.path().join("verdict.json"), FIRST_VERDICT).expect("written");
        std::fs::write(folder.path().join("report.html"), "of old").expect("written");
        let before = files(folder.path());
        for words in [&[][..], &["--format", "html"], &["--plot", "marks"]] {
            let (code, stdout, stderr) = outcome(&report(folder.path(), words));
            assert_eq!((code, stdout.as_str()), (64, ""), "{stderr}");
            assert!(stderr.contains(expected), "{stderr}");
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
        }
        assert!(before == files(folder.path()), "{expected}");
    }
}

/// Waits until `done`, with a deadline.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_run_that_was_killed_says_so_and_is_drawn_as_far_as_it_got() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let suite = short_suite(out.path(), 60, "");
    let mut harness = fencepost()
        .args(["run", "--json", "--out"])
        .arg(out.path())
        .arg(&suite)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    let folder = || -> Option<PathBuf> {
        let mut runs = std::fs::read_dir(out.path().join("short-local")).ok()?;
        Some(runs.next()?.ok()?.path())
    };
    let written = || -> Option<usize> {
        let history = std::fs::read(folder()?.join("history.jsonl")).ok()?;
        Some(history.iter().filter(|&&byte| byte == b'\n').count())
    };
    until("something is recorded", || written() > Some(100));
    let folder = folder().expect("it is there");
    let (code, _, stderr) = outcome(&report(&folder, &["--format", "md"]));
    assert_eq!(code, 0);
    assert!(
        stderr.contains("the run has not ended: its harness is still at work"),
        "{stderr}"
    );

    harness.kill().expect("ours");
    harness.wait().expect("it is dead");
    let run = folder
        .file_name()
        .and_then(|name| name.to_str())
        .expect("UTF-8");
    let run = run.rsplit('-').next().expect("time and id").to_owned();
    let (code, stdout, stderr) = outcome(&report(&folder, &[]));
    let said = "the run has no end: its harness was killed; this is what was recorded until then";
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.contains(said) && stderr.contains(&format!("fencepost heal {run}")),
        "{stderr}"
    );
    assert!(stdout.contains("plots/holders.png\n"), "{stdout}");
    for (name, words) in [
        ("report.html", format!("<b>failed</b>: {said}")),
        ("summary.md", format!("**failed: {said}")),
        ("junit.xml", format!("the run itself had trouble: {said}")),
    ] {
        let text = read(&folder, name);
        assert!(text.contains(&words), "{name}: {text:.2000}");
    }
    let record = read(&folder, "run.json");
    assert!(!record.contains(said), "what was saved stays as it is");

    let (code, _, stderr) = outcome(&fencepost().args(["heal", &run]).output().expect("it runs"));
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(left_behind(&run), Vec::<String>::new());
    let json = report(&folder, &["--format", "json"]);
    let json = only_json(&String::from_utf8_lossy(&json.stdout));
    let trouble = json["troubles"][0].as_str().expect("a sentence");
    assert!(
        trouble.starts_with(
            "the run has no end: its harness was killed, or could not write down how it ended"
        ) && !trouble.contains("fencepost heal"),
        "there is nothing left to heal, and nothing tells how it came to that: {trouble}"
    );
}

#[test]
fn a_run_that_was_killed_before_anything_was_recorded_is_a_report_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut record: serde_json::Value = serde_json::from_str(FIRST_FORM).expect("JSON");
    record["phases"] = serde_json::json!([]);
    // No id of a run: no journal of that name is looked for anywhere.
    record["run"] = "../../x".into();
    std::fs::write(folder.path().join("run.json"), record.to_string()).expect("written");
    let (code, _, stderr) = outcome(&report(folder.path(), &[]));
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("the run has no end"), "{stderr}");
    assert!(read(folder.path(), "report.html").contains("<b>failed</b>: the run has no end"));
}

/// `text` without the links and pictures of Markdown: only their words are left.
fn unlinked(text: &str) -> String {
    let mut words = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('[') {
        let (before, link) = rest.split_at(open);
        let link = link.find("](").and_then(|middle| {
            let end = link[middle..].find(')')?;
            let word = &link[1..middle];
            (!word.contains(['[', '\n'])).then(|| (word, &link[middle + end + 1..]))
        });
        words.push_str(
            before
                .strip_suffix('!')
                .filter(|_| link.is_some())
                .unwrap_or(before),
        );
        match link {
            Some((word, after)) => {
                words.push_str(word);
                rest = after;
            }
            None => {
                words.push('[');
                rest = &rest[open + 1..];
            }
        }
    }
    words + rest
}

#[test]
fn the_gallery_is_as_it_would_be_drawn_today() {
    let gallery = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/gallery");
    let mut kept: Vec<PathBuf> = std::fs::read_dir(&gallery)
        .expect("a gallery")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    kept.sort();
    assert!(
        kept.len() >= 4,
        "one valid run and three violations: {kept:?}"
    );
    for kept in kept {
        let name = kept.file_name().expect("a name").display();
        let folder = tempfile::tempdir().expect("a folder");
        for file in ["run.json", "verdict.json"] {
            std::fs::copy(kept.join(file), folder.path().join(file)).expect("kept");
        }
        let packed = std::fs::File::open(kept.join("history.jsonl.gz")).expect("kept");
        let mut history = Vec::new();
        flate2::read::GzDecoder::new(packed)
            .read_to_end(&mut history)
            .expect("unpacked");
        let recorded = folder.path().join("history.jsonl");
        std::fs::write(&recorded, history).expect("written");
        let json = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        let judged = fencepost()
            .args(["check", "--json"])
            .arg(&recorded)
            .output();
        let judged = json(&outcome(&judged.expect("it runs")).1);
        let verdict = json(&read(&kept, "verdict.json"));
        for part in ["verdict", "reason", "findings", "stats"] {
            assert!(
                judged[part] == verdict[part],
                "results/gallery/{name}/verdict.json is not what is judged today ({part}): .ci/gallery redraw"
            );
        }
        let (code, _, stderr) = outcome(&report(folder.path(), &[]));
        assert_eq!((code, stderr.as_str()), (0, ""), "{name}");
        let stale = "is not what is drawn today: .ci/gallery redraw draws it anew; look at it before it is kept";
        assert!(
            read(&kept, "report.html") == read(folder.path(), "report.html"),
            "results/gallery/{name}/report.html {stale}"
        );
        // The kept summary links only what is kept with it.
        assert!(
            unlinked(&read(&kept, "summary.md")) == unlinked(&read(folder.path(), "summary.md")),
            "results/gallery/{name}/summary.md {stale}"
        );
    }
}

#[test]
fn what_cannot_be_written_is_a_failure_of_ours() {
    let folder = tempfile::tempdir().expect("a folder");
    saved(folder.path(), &late_write("c1", "c2", "s"));
    let words = ["--format", "html", "--out", "/proc/no-such-folder/x.html"];
    let (code, stdout, stderr) = outcome(&report(folder.path(), &words));
    assert_eq!((code, stdout.as_str()), (70, ""), "{stderr}");
    assert!(
        stderr.contains("failed to write /proc/no-such-folder/x.html"),
        "{stderr}"
    );
    std::fs::create_dir(folder.path().join("report.html")).expect("made");
    let (code, _, stderr) = outcome(&report(folder.path(), &[]));
    assert_eq!(code, 70, "{stderr}");
}

#[test]
fn a_png_is_refused_by_a_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    saved(folder.path(), &late_write("c1", "c2", "s"));
    // `script` runs a command on a terminal of its own; it is part of every Debian.
    let command = format!(
        "{} report {} --plot marks --format png",
        env!("CARGO_BIN_EXE_fencepost"),
        folder.path().display()
    );
    let output = std::process::Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .expect("script runs");
    let (code, stdout, _) = outcome(&output);
    assert_eq!(code, 64, "{stdout}");
    assert_eq!(
        stdout.trim(),
        "fencepost: a PNG is nothing for a terminal: --out FILE, or a pipe, is right"
    );
}

#[test]
fn a_run_of_the_first_form_is_reported_in_full() {
    let folder = tempfile::tempdir().expect("a folder");
    saved(folder.path(), &late_write("c1", "c2", "s"));
    std::fs::write(folder.path().join("verdict.json"), FIRST_VERDICT).expect("written");
    let (code, _, stderr) = outcome(&report(folder.path(), &[]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let page = read(folder.path(), "report.html");
    for text in [
        "stale-write-accepted",
        "That is wrong: as saved.",
        "A defect was planted: unfenced.",
        "fencepost run default --seed 3013998130 --defect unfenced",
        "Debian GNU/Linux 12 (bookworm)",
        "<td>0.94 s</td><td>6.00 s</td><td>0.20 s, 500 ms</td><td>installed</td>",
    ] {
        assert!(page.contains(text), "{text}");
    }
    let summary = read(folder.path(), "summary.md");
    assert!(!summary.contains("!["), "no images");
    assert!(
        summary.contains("| started | 2026-11-29T19:34:54.182Z |"),
        "{summary}"
    );
    assert!(summary.contains("| memory_mb | 24105 |"), "{summary}");
    let junit = read(folder.path(), "junit.xml");
    assert!(junit.contains("failures=\"1\"") && junit.contains("seed\" value=\"3013998130\""));
}

#[test]
fn nothing_that_a_history_says_is_markup() {
    let long = "x".repeat(10_000);
    for evil in [
        "</script><script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "' onload='alert(1)",
        "]]></failure><evil/>",
        "</svg></style></title><style>*{display:none}</style>",
        "\u{202e}gnp.exe\u{0}\u{1b}[2J\u{7f}\u{2028}",
        "&lt;script&gt;&#60;b&#62;",
        "javascript:alert(1) https://example.invalid/x",
        "::error::x\n::stop-commands::y",
        &long,
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        saved(folder.path(), &late_write(evil, &format!("2{evil}"), evil));
        let (code, _, stderr) = outcome(&report(folder.path(), &[]));
        assert_eq!(code, 0, "{stderr}");
        let page = read(folder.path(), "report.html");
        let (_, body) = page.split_once("<body>").expect("a body");
        assert_only_known_tags(body);
        for text in [
            &page,
            &read(folder.path(), "junit.xml"),
            &read(folder.path(), "plots/holders.svg"),
        ] {
            assert!(
                !text.contains(|c: char| c.is_control() && c != '\n')
                    && !text.contains(['\u{202e}', '\u{2028}']),
                "{evil:?}"
            );
        }
        let junit = read(folder.path(), "junit.xml");
        assert!(
            !junit.contains("<evil") && !junit.contains("]]>"),
            "{junit}"
        );
        let summary = read(folder.path(), "summary.md");
        let told = outside_of_fences(&summary);
        assert!(
            !told.contains("<img") && !told.contains("<script"),
            "{told}"
        );
        assert!(
            page.len() < 400_000 && summary.len() < 60_000,
            "long names are cut"
        );
    }
}

/// What Markdown interprets: everything but the blocks between fences.
fn outside_of_fences(markdown: &str) -> String {
    let mut fence: Option<&str> = None;
    let mut told = String::new();
    for line in markdown.lines() {
        let ticks = line.len() - line.trim_start_matches('`').len();
        match fence {
            None if ticks >= 3 => fence = Some(&line[..ticks]),
            Some(open) if line == open => fence = None,
            Some(_) => {}
            None => {
                told.push_str(line);
                told.push('\n');
            }
        }
    }
    told
}

/// Only elements and attributes that the page itself uses, and no handler or address among them.
fn assert_only_known_tags(body: &str) {
    const TAGS: [&str; 36] = [
        "main",
        "header",
        "h1",
        "h2",
        "h3",
        "div",
        "p",
        "b",
        "dl",
        "dt",
        "dd",
        "nav",
        "a",
        "section",
        "article",
        "span",
        "ul",
        "li",
        "figure",
        "figcaption",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "pre",
        "svg",
        "path",
        "g",
        "rect",
        "circle",
        "text",
        "body",
        "html",
        "title",
    ];
    const ATTRIBUTES: [&str; 25] = [
        "class",
        "id",
        "href",
        "role",
        "aria-label",
        "viewBox",
        "font-family",
        "fill",
        "fill-opacity",
        "stroke",
        "stroke-width",
        "d",
        "x",
        "y",
        "width",
        "height",
        "cx",
        "cy",
        "r",
        "font-size",
        "text-anchor",
        "lang",
        "charset",
        "name",
        "content",
    ];
    for tag in body.split('<').skip(1) {
        let tag = tag.split('>').next().expect("split gives one");
        let name = tag
            .trim_start_matches('/')
            .split([' ', '/'])
            .next()
            .expect("one");
        assert!(TAGS.contains(&name), "<{tag}>");
        // Names of attributes stand before `="`; values never hold a quote.
        for (turn, part) in tag.split('"').enumerate() {
            if turn % 2 == 0 && part.contains('=') {
                let attribute = part
                    .trim()
                    .trim_end_matches('=')
                    .rsplit(' ')
                    .next()
                    .expect("one");
                assert!(ATTRIBUTES.contains(&attribute), "{attribute} in <{tag}>");
            }
        }
        if let Some((_, target)) = tag.split_once("href=\"") {
            assert!(target.starts_with('#'), "<{tag}>");
        }
    }
}

#[test]
fn annotations_follow_the_text_which_no_runner_takes_for_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history.jsonl");
    std::fs::write(&path, late_write("::error::c1", "c2", "s")).expect("written");
    let output = fencepost()
        .args(["check", "--annotate", "github"])
        .arg(&path)
        .output()
        .expect("it runs");
    let (code, stdout, _) = outcome(&output);
    assert_eq!(code, 1);
    let lines: Vec<&str> = stdout.lines().collect();
    let word = lines[0]
        .strip_prefix("::stop-commands::")
        .expect("stopped first");
    let resumed = lines
        .iter()
        .position(|line| *line == format!("::{word}::"))
        .expect("and resumed");
    assert!(
        lines[1..resumed]
            .iter()
            .any(|line| line.contains("::error::c1 was granted"))
    );
    let after = &lines[resumed + 1..];
    assert!(
        after[0].starts_with("::error title=fencepost%3A invalid::stale-write-accepted"),
        "{stdout}"
    );
    assert!(
        after[1].starts_with("::error title=violation%3A stale-write-accepted::"),
        "{stdout}"
    );
    assert!(after.iter().all(|line| line.starts_with("::")), "{stdout}");
    let without_the_word = |stdout: &str| -> Vec<String> {
        let commands = stdout.lines().filter(|line| !line.contains("fencepost-"));
        commands.map(str::to_owned).collect()
    };
    let (code, as_run_says_it, _) = outcome(
        &fencepost()
            .args(["check", "--format", "github"])
            .arg(&path)
            .output()
            .expect("it runs"),
    );
    assert_eq!(code, 1);
    assert_eq!(without_the_word(&as_run_says_it), without_the_word(&stdout));
    for words in [["--annotate", "github"], ["--format", "github"]] {
        for verb in ["check", "run"] {
            let both = fencepost()
                .args([verb, "--json"])
                .args(words)
                .arg(&path)
                .output()
                .expect("it runs");
            assert_eq!(
                both.status.code(),
                Some(64),
                "{verb} {words:?}: one or the other"
            );
            assert_eq!(both.stdout, b"");
        }
    }
}

#[test]
fn a_run_is_annotated_whichever_way_it_is_asked_for() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let suite = short_suite(out.path(), 2, "");
    for words in [["--annotate", "github"], ["--format", "github"]] {
        let ran = fencepost()
            .args(["run", "--defect", "unfenced", "--out"])
            .arg(out.path())
            .arg(&suite)
            .args(words)
            .output()
            .expect("it runs");
        let (code, stdout, stderr) = outcome(&ran);
        assert_eq!(code, 1, "{stderr}");
        assert!(
            stdout.starts_with("::stop-commands::fencepost-"),
            "{stdout}"
        );
        assert!(
            stdout.contains("\n::error title=fencepost%3A invalid::"),
            "{stdout}"
        );
    }
    // What is saved can be annotated later, and then nothing else is printed.
    let again = fencepost()
        .args(["report", "--format", "github"])
        .arg(out.path().join("latest"))
        .output()
        .expect("it runs");
    let (code, stdout, stderr) = outcome(&again);
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stdout.starts_with("::error title=fencepost%3A invalid::"),
        "{stdout}"
    );
}

/// A million operations of ten clients on four locks, with a stop twice a second, every tenth of them without evidence,
/// and every hundredth write late: of those the fence refuses all but a few.
fn million() -> String {
    let mut text = String::from(
        "{\"type\":\"header\",\"format\":1,\"run\":\"0million\",\"clients\":{\"c0\":\"w1\",\"c1\":\"w1\",\"c2\":\"w2\",\"c3\":\"w2\",\"c4\":\"w3\",\"c5\":\"w3\",\"c6\":\"w4\",\"c7\":\"w4\",\"c8\":\"w5\",\"c9\":\"w5\"}}\n",
    );
    let (mut index, mut noise) = (0_u64, 1_u64);
    let mut values: [Option<u64>; 4] = [None; 4];
    for operation in 0..1_000_000_u64 {
        noise = noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let lock = operation % 4;
        let turn = operation / 4 / 64;
        let client = (turn * 3 + lock) % 10;
        let (begun, took) = (operation * 66_000, 20_000 + (noise >> 33) % 40_000);
        let place = operation / 4 % 64;
        let token = turn + 1;
        let mut line = |client: u64, kind: &str, time: u64, rest: &str| {
            // Writing into a string never fails.
            let _ = writeln!(
                text,
                "{{\"index\":{index},\"time\":{time},\"process\":{},\"client\":\"c{client}\",\"type\":\"{kind}\"{rest}}}",
                client * 4 + lock
            );
            index += 1;
        };
        if place == 0 {
            line(
                client,
                "invoke",
                begun,
                &format!(",\"f\":\"acquire\",\"lock\":\"shard-{lock}\""),
            );
            line(
                client,
                "ok",
                begun + took,
                &format!(",\"f\":\"acquire\",\"token\":{token}"),
            );
        } else if place % 3 == 1 {
            line(
                client,
                "invoke",
                begun,
                &format!(",\"f\":\"read\",\"lock\":\"shard-{lock}\",\"key\":\"shard-{lock}\""),
            );
            let value = values[lock as usize].map_or("null".to_owned(), |value| value.to_string());
            line(
                client,
                "ok",
                begun + took,
                &format!(",\"f\":\"read\",\"value\":{value}"),
            );
        } else if operation % 100 == 99 && turn > 9 {
            let late = (client + 7) % 10;
            let stale = token - 1 - noise % 9;
            line(
                late,
                "invoke",
                begun,
                &format!(
                    ",\"f\":\"write\",\"lock\":\"shard-{lock}\",\"key\":\"shard-{lock}\",\"token\":{stale},\"value\":{operation}"
                ),
            );
            if operation % 50_000 == 49_999 {
                line(late, "ok", begun + took, ",\"f\":\"write\"");
                values[lock as usize] = Some(operation);
            } else {
                line(
                    late,
                    "fail",
                    begun + took,
                    &format!(",\"f\":\"write\",\"error\":\"stale-token\",\"high_water\":{token}"),
                );
            }
        } else {
            line(
                client,
                "invoke",
                begun,
                &format!(
                    ",\"f\":\"write\",\"lock\":\"shard-{lock}\",\"key\":\"shard-{lock}\",\"token\":{token},\"value\":{operation}"
                ),
            );
            line(client, "ok", begun + took, ",\"f\":\"write\"");
            values[lock as usize] = Some(operation);
        }
        if operation % 7_500 == 0 {
            let (id, worker) = (operation / 7_500, 1 + operation / 7_500 % 5);
            let kind = ["pause", "zombie", "hole"][(id % 3) as usize];
            let outcome = ["installed", "unknown"][usize::from(id % 10 == 9)];
            for phase in ["begin", "end"] {
                let _ = writeln!(
                    text,
                    "{{\"index\":{index},\"time\":{},\"type\":\"fault\",\"fault\":\"{kind}\",\"phase\":\"{phase}\",\"id\":{id},\"on\":[\"w{worker}\"],\"plan\":\"{kind}\",\"client\":\"c{client}\",\"lock\":\"shard-{lock}\",\"token\":{token},\"outcome\":\"{outcome}\",\"evidence\":\"state T\"}}",
                    begun + took
                );
                index += 1;
            }
        }
    }
    text
}

/// The most memory that a process has held so far, in kB; 0 once it has ended.
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}

#[test]
fn the_report_of_a_million_operations_stays_small_and_says_what_it_leaves_out() {
    let folder = tempfile::tempdir().expect("a folder");
    saved(folder.path(), &million());
    // Without a verdict: it is read, judged and drawn.
    let begun = Instant::now();
    let mut child = fencepost()
        .arg("report")
        .arg(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    let mut most = 0;
    let status = loop {
        most = most.max(peak(child.id()));
        if let Some(status) = child.try_wait().expect("ours") {
            break status;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "it does not end"
        );
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(0));
    let page = read(folder.path(), "report.html");
    println!(
        "1,000,000 operations: {:.1} s, {} MB of memory, {:.2} MB of HTML",
        begun.elapsed().as_secs_f64(),
        most / 1_024,
        page.len() as f64 / 1e6
    );
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    assert!(most < 1_000_000, "{most} kB");
    for words in [
        " operations ",
        "are left out",
        "are drawn: one in ",
        "stale-write-accepted",
        "without evidence: ",
    ] {
        assert!(page.contains(words), "{words}");
    }
}
