//! The conductor: hands operations to idle clients, tells them what came back, and lets the nemesis aim.
//!
//! One task owns every holder, so that what a client believes, who holds the newest token and which worker is held
//! back are seen at one moment. Two rules make what it records provable (tight intervals):
//!
//! - no operation is handed to a worker that is about to be stopped or is stopped;
//! - a holder that wakes is handed its next write at once, before anything else, under the token it still believes in;
//!   then another client reads the key.
//!
//! What the nemesis asks of it stands in `conductor/wishes.rs`, how it finds a worker that no longer answers in
//! `conductor/roll_call.rs`.

mod roll_call;
mod wishes;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use fencepost_checker::history::{Token, Type};
use fencepost_workloads::holder::{Action, Due, Holder, Lane};
use fencepost_workloads::protocol::{Request, Response};
use fencepost_workloads::seed::Stream;
use fencepost_workloads::suite::Rate;
use fencepost_workloads::workload::{Member, Roster};
use rand::RngExt;
use tokio::sync::{mpsc, oneshot};

use super::recorder::Recorder;
use super::tally::Tally;
use super::worker_link::{FromWorker, WorkerLink};
use crate::clock::RunClock;

use roll_call::BETWEEN_ROLL_CALLS;
use wishes::{GrantWatch, Quieting, ReadWatch, SentWatch, Take, WaiterTake, Watch};
pub use wishes::{Held, SeenGrant, SeenRead, SeenWrite, Wish};

/// How long before a final read that failed is tried again: at first, and at most.
const BETWEEN_READS: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];
/// How far the pace may fall behind before what was missed is dropped.
const CATCH_UP: Duration = Duration::from_millis(100);
/// The share of load operations that are writes, where a holder is free to write.
const WRITES: f64 = 0.7;

/// Everything that reaches the conductor.
#[derive(Debug)]
pub enum Message {
    /// From the pipes of the worker with that index.
    Worker(usize, FromWorker),
    /// From the nemesis.
    Nemesis(Wish),
}

/// Why the conductor stopped before it was told to.
#[derive(Debug)]
pub struct WorkerLost {
    /// Its index.
    pub index: usize,
    /// Its name.
    pub worker: String,
    /// What happened.
    pub why: String,
}

/// See the module.
pub struct Conductor {
    clock: RunClock,
    recorder: Arc<Recorder>,
    roster: Roster,
    holders: Vec<Holder>,
    processes: Vec<[u64; 2]>,
    next_process: u64,
    workers: Vec<WorkerState>,
    open: HashMap<u64, OpenOperation>,
    newest: Vec<Option<(Token, usize)>>,
    inbox: mpsc::UnboundedReceiver<Message>,
    takes: Vec<Take>,
    quieting: Vec<Quieting>,
    watches: Vec<Watch>,
    look_after: HashSet<usize>,
    sent_watches: Vec<SentWatch>,
    grant_watches: Vec<GrantWatch>,
    read_watches: Vec<ReadWatch>,
    waiter_takes: Vec<WaiterTake>,
    /// Announced writes, by id, and who waits for their worker to have come so far.
    announced: HashMap<u64, Quieting>,
    /// Locks whose keys are left alone, and until when.
    hushed: HashMap<usize, Duration>,
    buried: HashMap<usize, oneshot::Sender<()>>,
    reborn: Reborn,
    lease: Duration,
    shared_mark: bool,
    /// Of clients that came back: as whom.
    identities: HashMap<String, String>,
    has_locks: bool,
    pace: Pace,
    stream: Stream,
    lost: Option<WorkerLost>,
    tally: Arc<Tally>,
    timeout: Duration,
    finishing: bool,
    next_roll_call: Duration,
}

/// Makes the state machine of a client that comes back under a new name.
pub type Reborn = Box<dyn Fn(&Member) -> Holder + Send>;

struct WorkerState {
    link: Option<WorkerLink>,
    held_back: bool,
    /// Whether it has answered anything yet.
    heard: bool,
    /// When it last answered, or last had something done to it that may silence it.
    excused_until: Duration,
}

struct OpenOperation {
    handed: Duration,
    client: usize,
    lane: Lane,
    action: Action,
}

/// When the next operation may go.
struct Pace {
    interval: Option<Duration>,
    next: Duration,
}

