//! `release-of-others-lock`: a late release took the lock from its new holder.
//!
//! A release of t, below the token t' of the holder, or one of another client that names no token, is answered `ok`; the next grant is asked for after that, and
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fencing::identity::Holders;
    use crate::fencing::lease::given_away;
    use crate::history::{LockHeader, Type};
    use crate::scenario::Scenario;

    fn found(s: &Scenario) -> Vec<(Severity, Vec<u64>)> {
        let history = s.history();
        let case = Case::new(&history);
        let given = given_away(&case, &Holders::new(&case));
        releases_of_others(&case, &given)
            .into_iter()
            .map(|draft| (draft.severity, super::super::events(&case, &draft.witness)))
            .collect()
    }

    fn nameless_release(s: &mut Scenario, client: &str, session: Option<&str>) -> [u64; 2] {
        let call = s.call(client, "release", Some("L"), |event| {
            event.session = session.map(str::to_owned);
        });
        s.ok(call)
    }

    fn leased() -> Scenario {
        let mut s = Scenario::new();
        let header = LockHeader {
            lease_ms: Some(1_000),
            ..LockHeader::default()
        };
        s.header().locks.insert("L".to_owned(), header);
        s
    }

    #[test]
    fn a_strangers_release_that_names_no_token_takes_the_lock_from_its_holder() {
        let mut s = leased();
        let held = s.grant("c1", "L", 10);
        let stranger = nameless_release(&mut s, "c2", None);
        let given = s.grant("c3", "L", 11);
        let events = [held, stranger, given].concat();
        assert_eq!(found(&s), [(Severity::Violation, events)]);
    }

    #[test]
    fn ones_own_release_and_that_of_ones_session_give_the_lock_back() {
        let mut s = leased();
        s.grant("c1", "L", 10);
        nameless_release(&mut s, "c1", None);
        s.grant("c3", "L", 11);
        assert_eq!(found(&s), []);
        let mut s = leased();
        let call = s.call("c1", "acquire", Some("L"), |event| {
            event.session = Some("s".to_owned());
        });
        s.granted(call, 10);
        nameless_release(&mut s, "c2", Some("s"));
        s.grant("c3", "L", 11);
        assert_eq!(found(&s), []);
    }

    #[test]
    fn without_a_known_lease_the_holder_must_be_told_that_it_holds_nothing() {
        let mut s = Scenario::new();
        s.grant("c1", "L", 10);
        nameless_release(&mut s, "c2", None);
        s.grant("c3", "L", 11);
        assert_eq!(found(&s), []);
        let renewal = s.call("c1", "renew", Some("L"), |_| {});
        s.end(renewal, Type::Fail, |event| {
            event.error = Some("not held".to_owned());
        });
        assert_eq!(found(&s).len(), 1);
        assert_eq!(found(&s)[0].0, Severity::Warning);
    }
}
