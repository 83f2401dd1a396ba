//! What the file proves about high waters, and which writes came after such a proof.
//!
//! A *proof of h* is an operation after whose completion the high water of a scope was surely at least h. A write
//! invoked after it with a lower token is *late*: it had to be refused. Completion order alone proves nothing.
//!
//! ```text
//!   write 6   |-------|                    proves 6 from here on
//!   write 5      |---------------|         overlaps: nothing is proven about it
//!   write 5              |------|          late
//! ```

use std::collections::BTreeSet;

use super::by_name::ByName;
use super::case::{Case, Scope};
use crate::history::{Function, Outcome, Token};

/// Why the high water was at least `high_water` once `op` had completed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Proof {
    pub high_water: Token,
    pub op: usize,
    pub by: By,
}

/// What kind of proof it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum By {
    /// A write of that token was accepted.
    Write,
    /// A read returned the value of this write of that token.
    Value(usize),
    /// A read or refusal named it.
    Report,
    /// A refusal that named nothing: it is the least higher token that had been presented.
    Refusal,
}

/// A write that was invoked after a proof of a high water above its token, whatever its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LateWrite {
    pub write: usize,
    pub proof: Proof,
}

#[derive(Debug, Default)]
struct Mark {
    proven: Option<Proof>,
    presented: BTreeSet<Token>,
    last_presented: Option<Token>,
}

/// All late writes, in the order of their invocations. O(n log n).
pub(crate) fn late_writes(case: &Case<'_>) -> Vec<LateWrite> {
    let mut marks: [ByName<Mark>; 2] = Default::default();
    let mut late = Vec::new();
    for moment in &case.moments {
        let operation = case.operation(moment.op);
        let fenced = Case::is_fenced_write(operation);
        if !fenced && operation.function != Function::Read {
            continue;
        }
        let mark = match case.scope(operation) {
            Scope::Lock(lock) => marks[0].or_default(Some(lock)),
            Scope::Key(key) => marks[1].or_default(key),
        };
        if moment.returns {
            mark.raise(proof_of(case, moment.op, mark));
        } else if let Some(token) = operation.token.filter(|_| fenced) {
            if let Some(proof) = mark.proven.filter(|proof| proof.high_water > token) {
                late.push(LateWrite {
                    write: moment.op,
                    proof,
                });
            }
            // Most writes go on with the token of the one before.
            if mark.last_presented.replace(token) != Some(token) {
                mark.presented.insert(token);
            }
        }
    }
    late
}

impl Mark {
    /// Keeps the strongest proof; of equal ones the first, but rather an accepted write, which is the plainest.
    fn raise(&mut self, proof: Option<Proof>) {
        let Some(proof) = proof else { return };
        let stronger = self.proven.is_none_or(|known| {
            proof.high_water > known.high_water
                || (proof.high_water == known.high_water
                    && proof.by == By::Write
                    && known.by != By::Write)
        });
        if stronger {
            self.proven = Some(proof);
        }
    }
}

fn proof_of(case: &Case<'_>, op: usize, mark: &Mark) -> Option<Proof> {
    let operation = case.operation(op);
    let proof = |high_water, by| Some(Proof { high_water, op, by });
    if operation.function == Function::Read {
        if operation.outcome != Outcome::Ok {
            return None;
        }
        let seen = case
            .write_seen_by(operation)
            .filter(|&write| case.is_accepted(write));
        let by_value = seen.and_then(|write| Some((case.operation(write).token?, write)));
        return match (operation.high_water, by_value) {
            (Some(reported), Some((token, write))) if token > reported => {
                proof(token, By::Value(write))
            }
            (Some(reported), _) => proof(reported, By::Report),
            (None, Some((token, write))) => proof(token, By::Value(write)),
            (None, None) => None,
        };
    }
    let token = operation.token?;
    if case.is_refusal(operation) {
        return match operation.high_water {
            Some(reported) => proof(reported, By::Report),
            None => {
                let above = (std::ops::Bound::Excluded(token), std::ops::Bound::Unbounded);
                proof(*mark.presented.range(above).next()?, By::Refusal)
            }
        };
    }
    if operation.outcome == Outcome::Ok {
        proof(token, By::Write)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn late(scenario: &Scenario) -> Vec<(usize, i128, By)> {
        let history = scenario.history();
        let case = Case::new(&history);
        late_writes(&case)
            .iter()
            .map(|late| (late.write, late.proof.high_water.value(), late.proof.by))
            .collect()
    }

    #[test]
    fn an_accepted_write_proves_its_token_for_writes_invoked_after_it_only() {
        let mut s = Scenario::new();
        let overlapping = s.write_call("c1", "L", "k", 5, "a");
        s.write("c2", "L", "k", 6, "b");
        s.ok(overlapping);
        assert_eq!(late(&s), []);
        s.write("c1", "L", "k", 5, "c");
        assert_eq!(late(&s), [(2, 6, By::Write)]);
    }

    #[test]
    fn a_read_of_a_value_proves_the_token_of_its_write() {
        let mut s = Scenario::new();
        let lost = s.write_call("c2", "L", "k", 6, "b");
        s.info(lost);
        s.write("c1", "L", "k", 5, "a");
        assert_eq!(late(&s), []);
        s.read("c3", "k", Some("b"), None);
        s.write("c1", "L", "k", 5, "c");
        assert_eq!(late(&s), [(3, 6, By::Value(0))]);
    }

    #[test]
    fn a_value_written_twice_proves_nothing() {
        let mut s = Scenario::new();
        let lost = s.write_call("c2", "L", "k", 6, "b");
        s.info(lost);
        s.write("c1", "L", "k", 5, "b");
        s.read("c3", "k", Some("b"), None);
        s.write("c1", "L", "k", 5, "c");
        assert_eq!(late(&s), []);
    }

    #[test]
    fn a_refusal_that_names_nothing_proves_the_least_higher_token_presented() {
        let mut s = Scenario::new();
        let first = s.write_call("c7", "L", "k", 7, "a");
        s.info(first);
        let second = s.write_call("c9", "L", "k", 9, "b");
        s.info(second);
        s.refused("c5", "L", "k", 5, "c", None);
        s.write("c6", "L", "k", 6, "d");
        s.write("c7", "L", "k", 7, "e");
        assert_eq!(late(&s), [(3, 7, By::Refusal)]);
    }

    #[test]
    fn the_mark_of_one_key_says_nothing_of_another_unless_the_lock_keeps_it() {
        let mut s = Scenario::new();
        s.write("c2", "L", "k1", 6, "a");
        s.write("c1", "L", "k2", 5, "b");
        assert_eq!(late(&s), []);
        s.mark_by_lock();
        assert_eq!(late(&s), [(1, 6, By::Write)]);
    }
}
