//! A harness that is killed at any moment leaves nothing that `fencepost heal` does not remove, and heal touches
//! nothing else.
//!
//! FENCEPOST_KILLS says how many harnesses are killed; the gate and the soak ask for more than the default.

mod support;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use support::{Running, fencepost, left_behind, only_json, outcome, read, sleepers, turn};

/// A child that dies with the test.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A Toxiproxy server that no run started.
fn toxiproxy() -> (Background, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let api = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let mut command = fencepost();
    command.args(["toxiproxy", "--listen", &api]);
    let server = Background(command.spawn().expect("it runs"));
    until("the proxy listens", || {
        std::net::TcpStream::connect(&api).is_ok()
    });
    (server, api)
}

fn proxies(api: &str) -> String {
    let mut stream = std::net::TcpStream::connect(api).expect("it listens");
    write!(
        stream,
        "GET /proxies HTTP/1.1\r\nHost: {api}\r\nConnection: close\r\n\r\n"
    )
    .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
        .split("\r\n\r\n")
        .nth(1)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// A suite whose workers leave a child in a session of its own, which no signal to their group reaches: `sleep SECONDS`,
/// with the run's marker in its environment or without any environment.
fn forking_suite(folder: &Path, limit: &str, seconds: &str, marked: bool) -> PathBuf {
    let path = folder.join("forking.toml");
    let binary = env!("CARGO_BIN_EXE_fencepost");
    let shed = if marked { "" } else { "env -i " };
    let text = format!(
        "name = \"forking\"\n[run]\ntime_limit = \"{limit}\"\n\
         [worker]\ncommand = [\"sh\", \"-c\", \"setsid {shed}sleep {seconds} & exec '{binary}' worker\"]\n\
         [[fault]]\nkind = \"zombie\"\nevery = \"200ms\"\n\
         [[fault]]\nkind = \"hole\"\nevery = \"250ms\"\n\
         [[fault]]\nkind = \"pause\"\non = \"lock\"\nevery = \"300ms\"\nlength = \"150ms\"\n"
    );
    std::fs::write(&path, text).expect("written");
    path
}

/// The parts of a run's life, in order.
const PHASES: [&str; 8] = [
    "set-up",
    "load",
    "heal",
    "settle",
    "final-reads",
    "take-down",
    "judge",
    "report",
];

/// Who is killed by SIGKILL.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Victim {
    /// The guardian ends what it leaves, marked or not.
    Harness,
    /// The harness ends what it has started, marked or not, and itself.
    Guardian,
    /// Heal ends what carries the marker.
    Both,
}

impl Victim {
    const ALL: [Self; 3] = [Self::Harness, Self::Guardian, Self::Both];

    fn kill(self, run: &mut Running) {
        let harness = run.harness();
        match (self, harness) {
            (Self::Harness, Some(harness)) => signal(harness, Signal::SIGKILL),
            (Self::Both, Some(harness)) => {
                // Stopped first, so that it has no time to do anything.
                run.signal(Signal::SIGSTOP);
                signal(harness, Signal::SIGKILL);
                run.signal(Signal::SIGKILL);
            }
            // Before there are two of them there is only one to kill.
            _ => run.signal(Signal::SIGKILL),
        }
        run.child.wait().expect("it ends");
    }
}

/// To a process of the test's, which may have ended.
fn signal(pid: Pid, signal: Signal) {
    if let Err(error) = kill(pid, signal) {
        assert_eq!(error, nix::errno::Errno::ESRCH);
    }
}

fn heal(words: &[&str]) -> (i32, String, String) {
    outcome(
        &fencepost()
            .arg("heal")
            .args(words)
            .output()
            .expect("it runs"),
    )
}

/// How long each phase takes when nobody is killed.
fn lengths(kills: &str) -> BTreeMap<String, Duration> {
    let out = tempfile::tempdir().expect("a folder");
    let suite = forking_suite(out.path(), LOAD, kills, true);
    let mut run = Running::start(&suite, out.path(), &[]);
    run.end();
    let record = read(&run.folder().expect("it ran"), "run.json");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    let phases = record["phases"].as_array().expect("a list").iter();
    let mut lengths: BTreeMap<String, Duration> = phases
        .map(|phase| {
            let took = Duration::from_millis(phase["took_ms"].as_u64().expect("a number"));
            (phase["name"].as_str().expect("a name").to_owned(), took)
        })
        .collect();
    // These two are not timed by a run: a guess, of which a part is enough.
    lengths.insert("heal".to_owned(), Duration::from_millis(20));
    lengths.insert("report".to_owned(), Duration::from_millis(100));
    lengths
}

