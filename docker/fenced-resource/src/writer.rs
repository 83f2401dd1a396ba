//! The one writer: takes queued writes in order, decides each, and commits them together.
//!
//! Promises, for every write that is answered `Ok`:
//! - the check against the high water and the write itself happened in one transaction, and no other
//!   write of any key came between them;
//! - the state that the answer rests on was durable before the answer left. That holds for refusals,
//!   too: one that names a high water raised by a neighbour in the same batch waits for that commit.
//!
//! ```text
//!   requests      a  b  c        d  e                       each waits for its own answer
//!                 v  v  v        v  v
//!   queue        [a, b, c]      [d, e]
//!   writer        decide a, b, c | one commit, one fsync | answer a, b, c | decide d, e | ...
//! ```
//!
//! Group commit is what keeps the fsync from capping the rate: the slower the disk, the larger the batch.
//!
//! Does not promise an order among writes that are in flight together, nor that a write whose answer
//! is an error was not applied: after a failed commit that is unknown.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use thiserror::Error;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::sync::oneshot;

use crate::defects::{DURABLE_AFTER, Defect, Memory};
use crate::fence::{self, Decision};
use crate::metrics::Metrics;
use crate::store::{Record, Records, Store};
use crate::way::{Condition, Path, lock_record};

/// The most writes of one transaction. It bounds the memory and the wait of a batch of large values.
const MAX_BATCH: usize = 1_024;

/// A write as it was asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Write {
    pub(crate) key: String,
    pub(crate) token: u64,
    /// Who asked; only metrics use it.
    pub(crate) client: String,
    pub(crate) value: String,
    /// By which path it comes.
    pub(crate) path: Path,
    /// The lock whose one mark for all its keys is asked for.
    pub(crate) lock: Option<String>,
    /// What must be so beside the token.
    pub(crate) condition: Option<Condition>,
    /// Of an effect: under which key a second one of it is none.
    pub(crate) idempotency: Option<String>,
}

/// What became of a write. All of them are definite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Applied; `high_water` is that of the key now.
    Accepted { high_water: u64 },
    /// Refused by the fence, at this high water.
    Refused { high_water: u64 },
    /// Not applied: the key is not as the condition asks.
    ConditionFailed,
    /// Not applied: the key is new and the store holds as many as it may.
    TooManyKeys,
}

/// Why a write has no outcome.
#[derive(Debug, Error)]
pub(crate) enum NoOutcome {
    #[error("too many writes are waiting; this one was not applied")]
    Overloaded,
    #[error("the service is stopping; this write was not applied")]
    Stopping,
    #[error("{0}; whether this write was applied is unknown")]
    Storage(String),
}

/// What the writer goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) defect: Option<Defect>,
    /// The most keys that may have a record.
    pub(crate) max_keys: u64,
}

struct Job {
    write: Write,
    answer: oneshot::Sender<Result<Outcome, NoOutcome>>,
}

/// The way to the writer. It may outlive the writer, and does not keep it alive.
#[derive(Clone, Debug)]
pub(crate) struct Queue(mpsc::WeakSender<Job>);

impl Queue {
    /// Queues a write and waits for its outcome. A caller that stops waiting does not take the write back.
    pub(crate) async fn submit(&self, write: Write) -> Result<Outcome, NoOutcome> {
        let waiting = self.enqueue(write)?;
        waiting.await.unwrap_or_else(|_| {
            Err(NoOutcome::Storage(
                "the writer ended before it answered".to_owned(),
            ))
        })
    }

    fn enqueue(
        &self,
        write: Write,
    ) -> Result<oneshot::Receiver<Result<Outcome, NoOutcome>>, NoOutcome> {
        let jobs = self.0.upgrade().ok_or(NoOutcome::Stopping)?;
        let (answer, waiting) = oneshot::channel();
        match jobs.try_send(Job { write, answer }) {
            Ok(()) => Ok(waiting),
            Err(TrySendError::Full(_)) => Err(NoOutcome::Overloaded),
            Err(TrySendError::Closed(_)) => Err(NoOutcome::Stopping),
        }
    }
}

/// The writer's thread, as its owner sees it. When this is dropped the thread ends after what is queued.
#[derive(Debug)]
pub(crate) struct Writer {
    jobs: mpsc::Sender<Job>,
    ended: oneshot::Receiver<()>,
    thread: JoinHandle<()>,
}

