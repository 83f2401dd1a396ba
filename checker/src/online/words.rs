//! The words of the rules, as far as the stream has told them: which lock, which scope, what is a refusal.

use std::sync::Arc;

use super::arrival::Arrival;
use crate::history::{Function, MarkScope, Name, Operation, Outcome, Token};

/// What shares one high water.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Scope {
    Lock(Name),
    Key(Option<Name>),
}

/// An operation that a rule remembers.
pub(super) type Kept = Arc<Operation>;

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
        match self.mark_scope() {
            MarkScope::Key => Scope::Key(operation.key),
            MarkScope::Lock => self
                .lock(operation)
                .map_or(Scope::Key(operation.key), Scope::Lock),
        }
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

/// The token of an operation that has one.
pub(super) fn token_of(operation: &Operation) -> Token {
    operation.token.unwrap_or(Token::ZERO)
}

/// The index of the answer; none for an unknown outcome.
pub(super) fn returned(operation: &Operation) -> Option<u64> {
    operation.returned().map(|at| at.index)
}
