//! The reference fenced resource: a durable value and high water per key, and the check that keeps
//! a late writer out.
//!
//! A lock can only advise. A holder that was paused does not know that its lease has lapsed, and
//! writes all the same. The resource is where that write must stop: it remembers, for each key, the
//! highest fencing token that it has accepted, and refuses every write that presents a lower one.
//!
//! ```text
//!   write(token, value):  token < high_water  -> refused, reporting high_water
//!                         otherwise           -> high_water = token; value = value
//! ```
//!
//! The comparison is [`fence::decide`].
//!
//! # HTTP
//!
//! | request | answer |
//! |---|---|
//! | `PUT /v1/keys/{key}` with `Fencing-Token: 42`, perhaps `Fencing-Client: c3`, body = value | 200 `{"high_water":42}`, or 409 `{"error":"stale-token","high_water":43}` |
//! | `GET /v1/keys/{key}` | 200 `{"value":"c3-17","token":42,"high_water":42}`; never written: 200 `{"value":null,"high_water":0}` |
//! | `PUT /v1/cache/{key}`, `PUT /v1/webhooks/{key}`, `PUT /v1/admin/{key}` | as `PUT /v1/keys/{key}`, against the same mark: a copy beside the record, a notification, an operator's own path to the record |
//! | `POST /v1/effects/{key}`, perhaps `Idempotency-Key: x`, body = effect | 200 `{}`; an effect whose key was seen is not added again; it takes no token |
//! | `GET /v1/effects/{key}` | 200 `{"effects":["a","b"]}` |
//! | `GET /v1/keys` | 200 `{"keys":[{"key":"a","token":42,"high_water":42}],"truncated":false}`, the first 10,000 in byte order |
//! | `GET /healthz` | 200 `{"status":"ok"}` when the store can be read |
//! | `GET /metrics` | 200, Prometheus text |
//!
//! `Fencing-Lock: L` on a write or a read asks for the mark that lock `L` keeps for all its keys. `If-Match: v` on a write
//! asks that the key holds `v`, `If-None-Match: *` that it was never written; otherwise 412, `condition-failed`.
//!
//! Every error is `{"error":WORD,"message":TEXT}`; `stale-token` has `high_water` in the place of `message`.
//!
//! | status | word | was it written? |
//! |---|---|---|
//! | 400 | `bad-request` | no; a token that is missing, repeated, empty, negative, signed, fractional, overlong, too large or no number says which |
//! | 404, 405 | `not-found`, `method-not-allowed` | no |
//! | 409 | `stale-token` | no; `high_water` is the mark that it was held against |
//! | 412 | `condition-failed` | no |
//! | 413 | `too-large` | no |
//! | 500 | `storage` | **unknown**: the disk failed during the commit, or before it |
//! | 503 | `overloaded`, `stopping` | no; it never entered the queue |
//! | 507 | `too-many-keys` | no |
//!
//! # Promises
//!
//! - A token is any integer from 0 to 2^64-1. An equal token is accepted: it is the same holder going on.
//! - Check and write are one atomic step, and are durable (one transaction, one fsync) before the
//!   answer leaves. SIGKILL at any moment loses nothing that was answered, neither value nor mark.
//! - A read sees every write that was answered before the read was sent, and never one that is not durable.
//! - A key has its own high water; keys do not influence each other.
//!
//! # Not promised
//!
//! - The service does not know who holds the lock. Two clients that present one token are one holder to it.
//! - One process, one disk: no replication, and a disk that lies about fsync is believed.
//! - The limits: keys of 1 to 200 bytes of printable ASCII without `/`, values of at most 64 KiB, and
//!   the two numbers in [`Config`].

pub mod defects;
pub mod fence;

mod answer;
mod http;
mod metrics;
mod request;
mod store;
mod token;
mod way;
mod writer;

use std::future::{Future, IntoFuture};
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub use defects::{DEFECTS, Defect, UnknownDefect};
pub use store::OpenError;

use metrics::Metrics;
use store::Store;
use writer::{Rules, Writer};

/// How long requests in progress may go on after the service was told to stop.
const GRACE: Duration = Duration::from_secs(2);