impl Writer {
    /// Starts the thread. At most `queue_length` writes wait; it must be above 0.
    pub(crate) fn start(
        rules: Rules,
        store: Arc<Store>,
        metrics: Arc<Metrics>,
        queue_length: usize,
    ) -> io::Result<Writer> {
        let (jobs, waiting) = mpsc::channel(queue_length);
        Writer::over(jobs, waiting, rules, store, metrics)
    }

    fn over(
        jobs: mpsc::Sender<Job>,
        waiting: mpsc::Receiver<Job>,
        rules: Rules,
        store: Arc<Store>,
        metrics: Arc<Metrics>,
    ) -> io::Result<Writer> {
        let (end, ended) = oneshot::channel::<()>();
        let thread = thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || {
                // Dropped when the thread ends, also by a panic: that is the signal.
                let _end = end;
                run(waiting, rules, &store, &metrics);
            })?;
        Ok(Writer {
            jobs,
            ended,
            thread,
        })
    }

    /// The way for requests to reach this writer.
    pub(crate) fn queue(&self) -> Queue {
        Queue(self.jobs.downgrade())
    }

    /// Waits until the thread has ended by itself, which it never should.
    pub(crate) async fn ended(&mut self) {
        // Nothing is ever sent; the sender is dropped with the thread.
        let _ = (&mut self.ended).await;
    }

    /// Ends the thread after what is queued, and waits for that. Blocks.
    pub(crate) fn stop(self) {
        drop(self.jobs);
        // A panic of the thread was already printed, and `ended` told the owner.
        let _ = self.thread.join();
    }
}

fn run(mut waiting: mpsc::Receiver<Job>, rules: Rules, store: &Store, metrics: &Metrics) {
    if rules.defect == Some(Defect::AckBeforeDurable) {
        return run_ahead_of_the_disk(waiting, store, metrics);
    }
    let mut batch = Vec::new();
    let mut memory = Memory::default();
    while waiting.blocking_recv_many(&mut batch, MAX_BATCH) > 0 {
        let committed = store.transaction(|records| {
            batch
                .iter()
                .map(|job| take_turn(&job.write, rules, records, &mut memory))
                .collect::<Result<Vec<Outcome>, redb::Error>>()
        });
        match committed {
            Ok(outcomes) => answer(batch.drain(..), outcomes, metrics),
            Err(error) => fail(batch.drain(..), &error, metrics),
        }
    }
}

/// The atomic step: look at the high water, decide, write. Nothing is durable before the commit.
fn take_turn(
    write: &Write,
    rules: Rules,
    records: &mut Records<'_>,
    memory: &mut Memory,
) -> Result<Outcome, redb::Error> {
    let known = records.high_water(&write.key)?;
    if known.is_none() && records.count()? >= rules.max_keys {
        return Ok(Outcome::TooManyKeys);
    }
    if write.path == Path::Effect {
        return take_effect(write, records);
    }
    let stored = stored_mark(write, known, rules, records)?;
    let (high_water, decision) = match rules.defect {
        None => (stored, fence::decide(write.token, stored)),
        Some(defect) if defect.leaves_open(write.path) => (stored, Decision::Accept),
        Some(defect) => {
            let high_water = defect.mark(&write.key, stored, memory);
            (high_water, defect.decide(write.token, high_water))
        }
    };
    if decision == Decision::Refuse {
        return Ok(Outcome::Refused { high_water });
    }
    if let Some(condition) = &write.condition
        && rules.defect != Some(Defect::Unfenced)
        && !condition.is_met(records.value(&write.key)?.as_deref())
    {
        return Ok(Outcome::ConditionFailed);
    }
    let high_water = match rules.defect {
        None => write.token,
        Some(defect) => defect.mark_after(&write.key, write.token, memory),
    };
    apply(write, high_water, stored, records)?;
    if rules.defect.is_some_and(|defect| defect.denies(memory)) {
        return Ok(Outcome::Refused { high_water });
    }
    Ok(Outcome::Accepted { high_water })
}

