//! Where a key shows a mark that a grant may have raised as well as a write.
//!
//! `raises.rs` knows *definite signs*: marks that only a grant can have raised. Beside a write of the same token that is
//! still on its way, or that was answered no, a mark is none: either may have raised it. Where the model of a fenced
//! register explains the key, nothing has to be decided. Where it does not, the other explanation counts too, so what it
//! allows is no violation.
//!
//! ```text
//!   c2   granted 6          write 6 "b" |--------------------------ok--|
//!   c1              write 5 |--refused, high water 6--|
//!   c3                                                  read |--"a"--|      6 was raised by the grant, "b" is not in yet
//! ```
//!
//! It costs nothing where nothing is wrong: it is asked of keys that break the model, and of no others.

use super::case::Case;
use crate::history::{Function, Operation, Outcome, Token};

/// The index at which the key whose operations are `ops` first shows such a mark. O(n log n).
pub(crate) fn first_doubt(case: &Case<'_>, ops: &[usize]) -> Option<u64> {
    let mut moments: Vec<(u64, usize)> = ops
        .iter()
        .filter_map(|&op| Some((case.operation(op).returned()?.index, op)))
        .collect();
    moments.sort_unstable();
    // The highest token that the key has surely accepted.
    let mut done: Option<Token> = None;
    for (returned, op) in moments {
        let operation = case.operation(op);
        let shown = match operation.function {
            Function::Read if operation.outcome == Outcome::Ok => {
                let seen = case.write_seen_by(op);
                done = done.max(seen.and_then(|write| case.operation(write).token));
                operation.high_water.map(Shown::AtLeast)
            }
            _ if case.is_refusal(operation) => match operation.high_water {
                Some(mark) => Some(Shown::AtLeast(mark)).filter(|_| Some(mark) > operation.token),
                None => (operation.token)
                    .filter(|&token| token >= Token::ZERO)
                    .map(Shown::Above),
            },
            _ => {
                if operation.outcome == Outcome::Ok {
                    done = done.max(operation.token);
                }
                None
            }
        };
        if shown.is_some_and(|shown| {
            shown.is_more_than(done) && was_granted(case, operation, returned, shown)
        }) {
            return Some(returned);
        }
    }
    None
}

/// What a report says of a mark.
#[derive(Clone, Copy, Debug)]
enum Shown {
    /// It was this.
    AtLeast(Token),
    /// A refusal that names nothing: it was above this.
    Above(Token),
}

impl Shown {
    fn is_more_than(self, done: Option<Token>) -> bool {
        match self {
            Self::AtLeast(mark) => Some(mark) > done && mark > Token::ZERO,
            Self::Above(token) => Some(token) >= done,
        }
    }
}

/// A grant that was asked for before the report came in may have raised the mark.
fn was_granted(case: &Case<'_>, report: &Operation, returned: u64, shown: Shown) -> bool {
    let lock = case.lock(report);
    case.history.operations.iter().any(|operation| {
        let asked = match operation.function {
            Function::Acquire => operation.invoked.index,
            Function::Renew => operation.completed.map_or(u64::MAX, |at| at.index),
            _ => return false,
        };
        asked < returned
            && operation.outcome == Outcome::Ok
            && (lock.is_none() || operation.lock == lock)
            && operation.token.is_some_and(|token| match shown {
                Shown::AtLeast(mark) => token == mark,
                Shown::Above(below) => token > below,
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn doubt(s: &Scenario) -> Option<u64> {
        let history = s.history();
        let case = Case::new(&history);
        let key = history.names.find("k");
        let of_key = |&op: &usize| case.operation(op).key == key;
        let ops: Vec<usize> = (0..history.operations.len()).filter(of_key).collect();
        first_doubt(&case, &ops)
    }

    #[test]
    fn a_granted_mark_is_in_doubt_until_a_write_of_it_is_surely_in() {
        let mut s = Scenario::new();
        s.grant("c2", "L", 6);
        let write = s.write_call("c2", "L", "k", 6, "b");
        s.refused("c4", "L", "k", 4, "x", Some(5));
        assert_eq!(doubt(&s), None, "nobody was granted 5");
        let refused = s.refused("c1", "L", "k", 5, "a", Some(6));
        s.ok(write);
        assert_eq!(doubt(&s), Some(refused[1]));
        let mut s = Scenario::new();
        s.grant("c2", "L", 6);
        s.write("c2", "L", "k", 6, "b");
        s.refused("c1", "L", "k", 5, "a", Some(6));
        s.refused("c1", "L", "k", 5, "c", None);
        s.read("c3", "k", Some("b"), Some(6));
        assert_eq!(doubt(&s), None);
    }

    #[test]
    fn a_refusal_that_names_nothing_is_in_doubt_beside_any_higher_grant() {
        let mut s = Scenario::new();
        s.write("c1", "L", "k", 5, "a");
        s.refused("c1", "L", "k", 5, "b", None);
        assert_eq!(doubt(&s), None, "nobody was granted more");
        s.grant("c2", "L", 6);
        let refused = s.refused("c1", "L", "k", 5, "c", None);
        assert_eq!(doubt(&s), Some(refused[1]));
    }
}
