//! `token-overflow`. What it means is in `fencing/overflow.rs`.
//!
//! Of each lock it is kept how high the grants were that were known when the first acquire of unknown outcome was sent:
//! that acquire may have been granted what no later one may. How many acquires were sent before it each operation says
//! itself. Which tokens a mark is a distortion of `marks.rs` says; of what that has forgotten nothing is said.

use std::collections::BTreeMap;

use super::arrival::{Arrival, is_grant};
use super::hash::Map;
use super::holders::Holders;
use super::marks::Place;
use super::words::Kept;
use crate::fencing::{SPARE, Width, distorts, wraps_after};
use crate::history::{Function, Name, Outcome, Token};

/// Two grants of a lock, the later of which wrapped.
#[derive(Clone, Debug)]
pub(super) struct Wrapped {
    pub before: Kept,
    pub after: Kept,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Overflows {
    /// By lock: how many grants that went back wrapped, and the first.
    back: BTreeMap<Name, (u64, Wrapped)>,
    /// By place: how many marks are another token distorted, the first that tells one, and the write of that token.
    pub distorted: BTreeMap<Place, (u64, Kept, Kept)>,
    /// By lock: how many acquires found no token left, and the first.
    pub exhausted: BTreeMap<Name, (u64, Kept)>,
    highest: Map<Name, Token>,
    /// Of each lock with an acquire of unknown outcome what was known to be granted when the first was sent.
    lost: Map<Name, Option<Token>>,
}

impl Overflows {
    pub fn call(&mut self, op: &Kept) {
        if let (Some(lock), Function::Acquire, Outcome::Unknown) =
            (op.lock, op.function, op.outcome)
        {
            let known = self.highest.get(&lock).copied();
            self.lost.entry(lock).or_insert(known);
        }
    }

    pub fn answer(&mut self, arrival: &Arrival, op: &Kept) {
        let Some(lock) = op.lock.filter(|_| op.function == Function::Acquire) else {
            return;
        };
        if let (Some(token), true) = (op.token, is_grant(op)) {
            let highest = self.highest.entry(lock).or_insert(token);
            *highest = token.max(*highest);
        }
        if arrival.is_exhausted(op) {
            let known = self.exhausted.entry(lock);
            let (count, first) = known.or_insert_with(|| (0, Kept::clone(op)));
            *count += 1;
            if op.invoked.index < first.invoked.index {
                *first = Kept::clone(op);
            }
        }
    }

    /// A grant went back.
    pub fn went_back(&mut self, lock: Name, higher: &Kept, lower: &Kept) {
        let pair = Wrapped {
            before: Kept::clone(higher),
            after: Kept::clone(lower),
        };
        note(&mut self.back, lock, pair);
    }

    /// An answer tells a mark that is the token of this write, distorted.
    pub fn tells(&mut self, arrival: &Arrival, holders: &Holders, report: &Kept, write: &Kept) {
        if self.was_granted_itself(arrival, holders, report, write) {
            return;
        }
        self.distorted
            .entry((arrival.lock(report), report.key))
            .or_insert_with(|| (0, Kept::clone(report), Kept::clone(write)))
            .0 += 1;
    }

    fn was_granted_itself(
        &self,
        arrival: &Arrival,
        holders: &Holders,
        report: &Kept,
        write: &Kept,
    ) -> bool {
        let (Some(mark), Some(lock)) = (report.high_water, arrival.lock(report)) else {
            return false;
        };
        if report.invoked == write.invoked || write.precedes(report) {
            return false;
        }
        let lost = self.lost.get(&lock);
        holders.may_have_granted(lock, mark) || lost.is_some_and(|&known| known < Some(mark))
    }

    /// By lock: all that wrapped, those among `duplicates` as well, and the first.
    pub fn wrapped(
        &self,
        duplicates: impl Iterator<Item = (Name, Wrapped)>,
    ) -> BTreeMap<Name, (u64, Wrapped)> {
        let mut all = self.back.clone();
        for (lock, pair) in duplicates {
            note(&mut all, lock, pair);
        }
        all
    }
}

/// Keeps a pair that wrapped.
fn note(locks: &mut BTreeMap<Name, (u64, Wrapped)>, lock: Name, pair: Wrapped) {
    if pair.width().is_none() {
        return;
    }
    match locks.get_mut(&lock) {
        Some((count, first)) => {
            *count += 1;
            if pair.after.invoked.index < first.after.invoked.index {
                *first = pair;
            }
        }
        None => {
            locks.insert(lock, (1, pair));
        }
    }
}

impl Wrapped {
    fn width(&self) -> Option<Width> {
        let between = self.after.asked.abs_diff(self.before.asked);
        let most = SPARE + i128::from(between);
        wraps_after(self.before.token?, self.after.token?, most)
    }
}

/// The write whose token this mark is, distorted: the first of these.
pub(super) fn distorted<'a>(
    mark: Token,
    writes: impl IntoIterator<Item = &'a Kept>,
) -> Option<Kept> {
    let mut writes = writes.into_iter();
    let found = writes.find(|write| {
        write
            .token
            .is_some_and(|token| distorts(token, mark).is_some())
    });
    found.map(Kept::clone)
}
