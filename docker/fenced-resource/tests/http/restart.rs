//! What a restart on the same data must keep: after an orderly stop, and after SIGKILL under load.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_fenced_resource::{Config, serve};
use reqwest::StatusCode;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::service::{ResourceClient, Service};

const CHILD_DATA: &str = "FENCED_RESOURCE_TEST_DATA";
const ANNOUNCEMENT: &str = "serving on ";

#[tokio::test]
async fn restart_keeps_the_high_water_and_the_value() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = Service::start(data.path()).await;
    assert_eq!(service.client.write("k", 43, "v").await.high_water(), 43);
    service.stop().await;

    let service = Service::start(data.path()).await;
    let client = &service.client;
    let stale = client.write("k", 42, "late").await;
    assert_eq!(stale.status, StatusCode::CONFLICT);
    assert_eq!(stale.high_water(), 43);
    assert_eq!(
        client.read("k").await.body,
        json!({"value": "v", "token": 43, "high_water": 43})
    );
    let scrape = client.request(reqwest::Method::GET, "/metrics").send();
    let text = scrape.await.expect("an answer").text().await;
    assert!(
        text.expect("a whole body")
            .contains("\nfencepost_resource_high_water{key=\"k\"} 43\n"),
        "the gauge should be there before the first write"
    );
    service.stop().await;
}

/// A process that is killed at the latest when the test is over.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test by itself: the process that the next test kills.
#[tokio::test]
#[ignore = "runs as a child process of killed_service_keeps_every_acknowledged_write"]
async fn serve_as_a_child_process() {
    let Some(data) = std::env::var_os(CHILD_DATA) else {
        println!("skipped: {CHILD_DATA} is not set");
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    println!("{ANNOUNCEMENT}{address}");
    // The parent holds the other end of standard input; when it is gone, nobody needs this process.
    let parent_gone = tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink()));
    let served = serve(listener, Config::new(data), async {
        let _ = parent_gone.await;
    });
    assert!(served.await.is_ok());
}

fn start_child(data: &std::path::Path) -> (KilledOnDrop, SocketAddr) {
    let mut child = Command::new(std::env::current_exe().expect("the path of this test"))
        .args(["--ignored", "--exact", "--nocapture"])
        .arg("restart::serve_as_a_child_process")
        .env(CHILD_DATA, data)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a second process of this test");
    let output = child.stdout.take().expect("its output is piped");
    let child = KilledOnDrop(child);
    let address = BufReader::new(output)
        .lines()
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once(ANNOUNCEMENT)?.1.to_owned()))
        .expect("the child announces its address");
    (child, address.parse().expect("an address"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_service_keeps_every_acknowledged_write() {
    const WRITERS: u64 = 8;
    const ACKNOWLEDGED_BEFORE_KILL: u64 = 200;
    let data = tempfile::tempdir().expect("a temporary directory");
    let (child, address) = start_child(data.path());
    let client = ResourceClient::new(address);

    // Each writer has a key of its own and raises its token until the service is gone.
    let total = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (client, total) = (client.clone(), total.clone());
            tokio::spawn(async move {
                let key = format!("k{writer}");
                let mut acknowledged = 0;
                for token in 1.. {
                    let value = format!("{key}-{token}");
                    let Ok(response) = client.try_write(&key, token, &value).await else {
                        break;
                    };
                    assert_eq!(response.status(), StatusCode::OK);
                    acknowledged = token;
                    total.fetch_add(1, Ordering::SeqCst);
                }
                acknowledged
            })
        })
        .collect();
    while total.load(Ordering::SeqCst) < ACKNOWLEDGED_BEFORE_KILL {
        assert!(
            !writers.iter().any(tokio::task::JoinHandle::is_finished),
            "a writer ended before the kill"
        );
        tokio::task::yield_now().await;
    }
    drop(child);

    let service = Service::start(data.path()).await;
    for (index, writer) in writers.into_iter().enumerate() {
        let acknowledged = writer.await.expect("a writer that did not panic");
        let key = format!("k{index}");
        let read = service.client.read(&key).await;
        // The write in flight at the kill may have happened or not; no other may be missing.
        assert!(
            [acknowledged, acknowledged + 1].contains(&read.high_water()),
            "{key}: {acknowledged} was acknowledged, found {read:?}"
        );
        if read.high_water() > 0 {
            let value = format!("{key}-{}", read.high_water());
            assert_eq!(read.body["value"], value.as_str());
            let stale = service
                .client
                .write(&key, read.high_water() - 1, "late")
                .await;
            assert_eq!(stale.status, StatusCode::CONFLICT, "{key}");
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn a_second_service_on_the_same_data_fails_and_names_the_store() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = Service::start(data.path()).await;
    assert_eq!(service.client.json("/healthz").await.status, StatusCode::OK);

    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let error = serve(listener, Config::new(data.path()), std::future::pending())
        .await
        .expect_err("the store is in use");
    let path = data.path().join("resource.redb");
    let start = format!("open the store {}: ", path.display());
    assert!(error.to_string().starts_with(&start), "{error}");
    service.stop().await;
}

#[tokio::test]
async fn half_a_request_does_not_hold_the_service_open() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = Service::start(data.path()).await;
    let mut stuck = TcpStream::connect(service.address)
        .await
        .expect("a connection");
    let head =
        b"PUT /v1/keys/k HTTP/1.1\r\nHost: x\r\nFencing-Token: 1\r\nContent-Length: 9\r\n\r\nhalf";
    stuck.write_all(head).await.expect("a sent half");
    // Answered over another connection, so the service has accepted the stuck one by then.
    assert_eq!(service.client.read("k").await.status, StatusCode::OK);
    service.stop().await;

    let service = Service::start(data.path()).await;
    assert_eq!(
        service.client.read("k").await.body,
        json!({"value": null, "high_water": 0})
    );
    service.stop().await;
}

#[tokio::test]
async fn a_missing_data_directory_is_made() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let inner = data.path().join("not/yet/there");
    let service = Service::start(&inner).await;
    let answer = service.client.write("k", 1, "v").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(inner.join("resource.redb").is_file());
    service.stop().await;
}
