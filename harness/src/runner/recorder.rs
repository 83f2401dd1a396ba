//! The recorder: the only writer of a run's history.
//!
//! Position and time of an event are assigned together, under one lock: an invocation's before its line enters the
//! worker's pipe, a completion's after its line was read. A thread of its own writes the lines to disk and flushes
//! them several times a second, so that a crash of the harness loses at most the last moments.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{self, TryRecvError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use fencepost_checker::history::{Event, FaultEvent, Header, Line, Token, Type, jsonl};
use fencepost_workloads::protocol::{Request, Response};

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
    disk_error: Arc<Mutex<Option<String>>>,
}

#[derive(Debug)]
struct State {
    index: u64,
    next_id: u64,
    open: HashMap<u64, Open>,
    /// Writes that workers hold back until they are told to go: of them nothing is recorded yet.
    announced: HashMap<u64, (Open, Request)>,
    given_up: HashSet<u64>,
    lines: Option<mpsc::Sender<Line>>,
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
        let (lines, inbox) = mpsc::channel();
        let disk_error = Arc::new(Mutex::new(None));
        let failed = Arc::clone(&disk_error);
        let shown = path.display().to_string();
        let thread = std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || {
                let file = BufWriter::with_capacity(1 << 16, file);
                if let Err(error) = write_all(file, &inbox, watch.as_ref()) {
                    *failed.lock().expect("nobody panics with this lock") =
                        Some(format!("{shown}: {error}"));
                }
            })
            .map_err(|source| HarnessError::System {
                what: "start the recorder thread",
                source,
            })?;
        lines
            .send(Line::Header(Box::new(header)))
            .expect("the writer has just started");
        let state = Mutex::new(State {
            index: 0,
            next_id: 1,
            open: HashMap::new(),
            announced: HashMap::new(),
            given_up: HashSet::new(),
            lines: Some(lines),
        });
        Ok((
            Arc::new(Self {
                clock,
                tally,
                state,
                disk_error,
            }),
            Writer { thread },
        ))
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
        state.push(time, invocation(&open, request));
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
        state.push(time, invocation(&open, &request));
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
                    state.push(time, invocation(&open, &request));
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
        let mut event = event_of(open, response.kind);
        event.token = response.token.filter(|&token| Some(token) != open.token);
        event.high_water = response.high_water;
        event.error.clone_from(&response.error);
        event.ttl = response.ttl_ms;
        if open.f == "read" && response.kind == Type::Ok {
            event.value = Some(response.value.clone().unwrap_or(serde_json::Value::Null));
        }
        self.tally.completed(
            response.kind,
            response.error.as_deref() == Some("stale-token"),
        );
        state.push(time, event);
        state.open.remove(&response.id);
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
        state.send(Line::Fault(Box::new(event)));
        time
    }

    /// Nothing more is recorded; the writer ends once everything so far is on disk.
    pub fn close(&self) {
        self.locked().lines = None;
    }

    /// Why the history can no longer be written, if so.
    #[must_use]
    pub fn disk_error(&self) -> Option<String> {
        self.disk_error
            .lock()
            .expect("nobody panics with this lock")
            .clone()
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with this lock")
    }
}

impl State {
    fn push(&mut self, time: Duration, mut event: Event) {
        event.index = self.index;
        event.time = nanos(time);
        self.index += 1;
        self.send(Line::Event(Box::new(event)));
    }

    fn send(&self, line: Line) {
        // The writer is gone only after a disk error, which the run asks for; the rest of the history is lost then.
        if let Some(lines) = &self.lines {
            let _ = lines.send(line);
        }
    }
}

impl Writer {
    /// Waits until everything is written; the recorder must have been closed.
    pub fn join(self) {
        // A panic of the writer shows as an incomplete file, which the reader reports.
        let _ = self.thread.join();
    }
}

fn event_of(open: &Open, kind: Type) -> Event {
    Event {
        index: 0,
        time: 0,
        process: open.process,
        client: Some(open.client.clone()),
        kind,
        f: open.f.clone(),
        lock: None,
        key: None,
        token: None,
        value: None,
        high_water: None,
        error: None,
        ttl: None,
        path: open.path.clone(),
        identity: open.identity.clone(),
        session: None,
    }
}

fn invocation(open: &Open, request: &Request) -> Event {
    let mut event = event_of(open, Type::Invoke);
    event.lock.clone_from(&request.lock);
    event.key.clone_from(&request.key);
    event.token = request.token;
    let value = request.value.clone().map(serde_json::Value::from);
    event.value = match (&*request.f, &value) {
        ("cas", Some(new)) => Some(serde_json::json!([request.expected, new])),
        _ => value,
    };
    event.ttl = request.ttl_ms;
    event
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("a run lasts less than 584 years")
}

/// Writes what has gathered, in turns: woken for each line, the thread would cost more than the lines do.
fn write_all(
    mut file: BufWriter<File>,
    inbox: &mpsc::Receiver<Line>,
    watch: Option<&Lines>,
) -> std::io::Result<()> {
    loop {
        std::thread::sleep(FLUSH_EVERY);
        loop {
            match inbox.try_recv() {
                Ok(line) => {
                    write_line(&mut file, &line)?;
                    if let Some(watch) = watch {
                        // It is gone only when the run is.
                        let _ = watch.send(line);
                    }
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return file.flush(),
            }
        }
        file.flush()?;
    }
}

fn write_line(file: &mut BufWriter<File>, line: &Line) -> std::io::Result<()> {
    file.write_all(jsonl::write(line).as_bytes())?;
    file.write_all(b"\n")
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
