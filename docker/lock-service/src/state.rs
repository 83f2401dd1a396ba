//! The rules of locks, leases and tokens, as a pure state machine.
//!
//! It promises one hold a lock, strictly rising tokens, and waiters in the order in which they
//! came. It has no clock, no disk and no network: time is passed in, and what is to be answered
//! and stored is collected in [`Effects`]. Nothing is durable here; whoever drives it must store
//! the effects before the answers leave.
//!
//! ```text
//! c1 acquires        lease of c1 lapses        c2 releases
//!     |---- token 1 ----|---- token 2 ---------|
//!           |--- c2 waits --|                   free
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::Limits;
use crate::defects::{self, Defect};

#[cfg(test)]
mod tests;

/// A lock's name. It is shared by the lock, its timers and its effects.
pub(crate) type LockName = Arc<str>;

/// An instant: the time since an origin that the driver chose, by a monotonic clock.
pub(crate) type Moment = Duration;

/// Names one request, so that its answer finds the way back. Tickets rise in order of arrival,
/// and waiters are served in the order of their tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket(pub u64);

/// What a client asks of one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Acquire {
        client: String,
        ttl: Duration,
        wait: Duration,
    },
    Renew {
        client: String,
        token: u64,
        ttl: Duration,
    },
    Release {
        client: String,
        token: u64,
    },
}

impl Request {
    /// Who asks.
    pub fn client(&self) -> &str {
        match self {
            Self::Acquire { client, .. }
            | Self::Renew { client, .. }
            | Self::Release { client, .. } => client,
        }
    }
}

/// What a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Granted { token: u64, ttl: Duration },
    Renewed { token: u64, ttl: Duration },
    Released,
    Held,
    NotHeld,
    TokenExhausted,
    TooManyLocks,
    TooManyWaiters,
}

/// What came of the calls since the effects were last taken.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// Answers, to be sent once `unsaved` is stored.
    pub answers: Vec<(Ticket, Answer)>,
    /// Locks whose counter or hold is no longer what the store says.
    pub unsaved: BTreeSet<LockName>,
    /// Locks of which anything changed, the queue included.
    pub touched: BTreeSet<LockName>,
    /// The lock of each grant.
    pub granted: Vec<LockName>,
    /// The lock of each lease that lapsed.
    pub lapsed: Vec<LockName>,
}

/// What must survive a restart, of one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The newest token that was issued, 0 before the first.
    pub issued: u64,
    pub hold: Option<StoredHold>,
}

/// A hold as it is stored: without its end, which means nothing to another run of the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredHold {
    pub client: String,
    pub token: u64,
    pub ttl: Duration,
}

/// What one may see of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockView {
    /// The newest token that was issued, 0 before the first.
    pub issued: u64,
    /// The hold, and what is left of its lease.
    pub holder: Option<(StoredHold, Duration)>,
    pub waiting: usize,
}

/// All locks. An unknown lock is a free one that never issued a token.
#[derive(Debug)]
pub(crate) struct State {
    limits: Limits,
    defect: Option<Defect>,
    /// The counter of a lock that was never granted.
    before_first: u64,
    /// The time of day in milliseconds; only a defect looks at it.
    wall: u64,
    locks: HashMap<LockName, Lock>,
    timers: BTreeSet<(Moment, Timer)>,
    effects: Effects,
}

/// A free lock has no waiters: whoever frees it grants it to the first of them.
#[derive(Debug, Default)]
struct Lock {
    issued: u64,
    hold: Option<Hold>,
    waiters: BTreeMap<Ticket, Waiter>,
}

#[derive(Debug)]
struct Hold {
    client: String,
    token: u64,
    ttl: Duration,
    expires: Moment,
}

#[derive(Debug)]
struct Waiter {
    client: String,
    ttl: Duration,
    asked: Moment,
    until: Moment,
}

/// What happens when time passes. The order matters: of two things due at one moment the lapse
/// comes first, so that the lock still reaches the waiter that had just that long to wait.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Lease(LockName),
    Wait(LockName, Ticket),
}

impl State {
    /// No locks yet.
    pub fn new(limits: Limits, defect: Option<Defect>) -> Self {
        Self {
            limits,
            defect,
            before_first: 0,
            wall: 0,
            locks: HashMap::new(),
            timers: BTreeSet::new(),
            effects: Effects::default(),
        }
    }

    /// The first grant of each lock has `first_token`, which is at least 1.
    pub fn counting_from(self, first_token: u64) -> Self {
        Self {
            before_first: first_token.saturating_sub(1),
            ..self
        }
    }

