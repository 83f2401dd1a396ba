//! SIGKILL to a service, and a restart on the same data and the same port.

use std::time::Duration;

use fencepost_checker::history::{FaultEvent, FaultOutcome};
use fencepost_workloads::suite::{Fault, FaultKind};

use super::nemesis::{Means, event, on_node};
use super::service::{self, Struck};
use crate::run_record::PlannedFault;

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
    let outcome = if killed.is_ok() {
        FaultOutcome::Installed
    } else {
        FaultOutcome::Unknown
    };
    means.begin(FaultEvent {
        outcome: Some(outcome),
        evidence: Some(killed.unwrap_or_else(|why| why)),
        ..line.clone()
    });
    means
        .sleep(means.clock.now() + Duration::from_millis(planned.length_ms))
        .await;
    let (outcome, evidence) = match means.target.start_again(node).await {
        Ok(evidence) => (outcome, evidence),
        Err(error) => {
            // The receiver is gone only when the run has ended for another reason.
            let _ = means.trouble.send(error.to_string());
            (FaultOutcome::Unknown, error.to_string())
        }
    };
    means.end(FaultEvent {
        outcome: Some(outcome),
        evidence: Some(evidence),
        ..line
    });
}
