//! The systems that can be tested: what a row of [`LOCKS`](crate::locks::LOCKS) and of
//! [`RESOURCES`](crate::resources::RESOURCES) holds.

use crate::client::{Endpoint, EndpointError, Steward};

/// Makes what looks after a run's place in a system. Opens no connection yet.
pub type Employ = fn(&Endpoint<'_>) -> Result<Box<dyn Steward>, EndpointError>;

/// One system, as a lock service or as a resource. `C` makes one client of it.
#[derive(Clone, Copy, Debug)]
pub struct System<C> {
    /// Its name in `[lock] kind` or `[resource] kind`.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// What is started, or has to be there, for it.
    pub server: Server,
    /// What `token` of a lock, or `fence` of a resource, may be; the first is the default. Empty: there is no choice.
    pub variants: &'static [&'static str],
    /// The cargo feature that brings it; `None` where every build has it.
    pub feature: Option<&'static str>,
    /// Makes one client; `None` where this build lacks the feature.
    pub connect: Option<C>,
    /// Makes the one that prepares a place for a run and clears it; `None` where there is nothing to prepare, or
    /// where this build lacks the feature.
    pub steward: Option<Employ>,
}

/// The program behind a system.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Server {
    /// Fencepost's own lock service or fenced resource; never external.
    Reference,
    /// An etcd cluster; external ones are named by `endpoints`.
    Etcd,
    /// A PostgreSQL server; external ones are named by `url`.
    Postgres,
}

/// The system called `name`.
#[must_use]
pub fn find<C>(systems: &'static [System<C>], name: &str) -> Option<&'static System<C>> {
    systems.iter().find(|system| system.name == name)
}

/// Makes one client of the system called `name`; `what` is `lock service` or `resource`.
///
/// # Errors
/// When there is no such system, this build lacks it, or `make` fails.
pub(crate) fn connect<C: Copy, T>(
    systems: &'static [System<C>],
    what: &'static str,
    name: &str,
    make: impl FnOnce(C) -> Result<T, EndpointError>,
) -> Result<T, EndpointError> {
    let system = find(systems, name).ok_or_else(|| EndpointError::UnknownKind {
        what,
        kind: name.to_owned(),
        known: known(systems),
    })?;
    match system.connect {
        Some(connect) => make(connect),
        None => Err(EndpointError::NotBuilt {
            kind: system.name,
            feature: system.feature.unwrap_or_default(),
        }),
    }
}

/// The names of all of them, for a message.
pub(crate) fn known<C>(systems: &[System<C>]) -> String {
    let names: Vec<_> = systems.iter().map(|system| system.name).collect();
    names.join(", ")
}

/// A row of the table: `system!(module, "name", server, [variants], "about")`, or `module if "feature"` for one that a
/// cargo feature brings. The module has a function `connect`, and with a feature `steward` too.
macro_rules! system {
    ($module:ident, $name:literal, $server:expr, $variants:expr, $about:literal) => {
        System {
            name: $name,
            about: $about,
            server: $server,
            variants: &$variants,
            feature: None,
            connect: Some($module::connect),
            steward: None,
        }
    };
    ($module:ident if $feature:literal, $name:literal, $server:expr, $variants:expr, $about:literal) => {
        System {
            name: $name,
            about: $about,
            server: $server,
            variants: &$variants,
            feature: Some($feature),
            #[cfg(feature = $feature)]
            connect: Some($module::connect),
            #[cfg(not(feature = $feature))]
            connect: None,
            #[cfg(feature = $feature)]
            steward: Some($module::steward),
            #[cfg(not(feature = $feature))]
            steward: None,
        }
    };
}
pub(crate) use system;
