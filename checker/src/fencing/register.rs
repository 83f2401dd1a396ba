//! The exact decision of one key's fenced register: linearizable or not, with no search.
//!
//! Promises: `Ok` exactly when some order of atomic steps, compatible with real time, explains every operation, where
//! a write of a token below the high water is refused and any other raises it. For keys that have only reads and
//! writes with integer tokens and values written once ([`outside`] says what is not such a key). O(n log n).
//!
//! Here operations are sorted into clusters, dormant writes and refusals; a read that fits no write ends it at once.
//! What must hold among them is in `epochs.rs`.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};

use super::epochs::{Cluster, Epochs};
use crate::history::{Datum, Function, Name, Operation, Outcome, Token};

/// One key's operations, as positions in the history, and what marks a refusal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register<'a> {
    pub operations: &'a [Operation],
    pub stale_token: Option<Name>,
    pub marks: Marks,
}

/// What raises a high water.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Marks {
    /// An accepted write, and nothing else.
    ByWrites,
    /// A grant, a fenced read or a write of another key as well, so a mark says nothing about the value beside it. What
    /// is left: the mark never falls, and no value is younger than the mark.
    ByOthersToo,
}

/// Why a key is not one that this decides.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Outside {
    OtherFunction,
    NoToken,
    NoValue,
    ValueTwice,
}

impl Outside {
    /// The reason as a clause.
    pub fn reason(self) -> &'static str {
        match self {
            Self::OtherFunction => "an operation other than read and write was sent",
            Self::NoToken => "a write without a token was sent",
            Self::NoValue => "a write without a value of its own was sent",
            Self::ValueTwice => "a value was written a second time",
        }
    }
}

/// Why no order explains a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// A read returned a value that nobody wrote.
    NeverWritten,
    /// A read returned the value of a write that was answered with a definite no.
    FailedWriteRead,
    /// A read ended before the write of its value was invoked.
    ReadBeforeWrite,
    /// A read reported another high water than the token of the write it saw.
    OtherMark,
    /// A refusal names a high water that is not above its own token.
    MarkNotAbove,
    /// Two values of one token each had to be there before the other was gone.
    WithinEpoch,
    /// Something of a higher token was over before something of a lower one began.
    AcrossEpochs,
    /// A refusal has no write that could have raised the high water in time.
    Unexplained,
    /// A high water was shown, and a lower one or a write of a lower token came after it.
    MarkFell,
    /// A high water was shown that neither a write nor a grant can have raised.
    Unfounded,
}

/// A proof that no order exists.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Violation {
    pub kind: Kind,
    /// The operations that conflict.
    pub ops: Vec<usize>,
    /// Whether it rests on what is *absent*: then leaving out a write that could explain a refusal proves nothing.
    pub by_absence: bool,
}

/// The first operation that puts a key outside of what [`Register::check`] decides, and why.
pub(crate) fn outside(operations: &[Operation], ops: &[usize]) -> Option<(usize, Outside)> {
    let mut values: HashSet<Datum> = HashSet::new();
    ops.iter()
        .find_map(|&op| Some((op, why_outside(&operations[op], &mut values)?)))
}

fn why_outside(operation: &Operation, values: &mut HashSet<Datum>) -> Option<Outside> {
    match operation.function {
        Function::Read => return None,
        Function::Write => {}
        _ => return Some(Outside::OtherFunction),
    }
    if operation.token.is_none() {
        return Some(Outside::NoToken);
    }
    match operation.value {
        None | Some(Datum::NULL) => Some(Outside::NoValue),
        Some(value) => (!values.insert(value)).then_some(Outside::ValueTwice),
    }
}

