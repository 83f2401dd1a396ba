//! The main job through the binary: real services, real workers, real faults on loopback.

mod support;

use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use support::{
    Running, fencepost, findings, left_behind, only_json, outcome, read, short_suite, sleepers,
    turn,
};

/// Runs a suite file and returns the exit status and the JSON that it printed.
fn run(suite: &Path, out: &Path, flags: &[&str]) -> (i32, Value) {
    let output = fencepost()
        .arg("run")
        .arg(suite)
        .args(flags)
        .args(["--json", "--out"])
        .arg(out)
        .output()
        .expect("it runs");
    let (code, stdout, stderr) = outcome(&output);
    assert!(!stdout.is_empty(), "nothing on stdout; stderr: {stderr}");
    (code, only_json(&stdout))
}

#[test]
fn a_sound_system_is_valid_after_zombies_were_refused_and_leaves_nothing() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let more = "[[fault]]\nkind = \"hole\"\nevery = \"3s\"\n[[fault]]\nkind = \"kill\"\non = \"lock\"\nevery = \"4s\"\n";
    let (code, end) = run(
        &short_suite(out.path(), 6, more),
        out.path(),
        &["--seed", "11"],
    );
    assert_eq!((code, &end["verdict"]), (0, &Value::from("valid")), "{end}");
    assert_eq!(end["troubles"], Value::Array(Vec::new()));
    assert!(
        end["coverage"]["zombie_writes_refused"].as_u64() >= Some(1),
        "{end}"
    );
    for fault in ["zombie", "hole:worker-lock", "kill:lock"] {
        assert!(
            end["coverage"]["faults"][fault]["installed"].as_u64() >= Some(1),
            "{fault}: {end}"
        );
    }

    // What was saved says the same, and stands where it was said to be.
    let folder = Path::new(end["folder"].as_str().expect("a path")).to_owned();
    for artifact in [
        "run.json",
        "verdict.json",
        "summary.md",
        "logs/lock.log",
        "logs/w5.log",
    ] {
        assert!(folder.join(artifact).is_file(), "{artifact}");
    }
    for plot in ["latency", "refusals", "holders"] {
        assert!(
            read(&folder, &format!("plots/{plot}.svg")).contains("<svg"),
            "{plot}"
        );
        assert!(
            std::fs::read(folder.join(format!("plots/{plot}.png")))
                .expect("a picture")
                .starts_with(b"\x89PNG"),
            "{plot}"
        );
    }
    assert!(
        !folder.join("data").exists(),
        "the services' data is kept only on request"
    );
    let history = out.path().join("latest/history.jsonl");
    let (code, stdout, _) = outcome(
        &fencepost()
            .args(["check", "--json"])
            .arg(&history)
            .output()
            .expect("it runs"),
    );
    let checked = only_json(&stdout);
    assert_eq!(code, 0);
    for part in ["verdict", "reason", "findings", "stats", "coverage"] {
        assert_eq!(checked[part], end[part], "{part}");
    }
    nothing_was_handed_to_a_stopped_worker(&folder);
    assert_eq!(
        left_behind(end["run"].as_str().expect("an id")),
        Vec::<String>::new()
    );
}

