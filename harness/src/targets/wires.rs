//! Every link of a run, and the proxies that it is made of: one for each node that the link leads to.

use std::net::SocketAddr;

use super::local::Service;
use crate::faults::Greeting;

/// How the link of a node's peers to it is called: `etcd2-peers`.
pub const PEERS: &str = "peers";

/// One proxy's place.
#[derive(Clone, Debug)]
pub struct Wire {
    /// The link that it is a part of: `w1-lock`, `etcd2-peers`.
    pub link: String,
    /// The proxy's name on the server.
    pub proxy: String,
    /// Where it listens, once made, as whoever uses it reaches it.
    pub listen: SocketAddr,
    /// Where the proxy is told to listen: the same, except in a container whose ports are published.
    pub told: SocketAddr,
    /// Where it leads.
    pub upstream: SocketAddr,
    /// What its service answers.
    pub greeting: Greeting,
}

/// The name of a worker's link to a service.
#[must_use]
pub fn link_of(worker: usize, service: Service) -> String {
    format!("w{}-{}", worker + 1, service.name())
}

/// The name of the `part`-th of `parts` proxies of a link.
pub(super) fn proxy_name(run: &str, link: &str, part: usize, parts: usize) -> String {
    match parts {
        1 => format!("fp-{run}-{link}"),
        _ => format!("fp-{run}-{link}-{}", part + 1),
    }
}
