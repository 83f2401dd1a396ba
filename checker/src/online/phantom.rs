//! `phantom-renew`. Of each token and client its grants and releases are kept while there is room; of each lock the
//! highest grant, and the highest to another client than that.
//!
//! Whether two processes of one name are two holders may show only later, when both have a grant of their own. So a
//! renewal that hangs on that waits, among the last [`MOST_WAITING`] of its kind.

use std::collections::{BTreeMap, VecDeque};

use super::arrival::{Arrival, is_grant};
use super::hash::{Map, Set};
use super::holders::are_two;
use super::words::{Kept, token_of};
use crate::history::{Function, Name, Outcome, Token};

/// How many renewals wait for what comes.
const MOST_WAITING: usize = 1000;

/// What a client has done with one token of one lock.
#[derive(Clone, Debug, Default)]
struct Holding {
    grants: Vec<Kept>,
    releases: Vec<Kept>,
}

/// A renewal that may have had nothing to renew.
#[derive(Clone, Debug)]
struct Renewal {
    op: Kept,
    lock: Name,
    /// The holder's own grants of this token, the last of them last.
    grants: Vec<Kept>,
    releases: Vec<Kept>,
    /// Higher grants that were known, and are perhaps another's.
    newer: Vec<Kept>,
}

/// The renewals of a lock that had nothing to renew: how many, and what proves the first.
pub(super) type Phantoms = BTreeMap<Name, (u64, Vec<Kept>)>;

#[derive(Clone, Debug, Default)]
pub(super) struct Renewals {
    most: usize,
    newest: Map<Name, [Option<Kept>; 2]>,
    holdings: Map<(Name, Name, Token), Holding>,
    order: VecDeque<(Name, Name, Token)>,
    /// Of tokens up to here some grants may be forgotten.
    floor: Map<Name, Token>,
    uncertain: Set<(Name, Name)>,
    waiting: VecDeque<Renewal>,
    found: Phantoms,
}

impl Renewals {
    pub fn new(most: usize) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }

    pub fn call(&mut self, arrival: &Arrival, op: &Kept) {
        let Some(lock) = op.lock else { return };
        match (op.function, op.outcome) {
            (Function::Acquire, Outcome::Unknown) => {
                self.uncertain.insert((lock, op.client));
            }
            (Function::Acquire, Outcome::Ok) if is_grant(op) => {
                self.holding(lock, op).grants.push(Kept::clone(op));
            }
            (Function::Renew, Outcome::Ok) if op.token.is_some() => self.renew(arrival, lock, op),
            _ => {}
        }
    }

    pub fn answer(&mut self, op: &Kept) {
        let Some(lock) = op.lock else { return };
        if is_grant(op) {
            note(self.newest.entry(lock).or_default(), op);
        } else if op.function == Function::Release
            && op.outcome == Outcome::Ok
            && op.token.is_some()
        {
            self.holding(lock, op).releases.push(Kept::clone(op));
        }
    }

    /// The grants of a token to a client that are remembered, in the order in which they were asked for.
    pub fn grants_of(&self, lock: Name, client: Name, token: Token) -> &[Kept] {
        let holding = self.holdings.get(&(lock, client, token));
        holding.map_or(&[], |holding| &holding.grants)
    }

    fn holding(&mut self, lock: Name, op: &Kept) -> &mut Holding {
        let place = (lock, op.client, token_of(op));
        if !self.holdings.contains_key(&place) {
            self.order.push_back(place);
            if self.order.len() > self.most
                && let Some(oldest) = self.order.pop_front()
            {
                self.holdings.remove(&oldest);
                let (lock, _, token) = oldest;
                let floor = self.floor.entry(lock).or_insert(token);
                *floor = token.max(*floor);
            }
        }
        self.holdings.entry(place).or_default()
    }

    fn renew(&mut self, arrival: &Arrival, lock: Name, op: &Kept) {
        if op.session.is_some() || self.uncertain.contains(&(lock, op.client)) {
            return;
        }
        let floor = self.floor.get(&lock);
        let held = self.holdings.get(&(lock, op.client, token_of(op)));
        let Some(holding) = held.filter(|_| floor.is_none_or(|&floor| token_of(op) > floor)) else {
            return;
        };
        let Some(own) = holding.grants.last() else {
            return;
        };
        let newest = self.newest.get(&lock).into_iter().flatten().flatten();
        let newer = newest.filter(|grant| grant.token > op.token && !grant.precedes(own));
        let renewal = Renewal {
            op: Kept::clone(op),
            lock,
            grants: holding.grants.clone(),
            releases: holding.releases.clone(),
            newer: newer.cloned().collect(),
        };
        match renewal.witness(arrival) {
            Some(witness) => add(&mut self.found, lock, 1, witness),
            None if renewal.newer.is_empty() => {}
            None => {
                self.waiting.push_back(renewal);
                if self.waiting.len() > MOST_WAITING {
                    self.waiting.pop_front();
                }
            }
        }
    }

    /// All that were found, with those that waited.
    pub fn phantoms(&self, arrival: &Arrival) -> Phantoms {
        let mut found = self.found.clone();
        for renewal in &self.waiting {
            if let Some(witness) = renewal.witness(arrival) {
                add(&mut found, renewal.lock, 1, witness);
            }
        }
        found
    }
}

impl Renewal {
    /// What proves that it had nothing to renew, as far as that is known by now.
    fn witness(&self, arrival: &Arrival) -> Option<Vec<Kept>> {
        let mut other = self.newer.iter();
        let taken = other.find(|grant| are_two(arrival, self.lock, grant, &self.op));
        let mut witness = vec![Kept::clone(&self.op)];
        match taken {
            Some(grant) => {
                witness.extend(self.grants.last().cloned());
                witness.push(Kept::clone(grant));
            }
            None if self.releases.len() >= self.grants.len() => {
                witness.extend(self.grants.iter().chain(&self.releases).cloned());
            }
            None => return None,
        }
        witness.sort_by_key(|op| op.invoked.index);
        Some(witness)
    }
}

/// Adds to the count; the earlier witness stays.
fn add(found: &mut Phantoms, lock: Name, count: u64, witness: Vec<Kept>) {
    let last = |witness: &[Kept]| witness.last().map(|op| op.invoked.index);
    let known = found.entry(lock).or_insert_with(|| (0, witness.clone()));
    known.0 += count;
    if last(&witness) < last(&known.1) {
        known.1 = witness;
    }
}

/// As in `fencing/phantom.rs`.
fn note(newest: &mut [Option<Kept>; 2], op: &Kept) {
    let newer = |than: &Option<Kept>| than.as_ref().is_none_or(|than| than.token < op.token);
    let same = |than: &Option<Kept>| than.as_ref().is_some_and(|than| than.client == op.client);
    if newer(&newest[0]) {
        if !same(&newest[0]) {
            newest[1] = newest[0].take();
        }
        newest[0] = Some(Kept::clone(op));
    } else if !same(&newest[0]) && newer(&newest[1]) {
        newest[1] = Some(Kept::clone(op));
    }
}
