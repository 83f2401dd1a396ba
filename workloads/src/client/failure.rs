//! Definite or not: the line between "it surely did not happen" and "nobody knows".

use std::fmt;

use fencepost_checker::history::Token;

/// A call that was not answered `ok`.
///
/// A wrong `Fail` is the worst mistake that a client can make: it turns a write that was applied into a "violation"
/// of the resource, or hides a real one. So an error is definite only where it stands in this table; all else is
/// unknown, which costs a little proof and never a wrong verdict.
///
/// | what came back | outcome | why |
/// |---|---|---|
/// | 409 with an error that the request knows (`held`, `token-exhausted`, `not-held`, `stale-token` with its high water) | fail | the service decided, and said so |
/// | 400, 429 | fail | turned away for what it is, before any state was touched |
/// | 503 `overloaded` from the resource | fail | turned away before it was queued |
/// | a name, token or value that cannot be put into a request | fail | there was no request |
/// | no connection could be made: refused, unreachable, connecting took too long | fail | a request is only written to a connection that stands |
/// | no answer in time | unknown | it may still be on its way |
/// | connection reset or closed before the answer was complete | unknown | the answer may have been lost, not the request |
/// | any other status (all of 5xx, another 409) | unknown | it may come after the commit, or from something in between |
/// | a body that is garbage, cut short, too long, or lacks what the protocol promises, under any status | unknown | whoever wrote it, it was not the protocol |
///
/// A read or a renewal could safely be more generous. It is not: one table is easier to trust than five.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Failure {
    /// It definitely did not happen.
    Fail(Reason),
    /// It may have happened, may happen later, or never. The text says what was seen.
    Unknown(String),
}

/// Why it definitely did not happen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reason {
    /// Somebody else holds the lock, and queueing did not help in time.
    Held,
    /// The lock service has no higher token left for this lock.
    TokenExhausted,
    /// The hold to renew or to release is not, or no longer, this client's.
    NotHeld,
    /// Refused by the fence: the token is below the key's high water.
    StaleToken {
        /// The high water, where the resource told it.
        high_water: Option<Token>,
    },
    /// Anything else that is definite, in words.
    Other(String),
}

impl fmt::Display for Reason {
    /// The word of the worker protocol, or the text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Held => "held",
            Self::TokenExhausted => "token-exhausted",
            Self::NotHeld => "not-held",
            Self::StaleToken { .. } => "stale-token",
            Self::Other(text) => text,
        })
    }
}
