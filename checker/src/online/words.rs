//! The words of the rules, as far as the stream has told them: which lock, which scope, what is a refusal.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::arrival::Arrival;
use crate::history::{Function, MarkScope, Name, Operation, Outcome, Token};

/// What shares one high water: a lock or a key, each with the path by which it is written (`None` is `primary`).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Scope {
    Lock(Name, Option<Name>),
    Key(Option<Name>, Option<Name>),
}

/// A key and the path to it.
pub(super) type Object = (Option<Name>, Option<Name>);

/// An operation with its value as it was told: a stream keeps no table of values.
#[derive(Clone, Debug)]
pub(super) struct Op {
    /// All but its value.
    pub core: Operation,
    /// The value written or read, with numbers in their one spelling.
    pub value: Option<serde_json::Value>,
    /// Of an acquire or a renewal: how many acquires of its lock were sent before.
    pub asked: u64,
}

impl Deref for Op {
    type Target = Operation;

    fn deref(&self) -> &Operation {
        &self.core
    }
}

impl DerefMut for Op {
    fn deref_mut(&mut self) -> &mut Operation {
        &mut self.core
    }
}

/// An operation that a rule remembers.
pub(super) type Kept = Arc<Op>;

impl Arrival {
    /// The lock that an operation names, or that guards its key as far as the file tells up to there.
    pub fn lock(&self, operation: &Operation) -> Option<Name> {
        let guards = || {
            let voice = self.voices.get(&operation.key?)?;
            (operation.invoked.index < voice.until).then_some(voice.lock)
        };
        operation.lock.or_else(guards)
    }

    /// The lock that the header, else the first operation that names one, puts before a key.
    pub fn first_lock(&self, key: Option<Name>) -> Option<Name> {
        self.voices.get(&key?).map(|voice| voice.lock)
    }

    /// What shares a high water with this operation.
    pub fn scope(&self, operation: &Operation) -> Scope {
        let (key, path) = self.object(operation);
        match self.mark_scope() {
            MarkScope::Key => Scope::Key(key, path),
            MarkScope::Lock => self
                .lock(operation)
                .map_or(Scope::Key(key, path), |lock| Scope::Lock(lock, path)),
        }
    }

    /// The key and path of an operation; `None` is `primary`, however it was told.
    pub fn object(&self, operation: &Operation) -> Object {
        let other = |&path: &Name| self.names.text(path) != "primary";
        (operation.key, operation.path.filter(other))
    }

    /// Answered `fail` with `stale-token`.
    pub fn is_refusal(&self, operation: &Operation) -> bool {
        is_fenced_write(operation)
            && operation.outcome == Outcome::Failed
            && operation.error.is_some()
            && operation.error == self.stale_token
    }
}

/// A write that presents a token.
pub(super) fn is_fenced_write(operation: &Operation) -> bool {
    matches!(
        operation.function,
        Function::Write | Function::Append | Function::Cas
    ) && operation.token.is_some()
}

/// An operation that writes to an object of the resource, with or without a token.
pub(super) fn writes(operation: &Operation) -> bool {
    matches!(
        operation.function,
        Function::Write | Function::Append | Function::Cas
    )
}

/// The token of an operation that has one.
pub(super) fn token_of(operation: &Operation) -> Token {
    operation.token.unwrap_or(Token::ZERO)
}

/// The index of the answer; none for an unknown outcome.
pub(super) fn returned(operation: &Operation) -> Option<u64> {
    operation.returned().map(|at| at.index)
}
