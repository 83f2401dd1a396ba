//! `double-writer-in-epoch`: two holders have accepted writes with one token of one lock.
//!
//! For locks without an acquire in the file two holders are two clients, each with a name of its own and no session in
//! common: there nothing tells who went on for whom.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::case::Case;
use super::identity::{Holders, Who, who};
use super::kinds::Kind;
use super::story::{self, MOST, Scene};
use super::{DOUBLE_WRITER_IN_EPOCH, DUPLICATE_TOKEN, Draft, WRITE_WITHOUT_GRANT};
use crate::history::{Name, Token};

/// One finding a lock, counting its epochs with two writers. `duplicated` and `unfounded` are the tokens that were
/// granted twice, or presented without a grant: a double writer follows from either.
pub(crate) fn double_writers(
    case: &Case<'_>,
    holders: &Holders,
    duplicated: &BTreeSet<(Name, Token)>,
    unfounded: &BTreeSet<(Name, Token)>,
) -> Vec<Draft> {
    // Of the writes of each epoch those that another than the one before did: nearly always the first alone.
    let mut epochs: Vec<(Name, Who, Vec<usize>)> = Vec::new();
    let mut places: HashMap<(Name, Token), usize> = HashMap::new();
    // Most writes under a lock go on with the token of the one before.
    let mut last: Vec<Option<(Token, usize)>> = vec![None; case.history.names.count()];
    for (op, operation) in case.of(Kind::WRITE) {
        let (Some(lock), Some(token)) = (case.lock(operation), operation.token) else {
            continue;
        };
        let named = case.is_acquired(lock) || !operation.is_unnamed(&case.history.names);
        if named && case.is_accepted(op) {
            let known = last[lock.position()].filter(|&(before, _)| before == token);
            let place = known.map_or_else(
                || {
                    *places.entry((lock, token)).or_insert_with(|| {
                        epochs.push((lock, who(operation), vec![op]));
                        epochs.len() - 1
                    })
                },
                |(_, place)| place,
            );
            last[lock.position()] = Some((token, place));
            let (_, last_writer, writes) = &mut epochs[place];
            if std::mem::replace(last_writer, who(operation)) != who(operation) {
                writes.push(op);
            }
        }
    }
    let mut locks: BTreeMap<Name, (u64, usize, usize)> = BTreeMap::new();
    let mut pairs: Vec<(Name, usize, usize)> = epochs
        .iter()
        .filter_map(|&(lock, _, ref writes)| {
            holders
                .first_pair(case, lock, writes)
                .filter(|&(first, second, _)| {
                    case.is_acquired(lock) || are_apart(case, first, second)
                })
                .map(|(first, second, _)| (lock, first, second))
        })
        .collect();
    pairs.sort_unstable_by_key(|&(_, _, second)| second);
    for (lock, first, second) in pairs {
        locks
            .entry(lock)
            .and_modify(|known| known.0 += 1)
            .or_insert((1, first, second));
    }
    locks
        .into_iter()
        .map(|(lock, (count, first, second))| {
            let epoch = case.operation(first).token.map(|token| (lock, token));
            let mut draft = describe(case, holders, lock, count, first, second);
            draft.causes = match epoch {
                Some(epoch) if duplicated.contains(&epoch) => vec![DUPLICATE_TOKEN.name],
                Some(epoch) if unfounded.contains(&epoch) => vec![WRITE_WITHOUT_GRANT.name],
                _ => Vec::new(),
            };
            draft
        })
        .collect()
}

/// Clients that are not one's incarnations: a restarted worker's are `c3~2`, `c3~3`.
fn are_apart(case: &Case<'_>, first: usize, second: usize) -> bool {
    let base = |op: usize| {
        let name = case.history.names.text(case.operation(op).client);
        name.split('~').next().unwrap_or(name)
    };
    base(first) != base(second)
}

