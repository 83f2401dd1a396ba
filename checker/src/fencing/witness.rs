//! A violation shrunk to the few operations that conflict.
//!
//! Promises: the witness alone is not linearizable, and neither would any history be that adds operations to it;
//! leaving out one more operation (a write with its reads) makes it linearizable. Beyond [`MOST`] operations around
//! a refusal it is not shrunk.

use hashbrown::HashSet;

use super::register::{Register, Violation};
use crate::history::{Datum, Function, Outcome, Token};

/// The most operations that are tried one by one.
const MOST: usize = 400;

/// The operations, ascending, of a small proof of the violation found among `ops`, and what it proves.
pub(crate) fn shrink(register: &Register<'_>, ops: &[usize], violation: Violation) -> Violation {
    let start = if violation.by_absence {
        around_refusal(register, ops, &violation)
    } else {
        with_writes(register, ops, &violation.ops)
    };
    let proves = |ops: &[usize]| {
        let found = register.check(ops).err();
        found.filter(|found| violation.by_absence || !found.by_absence)
    };
    let Some(mut proof) = proves(&start).filter(|_| start.len() <= MOST) else {
        let ops = with_writes(register, ops, &violation.ops);
        return Violation { ops, ..violation };
    };
    let mut kept = start;
    let mut at = 0;
    while at < kept.len() {
        let fewer = without(register, &kept, kept[at], violation.by_absence);
        match proves(&fewer) {
            Some(found) => {
                proof = found;
                kept = fewer;
                at = 0;
            }
            None => at += 1,
        }
    }
    Violation { ops: kept, ..proof }
}

/// Where the proof rests on an absence, every write that could explain the refusal has to stay in sight.
fn around_refusal(register: &Register<'_>, ops: &[usize], violation: &Violation) -> Vec<usize> {
    if ops.len() <= MOST {
        return ops.to_vec();
    }
    let explains = |&&op: &&usize| {
        violation
            .ops
            .iter()
            .any(|&refusal| may_explain(register, op, refusal))
    };
    let start: Vec<usize> = violation
        .ops
        .iter()
        .chain(ops.iter().filter(explains))
        .copied()
        .collect();
    with_writes(register, ops, &start)
}

/// `some` of `ops`, ascending, with the write of every value that is read among them.
fn with_writes(register: &Register<'_>, ops: &[usize], some: &[usize]) -> Vec<usize> {
    let operations = some.iter().map(|&op| &register.operations[op]);
    let read: HashSet<Datum> = operations
        .filter(|operation| operation.function == Function::Read)
        .filter_map(|read| read.value)
        .collect();
    let was_read = |&&op: &&usize| {
        let write = &register.operations[op];
        write.function == Function::Write && write.value.is_some_and(|value| read.contains(&value))
    };
    let mut all: Vec<usize> = ops.iter().filter(was_read).chain(some).copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// `ops` without one of them and without what would lose its ground: reads of its value, refusals it may explain.
fn without(register: &Register<'_>, ops: &[usize], gone: usize, by_absence: bool) -> Vec<usize> {
    let lost = &register.operations[gone];
    let stays = |&&op: &&usize| {
        let operation = &register.operations[op];
        let reads_it = lost.function == Function::Write
            && operation.function == Function::Read
            && operation.value == lost.value;
        op != gone && !reads_it && !(by_absence && may_explain(register, gone, op))
    };
    ops.iter().filter(stays).copied().collect()
}

/// `write` was invoked before `refusal` returned, and is of a token that could be the reason for it.
fn may_explain(register: &Register<'_>, write: usize, refusal: usize) -> bool {
    let (write, refusal) = (&register.operations[write], &register.operations[refusal]);
    let refused = refusal.function == Function::Write && refusal.outcome == Outcome::Failed;
    let raises = write.function == Function::Write && write.outcome != Outcome::Failed;
    let above = |mark: Option<Token>| match mark {
        Some(mark) => write.token == Some(mark),
        None => write.token > refusal.token,
    };
    refused && raises && above(refusal.high_water) && !refusal.precedes(write)
}
