//! `release-of-others-lock`: a late release took the lock from its new holder.
//!
//! A release of t, below the token t' of the holder, is answered `ok`; the next grant is asked for after that, and
//! completes while the lease of t' runs, though no release of t' was sent. `lease.rs` has the proof and its margins.
//! Where no lease is known it is a warning, and only if the holder of t' is told afterwards that it holds nothing.
//!
//! Source: <https://github.com/tox-dev/filelock/pull/566>: a paused writer removed its successor's marker on release;
//! <https://github.com/abelaska/jedis-lock/issues/2>: a slow holder's release deleted the key that was another's.
//!
//! It fires on: 10 granted to c1, 11 to c2, c1 releases 10 with `ok`, 12 granted to c3 while c2's lease runs. It is
//! silent where nobody is granted the lock: a late release that is answered `ok` and does nothing is harmless.

use std::collections::BTreeMap;

use super::case::Case;
use super::lease::GivenAway;
use super::overlapping_grant::{left, scenes};
use super::story;
use super::{Draft, RELEASE_OF_OTHERS_LOCK};
use crate::finding::Severity;
use crate::history::Name;

/// One finding a lock.
pub(crate) fn releases_of_others(case: &Case<'_>, given_away: &[GivenAway]) -> Vec<Draft> {
    let mut locks: BTreeMap<(Option<Name>, bool), (u64, GivenAway, usize)> = BTreeMap::new();
    for given in given_away {
        let Some(release) = given.released else {
            continue;
        };
        locks
            .entry((case.operation(given.given).lock, given.proven))
            .and_modify(|known| known.0 += 1)
            .or_insert((1, *given, release));
    }
    locks
        .into_iter()
        .map(|((lock, _), (count, given, release))| {
            describe(case, count, given, release).on(lock, None)
        })
        .collect()
}

fn describe(case: &Case<'_>, count: u64, given: GivenAway, release: usize) -> Draft {
    let mut witness = vec![given.owed, given.last, release, given.given];
    witness.extend(given.afterwards);
    witness.sort_unstable();
    witness.dedup();
    let scenes = scenes(case, &witness);
    let (late, owner) = (case.operation(release), case.operation(given.owed));
    let (late, holder) = (case.text(late.client), case.text(owner.client));
    let mut ending = match given.until {
        Some(until) => format!(
            "That is wrong: {holder} had not given the lock back, and its lease ran for at least another {}. The late release of {late} took it away.",
            left(case, given, until)
        ),
        None => format!(
            "This looks wrong: {holder} had not given the lock back, the lock was free after the late release of {late}, and {holder} was told that it holds nothing. The lease is not known, so it may have lapsed."
        ),
    };
    if count > 1 {
        ending += &format!("\n{count} such releases of this lock were seen in all.");
    }
    let story = story::tell(case.history, scenes, &ending);
    let mut draft = Draft::new(RELEASE_OF_OTHERS_LOCK, count, witness, story);
    if !given.proven {
        draft.severity = Severity::Warning;
    }
    draft
}
