//! The seam that every system under test goes through: what a lock and a resource must be able to do.
//!
//! Behind it stands one file for each system, in `locks/` and `resources/`. A [`Lock`] or a [`Resource`] is made for
//! one client name, with connections of its own, so that clients share nothing that a fault could join. What it
//! promises is honesty, not success: every call is sent **at most once**, and its [`Outcome`] says no more than the
//! answer proved. See [`Failure`] for what counts as a definite no.
//!
//! It does not retry, queue, cache or look at a clock to find out whether a lease still runs: all of that would be
//! the client's own fencing, and it is the resource's that is on trial.
//!
//! | file | noun |
//! |---|---|
//! | `failure.rs` | definite or not |
//! | `etcd.rs`, `postgres.rs` | one client's connections to an etcd or a PostgreSQL; which of its errors are definite |
//! | `password.rs` | where one is found |
//! | `http.rs` | one client's connections to one HTTP service; why nothing is sent twice |
//! | `steward.rs` | who prepares and clears a run's place in a system that is not the run's own |

#[cfg(feature = "etcd")]
pub(crate) mod etcd;
mod failure;
pub(crate) mod http;
#[cfg(any(feature = "etcd", feature = "postgres"))]
mod password;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod steward;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use fencepost_checker::history::Token;
use thiserror::Error;

pub use failure::{Failure, Reason};
pub use steward::{Errand, Steward, StewardError};

use crate::protocol::Options;

/// How a call ended: what was answered, or how it failed.
pub type Outcome<T> = Result<T, Failure>;

/// A call under way.
pub type Call<'a, T> = Pin<Box<dyn Future<Output = Outcome<T>> + Send + 'a>>;

/// A lock service, as one client sees it. Calls may overlap.
pub trait Lock: Send + Sync {
    /// Asks for `lock` under a lease of `ttl`, and queues for it for at most `wait`.
    fn acquire<'a>(&'a self, lock: &'a str, ttl: Duration, wait: Duration) -> Call<'a, Grant>;

    /// Prolongs the lease of the hold that was granted as `token`, to `ttl` from now.
    fn renew<'a>(&'a self, lock: &'a str, token: Token, ttl: Duration) -> Call<'a, Grant>;

    /// Gives back the hold that was granted as `token`.
    fn release<'a>(&'a self, lock: &'a str, token: Token) -> Call<'a, ()>;
}

/// A fenced resource, as one client sees it. Calls may overlap.
pub trait Resource: Send + Sync {
    /// Replaces the value of `key`, presenting `token`.
    fn write<'a>(&'a self, key: &'a str, token: Token, value: &'a str) -> Call<'a, Written>;

    /// Looks at `key`.
    fn read<'a>(&'a self, key: &'a str) -> Call<'a, Reading>;

    /// The same as [`Resource::write`] for a write that says more than a key, a token and a value.
    fn write_as<'a>(&'a self, write: Write<'a>) -> Call<'a, Written> {
        match (write.path, write.token) {
            (None, Some(token)) => self.write(write.key, token, write.value),
            (Some(path), _) => not_here(format!("this resource has no path {path:?}")),
            (None, None) => not_here("this resource takes no write without a token".to_owned()),
        }
    }

    /// The same as [`Resource::read`], of a key that `lock` guards.
    fn read_under<'a>(&'a self, _lock: Option<&'a str>, key: &'a str) -> Call<'a, Reading> {
        self.read(key)
    }

    /// Replaces the value of `key` if it is `expected` now; `None`: if it was never written. No token is presented.
    fn compare_and_set<'a>(
        &'a self,
        _key: &'a str,
        _expected: Option<&'a str>,
        _value: &'a str,
    ) -> Call<'a, ()> {
        not_here("this resource has no compare-and-set".to_owned())
    }

    /// Adds an effect to `key`, again and again until it is acknowledged. No token is presented.
    fn append<'a>(&'a self, _key: &'a str, _value: &'a str) -> Call<'a, ()> {
        not_here("this resource takes no effects".to_owned())
    }

    /// All effects of `key`; `None` where the resource holds values.
    fn effects<'a>(&'a self, _key: &'a str) -> Option<Call<'a, Vec<String>>> {
        None
    }
}

