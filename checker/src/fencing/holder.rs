//! `write-without-grant`: a client presents a token that nobody told it.
//!
//! An acquire without a certain answer may have been granted, and its client may have learned of it: each explains
//! one token, above all grants that were known before it and granted to nobody else. Clients of one session share their
//! grants and lost acquires. Silent for locks without an acquire in the file, for writes without a token, and, where
//! clients are not named, for processes that may go on for one that ended with an `info`.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::case::Case;
use super::identity::Holders;
use super::kinds::Kind;
use super::story::{self, Scene};
use super::{Draft, WRITE_WITHOUT_GRANT};
use crate::history::{Function, Name, Operation, Outcome, Token};

/// A client, or a session that several share.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Who {
    Client(Name),
    Session(Name),
}

/// On whose behalf a write is sent: a client, and the session that it is in.
type Holder = (Name, Option<Name>);

/// An acquire whose answer nobody knows: its invocation, and the greatest token granted before it.
#[derive(Clone, Copy, Debug)]
struct Uncertain {
    invoked: u64,
    above: Option<Token>,
}

#[derive(Debug, Default)]
struct Grants {
    /// When each token was first told to whom.
    told: HashMap<(Name, Who, Token), u64>,
    /// To whom each token was granted first, and whether to another as well.
    owners: HashMap<(Name, Token), (Holder, bool)>,
    /// By lock and client or session, in order of invocation.
    uncertain: HashMap<(Name, Who), Vec<Uncertain>>,
}

/// One finding a lock, counting writes; and the tokens that were presented so. O(n log n).
pub(crate) fn ungranted_writes(
    case: &Case<'_>,
    holders: &Holders,
) -> (Vec<Draft>, BTreeSet<(Name, Token)>) {
    let grants = Grants::of(case);
    // By lock, holder and token, in a fixed order: the writes that no known grant covers.
    let mut orphans: BTreeMap<(Name, Holder), BTreeMap<Token, Vec<usize>>> = BTreeMap::new();
    // Most writes under a lock are the same holder's as the one before; what was told once was told.
    let mut covered: Vec<Option<(Holder, Token)>> = vec![None; case.history.names.count()];
    for (op, operation) in case.of(Kind::WRITE) {
        let (Some(lock), Some(token)) = (case.lock(operation), operation.token) else {
            continue;
        };
        let this = Some(((operation.client, operation.session), token));
        if covered[lock.position()] == this {
            continue;
        }
        if !Case::is_fenced_write(operation) || !case.is_acquired(lock) {
            continue;
        }
        if grants.cover(lock, operation, token) {
            covered[lock.position()] = this;
        } else if !holders.may_go_on(operation.process) {
            orphans
                .entry((lock, (operation.client, operation.session)))
                .or_default()
                .entry(token)
                .or_default()
                .push(op);
        }
    }
    let mut unfounded = BTreeSet::new();
    let mut locks: BTreeMap<Name, Vec<usize>> = BTreeMap::new();
    for ((lock, holder), tokens) in orphans {
        for (token, writes) in grants.unexplained(case, lock, holder, tokens) {
            unfounded.insert((lock, token));
            locks.entry(lock).or_default().extend(writes);
        }
    }
    let describe = |(lock, writes): (Name, Vec<usize>)| {
        let first = writes
            .iter()
            .copied()
            .min()
            .expect("a lock is listed with its writes");
        describe(case, lock, first, writes.len() as u64)
    };
    (locks.into_iter().map(describe).collect(), unfounded)
}

