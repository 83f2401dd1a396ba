//! SIGKILL to a service, and a restart on the same data and the same port. Workers are in `rebirth.rs`.

use std::time::Duration;

use fencepost_workloads::suite::{Fault, FaultKind};

use super::nemesis::{Means, event, on_node};
use super::service::{self, Struck};
use crate::run_record::PlannedFault;
use crate::targets::Service;

pub(super) async fn inject(means: &Means, planned: &PlannedFault, fault: &Fault) {
    let Struck {
        node,
        name,
        reserved: _reserved,
    } = match service::pick(means, planned, fault).await {
        Ok(struck) => struck,
        Err(why) => {
            means.skip(event(planned, FaultKind::Kill, Vec::new()), why);
            return;
        }
    };
    let line = event(planned, FaultKind::Kill, vec![name]);
    if !means.announce(&line) {
        return;
    }
    let killed = on_node(means.target.node(node), |node| node.kill()).await;
    let outcome = means.begin_with(&line, killed);
    means
        .sleep(means.clock.now() + Duration::from_millis(planned.length_ms))
        .await;
    means.end_with(line, outcome, start_again(means, node).await);
}

/// Kills a node of the resource and starts it again at once, as a part of another fault. Words either way.
pub(super) async fn restart_resource(means: &Means) -> Result<String, String> {
    let Struck {
        node,
        reserved: _reserved,
        ..
    } = service::serving(means, Service::Resource, 0).await?;
    let killed = on_node(means.target.node(node), |node| node.kill()).await?;
    let back = start_again(means, node).await?;
    Ok(format!(
        "the resource was killed ({killed}) and came back ({back})"
    ))
}

/// A node that does not come back ends the run.
async fn start_again(means: &Means, node: usize) -> Result<String, String> {
    means.target.start_again(node).await.map_err(|error| {
        // The receiver is gone only when the run has ended for another reason.
        let _ = means.trouble.send(error.to_string());
        error.to_string()
    })
}
