//! `starvation`. What it means is in `fencing/starvation.rs`.
//!
//! Of each lock it is kept since when nobody has got anywhere, and the first [`MOST_HUNGERS`] times that were long. How
//! long an acquire may wait is known only at the end; it never gets shorter, so that what was too short before stays so,
//! and what was long enough is asked again. A lease that turns out to be longer than was known would have to join times
//! that were parted: what was found under the shorter one is dropped.

use std::collections::BTreeMap;

use super::arrival::Arrival;
use super::words::{Kept, Op, writes};
use crate::history::{Function, Name, Operation, Outcome};

const MILLISECOND: u64 = 1_000_000;

/// How many times of hunger of a lock are remembered.
const MOST_HUNGERS: usize = 256;

/// How many acquires are shown that waited meanwhile.
const MOST_SHOWN: usize = 32;

/// A time in which nobody got anywhere.
#[derive(Clone, Debug)]
pub(super) struct Hunger {
    from: u64,
    until: u64,
    unknown: u64,
    /// What was last done under the lock.
    last: Option<Kept>,
    /// Acquires that together waited throughout.
    waiting: Vec<Kept>,
}

impl Hunger {
    /// `told`: the operation with the last event. Where the last acquire is still open its wait is as long as the file.
    pub fn witness(&self, told: Option<&Kept>) -> Vec<Kept> {
        let shown = self.last.iter().chain(&self.waiting).chain(told);
        shown.cloned().collect()
    }
}

#[derive(Clone, Debug, Default)]
struct Lock {
    /// 0 where there is none, or none is known.
    lease: u64,
    without_lease: bool,
    since: Option<u64>,
    wanted_until: u64,
    unknown: u64,
    last: Option<Kept>,
    hungers: Vec<Hunger>,
    /// Of the acquires that wait: those that are needed to cover the time, and the one that would go on longest.
    waiting: Vec<Kept>,
    best: Option<(u64, Kept)>,
    reached: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Starvations {
    locks: BTreeMap<Name, Lock>,
}

impl Starvations {
    /// An operation is sent.
    pub fn call(&mut self, arrival: &Arrival, op: &Kept) {
        let (Function::Acquire | Function::Renew, Some(name)) = (op.function, op.lock) else {
            return;
        };
        let lock = self.lock(arrival, name);
        lock.learn(op);
        if lock.lease == 0 {
            return;
        }
        if op.function == Function::Acquire {
            let wait = arrival.longest_wait(name);
            let now = op.invoked.time;
            let end = op
                .completed
                .map_or_else(|| now.saturating_add(wait), |at| at.time);
            lock.want(arrival, wait, now, end, op);
        }
        lock.unknown += u64::from(op.outcome == Outcome::Unknown);
    }

    /// An operation has returned.
    pub fn answer(&mut self, arrival: &Arrival, op: &Kept) {
        if !gets_somewhere(op) {
            return;
        }
        let Some(name) = arrival.lock(op) else { return };
        let lock = self.lock(arrival, name);
        let now = op.completed.unwrap_or(op.invoked).time;
        if lock.lease > 0 {
            let hunger = lock.hunger(arrival, arrival.longest_wait(name), now);
            lock.keep(hunger);
            lock.begin((lock.wanted_until > now).then_some(now));
            lock.unknown = 0;
        }
        lock.last = Some(Kept::clone(op));
    }

    fn lock(&mut self, arrival: &Arrival, name: Name) -> &mut Lock {
        self.locks.entry(name).or_insert_with(|| {
            let header = arrival.lock_header(name);
            let without_lease = header.is_some_and(|header| header.without_lease);
            let lease = header.and_then(|header| header.lease_ms).unwrap_or(0);
            Lock {
                lease: if without_lease {
                    0
                } else {
                    lease.saturating_mul(MILLISECOND)
                },
                without_lease,
                ..Lock::default()
            }
        })
    }

