//! `overlapping-grant`: the lock was granted to another while its holder's lease ran.
//!
//! A grant to another completed before E, the moment when the last acquire or renewal of the holder was sent and its
//! lease; no release of the holder was sent before that, no lower token was released between (that is
//! `release-of-others-lock`), and nothing was done to the lock service. For a lock declared without lease: any two
//! holds that overlap. `lease.rs` has the proof and its margins.
//!
//! Source: <https://github.com/kubernetes/kubernetes/pull/114872>: a candidate judged a longer lease by its own
//! configuration and took it over early.
//!
//! It fires on: lease 1 s, granted at 0, granted to another at 0.5 s. It is silent at 1.5 s, after a release was sent
//! (even if its answer was lost), and where the lease is not known.

use std::collections::BTreeMap;

use super::case::Case;
use super::lease::GivenAway;
use super::story::{self, Scene};
use super::{Draft, OVERLAPPING_GRANT};
use crate::history::Name;

/// One finding a lock.
pub(crate) fn overlapping_grants(case: &Case<'_>, given_away: &[GivenAway]) -> Vec<Draft> {
    let mut locks: BTreeMap<Option<Name>, (u64, GivenAway)> = BTreeMap::new();
    for given in given_away.iter().filter(|given| given.released.is_none()) {
        locks
            .entry(case.operation(given.given).lock)
            .and_modify(|known| known.0 += 1)
            .or_insert((1, *given));
    }
    locks
        .into_iter()
        .map(|(lock, (count, given))| describe(case, count, given).on(lock, None))
        .collect()
}

fn describe(case: &Case<'_>, count: u64, given: GivenAway) -> Draft {
    let mut witness = vec![given.owed, given.last, given.given];
    witness.extend(given.afterwards);
    witness.sort_unstable();
    witness.dedup();
    let scenes = scenes(case, &witness);
    let holder = case.text(case.operation(given.owed).client);
    let mut ending = match given.until {
        Some(until) => format!(
            "That is wrong: {holder} had not given the lock back, and its lease ran for at least another {}.",
            left(case, given, until)
        ),
        None => format!(
            "That is wrong: this lock has no lease, and {holder} had not given it back when it was granted to another."
        ),
    };
    if count > 1 {
        ending += &format!("\n{count} grants of this lock came too early in all.");
    }
    let story = story::tell(case.history, scenes, &ending);
    Draft::new(OVERLAPPING_GRANT, count, witness, story)
}

/// Grants as grants, everything else as it went.
pub(crate) fn scenes<'a>(case: &Case<'a>, witness: &[usize]) -> Vec<Scene<'a>> {
    let scene = |&op: &usize| match case.operation(op) {
        grant if Case::is_grant(grant) => Scene::Asked(grant),
        other => Scene::Happened(other),
    };
    witness.iter().map(scene).collect()
}

/// How much of the lease was left.
pub(crate) fn left(case: &Case<'_>, given: GivenAway, until: u64) -> String {
    let now = case
        .operation(given.given)
        .completed
        .map_or(0, |at| at.time);
    format!("{} ms", until.saturating_sub(now) / 1_000_000)
}
