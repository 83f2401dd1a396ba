//! What reads show of writes: `non-atomic-check` and `lost-acked-write`. What each means is in `fencing/non_atomic.rs`
//! and `fencing/lost_write.rs`.
//!
//! Of each object it is kept which write that is surely done has the highest token, and which was sent last; of each
//! open read both as they were when it was sent. When a value was first shown stands with the value (`key.rs`): of one
//! that was forgotten nothing is said.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::arrival::Arrival;
use super::hash::Map;
use super::marks::Place;
use super::words::{Kept, Object, Op, writes};
use crate::history::{Function, Operation, Outcome};

/// A write, and the answer that first showed that it has taken effect: its own, or that of a read.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub write: Kept,
    pub by: Kept,
}

impl Done {
    fn at(&self) -> u64 {
        self.by.completed.unwrap_or(self.by.invoked).index
    }

    fn is(&self, other: &Self) -> bool {
        self.write.invoked == other.write.invoked
    }

    /// The operations that show that it was done when another was sent.
    fn witness(&self, before: &Operation) -> impl Iterator<Item = &Kept> {
        let own = self.write.outcome == Outcome::Ok && self.write.precedes(before);
        std::iter::once(&self.write).chain((!own).then_some(&self.by))
    }
}

/// The writes that are surely done: that with the highest token, and that which was sent last.
#[derive(Clone, Debug, Default)]
struct Known {
    highest: Option<Done>,
    last: Option<Done>,
}

#[derive(Clone, Debug, Default)]
struct State {
    known: Arc<Known>,
    /// It may hold a value that the stream does not spell out.
    unknown: bool,
}

/// How often, and the operations that prove the first.
pub(super) type Found = BTreeMap<Place, (u64, Vec<Kept>)>;

#[derive(Clone, Debug, Default)]
pub(super) struct Reads {
    objects: Map<Object, State>,
    when_sent: Map<u64, Arc<Known>>,
    pub slipped: Found,
    pub missing: Found,
}

impl Reads {
    pub fn call(&mut self, arrival: &Arrival, op: &Kept) {
        if op.function == Function::Read {
            if op.returned().is_some()
                && let Some(state) = self.objects.get(&arrival.object(op))
            {
                self.when_sent
                    .insert(op.invoked.index, Arc::clone(&state.known));
            }
        } else if makes_unknown(op) {
            let state = self.objects.entry(arrival.object(op)).or_default();
            state.unknown = true;
            state.known = Arc::default();
        }
    }

    /// A write is surely done.
    pub fn done(&mut self, arrival: &Arrival, done: &Done) {
        let write = &done.write;
        let state = self.objects.entry(arrival.object(write)).or_default();
        if state.unknown {
            return;
        }
        let token = |known: &Option<Done>| known.as_ref().and_then(|known| known.write.token);
        let sent = |known: &Done| known.write.invoked.index;
        let higher = token(&state.known.highest) < write.token;
        let later = (state.known.last.as_ref()).is_none_or(|last| sent(last) < write.invoked.index);
        if !higher && !later {
            return;
        }
        let known = Arc::make_mut(&mut state.known);
        if higher {
            known.highest = Some(done.clone());
        }
        if later {
            known.last = Some(done.clone());
        }
    }

    /// A read has returned; `seen` is the one write of the value that it found.
    pub fn answer(&mut self, arrival: &Arrival, read: &Kept, seen: Option<&Done>) {
        let Some(sent) = self.when_sent.remove(&read.invoked.index) else {
            return;
        };
        let object = arrival.object(read);
        if read.outcome != Outcome::Ok
            || self.objects.get(&object).is_none_or(|state| state.unknown)
        {
            return;
        }
        let of_object = |done: &&Done| {
            done.write.function == Function::Write && arrival.object(&done.write) == object
        };
        let older = seen.filter(of_object);
        if let (Some(higher), Some(lower)) = (&sent.highest, older)
            && slips(lower, higher)
        {
            let shown = higher.witness(read).chain([&lower.write, read]);
            add(&mut self.slipped, arrival, &lower.write, shown);
        }
        let Some(lost) = &sent.last else { return };
        if seen.is_some_and(|seen| seen.is(lost)) {
            return;
        }
        let older = older.filter(|older| older.at() < lost.write.invoked.index);
        let nothing = read.value.as_ref().is_some_and(serde_json::Value::is_null);
        if nothing || older.is_some() {
            let older = older
                .into_iter()
                .flat_map(|older| older.witness(&lost.write));
            let shown = lost.witness(read).chain(older).chain([read]);
            add(&mut self.missing, arrival, &lost.write, shown);
        }
    }
}

/// An operation may leave an object with a value that the stream does not spell out.
pub(super) fn makes_unknown(op: &Op) -> bool {
    op.outcome != Outcome::Failed
        && match op.function {
            Function::Write => op.value.as_ref().is_none_or(serde_json::Value::is_null),
            Function::Other(_) => op.key.is_some(),
            _ => writes(op),
        }
}

/// A read of `lower` that was sent when `higher` was surely done shows that `lower` came on top of it.
fn slips(lower: &Done, higher: &Done) -> bool {
    let (low, high) = (&lower.write, &higher.write);
    low.outcome != Outcome::Failed
        && low.token.is_some()
        && low.token < high.token
        && higher.at() > low.invoked.index
        && !low.precedes(high)
}

fn add<'a>(found: &mut Found, arrival: &Arrival, of: &Op, shown: impl Iterator<Item = &'a Kept>) {
    let known = found.entry((arrival.lock(of), of.key));
    known.or_insert_with(|| (0, shown.cloned().collect())).0 += 1;
}
