//! The embedded fault proxy: Toxiproxy 2.12's HTTP API over a small tokio engine.
//!
//! What it promises is what a client of a real Toxiproxy sees, and a little more where the real one is weak:
//!
//! - A change is in force on every live connection when its API call returns. No byte passes a hole afterwards.
//! - A hole (`timeout` of 0) swallows bytes in silence; removing it ends the connections under it.
//! - A stall (`latency`, or `bandwidth` of 0) loses nothing; removing it delivers what was held, at once.
//! - A FIN waits its turn behind the bytes before it, and is held back by a hole or a stall as bytes are.
//! - A client that closes its half still gets its reply. (The real one loses it.)
//! - A direction holds at most about 1 MiB; after that the sender feels back-pressure.
//!
//! What it does not: it is no cut cable. The kernel of the proxy acknowledges packets for a peer that is gone, so
//! TCP timeouts and keep-alive probes of the ends never fire. It has no TLS, no configuration file and no password:
//! whoever reaches the API rules the links, so bind it to loopback or to a private network.
//!
//! Where to read: `pipe` (what one direction holds) and `stage` (what each toxic does) are pure and know no
//! sockets; `connection` moves bytes between two sockets through two pipes; `line` is all connections of one proxy
//! and its toxics; `proxy` opens and closes the listener; `collection` knows proxies by name; `api` speaks HTTP.

mod api;
mod collection;
mod connection;
mod dice;
mod failure;
mod line;
mod meters;
mod pipe;
mod proxy;
mod stage;
mod toxic;

use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, oneshot};

/// What `GET /version` answers.
pub const VERSION: &str = "2.12.0-fencepost";

/// How many proxied connections one server carries at a time; one more is accepted and closed.
pub const CONNECTION_LIMIT: usize = 10_000;

/// How long API calls under way may still take after the shutdown began.
const GRACE: Duration = Duration::from_secs(2);

/// Why the server stopped although nobody asked it to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The API's listener failed.
    #[error("serve the fault proxy's API: {0}")]
    Api(#[source] std::io::Error),
}

/// Serves Toxiproxy's API on `api` until `shutdown` completes; then closes every proxy and returns.
///
/// Must be called inside a tokio runtime with network and time enabled. Give it a runtime of its own where blocking
/// clients live in the same process: proxied bytes are moved by tasks of the runtime that calls this.
///
/// # Errors
///
/// [`ServeError::Api`] when the API's listener fails for good.
pub async fn serve(api: TcpListener, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
    let proxies = Arc::new(Mutex::new(collection::Collection::new(CONNECTION_LIMIT)));
    let (finish, finishing) = oneshot::channel::<()>();
    let api = api.tap_io(|stream| {
        // A failure here costs 40 ms at worst, and the connection is about to tell us if it is dead.
        let _ = stream.set_nodelay(true);
    });
    let server = axum::serve(api, api::router(Arc::clone(&proxies)))
        .with_graceful_shutdown(async {
            let _ = finishing.await;
        })
        .into_future();
    tokio::pin!(server);
    let served = tokio::select! {
        ended = &mut server => ended,
        () = shutdown => {
            let _ = finish.send(());
            // A client that keeps its connection open must not keep the server alive.
            tokio::time::timeout(GRACE, server).await.unwrap_or(Ok(()))
        }
    };
    proxies.lock().await.close().await;
    served.map_err(ServeError::Api)
}