/// The mark that a write is held against, where `known` is that of its key: the highest of all that it touches.
fn stored_mark(
    write: &Write,
    known: Option<u64>,
    rules: Rules,
    records: &Records<'_>,
) -> Result<u64, redb::Error> {
    let record = write.path.record(&write.key);
    let beside = match record == write.key {
        true => 0,
        false => records.high_water(&record)?.unwrap_or(0),
    };
    let of_lock = match &write.lock {
        Some(lock) if rules.defect != Some(Defect::MultiKey) => {
            records.high_water(&lock_record(lock))?.unwrap_or(0)
        }
        _ => 0,
    };
    Ok(known.unwrap_or(0).max(beside).max(of_lock))
}

/// Stores an accepted write, and its mark wherever a later one will be held against it.
fn apply(
    write: &Write,
    high_water: u64,
    stored: u64,
    records: &mut Records<'_>,
) -> Result<(), redb::Error> {
    let record = write.path.record(&write.key);
    // By the operator's path a mark never falls, even where nothing was compared.
    let mark = match write.path {
        Path::Admin => high_water.max(stored),
        _ => high_water,
    };
    records.put(&record, mark, write.token, &write.value)?;
    if record != write.key
        && records
            .high_water(&write.key)?
            .is_some_and(|m| m < high_water)
    {
        records.mark_anew(&write.key, high_water)?;
    }
    if let Some(lock) = &write.lock {
        let record = lock_record(lock);
        let mark = records.high_water(&record)?.unwrap_or(0).max(high_water);
        records.put(&record, mark, mark, "")?;
    }
    Ok(())
}

/// Adds an effect to its list, unless one under its idempotency key is there.
fn take_effect(write: &Write, records: &mut Records<'_>) -> Result<Outcome, redb::Error> {
    let record = write.path.record(&write.key);
    let known = records.value(&record)?;
    let mut effects = effects(known.as_deref());
    let again = |(key, _): &(Option<String>, String)| key.is_some() && *key == write.idempotency;
    if !effects.iter().any(again) {
        effects.push((write.idempotency.clone(), write.value.clone()));
        let text = serde_json::to_string(&effects).expect("texts are plain data");
        records.put(&record, 0, 0, &text)?;
    }
    Ok(Outcome::Accepted { high_water: 0 })
}

