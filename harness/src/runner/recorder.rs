//! The recorder: the only writer of a run's history.
//!
//! Position and time of an event are assigned together, under one lock: an invocation's before its line enters the
//! worker's pipe, a completion's after its line was read. A thread of its own writes the lines to disk and flushes
//! them several times a second, so that a crash of the harness loses at most the last moments.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use fencepost_checker::history::jsonl::{self, EventLine, EventValue};
use fencepost_checker::history::{FaultEvent, Header, Line, Token, Type};
use fencepost_workloads::protocol::{Request, Response};
use serde_json::Value;

use super::tally::Tally;
use super::watch::Lines;
use crate::clock::RunClock;
use crate::error::HarnessError;

/// At most so long a line waits before it is on its way to disk.
const FLUSH_EVERY: Duration = Duration::from_millis(50);

/// Stamps events and hands them to the writer. Shared by all who see something happen.
#[derive(Debug)]
pub struct Recorder {
    clock: RunClock,
    tally: Arc<Tally>,
    state: Mutex<State>,
    outbox: Arc<Mutex<Outbox>>,
}

#[derive(Debug)]
struct State {
    index: u64,
    next_id: u64,
    open: HashMap<u64, Open>,
    /// Writes that workers hold back until they are told to go: of them nothing is recorded yet.
    announced: HashMap<u64, (Open, Request)>,
    given_up: HashSet<u64>,
    watch: Option<Lines>,
}

/// A longer error text of a worker's is cut, in bytes: it says why, and is no reason to fill a disk.
const LONGEST_ERROR: usize = 1 << 10;

/// An error text as it is recorded.
fn cut(error: &str) -> Cow<'_, str> {
    if error.len() <= LONGEST_ERROR {
        return Cow::Borrowed(error);
    }
    let end = (0..=LONGEST_ERROR)
        .rev()
        .find(|&end| error.is_char_boundary(end));
    Cow::Owned(format!("{}…", &error[..end.unwrap_or_default()]))
}

/// What the writer has not taken yet, as it will stand in the file: made where it happens, so that no line has to
/// change hands as a thing of many parts.
#[derive(Debug, Default)]
struct Outbox {
    bytes: Vec<u8>,
    closed: bool,
    disk_error: Option<String>,
}

/// An invocation that waits for its completion.
#[derive(Debug)]
struct Open {
    worker: usize,
    process: u64,
    client: String,
    f: String,
    token: Option<Token>,
    path: Option<String>,
    identity: Option<String>,
    /// Of a compare-and-set: old and new.
    exchange: Option<Value>,
}

impl Open {
    fn of(request: &Request, worker: usize) -> Self {
        Self {
            worker,
            process: request.process,
            client: request.client.clone(),
            f: request.f.clone(),
            token: request.token,
            path: request.path.clone(),
            identity: request.identity.clone(),
            exchange: (request.f == "cas")
                .then(|| serde_json::json!([request.expected, request.value])),
        }
    }
}

/// The writer's thread; join it to be sure that all is on disk.
#[derive(Debug)]
pub struct Writer {
    thread: JoinHandle<()>,
}

