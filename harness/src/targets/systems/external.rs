//! Servers that the user started: reached through the run's proxies, never stopped, killed or started.

use std::net::{SocketAddr, ToSocketAddrs};

use fencepost_workloads::suite::Suite;
use fencepost_workloads::systems::Server;

use super::{Doing, Place, System, server_of};
use crate::error::HarnessError;
use crate::faults::Greeting;
use crate::targets::NodeCommand;
use crate::targets::local::Service;

#[derive(Debug)]
struct External {
    name: &'static str,
    places: Vec<Place>,
    greeting: Greeting,
}

pub(super) fn plan(suite: &Suite, service: Service) -> Result<Box<dyn System>, HarnessError> {
    let places = addresses(suite, service)?
        .into_iter()
        .map(|(name, address)| Place { name, address })
        .collect();
    Ok(Box::new(External {
        name: service.name(),
        places,
        greeting: match server_of(suite, service) {
            Server::Postgres => Greeting::Postgres,
            Server::Etcd | Server::Reference => Greeting::Http("/version"),
        },
    }))
}

/// The addresses as written, and as they are resolved now.
///
/// # Errors
/// When one has no address.
pub fn addresses(
    suite: &Suite,
    service: Service,
) -> Result<Vec<(String, SocketAddr)>, HarnessError> {
    let (of_lock, of_resource) = suite.access();
    let access = match service {
        Service::Lock => of_lock,
        Service::Resource => of_resource,
    };
    let resolve = |text: &str| {
        let address = text.to_socket_addrs().map(|mut addresses| addresses.next());
        match address {
            Ok(Some(address)) => Ok((text.to_owned(), address)),
            Ok(None) => Err(HarnessError::Usage(format!(
                "{text}: the name has no address"
            ))),
            Err(error) => Err(HarnessError::Usage(format!(
                "{text}: {error}; the host and port of a running server are right"
            ))),
        }
    };
    access.addresses().into_iter().map(resolve).collect()
}

impl System for External {
    fn name(&self) -> &str {
        self.name
    }

    fn places(&self) -> &[Place] {
        &self.places
    }

    fn command(&self, _place: usize) -> Option<NodeCommand> {
        None
    }

    fn ready<'a>(&'a self, _place: usize, _http: &'a reqwest::Client) -> Doing<'a, bool> {
        // Whoever prepares the run's place there asks for more than this could.
        Box::pin(async { true })
    }

    fn greeting(&self) -> Greeting {
        self.greeting
    }
}
