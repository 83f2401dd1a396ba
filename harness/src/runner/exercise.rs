//! What the fence was made to do so far: the counters that steer the nemesis, and that the report shows.
//!
//! The conductor counts, from what it hands out and hears. What is judged is the history, never these.

use std::collections::BTreeMap;

use fencepost_checker::history::Token;
use fencepost_workloads::suite::Then;
use serde::{Deserialize, Serialize};

fencepost_checker::only_objects!(Exercise);

/// So many writes of woken holders come before anything else is tried: the fence is exercised first.
const WRITES_FIRST: u64 = 10;

/// Counts of what holders did that had lost their lock, and of what was done to them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Exercise {
    /// Writes under a token that was not the newest one known when they were handed out, by phase: `woken` right after
    /// its worker was let go, `announced` decided before and sent after a stop, `unaware` any other.
    pub zombie_writes: BTreeMap<String, u64>,
    /// The same by how many tokens they were behind: `1`, `2`, `3 to 9`, `10 and more`.
    pub behind: BTreeMap<String, u64>,
    /// Writes that the fence refused.
    pub refusals: u64,
    /// Renewals under a token that was not the newest one.
    pub renewals_after_loss: u64,
    /// Releases under a token that was not the newest one.
    pub releases_after_loss: u64,
    /// Acquires of holders that were let go after their lease had lapsed.
    pub reacquires: u64,
    /// Holders that were let go while their successor's first write was under way.
    pub races: u64,
    /// Acquires that were open for longer than a lease.
    pub lapsed_waiters: u64,
    /// Restarts of the resource between a read of a high water and the next stale write.
    pub restarts_between: u64,
    /// Workers that were killed and came back.
    pub rebirths: u64,
}

impl Exercise {
    /// A write `behind` the newest token, in that phase.
    pub fn zombie_write(&mut self, phase: &str, token: Token, newest: Token) {
        *self.zombie_writes.entry(phase.to_owned()).or_default() += 1;
        let behind = match newest.value() - token.value() {
            1 => "1",
            2 => "2",
            3..=9 => "3 to 9",
            _ => "10 and more",
        };
        *self.behind.entry(behind.to_owned()).or_default() += 1;
    }

    /// What a zombie of whom the suite says nothing is to do first: what has been done least, and writes before all else.
    #[must_use]
    pub fn least(&self) -> Then {
        let writes = self.zombie_writes.get("woken").copied().unwrap_or(0);
        if writes < WRITES_FIRST {
            return Then::Write;
        }
        let done = [
            (Then::Write, writes / WRITES_FIRST),
            (Then::Renew, self.renewals_after_loss),
            (Then::Release, self.releases_after_loss),
            (Then::Acquire, self.reacquires),
            (Then::Race, self.races),
        ];
        let least = done.into_iter().min_by_key(|&(_, count)| count);
        least.map_or(Then::Write, |(then, _)| then)
    }

    /// Every counter with its name and what raises it, for the report.
    #[must_use]
    pub fn rows(&self) -> Vec<(String, u64, &'static str)> {
        let by = |name: &'static str, counts: &BTreeMap<String, u64>, flag: &'static str| {
            let rows: Vec<_> = counts
                .iter()
                .map(|(what, count)| (format!("{name}, {what}"), *count, flag))
                .collect();
            if rows.is_empty() {
                vec![(name.to_owned(), 0, flag)]
            } else {
                rows
            }
        };
        let mut rows = by(
            "zombie writes",
            &self.zombie_writes,
            "--time-limit, [[fault]] zombie",
        );
        rows.extend(by(
            "tokens behind",
            &self.behind,
            "zombie length, shorter lease",
        ));
        let one = |name: &str, count, flag| (name.to_owned(), count, flag);
        rows.extend([
            one("refusals", self.refusals, "--time-limit, [[fault]] zombie"),
            one(
                "renewals after loss",
                self.renewals_after_loss,
                "zombie then = \"renew\"",
            ),
            one(
                "releases after loss",
                self.releases_after_loss,
                "zombie then = \"release\"",
            ),
            one(
                "acquires of lapsed holders",
                self.reacquires,
                "zombie then = \"acquire\"",
            ),
            one(
                "races with a successor",
                self.races,
                "zombie then = \"race\"",
            ),
            one(
                "acquires open for more than a lease",
                self.lapsed_waiters,
                "pause on = \"waiter\"",
            ),
            one(
                "restarts between observation and write",
                self.restarts_between,
                "zombie then = \"restart\"",
            ),
            one(
                "workers killed and back",
                self.rebirths,
                "kill on = \"worker\" or \"holder\"",
            ),
        ]);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_come_first_and_then_what_was_done_least() {
        let mut exercise = Exercise::default();
        for _ in 0..WRITES_FIRST {
            assert_eq!(exercise.least(), Then::Write);
            exercise.zombie_write("woken", 4_u64.into(), 6_u64.into());
        }
        assert_eq!(exercise.behind["2"], WRITES_FIRST);
        let mut tried = Vec::new();
        for _ in 0..4 {
            let then = exercise.least();
            tried.push(then);
            match then {
                Then::Renew => exercise.renewals_after_loss += 1,
                Then::Release => exercise.releases_after_loss += 1,
                Then::Acquire => exercise.reacquires += 1,
                Then::Race => exercise.races += 1,
                Then::Write | Then::Restart => {
                    panic!("{then:?} was done already, or is never drawn")
                }
            }
        }
        assert_eq!(
            tried,
            [Then::Renew, Then::Release, Then::Acquire, Then::Race]
        );
    }
}
