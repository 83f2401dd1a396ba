//! `non-atomic-check`: between the resource's look at its mark and its write, another write came in.
//!
//! A write of t overlaps an accepted write of a higher token, and a read that was sent after that one was done returns
//! the value of t. In one atomic step the lower write is either there before the higher one, and then overwritten, or
//! refused.
//!
//! Source: <https://github.com/apache/bookkeeper/pull/4701>: a lock did not cover the check and the append, so that an
//! append passed the fence's test, the fence landed, and the append was applied.
//!
//! It fires on: write 5 is sent, write 6 is sent and accepted, write 5 is accepted, a read returns what 5 wrote. It is
//! silent where the read overlaps the write of 6, and where the read returns what 6 wrote: 5 may have come first.
//!
//! Silent where the higher token was proven before the lower write was sent (that is `stale-write-accepted`), and where
//! the lower write was over before the higher one was sent (`lost-acked-write`).
//!
//! State (`reads.rs`), for each key and path: of the writes that are surely done the one with the highest token; the same for each
//! open read as it was when the read was sent.

use std::collections::BTreeMap;

use super::case::Case;
use super::kinds::Kind;
use super::reads::Reads;
use super::shown::Shown;
use super::story;
use super::{Draft, NON_ATOMIC_CHECK, Place};
use crate::history::{Function, Outcome};

/// A read that shows the lower write on top of the higher one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slipped {
    pub read: usize,
    pub lower: usize,
    pub higher: usize,
}

/// One finding a key.
pub(crate) fn non_atomic_checks(case: &Case<'_>, reads: &Reads<'_>) -> Vec<Draft> {
    let shown = &reads.shown;
    let mut keys: BTreeMap<Place, (u64, Slipped)> = BTreeMap::new();
    for &slipped in &reads.slipped {
        let lower = case.operation(slipped.lower);
        keys.entry((case.lock(lower), lower.key))
            .and_modify(|(count, _)| *count += 1)
            .or_insert((1, slipped));
    }
    keys.into_iter()
        .map(|((lock, key), (count, first))| describe(case, shown, count, first).on(lock, key))
        .collect()
}

/// Whether a read of `lower` on this object, sent when `higher` was surely done, shows that `lower` came on top of it.
pub(crate) fn slips(
    case: &Case<'_>,
    shown: &Shown<'_>,
    lower: usize,
    higher: usize,
    object: usize,
) -> bool {
    if case.kinds[lower].is(Kind::FAILED) {
        return false;
    }
    let write = case.operation(lower);
    write.function == Function::Write
        && case.spots[lower].object as usize == object
        && write.token.is_some()
        && write.token < case.operation(higher).token
        && shown.at(higher) > write.invoked.index
        && !write.precedes(case.operation(higher))
}

fn describe(case: &Case<'_>, shown: &Shown<'_>, count: u64, slipped: Slipped) -> Draft {
    let Slipped {
        read,
        lower,
        higher,
    } = slipped;
    let (low, high) = (case.operation(lower), case.operation(higher));
    let mut witness = vec![lower, higher, read];
    let own = high.outcome == Outcome::Ok && high.precedes(case.operation(read));
    witness.extend((!own).then(|| shown.by(higher)));
    let mut scenes = story::happened(case, &mut witness);
    scenes.extend(story::worker_faults(
        case.history,
        low.client,
        low.invoked,
        case.operation(read).invoked,
    ));
    let (t, h) = (
        low.token.unwrap_or_default(),
        high.token.unwrap_or_default(),
    );
    let mut ending = format!(
        "That is wrong: the write with token {h} was in before the read was sent, so the one with token {t} either came \
         before it and was overwritten, or had to be refused. The check of the token and the write are not one atomic step."
    );
    if count > 1 {
        ending += &format!("\n{count} reads of this key showed such a write in all.");
    }
    let story = story::tell(case.history, scenes, &ending);
    Draft::new(NON_ATOMIC_CHECK, count, witness, story)
}