/// Between a zombie's begin and its end no client of the stopped worker was handed anything, and the first thing that
/// the woken holder did was the write that it was stopped before.
fn nothing_was_handed_to_a_stopped_worker(folder: &Path) {
    let lines: Vec<Value> = read(folder, "history.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let worker_of = |client: &Value| {
        lines[0]["clients"][client.as_str().expect("every invocation names its client")].clone()
    };
    let (mut stopped, mut woken, mut seen) = (Vec::new(), Vec::new(), 0);
    for line in &lines[1..] {
        match (line["fault"].as_str(), line["phase"].as_str()) {
            (Some("zombie"), Some("begin")) if line["outcome"] == "installed" => {
                stopped.push(line["on"][0].clone())
            }
            (Some("zombie"), Some("end")) => {
                stopped.retain(|worker| *worker != line["on"][0]);
                woken.push((line["client"].clone(), line["token"].clone()));
            }
            _ => {}
        }
        if line["type"] == "invoke" {
            assert!(
                !stopped.contains(&worker_of(&line["client"])),
                "handed to a stopped worker: {line}"
            );
            if let Some(position) = woken
                .iter()
                .position(|(client, _)| *client == line["client"])
            {
                let (_, token) = woken.swap_remove(position);
                assert_eq!(
                    (&line["f"], &line["token"]),
                    (&Value::from("write"), &token),
                    "first thing after waking: {line}"
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 0, "no zombie woke");
}

#[test]
fn the_same_seed_gives_the_same_plan() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let suite = short_suite(out.path(), 1, "");
    let plan = |seed: &str| -> Value {
        let (_, end) = run(&suite, out.path(), &["--seed", seed]);
        let record: Value = serde_json::from_str(&read(
            Path::new(end["folder"].as_str().expect("a path")),
            "run.json",
        ))
        .expect("JSON");
        record["plan"].clone()
    };
    let first = plan("5");
    assert!(first.as_array().is_some_and(|plan| !plan.is_empty()));
    assert_eq!(first, plan("5"));
    assert_ne!(first, plan("6"));
}

#[test]
fn a_run_without_faults_proves_nothing_and_says_so() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let (code, end) = run(
        &short_suite(out.path(), 2, ""),
        out.path(),
        &["--faults", "none"],
    );
    assert_eq!((code, &end["verdict"]), (2, &Value::from("unknown")));
    assert!(
        end["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("unexercised")),
        "{end}"
    );
}

#[test]
fn a_worker_of_ones_own_takes_part() {
    let _turn = turn();
    if std::process::Command::new("python3")
        .arg("--version")
        .output()
        .is_err()
    {
        // Past the capture of the test runner, so that everybody sees it.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"SKIPPED: there is no python3 here\n",
        );
        return;
    }
    let out = tempfile::tempdir().expect("a folder");
    let worker = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../workloads/examples/my_worker.py"
    );
    let more = format!("[worker]\ncommand = [\"python3\", {worker:?}]\n");
    let (code, end) = run(
        &short_suite(out.path(), 6, &more),
        out.path(),
        &["--seed", "3"],
    );
    assert_eq!((code, &end["verdict"]), (0, &Value::from("valid")), "{end}");
    assert!(
        end["coverage"]["zombie_writes_refused"].as_u64() >= Some(1),
        "{end}"
    );
}

#[test]
fn a_worker_that_dies_ends_the_run_with_what_it_has_and_status_70() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let more =
        "[worker]\ncommand = [\"sh\", \"-c\", \"read hello; echo out of luck >&2; exit 3\"]\n";
    let (code, end) = run(
        &short_suite(out.path(), 20, more),
        out.path(),
        &["--seed", "3"],
    );
    assert_eq!(code, 70, "{end}");
    let trouble = end["troubles"][0].as_str().expect("a sentence");
    assert!(
        trouble.starts_with('w') && trouble.contains("out of luck"),
        "{trouble}"
    );
    assert_eq!(
        left_behind(end["run"].as_str().expect("an id")),
        Vec::<String>::new()
    );
}

/// A run of a minute that is brought to a point where a zombie is on record, so that one is likely stopped at any moment.
fn in_the_middle(out: &Path) -> Running {
    let mut run = Running::start(&short_suite(out, 60, ""), out, &["--seed", "4"]);
    let has_seen_a_zombie = |run: &Running| {
        run.folder().is_some_and(|folder| {
            let history = std::fs::read_to_string(folder.join("history.jsonl"));
            history.is_ok_and(|text| text.contains("\"fault\":\"zombie\""))
        })
    };
    assert!(run.reaches("a zombie", has_seen_a_zombie));
    run
}

