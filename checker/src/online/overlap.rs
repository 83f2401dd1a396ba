//! How long two clients believed that they held one lock; what that means is in `fencing/overlap.rs`.
//!
//! A belief is counted once it is over and those before it are: of each lock the last [`MOST_WAITING`] grants wait for
//! that. One that is pushed out counts as over: what its client does with it afterwards is not counted, so that beyond
//! that the numbers are the least.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use super::arrival::Arrival;
use super::hash::Map;
use super::words::{Kept, writes};
use crate::fencing::{Belief, Overlaps};
use crate::history::{Function, Name, Outcome, Token};
use crate::verdict::Overlap;

/// How many beliefs of a lock wait for an earlier one to be over.
const MOST_WAITING: usize = 1024;

/// What a client believes of a lock: the token, and the place of the belief.
#[derive(Clone, Copy, Debug)]
struct Held {
    token: Token,
    place: u64,
    over: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    belief: Belief,
    over: bool,
}

#[derive(Clone, Debug, Default)]
struct Lock {
    waiting: VecDeque<Waiting>,
    /// The place of the first that waits.
    base: u64,
    counted: Overlaps,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Believed {
    held: Map<(Name, Name), Held>,
    locks: Map<Name, Lock>,
}

impl Believed {
    pub fn call(&mut self, arrival: &Arrival, op: &Kept) {
        let uses = matches!(
            op.function,
            Function::Renew | Function::Release | Function::Other(_)
        );
        if uses || writes(op) {
            let over = op.function == Function::Release;
            self.go_on(arrival, op, op.invoked.time, over);
        }
    }

    pub fn answer(&mut self, arrival: &Arrival, op: &Kept) {
        let now = op.completed.unwrap_or(op.invoked).time;
        let told_no = arrival.is_refusal(op)
            || (op.function == Function::Renew && op.outcome == Outcome::Failed);
        if told_no {
            self.go_on(arrival, op, now, true);
        } else if let (Function::Acquire, Outcome::Ok, Some(lock), Some(token)) =
            (op.function, op.outcome, op.lock, op.token)
        {
            self.granted(lock, op.client, token, now);
        }
    }

    fn granted(&mut self, name: Name, client: Name, token: Token, now: u64) {
        let lock = self.locks.entry(name).or_default();
        let place = lock.base + lock.waiting.len() as u64;
        let over = false;
        let held = Held { token, place, over };
        match self.held.entry((name, client)) {
            Entry::Occupied(known) if known.get().token == token && !known.get().over => return,
            Entry::Occupied(mut known) => {
                let known = std::mem::replace(known.get_mut(), held);
                if let Some(waiting) = lock.at(known.place) {
                    waiting.over = true;
                }
            }
            Entry::Vacant(new) => {
                new.insert(held);
            }
        }
        lock.waiting.push_back(Waiting {
            belief: Belief {
                client,
                from: now,
                until: now,
            },
            over: false,
        });
        while (lock.waiting.front())
            .is_some_and(|first| first.over || lock.waiting.len() > MOST_WAITING)
        {
            if let Some(first) = lock.waiting.pop_front() {
                lock.base += 1;
                lock.counted.add(first.belief);
            }
        }
    }

    /// A client uses a token, or is told something of it.
    fn go_on(&mut self, arrival: &Arrival, op: &Kept, now: u64, over: bool) {
        let (Some(name), Some(token)) = (arrival.lock(op), op.token) else {
            return;
        };
        let held = self.held.get_mut(&(name, op.client));
        let Some(held) = held.filter(|held| held.token == token && !held.over) else {
            return;
        };
        held.over = over;
        let lock = self.locks.get_mut(&name);
        if let Some(waiting) = lock.and_then(|lock| lock.at(held.place)) {
            waiting.belief.until = waiting.belief.until.max(now);
            waiting.over = over;
        }
    }

    /// All of it, if the stream ends now.
    pub fn in_all(&self) -> Overlap {
        let mut all = Overlap::default();
        for lock in self.locks.values() {
            let mut counted = lock.counted;
            for waiting in &lock.waiting {
                counted.add(waiting.belief);
            }
            let found = counted.found;
            all.count += found.count;
            all.total_ns += found.total_ns;
            all.longest_ns = all.longest_ns.max(found.longest_ns);
        }
        all
    }
}

impl Lock {
    /// A belief, while it waits.
    fn at(&mut self, place: u64) -> Option<&mut Waiting> {
        let inside = usize::try_from(place.checked_sub(self.base)?).ok()?;
        self.waiting.get_mut(inside)
    }
}
