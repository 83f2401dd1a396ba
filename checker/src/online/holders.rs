//! What is known of each token of each lock: to whom it was granted and told, who wrote under it, who gave it back.
//! Here `duplicate-token`, `double-writer-in-epoch` and `write-without-grant` are decided.
//!
//! One record a token, while there is room: [`super::Limits::tokens`]. Then the oldest is closed: what it proves is
//! counted, and of its lock it stays known that tokens up to it may have been granted to anybody. So a stranger's write
//! under a token that old is no longer told from that of its holder, and an acquire that grants such a token again is a
//! regression, but not told to be a duplicate.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::arrival::{Arrival, is_grant};
use super::hash::{Map, Set};
use super::words::{Kept, is_fenced_write, token_of};
use crate::history::{Function, Name, Operation, Outcome, Token};

/// How many writes without a grant are remembered of a lock that nobody has acquired.
const MOST_ORPHANS: usize = 1 << 12;

/// A client, or a session that several share.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Who {
    Client(Name),
    Session(Name),
}

type Holder = (Name, Option<Name>);

/// Operations of one client, process and session.
#[derive(Clone, Debug)]
struct Party {
    client: Name,
    process: u64,
    session: Option<Name>,
    unnamed: bool,
    first: Kept,
    count: u64,
    /// Whether its first was a grant that went back.
    regressed: bool,
}

/// All that is known of one token of one lock.
#[derive(Clone, Debug, Default)]
struct Issue {
    grants: u64,
    /// The index of the second grant.
    second: u64,
    releases: u64,
    granted: Vec<Party>,
    again: u64,
    first_again: Option<(Kept, bool)>,
    told: Vec<Who>,
    owner: Option<(Holder, bool)>,
    writers: Vec<Party>,
}

/// What one finding needs: when it was first seen, how often, and the pair that proves it.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    order: u64,
    pub count: u64,
    pub first: Kept,
    pub second: Kept,
    pub token: Token,
    pub regressed: bool,
}

/// What records say of a lock.
#[derive(Clone, Debug, Default)]
pub(super) struct LockFindings {
    pub shared: Option<Pair>,
    pub again: Option<Pair>,
    pub double: Option<Pair>,
    pub duplicated: BTreeSet<Token>,
}

/// An acquire whose answer nobody knows.
#[derive(Clone, Copy, Debug)]
struct Uncertain {
    invoked: u64,
    above: Option<Token>,
}

#[derive(Clone, Debug)]
struct Orphan {
    first: Kept,
    count: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Holders {
    issues: Map<(Name, Token), Issue>,
    order: VecDeque<(Name, Token)>,
    most: usize,
    /// Tokens up to here may have been forgotten.
    floor: Map<Name, Token>,
    closed: BTreeMap<Name, LockFindings>,
    highest: Map<Name, Token>,
    uncertain: Map<(Name, Who), Vec<Uncertain>>,
    /// Locks and clients with an acquire whose answer nobody knows.
    lost: Set<(Name, Name)>,
    orphans: BTreeMap<(Name, Holder), BTreeMap<Token, Orphan>>,
    orphans_of: Map<Name, usize>,
    overflowed: Set<Name>,
}

/// Writes without a grant under one lock.
#[derive(Clone, Debug)]
pub(super) struct Ungranted {
    pub lock: Name,
    pub count: u64,
    pub first: Kept,
}

impl Holders {
    pub fn new(most: usize) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }

    fn issue(&mut self, arrival: &Arrival, lock: Name, token: Token) -> &mut Issue {
        if !self.issues.contains_key(&(lock, token)) {
            self.order.push_back((lock, token));
            if self.order.len() > self.most {
                self.close_oldest(arrival);
            }
        }
        self.issues.entry((lock, token)).or_default()
    }

    fn close_oldest(&mut self, arrival: &Arrival) {
        let Some((lock, token)) = self.order.pop_front() else {
            return;
        };
        let Some(issue) = self.issues.remove(&(lock, token)) else {
            return;
        };
        issue.report(arrival, lock, token, self.closed.entry(lock).or_default());
        let floor = self.floor.entry(lock).or_insert(token);
        *floor = token.max(*floor);
    }

    /// An operation is sent.
    pub fn call(&mut self, arrival: &Arrival, op: &Kept) {
        if let (Some(lock), Function::Acquire) = (op.lock, op.function) {
            match (op.outcome, op.token) {
                (Outcome::Unknown, _) => {
                    self.lost.insert((lock, op.client));
                    let uncertain = Uncertain {
                        invoked: op.invoked.index,
                        above: self.highest.get(&lock).copied(),
                    };
                    for who in whos((op.client, op.session)) {
                        let acquires = self.uncertain.entry((lock, who)).or_default();
                        acquires.push(uncertain);
                    }
                }
                (Outcome::Ok, Some(token)) => self.asked(arrival, lock, token, op),
                _ => {}
            }
        }
        if is_fenced_write(op) {
            if let Some(lock) = arrival.lock(op) {
                self.written(arrival, lock, op);
            }
            if op.outcome == Outcome::Ok {
                self.accepted(arrival, op);
            }
        }
    }

