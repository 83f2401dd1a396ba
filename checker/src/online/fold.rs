//! All rules, as folds over the moments of a stream.

use std::collections::BTreeMap;

use super::arrival::{Arrival, is_grant};
use super::fenced_out::FencedOut;
use super::fresh::Fresh;
use super::hash::{Map, Set};
use super::holders::Holders;
use super::interference::Interference;
use super::issuer::Issuer;
use super::key::{Key, Limit};
use super::lease::Leases;
use super::lists::{Lists, elements};
use super::marks::Marks;
use super::overflow::Overflows;
use super::overlap::Believed;
use super::phantom::Renewals;
use super::raises::{Explanation, Sweep};
use super::reads::Reads;
use super::refused::Refused;
use super::retries::Retries;
use super::starvation::Starvations;
use super::words::{Kept, is_fenced_write};
use super::{Limits, Model};
use crate::fencing::{Clock, Why, Writers};
use crate::history::{Function, MarkScope, Name, Operation, Outcome};

/// The fewest values that are remembered of a key, if so many are remembered at all.
const FEWEST_VALUES: usize = 8;

/// What the rules know of all that has passed.
#[derive(Clone, Debug)]
pub(super) struct Fold {
    model: Model,
    limits: Limits,
    pub marks: Marks,
    pub issuer: Issuer,
    pub holders: Holders,
    pub retries: Retries,
    pub refused: Refused,
    pub renewals: Renewals,
    /// Of each lock whether its tokens are a clock.
    pub clocks: BTreeMap<Name, Clock<Kept>>,
    pub sweep: Sweep,
    pub fresh: Fresh,
    pub interference: Interference,
    pub leases: Leases,
    pub overflows: Overflows,
    pub fenced_out: FencedOut,
    pub starvations: Starvations,
    pub believed: Believed,
    pub reads: Reads,
    pub lists: Lists,
    /// The operation with the last event.
    pub last: Option<Kept>,
    pub keys: Map<Option<Name>, Key>,
    /// With a mark kept by the lock: who writes where.
    by_lock: Map<Option<Name>, Writers>,
    all: Writers,
    /// Keys written under another lock than their first.
    strayed: Map<Option<Name>, u64>,
    /// Keys of which it is no longer waited for that a lock is named.
    pub lockless: Set<Name>,
}

impl Fold {
    pub fn new(model: Model, limits: Limits) -> Self {
        Self {
            model,
            limits,
            marks: Marks::default(),
            issuer: Issuer::default(),
            holders: Holders::new(limits.tokens),
            retries: Retries::default(),
            refused: Refused::default(),
            renewals: Renewals::new(limits.tokens),
            clocks: BTreeMap::new(),
            sweep: Sweep::default(),
            fresh: Fresh::default(),
            interference: Interference::default(),
            leases: Leases::default(),
            overflows: Overflows::default(),
            fenced_out: FencedOut::default(),
            starvations: Starvations::default(),
            believed: Believed::default(),
            reads: Reads::default(),
            lists: Lists::default(),
            last: None,
            keys: Map::default(),
            by_lock: Map::default(),
            all: Writers::default(),
            strayed: Map::default(),
            lockless: Set::default(),
        }
    }

    /// Whether it is better to wait for what comes before this moment is taken.
    pub fn waits(&self, arrival: &Arrival, op: &Operation, returns: bool) -> bool {
        if self.model != Model::Fencing {
            return false;
        }
        if returns {
            return op.high_water.is_some() && self.sweep.waits(arrival, &self.holders, op);
        }
        op.lock.is_none()
            && op.key.is_some_and(|key| {
                !arrival.voices.contains_key(&key) && !self.lockless.contains(&key)
            })
    }

