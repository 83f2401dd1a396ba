//! One client, as a pure state machine: acquire, write and renew for a while, release, begin again.
//!
//! It is fed by its own completions and nothing else. Time comes in as an argument and only paces it: **it never
//! looks at a clock to find out whether its lease still runs**, and it knows nothing of other clients' grants. That
//! is the client that fencing has to protect the resource from. A client works on two lanes at once, each of them a
//! process of the history: renewals and reads go on beside acquires, writes and releases.
//!
//! ```text
//! main   acquire ok 42 |--write--| |--write--|   |--write--| refused: stop, acquire anew
//! side                    |--renew--|    |--read--|
//! ```

use std::time::Duration;

use fencepost_checker::history::{Token, Type};
use rand::RngExt;

use crate::defects::HolderDefect;
use crate::protocol::Response;
use crate::seed::Stream;
use crate::suite::Length;

/// One of a client's two logical threads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lane {
    /// Acquires, writes, releases.
    Main,
    /// Renews, reads.
    Side,
}

/// What a client does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Queue for the lock.
    Acquire {
        /// The lease to ask for.
        ttl: Duration,
        /// How long to queue.
        wait: Duration,
    },
    /// Prolong the lease.
    Renew {
        /// The token that it believes in.
        token: Token,
        /// The lease to ask for.
        ttl: Duration,
    },
    /// Give the lock back.
    Release {
        /// The token that it believes in.
        token: Token,
    },
    /// Write under the token.
    Write {
        /// Where to.
        key: String,
        /// The token that it believes in.
        token: Token,
        /// Unique within the run.
        value: String,
        /// By which path, where it is not the primary one.
        path: Option<String>,
    },
    /// Replace what was read, if it is still there.
    Cas {
        /// Where.
        key: String,
        /// What was read; `None`: nothing.
        expected: Option<String>,
        /// Unique within the run.
        value: String,
    },
    /// Send an effect until it is acknowledged.
    Append {
        /// Where to.
        key: String,
        /// Unique within the run.
        value: String,
    },
    /// Look at a key.
    Read {
        /// Which.
        key: String,
    },
}

/// Whether a lane has something to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Due {
    /// At once, whatever the rate.
    Urgent,
    /// As soon as the rate allows, before load.
    Control,
    /// Load: a write of a holder, or a read.
    Load,
    /// Nothing before that time (since the run began).
    At(Duration),
    /// Nothing until something completes.
    Idle,
}

/// How often a hot loop hits the resource before even it gives up: the load of a defect is bounded too.
const HOT_LOOP_LIMIT: u32 = 40;

/// The share of writes that go by a path beside the primary one, where there are such paths.
const BESIDE: f64 = 0.5;

/// No client queues longer than this at a time, however long the lease: it asks again instead.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// One client's state.
#[derive(Debug)]
pub struct Holder {
    client: String,
    keys: Vec<String>,
    lease: Duration,
    critical_section: Option<Length>,
    defect: Option<HolderDefect>,
    stream: Stream,
    written: u64,
    belief: Option<Belief>,
    acquire_at: Duration,
    busy: [bool; 2],
    woken: Option<Woken>,
    look: Option<String>,
    paths: Vec<&'static str>,
    lockless: Option<Lockless>,
    /// What a compare-and-set has read, until it is used.
    seen: Option<Option<String>>,
    /// It is to queue again at once after a release.
    eager: bool,
    hot: Option<Hot>,
    finished: bool,
}

/// What a client does that takes no lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lockless {
    /// Reads, and replaces what it read.
    Cas,
    /// Sends effects.
    Append,
}

/// What a holder does first once it runs again.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum First {
    /// It writes, as a program that was stopped just before its write.
    #[default]
    Write,
    /// It renews.
    Renew,
    /// It releases, and asks again soon.
    Release,
    /// It asks for the lock again.
    Acquire,
}

/// A holder that runs again.
#[derive(Debug)]
struct Woken {
    key: Option<String>,
    first: First,
}

/// What a client thinks it holds.
#[derive(Debug)]
struct Belief {
    token: Token,
    /// It works until then, and writes only afterwards.
    writes_from: Duration,
    until: Duration,
    renew_at: Duration,
    touched: usize,
}

/// A hot loop under way.
#[derive(Debug)]
struct Hot {
    key: String,
    token: Token,
    left: u32,
}

