//! The reference lock service and the reference fenced resource: one process each, started from the one binary.

use super::{Doing, Place, Site, System};
use crate::error::HarnessError;
use crate::faults::Greeting;
use crate::targets::local::Service;
use crate::targets::{NodeCommand, Ports};

/// One of the two.
#[derive(Debug)]
struct Reference {
    place: [Place; 1],
    command: NodeCommand,
}

/// What the one binary is told to be that service, apart from where its data is: a process and a container alike.
pub(super) fn arguments(site: &Site<'_>, service: Service, listen: &str) -> Vec<String> {
    let verb = match service {
        Service::Lock => "lock-service",
        Service::Resource => "fenced-resource",
    };
    let mut words = vec![verb, "--listen", listen];
    let open = (service == Service::Resource && !site.compares).then_some("unfenced");
    if let Some(defect) = site.defects[service as usize].or(open) {
        words.extend(["--defect", defect]);
    }
    let first = site.first_token.map(|first| first.to_string());
    if let (Service::Lock, Some(first)) = (service, &first) {
        words.extend(["--first-token", first]);
    }
    words.into_iter().map(str::to_owned).collect()
}

pub(super) fn plan(
    site: &Site<'_>,
    ports: &mut Ports,
    service: Service,
) -> Result<Box<dyn System>, HarnessError> {
    let name = service.name();
    let address = ports.claim()?;
    let told = arguments(site, service, &address.to_string());
    let data = ["--data".into(), site.data(name).into()];
    let command = NodeCommand {
        arguments: told.into_iter().map(Into::into).chain(data).collect(),
        ..NodeCommand::new(site.executable, site.marker(name), site.log(name))
    };
    let place = [Place {
        name: name.to_owned(),
        address,
    }];
    Ok(Box::new(Reference { place, command }))
}

impl System for Reference {
    fn name(&self) -> &str {
        &self.place[0].name
    }

    fn places(&self) -> &[Place] {
        &self.place
    }

    fn command(&self, _place: usize) -> Option<NodeCommand> {
        Some(self.command.clone())
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
}
