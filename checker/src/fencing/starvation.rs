//! `starvation`: everybody waits for a lock, and nobody gets anywhere.
//!
//! With no fault in force and acquires open or refused throughout, nobody is granted the lock, renews it or writes under
//! it for longer than 3 leases, the longest that an acquire waited before it was answered, and one lease for each acquire
//! or renewal of unknown outcome (it may have been granted to somebody who never heard of it). An acquire that is never
//! answered may be a dead process's: it counts for as long as others have waited. A warning; only where the lease is
//! known, from the header or the operations, and never for a lock that the header declares to be without one.
//!
//! Source: <https://github.com/etcd-io/etcd/issues/17470>: a lease that went on being renewed after its client was gone;
//! <https://github.com/kubernetes/kubernetes> and others lose a lock to a holder that is dead.
//!
//! It fires on: lease 1 s, granted, never renewed, and `held` for 10 s. It is silent while the holder renews or writes,
//! while nobody wants the lock for a lease, and across faults.
//!
//! State, for each lock: since when nobody has got anywhere, until when somebody wanted it, how many outcomes are
//! unknown since.

use super::case::Case;
use super::kinds::Kind;
use super::story::{self, MOST, Scene};
use super::{Draft, STARVATION};
use crate::history::{FaultOutcome, Function, Name, Operation, Outcome};

const MILLISECOND: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, Default)]
struct Lock {
    name: Option<Name>,
    /// 0 where there is none, or none is known.
    lease: u64,
    without_lease: bool,
    /// The longest that an acquire waited before it was answered.
    wait: u64,
    since: Option<u64>,
    wanted_until: u64,
    unknown: u64,
    /// What was last done under it.
    last: Option<usize>,
    longest: Option<Hunger>,
    count: u64,
}

/// A time in which nobody got anywhere.
#[derive(Clone, Copy, Debug)]
struct Hunger {
    from: u64,
    until: u64,
    last: Option<usize>,
    unknown: u64,
}

/// One warning a lock. O(n).
pub(crate) fn starvations(case: &Case<'_>) -> Vec<Draft> {
    let mut locks = locks(case);
    if locks.iter().all(|lock| lock.lease == 0) {
        return Vec::new();
    }
    let asks = Kind::ACQUIRE.or(Kind::RENEW);
    for moment in case.walk(asks.or(Kind::WRITE).or(Kind::OTHER)) {
        let op = moment.op;
        let done = moment.returns && case.kinds[op].is(Kind::OK);
        if !done && !case.kinds[op].is(asks) {
            continue;
        }
        let Some(place) = case.lock_place(op) else {
            continue;
        };
        let lock = &mut locks[place];
        if lock.lease == 0 {
            continue;
        }
        let operation = case.operation(op);
        if operation.function == Function::Acquire && !moment.returns {
            let end = lock.wanted_until(operation);
            lock.want(case, operation.invoked.time, end);
        }
        let asks = matches!(operation.function, Function::Acquire | Function::Renew);
        if asks && operation.outcome == Outcome::Unknown {
            lock.unknown += 1;
        }
        if done {
            let now = operation.completed.unwrap_or(operation.invoked).time;
            lock.end(case, now);
            lock.since = (lock.wanted_until > now).then_some(now);
            lock.unknown = 0;
            lock.last = Some(op);
        }
    }
    let ended = case.history.last_time;
    locks
        .iter_mut()
        .filter_map(|lock| {
            lock.end(case, ended);
            let hunger = lock.longest?;
            Some(describe(case, lock, hunger).on(lock.name, None))
        })
        .collect()
}

fn locks(case: &Case<'_>) -> Vec<Lock> {
    let mut locks = vec![Lock::default(); case.history.names.count()];
    for (name, header) in case.history.header.iter().flat_map(|header| &header.locks) {
        if let Some(name) = case.history.names.find(name) {
            let lock = &mut locks[name.position()];
            let lease = header.lease_ms.unwrap_or(0);
            lock.lease = lease.saturating_mul(MILLISECOND);
            lock.without_lease = header.without_lease;
        }
    }
    for (_, operation) in case.of(Kind::ACQUIRE.or(Kind::RENEW)) {
        let (Function::Acquire | Function::Renew, Some(name)) =
            (operation.function, operation.lock)
        else {
            continue;
        };
        let lock = &mut locks[name.position()];
        lock.name = Some(name);
        let lease = operation.ttl_ms.map(|ms| ms.saturating_mul(MILLISECOND));
        lock.lease = lock.lease.max(lease.unwrap_or(0));
        if let (Some(returned), Function::Acquire) = (operation.returned(), operation.function) {
            let wait = returned.time.saturating_sub(operation.invoked.time);
            lock.wait = lock.wait.max(wait);
        }
    }
    for lock in locks.iter_mut().filter(|lock| lock.without_lease) {
        lock.lease = 0;
    }
    locks
}

impl Lock {
    /// Until when an acquire surely wants the lock: until it is answered. Who never is may be dead, so that counts for as
    /// long as others have waited for their answers.
    fn wanted_until(&self, acquire: &Operation) -> u64 {
        acquire.completed.map_or_else(
            || acquire.invoked.time.saturating_add(self.wait),
            |at| at.time,
        )
    }

    /// An acquire is open from now on until its end.
    fn want(&mut self, case: &Case<'_>, now: u64, end: u64) {
        if self.since.is_some() && now > self.wanted_until.saturating_add(self.lease) {
            self.end(case, now);
            self.since = None;
        }
        if self.since.is_none() {
            self.since = Some(now);
            self.unknown = 0;
        }
        self.wanted_until = self.wanted_until.max(end);
    }

