//! A harness that is killed at any moment leaves nothing that `fencepost heal` does not remove, and heal touches
//! nothing else.
//!
//! FENCEPOST_KILLS says how many harnesses are killed; the gate and the soak ask for more than the default.

mod support;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use support::{fencepost, left_behind, only_json, outcome, read, turn};

/// A child that dies with the test.
struct Background(Child);

impl Background {
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).expect("a pid"));
        kill(pid, signal).expect("it is ours");
    }
}

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

/// A suite whose workers leave a child in a session of its own, which no signal to their group reaches.
fn forking_suite(folder: &Path) -> PathBuf {
    let path = folder.join("forking.toml");
    let binary = env!("CARGO_BIN_EXE_fencepost");
    let text = format!(
        "name = \"forking\"\n[run]\ntime_limit = \"60s\"\n\
         [worker]\ncommand = [\"sh\", \"-c\", \"setsid sleep 600 & exec '{binary}' worker\"]\n\
         [[fault]]\nkind = \"zombie\"\nevery = \"300ms\"\n\
         [[fault]]\nkind = \"hole\"\nevery = \"400ms\"\n\
         [[fault]]\nkind = \"pause\"\non = \"lock\"\nevery = \"500ms\"\nlength = \"200ms\"\n"
    );
    std::fs::write(&path, text).expect("written");
    path
}

fn start(suite: &Path, out: &Path, flags: &[&str]) -> Background {
    let mut command = fencepost();
    command
        .arg("run")
        .arg(suite)
        .arg("--json")
        .args(flags)
        .arg("--out")
        .arg(out);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    Background(command.spawn().expect("it runs"))
}

/// The only run under `out`, if it has got so far as to have a folder.
fn folder_of(out: &Path, suite: &str) -> Option<PathBuf> {
    let mut runs = std::fs::read_dir(out.join(format!("{suite}-local"))).ok()?;
    Some(runs.next()?.ok()?.path())
}