/// What the conductor starts from.
pub struct Score {
    /// The run's clock.
    pub clock: RunClock,
    /// Where everything is recorded.
    pub recorder: Arc<Recorder>,
    /// Who takes part.
    pub roster: Roster,
    /// Their state machines, in the roster's order.
    pub holders: Vec<Holder>,
    /// The pipes, by worker index.
    pub links: Vec<WorkerLink>,
    /// Operations a second.
    pub rate: Rate,
    /// Draws which client goes next.
    pub stream: Stream,
    /// What the pipes and the nemesis send.
    pub inbox: mpsc::UnboundedReceiver<Message>,
    /// Which faults are in force: what they strike may be silent.
    pub tally: Arc<Tally>,
    /// The workers' own timeout for an operation.
    pub timeout: Duration,
    /// For the clients of a worker that was killed.
    pub reborn: Reborn,
    /// How long a grant lasts.
    pub lease: Duration,
    /// Whether all keys of a lock share one high water.
    pub shared_mark: bool,
    /// Whether keys are guarded by locks, which operations then name.
    pub has_locks: bool,
}

impl Conductor {
    /// Nothing has been handed out yet.
    #[must_use]
    pub fn new(score: Score) -> Self {
        let Score {
            clock,
            recorder,
            roster,
            holders,
            links,
            rate,
            stream,
            inbox,
            tally,
            timeout,
            reborn,
            lease,
            shared_mark,
            has_locks,
        } = score;
        let clients = holders.len() as u64;
        Self {
            clock,
            recorder,
            newest: vec![None; roster.locks.len()],
            roster,
            holders,
            // Process 2n is the main lane of client n, 2n+1 its side lane, until an unknown outcome retires one.
            processes: (0..clients)
                .map(|client| [2 * client, 2 * client + 1])
                .collect(),
            next_process: 2 * clients,
            workers: links
                .into_iter()
                .map(|link| WorkerState {
                    link: Some(link),
                    held_back: false,
                    heard: false,
                    excused_until: Duration::ZERO,
                })
                .collect(),
            open: HashMap::new(),
            inbox,
            takes: Vec::new(),
            quieting: Vec::new(),
            watches: Vec::new(),
            look_after: HashSet::new(),
            sent_watches: Vec::new(),
            grant_watches: Vec::new(),
            read_watches: Vec::new(),
            waiter_takes: Vec::new(),
            announced: HashMap::new(),
            hushed: HashMap::new(),
            buried: HashMap::new(),
            reborn,
            lease,
            shared_mark,
            identities: HashMap::new(),
            has_locks,
            pace: Pace {
                interval: match rate {
                    Rate::Hertz(hertz) => Some(Duration::from_secs_f64(1.0 / hertz)),
                    Rate::Max => None,
                },
                next: Duration::ZERO,
            },
            stream,
            lost: None,
            tally,
            timeout,
            finishing: false,
            next_roll_call: Duration::ZERO,
        }
    }

    /// Drives the load until `end` completes.
    ///
    /// # Errors
    /// When a worker is lost before that.
    pub async fn load(&mut self, end: impl Future<Output = ()>) -> Result<(), WorkerLost> {
        tokio::pin!(end);
        loop {
            self.hand_out();
            let timer = tokio::time::sleep_until(self.clock.instant(self.next_event()));
            tokio::select! {
                () = &mut end => {
                    // What the nemesis let go last still gets its write.
                    while let Ok(message) = self.inbox.try_recv() {
                        self.receive(Some(message));
                    }
                    self.hand_out();
                    return Ok(());
                }
                message = self.inbox.recv() => self.receive(message),
                () = timer => {}
            }
            while let Ok(message) = self.inbox.try_recv() {
                self.receive(Some(message));
            }
            self.serve_nemesis();
            self.call_the_roll();
            if let Some(lost) = self.lost.take() {
                return Err(lost);
            }
        }
    }

    /// Hands out nothing more and waits for what is open, at most `within`; then the rest is given up as unknown.
    pub async fn settle(&mut self, within: Duration) {
        self.finishing = true;
        self.holders.iter_mut().for_each(Holder::finish);
        self.drain(within).await;
    }

