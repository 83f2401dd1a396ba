//! Fenced resources, one file a system.
//!
//! Each file speaks one system's own language and makes [`Resource`] of it. To add one: write its file, and name it
//! in [`RESOURCES`].

mod reference;

use crate::client::{Endpoint, EndpointError, Resource};

/// Makes one client of a resource. Opens no connection yet.
pub type Connect = fn(&Endpoint<'_>) -> Result<Box<dyn Resource>, EndpointError>;

/// Every resource that can be spoken to: `[resource] kind` and how to make a client of it.
pub const RESOURCES: &[(&str, Connect)] = &[("reference", reference::connect)];

/// Makes one client of the resource called `kind`.
///
/// # Errors
/// When there is no such kind, or it cannot be spoken to at that address or under that name.
pub fn connect(kind: &str, endpoint: &Endpoint<'_>) -> Result<Box<dyn Resource>, EndpointError> {
    match RESOURCES.iter().find(|(known, _)| *known == kind) {
        Some((_, connect)) => connect(endpoint),
        None => Err(EndpointError::UnknownKind {
            what: "resource",
            kind: kind.to_owned(),
            known: RESOURCES
                .iter()
                .map(|(known, _)| *known)
                .collect::<Vec<_>>()
                .join(", "),
        }),
    }
}