    /// Tells the time of day, in milliseconds. The sound service does not care.
    pub fn set_wall_clock(&mut self, millis: u64) {
        self.wall = millis;
    }

    /// Takes over a lock from the store. Its hold, if any, has its full ttl from `now` on.
    pub fn restore(&mut self, now: Moment, name: &LockName, record: Record) {
        let hold = record.hold.map(|stored| Hold {
            expires: now + stored.ttl,
            client: stored.client,
            token: stored.token,
            ttl: stored.ttl,
        });
        if let Some(hold) = &hold {
            self.timers
                .insert((hold.expires, Timer::Lease(name.clone())));
        }
        let lock = Lock {
            issued: record.issued,
            hold,
            waiters: BTreeMap::new(),
        };
        self.locks.insert(name.clone(), lock);
        self.effects.touched.insert(name.clone());
    }

    /// Applies one request. It is answered in the effects, now or, if it waits, later.
    pub fn apply(&mut self, now: Moment, ticket: Ticket, name: &LockName, request: Request) {
        self.advance(now);
        let answer = match request {
            Request::Acquire { client, ttl, wait } => {
                let waiter = Waiter {
                    client,
                    ttl,
                    asked: now,
                    until: now + wait,
                };
                self.acquire(now, ticket, name, waiter)
            }
            Request::Renew { client, token, ttl } => {
                Some(self.renew(now, name, &client, token, ttl))
            }
            Request::Release { client, token } => Some(self.release(now, name, &client, token)),
        };
        if let Some(answer) = answer {
            self.effects.answers.push((ticket, answer));
        }
    }

    /// Lets everything happen that is due by `now`: leases lapse, waits run out.
    ///
    /// The driver may be late. Things still happen in the order in which they were due, and a
    /// lease that is granted here starts at `now`, when the grant is really made.
    pub fn advance(&mut self, now: Moment) {
        while self.timers.first().is_some_and(|(due, _)| *due <= now) {
            match self.timers.pop_first() {
                Some((_, Timer::Lease(_))) if !defects::leases_lapse(self.defect) => {}
                Some((_, Timer::Lease(name))) => {
                    self.effects.lapsed.push(name.clone());
                    self.hand_over(now, &name);
                }
                Some((_, Timer::Wait(name, ticket))) => {
                    self.lock(&name).waiters.remove(&ticket);
                    self.effects.touched.insert(name);
                    self.effects.answers.push((ticket, Answer::Held));
                }
                None => break,
            }
        }
    }

    /// The next moment at which [`State::advance`] has something to do.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// Takes a waiter out of the queue, unanswered. Does nothing where it does not wait any more.
    pub fn withdraw(&mut self, name: &LockName, ticket: Ticket) {
        let Some(lock) = self.locks.get_mut(name) else {
            return;
        };
        if let Some(waiter) = lock.waiters.remove(&ticket) {
            let timer = Timer::Wait(name.clone(), ticket);
            self.timers.remove(&(waiter.until, timer));
            self.effects.touched.insert(name.clone());
        }
    }

    /// What came of the calls since this was last asked.
    pub fn take_effects(&mut self) -> Effects {
        std::mem::take(&mut self.effects)
    }

    /// What is to be stored of a lock.
    pub fn record(&self, name: &LockName) -> Record {
        let lock = self.locks.get(name);
        Record {
            issued: lock.map_or(0, |lock| lock.issued),
            hold: lock
                .and_then(|lock| lock.hold.as_ref())
                .map(StoredHold::from),
        }
    }

    /// What a lock looks like at `now`.
    pub fn view(&self, now: Moment, name: &LockName) -> LockView {
        let lock = self.locks.get(name);
        LockView {
            issued: lock.map_or(0, |lock| lock.issued),
            holder: lock
                .and_then(|lock| lock.hold.as_ref())
                .map(|hold| (StoredHold::from(hold), hold.expires.saturating_sub(now))),
            waiting: lock.map_or(0, |lock| lock.waiters.len()),
        }
    }

