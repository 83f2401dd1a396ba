//! The driver against the embedded server, and against servers that misbehave. Real sockets, loopback only.

use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::driver::Driver;
use super::*;

/// How long what must happen may take.
const SOON: Duration = Duration::from_secs(10);

/// An embedded server on a thread and a runtime of its own.
struct Server {
    api: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start_on(api: &str) -> Server {
        let listener = std::net::TcpListener::bind(api).expect("a port for the API");
        listener
            .set_nonblocking(true)
            .expect("a listener can be non-blocking");
        let api = listener
            .local_addr()
            .expect("a bound socket has an address");
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).expect("tokio takes the listener");
                let served = fencepost_fault_proxy::serve(listener, async {
                    let _ = stopped.await;
                });
                served.await.expect("the server ends well");
            });
        });
        Server {
            api,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    fn start() -> Server {
        Server::start_on("127.0.0.1:0")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// A server, a connected driver, and a proxy named `p` before a listener of the test's own.
struct Bench {
    proxies: Proxies,
    upstream: TcpListener,
    listen: SocketAddr,
    _server: Server,
}

impl Bench {
    async fn new() -> Bench {
        let server = Server::start();
        let proxies = Proxies::connect(server.api)
            .await
            .expect("the embedded server answers");
        let upstream = TcpListener::bind(any_port()).await.expect("a port");
        let target = upstream.local_addr().expect("an address");
        let listen = proxies
            .create("p", any_port(), target)
            .await
            .expect("a proxy");
        Bench {
            proxies,
            upstream,
            listen,
            _server: server,
        }
    }

    async fn pair(&self) -> (TcpStream, TcpStream) {
        let mut client = TcpStream::connect(self.listen)
            .await
            .expect("the proxy accepts");
        let (mut server, _) = self.upstream.accept().await.expect("the proxy dials");
        client.write_all(b"?").await.expect("a write");
        hears(&mut server, "?").await;
        (client, server)
    }
}

async fn hears(stream: &mut TcpStream, text: &str) {
    let mut heard = vec![0; text.len()];
    let read = tokio::time::timeout(SOON, stream.read_exact(&mut heard)).await;
    read.expect("in time").expect("bytes arrive");
    assert_eq!(String::from_utf8_lossy(&heard), text);
}

async fn ends(stream: &mut TcpStream) {
    let read = tokio::time::timeout(SOON, stream.read(&mut [0; 8])).await;
    assert_eq!(read.expect("in time").expect("an end and no error"), 0);
}

#[tokio::test]
async fn a_new_proxy_listens_where_it_says_and_reads_back_as_wanted() {
    let bench = Bench::new().await;
    let (mut client, mut server) = bench.pair().await;
    server.write_all(b"hello").await.expect("a write");
    hears(&mut client, "hello").await;
    let state = bench.proxies.state("p").await.expect("a state");
    assert_eq!(state.listen, bench.listen.to_string());
    assert!(state.enabled && state.toxics.is_empty());
    assert_eq!(
        bench.proxies.version().await.expect("a version"),
        "2.12.0-fencepost"
    );
}

#[tokio::test]
async fn every_toxic_goes_on_every_stream_and_all_are_cleared() {
    let bench = Bench::new().await;
    let kinds: [fn(Stream) -> Toxic; 7] = [
        Toxic::hole,
        |stream| Toxic::Timeout { ms: 60_000, stream },
        |stream| Toxic::Latency {
            ms: 3_600_000,
            jitter_ms: 2,
            stream,
        },
        |stream| Toxic::Bandwidth {
            kilobytes_per_second: 0,
            stream,
        },
        |stream| Toxic::ResetPeer { ms: 7, stream },
        |stream| Toxic::SlowClose { ms: 7, stream },
        |stream| Toxic::LimitData { bytes: 7, stream },
    ];
    for kind in kinds {
        for (stream, count) in [(Stream::Up, 1), (Stream::Down, 1), (Stream::Both, 2)] {
            let toxic = kind(stream);
            bench
                .proxies
                .add("p", toxic)
                .await
                .unwrap_or_else(|error| panic!("{toxic}: {error}"));
            let state = bench.proxies.state("p").await.expect("a state");
            assert_eq!(state.toxics.len(), count, "{toxic}");
            assert!(
                state.toxics.iter().all(|shown| shown.kind == toxic.kind()),
                "{toxic}"
            );
            assert_eq!(
                bench.proxies.clear("p").await.expect("cleared"),
                Cleared::Removed
            );
            assert!(
                bench
                    .proxies
                    .state("p")
                    .await
                    .expect("a state")
                    .toxics
                    .is_empty(),
                "{toxic}"
            );
        }
    }
}

#[tokio::test]
async fn a_lost_reply_shows_in_the_bytes_and_clearing_ends_the_connection() {
    let bench = Bench::new().await;
    let (mut client, mut server) = bench.pair().await;
    bench
        .proxies
        .add("p", Toxic::hole(Stream::Down))
        .await
        .expect("a hole");
    client.write_all(b"request").await.expect("a write");
    hears(&mut server, "request").await;
    server.write_all(b"reply").await.expect("a write");
    let start = Instant::now();
    loop {
        let bytes = bench
            .proxies
            .bytes("p")
            .await
            .expect("an answer")
            .expect("the embedded server counts");
        assert_eq!(bytes.down, 0, "no reply passes");
        if bytes.down_received == 5 {
            assert_eq!((bytes.up, bytes.up_received), (8, 8));
            break;
        }
        assert!(start.elapsed() < SOON, "{bytes:?}");
    }
    bench.proxies.clear("p").await.expect("cleared");
    ends(&mut client).await;
    ends(&mut server).await;
}

#[tokio::test]
async fn a_disabled_proxy_refuses_and_reset_brings_all_back() {
    let bench = Bench::new().await;
    bench
        .proxies
        .set_enabled("p", false)
        .await
        .expect("disabled");
    assert!(TcpStream::connect(bench.listen).await.is_err());
    bench.proxies.set_enabled("p", true).await.expect("enabled");
    bench.pair().await;
    bench
        .proxies
        .add("p", Toxic::hole(Stream::Both))
        .await
        .expect("a hole");
    bench
        .proxies
        .set_enabled("p", false)
        .await
        .expect("disabled");
    bench.proxies.reset().await.expect("reset");
    bench.pair().await;
}

#[tokio::test]
async fn a_toxic_that_is_not_in_force_is_an_error_that_names_the_proxy() {
    let bench = Bench::new().await;
    let slow = |ms| Toxic::Latency {
        ms,
        jitter_ms: 0,
        stream: Stream::Up,
    };
    bench.proxies.add("p", slow(5)).await.expect("a latency");
    let error = bench
        .proxies
        .add("p", slow(9))
        .await
        .expect_err("another latency stands there");
    assert_eq!(error.subject, "p");
    assert!(matches!(error.cause, Cause::NotInForce { .. }), "{error}");
    let error = bench
        .proxies
        .add("nobody", slow(5))
        .await
        .expect_err("no such proxy");
    assert_eq!(
        error.to_string(),
        "failed to install latency latency=5 jitter=0 upstream (nobody): toxiproxy answered 404: proxy not found"
    );
    bench.proxies.delete("p").await.expect("deleted");
    bench
        .proxies
        .delete("p")
        .await
        .expect("deleting twice is no error");
    assert!(bench.proxies.state("p").await.is_err());
}

#[tokio::test]
async fn creating_over_an_equal_proxy_drops_its_toxics() {
    let bench = Bench::new().await;
    bench
        .proxies
        .add("p", Toxic::hole(Stream::Both))
        .await
        .expect("a hole");
    let target = bench.upstream.local_addr().expect("an address");
    let listen = bench
        .proxies
        .create("p", bench.listen, target)
        .await
        .expect("created anew");
    assert_eq!(listen, bench.listen);
    assert!(
        bench
            .proxies
            .state("p")
            .await
            .expect("a state")
            .toxics
            .is_empty()
    );
}

#[test]
fn recreating_keeps_addresses_and_state_and_drops_toxics() {
    let server = Server::start();
    let mut driver = Driver::new(server.api, Arc::default()).expect("a driver");
    let upstream = SocketAddr::from(([127, 0, 0, 1], 9));
    let listen = driver.create("p", any_port(), upstream).expect("a proxy");
    driver.add("p", Toxic::hole(Stream::Both)).expect("a hole");
    driver.set_enabled("p", false).expect("disabled");
    let before = driver.state("p").expect("a state");
    driver.recreate(&before).expect("made anew");
    let after = driver.state("p").expect("a state");
    assert_eq!(
        (after.listen, after.enabled, after.toxics),
        (listen.to_string(), false, Vec::new())
    );
}

#[tokio::test]
async fn a_server_that_hangs_does_not_hang_the_caller() {
    // The kernel completes the connections; nobody ever answers.
    let silent = TcpListener::bind(any_port()).await.expect("a port");
    let api = silent.local_addr().expect("an address");
    let start = Instant::now();
    let error = Proxies::connect_within(api, Duration::from_millis(200))
        .await
        .expect_err("no answer");
    assert!(matches!(error.cause, Cause::Deadline(_)), "{error}");
    assert!(start.elapsed() < SOON);
}

#[tokio::test]
async fn calls_fail_while_the_server_is_down_and_work_when_it_is_back() {
    let server = Server::start();
    let api = server.api;
    let proxies = Proxies::connect(api).await.expect("the server answers");
    let target = SocketAddr::from(([127, 0, 0, 1], 9));
    proxies
        .create("p", any_port(), target)
        .await
        .expect("a proxy");
    drop(server);
    let error = proxies
        .add("p", Toxic::hole(Stream::Both))
        .await
        .expect_err("nobody is there");
    assert!(matches!(error.cause, Cause::Unreachable(_)), "{error}");
    let _server = Server::start_on(&api.to_string());
    proxies
        .create("p", any_port(), target)
        .await
        .expect("a proxy");
    proxies
        .add("p", Toxic::hole(Stream::Both))
        .await
        .expect("a hole");
}

#[test]
fn a_panic_of_the_client_crate_costs_one_error_and_a_new_client() {
    let server = Server::start();
    let mut driver = Driver::new(server.api, Arc::default()).expect("a driver");
    driver.version().expect("a version");
    let cause = driver.fail_inside_the_client();
    assert!(
        matches!(&cause, Cause::Panicked(words) if words == "as it does"),
        "{cause}"
    );
    driver.version().expect("a new client answers");
}
