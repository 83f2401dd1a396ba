//! Grants that were given away under a holder: the proof behind `overlapping-grant` and `release-of-others-lock`.
//!
//! A service that has answered an acquire or a renewal of t' with `ok` owes its holder the lease from, at the earliest,
//! the moment when that was asked for. So E, that moment and the lease, is a time up to which nobody else may be granted
//! the lock, unless a release of t' was sent, whatever its answer but a definite no.
//!
//! ```text
//!   c1   acquire |--ok 5--|                      E = sent + lease
//!   c2                          acquire |--ok 6--|      before E: given away
//! ```
//!
//! Clocks go at different rates and services round, so a grant within the last 5 ms or hundredth of the lease proves
//! nothing. Nothing is concluded over a fault on the lock service (a restarted one may have lost what it owed, a clock
//! may have been set), between two clients that tell the service one identity, or from grants that overlap and whose
//! tokens do not say which came first.
//!
//! For a lock that the header declares to be without lease (`without_lease`) a hold lasts until its release. There a
//! connection that ends may end a hold too, so the holder must show that it went on under its token after the other
//! was granted, with no fault on its worker or links between.
//!
//! Where the lease is not known, a grant that comes after a release of a lower token, is followed by a `fail` to the
//! holder that was passed over, and came sooner than any lapse that the file shows, is a warning.
//!
//! State, for each lock: the holds that are not released or passed over; the last few releases that were answered `ok`;
//! for each token until when a release of it may still take effect (for ever, if its outcome is unknown).

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::case::Case;
use super::identity::Holders;
use super::kinds::Kind;
use super::story;
use crate::history::{FaultWindow, Function, Name, Operation, Outcome, Token};

const MILLISECOND: u64 = 1_000_000;

/// How many releases of each lock are remembered.
const RELEASES: usize = 8;

/// A grant to another while a hold lasted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GivenAway {
    /// The grant that was passed over.
    pub owed: usize,
    /// The acquire or renewal that fixes until when it was owed.
    pub last: usize,
    /// The grant to another.
    pub given: usize,
    /// A release of a lower token, answered `ok`, before the lock was asked for.
    pub released: Option<usize>,
    /// What the holder that was passed over did, or was told, afterwards. Only where no lease is known.
    pub afterwards: Option<usize>,
    /// Until when it was owed; `None` where no lease is known.
    pub until: Option<u64>,
    /// Proven; else only likely.
    pub proven: bool,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    grant: usize,
    last: usize,
    token: Token,
    /// The lease, in nanoseconds.
    lease: Option<u64>,
    until: Option<u64>,
}

#[derive(Debug, Default)]
struct Lock {
    lease: Option<u64>,
    without_lease: bool,
    holds: Vec<Hold>,
    releases: VecDeque<usize>,
    /// For each token, and for each client that named none, until when a release of it may take effect.
    released: HashMap<Token, u64>,
    released_by: HashMap<Name, u64>,
    /// Holds that were passed over, without a known lease.
    passed: HashMap<(Name, Token), GivenAway>,
    /// The shortest time from the last sign of a hold to the next grant, where no release came between.
    lapse: Option<u64>,
}

/// All grants that were given away, in the order in which they are proven. O(n) but for holds that overlap.
pub(crate) fn given_away(case: &Case<'_>, holders: &Holders) -> Vec<GivenAway> {
    let mut locks = locks(case);
    let mut found = Vec::new();
    let mut likely: Vec<(usize, GivenAway, u64)> = Vec::new();
    let at_locks = Kind::ACQUIRE.or(Kind::RENEW).or(Kind::RELEASE);
    // A write shows something of a lock without lease alone.
    let writes = locks.iter().any(|lock| lock.without_lease);
    let told = if writes {
        at_locks.or(Kind::WRITE)
    } else {
        at_locks
    };
    for moment in case.walk(told) {
        let op = moment.op;
        let writes = case.kinds[op].is(Kind::WRITE);
        if writes && moment.returns {
            continue;
        }
        let Some(place) = case.lock_place(op) else {
            continue;
        };
        let lock = &mut locks[place];
        if writes && lock.passed.is_empty() {
            continue;
        }
        let operation = case.operation(op);
        let answered = operation.outcome == Outcome::Ok;
        match operation.function {
            Function::Release if !moment.returns => {
                lock.show(case, op, &mut found);
                if operation.outcome != Outcome::Failed {
                    lock.release(case, holders, operation);
                }
                if answered {
                    if lock.releases.len() == RELEASES {
                        lock.releases.pop_front();
                    }
                    lock.releases.push_back(op);
                }
            }
            Function::Renew if moment.returns && answered => lock.renew(case, op),
            Function::Renew if !moment.returns => lock.show(case, op, &mut found),
            Function::Renew | Function::Release
                if moment.returns && operation.outcome == Outcome::Failed =>
            {
                lock.told_no(case, op, place, &mut likely);
            }
            Function::Acquire if moment.returns && Case::is_grant(operation) => {
                lock.grant(case, holders, op, &mut found);
            }
            Function::Write | Function::Append | Function::Cas => lock.show(case, op, &mut found),
            _ => {}
        }
    }
    // A lock that lapses as soon without a release shows that the lease is as short as that.
    for (place, given, age) in likely {
        if locks[place]
            .lapse
            .is_none_or(|lapse| lapse > age.saturating_mul(2))
        {
            found.push(given);
        }
    }
    found
}