    /// The time in which nobody got anywhere ends: was it long?
    fn end(&mut self, case: &Case<'_>, now: u64) {
        let Some(since) = self.since else { return };
        let until = now.min(self.wanted_until);
        let enough = self.enough(self.unknown);
        if until.saturating_sub(since) <= enough {
            return;
        }
        let Some((from, until)) = longest_quiet(case, since, until) else {
            return;
        };
        if until.saturating_sub(from) <= enough {
            return;
        }
        self.count += 1;
        self.longest.get_or_insert(Hunger {
            from,
            until,
            last: self.last,
            unknown: self.unknown,
        });
    }

    fn enough(&self, unknown: u64) -> u64 {
        (self.lease.saturating_mul(3 + unknown)).saturating_add(self.wait)
    }
}

/// The longest time between two moments in which no fault was in force.
fn longest_quiet(case: &Case<'_>, since: u64, until: u64) -> Option<(u64, u64)> {
    let mut from = since;
    let mut longest: Option<(u64, u64)> = None;
    let mut consider = |from: u64, until: u64| {
        if from < until && longest.is_none_or(|(a, b)| b - a < until - from) {
            longest = Some((from, until));
        }
    };
    // Windows are in the order of their begins.
    for window in &case.history.faults {
        if window.outcome == FaultOutcome::Skipped {
            continue;
        }
        let ended = window.ended.map_or(u64::MAX, |at| at.time);
        if window.began.time >= until {
            break;
        }
        consider(from, window.began.time);
        from = from.max(ended);
    }
    consider(from, until);
    longest
}

fn describe(case: &Case<'_>, lock: &Lock, hunger: Hunger) -> Draft {
    let waiting = waiting(case, lock, hunger);
    let mut witness: Vec<usize> = hunger.last.into_iter().collect();
    witness.extend(&waiting);
    // Where the last of them is still open its wait is as long as the file.
    witness.extend(last_told(case).filter(|_| hunger.until == case.history.last_time));
    let shown = hunger
        .last
        .into_iter()
        .chain(waiting.iter().copied().take(MOST));
    let scenes = shown
        .map(|op| Scene::Happened(case.operation(op)))
        .collect();
    let seconds = |ns: u64| format!("{}.{:01} s", ns / 1_000_000_000, ns / 100_000_000 % 10);
    let unknown = match hunger.unknown {
        0 => String::new(),
        unknown => format!(" and one for each of {unknown} acquires of unknown outcome"),
    };
    let mut ending = format!(
        "For {} somebody wanted the lock and nobody was granted it, renewed it or wrote under it, with no fault in force. Its lease is {}, so three of them{unknown} had run out.",
        seconds(hunger.until - hunger.from),
        seconds(lock.lease),
    );
    if lock.count > 1 {
        ending += &format!("\nThat happened {} times in all.", lock.count);
    }
    let story = story::tell(case.history, scenes, &ending);
    Draft::new(STARVATION, lock.count, witness, story)
}

/// A few acquires that together waited throughout, with no gap of a lease between.
fn waiting(case: &Case<'_>, lock: &Lock, hunger: Hunger) -> Vec<usize> {
    let end = |op: usize| lock.wanted_until(case.operation(op));
    let of_lock = |&op: &usize| {
        let operation = case.operation(op);
        operation.function == Function::Acquire
            && operation.lock == lock.name
            && operation.invoked.time <= hunger.until
            && end(op) >= hunger.from
    };
    let mut chosen: Vec<usize> = Vec::new();
    let mut best: Option<usize> = None;
    for op in (0..case.history.operations.len()).filter(of_lock) {
        let reached = chosen.last().map_or(hunger.from, |&last| end(last));
        let within = case.operation(op).invoked.time <= reached.saturating_add(lock.lease);
        if !within {
            chosen.extend(best.take());
        }
        if best.is_none_or(|best| end(best) < end(op)) {
            best = Some(op);
        }
    }
    chosen.extend(best);
    chosen
}

/// The operation with the last event of the file.
fn last_told(case: &Case<'_>) -> Option<usize> {
    let told = |op: &usize| {
        let operation = case.operation(*op);
        operation.completed.unwrap_or(operation.invoked)
    };
    (0..case.history.operations.len()).max_by_key(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::LockHeader;
    use crate::scenario::Scenario;

    fn lease(s: &mut Scenario, without_lease: bool) {
        let header = LockHeader {
            lease_ms: Some(100),
            without_lease,
            ..LockHeader::default()
        };
        s.header().locks.insert("L".to_owned(), header);
    }

    fn hungry(s: &Scenario) -> usize {
        let history = s.history();
        starvations(&Case::new(&history)).len()
    }

    /// Somebody is told `held` again and again, for a second.
    fn held_for_long() -> Scenario {
        let mut s = Scenario::new();
        s.grant("c1", "L", 1);
        for _ in 0..20 {
            s.wait_ms(50);
            let call = s.acquire_call("c2", "L");
            s.end(call, crate::history::Type::Fail, |event| {
                event.error = Some("held".to_owned());
            });
        }
        s
    }

    #[test]
    fn who_asks_again_and_again_is_hungry_but_not_for_a_lock_without_lease() {
        let mut s = held_for_long();
        assert_eq!(hungry(&s), 0, "no lease is known");
        lease(&mut s, false);
        assert_eq!(hungry(&s), 1);
        lease(&mut s, true);
        assert_eq!(hungry(&s), 0);
    }

    #[test]
    fn a_dead_process_wants_nothing() {
        let mut s = Scenario::new();
        lease(&mut s, false);
        s.grant("c1", "L", 1);
        s.release("c1", "L", 1);
        let _dead = s.acquire_call("c2", "L");
        for _ in 0..20 {
            s.wait_ms(100);
            s.read("c3", "k", None, None);
        }
        assert_eq!(hungry(&s), 0);
    }
}
