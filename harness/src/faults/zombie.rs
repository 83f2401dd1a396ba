//! The zombie: stop the holder of the newest token, wait until its successor's first write is acknowledged, let it go.
//!
//! ```text
//! c3 (w2)  granted 42 --write-- SIGSTOP ..............................SIGCONT --write under 42-->  refused, or corruption
//! c7 (w4)  queued ..................... granted 43 --write ok--|
//! ```
//!
//! The conductor lets the holder's operations end before it is stopped, hands it nothing while it is, and hands it its
//! next write the moment it runs again: the write then begins provably after its successor's.
//!
//! What it does first may be something else (`then`): renew, release, acquire; or it is let go in the moment in which its
//! successor's first write is sent, so that both are under way at once; or the resource is restarted before it writes, once
//! somebody has read the successor's mark: between a fencing read and the next write. A *between* fault is
//! the same for a holder that has decided to write already: its worker holds the request, and is stopped with it.

use std::time::Duration;

use fencepost_checker::history::{FaultEvent, FaultOutcome};
use fencepost_workloads::holder::First;
use fencepost_workloads::suite::{Fault, FaultKind, Then};
use tokio::sync::oneshot;

use super::kill;
use super::nemesis::{Means, Reserved, event, on_node, worker_name};
use crate::run_record::PlannedFault;
use crate::runner::conductor::{Held, SeenWrite, Wish};
use crate::targets::{Service, link_of};

/// How long before a holder is looked for again.
const BETWEEN_TRIES: Duration = Duration::from_millis(20);
/// How long to look for a holder that can be taken.
pub(super) const AIM_WITHIN: Duration = Duration::from_secs(2);

/// How long to wait for a read of the successor's mark before a restart.
const OBSERVED_WITHIN: Duration = Duration::from_secs(1);
/// How long a lock's keys are left alone at most while the resource is restarted between a read and a write.
const RESTARTED_WITHIN: Duration = Duration::from_secs(5);

/// What ends the wait for a successor.
enum Met {
    /// Its first write was acknowledged.
    Wrote(SeenWrite),
    /// Its first write was sent.
    Sent,
}

pub(super) async fn inject(means: &Means, planned: &PlannedFault, fault: &Fault) {
    let announce = fault.kind == FaultKind::Between;
    let then = match fault.then {
        _ if announce => Then::Write,
        Some(then) => then,
        None => means.tally.exercise().least(),
    };
    let Some((held, _reserved)) = take_and_reserve(means, announce).await else {
        let why = "no holder with a rival on another worker, both with whole links, within 2 s";
        means.skip(event(planned, fault.kind, Vec::new()), why);
        return;
    };
    let name = worker_name(held.worker);
    let mut line = event(planned, fault.kind, vec![name]);
    line.lock = Some(held.lock_name.clone());
    line.client = Some(held.client_name.clone());
    line.token = Some(held.token);
    if !means.announce(&line) {
        let_go(means, held);
        return;
    }
    let node = means.target.worker(held.worker);
    let stopped = on_node(std::sync::Arc::clone(&node), |node| node.stop()).await;
    let successor = successor(means, &held, then);
    means.begin(FaultEvent {
        outcome: Some(if stopped.is_ok() {
            FaultOutcome::Installed
        } else {
            FaultOutcome::Unknown
        }),
        evidence: Some(stopped.clone().unwrap_or_else(|why| why)),
        ..line.clone()
    });
    let met = tokio::select! {
        met = tokio::time::timeout(Duration::from_millis(planned.length_ms), successor) => {
            met.ok().flatten()
        }
        () = means.stopped() => None,
    };
    let meanwhile = match &met {
        Some(Met::Wrote(write)) => meanwhile(means, planned, (&held, then), write).await,
        _ => Ok(String::new()),
    };
    let resumed = on_node(node, |node| node.resume()).await;
    let proven = stopped.is_ok() && resumed.is_ok() && met.is_some() && meanwhile.is_ok();
    let seen = match &met {
        Some(Met::Wrote(write)) => describe(write),
        Some(Met::Sent) => "its successor's first write was under way".to_owned(),
        None => "no successor came before it was let go".to_owned(),
    };
    let meanwhile = meanwhile.unwrap_or_else(|why| why);
    means.end(FaultEvent {
        outcome: Some(if proven {
            FaultOutcome::Installed
        } else {
            FaultOutcome::Unknown
        }),
        evidence: Some(format!(
            "{seen}{meanwhile}; {}; to {} first",
            resumed.unwrap_or_else(|why| why),
            first_word(then)
        )),
        ..line
    });
    if proven && then == Then::Race {
        means.tally.exercise().races += 1;
    }
    if held.announced.is_some() {
        means.wish(Wish::Go { held });
        return;
    }
    let key = match met {
        Some(Met::Wrote(write)) => Some(write.key),
        _ => None,
    };
    let first = match then {
        Then::Write | Then::Race | Then::Restart => First::Write,
        Then::Renew => First::Renew,
        Then::Release => First::Release,
        Then::Acquire => First::Acquire,
    };
    means.wish(Wish::Wake { held, first, key });
}

