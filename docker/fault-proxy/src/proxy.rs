//! One proxy: a listener that comes and goes, in front of a line of connections.
//!
//! While a proxy is disabled its port stays bound but does not listen: clients are refused, and nobody is handed the
//! port meanwhile. Starting and stopping complete before they return: afterwards the port listens, or refuses and
//! every connection has been ended.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::failure::Failure;
use crate::line::Line;
use crate::meters::{Meter, Meters};
use crate::toxic::Toxic;

/// How many clients may wait to be accepted.
const BACKLOG: u32 = 1024;
/// How long a server may take to accept a connection.
const DIAL: Duration = Duration::from_secs(30);
/// How long a look-up of a listen address may take.
const LOOK_UP: Duration = Duration::from_secs(5);
/// The pause after a failed accept, which is mostly a lack of file descriptors.
const BREATH: Duration = Duration::from_millis(20);

/// What all proxies of a server share.
#[derive(Debug, Clone)]
pub(crate) struct Commons {
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) meters: Arc<Meters>,
}

/// A proxy as the API shows it.
#[derive(Debug, Serialize)]
pub(crate) struct View {
    name: String,
    listen: String,
    upstream: String,
    enabled: bool,
    toxics: Vec<Toxic>,
}

impl View {
    /// Where the proxy listens.
    pub(crate) fn listen(&self) -> &str {
        &self.listen
    }

    /// Where the proxy leads.
    pub(crate) fn upstream(&self) -> &str {
        &self.upstream
    }

