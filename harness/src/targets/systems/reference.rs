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

pub(super) fn plan(
    site: &Site<'_>,
    ports: &mut Ports,
    service: Service,
) -> Result<Box<dyn System>, HarnessError> {
    let (name, verb) = match service {
        Service::Lock => ("lock", "lock-service"),
        Service::Resource => ("resource", "fenced-resource"),
    };
    let address = ports.claim()?;
    let mut arguments = vec![
        verb.into(),
        "--listen".into(),
        address.to_string().into(),
        "--data".into(),
        site.data(name).into(),
    ];
    let open = (service == Service::Resource && !site.compares).then_some("unfenced");
    if let Some(defect) = site.defects[service as usize].or(open) {
        arguments.extend(["--defect".into(), defect.into()]);
    }
    if let (Service::Lock, Some(first)) = (service, site.first_token) {
        arguments.extend(["--first-token".into(), first.to_string().into()]);
    }
    let command = NodeCommand {
        arguments,
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