    /// An operation is sent; `ahead`: its answer may still come.
    pub fn call(&mut self, arrival: &Arrival, op: &Kept, ahead: bool) {
        let mut suspicion = None;
        if self.model == Model::Fencing {
            suspicion = self.marks.call(arrival, op);
            self.issuer.call(op);
            self.holders.call(arrival, op);
            self.retries.call(arrival, op);
            self.refused.call(arrival, op);
            self.renewals.call(arrival, op);
            self.sweep.call(arrival, op, ahead);
            self.fresh.call(arrival, op);
            self.interference.call(arrival, op);
            self.leases.call(arrival, op);
            self.overflows.call(op);
            self.fenced_out.call(arrival, op);
            self.starvations.call(arrival, op);
            self.believed.call(arrival, op);
            self.reads.call(arrival, op);
            if arrival.mark_scope() == MarkScope::Lock && is_fenced_write(op) {
                self.note_writer(arrival, op);
            }
        }
        if !on_object(op) {
            return;
        }
        self.apply_shared(arrival, op.key);
        let every = self.limits.every;
        let keys = self.keys.len().max(1);
        let key = self.keys.entry(op.key).or_insert_with(|| Key::new(every));
        let (_, path) = arrival.object(op);
        let shown = matches!(op.function, Function::Write | Function::Append);
        let suspicion = suspicion.filter(|_| shown);
        key.call(op, path.is_some(), suspicion);
        let values = self.limits.values;
        let most = (values / keys).max(values.min(FEWEST_VALUES));
        key.forget_values(most);
        if self.model == Model::Fencing {
            self.lists.call(arrival, op, most);
        }
    }

    /// An operation has returned.
    pub fn answer(&mut self, arrival: &Arrival, op: &Kept) {
        self.take_answer(arrival, op, false);
    }

    fn take_answer(&mut self, arrival: &Arrival, op: &Kept, late: bool) {
        let mut explanation = None;
        if self.model == Model::Fencing {
            let regressed = self.issuer.answer(op);
            if let (Some(lock), Some(higher)) = (op.lock, &regressed) {
                self.overflows.went_back(lock, higher, op);
            }
            self.holders.answer(arrival, op, regressed.is_some());
            self.retries.answer(arrival, op);
            self.refused.answer(arrival, op);
            self.renewals.answer(op);
            if let Some(lock) = op.lock.filter(|_| is_grant(op)) {
                self.clocks
                    .entry(lock)
                    .or_default()
                    .note(Kept::clone(op), op);
            }
            self.interference.answer(&self.renewals, op);
            self.leases.answer(arrival, op);
            self.overflows.answer(arrival, op);
            self.fenced_out.answer(arrival, op);
            self.starvations.answer(arrival, op);
            self.believed.answer(arrival, op);
            explanation = self.sweep.answer(arrival, &self.holders, op);
            self.answer_fresh(arrival, op, explanation);
        }
        if !on_object(op) {
            return;
        }
        self.apply_shared(arrival, op.key);
        let every = self.limits.every;
        let key = self.keys.entry(op.key).or_insert_with(|| Key::new(every));
        if op.function == Function::Read {
            self.take_read(arrival, op);
        } else {
            if let Some(write) = self.marks.answer(arrival, op, None) {
                self.overflows.tells(arrival, &self.holders, op, &write);
            }
            if op.outcome == Outcome::Ok && op.function == Function::Write {
                self.reads.done(arrival, &key.done(op));
            }
            if op.function == Function::Append {
                self.lists.answer_append(op);
            }
        }
        let key = self.keys.entry(op.key).or_insert_with(|| Key::new(every));
        key.answer(op, arrival.is_refusal(op), explanation, late);
    }

