//! What no resource may do, whatever raises its marks and whatever else is done to a key.
//!
//! Promises three proofs that need neither unique values nor tokens on every write: a refusal that names a mark which is
//! not above the refused token; a read of a value that was only ever sent by writes that were answered with a definite
//! no; and a read of a value that nobody had sent at all. All stand on what precedes the answer, so nothing that comes
//! later takes them back.

use hashbrown::HashMap;

use super::case::Case;
use super::register::{Kind, Violation};
use crate::history::{Datum, Function, Operation, Outcome};

/// Writes of one value of a key.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    /// The first that was answered with a definite no.
    failed: Option<usize>,
    /// The index of the first that was not.
    other: Option<u64>,
}

/// The first such proof among the operations of one key, in order of invocation. O(n).
pub(crate) fn certain_violation(case: &Case<'_>, ops: &[usize]) -> Option<Violation> {
    let mut sent: HashMap<Datum, Sent> = HashMap::new();
    // From here on the key may hold values that the file does not spell out.
    let mut maker: Option<u64> = None;
    for &op in ops {
        let operation = case.operation(op);
        if case.is_refusal(operation)
            && operation
                .high_water
                .is_some_and(|mark| Some(mark) <= operation.token)
        {
            return Some(Violation::plain(Kind::MarkNotAbove, [op]));
        }
        match (operation.function, operation.value) {
            (Function::Read, _) => {}
            (Function::Write, Some(value)) => note(sent.entry(value).or_default(), op, operation),
            _ if operation.outcome != Outcome::Failed => {
                maker = maker.or(Some(operation.invoked.index));
            }
            _ => {}
        }
    }
    let read_of_nothing_written = |&op: &usize| {
        let read = case.operation(op);
        let (Function::Read, Outcome::Ok, Some(returned)) =
            (read.function, read.outcome, read.returned())
        else {
            return None;
        };
        let value = read.value.filter(|value| !value.is_null())?;
        let before = |index: u64| index < returned.index;
        let Sent { failed, other } = sent.get(&value).copied().unwrap_or_default();
        if other.is_some_and(before) || maker.is_some_and(before) {
            return None;
        }
        let failed = failed.filter(|&write| before(case.operation(write).invoked.index));
        Some(match failed {
            Some(write) => Violation::plain(Kind::FailedWriteRead, [write, op]),
            // A list may be that of a log, and what stands at its head may have been there before.
            None if case.history.values.elements(value).is_some() => return None,
            None => Violation::plain(Kind::NeverWritten, [op]),
        })
    };
    ops.iter().find_map(read_of_nothing_written)
}

fn note(sent: &mut Sent, op: usize, write: &Operation) {
    if write.outcome == Outcome::Failed {
        sent.failed = sent.failed.or(Some(op));
    } else {
        sent.other = sent.other.or(Some(write.invoked.index));
    }
}
