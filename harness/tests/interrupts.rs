//! Ctrl-C in every phase of a run: it heals, judges what was recorded, writes the report, and leaves nothing. A second one
//! is quicker and leaves nothing either.

mod support;

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use support::{Running, left_behind, only_json, short_suite, state_home, turn};

/// Faults as close together as a short load needs.
const FAULTS: &str = "[[fault]]\nkind = \"kill\"\non = \"lock\"\nevery = \"700ms\"\n\
    [[fault]]\nkind = \"pause\"\non = \"worker\"\nevery = \"400ms\"\nlength = \"300ms\"\n";

/// Runs in which a phase must have been seen once.
const TRIES: u32 = 6;

/// A run that is interrupted in this phase, or if it was gone before that was seen, after it; whether it was seen.
fn interrupted_in(phase: &str, signals: u32) -> bool {
    let out = tempfile::tempdir().expect("a folder");
    let more = match phase {
        // Nothing is open for longer than a moment where no answer is slow.
        "settle" => slow_answers(),
        _ => FAULTS.to_owned(),
    };
    let suite = short_suite(out.path(), 1, &more);
    let mut run = Running::start(&suite, out.path(), &["--seed", "4"]);
    let there = match phase {
        "set-up" => run.reaches(phase, |run| run.folder().is_some()),
        "a fault" => run.reaches(phase, Running::under_a_fault),
        phase => run.reaches_phase(phase),
    };
    interrupted(run, signals, &format!("{signals} signals in {phase}"));
    there
}

/// A worker whose answers come half a second late.
fn slow_answers() -> String {
    let binary = env!("CARGO_BIN_EXE_fencepost");
    let late = "while IFS= read -r line; do sleep 0.5; printf '%s\\\\n' \\\"$line\\\"; done";
    format!(
        "[worker]\ntimeout = \"5s\"\n\
         command = [\"sh\", \"-c\", \"case $FENCEPOST_RUN in */w3) '{binary}' worker | {late};; *) exec '{binary}' worker;; esac\"]\n"
    )
}

/// Sends the run so many signals and holds what it ends with against what it must.
fn interrupted(mut run: Running, signals: u32, told: &str) {
    for _ in 0..signals {
        // It may have ended before the second.
        run.signal(Signal::SIGINT);
        std::thread::sleep(Duration::from_millis(30));
    }
    let (code, stdout) = run.end();
    let folder = run.folder().expect("it has begun");
    let end = only_json(&stdout);
    assert!(matches!(code, Some(0 | 2)), "{told}: {code:?} {end}");
    assert_ne!(end["verdict"], Value::from("invalid"), "{told}: {end}");
    assert_eq!(end["troubles"], serde_json::json!([]), "{told}");
    for file in ["verdict.json", "summary.md", "run.json", "report.html"] {
        assert!(folder.join(file).is_file(), "{told}: {file}");
    }
    let id = end["run"].as_str().expect("an id");
    assert_eq!(left_behind(id), Vec::<String>::new(), "{told}");
    assert!(run.journal().is_none(), "{told}: a journal is left");
    assert!(!folder.join("data").exists(), "{told}: data is left");
}

#[test]
fn an_interrupt_in_any_phase_ends_in_a_verdict_and_a_report_and_leaves_nothing() {
    let _turn = turn();
    for phase in [
        "set-up",
        "load",
        "a fault",
        "heal",
        "settle",
        "final-reads",
        "take-down",
        "judge",
        "report",
    ] {
        for signals in [1, 2] {
            // Some phases last for milliseconds, and a look may come too late for one.
            let met = (0..TRIES).any(|_| interrupted_in(phase, signals));
            assert!(met, "{phase} was never seen in {TRIES} runs");
        }
    }
}

