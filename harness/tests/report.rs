//! `fencepost report`: a saved run is drawn again from its folder alone, whatever is in it, and a folder that is no
//! run stays as it is.

mod support;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use support::{fencepost, only_json, outcome, read, short_suite, turn};

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
            "a plot \"nosuch\": there are holders, latency",
        ),
        (&["--plot", "finding-9"], "finding 9: there is none"),
        (&["--plot", "finding-0"], "a plot \"finding-0\""),
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
    let cut = &good[..good.len() / 2];
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

    let folder = tempfile::tempdir().expect("a folder");
    saved(folder.path(), cut);
    let (code, _, _) = outcome(&report(folder.path(), &[]));
    assert_eq!(code, 0, "a history that was cut short is a history");
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
    let both = fencepost()
        .args(["check", "--json", "--annotate", "github"])
        .arg(&path)
        .output()
        .expect("it runs");
    assert_eq!(both.status.code(), Some(64), "one or the other");
}

/// A million operations of ten clients on four locks, with a stop twice a second and every hundredth write late.
fn million() -> String {
    let mut text = String::from(
        "{\"type\":\"header\",\"format\":1,\"run\":\"0million\",\"clients\":{\"c0\":\"w1\",\"c1\":\"w1\",\"c2\":\"w2\",\"c3\":\"w2\",\"c4\":\"w3\",\"c5\":\"w3\",\"c6\":\"w4\",\"c7\":\"w4\",\"c8\":\"w5\",\"c9\":\"w5\"}}\n",
    );
    let (mut index, mut noise) = (0_u64, 1_u64);
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
            line(
                client,
                "fail",
                begun + took,
                ",\"f\":\"read\",\"error\":\"busy\"",
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
            line(
                late,
                "fail",
                begun + took,
                &format!(",\"f\":\"write\",\"error\":\"stale-token\",\"high_water\":{token}"),
            );
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
        }
        if operation % 7_500 == 0 {
            let (id, worker) = (operation / 7_500, 1 + operation / 7_500 % 5);
            let kind = ["pause", "zombie", "hole"][(id % 3) as usize];
            for phase in ["begin", "end"] {
                let _ = writeln!(
                    text,
                    "{{\"index\":{index},\"time\":{},\"type\":\"fault\",\"fault\":\"{kind}\",\"phase\":\"{phase}\",\"id\":{id},\"on\":[\"w{worker}\"],\"plan\":\"{kind}\",\"client\":\"c{client}\",\"lock\":\"shard-{lock}\",\"token\":{token},\"outcome\":\"installed\",\"evidence\":\"state T\"}}",
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
    // As `run` leaves it: judged already.
    let judged = report(folder.path(), &["--format", "json"]);
    let verdict = only_json(&String::from_utf8_lossy(&judged.stdout));
    std::fs::write(folder.path().join("verdict.json"), verdict.to_string()).expect("written");

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
    for words in [" operations ", "are left out", "are drawn: one in "] {
        assert!(page.contains(words), "{words}");
    }
}
