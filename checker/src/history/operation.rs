//! An invocation joined to its completion.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

use super::{Datum, HistoryError, Name, Names};

/// What stands before the process where a history names no client.
pub(crate) const UNNAMED: &str = "process ";

/// A fencing token: an integer from -2^63 to 2^64-1. Anything else cannot be made.
///
/// Kept in 9 bytes, so that an operation is two cache lines: the sign, and the low 64 bits in two's complement.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub struct Token {
    sign: Sign,
    bits: [u8; 8],
}

#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
enum Sign {
    Negative,
    #[default]
    Natural,
}

impl Token {
    /// The least token, -2^63.
    pub const MIN: Self = Self {
        sign: Sign::Negative,
        bits: i64::MIN.to_ne_bytes(),
    };
    /// The greatest token, 2^64-1.
    pub const MAX: Self = Self::natural(u64::MAX);
    /// The high water of a key that was never written.
    pub const ZERO: Self = Self::natural(0);

    const fn natural(value: u64) -> Self {
        Self {
            sign: Sign::Natural,
            bits: value.to_ne_bytes(),
        }
    }

    /// A token, if `value` is in range.
    #[must_use]
    pub fn new(value: i128) -> Option<Self> {
        if let Ok(natural) = u64::try_from(value) {
            return Some(Self::natural(natural));
        }
        i64::try_from(value).ok().map(Self::from)
    }

    /// The number itself.
    #[must_use]
    #[inline]
    pub fn value(self) -> i128 {
        match self.sign {
            Sign::Negative => i64::from_ne_bytes(self.bits).into(),
            Sign::Natural => u64::from_ne_bytes(self.bits).into(),
        }
    }

    /// Negative numbers in two's complement are in the order of their bits, too.
    #[inline]
    fn order(self) -> (Sign, u64) {
        (self.sign, u64::from_ne_bytes(self.bits))
    }
}

impl Ord for Token {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for Token {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Token {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from_ne_bytes(self.bits));
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.value())
    }
}

impl From<u64> for Token {
    #[inline]
    fn from(value: u64) -> Self {
        Self::natural(value)
    }
}

impl From<i64> for Token {
    #[inline]
    fn from(value: i64) -> Self {
        let sign = if value < 0 {
            Sign::Negative
        } else {
            Sign::Natural
        };
        let bits = value.to_ne_bytes();
        Self { sign, bits }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

impl Serialize for Token {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match u64::try_from(self.value()) {
            Ok(unsigned) => serializer.serialize_u64(unsigned),
            Err(_) => serializer.serialize_i64(
                i64::try_from(self.value()).expect("a token below 0 is at least -2^63"),
            ),
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

impl Function {
    /// Its name in a history.
    #[must_use]
    pub fn name(self, names: &Names) -> &str {
        match self {
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Write => "write",
            Self::Append => "append",
            Self::Read => "read",
            Self::Cas => "cas",
            Self::Other(name) => names.text(name),
        }
    }
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

impl Instant {
    /// The place of line `number`, after that of the line before it.
    pub(crate) fn after(
        last: Option<Self>,
        number: usize,
        index: u64,
        time: u64,
    ) -> Result<Self, HistoryError> {
        if let Some(last) = last {
            if index <= last.index {
                let message = format!(
                    "is {index} after {}; it must rise from line to line",
                    last.index
                );
                return Err(HistoryError::new(number, Some("index"), message));
            }
            if time < last.time {
                let message = format!("is {time} after {}; it must never go down", last.time);
                return Err(HistoryError::new(number, Some("time"), message));
            }
        }
        Ok(Self { index, time })
    }
}

/// An invocation joined to its completion. Fields that the completion did not repeat are the invocation's.
///
/// It owns nothing outside of itself: 128 bytes, two cache lines. Its fields lie in this order, so that in a long list,
/// which begins 16 bytes into a page, one line has the instants and the other nearly all else.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Operation {
    /// When its answer had arrived; `None` where it never did. An `info` completion has an instant here, but its
    /// effect may come later: use [`Operation::returned`] for order.
    pub completed: Option<Instant>,
    /// When its request was about to leave.
    pub invoked: Instant,
    /// The logical thread.
    pub process: u64,
    /// What it asked for.
    pub function: Function,
    /// The client; where a history names none, `process N`.
    pub client: Name,
    /// The lock, where given.
    pub lock: Option<Name>,
    /// The key, where given.
    pub key: Option<Name>,
    /// The write path; `None` is `primary`.
    pub path: Option<Name>,
    /// The completion's error.
    pub error: Option<Name>,
    /// What the client told the service it is; `None`: its name.
    pub identity: Option<Name>,
    /// Processes sharing a session are one holder.
    pub session: Option<Name>,
    /// The value written or read, see [`super::History::value`]; `None`: the operation has none; [`Datum::NULL`]: a read
    /// that found nothing. Numbers are spelt in one way, so that `1.0` is `1`.
    pub value: Option<Datum>,
    /// Granted, renewed, released or presented token; on a read the token of the write that is read, where told.
    pub token: Option<Token>,
    /// The high water that the resource reported on the completion.
    pub high_water: Option<Token>,
    /// How it ended.
    pub outcome: Outcome,
    /// The lease in milliseconds.
    pub ttl_ms: Option<u64>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_two_cache_lines() {
        assert_eq!(size_of::<Operation>(), 128);
    }

    #[test]
    fn tokens_are_in_the_order_of_their_numbers() {
        let numbers = [
            i128::from(i64::MIN),
            -2,
            -1,
            0,
            1,
            i128::from(i64::MAX),
            i128::from(i64::MAX) + 1,
            i128::from(u64::MAX),
        ];
        let tokens = numbers.map(|number| Token::new(number).expect("in range"));
        assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
        assert_eq!(tokens.map(Token::value), numbers);
        assert_eq!(
            (tokens[0], tokens[3], tokens[7]),
            (Token::MIN, Token::ZERO, Token::MAX)
        );
        let (below, above) = (numbers[0] - 1, numbers[7] + 1);
        assert_eq!((Token::new(below), Token::new(above)), (None, None));
    }
}
