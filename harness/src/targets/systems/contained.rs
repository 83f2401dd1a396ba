//! The reference lock service and the reference fenced resource as containers of the one image.

use std::net::SocketAddr;

use fencepost_workloads::suite::{Fault, FaultKind, On, Suite};

use super::{Doing, Place, Site, System};
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
    let (name, verb, port) = match service {
        Service::Lock => ("lock", "lock-service", 8_100),
        Service::Resource => ("resource", "fenced-resource", 8_200),
    };
    let mut arguments = vec![
        verb.to_owned(),
        "--listen".to_owned(),
        format!("0.0.0.0:{port}"),
        "--data".to_owned(),
        DATA.to_owned(),
    ];
    if let Some(defect) = site.defects[service as usize] {
        arguments.extend(["--defect".to_owned(), defect.to_owned()]);
    }
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
    if estate.image().faketime && suite.fault.iter().any(jumps) {
        container.with_a_clock();
    }
    Ok(Box::new(Contained {
        place: [Place {
            name: name.to_owned(),
            address: reached,
        }],
        container,
        upstream,
        side_door,
        image: estate.image().tag.clone(),
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
        let url = format!("http://{}/healthz", self.place[0].address);
        Box::pin(async move {
            let answer = http.get(url).send().await;
            answer.is_ok_and(|answer| answer.status().is_success())
        })
    }

    fn greeting(&self) -> Greeting {
        Greeting::Http("/healthz")
    }

    fn version(&self) -> Option<(String, String)> {
        Some(("image".to_owned(), self.image.clone()))
    }
}
