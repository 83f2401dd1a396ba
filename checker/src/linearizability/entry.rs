//! What a model read of one operation, and when that was open.

use super::zones::{Access, Timed};
use crate::history::Operation;

/// A call with the time in which it may have happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry<C> {
    /// The position of its operation in the history.
    pub operation: usize,
    /// What was asked and answered.
    pub call: C,
    /// The index of its invocation.
    pub called: u64,
    /// The index of its answer; `None`: it may have happened at any moment after its invocation, or never.
    pub returned: Option<u64>,
}

impl<C> Entry<C> {
    /// The entry of an operation.
    #[must_use]
    pub fn new(position: usize, operation: &Operation, call: C) -> Self {
        Self {
            operation: position,
            call,
            called: operation.invoked.index,
            returned: operation.returned().map(|at| at.index),
        }
    }

    /// The same call as an access of a register.
    pub(crate) fn timed<V>(&self, access: Access<V>) -> Timed<V> {
        Timed {
            access,
            operation: self.operation,
            called: self.called,
            returned: self.returned,
        }
    }
}

/// Operations that cannot all have happened: the proof of an exact decision, as positions in the history.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Conflict {
    /// The operations.
    pub operations: Vec<usize>,
    /// Why, as a clause.
    pub why: &'static str,
}
