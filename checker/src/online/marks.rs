//! Proofs of a high water, and writes that came after one: `stale-write-accepted`, and the zombie writes.
//!
//! Of each scope (key or lock) three things are kept: the strongest proof, the tokens that were presented above it, and
//! the greatest that was presented at or below it. A refusal of u that names nothing proves the least presented token
//! above u; if one at or below the strongest proof is above u, that proves nothing new, so which one it is does not
//! matter. A late write of unknown outcome is remembered with its value until that is read (`key.rs`).

use std::collections::{BTreeMap, BTreeSet};

use super::arrival::Arrival;
use super::hash::Map;
use super::words::{Kept, Scope, is_fenced_write, token_of};
use crate::history::{Function, Name, Operation, Outcome, Token};

/// Why the high water was at least `high_water` once `op` had completed.
#[derive(Clone, Debug)]
pub(super) struct Proof {
    pub high_water: Token,
    pub op: Kept,
    pub by: By,
}

#[derive(Clone, Debug)]
pub(super) enum By {
    Write,
    Value(Kept),
    Report,
    Refusal,
}

#[derive(Clone, Debug, Default)]
struct Mark {
    proven: Option<Proof>,
    /// Presented tokens above what is proven.
    presented: BTreeSet<Token>,
    /// The greatest presented token that is not.
    below: Option<Token>,
}

/// An accepted late write, and the read that shows that it was, where its own answer does not.
#[derive(Clone, Debug)]
pub(super) struct Stale {
    pub write: Kept,
    pub proof: Proof,
    pub read: Option<Kept>,
}

/// Lock and key.
pub(super) type Place = (Option<Name>, Option<Name>);

#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    scopes: Map<Scope, Mark>,
    /// By place: how many, and the first by invocation.
    pub stale: BTreeMap<Place, (u64, Stale)>,
    pub zombies: u64,
    pub zombies_refused: u64,
}

impl Marks {
    /// A write is sent. Returns the proof that it is late, where its answer is not known.
    pub fn call(&mut self, arrival: &Arrival, op: &Kept) -> Option<Proof> {
        let token = op.token.filter(|_| is_fenced_write(op))?;
        let mark = self.scopes.entry(arrival.scope(op)).or_default();
        let late = mark
            .proven
            .as_ref()
            .filter(|proof| proof.high_water > token);
        let late = late.cloned();
        mark.present(token);
        let proof = late?;
        if op.outcome == Outcome::Unknown {
            return Some(proof);
        }
        self.answered_late(arrival, op, &proof);
        None
    }

    /// A late write has an answer.
    pub fn answered_late(&mut self, arrival: &Arrival, write: &Kept, proof: &Proof) {
        self.zombies += 1;
        self.zombies_refused += u64::from(arrival.is_refusal(write));
        if write.outcome == Outcome::Ok {
            self.accepted(arrival, write, proof, None);
        }
    }

    /// A late write was accepted.
    pub fn accepted(
        &mut self,
        arrival: &Arrival,
        write: &Kept,
        proof: &Proof,
        read: Option<&Kept>,
    ) {
        let stale = || Stale {
            write: Kept::clone(write),
            proof: proof.clone(),
            read: read.cloned(),
        };
        let place = (arrival.lock(write), write.key);
        match self.stale.get_mut(&place) {
            Some((count, first)) => {
                *count += 1;
                if write.invoked.index < first.write.invoked.index {
                    *first = stale();
                }
            }
            None => {
                self.stale.insert(place, (1, stale()));
            }
        }
    }

    /// An operation has returned; `seen` is the accepted write whose value it read.
    pub fn answer(&mut self, arrival: &Arrival, op: &Kept, seen: Option<&Kept>) {
        let fenced = is_fenced_write(op);
        if !fenced && op.function != Function::Read {
            return;
        }
        let mark = self.scopes.entry(arrival.scope(op)).or_default();
        if let Some((high_water, by)) = proof_of(arrival, op, seen, mark) {
            mark.raise(high_water, op, by);
        }
    }
}

impl Mark {
    fn present(&mut self, token: Token) {
        if self
            .proven
            .as_ref()
            .is_some_and(|proof| proof.high_water >= token)
        {
            self.below = self.below.max(Some(token));
        } else {
            self.presented.insert(token);
        }
    }

    /// The least presented token above this one, if it is above what is proven.
    fn least_above(&self, token: Token) -> Option<Token> {
        if self.below > Some(token) {
            return None;
        }
        let above = (std::ops::Bound::Excluded(token), std::ops::Bound::Unbounded);
        self.presented.range(above).next().copied()
    }

    /// Keeps the strongest proof; of equal ones the first, but rather an accepted write, which is the plainest.
    fn raise(&mut self, high_water: Token, op: &Kept, by: By) {
        let stronger = self.proven.as_ref().is_none_or(|known| {
            high_water > known.high_water
                || (high_water == known.high_water
                    && matches!(by, By::Write)
                    && !matches!(known.by, By::Write))
        });
        if !stronger {
            return;
        }
        let op = Kept::clone(op);
        self.proven = Some(Proof { high_water, op, by });
        while let Some(&least) = self.presented.first().filter(|&&least| least <= high_water) {
            self.presented.remove(&least);
            self.below = self.below.max(Some(least));
        }
    }
}

fn proof_of(
    arrival: &Arrival,
    op: &Operation,
    seen: Option<&Kept>,
    mark: &Mark,
) -> Option<(Token, By)> {
    if op.function == Function::Read {
        if op.outcome != Outcome::Ok {
            return None;
        }
        let by_value = seen.map(|write| (token_of(write), Kept::clone(write)));
        return match (op.high_water, by_value) {
            (Some(reported), Some((token, write))) if token > reported => {
                Some((token, By::Value(write)))
            }
            (Some(reported), _) => Some((reported, By::Report)),
            (None, Some((token, write))) => Some((token, By::Value(write))),
            (None, None) => None,
        };
    }
    let token = op.token?;
    if arrival.is_refusal(op) {
        return match op.high_water {
            Some(reported) => Some((reported, By::Report)),
            None => Some((mark.least_above(token)?, By::Refusal)),
        };
    }
    (op.outcome == Outcome::Ok).then_some((token, By::Write))
}
