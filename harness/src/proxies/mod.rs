//! Drives any Toxiproxy, the embedded one or a real one, through `toxiproxy_rust`.
//!
//! What it promises:
//!
//! - Every change is read back and compared before it is called done: the crate never looks at an HTTP status.
//! - No call outlives its deadline, even if the server hangs. A call that ran into it may still take effect.
//! - The crate blocks and panics, so it lives on an OS thread of its own; a panic costs one error and a new client.
//!
//! What it does not: that the API answered is no evidence that a fault bites. Probe the link, and compare
//! [`Proxies::bytes`] before, during and after.
//!
//! Clients of `toxiproxy_rust` obey `HTTP_PROXY` even for loopback, and read it once a process. So `main` takes such
//! variables out of the environment before any thread starts, and [`Proxies::connect`] refuses where one is left that
//! would lead it astray.
//!
//! `driver` does the work on the thread, `lane` hands it over, `wire` is what Toxiproxy's JSON looks like,
//! `look` asks an address once, before anything depends on it.

#![allow(
    dead_code,
    reason = "it offers the whole API; which parts a run needs is up to the faults that are built on it"
)]

mod driver;
mod lane;
mod look;
#[cfg(test)]
mod tests;
mod toxic;
mod wire;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use driver::Driver;
use lane::Lane;
pub use look::look_at;
pub use toxic::{Stream, Toxic};
pub use wire::{Bytes, ProxyState};

/// How long a call may take, queueing behind other calls included.
const DEADLINE: Duration = Duration::from_secs(5);
/// How long a server may take that is asked for the first time: who is silent then is none.
const FIRST_ANSWER: Duration = Duration::from_millis(2_500);
/// How long healing may take: a wedged real server costs some timeouts before the proxy is made anew.
const HEALING: Duration = Duration::from_secs(12);

/// What went wrong with a proxy, and what was attempted.
#[derive(Debug, thiserror::Error)]
#[error("failed to {attempted} ({subject}): {cause}")]
pub struct ProxyError {
    /// The proxy's name, or the server's address where no proxy was concerned.
    pub subject: String,
    /// What was attempted, fit to follow "failed to".
    pub attempted: String,
    /// Why it failed.
    pub cause: Cause,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// No answer within the time given; the change may still take effect.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
    /// The server cannot be reached, or hung up.
    #[error("toxiproxy does not answer: {0}")]
    Unreachable(String),
    /// The client crate panicked, which it does where the server cannot be reached.
    #[error("the toxiproxy client gave up: {0}")]
    Panicked(String),
    /// The server said no.
    #[error("toxiproxy answered {status}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The server's words.
        message: String,
    },
    /// The server said yes, and what it shows is something else.
    #[error("wanted {wanted}, toxiproxy shows {found}")]
    NotInForce {
        /// What was asked for.
        wanted: String,
        /// What was read back.
        found: String,
    },
    /// The server's answer is not what Toxiproxy answers.
    #[error("unreadable answer: {0}")]
    Unreadable(String),
    /// An HTTP proxy in the environment would get our calls; see [`no_proxy_needed`].
    #[error("an HTTP proxy is set in the environment; set NO_PROXY={}", .0.display())]
    Diverted(OsString),
    /// The thread that makes the calls could not be started, or went away before this call was begun.
    #[error("the toxiproxy thread is gone: {0}")]
    Thread(String),
}

/// How toxics were removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cleared {
    /// One by one: held bytes were delivered, connections under a hole ended.
    Removed,
    /// The proxy was deleted and made anew on its port: all its connections ended, held bytes are lost.
    Recreated,
}

/// The value that `NO_PROXY` must have so that calls to `api` go there directly, or `None` if they do as it is.
///
/// Reads the environment only. Setting it is for `main`, before threads start, and takes a new start of the program:
/// within a process it is unsafe, and the client crate reads it once.
#[must_use]
pub fn no_proxy_needed(api: SocketAddr) -> Option<OsString> {
    wire::no_proxy_needed(api.ip(), |name| std::env::var_os(name))
}

/// A Toxiproxy server; clones share one thread and one order of calls.
///
/// A call whose future is dropped before its turn is not made; one that was begun is completed all the same.
#[derive(Clone, Debug)]
pub struct Proxies {
    api: SocketAddr,
    lane: Arc<Lane>,
    deadline: Duration,
}

impl Proxies {
    /// Starts the thread and asks the server for its version. Host names are for the caller to resolve, once.
    ///
    /// # Errors
    ///
    /// [`Cause::Diverted`] where the environment names an HTTP proxy; otherwise as for any call.
    pub async fn connect(api: SocketAddr) -> Result<Proxies, ProxyError> {
        Proxies::connect_within(api, DEADLINE).await
    }

    async fn connect_within(api: SocketAddr, deadline: Duration) -> Result<Proxies, ProxyError> {
        let failed = |cause| ProxyError {
            subject: api.to_string(),
            attempted: "reach toxiproxy".to_owned(),
            cause,
        };
        if let Some(value) = no_proxy_needed(api) {
            return Err(failed(Cause::Diverted(value)));
        }
        let lane = Arc::new(Lane::new(api).map_err(failed)?);
        let proxies = Proxies {
            api,
            lane,
            deadline,
        };
        let name = api.to_string();
        let within = deadline.min(FIRST_ANSWER);
        proxies
            .call(&name, "ask for the version", within, Driver::version)
            .await?;
        Ok(proxies)
    }

