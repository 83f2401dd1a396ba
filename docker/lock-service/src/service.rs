//! Opening, serving and stopping.
//!
//! It promises that a service that could not be opened says which path is to blame, that a stop
//! answers whoever waits, and that the data directory is free again when [`serve`] has returned
//! or its future was dropped.

use std::future::{Future, IntoFuture};
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::Config;
use crate::defects;
use crate::desk::Desk;
use crate::http::{self, Front};
use crate::metrics::Metrics;
use crate::state::{Record, State};
use crate::store::Store;
use crate::writer::Writer;

/// How long open connections may take to end once the service was told to stop.
const GRACE: Duration = Duration::from_secs(1);

/// Why the service could not start or had to end. Messages fit after "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The data directory could not be made or entered.
    #[error("use the data directory {}: {source}", path.display())]
    DataDirectory {
        /// The directory.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// Another process uses the same data.
    #[error("open {}: another process has it open", path.display())]
    InUse {
        /// The store's file.
        path: PathBuf,
    },
    /// The store's file was made by another version.
    #[error("open {}: its layout is version {found}, this service reads version {known}", path.display())]
    Format {
        /// The store's file.
        path: PathBuf,
        /// The version that it names; 0 where it names none.
        found: u64,
        /// The version that is read here.
        known: u64,
    },
    /// The store cannot be read or written: corrupt, full, or the disk is gone. Nothing is
    /// answered after a failed write.
    #[error("read or write {}: {source}", path.display())]
    Store {
        /// The store's file.
        path: PathBuf,
        /// What the store says.
        source: Box<redb::Error>,
    },
    /// The operating system gave no thread.
    #[error("start the writer thread: {0}")]
    Thread(io::Error),
    /// The writer thread panicked: a bug of this service.
    #[error("go on after the writer thread panicked")]
    WriterPanicked,
    /// The listener ended.
    #[error("accept connections: {0}")]
    Accept(io::Error),
}

/// A lock service that is open on its data, whether or not anybody can reach it.
///
/// When it is dropped it stops as by [`LockService::stop`], and errors are lost.
#[derive(Debug)]
pub struct LockService {
    front: Front,
    writer: Option<JoinHandle<Result<(), ServeError>>>,
    ended: oneshot::Receiver<()>,
}

/// Serves on `listener` until `shutdown` is ready, or until the store fails.
///
/// On shutdown everything that was asked before is finished and answered, waiting acquires are
/// answered 503, and connections that do not end within a second are left behind. Leases survive:
/// the next service on the same data gives each live hold its full ttl again.
///
/// # Errors
///
/// Where the data cannot be opened or, later, not be written. Needs a tokio runtime with I/O and
/// time enabled.
pub async fn serve(
    listener: TcpListener,
    config: Config,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let mut service = LockService::open(config)?;
    let listener = listener.tap_io(|stream| {
        // Answers are small; a socket that refuses the option is merely slower.
        let _ = stream.set_nodelay(true);
    });
    let (close, closed) = oneshot::channel::<()>();
    let server = axum::serve(listener, service.router())
        .with_graceful_shutdown(async { drop(closed.await) })
        .into_future();
    let mut server = pin!(server);
    let listening = tokio::select! {
        () = shutdown => true,
        _ = &mut service.ended => true,
        result = &mut server => {
            result.map_err(ServeError::Accept)?;
            false
        }
    };
    service.front.desk.stop();
    drop(close);
    if listening {
        // A connection that outlives the grace finds no writer and changes nothing.
        let _ = tokio::time::timeout(GRACE, server).await;
    }
    service.stop()
}

impl LockService {
    /// Opens the data and starts the writer thread. Blocks for as long as the disk takes.
    ///
    /// # Errors
    ///
    /// Where the data directory cannot be used, another process uses it, or its store is broken.
    pub fn open(config: Config) -> Result<Self, ServeError> {
        let store = Store::open(&config.data)?;
        let mut state =
            State::new(config.limits.clone(), config.defect).counting_from(config.first_token);
        let origin = Instant::now();
        for (name, stored) in store.load()? {
            let record = Record {
                issued: defects::counter_after_restart(config.defect, stored.issued),
                hold: stored.hold,
            };
            state.restore(origin.elapsed(), &name, record);
        }

        let (desk, inbox) = Desk::new();
        let metrics = Arc::new(Metrics::new());
        metrics.observe(&state.take_effects(), &state, origin.elapsed());
        let writer = Writer::new(inbox, state, store, metrics.clone(), origin);
        let (ending, ended) = oneshot::channel();
        let writer = std::thread::Builder::new()
            .name("lock-writer".into())
            .spawn(move || {
                // Dropped at the end of the thread, however it ends.
                let _ending = ending;
                writer.run()
            })
            .map_err(ServeError::Thread)?;
        let limits = Arc::new(config.limits);
        let front = Front {
            desk,
            metrics,
            limits,
            defect: config.defect,
        };
        Ok(Self {
            front,
            writer: Some(writer),
            ended,
        })
    }

    /// Its routes, for a server of one's own.
    pub fn router(&self) -> axum::Router {
        http::router(self.front.clone())
    }

    /// Finishes what was asked, closes the store, and returns when both is done. Blocks for as
    /// long as the disk takes. Requests that come later are answered 503.
    ///
    /// # Errors
    ///
    /// The one for which the writer ended earlier, if it did.
    pub fn stop(mut self) -> Result<(), ServeError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), ServeError> {
        self.front.desk.stop();
        match self.writer.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(ServeError::WriterPanicked),
            None => Ok(()),
        }
    }
}

impl Drop for LockService {
    fn drop(&mut self) {
        // Whoever wants to know why it ended calls `stop`.
        let _ = self.end();
    }
}
