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

use super::nemesis::{Means, event, on_node, worker_name};
use crate::run_record::PlannedFault;
use crate::runner::conductor::{Held, SeenWrite, Wish};

/// How long to look for a holder that can be taken.
const AIM_WITHIN: Duration = Duration::from_secs(2);

pub(super) async fn inject(means: &Means, planned: &PlannedFault) {
    let Some(held) = take_holder(means).await else {
        means.skip(
            event(planned, FaultKind::Zombie, Vec::new()),
            "no holder with a rival on another worker within 2 s",
        );
        return;
    };
    let name = worker_name(held.worker);
    let mut line = event(planned, FaultKind::Zombie, vec![name.clone()]);
    let Some(_reserved) = means.reserve(std::slice::from_ref(&name)) else {
        means.skip(line, "something else was being done to the holder's worker");
        means.wish(Wish::LetGo {
            worker: held.worker,
            aim: None,
        });
        return;
    };
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