    /// The address of the server's API.
    #[must_use]
    pub fn api(&self) -> SocketAddr {
        self.api
    }

    /// The server's version, e.g. `2.12.0`.
    ///
    /// # Errors
    ///
    /// See [`Cause`]; so for all calls.
    pub async fn version(&self) -> Result<String, ProxyError> {
        let api = self.api.to_string();
        self.call(&api, "ask for the version", self.deadline, Driver::version)
            .await
    }

    /// Makes a proxy, enabled and without toxics, replacing one of that name; says where it listens.
    ///
    /// Names become part of a URL: letters, digits, `-`, `_` and `.` only. Listen outside the ephemeral range.
    ///
    /// # Errors
    ///
    /// [`Cause::NotInForce`] where the port cannot be had; see [`Cause`].
    pub async fn create(
        &self,
        name: &str,
        listen: SocketAddr,
        upstream: SocketAddr,
    ) -> Result<SocketAddr, ProxyError> {
        let attempted = format!("create a proxy on {listen} for {upstream}");
        let proxy = name.to_owned();
        self.call(name, &attempted, self.deadline, move |driver| {
            driver.create(&proxy, listen, upstream)
        })
        .await
    }

    /// Deletes a proxy and ends its connections; one that is not there is no error.
    ///
    /// # Errors
    ///
    /// See [`Cause`].
    pub async fn delete(&self, name: &str) -> Result<(), ProxyError> {
        let proxy = name.to_owned();
        self.call(name, "delete the proxy", self.deadline, move |driver| {
            driver.delete(&proxy)
        })
        .await
    }

    /// Installs a toxic. Both streams are two toxics, upstream first; if the second fails the first stays.
    ///
    /// # Errors
    ///
    /// [`Cause::NotInForce`] where a toxic of the same type and stream was there already; see [`Cause`].
    pub async fn add(&self, name: &str, toxic: Toxic) -> Result<(), ProxyError> {
        let attempted = format!("install {toxic}");
        let proxy = name.to_owned();
        self.call(name, &attempted, self.deadline, move |driver| {
            driver.add(&proxy, toxic)
        })
        .await
    }

    /// Removes all toxics of a proxy. Where a real server would stall or hang over it, the proxy is made anew.
    ///
    /// # Errors
    ///
    /// See [`Cause`].
    pub async fn clear(&self, name: &str) -> Result<Cleared, ProxyError> {
        let proxy = name.to_owned();
        self.call(
            name,
            "remove all toxics",
            HEALING.max(self.deadline),
            move |driver| driver.clear(&proxy),
        )
        .await
    }

    /// Opens or closes a proxy's port; closing ends its connections.
    ///
    /// # Errors
    ///
    /// See [`Cause`].
    pub async fn set_enabled(&self, name: &str, enabled: bool) -> Result<(), ProxyError> {
        let attempted = if enabled {
            "enable the proxy"
        } else {
            "disable the proxy"
        };
        let proxy = name.to_owned();
        self.call(name, attempted, self.deadline, move |driver| {
            driver.set_enabled(&proxy, enabled)
        })
        .await
    }

    /// Enables all proxies that were made through this handle and removes their toxics. On the embedded server it is
    /// one call and concerns every proxy; a real one may serve others, and its own reset can hang.
    ///
    /// # Errors
    ///
    /// The first that was met, after all were tried; see [`Cause`].
    pub async fn reset(&self) -> Result<(), ProxyError> {
        let api = self.api.to_string();
        self.call(
            &api,
            "reset all proxies",
            HEALING.max(self.deadline),
            Driver::reset,
        )
        .await
    }

    /// What the server shows of a proxy.
    ///
    /// # Errors
    ///
    /// See [`Cause`].
    pub async fn state(&self, name: &str) -> Result<ProxyState, ProxyError> {
        let proxy = name.to_owned();
        self.call(
            name,
            "read the proxy's state",
            self.deadline,
            move |driver| driver.state(&proxy),
        )
        .await
    }

    /// The bytes that went through a proxy since the server started, or `None` where it does not count them.
    ///
    /// A real server counts a connection's bytes when the connection ends; the embedded one as they flow.
    ///
    /// # Errors
    ///
    /// See [`Cause`].
    pub async fn bytes(&self, name: &str) -> Result<Option<Bytes>, ProxyError> {
        let proxy = name.to_owned();
        self.call(
            name,
            "read the byte counters",
            self.deadline,
            move |driver| driver.bytes(&proxy),
        )
        .await
    }

    async fn call<T: Send + 'static>(
        &self,
        subject: &str,
        attempted: &str,
        deadline: Duration,
        work: impl FnOnce(&mut Driver) -> Result<T, Cause> + Send + 'static,
    ) -> Result<T, ProxyError> {
        self.lane
            .call(deadline, work)
            .await
            .map_err(|cause| ProxyError {
                subject: subject.to_owned(),
                attempted: attempted.to_owned(),
                cause,
            })
    }
}
