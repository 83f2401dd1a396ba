//! What no resource may do, whatever raises its marks and whatever else is done to a key.
//!
//! Promises two proofs that need neither unique values nor tokens on every write: a refusal that names a mark which is
//! not above the refused token, and a read of a value that was only ever sent by writes that were answered with a
//! definite no. Both stand on what precedes the answer, so nothing that comes later takes them back.

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
    let read_of_failed = |&op: &usize| {
        let read = case.operation(op);
        let (Function::Read, Outcome::Ok, Some(returned)) =
            (read.function, read.outcome, read.returned())
        else {
            return None;
        };
        let value = read.value.filter(|value| !value.is_null())?;
        let before = |index: u64| index < returned.index;
        let Sent { failed, other } = *sent.get(&value)?;
        let failed = failed.filter(|&write| before(case.operation(write).invoked.index))?;
        (!other.is_some_and(before) && !maker.is_some_and(before))
            .then(|| Violation::plain(Kind::FailedWriteRead, [failed, op]))
    };
    ops.iter().find_map(read_of_failed)
}

fn note(sent: &mut Sent, op: usize, write: &Operation) {
    if write.outcome == Outcome::Failed {
        sent.failed = sent.failed.or(Some(op));
    } else {
        sent.other = sent.other.or(Some(write.invoked.index));
    }
}
