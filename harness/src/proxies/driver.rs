//! The calls themselves, blocking, on the thread that `lane` keeps.
//!
//! `toxiproxy_rust` makes proxies, installs toxics, enables, disables and resets. Plain HTTP does what it cannot: read
//! with a look at the status, remove one toxic, `reset_peer`, delete, metrics. Both go to one server, so what one
//! changes the other reads back.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use toxiproxy_rust::client::Client;
use toxiproxy_rust::proxy::{Proxy, ProxyPack};

use super::toxic::Toxic;
use super::wire::{self, Bytes, ProxyState, ToxicState};
use super::{Cause, Cleared};

/// How long one plain HTTP call may take.
const ANSWER: Duration = Duration::from_secs(2);
/// The mark in the embedded server's version; it has none of the real one's traps.
const EMBEDDED: &str = "-fencepost";

/// Where each proxy listens and leads that was made through this handle.
pub(super) type Known = BTreeMap<String, (SocketAddr, SocketAddr)>;

/// See the module.
pub(super) struct Driver {
    api: SocketAddr,
    /// None before the first use and after a panic, which poisons it.
    client: Option<Client>,
    plain: reqwest::Client,
    runtime: tokio::runtime::Runtime,
    known: Arc<Mutex<Known>>,
    embedded: Option<bool>,
}

