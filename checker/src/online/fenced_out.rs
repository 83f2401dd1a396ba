//! `fenced-out`. What it means is in `fencing/fenced_out.rs`.
//!
//! Of each lock the newest grant is kept and how many acquires are open; of each mark the tokens presented, as a stack
//! from the highest to the newest, the last [`MOST_PRESENTED`] of it; of each object its row of refusals: the last
//! [`MOST_REFUSALS`] one by one, and of those before them how many and the first of each of three tokens. A grant that is
//! older than what the stack has forgotten is nobody's proof. A write of unknown outcome that was sent before what the
//! row holds one by one, and is read only now, ends the row.

use std::collections::{BTreeMap, VecDeque};

use super::arrival::{Arrival, is_grant};
use super::hash::Map;
use super::words::{Kept, Object, Scope, writes};
use crate::history::{Function, Name, Operation, Outcome, Token};

/// How many tokens in a row, or acquires at the end, it takes.
const ENOUGH: usize = 3;

/// How many presented tokens of a scope are remembered, each lower and later than the one before.
const MOST_PRESENTED: usize = 1024;

/// How many refusals of an object are remembered one by one.
const MOST_REFUSALS: usize = 64;

#[derive(Clone, Debug, Default)]
struct Issued {
    newest: Option<Kept>,
    /// It was asked for after every grant before it was known.
    clear: bool,
    last_return: Option<u64>,
    /// Acquires that are sent and not answered, but for those that are going to be refused.
    open: u64,
}

/// A refusal of the newest token, with the grant.
#[derive(Clone, Debug)]
pub(super) struct Shut {
    pub refusal: Kept,
    pub grant: Kept,
    /// An acquire was open: where grants raise marks it may have raised this one.
    doubtful: bool,
}

/// How many refusals, and the first of each of the first tokens.
#[derive(Clone, Debug, Default)]
struct Tally {
    count: u64,
    distinct: Vec<Shut>,
}

impl Tally {
    fn add(&mut self, shut: &Shut) {
        self.count += 1;
        let mut known = self.distinct.iter();
        if self.distinct.len() < ENOUGH
            && !known.any(|other| other.refusal.token == shut.refusal.token)
        {
            self.distinct.push(shut.clone());
        }
    }
}

/// The refusals of one object that nothing has interrupted.
#[derive(Clone, Debug, Default)]
struct Row {
    /// Those that are no longer held one by one: all of them, and those that are not doubtful.
    old: [Tally; 2],
    /// The last refusal among them returned here.
    until: Option<u64>,
    recent: VecDeque<Shut>,
}

impl Row {
    fn push(&mut self, shut: Shut) {
        self.recent.push_back(shut);
        if self.recent.len() > MOST_REFUSALS
            && let Some(oldest) = self.recent.pop_front()
        {
            self.old[0].add(&oldest);
            if !oldest.doubtful {
                self.old[1].add(&oldest);
            }
            self.until = Some(told(&oldest.refusal));
        }
    }

    /// A write was accepted that was sent at this index.
    fn end_before(&mut self, index: u64) {
        if self.until.is_some() {
            self.old = Default::default();
            self.until = None;
        }
        while (self.recent.front()).is_some_and(|shut| told(&shut.refusal) < index) {
            self.recent.pop_front();
        }
    }

    fn tally(&self, raised: bool) -> Tally {
        let mut tally = self.old[usize::from(raised)].clone();
        for shut in &self.recent {
            if !(raised && shut.doubtful) {
                tally.add(shut);
            }
        }
        tally
    }
}

/// Tokens presented: falling, each with when its last write was sent, which is later than that of the one before.
#[derive(Clone, Debug, Default)]
struct Presented {
    falling: VecDeque<(Token, u64)>,
    /// What was sent up to here may be forgotten.
    until: Option<u64>,
    /// The first write of the highest of all.
    highest: Option<Kept>,
}

impl Presented {
    fn note(&mut self, token: Token, write: &Kept) {
        while self.falling.back().is_some_and(|&(last, _)| last <= token) {
            self.falling.pop_back();
        }
        self.falling.push_back((token, write.invoked.index));
        if self.falling.len() > MOST_PRESENTED {
            self.until = self.falling.pop_front().map(|(_, sent)| sent);
        }
        let highest = self.highest.as_ref().and_then(|highest| highest.token);
        if highest < Some(token) {
            self.highest = Some(Kept::clone(write));
        }
    }

    /// Nothing above this token was presented from this index on.
    fn nothing_above(&self, token: Token, index: u64) -> bool {
        if self.until >= Some(index) {
            return false;
        }
        let from = self.falling.partition_point(|&(_, sent)| sent < index);
        self.falling
            .get(from)
            .is_none_or(|&(since, _)| since <= token)
    }
}

