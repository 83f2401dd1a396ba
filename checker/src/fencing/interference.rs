//! `cross-key-interference`: what happens under one lock is felt under another.
//!
//! At the resource: a refusal names h; before it returned no write of h had been sent on a key of this lock and no
//! grant of h was known for it, but a key of another lock had h. At the lock service: an acquire is refused as held
//! while no acquire of that lock was ok, unknown or open, but one other lock was held all the time, and it succeeds
//! after that one's release.
//!
//! Source: <https://github.com/spring-projects/spring-integration/issues/11157>: locks for unrelated keys (0 and 641)
//! shared one slot; lock names cut to 32 bits (<https://github.com/symfony/symfony/issues/58838>).
//!
//! It fires on: key `a` of lock A accepts 9, key `b` of lock B refuses 3 and names 9. It is silent where 9 was granted
//! for B or presented on a key of B as well: tokens are counted by each lock, so equal ones are no sign.
//!
//! A lock that is refused as held once, or around whose success several other locks were released, proves nothing: it
//! may have been held by somebody of whom the file does not tell.
//!
//! State: refusals that name a mark which nothing under their lock explains (`raises.rs`); for those marks alone, who
//! presented them. For each lock: its refused acquires up to the first that was not; holds of the others.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};

use super::case::Case;
use super::kinds::Kind;
use super::story::{self, Scene};
use super::{CROSS_KEY_INTERFERENCE, Draft, Place};
use crate::history::{Function, Name, Outcome, Token};

/// How many refusals make it a row.
const ENOUGH: usize = 2;

/// A refusal that names another lock's mark, and the accepted write which made that.
#[derive(Clone, Copy, Debug)]
struct Strayed {
    refusal: usize,
    write: usize,
}

/// One finding a key; and the refusals that are explained so. `unexplained` are reports of marks which nothing under
/// their lock explains. O(n).
pub(crate) fn strayed_marks(
    case: &Case<'_>,
    unexplained: &[usize],
) -> (Vec<Draft>, HashSet<usize>) {
    let strayed = strayed(case, unexplained);
    let explained = strayed.iter().map(|strayed| strayed.refusal).collect();
    let mut keys: BTreeMap<Place, (u64, Strayed)> = BTreeMap::new();
    for strayed in strayed {
        let refusal = case.operation(strayed.refusal);
        keys.entry((case.lock(refusal), refusal.key))
            .and_modify(|(count, _)| *count += 1)
            .or_insert((1, strayed));
    }
    let drafts = keys
        .into_iter()
        .map(|((lock, key), (count, first))| describe_strayed(case, count, first).on(lock, key))
        .collect();
    (drafts, explained)
}

fn strayed(case: &Case<'_>, unexplained: &[usize]) -> Vec<Strayed> {
    let candidates: Vec<(usize, Name, Token)> = unexplained
        .iter()
        .filter_map(|&op| {
            let refusal = case.operation(op);
            let named = refusal.high_water.filter(|_| case.is_refusal(refusal))?;
            let lock = case.lock(refusal)?;
            (Some(named) > refusal.token).then_some((op, lock, named))
        })
        .collect();
    if candidates.is_empty() {
        return Vec::new();
    }
    // For each mark in question: when it was first presented under which lock, and by which accepted write.
    let mut presented: HashMap<Token, BTreeMap<Name, (u64, Option<usize>)>> = candidates
        .iter()
        .map(|&(_, _, named)| (named, BTreeMap::new()))
        .collect();
    for (op, operation) in case.history.operations.iter().enumerate() {
        let (Some(token), true) = (operation.token, Case::is_fenced_write(operation)) else {
            continue;
        };
        let (Some(locks), Some(lock)) = (presented.get_mut(&token), case.lock(operation)) else {
            continue;
        };
        let first = locks.entry(lock).or_insert((operation.invoked.index, None));
        if first.1.is_none() && operation.outcome == Outcome::Ok {
            first.1 = Some(op);
        }
    }
    candidates
        .iter()
        .filter_map(|&(refusal, lock, named)| {
            let returned = case.operation(refusal).returned()?.index;
            let locks = presented.get(&named)?;
            if locks.get(&lock).is_some_and(|&(sent, _)| sent < returned) {
                return None;
            }
            let write = locks
                .iter()
                .filter(|&(&other, _)| other != lock)
                .filter_map(|(_, &(_, write))| write)
                .find(|&write| case.operation(write).invoked.index < returned)?;
            Some(Strayed { refusal, write })
        })
        .collect()
}

