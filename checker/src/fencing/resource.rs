//! `stale-write-accepted`: the resource took a write that it had to refuse.
//!
//! Silent about writes that overlap the proof: an overlap proves nothing.

use std::collections::BTreeMap;

use super::case::Case;
use super::proof::LateWrite;
use super::story::{self, Scene};
use super::{Draft, Place, STALE_WRITE_ACCEPTED};
use crate::history::{Name, Outcome, Token};

/// One finding a key: accepted writes that were invoked after a proof, on their own key and path, of a higher token.
/// What was proven on another key that shares the high water is the business of `partial-fencing`.
pub(crate) fn stale_writes(case: &Case<'_>, late: &[LateWrite]) -> Vec<Draft> {
    let mut keys: BTreeMap<Place, (u64, &LateWrite)> = BTreeMap::new();
    let own = late.iter().filter(|late| late.own);
    for stale in own.filter(|late| case.is_accepted(late.write)) {
        let operation = case.operation(stale.write);
        let place = (case.lock(operation), operation.key);
        keys.entry(place)
            .and_modify(|(count, _)| *count += 1)
            .or_insert((1, stale));
    }
    let describe = |((lock, key), (count, first)): (Place, (u64, &LateWrite))| {
        let witness = witness(case, first);
        let story = tell(case, lock, first, &witness, count);
        Draft::new(STALE_WRITE_ACCEPTED, count, witness, story).on(lock, key)
    };
    keys.into_iter().map(describe).collect()
}

/// The proof, the stale write, and the reads without which either would prove nothing.
fn witness(case: &Case<'_>, stale: &LateWrite) -> Vec<usize> {
    let mut witness = stale.proof.witness(case);
    witness.extend(taken(case, stale.write));
    witness.sort_unstable();
    witness.dedup();
    witness
}

/// An accepted write, with the read that shows it where its answer does not.
pub(crate) fn taken(case: &Case<'_>, write: usize) -> impl Iterator<Item = usize> {
    let unknown = case.operation(write).outcome == Outcome::Unknown;
    let read = case.first_read_of(write).filter(|_| unknown);
    std::iter::once(write).chain(read)
}

fn tell(
    case: &Case<'_>,
    lock: Option<Name>,
    stale: &LateWrite,
    witness: &[usize],
    count: u64,
) -> String {
    let history = case.history;
    let write = case.operation(stale.write);
    let mut scenes: Vec<Scene<'_>> = witness
        .iter()
        .map(|&op| Scene::Happened(case.operation(op)))
        .collect();
    let own = case
        .grants_before(lock, write.token, write)
        .rfind(|grant| grant.client == write.client);
    let proof = case.operation(stale.proof.op);
    let newer = case
        .grants_before(lock, Some(stale.proof.high_water), proof)
        .next_back();
    scenes.extend([own, newer].into_iter().flatten().map(Scene::Granted));
    let since = own.map_or(proof.invoked, |grant| {
        grant.completed.unwrap_or(grant.invoked)
    });
    scenes.extend(story::worker_faults(
        history,
        write.client,
        since,
        write.invoked,
    ));
    scenes.extend(story::resource_faults(
        history,
        proof.invoked,
        write.completed.unwrap_or(write.invoked),
    ));
    story::tell(history, scenes, &ending(case, stale, count))
}

fn ending(case: &Case<'_>, stale: &LateWrite, count: u64) -> String {
    let write = case.operation(stale.write);
    let token = write.token.unwrap_or(Token::ZERO);
    let client = case.text(write.client);
    let how = stale.proof.how();
    let more = if count > 1 {
        format!("\n{count} stale writes were accepted on this key in all.")
    } else {
        String::new()
    };
    format!(
        "That is wrong: {how} before {client} sent its write, so token {token} was stale and had to be refused.{more}"
    )
}

#[cfg(test)]
mod tests {
    use super::super::proof::late_writes;
    use super::*;
    use crate::history::{FaultOutcome, FaultPhase};
    use crate::scenario::Scenario;

    fn findings(scenario: &Scenario) -> Vec<(u64, Vec<u64>, String)> {
        let history = scenario.history();
        let case = Case::new(&history);
        let drafts = stale_writes(&case, &late_writes(&case));
        drafts
            .into_iter()
            .map(|d| (d.count, super::super::events(&case, &d.witness), d.story))
            .collect()
    }

    #[test]
    fn a_write_accepted_after_its_successors_write_is_a_finding_with_its_whole_story() {
        let mut s = Scenario::new();
        s.header().clients.insert("c3".to_owned(), "w2".to_owned());
        s.grant("c3", "L", 41);
        s.fault(
            "zombie",
            FaultPhase::Begin,
            1,
            "w2",
            FaultOutcome::Installed,
        );
        s.wait_ms(1000);
        s.grant("c7", "L", 42);
        let newer = s.write("c7", "L", "k", 42, "c7-1");
        s.fault("zombie", FaultPhase::End, 1, "w2", FaultOutcome::Installed);
        let stale = s.write("c3", "L", "k", 41, "c3-9");
        s.write("c3", "L", "k", 41, "c3-10");
        let [(count, events, story)] = &findings(&s)[..] else {
            panic!("one finding")
        };
        assert_eq!(*count, 2);
        assert_eq!(events, &[newer, stale].concat());
        let expected = "\
c3 was granted token 41 of lock L at +0.0 ms.
w2, which runs c3, was stopped from +1.0 ms until +1.006 s (zombie).
c7 was granted token 42 of lock L at +1.003 s.
c7 wrote \"c7-1\" to key k with token 42, sent at +1.004 s, accepted at +1.005 s.
c3 wrote \"c3-9\" to key k with token 41, sent at +1.007 s, accepted at +1.008 s.
That is wrong: a write with token 42 had been accepted before c3 sent its write, so token 41 was stale and had to be refused.
2 stale writes were accepted on this key in all.";
        assert_eq!(story, expected);
    }

    #[test]
    fn a_write_that_was_on_its_way_before_the_proof_is_no_finding() {
        let mut s = Scenario::new();
        let early = s.write_call("c3", "L", "k", 41, "a");
        s.write("c7", "L", "k", 42, "b");
        s.ok(early);
        s.refused("c3", "L", "k", 41, "c", Some(42));
        assert_eq!(findings(&s), []);
    }

    #[test]
    fn a_lost_stale_write_counts_once_its_value_is_read() {
        let mut s = Scenario::new();
        let newer = s.write("c7", "L", "k", 42, "b");
        let lost = s.write_call("c3", "L", "k", 41, "a");
        let lost = s.info(lost);
        assert_eq!(findings(&s), []);
        let read = s.read("c5", "k", Some("a"), None);
        let [(1, events, _)] = &findings(&s)[..] else {
            panic!("one finding")
        };
        assert_eq!(events, &[newer, lost, read].concat());
    }
}
