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

#[derive(Clone, Copy, Debug)]
struct Belief {
    lock: usize,
    client: Name,
    from: u64,
    until: u64,
    over: bool,
}

/// O(n log n).
pub(crate) fn overlaps(case: &Case<'_>) -> Overlap {
    let mut beliefs: Vec<Belief> = Vec::new();
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
            beliefs.push(Belief {
                lock,
                client,
                from,
                until: from,
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
        let belief = &mut beliefs[at];
        if held != token || belief.over {
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
        belief.over = told_no || operation.function == Function::Release;
    }
    beliefs.sort_unstable_by_key(|belief| (belief.lock, belief.from));
    count(&beliefs)
}

fn count(beliefs: &[Belief]) -> Overlap {
    let mut overlap = Overlap::default();
    // Of those before, the two of different clients that last longest.
    let mut longest: [Option<Belief>; 2] = [None, None];
    for belief in beliefs {
        if longest[0].is_some_and(|first| first.lock != belief.lock) {
            longest = [None, None];
        }
        let other = longest
            .into_iter()
            .flatten()
            .find(|other| other.client != belief.client);
        if let Some(other) = other {
            let length = other.until.min(belief.until).saturating_sub(belief.from);
            if length > 0 {
                overlap.count += 1;
                overlap.total_ns += length;
                overlap.longest_ns = overlap.longest_ns.max(length);
            }
        }
        if longest[0].is_none_or(|first| first.until <= belief.until) {
            if longest[0].is_some_and(|first| first.client != belief.client) {
                longest[1] = longest[0];
            }
            longest[0] = Some(*belief);
        } else if longest[1].is_none_or(|second| second.until <= belief.until) {
            longest[1] = Some(*belief);
        }
    }
    overlap
}
