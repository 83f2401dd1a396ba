//! Lock services, one file a system.
//!
//! Each file speaks one system's own language and makes [`Lock`] of it. To add one: write its file, and name it in
//! [`LOCKS`].

#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod postgres_advisory;
mod reference;

use crate::client::{Endpoint, EndpointError, Lock};
use crate::systems::{self, Server, System, system};

/// Makes one client of a lock service. Opens no connection yet.
pub type Connect = fn(&Endpoint<'_>) -> Result<Box<dyn Lock>, EndpointError>;

/// Every lock service that can be spoken to.
#[rustfmt::skip]
pub const LOCKS: &[System<Connect>] = &[
    system!(reference, "reference", Server::Reference, [], "Fencepost's own lock service"),
    system!(etcd if "etcd", "etcd", Server::Etcd, ["create-revision", "header-revision"], "etcd's Lock call, under a lease of its own for each acquire"),
    system!(postgres if "postgres", "postgres", Server::Postgres, [], "a PostgreSQL row with a lease and a counter"),
    system!(postgres_advisory if "postgres", "postgres-advisory", Server::Postgres, [], "a PostgreSQL advisory lock, and a sequence"),
];

/// Makes one client of the lock service called `kind`.
///
/// # Errors
/// When there is no such kind, this build lacks it, or it cannot be spoken to at those addresses or under that name.
pub fn connect(kind: &str, endpoint: &Endpoint<'_>) -> Result<Box<dyn Lock>, EndpointError> {
    systems::connect(LOCKS, "lock service", kind, |connect| connect(endpoint))
}
