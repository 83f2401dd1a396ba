//! Grants that were given away under a holder: `overlapping-grant` and `release-of-others-lock`. The proof and its
//! margins are in `fencing/lease.rs`.
//!
//! Of each lock its holds are kept, the last [`RELEASES`] releases answered `ok`, the highest [`MOST_RELEASED`] tokens of
//! which a release may still take effect, and the newest [`MOST_PASSED`] holds that were passed over without a known
//! lease. A hold of a token that is lower than those counts as released, and one that was forgotten proves nothing.

use std::collections::{BTreeMap, VecDeque};

use super::arrival::{Arrival, is_grant};
use super::hash::Map;
use super::holders::are_two;
use super::words::{Kept, returned, writes};
use crate::fencing::{on_lock_service, touches_worker};
use crate::history::{Function, LockHeader, Name, Operation, Outcome, Token};

const MILLISECOND: u64 = 1_000_000;

/// How many releases of each lock are remembered.
const RELEASES: usize = 8;

/// How many tokens of each lock are remembered of which a release was sent.
const MOST_RELEASED: usize = 1024;

/// How many holds of each lock are remembered that were passed over, and how many of these are likely.
const MOST_PASSED: usize = 256;

/// A grant to another while a hold lasted; see `fencing/lease.rs`.
#[derive(Clone, Debug)]
pub(super) struct GivenAway {
    owed: Kept,
    last: Kept,
    given: Kept,
    pub released: Option<Kept>,
    afterwards: Option<Kept>,
    proven: bool,
}

impl GivenAway {
    pub fn witness(&self) -> Vec<Kept> {
        let always = [&self.owed, &self.last, &self.given];
        let more = self.released.iter().chain(&self.afterwards);
        always.into_iter().chain(more).cloned().collect()
    }
}

#[derive(Clone, Debug)]
struct Hold {
    grant: Kept,
    last: Kept,
    token: Token,
    /// The lease, in nanoseconds.
    lease: Option<u64>,
    until: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Lock {
    lease: Option<u64>,
    without_lease: bool,
    holds: Vec<Hold>,
    releases: VecDeque<Kept>,
    /// For each token, and for each client that named none, until when a release of it may take effect.
    released: BTreeMap<Token, u64>,
    released_by: Map<Name, u64>,
    /// Of tokens up to here a release may be forgotten.
    floor: Option<Token>,
    /// Holds that were passed over, without a known lease.
    passed: Map<(Name, Token), GivenAway>,
    /// The shortest time from the last sign of a hold to the next grant, where no release came between.
    lapse: Option<u64>,
    /// Those that only a lapse as short can explain, with their time.
    likely: Vec<(GivenAway, u64)>,
}

/// How many, and the first.
type Found = (u64, GivenAway);

#[derive(Clone, Debug, Default)]
pub(super) struct Leases {
    locks: BTreeMap<Name, Lock>,
    /// By lock: grants that came too early, and those that came so after a release of a lower token.
    pub early: BTreeMap<Name, Found>,
    pub released: BTreeMap<Name, Found>,
}

impl Leases {
    pub fn call(&mut self, arrival: &Arrival, op: &Kept) {
        let Some((name, lock)) = self.lock(arrival, op) else {
            return;
        };
        let shown = match op.function {
            Function::Release => {
                let shown = lock.show(arrival, op);
                if op.outcome != Outcome::Failed {
                    lock.release(arrival, op);
                }
                if op.outcome == Outcome::Ok {
                    if lock.releases.len() == RELEASES {
                        lock.releases.pop_front();
                    }
                    lock.releases.push_back(Kept::clone(op));
                }
                shown
            }
            Function::Renew => lock.show(arrival, op),
            _ if writes(op) => lock.show(arrival, op),
            _ => None,
        };
        shown.into_iter().for_each(|given| self.find(name, given));
    }

    pub fn answer(&mut self, arrival: &Arrival, op: &Kept) {
        let asks = matches!(
            op.function,
            Function::Acquire | Function::Renew | Function::Release
        );
        let Some((name, lock)) = self.lock(arrival, op).filter(|_| asks) else {
            return;
        };
        match (op.function, op.outcome) {
            (Function::Renew, Outcome::Ok) => lock.renew(op),
            (Function::Renew | Function::Release, Outcome::Failed) => lock.told_no(op),
            (Function::Acquire, _) if is_grant(op) => {
                for given in lock.grant(arrival, op) {
                    self.find(name, given);
                }
            }
            _ => {}
        }
    }

