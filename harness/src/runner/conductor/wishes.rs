//! What the nemesis asks of the conductor: to find a holder and let it fall silent, to hold a worker back and let it go,
//! to tell of a successor's write.

use std::time::Duration;

use fencepost_checker::history::Token;
use fencepost_workloads::holder::{Action, First, Holder, Lane};
use rand::RngExt;
use tokio::sync::oneshot;

use super::Conductor;
use crate::runner::worker_link::WorkerLink;

/// How long the conductor waits for a holder's operations to end before it lets the holder be stopped all the same.
const QUIET_WITHIN: Duration = Duration::from_millis(250);

/// What the nemesis may ask for.
#[derive(Debug)]
pub enum Wish {
    /// Find the holder of a newest token, hold its worker back and let its operations end.
    TakeHolder {
        /// Workers that are no good for this, because something else is done to them or to their links.
        avoid: Vec<usize>,
        /// Hand it its next write, to be held by the worker right before it leaves; answered when the worker is there.
        announce: bool,
        /// Answered when there is one; dropping the receiver withdraws the wish.
        reply: oneshot::Sender<Held>,
    },
    /// Find a client that queues for a lock, and hold its worker back.
    TakeWaiter {
        /// Workers that are no good for this.
        avoid: Vec<usize>,
        /// Answered with the worker's index; dropping the receiver withdraws the wish.
        reply: oneshot::Sender<usize>,
    },
    /// Hand nothing more to this worker. Answered with false if that is so already.
    HoldBack {
        /// The worker's index.
        worker: usize,
        /// Whether it was free.
        reply: oneshot::Sender<bool>,
    },
    /// The worker runs again: wake its clients. Those that believe in a token write first; `aim` to that key.
    LetGo {
        /// The worker's index.
        worker: usize,
        /// The client's index and the key that its write goes to.
        aim: Option<(usize, String)>,
    },
    /// The holder runs again: it does this first, aimed at that key. The other clients of its worker as at
    /// [`Wish::LetGo`].
    Wake {
        /// Whom.
        held: Held,
        /// What comes first.
        first: First,
        /// Where a write goes.
        key: Option<String>,
    },
    /// The holder's announced write may leave. The other clients of its worker as at [`Wish::LetGo`].
    Go {
        /// Whose.
        held: Held,
    },
    /// Hand out no load that writes to the keys of this lock.
    Hush {
        /// The lock's index.
        lock: usize,
        /// Until then.
        until: Duration,
    },
    /// The worker is about to be killed, and is no loss. Answered once its pipes are closed and what was open is given up.
    Bury {
        /// The worker's index.
        worker: usize,
        /// Answered then.
        reply: oneshot::Sender<()>,
    },
    /// The worker was started again, with new clients in the places of the old ones.
    Revive {
        /// The worker's index.
        worker: usize,
        /// Its pipes.
        link: WorkerLink,
        /// Each client's old name, its new one, and as whom it speaks to the services.
        names: Vec<[String; 3]>,
    },
    /// Tell when a write under a token above `above` is on its way to the lock's keys.
    AwaitSent {
        /// The lock's index.
        lock: usize,
        /// The token that a successor's is above.
        above: Token,
        /// Answered then.
        reply: oneshot::Sender<()>,
    },
    /// Tell when the lock was granted under a token above `above`.
    AwaitGrant {
        /// The lock's index.
        lock: usize,
        /// The token that a successor's is above.
        above: Token,
        /// Answered with the grant.
        reply: oneshot::Sender<SeenGrant>,
    },
    /// Have the key read by a client on another worker than the holder's, and tell when a read that was sent after this
    /// found a mark above the holder's token, or was answered without one by a resource that tells none.
    AwaitRead {
        /// Whose token.
        held: Held,
        /// The key.
        key: String,
        /// Answered with the read.
        reply: oneshot::Sender<SeenRead>,
    },
    /// Tell when a write under a token above `above` was acknowledged under the lock.
    AwaitWrite {
        /// The lock's index.
        lock: usize,
        /// The token that a successor's is above.
        above: Token,
        /// Answered with the write.
        reply: oneshot::Sender<SeenWrite>,
    },
}

/// A holder that is about to be stopped.
#[derive(Clone, Debug)]
pub struct Held {
    /// The lock's index.
    pub lock: usize,
    /// The lock's name.
    pub lock_name: String,
    /// The client's index.
    pub client: usize,
    /// The client's name.
    pub client_name: String,
    /// The worker's index.
    pub worker: usize,
    /// The token that it believes in.
    pub token: Token,
    /// The write that its worker holds, where one was announced.
    pub announced: Option<u64>,
}