    /// Reads every key through a client whose worker lives, again until each was answered `ok`, at most `within`.
    /// Returns the keys that were not.
    pub async fn final_reads(&mut self, within: Duration) -> Vec<String> {
        let deadline = self.clock.now() + within;
        let keys = self.roster.locks.iter().enumerate();
        let mut missing: Vec<(usize, String)> = keys
            .flat_map(|(lock, keys)| keys.keys.iter().map(move |key| (lock, key.clone())))
            .collect();
        let mut pause = BETWEEN_READS[0];
        while !missing.is_empty() && self.clock.now() < deadline {
            if self.workers.iter().all(|worker| worker.link.is_none()) {
                break;
            }
            let mut batch: HashMap<u64, (usize, String)> = HashMap::new();
            let mut again = Vec::new();
            for (lock, key) in missing {
                match self.idle_reader(lock) {
                    Some(client) => {
                        self.holders[client].look(key.clone());
                        let id = self.hand(client, Lane::Side);
                        batch.insert(id, (lock, key));
                    }
                    None => again.push((lock, key)),
                }
            }
            // With nobody free to read, whoever is busy or held back needs a moment.
            let until = if batch.is_empty() {
                self.clock.now() + Duration::from_millis(10)
            } else {
                deadline
            };
            loop {
                tokio::select! {
                    message = self.inbox.recv() => {
                        if let Some(Message::Worker(_, FromWorker::Answer(answer))) = &message
                            && let Some(key) = batch.remove(&answer.id)
                            && answer.kind != Type::Ok
                        {
                            again.push(key);
                        }
                        self.receive(message);
                    }
                    () = tokio::time::sleep_until(self.clock.instant(until.min(self.clock.now() + BETWEEN_ROLL_CALLS))) => {
                        if self.clock.now() >= until {
                            break;
                        }
                    }
                }
                self.call_the_roll();
                // Those of a worker that ended were given up, and are read again elsewhere.
                let open = &self.open;
                again.extend(
                    batch
                        .extract_if(|id, _| !open.contains_key(id))
                        .map(|(_, key)| key),
                );
                if batch.is_empty() {
                    break;
                }
            }
            again.extend(batch.into_values());
            missing = again;
            if !missing.is_empty() {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(BETWEEN_READS[1]);
            }
        }
        self.drain(Duration::from_millis(500)).await;
        missing.into_iter().map(|(_, key)| key).collect()
    }

    /// The worker that was lost since this was last asked, or since the load ended, if one was.
    pub fn lost(&mut self) -> Option<WorkerLost> {
        self.lost.take()
    }

    /// Closes the workers' standard input, which ends them.
    pub fn dismiss(&mut self) {
        self.workers
            .iter_mut()
            .for_each(|worker| worker.link = None);
    }

    /// Waits for what is open, except for acquires: nobody needs their locks any more, and some queue for seconds.
    async fn drain(&mut self, within: Duration) {
        let deadline = self.clock.now() + within;
        let waits = |open: &OpenOperation| !matches!(open.action, Action::Acquire { .. });
        while self.open.values().any(waits) && self.clock.now() < deadline {
            tokio::select! {
                message = self.inbox.recv() => self.receive(message),
                () = tokio::time::sleep_until(self.clock.instant(deadline.min(self.clock.now() + BETWEEN_ROLL_CALLS))) => {}
            }
            self.call_the_roll();
        }
        let mut left: Vec<u64> = self.open.keys().copied().collect();
        left.sort_unstable();
        for id in left {
            self.give_up(id, "no answer before the end of the run");
        }
    }

    fn idle_reader(&self, lock: usize) -> Option<usize> {
        let fits = |client: &usize| {
            self.roster.clients[*client].lock == lock
                || self.roster.clients.iter().all(|m| m.lock != lock)
        };
        let lives = |client: &usize| self.can_work(self.roster.clients[*client].worker);
        (0..self.holders.len())
            .filter(lives)
            .filter(|client| !self.holders[*client].is_busy(Lane::Side))
            .min_by_key(|client| !fits(client))
    }

    fn can_work(&self, worker: usize) -> bool {
        self.workers[worker].link.is_some() && !self.workers[worker].held_back
    }

    /// When something must happen at the latest, if no message comes before.
    fn next_event(&self) -> Duration {
        let now = self.clock.now();
        let later = now + Duration::from_secs(1);
        let lanes =
            |holder: &Holder| [Lane::Main, Lane::Side].map(|lane| holder.next_control(lane));
        let control = self
            .holders
            .iter()
            .flat_map(lanes)
            .flatten()
            .min()
            .unwrap_or(later);
        let quiet = self
            .quieting
            .iter()
            .map(|quieting| quieting.until)
            .min()
            .unwrap_or(later);
        match self.pace.interval {
            // Control follows the rate too, so only what the nemesis waits for comes before the next step of it.
            Some(_) => self.pace.next.min(quiet).max(now),
            None => control.min(quiet).max(now + Duration::from_millis(1)),
        }
    }

    /// Hands out what is urgent, then what the rate allows.
    fn hand_out(&mut self) {
        let now = self.clock.now();
        while let Some((client, lane)) = self.first(Due::Urgent, now) {
            self.hand(client, lane);
        }
        let Some(interval) = self.pace.interval else {
            while let Some((client, lane)) = self.pick(now) {
                self.hand(client, lane);
            }
            return;
        };
        self.pace.next = self.pace.next.max(now.saturating_sub(CATCH_UP));
        while self.pace.next <= now {
            let Some((client, lane)) = self.pick(now) else {
                // Nobody is free: what the rate would have allowed is lost, not saved up.
                self.pace.next = now + interval;
                break;
            };
            self.hand(client, lane);
            self.pace.next += interval;
        }
    }

