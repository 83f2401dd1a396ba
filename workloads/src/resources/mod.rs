//! Fenced resources, one file a system.
//!
//! Each file speaks one system's own language and makes [`Resource`] of it. To add one: write its file, and name it
//! in [`RESOURCES`].

mod reference;

use crate::client::{Endpoint, EndpointError, Resource};
use crate::systems::{self, Server, System};

/// Makes one client of a resource. Opens no connection yet.
pub type Connect = fn(&Endpoint<'_>) -> Result<Box<dyn Resource>, EndpointError>;

/// Every resource that can be spoken to.
#[rustfmt::skip]
pub const RESOURCES: &[System<Connect>] = &[
    System { name: "reference", about: "Fencepost's own fenced resource", server: Server::Reference, variants: &[], feature: None, connect: Some(reference::connect), steward: None },
    System { name: "etcd", about: "a key of the etcd that has the lock, written while the lock's key is there", server: Server::Etcd, variants: &["conditional", "none"], feature: Some("etcd"), connect: None, steward: None },
    System { name: "postgres", about: "a PostgreSQL row that keeps the highest token", server: Server::Postgres, variants: &["conditional", "none", "select-then-update"], feature: Some("postgres"), connect: None, steward: None },
];

/// Makes one client of the resource called `kind`.
///
/// # Errors
/// When there is no such kind, this build lacks it, or it cannot be spoken to at those addresses or under that name.
pub fn connect(kind: &str, endpoint: &Endpoint<'_>) -> Result<Box<dyn Resource>, EndpointError> {
    systems::connect(RESOURCES, "resource", kind, |connect| connect(endpoint))
}