fn first_word(then: Then) -> &'static str {
    match then {
        Then::Race | Then::Restart => Then::Write.name(),
        then => then.name(),
    }
}

/// What is done between the successor's write and the holder's waking. Words for the evidence either way.
async fn meanwhile(
    means: &Means,
    planned: &PlannedFault,
    (held, then): (&Held, Then),
    write: &SeenWrite,
) -> Result<String, String> {
    let mut words = String::new();
    if let Some(after) = planned.delay_ms {
        let until = means.clock.now() + Duration::from_millis(after);
        // Longer than that, so that the holder's own write is the next one.
        means.wish(Wish::Hush {
            lock: held.lock,
            until: until + Duration::from_millis(50),
        });
        means.sleep(until).await;
        words += &format!("; its keys were left alone for {after} ms");
    }
    if then == Then::Restart {
        let hush = |time| {
            let (lock, until) = (held.lock, means.clock.now() + time);
            means.wish(Wish::Hush { lock, until });
        };
        // Nothing is written between that read and the restart, and the holder's own write is the next one after it.
        hush(RESTARTED_WITHIN);
        let restarted = observe_and_restart(means, held, write).await;
        hush(Duration::from_millis(50));
        words += &format!("; {}", restarted.map_err(|why| format!("; {why}"))?);
        means.tally.exercise().restarts_between += 1;
    }
    Ok(words)
}

/// Waits until somebody has read the successor's mark, and restarts the resource. Words for the evidence either way.
async fn observe_and_restart(
    means: &Means,
    held: &Held,
    write: &SeenWrite,
) -> Result<String, String> {
    let (reply, read) = oneshot::channel();
    means.wish(Wish::AwaitRead {
        held: held.clone(),
        key: write.key.clone(),
        reply,
    });
    let read = tokio::select! {
        read = tokio::time::timeout(OBSERVED_WITHIN, read) => read.ok().and_then(Result::ok),
        () = means.stopped() => None,
    };
    let read = read.ok_or_else(|| {
        let within = OBSERVED_WITHIN.as_secs_f64();
        format!(
            "nobody read {} within {within} s, so the resource was not restarted",
            write.key
        )
    })?;
    let told = match read.high_water {
        Some(mark) => format!("was told the mark {mark}"),
        None => "was told no mark".to_owned(),
    };
    let (client, key, at) = (&read.client, &write.key, read.at.as_secs_f64());
    let restarted = kill::restart_resource(means).await?;
    Ok(format!(
        "{client} read {key} at {at:.3} s and {told}; then {restarted}"
    ))
}

/// The holder's worker is free again; what it holds back leaves.
fn let_go(means: &Means, held: Held) {
    means.wish(match held.announced {
        Some(_) => Wish::Go { held },
        None => Wish::LetGo {
            worker: held.worker,
            aim: None,
        },
    });
}

/// A holder, its worker held back, and nothing else done to the worker or to its links until the reservation is gone:
/// a zombie that wakes behind a cut link would prove nothing.
pub(super) async fn take_and_reserve(
    means: &Means,
    announce: bool,
) -> Option<(Held, Reserved<'_>)> {
    let deadline = means.clock.now() + AIM_WITHIN;
    while means.clock.now() < deadline {
        let held = take_holder(means, announce).await?;
        let name = worker_name(held.worker);
        let links = Service::ALL.map(|service| link_of(held.worker, service));
        if let Some(reserved) = means.reserve(&[&[name][..], &links].concat()) {
            return Some((held, reserved));
        }
        // Something was begun there since the workers to avoid were named.
        let_go(means, held);
        means.sleep(means.clock.now() + BETWEEN_TRIES).await;
    }
    None
}

/// A holder whose worker the conductor now holds back.
pub(super) async fn take_holder(means: &Means, announce: bool) -> Option<Held> {
    let (reply, mut answer) = oneshot::channel();
    means.wish(Wish::TakeHolder {
        avoid: means.busy_workers(),
        announce,
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
            let_go(means, held);
        }
    }
    taken
}

/// Completes when the successor has come as far as it is waited for.
fn successor(means: &Means, held: &Held, then: Then) -> impl Future<Output = Option<Met>> + use<> {
    let (lock, above) = (held.lock, held.token);
    let written = (then != Then::Race).then(|| await_write(means, held));
    let sent = (then == Then::Race).then(|| {
        let (reply, answer) = oneshot::channel();
        means.wish(Wish::AwaitSent { lock, above, reply });
        answer
    });
    async move {
        match (written, sent) {
            (Some(written), _) => written.await.ok().map(Met::Wrote),
            (None, Some(sent)) => sent.await.ok().map(|()| Met::Sent),
            (None, None) => None,
        }
    }
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
