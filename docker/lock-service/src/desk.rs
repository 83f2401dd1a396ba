//! Where requests are handed in: the asynchronous side of the writer thread.
//!
//! It promises that an answer is given only after the writer made it durable, and that an acquire
//! whose caller is dropped is withdrawn. It decides nothing itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use tokio::sync::oneshot;

use crate::state::{Answer, LockName, LockView, Request, Ticket};

/// What the writer is told.
#[derive(Debug)]
pub(crate) enum Command {
    /// Apply a request, and answer it once that is durable.
    Apply {
        ticket: Ticket,
        lock: LockName,
        request: Request,
        answer: oneshot::Sender<Answer>,
    },
    /// Tell what a lock looks like.
    Look {
        lock: LockName,
        answer: oneshot::Sender<LockView>,
    },
    /// Whoever waited under this ticket is gone.
    Withdraw { ticket: Ticket, lock: LockName },
    /// Finish what came before this, then end.
    Stop,
}

/// The writer ended: whether the request took effect is not known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopped;

/// A handle on the writer. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    commands: mpsc::Sender<Command>,
    tickets: Arc<AtomicU64>,
}

impl Desk {
    /// A desk, and the end from which the writer reads.
    pub fn new() -> (Self, mpsc::Receiver<Command>) {
        let (commands, inbox) = mpsc::channel();
        let tickets = Arc::default();
        (Self { commands, tickets }, inbox)
    }

    /// Hands in a request and waits for its durable answer.
    pub async fn ask(&self, lock: LockName, request: Request) -> Result<Answer, Stopped> {
        let ticket = Ticket(self.tickets.fetch_add(1, Ordering::Relaxed));
        // Dropped after the receiver is, so that a writer that finds request and withdrawal in one
        // batch, and takes the withdrawal first, sees that nobody listens.
        let mut presence = Presence {
            desk: self,
            ticket,
            lock: lock.clone(),
            answered: false,
        };
        let (answer, receiver) = oneshot::channel();
        let command = Command::Apply {
            ticket,
            lock,
            request,
            answer,
        };
        self.commands.send(command).map_err(|_| Stopped)?;
        let answer = receiver.await.map_err(|_| Stopped);
        presence.answered = true;
        answer
    }

    /// What a lock looks like, after all that was handed in before.
    pub async fn look(&self, lock: LockName) -> Result<LockView, Stopped> {
        let (answer, receiver) = oneshot::channel();
        let command = Command::Look { lock, answer };
        self.commands.send(command).map_err(|_| Stopped)?;
        receiver.await.map_err(|_| Stopped)
    }

    /// Ends the writer, if it still runs, when it has done what was handed in before.
    pub fn stop(&self) {
        // A writer that is gone needs no telling.
        let _ = self.commands.send(Command::Stop);
    }
}

/// Somebody waits for an answer; where it is dropped before one came, nobody does any more.
struct Presence<'a> {
    desk: &'a Desk,
    ticket: Ticket,
    lock: LockName,
    answered: bool,
}

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        if !self.answered {
            let command = Command::Withdraw {
                ticket: self.ticket,
                lock: self.lock.clone(),
            };
            // A writer that is gone has no queue either.
            let _ = self.desk.commands.send(command);
        }
    }
}