impl Recorder {
    /// Creates the file and writes its header. What is written is handed on to `watch`.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn create(
        path: &Path,
        header: Header,
        clock: RunClock,
        tally: Arc<Tally>,
        watch: Option<Lines>,
    ) -> Result<(Arc<Self>, Writer), HarnessError> {
        let output = |source| HarnessError::Output {
            path: path.to_owned(),
            source,
        };
        let file = File::create_new(path).map_err(output)?;
        let outbox = Arc::new(Mutex::new(Outbox::default()));
        let (inbox, shown) = (Arc::clone(&outbox), path.display().to_string());
        let thread = std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || {
                if let Err(error) = write_all(file, &inbox) {
                    locked(&inbox).disk_error = Some(format!("{shown}: {error}"));
                }
            })
            .map_err(|source| HarnessError::System {
                what: "start the recorder thread",
                source,
            })?;
        let recorder = Self {
            clock,
            tally,
            state: Mutex::new(State {
                index: 0,
                next_id: 1,
                open: HashMap::new(),
                announced: HashMap::new(),
                given_up: HashSet::new(),
                watch,
            }),
            outbox,
        };
        recorder.hand_on(&recorder.locked(), Line::Header(Box::new(header)));
        Ok((Arc::new(recorder), Writer { thread }))
    }

    /// Records that `request` is about to leave to `worker` (an index), gives it its id, and returns its time. `send` is called under the
    /// same lock, so that invocations enter a worker's pipe in the order of the history.
    pub fn invoke(
        &self,
        request: &mut Request,
        worker: usize,
        send: impl FnOnce(&Request),
    ) -> Duration {
        let mut state = self.locked();
        let time = self.clock.now();
        request.id = state.next_id;
        state.next_id += 1;
        let open = Open::of(request, worker);
        self.push(&mut state, invocation(&open, request, time));
        state.open.insert(request.id, open);
        self.tally.invoked();
        send(request);
        time
    }

    /// Gives `request` its id and sends it, to be held by its worker right before it would leave. It is recorded by
    /// [`Recorder::go`], or by the answer of a worker that decides against it.
    pub fn announce(&self, request: &mut Request, worker: usize, send: impl FnOnce(&Request)) {
        let mut state = self.locked();
        request.id = state.next_id;
        state.next_id += 1;
        request.announce = true;
        let open = Open::of(request, worker);
        state.announced.insert(request.id, (open, request.clone()));
        send(request);
    }

    /// Records that what was announced under `id` is about to leave, and sends word to its worker, in that order.
    pub fn go(&self, id: u64, send: impl FnOnce(&Request)) {
        let mut state = self.locked();
        let time = self.clock.now();
        let Some((open, request)) = state.announced.remove(&id) else {
            return;
        };
        self.push(&mut state, invocation(&open, &request, time));
        state.open.insert(id, open);
        self.tally.invoked();
        send(&Request {
            id,
            f: "go".to_owned(),
            process: request.process,
            client: request.client,
            ..Request::default()
        });
    }

    /// Records an answer that has just been read, and says whether it counts: one that comes after its operation was
    /// given up does not. `Err` names what is wrong with it: an id that is not open, because it was never asked or has
    /// been answered, or an `ok` that lacks its token; then nothing is recorded.
    ///
    /// # Errors
    /// What is wrong with the answer, and what would be right.
    pub fn complete(&self, response: &Response, worker: usize) -> Result<bool, String> {
        let mut state = self.locked();
        let time = self.clock.now();
        if state.given_up.remove(&response.id) {
            return Ok(false);
        }
        if let Some((open, _)) = state.announced.get(&response.id) {
            match response.kind {
                _ if open.worker != worker => {}
                Type::Invoke => return Ok(true),
                Type::Fail => {
                    // It decided against sending: nothing left, so the order of the two lines is all there is to know.
                    let (open, request) = state.announced.remove(&response.id).expect("just seen");
                    self.push(&mut state, invocation(&open, &request, time));
                    state.open.insert(response.id, open);
                    self.tally.invoked();
                }
                _ => {
                    return Err(format!(
                        "answered id {}, which it was to announce first: type invoke, and the answer after its go, is right",
                        response.id
                    ));
                }
            }
        }
        let Some(open) = state.open.get(&response.id) else {
            return Err(format!(
                "answered id {}, which is not open: one answer to each request is right",
                response.id
            ));
        };
        if open.worker != worker {
            return Err(format!(
                "answered id {}, which another worker was asked: its own requests are right",
                response.id
            ));
        }
        if response.kind == Type::Invoke {
            return Err(format!(
                "answered id {} with type invoke: ok, fail or info is right",
                response.id
            ));
        }
        if response.kind == Type::Ok && open.f == "acquire" && response.token.is_none() {
            return Err(format!(
                "answered acquire {} with ok and no token: the granted token is needed",
                response.id
            ));
        }
        let open = state.open.remove(&response.id).expect("it was there");
        let read = open.f == "read" && response.kind == Type::Ok;
        self.tally.completed(
            response.kind,
            response.error.as_deref() == Some("stale-token"),
        );
        let error = response.error.as_deref().map(cut);
        self.push(
            &mut state,
            EventLine {
                token: response.token.filter(|&token| Some(token) != open.token),
                value: read
                    .then(|| EventValue::Any(response.value.as_ref().unwrap_or(&Value::Null))),
                high_water: response.high_water,
                error: error.as_deref(),
                ttl: response.ttl_ms,
                ..line_of(&open, time, response.kind)
            },
        );
        Ok(true)
    }

    /// Records that no answer will be waited for any longer: the outcome is unknown. False if it was not open.
    pub fn give_up(&self, id: u64, why: &str) -> bool {
        let worker = {
            let mut state = self.locked();
            if state.announced.remove(&id).is_some() {
                state.given_up.insert(id);
                return true;
            }
            state.open.get(&id).map(|open| open.worker)
        };
        let Some(worker) = worker else {
            return false;
        };
        let was_open =
            self.complete(&Response::with_error(id, Type::Info, why), worker) == Ok(true);
        if was_open {
            self.locked().given_up.insert(id);
        }
        was_open
    }

    /// Records a fault's begin or end; index and time are filled in. Returns the time.
    pub fn fault(&self, mut event: FaultEvent) -> Duration {
        let mut state = self.locked();
        let time = self.clock.now();
        event.index = state.index;
        event.time = nanos(time);
        state.index += 1;
        self.hand_on(&state, Line::Fault(Box::new(event)));
        time
    }

    /// Nothing more is recorded; the writer ends once everything so far is on disk.
    pub fn close(&self) {
        self.locked().watch = None;
        locked(&self.outbox).closed = true;
    }

    /// Why the history can no longer be written, if so.
    #[must_use]
    pub fn disk_error(&self) -> Option<String> {
        locked(&self.outbox).disk_error.clone()
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    fn push(&self, state: &mut State, mut line: EventLine<'_>) {
        line.index = state.index;
        state.index += 1;
        locked(&self.outbox).take_in(|bytes| line.append_to(bytes));
        if let Some(watch) = &state.watch {
            // It is gone only when the run is.
            let _ = watch.send(Line::Event(Box::new(line.to_event())));
        }
    }

    fn hand_on(&self, state: &State, line: Line) {
        locked(&self.outbox).take_in(|bytes| {
            bytes.extend_from_slice(jsonl::write(&line).as_bytes());
            bytes.push(b'\n');
        });
        if let Some(watch) = &state.watch {
            let _ = watch.send(line);
        }
    }
}