    /// Whether it listens.
    pub(crate) fn enabled(&self) -> bool {
        self.enabled
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Proxy {
    name: String,
    listen: String,
    upstream: String,
    line: Arc<Line>,
    /// Holds the port while the proxy is disabled.
    reserved: Option<TcpSocket>,
    /// Tells the listener to stop; there is one exactly while the proxy is enabled.
    stop: Option<watch::Sender<bool>>,
    commons: Commons,
}

/// The socket address that a listen text means. No host means every interface, as it does in Go.
pub(crate) async fn resolved(listen: &str) -> Result<SocketAddr, Failure> {
    let text = match listen {
        "" => "0.0.0.0:0".to_owned(),
        port if port.starts_with(':') => format!("0.0.0.0{port}"),
        other => other.to_owned(),
    };
    let failed = |cause| Failure::Listen {
        listen: listen.to_owned(),
        cause,
    };
    let found = tokio::time::timeout(LOOK_UP, tokio::net::lookup_host(text))
        .await
        .map_err(|_| failed(io::Error::from(io::ErrorKind::TimedOut)))?
        .map_err(failed)?
        .next();
    found.ok_or_else(|| failed(io::Error::from(io::ErrorKind::AddrNotAvailable)))
}

fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

impl Proxy {
    /// A disabled proxy.
    pub(crate) fn new(name: String, listen: String, upstream: String, commons: Commons) -> Proxy {
        Proxy {
            name,
            listen,
            upstream,
            line: Arc::default(),
            reserved: None,
            stop: None,
            commons,
        }
    }

    /// The proxy's connections and toxics.
    pub(crate) fn line(&self) -> &Line {
        &self.line
    }

    /// The proxy with its toxics, for the API.
    pub(crate) fn view(&self) -> View {
        View {
            name: self.name.clone(),
            listen: self.listen.clone(),
            upstream: self.upstream.clone(),
            enabled: self.stop.is_some(),
            toxics: self
                .line
                .toxics()
                .iter()
                .map(|toxic| toxic.as_ref().clone())
                .collect(),
        }
    }

    /// Whether the proxy listens there (as text or resolved) and leads there.
    pub(crate) async fn is_at(&self, listen: &str, upstream: &str) -> bool {
        self.upstream == upstream
            && (self.listen == listen
                || resolved(listen)
                    .await
                    .is_ok_and(|address| address.to_string() == self.listen))
    }

    /// Changes addresses and state; new addresses drop the connections.
    pub(crate) async fn update(
        &mut self,
        listen: String,
        upstream: String,
        enabled: bool,
    ) -> Result<(), Failure> {
        if !self.is_at(&listen, &upstream).await {
            self.stop().await;
            self.reserved = None;
            self.listen = listen;
            self.upstream = upstream;
        }
        if enabled {
            self.start().await
        } else {
            self.stop().await;
            Ok(())
        }
    }

    /// Listens, unless it does already. A port of 0 is replaced by the real one.
    pub(crate) async fn start(&mut self) -> Result<(), Failure> {
        if self.stop.is_some() {
            return Ok(());
        }
        let listener = self.listener().await?;
        let meter = self
            .commons
            .meters
            .meter(&self.name, &self.listen, &self.upstream);
        let (stop, stopped) = watch::channel(false);
        self.line.open();
        let door = Door {
            upstream: self.upstream.clone(),
            line: Arc::clone(&self.line),
            permits: Arc::clone(&self.commons.permits),
            meter,
        };
        tokio::spawn(door.keep(stopped, listener));
        self.stop = Some(stop);
        Ok(())
    }

    async fn listener(&mut self) -> Result<TcpListener, Failure> {
        let address = resolved(&self.listen).await?;
        let reserved = self.reserved.take();
        let opened = match reserved {
            Some(socket) => Ok(socket),
            None => bound(address),
        }
        .and_then(|socket| socket.listen(BACKLOG))
        .and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = opened.map_err(|cause| Failure::Listen {
            listen: self.listen.clone(),
            cause,
        })?;
        self.listen = address.to_string();
        Ok(listener)
    }

    /// Stops listening and ends every connection; both are done when this returns.
    pub(crate) async fn stop(&mut self) {
        let Some(stop) = self.stop.take() else {
            return;
        };
        // First nobody may join any more, then those who are still dialling are awaited.
        self.line.close();
        stop.send_replace(true);
        stop.closed().await;
        // Without a reservation enabling still works if the port is free then; it is no reason to fail now.
        self.reserved = match self.listen.parse() {
            Ok(address) => bound(address).ok(),
            Err(_) => None,
        };
    }
}

/// What the accepting task needs.
struct Door {
    upstream: String,
    line: Arc<Line>,
    permits: Arc<Semaphore>,
    meter: Arc<Meter>,
}

impl Door {
    /// Accepts until told to stop. Every holder of `stopped` is awaited by [`Proxy::stop`]; it is the first
    /// parameter, here and below, because parameters drop from last to first and the socket must be closed by then.
    async fn keep(self, mut stopped: watch::Receiver<bool>, listener: TcpListener) {
        let door = Arc::new(self);
        loop {
            let accepted = tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((client, _)) => {
                    tokio::spawn(Arc::clone(&door).admit(stopped.clone(), client));
                }
                Err(_) => tokio::time::sleep(BREATH).await,
            }
        }
    }

    /// Dials the server and carries the connection. Without a permit or a server the client is closed.
    async fn admit(self: Arc<Self>, mut stopped: watch::Receiver<bool>, client: TcpStream) {
        let Ok(_permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            return;
        };
        let dialled = tokio::select! {
            biased;
            _ = stopped.wait_for(|stop| *stop) => return,
            dialled = tokio::time::timeout(DIAL, TcpStream::connect(self.upstream.as_str())) => dialled,
        };
        let Ok(Ok(server)) = dialled else {
            return;
        };
        // A failure costs some latency; a dead socket tells at its first read.
        let _ = client.set_nodelay(true);
        let _ = server.set_nodelay(true);
        let joined = self.line.join(client, server, Arc::clone(&self.meter));
        // From here on the line ends the connection; nobody needs to wait for this task.
        drop(stopped);
        let Some((number, connection)) = joined else {
            return;
        };
        connection.run().await;
        self.line.forget(number);
    }
}