    fn asked(&mut self, arrival: &Arrival, lock: Name, token: Token, op: &Kept) {
        let certain = !self.lost.contains(&(lock, op.client));
        let issue = self.issue(arrival, lock, token);
        if issue.grants > 0 && issue.releases >= issue.grants && certain {
            issue.again += 1;
            issue
                .first_again
                .get_or_insert_with(|| (Kept::clone(op), false));
        }
        issue.grants += 1;
        if issue.grants == 2 {
            issue.second = op.invoked.index;
        }
        note(arrival, &mut issue.granted, op);
    }

    /// An operation has returned; `regressed`: it is a grant that went back.
    pub fn answer(&mut self, arrival: &Arrival, op: &Kept, regressed: bool) {
        let (Some(lock), Some(token), Outcome::Ok) = (op.lock, op.token, op.outcome) else {
            return;
        };
        match op.function {
            Function::Acquire | Function::Renew => {
                let grant = is_grant(op);
                if grant {
                    let highest = self.highest.entry(lock).or_insert(token);
                    *highest = token.max(*highest);
                }
                let issue = self.issue(arrival, lock, token);
                for who in whos((op.client, op.session)) {
                    if !issue.told.contains(&who) {
                        issue.told.push(who);
                    }
                }
                if grant {
                    let holder = (op.client, op.session);
                    let owner = issue.owner.get_or_insert((holder, false));
                    owner.1 |= !are_one(owner.0, holder);
                }
                if regressed {
                    issue.mark_regressed(op);
                }
            }
            Function::Release => self.issue(arrival, lock, token).releases += 1,
            _ => {}
        }
    }

    /// A grant that was no longer waited for has come.
    pub fn late_grant(&mut self, arrival: &Arrival, op: &Kept) {
        if let (Some(lock), Some(token), true) = (op.lock, op.token, is_grant(op)) {
            self.asked(arrival, lock, token, op);
        }
    }

    /// A write was accepted.
    pub fn accepted(&mut self, arrival: &Arrival, write: &Kept) {
        if let (Some(lock), Some(token)) = (arrival.lock(write), write.token) {
            let issue = self.issue(arrival, lock, token);
            note(arrival, &mut issue.writers, write);
        }
    }

    /// A write is sent under a token: it may have no grant.
    fn written(&mut self, arrival: &Arrival, lock: Name, op: &Kept) {
        let token = token_of(op);
        if self.floor.get(&lock).is_some_and(|&floor| token <= floor) {
            return;
        }
        if let Some(issue) = self.issues.get(&(lock, token))
            && whos((op.client, op.session)).any(|who| issue.told.contains(&who))
        {
            return;
        }
        let life = arrival.lives.get(&op.process);
        if life.is_none_or(|life| life.may_go_on) || self.overflowed.contains(&lock) {
            return;
        }
        let tokens = self
            .orphans
            .entry((lock, (op.client, op.session)))
            .or_default();
        if let Some(orphan) = tokens.get_mut(&token) {
            orphan.count += 1;
            return;
        }
        let first = Kept::clone(op);
        tokens.insert(token, Orphan { first, count: 1 });
        let orphans = self.orphans_of.entry(lock).or_default();
        *orphans += 1;
        if *orphans > MOST_ORPHANS && !arrival.acquired.contains(&lock) {
            self.overflowed.insert(lock);
            self.orphans.retain(|&(of, _), _| of != lock);
        }
    }

    /// What all records say, by lock.
    pub fn findings(&self, arrival: &Arrival) -> BTreeMap<Name, LockFindings> {
        let mut locks = self.closed.clone();
        for (&(lock, token), issue) in &self.issues {
            if issue.granted.len() > 1 || issue.writers.len() > 1 || issue.again > 0 {
                issue.report(arrival, lock, token, locks.entry(lock).or_default());
            }
        }
        locks
    }

    /// A grant of this token has been asked for, or may have been: it is as old as what was forgotten.
    pub fn may_have_granted(&self, lock: Name, token: Token) -> bool {
        let forgotten = self.floor.get(&lock).is_some_and(|&floor| token <= floor);
        forgotten || self.grants_of(lock, token).next().is_some()
    }

    /// All grants of a token that have been asked for so far.
    pub fn grants_of(&self, lock: Name, token: Token) -> impl Iterator<Item = &Kept> {
        let issue = self.issues.get(&(lock, token));
        issue
            .into_iter()
            .flat_map(|issue| issue.granted.iter().map(|party| &party.first))
    }

