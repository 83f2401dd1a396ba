//! What can be broken on purpose, one small switch a defect.
//!
//! A defect is a mistake that real lock services have made. It is here so that a checker can be
//! shown to find it. Every switch of the service is in this file; without a defect each of them
//! is the sound rule.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// How far from its end a counter that wraps begins: it has been running for years.
const GRANTS_BEFORE_WRAP: u64 = 5;

/// Where a counter of 31 bits ends.
const NARROW: u64 = 1 << 31;

/// A mistake that the service makes on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Defect {
    /// The counter of a lock is only in memory: after a restart it starts again from 1.
    VolatileCounter,
    /// Half of the clients are served by a second table with counters of its own.
    SecondIssuer,
    /// The token is the wall clock, in milliseconds.
    TimestampTokens,
    /// A renewal is granted to whoever asks.
    RenewWithoutCheck,
    /// A release ends the hold, whoever asks.
    ReleaseWithoutCheck,
    /// A waiter's lease runs from the moment at which it began to wait.
    GrantToLapsedWaiter,
    /// The counter has 31 bits, and is near their end.
    CounterWraps,
    /// Leases never lapse.
    NeverExpires,
}

/// Each defect: its name, and what it is in production.
pub const DEFECTS: &[(&str, &str)] = &[
    (
        "volatile-counter",
        "the token counter lives in memory only: a restart hands out 1, 2, 3 again (a cache, an in-memory lock table, a store restored from nothing)",
    ),
    (
        "second-issuer",
        "two lock services hand out tokens for one lock: a split brain, a second region, a migration that left the old one up",
    ),
    (
        "timestamp-tokens",
        "the wall clock is the token: two grants of one millisecond, or a clock that is set back, and order is gone",
    ),
    (
        "renew-without-check",
        "a renewal looks at the lock's name and not at its holder: whoever lapsed is told that it still holds it",
    ),
    (
        "release-without-check",
        "a release deletes the lock whoever holds it now: a late one removes the successor's",
    ),
    (
        "grant-to-lapsed-waiter",
        "a waiter whose lease ran out while it queued is granted all the same, and the next one with it",
    ),
    (
        "counter-wraps",
        "the counter is an int of 31 bits: after 2147483647 it starts again from 0",
    ),
    (
        "never-expires",
        "there is no lease: a holder that died, or forgot, keeps the lock for good",
    ),
];

/// The counter that a lock has after a restart, where the store says `stored`.
pub(crate) fn counter_after_restart(defect: Option<Defect>, stored: u64) -> u64 {
    match defect {
        Some(Defect::VolatileCounter) => 0,
        _ => stored,
    }
}

/// The counter of a lock that was never granted, where a sound service begins after `before_first`.
pub(crate) fn first_counter(defect: Option<Defect>, before_first: u64) -> u64 {
    match defect {
        Some(Defect::CounterWraps) => NARROW - GRANTS_BEFORE_WRAP,
        _ => before_first,
    }
}

/// The token of the next grant, where `issued` was the last. `wall` is the time of day in milliseconds.
pub(crate) fn next_token(defect: Option<Defect>, issued: u64, wall: u64) -> u64 {
    match defect {
        Some(Defect::TimestampTokens) => wall,
        Some(Defect::CounterWraps) => (issued + 1) % NARROW,
        _ => issued + 1,
    }
}

/// Whether a renewal or release by anybody is as good as one by the holder.
pub(crate) fn believes_anybody(defect: Option<Defect>, renewal: bool) -> bool {
    match defect {
        Some(Defect::RenewWithoutCheck) => renewal,
        Some(Defect::ReleaseWithoutCheck) => !renewal,
        _ => false,
    }
}

/// From when on the lease of a grant made at `now` runs, to somebody who began to wait at `asked`.
pub(crate) fn lease_begins(defect: Option<Defect>, now: Duration, asked: Duration) -> Duration {
    match defect {
        Some(Defect::GrantToLapsedWaiter) => asked,
        _ => now,
    }
}

/// Whether a lease that ran out ends the hold.
pub(crate) fn leases_lapse(defect: Option<Defect>) -> bool {
    defect != Some(Defect::NeverExpires)
}