fn describe_strayed(case: &Case<'_>, count: u64, strayed: Strayed) -> Draft {
    let (refusal, write) = (
        case.operation(strayed.refusal),
        case.operation(strayed.write),
    );
    let text = |name: Option<Name>| name.map_or_else(|| "(unnamed)".into(), |name| case.text(name));
    let witness = vec![strayed.write, strayed.refusal];
    let scenes = vec![Scene::Happened(write), Scene::Happened(refusal)];
    let mut ending = format!(
        "That is wrong: token {} belongs to lock {}, and nobody had presented or been granted it under lock {}. The high water of one has been used for the other.",
        write.token.unwrap_or_default(),
        text(case.lock(write)),
        text(case.lock(refusal)),
    );
    if count > 1 {
        ending += &format!("\n{count} such refusals were seen on this key in all.");
    }
    let story = story::tell(case.history, scenes, &ending);
    Draft::new(CROSS_KEY_INTERFERENCE, count, witness, story)
}

// ------------------------------------------------------------------------------------------- at the lock service

/// A lock that was refused as held by nobody, until it was granted.
#[derive(Debug, Default)]
struct Shut {
    refusals: Vec<usize>,
    /// The first acquire that was not refused as held.
    then: Option<usize>,
}

/// One finding a lock that was free by all that the file tells, and was given only after another one's release.
/// O(n log n).
pub(crate) fn shared_slots(case: &Case<'_>) -> Vec<Draft> {
    let Some(held) = case.history.names.find("held") else {
        return Vec::new();
    };
    let mut locks: BTreeMap<Name, Shut> = BTreeMap::new();
    for (op, operation) in case.of(Kind::ACQUIRE) {
        let (Function::Acquire, Some(lock)) = (operation.function, operation.lock) else {
            continue;
        };
        let shut = locks.entry(lock).or_default();
        if shut.then.is_some() {
            continue;
        }
        if operation.outcome == Outcome::Failed && operation.error == Some(held) {
            shut.refusals.push(op);
        } else if operation.outcome != Outcome::Failed {
            shut.then = Some(op);
        }
    }
    locks.retain(|_, shut| {
        shut.refusals.len() >= ENOUGH
            && shut
                .then
                .is_some_and(|then| Case::is_grant(case.operation(then)))
    });
    if locks.is_empty() {
        return Vec::new();
    }
    let releases = releases(case);
    locks
        .into_iter()
        .filter_map(|(lock, shut)| {
            Some(describe_slot(case, lock, &shut, &releases)?.on(Some(lock), None))
        })
        .collect()
}

/// Releases answered `ok`, by when they were sent.
fn releases(case: &Case<'_>) -> Vec<usize> {
    let releases = case.of(Kind::RELEASE);
    releases
        .filter(|(_, release)| release.outcome == Outcome::Ok)
        .map(|(op, _)| op)
        .collect()
}

fn describe_slot(case: &Case<'_>, lock: Name, shut: &Shut, releases: &[usize]) -> Option<Draft> {
    let then = shut.then?;
    let (&first, &last) = (shut.refusals.first()?, shut.refusals.last()?);
    let granted = case.operation(then);
    let refused = shut
        .refusals
        .iter()
        .filter_map(|&op| case.operation(op).returned());
    let refused_until = refused.map(|at| at.index).max()?;
    if refused_until > granted.invoked.index {
        return None;
    }
    // Of all releases between the last refusal and the grant there is one, of a hold that spans all refusals.
    let from = releases.partition_point(|&op| case.operation(op).invoked.index < refused_until);
    let mut between = releases[from..].iter().copied().take_while(|&op| {
        case.operation(op).invoked.index < granted.completed.map_or(u64::MAX, |at| at.index)
    });
    let (release, None) = (between.next()?, between.next()) else {
        return None;
    };
    let freed = case.operation(release);
    let other = freed.lock.filter(|&other| other != lock)?;
    if freed.invoked.index > granted.invoked.index {
        return None;
    }
    let hold = case
        .grants_of(other, freed.token?)
        .rfind(|grant| grant.client == freed.client && grant.precedes(freed))?;
    if !hold.precedes(case.operation(first)) {
        return None;
    }
    let grant = case
        .history
        .operations
        .partition_point(|operation| operation.invoked < hold.invoked);
    let mut witness = vec![grant, first, last, release, then];
    let scenes = story::happened(case, &mut witness);
    let count = shut.refusals.len() as u64;
    let ending = format!(
        "That is wrong: lock {} was refused as held {count} times while nobody held or wanted it, for as long as lock {} was held. The two share a slot.",
        case.text(lock),
        case.text(other),
    );
    let story = story::tell(case.history, scenes, &ending);
    Some(Draft::new(CROSS_KEY_INTERFERENCE, count, witness, story))
}
