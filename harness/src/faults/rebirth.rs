//! SIGKILL to a worker, and a new one in its place: its clients are new ones, under old identities or new.
//!
//! ```text
//! c3 (w2)  granted 42 --write--  SIGKILL                started again: c3~2, which knows nothing of 42
//! c7 (w4)  queued ............................ granted 43
//! ```
//!
//! Killed before its lease has lapsed, a holder is cut off for good: nothing of it is left that could write late. With
//! `stale` it is cut off when it is stale already: it is stopped until another was granted its lock, its keys are left alone
//! meanwhile, and it is killed instead of being let go. That is what STONITH does to a node that does not answer.

use std::sync::Arc;
use std::time::Duration;

use fencepost_checker::history::{FaultEvent, FaultOutcome};
use fencepost_workloads::protocol::Hello;
use fencepost_workloads::suite::{Fault, FaultKind, Identity, On};
use tokio::sync::oneshot;

use super::nemesis::{Means, Reserved, event, on_node, worker_name};
use super::pause;
use super::zombie::take_and_reserve;
use crate::run_record::PlannedFault;
use crate::runner::conductor::{Held, Message, SeenGrant, Wish};
use crate::runner::worker_link::WorkerLink;

/// How long to wait for a successor of a holder that is to be killed as a stale one.
const OUTLIVED_WITHIN: Duration = Duration::from_secs(5);

/// Between the name of a client and which incarnation of it this is, from 2.
const INCARNATION: char = '~';

pub(super) async fn inject(means: &Means, planned: &PlannedFault, fault: &Fault) {
    let victim = match fault.on {
        Some(On::Holder) => take_and_reserve(means, false)
            .await
            .map(|(held, reserved)| (held.worker, Some(held), reserved))
            .ok_or("no holder with a rival on another worker within 2 s"),
        _ => free_worker(means, planned, fault)
            .await
            .map(|(worker, reserved)| (worker, None, reserved)),
    };
    let (worker, held, _reserved) = match victim {
        Ok(victim) => victim,
        Err(why) => {
            means.skip(event(planned, FaultKind::Kill, Vec::new()), why);
            return;
        }
    };
    let stale = held.filter(|_| fault.stale);
    let mut line = event(planned, FaultKind::Kill, vec![worker_name(worker)]);
    if let Some(held) = &stale {
        line.lock = Some(held.lock_name.clone());
        line.client = Some(held.client_name.clone());
        line.token = Some(held.token);
    }
    if !means.announce(&line) {
        means.wish(Wish::LetGo { worker, aim: None });
        return;
    }
    let (outcome, cut_off, gone) = match &stale {
        Some(held) => {
            let (lock, above) = (held.lock, held.token);
            let (reply, mut sent) = oneshot::channel();
            means.wish(Wish::AwaitSent { lock, above, reply });
            let (outcome, succeeded) = outlive(means, &line, held).await;
            let (killed, gone) = kill(means, worker).await;
            let wrote = sent.try_recv().is_ok();
            // Only now may its successor write.
            let until = Duration::ZERO;
            means.wish(Wish::Hush { lock, until });
            let both = succeeded.and_then(|granted| {
                let killed = killed?;
                match wrote {
                    false => Ok(format!("{granted}; {killed} before a successor wrote; ")),
                    true => Err(format!(
                        "{granted}, and wrote before this was done: {killed}"
                    )),
                }
            });
            (outcome, both, gone)
        }
        None => {
            let (killed, gone) = kill(means, worker).await;
            (means.begin_with(&line, killed), Ok(String::new()), gone)
        }
    };
    means
        .sleep(means.clock.now() + Duration::from_millis(planned.length_ms))
        .await;
    // It is dead, so its pipes close; the conductor is gone only when the run is.
    let _ = gone.await;
    let back = bring_back(means, worker, fault.identity.unwrap_or_default());
    if let Err(why) = &back {
        // The receiver is gone only when the run has ended for another reason.
        let _ = means.trouble.send(why.clone());
    }
    let undone = cut_off.and_then(|words| Ok(format!("{words}{}", back?)));
    means.end_with(line, outcome, undone);
}

/// Kills the worker; the evidence of that, and what completes once the conductor has closed its pipes.
async fn kill(means: &Means, worker: usize) -> (Result<String, String>, oneshot::Receiver<()>) {
    let (reply, gone) = oneshot::channel();
    means.wish(Wish::Bury { worker, reply });
    let killed = on_node(means.target.worker(worker), |node| node.kill()).await;
    (killed, gone)
}

/// Stops the holder until another was granted its lock. Nobody writes to the lock's keys from then on, until that is
/// taken back.
async fn outlive(
    means: &Means,
    line: &FaultEvent,
    held: &Held,
) -> (FaultOutcome, Result<String, String>) {
    let (reply, grant) = oneshot::channel();
    let (lock, above) = (held.lock, held.token);
    means.wish(Wish::AwaitGrant { lock, above, reply });
    let until = means.clock.now() + 2 * OUTLIVED_WITHIN;
    means.wish(Wish::Hush { lock, until });
    let stopped = on_node(means.target.worker(held.worker), |node| node.stop()).await;
    let outcome = means.begin_with(line, stopped);
    let grant = tokio::select! {
        grant = tokio::time::timeout(OUTLIVED_WITHIN, grant) => grant.ok().and_then(Result::ok),
        () = means.stopped() => None,
    };
    let succeeded = grant
        .map(|SeenGrant { client, token, at }| {
            let at = at.as_secs_f64();
            format!("{client} was granted {token} at {at:.3} s")
        })
        .ok_or_else(|| "no successor was granted the lock while its holder was stopped".to_owned());
    (outcome, succeeded)
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
fn bring_back(means: &Means, worker: usize, identity: Identity) -> Result<String, String> {
    let command = &means.worker_command;
    let (stdin, stdout, started) = means
        .target
        .start_worker_again(worker, command)
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
