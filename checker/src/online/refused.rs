//! `write-after-refusal`. Of each process the last refusal is kept, for as long as the process may go on.

use std::collections::BTreeMap;

use super::arrival::{Arrival, is_grant};
use super::hash::{Map, Set};
use super::words::Kept;
use crate::history::{Function, Name, Outcome, Token};

/// After so many refusals it is time to forget processes that have ended.
const SWEEP_EVERY: usize = 4096;

/// The last refusal that a process was told.
#[derive(Clone, Debug)]
struct Told {
    refusal: Kept,
    lock: Option<Name>,
    /// The same token was granted under the lock since.
    anew: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Refused {
    told: Map<u64, Told>,
    /// The highest token that was refused: grants above it concern nobody here.
    highest: Option<Token>,
    /// Clients with an acquire of unknown outcome.
    uncertain: Set<Name>,
    /// By lock: how many writes, the first, and the refusal before it.
    pub found: BTreeMap<Option<Name>, (u64, Kept, Kept)>,
    since_sweep: usize,
}

impl Refused {
    pub fn call(&mut self, arrival: &Arrival, op: &Kept) {
        if op.function == Function::Acquire && op.outcome == Outcome::Unknown {
            self.uncertain.insert(op.client);
        }
        if !arrival.is_refusal(op) {
            return;
        }
        let Some(told) = self.told.get(&op.process) else {
            return;
        };
        let lock = arrival.lock(op);
        let anew = told.anew || op.session.is_some() || self.uncertain.contains(&op.client);
        if told.refusal.token == op.token && told.lock == lock && !anew {
            self.found
                .entry(lock)
                .and_modify(|known| known.0 += 1)
                .or_insert_with(|| (1, Kept::clone(&told.refusal), Kept::clone(op)));
        }
    }

    pub fn answer(&mut self, arrival: &Arrival, op: &Kept) {
        if is_grant(op) && op.token <= self.highest {
            for told in self.told.values_mut() {
                told.anew |= told.lock == op.lock && told.refusal.token == op.token;
            }
        }
        if !arrival.is_refusal(op) {
            return;
        }
        self.highest = self.highest.max(op.token);
        let told = Told {
            refusal: Kept::clone(op),
            lock: arrival.lock(op),
            anew: false,
        };
        self.told.insert(op.process, told);
        self.since_sweep += 1;
        if self.since_sweep >= SWEEP_EVERY {
            self.since_sweep = 0;
            self.told.retain(|process, _| {
                let life = arrival.lives.get(process);
                life.is_some_and(|life| life.ended.is_none())
            });
        }
    }
}
