//! The one thread that owns the state and the store.
//!
//! It promises that no answer leaves before the state it rests on is on disk. It takes everything
//! that is queued, applies it, writes it in one transaction with one fsync, and then answers all
//! of it; so the disk bounds the time of an answer, not the rate of them. When a commit fails it
//! ends: what it holds in memory is then ahead of the disk, and nothing more may be answered.
//!
//! ```text
//! queue   r1   r2 r3 r4        r5
//! writer  |apply, fsync, answer|apply, fsync, answer|
//!            r1                   r2 r3 r4
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

use crate::desk::Command;
use crate::metrics::Metrics;
use crate::service::ServeError;
use crate::state::{Answer, LockView, Moment, Request, State, Ticket};
use crate::store::Store;

/// Most commands that share one commit. It bounds how long the first of them waits for the last.
const LARGEST_BATCH: usize = 4096;

/// The owner of state and store.
pub(crate) struct Writer {
    inbox: Receiver<Command>,
    state: State,
    store: Store,
    metrics: Arc<Metrics>,
    origin: Instant,
    pending: HashMap<Ticket, oneshot::Sender<Answer>>,
    stopping: bool,
}

impl Writer {
    /// A writer on a state whose moments are counted from `origin`.
    pub fn new(
        inbox: Receiver<Command>,
        state: State,
        store: Store,
        metrics: Arc<Metrics>,
        origin: Instant,
    ) -> Self {
        Self {
            inbox,
            state,
            store,
            metrics,
            origin,
            pending: HashMap::new(),
            stopping: false,
        }
    }

    /// Works until it is stopped or the store fails. Requests that still wait are then dropped.
    pub fn run(mut self) -> Result<(), ServeError> {
        while !self.stopping {
            let batch = self.next_batch();
            self.work(batch)?;
        }
        Ok(())
    }

    /// Waits for a command, but no longer than until something is due; takes all that is queued.
    fn next_batch(&mut self) -> Vec<Command> {
        let first = match self.state.next_deadline() {
            None => self
                .inbox
                .recv()
                .map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => self.inbox.recv_timeout(due.saturating_sub(self.now())),
        };
        match first {
            Ok(command) => {
                let rest = self.inbox.try_iter().take(LARGEST_BATCH - 1);
                std::iter::once(command).chain(rest).collect()
            }
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => vec![Command::Stop],
        }
    }

    /// One batch, up to and including its answers.
    fn work(&mut self, batch: Vec<Command>) -> Result<(), ServeError> {
        let now = self.now();
        // Those who are known to be gone go first, lest a lapse in this batch is granted to them.
        let (departures, requests): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .partition(|command| matches!(command, Command::Withdraw { .. }));
        for departure in departures {
            self.take(now, departure, &mut Vec::new());
        }
        self.state.set_wall_clock(wall_clock());
        self.state.advance(now);
        let mut views = Vec::new();
        for request in requests {
            self.take(now, request, &mut views);
        }
        self.settle()?;
        for (answer, view) in views {
            // Whoever looked may be gone; there is nothing to undo.
            let _ = answer.send(view);
        }
        Ok(())
    }

    fn take(
        &mut self,
        now: Moment,
        command: Command,
        views: &mut Vec<(oneshot::Sender<LockView>, LockView)>,
    ) {
        match command {
            Command::Apply {
                request: Request::Acquire { .. },
                answer,
                ..
            } if answer.is_closed() => {}
            Command::Apply {
                ticket,
                lock,
                request,
                answer,
            } => {
                self.pending.insert(ticket, answer);
                self.state.apply(now, ticket, &lock, request);
            }
            Command::Look { lock, answer } => views.push((answer, self.state.view(now, &lock))),
            Command::Withdraw { ticket, lock } => {
                self.state.withdraw(&lock, ticket);
                self.pending.remove(&ticket);
            }
            Command::Stop => self.stopping = true,
        }
    }

    /// Makes durable what changed, then lets it be seen.
    fn settle(&mut self) -> Result<(), ServeError> {
        let effects = self.state.take_effects();
        if !effects.unsaved.is_empty() {
            let records: Vec<_> = effects
                .unsaved
                .iter()
                .map(|lock| (lock.clone(), self.state.record(lock)))
                .collect();
            self.store.commit(&records)?;
        }
        self.metrics.observe(&effects, &self.state, self.now());
        for (ticket, answer) in effects.answers {
            if let Some(waiting) = self.pending.remove(&ticket) {
                // An answer that nobody takes is not taken back: the hold runs until it lapses.
                let _ = waiting.send(answer);
            }
        }
        Ok(())
    }

    fn now(&self) -> Moment {
        self.origin.elapsed()
    }
}

/// The time of day in milliseconds since 1970.
fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
