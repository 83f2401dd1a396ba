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
use crate::runner::Interrupts;

/// What the server that is tried understands.
const GREETING: Greeting = Greeting::Http("/");

/// How long a request may take that is to get through, and how long one is waited for that is not.
const PROBE: Duration = Duration::from_millis(1_000);
const HUSH: Duration = Duration::from_millis(250);
/// What the latency fault adds here.
const DELAY: Duration = Duration::from_millis(120);
/// What a request of some 60 bytes takes at a kilobyte a second, and less.
const SLOW: Duration = Duration::from_millis(40);
/// How long a stall would hold back what is not let go before, in milliseconds.
const STALLED: u32 = 60_000;

/// A fault, and what was seen.
type Tried = (&'static str, Result<String, String>);

/// Starts the embedded proxy and tries each fault of links through it.
pub(super) async fn embedded(interrupts: &Interrupts) -> Vec<Tried> {
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
    let tried = exercise("embedded fault proxy", api, "", interrupts).await;
    drop(stop);
    let _ = server.await;
    tried
}

/// A Toxiproxy of the user's; the proxy that is tried on it is removed again.
pub(super) async fn toxiproxy(api: SocketAddr, interrupts: &Interrupts) -> Vec<Tried> {
    let hint = format!(
        "; start one on this machine with `fencepost toxiproxy --listen {api}`, or leave --toxiproxy out"
    );
    exercise("answers", api, &hint, interrupts).await
}

/// Lays a link through the proxy, tries each fault on it until a signal comes, and takes it away again.
async fn exercise(
    about: &'static str,
    api: SocketAddr,
    hint: &str,
    interrupts: &Interrupts,
) -> Vec<Tried> {
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
            ("lost-request", Fault::Toxic(Toxic::hole(Stream::Up))),
            (
                "stall",
                Fault::Toxic(Toxic::Latency {
                    ms: STALLED,
                    jitter_ms: 0,
                    stream: Stream::Both,
                }),
            ),
            (
                "bandwidth",
                Fault::Toxic(Toxic::Bandwidth {
                    kilobytes_per_second: 1,
                    stream: Stream::Both,
                }),
            ),
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
            if interrupts.has_come().await {
                break;
            }
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
        let within = match name {
            "latency" | "bandwidth" => PROBE,
            _ => HUSH,
        };
        let held = (name == "stall").then(|| {
            let listen = self.listen.clone();
            tokio::spawn(async move { probe(&listen, GREETING, PROBE).await })
        });
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
            "hole" | "lost-request" | "stall" => passage == Passage::Silent && !reached,
            "lost-reply" => passage == Passage::Silent && reached,
            "latency" => matches!(passage, Passage::Answered(took) if took >= DELAY),
            "bandwidth" => matches!(passage, Passage::Answered(took) if took >= SLOW),
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
        let delivered = match held {
            None => "",
            Some(held) => match held.await {
                Ok(Passage::Answered(_)) => "; another was delivered and answered afterwards",
                _ => {
                    return Err(format!(
                        "{seen}; what it held back was not delivered afterwards; use another Toxiproxy"
                    ));
                }
            },
        };
        let seen = format!("{seen}{delivered}");
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