/// The entry of the table of locks that serves `client` under the name `lock`.
pub(crate) fn table_entry(defect: Option<Defect>, lock: Arc<str>, client: &str) -> Arc<str> {
    let other = client.bytes().fold(0_u8, u8::wrapping_add) % 2 == 1;
    match defect {
        Some(Defect::SecondIssuer) if other => format!("{lock} of the second issuer").into(),
        _ => lock,
    }
}

impl Defect {
    /// Every defect, in the order of [`DEFECTS`].
    pub const ALL: &[Defect] = &[
        Self::VolatileCounter,
        Self::SecondIssuer,
        Self::TimestampTokens,
        Self::RenewWithoutCheck,
        Self::ReleaseWithoutCheck,
        Self::GrantToLapsedWaiter,
        Self::CounterWraps,
        Self::NeverExpires,
    ];

    /// The name by which it is asked for.
    pub fn name(self) -> &'static str {
        match self {
            Self::VolatileCounter => "volatile-counter",
            Self::SecondIssuer => "second-issuer",
            Self::TimestampTokens => "timestamp-tokens",
            Self::RenewWithoutCheck => "renew-without-check",
            Self::ReleaseWithoutCheck => "release-without-check",
            Self::GrantToLapsedWaiter => "grant-to-lapsed-waiter",
            Self::CounterWraps => "counter-wraps",
            Self::NeverExpires => "never-expires",
        }
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Defect {
    type Err = UnknownDefect;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let named = |defect: &&Self| defect.name() == name;
        let found = Self::ALL.iter().find(named).copied();
        found.ok_or_else(|| UnknownDefect { name: name.into() })
    }
}

/// A name that is no defect of the lock service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("find a defect {name:?} of the lock service; it knows {}", known())]
pub struct UnknownDefect {
    name: String,
}

fn known() -> String {
    let names: Vec<&str> = DEFECTS.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_in_the_table_is_a_defect_of_that_name() {
        assert_eq!(DEFECTS.len(), Defect::ALL.len());
        for (name, line) in DEFECTS {
            let defect: Defect = name.parse().expect("a name of the table");
            assert_eq!(defect.name(), *name);
            assert!(!line.contains('\n'), "{name} is described in one line");
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = "volatile".parse::<Defect>().expect_err("no such defect");
        assert_eq!(
            error.to_string(),
            format!(
                "find a defect \"volatile\" of the lock service; it knows {}",
                super::known()
            )
        );
        assert!(
            error
                .to_string()
                .contains("volatile-counter, second-issuer, ")
        );
    }

    #[test]
    fn the_sound_service_keeps_its_counter_over_a_restart() {
        assert_eq!(counter_after_restart(None, 42), 42);
        assert_eq!(counter_after_restart(Some(Defect::VolatileCounter), 42), 0);
    }

    #[test]
    fn the_sound_service_follows_none_of_them() {
        let (now, asked) = (Duration::from_secs(5), Duration::from_secs(3));
        assert_eq!(next_token(None, 41, 1_700_000_000_000), 42);
        assert_eq!(first_counter(None, 41), 41);
        assert!(!believes_anybody(None, true) && !believes_anybody(None, false));
        assert_eq!(lease_begins(None, now, asked), now);
        assert!(leases_lapse(None));
        assert_eq!(&*table_entry(None, "l".into(), "c1"), "l");
    }

    #[test]
    fn each_switch_is_turned_by_its_own_defect_alone() {
        let wall = 1_700_000_000_000;
        let token = |defect, issued| next_token(Some(defect), issued, wall);
        assert_eq!(token(Defect::TimestampTokens, 41), wall);
        assert_eq!(token(Defect::CounterWraps, NARROW - 1), 0);
        assert_eq!(token(Defect::NeverExpires, NARROW - 1), NARROW);
        assert!(believes_anybody(Some(Defect::RenewWithoutCheck), true));
        assert!(!believes_anybody(Some(Defect::RenewWithoutCheck), false));
        assert!(believes_anybody(Some(Defect::ReleaseWithoutCheck), false));
        assert!(!leases_lapse(Some(Defect::NeverExpires)));
        let entries: Vec<Arc<str>> = ["c1", "c2"]
            .iter()
            .map(|client| table_entry(Some(Defect::SecondIssuer), "l".into(), client))
            .collect();
        assert_ne!(entries[0], entries[1]);
    }
}
