//! Proofs of a high water, and what came after one: `stale-write-accepted`, `high-water-lost`, `partial-fencing`,
//! `unfenced-write-accepted`, and the zombie writes. What each means is in `fencing/proof.rs`.
//!
//! Of each scope (key or lock, and path) the strongest proof is kept, and the highest [`MOST_PRESENTED`] tokens that were
//! presented: a refusal of u that names nothing proves the least presented token above u, and where that was forgotten,
//! nothing. Of each object, key and lock the strongest proof is kept, of each open operation the proof that stood when it
//! was sent, and of each object the highest [`MOST_REFUSED`] tokens that it refused.
//!
//! What a write of unknown outcome would prove if it was accepted is remembered with its value until that is read
//! (`key.rs`).

use std::collections::{BTreeMap, BTreeSet};

use super::arrival::Arrival;
use super::hash::Map;
use super::overflow::distorted;
use super::words::{Kept, Object, Scope, is_fenced_write, token_of, writes};
use crate::history::{Function, Name, Operation, Outcome, Token};

/// How many presented tokens of a scope are remembered.
const MOST_PRESENTED: usize = 1024;

/// How many refused tokens of an object are remembered.
const MOST_REFUSED: usize = 256;

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

/// Where the higher token was proven.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Elsewhere {
    /// On the same key, which was written by another path.
    Path,
    /// On another key of the lock.
    Key,
}

#[derive(Clone, Debug, Default)]
struct Mark {
    proven: Option<Proof>,
    presented: BTreeSet<Token>,
    last: Option<Token>,
    /// Presented tokens up to here were forgotten.
    below: Option<Token>,
}

/// What a write is guilty of if it was accepted.
#[derive(Clone, Debug, Default)]
pub(super) struct Suspicion {
    /// It was late, and whether its own object had shown that.
    late: Option<(Proof, bool)>,
    behind: Option<(Proof, Elsewhere)>,
    /// The refusal of the same token by the same object.
    regained: Option<Kept>,
    unfenced: Option<Proof>,
}

/// A finding's first witness: the operation at fault, the proof, and the read that shows that a write was accepted.
#[derive(Clone, Debug)]
pub(super) struct Guilt {
    pub op: Kept,
    pub proof: Option<Proof>,
    pub other: Option<Kept>,
    pub read: Option<Kept>,
    /// What decides which is the first.
    order: u64,
}

impl Guilt {
    /// When it was committed, as an index.
    pub fn order(&self) -> u64 {
        self.order
    }

    /// It is what an answer told, not what a write did.
    pub fn is_report(&self) -> bool {
        self.other.is_none()
    }

    /// The operations that prove it.
    pub fn witness(&self) -> Vec<Kept> {
        let mut witness = vec![Kept::clone(&self.op)];
        if let Some(proof) = &self.proof {
            witness.push(Kept::clone(&proof.op));
            if let By::Value(write) = &proof.by {
                witness.push(Kept::clone(write));
            }
        }
        witness.extend(self.other.iter().chain(&self.read).cloned());
        witness
    }
}

/// Lock and key.
pub(super) type Place = (Option<Name>, Option<Name>);

/// By place: how many, and the first.
pub(super) type Guilts<P> = BTreeMap<P, (u64, Guilt)>;

#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    scopes: Map<Scope, Mark>,
    own: Map<Object, Proof>,
    by_key: Map<Option<Name>, Proof>,
    by_lock: Map<Name, Proof>,
    when_sent: Map<u64, Proof>,
    refused: Map<Object, BTreeMap<Token, Kept>>,
    pub stale: Guilts<Place>,
    pub lost: Guilts<Place>,
    pub unfenced: Guilts<Place>,
    pub behind: Guilts<(Place, Option<Name>, Elsewhere)>,
    pub zombies: u64,
    pub zombies_refused: u64,
}

