//! The judge of a stream: what [`crate::judge`] says of the whole, while events come in.
//!
//! Promises the same verdict by the same rules, and that memory follows what is open, and the number of locks, keys,
//! clients and living tokens; not what has passed. What is proven at any moment stays proven: *what the beginning of a
//! recording proves, the whole of it proves*. All but two: `fenced-out` and `starvation` say how it ends, and what
//! comes may take them back.
//!
//! ```
//! use fencepost_checker::history::jsonl::Reader;
//! use fencepost_checker::online::{Limits, Online};
//! use fencepost_checker::verdict::Verdict;
//! use fencepost_checker::Model;
//!
//! let recording = br#"
//! {"index":0,"time":0,"process":1,"client":"c1","type":"invoke","f":"write","key":"k","token":2,"value":"new"}
//! {"index":1,"time":1,"process":1,"client":"c1","type":"ok","f":"write"}
//! {"index":2,"time":2,"process":2,"client":"c2","type":"invoke","f":"write","key":"k","token":1,"value":"old"}
//! {"index":3,"time":3,"process":2,"client":"c2","type":"ok","f":"write"}
//! "#;
//! let mut online = Online::new(Model::Fencing, Limits::default());
//! let mut reader = Reader::new(recording);
//! while let Some((number, line)) = reader.next_line()? {
//!     online.push(number, line)?;
//!     if online.so_far().verdict == Verdict::Invalid {
//!         break;
//!     }
//! }
//! assert_eq!(online.so_far().findings[0].finding, "stale-write-accepted");
//! # Ok::<(), fencepost_checker::history::HistoryError>(())
//! ```
//!
//! # How
//!
//! Each rule is a fold over *moments* (invocations and returns, in order). The rules of the whole look at an operation's
//! answer when it is sent; so here a moment is taken once the operations that were sent up to it are answered. What has
//! arrived and is not taken is the *window*. [`Online::so_far`] takes the window too, with what is known now, on a copy.
//! So it says what a judgement of the file up to here would say.
//!
//! | rule | what is remembered | until |
//! |---|---|---|
//! | `stale-write-accepted`, `high-water-lost`, `unfenced-write-accepted`, `partial-fencing` | of each mark, object, key and lock the strongest proof; late writes of unknown outcome; some presented and refused tokens | a stronger proof; for good; there are more than a thousand |
//! | `token-regression` | of each lock the highest grant; for each open acquire the highest that was known | the answer |
//! | `phantom-renew` | of each token its grants and releases; the two highest grants of each lock | there are more than [`Limits::tokens`] |
//! | `duplicate-token`, `double-writer-in-epoch`, `write-without-grant` | of each token who was granted, told, wrote | there are more than [`Limits::tokens`] |
//! | `write-without-grant` | acquires of unknown outcome, writes that only these explain | for good: they are open |
//! | `hot-retry` | the last refusal of each holding, and the row before it | 10 ms |
//! | `write-after-refusal` | the last refusal of each process | the process ends |
//! | `token-overflow` | of each lock how high its grants were when an acquire of unknown outcome was sent first | for good |
//! | `timestamp-token` | of each lock the last grant, and the first four that show a clock | for good |
//! | `fresh-write-refused` | of each mark what was presented and shown, of each lock the highest grant; refusals without a reason | for good; there are more than 256 of a key |
//! | `cross-key-interference` | presented tokens of each lock, each with an accepted write; a lock's first refusals; two releases | there are more than 256; it is granted |
//! | `overlapping-grant`, `release-of-others-lock` | holds, the last releases, tokens of which a release may still take effect, holds that were passed over | they are over; there are more than 8, 1024, 256 of a lock |
//! | `non-atomic-check`, `lost-acked-write` | of each object the highest and the last write that is done; the same for each open read; when each value was first shown | for good; the answer; [`Limits::values`] |
//! | what the lists of a log show | appends, the longest list | its beginning is summed up where there are more than a key's share of [`Limits::values`] |
//! | `fenced-out` | of each mark the tokens presented, falling; of each object its row of refusals | there are more than 1024; a write is accepted; there are more than 64 |
//! | `starvation` | of each lock since when nobody got anywhere, and each time that was long | somebody does; there are more than 256 |
//! | overlap of believed holds | of each lock the holds that are not over, or stand behind one | there are more than 1024 |
//! | `failed-write-applied`, `not-linearizable` | living clusters, epochs and dormant writes of each key; values | see `key.rs`; [`Limits::values`] |
//! | signs that grants raise marks | tokens presented and granted, of each scope and lock | there are more than a thousand |
//!
//! # What is not the same
//!
//! As long as no limit is reached, the findings and their counts are those of the whole file. The first witness and its
//! story may be others where several would do. Beyond the limits:
//!
//! - A value that was forgotten and is *read* is a violation in any case, but it is told as one that nobody wrote. A value
//!   that was forgotten and is *written* again counts as new, where the whole stops its exact check of that key: so more
//!   may be found here, and nothing wrong. That a read of a forgotten value misses a newer write, or shows a lower token on
//!   top of a higher one, is not found, nor told of the key at all once a write of unknown outcome is among them. On a key that is no plain register (an append was sent, say), a read of a
//!   forgotten value of a failed write is not found.
//! - Of a token that was forgotten it is not told who holds it. A stranger's write under it is not found, nor that it
//!   was granted twice; that it was granted again is still a regression.
//! - Of a token that was forgotten, or of a release, nothing is said where it could be the reason for a refusal or a
//!   grant. A fault that was forgotten (all but the last 256 that ended) counts as one on whatever is asked about.
//! - Two processes of one client that turn out to be two holders only after the second was granted the lock count as
//!   one for `overlapping-grant` and `release-of-others-lock`. A fault that is told to be skipped only at its end
//!   silences these two, `fenced-out` and `starvation`.
//! - What is wrong with a list in the part that is summed up counts once more in each list, but the appends are no
//!   longer told from each other: that one is missing in its midst, or stands there twice, is told as another order. A log
//!   of which nothing can be summed up and too much was appended (nobody reads it) is given up; `stats.not_judged` says so.
//! - A lease that turns out to be longer than the stream knew takes back what was found to be a starvation under the
//!   shorter one. A hold that was over when 1024 more had been granted is not followed further, so that the overlap is at
//!   least as long as is told.
//! - An operation that is open for longer than [`Limits::patience`] moments counts as one of unknown outcome. If its
//!   answer comes all the same it is taken then, but what a read found so late is not looked at, and a write that was
//!   refused so late need not have had a reason that is still remembered.
//! - A key whose lock is named only after as many moments is one without a lock up to there. A mark that only a lost
//!   acquire explains is explained by it, whoever is granted that token after as many moments.
//! - A write whose answer says that it presented another token than it was sent with is judged by the answer, unless it
//!   was no longer waited for.
//!
//! | file | noun |
//! |---|---|
//! | `arrival.rs` | lines in, operations and moments out |
//! | `faults.rs` | what was done to the system |
//! | `words.rs` | the words of the rules, as far as the stream has told them |
//! | `fold.rs` | all rules over one moment |
//! | `marks.rs` | proofs of a high water, and writes that came after one |
//! | `issuer.rs` | the highest grant |
//! | `holders.rs` | one record a token: to whom it was granted, who wrote under it |
//! | `phantom.rs` | what each client has of each token, and renewals of what is over |
//! | `retries.rs`, `refused.rs` | rows of refusals; who goes on after one |
//! | `fresh.rs` | refusals that nothing gives a reason for |
//! | `interference.rs` | what happens under one lock and is felt under another |
//! | `lease.rs` | grants that were given away under a holder |
//! | `overflow.rs` | tokens that went past a width |
//! | `reads.rs` | reads that show a write which must not be there, or miss one that must |
//! | `lists.rs` | what the lists of a log show |
//! | `fenced_out.rs`, `starvation.rs` | the newest holders are refused, or nobody gets on |
//! | `overlap.rs` | how long two clients believed that they held one lock |
//! | `raises.rs` | marks that no write of the key raised |
//! | `key.rs`, `key/forgetting.rs` | one object: values and the exact decision; what it forgets |
//! | `cluster.rs`, `levels.rs` | a write and its reads; what must hold among them |
//! | `found.rs` | findings, in words |
//! | `hash.rs` | how small numbers are hashed |

