//! What the nemesis asks of the conductor: to find a holder and let it fall silent, to hold a worker back and let it go,
//! to tell of a successor's write.

use std::time::Duration;

use fencepost_checker::history::Token;
use fencepost_workloads::holder::{Holder, Lane};
use rand::RngExt;
use tokio::sync::oneshot;

use super::Conductor;

/// How long the conductor waits for a holder's operations to end before it lets the holder be stopped all the same.
const QUIET_WITHIN: Duration = Duration::from_millis(250);

/// What the nemesis may ask for.
#[derive(Debug)]
pub enum Wish {
    /// Find the holder of a newest token, hold its worker back and let its operations end.
    TakeHolder {
        /// Workers that are no good for this, because something else is done to them or to their links.
        avoid: Vec<usize>,
        /// Answered when there is one; dropping the receiver withdraws the wish.
        reply: oneshot::Sender<Held>,
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

/// A holder that was asked for and is still to be found.
pub(super) struct Take {
    avoid: Vec<usize>,
    reply: oneshot::Sender<Held>,
}

/// A holder that was found and whose operations are still to end.
pub(super) struct Quieting {
    held: Held,
    avoid: Vec<usize>,
    pub(super) until: Duration,
    reply: oneshot::Sender<Held>,
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

    pub(super) fn wish(&mut self, wish: Wish) {
        match wish {
            Wish::TakeHolder { avoid, reply } => self.takes.push(Take { avoid, reply }),
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

    /// Wishes that could not be granted when they came.
    pub(super) fn serve_nemesis(&mut self) {
        let now = self.clock.now();
        self.watches.retain(|watch| !watch.reply.is_closed());
        let takes = std::mem::take(&mut self.takes);
        for take in takes.into_iter().filter(|take| !take.reply.is_closed()) {
            match self.holder_to_take(&take.avoid) {
                Some(held) => {
                    self.workers[held.worker].held_back = true;
                    self.quieting.push(Quieting {
                        held,
                        avoid: take.avoid,
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
            reply,
            ..
        } in ready
        {
            // While its operations ended it may have been refused or told that it holds nothing; then it is no zombie to be.
            let worker = held.worker;
            let still = self.holders[held.client]
                .believes()
                .map(|token| held.token = token)
                .is_some();
            if !still {
                self.let_go(worker, None);
                self.takes.push(Take { avoid, reply });
            } else if reply.send(held).is_err() {
                self.let_go(worker, None);
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
