//! A write with the reads of its value, as far as they have been seen.

use super::words::{Kept, returned, token_of};
use crate::history::Token;

/// A place in time: an index plus one; [`BEFORE`] and [`NEVER`] stand around all of them.
pub(super) type At = u64;
pub(super) const BEFORE: At = 0;
pub(super) const NEVER: At = u64::MAX;

pub(super) fn at(index: u64) -> At {
    index.saturating_add(1).min(NEVER - 1)
}

/// An extreme instant and the operations without which it would prove nothing.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub at: At,
    pub op: Option<Kept>,
    /// The write of the value that `op` read, where that is not the cluster's own.
    pub write: Option<Kept>,
}

impl Edge {
    pub fn new(at: At, op: &Kept) -> Self {
        Self {
            at,
            op: Some(Kept::clone(op)),
            write: None,
        }
    }

    pub fn none(at: At) -> Self {
        Self {
            at,
            op: None,
            write: None,
        }
    }

    pub fn ops(&self) -> impl Iterator<Item = &Kept> {
        self.op.iter().chain(&self.write)
    }

    pub fn lower(&mut self, other: &Self) {
        if other.at < self.at {
            *self = other.clone();
        }
    }

    pub fn raise(&mut self, other: &Self) {
        if other.at > self.at {
            *self = other.clone();
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub write: Option<Kept>,
    pub token: Token,
    pub call: At,
    /// The least return.
    pub first: Edge,
    /// The greatest call.
    pub last: Edge,
}

impl Cluster {
    pub fn initial() -> Self {
        Self {
            write: None,
            token: Token::ZERO,
            call: BEFORE,
            first: Edge::none(BEFORE),
            last: Edge::none(BEFORE),
        }
    }

    /// A write that has not returned.
    pub fn of(write: &Kept) -> Self {
        let call = at(write.invoked.index);
        Self {
            write: Some(Kept::clone(write)),
            token: token_of(write),
            call,
            first: Edge::new(NEVER, write),
            last: Edge::new(call, write),
        }
    }

    pub fn returns(&mut self, op: &Kept) {
        let Some(returned) = returned(op).map(at) else {
            return;
        };
        if returned < self.first.at {
            self.first = Edge::new(returned, op);
        }
    }

    pub fn take_in(&mut self, read: &Kept) {
        self.returns(read);
        let call = at(read.invoked.index);
        if call > self.last.at {
            self.last = Edge::new(call, read);
        }
    }

    pub fn ops(&self) -> impl Iterator<Item = &Kept> {
        self.write
            .iter()
            .chain(self.first.ops())
            .chain(self.last.ops())
    }
}