    /// Answers an acquire, or queues it and answers nothing yet.
    fn acquire(
        &mut self,
        now: Moment,
        ticket: Ticket,
        name: &LockName,
        waiter: Waiter,
    ) -> Option<Answer> {
        if !self.locks.contains_key(name) {
            if self.locks.len() >= self.limits.locks {
                return Some(Answer::TooManyLocks);
            }
            let new = Lock {
                issued: defects::first_counter(self.defect, self.before_first),
                ..Lock::default()
            };
            self.locks.insert(name.clone(), new);
        }
        let most_waiters = self.limits.waiters;
        let lock = self.lock(name);
        let holder = lock.hold.as_ref().map(|hold| hold.client.as_str());
        if lock.issued == u64::MAX {
            // No grant can follow, however long one waits.
            Some(Answer::TokenExhausted)
        } else if holder.is_none() || holder == Some(waiter.client.as_str()) {
            self.end_hold(name);
            Some(self.grant(now, name, waiter))
        } else if waiter.until <= now {
            Some(Answer::Held)
        } else if lock.waiters.len() >= most_waiters {
            Some(Answer::TooManyWaiters)
        } else {
            let until = waiter.until;
            lock.waiters.insert(ticket, waiter);
            self.timers
                .insert((until, Timer::Wait(name.clone(), ticket)));
            self.effects.touched.insert(name.clone());
            None
        }
    }

    fn renew(
        &mut self,
        now: Moment,
        name: &LockName,
        client: &str,
        token: u64,
        ttl: Duration,
    ) -> Answer {
        let Some(hold) = self.matching_hold(name, client, token, true) else {
            return Answer::NotHeld;
        };
        let before = std::mem::replace(&mut hold.expires, now + ttl);
        hold.ttl = ttl;
        self.timers.remove(&(before, Timer::Lease(name.clone())));
        self.timers.insert((now + ttl, Timer::Lease(name.clone())));
        self.save(name);
        Answer::Renewed { token, ttl }
    }

    fn release(&mut self, now: Moment, name: &LockName, client: &str, token: u64) -> Answer {
        if self.matching_hold(name, client, token, false).is_none() {
            return Answer::NotHeld;
        }
        self.hand_over(now, name);
        Answer::Released
    }

    /// The current hold, if it is this client's under this token.
    fn matching_hold(
        &mut self,
        name: &LockName,
        client: &str,
        token: u64,
        renewal: bool,
    ) -> Option<&mut Hold> {
        let anybody = defects::believes_anybody(self.defect, renewal);
        let hold = self.locks.get_mut(name)?.hold.as_mut()?;
        (anybody || (hold.client == client && hold.token == token)).then_some(hold)
    }

    /// Ends the hold and grants the lock to whoever waits first.
    fn hand_over(&mut self, now: Moment, name: &LockName) {
        self.end_hold(name);
        if let Some((ticket, waiter)) = self.lock(name).waiters.pop_first() {
            let timer = Timer::Wait(name.clone(), ticket);
            self.timers.remove(&(waiter.until, timer));
            let answer = self.grant(now, name, waiter);
            self.effects.answers.push((ticket, answer));
        }
    }

    /// Ends the hold, if there is one.
    fn end_hold(&mut self, name: &LockName) {
        if let Some(hold) = self.lock(name).hold.take() {
            self.timers
                .remove(&(hold.expires, Timer::Lease(name.clone())));
            self.save(name);
        }
    }

    /// Grants a free lock under the next token. The caller has seen that there is a next one.
    fn grant(&mut self, now: Moment, name: &LockName, to: Waiter) -> Answer {
        let expires = defects::lease_begins(self.defect, now, to.asked) + to.ttl;
        let (defect, wall) = (self.defect, self.wall);
        let lock = self.lock(name);
        let token = defects::next_token(defect, lock.issued, wall);
        lock.issued = token;
        lock.hold = Some(Hold {
            client: to.client,
            token,
            ttl: to.ttl,
            expires,
        });
        self.timers.insert((expires, Timer::Lease(name.clone())));
        self.save(name);
        self.effects.granted.push(name.clone());
        if token == u64::MAX {
            self.turn_waiters_away(name);
        }
        Answer::Granted { token, ttl: to.ttl }
    }

    /// The last token is given out: those who still wait wait for nothing. From here on the lock
    /// has no waiters, so that a hand-over never needs a token that does not exist.
    fn turn_waiters_away(&mut self, name: &LockName) {
        for (ticket, waiter) in std::mem::take(&mut self.lock(name).waiters) {
            let timer = Timer::Wait(name.clone(), ticket);
            self.timers.remove(&(waiter.until, timer));
            self.effects.answers.push((ticket, Answer::TokenExhausted));
        }
    }

    fn save(&mut self, name: &LockName) {
        self.effects.unsaved.insert(name.clone());
        self.effects.touched.insert(name.clone());
    }

    fn lock(&mut self, name: &LockName) -> &mut Lock {
        self.locks
            .get_mut(name)
            .expect("a lock with a timer, a hold or a waiter is never forgotten")
    }
}

impl From<&Hold> for StoredHold {
    fn from(hold: &Hold) -> Self {
        Self {
            client: hold.client.clone(),
            token: hold.token,
            ttl: hold.ttl,
        }
    }
}
