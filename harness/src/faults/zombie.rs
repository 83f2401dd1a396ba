//! The zombie: stop the holder of the newest token, wait until its successor's first write is acknowledged, let it go.
//!
//! ```text
//! c3 (w2)  granted 42 --write-- SIGSTOP ..............................SIGCONT --write under 42-->  refused, or corruption
//! c7 (w4)  queued ..................... granted 43 --write ok--|
//! ```
//!
//! The conductor lets the holder's operations end before it is stopped, hands it nothing while it is, and hands it its
//! next write the moment it runs again: the write then begins provably after its successor's.

use std::time::Duration;

use fencepost_checker::history::{FaultEvent, FaultOutcome};
use fencepost_workloads::suite::FaultKind;
use tokio::sync::oneshot;

use super::nemesis::{Means, Reserved, event, on_node, worker_name};
use crate::run_record::PlannedFault;
use crate::runner::conductor::{Held, SeenWrite, Wish};
use crate::targets::{Service, link_of};

/// How long before a holder is looked for again.
const BETWEEN_TRIES: Duration = Duration::from_millis(20);
/// How long to look for a holder that can be taken.
const AIM_WITHIN: Duration = Duration::from_secs(2);

pub(super) async fn inject(means: &Means, planned: &PlannedFault) {
    let Some((held, _reserved)) = take_and_reserve(means).await else {
        let why = "no holder with a rival on another worker, both with whole links, within 2 s";
        means.skip(event(planned, FaultKind::Zombie, Vec::new()), why);
        return;
    };
    let name = worker_name(held.worker);
    let mut line = event(planned, FaultKind::Zombie, vec![name]);
    line.lock = Some(held.lock_name.clone());
    line.client = Some(held.client_name.clone());
    line.token = Some(held.token);
    if !means.announce(&line) {
        means.wish(Wish::LetGo {
            worker: held.worker,
            aim: None,
        });
        return;
    }
    let node = means.target.worker(held.worker);
    let stopped = on_node(std::sync::Arc::clone(&node), |node| node.stop()).await;
    let successor = await_write(means, &held);
    means.begin(FaultEvent {
        outcome: Some(if stopped.is_ok() {
            FaultOutcome::Installed
        } else {
            FaultOutcome::Unknown
        }),
        evidence: Some(stopped.clone().unwrap_or_else(|why| why)),
        ..line.clone()
    });
    let written = tokio::select! {
        written = tokio::time::timeout(Duration::from_millis(planned.length_ms), successor) => {
            written.ok().and_then(Result::ok)
        }
        () = means.stopped() => None,
    };
    let resumed = on_node(node, |node| node.resume()).await;
    let proven = stopped.is_ok() && resumed.is_ok() && written.is_some();
    let seen = written.as_ref().map_or_else(
        || "no successor wrote before it was let go".to_owned(),
        describe,
    );
    means.end(FaultEvent {
        outcome: Some(if proven {
            FaultOutcome::Installed
        } else {
            FaultOutcome::Unknown
        }),
        evidence: Some(format!("{seen}; {}", resumed.unwrap_or_else(|why| why))),
        ..line
    });
    means.wish(Wish::LetGo {
        worker: held.worker,
        aim: written.map(|written| (held.client, written.key)),
    });
}

/// A holder, its worker held back, and nothing else done to the worker or to its links until the reservation is gone:
/// a zombie that wakes behind a cut link would prove nothing.
async fn take_and_reserve(means: &Means) -> Option<(Held, Reserved<'_>)> {
    let deadline = means.clock.now() + AIM_WITHIN;
    while means.clock.now() < deadline {
        let held = take_holder(means).await?;
        let name = worker_name(held.worker);
        let links = Service::ALL.map(|service| link_of(held.worker, service));
        if let Some(reserved) = means.reserve(&[&[name][..], &links].concat()) {
            return Some((held, reserved));
        }
        // Something was begun there since the workers to avoid were named.
        let worker = held.worker;
        means.wish(Wish::LetGo { worker, aim: None });
        means.sleep(means.clock.now() + BETWEEN_TRIES).await;
    }
    None
}

/// A holder whose worker the conductor now holds back.
pub(super) async fn take_holder(means: &Means) -> Option<Held> {
    let (reply, mut answer) = oneshot::channel();
    means.wish(Wish::TakeHolder {
        avoid: means.busy_workers(),
        reply,
    });
    let taken = tokio::select! {
        held = tokio::time::timeout(AIM_WITHIN, &mut answer) => held.ok().and_then(Result::ok),
        () = means.stopped() => None,
    };
    if taken.is_none() {
        // It may have been granted in the moment in which it was given up; then the worker must not stay held back.
        answer.close();
        if let Ok(held) = answer.try_recv() {
            means.wish(Wish::LetGo {
                worker: held.worker,
                aim: None,
            });
        }
    }
    taken
}

fn await_write(means: &Means, held: &Held) -> oneshot::Receiver<SeenWrite> {
    let (reply, answer) = oneshot::channel();
    means.wish(Wish::AwaitWrite {
        lock: held.lock,
        above: held.token,
        reply,
    });
    answer
}

fn describe(write: &SeenWrite) -> String {
    format!(
        "{} wrote {} under {} at {:.3} s",
        write.client,
        write.key,
        write.token,
        write.at.as_secs_f64()
    )
}