mod arrival;
mod cluster;
mod faults;
mod fenced_out;
mod fold;
mod found;
mod fresh;
mod hash;
mod holders;
mod interference;
mod issuer;
mod key;
mod lease;
mod levels;
mod lists;
mod marks;
mod overflow;
mod overlap;
mod phantom;
mod raises;
mod reads;
mod refused;
mod retries;
mod starvation;
mod words;

use arrival::Arrival;
use fold::Fold;

use crate::history::{HistoryError, Line};
use crate::models::Model;
use crate::verdict::Judgement;

/// How much is remembered for the sake of names and counts. No verdict rests on it, but for what the module's head says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// How many moments (two an operation) may wait for the answer of an earlier one.
    pub patience: usize,
    /// How many values are remembered that the exact check does not need, over all keys.
    pub values: usize,
    /// How many tokens are remembered, over all locks.
    pub tokens: usize,
    /// After how many invocations and returns, beyond as many as it has living values, a key is decided and forgets.
    /// Nothing but speed rests on it.
    pub every: usize,
}

impl Default for Limits {
    /// Some tens of megabytes at the most.
    fn default() -> Self {
        Self {
            patience: 1 << 16,
            values: 1 << 14,
            tokens: 1 << 13,
            every: 48,
        }
    }
}

/// A judge that is fed one line after the other.
#[derive(Clone, Debug)]
pub struct Online {
    model: Model,
    limits: Limits,
    arrival: Arrival,
    fold: Fold,
}