impl Register<'_> {
    /// Decides the key whose operations are `ops`.
    pub fn check(&self, ops: &[usize]) -> Result<(), Violation> {
        self.gather(ops)?.check()
    }

    /// Sorts operations into clusters, dormant writes and refusals; a read that fits no write ends it here.
    fn gather(&self, ops: &[usize]) -> Result<Epochs, Violation> {
        let mut epochs = Epochs::default();
        let mut writes: Vec<(usize, &Operation)> = Vec::new();
        for &op in ops {
            let operation = &self.operations[op];
            if operation.function == Function::Write {
                writes.push((op, operation));
                if self.is_refusal(operation) {
                    epochs.add_refusal(op, operation, self.marks)?;
                }
            } else if self.marks == Marks::ByOthersToo {
                epochs.add_report(op, operation);
            }
        }
        let clusters = self.clusters(ops, &writes)?;
        for (write, cluster) in &clusters {
            let token = write.and_then(|write| self.operations[write].token);
            epochs.add_cluster(token.unwrap_or(Token::ZERO), *cluster);
        }
        for (op, write) in writes {
            let unread = write.outcome == Outcome::Unknown && !clusters.contains_key(&Some(op));
            if let (true, Some(token)) = (unread, write.token) {
                epochs.add_dormant(op, token, write);
            }
        }
        Ok(epochs)
    }

    /// Every write that surely happened with the reads of its value; the initial value has no write.
    fn clusters(
        &self,
        ops: &[usize],
        writes: &[(usize, &Operation)],
    ) -> Result<BTreeMap<Option<usize>, Cluster>, Violation> {
        let of = |write: usize| (Some(write), Cluster::of(write, &self.operations[write]));
        let initial = (None, Cluster::initial());
        let acknowledged = writes
            .iter()
            .filter(|(_, write)| write.outcome == Outcome::Ok);
        let mut clusters: BTreeMap<Option<usize>, Cluster> = acknowledged
            .map(|&(op, _)| of(op))
            .chain([initial])
            .collect();
        let by_value: HashMap<Datum, usize> = writes
            .iter()
            .filter_map(|&(op, write)| Some((write.value?, op)))
            .collect();
        for &op in ops {
            let read = &self.operations[op];
            let (Function::Read, Outcome::Ok, Some(value)) =
                (read.function, read.outcome, read.value)
            else {
                continue;
            };
            let (write, new) = match value {
                Datum::NULL => initial,
                value => of(self.written(op, by_value.get(&value).copied())?),
            };
            let token = write.map_or(Some(Token::ZERO), |write| self.operations[write].token);
            let fits = match self.marks {
                Marks::ByWrites => read.high_water.is_none() || read.high_water == token,
                Marks::ByOthersToo => read.high_water.is_none() || read.high_water >= token,
            };
            if !fits {
                return Err(Violation::plain(
                    Kind::OtherMark,
                    write.into_iter().chain([op]),
                ));
            }
            clusters.entry(write).or_insert(new).take_in(op, read);
        }
        Ok(clusters)
    }

    fn is_refusal(&self, write: &Operation) -> bool {
        write.outcome == Outcome::Failed && write.error.is_some() && write.error == self.stale_token
    }

    /// The write that a read saw, if it could see it.
    fn written(&self, read: usize, write: Option<usize>) -> Result<usize, Violation> {
        let Some(write) = write else {
            return Err(Violation::plain(Kind::NeverWritten, [read]));
        };
        if self.operations[write].outcome == Outcome::Failed {
            return Err(Violation::plain(Kind::FailedWriteRead, [write, read]));
        }
        if self.operations[read].precedes(&self.operations[write]) {
            return Err(Violation::plain(Kind::ReadBeforeWrite, [read, write]));
        }
        Ok(write)
    }
}

impl Violation {
    pub fn plain(kind: Kind, ops: impl IntoIterator<Item = usize>) -> Self {
        Self {
            kind,
            ops: ops.into_iter().collect(),
            by_absence: false,
        }
    }

    pub fn between(kind: Kind, ops: impl IntoIterator<Item = Option<usize>>) -> Self {
        Self::plain(kind, ops.into_iter().flatten())
    }
}
