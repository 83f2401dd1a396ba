//! `phantom-renew`: a hold is prolonged that is over.
//!
//! A renewal of t succeeds although, before it was sent, a higher token was known to be granted to another holder (by a
//! grant that does not precede t's own); or although t had been released, with `ok`, as often as it had been granted.
//!
//! Source: <https://github.com/sibson/redbeat/issues/127>: the keep-alive extended the key without a look at who owned
//! it; a heartbeat that revived a released lock (<https://github.com/awslabs/amazon-dynamodb-lock-client/pull/116>).
//!
//! It fires on: 3 granted to c1, 4 granted to c2, c1 renews 3 and is told `ok`. It is silent where the renewal of 3
//! overlaps the grant of 4, and for a client with an acquire of unknown outcome: it may hold once more.
//!
//! State, for each lock: the highest grant known, and the highest to another client than that; for each token and
//! client the grants and releases.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};

use super::case::Case;
use super::identity::Holders;
use super::kinds::Kind;
use super::story::{self, Scene};
use super::{Draft, PHANTOM_RENEW};
use crate::history::{Function, Name, Outcome, Token};

/// A renewal that had nothing to renew, and what shows it.
#[derive(Clone, Debug)]
struct Phantom {
    renewal: usize,
    /// The holder's own grant of this token.
    own: usize,
    over: Over,
}

#[derive(Clone, Debug)]
enum Over {
    /// By this grant to another.
    Taken(usize),
    /// By these releases.
    Released(Vec<usize>),
}

/// The highest grant that is known, and the highest to another client.
#[derive(Clone, Copy, Debug, Default)]
struct Newest {
    first: Option<usize>,
    second: Option<usize>,
}

impl Newest {
    fn note(&mut self, case: &Case<'_>, op: usize) {
        let newer = |than: Option<usize>| {
            than.is_none_or(|than| case.operation(than).token < case.operation(op).token)
        };
        let client = |op: Option<usize>| op.map(|op| case.operation(op).client);
        if newer(self.first) {
            if client(self.first) != client(Some(op)) {
                self.second = self.first;
            }
            self.first = Some(op);
        } else if client(self.first) != client(Some(op)) && newer(self.second) {
            self.second = Some(op);
        }
    }
}

/// One finding a lock. O(n).
pub(crate) fn phantom_renewals(case: &Case<'_>, holders: &Holders) -> Vec<Draft> {
    if !case.has(Kind::RENEW) {
        return Vec::new();
    }
    let mut locks: BTreeMap<Name, (u64, Phantom)> = BTreeMap::new();
    for phantom in phantoms(case, holders) {
        let Some(lock) = case.operation(phantom.renewal).lock else {
            continue;
        };
        locks
            .entry(lock)
            .and_modify(|known| known.0 += 1)
            .or_insert((1, phantom));
    }
    locks
        .into_iter()
        .map(|(lock, (count, first))| describe(case, count, &first).on(Some(lock), None))
        .collect()
}

/// What a client has done with one token of one lock.
#[derive(Debug, Default)]
struct Holding {
    grants: Vec<usize>,
    releases: Vec<usize>,
}

fn phantoms(case: &Case<'_>, holders: &Holders) -> Vec<Phantom> {
    let mut newest = vec![Newest::default(); case.history.names.count()];
    let mut holdings: HashMap<(Name, Name, Token), Holding> = HashMap::new();
    let mut uncertain: HashSet<(Name, Name)> = HashSet::new();
    let mut found = Vec::new();
    for moment in case.walk(Kind::ACQUIRE.or(Kind::RENEW).or(Kind::RELEASE)) {
        let op = moment.op;
        let operation = case.operation(op);
        let (Some(lock), Some(place)) = (operation.lock, case.lock_place(op)) else {
            continue;
        };
        match (operation.function, operation.outcome, operation.token) {
            (Function::Acquire, Outcome::Unknown, _) => {
                uncertain.insert((lock, operation.client));
            }
            (Function::Acquire, Outcome::Ok, Some(token)) => {
                if moment.returns {
                    newest[place].note(case, op);
                } else {
                    let holding = holdings.entry((lock, operation.client, token));
                    holding.or_default().grants.push(op);
                }
            }
            (Function::Release, Outcome::Ok, Some(token)) if moment.returns => {
                let holding = holdings.entry((lock, operation.client, token));
                holding.or_default().releases.push(op);
            }
            (Function::Renew, Outcome::Ok, Some(token)) if !moment.returns => {
                if operation.session.is_some() || uncertain.contains(&(lock, operation.client)) {
                    continue;
                }
                let Some(holding) = holdings.get(&(lock, operation.client, token)) else {
                    continue;
                };
                let Some(&own) = holding.grants.last() else {
                    continue;
                };
                let newer = [newest[place].first, newest[place].second];
                let taken = newer.into_iter().flatten().find(|&grant| {
                    let other = case.operation(grant);
                    other.token > Some(token)
                        && holders.differ(lock, other, operation)
                        && !other.precedes(case.operation(own))
                });
                let over = if let Some(grant) = taken {
                    Over::Taken(grant)
                } else if holding.releases.len() >= holding.grants.len() {
                    Over::Released(holding.releases.clone())
                } else {
                    continue;
                };
                found.push(Phantom {
                    renewal: op,
                    own,
                    over,
                });
            }
            _ => {}
        }
    }
    found
}

fn describe(case: &Case<'_>, count: u64, phantom: &Phantom) -> Draft {
    let renewal = case.operation(phantom.renewal);
    let token = renewal.token.unwrap_or_default();
    let mut witness = vec![phantom.own];
    let why = match &phantom.over {
        Over::Taken(grant) => {
            witness.push(*grant);
            let other = case.operation(*grant);
            format!(
                "{} had been granted token {} before this renewal was sent, so token {token} was lost",
                case.text(other.client),
                other.token.unwrap_or_default()
            )
        }
        Over::Released(releases) => {
            let lock = case.lock(renewal);
            let grants = case.grants_before(lock, renewal.token, renewal);
            witness.extend(
                grants
                    .filter(|grant| grant.client == renewal.client)
                    .map(|grant| super::place_of(case, grant)),
            );
            witness.extend(releases);
            format!("token {token} had been given back before this renewal was sent")
        }
    };
    witness.push(phantom.renewal);
    witness.sort_unstable();
    witness.dedup();
    let scenes = witness
        .iter()
        .map(|&op| match case.operation(op) {
            grant if Case::is_grant(grant) => Scene::Granted(grant),
            other => Scene::Happened(other),
        })
        .collect();
    let mut ending = format!(
        "That is wrong: {why}. A renewal must look at who holds the lock; this one told a lost holder that it holds, and may have prolonged another's lease."
    );
    if count > 1 {
        ending += &format!("\n{count} such renewals of this lock succeeded in all.");
    }
    let story = story::tell(case.history, scenes, &ending);
    Draft::new(PHANTOM_RENEW, count, witness, story)
}