impl Holder {
    /// A client that will queue for its lock soon after the run began. `keys` are those that the lock guards.
    ///
    /// # Panics
    /// When `keys` is empty.
    #[must_use]
    pub fn new(
        client: String,
        keys: Vec<String>,
        lease: Duration,
        defect: Option<HolderDefect>,
        mut stream: Stream,
    ) -> Self {
        assert!(!keys.is_empty(), "a lock guards at least one key");
        let acquire_at = Duration::from_millis(stream.random_range(0..100));
        Self {
            client,
            keys,
            lease,
            critical_section: None,
            defect,
            stream,
            written: 0,
            belief: None,
            acquire_at,
            busy: [false; 2],
            woken: None,
            look: None,
            paths: Vec::new(),
            lockless: None,
            seen: None,
            eager: false,
            hot: None,
            finished: false,
        }
    }

    /// It writes by these paths too, beside the primary one.
    #[must_use]
    pub fn with_paths(self, paths: Vec<&'static str>) -> Self {
        Self { paths, ..self }
    }

    /// It takes no lock.
    #[must_use]
    pub fn without_a_lock(self, lockless: Lockless) -> Self {
        Self {
            lockless: Some(lockless),
            ..self
        }
    }

    /// The same client, whose holds are each one critical section: it works for as long as is drawn from `length`, then
    /// writes each key once and lets go.
    #[must_use]
    pub fn with_critical_section(mut self, length: Option<Length>) -> Self {
        self.critical_section = length;
        self
    }

    /// The token under which it would write now.
    #[must_use]
    pub fn believes(&self) -> Option<Token> {
        self.belief.as_ref().map(|belief| belief.token)
    }

    /// Whether the lane has an operation under way.
    #[must_use]
    pub fn is_busy(&self, lane: Lane) -> bool {
        self.busy[lane as usize]
    }

    /// Its worker had been stopped and runs again: if it believes that it holds the lock, a write (to `key`, where
    /// given) comes before anything else, as it would in a program that was stopped just before its write.
    pub fn wake(&mut self, key: Option<String>) {
        self.wake_to(First::Write, key);
    }

    /// The same where something else than a write comes first.
    pub fn wake_to(&mut self, first: First, key: Option<String>) {
        if self.belief.is_some() {
            self.woken = Some(Woken { key, first });
        }
    }

    /// It is to read `key` as soon as its side lane is free.
    pub fn look(&mut self, key: String) {
        self.look = Some(key);
    }

    /// No more load: from here on it only does what [`Holder::look`] asks for.
    pub fn finish(&mut self) {
        self.finished = true;
        self.woken = None;
        self.hot = None;
    }

    /// What the lane has to do at `now`.
    #[must_use]
    pub fn due(&self, lane: Lane, now: Duration) -> Due {
        if self.is_busy(lane) {
            return Due::Idle;
        }
        match lane {
            Lane::Main => self.main_due(now),
            Lane::Side => self.side_due(now),
        }
    }

    fn main_due(&self, now: Duration) -> Due {
        if self.finished {
            return Due::Idle;
        }
        let renews_first = |woken: &Woken| woken.first == First::Renew;
        match &self.belief {
            _ if self.lockless.is_some() => Due::Load,
            _ if self.woken.as_ref().is_some_and(renews_first) => Due::Idle,
            _ if self.hot.is_some() || self.woken.is_some() => Due::Urgent,
            Some(belief) if belief.until <= now && belief.touched >= self.keys.len() => {
                Due::Control
            }
            Some(belief) if belief.writes_from > now => Due::At(belief.writes_from),
            Some(_) => Due::Load,
            None if self.acquire_at <= now => Due::Control,
            None => Due::At(self.acquire_at),
        }
    }

    fn side_due(&self, now: Duration) -> Due {
        if let Some(woken) = &self.woken {
            return match woken.first {
                First::Renew => Due::Urgent,
                _ => Due::Idle,
            };
        }
        if self.look.is_some() {
            return Due::Urgent;
        }
        match &self.belief {
            _ if self.finished => Due::Idle,
            Some(belief) if belief.renew_at <= now => Due::Control,
            Some(_) | None => Due::Load,
        }
    }

    /// When the lane's next control action falls due, so that a driver can sleep until then.
    #[must_use]
    pub fn next_control(&self, lane: Lane) -> Option<Duration> {
        if self.finished || self.is_busy(lane) {
            return None;
        }
        match (lane, &self.belief) {
            (Lane::Main, Some(belief)) => Some(belief.until.max(belief.writes_from)),
            (Lane::Main, None) => Some(self.acquire_at),
            (Lane::Side, Some(belief)) => Some(belief.renew_at),
            (Lane::Side, None) => None,
        }
    }

