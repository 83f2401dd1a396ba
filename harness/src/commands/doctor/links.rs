//! What a run does to links, tried with requests through a proxy of our own to a server of our own.
//!
//! That the API answered proves nothing: what counts is what a client of the link sees, and whether the server was
//! reached.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::faults::{Greeting, Passage, probe};
use crate::proxies::{Proxies, ProxyError, Stream, Toxic};

/// What the server that is tried understands.
const GREETING: Greeting = Greeting::Http("/");

/// How long a request may take that is to get through, and how long one is waited for that is not.
const PROBE: Duration = Duration::from_millis(1_000);
const HUSH: Duration = Duration::from_millis(250);
/// What the latency fault adds here.
const DELAY: Duration = Duration::from_millis(120);

/// A fault, and what was seen.
type Tried = (&'static str, Result<String, String>);

/// Starts the embedded proxy and tries each fault of links through it.
pub(super) async fn embedded() -> Vec<Tried> {
    let listener = match TcpListener::bind("127.0.0.1:0").await {
        Ok(listener) => listener,
        Err(error) => return vec![("embedded fault proxy", Err(error.to_string()))],
    };
    let api = match listener.local_addr() {
        Ok(api) => api,
        Err(error) => return vec![("embedded fault proxy", Err(error.to_string()))],
    };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(fencepost_fault_proxy::serve(listener, async {
        // Dropping the sender stops it as well.
        let _ = stopped.await;
    }));
    let tried = exercise("embedded fault proxy", api, "").await;
    drop(stop);
    let _ = server.await;
    tried
}

/// A Toxiproxy of the user's; the proxy that is tried on it is removed again.
pub(super) async fn toxiproxy(api: SocketAddr) -> Vec<Tried> {
    let hint = format!(
        "; start one on this machine with `fencepost toxiproxy --listen {api}`, or leave --toxiproxy out"
    );
    exercise("answers", api, &hint).await
}

async fn exercise(about: &'static str, api: SocketAddr, hint: &str) -> Vec<Tried> {
    let failed = |error: &dyn std::fmt::Display| vec![(about, Err(format!("{error}{hint}")))];
    let link = match Link::lay(api).await {
        Ok(link) => link,
        Err(error) => return failed(&error),
    };
    let version = link.proxies.version().await;
    let through = match &version {
        Ok(version) => link
            .gets_through()
            .await
            .map(|took| format!("version {version}; a request got through in {took}"))
            .map_err(|why| format!("{why}{hint}")),
        Err(error) => Err(format!("{error}{hint}")),
    };
    let mut tried = vec![(about, through)];
    if tried[0].1.is_ok() {
        for (name, fault) in [
            ("hole", Fault::Toxic(Toxic::hole(Stream::Both))),
            ("lost-reply", Fault::Toxic(Toxic::hole(Stream::Down))),
            (
                "latency",
                Fault::Toxic(Toxic::Latency {
                    ms: 120,
                    jitter_ms: 0,
                    stream: Stream::Down,
                }),
            ),
            (
                "reset",
                Fault::Toxic(Toxic::ResetPeer {
                    ms: 0,
                    stream: Stream::Up,
                }),
            ),
            ("refuse", Fault::Disabled),
        ] {
            tried.push((name, link.under(name, fault).await));
        }
    }
    if let Err(error) = link.proxies.delete(&link.name).await {
        tried.push(("take the proxy down", Err(error.to_string())));
    }
    tried
}

/// What is done to the link.
#[derive(Clone, Copy)]
enum Fault {
    Toxic(Toxic),
    Disabled,
}

/// A proxy before a server that counts the requests which reach it.
struct Link {
    proxies: Proxies,
    name: String,
    listen: String,
    reached: Arc<AtomicUsize>,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Link {
    async fn lay(api: SocketAddr) -> Result<Self, String> {
        let proxies = Proxies::connect(api)
            .await
            .map_err(|error| error.to_string())?;
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .map_err(|error| error.to_string())?;
        let upstream = listener.local_addr().map_err(|error| error.to_string())?;
        let reached = Arc::new(AtomicUsize::new(0));
        let server = tokio::spawn(serve(listener, Arc::clone(&reached)));
        let name = format!("fp-doctor-{}", std::process::id());
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listen = match proxies.create(&name, any, upstream).await {
            Ok(listen) => listen.to_string(),
            Err(error) => {
                server.abort();
                return Err(error.to_string());
            }
        };
        Ok(Self {
            proxies,
            name,
            listen,
            reached,
            server,
        })
    }

    /// A request must be answered; says how long that took.
    async fn gets_through(&self) -> Result<String, String> {
        match probe(&self.listen, GREETING, PROBE).await {
            Passage::Answered(took) => Ok(millis(took)),
            other => Err(format!(
                "a request through {} was not answered: {}",
                self.listen,
                words(other)
            )),
        }
    }

    /// Puts the fault in force, looks, takes it away, and looks again.
    async fn under(&self, name: &str, fault: Fault) -> Result<String, String> {
        let told = |error: ProxyError| error.to_string();
        match fault {
            Fault::Toxic(toxic) => self.proxies.add(&self.name, toxic).await.map_err(told)?,
            Fault::Disabled => self
                .proxies
                .set_enabled(&self.name, false)
                .await
                .map_err(told)?,
        }
        let before = self.reached.load(Relaxed);
        let within = if name == "latency" { PROBE } else { HUSH };
        let passage = probe(&self.listen, GREETING, within).await;
        let reached = self.reached.load(Relaxed) > before;
        match fault {
            Fault::Toxic(_) => self
                .proxies
                .clear(&self.name)
                .await
                .map(drop)
                .map_err(told)?,
            Fault::Disabled => self
                .proxies
                .set_enabled(&self.name, true)
                .await
                .map_err(told)?,
        }
        let bites = match name {
            "hole" => passage == Passage::Silent && !reached,
            "lost-reply" => passage == Passage::Silent && reached,
            "latency" => matches!(passage, Passage::Answered(took) if took >= DELAY),
            "reset" => passage == Passage::Closed,
            _ => passage == Passage::Refused,
        };
        let server = if reached {
            "was reached"
        } else {
            "was not reached"
        };
        let seen = format!("a request was {}, the server {server}", words(passage));
        if !bites {
            return Err(format!("it does not bite: {seen}; use another Toxiproxy"));
        }
        let after = self.gets_through().await;
        after
            .map(|took| format!("{seen}; afterwards one got through in {took}"))
            .map_err(|why| format!("{seen}; afterwards {why}"))
    }
}

fn words(passage: Passage) -> String {
    match passage {
        Passage::Answered(took) => format!("answered after {}", millis(took)),
        Passage::Silent => "swallowed in silence".to_owned(),
        Passage::Closed => "cut off".to_owned(),
        Passage::Refused => "refused".to_owned(),
    }
}

fn millis(took: Duration) -> String {
    format!("{:.1} ms", took.as_secs_f64() * 1e3)
}

/// Answers each request with nothing, and counts it.
async fn serve(listener: TcpListener, reached: Arc<AtomicUsize>) {
    while let Ok((mut client, _)) = listener.accept().await {
        let reached = Arc::clone(&reached);
        tokio::spawn(async move {
            let mut request = [0; 1024];
            if matches!(client.read(&mut request).await, Ok(1..)) {
                reached.fetch_add(1, Relaxed);
                // A client that has gone away wants no answer.
                let _ = client.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
            }
        });
    }
}
