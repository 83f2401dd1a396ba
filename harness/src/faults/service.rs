//! Which node of a service a fault strikes: the one that the seed drew, or the one that leads now.

use std::time::Duration;

use fencepost_workloads::suite::{Fault, On};

use super::nemesis::{Means, Reserved};
use crate::run_record::PlannedFault;
use crate::targets::Service;

/// How long to look for a leader.
const LEADS_WITHIN: Duration = Duration::from_secs(2);
/// How long before it is asked again.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(50);

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
    let nodes = means.target.serving(service);
    let drawn = planned.node.unwrap_or(0) as usize;
    let node = nodes.get(drawn % nodes.len().max(1));
    let node = *node.ok_or("the service has no node that is ours to strike")?;
    take(means, node).ok_or("something else was being done to it")
}

/// The node that leads now, once there is one.
pub(super) async fn leader(means: &Means) -> Result<Struck<'_>, &'static str> {
    let deadline = means.clock.now() + LEADS_WITHIN;
    loop {
        if let Some(node) = means.target.leader().await {
            return take(means, node).ok_or("something else was being done to its system");
        }
        let next = means.clock.now() + BETWEEN_QUESTIONS;
        if next > deadline || !means.sleep(next).await {
            return Err("no node led within 2 s");
        }
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