impl Outbox {
    fn take_in(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        // After a disk error, which the run asks for, the rest of the history is lost.
        if !self.closed && self.disk_error.is_none() {
            write(&mut self.bytes);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics with this lock")
}

impl Writer {
    /// Waits until everything is written; the recorder must have been closed.
    pub fn join(self) {
        // A panic of the writer shows as an incomplete file, which the reader reports.
        let _ = self.thread.join();
    }
}

fn line_of(open: &Open, time: Duration, kind: Type) -> EventLine<'_> {
    EventLine {
        index: 0,
        time: nanos(time),
        process: open.process,
        client: &open.client,
        kind,
        f: &open.f,
        lock: None,
        key: None,
        token: None,
        value: None,
        high_water: None,
        error: None,
        ttl: None,
        path: open.path.as_deref(),
        identity: open.identity.as_deref(),
    }
}

fn invocation<'a>(open: &'a Open, request: &'a Request, time: Duration) -> EventLine<'a> {
    let text = request.value.as_deref().map(EventValue::Text);
    EventLine {
        lock: request.lock.as_deref(),
        key: request.key.as_deref(),
        token: request.token,
        value: open.exchange.as_ref().map(EventValue::Any).or(text),
        ttl: request.ttl_ms,
        ..line_of(open, time, Type::Invoke)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("a run lasts less than 584 years")
}

/// Writes what has gathered, in turns: woken for each line, the thread would cost more than the lines do.
fn write_all(mut file: File, outbox: &Mutex<Outbox>) -> std::io::Result<()> {
    let mut taken = Vec::new();
    loop {
        std::thread::sleep(FLUSH_EVERY);
        taken.clear();
        let closed = {
            let mut outbox = locked(outbox);
            std::mem::swap(&mut outbox.bytes, &mut taken);
            outbox.closed
        };
        file.write_all(&taken)?;
        if closed {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use fencepost_checker::history::{History, Outcome};

    use super::*;

    fn recorded(script: impl FnOnce(&Recorder)) -> History {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("history.jsonl");
        let header = Header {
            format: 1,
            ..Header::default()
        };
        let (recorder, writer) =
            Recorder::create(&path, header, RunClock::start(), Arc::default(), None)
                .expect("a file");
        script(&recorder);
        recorder.close();
        writer.join();
        History::read(&std::fs::read(&path).expect("written")).expect("readable")
    }

    fn acquire() -> Request {
        Request {
            process: 1,
            client: "c1".into(),
            f: "acquire".into(),
            lock: Some("l".into()),
            ttl_ms: Some(1000),
            ..Request::default()
        }
    }

    #[test]
    fn an_invocation_is_recorded_before_it_is_sent_and_joined_to_its_answer() {
        let history = recorded(|recorder| {
            let mut request = acquire();
            let mut sent = 0;
            recorder.invoke(&mut request, 0, |request| sent = request.id);
            assert_eq!(sent, 1);
            let granted = Response {
                token: Some(7_u64.into()),
                ..Response::new(1, Type::Ok)
            };
            recorder.complete(&granted, 0).expect("open");
        });
        assert_eq!(history.operations.len(), 1);
        assert_eq!(history.operations[0].token, Some(7_u64.into()));
        assert_eq!(history.operations[0].outcome, Outcome::Ok);
        assert_eq!(history.operations[0].invoked.index, 0);
    }

    #[test]
    fn a_second_answer_a_foreign_id_and_a_grant_without_token_are_refused_and_not_recorded() {
        let history = recorded(|recorder| {
            recorder.invoke(&mut acquire(), 0, |_| {});
            assert!(
                recorder
                    .complete(&Response::new(2, Type::Ok), 0)
                    .expect_err("foreign")
                    .contains("id 2")
            );
            assert!(
                recorder
                    .complete(&Response::new(1, Type::Ok), 0)
                    .expect_err("no token")
                    .contains("no token")
            );
            recorder
                .complete(&Response::with_error(1, Type::Fail, "held"), 0)
                .expect("open");
            assert!(
                recorder
                    .complete(&Response::new(1, Type::Info), 0)
                    .expect_err("again")
                    .contains("not open")
            );
        });
        assert_eq!(history.operations.len(), 1);
        assert_eq!(history.operations[0].outcome, Outcome::Failed);
    }

    #[test]
    fn an_error_text_without_end_is_cut_and_says_so() {
        for (given, recorded_as) in [
            ("held".to_owned(), "held".to_owned()),
            ("x".repeat(1_024), "x".repeat(1_024)),
            ("x".repeat(400_000), format!("{}…", "x".repeat(1_024))),
            // Never within a character.
            ("é".repeat(1_000) + "x", "é".repeat(512) + "…"),
            (
                format!("x{}", "é".repeat(1_000)),
                format!("x{}…", "é".repeat(511)),
            ),
        ] {
            let history = recorded(|recorder| {
                recorder.invoke(&mut acquire(), 0, |_| {});
                let answer = Response::with_error(1, Type::Fail, given.as_str());
                recorder.complete(&answer, 0).expect("open");
            });
            let error = history.operations[0].error.expect("there is one");
            assert_eq!(history.names.text(error), recorded_as);
        }
    }

    #[test]
    fn what_is_given_up_is_unknown() {
        let history = recorded(|recorder| {
            recorder.invoke(&mut acquire(), 0, |_| {});
            assert!(recorder.give_up(1, "no answer"));
            assert!(!recorder.give_up(1, "no answer"));
            assert_eq!(
                recorder.complete(&Response::new(1, Type::Ok), 0),
                Ok(false),
                "too late to count"
            );
        });
        assert_eq!(history.events, 2);
        assert_eq!(history.operations[0].outcome, Outcome::Unknown);
    }
}
