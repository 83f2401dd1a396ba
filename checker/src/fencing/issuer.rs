//! `token-regression` and `duplicate-token`: the lock service gave a token out of order, or twice.
//!
//! Silent about grants that overlap: whichever answer came first, the service may have decided in the other order.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::{HashMap, HashSet};

use super::case::Case;
use super::identity::Holders;
use super::kinds::Kind;
use super::overflow::Pair;
use super::story::{self, MOST, Scene};
use super::{DUPLICATE_TOKEN, Draft, TOKEN_OVERFLOW, TOKEN_REGRESSION};
use crate::finding::Severity;
use crate::history::{Function, Name, Outcome, Token};

/// A grant that was asked for after a grant of a higher token was known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Regression {
    pub lock: Name,
    pub higher: usize,
    pub lower: usize,
}

/// All regressions, in the order of the lower grants' answers. O(n).
pub(crate) fn regressions(case: &Case<'_>) -> Vec<Regression> {
    let mut highest: HashMap<Name, usize> = HashMap::new();
    let mut known_when_asked: HashMap<usize, usize> = HashMap::new();
    let mut regressions = Vec::new();
    for moment in case.walk(Kind::ACQUIRE.or(Kind::RENEW)) {
        let operation = case.operation(moment.op);
        // A renewal tells that its token had been granted.
        let renews = operation.function == Function::Renew && operation.outcome == Outcome::Ok;
        let renews = renews && operation.token.is_some() && moment.returns;
        let (Some(lock), true) = (operation.lock, Case::is_grant(operation) || renews) else {
            continue;
        };
        let known = highest.get(&lock).copied();
        if !moment.returns {
            known_when_asked.extend(known.map(|known| (moment.op, known)));
            continue;
        }
        let token = |op: usize| case.operation(op).token;
        if let Some(higher) = known_when_asked
            .remove(&moment.op)
            .filter(|&known| token(known) > operation.token)
        {
            regressions.push(Regression {
                lock,
                higher,
                lower: moment.op,
            });
        }
        if known.is_none_or(|known| token(known) < operation.token) {
            highest.insert(lock, moment.op);
        }
    }
    regressions
}

/// One finding a lock, with the holders that were refused because of its first regression.
pub(crate) fn describe_regressions(case: &Case<'_>, regressions: &[Regression]) -> Vec<Draft> {
    let mut locks: BTreeMap<Name, Vec<Regression>> = BTreeMap::new();
    for &regression in regressions {
        locks.entry(regression.lock).or_default().push(regression);
    }
    let mut refused = refused_holders(case, &locks);
    let describe = |(lock, all): (Name, Vec<Regression>)| {
        let refused = refused.remove(&lock).unwrap_or_default();
        let story = tell_regression(case, &all, &refused);
        let witness = vec![all[0].higher, all[0].lower];
        let mut draft = Draft::new(TOKEN_REGRESSION, all.len() as u64, witness, story);
        draft.causes = vec![TOKEN_OVERFLOW.name];
        draft.on(Some(lock), None)
    };
    locks.into_iter().map(describe).collect()
}

/// The first regression and those that came right after it: the service counts up again, still below the same grant.
fn first_run<'a>(case: &'a Case<'_>, all: &'a [Regression]) -> &'a [Regression] {
    let token = |regression: &Regression| case.operation(regression.lower).token;
    let goes_on =
        |pair: &[Regression]| pair[0].higher == pair[1].higher && token(&pair[0]) < token(&pair[1]);
    let steps = all.windows(2).take_while(|pair| goes_on(pair)).count();
    &all[..=steps]
}

/// For each lock the refused writes under grants of its first run of regressions, each with its grant.
fn refused_holders(
    case: &Case<'_>,
    locks: &BTreeMap<Name, Vec<Regression>>,
) -> HashMap<Name, Vec<(usize, usize)>> {
    let mut grants: HashMap<(Name, Name, Option<Token>), usize> = HashMap::new();
    for regression in locks.values().flat_map(|all| first_run(case, all)) {
        let grant = case.operation(regression.lower);
        grants.insert(
            (regression.lock, grant.client, grant.token),
            regression.lower,
        );
    }
    let mut refused: HashMap<Name, Vec<(usize, usize)>> = HashMap::new();
    for (op, operation) in case.of(Kind::REFUSAL) {
        let Some(lock) = case.lock(operation).filter(|_| case.is_refusal(operation)) else {
            continue;
        };
        let Some(&grant) = grants.get(&(lock, operation.client, operation.token)) else {
            continue;
        };
        // The same client may have been granted the same token before, or again after another restart.
        let newest = case
            .grants_before(Some(lock), operation.token, operation)
            .rfind(|grant| grant.client == operation.client);
        if newest.is_some_and(|newest| newest.invoked == case.operation(grant).invoked) {
            refused.entry(lock).or_default().push((grant, op));
        }
    }
    refused
}

