//! Ctrl-C in every phase of a run: it heals, judges what was recorded, writes the report, and leaves nothing. A second one
//! is quicker and leaves nothing either.

mod support;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use support::{Running, fencepost, left_behind, only_json, short_suite, state_home, turn};

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
        // Whoever runs the tests may have been told to outlive its terminal.
        let mut heeding = std::process::Command::new("env");
        heeding
            .arg("--default-signal=HUP")
            .arg(env!("CARGO_BIN_EXE_fencepost"))
            .env("XDG_STATE_HOME", state_home());
        let mut run = Running::start_as(heeding, &suite, out.path(), &["--seed", "4"]);
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

/// A program of its own group, with pipes for what it says.
fn started(mut command: Command) -> Child {
    command.process_group(0).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it runs")
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a pid"))
}

/// The run's end: its status, and what it printed if it came so far.
fn ended(mut child: Child) -> (std::process::ExitStatus, String, String) {
    let (mut stdout, mut stderr) = (String::new(), String::new());
    let errors = child.stderr.take();
    std::thread::scope(|scope| {
        scope.spawn(|| errors.map(|mut pipe| pipe.read_to_string(&mut stderr)));
        let pipe = child.stdout.as_mut().expect("a pipe");
        pipe.read_to_string(&mut stdout).expect("UTF-8");
    });
    (child.wait().expect("it ends"), stdout, stderr)
}

/// It ended in a verdict and a report, and left nothing.
fn ended_well(status: std::process::ExitStatus, stdout: &str, told: &str) {
    assert!(
        matches!(status.code(), Some(0 | 2)),
        "{told}: {status} {stdout}"
    );
    let end = only_json(stdout);
    let folder = Path::new(end["folder"].as_str().expect("a folder"));
    for file in ["verdict.json", "summary.md", "run.json", "report.html"] {
        assert!(folder.join(file).is_file(), "{told}: {file}");
    }
    let id = end["run"].as_str().expect("an id");
    assert_eq!(left_behind(id), Vec::<String>::new(), "{told}");
    assert!(!state_home().join("fencepost").join(id).exists(), "{told}");
}

#[test]
fn a_signal_that_comes_before_the_set_up_ends_in_a_report_as_well() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let suite = short_suite(out.path(), 1, "");
    let begun = || {
        let mut command = fencepost();
        command
            .arg("run")
            .arg(&suite)
            .args(["--json", "--seed", "4", "--out"]);
        command.arg(out.path());
        started(command)
    };
    for round in 0..20 {
        let mut run = begun();
        let mut plan = String::new();
        let mut errors = BufReader::new(run.stderr.take().expect("a pipe"));
        errors.read_line(&mut plan).expect("UTF-8");
        assert!(plan.contains("suite short, seed 4"), "{plan}");
        let (signal, told) = match round % 4 {
            0 => (Signal::SIGINT, "SIGINT to the guardian"),
            1 => (Signal::SIGTERM, "SIGTERM to the guardian"),
            _ => (Signal::SIGINT, "SIGINT to the group"),
        };
        if told.ends_with("group") {
            killpg(pid(&run), signal).expect("it is ours");
        } else {
            kill(pid(&run), signal).expect("it is ours");
        }
        let (status, stdout, _) = ended(run);
        ended_well(
            status,
            &stdout,
            &format!("round {round}, {told} after the plan"),
        );
    }
    for round in 0..20_u32 {
        // From the first moments of the program on, to where it has begun.
        let run = begun();
        std::thread::sleep(Duration::from_micros(500) * round);
        let sent = match round % 2 {
            0 => kill(pid(&run), Signal::SIGINT),
            _ => killpg(pid(&run), Signal::SIGINT),
        };
        sent.expect("it is ours");
        let (status, stdout, stderr) = ended(run);
        let told = format!("round {round}, at once");
        match status.signal() {
            // Before it was a program that listens; it has begun nothing.
            Some(signal) => assert_eq!((signal, &*stdout, &*stderr), (2, "", ""), "{told}"),
            None => ended_well(status, &stdout, &told),
        }
    }
}

