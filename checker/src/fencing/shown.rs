//! When the file first shows that a write has taken effect.
//!
//! That is when it was answered `ok`, or when a read that returned its value ended, whichever came first. Everything
//! sent later finds the write done.

use super::case::Case;
use crate::history::{Function, Operation, Outcome};

/// What no operation shows.
const NEVER: u32 = u32::MAX;

/// For each write and append the first answer that shows it: the operation that was answered.
#[derive(Debug)]
pub(crate) struct Shown<'a> {
    operations: &'a [Operation],
    by: Vec<u32>,
}

impl<'a> Shown<'a> {
    /// Nothing is shown yet.
    pub fn nothing(case: &Case<'a>) -> Self {
        let operations = &case.history.operations;
        Self {
            operations,
            by: vec![NEVER; operations.len()],
        }
    }

    /// O(n), and the length of all lists that were read.
    pub fn new(case: &Case<'a>) -> Self {
        let mut shown = Self::nothing(case);
        for (op, operation) in case.history.operations.iter().enumerate() {
            let Some(returned) = operation
                .returned()
                .filter(|_| operation.outcome == Outcome::Ok)
            else {
                continue;
            };
            match operation.function {
                Function::Write | Function::Append => shown.note(op, returned.index, op),
                Function::Read => {
                    if let Some(write) = case.write_seen_by(op) {
                        shown.note(write, returned.index, op);
                    }
                }
                _ => {}
            }
        }
        shown
    }

    /// Notes that the answer of `by`, at this index, shows a write.
    pub fn note(&mut self, write: usize, index: u64, by: usize) {
        if index < self.at(write) {
            self.by[write] = u32::try_from(by).unwrap_or(NEVER);
        }
    }

    /// The same in the order of the answers: whether it is the first that shows the write.
    #[inline]
    pub fn show(&mut self, write: usize, by: usize) -> bool {
        let new = self.by[write] == NEVER;
        if new {
            self.by[write] = u32::try_from(by).unwrap_or(NEVER);
        }
        new
    }

    /// The index from which on the write has surely taken effect; `u64::MAX` where nothing shows it.
    pub fn at(&self, write: usize) -> u64 {
        let answer = self.operations.get(self.by[write] as usize);
        let returned = answer.and_then(Operation::returned);
        returned.map_or(u64::MAX, |at| at.index)
    }

    /// The operation whose answer shows it: the write itself, or a read.
    pub fn by(&self, write: usize) -> usize {
        self.by[write] as usize
    }
}
