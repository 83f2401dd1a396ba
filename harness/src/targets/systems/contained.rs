//! What serves as lock and as resource in containers: the reference services of the one image, or images of the user's.

use std::net::SocketAddr;

use fencepost_workloads::suite::{Fault, FaultKind, On, Suite};
use fencepost_workloads::systems::Server;

use super::{Doing, Place, Site, System, postgres, reference, server_of};
use crate::error::HarnessError;
use crate::faults::Greeting;
use crate::targets::NodeCommand;
use crate::targets::docker::{ContainerCommand, Estate};
use crate::targets::local::Service;

/// Where a service's volume is in its container.
const DATA: &str = "/data";

/// One of the two.
#[derive(Debug)]
struct Contained {
    place: [Place; 1],
    container: ContainerCommand,
    /// What it speaks.
    server: Server,
    /// Where clients are served, in the run's network.
    upstream: SocketAddr,
    /// Where the door is told to listen through which alone we reach it.
    side_door: Option<SocketAddr>,
    image: String,
}

pub(super) fn plan(
    suite: &Suite,
    site: &Site<'_>,
    estate: &Estate,
    service: Service,
) -> Result<Box<dyn System>, HarnessError> {
    let own = match service {
        Service::Lock => &suite.nodes.lock,
        Service::Resource => &suite.nodes.resource,
    };
    let (name, usual) = match service {
        Service::Lock => ("lock", 8_100),
        Service::Resource => ("resource", 8_200),
    };
    let port = match own.as_ref().and_then(|own| own.port) {
        Some(port) => u16::try_from(port.0).expect("a port of a suite is at most 65535"),
        None => usual,
    };
    let mut arguments = reference::arguments(site, service, &format!("0.0.0.0:{port}"));
    arguments.extend(["--data".to_owned(), DATA.to_owned()]);
    let address = estate.claim_address();
    let upstream = SocketAddr::from((address, port));
    let (side_door, reached) = match estate.is_remote() {
        true => {
            let (told, reached) = estate.claim_link()?;
            (Some(told), reached)
        }
        false => (None, upstream),
    };
    let mut container = ContainerCommand {
        data: Some(DATA.to_owned()),
        ..ContainerCommand::new(name, address, arguments)
    };
    let on = match service {
        Service::Lock => On::Lock,
        Service::Resource => On::Resource,
    };
    let jumps = |fault: &Fault| fault.kind == FaultKind::Clock && fault.on.as_ref() == Some(&on);
    if let Some(own) = own {
        // Nothing is lost by it: what only the reference service can be told is refused with an image of one's own.
        own.image.clone_into(&mut container.image);
        container.composed = own.compose.clone().zip(own.service.clone());
        own.command.clone_into(&mut container.arguments);
        own.data.clone_into(&mut container.data);
        container.environment = own.environment.clone().into_iter().collect();
    } else if estate.image().faketime && suite.fault.iter().any(jumps) {
        container.with_a_clock();
    }
    let image = container.image.as_ref().unwrap_or(&estate.image().tag);
    let image = image.clone();
    Ok(Box::new(Contained {
        place: [Place {
            name: name.to_owned(),
            address: reached,
        }],
        server: server_of(suite, service),
        container,
        upstream,
        side_door,
        image,
    }))
}

impl System for Contained {
    fn name(&self) -> &str {
        &self.place[0].name
    }

    fn places(&self) -> &[Place] {
        &self.place
    }

    fn command(&self, _place: usize) -> Option<NodeCommand> {
        None
    }

    fn container(&self, _place: usize) -> Option<ContainerCommand> {
        Some(self.container.clone())
    }

    fn upstream(&self, _place: usize) -> SocketAddr {
        self.upstream
    }

    fn side_door(&self, _place: usize) -> Option<SocketAddr> {
        self.side_door
    }

    fn ready<'a>(&'a self, _place: usize, http: &'a reqwest::Client) -> Doing<'a, bool> {
        let address = self.place[0].address;
        let path = match self.server {
            Server::Postgres => return postgres::serves(address),
            Server::Etcd => "/health",
            Server::Reference => "/healthz",
        };
        let url = format!("http://{address}{path}");
        Box::pin(async move {
            let answer = http.get(url).send().await;
            answer.is_ok_and(|answer| answer.status().is_success())
        })
    }

    fn greeting(&self) -> Greeting {
        match self.server {
            Server::Postgres => Greeting::Postgres,
            Server::Etcd => Greeting::Http("/version"),
            Server::Reference => Greeting::Http("/healthz"),
        }
    }

    fn version(&self) -> Option<(String, String)> {
        let name = match self.container.image {
            Some(_) => format!("{} image", self.place[0].name),
            None => "image".to_owned(),
        };
        Some((name, self.image.clone()))
    }
}
