//! The roll call: whether every worker still answers.

use std::time::Duration;

use fencepost_workloads::holder::Action;

use super::{Conductor, OpenOperation};

/// How often it is asked whether every worker still answers.
pub(super) const BETWEEN_ROLL_CALLS: Duration = Duration::from_millis(100);
/// How long a worker may say nothing at all while it has something to say; at least twice its timeout.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same before its first answer: an interpreter may have much to load.
const PATIENCE_AT_FIRST: Duration = Duration::from_secs(10);
/// How long it may take over one line, once begun.
const PATIENCE_WITHIN_A_LINE: Duration = Duration::from_secs(3);
/// The same once nothing more is handed out.
const PATIENCE_AT_THE_END: Duration = Duration::from_millis(2_500);

impl Conductor {
    /// A worker that runs, and to which nothing is being done, must answer: one that has said nothing at all for long,
    /// while it had something to say, is lost.
    pub(super) fn call_the_roll(&mut self) {
        let now = self.clock.now();
        if now < self.next_roll_call {
            return;
        }
        // Where the harness itself stood still, answers lie in the pipes and nobody is to blame.
        let stood_still = now > self.next_roll_call + BETWEEN_ROLL_CALLS * 10;
        self.next_roll_call = now + BETWEEN_ROLL_CALLS;
        let mut silent = Vec::new();
        for (index, worker) in self.workers.iter_mut().enumerate() {
            let Some(link) = &worker.link else {
                continue;
            };
            if stood_still || worker.held_back || self.tally.strikes(&format!("w{}", index + 1)) {
                worker.excused_until = now;
                continue;
            }
            let within_a_line = link.is_within_a_line();
            let patience = match (self.finishing, worker.heard) {
                (true, _) => PATIENCE_AT_THE_END,
                (false, _) if within_a_line => PATIENCE_WITHIN_A_LINE,
                (false, true) => PATIENCE,
                (false, false) => PATIENCE_AT_FIRST,
            }
            .max(self.timeout * 2);
            let waited = |open: &OpenOperation| {
                let queues = match open.action {
                    Action::Acquire { wait, .. } => wait,
                    _ => Duration::ZERO,
                };
                now.saturating_sub(open.handed.max(worker.excused_until) + queues)
            };
            let of_it = |open: &&OpenOperation| self.roster.clients[open.client].worker == index;
            let longest = self.open.values().filter(of_it).map(waited).max();
            if let Some(waited) = longest.filter(|waited| *waited > patience) {
                silent.push((index, waited, within_a_line));
            }
        }
        for (index, waited, within_a_line) in silent {
            let what = if within_a_line {
                "has begun a line that does not end, and answered"
            } else {
                "has answered"
            };
            let why = format!(
                "{what} nothing for {:.1} s, although nothing was being done to it: one response to each request is right",
                waited.as_secs_f64()
            );
            self.worker_ended(index, why);
        }
    }
}
