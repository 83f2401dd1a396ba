//! etcd and PostgreSQL as nodes of a local target: started, stopped with all that they fork, killed, started again on
//! their data, and gone at the end. Clients of them are not needed for this, so every build runs it.

#![allow(
    clippy::await_holding_lock,
    reason = "each test has a runtime of its own, so that its turn keeps no other task waiting"
)]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::journal::Journal;
use fencepost::proxies::{Proxies, Stream, Toxic};
use fencepost::targets::systems::SYSTEMS;
use fencepost::targets::{LocalPlan, LocalTarget, Ports, Service, Wire, proc};
use fencepost_workloads::seed::Seed;
use fencepost_workloads::suite::Suite;
use support::left_behind;

/// Whether all of `names` can be started here. What cannot is said past the capture of the test runner.
fn installed(names: &[&str]) -> bool {
    let wanted = SYSTEMS.iter().filter(|system| names.contains(&system.name));
    let missing: Vec<String> = wanted
        .filter_map(|system| (system.installed)().err())
        .collect();
    for why in &missing {
        let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
    }
    missing.is_empty()
}

/// One stand at a time: each starts servers.
async fn turn() -> tokio::sync::MutexGuard<'static, ()> {
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    TURN.lock().await
}

struct Stand {
    run: String,
    target: LocalTarget,
    proxies: Proxies,
    between: Vec<Wire>,
    _ports: Ports,
    folder: tempfile::TempDir,
}

/// Brings a suite's servers up, without any worker.
async fn bring_up(suite: &str) -> Stand {
    let folder = tempfile::tempdir().expect("a folder");
    let suite = Suite::parse(suite, "test").expect("a fine suite");
    let run = format!("{:08x}", fencepost::machine::entropy() as u32);
    let state = folder.path().join("state");
    let journal = Arc::new(Journal::create(&state, &run, None).expect("made"));
    let mut ports = Ports::new(Seed(fencepost::machine::entropy()).stream("ports"));
    let plan = LocalPlan {
        suite: &suite,
        run: &run,
        folder: folder.path(),
        lock_defect: None,
        resource_defect: None,
        keep: false,
        toxiproxy: None,
        journal,
    };
    // The test's own executable is not the binary that has the proxy in it.
    let mut target =
        LocalTarget::open_with(Path::new(env!("CARGO_BIN_EXE_fencepost")), plan, &mut ports)
            .await
            .expect("the proxy is up");
    let proxies = Proxies::connect(target.proxy_api())
        .await
        .expect("it answers");
    let [between, _] = target.wires(1, &mut ports).expect("ports");
    for wire in &between {
        let made = proxies
            .create(&wire.proxy, wire.listen, wire.upstream)
            .await;
        assert_eq!(made.expect("made"), wire.listen);
    }
    target.start_systems().await.expect("every node is up");
    Stand {
        run,
        target,
        proxies,
        between,
        _ports: ports,
        folder,
    }
}