/// A successor's acknowledged write.
#[derive(Clone, Debug)]
pub struct SeenWrite {
    /// Who wrote.
    pub client: String,
    /// Where to.
    pub key: String,
    /// Under which token.
    pub token: Token,
    /// When it was acknowledged.
    pub at: Duration,
}

/// A successor's grant.
#[derive(Clone, Debug)]
pub struct SeenGrant {
    /// To whom.
    pub client: String,
    /// Under which token.
    pub token: Token,
    /// When it was told.
    pub at: Duration,
}

/// An answered read.
#[derive(Clone, Debug)]
pub struct SeenRead {
    /// Who read.
    pub client: String,
    /// The mark that it was told, where one was.
    pub high_water: Option<Token>,
    /// When it was handed out.
    pub sent: Duration,
    /// When it was answered.
    pub at: Duration,
}

/// A holder that was asked for and is still to be found.
pub(super) struct Take {
    avoid: Vec<usize>,
    announce: bool,
    reply: oneshot::Sender<Held>,
}

/// A holder that was found and whose operations are still to end.
pub(super) struct Quieting {
    held: Held,
    avoid: Vec<usize>,
    announce: bool,
    pub(super) until: Duration,
    reply: oneshot::Sender<Held>,
}

/// A client in a queue that was asked for and is still to be found.
pub(super) struct WaiterTake {
    avoid: Vec<usize>,
    reply: oneshot::Sender<usize>,
}

/// The sending of a write that is waited for.
pub(super) struct SentWatch {
    lock: usize,
    above: Token,
    reply: oneshot::Sender<()>,
}

/// A grant that is waited for.
pub(super) struct GrantWatch {
    lock: usize,
    above: Token,
    reply: oneshot::Sender<SeenGrant>,
}

/// A read that is waited for.
pub(super) struct ReadWatch {
    key: String,
    above: Token,
    since: Duration,
    reply: oneshot::Sender<SeenRead>,
}

/// A write that is waited for.
pub(super) struct Watch {
    lock: usize,
    above: Token,
    reply: oneshot::Sender<SeenWrite>,
}

impl Conductor {
    pub(super) fn seen(&mut self, lock: usize, write: &SeenWrite) {
        for watch in self
            .watches
            .extract_if(.., |watch| watch.lock == lock && write.token > watch.above)
        {
            // A nemesis that no longer waits has dropped its receiver.
            let _ = watch.reply.send(write.clone());
        }
    }

    pub(super) fn seen_grant(&mut self, lock: usize, grant: &SeenGrant) {
        for watch in self
            .grant_watches
            .extract_if(.., |watch| watch.lock == lock && grant.token > watch.above)
        {
            // A nemesis that no longer waits has dropped its receiver.
            let _ = watch.reply.send(grant.clone());
        }
    }

    pub(super) fn seen_read(&mut self, key: &str, read: &SeenRead) {
        let observes = |watch: &mut ReadWatch| {
            watch.key == key
                && read.sent >= watch.since
                && read.high_water.is_none_or(|mark| mark > watch.above)
        };
        for watch in self.read_watches.extract_if(.., observes) {
            // A nemesis that no longer waits has dropped its receiver.
            let _ = watch.reply.send(read.clone());
        }
    }

    pub(super) fn wish(&mut self, wish: Wish) {
        match wish {
            Wish::TakeHolder {
                avoid,
                announce,
                reply,
            } => self.takes.push(Take {
                avoid,
                announce,
                reply,
            }),
            Wish::TakeWaiter { avoid, reply } => {
                self.waiter_takes.push(WaiterTake { avoid, reply });
            }
            Wish::Wake { held, first, key } => self.wake(&held, first, key),
            Wish::Go { held } => self.go(&held),
            Wish::Hush { lock, until } => {
                self.hushed.insert(lock, until);
            }
            Wish::Bury { worker, reply } => {
                self.workers[worker].held_back = true;
                self.buried.insert(worker, reply);
            }
            Wish::Revive {
                worker,
                link,
                names,
            } => self.revive(worker, link, names),
            Wish::AwaitSent { lock, above, reply } => {
                self.sent_watches.push(SentWatch { lock, above, reply });
            }
            Wish::AwaitGrant { lock, above, reply } => {
                self.grant_watches.push(GrantWatch { lock, above, reply });
            }
            Wish::AwaitRead { held, key, reply } => {
                self.read_watches.push(ReadWatch {
                    key: key.clone(),
                    above: held.token,
                    since: self.clock.now(),
                    reply,
                });
                self.look_from_elsewhere(held.client, key);
            }
            Wish::HoldBack { worker, reply } => {
                let free = self.can_work(worker);
                if reply.send(free).is_ok() && free {
                    self.workers[worker].held_back = true;
                }
            }
            Wish::LetGo { worker, aim } => self.let_go(worker, aim),
            Wish::AwaitWrite { lock, above, reply } => {
                self.watches.push(Watch { lock, above, reply })
            }
        }
    }