    fn lanes(&self, due: Due, now: Duration) -> impl Iterator<Item = (usize, Lane)> {
        let clients = (0..self.holders.len())
            .filter(|&client| self.can_work(self.roster.clients[client].worker));
        clients
            .flat_map(|client| [(client, Lane::Main), (client, Lane::Side)])
            .filter(move |&(client, lane)| self.holders[client].due(lane, now) == due)
            .filter(move |&(client, lane)| {
                let hushed = self.hushed.get(&self.roster.clients[client].lock);
                due != Due::Load || lane == Lane::Side || hushed.is_none_or(|until| *until <= now)
            })
    }

    fn first(&self, due: Due, now: Duration) -> Option<(usize, Lane)> {
        self.lanes(due, now).next()
    }

    /// Draws who goes next: control before load, writes before reads more often than not.
    fn pick(&mut self, now: Duration) -> Option<(usize, Lane)> {
        let control: Vec<_> = self.lanes(Due::Control, now).collect();
        let mut ready = control;
        if ready.is_empty() {
            let (writes, reads): (Vec<_>, Vec<_>) = self
                .lanes(Due::Load, now)
                .partition(|&(_, lane)| lane == Lane::Main);
            let write = self.stream.random_bool(WRITES);
            ready = if (write && !writes.is_empty()) || reads.is_empty() {
                writes
            } else {
                reads
            };
        }
        if ready.is_empty() {
            None
        } else {
            Some(ready[self.stream.random_range(0..ready.len())])
        }
    }

    /// Hands the lane its next operation and returns the operation's id.
    fn hand(&mut self, client: usize, lane: Lane) -> u64 {
        self.hand_as(client, lane, false)
    }

    /// The same; an announced write is held by its worker right before it leaves.
    fn hand_as(&mut self, client: usize, lane: Lane, announce: bool) -> u64 {
        let woken = self.look_after.contains(&client);
        let action = self.holders[client].take(lane, self.clock.now());
        self.count(client, &action, if woken { "woken" } else { "unaware" });
        let member = &self.roster.clients[client];
        let lock = match &action {
            Action::Read { key } => self
                .roster
                .locks
                .iter()
                .find(|lock| lock.keys.contains(key)),
            _ => self.roster.locks.get(member.lock),
        };
        let identity = self.identities.get(&member.client);
        let mut request = Request {
            process: self.processes[client][lane as usize],
            client: member.client.clone(),
            lock: lock
                .map(|lock| lock.lock.clone())
                .filter(|_| self.has_locks),
            identity: identity.cloned(),
            ..Request::default()
        };
        describe(&action, &mut request);
        let link = self.workers[member.worker]
            .link
            .as_ref()
            .expect("only workers with a link are handed operations");
        if announce {
            self.recorder
                .announce(&mut request, member.worker, |request| link.send(request));
        } else {
            self.recorder
                .invoke(&mut request, member.worker, |request| link.send(request));
        }
        if let (Action::Write { token, .. }, false) = (&action, announce) {
            let (lock, token) = (self.roster.clients[client].lock, *token);
            self.seen_sent(lock, token);
        }
        self.open.insert(
            request.id,
            OpenOperation {
                handed: self.clock.now(),
                client,
                lane,
                action,
            },
        );
        request.id
    }

    fn receive(&mut self, message: Option<Message>) {
        match message {
            Some(Message::Worker(worker, FromWorker::Answer(answer))) => {
                self.workers[worker].heard = true;
                self.workers[worker].excused_until = self.clock.now();
                if answer.kind == Type::Invoke {
                    self.about_to_send(answer.id);
                } else {
                    self.answered(answer.id, Some(&answer));
                    self.decided_against(answer.id);
                }
            }
            Some(Message::Worker(worker, FromWorker::Ended(why))) => self.worker_ended(worker, why),
            Some(Message::Nemesis(wish)) => self.wish(wish),
            None => {}
        }
    }