    /// Takes what [`Holder::due`] announced; the lane is busy until [`Holder::completed`].
    ///
    /// # Panics
    /// When the lane is busy or has nothing to do.
    pub fn take(&mut self, lane: Lane, now: Duration) -> Action {
        assert!(
            !matches!(self.due(lane, now), Due::At(_) | Due::Idle),
            "a lane is asked only when something is due"
        );
        let action = match lane {
            Lane::Main => self.take_main(now),
            Lane::Side => self.take_side(now),
        };
        self.busy[lane as usize] = true;
        action
    }

    fn take_main(&mut self, now: Duration) -> Action {
        if let Some(Hot { key, token, .. }) = &self.hot {
            let (key, token) = (key.clone(), *token);
            return Action::Write {
                key,
                token,
                value: self.value(),
                path: None,
            };
        }
        if let Some(lockless) = self.lockless {
            return self.take_lockless(lockless);
        }
        let woken = self.woken.take();
        let first = woken.as_ref().map(|woken| woken.first);
        if let (Some(First::Release), Some(belief)) = (first, &self.belief) {
            let token = belief.token;
            (self.belief, self.eager) = (None, true);
            return Action::Release { token };
        }
        if first == Some(First::Acquire) {
            self.belief = None;
        }
        let Some(belief) = &mut self.belief else {
            // Queues for less than a lease and for more than half of one, so that a lapsed lock finds somebody waiting.
            let wait = self
                .lease
                .mul_f64(self.stream.random_range(0.5..0.9))
                .min(LONGEST_WAIT);
            return Action::Acquire {
                ttl: self.lease,
                wait,
            };
        };
        let token = belief.token;
        if woken.is_none() && belief.until <= now && belief.touched >= self.keys.len() {
            self.belief = None;
            return Action::Release { token };
        }
        // A new holder touches every key once, in order: until then the marks of the others are its predecessor's.
        let index = if belief.touched < self.keys.len() {
            belief.touched
        } else {
            self.stream.random_range(0..self.keys.len())
        };
        // A side effect follows a write, so none comes before the first; a holder may have been stopped between the two.
        let follows = woken.is_some() || belief.touched >= self.keys.len();
        let path = (follows && !self.paths.is_empty() && self.stream.random_bool(BESIDE))
            .then(|| self.paths[self.stream.random_range(0..self.paths.len())].to_owned());
        let aimed = woken.and_then(|woken| woken.key);
        let key = aimed.unwrap_or_else(|| self.keys[index].clone());
        belief.touched += usize::from(path.is_none() && key == self.keys[index]);
        Action::Write {
            key,
            token,
            value: self.value(),
            path,
        }
    }

    fn take_lockless(&mut self, lockless: Lockless) -> Action {
        let index = self.stream.random_range(0..self.keys.len());
        let key = self.keys[index].clone();
        match (lockless, self.seen.take()) {
            // One key, so that what was read is of the key that is written.
            (Lockless::Cas, None) => Action::Read {
                key: self.keys[0].clone(),
            },
            (Lockless::Cas, Some(expected)) => Action::Cas {
                key: self.keys[0].clone(),
                expected,
                value: self.value(),
            },
            (Lockless::Append, _) => Action::Append {
                key,
                value: self.value(),
            },
        }
    }

    fn take_side(&mut self, now: Duration) -> Action {
        let renews_first = self.woken.take_if(|woken| woken.first == First::Renew);
        if renews_first.is_none()
            && let Some(key) = self.look.take()
        {
            return Action::Read { key };
        }
        match &self.belief {
            Some(belief) if renews_first.is_some() || belief.renew_at <= now => Action::Renew {
                token: belief.token,
                ttl: self.lease,
            },
            _ => {
                let index = self.stream.random_range(0..self.keys.len());
                Action::Read {
                    key: self.keys[index].clone(),
                }
            }
        }
    }

    /// A value that nobody else writes: client and sequence.
    fn value(&mut self) -> String {
        self.written += 1;
        format!("{}-{}", self.client, self.written)
    }

