//! Which node of a service a fault strikes: the one that the seed drew, or the one that leads now.

use std::time::Duration;

use fencepost_workloads::suite::{Fault, On};

use super::nemesis::{Means, Reserved};
use crate::run_record::PlannedFault;
use crate::targets::Service;

/// How long to wait for a leader, and until nothing else is done to its system: faults that fall due together take turns.
const FREE_WITHIN: Duration = Duration::from_secs(5);
/// How long before it is looked at again.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// A node to be struck, and nothing else done to it or to its system meanwhile: of several nodes that need a majority
/// only one is ever down, or there would be nothing left to be wrong.
pub(super) struct Struck<'a> {
    /// Its number.
    pub(super) node: usize,
    /// Its name.
    pub(super) name: String,
    /// Its system, and what else is named after it.
    pub(super) reserved: Reserved<'a>,
}

/// The node for a fault on a service or on the leader; otherwise why there is none.
pub(super) async fn pick<'a>(
    means: &'a Means,
    planned: &PlannedFault,
    fault: &Fault,
) -> Result<Struck<'a>, &'static str> {
    let service = match fault.on {
        Some(On::Lock) => Service::Lock,
        Some(On::Resource) => Service::Resource,
        _ => return leader(means).await,
    };
    serving(means, service, planned.node.unwrap_or(0) as usize).await
}

/// The node of a service that was drawn, once nothing else is done to it; otherwise why there is none.
pub(super) async fn serving(
    means: &Means,
    service: Service,
    drawn: usize,
) -> Result<Struck<'_>, &'static str> {
    let nodes = means.target.serving(service);
    let node = nodes.get(drawn % nodes.len().max(1));
    let node = *node.ok_or("the service has no node that is ours to strike")?;
    let deadline = means.clock.now() + FREE_WITHIN;
    loop {
        if let Some(struck) = take(means, node) {
            return Ok(struck);
        }
        wait(means, deadline).await.map_err(|()| BUSY)?;
    }
}

const BUSY: &str = "something else was being done to it, or to another node of its system, for 5 s";

/// The node that leads now, once there is one.
pub(super) async fn leader(means: &Means) -> Result<Struck<'_>, &'static str> {
    let deadline = means.clock.now() + FREE_WITHIN;
    loop {
        let why = match means.target.leader().await {
            Some(node) => match take(means, node) {
                Some(struck) => return Ok(struck),
                None => BUSY,
            },
            None => "no node led within 5 s",
        };
        wait(means, deadline).await.map_err(|()| why)?;
    }
}

/// A moment; `Err` once `deadline` is over, or the run.
async fn wait(means: &Means, deadline: Duration) -> Result<(), ()> {
    let next = means.clock.now() + BETWEEN_LOOKS;
    if next < deadline && means.sleep(next).await {
        Ok(())
    } else {
        Err(())
    }
}

fn take(means: &Means, node: usize) -> Option<Struck<'_>> {
    let (name, system) = (means.target.name(node), means.target.system_of(node));
    let mut names = vec![name.to_owned()];
    if system != name {
        names.push(system.to_owned());
    }
    Some(Struck {
        node,
        name: name.to_owned(),
        reserved: means.reserve(&names)?,
    })
}