    /// The answer has been recorded; now its client hears of it.
    fn answered(&mut self, id: u64, answer: Option<&Response>) {
        let Some(OpenOperation {
            handed,
            client,
            lane,
            action,
        }) = self.open.remove(&id)
        else {
            return;
        };
        let now = self.clock.now();
        let kind = answer.map_or(Type::Info, |answer| answer.kind);
        let refused = answer.and_then(|answer| answer.error.as_deref()) == Some("stale-token");
        let lapsed = matches!(action, Action::Acquire { .. }) && now - handed > self.lease;
        {
            let mut exercise = self.tally.exercise();
            exercise.refusals += u64::from(refused && kind == Type::Fail);
            exercise.lapsed_waiters += u64::from(lapsed);
        }
        if kind == Type::Info {
            self.processes[client][lane as usize] = self.next_process;
            self.next_process += 1;
        }
        self.holders[client].completed(lane, &action, answer, now);
        let lock = self.roster.clients[client].lock;
        match &action {
            Action::Acquire { .. } if kind == Type::Ok => {
                if let Some(token) = answer.and_then(|answer| answer.token) {
                    // The last grant that was answered counts, whatever its number: an issuer may be broken.
                    self.newest[lock] = Some((token, client));
                    let client = self.roster.clients[client].client.clone();
                    let at = now;
                    self.seen_grant(lock, &SeenGrant { client, token, at });
                }
            }
            Action::Read { key } if kind == Type::Ok => {
                let read = SeenRead {
                    client: self.roster.clients[client].client.clone(),
                    high_water: answer.and_then(|answer| answer.high_water),
                    sent: handed,
                    at: now,
                };
                self.seen_read(key, &read);
            }
            Action::Write { key, token, .. } => {
                if kind == Type::Ok {
                    self.seen(
                        lock,
                        &SeenWrite {
                            client: self.roster.clients[client].client.clone(),
                            key: key.clone(),
                            token: *token,
                            at: now,
                        },
                    );
                }
                if self.look_after.remove(&client) {
                    self.look_from_elsewhere(client, key.clone());
                }
            }
            _ => {}
        }
    }

    /// After a zombie's write another client reads the key, so that a wide interval, too, gives itself away.
    fn look_from_elsewhere(&mut self, zombie: usize, key: String) {
        let Roster { clients, .. } = &self.roster;
        let rival = (0..clients.len())
            .filter(|&other| {
                clients[other].worker != clients[zombie].worker
                    && self.can_work(clients[other].worker)
            })
            .min_by_key(|&other| clients[other].lock != clients[zombie].lock);
        if let Some(rival) = rival {
            self.holders[rival].look(key);
        }
    }

    fn give_up(&mut self, id: u64, why: &str) {
        if self.recorder.give_up(id, why) {
            self.answered(id, None);
        }
    }

    /// A worker that dies leaves all its open operations unknown.
    fn worker_ended(&mut self, worker: usize, why: String) {
        let buried = self.buried.remove(&worker);
        if self.workers[worker].link.take().is_none() && buried.is_none() {
            return;
        }
        let clients = &self.roster.clients;
        let mut orphaned: Vec<u64> = self
            .open
            .iter()
            .filter(|(_, open)| clients[open.client].worker == worker)
            .map(|(&id, _)| id)
            .collect();
        orphaned.sort_unstable();
        for id in orphaned {
            self.give_up(id, "the worker ended");
        }
        if let Some(reply) = buried {
            // The nemesis waits for this as long as the run goes on.
            let _ = reply.send(());
            return;
        }
        self.lost.get_or_insert(WorkerLost {
            index: worker,
            worker: format!("w{}", worker + 1),
            why,
        });
    }
}

fn describe(action: &Action, request: &mut Request) {
    let millis = |duration: &Duration| {
        Some(u64::try_from(duration.as_millis()).expect("leases last less than 584 million years"))
    };
    let f = match action {
        Action::Acquire { ttl, wait } => {
            (request.ttl_ms, request.wait_ms) = (millis(ttl), millis(wait));
            "acquire"
        }
        Action::Renew { token, ttl } => {
            (request.token, request.ttl_ms) = (Some(*token), millis(ttl));
            "renew"
        }
        Action::Release { token } => {
            request.token = Some(*token);
            "release"
        }
        Action::Write {
            key,
            token,
            value,
            path,
        } => {
            (request.key, request.token, request.value) =
                (Some(key.clone()), Some(*token), Some(value.clone()));
            request.path.clone_from(path);
            "write"
        }
        Action::Cas {
            key,
            expected,
            value,
        } => {
            (request.key, request.value) = (Some(key.clone()), Some(value.clone()));
            request.expected.clone_from(expected);
            "cas"
        }
        Action::Append { key, value } => {
            (request.key, request.value) = (Some(key.clone()), Some(value.clone()));
            "append"
        }
        Action::Read { key } => {
            request.key = Some(key.clone());
            "read"
        }
    };
    request.f = f.to_owned();
}
