//! The exact decision of one key's fenced register: linearizable or not, with no search.
//!
//! Promises: `Ok` exactly when some order of atomic steps, compatible with real time, explains every operation, where
//! a write of a token below the high water is refused and any other raises it. For keys that have only reads and
//! writes with integer tokens and values written once ([`outside`] says what is not such a key). O(n log n).
//!
//! Here operations are sorted into clusters, dormant writes and refusals; a read that fits no write ends it at once.
//! What must hold among them is in `epochs.rs`.

use super::epochs::{Cluster, Epochs};
use super::value_places::ValuePlaces;
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
    let mut values = ValuePlaces::of(written(operations, ops));
    ops.iter()
        .find_map(|&op| Some((op, why_outside(&operations[op], &mut values)?)))
}

/// The values of writes, as often as they were written.
fn written<'a>(
    operations: &'a [Operation],
    ops: &'a [usize],
) -> impl Iterator<Item = Datum> + Clone + 'a {
    let writes = ops.iter().map(|&op| &operations[op]);
    let writes = writes.filter(|operation| operation.function == Function::Write);
    writes.filter_map(|write| write.value)
}

fn why_outside(operation: &Operation, values: &mut ValuePlaces) -> Option<Outside> {
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
        Some(value) => (!values.put(value, 0)).then_some(Outside::ValueTwice),
    }
}

/// A write with the reads of its value so far.
#[derive(Clone, Copy, Debug)]
struct Grown {
    cluster: Cluster,
    /// It was answered ok, or read.
    happened: bool,
}

impl Register<'_> {
    /// Decides the key whose operations are `ops`.
    pub fn check(&self, ops: &[usize]) -> Result<(), Violation> {
        self.gather(ops)?.check()
    }

    /// Sorts operations into clusters, dormant writes and refusals; a read that fits no write ends it here.
    fn gather(&self, ops: &[usize]) -> Result<Epochs, Violation> {
        let mut epochs = Epochs::default();
        // The initial value has no write, and stands first.
        let mut clusters = vec![Grown {
            cluster: Cluster::initial(),
            happened: true,
        }];
        let mut writes: Vec<usize> = Vec::new();
        let mut by_value = ValuePlaces::of(written(self.operations, ops));
        for &op in ops {
            let operation = &self.operations[op];
            if operation.function == Function::Write {
                writes.push(op);
                if let Some(value) = operation.value {
                    by_value.put(value, writes.len());
                }
                clusters.push(Grown {
                    cluster: Cluster::of(op, operation),
                    happened: operation.outcome == Outcome::Ok,
                });
                if self.is_refusal(operation) {
                    epochs.add_refusal(op, operation, self.marks)?;
                }
            } else if self.marks == Marks::ByOthersToo {
                epochs.add_report(op, operation);
            }
        }
        for &op in ops {
            let read = &self.operations[op];
            let (Function::Read, Outcome::Ok, Some(value)) =
                (read.function, read.outcome, read.value)
            else {
                continue;
            };
            let (place, token) = if value.is_null() {
                (0, Some(Token::ZERO))
            } else {
                let place = by_value.get(value);
                let write = self.seen(op, place.map(|place| writes[place - 1]))?;
                (place.unwrap_or(0), self.operations[write].token)
            };
            let fits = match self.marks {
                Marks::ByWrites => read.high_water.is_none() || read.high_water == token,
                Marks::ByOthersToo => read.high_water.is_none() || read.high_water >= token,
            };
            if !fits {
                let write = place.checked_sub(1).map(|place| writes[place]);
                return Err(Violation::plain(
                    Kind::OtherMark,
                    write.into_iter().chain([op]),
                ));
            }
            let seen = &mut clusters[place];
            seen.happened = true;
            seen.cluster.take_in(op, read);
        }
        epochs.add_cluster(Token::ZERO, clusters[0].cluster);
        for (op, grown) in writes.into_iter().zip(&clusters[1..]) {
            let write = &self.operations[op];
            if grown.happened {
                epochs.add_cluster(write.token.unwrap_or(Token::ZERO), grown.cluster);
            } else if let (Outcome::Unknown, Some(token)) = (write.outcome, write.token) {
                epochs.add_dormant(op, token, write);
            }
        }
        Ok(epochs)
    }

    fn is_refusal(&self, write: &Operation) -> bool {
        write.outcome == Outcome::Failed && write.error.is_some() && write.error == self.stale_token
    }

    /// The write that a read saw, if it could see it.
    fn seen(&self, read: usize, write: Option<usize>) -> Result<usize, Violation> {
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