fn tell_regression(case: &Case<'_>, all: &[Regression], refused: &[(usize, usize)]) -> String {
    let first = all[0];
    let (higher, lower) = (case.operation(first.higher), case.operation(first.lower));
    let known = match higher.function {
        Function::Acquire => Scene::Granted(higher),
        _ => Scene::Happened(higher),
    };
    let mut scenes = vec![known, Scene::Asked(lower)];
    let until = lower.completed.unwrap_or(lower.invoked);
    scenes.extend(story::lock_service_faults(
        case.history,
        higher.completed.unwrap_or(higher.invoked),
        until,
    ));
    let shown = &refused[..refused.len().min(MOST)];
    let mut told = vec![first.lower];
    for &(grant, write) in shown {
        if !told.contains(&grant) {
            told.push(grant);
            scenes.push(Scene::Granted(case.operation(grant)));
        }
        scenes.push(Scene::RefusedHolder(case.operation(write)));
    }
    let mut ending = String::new();
    if refused.len() > shown.len() {
        ending += &format!(
            "(And {} more such refusals.)\n",
            refused.len() - shown.len()
        );
    }
    ending += "That is wrong: a later grant must carry a higher token, or its rightful holder is taken for a stale \
               one and a stale one for rightful.";
    if all.len() > 1 {
        ending += &format!("\n{} grants of this lock went back in all.", all.len());
    }
    story::tell(case.history, scenes, &ending)
}

/// Grants of one token of one lock.
#[derive(Debug, Default)]
struct Issue {
    grants: Vec<usize>,
    releases: Vec<usize>,
    /// Grants of a holder that had given this token back before it asked again: how many grants and releases were
    /// before it.
    again: Vec<(usize, usize)>,
}

/// Tokens that were granted twice.
#[derive(Debug, Default)]
pub(crate) struct Duplicates {
    /// One finding a lock for tokens of two holders, one warning a lock for tokens given to their holder again.
    pub drafts: Vec<Draft>,
    /// The two grants of each.
    pub pairs: Vec<Pair>,
    /// The tokens of two holders.
    pub tokens: BTreeSet<(Name, Token)>,
}