    /// Writes that no grant covers, once every uncertain acquire has explained a token; and their tokens.
    pub fn ungranted(&self, arrival: &Arrival) -> (Vec<Ungranted>, BTreeSet<(Name, Token)>) {
        let mut unfounded = BTreeSet::new();
        let mut locks: BTreeMap<Name, Ungranted> = BTreeMap::new();
        for (&(lock, holder), tokens) in &self.orphans {
            if !arrival.acquired.contains(&lock) {
                continue;
            }
            for (token, orphan) in self.unexplained(lock, holder, tokens) {
                unfounded.insert((lock, token));
                let all = locks.entry(lock).or_insert_with(|| Ungranted {
                    lock,
                    count: 0,
                    first: Kept::clone(&orphan.first),
                });
                all.count += orphan.count;
                if orphan.first.invoked.index < all.first.invoked.index {
                    all.first = Kept::clone(&orphan.first);
                }
            }
        }
        (locks.into_values().collect(), unfounded)
    }

    /// As in `fencing/holder.rs`.
    fn unexplained<'a>(
        &self,
        lock: Name,
        holder: Holder,
        tokens: &'a BTreeMap<Token, Orphan>,
    ) -> Vec<(Token, &'a Orphan)> {
        let mut acquires: Vec<Uncertain> = whos(holder)
            .filter_map(|who| self.uncertain.get(&(lock, who)))
            .flatten()
            .copied()
            .collect();
        acquires.sort_unstable_by_key(|acquire| acquire.invoked);
        acquires.dedup_by_key(|acquire| acquire.invoked);
        let explained_by = |token: Token, orphan: &Orphan| {
            let owner = self
                .issues
                .get(&(lock, token))
                .and_then(|issue| issue.owner);
            if owner.is_some_and(|(owner, others)| others || !are_one(owner, holder)) {
                return 0;
            }
            let sent = orphan.first.invoked.index;
            acquires.partition_point(|acquire| {
                acquire.invoked < sent && acquire.above.is_none_or(|above| above < token)
            })
        };
        let mut tokens: Vec<_> = tokens
            .iter()
            .map(|(&token, orphan)| (explained_by(token, orphan), token, orphan))
            .collect();
        tokens
            .sort_by_key(|&(choices, token, orphan)| (choices, orphan.first.invoked.index, token));
        let mut used = 0;
        tokens.retain(|&(choices, ..)| {
            let explained = choices > used;
            used += usize::from(explained);
            !explained
        });
        let unexplained = tokens.into_iter();
        unexplained
            .map(|(_, token, orphan)| (token, orphan))
            .collect()
    }

    /// The last grant of this token to this client that is remembered, for the story.
    pub fn grant_to(&self, lock: Option<Name>, write: &Operation) -> Option<Kept> {
        let issue = self.issues.get(&(lock?, write.token?))?;
        let mut own = issue.granted.iter().map(|party| &party.first);
        own.rfind(|grant| grant.client == write.client && grant.precedes(write))
            .cloned()
    }
}

impl Issue {
    fn mark_regressed(&mut self, op: &Kept) {
        let is_it = |known: &Kept| known.invoked.index == op.invoked.index;
        for party in self.granted.iter_mut().filter(|party| is_it(&party.first)) {
            party.regressed = true;
        }
        if let Some((first, regressed)) = &mut self.first_again
            && is_it(first)
        {
            *regressed = true;
        }
    }

    fn report(&self, arrival: &Arrival, lock: Name, token: Token, to: &mut LockFindings) {
        let pair = |order: u64, count: u64, first: &Kept, second: &Kept, regressed: bool| Pair {
            order,
            count,
            first: Kept::clone(first),
            second: Kept::clone(second),
            token,
            regressed,
        };
        if let Some((first, second)) = first_pair(arrival, lock, &self.granted) {
            let others = self
                .granted
                .iter()
                .filter(|party| differ(arrival, lock, first, party));
            let count = others.map(|party| party.count).sum();
            to.duplicated.insert(token);
            let found = pair(
                self.second,
                count,
                &first.first,
                &second.first,
                second.regressed,
            );
            merge(&mut to.shared, found);
        } else if let (Some((again, regressed)), Some(first)) =
            (&self.first_again, self.first_grant())
        {
            let found = pair(self.second, self.again, first, again, *regressed);
            merge(&mut to.again, found);
        }
        let acquired = arrival.acquired.contains(&lock);
        let named: Vec<Party> = if acquired || self.writers.len() < 2 {
            Vec::new()
        } else {
            let named = self.writers.iter().filter(|party| !party.unnamed);
            named.cloned().collect()
        };
        let writers = if acquired { &self.writers } else { &named };
        if let Some((first, second)) = first_pair(arrival, lock, writers)
            && (acquired || are_apart(arrival, first.client, second.client))
        {
            let order = second.first.invoked.index;
            merge(
                &mut to.double,
                pair(order, 1, &first.first, &second.first, false),
            );
        }
    }

