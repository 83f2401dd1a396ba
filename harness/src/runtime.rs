//! The async runtimes of the verbs, made in one place.

use tokio::runtime::{Builder, Runtime};

use crate::error::HarnessError;

/// Everything takes turns on the calling thread.
///
/// # Errors
/// When the system gives none.
pub fn on_this_thread() -> Result<Runtime, HarnessError> {
    made(Builder::new_current_thread())
}

/// Two threads, for servers and for what is tried beside them.
///
/// # Errors
/// When the system gives none.
pub fn on_two_threads() -> Result<Runtime, HarnessError> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2);
    made(builder)
}

fn made(mut builder: Builder) -> Result<Runtime, HarnessError> {
    builder
        .enable_all()
        .build()
        .map_err(|source| HarnessError::System {
            what: "start a runtime",
            source,
        })
}