impl Driver {
    /// A driver that has not said anything yet.
    pub(super) fn new(api: SocketAddr, known: Arc<Mutex<Known>>) -> Result<Driver, Cause> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        // Nothing drives a kept connection between two calls, so none is kept.
        let plain = reqwest::Client::builder()
            .no_proxy()
            .timeout(ANSWER)
            .pool_max_idle_per_host(0)
            .build();
        Ok(Driver {
            api,
            client: None,
            plain: plain.map_err(|error| Cause::Thread(error.to_string()))?,
            runtime: runtime.map_err(|error| Cause::Thread(error.to_string()))?,
            known,
            embedded: None,
        })
    }

    /// The server's version.
    pub(super) fn version(&mut self) -> Result<String, Cause> {
        let body = self.with_client(|client| {
            if client.is_running() {
                client.version()
            } else {
                Err("connection refused".to_owned())
            }
        })?;
        let version = wire::version(&body)?;
        self.embedded = Some(version.ends_with(EMBEDDED));
        Ok(version)
    }

    /// See [`super::Proxies::create`].
    pub(super) fn create(
        &mut self,
        name: &str,
        listen: SocketAddr,
        upstream: SocketAddr,
    ) -> Result<SocketAddr, Cause> {
        // Populating over an equal proxy would keep its toxics.
        self.delete(name)?;
        let pack = ProxyPack::new(name.to_owned(), listen.to_string(), upstream.to_string());
        self.with_client(|client| client.populate(vec![pack]))?;
        let state = self.state(name)?;
        let found: Result<SocketAddr, _> = state.listen.parse();
        let fits = |found: &SocketAddr| listen.port() == 0 || found.port() == listen.port();
        match found {
            Ok(found)
                if fits(&found)
                    && state.enabled
                    && state.toxics.is_empty()
                    && state.upstream == upstream.to_string() =>
            {
                self.known().insert(name.to_owned(), (found, upstream));
                Ok(found)
            }
            _ => Err(not_in_force(
                format!("an enabled proxy from {listen} to {upstream}"),
                &state,
            )),
        }
    }

    /// See [`super::Proxies::delete`].
    pub(super) fn delete(&mut self, name: &str) -> Result<(), Cause> {
        let path = format!("proxies/{name}");
        match self.plain(Method::DELETE, &path, None) {
            Ok(_) => {}
            Err(Cause::Refused { status: 404, .. }) => return Ok(()),
            Err(cause) => return Err(cause),
        }
        self.known().remove(name);
        match self.state(name) {
            Err(Cause::Refused { status: 404, .. }) => Ok(()),
            Ok(state) => Err(not_in_force("no such proxy".to_owned(), &state)),
            Err(cause) => Err(cause),
        }
    }

    /// See [`super::Proxies::add`].
    pub(super) fn add(&mut self, name: &str, toxic: Toxic) -> Result<(), Cause> {
        // A look that fails in words, where the client crate would fail to read the answer.
        self.state(name)?;
        for stream in toxic.stream().words() {
            self.install(name, toxic, stream)?;
            let state = self.state(name)?;
            if !state
                .toxics
                .iter()
                .any(|shown| is_in_force(toxic, stream, shown))
            {
                return Err(not_in_force(toxic.to_string(), &state));
            }
        }
        Ok(())
    }

    fn install(&mut self, name: &str, toxic: Toxic, stream: &str) -> Result<(), Cause> {
        if let Toxic::ResetPeer { ms, .. } = toxic {
            let body = json!({
                "name": format!("reset_peer_{stream}"), "type": "reset_peer", "stream": stream,
                "toxicity": 1.0, "attributes": {"timeout": ms}
            });
            return self
                .plain(Method::POST, &format!("proxies/{name}/toxics"), Some(&body))
                .map(drop);
        }
        let stream = stream.to_owned();
        self.with_proxy(name, move |proxy| {
            match toxic {
                Toxic::Hole { .. } => proxy.with_timeout(stream, 0, 1.0),
                Toxic::Timeout { ms, .. } => proxy.with_timeout(stream, ms, 1.0),
                Toxic::Latency { ms, jitter_ms, .. } => {
                    proxy.with_latency(stream, ms, jitter_ms, 1.0)
                }
                Toxic::Bandwidth {
                    kilobytes_per_second,
                    ..
                } => proxy.with_bandwidth(stream, kilobytes_per_second, 1.0),
                Toxic::SlowClose { ms, .. } => proxy.with_slow_close(stream, ms, 1.0),
                Toxic::LimitData { bytes, .. } => proxy.with_limit_data(stream, bytes, 1.0),
                Toxic::ResetPeer { .. } => proxy,
            };
            Ok(())
        })
    }

    /// See [`super::Proxies::clear`].
    pub(super) fn clear(&mut self, name: &str) -> Result<Cleared, Cause> {
        let state = self.state(name)?;
        if self.is_embedded()? {
            return self
                .remove_each(name, &state.toxics)
                .map(|()| Cleared::Removed);
        }
        // A real server waits some 5 s for each chunk that a stall held, and hangs over a full pipe.
        let stalls =
            |toxic: &ToxicState| ["latency", "bandwidth", "slicer"].contains(&toxic.kind.as_str());
        if !state.toxics.iter().any(stalls) && self.remove_each(name, &state.toxics).is_ok() {
            return Ok(Cleared::Removed);
        }
        self.recreate(&state)?;
        Ok(Cleared::Recreated)
    }

    fn remove_each(&mut self, name: &str, toxics: &[ToxicState]) -> Result<(), Cause> {
        for toxic in toxics {
            match self.plain(
                Method::DELETE,
                &format!("proxies/{name}/toxics/{}", toxic.name),
                None,
            ) {
                Ok(_) | Err(Cause::Refused { status: 404, .. }) => {}
                Err(cause) => return Err(cause),
            }
        }
        let state = self.state(name)?;
        if state.toxics.is_empty() {
            Ok(())
        } else {
            Err(not_in_force("no toxics".to_owned(), &state))
        }
    }

    /// Makes a proxy anew on its own port, enabled or not as it was.
    pub(super) fn recreate(&mut self, state: &ProxyState) -> Result<(), Cause> {
        let known = self.known().get(&state.name).copied();
        let address = |text: &str| {
            text.parse()
                .map_err(|_| Cause::Unreadable(format!("address {text:?}")))
        };
        let (listen, upstream) = match known {
            Some(addresses) => addresses,
            None => (address(&state.listen)?, address(&state.upstream)?),
        };
        self.create(&state.name, listen, upstream)?;
        if state.enabled {
            Ok(())
        } else {
            self.set_enabled(&state.name, false)
        }
    }

    /// See [`super::Proxies::set_enabled`].
    pub(super) fn set_enabled(&mut self, name: &str, enabled: bool) -> Result<(), Cause> {
        self.state(name)?;
        self.with_proxy(name, |proxy| {
            if enabled {
                proxy.enable()
            } else {
                proxy.disable()
            }
        })?;
        let state = self.state(name)?;
        if state.enabled == enabled {
            Ok(())
        } else {
            Err(not_in_force(format!("enabled={enabled}"), &state))
        }
    }

    /// See [`super::Proxies::reset`].
    pub(super) fn reset(&mut self) -> Result<(), Cause> {
        let names: Vec<String> = self.known().keys().cloned().collect();
        if self.is_embedded()? {
            self.with_client(Client::reset)?;
            for name in names {
                let state = self.state(&name)?;
                if !state.enabled || !state.toxics.is_empty() {
                    return Err(not_in_force(
                        "an enabled proxy without toxics".to_owned(),
                        &state,
                    ));
                }
            }
            return Ok(());
        }
        let mut first = Ok(());
        for name in names {
            let healed = self
                .clear(&name)
                .and_then(|_| self.set_enabled(&name, true));
            first = first.and(healed);
        }
        first
    }

    /// See [`super::Proxies::state`].
    pub(super) fn state(&mut self, name: &str) -> Result<ProxyState, Cause> {
        let body = self.plain(Method::GET, &format!("proxies/{name}"), None)?;
        serde_json::from_str(&body).map_err(|error| Cause::Unreadable(error.to_string()))
    }

    /// See [`super::Proxies::bytes`].
    pub(super) fn bytes(&mut self, name: &str) -> Result<Option<Bytes>, Cause> {
        let state = self.state(name)?;
        match self.plain(Method::GET, "metrics", None) {
            Ok(text) => Ok(wire::bytes(&text, &state)),
            Err(Cause::Refused { status: 404, .. }) => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_embedded(&mut self) -> Result<bool, Cause> {
        if self.embedded.is_none() {
            self.version()?;
        }
        Ok(self.embedded.unwrap_or(false))
    }

    /// One call through the client crate. After a panic its lock is poisoned for good, so the next call makes another.
    fn with_client<T>(
        &mut self,
        call: impl FnOnce(&Client) -> Result<T, String>,
    ) -> Result<T, Cause> {
        let (api, kept) = (self.api, self.client.take());
        let called = catch_unwind(AssertUnwindSafe(move || {
            let client = kept.unwrap_or_else(|| Client::new(api));
            let answer = call(&client);
            (client, answer)
        }));
        match called {
            Ok((client, answer)) => {
                self.client = Some(client);
                answer.map_err(Cause::Unreachable)
            }
            Err(panic) => Err(Cause::Panicked(words(panic.as_ref()))),
        }
    }

    /// Panics inside the client crate's turn, as the crate does where the server is gone.
    #[cfg(test)]
    pub(super) fn fail_inside_the_client(&mut self) -> Cause {
        match self.with_client::<()>(|_| panic!("as it does")) {
            Ok(()) => unreachable!("the call above always panics"),
            Err(cause) => cause,
        }
    }

    fn with_proxy(
        &mut self,
        name: &str,
        call: impl FnOnce(&Proxy) -> Result<(), String>,
    ) -> Result<(), Cause> {
        self.with_client(|client| call(&client.find_proxy(name)?))
    }

    /// One plain call; the body of an answer of 2xx.
    fn plain(&mut self, method: Method, path: &str, body: Option<&Value>) -> Result<String, Cause> {
        let mut request = self
            .plain
            .request(method, format!("http://{}/{path}", self.api));
        if let Some(body) = body {
            request = request.json(body);
        }
        let answered: Result<(StatusCode, String), reqwest::Error> = self.runtime.block_on(async {
            let response = request.send().await?;
            Ok((response.status(), response.text().await?))
        });
        match answered {
            Ok((status, body)) if status.is_success() => Ok(body),
            Ok((status, body)) => Err(wire::refusal(status.as_u16(), &body)),
            Err(error) if error.is_timeout() => Err(Cause::Deadline(ANSWER)),
            Err(error) => Err(Cause::Unreachable(error.to_string())),
        }
    }
}

fn is_in_force(toxic: Toxic, stream: &str, shown: &ToxicState) -> bool {
    shown.kind == toxic.kind()
        && shown.stream == stream
        && shown.toxicity == 1.0
        && toxic.attributes().iter().all(|(name, value)| {
            shown.attributes.get(*name).and_then(Value::as_u64) == Some(u64::from(*value))
        })
}

fn not_in_force(wanted: String, state: &ProxyState) -> Cause {
    let toxics: Vec<String> = state
        .toxics
        .iter()
        .map(|toxic| format!("{} {:?}", toxic.name, toxic.attributes))
        .collect();
    let found = format!(
        "listen={} upstream={} enabled={} toxics=[{}]",
        state.listen,
        state.upstream,
        state.enabled,
        toxics.join(", ")
    );
    Cause::NotInForce { wanted, found }
}

/// What a panic said.
fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "a panic without words".to_owned())
}
