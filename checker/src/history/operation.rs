//! An invocation joined to its completion.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Name, Names};

/// What stands before the process where a history names no client.
pub(crate) const UNNAMED: &str = "process ";

/// A fencing token: an integer from -2^63 to 2^64-1. Anything else cannot be made.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Token(i128);

impl Token {
    /// The least token, -2^63.
    pub const MIN: Self = Self(i64::MIN as i128);
    /// The greatest token, 2^64-1.
    pub const MAX: Self = Self(u64::MAX as i128);
    /// The high water of a key that was never written.
    pub const ZERO: Self = Self(0);

    /// A token, if `value` is in range.
    #[must_use]
    pub fn new(value: i128) -> Option<Self> {
        (Self::MIN.0..=Self::MAX.0)
            .contains(&value)
            .then_some(Self(value))
    }

    /// The number itself.
    #[must_use]
    pub fn value(self) -> i128 {
        self.0
    }
}

impl From<u64> for Token {
    fn from(value: u64) -> Self {
        Self(value.into())
    }
}

impl From<i64> for Token {
    fn from(value: i64) -> Self {
        Self(value.into())
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Token {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match u64::try_from(self.0) {
            Ok(unsigned) => serializer.serialize_u64(unsigned),
            Err(_) => serializer
                .serialize_i64(i64::try_from(self.0).expect("a token below 0 is at least -2^63")),
        }
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TokenVisitor;
        impl serde::de::Visitor<'_> for TokenVisitor {
            type Value = Token;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer from -2^63 to 2^64-1")
            }
            fn visit_u64<E>(self, value: u64) -> Result<Token, E> {
                Ok(value.into())
            }
            fn visit_i64<E>(self, value: i64) -> Result<Token, E> {
                Ok(value.into())
            }
        }
        deserializer.deserialize_any(TokenVisitor)
    }
}

/// What an operation asks for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Function {
    /// Take a lock; `ok` carries the token.
    Acquire,
    /// Prolong a lease.
    Renew,
    /// Give a lock back.
    Release,
    /// Replace a key's value under a token.
    Write,
    /// Add to a key's list under a token.
    Append,
    /// Look at a key.
    Read,
    /// Compare and set.
    Cas,
    /// A model's own word.
    Other(Name),
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Outcome {
    /// It happened, between its two instants.
    Ok,
    /// It surely did not happen.
    Failed,
    /// It may have happened at any moment after its invocation, or may never. Also: the file ended before its answer.
    Unknown,
}

/// A place in the history: `index` orders, `time` explains.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Instant {
    /// The position that decides order. Imported histories without an index get one that keeps equal times concurrent.
    pub index: u64,
    /// Nanoseconds since the run began.
    pub time: u64,
}

/// An invocation joined to its completion. Fields that the completion did not repeat are the invocation's.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The logical thread.
    pub process: u64,
    /// The client; where a history names none, `process N`.
    pub client: Name,
    /// What it asked for.
    pub function: Function,
    /// The lock, where given.
    pub lock: Option<Name>,
    /// The key, where given.
    pub key: Option<Name>,
    /// The write path; `None` is `primary`.
    pub path: Option<Name>,
    /// Granted, renewed, released or presented token; on a read the token of the write that is read, where told.
    pub token: Option<Token>,
    /// The value written or read; `None`: the operation has none; `Some(Null)`: a read that found nothing. Numbers are
    /// spelt in one way, so that `1.0` is `1`.
    pub value: Option<serde_json::Value>,
    /// The high water that the resource reported on the completion.
    pub high_water: Option<Token>,
    /// The completion's error.
    pub error: Option<Name>,
    /// The lease in milliseconds.
    pub ttl_ms: Option<u64>,
    /// What the client told the service it is; `None`: its name.
    pub identity: Option<Name>,
    /// Processes sharing a session are one holder.
    pub session: Option<Name>,
    /// How it ended.
    pub outcome: Outcome,
    /// When its request was about to leave.
    pub invoked: Instant,
    /// When its answer had arrived; `None` where it never did. An `info` completion has an instant here, but its
    /// effect may come later: use [`Operation::returned`] for order.
    pub completed: Option<Instant>,
}

impl Operation {
    /// When the effect is certainly over: the completion of an `ok` or `fail`, never for the others.
    #[must_use]
    pub fn returned(&self) -> Option<Instant> {
        match self.outcome {
            Outcome::Unknown => None,
            Outcome::Ok | Outcome::Failed => self.completed,
        }
    }

    /// The history names no client for it.
    #[must_use]
    pub(crate) fn is_unnamed(&self, names: &Names) -> bool {
        let process = names.text(self.client).strip_prefix(UNNAMED);
        process.is_some_and(|process| process.parse() == Ok(self.process))
    }

    /// `self`'s completion stands before `other`'s invocation.
    #[must_use]
    pub fn precedes(&self, other: &Self) -> bool {
        self.returned()
            .is_some_and(|returned| returned.index < other.invoked.index)
    }
}