fn describe(
    case: &Case<'_>,
    holders: &Holders,
    lock: Name,
    count: u64,
    first: usize,
    second: usize,
) -> Draft {
    let (one, two) = (case.operation(first), case.operation(second));
    let grants = case.grants_before(Some(lock), one.token, two).take(MOST);
    let mut scenes: Vec<Scene<'_>> = grants.map(Scene::Granted).collect();
    scenes.extend([Scene::Happened(one), Scene::Happened(two)]);
    let mut witness = vec![first, second];
    for write in [first, second] {
        if case.operation(write).returned().is_none() {
            witness.extend(case.first_read_of(write));
        }
    }
    witness.extend(holders.evidence(lock, one, two));
    let mut ending = "That is wrong: an epoch has one writer; a fence that compares numbers cannot keep two holders of one token apart.".to_owned();
    if one.client == two.client {
        ending += &format!(
            "\nBoth go by the name {}: one is process {}, the other process {}; each was granted the lock for itself, and they were there at the same time.",
            case.text(one.client),
            one.process,
            two.process
        );
    }
    let story = story::tell(case.history, scenes, &ending);
    let key = one.key.filter(|_| one.key == two.key);
    Draft::new(DOUBLE_WRITER_IN_EPOCH, count, witness, story).on(Some(lock), key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn findings(scenario: &Scenario) -> Vec<(u64, Vec<u64>)> {
        let history = scenario.history();
        let case = Case::new(&history);
        let none = BTreeSet::new();
        let drafts = double_writers(&case, &Holders::new(&case), &none, &none);
        drafts
            .into_iter()
            .map(|d| (d.count, super::super::events(&case, &d.witness)))
            .collect()
    }

    #[test]
    fn two_clients_with_accepted_writes_under_one_token_are_a_finding() {
        let mut s = Scenario::new();
        s.grant("c1", "L", 6);
        s.grant("c2", "L", 6);
        let one = s.write("c1", "L", "k", 6, "a");
        let two = s.write("c2", "L", "k", 6, "b");
        assert_eq!(findings(&s), [(1, [one, two].concat())]);
    }

    #[test]
    fn threads_of_one_client_its_next_process_and_a_refused_stranger_are_not() {
        let mut s = Scenario::new();
        s.grant("c1", "L", 6);
        let (one, two) = (
            s.write_call("c1", "L", "k", 6, "a"),
            s.write_call("c1", "L", "k", 6, "b"),
        );
        s.ok(one);
        s.info(two);
        s.write("c1", "L", "k", 6, "c");
        s.refused("c2", "L", "k", 6, "d", Some(7));
        s.grant("c3", "M", 6);
        s.write("c3", "M", "m", 6, "e");
        assert_eq!(findings(&s), []);
    }

    #[test]
    fn two_processes_of_one_client_are_told_apart_in_the_story() {
        let mut s = Scenario::new();
        let (first, second) = (s.acquire_call("c1", "L"), s.acquire_call("c1", "L"));
        s.granted(first, 6);
        s.granted(second, 6);
        let (one, two) = (
            s.write_call("c1", "L", "k", 6, "a"),
            s.write_call("c1", "L", "k", 6, "b"),
        );
        s.ok(one);
        s.ok(two);
        let history = s.history();
        let case = Case::new(&history);
        let none = BTreeSet::new();
        let drafts = double_writers(&case, &Holders::new(&case), &none, &none);
        let [draft] = &drafts[..] else {
            panic!("one finding: {drafts:?}")
        };
        let named = |process: u64| draft.story.contains(&format!("process {process}"));
        assert!(named(1) && named(2), "{}", draft.story);
    }

    #[test]
    fn without_an_acquire_in_the_file_two_names_are_two_holders() {
        let mut s = Scenario::new();
        s.write("c1", "L", "k", 6, "a");
        s.write("c1~2", "L", "k", 6, "b");
        assert_eq!(findings(&s), []);
        let two = s.write("c1", "M", "m", 6, "c");
        let three = s.write("c2", "M", "m", 6, "d");
        assert_eq!(findings(&s), [(1, [two, three].concat())]);
    }
}