    /// The lock of an operation that may concern it. Most writes do not.
    fn lock(&mut self, arrival: &Arrival, op: &Operation) -> Option<(Name, &mut Lock)> {
        if writes(op) {
            let name = arrival.lock(op)?;
            let lock = self.locks.get_mut(&name)?;
            return (!lock.passed.is_empty()).then_some((name, lock));
        }
        let name = op.lock?;
        let new = || Lock::of(arrival.lock_header(name));
        Some((name, self.locks.entry(name).or_insert_with(new)))
    }

    fn find(&mut self, lock: Name, given: GivenAway) {
        let found = match given.released {
            Some(_) => &mut self.released,
            None => &mut self.early,
        };
        found.entry(lock).or_insert((0, given)).0 += 1;
    }

    /// By lock those that are likely, as far as is known by now: a lock that lapses as soon without a release shows that
    /// the lease is as short as that.
    pub fn likely(&self) -> impl Iterator<Item = (Name, u64, &GivenAway)> {
        self.locks.iter().filter_map(|(&name, lock)| {
            let longer = |&&(_, age): &&(GivenAway, u64)| lock.is_longer(age);
            let mut likely = lock.likely.iter().filter(longer);
            let (first, _) = likely.next()?;
            Some((name, 1 + likely.count() as u64, first))
        })
    }
}

impl Lock {
    fn of(header: Option<&LockHeader>) -> Self {
        let lease = header.and_then(|header| header.lease_ms);
        Self {
            lease: lease.map(|ms| ms.saturating_mul(MILLISECOND)),
            without_lease: header.is_some_and(|header| header.without_lease),
            ..Self::default()
        }
    }

    fn is_longer(&self, age: u64) -> bool {
        self.lapse.is_none_or(|lapse| lapse > age.saturating_mul(2))
    }

    fn release(&mut self, arrival: &Arrival, release: &Kept) {
        let over = returned(release).unwrap_or(u64::MAX);
        let Some(token) = release.token else {
            // It names no token, so it gives back whatever its holder has.
            let own = |hold: &Hold| {
                hold.grant.client == release.client || are_one_owner(arrival, &hold.grant, release)
            };
            let holds = self.holds.iter().filter(|hold| own(hold));
            for client in holds.map(|hold| hold.grant.client).chain([release.client]) {
                let last = self.released_by.entry(client).or_insert(over);
                *last = over.max(*last);
            }
            self.holds.retain(|hold| !own(hold));
            return;
        };
        let last = self.released.entry(token).or_insert(over);
        *last = over.max(*last);
        if self.released.len() > MOST_RELEASED
            && let Some((lowest, _)) = self.released.pop_first()
        {
            self.floor = self.floor.max(Some(lowest));
        }
        self.holds.retain(|hold| hold.token != token);
    }

    fn renew(&mut self, renewal: &Kept) {
        let of_client = |hold: &&mut Hold| hold.grant.client == renewal.client;
        let Some(hold) = self.holds.iter_mut().rfind(of_client) else {
            return;
        };
        hold.last = Kept::clone(renewal);
        hold.token = renewal.token.unwrap_or(hold.token);
        let lease = renewal.ttl_ms.map(|ms| ms.saturating_mul(MILLISECOND));
        hold.lease = lease.or(hold.lease);
        let until = hold
            .lease
            .map(|lease| renewal.invoked.time.saturating_add(lease));
        hold.until = until.or(hold.until);
    }

    /// A grant; the holds that it passed over too early.
    fn grant(&mut self, arrival: &Arrival, grant: &Kept) -> Vec<GivenAway> {
        let mut found = Vec::new();
        let Some(token) = grant.token else {
            return found;
        };
        let lease = grant.ttl_ms.map(|ms| ms.saturating_mul(MILLISECOND));
        let lease = lease.or(self.lease);
        let mut kept = Vec::new();
        for hold in std::mem::take(&mut self.holds) {
            if are_one_owner(arrival, &hold.grant, grant) {
                continue;
            }
            if !hold.grant.precedes(grant) && hold.token > token {
                // Whichever came first, the higher one is the newer.
                kept.push(hold);
                continue;
            }
            found.extend(self.pass_over(arrival, &hold, grant));
        }
        self.holds = kept;
        self.holds.push(Hold {
            grant: Kept::clone(grant),
            last: Kept::clone(grant),
            token,
            lease,
            until: lease.map(|lease| grant.invoked.time.saturating_add(lease)),
        });
        found
    }

    /// A release that was sent before the last sign of the hold may have landed after it.
    fn may_be_free(&self, hold: &Hold) -> bool {
        let releases = [
            self.released.get(&hold.token),
            self.released_by.get(&hold.grant.client),
        ];
        let last = hold.last.invoked.index;
        self.floor >= Some(hold.token) || releases.into_iter().flatten().any(|&over| over >= last)
    }