/// Kills the leader of a node of the run.
fn kill_node(run: &str, node: &str) {
    let marker = format!("FENCEPOST_RUN={run}/{node}");
    let pid = std::fs::read_dir("/proc")
        .expect("a Linux machine")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .find(|pid| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ
                .split(|&byte| byte == 0)
                .any(|variable| variable == marker.as_bytes())
        });
    let pid = nix::unistd::Pid::from_raw(pid.expect("the node runs"));
    nix::sys::signal::kill(pid, Signal::SIGKILL).expect("it is ours");
}

#[test]
fn a_service_that_dies_by_itself_is_a_trouble_and_no_verdict() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let mut run = in_the_middle(out.path());
    kill_node(&run.id().expect("it is under way"), "lock");
    let (code, stdout) = run.end();
    assert_eq!(code, Some(70), "{stdout}");
    let trouble = only_json(&stdout)["troubles"][0].clone();
    assert!(
        trouble
            .as_str()
            .is_some_and(|trouble| trouble.starts_with("lock: ended by itself with signal: 9")),
        "{trouble}"
    );
}

#[test]
fn a_service_that_dies_after_the_load_is_a_trouble_too_and_told_once() {
    let _turn = turn();
    // One worker answers nothing, so that the run waits for it after the load.
    let worker = format!(
        "case $FENCEPOST_RUN in */w3) while read line; do :; done;; *) exec '{}' worker;; esac",
        env!("CARGO_BIN_EXE_fencepost")
    );
    for service in ["lock", "resource"] {
        let out = tempfile::tempdir().expect("a folder");
        let more = format!("[worker]\ncommand = [\"sh\", \"-c\", \"{worker}\"]\n");
        let suite = short_suite(out.path(), 1, &more);
        let mut run = Running::start(&suite, out.path(), &["--seed", "4", "--faults", "none"]);
        assert!(run.reaches_phase("settle"));
        kill_node(&run.id().expect("it is under way"), service);
        let begun = Instant::now();
        let (code, stdout) = run.end();
        assert_eq!(code, Some(70), "{stdout}");
        let end = only_json(&stdout);
        let troubles = end["troubles"].as_array().expect("a list");
        let told = format!("{service}: ended by itself with signal: 9");
        let tells = |trouble: &&Value| trouble.as_str().is_some_and(|text| text.starts_with(&told));
        assert_eq!(troubles.iter().filter(tells).count(), 1, "{end}");
        let nothing_answers = "the final reads were cut short: nothing answers them";
        assert_eq!(
            troubles.contains(&Value::from(nothing_answers)),
            service == "resource",
            "without the lock service there is still what to read: {end}"
        );
        assert!(
            begun.elapsed() < Duration::from_secs(8),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(
            left_behind(end["run"].as_str().expect("an id")),
            Vec::<String>::new()
        );
    }
}

#[test]
fn a_child_that_shed_its_marker_and_left_its_session_does_not_outlive_the_run() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let binary = env!("CARGO_BIN_EXE_fencepost");
    let seconds = format!("6{}", std::process::id());
    let more = format!(
        "[worker]\ncommand = [\"sh\", \"-c\", \"setsid env -i sleep {seconds} & exec '{binary}' worker\"]\n"
    );
    let mut run = Running::start(&short_suite(out.path(), 2, &more), out.path(), &[]);
    assert!(
        run.reaches("a child of each of five workers", |_| sleepers(&seconds)
            == 5)
    );
    let (_, stdout) = run.end();
    assert_eq!(
        only_json(&stdout)["troubles"],
        Value::Array(Vec::new()),
        "{stdout}"
    );
    assert_eq!(sleepers(&seconds), 0);
}

#[test]
fn two_runs_at_once_do_not_disturb_each_other() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let suite = short_suite(
        out.path(),
        5,
        "[[fault]]\nkind = \"kill\"\non = \"resource\"\nevery = \"2s\"\n",
    );
    let start = |seed: &str| Running::start(&suite, out.path(), &["--seed", seed]);
    let ends: Vec<Value> = [start("21"), start("22")]
        .into_iter()
        .map(|mut run| {
            let (code, stdout) = run.end();
            assert_eq!(code, Some(0), "{stdout}");
            only_json(&stdout)
        })
        .collect();
    assert_ne!(ends[0]["run"], ends[1]["run"]);
    assert_ne!(ends[0]["folder"], ends[1]["folder"]);
    for end in &ends {
        assert_eq!(
            (&end["verdict"], &end["troubles"]),
            (&Value::from("valid"), &Value::Array(Vec::new())),
            "{end}"
        );
    }
}