fn run_of(folder: &Path) -> String {
    let name = folder
        .file_name()
        .and_then(|name| name.to_str())
        .expect("UTF-8");
    name.rsplit('-').next().expect("time and id").to_owned()
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

#[test]
fn whenever_the_harness_is_killed_heal_leaves_nothing_of_its_run_and_all_of_another() {
    let _turn = turn();
    let kills: u64 = std::env::var("FENCEPOST_KILLS")
        .ok()
        .and_then(|kills| kills.parse().ok())
        .unwrap_or(6);
    let seed = u64::from(std::process::id());
    println!("{kills} kills, moments drawn with seed {seed}");
    let mut moments = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let (_server, api) = toxiproxy();

    // Another run, alive all the while.
    let bystander_out = tempfile::tempdir().expect("a folder");
    let calm = bystander_out.path().join("calm.toml");
    std::fs::write(
        &calm,
        "name = \"calm\"\nfault = []\n[run]\ntime_limit = \"1h\"\nrate = 20\n",
    )
    .expect("written");
    let mut bystander = start(&calm, bystander_out.path(), &[]);
    until("the other run is under way", || {
        let history =
            folder_of(bystander_out.path(), "calm").map(|folder| folder.join("history.jsonl"));
        history.is_some_and(|path| std::fs::metadata(path).is_ok_and(|file| file.len() > 2_000))
    });
    let bystander_run = run_of(&folder_of(bystander_out.path(), "calm").expect("it is under way"));
    let nodes = left_behind(&bystander_run).len();
    assert_eq!(nodes, 8, "two services, a proxy, five workers");

    let mut recorded = 0;
    for round in 0..kills {
        let out = tempfile::tempdir().expect("a folder");
        let suite = forking_suite(out.path());
        let flags: &[&str] = if round % 2 == 0 {
            &["--toxiproxy", &api]
        } else {
            &[]
        };
        let mut victim = start(&suite, out.path(), flags);
        let moment = Duration::from_micros(u64::from(moments.next_u32()) % 1_500_000);
        std::thread::sleep(moment);
        victim.signal(Signal::SIGKILL);
        victim.0.wait().expect("it ends");

        let (code, stdout, stderr) = heal(&[]);
        let told = format!("round {round}, killed after {moment:?}: {stdout}{stderr}");
        assert_eq!(code, 0, "{told}");
        assert!(
            stdout.contains(&format!("run {bystander_run} is alive: left alone")),
            "{told}"
        );
        assert_eq!(proxies(&api), "{}", "{told}");
        if let Some(folder) = folder_of(out.path(), "forking") {
            assert_eq!(
                left_behind(&run_of(&folder)),
                Vec::<String>::new(),
                "{told}"
            );
            assert!(!folder.join("data").exists(), "{told}");
            let history = folder.join("history.jsonl");
            if std::fs::metadata(&history).is_ok_and(|file| file.len() > 0) {
                let (code, stdout, stderr) = outcome(
                    &fencepost()
                        .args(["check", "--json"])
                        .arg(&history)
                        .output()
                        .expect("it runs"),
                );
                assert!(matches!(code, 0 | 2), "{told}: {stdout}{stderr}");
                recorded += 1;
            }
        }
    }

    println!("{recorded} of the killed harnesses left a history; each of them checks");
    assert!(recorded > 0, "none was killed while it recorded");

    // The other run was not touched: it ends when it is told to, without any trouble.
    assert_eq!(left_behind(&bystander_run).len(), nodes);
    bystander.signal(Signal::SIGINT);
    let mut stdout = String::new();
    bystander
        .0
        .stdout
        .take()
        .expect("a pipe")
        .read_to_string(&mut stdout)
        .expect("UTF-8");
    bystander.0.wait().expect("it ends");
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
    let mut victim = start(
        &forking_suite(out.path()),
        out.path(),
        &["--toxiproxy", &api],
    );
    until("a zombie is on record", || {
        folder_of(out.path(), "forking").is_some_and(|folder| {
            std::fs::read_to_string(folder.join("history.jsonl"))
                .is_ok_and(|text| text.contains("zombie\",\"phase\":\"begin"))
        })
    });
    victim.signal(Signal::SIGKILL);
    victim.0.wait().expect("it ends");
    let run = run_of(&folder_of(out.path(), "forking").expect("it was under way"));
    assert!(
        proxies(&api).contains(&format!("fp-{run}-w1-lock")),
        "the proxies outlive the run"
    );
    until("only the forked children are left", || {
        left_behind(&run)
            .iter()
            .all(|line| line.starts_with("sleep 600"))
    });
    assert_eq!(left_behind(&run).len(), 5, "a child of each worker");

    let (code, stdout, stderr) = heal(&[&run]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(stdout.matches("killed pid").count(), 5, "{stdout}");
    assert_eq!(stdout.matches("removed proxy").count(), 10, "{stdout}");
    assert_eq!(
        (left_behind(&run), proxies(&api).as_str()),
        (Vec::new(), "{}")
    );
    let (code, _, stderr) = heal(&[&run]);
    assert_eq!(code, 64, "there is nothing left of it");
    assert!(stderr.contains("nothing of it is left to heal"), "{stderr}");
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
    let mut run = start(&suite, out.path(), &[]);
    run.0.wait().expect("it ends");
    let record: Value = serde_json::from_str(&read(
        &folder_of(out.path(), "short").expect("it ran"),
        "run.json",
    ))
    .expect("JSON");
    assert_eq!(record["troubles"], Value::Array(Vec::new()));
    assert_eq!(heal(&[]).1, "nothing to heal\n");
}

#[test]
fn doctor_tries_what_a_run_needs_and_says_what_it_saw() {
    let output = fencepost()
        .args(["doctor", "--json"])
        .output()
        .expect("it runs");
    let (code, stdout, stderr) = outcome(&output);
    let checks = only_json(&stdout)["checks"].clone();
    assert_eq!((code, stderr.as_str()), (0, ""), "{checks}");
    let checks = checks.as_array().expect("a list");
    let about = |word: &str| {
        checks
            .iter()
            .find(|check| {
                check["about"]
                    .as_str()
                    .is_some_and(|about| about.contains(word))
            })
            .expect("it is tried")
    };
    assert!(
        about("SIGSTOP")["text"]
            .as_str()
            .is_some_and(|text| text.contains("state T in all"))
    );
    assert!(
        about("fault proxy")["text"]
            .as_str()
            .is_some_and(|text| text.contains("a hole was put in"))
    );
    assert!(
        checks
            .iter()
            .filter(|check| check["needed"] == true)
            .all(|check| check["ok"] == true)
    );

    let output = fencepost()
        .args(["doctor", "--toxiproxy", "127.0.0.1:9"])
        .output()
        .expect("it runs");
    let (code, stdout, _) = outcome(&output);
    assert_eq!(code, 70);
    assert!(stdout.contains("NO   --toxiproxy"), "{stdout}");
}