    /// A hold of another ends, for the service, with this grant.
    fn pass_over(&mut self, arrival: &Arrival, hold: &Hold, grant: &Kept) -> Option<GivenAway> {
        let (now, owner) = (grant.completed?, hold.grant.completed?);
        if self.may_be_free(hold) {
            return None;
        }
        let client = hold.grant.client;
        let freed = |release: &&Kept| {
            release.token < Some(hold.token)
                && release.client != client
                && owner.index < release.invoked.index
                && release.invoked.index < grant.invoked.index
        };
        let released = self.releases.iter().find(freed).cloned();
        let faults = &arrival.faults;
        if faults.any(hold.last.invoked, now, on_lock_service) {
            return None;
        }
        let given = GivenAway {
            owed: Kept::clone(&hold.grant),
            last: Kept::clone(&hold.last),
            given: Kept::clone(grant),
            released,
            afterwards: None,
            proven: true,
        };
        match (hold.until, hold.lease) {
            _ if self.without_lease => self.pass(client, hold.token, given),
            (Some(until), Some(lease)) => {
                let margin = (lease / 100).max(5 * MILLISECOND);
                return (now.time.saturating_add(margin) < until).then_some(given);
            }
            _ => {
                let age = now.time.saturating_sub(hold.last.invoked.time);
                match &given.released {
                    None => self.lapses(age),
                    Some(release) if release.precedes(grant) => {
                        let proven = false;
                        self.pass(client, hold.token, GivenAway { proven, ..given });
                    }
                    Some(_) => {}
                }
            }
        }
        None
    }

    fn pass(&mut self, client: Name, token: Token, given: GivenAway) {
        self.passed.insert((client, token), given);
        if self.passed.len() > MOST_PASSED {
            let oldest = self.passed.iter();
            let oldest = oldest.min_by_key(|(_, given)| given.given.invoked.index);
            if let Some((&oldest, _)) = oldest {
                self.passed.remove(&oldest);
            }
        }
    }

    fn lapses(&mut self, age: u64) {
        self.lapse = Some(self.lapse.map_or(age, |lapse| lapse.min(age)));
        let mut likely = std::mem::take(&mut self.likely);
        likely.retain(|&(_, age)| self.is_longer(age));
        self.likely = likely;
    }

    /// A client goes on under a token: for a lock without lease that shows that it still held.
    fn show(&mut self, arrival: &Arrival, op: &Kept) -> Option<GivenAway> {
        let token = op.token.filter(|_| self.without_lease)?;
        let given = self.passed.remove(&(op.client, token))?;
        let client = arrival.names.text(op.client);
        let header = arrival.header.as_ref();
        let cut = arrival
            .faults
            .any(given.owed.invoked, op.invoked, |window| {
                touches_worker(header, client, window)
            });
        let afterwards = Some(Kept::clone(op));
        (!cut).then_some(GivenAway {
            afterwards,
            ..given
        })
    }

    /// A holder is told that it holds nothing.
    fn told_no(&mut self, op: &Kept) {
        // Who names no token speaks of whatever it holds.
        let spoken_of = |&(client, token): &(Name, Token)| {
            client == op.client && op.token.is_none_or(|named| named == token)
        };
        let passed = self.passed.iter().filter(|(key, _)| spoken_of(key));
        let Some((&key, given)) = passed
            .max_by_key(|(key, _)| key.1)
            .filter(|(_, given)| !given.proven)
        else {
            return;
        };
        if !given.given.precedes(op) {
            return;
        }
        let granted = given.given.completed;
        let last = given.last.invoked.time;
        let age = granted.map_or(0, |at| at.time.saturating_sub(last));
        let Some(given) = self.passed.remove(&key) else {
            return;
        };
        if self.is_longer(age) && self.likely.len() < MOST_PASSED {
            let afterwards = Some(Kept::clone(op));
            let given = GivenAway {
                afterwards,
                ..given
            };
            self.likely.push((given, age));
        }
    }
}

/// The lock service cannot tell the two apart, or they are one holder.
fn are_one_owner(arrival: &Arrival, a: &Kept, b: &Kept) -> bool {
    let told = |op: &Kept| op.identity.unwrap_or(op.client);
    if told(a) == told(b) && (a.identity.is_some() || b.identity.is_some()) {
        return true;
    }
    if a.lock.is_some_and(|lock| !are_two(arrival, lock, a, b)) {
        return true;
    }
    // A restarted worker's clients are `c3~2`, `c3~3`, and may tell the service their first name.
    let first = |name: Name| {
        let text = arrival.names.text(name);
        text.split('~').next().unwrap_or(text)
    };
    a.client != b.client && first(a.client) == first(b.client)
}
