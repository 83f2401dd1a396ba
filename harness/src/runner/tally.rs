//! Running counts for the progress line. What is judged is the history, never these.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use fencepost_checker::history::Type;

use super::exercise::Exercise;

/// Counts and what is going on, shared by all.
#[derive(Debug, Default)]
pub struct Tally {
    invoked: AtomicU64,
    ok: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    unknown: AtomicU64,
    active: Mutex<BTreeMap<u64, String>>,
    phase: Mutex<&'static str>,
    exercise: Mutex<Exercise>,
}

/// The counts at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Operations handed out.
    pub invoked: u64,
    /// Answered `ok`.
    pub ok: u64,
    /// Refused by the fence.
    pub refused: u64,
    /// Answered another definite no.
    pub failed: u64,
    /// Of unknown outcome.
    pub unknown: u64,
    /// The faults now active, e.g. `zombie w2`.
    pub active: Vec<String>,
    /// The phase of the run.
    pub phase: &'static str,
}

impl Tally {
    /// An operation was handed out.
    pub fn invoked(&self) {
        self.invoked.fetch_add(1, Relaxed);
    }

    /// An operation ended.
    pub fn completed(&self, kind: Type, refused: bool) {
        let counter = match kind {
            Type::Ok => &self.ok,
            Type::Fail if refused => &self.refused,
            Type::Fail => &self.failed,
            Type::Info | Type::Invoke => &self.unknown,
        };
        counter.fetch_add(1, Relaxed);
    }

    /// A fault is in force.
    pub fn fault_began(&self, id: u64, what: String) {
        self.active
            .lock()
            .expect("nobody panics with this lock")
            .insert(id, what);
    }

    /// A fault is over.
    pub fn fault_ended(&self, id: u64) {
        self.active
            .lock()
            .expect("nobody panics with this lock")
            .remove(&id);
    }

    /// Whether a fault is in force that `worker` may feel: on itself, on a link of its, or on a service.
    #[must_use]
    pub fn strikes(&self, worker: &str) -> bool {
        let feels = |on: &str| {
            let of_it = on
                .strip_prefix(worker)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
            // Whatever is neither a worker nor a link of one is a service, which every worker may be waiting for.
            of_it || !on.starts_with('w')
        };
        let active = self.active.lock().expect("nobody panics with this lock");
        active.values().any(|what| {
            let on = what.split_once(' ').map_or("", |(_, on)| on);
            on.split(',').any(feels)
        })
    }

    /// The counters of what the fence was made to do.
    pub fn exercise(&self) -> MutexGuard<'_, Exercise> {
        self.exercise.lock().expect("nobody panics with this lock")
    }

    /// The run has come to `phase`.
    pub fn enter(&self, phase: &'static str) {
        *self.phase.lock().expect("nobody panics with this lock") = phase;
    }

    /// The counts now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            invoked: self.invoked.load(Relaxed),
            ok: self.ok.load(Relaxed),
            refused: self.refused.load(Relaxed),
            failed: self.failed.load(Relaxed),
            unknown: self.unknown.load(Relaxed),
            active: self
                .active
                .lock()
                .expect("nobody panics with this lock")
                .values()
                .cloned()
                .collect(),
            phase: *self.phase.lock().expect("nobody panics with this lock"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_its_worker_whose_link_it_is_on_and_everybody_if_on_a_service() {
        let tally = Tally::default();
        tally.fault_began(1, "zombie w2".to_owned());
        tally.fault_began(2, "hole w13-lock".to_owned());
        let struck = |tally: &Tally| -> Vec<&'static str> {
            let workers = ["w1", "w2", "w13"].into_iter();
            workers.filter(|worker| tally.strikes(worker)).collect()
        };
        assert_eq!(struck(&tally), ["w2", "w13"]);
        tally.fault_began(3, "pause lock".to_owned());
        assert_eq!(struck(&tally), ["w1", "w2", "w13"]);
        tally.fault_ended(3);
        tally.fault_ended(1);
        assert_eq!(struck(&tally), ["w13"]);
    }
}
