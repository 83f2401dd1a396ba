//! Whatever was answered survives a SIGKILL in the middle of everything.
//!
//! The service runs in a process of its own: this test's own program, asked for the one test that
//! serves until it is killed.

mod service;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fencepost_lock_service::{Config, serve};
use service::{Client, Service, refused, token};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

const DATA: &str = "FENCEPOST_TEST_LOCK_DATA";
const ANNOUNCEMENT: &str = "victim listens on ";

#[tokio::test]
#[ignore = "is the process that the other test starts and kills"]
async fn victim_serves_until_it_is_killed() {
    let data = std::env::var_os(DATA).expect("the other test says where the data is");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    println!(
        "\n{ANNOUNCEMENT}{}",
        listener.local_addr().expect("bound port")
    );
    // Where the other test itself is killed, its end of standard input closes, and this ends too.
    let (orphan, orphaned) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let ended = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop((ended, orphan));
    });
    let config = Config::new(PathBuf::from(data));
    let served = serve(listener, config, async { drop(orphaned.await) }).await;
    assert!(served.is_ok(), "the service ended by itself: {served:?}");
}

/// The victim; killed when it is dropped, so that a failing test leaves nothing behind.
struct Victim {
    process: Child,
    client: Client,
}

impl Victim {
    fn start(data: &Path) -> Self {
        let program = std::env::current_exe().expect("this test's program");
        let mut process = Command::new(program)
            .args(["--exact", "victim_serves_until_it_is_killed"])
            .args(["--ignored", "--nocapture", "--test-threads=1"])
            .env(DATA, data)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let output = process.stdout.take().expect("piped");
        let address = BufReader::new(output)
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix(ANNOUNCEMENT).map(str::to_owned));
        let client = Client::new(address.expect("the victim says where it listens"));
        Self { process, client }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // On Unix this is SIGKILL. It fails only where the process has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answered_tokens_and_holds_survive_a_kill_in_mid_load() {
    const LOCKS: usize = 4;
    const KILLS: u64 = 8;
    const GRANTS_BEFORE_A_KILL: u64 = 40;
    let data = tempfile::tempdir().expect("a temporary directory");
    let newest: Arc<[AtomicU64; LOCKS]> = Arc::default();
    for kill in 1..=KILLS {
        let victim = Victim::start(data.path());
        let keeper = victim.client.acquire("kept", "keeper", 600_000, 0).await;
        assert_eq!(keeper, token(kill, 600_000), "the keeper acquires again");
        let answered = Arc::new(AtomicU64::new(0));
        let mut load = Vec::new();
        for lock in 0..LOCKS {
            let client = victim.client.clone();
            let (newest, answered) = (newest.clone(), answered.clone());
            load.push(tokio::spawn(async move {
                let path = format!("/v1/locks/{lock}/acquire");
                let body = r#"{"client":"c1","ttl_ms":600000}"#;
                // It ends with the first request that the killed service does not answer.
                while let Ok((_, text)) = client.send(reqwest::Method::POST, &path, body).await {
                    let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
                    let token = answer["token"].as_u64().expect("a token");
                    let before = newest[lock].swap(token, Ordering::SeqCst);
                    assert!(token > before, "{token} after {before}");
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            }));
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        while answered.load(Ordering::SeqCst) < GRANTS_BEFORE_A_KILL {
            let loading = load.iter().all(|task| !task.is_finished());
            assert!(loading, "a client ended before the kill");
            assert!(Instant::now() < deadline, "too few grants before a kill");
            tokio::task::yield_now().await;
        }
        drop(victim);
        for task in load {
            task.await.expect("tokens rose");
        }
    }

    let service = Service::start(data.path()).await;
    let client = &service.client;
    let taken = client.acquire("kept", "thief", 1000, 0).await;
    assert_eq!(taken, refused("held"));
    assert_eq!(
        client.renew("kept", "keeper", KILLS, 1000).await,
        token(KILLS, 1000)
    );
    for lock in 0..LOCKS {
        let view = client.look(&lock.to_string()).await;
        let answered = newest[lock].load(Ordering::SeqCst);
        let issued = view["token"].as_u64().expect("a token");
        assert!(issued >= answered, "lock {lock}: {issued} >= {answered}");
        assert_eq!(view["holder"]["token"], issued, "lock {lock}");
    }
    service.stop().await.expect("a clean stop");
}