/// How long the load of a run lasts that is to be killed.
const LOAD: &str = "700ms";
/// From so many kills on each phase must have had some.
const ENOUGH: usize = 24;

#[test]
fn whenever_the_harness_is_killed_heal_leaves_nothing_of_its_run_and_all_of_another() {
    let _turn = turn();
    let kills: usize = std::env::var("FENCEPOST_KILLS")
        .ok()
        .and_then(|kills| kills.parse().ok())
        .unwrap_or(6);
    let seed = u64::from(std::process::id());
    println!("{kills} kills, moments drawn with seed {seed}");
    let mut moments = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let (_server, api) = toxiproxy();
    let lengths = lengths(&format!("8{seed}"));

    // Another run, alive all the while.
    let bystander_out = tempfile::tempdir().expect("a folder");
    let calm = bystander_out.path().join("calm.toml");
    std::fs::write(
        &calm,
        "name = \"calm\"\nfault = []\n[run]\ntime_limit = \"1h\"\nrate = 20\n",
    )
    .expect("written");
    let mut bystander = Running::start(&calm, bystander_out.path(), &[]);
    assert!(bystander.reaches("the load", |run| {
        let history = run.folder().map(|folder| folder.join("history.jsonl"));
        history.is_some_and(|path| std::fs::metadata(path).is_ok_and(|file| file.len() > 2_000))
    }));
    let bystander_run = bystander.id().expect("it is under way");
    let nodes = left_behind(&bystander_run).len();
    assert_eq!(nodes, 8, "two services, a proxy, five workers");

    let mut recorded = 0;
    let mut hits: BTreeMap<String, Vec<(Victim, bool)>> = BTreeMap::new();
    for round in 0.. {
        let missing = PHASES.iter().find(|phase| !hits.contains_key(**phase));
        let wanted = match missing {
            _ if round < kills => PHASES[round % PHASES.len()],
            // A short phase is over before the moment that was drawn for it, now and then.
            Some(missing) if kills >= ENOUGH => missing,
            _ => break,
        };
        assert!(round < kills + 50, "none was killed in {wanted}");
        let victim = Victim::ALL[moments.random_range(0..3)];
        let out = tempfile::tempdir().expect("a folder");
        let seconds = format!("7{}{round:03}", seed % 100_000);
        let suite = forking_suite(out.path(), LOAD, &seconds, victim == Victim::Both);
        let flags: &[&str] = if moments.random_bool(0.5) {
            &["--toxiproxy", &api]
        } else {
            &[]
        };
        let mut run = Running::start(&suite, out.path(), flags);
        // The phase first, then a moment in it; that of the set-up counts from the start of the program.
        let there = wanted == "set-up" || run.reaches_phase(wanted);
        let length = lengths.get(wanted).copied().unwrap_or_default();
        let moment = length.mul_f64(moments.random_range(0.0..1.0));
        if there {
            std::thread::sleep(moment);
        }
        let fault = run.under_a_fault();
        victim.kill(&mut run);
        let phase = run.phase();

        let (code, stdout, stderr) = heal(&[]);
        let told = format!(
            "round {round}, {victim:?} killed in {phase} ({moment:?} into {wanted}): {stdout}{stderr}"
        );
        assert_eq!(code, 0, "{told}");
        assert!(
            stdout.contains(&format!("run {bystander_run} is alive: left alone")),
            "{told}"
        );
        assert_eq!(proxies(&api), "{}", "{told}");
        assert_eq!(sleepers(&seconds), 0, "{told}");
        if let Some(folder) = run.folder() {
            let id = run.id().expect("it has a folder");
            assert_eq!(left_behind(&id), Vec::<String>::new(), "{told}");
            assert!(!folder.join("data").exists(), "{told}");
            assert!(!folder.join(".reserve").exists(), "{told}");
            assert!(run.journal().is_none(), "{told}");
            let history = folder.join("history.jsonl");
            if std::fs::metadata(&history).is_ok_and(|file| file.len() > 0) {
                let mut check = fencepost();
                check.args(["check", "--json"]).arg(&history);
                let (code, stdout, stderr) = outcome(&check.output().expect("it runs"));
                assert!(matches!(code, 0 | 2), "{told}: {stdout}{stderr}");
                recorded += 1;
            }
        }
        hits.entry(phase).or_default().push((victim, fault));
    }

    for phase in PHASES {
        let hits = hits.get(phase).map_or(&[][..], Vec::as_slice);
        let of = |victim| hits.iter().filter(|(of, _)| *of == victim).count();
        println!(
            "killed in {phase}: {} harness, {} guardian, {} both, {} under a fault",
            of(Victim::Harness),
            of(Victim::Guardian),
            of(Victim::Both),
            hits.iter().filter(|(_, fault)| *fault).count()
        );
    }
    println!("{recorded} of the killed harnesses left a history; each of them checks");
    assert!(recorded > 0, "none was killed while it recorded");

    // The other run was not touched: it ends when it is told to, without any trouble.
    assert_eq!(left_behind(&bystander_run).len(), nodes);
    bystander.signal(Signal::SIGINT);
    let (_, stdout) = bystander.end();
    assert_eq!(
        only_json(&stdout)["troubles"],
        Value::Array(Vec::new()),
        "{stdout}"
    );
    let (code, stdout, _) = heal(&[]);
    assert_eq!((code, stdout.as_str()), (0, "nothing to heal\n"));
}

