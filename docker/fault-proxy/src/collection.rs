//! The proxies of a server by name, and the calls that concern several of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use tokio::sync::Semaphore;

use crate::failure::Failure;
use crate::meters::Meters;
use crate::proxy::{Commons, Proxy, View, resolved};

/// A proxy as a client asks for it; what is absent keeps its value or gets the default.
#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    #[serde(default)]
    name: String,
    listen: Option<String>,
    upstream: Option<String>,
    enabled: Option<bool>,
}

/// All proxies; see the module.
#[derive(Debug)]
pub(crate) struct Collection {
    proxies: BTreeMap<String, Proxy>,
    commons: Commons,
}

impl Collection {
    /// No proxies; room for `connections` connections at a time over all that will come.
    pub(crate) fn new(connections: usize) -> Collection {
        Collection {
            proxies: BTreeMap::new(),
            commons: Commons {
                permits: Arc::new(Semaphore::new(connections)),
                meters: Arc::new(Meters::default()),
            },
        }
    }

    /// The byte counters of all proxies that ever were.
    pub(crate) fn meters(&self) -> &Meters {
        &self.commons.meters
    }

    /// The proxy of that name.
    pub(crate) fn proxy(&self, name: &str) -> Result<&Proxy, Failure> {
        self.proxies.get(name).ok_or(Failure::ProxyNotFound)
    }

    /// All proxies with their toxics.
    pub(crate) fn views(&self) -> BTreeMap<&str, View> {
        self.proxies
            .iter()
            .map(|(name, proxy)| (name.as_str(), proxy.view()))
            .collect()
    }

    /// Creates a proxy, enabled unless asked otherwise.
    pub(crate) async fn create(&mut self, wanted: Wanted) -> Result<View, Failure> {
        if wanted.name.is_empty() {
            return Err(Failure::MissingField("name".to_owned()));
        }
        let upstream = wanted.upstream.filter(|upstream| !upstream.is_empty());
        let upstream = upstream.ok_or_else(|| Failure::MissingField("upstream".to_owned()))?;
        if self.proxies.contains_key(&wanted.name) {
            return Err(Failure::ProxyAlreadyExists);
        }
        let listen = wanted.listen.unwrap_or_default();
        let enabled = wanted.enabled.unwrap_or(true);
        self.place(wanted.name, listen, upstream, enabled).await
    }

    async fn place(
        &mut self,
        name: String,
        listen: String,
        upstream: String,
        enabled: bool,
    ) -> Result<View, Failure> {
        let mut proxy = Proxy::new(name.clone(), listen, upstream, self.commons.clone());
        if enabled {
            proxy.start().await?;
        }
        let view = proxy.view();
        self.proxies.insert(name, proxy);
        Ok(view)
    }

    /// Changes a proxy's addresses or state.
    pub(crate) async fn update(&mut self, name: &str, wanted: Wanted) -> Result<View, Failure> {
        let proxy = self.proxies.get_mut(name).ok_or(Failure::ProxyNotFound)?;
        let now = proxy.view();
        let listen = wanted.listen.unwrap_or_else(|| now.listen().to_owned());
        let upstream = wanted.upstream.unwrap_or_else(|| now.upstream().to_owned());
        let enabled = wanted.enabled.unwrap_or_else(|| now.enabled());
        proxy.update(listen, upstream, enabled).await?;
        Ok(proxy.view())
    }

    /// Stops a proxy and forgets it.
    pub(crate) async fn delete(&mut self, name: &str) -> Result<(), Failure> {
        let mut proxy = self.proxies.remove(name).ok_or(Failure::ProxyNotFound)?;
        proxy.stop().await;
        Ok(())
    }

    /// Makes the given proxies be there. One that leads to the same addresses keeps its toxics and connections.
    /// All are checked before the first is touched; a port that cannot be had ends the call half-way.
    pub(crate) async fn populate(&mut self, wanted: Vec<Wanted>) -> Result<Vec<View>, Failure> {
        let mut names = BTreeSet::new();
        for (place, one) in wanted.iter().enumerate() {
            let missing =
                |field: &str| Failure::MissingField(format!("{field} at proxy {}", place + 1));
            if one.name.is_empty() {
                return Err(missing("name"));
            }
            if one.upstream.as_deref().unwrap_or_default().is_empty() {
                return Err(missing("upstream"));
            }
            if !names.insert(one.name.as_str()) {
                return Err(Failure::DuplicateName(one.name.clone()));
            }
            if one.enabled.unwrap_or(true) {
                resolved(one.listen.as_deref().unwrap_or_default()).await?;
            }
        }
        let mut views = Vec::new();
        for one in wanted {
            views.push(self.put(one).await?);
        }
        Ok(views)
    }

    async fn put(&mut self, wanted: Wanted) -> Result<View, Failure> {
        let listen = wanted.listen.unwrap_or_default();
        let upstream = wanted.upstream.unwrap_or_default();
        let enabled = wanted.enabled.unwrap_or(true);
        if let Some(proxy) = self.proxies.get_mut(&wanted.name) {
            if proxy.is_at(&listen, &upstream).await {
                proxy.update(listen, upstream, enabled).await?;
                return Ok(proxy.view());
            }
            self.delete(&wanted.name).await?;
        }
        self.place(wanted.name, listen, upstream, enabled).await
    }

    /// Enables every proxy and removes every toxic.
    pub(crate) async fn reset(&mut self) -> Result<(), Failure> {
        for proxy in self.proxies.values_mut() {
            proxy.start().await?;
            proxy.line().clear();
        }
        Ok(())
    }

    /// Stops and forgets every proxy.
    pub(crate) async fn close(&mut self) {
        for (_, mut proxy) in std::mem::take(&mut self.proxies) {
            proxy.stop().await;
        }
    }
}