impl Marks {
    /// An operation is sent. Returns what it would be guilty of, where its answer is not known.
    pub fn call(&mut self, arrival: &Arrival, op: &Kept) -> Option<Suspicion> {
        if !writes(op) && op.function != Function::Read {
            return None;
        }
        let mark = self.scopes.entry(arrival.scope(op)).or_default();
        if let Some(proof) = mark.proven.as_ref().filter(|_| op.returned().is_some()) {
            self.when_sent.insert(op.invoked.index, proof.clone());
        }
        if !writes(op) {
            return None;
        }
        let mut suspicion = Suspicion::default();
        if let Some(token) = op.token {
            let object = arrival.object(op);
            let above = |proof: &&Proof| proof.high_water > token;
            let own = self.own.get(&object).filter(above);
            let late = own.or(mark.proven.as_ref().filter(above));
            suspicion.late = late.map(|proof| (proof.clone(), own.is_some()));
            if own.is_none() {
                let by_path = self.by_key.get(&op.key).filter(above);
                let by_lock = || self.by_lock.get(&arrival.lock(op)?).filter(above);
                suspicion.behind = by_path
                    .map(|proof| (proof.clone(), Elsewhere::Path))
                    .or_else(|| Some((by_lock()?.clone(), Elsewhere::Key)));
            }
            let refused = self.refused.get(&object);
            suspicion.regained = refused.and_then(|tokens| tokens.get(&token)).cloned();
            mark.present(token);
        } else {
            let proven = mark.proven.as_ref();
            suspicion.unfenced = proven
                .filter(|proof| proof.high_water > Token::ZERO)
                .cloned();
        }
        if !suspicion.is_any() {
            return None;
        }
        if op.outcome == Outcome::Unknown {
            return Some(suspicion);
        }
        self.answered(arrival, op, &suspicion);
        None
    }

    /// A write under suspicion has an answer.
    pub fn answered(&mut self, arrival: &Arrival, write: &Kept, suspicion: &Suspicion) {
        if suspicion.late.is_some() {
            self.zombies += 1;
            self.zombies_refused += u64::from(arrival.is_refusal(write));
        }
        if write.outcome == Outcome::Ok {
            self.accepted(arrival, write, suspicion, None);
        }
    }

    /// A write under suspicion was accepted.
    pub fn accepted(
        &mut self,
        arrival: &Arrival,
        write: &Kept,
        suspicion: &Suspicion,
        read: Option<&Kept>,
    ) {
        let place = (arrival.lock(write), write.key);
        let guilt = |proof: Option<&Proof>, other: Option<&Kept>, order: u64| Guilt {
            op: Kept::clone(write),
            proof: proof.cloned(),
            other: other.cloned(),
            read: read.cloned(),
            order,
        };
        let sent = write.invoked.index;
        if let Some((proof, true)) = &suspicion.late {
            note(&mut self.stale, place, guilt(Some(proof), None, sent));
        }
        if let Some((proof, elsewhere)) = &suspicion.behind {
            let (_, path) = arrival.object(write);
            let place = (place, path, *elsewhere);
            note(&mut self.behind, place, guilt(Some(proof), None, sent));
        }
        if let Some(refusal) = &suspicion.regained {
            let proven = write.completed.unwrap_or(write.invoked).index;
            note(&mut self.lost, place, guilt(None, Some(refusal), proven));
        }
        if let Some(proof) = &suspicion.unfenced {
            note(&mut self.unfenced, place, guilt(Some(proof), None, sent));
        }
    }