/// What the header says of each lock, by the place of its name.
fn locks(case: &Case<'_>) -> Vec<Lock> {
    let mut locks: Vec<Lock> = Vec::new();
    locks.resize_with(case.history.names.count(), Lock::default);
    for (name, header) in case.history.header.iter().flat_map(|header| &header.locks) {
        if let Some(name) = case.history.names.find(name) {
            let lock = &mut locks[name.position()];
            lock.lease = header.lease_ms.map(|ms| ms.saturating_mul(MILLISECOND));
            lock.without_lease = header.without_lease;
        }
    }
    locks
}

impl Lock {
    fn release(&mut self, case: &Case<'_>, holders: &Holders, release: &Operation) {
        let over = release.returned().map_or(u64::MAX, |at| at.index);
        let Some(token) = release.token else {
            // It names no token, so it gives back whatever its holder has.
            let own = |hold: &Hold| {
                let owed = case.operation(hold.grant);
                owed.client == release.client || are_one_owner(case, holders, owed, release)
            };
            let clients = self.holds.iter().filter(|hold| own(hold));
            let clients = clients.map(|hold| case.operation(hold.grant).client);
            for client in clients.chain([release.client]) {
                let last = self.released_by.entry(client).or_insert(over);
                *last = over.max(*last);
            }
            self.holds.retain(|hold| !own(hold));
            return;
        };
        let last = self.released.entry(token).or_insert(over);
        *last = over.max(*last);
        self.holds.retain(|hold| hold.token != token);
    }

    fn renew(&mut self, case: &Case<'_>, op: usize) {
        let renewal = case.operation(op);
        let of_client = |hold: &&mut Hold| case.operation(hold.grant).client == renewal.client;
        let Some(hold) = self.holds.iter_mut().rfind(of_client) else {
            return;
        };
        hold.last = op;
        hold.token = renewal.token.unwrap_or(hold.token);
        let lease = renewal.ttl_ms.map(|ms| ms.saturating_mul(MILLISECOND));
        hold.lease = lease.or(hold.lease);
        let until = hold
            .lease
            .map(|lease| renewal.invoked.time.saturating_add(lease));
        // The last one counts, also where it asked for less than was left.
        hold.until = until.or(hold.until);
    }

    fn grant(&mut self, case: &Case<'_>, holders: &Holders, op: usize, found: &mut Vec<GivenAway>) {
        let grant = case.operation(op);
        let Some(token) = grant.token else { return };
        let lease = grant.ttl_ms.map(|ms| ms.saturating_mul(MILLISECOND));
        let lease = lease.or(self.lease);
        let mut kept = Vec::new();
        for hold in std::mem::take(&mut self.holds) {
            let owed = case.operation(hold.grant);
            if are_one_owner(case, holders, owed, grant) {
                continue;
            }
            if !owed.precedes(grant) && hold.token > token {
                // Whichever came first, the higher one is the newer.
                kept.push(hold);
                continue;
            }
            self.pass_over(case, &hold, op, found);
        }
        self.holds = kept;
        self.holds.push(Hold {
            grant: op,
            last: op,
            token,
            lease,
            until: lease.map(|lease| grant.invoked.time.saturating_add(lease)),
        });
    }

