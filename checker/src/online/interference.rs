//! `cross-key-interference`. What it means is in `fencing/interference.rs`.
//!
//! Of each lock the highest [`MOST_PRESENTED`] tokens are kept that were presented on its keys, each with its first
//! accepted write; what is lower counts as presented under its own lock, and as nobody's under another. Of each lock
//! that was refused as held and not granted yet the first and the last refusal, and of all locks the last two releases.

use std::collections::BTreeMap;

use super::arrival::{Arrival, is_grant};
use super::hash::Map;
use super::marks::Place;
use super::phantom::Renewals;
use super::words::{Kept, is_fenced_write, token_of};
use crate::history::{Function, Name, Outcome, Token};

/// How many presented tokens of a lock are remembered.
const MOST_PRESENTED: usize = 256;

/// How many refusals make it a row.
const ENOUGH: u64 = 2;

#[derive(Clone, Debug, Default)]
struct Presented {
    /// Every token, with its first accepted write.
    tokens: BTreeMap<Token, Option<Kept>>,
    /// Tokens up to here were forgotten.
    below: Option<Token>,
    /// The last one, if its accepted write is known.
    last: Option<Token>,
}

/// A lock that was refused as held by nobody.
#[derive(Clone, Debug)]
struct Shut {
    count: u64,
    first: Kept,
    last: Kept,
    /// The index of the last of their answers.
    until: u64,
}

/// Whether a lock was granted, and what was refused before that.
#[derive(Clone, Debug)]
enum Slot {
    Shut(Shut),
    /// An acquire that was not refused was sent at this index, after these refusals.
    Asked(u64, Shut),
    Over,
}

/// A lock that was free and given only after another one's release: how often it was refused, and what proves it.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub count: u64,
    pub witness: Vec<Kept>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Interference {
    presented: BTreeMap<Name, Presented>,
    /// By key: how many refusals name another lock's mark; the write that made it, and the first of them.
    pub strayed: BTreeMap<Place, (u64, [Kept; 2])>,
    slots: Map<Name, Slot>,
    /// The last releases answered `ok`, by when they were sent.
    releases: [Option<Kept>; 2],
    pub shared: BTreeMap<Name, Shared>,
}

impl Interference {
    pub fn call(&mut self, arrival: &Arrival, op: &Kept) {
        if is_fenced_write(op) {
            if let Some(lock) = arrival.lock(op) {
                self.presented.entry(lock).or_default().note(op);
            }
        } else if op.function == Function::Acquire {
            self.ask(arrival, op);
        } else if op.function == Function::Release && op.outcome == Outcome::Ok {
            let [_, last] = std::mem::take(&mut self.releases);
            self.releases = [last, Some(Kept::clone(op))];
        }
    }

    fn ask(&mut self, arrival: &Arrival, op: &Kept) {
        let Some(lock) = op.lock else { return };
        if op.outcome != Outcome::Failed {
            let slot = self.slots.entry(lock).or_insert(Slot::Over);
            *slot = match std::mem::replace(slot, Slot::Over) {
                Slot::Shut(shut) if is_grant(op) && shut.count >= ENOUGH => {
                    Slot::Asked(op.invoked.index, shut)
                }
                asked @ Slot::Asked(..) => asked,
                _ => Slot::Over,
            };
            return;
        }
        let held = op
            .error
            .is_some_and(|error| arrival.names.text(error) == "held");
        let Some(until) = op.completed.filter(|_| held).map(|at| at.index) else {
            return;
        };
        let new = || {
            Slot::Shut(Shut {
                count: 0,
                first: Kept::clone(op),
                last: Kept::clone(op),
                until,
            })
        };
        if let Slot::Shut(shut) = self.slots.entry(lock).or_insert_with(new) {
            shut.count += 1;
            shut.last = Kept::clone(op);
            shut.until = shut.until.max(until);
        }
    }

    /// A grant has come; it may be the first of a lock that was refused before.
    pub fn answer(&mut self, held: &Renewals, op: &Kept) {
        let Some(lock) = op.lock.filter(|_| is_grant(op)) else {
            return;
        };
        let is_it = |slot: &Slot| matches!(slot, Slot::Asked(at, _) if *at == op.invoked.index);
        let Some(slot) = self.slots.get_mut(&lock).filter(|slot| is_it(slot)) else {
            return;
        };
        let Slot::Asked(_, shut) = std::mem::replace(slot, Slot::Over) else {
            return;
        };
        if let Some(shared) = self.freed_by_another(held, lock, shut, op) {
            self.shared.insert(lock, shared);
        }
    }

    /// Of all releases between the last refusal and the grant there is one, of a hold that spans all refusals.
    fn freed_by_another(
        &self,
        held: &Renewals,
        lock: Name,
        shut: Shut,
        granted: &Kept,
    ) -> Option<Shared> {
        if shut.until > granted.invoked.index {
            return None;
        }
        let since = |release: &&Kept| release.invoked.index >= shut.until;
        let mut between = self.releases.iter().flatten().filter(since);
        let (Some(freed), None) = (between.next(), between.next()) else {
            return None;
        };
        let other = freed.lock.filter(|&other| other != lock)?;
        if freed.invoked.index > granted.invoked.index || freed.token.is_none() {
            return None;
        }
        let grants = held.grants_of(other, freed.client, token_of(freed));
        let hold = grants.iter().rfind(|grant| grant.precedes(freed))?;
        if !hold.precedes(&shut.first) {
            return None;
        }
        let witness = vec![
            Kept::clone(hold),
            shut.first,
            shut.last,
            Kept::clone(freed),
            Kept::clone(granted),
        ];
        let count = shut.count;
        Some(Shared { count, witness })
    }

    /// A refusal names a mark that nothing under its lock explains. Whether another lock's does.
    pub fn strays(&mut self, arrival: &Arrival, refusal: &Kept) -> bool {
        let (Some(lock), Some(named)) = (arrival.lock(refusal), refusal.high_water) else {
            return false;
        };
        let own = self.presented.get(&lock);
        if Some(named) <= refusal.token || own.is_some_and(|own| own.knows(named)) {
            return false;
        }
        let mut others = self.presented.iter().filter(|&(&other, _)| other != lock);
        let write = others.find_map(|(_, presented)| presented.tokens.get(&named)?.as_ref());
        let Some(write) = write else { return false };
        let witness = [Kept::clone(write), Kept::clone(refusal)];
        self.strayed
            .entry((Some(lock), refusal.key))
            .or_insert((0, witness))
            .0 += 1;
        true
    }
}

impl Presented {
    fn note(&mut self, write: &Kept) {
        let token = token_of(write);
        if self.last == Some(token) || self.below >= Some(token) {
            return;
        }
        let known = self.tokens.entry(token).or_default();
        if known.is_none() && write.outcome == Outcome::Ok {
            *known = Some(Kept::clone(write));
        }
        if known.is_some() {
            self.last = Some(token);
        }
        if self.tokens.len() > MOST_PRESENTED {
            self.below = self.tokens.pop_first().map(|(token, _)| token);
        }
    }

    fn knows(&self, token: Token) -> bool {
        self.tokens.contains_key(&token) || self.below >= Some(token)
    }
}
