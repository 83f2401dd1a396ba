//! How long two clients believed that they held one lock.
//!
//! That is normal and no finding: it is the reason why fencing exists. It is counted, so that a report can say how often
//! it happened, how long in all, and how long at most. A client believes that it holds from its grant's answer until it
//! asks to release, is told that it holds nothing or that its token is stale, or uses the token for the last time.
//!
//! State: for each lock, client and token the begin and the end of that belief.

use hashbrown::HashMap;

use super::case::Case;
use super::kinds::Kind;
use crate::history::{Function, Name, Outcome, Token};
use crate::verdict::Overlap;

/// A client believes that it holds a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Belief {
    pub client: Name,
    pub from: u64,
    pub until: u64,
}

#[derive(Clone, Copy, Debug)]
struct OfLock {
    lock: usize,
    belief: Belief,
    over: bool,
}

/// O(n log n).
pub(crate) fn overlaps(case: &Case<'_>) -> Overlap {
    let mut beliefs: Vec<OfLock> = Vec::new();
    // What each client believes of each lock now.
    let mut current: HashMap<(usize, Name), (Token, usize)> = HashMap::new();
    // Of each lock the client that was asked about last, and the same of it: most is done by the one before.
    let mut latest: Vec<Option<(Name, (Token, usize))>> = vec![None; case.history.names.count()];
    let told = Kind::ACQUIRE.or(Kind::RENEW).or(Kind::RELEASE);
    for moment in case.walk(told.or(Kind::WRITE).or(Kind::OTHER)) {
        let op = moment.op;
        // Most answers say nothing new about belief.
        let kind = case.kinds[op];
        if moment.returns && kind.is(Kind::WRITE) && !kind.is(Kind::REFUSAL) {
            continue;
        }
        let operation = case.operation(op);
        let (Some(lock), Some(token)) = (case.lock_place(op), operation.token) else {
            continue;
        };
        if moment.returns && operation.function == Function::Acquire {
            if operation.outcome != Outcome::Ok {
                continue;
            }
            let from = operation.completed.unwrap_or(operation.invoked).time;
            let client = operation.client;
            let known = current.get(&(lock, client));
            if known.is_some_and(|&(held, at)| held == token && !beliefs[at].over) {
                continue;
            }
            let belief = (token, beliefs.len());
            current.insert((lock, client), belief);
            latest[lock] = Some((client, belief));
            let until = from;
            beliefs.push(OfLock {
                lock,
                belief: Belief {
                    client,
                    from,
                    until,
                },
                over: false,
            });
            continue;
        }
        if operation.function == Function::Acquire {
            continue;
        }
        if moment.returns && operation.outcome == Outcome::Ok {
            continue;
        }
        let client = operation.client;
        let known = latest[lock].filter(|&(last, _)| last == client);
        let Some((held, at)) = known.map_or_else(
            || current.get(&(lock, client)).copied(),
            |(_, belief)| Some(belief),
        ) else {
            continue;
        };
        latest[lock] = Some((client, (held, at)));
        let OfLock { belief, over, .. } = &mut beliefs[at];
        if held != token || *over {
            continue;
        }
        let told_no = moment.returns
            && (case.is_refusal(operation)
                || (operation.function == Function::Renew && operation.outcome == Outcome::Failed));
        if moment.returns && !told_no {
            continue;
        }
        let now = if moment.returns {
            operation.completed.unwrap_or(operation.invoked)
        } else {
            operation.invoked
        };
        belief.until = belief.until.max(now.time);
        *over = told_no || operation.function == Function::Release;
    }
    beliefs.sort_by_key(|of| (of.lock, of.belief.from));
    let mut counted = Overlaps::default();
    for (at, of) in beliefs.iter().enumerate() {
        if at > 0 && beliefs[at - 1].lock != of.lock {
            counted.longest = [None, None];
        }
        counted.add(of.belief);
    }
    counted.found
}

/// What beliefs have in common, added up one after the other in the order of their beginnings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overlaps {
    pub found: Overlap,
    /// Of those before, the two of different clients that last longest.
    longest: [Option<Belief>; 2],
}

impl Overlaps {
    /// Adds the next belief of the lock.
    pub fn add(&mut self, belief: Belief) {
        let Self { found, longest } = self;
        let other = longest
            .iter()
            .flatten()
            .find(|other| other.client != belief.client);
        if let Some(other) = other {
            let length = other.until.min(belief.until).saturating_sub(belief.from);
            if length > 0 {
                found.count += 1;
                found.total_ns += length;
                found.longest_ns = found.longest_ns.max(length);
            }
        }
        if longest[0].is_none_or(|first| first.until <= belief.until) {
            if longest[0].is_some_and(|first| first.client != belief.client) {
                longest[1] = longest[0];
            }
            longest[0] = Some(belief);
        } else if longest[0].is_some_and(|first| first.client != belief.client)
            && longest[1].is_none_or(|second| second.until <= belief.until)
        {
            longest[1] = Some(belief);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn what_a_client_believed_twice_hides_no_other() {
        let mut s = Scenario::new();
        s.grant("c1", "L", 1);
        s.grant("c2", "L", 2);
        s.grant("c1", "L", 3);
        // All three go on for a while, the last one longest.
        s.write("c2", "L", "k", 2, "a");
        s.write("c1", "L", "k", 3, "b");
        s.grant("c3", "L", 4);
        s.write("c3", "L", "k", 4, "c");
        s.write("c1", "L", "k", 3, "d");
        let history = s.history();
        let overlap = overlaps(&Case::new(&history));
        // c2 holds from 4 to 7 ms and c1 again from 6 ms to 15 ms; c3 from 12 ms to 13 ms.
        assert_eq!(
            (overlap.count, overlap.total_ns),
            (2, 2_000_000),
            "{overlap:?}"
        );
    }
}
