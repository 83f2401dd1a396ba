//! `timestamp-token`: the token is a clock.
//!
//! Tokens of a lock are plausible Unix times (in seconds, milliseconds, microseconds or nanoseconds, of the years 2001
//! to 2100), and at least two differences between grants that follow one another match the time that passed between
//! them, within one unit. They must be unequal, none of them +1, and at least as many as do not match; grants that were
//! waited for (for more than a quarter of the time between them, and for more than a unit) show nothing. A warning: two
//! grants in one unit share a token, and a clock that is set back gives a lower one; where that happened it is found
//! under its own name.
//!
//! Source: <https://github.com/apache/hudi/pull/3824>: an instant in seconds, with frequent collisions of two writers.
//!
//! It fires on: 1700000001 at 1 s, 1700000003 at 3 s, 1700000010 at 10 s. It is silent on a store's revision that has
//! come into the thousand millions: 1000000010, 1000000012, 1000000014, a grant every 2 s.
//!
//! State, for each lock: the last grant, and the first two differences that matched for each unit.

use std::collections::BTreeMap;

use super::case::Case;
use super::kinds::Kind;
use super::story::{self, Scene};
use super::{Draft, TIMESTAMP_TOKEN};
use crate::history::{Name, Operation};

/// The units of a clock: their name, how many nanoseconds they have, how many there are in a second.
const UNITS: [(&str, i128, i128); 4] = [
    ("seconds", 1_000_000_000, 1),
    ("milliseconds", 1_000_000, 1_000),
    ("microseconds", 1_000, 1_000_000),
    ("nanoseconds", 1, 1_000_000_000),
];

/// 9 September 2001 and 1 January 2100, in seconds.
const PLAUSIBLE: std::ops::Range<i128> = 1_000_000_000..4_102_444_800;

/// Two grants count if they were waited for no longer than this part of the time between them, or than one unit.
const WAITED: i128 = 4;

/// What the grants of one lock show, one after the other. `G` is how a grant is remembered.
#[derive(Clone, Debug)]
pub(crate) struct Clock<G> {
    last: Option<(G, Operation)>,
    unit: Option<usize>,
    matched: u64,
    missed: u64,
    /// The first matching difference, and the first that is another: the grants and the difference.
    first: Option<(G, G, i128)>,
    second: Option<(G, G, i128)>,
}

impl<G> Default for Clock<G> {
    fn default() -> Self {
        Self {
            last: None,
            unit: None,
            matched: 0,
            missed: 0,
            first: None,
            second: None,
        }
    }
}

/// One warning a lock. O(n).
pub(crate) fn timestamps(case: &Case<'_>) -> Vec<Draft> {
    let mut clocks: BTreeMap<Name, Clock<usize>> = BTreeMap::new();
    for moment in case.walk(Kind::ACQUIRE).filter(|moment| moment.returns) {
        let operation = case.operation(moment.op);
        if let Some(lock) = operation.lock.filter(|_| Case::is_grant(operation)) {
            clocks.entry(lock).or_default().note(moment.op, operation);
        }
    }
    clocks
        .into_iter()
        .filter_map(|(lock, clock)| Some(describe(case, &clock)?.on(Some(lock), None)))
        .collect()
}

/// The unit in which a token is a plausible time.
fn unit_of(operation: &Operation) -> Option<usize> {
    let token = operation.token?.value();
    UNITS
        .iter()
        .position(|&(_, _, in_second)| PLAUSIBLE.contains(&token.div_euclid(in_second)))
}

impl<G: Clone> Clock<G> {
    /// The next grant, in the order in which they were told.
    pub fn note(&mut self, op: G, operation: &Operation) {
        let unit = unit_of(operation);
        let last = self.last.replace((op.clone(), *operation));
        let Some(unit) = unit.filter(|_| self.unit.is_none_or(|known| Some(known) == unit)) else {
            self.missed += 1;
            return;
        };
        self.unit = Some(unit);
        let Some((last, before)) = last else { return };
        let (Some(from), Some(to)) = (before.token, operation.token) else {
            return;
        };
        let difference = to.value() - from.value();
        // A holder that asks again and gets its own token is no sign of anything.
        if difference == 0 && before.client == operation.client {
            return;
        }
        let length = UNITS[unit].1;
        let passed = |from: u64, to: u64| i128::from(to) - i128::from(from);
        let told = |op: &Operation| op.completed.unwrap_or(op.invoked).time;
        let before = &before;
        let least = passed(told(before), operation.invoked.time) - length;
        let most = passed(before.invoked.time, told(operation)) + length;
        if !(least..=most).contains(&(difference * length)) || difference == 1 {
            self.missed += 1;
            return;
        }
        // Of grants that were waited for it is not known when they were made: nearly anything fits, and shows nothing.
        let unsure = passed(before.invoked.time, told(before))
            + passed(operation.invoked.time, told(operation));
        if unsure > length.max(passed(told(before), told(operation)) / WAITED) {
            return;
        }
        self.matched += 1;
        let this = (last, op, difference);
        match &self.first {
            None => self.first = Some(this),
            Some((_, _, first)) if *first != difference => {
                self.second.get_or_insert(this);
            }
            Some(_) => {}
        }
    }

    /// How many differences match, the unit, and the grants that show it; nothing where it is no clock.
    pub fn shows(&self) -> Option<(u64, &'static str, [G; 4])> {
        let (first, second) = (self.first.as_ref()?, self.second.as_ref()?);
        if self.matched < self.missed {
            return None;
        }
        let grants = [&first.0, &first.1, &second.0, &second.1].map(G::clone);
        Some((self.matched, UNITS[self.unit?].0, grants))
    }
}

fn describe(case: &Case<'_>, clock: &Clock<usize>) -> Option<Draft> {
    let (matched, unit, grants) = clock.shows()?;
    let mut witness = grants.to_vec();
    witness.sort_unstable();
    witness.dedup();
    let scenes = witness
        .iter()
        .map(|&op| Scene::Asked(case.operation(op)))
        .collect();
    let ending = format!(
        "These tokens are a clock's {}: {} of their differences are the time that passed. Two grants within one share a token, and a clock that is set back gives a lower one. A token has to come from a counter.",
        unit, matched
    );
    let story = story::tell(case.history, scenes, &ending);
    Some(Draft::new(TIMESTAMP_TOKEN, matched, witness, story))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    /// Grants of these tokens, one every `every` milliseconds, each of which was waited for so long.
    fn warned(tokens: &[u64], every: u64, waited: u64) -> usize {
        let mut s = Scenario::new();
        for &token in tokens {
            s.wait_ms(every - waited);
            let call = s.acquire_call("c1", "L");
            s.wait_ms(waited);
            s.granted(call, token);
        }
        let history = s.history();
        timestamps(&Case::new(&history)).len()
    }

    #[test]
    fn a_clock_is_seen_and_what_was_waited_for_is_no_clock() {
        let tokens = [1_700_000_000, 1_700_000_007, 1_700_000_014, 1_700_000_022];
        assert_eq!(warned(&tokens, 7_200, 100), 1);
        assert_eq!(warned(&tokens, 7_200, 7_000), 0);
    }
}
