//! A proxy under test with a server of the test's own behind it, and the words in which cases speak.

use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::Once;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long anything that must happen may take. A real Toxiproxy needs seconds to heal a stall.
pub const DEADLINE: Duration = Duration::from_secs(20);
/// How long nothing must be heard before we call it silence.
const SILENCE: Duration = Duration::from_millis(150);

/// Says once that there is no real server.
static SKIP: Once = Once::new();

/// See the module.
pub struct Bench {
    api: SocketAddr,
    http: reqwest::Client,
    /// The proxy that each case finds ready, without toxics.
    pub name: String,
    /// Where that proxy listens.
    pub listen: SocketAddr,
    server: TcpListener,
    embedded: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

/// Waits for what must happen.
pub async fn soon<T>(what: &str, happens: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, happens).await {
        Ok(value) => value,
        Err(_) => panic!("within {DEADLINE:?}: {what}"),
    }
}

impl Bench {
    /// The embedded server, on a port of its own.
    pub async fn embedded() -> Bench {
        let api = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port for the API");
        let address = api.local_addr().expect("a bound socket has an address");
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(async move {
            let served = fencepost_fault_proxy::serve(api, async {
                let _ = stopped.await;
            });
            served.await.expect("the server ends without an error");
        });
        Bench::with_proxy(address, "case", Some((stop, serving))).await
    }

    /// The real server named by the environment, if there is one.
    pub async fn real(case: &str) -> Option<Bench> {
        let Ok(address) = std::env::var("FENCEPOST_TOXIPROXY") else {
            SKIP.call_once(|| {
                // Past the test runner's capture, which would swallow a skip that nobody must overlook.
                let _ = writeln!(
                    std::io::stderr(),
                    "SKIPPED: conformance of a real Toxiproxy (set FENCEPOST_TOXIPROXY=HOST:PORT to try it)"
                );
            });
            return None;
        };
        let mut found = tokio::net::lookup_host(&address)
            .await
            .expect("FENCEPOST_TOXIPROXY is HOST:PORT");
        let api = found.next().expect("FENCEPOST_TOXIPROXY names an address");
        let name = format!("fp-conformance-{}-{case}", std::process::id());
        Some(Bench::with_proxy(api, &name, None).await)
    }

    async fn with_proxy(
        api: SocketAddr,
        name: &str,
        embedded: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    ) -> Bench {
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(DEADLINE)
            .build();
        let mut bench = Bench {
            api,
            http: http.expect("a plain HTTP client"),
            name: name.to_owned(),
            listen: api,
            server: TcpListener::bind("127.0.0.1:0")
                .await
                .expect("a port for the server"),
            embedded,
        };
        bench.listen = bench.create(name, bench.upstream()).await;
        bench
    }

    /// Removes what the case made, and stops an embedded server.
    pub async fn close(self) {
        self.call(Method::DELETE, &format!("proxies/{}", self.name), None)
            .await;
        if let Some((stop, serving)) = self.embedded {
            let _ = stop.send(());
            soon("the embedded server stops", serving)
                .await
                .expect("its task ends well");
        }
    }

    /// Stops an embedded server and waits for it.
    pub async fn stop(&mut self) {
        let (stop, serving) = self
            .embedded
            .take()
            .expect("the bench has an embedded server");
        let _ = stop.send(());
        soon("the embedded server stops", serving)
            .await
            .expect("its task ends well");
    }

    /// Where the server of the bench listens.
    pub fn upstream(&self) -> SocketAddr {
        self.server
            .local_addr()
            .expect("a bound socket has an address")
    }

    /// Creates a proxy on a free port of loopback and says which.
    pub async fn create(&self, name: &str, upstream: SocketAddr) -> SocketAddr {
        let wanted =
            json!({"name": name, "listen": "127.0.0.1:0", "upstream": upstream.to_string()});
        let (status, view) = self.call(Method::POST, "proxies", Some(wanted)).await;
        assert_eq!(status, StatusCode::CREATED, "{view}");
        let listen = view["listen"]
            .as_str()
            .expect("a proxy says where it listens");
        listen
            .parse()
            .expect("the listen address is a socket address")
    }

