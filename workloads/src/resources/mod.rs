//! Fenced resources, one file a system.
//!
//! Each file speaks one system's own language and makes [`Resource`] of it. To add one: write its file, and name it
//! in [`RESOURCES`].

#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "postgres")]
mod postgres;
mod reference;

use crate::client::{Endpoint, EndpointError, Resource};
use crate::systems::{self, Server, System, system};

/// Makes one client of a resource. Opens no connection yet.
pub type Connect = fn(&Endpoint<'_>) -> Result<Box<dyn Resource>, EndpointError>;

/// Every resource that can be spoken to.
#[rustfmt::skip]
pub const RESOURCES: &[System<Connect>] = &[
    system!(reference, "reference", Server::Reference, ["token", "conditional", "idempotency-key", "no-key", "none"], "Fencepost's own fenced resource"),
    system!(etcd if "etcd", "etcd", Server::Etcd, ["conditional", "none"], "a key of the etcd that has the lock, written while the lock's key is there"),
    system!(postgres if "postgres", "postgres", Server::Postgres, ["conditional", "none", "select-then-update"], "a PostgreSQL row that keeps the highest token"),
];

/// Makes one client of the resource called `kind`.
///
/// # Errors
/// When there is no such kind, this build lacks it, or it cannot be spoken to at those addresses or under that name.
pub fn connect(kind: &str, endpoint: &Endpoint<'_>) -> Result<Box<dyn Resource>, EndpointError> {
    systems::connect(RESOURCES, "resource", kind, |connect| connect(endpoint))
}
