//! What each operation is, in two bytes: so that a rule looks only at those that concern it.
//!
//! An operation is two cache lines, and there are some thirty rules; most of them are about few operations. A walk along
//! the kinds stays in the cache.

use super::lost_write::makes_unknown;
use crate::history::{Function, Operation, Outcome};

/// A set of marks that an operation may bear.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Kind(u16);

impl Kind {
    /// `acquire`.
    pub const ACQUIRE: Self = Self(1);
    /// `renew`.
    pub const RENEW: Self = Self(1 << 1);
    /// `release`.
    pub const RELEASE: Self = Self(1 << 2);
    /// `write`, `append` or `cas`.
    pub const WRITE: Self = Self(1 << 3);
    /// `read`.
    pub const READ: Self = Self(1 << 4);
    /// A model's own word.
    pub const OTHER: Self = Self(1 << 5);
    /// `append`, a write too.
    pub const APPEND: Self = Self(1 << 6);
    /// `write` itself.
    pub const PLAIN: Self = Self(1 << 7);
    /// A write that was refused as stale.
    pub const REFUSAL: Self = Self(1 << 8);
    /// It was answered `ok`.
    pub const OK: Self = Self(1 << 9);
    /// It was answered `fail`.
    pub const FAILED: Self = Self(1 << 10);
    /// It may leave its object with a value that the file does not spell out.
    pub const UNSPELT: Self = Self(1 << 11);
    /// A write that presents a token.
    pub const FENCED: Self = Self(1 << 12);

    /// What an operation is; whether it is a refusal only its case knows.
    pub fn of(operation: &Operation, is_refusal: bool) -> Self {
        let mut kind = match operation.function {
            Function::Acquire => Self::ACQUIRE,
            Function::Renew => Self::RENEW,
            Function::Release => Self::RELEASE,
            Function::Write => Self::WRITE.or(Self::PLAIN),
            Function::Append => Self::WRITE.or(Self::APPEND),
            Function::Cas => Self::WRITE,
            Function::Read => Self::READ,
            Function::Other(_) => Self::OTHER,
        };
        match operation.outcome {
            Outcome::Ok => kind = kind.or(Self::OK),
            Outcome::Failed => kind = kind.or(Self::FAILED),
            Outcome::Unknown => {}
        }
        if kind.is(Self::WRITE) && operation.token.is_some() {
            kind = kind.or(Self::FENCED);
        }
        if is_refusal {
            kind = kind.or(Self::REFUSAL);
        }
        if makes_unknown(operation) {
            kind = kind.or(Self::UNSPELT);
        }
        kind
    }

    /// What bears a mark of either.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// All of these marks are among its own.
    #[inline]
    pub const fn holds(self, all: Self) -> bool {
        self.0 & all.0 == all.0
    }

    /// It bears one of these marks.
    #[inline]
    pub const fn is(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }
}