    /// A hold of another ends, for the service, with this grant.
    fn pass_over(&mut self, case: &Case<'_>, hold: &Hold, op: usize, found: &mut Vec<GivenAway>) {
        let (grant, last) = (case.operation(op), case.operation(hold.last));
        let (Some(now), Some(owner)) = (grant.completed, case.operation(hold.grant).completed)
        else {
            return;
        };
        // A release that was sent before the last sign of the hold, and may have landed after it.
        let client = case.operation(hold.grant).client;
        let may_be_free = [
            self.released.get(&hold.token),
            self.released_by.get(&client),
        ];
        if may_be_free
            .into_iter()
            .flatten()
            .any(|&over| over >= last.invoked.index)
        {
            return;
        }
        let released = self.releases.iter().copied().find(|&release| {
            let release = case.operation(release);
            release.token < Some(hold.token)
                && release.client != client
                && owner.index < release.invoked.index
                && release.invoked.index < grant.invoked.index
        });
        let given = GivenAway {
            owed: hold.grant,
            last: hold.last,
            given: op,
            released,
            afterwards: None,
            until: hold.until,
            proven: true,
        };
        if story::any_fault(case.history, last.invoked, now, on_lock_service) {
            return;
        }
        match (hold.until, hold.lease) {
            _ if self.without_lease => {
                self.passed.insert((client, hold.token), given);
            }
            (Some(until), Some(lease)) => {
                let margin = (lease / 100).max(5 * MILLISECOND);
                if now.time.saturating_add(margin) < until {
                    found.push(given);
                }
            }
            _ => {
                let age = now.time.saturating_sub(last.invoked.time);
                if released.is_none() {
                    self.lapse = Some(self.lapse.map_or(age, |lapse| lapse.min(age)));
                } else if released.is_some_and(|release| case.operation(release).precedes(grant)) {
                    let proven = false;
                    self.passed
                        .insert((client, hold.token), GivenAway { proven, ..given });
                }
            }
        }
    }

    /// A client goes on under a token: for a lock without lease that shows that it still held.
    fn show(&mut self, case: &Case<'_>, op: usize, found: &mut Vec<GivenAway>) {
        let operation = case.operation(op);
        let Some(token) = operation.token.filter(|_| self.without_lease) else {
            return;
        };
        let Some(given) = self.passed.remove(&(operation.client, token)) else {
            return;
        };
        let since = case.operation(given.owed).invoked;
        let cut = story::worker_faults(case.history, operation.client, since, operation.invoked);
        if cut.is_empty() {
            found.push(GivenAway {
                afterwards: Some(op),
                ..given
            });
        }
    }

    /// A holder is told that it holds nothing.
    fn told_no(
        &mut self,
        case: &Case<'_>,
        op: usize,
        place: usize,
        likely: &mut Vec<(usize, GivenAway, u64)>,
    ) {
        let operation = case.operation(op);
        // Who names no token speaks of whatever it holds.
        let spoken_of = |&(client, token): &(Name, Token)| {
            client == operation.client && operation.token.is_none_or(|named| named == token)
        };
        let passed = self.passed.iter().filter(|(key, _)| spoken_of(key));
        let Some((&key, &given)) = passed
            .max_by_key(|(key, _)| key.1)
            .filter(|(_, given)| !given.proven)
        else {
            return;
        };
        if !case.operation(given.given).precedes(operation) {
            return;
        }
        self.passed.remove(&key);
        let granted = case.operation(given.given).completed;
        let last = case.operation(given.last).invoked.time;
        let age = granted.map_or(0, |at| at.time.saturating_sub(last));
        let given = GivenAway {
            afterwards: Some(op),
            ..given
        };
        likely.push((place, given, age));
    }
}

/// The lock service cannot tell the two apart, or they are one holder.
pub(crate) fn are_one_owner(
    case: &Case<'_>,
    holders: &Holders,
    a: &Operation,
    b: &Operation,
) -> bool {
    let told = |operation: &Operation| operation.identity.unwrap_or(operation.client);
    if told(a) == told(b) && (a.identity.is_some() || b.identity.is_some()) {
        return true;
    }
    if a.lock.is_some_and(|lock| !holders.differ(lock, a, b)) {
        return true;
    }
    // A restarted worker's clients are `c3~2`, `c3~3`, and may tell the service their first name.
    let first = |name: Name| {
        let text = case.history.names.text(name);
        text.split('~').next().unwrap_or(text).to_owned()
    };
    a.client != b.client && first(a.client) == first(b.client)
}

/// A fault on the lock service itself, or on a clock; one on a worker's link to it is none.
///
/// What a recording of another system calls its nodes is not known, so every node may be the lock service's but those
/// that are surely none: workers and their links (`w2`, `w2-lock`) and the resource.
pub(crate) fn on_lock_service(window: &FaultWindow) -> bool {
    let begin = &window.begin;
    let elsewhere = |node: &str| {
        let of_a_worker = node.strip_prefix('w').is_some_and(|rest| {
            let number = rest.split('-').next().unwrap_or_default();
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        });
        of_a_worker || node == "resource"
    };
    begin.fault.contains("clock")
        || begin.on.is_empty()
        || !begin.on.iter().all(|node| elsewhere(node))
}