    /// One API call; the body is null where there was none, or text where it was no JSON.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> (StatusCode, Value) {
        let mut request = self
            .http
            .request(method, format!("http://{}/{path}", self.api));
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.expect("the API answers");
        let status = response.status();
        let text = response.text().await.expect("the API's answer is text");
        (
            status,
            serde_json::from_str(&text).unwrap_or(Value::String(text)),
        )
    }

    /// Like `call`, from a client that names itself so.
    pub async fn call_as(&self, agent: &str) -> StatusCode {
        let request = self.http.get(format!("http://{}/version", self.api));
        let response = request.header("user-agent", agent).send().await;
        response.expect("the API answers").status()
    }

    fn path(&self, rest: &str) -> String {
        format!("proxies/{}{rest}", self.name)
    }

    /// Adds a toxic to the bench's proxy.
    pub async fn add(&self, kind: &str, stream: &str, attributes: Value) {
        let toxic = json!({"type": kind, "stream": stream, "attributes": attributes});
        let (status, answer) = self
            .call(Method::POST, &self.path("/toxics"), Some(toxic))
            .await;
        assert_eq!(status, StatusCode::OK, "{answer}");
    }

    /// Digs a hole in one direction.
    pub async fn dig(&self, stream: &str) {
        self.add("timeout", stream, json!({"timeout": 0})).await;
    }

    /// Removes a toxic from the bench's proxy.
    pub async fn remove(&self, toxic: &str) {
        let path = self.path(&format!("/toxics/{toxic}"));
        let (status, answer) = self.call(Method::DELETE, &path, None).await;
        assert_eq!(status, StatusCode::NO_CONTENT, "{answer}");
    }

    /// Enables or disables the bench's proxy.
    pub async fn set_enabled(&self, enabled: bool) {
        let (status, answer) = self
            .call(
                Method::POST,
                &self.path(""),
                Some(json!({"enabled": enabled})),
            )
            .await;
        assert_eq!(
            (status, &answer["enabled"]),
            (StatusCode::OK, &json!(enabled))
        );
    }

    /// Connects to the proxy.
    pub async fn connect(&self) -> TcpStream {
        let connected = soon("the proxy accepts", TcpStream::connect(self.listen)).await;
        connected.expect("the proxy accepts")
    }

    /// Accepts what the proxy dialled.
    pub async fn accept(&self) -> TcpStream {
        let accepted = soon("the proxy dials the server", self.server.accept()).await;
        accepted.expect("the server accepts").0
    }

    /// A client and its server, with a byte exchanged, so that the proxy surely carries them.
    pub async fn pair(&self) -> (TcpStream, TcpStream) {
        let mut client = self.connect().await;
        let mut server = self.accept().await;
        say(&mut client, "?").await;
        hears(&mut server, "?").await;
        (client, server)
    }
}

/// Writes all of it.
pub async fn say(stream: &mut TcpStream, text: &str) {
    soon("the write ends", stream.write_all(text.as_bytes()))
        .await
        .expect("a write succeeds");
}

/// Reads exactly that.
pub async fn hears(stream: &mut TcpStream, text: &str) {
    let mut heard = vec![0; text.len()];
    let read = soon(&format!("{text:?} arrives"), stream.read_exact(&mut heard)).await;
    read.unwrap_or_else(|error| panic!("{text:?} arrives: {error}"));
    assert_eq!(String::from_utf8_lossy(&heard), text);
}

/// Hears neither bytes nor an end for a while.
pub async fn is_silent(stream: &mut TcpStream) {
    let mut heard = [0; 16];
    if let Ok(read) = tokio::time::timeout(SILENCE, stream.read(&mut heard)).await {
        panic!("silence was expected, {read:?} came: {heard:?}");
    }
}

/// Sees the end of the stream next, and no reset.
pub async fn ends(stream: &mut TcpStream) {
    let mut heard = [0; 16];
    let read = soon("the stream ends", stream.read(&mut heard)).await;
    assert_eq!(read.expect("an end and no error"), 0, "no more bytes");
}

/// Sees a reset next.
pub async fn is_reset(stream: &mut TcpStream) {
    let mut heard = [0; 16];
    let read = soon("the stream is reset", stream.read(&mut heard)).await;
    assert_eq!(
        read.expect_err("a reset").kind(),
        ErrorKind::ConnectionReset
    );
}

/// Nobody listens there.
pub async fn is_refused(address: SocketAddr) {
    let connected = soon("the kernel refuses", TcpStream::connect(address)).await;
    assert_eq!(
        connected.expect_err("a refusal").kind(),
        ErrorKind::ConnectionRefused
    );
}
