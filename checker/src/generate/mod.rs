//! Histories that are made, not recorded: of a lock service and a fenced resource that keep their promises, or break
//! one of them once.
//!
//! Promises: the same settings give the same history everywhere; without a [`Defect`] every rule finds it in order; it
//! is made event by event, so fifty million operations take no more memory than the clients, locks and keys do.
//!
//! ```
//! use fencepost_checker::generate::{Defect, Generator, Settings};
//! use fencepost_checker::verdict::Verdict;
//! use fencepost_checker::{Model, judge};
//!
//! let honest = Settings::default();
//! let history = Generator::new(&honest).history();
//! assert_eq!(judge(&history, Model::Fencing).verdict, Verdict::Valid);
//!
//! let broken = Settings { defect: Some(Defect::StaleWrite), ..honest };
//! let history = Generator::new(&broken).history();
//! assert_eq!(judge(&history, Model::Fencing).verdict, Verdict::Invalid);
//! ```
//!
//! # What is made
//!
//! Each lock guards its share of the keys, and is taken by its share of the clients. A holder writes some times and gives
//! the lock back, or falls asleep: then the lock is granted to somebody else, and the sleeper writes once more with its
//! old token when its successor's token has arrived at the key. Answers are lost: then the request has taken effect at
//! any moment after it was sent, or never, and the client goes on under a new process.

mod made;
mod system;

use std::fmt;
use std::str::FromStr;

pub use made::{Made, MadeValue};
pub use system::Generator;

/// What a made history is like. Shares are from 0 to 1; what is beyond is taken for the nearer of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How many operations are invoked.
    pub operations: u64,
    /// How many clients there are; at least 1.
    pub clients: u32,
    /// How many keys there are; at least 1.
    pub keys: u32,
    /// How many locks there are; at least 1, at most one for each key and for each client.
    pub locks: u32,
    /// Everything that is drawn is drawn from this.
    pub seed: u64,
    /// The share of reads among the operations.
    pub reads: f64,
    /// The share of holds that end with the holder asleep.
    pub zombies: f64,
    /// The share of operations whose answer is lost.
    pub timeouts: f64,
    /// The share of refusals that do not name the high water, and of reads that do not.
    pub nameless: f64,
    /// What is broken, once, as soon as there is occasion in the second half.
    pub defect: Option<Defect>,
}

impl Default for Settings {
    /// 10,000 operations of 10 clients on 4 keys under 2 locks; half are reads, a fifth of the holds end in sleep, one in
    /// 200 answers is lost, half of the refusals name nothing, and nothing is broken.
    fn default() -> Self {
        Self {
            operations: 10_000,
            clients: 10,
            keys: 4,
            locks: 2,
            seed: 1,
            reads: 0.5,
            zombies: 0.2,
            timeouts: 0.005,
            nameless: 0.5,
            defect: None,
        }
    }
}

/// A promise that is broken once.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Defect {
    /// The resource accepts a sleeper's write although it has seen a higher token.
    StaleWrite,
    /// The resource answers a write and forgets it.
    LostWrite,
    /// The resource reads a value that nobody wrote.
    InventedValue,
    /// The lock service grants one token to two clients.
    DuplicateToken,
    /// The lock service grants a token below one that it granted before.
    TokenRegression,
}

impl Defect {
    /// Every defect, by the name that the command line uses.
    pub const ALL: [(Self, &str); 5] = [
        (Self::StaleWrite, "stale-write"),
        (Self::LostWrite, "lost-write"),
        (Self::InventedValue, "invented-value"),
        (Self::DuplicateToken, "duplicate-token"),
        (Self::TokenRegression, "token-regression"),
    ];
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Self::ALL.iter().find(|(defect, _)| defect == self);
        f.write_str(known.map_or("", |(_, name)| name))
    }
}

impl FromStr for Defect {
    type Err = UnknownDefect;

    fn from_str(name: &str) -> Result<Self, UnknownDefect> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found
            .map(|&(defect, _)| defect)
            .ok_or_else(|| UnknownDefect(name.to_owned()))
    }
}

/// A name that is no defect's.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "there is no defect {0:?}; there are stale-write, lost-write, invented-value, duplicate-token, token-regression"
)]
pub struct UnknownDefect(pub String);