    /// An operation has returned; `seen` is the accepted write whose value it read. Returns the write whose token, wrapped
    /// or rounded, is the mark that it tells.
    pub fn answer(&mut self, arrival: &Arrival, op: &Kept, seen: Option<&Kept>) -> Option<Kept> {
        if !writes(op) && op.function != Function::Read {
            return None;
        }
        let before = self.when_sent.remove(&op.invoked.index);
        let told = op.outcome == Outcome::Ok || arrival.is_refusal(op);
        let told = op.high_water.filter(|_| told);
        if let (Some(reported), Some(proof)) = (told, before)
            && reported < proof.high_water
        {
            let place = (arrival.lock(op), op.key);
            let guilt = Guilt {
                op: Kept::clone(op),
                proof: Some(proof),
                other: None,
                read: None,
                order: op.completed.unwrap_or(op.invoked).index,
            };
            note(&mut self.lost, place, guilt);
        }
        let object = arrival.object(op);
        if let Some(token) = op.token.filter(|_| arrival.is_refusal(op)) {
            let refused = self.refused.entry(object).or_default();
            refused.entry(token).or_insert_with(|| Kept::clone(op));
            if refused.len() > MOST_REFUSED {
                refused.pop_first();
            }
        }
        let mark = self.scopes.entry(arrival.scope(op)).or_default();
        let distorted = told.and_then(|told| mark.distorted(op, told));
        let Some((high_water, by)) = proof_of(arrival, op, seen, mark) else {
            return distorted;
        };
        let proof = Proof {
            high_water,
            op: Kept::clone(op),
            by,
        };
        if is_stronger(mark.proven.as_ref(), &proof) {
            mark.proven = Some(proof.clone());
        }
        raise(&mut self.own, object, &proof);
        raise(&mut self.by_key, op.key, &proof);
        if let Some(lock) = arrival.lock(op) {
            raise(&mut self.by_lock, lock, &proof);
        }
        distorted
    }
}

impl Suspicion {
    fn is_any(&self) -> bool {
        self.late.is_some()
            || self.behind.is_some()
            || self.regained.is_some()
            || self.unfenced.is_some()
    }
}

fn note<P: Ord>(guilts: &mut Guilts<P>, place: P, guilt: Guilt) {
    match guilts.get_mut(&place) {
        Some((count, first)) => {
            *count += 1;
            if guilt.order < first.order {
                *first = guilt;
            }
        }
        None => {
            guilts.insert(place, (1, guilt));
        }
    }
}

/// The strongest proof stays; of equal ones the first, but rather an accepted write, which is the plainest.
fn is_stronger(known: Option<&Proof>, proof: &Proof) -> bool {
    known.is_none_or(|known| {
        proof.high_water > known.high_water
            || (proof.high_water == known.high_water
                && matches!(proof.by, By::Write)
                && !matches!(known.by, By::Write))
    })
}

fn raise<P: Eq + std::hash::Hash>(proofs: &mut Map<P, Proof>, place: P, proof: &Proof) {
    if is_stronger(proofs.get(&place), proof) {
        proofs.insert(place, proof.clone());
    }
}

impl Mark {
    fn present(&mut self, token: Token) {
        if self.last == Some(token) || self.below >= Some(token) {
            return;
        }
        self.last = Some(token);
        self.presented.insert(token);
        if self.presented.len() > MOST_PRESENTED {
            self.below = self.presented.pop_first();
        }
    }

    /// The write whose token this answer's high water is, wrapped or rounded: its own, or the one that proved the mark.
    fn distorted(&self, op: &Kept, told: Token) -> Option<Kept> {
        let proven = self.proven.as_ref();
        let plain = op.token == Some(told)
            || proven.is_some_and(|proof| proof.high_water == told)
            || self.below >= Some(told)
            || self.presented.contains(&told);
        if plain {
            return None;
        }
        let own = Some(op).filter(|op| writes(op) && op.outcome == Outcome::Ok);
        let of_proven = proven.and_then(|proof| match &proof.by {
            By::Write => Some(&proof.op),
            By::Value(write) => Some(write),
            By::Report | By::Refusal => None,
        });
        distorted(told, own.into_iter().chain(of_proven))
    }

    /// The least presented token above this one; none where it was forgotten.
    fn least_above(&self, token: Token) -> Option<Token> {
        if self.below > Some(token) {
            return None;
        }
        let above = (std::ops::Bound::Excluded(token), std::ops::Bound::Unbounded);
        self.presented.range(above).next().copied()
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
    let token = op.token.filter(|_| is_fenced_write(op))?;
    if arrival.is_refusal(op) {
        return match op.high_water {
            Some(reported) => Some((reported, By::Report)),
            // The mark of a key that was never written is reason enough.
            None if token < Token::from(0_u64) => None,
            None => Some((mark.least_above(token)?, By::Refusal)),
        };
    }
    (op.outcome == Outcome::Ok).then_some((token, By::Write))
}