impl Grants {
    fn of(case: &Case<'_>) -> Self {
        let mut grants = Self::default();
        let mut highest: HashMap<Name, Token> = HashMap::new();
        for moment in case.walk(Kind::ACQUIRE.or(Kind::RENEW)) {
            let operation = case.operation(moment.op);
            let Some(lock) = operation.lock else { continue };
            match (operation.function, operation.outcome) {
                (Function::Acquire, Outcome::Unknown) => {
                    let uncertain = Uncertain {
                        invoked: operation.invoked.index,
                        above: highest.get(&lock).copied(),
                    };
                    for who in whos((operation.client, operation.session)) {
                        let acquires = grants.uncertain.entry((lock, who)).or_default();
                        acquires.push(uncertain);
                    }
                }
                (Function::Acquire | Function::Renew, Outcome::Ok) if moment.returns => {
                    let Some(token) = operation.token else {
                        continue;
                    };
                    grants.tell(lock, operation, token);
                    if operation.function == Function::Acquire {
                        let highest = highest.entry(lock).or_insert(token);
                        *highest = token.max(*highest);
                        let holder = (operation.client, operation.session);
                        let owner = grants
                            .owners
                            .entry((lock, token))
                            .or_insert((holder, false));
                        owner.1 |= !are_one(owner.0, holder);
                    }
                }
                _ => {}
            }
        }
        grants
    }

    fn tell(&mut self, lock: Name, operation: &Operation, token: Token) {
        let told = operation.completed.map_or(u64::MAX, |at| at.index);
        for who in whos((operation.client, operation.session)) {
            self.told.entry((lock, who, token)).or_insert(told);
        }
    }

    fn cover(&self, lock: Name, write: &Operation, token: Token) -> bool {
        whos((write.client, write.session))
            .filter_map(|who| self.told.get(&(lock, who, token)))
            .any(|&told| told < write.invoked.index)
    }

    /// What is left once every uncertain acquire of this holder has explained a token.
    ///
    /// A later acquire explains no token that an earlier one does not, so giving each token, hardest first, to any
    /// acquire that is left explains as many as can be.
    fn unexplained(
        &self,
        case: &Case<'_>,
        lock: Name,
        holder: Holder,
        tokens: BTreeMap<Token, Vec<usize>>,
    ) -> Vec<(Token, Vec<usize>)> {
        let mut acquires: Vec<Uncertain> = whos(holder)
            .filter_map(|who| self.uncertain.get(&(lock, who)))
            .flatten()
            .copied()
            .collect();
        // One of the client's own in the session is in both lists.
        acquires.sort_unstable_by_key(|acquire| acquire.invoked);
        acquires.dedup_by_key(|acquire| acquire.invoked);
        let explained_by = |token: Token, writes: &[usize]| {
            let another = self
                .owners
                .get(&(lock, token))
                .is_some_and(|&(owner, others)| others || !are_one(owner, holder));
            if another {
                return 0;
            }
            let sent = case.operation(writes[0]).invoked.index;
            let fits = |acquire: &Uncertain| {
                acquire.invoked < sent && acquire.above.is_none_or(|above| above < token)
            };
            acquires.partition_point(fits)
        };
        let mut tokens: Vec<_> = tokens
            .into_iter()
            .map(|(token, writes)| (explained_by(token, &writes), token, writes))
            .collect();
        tokens.sort_by_key(|&(choices, token, ref writes)| (choices, writes[0], token));
        let mut used = 0;
        tokens
            .into_iter()
            .filter_map(|(choices, token, writes)| {
                if choices > used {
                    used += 1;
                    return None;
                }
                Some((token, writes))
            })
            .collect()
    }
}

/// Under which words a holder is looked up.
fn whos((client, session): Holder) -> impl Iterator<Item = Who> {
    std::iter::once(Who::Client(client)).chain(session.map(Who::Session))
}

/// Whether two holders are certainly one.
fn are_one(a: Holder, b: Holder) -> bool {
    a.0 == b.0 || (a.1.is_some() && a.1 == b.1)
}