/// A definite no: nothing was sent.
fn not_here<'a, T: Send + 'a>(why: String) -> Call<'a, T> {
    Box::pin(async { Err(Failure::Fail(Reason::Other(why))) })
}

/// A write, with everything that a resource may be told about it.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The lock that guards the key.
    pub lock: Option<&'a str>,
    /// The key.
    pub key: &'a str,
    /// The path, where it is not the primary one.
    pub path: Option<&'a str>,
    /// The token presented; `None` where the workload has none.
    pub token: Option<Token>,
    /// The new value.
    pub value: &'a str,
}

/// A hold on a lock, as the lock service told it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Grant {
    /// The fencing token.
    pub token: Token,
    /// The lease given, where told; not always the one that was asked for.
    pub ttl: Option<Duration>,
}

/// A write that was accepted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Written {
    /// The high water after it, where told.
    pub high_water: Option<Token>,
}

/// What a key holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reading {
    /// The value; `None` where the key was never written.
    pub value: Option<String>,
    /// The token under which it was written, where told.
    pub token: Option<Token>,
    /// The key's high water, where told.
    pub high_water: Option<Token>,
}

/// As whom to speak, to which addresses, and how.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<'a> {
    /// The name of the client, as the service is to hear it.
    pub client: &'a str,
    /// The service, or the link's proxies before it: `host:port`, one for each of its members.
    pub addresses: &'a [&'a str],
    /// How long to wait for an answer; an acquire waits its queueing time longer. Above zero.
    pub timeout: Duration,
    /// What the systems need to know beside that.
    pub options: &'a Options,
    /// The name under which all keys and tables of the run lie.
    pub namespace: &'a str,
}

impl Endpoint<'_> {
    /// The only address.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub(crate) fn single(&self) -> Result<&str, EndpointError> {
        match self.addresses {
            [address] => Ok(address),
            _ => Err(self.unusable("one host:port is right")),
        }
    }

    /// The namespace, fit to stand in a statement or a prefix as it is.
    ///
    /// # Errors
    /// When it is empty, longer than 48 bytes, or holds anything but lower-case letters, digits and `_`.
    #[cfg(any(feature = "etcd", feature = "postgres"))]
    pub(crate) fn plain_namespace(&self) -> Result<&str, EndpointError> {
        let fit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if (1..=48).contains(&self.namespace.len()) && self.namespace.bytes().all(fit) {
            return Ok(self.namespace);
        }
        Err(self.unusable(format!(
            "the namespace {:?} is none: 1 to 48 lower-case letters, digits and _ are right",
            self.namespace
        )))
    }

    /// That this client cannot speak to those addresses.
    pub(crate) fn unusable(&self, message: impl Into<String>) -> EndpointError {
        EndpointError::Unusable {
            client: self.client.to_owned(),
            address: self.addresses.join(","),
            message: message.into(),
        }
    }
}

/// Why no client could be made. Nothing was sent.
#[derive(Debug, Error)]
pub enum EndpointError {
    /// Nothing is known by that name.
    #[error("{kind:?} is no known {what}: {known} is right")]
    UnknownKind {
        /// `lock service` or `resource`.
        what: &'static str,
        /// The name that was asked for.
        kind: String,
        /// The names that there are.
        known: String,
    },
    /// It is known, but this build lacks it.
    #[error(
        "{kind} needs the feature `{feature}`: cargo run --release --features {feature} -- ... is right"
    )]
    NotBuilt {
        /// The name that was asked for.
        kind: &'static str,
        /// The cargo feature that brings it.
        feature: &'static str,
    },
    /// The address, or the client's name, cannot be used with this system.
    #[error("client {client:?} cannot speak to {address:?}: {message}")]
    Unusable {
        /// The client's name.
        client: String,
        /// The address.
        address: String,
        /// What is wrong with them.
        message: String,
    },
}
