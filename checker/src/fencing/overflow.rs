//! `token-overflow`: a token went past the width in which somebody keeps it.
//!
//! At the issuer: a grant that went back, or came twice, is a wrap or a rounding at a width (2^15, 2^31, 2^32, 2^53,
//! 2^63): the token before was within d of the limit, and the next is that plus d, modulo the width; d is at most 16
//! and one for each acquire sent between. At the resource: it tells a mark that is a presented token so distorted. An
//! issuer that says `token-exhausted` stops in time: a warning.
//!
//! Source: <https://github.com/python-zk/kazoo/issues/730> (after 2147483647 came -2147483648);
//! <https://github.com/apache/kafka/pull/8239> (an epoch of 15 bits, used up).
//!
//! It fires on: 2147483647, then -2147483648. It is silent on 900, then 412: that is a rollback.
//!
//! State: for each lock the number of acquires sent so far; regressions and duplicates come from `issuer.rs`, distorted
//! marks from `proof.rs`.

use std::collections::BTreeMap;

use super::case::Case;
use super::issuer::Regression;
use super::kinds::Kind;
use super::story::{self, Scene};
use super::width::{self, Width};
use super::{Draft, Place, TOKEN_OVERFLOW};
use crate::finding::Severity;
use crate::history::{Function, Name, Outcome, Token};

/// Steps that may be missing without anybody having asked.
pub(crate) const SPARE: i128 = 16;

/// Two grants of a lock, the later of which is not above the earlier.
pub(crate) type Pair = (Name, usize, usize);

/// One finding a lock whose issuer wrapped or rounded, one a key whose resource did, one warning a lock that is used
/// up. `duplicates` are pairs of grants of one token. O(n).
pub(crate) fn overflows(
    case: &Case<'_>,
    regressions: &[Regression],
    duplicates: &[Pair],
    distorted: &[(usize, usize)],
) -> Vec<Draft> {
    let back = regressions
        .iter()
        .map(|regression| (regression.lock, regression.higher, regression.lower));
    let pairs: Vec<Pair> = back.chain(duplicates.iter().copied()).collect();
    let mut drafts = at_the_issuer(case, &pairs);
    drafts.extend(at_the_resource(case, distorted));
    drafts.extend(exhausted(case));
    drafts
}

fn at_the_issuer(case: &Case<'_>, pairs: &[Pair]) -> Vec<Draft> {
    // Most files have no such pair, and then nothing is counted.
    if pairs.is_empty() {
        return Vec::new();
    }
    let asked = acquires_before(case);
    let mut locks: BTreeMap<Name, (u64, usize, usize, Width)> = BTreeMap::new();
    for &(lock, before, after) in pairs {
        let (Some(previous), Some(next)) =
            (case.operation(before).token, case.operation(after).token)
        else {
            continue;
        };
        let between = i128::from(asked[after].abs_diff(asked[before]));
        let Some(width) = width::wraps_after(previous, next, SPARE + between) else {
            continue;
        };
        locks
            .entry(lock)
            .and_modify(|known| {
                known.0 += 1;
                if after < known.2 {
                    (known.1, known.2, known.3) = (before, after, width);
                }
            })
            .or_insert((1, before, after, width));
    }
    locks
        .into_iter()
        .map(|(lock, (count, before, after, width))| {
            let (one, two) = (case.operation(before), case.operation(after));
            let ending = format!(
                "That is wrong: a counter that {} at {} started over; it did not fall back to an earlier state. No later holder can be told from a stale one until it has counted up again.",
                width.verb(),
                width.text(),
            );
            let scenes = vec![Scene::Asked(one), Scene::Asked(two)];
            let story = story::tell(case.history, scenes, &ending);
            Draft::new(TOKEN_OVERFLOW, count, vec![before, after], story).on(Some(lock), None)
        })
        .collect()
}

/// For each acquire and renewal how many acquires of its lock were sent before it.
fn acquires_before(case: &Case<'_>) -> Vec<u32> {
    let mut so_far = vec![0_u32; case.history.names.count()];
    let mut before = vec![0; case.history.operations.len()];
    for (op, operation) in case.of(Kind::ACQUIRE.or(Kind::RENEW)) {
        if let Some(lock) = case.lock_place(op) {
            before[op] = so_far[lock];
            so_far[lock] += u32::from(operation.function == Function::Acquire);
        }
    }
    before
}