/// The effects that a record holds, each with its idempotency key.
pub(crate) fn effects(record: Option<&str>) -> Vec<(Option<String>, String)> {
    record
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// The planted defect `ack-before-durable`: decides and answers from memory, and writes to the disk later.
fn run_ahead_of_the_disk(mut waiting: mpsc::Receiver<Job>, store: &Store, metrics: &Metrics) {
    let mut unsaved: HashMap<String, Record> = HashMap::new();
    let mut saved = Instant::now();
    let mut batch = Vec::new();
    while waiting.blocking_recv_many(&mut batch, MAX_BATCH) > 0 {
        for job in batch.drain(..) {
            let Write {
                key, token, value, ..
            } = &job.write;
            let known = match unsaved.get(key) {
                Some(record) => Ok(record.high_water),
                None => store
                    .record(key)
                    .map(|found| found.map_or(0, |r| r.high_water)),
            };
            let outcome = known.map(|high_water| match fence::decide(*token, high_water) {
                Decision::Refuse => Outcome::Refused { high_water },
                Decision::Accept => {
                    let record = Record {
                        high_water: *token,
                        token: *token,
                        value: value.clone(),
                    };
                    store.show(key, &record);
                    unsaved.insert(key.clone(), record);
                    Outcome::Accepted { high_water: *token }
                }
            });
            match outcome {
                Ok(outcome) => answer(std::iter::once(job), vec![outcome], metrics),
                Err(error) => fail(std::iter::once(job), &error, metrics),
            }
        }
        if saved.elapsed() >= DURABLE_AFTER {
            save(store, &mut unsaved);
            saved = Instant::now();
        }
    }
    save(store, &mut unsaved);
}

fn save(store: &Store, unsaved: &mut HashMap<String, Record>) {
    let saved = store.transaction(|records| {
        for (key, record) in unsaved.iter() {
            records.put(key, record.high_water, record.token, &record.value)?;
        }
        Ok(())
    });
    match saved {
        Ok(()) => unsaved.clear(),
        Err(error) => eprintln!("fenced-resource: failed to save: {error}"),
    }
}

fn answer(batch: impl Iterator<Item = Job>, outcomes: Vec<Outcome>, metrics: &Metrics) {
    metrics.batch(outcomes.len());
    for (job, outcome) in batch.zip(outcomes) {
        metrics.outcome(&job.write, outcome);
        // Nobody waits any more when the client went away; the outcome stands all the same.
        let _ = job.answer.send(Ok(outcome));
    }
}

fn fail(batch: impl Iterator<Item = Job>, error: &redb::Error, metrics: &Metrics) {
    eprintln!("fenced-resource: failed to commit: {error}");
    for job in batch {
        metrics.storage_failure();
        let _ = job.answer.send(Err(NoOutcome::Storage(error.to_string())));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use redb::backends::InMemoryBackend;
    use redb::{Builder, StorageBackend};

    use super::*;

    const SOUND: Rules = Rules {
        defect: None,
        max_keys: 100,
    };

    fn write(key: &str, token: u64, value: &str) -> Write {
        Write {
            key: key.to_owned(),
            token,
            client: "c1".to_owned(),
            value: value.to_owned(),
            ..Write::default()
        }
    }

    fn store_in_memory() -> Arc<Store> {
        let database = Builder::new()
            .create_with_backend(InMemoryBackend::new())
            .expect("a database in memory");
        Arc::new(Store::over(database).expect("a new store"))
    }

    /// Queues all writes before the writer starts, so that they are one batch in a known order.
    fn in_one_batch(rules: Rules, writes: &[Write]) -> (Vec<Outcome>, Arc<Store>, Arc<Metrics>) {
        let store = store_in_memory();
        let metrics = Arc::new(Metrics::new());
        let (jobs, waiting) = mpsc::channel(writes.len());
        let queue = Queue(jobs.downgrade());
        let answers: Vec<_> = writes
            .iter()
            .map(|write| queue.enqueue(write.clone()).expect("room in the queue"))
            .collect();
        let writer = Writer::over(jobs, waiting, rules, store.clone(), metrics.clone())
            .expect("a started writer");
        let outcomes = answers
            .into_iter()
            .map(|answer| {
                answer
                    .blocking_recv()
                    .expect("an answer")
                    .expect("an outcome")
            })
            .collect();
        writer.stop();
        (outcomes, store, metrics)
    }

    #[test]
    fn sixty_four_writers_in_one_batch_are_judged_each_at_its_turn() {
        // 37 is prime to 64, so every token from 0 to 63 comes once, out of order.
        let writes: Vec<Write> = (0..64u64)
            .map(|turn| {
                let token = (turn * 37 + 11) % 64;
                write("k", token, &format!("v{turn}"))
            })
            .collect();
        let (outcomes, store, metrics) = in_one_batch(SOUND, &writes);

        let mut mark = 0;
        let mut last_accepted = "";
        for (write, outcome) in writes.iter().zip(outcomes) {
            if write.token >= mark {
                mark = write.token;
                last_accepted = &write.value;
                assert_eq!(outcome, Outcome::Accepted { high_water: mark });
            } else {
                assert_eq!(outcome, Outcome::Refused { high_water: mark });
            }
        }
        assert_eq!(mark, 63);
        let record = store
            .record("k")
            .expect("a readable store")
            .expect("a record");
        assert_eq!((record.high_water, record.token), (63, 63));
        assert_eq!(record.value, last_accepted);
        assert!(
            metrics
                .text()
                .contains("\nfencepost_resource_commit_writes_count 1\n"),
            "64 writes should have shared one commit"
        );
    }

    #[test]
    fn keys_do_not_share_a_high_water() {
        let writes = [write("a", 9, "x"), write("b", 1, "y"), write("a", 8, "z")];
        let (outcomes, _, _) = in_one_batch(SOUND, &writes);
        assert_eq!(
            outcomes,
            [
                Outcome::Accepted { high_water: 9 },
                Outcome::Accepted { high_water: 1 },
                Outcome::Refused { high_water: 9 },
            ]
        );
    }

    #[test]
    fn unfenced_accepts_what_the_sound_writer_refuses() {
        let writes = [write("a", 9, "new"), write("a", 8, "stale")];
        let (sound, _, _) = in_one_batch(SOUND, &writes);
        assert_eq!(sound[1], Outcome::Refused { high_water: 9 });

        let unfenced = Rules {
            defect: Some(Defect::Unfenced),
            ..SOUND
        };
        let (outcomes, store, _) = in_one_batch(unfenced, &writes);
        assert_eq!(outcomes[1], Outcome::Accepted { high_water: 8 });
        let record = store
            .record("a")
            .expect("a readable store")
            .expect("a record");
        assert_eq!((record.high_water, record.value.as_str()), (8, "stale"));
    }

    #[test]
    fn what_is_answered_ahead_of_the_disk_is_seen_by_readers_and_is_on_no_disk() {
        let early = Rules {
            defect: Some(Defect::AckBeforeDurable),
            ..SOUND
        };
        let store = store_in_memory();
        let metrics = Arc::new(Metrics::new());
        let writer = Writer::start(early, store.clone(), metrics, 10).expect("a started writer");
        let submit = |write| {
            let answer = writer.queue().enqueue(write).expect("room in the queue");
            answer
                .blocking_recv()
                .expect("an answer")
                .expect("an outcome")
        };
        assert_eq!(
            submit(write("a", 2, "x")),
            Outcome::Accepted { high_water: 2 }
        );
        assert_eq!(
            submit(write("a", 1, "y")),
            Outcome::Refused { high_water: 2 }
        );
        assert_eq!(store.recent("a").expect("shown").value, "x");
        assert_eq!(store.record("a").expect("a readable store"), None);
        writer.stop();
        assert!(store.record("a").expect("a readable store").is_some());
    }

    #[test]
    fn an_applied_write_is_denied_now_and_then_under_its_defect() {
        let denying = Rules {
            defect: Some(Defect::RefusesAfterApplying),
            ..SOUND
        };
        let writes: Vec<Write> = (0..8).map(|n| write("a", 5, &format!("v{n}"))).collect();
        let (outcomes, store, _) = in_one_batch(denying, &writes);
        assert_eq!(outcomes[6], Outcome::Accepted { high_water: 5 });
        assert_eq!(outcomes[7], Outcome::Refused { high_water: 5 });
        let record = store.record("a").expect("a readable store");
        assert_eq!(record.expect("a record").value, "v7");
    }

    #[test]
    fn a_new_key_beyond_the_limit_is_not_made_and_known_keys_go_on() {
        let rules = Rules {
            max_keys: 2,
            ..SOUND
        };
        let writes = [
            write("a", 1, ""),
            write("b", 1, ""),
            write("c", 1, ""),
            write("a", 2, ""),
        ];
        let (outcomes, store, _) = in_one_batch(rules, &writes);
        assert_eq!(outcomes[2], Outcome::TooManyKeys);
        assert_eq!(outcomes[3], Outcome::Accepted { high_water: 2 });
        assert_eq!(store.record("c").expect("a readable store"), None);
    }

    #[test]
    fn every_path_is_held_against_the_one_mark_unless_a_defect_leaves_it_open() {
        for path in [Path::Cache, Path::Webhook, Path::Admin] {
            let by = |token| Write {
                path,
                ..write("a", token, "beside")
            };
            let writes = [write("a", 5, "x"), by(6), write("a", 5, "late"), by(5)];
            let (outcomes, ..) = in_one_batch(SOUND, &writes);
            let refused = Outcome::Refused { high_water: 6 };
            assert_eq!(outcomes[2..], [refused, refused], "{path:?}");
        }
        let open = Rules {
            defect: Some(Defect::UnfencedCache),
            ..SOUND
        };
        let late = Write {
            path: Path::Cache,
            ..write("a", 4, "late")
        };
        let writes = [write("a", 5, "x"), late, write("a", 4, "late")];
        let (outcomes, ..) = in_one_batch(open, &writes);
        assert_eq!(outcomes[1], Outcome::Accepted { high_water: 4 });
        assert_eq!(outcomes[2], Outcome::Refused { high_water: 5 });
    }

    #[test]
    fn the_keys_of_a_lock_share_its_mark_unless_each_is_held_against_its_own() {
        let under = |key, token| Write {
            lock: Some("l".to_owned()),
            ..write(key, token, "x")
        };
        let writes = [under("a", 6), under("b", 5)];
        let (outcomes, ..) = in_one_batch(SOUND, &writes);
        assert_eq!(outcomes[1], Outcome::Refused { high_water: 6 });
        let apart = Rules {
            defect: Some(Defect::MultiKey),
            ..SOUND
        };
        let (outcomes, ..) = in_one_batch(apart, &writes);
        assert_eq!(outcomes[1], Outcome::Accepted { high_water: 5 });
    }

    #[test]
    fn a_condition_is_asked_after_the_fence_and_an_effect_is_added_once_under_its_key() {
        let over = |value: &str, token| Write {
            condition: Some(Condition::Holds(value.to_owned())),
            ..write("a", token, "new")
        };
        let effect = |idempotency: Option<&str>| Write {
            path: Path::Effect,
            idempotency: idempotency.map(str::to_owned),
            ..write("e", 0, "sent")
        };
        let writes = [
            write("a", 5, "x"),
            over("y", 4),
            over("y", 5),
            over("x", 5),
            effect(Some("1")),
            effect(Some("1")),
            effect(None),
            effect(None),
        ];
        let (outcomes, store, _) = in_one_batch(SOUND, &writes);
        assert_eq!(outcomes[1], Outcome::Refused { high_water: 5 });
        assert_eq!(outcomes[2], Outcome::ConditionFailed);
        assert_eq!(outcomes[3], Outcome::Accepted { high_water: 5 });
        let record = store.record(&Path::Effect.record("e")).expect("readable");
        let list = effects(record.as_ref().map(|record| record.value.as_str()));
        assert_eq!(list.len(), 3);
    }

    #[test]
    fn a_full_queue_turns_writes_away_and_a_gone_writer_says_so() {
        let (jobs, waiting) = mpsc::channel(1);
        let queue = Queue(jobs.downgrade());
        let _first = queue.enqueue(write("a", 1, "")).expect("room for one");
        let full = queue.enqueue(write("a", 1, "")).expect_err("no room");
        assert!(matches!(full, NoOutcome::Overloaded));
        drop((jobs, waiting));
        let gone = queue.enqueue(write("a", 1, "")).expect_err("nobody there");
        assert!(matches!(gone, NoOutcome::Stopping));
    }

    /// A disk whose fsync can be made to fail.
    #[derive(Debug)]
    struct FailingDisk {
        disk: InMemoryBackend,
        broken: Arc<AtomicBool>,
    }

    impl StorageBackend for FailingDisk {
        fn len(&self) -> io::Result<u64> {
            self.disk.len()
        }
        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.disk.read(offset, out)
        }
        fn set_len(&self, len: u64) -> io::Result<()> {
            self.disk.set_len(len)
        }
        fn sync_data(&self) -> io::Result<()> {
            if self.broken.load(Ordering::SeqCst) {
                return Err(io::Error::other("no space left on the test's disk"));
            }
            self.disk.sync_data()
        }
        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.disk.write(offset, data)
        }
    }

    #[test]
    fn a_failed_commit_is_unknown_to_its_writers_and_invisible_to_readers() {
        let broken = Arc::new(AtomicBool::new(false));
        let disk = FailingDisk {
            disk: InMemoryBackend::new(),
            broken: broken.clone(),
        };
        let database = Builder::new()
            .create_with_backend(disk)
            .expect("a database on the test's disk");
        let store = Arc::new(Store::over(database).expect("a new store"));
        let metrics = Arc::new(Metrics::new());
        let writer =
            Writer::start(SOUND, store.clone(), metrics.clone(), 10).expect("a started writer");
        let submit = |write| {
            let answer = writer.queue().enqueue(write).expect("room in the queue");
            answer.blocking_recv().expect("an answer")
        };

        assert!(matches!(
            submit(write("a", 1, "kept")),
            Ok(Outcome::Accepted { high_water: 1 })
        ));
        broken.store(true, Ordering::SeqCst);
        let failed = submit(write("a", 2, "lost")).expect_err("the disk is broken");
        assert!(matches!(failed, NoOutcome::Storage(_)));
        // A reader sees the old record or an error, never the one that was not made durable.
        if let Ok(record) = store.record("a") {
            assert_eq!(record.expect("a record").value, "kept");
        }
        // A refusal would rest on a high water that may not be on the disk: it is an error, too.
        assert!(submit(write("a", 1, "late")).is_err());
        assert!(
            metrics
                .text()
                .contains("\nfencepost_resource_storage_failures_total 2\n")
        );
        writer.stop();
    }
}
