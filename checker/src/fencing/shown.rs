//! When the file first shows that a write has taken effect.
//!
//! That is when it was answered `ok`, or when a read that returned its value ended, whichever came first. Everything
//! sent later finds the write done.

use super::case::Case;
use crate::history::{Function, Outcome};

/// What no operation shows.
const NEVER: (u64, u32) = (u64::MAX, u32::MAX);

/// For each write and append the first answer that shows it.
#[derive(Debug)]
pub(crate) struct Shown(Vec<(u64, u32)>);

impl Shown {
    /// O(n), and the length of all lists that were read.
    pub fn new(case: &Case<'_>) -> Self {
        let mut shown = Self(vec![NEVER; case.history.operations.len()]);
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

    /// Notes that the answer of `by` shows a write.
    pub fn note(&mut self, write: usize, index: u64, by: usize) {
        if index < self.0[write].0 {
            self.0[write] = (index, u32::try_from(by).unwrap_or(u32::MAX));
        }
    }

    /// The index from which on the write has surely taken effect; `u64::MAX` where nothing shows it.
    pub fn at(&self, write: usize) -> u64 {
        self.0[write].0
    }

    /// The operation whose answer shows it: the write itself, or a read.
    pub fn by(&self, write: usize) -> usize {
        self.0[write].1 as usize
    }
}