    fn let_go(&mut self, worker: usize, mut aim: Option<(usize, String)>) {
        self.workers[worker].held_back = false;
        for client in
            (0..self.holders.len()).filter(|&client| self.roster.clients[client].worker == worker)
        {
            let key = aim
                .take_if(|(aimed, _)| *aimed == client)
                .map(|(_, key)| key);
            if self.holders[client].believes().is_some() {
                self.holders[client].wake(key);
                self.look_after.insert(client);
            }
        }
    }

    /// The holder is let go and does `first`; where it writes, a mark of all keys of a lock is met on another key than
    /// the one that moved it.
    fn wake(&mut self, held: &Held, first: First, key: Option<String>) {
        let keys = &self.roster.locks[held.lock].keys;
        let elsewhere = keys.iter().rev().find(|other| Some(*other) != key.as_ref());
        let aim = match (&key, elsewhere) {
            (Some(_), Some(elsewhere)) if self.shared_mark => Some(elsewhere.clone()),
            _ => key,
        };
        self.let_go(held.worker, None);
        self.holders[held.client].wake_to(first, aim);
    }

    /// What the worker holds may leave.
    fn go(&mut self, held: &Held) {
        let link = self.workers[held.worker].link.clone();
        if let (Some(id), Some(link)) = (held.announced, link) {
            if let Some((newest, _)) = self.newest[held.lock].filter(|(t, _)| *t > held.token) {
                let mut exercise = self.tally.exercise();
                exercise.zombie_write("announced", held.token, newest);
            }
            self.recorder.go(id, |request| link.send(request));
        }
        self.let_go(held.worker, None);
        // Its write is under way: it owes no other.
        self.look_after.insert(held.client);
    }

    /// A worker has come to the point right before it sends.
    pub(super) fn about_to_send(&mut self, id: u64) {
        let Some(quieting) = self.announced.remove(&id) else {
            return;
        };
        let held = quieting.held.clone();
        if quieting.reply.send(quieting.held).is_err() {
            self.go(&held);
        }
    }

    /// A client answered its announced write without sending it: another holder is looked for.
    pub(super) fn decided_against(&mut self, id: u64) {
        if let Some(Quieting {
            held,
            avoid,
            announce,
            reply,
            ..
        }) = self.announced.remove(&id)
        {
            self.let_go(held.worker, None);
            self.takes.push(Take {
                avoid,
                announce,
                reply,
            });
        }
    }

    pub(super) fn seen_sent(&mut self, lock: usize, token: Token) {
        for watch in self
            .sent_watches
            .extract_if(.., |watch| watch.lock == lock && token > watch.above)
        {
            // A nemesis that no longer waits has dropped its receiver.
            let _ = watch.reply.send(());
        }
    }

    /// New clients take the places of those whose worker was killed.
    fn revive(&mut self, worker: usize, link: WorkerLink, names: Vec<[String; 3]>) {
        for [old, new, identity] in names {
            let places = self.roster.clients.iter();
            let Some(client) = places.clone().position(|member| member.client == old) else {
                continue;
            };
            self.roster.clients[client].client.clone_from(&new);
            if identity != new {
                self.identities.insert(new, identity);
            }
            self.holders[client] = (self.reborn)(&self.roster.clients[client]);
            for lane in 0..2 {
                self.processes[client][lane] = self.next_process;
                self.next_process += 1;
            }
            self.look_after.remove(&client);
            if self.finishing {
                self.holders[client].finish();
            }
        }
        let state = &mut self.workers[worker];
        state.link = Some(link);
        state.held_back = false;
        state.heard = false;
        state.excused_until = self.clock.now();
        self.tally.exercise().rebirths += 1;
    }