/// What was granted twice. O(n).
pub(crate) fn duplicates(
    case: &Case<'_>,
    holders: &Holders,
    regressions: &[Regression],
) -> Duplicates {
    let regressed: HashSet<usize> = regressions
        .iter()
        .map(|regression| regression.lower)
        .collect();
    let mut shared: BTreeMap<Name, (u64, Vec<usize>)> = BTreeMap::new();
    let mut again: BTreeMap<Name, (u64, Vec<usize>)> = BTreeMap::new();
    let mut duplicated = BTreeSet::new();
    let mut issues: Vec<_> = issues(case)
        .into_iter()
        .filter(|(_, issue)| issue.grants.len() > 1)
        .collect();
    issues.sort_unstable_by_key(|(_, issue)| issue.grants[1]);
    for ((lock, token), issue) in issues {
        if let Some((first, second, count)) = holders.first_pair(case, lock, &issue.grants) {
            duplicated.insert((lock, token));
            shared
                .entry(lock)
                .and_modify(|known| known.0 += count)
                .or_insert_with(|| {
                    let (one, two) = (case.operation(first), case.operation(second));
                    let mut witness = vec![first];
                    witness.extend(holders.evidence(lock, one, two));
                    witness.retain(|&op| op != second);
                    witness.push(second);
                    (count, witness)
                });
        } else if let Some(&(grants, releases)) = issue.again.first() {
            let count = issue.again.len() as u64;
            again
                .entry(lock)
                .and_modify(|known| known.0 += count)
                .or_insert_with(|| {
                    let mut witness = issue.grants[..grants].to_vec();
                    witness.extend(&issue.releases[..releases]);
                    witness.push(issue.grants[grants]);
                    (count, witness)
                });
        }
    }
    let draft = |lock: Name, count: u64, witness: Vec<usize>, ending: &str| {
        let (first, second) = (witness[0], witness[witness.len() - 1]);
        let scenes = [first, second].map(|op| Scene::Asked(case.operation(op)));
        let (before, after) = (case.operation(first), case.operation(second));
        let mut scenes = scenes.to_vec();
        scenes.extend(story::lock_service_faults(
            case.history,
            before.invoked,
            after.completed.unwrap_or(after.invoked),
        ));
        let mut draft = Draft::new(
            DUPLICATE_TOKEN,
            count,
            witness,
            story::tell(case.history, scenes, ending),
        );
        draft.causes = vec![TOKEN_OVERFLOW.name];
        if regressed.contains(&second) {
            draft.causes.push(TOKEN_REGRESSION.name);
        }
        draft.on(Some(lock), None)
    };
    let all = || shared.iter().chain(&again);
    let pairs = all().map(|(&lock, (_, witness))| (lock, witness[0], witness[witness.len() - 1]));
    let pairs = pairs.collect();
    let mut drafts: Vec<Draft> = Vec::new();
    for (lock, (count, witness)) in shared {
        let ending = "That is wrong: two holders have one token, so no fence can tell them apart.";
        drafts.push(draft(lock, count, witness, ending));
    }
    for (lock, (count, witness)) in again {
        let ending = "The holder had given this token back before: what it did under the first hold and under the second \
                      cannot be told apart.";
        let mut warning = draft(lock, count, witness, ending);
        warning.severity = Severity::Warning;
        drafts.push(warning);
    }
    Duplicates {
        drafts,
        pairs,
        tokens: duplicated,
    }
}