    /// What a read shows of writes.
    fn take_read(&mut self, arrival: &Arrival, op: &Kept) {
        let Some(key) = self.keys.get_mut(&op.key) else {
            return;
        };
        let seen = key.see(op);
        let mut all = Vec::new();
        if seen.done.is_none() {
            let elements = elements(op).iter();
            all.extend(elements.map(|element| key.see_element(element, op)));
        }
        // Of a list it is the append with the greatest token that the list proves.
        let mut newest = seen.write.as_ref();
        for write in all.iter().filter_map(|seen| seen.write.as_ref()) {
            if newest.is_none_or(|newest| newest.token < write.token) {
                newest = Some(write);
            }
        }
        let fenced = newest.filter(|write| is_fenced_write(write));
        if let Some(write) = self.marks.answer(arrival, op, fenced) {
            self.overflows.tells(arrival, &self.holders, op, &write);
        }
        if let Some(done) = &seen.done {
            self.reads.done(arrival, done);
        }
        self.reads.answer(arrival, op, seen.done.as_ref());
        for append in self.lists.answer_read(arrival, op) {
            key.note_applied(&append, op);
            self.fresh.take_back(arrival, &append);
        }
        for seen in std::iter::once(&seen).chain(&all) {
            if let (Some(write), true) = (&seen.write, seen.newly) {
                self.fenced_out.accepted(arrival, write);
                if is_fenced_write(write) {
                    self.holders.accepted(arrival, write);
                }
            }
            if let (Some(write), Some(suspicion)) = (&seen.write, &seen.suspicion) {
                self.marks.accepted(arrival, write, suspicion, Some(op));
            }
            if let Some(write) = &seen.applied {
                self.fresh.take_back(arrival, write);
            }
        }
    }

    /// An answer has come that was no longer waited for. What was decided without it stands.
    pub fn answer_late(&mut self, arrival: &Arrival, op: &Kept) {
        if op.function == Function::Read {
            return;
        }
        if self.model == Model::Fencing {
            self.holders.late_grant(arrival, op);
            self.fenced_out.answer_late(op);
            if op.outcome == Outcome::Ok && is_fenced_write(op) {
                self.holders.accepted(arrival, op);
            }
        }
        if let Some(key) = self.keys.get_mut(&op.key).filter(|_| on_object(op))
            && let Some(suspicion) = key.answered_late(op)
        {
            self.marks.answered(arrival, op, &suspicion);
        }
        self.take_answer(arrival, op, true);
    }

    /// Whether a refusal had a reason; `explanation`: where the mark comes from that it tells.
    fn answer_fresh(&mut self, arrival: &Arrival, op: &Kept, explanation: Option<Explanation>) {
        let mut explained = false;
        if arrival.is_refusal(op) {
            let key = self.keys.get(&op.key);
            explained = key.is_some_and(|key| key.is_applied(op));
            if explanation == Some(Explanation::None) {
                explained |= self.interference.strays(arrival, op);
            }
        }
        self.fresh.answer(arrival, op, explained);
    }

    fn note_writer(&mut self, arrival: &Arrival, op: &Operation) {
        let index = op.invoked.index;
        let first = arrival.first_lock(op.key);
        let named = op.lock.or(first);
        if named != first {
            self.strayed.entry(op.key).or_insert(index);
        }
        self.by_lock.entry(named).or_default().note(op.key, index);
        self.all.note(op.key, index);
    }

    /// From where on a write of another key moves the mark of this one.
    fn apply_shared(&mut self, arrival: &Arrival, key: Option<Name>) {
        if self.model != Model::Fencing || arrival.mark_scope() == MarkScope::Key {
            return;
        }
        let lock = arrival.first_lock(key);
        let disturbing = match lock {
            Some(_) => [self.by_lock.get(&lock), self.by_lock.get(&None)],
            None => [Some(&self.all), None],
        };
        let disturbing = disturbing.into_iter().flatten();
        let strayed = self.strayed.get(&key).copied();
        let index = disturbing
            .filter_map(|writers| writers.but(key))
            .chain(strayed)
            .min();
        if let Some(index) = index {
            let (why, every) = (Why::Shared, self.limits.every);
            let key = self.keys.entry(key).or_insert_with(|| Key::new(every));
            key.stop_by_sign(Limit { index, why });
        }
    }

    /// Looks at every key once more.
    pub fn settle(&mut self, arrival: &Arrival) {
        let keys: Vec<Option<Name>> = self.keys.keys().copied().collect();
        for key in keys {
            self.apply_shared(arrival, key);
        }
    }
}

/// Operations without a key are about one nameless object.
fn on_object(op: &Operation) -> bool {
    match op.function {
        Function::Acquire | Function::Renew | Function::Release => false,
        Function::Write | Function::Append | Function::Read | Function::Cas => true,
        Function::Other(_) => op.key.is_some(),
    }
}