impl Stand {
    fn take_down(self) {
        assert_eq!(self.target.take_down(false), Vec::<String>::new());
        assert_eq!(left_behind(&self.run), Vec::<String>::new());
        assert!(!self.folder.path().join("data").exists());
        let outside = std::env::temp_dir().join(format!("fencepost-{}", self.run));
        assert!(!outside.exists(), "{}", outside.display());
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

async fn leader_other_than(stand: &Stand, before: Option<usize>) -> usize {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match stand.target.leader().await {
            Some(leads) if Some(leads) != before => return leads,
            _ => assert!(Instant::now() < deadline, "nobody but {before:?} leads"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

const ETCD: &str = "[lock]\nkind = \"etcd\"\nlease = \"2s\"\n";
const POSTGRES: &str = "[lock]\nkind = \"postgres\"\n[resource]\nkind = \"postgres\"\n";

#[tokio::test]
async fn another_member_leads_while_its_peers_do_not_reach_the_leader_and_after_it_was_killed() {
    if !installed(&["etcd"]) {
        return;
    }
    let _turn = turn().await;
    let stand = bring_up(ETCD).await;
    assert_eq!(stand.target.serving(Service::Lock).len(), 3);
    assert_eq!(stand.between.len(), 3);

    let first = leader_other_than(&stand, None).await;
    let link = format!("{}-peers", stand.target.name(first));
    let wire = stand.between.iter().find(|wire| wire.link == link);
    let wire = wire.expect("its peers' link");
    let hole = Toxic::hole(Stream::Both);
    stand
        .proxies
        .add(&wire.proxy, hole)
        .await
        .expect("in force");
    let second = leader_other_than(&stand, Some(first)).await;
    stand.proxies.clear(&wire.proxy).await.expect("cleared");

    stand
        .target
        .node(second)
        .lock()
        .expect("no panic")
        .kill()
        .expect("killed");
    leader_other_than(&stand, Some(second)).await;
    let evidence = stand
        .target
        .start_again(second)
        .await
        .expect("it comes back");
    assert!(evidence.contains("answers after"), "{evidence}");
    stand.take_down();
}

#[tokio::test]
async fn no_member_knows_an_address_of_another_that_is_not_a_proxy() {
    if !installed(&["etcd"]) {
        return;
    }
    let _turn = turn().await;
    let stand = bring_up(ETCD).await;
    let [_, to_clients] = stand
        .target
        .wires(1, &mut Ports::new(Seed(1).stream("ports")))
        .expect("ports");
    let lock = to_clients.iter().find(|wire| wire.link == "w1-lock");
    let members = post(lock.expect("a link").upstream, "/v3/cluster/member/list");
    for wire in &stand.between {
        assert!(members.contains(&wire.listen.to_string()), "{members}");
        assert!(!members.contains(&wire.upstream.to_string()), "{members}");
    }
    for wire in to_clients.iter().filter(|wire| wire.link == "w1-lock") {
        assert!(!members.contains(&wire.upstream.to_string()), "{members}");
    }
    stand.take_down();
}

fn post(to: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(to).expect("it listens");
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {to}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

/// Opens a session, which the server serves with a process of its own.
fn session(to: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(to).expect("it listens");
    let words = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
    let length = u32::try_from(words.len() + 4).expect("short").to_be_bytes();
    stream
        .write_all(&[&length[..], words].concat())
        .expect("sent");
    let mut first = [0_u8; 1];
    stream.read_exact(&mut first).expect("answered");
    assert_eq!(&first, b"R", "it lets us in");
    stream
}

#[tokio::test]
async fn a_stop_and_a_kill_of_postgresql_reach_its_backends_in_sessions_of_their_own() {
    if !installed(&["postgres"]) {
        return;
    }
    let _turn = turn().await;
    let stand = bring_up(POSTGRES).await;
    let serving = stand.target.serving(Service::Lock);
    assert_eq!(
        serving,
        stand.target.serving(Service::Resource),
        "one server is both"
    );
    let [_, to_clients] = stand
        .target
        .wires(1, &mut Ports::new(Seed(2).stream("ports")))
        .expect("ports");
    let address = to_clients[0].upstream;
    let _session = session(address);
    let node = stand.target.node(serving[0]);
    let pids = {
        let node = node.lock().expect("no panic");
        // The server, its checkpointer and other helpers, and the session's backend.
        until("the backend is seen", || node.processes().len() > 5);
        let pids = node.processes();
        node.stop().expect("stopped");
        assert!(
            pids.iter()
                .all(|&pid| proc::is_stopped(pid) || !proc::is_alive(pid))
        );
        node.resume().expect("resumed");
        assert!(pids.iter().all(|&pid| !proc::is_stopped(pid)));
        pids
    };
    node.lock().expect("no panic").kill().expect("killed");
    assert!(pids.iter().all(|&pid| !proc::is_alive(pid)));
    stand
        .target
        .start_again(serving[0])
        .await
        .expect("it recovers");
    let _session = session(address);
    let segments = shared_memory();
    stand.take_down();
    assert!(shared_memory() < segments, "its shared memory is gone");
}

/// How many segments of System V shared memory there are.
fn shared_memory() -> usize {
    let text = std::fs::read_to_string("/proc/sysvipc/shm").expect("a Linux machine");
    text.lines().count()
}

/// Servers of the user's: here those of a stand, which a run knows by their addresses alone.
#[cfg(all(feature = "etcd", feature = "postgres"))]
mod external {
    use std::path::PathBuf;
    use std::process::{Child, Stdio};

    use serde_json::Value;
    use support::{fencepost, only_json, outcome};

    use super::*;

    const BOTH: &str = "[lock]\nkind = \"etcd\"\nlease = \"2s\"\n[resource]\nkind = \"postgres\"\n";
    const SECRET: &str = "correct-horse-battery-staple";

    struct Theirs {
        stand: Stand,
        etcd: Vec<SocketAddr>,
        postgres: SocketAddr,
    }

    async fn theirs() -> Option<Theirs> {
        if !installed(&["etcd", "postgres"]) {
            return None;
        }
        let stand = bring_up(BOTH).await;
        let [_, wires] = stand
            .target
            .wires(1, &mut Ports::new(Seed(3).stream("ports")))
            .expect("ports");
        let of = |link: &str| -> Vec<SocketAddr> {
            let wires = wires.iter().filter(|wire| wire.link == link);
            wires.map(|wire| wire.upstream).collect()
        };
        let (etcd, postgres) = (of("w1-lock"), of("w1-resource")[0]);
        let theirs = Theirs {
            stand,
            etcd,
            postgres,
        };
        theirs.ask_for_a_password();
        Some(theirs)
    }

    impl Theirs {
        /// From now on the server lets its user `theirs` in with the password alone.
        fn ask_for_a_password(&self) {
            self.sql(&format!(
                "CREATE ROLE theirs LOGIN SUPERUSER PASSWORD '{SECRET}'"
            ));
            let told = self.sql("SELECT 'rules:' || current_setting('hba_file') || ':end'");
            let rules = told
                .split_once("rules:")
                .and_then(|(_, rest)| rest.split_once(":end"))
                .map(|(path, _)| Path::new(path))
                .expect("it says where its rules are");
            let before = std::fs::read_to_string(rules).expect("a file");
            let asking = format!("host all theirs 127.0.0.1/32 scram-sha-256\n{before}");
            std::fs::write(rules, asking).expect("written");
            self.sql("SELECT pg_reload_conf()");
            // A password by SCRAM is asked for by the code 10.
            until("it asks for a password", || {
                let mut stream = TcpStream::connect(self.postgres).expect("it listens");
                let words = b"\0\0\0\x27\0\x03\0\0user\0theirs\0database\0postgres\0\0";
                stream.write_all(words).expect("sent");
                let mut asked = [0_u8; 9];
                stream.read_exact(&mut asked).is_ok() && asked[0] == b'R' && asked[8] == 10
            });
        }

        fn suite(&self, seconds: u32) -> PathBuf {
            let path = self.stand.folder.path().join("theirs.toml");
            let endpoints: Vec<String> = self.etcd.iter().map(|at| format!("\"{at}\"")).collect();
            let text = format!(
                "name = \"theirs\"\n[run]\ntime_limit = \"{seconds}s\"\n\
                 [lock]\nkind = \"etcd\"\nlease = \"2s\"\nendpoints = [{}]\n\
                 [resource]\nkind = \"postgres\"\nurl = \"postgres://theirs@{}/postgres\"\n\
                 password_env = \"THEIR_PASSWORD\"\n[worker]\ntimeout = \"1s\"\n\
                 [expect]\nzombie_writes = 1\n[[fault]]\nkind = \"zombie\"\nevery = \"2s\"\nlength = \"8s\"\n",
                endpoints.join(", "),
                self.postgres
            );
            std::fs::write(&path, text).expect("written");
            path
        }

        fn start(&self, seconds: u32, flags: &[&str]) -> Child {
            let out = self.stand.folder.path().join("out");
            let mut command = fencepost();
            command.arg("run").arg(self.suite(seconds)).args(flags);
            command
                .args(["--target", "external", "--json", "--out"])
                .arg(out);
            command.env("THEIR_PASSWORD", SECRET);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().expect("it runs")
        }

        /// How many keys there are under the name of any run.
        fn keys(&self) -> bool {
            // The range from "fp_" to "fp`", in base64.
            let body = r#"{"key":"ZnBf","range_end":"ZnBg","keys_only":true}"#;
            let mut stream = TcpStream::connect(self.etcd[0]).expect("it listens");
            let head = format!(
                "POST /v3/kv/range HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(head.as_bytes()).expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("answered");
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            answer.contains("\"kvs\"")
        }

        /// What the server answers to a statement, as it comes over the wire.
        fn sql(&self, statement: &str) -> String {
            let mut stream = session(self.postgres);
            let length = u32::try_from(statement.len() + 5)
                .expect("short")
                .to_be_bytes();
            let query = [b"Q", &length[..], statement.as_bytes(), b"\0"].concat();
            let goodbye = [b'X', 0, 0, 0, 4];
            stream
                .write_all(&[&query[..], &goodbye].concat())
                .expect("sent");
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).expect("answered");
            String::from_utf8_lossy(&answer).into_owned()
        }

        fn schemas(&self) -> bool {
            let answer = self
                .sql("SELECT 'found:' || nspname FROM pg_namespace WHERE nspname LIKE 'fp\\_%'");
            answer.contains("found:")
        }

        fn nothing_of_a_run(&self) {
            assert!(!self.keys(), "keys of a run are left");
            assert!(!self.schemas(), "tables of a run are left");
        }
    }

    /// Files under `folder` that hold the secret.
    fn holding_the_secret(folder: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder)
            .expect("a folder")
            .filter_map(Result::ok)
        {
            let path = entry.path();
            if path.is_dir() && !path.is_symlink() {
                found.extend(holding_the_secret(&path));
            } else if std::fs::read(&path).is_ok_and(|bytes| {
                bytes
                    .windows(SECRET.len())
                    .any(|part| part == SECRET.as_bytes())
            }) {
                found.push(path);
            }
        }
        found
    }

    fn in_a_command_line() -> bool {
        let entries = std::fs::read_dir("/proc").expect("a Linux machine");
        entries.filter_map(Result::ok).any(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            line.windows(SECRET.len())
                .any(|part| part == SECRET.as_bytes())
        })
    }

    #[test]
    fn an_address_of_theirs_that_does_not_answer_is_told_with_its_line_before_anything_is_begun() {
        let folder = tempfile::tempdir().expect("a folder");
        let (suite, out) = (folder.path().join("dead.toml"), folder.path().join("out"));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let dead = listener.local_addr().expect("an address");
        drop(listener);
        let text = format!(
            "[target]\nkind = \"external\"\n[lock]\nkind = \"etcd\"\nendpoints = [\"{dead}\"]\n\
             [resource]\nkind = \"etcd\"\nendpoints = [\"{dead}\"]\n"
        );
        std::fs::write(&suite, text).expect("written");
        let run = fencepost()
            .arg("run")
            .arg(&suite)
            .arg("--out")
            .arg(&out)
            .output();
        let (code, stdout, stderr) = outcome(&run.expect("it runs"));
        assert_eq!(
            (code, stdout.as_str(), stderr.lines().count()),
            (64, "", 1),
            "{stderr}"
        );
        let told = format!(
            "dead.toml, line 5: `endpoints = [\"{dead}\"]`: lock.endpoints: {dead} does not answer"
        );
        assert!(stderr.contains(&told), "{stderr}");
        assert!(!out.exists(), "nothing was begun");
    }

    #[tokio::test]
    async fn a_run_on_their_servers_is_judged_strikes_none_leaves_nothing_and_tells_no_password() {
        let _turn = turn().await;
        let Some(theirs) = theirs().await else { return };
        let pids = |stand: &Stand| -> Vec<i32> {
            let nodes = stand.target.standing().into_iter();
            nodes
                .filter_map(|(_, node)| node.lock().expect("no panic").pid())
                .collect()
        };
        let before = pids(&theirs.stand);
        let mut run = theirs.start(14, &["--seed", "3"]);
        until("the run has made its place", || {
            theirs.keys() && theirs.schemas()
        });
        assert!(!in_a_command_line());
        let ended = loop {
            // It cannot end before its time is over, so that this looks a few times at least.
            assert!(!in_a_command_line());
            match run.try_wait().expect("ours") {
                Some(_) => break run.wait_with_output().expect("ours"),
                None => std::thread::sleep(Duration::from_millis(500)),
            }
        };
        let (code, stdout, stderr) = outcome(&ended);
        let end = only_json(&stdout);
        assert_eq!(
            (code, &end["verdict"]),
            (0, &Value::from("valid")),
            "{end} {stderr}"
        );
        assert!(
            end["coverage"]["zombie_writes_refused"].as_u64() >= Some(1),
            "{end}"
        );
        assert_eq!(before, pids(&theirs.stand));
        theirs.nothing_of_a_run();
        assert!(!stdout.contains(SECRET) && !stderr.contains(SECRET));
        let kept = theirs.stand.folder.path().join("out");
        assert_eq!(holding_the_secret(&kept), Vec::<PathBuf>::new());
        assert_eq!(
            holding_the_secret(&support::state_home()),
            Vec::<PathBuf>::new()
        );
        theirs.stand.take_down();
    }

    #[tokio::test]
    async fn what_a_killed_run_made_on_their_servers_is_removed_by_heal() {
        let _turn = turn().await;
        let Some(theirs) = theirs().await else { return };
        let mut run = theirs.start(60, &[]);
        until("the run has made its place", || {
            theirs.keys() && theirs.schemas()
        });
        run.kill().expect("ours");
        run.wait().expect("reaped");
        assert_eq!(
            holding_the_secret(&support::state_home()),
            Vec::<PathBuf>::new()
        );
        let heal = || {
            let mut command = fencepost();
            outcome(
                &command
                    .arg("heal")
                    .env("THEIR_PASSWORD", SECRET)
                    .output()
                    .expect("it runs"),
            )
        };
        let (code, stdout, stderr) = heal();
        assert_eq!(code, 0, "{stdout} {stderr}");
        assert!(
            stdout.contains("removed its keys and tables in etcd at "),
            "{stdout}"
        );
        assert!(
            stdout.contains("removed its keys and tables in postgres at "),
            "{stdout}"
        );
        theirs.nothing_of_a_run();
        theirs.stand.take_down();
    }

    #[tokio::test]
    async fn a_database_that_holds_something_else_is_written_to_only_by_force() {
        let _turn = turn().await;
        let Some(theirs) = theirs().await else { return };
        theirs.sql("CREATE TABLE accounts (id int)");
        let (code, _, stderr) = outcome(&theirs.start(1, &[]).wait_with_output().expect("ours"));
        assert_eq!(code, 64, "{stderr}");
        assert!(
            stderr.contains("holds public.accounts: an empty database is right, or --force"),
            "{stderr}"
        );
        theirs.nothing_of_a_run();
        let (code, stdout, stderr) = outcome(
            &theirs
                .start(1, &["--force"])
                .wait_with_output()
                .expect("ours"),
        );
        assert_eq!(code, 2, "too short to prove anything: {stdout} {stderr}");
        theirs.nothing_of_a_run();
        let accounts =
            theirs.sql("SELECT 'found:' || relname FROM pg_class WHERE relname = 'accounts'");
        assert!(accounts.contains("found:accounts"), "theirs is left alone");
        theirs.stand.take_down();
    }
}