    /// What became of the lane's action. `answer` is `None` where none came.
    pub fn completed(
        &mut self,
        lane: Lane,
        action: &Action,
        answer: Option<&Response>,
        now: Duration,
    ) {
        self.busy[lane as usize] = false;
        let kind = answer.map_or(Type::Info, |answer| answer.kind);
        let error = answer.and_then(|answer| answer.error.as_deref());
        match action {
            Action::Acquire { .. } => {
                let token = answer.and_then(|answer| answer.token);
                self.acquired(if kind == Type::Ok { token } else { None }, error, now);
            }
            Action::Renew { token, .. } => self.renewed(*token, kind, error, now),
            Action::Release { .. } if std::mem::take(&mut self.eager) => self.rest(now, 1..10),
            Action::Release { .. } => self.rest(now, 20..200),
            Action::Read { .. } if lane == Lane::Main => {
                let value = answer.filter(|_| kind == Type::Ok).map(|answer| {
                    let value = answer.value.as_ref().and_then(|value| value.as_str());
                    value.map(str::to_owned)
                });
                self.seen = value;
            }
            Action::Write {
                path: Some(_),
                token,
                ..
            } if kind == Type::Fail && error == Some("stale-token") => self.lost(*token, now),
            Action::Write { key, token, .. } => {
                if kind == Type::Fail && error == Some("stale-token") {
                    self.refused(key, *token, now);
                } else {
                    self.hot = None;
                    if kind == Type::Fail && error == Some("not-held") {
                        self.lost(*token, now);
                    }
                }
            }
            Action::Read { .. } | Action::Cas { .. } | Action::Append { .. } => {}
        }
    }

    fn acquired(&mut self, token: Option<Token>, error: Option<&str>, now: Duration) {
        match (token, error) {
            (Some(token), _) => {
                let (works, hold) = match self.critical_section {
                    Some(length) => (length.draw(&mut self.stream), Duration::ZERO),
                    None => (
                        Duration::ZERO,
                        self.lease.mul_f64(self.stream.random_range(0.2..3.0)),
                    ),
                };
                self.belief = Some(Belief {
                    token,
                    writes_from: now + works,
                    until: now + works + hold,
                    renew_at: now + self.lease / 3,
                    touched: 0,
                });
            }
            (None, Some("held")) => self.rest(now, 5..40),
            (None, _) => self.rest(now, 50..150),
        }
    }

    fn renewed(&mut self, token: Token, kind: Type, error: Option<&str>, now: Duration) {
        let lease = self.lease;
        if kind == Type::Fail && error == Some("not-held") {
            self.lost(token, now);
        } else if let Some(belief) = self.belief.as_mut().filter(|belief| belief.token == token) {
            // An unknown renewal tells a holder nothing: it goes on, and that is what makes it dangerous.
            belief.renew_at = now + lease / if kind == Type::Ok { 3 } else { 6 };
        }
    }

    /// It was told that the hold is no longer its own.
    fn lost(&mut self, token: Token, now: Duration) {
        if self.believes() == Some(token) {
            self.belief = None;
            self.rest(now, 5..40);
        }
    }

    fn refused(&mut self, key: &str, token: Token, now: Duration) {
        if self.believes() == Some(token) {
            self.belief = None;
        }
        let left = match &self.hot {
            Some(hot) => hot.left.saturating_sub(1),
            None if self.defect == Some(HolderDefect::HotLoop) => HOT_LOOP_LIMIT,
            None => 0,
        };
        self.hot = (left > 0 && !self.finished).then(|| Hot {
            key: key.to_owned(),
            token,
            left,
        });
        if self.hot.is_none() {
            self.rest(now, 5..40);
        }
    }