#[test]
fn a_killed_harness_takes_its_nodes_with_it_and_leaves_a_history_that_checks() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let mut middle = in_the_middle(out.path());
    middle.signal(Signal::SIGKILL);
    middle.child.wait().expect("it ends");
    let folder = &middle.folder().expect("it was under way");
    let record: Value =
        serde_json::from_str(&read(folder, "run.json")).expect("run.json is written at the start");
    let run = record["run"].as_str().expect("an id");
    let deadline = Instant::now() + Duration::from_secs(10);
    while !left_behind(run).is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(left_behind(run), Vec::<String>::new());
    let (code, stdout, stderr) = outcome(
        &fencepost()
            .args(["check", "--json"])
            .arg(folder.join("history.jsonl"))
            .output()
            .expect("it runs"),
    );
    assert!(code == 0 || code == 2, "{stdout}{stderr}");
    assert!(
        only_json(&stdout)["stats"]["operations"].as_u64() > Some(50),
        "{stdout}"
    );
}

#[test]
fn a_toxiproxy_of_the_users_is_driven_and_left_as_it_was_found() {
    let _turn = turn();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let api = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let mut toxiproxy = fencepost()
        .args(["toxiproxy", "--listen", &api])
        .spawn()
        .expect("it runs");
    let deadline = Instant::now() + Duration::from_secs(10);
    while std::net::TcpStream::connect(&api).is_err() {
        assert!(Instant::now() < deadline, "the proxy does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    let out = tempfile::tempdir().expect("a folder");
    let more = "[[fault]]\nkind = \"lost-reply\"\nlink = \"worker-resource\"\nevery = \"2s\"\nlength = \"500ms\"\n";
    let (code, end) = run(
        &short_suite(out.path(), 5, more),
        out.path(),
        &["--seed", "2", "--toxiproxy", &api],
    );
    let left = get(&api, "/proxies");
    toxiproxy.kill().expect("ours");
    toxiproxy.wait().expect("it ends");
    assert_eq!(
        (code, &end["troubles"]),
        (0, &Value::Array(Vec::new())),
        "{end}"
    );
    assert!(
        end["coverage"]["faults"]["lost-reply:worker-resource"]["installed"].as_u64() >= Some(1),
        "{end}"
    );
    assert!(
        left.ends_with("{}") || left.ends_with("{}\n"),
        "no proxy of the run is left: {left}"
    );
    assert!(
        !Path::new(end["folder"].as_str().expect("a path"))
            .join("logs/proxy.log")
            .exists(),
        "no embedded proxy was started"
    );
}

/// A plain GET, with the answer's head and body.
fn get(address: &str, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).expect("it listens");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

#[test]
fn each_planted_defect_is_found_by_its_name() {
    let _turn = turn();
    for (defect, finding) in [
        ("unfenced", "stale-write-accepted"),
        ("volatile-counter", "token-regression"),
        ("hot-loop", "hot-retry"),
    ] {
        let out = tempfile::tempdir().expect("a folder");
        let more = "[[fault]]\nkind = \"kill\"\non = \"lock\"\nevery = \"4s\"\n";
        let (code, end) = run(
            &short_suite(out.path(), 20, more),
            out.path(),
            &["--seed", "9", "--fail-fast", "--defect", defect],
        );
        assert_eq!(
            (code, &end["verdict"]),
            (1, &Value::from("invalid")),
            "{defect}: {end}"
        );
        assert!(
            findings(&end).iter().any(|found| found == finding),
            "{defect}: {end}"
        );
        let story = end["findings"][0]["story"].as_str().expect("a story");
        assert!(story.contains("That is wrong"), "{story}");
    }
}
