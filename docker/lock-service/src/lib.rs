//! The reference lock service: leases, waiting acquires, and a fencing token for every grant.
//!
//! It promises that the tokens of one lock are 1, 2, 3 … in the order of the grants, that none of
//! them is ever given out twice, and that whatever it has answered survives a crash. It does not
//! promise that a holder is alone: a client that was stopped goes on believing in a lease that
//! lapsed long ago. Refusing such a client's writes is the business of the resource.
//!
//! # Requests
//!
//! | request | body | answers |
//! |---|---|---|
//! | `POST /v1/locks/{lock}/acquire` | `{"client":"c3","ttl_ms":1000,"wait_ms":500}` | 200 `{"token":42,"ttl_ms":1000}`, 409 `held`, 409 `token-exhausted`, 429 `too-many` |
//! | `POST /v1/locks/{lock}/renew` | `{"client":"c3","token":42,"ttl_ms":1000}` | 200 `{"token":42,"ttl_ms":1000}`, 409 `not-held` |
//! | `POST /v1/locks/{lock}/release` | `{"client":"c3","token":42}` | 200 `{}`, 409 `not-held` |
//! | `GET /v1/locks/{lock}` | | 200 `{"lock","token","holder":null or {"client","token","ttl_ms","remaining_ms"},"waiting"}` |
//! | `GET /metrics` | | Prometheus text |
//! | `GET /healthz` | | 200 `{"status":"ok"}` |
//!
//! A refusal is `{"error":NAME}`. Those of a request that is itself wrong carry a `message` too,
//! which names the field and what is right: 400 `bad-request` (413 where the body is too large),
//! 404 `not-found`, 405 `method-not-allowed`. A 503 `unavailable` is the only answer that leaves
//! open whether the request took effect; so does a connection that ends without an answer.
//!
//! # Semantics
//!
//! - **Token.** One counter a lock, from 1, up by one at each grant, until 2^64-1 was given out;
//!   then the lock is `token-exhausted` for good.
//! - **Durable first.** Counter and holder are on disk before a grant is answered. So is the new
//!   state before a renewal, a release or any refusal that rests on it is answered.
//! - **Lease.** It runs from the grant, or from the renewal, by a monotonic clock. When it lapses
//!   the first waiter is granted at once; waiters are served in the order in which they came.
//! - **Acquiring again.** An acquire by the client that holds the lock is a new grant with a new,
//!   higher token, at once and ahead of all waiters, and the old hold ends in that moment. No
//!   token is ever given out twice, so a client that was restarted, or started twice, fences its
//!   own former self.
//! - **Renew and release** need client and token of the current hold. A hold that lapsed is
//!   `not-held`, even where nobody took the lock since.
//! - **Waiting.** `wait_ms` 0 (the default) is answered at once. A waiter whose connection is
//!   gone leaves the queue. Where its grant crossed with the loss, the hold runs until its lease
//!   lapses: the service cannot know that nobody heard of it.
//! - **Restart.** No token is reused. Each hold that was stored gets its full ttl again, counted
//!   from the restart, because nobody knows how long the service was away.
//!
//! # Map
//!
//! `state` holds the rules and knows no clock; `writer` is the one thread that owns it and makes
//! its changes durable in groups; `store` is the disk; `request` reads bodies, `http` answers;
//! `defects` lists what can be broken on purpose. Start with `state`.

mod defects;
mod desk;
mod http;
mod metrics;
mod request;
mod service;
mod state;
mod store;
mod writer;

use std::ops::RangeInclusive;
use std::path::PathBuf;

pub use defects::{DEFECTS, Defect, UnknownDefect};
pub use service::{LockService, ServeError, serve};

/// All that fixes a lock service, apart from the address that it listens on.
#[derive(Clone, Debug)]
pub struct Config {
    /// Directory of the store. It is created where it is missing; one service at a time uses it.
    pub data: PathBuf,
    /// What is broken on purpose; `None` is the sound service.
    pub defect: Option<Defect>,
    /// What a request may ask for.
    pub limits: Limits,
    /// The token of a lock's first grant; at least 1. A counter that has run for years begins high.
    pub first_token: u64,
}

impl Config {
    /// A sound service on `data` with the usual limits.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            defect: None,
            limits: Limits::default(),
            first_token: 1,
        }
    }
}

/// Bounds on what clients may ask for. A request outside of them is refused, never trimmed.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Number of locks that may exist; a lock exists from its first grant on, for good.
    pub locks: usize,
    /// Number of acquires that may wait for one lock.
    pub waiters: usize,
    /// Length of a lock's and of a client's name, in bytes of UTF-8.
    pub name_bytes: usize,
    /// Length of a lease, in milliseconds.
    pub ttl_ms: RangeInclusive<u64>,
    /// Time that an acquire may wait, in milliseconds.
    pub wait_ms: RangeInclusive<u64>,
    /// Size of a request's body, in bytes.
    pub body_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            locks: 10_000,
            waiters: 10_000,
            name_bytes: 200,
            ttl_ms: 10..=3_600_000,
            wait_ms: 0..=600_000,
            body_bytes: 16 * 1024,
        }
    }
}