    fn first_grant(&self) -> Option<&Kept> {
        let first = self
            .granted
            .iter()
            .min_by_key(|party| party.first.invoked.index);
        first.map(|party| &party.first)
    }
}

/// Adds to the count; the earlier witness stays.
fn merge(known: &mut Option<Pair>, found: Pair) {
    match known {
        None => *known = Some(found),
        Some(known) => {
            let count = known.count + found.count;
            if found.order < known.order {
                *known = found;
            }
            known.count = count;
        }
    }
}

fn note(arrival: &Arrival, parties: &mut Vec<Party>, op: &Kept) {
    let known = parties.iter_mut().find(|party| {
        (party.client, party.process, party.session) == (op.client, op.process, op.session)
    });
    match known {
        Some(party) => {
            party.count += 1;
            if op.invoked.index < party.first.invoked.index {
                party.first = Kept::clone(op);
            }
        }
        None => parties.push(Party {
            client: op.client,
            process: op.process,
            session: op.session,
            unnamed: op.is_unnamed(&arrival.names),
            first: Kept::clone(op),
            count: 1,
            regressed: false,
        }),
    }
}

/// The first two, in order of their first operations, that are certainly of two holders.
fn first_pair<'a>(
    arrival: &Arrival,
    lock: Name,
    parties: &'a [Party],
) -> Option<(&'a Party, &'a Party)> {
    if parties.len() < 2 {
        return None;
    }
    let mut sorted: Vec<&Party> = parties.iter().collect();
    sorted.sort_by_key(|party| party.first.invoked.index);
    for (at, second) in sorted.iter().enumerate() {
        let first = sorted[..at]
            .iter()
            .find(|first| differ(arrival, lock, first, second));
        if let Some(first) = first {
            return Some((first, second));
        }
    }
    None
}

/// Clients that are not one's incarnations: a restarted worker's are `c3~2`, `c3~3`.
fn are_apart(arrival: &Arrival, first: Name, second: Name) -> bool {
    let base = |client: Name| {
        let name = arrival.names.text(client);
        name.split('~').next().unwrap_or(name)
    };
    base(first) != base(second)
}

/// Two operations are certainly of two holders.
pub(super) fn are_two(arrival: &Arrival, lock: Name, a: &Kept, b: &Kept) -> bool {
    let side = |op: &Kept| Side {
        client: op.client,
        process: op.process,
        session: op.session,
        unnamed: op.is_unnamed(&arrival.names),
    };
    sides_differ(arrival, lock, side(a), side(b))
}

fn differ(arrival: &Arrival, lock: Name, a: &Party, b: &Party) -> bool {
    let side = |party: &Party| Side {
        client: party.client,
        process: party.process,
        session: party.session,
        unnamed: party.unnamed,
    };
    sides_differ(arrival, lock, side(a), side(b))
}

/// Who did something.
#[derive(Clone, Copy, Debug)]
struct Side {
    client: Name,
    process: u64,
    session: Option<Name>,
    unnamed: bool,
}

/// As in `fencing/identity.rs`. Of processes that are forgotten nothing is certain.
fn sides_differ(arrival: &Arrival, lock: Name, a: Side, b: Side) -> bool {
    if a.session.is_some() && a.session == b.session {
        return false;
    }
    let lives = (arrival.lives.get(&a.process), arrival.lives.get(&b.process));
    if a.client != b.client {
        if !(a.unnamed && b.unnamed) {
            return true;
        }
        let (Some(a), Some(b)) = lives else {
            return false;
        };
        let goes_on = |ended: Option<u64>, first: u64| ended.is_some_and(|ended| ended < first);
        let may_be_one =
            a.unnamed && b.unnamed && (goes_on(a.ended, b.first) || goes_on(b.ended, a.first));
        return !may_be_one;
    }
    let (Some(one), Some(other)) = lives else {
        return false;
    };
    a.process != b.process
        && one.granted.contains(&lock)
        && other.granted.contains(&lock)
        && one.first <= other.last
        && other.first <= one.last
}

/// Under which words a holder is looked up.
fn whos((client, session): Holder) -> impl Iterator<Item = Who> {
    std::iter::once(Who::Client(client)).chain(session.map(Who::Session))
}

fn are_one(a: Holder, b: Holder) -> bool {
    a.0 == b.0 || (a.1.is_some() && a.1 == b.1)
}