#[test]
fn heal_removes_what_a_run_left_on_a_proxy_that_outlives_it_and_says_what_it_did() {
    let _turn = turn();
    let (_server, api) = toxiproxy();
    let out = tempfile::tempdir().expect("a folder");
    let suite = forking_suite(out.path(), "60s", "600", true);
    let mut run = Running::start(&suite, out.path(), &["--toxiproxy", &api]);
    assert!(run.reaches("a zombie", has_a_zombie));
    Victim::Both.kill(&mut run);
    let id = run.id().expect("it was under way");
    assert!(
        proxies(&api).contains(&format!("fp-{id}-w1-lock")),
        "the proxies outlive the run"
    );
    until("only the forked children are left", || {
        left_behind(&id)
            .iter()
            .all(|line| line.starts_with("sleep 600"))
    });
    assert_eq!(left_behind(&id).len(), 5, "a child of each worker");

    let (code, stdout, stderr) = heal(&[&id]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(stdout.matches("killed pid").count(), 5, "{stdout}");
    assert_eq!(stdout.matches("removed proxy").count(), 10, "{stdout}");
    assert_eq!(
        (left_behind(&id), proxies(&api).as_str()),
        (Vec::new(), "{}")
    );
    let (code, _, stderr) = heal(&[&id]);
    assert_eq!(code, 64, "there is nothing left of it");
    assert!(stderr.contains("nothing of it is left to heal"), "{stderr}");
}

fn has_a_zombie(run: &Running) -> bool {
    run.folder().is_some_and(|folder| {
        std::fs::read_to_string(folder.join("history.jsonl"))
            .is_ok_and(|text| text.contains("zombie\",\"phase\":\"begin"))
    })
}

#[test]
fn what_shed_its_marker_and_left_its_session_outlives_neither_a_killed_harness_nor_a_killed_guardian()
 {
    let _turn = turn();
    for (victim, number) in [(Victim::Harness, 1), (Victim::Guardian, 2)] {
        let out = tempfile::tempdir().expect("a folder");
        let seconds = format!("9{number}{}", std::process::id());
        // One that has nothing to do with the run, and looks the same.
        let mut stranger = std::process::Command::new("sleep");
        let stranger = Background(stranger.arg(&seconds).spawn().expect("sleep runs"));
        let suite = forking_suite(out.path(), "60s", &seconds, false);
        let mut run = Running::start(&suite, out.path(), &[]);
        assert!(run.reaches("a zombie", has_a_zombie));
        assert_eq!(
            sleepers(&seconds),
            6,
            "{victim:?}: the stranger, and a child of each worker"
        );
        let id = run.id().expect("it is under way");
        let marked = left_behind(&id);
        assert_eq!(
            marked.len(),
            8,
            "none of the children carries the marker: {marked:?}"
        );
        victim.kill(&mut run);
        // Nobody has called heal.
        until("only the stranger is left", || {
            sleepers(&seconds) == 1 && left_behind(&id).is_empty()
        });
        let mut stranger = stranger;
        assert_eq!(
            stranger.0.try_wait().expect("ours"),
            None,
            "{victim:?}: it lives"
        );
        let (code, stdout, stderr) = heal(&[&id]);
        assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
        assert_eq!(stdout.matches("killed pid").count(), 0, "{stdout}");
    }
}

#[test]
fn a_child_that_the_guardian_had_before_it_became_one_is_left_alone() {
    let _turn = turn();
    for killed in [true, false] {
        let out = tempfile::tempdir().expect("a folder");
        let seconds = format!("5{}", std::process::id());
        let binary = env!("CARGO_BIN_EXE_fencepost");
        let suite = forking_suite(out.path(), if killed { "60s" } else { LOAD }, "601", false);
        // The shell becomes the guardian, and has a child.
        let mut shell = std::process::Command::new("sh");
        let script = format!("sleep {seconds} & exec '{binary}' \"$@\"");
        shell.env("XDG_STATE_HOME", support::state_home());
        shell.args(["-c", &script, "sh"]);
        let mut run = Running::start_as(shell, &suite, out.path(), &[]);
        if killed {
            assert!(run.reaches("a zombie", has_a_zombie));
            Victim::Harness.kill(&mut run);
        } else {
            run.child.wait().expect("it ends");
        }
        assert_eq!(
            (sleepers(&seconds), sleepers("601")),
            (1, 0),
            "killed: {killed}"
        );
        // The test's own, by its number and nobody else's.
        let sleeper = support::pid_of_sleeper(&seconds).expect("it lives");
        signal(sleeper, Signal::SIGKILL);
        assert_eq!(heal(&[]).0, 0);
    }
}

#[test]
fn a_guardian_ends_as_its_harness_does_and_says_how_one_was_killed() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let suite = support::short_suite(out.path(), 60, "");
    let mut program = fencepost();
    program.arg("run").arg(&suite).arg("--out").arg(out.path());
    program.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = Background(program.spawn().expect("it runs"));
    let folder = || std::fs::read_dir(out.path().join("short-local")).is_ok();
    until("it has a folder", folder);
    let harness = support::child_of(child.0.id()).expect("beside its guardian");
    signal(harness, Signal::SIGKILL);
    let mut stderr = String::new();
    let mut pipe = child.0.stderr.take().expect("a pipe");
    pipe.read_to_string(&mut stderr).expect("UTF-8");
    assert_eq!(
        child.0.wait().expect("it ends").code(),
        Some(70),
        "{stderr}"
    );
    let last = stderr.lines().last().unwrap_or_default();
    assert!(
        last.contains("the harness ended by SIGKILL") && last.contains("fencepost heal"),
        "{stderr}"
    );
    assert_eq!(heal(&[]).0, 0);
}