/// Everything that fixes how a service behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// The directory of the store; made if it is missing. One process may use it at a time.
    pub data: PathBuf,
    /// The defect to plant, if any.
    pub defect: Option<Defect>,
    /// The most keys that may exist; a write to a new one beyond is answered 507.
    pub max_keys: u64,
    /// The most writes that wait for the writer; more are answered 503. Must be above 0. The default
    /// of 10,000 can take 640 MB of memory, if all of them have the longest value.
    pub max_queued: usize,
}

impl Config {
    /// A sound service on `data`, with at most 100,000 keys and 10,000 queued writes.
    pub fn new(data: impl Into<PathBuf>) -> Config {
        Config {
            data: data.into(),
            defect: None,
            max_keys: 100_000,
            max_queued: 10_000,
        }
    }
}

/// Why a service could not be served. Messages fit after "failed to".
#[derive(Debug, Error)]
pub enum ServeError {
    /// The store could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store was opened, but its marks could not be read.
    #[error("read the store in {}: {source}", path.display())]
    Read {
        /// The data directory.
        path: PathBuf,
        /// What the storage engine said.
        source: Box<redb::Error>,
    },
    /// The writer's thread could not be started.
    #[error("start the writer: {0}")]
    Writer(io::Error),
    /// The writer's thread ended while the service ran, which is a bug; its panic was printed.
    #[error("keep the writer running")]
    WriterEnded,
    /// The listener failed.
    #[error("serve connections: {0}")]
    Listen(io::Error),
}

/// Serves the resource on `listener` until `shutdown` completes.
///
/// Connections that arrive before the store is open wait for it. After `shutdown`, requests in
/// progress have two seconds to end. When this returns the store is closed and can be opened again.
///
/// # Errors
///
/// When the store cannot be opened or read, or when the listener or the writer fails.
///
/// # Panics
///
/// When `config.max_queued` is 0.
pub async fn serve(
    listener: TcpListener,
    config: Config,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let metrics = Arc::new(Metrics::new());
    let store = Arc::new(open(&config, &metrics).await?);
    let rules = Rules {
        defect: config.defect,
        max_keys: config.max_keys,
    };
    let mut writer = Writer::start(rules, store.clone(), metrics.clone(), config.max_queued)
        .map_err(ServeError::Writer)?;
    let router = http::router(http::Service {
        queue: writer.queue(),
        store: store.clone(),
        metrics,
        defect: config.defect,
    });

    let served = serve_connections(listener, router, shutdown, &mut writer).await;

    in_background(move || {
        writer.stop();
        store.close();
    })
    .await;
    served
}

async fn open(config: &Config, metrics: &Arc<Metrics>) -> Result<Store, ServeError> {
    let (path, metrics) = (config.data.clone(), metrics.clone());
    let forgets = config.defect == Some(Defect::VolatileHighWater);
    in_background(move || {
        let store = Store::open(&path)?;
        if forgets && let Err(source) = store.forget_marks() {
            let source = Box::new(source);
            return Err(ServeError::Read { path, source });
        }
        match store.marks(metrics::MAX_SERIES) {
            Ok((marks, _)) => metrics.restore(&marks),
            Err(source) => {
                let source = Box::new(source);
                return Err(ServeError::Read { path, source });
            }
        }
        Ok(store)
    })
    .await
}

async fn serve_connections(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()>,
    writer: &mut Writer,
) -> Result<(), ServeError> {
    // An answer is one small packet; waiting to fill it would cost 40 ms each.
    let listener = listener.tap_io(|connection| {
        // It fails only for a connection that is gone already, and the first read will say so.
        let _ = connection.set_nodelay(true);
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, router).with_graceful_shutdown(async {
        let _ = stopped.await;
    });
    let mut server = pin!(server.into_future());
    tokio::select! {
        ended = &mut server => return ended.map_err(ServeError::Listen),
        () = writer.ended() => return Err(ServeError::WriterEnded),
        () = shutdown => {}
    }
    drop(stop);
    // A client that sends half a request must not hold the service open for ever.
    match tokio::time::timeout(GRACE, server).await {
        Ok(ended) => ended.map_err(ServeError::Listen),
        Err(_) => Ok(()),
    }
}

/// Runs blocking work away from the threads that serve connections.
async fn in_background<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => unreachable!("blocking work that was begun is never cancelled"),
        },
    }
}
