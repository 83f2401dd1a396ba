//! The exact decision of one key's fenced register: linearizable or not, with no search.
//!
//! Promises: `Ok` exactly when some order of atomic steps, compatible with real time, explains every operation, where
//! a write of a token below the high water is refused and any other raises it. For keys that have only reads and
//! writes with integer tokens and values written once ([`outside`] says what is not such a key). O(n log n).
//!
//! Here operations are sorted into clusters, dormant writes and refusals; a read that fits no write ends it at once.
//! What must hold among them is in `epochs.rs`.

use super::epochs::{Cluster, Epochs};
use super::value_places::{Places, Span, ValuePlaces};
use crate::history::{Datum, Function, Name, Operation, Outcome, Token};

/// One key's operations, as positions in the history, and what marks a refusal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register<'a> {
    pub operations: &'a [Operation],
    pub stale_token: Option<Name>,
    /// What a log that is empty, or will become one, is read as.
    pub empty_list: Option<Datum>,
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
    OtherPath,
    NoToken,
    NoValue,
    ValueTwice,
}

impl Outside {
    /// The reason as a clause.
    pub fn reason(self) -> &'static str {
        match self {
            Self::OtherFunction => "an operation other than read and write was sent",
            Self::OtherPath => "it was written or read by another path",
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

/// Why an operation puts its key outside of what [`Register::check`] decides, but for a value that was written before.
#[inline]
pub(crate) fn outside(operation: &Operation) -> Option<Outside> {
    match operation.function {
        Function::Read => None,
        Function::Write if operation.token.is_none() => Some(Outside::NoToken),
        Function::Write => match operation.value {
            None | Some(Datum::NULL) => Some(Outside::NoValue),
            Some(_) => None,
        },
        _ => Some(Outside::OtherFunction),
    }
}

/// A write with the reads of its value so far.
#[derive(Clone, Copy, Debug)]
struct Grown {
    cluster: Cluster,
    token: Token,
    outcome: Outcome,
    was_read: bool,
    op: u32,
}

/// What a key's operations become, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Gathering {
    epochs: Epochs,
    /// Every write so far; the initial value stands first.
    grown: Vec<Grown>,
    /// Reads that were sent before the write of their value was.
    early: Vec<usize>,
    /// A refusal that is wrong by itself: it is told before any read is.
    refusal: Option<Violation>,
    /// The first read that fits no write.
    read: Option<(usize, Violation)>,
}

impl Gathering {
    /// Nothing yet but the initial value.
    pub fn new() -> Self {
        let initial = Grown {
            cluster: Cluster::initial(),
            token: Token::ZERO,
            outcome: Outcome::Ok,
            was_read: false,
            op: 0,
        };
        Self {
            epochs: Epochs::default(),
            grown: vec![initial],
            early: Vec::new(),
            refusal: None,
            read: None,
        }
    }
}

impl Register<'_> {
    /// Decides the key whose operations are `ops`.
    pub fn check(&self, ops: &[usize]) -> Result<(), Violation> {
        let mut span = Span::default();
        for &op in ops {
            let operation = &self.operations[op];
            if let (Function::Write, Some(value)) = (operation.function, operation.value) {
                span.take_in(value);
            }
        }
        self.check_within(ops, span)
    }

    /// The same, where it is known how far apart the written values lie.
    pub fn check_within(&self, ops: &[usize], span: Span) -> Result<(), Violation> {
        let mut places = ValuePlaces::within(span);
        let mut gathering = Gathering::new();
        for &op in ops {
            self.gather(&mut gathering, op, &mut places);
        }
        self.decide(gathering, &mut places)
    }

    /// Takes the next operation of a key.
    #[inline]
    pub fn gather(&self, gathering: &mut Gathering, op: usize, places: &mut impl Places) {
        let operation = &self.operations[op];
        if operation.function == Function::Write {
            if let Some(value) = operation.value {
                places.put(value, gathering.grown.len());
            }
            gathering.grown.push(Grown {
                cluster: Cluster::of(op, operation),
                token: operation.token.unwrap_or(Token::ZERO),
                outcome: operation.outcome,
                was_read: false,
                op: u32::try_from(op).expect("fewer than 2^31 operations are judged"),
            });
            if self.is_refusal(operation) && gathering.refusal.is_none() {
                let added = gathering.epochs.add_refusal(op, operation, self.marks);
                gathering.refusal = added.err();
            }
            return;
        }
        if self.marks == Marks::ByOthersToo {
            gathering.epochs.add_report(op, operation);
        }
        let (Function::Read, Outcome::Ok, Some(value)) =
            (operation.function, operation.outcome, operation.value)
        else {
            return;
        };
        let place = match value {
            Datum::NULL => Some(0),
            value => places.get(value),
        };
        if place.is_none() {
            gathering.early.push(op);
        } else if gathering.read.is_none() {
            let taken = self.take_in(&mut gathering.grown, op, operation, place);
            gathering.read = taken.err().map(|violation| (op, violation));
        }
    }

    /// Whether all that was gathered is linearizable.
    pub fn decide(
        &self,
        mut gathering: Gathering,
        places: &mut impl Places,
    ) -> Result<(), Violation> {
        if let Some(violation) = gathering.refusal {
            return Err(violation);
        }
        let until = gathering.read.as_ref().map_or(usize::MAX, |&(op, _)| op);
        for op in gathering.early.into_iter().take_while(|&op| op < until) {
            let read = &self.operations[op];
            let written = read.value.and_then(|value| places.get(value));
            let place = written.or_else(|| (read.value == self.empty_list).then_some(0));
            self.take_in(&mut gathering.grown, op, read, place)?;
        }
        if let Some((_, violation)) = gathering.read {
            return Err(violation);
        }
        let mut epochs = gathering.epochs;
        epochs.add_clusters(gathering.grown.iter().filter_map(|grown| {
            let happened = grown.outcome == Outcome::Ok || grown.was_read;
            happened.then_some((grown.token, grown.cluster))
        }));
        for write in &gathering.grown[1..] {
            if write.outcome == Outcome::Unknown && !write.was_read {
                let op = write.op as usize;
                epochs.add_dormant(op, write.token, &self.operations[op]);
            }
        }
        epochs.check()
    }

    /// Adds a read to the cluster of its write.
    #[inline]
    fn take_in(
        &self,
        grown: &mut [Grown],
        op: usize,
        read: &Operation,
        place: Option<usize>,
    ) -> Result<(), Violation> {
        let Some(place) = place else {
            return Err(Violation::plain(Kind::NeverWritten, [op]));
        };
        let seen = &mut grown[place];
        let write = (place > 0).then_some(seen.op as usize);
        if let Some(write) = write {
            if seen.outcome == Outcome::Failed {
                return Err(Violation::plain(Kind::FailedWriteRead, [write, op]));
            }
            if read.precedes(&self.operations[write]) {
                return Err(Violation::plain(Kind::ReadBeforeWrite, [op, write]));
            }
        }
        let token = Some(seen.token);
        let fits = match self.marks {
            Marks::ByWrites => read.high_water.is_none() || read.high_water == token,
            Marks::ByOthersToo => read.high_water.is_none() || read.high_water >= token,
        };
        if !fits {
            let ops = write.into_iter().chain([op]);
            return Err(Violation::plain(Kind::OtherMark, ops));
        }
        seen.was_read = true;
        seen.cluster.take_in(op, read);
        Ok(())
    }

    fn is_refusal(&self, write: &Operation) -> bool {
        write.outcome == Outcome::Failed && write.error.is_some() && write.error == self.stale_token
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
