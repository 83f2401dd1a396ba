//! etcd and PostgreSQL as nodes of a local target: started, stopped with all that they fork, killed, started again on
//! their data, and gone at the end. Clients of them are not needed for this, so every build runs it.

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
use support::{left_behind, turn};

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
    let _turn = turn();
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
    let _turn = turn();
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
    let _turn = turn();
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
