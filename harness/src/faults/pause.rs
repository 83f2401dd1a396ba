//! SIGSTOP to every process of a node, SIGCONT after a while; or its control group frozen, and thawed.

use std::sync::Arc;
use std::time::Duration;

use fencepost_workloads::suite::{Fault, FaultKind, On};
use tokio::sync::oneshot;

use super::nemesis::{Means, Reserved, event, on_node, worker_name};
use super::service;
use super::zombie::{AIM_WITHIN, take_holder};
use crate::run_record::PlannedFault;
use crate::runner::conductor::Wish;
use crate::targets::SharedNode;

/// What is about to be stopped.
pub(super) struct Victim<'a> {
    node: SharedNode,
    name: String,
    /// The worker that the conductor holds back, if it is one.
    worker: Option<usize>,
    reserved: Reserved<'a>,
}

pub(super) async fn inject(means: &Means, planned: &PlannedFault, fault: &Fault) {
    let busy = "something else was being done to every node that would do";
    let victim = match fault.on {
        Some(On::Lock | On::Resource | On::Leader) => service::pick(means, planned, fault)
            .await
            .map(|struck| Victim {
                node: means.target.node(struck.node),
                name: struck.name,
                worker: None,
                reserved: struck.reserved,
            }),
        Some(On::Holder) => holder(means)
            .await
            .ok_or("no holder with a rival on another worker within 2 s"),
        Some(On::Waiter) => waiter(means)
            .await
            .ok_or("nobody on a free worker queued for a lock within 2 s"),
        _ => worker(means, planned, fault).await.ok_or(busy),
    };
    let victim = match victim {
        Ok(victim) => victim,
        Err(why) => {
            means.skip(event(planned, fault.kind, Vec::new()), why);
            return;
        }
    };
    let line = event(planned, fault.kind, vec![victim.name.clone()]);
    let freezes = fault.kind == FaultKind::Freeze;
    if !means.announce(&line) {
        victim.let_go(means);
        return;
    }
    let stopped = on_node(Arc::clone(&victim.node), move |node| match freezes {
        true => node.freeze(),
        false => node.stop(),
    })
    .await;
    let outcome = means.begin_with(&line, stopped);
    means
        .sleep(means.clock.now() + Duration::from_millis(planned.length_ms))
        .await;
    let resumed = on_node(Arc::clone(&victim.node), move |node| match freezes {
        true => node.thaw(),
        false => node.resume(),
    })
    .await;
    means.end_with(line, outcome, resumed);
    victim.let_go(means);
}

impl<'a> Victim<'a> {
    /// The worker that it is, with its reservation.
    pub(super) fn into_worker(self) -> Option<(usize, Reserved<'a>)> {
        Some((self.worker?, self.reserved))
    }

    /// The conductor may hand operations to it again.
    fn let_go(&self, means: &Means) {
        if let Some(worker) = self.worker {
            means.wish(Wish::LetGo { worker, aim: None });
        }
    }
}

async fn holder(means: &Means) -> Option<Victim<'_>> {
    let held = take_holder(means, false).await?;
    let name = worker_name(held.worker);
    match means.reserve(std::slice::from_ref(&name)) {
        Some(reserved) => Some(Victim {
            node: means.target.worker(held.worker),
            name,
            worker: Some(held.worker),
            reserved,
        }),
        None => {
            means.wish(Wish::LetGo {
                worker: held.worker,
                aim: None,
            });
            None
        }
    }
}

/// The worker of a client that queues for a lock.
async fn waiter(means: &Means) -> Option<Victim<'_>> {
    let (reply, mut answer) = oneshot::channel();
    means.wish(Wish::TakeWaiter {
        avoid: means.busy_workers(),
        reply,
    });
    let taken = tokio::select! {
        taken = tokio::time::timeout(AIM_WITHIN, &mut answer) => taken.ok().and_then(Result::ok),
        () = means.stopped() => None,
    };
    answer.close();
    let worker = taken.or_else(|| answer.try_recv().ok())?;
    let name = worker_name(worker);
    match means.reserve(std::slice::from_ref(&name)) {
        Some(reserved) if taken.is_some() => Some(Victim {
            node: means.target.worker(worker),
            name,
            worker: Some(worker),
            reserved,
        }),
        _ => {
            means.wish(Wish::LetGo { worker, aim: None });
            None
        }
    }
}

/// The worker that was drawn, or the next one that is free; one that the suite names, and no other.
pub(super) async fn worker<'a>(
    means: &'a Means,
    planned: &PlannedFault,
    fault: &Fault,
) -> Option<Victim<'a>> {
    let drawn = planned.worker? as usize;
    let choices = match fault.on {
        Some(On::Node(_)) => 1,
        _ => means.workers,
    };
    for worker in (0..choices).map(|step| (drawn + step) % means.workers) {
        let name = worker_name(worker);
        let Some(reserved) = means.reserve(std::slice::from_ref(&name)) else {
            continue;
        };
        let (reply, answer) = oneshot::channel();
        means.wish(Wish::HoldBack { worker, reply });
        if answer.await.unwrap_or(false) {
            return Some(Victim {
                node: means.target.worker(worker),
                name,
                worker: Some(worker),
                reserved,
            });
        }
    }
    None
}