fn describe(case: &Case<'_>, lock: Name, first: usize, count: u64) -> Draft {
    let write = case.operation(first);
    let grant = case.grants_before(Some(lock), write.token, write).next();
    let mut scenes = vec![Scene::Happened(write)];
    scenes.extend(grant.map(Scene::Granted));
    // Without an acquire of the lock in sight nothing would be missing.
    let acquire = grant
        .map(|grant| super::place_of(case, grant))
        .or_else(|| case.acquire_of(lock));
    let mut witness = vec![first];
    witness.extend(acquire);
    let client = case.text(write.client);
    let token = write
        .token
        .map(|token| token.to_string())
        .unwrap_or_default();
    let mut ending = format!(
        "That is wrong: nobody had granted token {token} of lock {} to {client} when it sent this; a holder presents the token that it was granted.",
        case.text(lock)
    );
    if count > 1 {
        ending += &format!("\n{count} writes under this lock had no grant in all.");
    }
    Draft::new(
        WRITE_WITHOUT_GRANT,
        count,
        witness,
        story::tell(case.history, scenes, &ending),
    )
    .on(Some(lock), write.key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn findings(scenario: &Scenario) -> Vec<(u64, Vec<u64>)> {
        let history = scenario.history();
        let case = Case::new(&history);
        let (drafts, _) = ungranted_writes(&case, &Holders::new(&case));
        drafts
            .into_iter()
            .map(|d| (d.count, super::super::events(&case, &d.witness)))
            .collect()
    }

    #[test]
    fn a_token_of_another_client_or_of_a_grant_not_yet_answered_is_not_ones_own() {
        let mut s = Scenario::new();
        let grant = s.grant("c1", "L", 5);
        let stolen = [grant, s.write("c2", "L", "k", 5, "a")].concat();
        assert_eq!(findings(&s), [(1, stolen.clone())]);
        let asked = s.acquire_call("c3", "L");
        s.write("c3", "L", "k", 6, "b");
        s.granted(asked, 6);
        assert_eq!(findings(&s), [(2, stolen)]);
    }

    #[test]
    fn grants_and_renewals_to_the_client_cover_all_its_threads_and_later_processes() {
        let mut s = Scenario::new();
        s.grant("c1", "L", 5);
        let (one, two) = (
            s.write_call("c1", "L", "k", 5, "a"),
            s.write_call("c1", "L", "k", 5, "b"),
        );
        s.info(one);
        s.ok(two);
        s.write("c1", "L", "k", 5, "c");
        s.renew("c1", "L", 6);
        s.write("c1", "L", "k", 6, "d");
        let seed = s.call("admin", "write", Some("L"), |event| {
            event.key = Some("k".to_owned())
        });
        s.ok(seed);
        s.write("c9", "other", "j", 5, "a lock that nobody acquires");
        assert_eq!(findings(&s), []);
    }

    #[test]
    fn a_lost_acquire_explains_one_token_above_what_was_known() {
        let mut s = Scenario::new();
        let grant = s.grant("c1", "L", 5);
        let lost = s.acquire_call("c2", "L");
        s.info(lost);
        s.write("c2", "L", "k", 6, "a");
        s.write("c2", "L", "k", 6, "b");
        assert_eq!(findings(&s), []);
        let second = s.write("c2", "L", "k", 7, "c");
        assert_eq!(findings(&s), [(1, [grant, second].concat())]);
    }

    #[test]
    fn a_lost_acquire_explains_no_token_that_is_old_or_another_clients() {
        let mut s = Scenario::new();
        let grant = s.grant("c1", "L", 5);
        let lost = s.acquire_call("c2", "L");
        s.info(lost);
        let old = s.write("c2", "L", "k", 4, "a");
        s.grant("c3", "L", 6);
        s.refused("c2", "L", "k", 6, "b", Some(7));
        assert_eq!(findings(&s), [(2, [grant, old].concat())]);
    }

    #[test]
    fn a_lost_acquire_of_a_session_explains_the_token_of_each_client_in_it() {
        let mut s = Scenario::new();
        let grant = s.grant("c9", "L", 1);
        let lost = s.call("c1", "acquire", Some("L"), |event| {
            event.session = Some("s".to_owned());
        });
        s.info(lost);
        let write = |s: &mut Scenario, client: &str, session: &str, value: &str| {
            let call = s.call(client, "write", Some("L"), |event| {
                event.session = Some(session.to_owned());
                event.key = Some("k".to_owned());
                event.token = Some(2u64.into());
                event.value = Some(value.into());
            });
            s.ok(call)
        };
        write(&mut s, "c2", "s", "a");
        assert_eq!(findings(&s), []);
        let stranger = write(&mut s, "c3", "another", "b");
        assert_eq!(findings(&s), [(1, [grant, stranger].concat())]);
    }
}