fn at_the_resource(case: &Case<'_>, distorted: &[(usize, usize)]) -> Vec<Draft> {
    let mut keys: BTreeMap<Place, (u64, usize, usize)> = BTreeMap::new();
    for &(report, write) in distorted {
        let operation = case.operation(report);
        if was_granted_itself(case, report, write) {
            continue;
        }
        keys.entry((case.lock(operation), operation.key))
            .and_modify(|known| known.0 += 1)
            .or_insert((1, report, write));
    }
    keys.into_iter()
        .filter_map(|((lock, key), (count, report, write))| {
            let (told, written) = (case.operation(report), case.operation(write));
            let width = width::distorts(written.token?, told.high_water?)?;
            let mut witness: Vec<usize> = super::resource::taken(case, write).collect();
            witness.push(report);
            let scenes = story::happened(case, &mut witness);
            let ending = format!(
                "That is wrong: high water {} is token {} kept in a number that {} at {}. Higher tokens will not be told from lower ones.",
                told.high_water?,
                written.token?,
                width.verb(),
                width.text(),
            );
            let story = story::tell(case.history, scenes, &ending);
            Some(Draft::new(TOKEN_OVERFLOW, count, witness, story).on(lock, key))
        })
        .collect()
}

/// The mark may be a token of its own: it was granted, or an acquire whose answer nobody knows was sent when only lower
/// ones were known. Not so if the write was in before the report was asked for, or is the report: then the mark fell.
fn was_granted_itself(case: &Case<'_>, report: usize, write: usize) -> bool {
    let told = case.operation(report);
    let (Some(mark), Some(returned), Some(lock)) =
        (told.high_water, told.returned(), case.lock(told))
    else {
        return false;
    };
    if report == write || case.operation(write).precedes(told) {
        return false;
    }
    let granted = case
        .grants_of(lock, mark)
        .any(|grant| grant.invoked < returned);
    granted
        || case.of(Kind::ACQUIRE).any(|(_, acquire)| {
            acquire.outcome == Outcome::Unknown
                && acquire.lock == Some(lock)
                && acquire.invoked < returned
                && known_before(case, lock, acquire.invoked.index) < Some(mark)
        })
}

/// The highest token of a lock that was known to be granted.
fn known_before(case: &Case<'_>, lock: Name, index: u64) -> Option<Token> {
    case.of(Kind::ACQUIRE)
        .filter(|(_, grant)| {
            grant.lock == Some(lock)
                && Case::is_grant(grant)
                && grant.completed.is_some_and(|at| at.index < index)
        })
        .filter_map(|(_, grant)| grant.token)
        .max()
}

/// Acquires that were answered `token-exhausted`: a warning a lock.
fn exhausted(case: &Case<'_>) -> Vec<Draft> {
    let Some(error) = case.history.names.find("token-exhausted") else {
        return Vec::new();
    };
    let mut locks: BTreeMap<Name, (u64, usize)> = BTreeMap::new();
    for (op, operation) in case.of(Kind::ACQUIRE) {
        let exhausted = operation.function == Function::Acquire
            && operation.outcome == Outcome::Failed
            && operation.error == Some(error);
        if let Some(lock) = operation.lock.filter(|_| exhausted) {
            locks
                .entry(lock)
                .and_modify(|known| known.0 += 1)
                .or_insert((1, op));
        }
    }
    locks
        .into_iter()
        .map(|(lock, (count, first))| {
            let ending = format!(
                "The lock service has no token left for lock {}: nobody can be granted it any more, and nobody can fence out whoever holds the last one.",
                case.text(lock)
            );
            let scenes = vec![Scene::Happened(case.operation(first))];
            let story = story::tell(case.history, scenes, &ending);
            let mut draft = Draft::new(TOKEN_OVERFLOW, count, vec![first], story);
            draft.severity = Severity::Warning;
            draft.on(Some(lock), None)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::proof::proofs;
    use super::*;
    use crate::scenario::Scenario;

    fn overflowed(s: &Scenario) -> usize {
        let history = s.history();
        let case = Case::new(&history);
        overflows(&case, &[], &[], &proofs(&case).distorted).len()
    }

    #[test]
    fn a_mark_that_a_lost_acquire_may_have_been_granted_is_no_rounded_one() {
        let exact = 1_u64 << 53;
        let told_during_the_write = |lost: bool| {
            let mut s = Scenario::new();
            s.grant("c1", "L", exact - 1);
            if lost {
                let acquire = s.acquire_call("c2", "L");
                s.info(acquire);
            }
            s.grant("c3", "L", exact + 1);
            let write = s.write_call("c3", "L", "k", exact + 1, "a");
            let early = s.read_call("c4", "k");
            let reader = s.read_call("c5", "k");
            s.found(early, Some("a"), None);
            s.found(reader, None, Some(exact));
            s.ok(write);
            s
        };
        assert_eq!(overflowed(&told_during_the_write(false)), 1);
        assert_eq!(overflowed(&told_during_the_write(true)), 0);
        // Whoever asks once the write is in is told less than it proved.
        let mut s = told_during_the_write(true);
        s.read("c5", "k", Some("a"), Some(exact));
        assert_eq!(overflowed(&s), 1);
    }
}
