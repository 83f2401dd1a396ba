//! SIGKILL to a worker, and a new one in its place: its clients are new ones, under old identities or new.
//!
//! ```text
//! c3 (w2)  granted 42 --write--  SIGKILL                started again: c3~2, which knows nothing of 42
//! c7 (w4)  queued ............................ granted 43
//! ```
//!
//! Killed before its lease has lapsed, a holder is cut off for good: nothing of it is left that could write late.

use std::sync::Arc;
use std::time::Duration;

use fencepost_workloads::protocol::Hello;
use fencepost_workloads::suite::{Fault, FaultKind, Identity, On};
use tokio::sync::oneshot;

use super::nemesis::{Means, Reserved, event, on_node, worker_name};
use super::pause;
use super::zombie::take_and_reserve;
use crate::run_record::PlannedFault;
use crate::runner::conductor::{Message, Wish};
use crate::runner::worker_link::WorkerLink;

/// Between the name of a client and which incarnation of it this is, from 2.
const INCARNATION: char = '~';

pub(super) async fn inject(means: &Means, planned: &PlannedFault, fault: &Fault) {
    let victim = match fault.on {
        Some(On::Holder) => take_and_reserve(means, false)
            .await
            .map(|(held, reserved)| (held.worker, reserved))
            .ok_or("no holder with a rival on another worker within 2 s"),
        _ => free_worker(means, planned, fault).await,
    };
    let (worker, _reserved) = match victim {
        Ok(victim) => victim,
        Err(why) => {
            means.skip(event(planned, FaultKind::Kill, Vec::new()), why);
            return;
        }
    };
    let line = event(planned, FaultKind::Kill, vec![worker_name(worker)]);
    if !means.announce(&line) {
        means.wish(Wish::LetGo { worker, aim: None });
        return;
    }
    let (reply, gone) = oneshot::channel();
    means.wish(Wish::Bury { worker, reply });
    let killed = on_node(means.target.worker(worker), |node| node.kill()).await;
    let outcome = means.begin_with(&line, killed);
    means
        .sleep(means.clock.now() + Duration::from_millis(planned.length_ms))
        .await;
    // It is dead, so its pipes close; the conductor is gone only when the run is.
    let _ = gone.await;
    let back = bring_back(means, worker, fault.identity.unwrap_or_default()).await;
    if let Err(why) = &back {
        // The receiver is gone only when the run has ended for another reason.
        let _ = means.trouble.send(why.clone());
    }
    means.end_with(line, outcome, back);
}

async fn free_worker<'a>(
    means: &'a Means,
    planned: &PlannedFault,
    fault: &Fault,
) -> Result<(usize, Reserved<'a>), &'static str> {
    let victim = pause::worker(means, planned, fault).await;
    victim
        .and_then(pause::Victim::into_worker)
        .ok_or("something else was being done to every worker that would do")
}

/// Starts the worker again, says hello for its new clients, and tells the conductor. The text is the evidence.
async fn bring_back(means: &Means, worker: usize, identity: Identity) -> Result<String, String> {
    let command = &means.worker_command;
    let (stdin, stdout, started) = means
        .target
        .start_worker_again(worker, command)
        .await
        .map_err(|error| error.to_string())?;
    let (hello, names) = {
        let mut hellos = means.hellos.lock().expect("nobody panics with this lock");
        let (hello, names) = reborn(&hellos[worker], identity);
        hellos[worker] = hello.clone();
        (hello, names)
    };
    let sender = means.conductor.clone();
    let report = move |from| {
        // A conductor that is gone wants no more answers.
        let _ = sender.send(Message::Worker(worker, from));
    };
    let recorder = Arc::clone(&means.recorder);
    let link = WorkerLink::open(stdin, stdout, worker, &hello, recorder, report)
        .map_err(|error| error.to_string())?;
    let told: Vec<&str> = names.iter().map(|[_, new, _]| new.as_str()).collect();
    let evidence = format!("{started}, with clients {}", told.join(", "));
    means.wish(Wish::Revive {
        worker,
        link,
        names,
    });
    Ok(evidence)
}

/// The hello of a worker that comes back, and for each client its old name, its new one, and as whom it speaks.
fn reborn(hello: &Hello, identity: Identity) -> (Hello, Vec<[String; 3]>) {
    let mut names = Vec::new();
    for old in &hello.clients {
        let (base, number) = match old.split_once(INCARNATION) {
            Some((base, number)) => (base, number.parse().unwrap_or(1)),
            None => (old.as_str(), 1_u32),
        };
        let new = format!("{base}{INCARNATION}{}", number + 1);
        let speaks_as = match identity {
            Identity::New => new.clone(),
            Identity::Same => hello.identities.get(old).unwrap_or(old).clone(),
        };
        names.push([old.clone(), new, speaks_as]);
    }
    let hello = Hello {
        clients: names.iter().map(|[_, new, _]| new.clone()).collect(),
        identities: names
            .iter()
            .filter(|[_, new, speaks_as]| new != speaks_as)
            .map(|[_, new, speaks_as]| (new.clone(), speaks_as.clone()))
            .collect(),
        ..hello.clone()
    };
    (hello, names)
}

#[cfg(test)]
mod tests {
    use fencepost_workloads::protocol::Options;

    use super::*;

    #[test]
    fn clients_come_back_as_new_ones_under_old_identities_or_new() {
        let first = Hello {
            f: "hello".to_owned(),
            clients: vec!["c3".to_owned()],
            links: Default::default(),
            options: Options::plain("reference", "reference", Duration::from_secs(1)),
            identities: Default::default(),
        };
        let (second, names) = reborn(&first, Identity::Same);
        assert_eq!(names, [["c3", "c3~2", "c3"].map(str::to_owned)]);
        assert_eq!(second.identities["c3~2"], "c3");
        let (third, names) = reborn(&second, Identity::Same);
        assert_eq!(names, [["c3~2", "c3~3", "c3"].map(str::to_owned)]);
        let (fourth, names) = reborn(&third, Identity::New);
        assert_eq!(names, [["c3~3", "c3~4", "c3~4"].map(str::to_owned)]);
        assert!(fourth.identities.is_empty());
    }
}
