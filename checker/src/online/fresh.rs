//! `fresh-write-refused`: of each mark the highest token that was presented and the lowest mark that was shown, of each
//! lock the highest grant. What it means is in `fencing/fresh_refused.rs`.
//!
//! A read may show later that the refused write was done all the same; then it is `failed-write-applied`. So the last
//! [`MOST_KEPT`] refusals of each key are remembered one by one.

use std::collections::BTreeMap;

use super::arrival::Arrival;
use super::hash::Map;
use super::marks::Place;
use super::words::{Kept, Scope, writes};
use crate::fencing::Granted;
use crate::history::{Function, MarkScope, Name, Operation, Outcome, Token};

/// How many refusals of a key can still be taken back.
const MOST_KEPT: usize = 256;

#[derive(Clone, Debug, Default)]
struct Mark {
    presented: Option<Token>,
    /// The least mark that was shown, and by which operation.
    shown: Option<(Token, Kept)>,
}

/// A refusal without a reason, and what shows that the key was fresh.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub refusal: Kept,
    pub shown: Option<Kept>,
}

/// The refusals of one key: how many, and by the index of their answers the first and those told last.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    pub count: u64,
    kept: BTreeMap<u64, Refused>,
}

impl Row {
    pub fn first(&self) -> Option<&Refused> {
        self.kept.first_key_value().map(|(_, refused)| refused)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Fresh {
    marks: Map<Scope, Mark>,
    granted: Map<Name, Granted>,
    any: Granted,
    pub found: BTreeMap<Place, Row>,
}

impl Fresh {
    pub fn call(&mut self, arrival: &Arrival, op: &Kept) {
        if matches!(op.function, Function::Acquire | Function::Renew) {
            self.any.note(op);
            if let Some(lock) = op.lock {
                self.granted.entry(lock).or_default().note(op);
            }
        } else if writes(op) {
            let presented = &mut self.marks.entry(arrival.scope(op)).or_default().presented;
            *presented = op.token.max(*presented);
        }
    }

    /// An operation has returned. `explained`: it is a refusal that another finding gives the reason of.
    pub fn answer(&mut self, arrival: &Arrival, op: &Kept, explained: bool) {
        if op.function == Function::Read {
            self.read(arrival, op);
            return;
        }
        let Some(token) = op.token.filter(|_| writes(op)) else {
            return;
        };
        if op.outcome == Outcome::Ok {
            self.mark(arrival, op).show(token, op);
        }
        if !arrival.is_refusal(op) {
            return;
        }
        if op.high_water.is_some_and(|named| named <= token) {
            self.find(arrival, op, None, explained);
            return;
        }
        let grants = match arrival.lock(op) {
            Some(lock) => self.granted.get(&lock).copied().unwrap_or_default(),
            None => self.any,
        };
        let mark = self.mark(arrival, op);
        let shown = mark.shown.clone().filter(|&(least, _)| least <= token);
        let open = mark.presented <= Some(token) && !grants.may_exceed(token);
        if let Some(named) = op.high_water {
            mark.show(named, op);
        }
        if let Some((_, shown)) = shown.filter(|_| open) {
            self.find(arrival, op, Some(shown), explained);
        }
    }

    fn read(&mut self, arrival: &Arrival, op: &Kept) {
        if op.outcome != Outcome::Ok {
            return;
        }
        let nothing = op.value == Some(serde_json::Value::Null)
            && arrival.mark_scope() == MarkScope::Key
            && op.high_water.is_none();
        if let Some(told) = op.high_water.or(nothing.then_some(Token::ZERO)) {
            self.mark(arrival, op).show(told, op);
        }
    }

    fn mark(&mut self, arrival: &Arrival, op: &Operation) -> &mut Mark {
        self.marks.entry(arrival.scope(op)).or_default()
    }

    fn find(&mut self, arrival: &Arrival, op: &Kept, shown: Option<Kept>, explained: bool) {
        if explained {
            return;
        }
        let row = self.found.entry((arrival.lock(op), op.key)).or_default();
        row.count += 1;
        let refusal = Kept::clone(op);
        row.kept.insert(told(op), Refused { refusal, shown });
        if row.kept.len() > MOST_KEPT {
            let second = row.kept.keys().nth(1).copied();
            second.and_then(|second| row.kept.remove(&second));
        }
    }

    /// A read has shown that this write was done.
    pub fn take_back(&mut self, arrival: &Arrival, write: &Kept) {
        let place = (arrival.lock(write), write.key);
        let Some(row) = self.found.get_mut(&place) else {
            return;
        };
        if row.kept.remove(&told(write)).is_some() {
            row.count -= 1;
        }
        if row.kept.is_empty() {
            self.found.remove(&place);
        }
    }
}

fn told(op: &Operation) -> u64 {
    op.completed.unwrap_or(op.invoked).index
}

impl Mark {
    fn show(&mut self, token: Token, op: &Kept) {
        if self.shown.as_ref().is_none_or(|&(least, _)| token < least) {
            self.shown = Some((token, Kept::clone(op)));
        }
    }
}