#[test]
fn a_number_that_belongs_to_another_process_now_and_a_folder_of_another_are_left_alone() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let precious = out.path().join("precious");
    std::fs::create_dir(&precious).expect("made");
    let stranger = Background(
        std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep runs"),
    );
    // The journal of a crashed run: its worker's number was given to the stranger since, and its data is not its own.
    let state = support::state_home().join("fencepost/0badcafe");
    std::fs::create_dir_all(&state).expect("made");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux");
    let lines = [
        serde_json::json!({"entry": "run", "run": "0badcafe", "harness": {"pid": 1, "start_time": 1}, "boot_id": boot.trim(), "data": precious}),
        serde_json::json!({"entry": "node", "node": "w1", "process": {"pid": stranger.0.id(), "start_time": 1}}),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(state.join("journal.jsonl"), text).expect("written");
    let (code, stdout, stderr) = heal(&["0badcafe"]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let told = format!(
        "pid {} of w1 belongs to another process now: left alone",
        stranger.0.id()
    );
    assert!(stdout.contains(&told), "{stdout}");
    let mut stranger = stranger;
    assert_eq!(stranger.0.try_wait().expect("ours"), None, "it lives");
    assert!(precious.is_dir());
    assert!(!state.exists(), "the journal is done with");
}

#[test]
fn a_run_that_ends_by_itself_leaves_no_journal() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let suite = support::short_suite(out.path(), 1, "");
    let mut run = Running::start(&suite, out.path(), &[]);
    run.end();
    let record = read(&run.folder().expect("it ran"), "run.json");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!(record["troubles"], Value::Array(Vec::new()));
    assert_eq!(heal(&[]).1, "nothing to heal\n");
}

#[test]
fn what_cannot_be_healed_is_told_with_what_is_to_be_done() {
    let state = tempfile::tempdir().expect("a folder");
    // It takes connections and says nothing.
    let hung = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let api = hung.local_addr().expect("an address");
    let folder = state.path().join("fencepost/0badc0de");
    std::fs::create_dir_all(&folder).expect("made");
    let file = folder.join("journal.jsonl");
    let lines = format!(
        "{{\"entry\":\"run\",\"run\":\"0badc0de\",\"harness\":{{\"pid\":4194000,\"start_time\":1}},\"boot_id\":\"\",\"data\":null}}\n\
         [\"phase\",\"load\"]\n\
         {{\"entry\":\"proxy\",\"api\":\"{api}\",\"name\":\"fp-0badc0de-w1-lock\"}}\n"
    );
    std::fs::write(&file, lines).expect("written");
    let mut heal = fencepost();
    heal.arg("heal").env("XDG_STATE_HOME", state.path());
    let (code, _, stderr) = outcome(&heal.output().expect("it runs"));
    assert_eq!(code, 70, "{stderr}");
    for told in [
        format!("1 proxies at {api} of run 0badc0de: "),
        "or end it (its proxies go with it), and `fencepost heal 0badc0de` again".to_owned(),
        format!("what line 2 of {} said, which is damaged", file.display()),
        format!("`rm -r {}` ends this", folder.display()),
    ] {
        assert!(stderr.contains(&told), "{told:?}: {stderr}");
    }
}