    /// Counts what a client does that is not, or no longer, its lock's newest holder.
    pub(super) fn count(&mut self, client: usize, action: &Action, phase: &str) {
        let lock = self.roster.clients[client].lock;
        let newest = self.newest[lock];
        let lost = |token: &Token| newest.filter(|(newest, _)| newest > token);
        let mut exercise = self.tally.exercise();
        match action {
            Action::Write { token, .. } => {
                if let Some((newest, _)) = lost(token) {
                    exercise.zombie_write(phase, *token, newest);
                }
            }
            Action::Renew { token, .. } => {
                exercise.renewals_after_loss += u64::from(lost(token).is_some());
            }
            Action::Release { token } => {
                exercise.releases_after_loss += u64::from(lost(token).is_some());
            }
            Action::Acquire { .. } => exercise.reacquires += u64::from(phase == "woken"),
            _ => {}
        }
    }

    /// Wishes that could not be granted when they came.
    pub(super) fn serve_nemesis(&mut self) {
        let now = self.clock.now();
        self.watches.retain(|watch| !watch.reply.is_closed());
        self.sent_watches.retain(|watch| !watch.reply.is_closed());
        self.grant_watches.retain(|watch| !watch.reply.is_closed());
        self.read_watches.retain(|watch| !watch.reply.is_closed());
        self.serve_waiter_takes();
        let takes = std::mem::take(&mut self.takes);
        for take in takes.into_iter().filter(|take| !take.reply.is_closed()) {
            match self.holder_to_take(&take.avoid) {
                Some(held) => {
                    self.workers[held.worker].held_back = true;
                    self.quieting.push(Quieting {
                        held,
                        avoid: take.avoid,
                        announce: take.announce,
                        until: now + QUIET_WITHIN,
                        reply: take.reply,
                    });
                }
                None => self.takes.push(take),
            }
        }
        let quiet = |held: &Held, holders: &[Holder]| {
            !holders[held.client].is_busy(Lane::Main) && !holders[held.client].is_busy(Lane::Side)
        };
        let holders = &self.holders;
        let ready: Vec<Quieting> = self
            .quieting
            .extract_if(.., |quieting| {
                quieting.until <= now || quiet(&quieting.held, holders)
            })
            .collect();
        for Quieting {
            mut held,
            avoid,
            announce,
            reply,
            until,
        } in ready
        {
            // While its operations ended it may have been refused or told that it holds nothing; then it is no zombie to be.
            let worker = held.worker;
            let still = self.holders[held.client]
                .believes()
                .map(|token| held.token = token)
                .is_some();
            let idle = !self.holders[held.client].is_busy(Lane::Main);
            if !still || (announce && !idle) {
                self.let_go(worker, None);
                self.takes.push(Take {
                    avoid,
                    announce,
                    reply,
                });
            } else if announce {
                self.holders[held.client].wake(None);
                let id = self.hand_as(held.client, Lane::Main, true);
                held.announced = Some(id);
                let waiting = Quieting {
                    held,
                    avoid,
                    announce,
                    until,
                    reply,
                };
                self.announced.insert(id, waiting);
            } else if reply.send(held).is_err() {
                self.let_go(worker, None);
            }
        }
    }

    fn serve_waiter_takes(&mut self) {
        let takes = std::mem::take(&mut self.waiter_takes);
        for take in takes.into_iter().filter(|take| !take.reply.is_closed()) {
            let queues = self.open.values().find_map(|open| {
                let worker = self.roster.clients[open.client].worker;
                let fit = self.can_work(worker) && !take.avoid.contains(&worker);
                (fit && matches!(open.action, Action::Acquire { .. })).then_some(worker)
            });
            match queues {
                Some(worker) => {
                    self.workers[worker].held_back = true;
                    if take.reply.send(worker).is_err() {
                        self.let_go(worker, None);
                    }
                }
                None => self.waiter_takes.push(take),
            }
        }
    }

    /// A holder of a newest token that has a rival on another worker that can work.
    fn holder_to_take(&mut self, avoid: &[usize]) -> Option<Held> {
        let fit = |worker: usize| self.can_work(worker) && !avoid.contains(&worker);
        let candidates: Vec<Held> = self
            .newest
            .iter()
            .enumerate()
            .filter_map(|(lock, newest)| {
                let (token, client) = (*newest)?;
                let worker = self.roster.clients[client].worker;
                let rival = self
                    .roster
                    .clients
                    .iter()
                    .any(|m| m.lock == lock && m.worker != worker && fit(m.worker));
                let believes = self.holders[client].believes() == Some(token);
                (believes && rival && fit(worker)).then(|| Held {
                    lock,
                    lock_name: self.roster.locks[lock].lock.clone(),
                    client,
                    client_name: self.roster.clients[client].client.clone(),
                    worker,
                    token,
                    announced: None,
                })
            })
            .collect();
        if candidates.is_empty() {
            None
        } else {
            Some(candidates[self.stream.random_range(0..candidates.len())].clone())
        }
    }
}
