//! The exact decision of one key's fenced register: linearizable or not, with no search.
//!
//! Promises: `Ok` exactly when some order of atomic steps, compatible with real time, explains every operation, where
//! a write of a token below the high water is refused and any other raises it. For keys that have only reads and
//! writes with integer tokens and values written once ([`outside`] says what is not such a key). O(n log n).
//!
//! Here operations are sorted into clusters, dormant writes and refusals; a read that fits no write ends it at once.
//! What must hold among them is in `epochs.rs`.

use super::epochs::{Cluster, Epochs, Showings};
use super::value_places::{Places, Span, ValuePlaces};
use crate::history::{Datum, Function, Name, Operation, Outcome};

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

/// What a key's operations become, one after the other, beside the clusters of its writes.
#[derive(Clone, Debug)]
pub(crate) struct Gathering {
    initial: Cluster,
    showings: Showings,
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
        Self {
            initial: Cluster::INITIAL,
            showings: Showings::default(),
            early: Vec::new(),
            refusal: None,
            read: None,
        }
    }
}

/// Room for the clusters of one key while it is decided.
#[derive(Debug, Default)]
pub(crate) struct Room {
    clusters: Vec<Cluster>,
    dormant: Vec<Cluster>,
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
        let mut places = ValuePlaces::within(span);
        let mut gathering = Gathering::new();
        let mut written = Vec::new();
        for &op in ops {
            self.gather(&mut gathering, &mut written, op, &mut places);
        }
        let all = 0..written.len();
        let room = &mut Room::default();
        self.decide(gathering, &mut written, all, room, &places)
    }

    /// Takes the next operation of a key. Its cluster, if it is a write, goes to the end of `written`, where those of
    /// other keys may stand as well; `places` are places in it.
    #[inline]
    pub fn gather(
        &self,
        gathering: &mut Gathering,
        written: &mut Vec<Cluster>,
        op: usize,
        places: &mut impl Places,
    ) {
        let operation = &self.operations[op];
        if operation.function == Function::Write {
            if let Some(value) = operation.value {
                places.put(value, written.len());
            }
            written.push(Cluster::of(op, operation));
            if self.is_refusal(operation) && gathering.refusal.is_none() {
                let added = gathering.showings.add_refusal(op, operation, self.marks);
                gathering.refusal = added.err();
            }
            return;
        }
        if self.marks == Marks::ByOthersToo {
            gathering.showings.add_report(op, operation);
        }
        let (Function::Read, Outcome::Ok, Some(value)) =
            (operation.function, operation.outcome, operation.value)
        else {
            return;
        };
        let seen = if value.is_null() {
            Some(&mut gathering.initial)
        } else {
            places.get(value).map(|place| &mut written[place])
        };
        if seen.is_none() {
            gathering.early.push(op);
        } else if gathering.read.is_none() {
            let taken = self.take_in(seen, op, operation);
            gathering.read = taken.err().map(|violation| (op, violation));
        }
    }

    /// Whether all that was gathered is linearizable. `own` are the places of the key's clusters in `written`, ascending.
    pub fn decide(
        &self,
        gathering: Gathering,
        written: &mut [Cluster],
        own: impl Iterator<Item = usize>,
        room: &mut Room,
        places: &impl Places,
    ) -> Result<(), Violation> {
        let Gathering {
            mut initial,
            mut showings,
            early,
            refusal,
            read: unfit,
        } = gathering;
        if let Some(violation) = refusal {
            return Err(violation);
        }
        let until = unfit.as_ref().map_or(usize::MAX, |&(op, _)| op);
        for op in early.into_iter().take_while(|&op| op < until) {
            let read = &self.operations[op];
            let place = read.value.and_then(|value| places.get(value));
            let seen = match place {
                Some(place) => Some(&mut written[place]),
                None => (read.value == self.empty_list).then_some(&mut initial),
            };
            self.take_in(seen, op, read)?;
        }
        if let Some((_, violation)) = unfit {
            return Err(violation);
        }
        let Room { clusters, dormant } = room;
        clusters.clear();
        dormant.clear();
        clusters.push(initial);
        for place in own {
            let cluster = written[place];
            if cluster.happened() {
                clusters.push(cluster);
            } else if cluster.is_dormant() {
                dormant.push(cluster);
            }
        }
        Epochs::of(clusters, dormant, &mut showings).check()
    }

    /// Adds a read to the cluster of its write.
    #[inline]
    fn take_in(
        &self,
        seen: Option<&mut Cluster>,
        op: usize,
        read: &Operation,
    ) -> Result<(), Violation> {
        let Some(seen) = seen else {
            return Err(Violation::plain(Kind::NeverWritten, [op]));
        };
        let write = seen.write();
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
        seen.take_in(op, read);
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