#[test]
fn doctor_tries_what_a_run_needs_and_says_what_it_saw() {
    let (_server, api) = toxiproxy();
    let out = tempfile::tempdir().expect("a folder");
    // Its journal is nothing for those who look at the journals of runs meanwhile.
    let state = tempfile::tempdir().expect("a folder");
    let output = fencepost()
        .env("XDG_STATE_HOME", state.path())
        .args(["doctor", "--json", "--toxiproxy", &api, "--out"])
        .arg(out.path().join("results"))
        .output()
        .expect("it runs");
    let (code, stdout, stderr) = outcome(&output);
    let checks = only_json(&stdout)["checks"].clone();
    assert_eq!((code, stderr.as_str()), (0, ""), "{checks}");
    let checks = checks.as_array().expect("a list");
    let about = |word: &str| -> String {
        let about = |check: &&Value| {
            check["about"]
                .as_str()
                .is_some_and(|about| about.contains(word))
        };
        let check = checks
            .iter()
            .find(about)
            .unwrap_or_else(|| panic!("{word} is not tried"));
        check["text"].as_str().expect("a sentence").to_owned()
    };
    let results = out.path().display().to_string();
    for (word, seen) in [
        ("ports", "of 11000 loopback ports can be claimed"),
        ("journal", "can be written"),
        ("room for results", results.as_str()),
        ("SIGSTOP", "state T in all"),
        ("SIGKILL", "in its place"),
        (
            "orphans",
            "left behind without a marker, was adopted and killed",
        ),
        ("pidfd", "was killed through one"),
        (
            "local target: embedded fault proxy",
            "a request got through",
        ),
        (
            "local target: hole",
            "swallowed in silence, the server was not reached; afterwards one got through",
        ),
        (
            "local target: lost-reply",
            "swallowed in silence, the server was reached; afterwards one got through",
        ),
        (
            "local target: lost-request",
            "swallowed in silence, the server was not reached; afterwards one got through",
        ),
        (
            "local target: stall",
            "the server was not reached; another was delivered and answered afterwards",
        ),
        ("local target: bandwidth", "answered after"),
        ("local target: latency", "answered after 1"),
        ("local target: reset", "cut off"),
        ("local target: refuse", "refused"),
        (
            &format!("--toxiproxy {api}: lost-reply"),
            "swallowed in silence, the server was reached",
        ),
    ] {
        let text = about(word);
        assert!(text.contains(seen), "{word}: {text}");
    }
    // Each kind of fault by its name; those of containers where there is an engine.
    let listed = fencepost()
        .args(["list", "faults"])
        .output()
        .expect("it runs");
    let (_, listed, _) = outcome(&listed);
    let is_about = |check: &Value, words: &[&str]| {
        let about = check["about"].as_str().unwrap_or_default();
        let mut named = about.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        about.starts_with(words[0]) && named.any(|word| word == words[1])
    };
    let engine = checks
        .iter()
        .any(|check| check["ok"] == true && is_about(check, &["docker target", "engine"]));
    for line in listed.lines() {
        let (kind, about) = line.split_once(' ').expect("a name first");
        let target = match about.contains("[docker]") {
            true if !engine => continue,
            true => "docker target",
            false => "local target",
        };
        let tried = checks.iter().any(|check| is_about(check, &[target, kind]));
        assert!(tried, "{kind} is not tried");
    }
    assert!(
        checks
            .iter()
            .filter(|check| check["needed"] == true)
            .all(|check| check["ok"] == true)
    );
    assert_eq!(proxies(&api), "{}", "the proxy that was tried is gone");
    assert_eq!(
        std::fs::read_dir(out.path()).expect("read").count(),
        0,
        "and so is all else"
    );

    let output = fencepost()
        .env("XDG_STATE_HOME", state.path())
        .args([
            "doctor",
            "--toxiproxy",
            "127.0.0.1:9",
            "--out",
            "/proc/nowhere",
        ])
        .output()
        .expect("it runs");
    let (code, stdout, _) = outcome(&output);
    assert_eq!(code, 70);
    assert!(stdout.contains("NO   --toxiproxy"), "{stdout}");
    assert!(
        stdout.contains("name another folder with --out"),
        "{stdout}"
    );
}