/// Whether a process has a handler for a signal.
fn handles(process: &Child, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id()));
    let status = status.unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal as u32 - 1) & 1 == 1)
}

/// The journals in a state folder, their lines together.
fn journals(state: &Path) -> String {
    let folders = std::fs::read_dir(state.join("fencepost"))
        .into_iter()
        .flatten();
    let texts = folders.flatten().map(|folder| {
        std::fs::read_to_string(folder.path().join("journal.jsonl")).unwrap_or_default()
    });
    texts.collect()
}

/// Waits until `seen`; false if the process ended before.
fn comes_to(child: &mut Child, seen: impl Fn(&Child) -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !seen(child) {
        if child.try_wait().expect("ours").is_some() {
            return false;
        }
        assert!(Instant::now() < deadline, "it does not come so far");
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn an_interrupted_doctor_takes_down_what_it_tries() {
    let _turn = turn();
    for (what, signal) in [
        ("", Signal::SIGINT),
        ("\"network\"", Signal::SIGINT),
        ("\"container\"", Signal::SIGTERM),
        ("beside", Signal::SIGINT),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = fencepost();
        command.env("XDG_STATE_HOME", folder.path());
        command
            .arg("doctor")
            .arg("--out")
            .arg(folder.path().join("results"));
        let mut doctor = started(command);
        // Without an engine there are no containers, and it ends before.
        if !comes_to(&mut doctor, |doctor| {
            handles(doctor, signal) && (what.is_empty() || journals(folder.path()).contains(what))
        }) {
            continue;
        }
        kill(pid(&doctor), signal).expect("it is ours");
        let (status, stdout, stderr) = ended(doctor);
        assert_eq!(status.code(), Some(70), "{what}: {stdout} {stderr}");
        assert!(
            stderr.contains("ended by a signal: the rest was not tried"),
            "{stderr}"
        );
        assert!(!stdout.contains("\nNO "), "{stdout}");
        let left = std::fs::read_dir(folder.path().join("fencepost"))
            .into_iter()
            .flatten();
        assert_eq!(left.count(), 0, "{what}: a journal is left: {stdout}");
    }
}

#[test]
fn an_interrupted_selftest_ends_its_runs_and_leaves_nothing() {
    let _turn = turn();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let (state, scratch) = (
            tempfile::tempdir().expect("a folder"),
            tempfile::tempdir().expect("a folder"),
        );
        let mut command = fencepost();
        command.env("XDG_STATE_HOME", state.path());
        command.env("TMPDIR", scratch.path());
        command.args(["selftest", "sound: teeth-identity", "--runs", "3"]);
        command.args(["--time-limit", "60s"]);
        let mut selftest = started(command);
        let two_loads = |_: &Child| journals(state.path()).matches("\"load\"").count() == 2;
        assert!(comes_to(&mut selftest, two_loads));
        let begun = Instant::now();
        kill(pid(&selftest), signal).expect("it is ours");
        let (status, _, stderr) = ended(selftest);
        assert_eq!(status.code(), Some(2), "{stderr}");
        assert!(
            stderr.contains("ended by a signal: 0 of 3 runs were made, those under way were ended"),
            "{stderr}"
        );
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "{:?}",
            begun.elapsed()
        );
        let count = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().count();
        assert_eq!(count(scratch.path()), 0, "its folder is gone");
        assert_eq!(
            count(&state.path().join("fencepost")),
            0,
            "nothing is to be healed"
        );
    }
}

#[test]
fn a_run_that_was_to_be_repeated_without_its_fence_counts_for_nothing_when_it_is_interrupted() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let suite = short_suite(out.path(), 60, "");
    let mut run = Running::start(&suite, out.path(), &["--seed", "4", "--teeth"]);
    assert!(run.reaches("some operations", has_recorded));
    run.signal(Signal::SIGINT);
    let (code, stdout) = run.end();
    let end = only_json(&stdout);
    assert_eq!((code, &end["verdict"]), (Some(2), &Value::from("unknown")));
    let lacking = end["coverage"]["unexercised"].to_string();
    assert!(lacking.contains("as --teeth asks"), "{end}");
}