/// A key whose newest holders are refused, or a lock without tokens.
#[derive(Clone, Debug)]
pub(super) struct Out {
    pub count: u64,
    pub shown: Vec<Shut>,
    /// Who set the mark, if anybody is known to have.
    pub culprit: Option<Kept>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct FencedOut {
    issued: Map<Name, Issued>,
    presented: Map<Scope, Presented>,
    rows: BTreeMap<Object, (Scope, Row)>,
    /// Of each lock how many of its last acquires found no token left, and the last three.
    exhausted: BTreeMap<Name, (u64, VecDeque<Kept>)>,
}

impl FencedOut {
    pub fn call(&mut self, arrival: &Arrival, op: &Kept) {
        if let (Function::Acquire, Some(lock)) = (op.function, op.lock) {
            if op.outcome != Outcome::Failed {
                self.issued.entry(lock).or_default().open += 1;
            }
            self.note_exhausted(arrival, lock, op);
        } else if let Some(token) = op.token.filter(|_| writes(op)) {
            let presented = self.presented.entry(arrival.scope(op)).or_default();
            presented.note(token, op);
        }
    }

    fn note_exhausted(&mut self, arrival: &Arrival, lock: Name, op: &Kept) {
        if !arrival.is_exhausted(op) {
            self.exhausted.remove(&lock);
            return;
        }
        let (count, last) = self.exhausted.entry(lock).or_default();
        *count += 1;
        last.push_back(Kept::clone(op));
        if last.len() > ENOUGH {
            last.pop_front();
        }
    }

    /// An acquire that was no longer waited for was answered: it was taken for one that may be granted.
    pub fn answer_late(&mut self, op: &Kept) {
        if let (Function::Acquire, Some(lock), Outcome::Failed) = (op.function, op.lock, op.outcome)
        {
            let issued = self.issued.entry(lock).or_default();
            issued.open = issued.open.saturating_sub(1);
        }
    }

    pub fn answer(&mut self, arrival: &Arrival, op: &Kept) {
        if let (Function::Acquire, Some(lock)) = (op.function, op.lock) {
            self.granted(lock, op);
        } else if writes(op) && op.outcome == Outcome::Ok {
            if let Some((_, row)) = self.rows.get_mut(&arrival.object(op)) {
                row.end_before(u64::MAX);
            }
        } else if arrival.is_refusal(op) {
            self.refused(arrival, op);
        }
    }

    fn granted(&mut self, lock: Name, op: &Kept) {
        if op.outcome != Outcome::Ok {
            return;
        }
        let issued = self.issued.entry(lock).or_default();
        issued.open = issued.open.saturating_sub(1);
        if !is_grant(op) {
            return;
        }
        let last = issued.last_return;
        issued.clear = last.is_none_or(|last| last < op.invoked.index);
        issued.last_return = Some(told(op));
        issued.newest = Some(Kept::clone(op));
    }

    fn refused(&mut self, arrival: &Arrival, op: &Kept) {
        let issued = arrival.lock(op).and_then(|lock| self.issued.get(&lock));
        let Some(issued) = issued.filter(|issued| issued.clear) else {
            return;
        };
        let (Some(grant), Some(token)) = (&issued.newest, op.token) else {
            return;
        };
        let scope = arrival.scope(op);
        let presented = self.presented.get(&scope);
        let rightful = grant.token == Some(token)
            && presented
                .is_none_or(|presented| presented.nothing_above(token, grant.invoked.index));
        let until = op.completed.unwrap_or(op.invoked);
        if !rightful || arrival.faults.any(op.invoked, until, |_| true) {
            return;
        }
        let shut = Shut {
            refusal: Kept::clone(op),
            grant: Kept::clone(grant),
            doubtful: issued.open > 0,
        };
        let row = self.rows.entry(arrival.object(op));
        row.or_insert_with(|| (scope, Row::default())).1.push(shut);
    }

    /// A read shows that a write of unknown outcome was accepted.
    pub fn accepted(&mut self, arrival: &Arrival, write: &Operation) {
        if let Some((_, row)) = self.rows.get_mut(&arrival.object(write)) {
            row.end_before(write.invoked.index);
        }
    }

    /// The keys that nobody can write, by lock and key; `raised`: whether grants raise the mark of a key.
    pub fn shut_out(
        &self,
        arrival: &Arrival,
        raised: impl Fn(Option<Name>) -> bool,
    ) -> BTreeMap<(Option<Name>, Option<Name>), Out> {
        let mut keys = BTreeMap::new();
        for (&(key, _), (scope, row)) in &self.rows {
            let Tally { count, distinct } = row.tally(raised(key));
            let Some(first) = distinct.first().filter(|_| distinct.len() >= ENOUGH) else {
                continue;
            };
            let place = (arrival.lock(&first.refusal), key);
            let highest =
                (self.presented.get(scope)).and_then(|presented| presented.highest.as_ref());
            let named = first.refusal.high_water;
            let culprit = highest.filter(|write| {
                write.token > first.refusal.token
                    && (named.is_none() || named == write.token)
                    && write.outcome != Outcome::Failed
            });
            let culprit = culprit.cloned();
            keys.entry(place).or_insert(Out {
                count,
                shown: distinct,
                culprit,
            });
        }
        keys
    }

    /// Locks whose last acquires found no token left: how many, and the last of them.
    pub fn exhausted(&self) -> impl Iterator<Item = (Name, u64, Vec<Kept>)> {
        let enough = |&(_, (_, last)): &(&Name, &(u64, VecDeque<Kept>))| last.len() >= ENOUGH;
        let locks = self.exhausted.iter().filter(enough);
        locks.map(|(&lock, (count, last))| (lock, *count, last.iter().cloned().collect()))
    }
}

/// The index of an answer.
fn told(op: &Operation) -> u64 {
    op.completed.unwrap_or(op.invoked).index
}
