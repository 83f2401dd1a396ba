//! Lock services, one file a system.
//!
//! Each file speaks one system's own language and makes [`Lock`] of it. To add one: write its file, and name it in
//! [`LOCKS`].

mod reference;

use crate::client::{Endpoint, EndpointError, Lock};
use crate::systems::{self, Server, System};

/// Makes one client of a lock service. Opens no connection yet.
pub type Connect = fn(&Endpoint<'_>) -> Result<Box<dyn Lock>, EndpointError>;

/// Every lock service that can be spoken to.
#[rustfmt::skip]
pub const LOCKS: &[System<Connect>] = &[
    System { name: "reference", about: "Fencepost's own lock service", server: Server::Reference, variants: &[], feature: None, connect: Some(reference::connect), steward: None },
    System { name: "etcd", about: "etcd's Lock call under a lease of its own for each acquire", server: Server::Etcd, variants: &["create-revision", "header-revision"], feature: Some("etcd"), connect: None, steward: None },
    System { name: "postgres", about: "a PostgreSQL row with a lease and a counter", server: Server::Postgres, variants: &[], feature: Some("postgres"), connect: None, steward: None },
    System { name: "postgres-advisory", about: "a PostgreSQL advisory lock of a connection, and a sequence", server: Server::Postgres, variants: &[], feature: Some("postgres"), connect: None, steward: None },
];

/// Makes one client of the lock service called `kind`.
///
/// # Errors
/// When there is no such kind, this build lacks it, or it cannot be spoken to at those addresses or under that name.
pub fn connect(kind: &str, endpoint: &Endpoint<'_>) -> Result<Box<dyn Lock>, EndpointError> {
    systems::connect(LOCKS, "lock service", kind, |connect| connect(endpoint))
}
