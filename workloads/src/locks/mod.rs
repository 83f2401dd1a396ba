//! Lock services, one file a system.
//!
//! Each file speaks one system's own language and makes [`Lock`] of it. To add one: write its file, and name it in
//! [`LOCKS`].

mod reference;

use crate::client::{Endpoint, EndpointError, Lock};

/// Makes one client of a lock service. Opens no connection yet.
pub type Connect = fn(&Endpoint<'_>) -> Result<Box<dyn Lock>, EndpointError>;

/// Every lock service that can be spoken to: `[lock] kind` and how to make a client of it.
pub const LOCKS: &[(&str, Connect)] = &[("reference", reference::connect)];

/// Makes one client of the lock service called `kind`.
///
/// # Errors
/// When there is no such kind, or it cannot be spoken to at that address or under that name.
pub fn connect(kind: &str, endpoint: &Endpoint<'_>) -> Result<Box<dyn Lock>, EndpointError> {
    match LOCKS.iter().find(|(known, _)| *known == kind) {
        Some((_, connect)) => connect(endpoint),
        None => Err(EndpointError::UnknownKind {
            what: "lock service",
            kind: kind.to_owned(),
            known: LOCKS
                .iter()
                .map(|(known, _)| *known)
                .collect::<Vec<_>>()
                .join(", "),
        }),
    }
}