    /// By lock, if the stream ends now: how often it was long, and the first time.
    pub fn found(&self, arrival: &Arrival) -> impl Iterator<Item = (Name, u64, Hunger)> {
        self.locks.iter().filter_map(|(&name, lock)| {
            let wait = arrival.longest_wait(name);
            let last = lock.hunger(arrival, wait, arrival.counts.last_time);
            let long = |hunger: &&Hunger| {
                hunger.until - hunger.from > enough(lock.lease, hunger.unknown, wait)
            };
            let mut all = lock.hungers.iter().chain(&last).filter(long);
            let first = all.next()?.clone();
            Some((name, 1 + all.count() as u64, first))
        })
    }
}

/// Nobody starves who is granted the lock, renews it, or does something under it.
fn gets_somewhere(op: &Op) -> bool {
    let does = matches!(
        op.function,
        Function::Acquire | Function::Renew | Function::Other(_)
    );
    op.outcome == Outcome::Ok && (does || writes(op))
}

fn enough(lease: u64, unknown: u64, wait: u64) -> u64 {
    lease.saturating_mul(3 + unknown).saturating_add(wait)
}

impl Lock {
    /// What an acquire or renewal tells of the lease.
    fn learn(&mut self, op: &Operation) {
        let lease = op.ttl_ms.map_or(0, |ms| ms.saturating_mul(MILLISECOND));
        if self.without_lease || lease <= self.lease {
            return;
        }
        let (last, unknown) = (self.last.take(), self.unknown);
        *self = Self {
            lease,
            last,
            unknown,
            ..Self::default()
        };
    }

    /// An acquire is open from now on until its end.
    fn want(&mut self, arrival: &Arrival, wait: u64, now: u64, end: u64, op: &Kept) {
        if self.since.is_some() && now > self.wanted_until.saturating_add(self.lease) {
            let hunger = self.hunger(arrival, wait, now);
            self.keep(hunger);
            self.begin(None);
        }
        if self.since.is_none() {
            self.begin(Some(now));
            self.unknown = 0;
        }
        self.wanted_until = self.wanted_until.max(end);
        self.show(now, end, op);
    }

    fn begin(&mut self, since: Option<u64>) {
        self.since = since;
        self.waiting.clear();
        self.reached = since.unwrap_or(0);
        // One that waits already goes on to wait.
        self.best = self
            .best
            .take()
            .filter(|&(end, _)| since.is_some_and(|since| since < end));
    }

    /// Keeps an acquire where it is needed to cover the time.
    fn show(&mut self, now: u64, end: u64, op: &Kept) {
        if now > self.reached.saturating_add(self.lease)
            && let Some((end, best)) = self.best.take()
        {
            self.reached = end;
            if self.waiting.len() < MOST_SHOWN {
                self.waiting.push(best);
            }
        }
        if self.best.as_ref().is_none_or(|&(best, _)| best < end) {
            self.best = Some((end, Kept::clone(op)));
        }
    }

    /// The time in which nobody got anywhere, if it ends now and was long.
    fn hunger(&self, arrival: &Arrival, wait: u64, now: u64) -> Option<Hunger> {
        let since = self.since?;
        let until = now.min(self.wanted_until);
        let enough = enough(self.lease, self.unknown, wait);
        if until.saturating_sub(since) <= enough {
            return None;
        }
        let (from, until) = arrival.faults.longest_quiet(since, until)?;
        (until.saturating_sub(from) > enough).then(|| Hunger {
            from,
            until,
            unknown: self.unknown,
            last: self.last.clone(),
            waiting: (self.waiting.iter())
                .chain(self.best.as_ref().map(|(_, best)| best))
                .cloned()
                .collect(),
        })
    }

    fn keep(&mut self, hunger: Option<Hunger>) {
        if self.hungers.len() < MOST_HUNGERS {
            self.hungers.extend(hunger);
        }
    }
}
