//! A search of all orders of atomic steps of one fenced register. It shares nothing with the check that it is held
//! against, and is only for small histories: at most 32 operations.

use std::collections::HashSet;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Write {
        token: i64,
        value: u32,
    },
    /// `value` 0 is none.
    Read {
        value: u32,
        mark: Option<i64>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answer {
    Ok,
    Refused(Option<i64>),
    OtherNo,
    Info,
    Open,
}

/// One operation: its instants are positions in the history.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    pub call: usize,
    pub returned: usize,
    pub kind: Kind,
    pub answer: Answer,
}

pub fn linearizable(ops: &[Op]) -> bool {
    fn must_happen(op: &Op) -> bool {
        matches!(op.answer, Answer::Ok | Answer::Refused(_))
    }
    fn step(op: &Op, (mark, value): (i64, u32)) -> Option<(i64, u32)> {
        match (op.kind, op.answer) {
            (Kind::Write { token, .. }, Answer::Refused(named)) => {
                (token < mark && named.is_none_or(|named| named == mark)).then_some((mark, value))
            }
            (Kind::Write { token, value }, _) => (token >= mark).then_some((token, value)),
            (
                Kind::Read {
                    value: seen,
                    mark: told,
                },
                _,
            ) => (seen == value && told.is_none_or(|told| told == mark)).then_some((mark, value)),
        }
    }
    fn search(
        ops: &[Op],
        done: u32,
        state: (i64, u32),
        seen: &mut HashSet<(u32, i64, u32)>,
    ) -> bool {
        let open = |at: &usize| done & (1 << at) == 0;
        if (0..ops.len()).filter(open).all(|at| !must_happen(&ops[at])) {
            return true;
        }
        if !seen.insert((done, state.0, state.1)) {
            return false;
        }
        let bound = (0..ops.len())
            .filter(open)
            .filter(|&at| must_happen(&ops[at]))
            .map(|at| ops[at].returned)
            .min();
        let mut next = (0..ops.len())
            .filter(open)
            .filter(|&at| bound.is_none_or(|bound| ops[at].call < bound));
        next.any(|at| {
            step(&ops[at], state).is_some_and(|state| search(ops, done | 1 << at, state, seen))
        })
    }
    // A definite no other than a refusal, and a read without an answer, say nothing.
    let relevant = |op: &&Op| {
        op.answer != Answer::OtherNo && (must_happen(op) || matches!(op.kind, Kind::Write { .. }))
    };
    let ops: Vec<Op> = ops.iter().filter(relevant).copied().collect();
    search(&ops, 0, (0, 0), &mut HashSet::new())
}