    /// Queues again after a pause drawn from `millis`.
    fn rest(&mut self, now: Duration, millis: std::ops::Range<u64>) {
        self.acquire_at = now + Duration::from_millis(self.stream.random_range(millis));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    const LEASE: Duration = Duration::from_secs(1);
    const START: Duration = Duration::from_millis(500);

    fn holder(defect: Option<HolderDefect>) -> Holder {
        Holder::new(
            "c1".into(),
            vec!["k".into()],
            LEASE,
            defect,
            Seed(1).stream("holder/c1"),
        )
    }

    fn ok(token: u64) -> Response {
        Response {
            token: Some(token.into()),
            ..Response::new(0, Type::Ok)
        }
    }

    fn refusal() -> Response {
        Response {
            high_water: Some(9_u64.into()),
            ..Response::with_error(0, Type::Fail, "stale-token")
        }
    }

    /// A holder that was granted `token` at `START`.
    fn holding(token: u64, defect: Option<HolderDefect>) -> Holder {
        let mut holder = holder(defect);
        let acquire = holder.take(Lane::Main, START);
        assert!(matches!(acquire, Action::Acquire { ttl: LEASE, .. }));
        holder.completed(Lane::Main, &acquire, Some(&ok(token)), START);
        holder
    }

    #[test]
    fn a_critical_section_is_work_then_one_write_of_each_key_then_a_release() {
        let mut holder = holder(None).with_critical_section(Some(Length::millis(700, 700)));
        let acquire = holder.take(Lane::Main, START);
        holder.completed(Lane::Main, &acquire, Some(&ok(3)), START);
        let writes = START + Duration::from_millis(700);
        assert_eq!(holder.due(Lane::Main, START), Due::At(writes));
        assert_eq!(holder.next_control(Lane::Main), Some(writes));
        assert_eq!(holder.due(Lane::Main, writes), Due::Load);
        let write = holder.take(Lane::Main, writes);
        assert!(matches!(write, Action::Write { .. }), "{write:?}");
        holder.completed(
            Lane::Main,
            &write,
            Some(&Response::new(0, Type::Ok)),
            writes,
        );
        assert_eq!(
            holder.take(Lane::Main, writes),
            Action::Release {
                token: 3_u64.into()
            }
        );
    }

    #[test]
    fn a_grant_is_followed_by_writes_under_its_token_with_values_of_their_own() {
        let mut holder = holding(7, None);
        let first = holder.take(Lane::Main, START);
        assert_eq!(
            first,
            Action::Write {
                key: "k".into(),
                token: 7_u64.into(),
                value: "c1-1".into(),
                path: None,
            }
        );
        assert_eq!(
            holder.due(Lane::Main, START),
            Due::Idle,
            "one operation at a time"
        );
        holder.completed(Lane::Main, &first, Some(&Response::new(0, Type::Ok)), START);
        let second = holder.take(Lane::Main, START);
        assert_eq!(
            second,
            Action::Write {
                key: "k".into(),
                token: 7_u64.into(),
                value: "c1-2".into(),
                path: None,
            }
        );
    }

    #[test]
    fn a_refused_holder_stops_and_acquires_anew() {
        let mut holder = holding(7, None);
        let write = holder.take(Lane::Main, START);
        holder.completed(Lane::Main, &write, Some(&refusal()), START);
        assert_eq!(holder.believes(), None);
        let Due::At(again) = holder.due(Lane::Main, START) else {
            panic!("it rests before it queues again")
        };
        assert!(matches!(
            holder.take(Lane::Main, again),
            Action::Acquire { .. }
        ));
    }

    #[test]
    fn an_unknown_write_or_renewal_changes_nothing_in_what_it_believes() {
        let mut holder = holding(7, None);
        let write = holder.take(Lane::Main, START);
        holder.completed(Lane::Main, &write, None, START);
        let later = START + LEASE / 2;
        let renew = holder.take(Lane::Side, later);
        assert_eq!(
            renew,
            Action::Renew {
                token: 7_u64.into(),
                ttl: LEASE
            }
        );
        holder.completed(
            Lane::Side,
            &renew,
            Some(&Response::new(0, Type::Info)),
            later,
        );
        assert_eq!(holder.believes(), Some(7_u64.into()));
    }

    #[test]
    fn a_lease_that_lapsed_long_ago_is_still_believed_in() {
        let mut holder = holding(7, None);
        let write = holder.take(Lane::Main, START);
        let much_later = START + 100 * LEASE;
        holder.completed(
            Lane::Main,
            &write,
            Some(&Response::new(0, Type::Ok)),
            much_later,
        );
        holder.wake(None);
        assert_eq!(holder.due(Lane::Main, much_later), Due::Urgent);
        assert_eq!(
            holder.due(Lane::Side, much_later),
            Due::Idle,
            "nothing comes before the write of a woken holder"
        );
        assert!(
            matches!(holder.take(Lane::Main, much_later), Action::Write { token, .. } if token == 7_u64.into())
        );
    }

    #[test]
    fn a_write_that_is_told_not_held_ends_the_belief_in_that_token_only() {
        for (token, believes) in [(7, None), (6, Some(7_u64.into()))] {
            let mut holder = holding(7, None);
            let write = Action::Write {
                key: "k".into(),
                token: (token as u64).into(),
                value: "c1-1".into(),
                path: None,
            };
            let told = Response::with_error(0, Type::Fail, "not-held");
            holder.completed(Lane::Main, &write, Some(&told), START);
            assert_eq!(holder.believes(), believes);
        }
    }

    #[test]
    fn a_renewal_that_is_told_not_held_ends_the_belief() {
        let mut holder = holding(7, None);
        let renew = holder.take(Lane::Side, START + LEASE);
        holder.completed(
            Lane::Side,
            &renew,
            Some(&Response::with_error(0, Type::Fail, "not-held")),
            START + LEASE,
        );
        assert_eq!(holder.believes(), None);
    }

    #[test]
    fn a_hold_ends_with_a_release_after_at_most_three_leases() {
        let mut holder = holding(7, None);
        let write = holder.take(Lane::Main, START);
        holder.completed(Lane::Main, &write, Some(&Response::new(0, Type::Ok)), START);
        let end = START + 3 * LEASE;
        assert_eq!(holder.due(Lane::Main, end), Due::Control);
        assert_eq!(
            holder.take(Lane::Main, end),
            Action::Release {
                token: 7_u64.into()
            }
        );
        assert_eq!(
            holder.believes(),
            None,
            "a holder that is giving up writes no more"
        );
    }

    #[test]
    fn a_hot_loop_retries_the_refused_token_at_once_and_in_the_end_gives_up() {
        let mut holder = holding(7, Some(HolderDefect::HotLoop));
        let mut action = holder.take(Lane::Main, START);
        let mut retries = 0;
        loop {
            holder.completed(Lane::Main, &action, Some(&refusal()), START);
            if holder.due(Lane::Main, START) != Due::Urgent {
                break;
            }
            action = holder.take(Lane::Main, START);
            assert!(matches!(&action, Action::Write { token, .. } if *token == 7_u64.into()));
            retries += 1;
        }
        assert_eq!(retries, HOT_LOOP_LIMIT);
    }

    #[test]
    fn a_new_holder_touches_every_key_before_it_lets_go() {
        let keys = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let mut holder = Holder::new("c1".into(), keys, LEASE, None, Seed(1).stream("holder/c1"));
        let acquire = holder.take(Lane::Main, START);
        holder.completed(Lane::Main, &acquire, Some(&ok(7)), START);
        let long_after = START + 10 * LEASE;
        let mut touched = Vec::new();
        loop {
            let action = holder.take(Lane::Main, long_after);
            match &action {
                Action::Write { key, .. } => touched.push(key.clone()),
                Action::Release { .. } => break,
                other => panic!("{other:?} in the middle of a hold"),
            }
            holder.completed(
                Lane::Main,
                &action,
                Some(&Response::new(0, Type::Ok)),
                long_after,
            );
        }
        assert_eq!(touched, ["a", "b", "c"]);
    }

    #[test]
    fn a_woken_holder_does_first_what_it_is_woken_to() {
        let (token, woken) = (7_u64.into(), START + LEASE);
        for (first, lane) in [
            (First::Renew, Lane::Side),
            (First::Release, Lane::Main),
            (First::Acquire, Lane::Main),
        ] {
            let mut holder = holding(7, None);
            holder.wake_to(first, None);
            let other = [Lane::Main, Lane::Side].map(|lane| holder.due(lane, woken));
            assert_eq!(
                other.iter().filter(|due| **due == Due::Urgent).count(),
                1,
                "nothing else comes first"
            );
            let action = holder.take(lane, woken);
            match first {
                First::Renew => assert_eq!(action, Action::Renew { token, ttl: LEASE }),
                First::Release => assert_eq!(action, Action::Release { token }),
                _ => assert!(matches!(action, Action::Acquire { .. }), "{action:?}"),
            }
        }
    }

    #[test]
    fn a_client_without_a_lock_replaces_what_it_read() {
        let mut holder = holder(None).without_a_lock(Lockless::Cas);
        let read = holder.take(Lane::Main, START);
        assert_eq!(read, Action::Read { key: "k".into() });
        let found = Response {
            value: Some("old".into()),
            ..Response::new(0, Type::Ok)
        };
        holder.completed(Lane::Main, &read, Some(&found), START);
        let cas = holder.take(Lane::Main, START);
        assert!(
            matches!(&cas, Action::Cas { expected: Some(old), .. } if old == "old"),
            "{cas:?}"
        );
    }

    #[test]
    fn a_finished_client_only_looks() {
        let mut holder = holding(7, None);
        holder.finish();
        assert_eq!(holder.due(Lane::Main, START), Due::Idle);
        assert_eq!(holder.due(Lane::Side, START), Due::Idle);
        holder.look("k".into());
        assert_eq!(
            holder.take(Lane::Side, START),
            Action::Read { key: "k".into() }
        );
    }
}