impl Online {
    /// Whether a stream can be judged by this model. Any other looks at the whole, and here says so: unknown.
    #[must_use]
    pub fn judges(model: Model) -> bool {
        matches!(model, Model::Fencing | Model::FencedRegister)
    }

    /// A judge that has seen nothing.
    #[must_use]
    pub fn new(model: Model, limits: Limits) -> Self {
        Self {
            model,
            limits,
            arrival: Arrival::default(),
            fold: Fold::new(model, limits),
        }
    }

    /// Takes the next line; `number` is its place in the file, for error messages.
    ///
    /// # Errors
    /// As [`crate::history::Pairing::push`]: a line that contradicts an earlier one.
    pub fn push(&mut self, number: usize, line: Line) -> Result<(), HistoryError> {
        self.arrival.push(number, line)?;
        self.take_settled();
        Ok(())
    }

    /// What a judgement of the lines up to here would say.
    #[must_use]
    pub fn so_far(&self) -> Judgement {
        let mut ahead = self.clone();
        // Lines of one time that contradict each other are told when time goes on.
        if ahead.arrival.flush().is_ok() {
            ahead.take_settled();
        }
        ahead.end()
    }

    /// The judgement on everything. What is open is of unknown outcome.
    ///
    /// # Errors
    /// Where lines have no index: the last that stand at one time contradict each other or earlier ones.
    pub fn finish(mut self) -> Result<Judgement, HistoryError> {
        self.arrival.flush()?;
        self.take_settled();
        Ok(self.end())
    }

    fn end(self) -> Judgement {
        let Self {
            model,
            mut arrival,
            mut fold,
            ..
        } = self;
        let window = std::mem::take(&mut arrival.window);
        let last = window.back().map(|moment| moment.op);
        fold.last = last.and_then(|last| arrival.operation_of(last));
        for moment in window {
            let Some(op) = arrival.operation_of(moment.op) else {
                continue;
            };
            if arrival.was_given_up(moment.op) {
                fold.answer_late(&arrival, &op);
            } else if moment.returns {
                fold.answer(&arrival, &op);
            } else {
                fold.call(&arrival, &op, true);
            }
        }
        found::judgement(&mut arrival, fold, model)
    }

    /// What was forgiven so far, one sentence each.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.arrival.warnings
    }

    /// How many moments wait for the answer of an earlier one.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.arrival.window.len()
    }

    /// Hands over the moments up to the first whose operation is open.
    fn take_settled(&mut self) {
        while let Some(&moment) = self.arrival.window.front() {
            let impatient = self.arrival.window.len() > self.limits.patience;
            if moment.returns && self.arrival.was_given_up(moment.op) {
                if let Some(op) = self.arrival.operation_of(moment.op) {
                    self.fold.answer_late(&self.arrival, &op);
                }
                self.arrival.window.pop_front();
                self.arrival.forget(moment.op);
                continue;
            }
            let Some(op) = self.arrival.settled(moment.op).cloned() else {
                if !impatient {
                    return;
                }
                if let Some(op) = self.arrival.give_up(moment.op) {
                    // Its answer may still come: an acquire may have been granted anything.
                    self.fold.call(&self.arrival, &op, true);
                }
                self.arrival.window.pop_front();
                continue;
            };
            if self.fold.waits(&self.arrival, &op, moment.returns) {
                if !impatient {
                    return;
                }
                if !moment.returns {
                    self.fold.lockless.extend(op.key);
                }
            }
            self.arrival.window.pop_front();
            if moment.returns {
                self.fold.answer(&self.arrival, &op);
            } else {
                self.fold.call(&self.arrival, &op, false);
            }
            if moment.returns || op.returned().is_none() {
                self.arrival.forget(moment.op);
            }
        }
    }
}
