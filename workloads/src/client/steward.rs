//! Who looks after a run's place in a system that others may use too.

use std::future::Future;
use std::pin::Pin;

use thiserror::Error;

/// Why a steward could not do its errand, in one line and without a secret.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{0}")]
pub struct StewardError(pub String);

/// An errand under way.
pub type Errand<'a, T> = Pin<Box<dyn Future<Output = Result<T, StewardError>> + Send + 'a>>;

/// Looks after one run's place in a system: everything of the run lies under its namespace.
///
/// The harness calls it before and after the load, past the proxies; no client does. Every errand may be repeated, is
/// tried once, and ends within a few of the endpoint's timeouts.
pub trait Steward: Send + Sync {
    /// Whether the system serves: it answers what it could not answer without a quorum or after a crash.
    fn ready(&self) -> Errand<'_, ()>;

    /// What else lies in the database, as names for a person; empty where the run does not write beside it. Never
    /// what Fencepost made, for this run or another.
    fn strangers(&self) -> Errand<'_, Vec<String>>;

    /// Makes the run's place. A lock and a resource in one server share it, and both are asked.
    fn prepare(&self) -> Errand<'_, ()>;

    /// Removes it with all that is in it.
    fn clear(&self) -> Errand<'_, ()>;
}