#[test]
fn an_interrupt_of_the_load_says_so_and_ends_it_early() {
    let _turn = turn();
    for (phase, signal) in [
        ("load", Signal::SIGINT),
        ("load", Signal::SIGHUP),
        ("a fault", Signal::SIGTERM),
    ] {
        let out = tempfile::tempdir().expect("a folder");
        let suite = short_suite(out.path(), 60, FAULTS);
        let mut run = Running::start(&suite, out.path(), &["--seed", "4"]);
        assert!(match phase {
            "load" => run.reaches_phase(phase),
            _ => run.reaches(phase, Running::under_a_fault),
        });
        // All go to the guardian, as those of a terminal and of `kill` do.
        run.signal(signal);
        let begun = std::time::Instant::now();
        let (_, stdout) = run.end();
        let end = only_json(&stdout);
        assert!(
            end["ended_early"]
                .as_str()
                .is_some_and(|why| why.contains("signal")),
            "{end}"
        );
        assert_eq!(end["troubles"], Value::Array(Vec::new()), "{end}");
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}

/// Whether a hundred operations or more are on record.
fn has_recorded(run: &Running) -> bool {
    let history = run.folder().map(|folder| folder.join("history.jsonl"));
    history.is_some_and(|path| std::fs::metadata(path).is_ok_and(|file| file.len() > 20_000))
}

#[test]
fn a_second_interrupt_does_not_wait_for_a_fault_that_cannot_end() {
    let _turn = turn();
    // A worker that answers nothing keeps the run waiting after the load, and a second signal ends that.
    let out = tempfile::tempdir().expect("a folder");
    let binary = env!("CARGO_BIN_EXE_fencepost");
    let more = format!(
        "[worker]\ntimeout = \"20s\"\ncommand = [\"sh\", \"-c\", \"case $FENCEPOST_RUN in */w3) while read line; do :; done;; *) exec '{binary}' worker;; esac\"]\n"
    );
    let suite = short_suite(out.path(), 60, &more);
    let mut run = Running::start(&suite, out.path(), &["--seed", "4", "--faults", "none"]);
    assert!(run.reaches("some operations", has_recorded));
    run.signal(Signal::SIGINT);
    assert!(run.reaches_phase("settle"));
    let begun = std::time::Instant::now();
    run.signal(Signal::SIGINT);
    let (_, stdout) = run.end();
    // Settling alone would take the timeout and a second.
    assert!(begun.elapsed() < Duration::from_secs(10), "{stdout}");
    assert_eq!(
        left_behind(only_json(&stdout)["run"].as_str().expect("an id")),
        Vec::<String>::new()
    );
}

#[test]
fn a_run_that_is_to_outlive_its_terminal_does_not_end_with_it() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let suite = short_suite(out.path(), 2, "");
    let mut nohup = std::process::Command::new("nohup");
    nohup
        .arg(env!("CARGO_BIN_EXE_fencepost"))
        .env("XDG_STATE_HOME", state_home());
    let mut run = Running::start_as(nohup, &suite, out.path(), &["--seed", "4"]);
    assert!(run.reaches_phase("load"));
    run.signal(Signal::SIGHUP);
    let (_, stdout) = run.end();
    let end = only_json(&stdout);
    assert_eq!(end["ended_early"], Value::Null, "{end}");
}

#[test]
fn final_reads_that_nobody_answers_hold_an_interrupt_up_for_a_moment_only() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    // Reads are told to have failed; all else is done.
    let script = out.path().join("worker.sh");
    let binary = env!("CARGO_BIN_EXE_fencepost");
    let answers =
        r#"s/^{"id":\([0-9]*\),"type":"ok",.*"value".*/{"id":\1,"type":"fail","error":"lost"}/"#;
    std::fs::write(&script, format!("'{binary}' worker | sed -u '{answers}'\n"))
        .expect("it can be written");
    let more = format!("[worker]\ncommand = [\"sh\", \"{}\"]\n", script.display());
    let suite = short_suite(out.path(), 60, &more);
    let mut run = Running::start(&suite, out.path(), &["--seed", "4", "--faults", "none"]);
    assert!(run.reaches("a value of every key", has_recorded));
    run.signal(Signal::SIGINT);
    assert!(run.reaches_phase("final-reads"));
    let begun = std::time::Instant::now();
    let (code, stdout) = run.end();
    let end = only_json(&stdout);
    assert_eq!(code, Some(2), "{end}");
    assert!(
        end["ended_early"]
            .as_str()
            .is_some_and(|why| why.contains("final reads were cut short")),
        "{end}"
    );
    assert!(begun.elapsed() < Duration::from_secs(8), "{end}");
}