fn issues(case: &Case<'_>) -> HashMap<(Name, Token), Issue> {
    let mut issues: HashMap<(Name, Token), Issue> = HashMap::new();
    // An acquire without a certain answer may have been one more hold of any token of its client.
    let mut uncertain: HashSet<(Name, Name)> = HashSet::new();
    for moment in case.walk(Kind::ACQUIRE.or(Kind::RELEASE)) {
        let operation = case.operation(moment.op);
        let Some(lock) = operation.lock else { continue };
        match (operation.function, operation.outcome, operation.token) {
            (Function::Acquire, Outcome::Unknown, _) => {
                uncertain.insert((lock, operation.client));
            }
            (Function::Acquire, Outcome::Ok, Some(token)) if !moment.returns => {
                let issue = issues.entry((lock, token)).or_default();
                let given_back =
                    issue.releases.len() >= issue.grants.len() && !issue.grants.is_empty();
                if given_back && !uncertain.contains(&(lock, operation.client)) {
                    issue.again.push((issue.grants.len(), issue.releases.len()));
                }
                issue.grants.push(moment.op);
            }
            (Function::Release, Outcome::Ok, Some(token)) if moment.returns => {
                let issue = issues.entry((lock, token)).or_default();
                issue.releases.push(moment.op);
            }
            _ => {}
        }
    }
    issues
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{FaultOutcome, FaultPhase};
    use crate::scenario::Scenario;

    fn regressed(scenario: &Scenario) -> Vec<(u64, Vec<u64>, String)> {
        let history = scenario.history();
        let case = Case::new(&history);
        let drafts = describe_regressions(&case, &regressions(&case));
        drafts
            .into_iter()
            .map(|d| (d.count, super::super::events(&case, &d.witness), d.story))
            .collect()
    }

    fn duplicated(scenario: &Scenario) -> Vec<(Severity, u64, Vec<u64>)> {
        let history = scenario.history();
        let case = Case::new(&history);
        let drafts = duplicates(&case, &Holders::new(&case), &[]).drafts;
        drafts
            .into_iter()
            .map(|d| (d.severity, d.count, super::super::events(&case, &d.witness)))
            .collect()
    }

    #[test]
    fn a_lower_token_after_a_restart_is_a_regression_that_shows_who_was_refused() {
        let mut s = Scenario::new();
        s.grant("c9", "L", 3);
        let higher = s.grant("c1", "L", 17);
        s.write("c1", "L", "k", 17, "a");
        s.fault(
            "kill",
            FaultPhase::Begin,
            1,
            "lock",
            FaultOutcome::Installed,
        );
        s.fault("kill", FaultPhase::End, 1, "lock", FaultOutcome::Installed);
        let lower = s.grant("c4", "L", 1);
        s.refused("c4", "L", "k", 1, "b", Some(17));
        s.grant("c5", "L", 18);
        let [(count, events, story)] = &regressed(&s)[..] else {
            panic!("one finding")
        };
        assert_eq!(*count, 1);
        assert_eq!(events, &[higher, lower].concat());
        let expected = "\
c1 was granted token 17 of lock L at +0.0 ms.
The lock service was killed at +3.0 ms and was back at +4.0 ms.
c4 asked for lock L at +5.0 ms and was granted token 1 at +6.0 ms.
c4 held the new token 1 and was refused at +8.0 ms, high water 17.
That is wrong: a later grant must carry a higher token, or its rightful holder is taken for a stale one and a stale one for rightful.";
        assert_eq!(story, expected);
    }

    #[test]
    fn whoever_is_shown_as_refused_is_shown_with_a_grant_of_the_first_run() {
        let mut s = Scenario::new();
        s.grant("c1", "L", 17);
        s.write("c1", "L", "k", 17, "a");
        s.grant("c4", "L", 1);
        s.refused("c4", "L", "k", 1, "b", Some(17));
        s.grant("c5", "L", 2);
        s.refused("c5", "L", "k", 2, "c", Some(17));
        s.refused("c5", "L", "k", 2, "d", Some(17));
        s.refused("c5", "L", "k", 2, "e", Some(17));
        // The service starts over once more: that is another run.
        s.grant("c3", "L", 1);
        s.refused("c3", "L", "k", 1, "f", Some(17));
        s.grant("c4", "L", 2);
        s.refused("c4", "L", "k", 2, "g", Some(17));
        let [(4, _, story)] = &regressed(&s)[..] else {
            panic!("one finding of four regressions")
        };
        let expected = "\
c1 was granted token 17 of lock L at +0.0 ms.
c4 asked for lock L at +3.0 ms and was granted token 1 at +4.0 ms.
c4 held the new token 1 and was refused at +6.0 ms, high water 17.
c5 was granted token 2 of lock L at +8.0 ms.
c5 held the new token 2 and was refused at +10.0 ms, high water 17.
c5 held the new token 2 and was refused at +12.0 ms, high water 17.
(And 1 more such refusals.)
That is wrong: a later grant must carry a higher token, or its rightful holder is taken for a stale one and a stale one for rightful.
4 grants of this lock went back in all.";
        assert_eq!(story, expected);
    }

    #[test]
    fn grants_that_overlap_may_answer_in_any_order_and_locks_count_for_themselves() {
        let mut s = Scenario::new();
        let slow = s.acquire_call("c1", "L");
        s.grant("c2", "L", 7);
        s.granted(slow, 6);
        s.grant("c3", "M", 1);
        s.grant("c4", "L", 9);
        assert_eq!(regressed(&s), []);
        assert_eq!(duplicated(&s), []);
    }

    #[test]
    fn one_token_for_two_holders_is_a_duplicate_even_when_the_grants_overlap() {
        let mut s = Scenario::new();
        let (one, two) = (s.acquire_call("c1", "L"), s.acquire_call("c2", "L"));
        let (one, two) = (s.granted(one, 6), s.granted(two, 6));
        s.grant("c3", "M", 6);
        let mut events = [one, two].concat();
        events.sort_unstable();
        assert_eq!(duplicated(&s), [(Severity::Violation, 1, events)]);
    }

    #[test]
    fn the_same_holder_again_is_a_warning_after_its_release_and_nothing_before_it() {
        let mut s = Scenario::new();
        s.grant("c1", "L", 5);
        s.grant("c1", "L", 5);
        s.release("c1", "L", 5);
        s.grant("c1", "L", 5);
        assert_eq!(
            duplicated(&s),
            [],
            "re-entered twice, released once: still held"
        );
        s.release("c1", "L", 5);
        s.release("c1", "L", 5);
        s.grant("c1", "L", 5);
        // Every grant of the token, and every release.
        let events: Vec<u64> = (0..14).collect();
        assert_eq!(duplicated(&s), [(Severity::Warning, 1, events)]);
    }
}
