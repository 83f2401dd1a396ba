//! The worker's side of the protocol: requests in on one pipe, responses out on another.
//!
//! A worker is an operating-system process of its own that runs real clients, so that it alone can be stopped,
//! killed or cut off. It carries out what it is told and nothing else: it draws nothing, remembers no tokens, and
//! retries nothing.
//!
//! ```text
//! stdin --> reader (thread) --> channel --> run loop --> one task a request --> lock, resource
//!                                              |                    |
//! stdout <-- one write, one flush <-- all responses that are ready <-+
//! ```
//!
//! Every request is a task of one single-threaded runtime, so operations overlap but the worker uses one core. The
//! run loop takes what is ready, answers it in one write with one flush, and only then waits. A response leaves in
//! the order of completion, not of request.
//!
//! It does not outlive its input: when standard input ends, it stops at once, and what was open stays unanswered.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fencepost_checker::history::{Token, Type};
use thiserror::Error;
use tokio::net::unix::pipe;
use tokio::runtime;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::client::{
    Endpoint, EndpointError, Failure, Lock, Outcome, Reason, Resource, Write as ResourceWrite,
};
use crate::defects::HolderDefect;
use crate::protocol::{Hello, Request, Response};
use crate::{locks, resources};

/// The longest line from the harness, in bytes, its end included.
pub const LINE_LIMIT: usize = 1024 * 1024;

/// How many requests may be read ahead of the run loop.
const READ_AHEAD: usize = 1024;

/// The most of a malformed line that is quoted, in characters.
const QUOTE_LIMIT: usize = 200;

/// Why a worker gave up. Whatever was open stays unanswered.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// A line that is no hello, or no request.
    #[error("line {number} from the harness is no {expected}: {message}: {quote}")]
    Line {
        /// Counted from 1.
        number: u64,
        /// `hello` or `request`.
        expected: &'static str,
        /// What is wrong with it.
        message: String,
        /// Its beginning.
        quote: String,
    },
    /// The hello names no link to a service.
    #[error(
        "the hello has no link {0:?}: \"links\":{{\"lock\":\"host:port\",\"resource\":\"host:port\"}} is right"
    )]
    Link(&'static str),
    /// The hello's time limit is zero.
    #[error("the hello's timeout_ms is 0: at least 1 is right")]
    Timeout,
    /// The hello asks for a client that cannot be made.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// Standard input failed.
    #[error("cannot read requests: {0}")]
    Input(#[source] io::Error),
    /// Standard output failed; the harness is gone.
    #[error("cannot write responses: {0}")]
    Output(#[source] io::Error),
    /// No runtime or no thread could be had.
    #[error("cannot start: {0}")]
    Start(#[source] io::Error),
    /// A request made the worker panic, which is a bug of ours.
    #[error("a request ended in a panic: {0}")]
    Panic(#[from] tokio::task::JoinError),
}

/// Serves the harness over the process's own standard input and output until the input ends.
///
/// Prints one line to standard error when it begins, and nothing for each request.
///
/// # Errors
/// When the first line is no [`Hello`], it asks for what there is not, a later line is no [`Request`], or a pipe fails.
pub fn run_stdio() -> Result<(), WorkerError> {
    let runtime = runtime()?;
    let pipe = {
        let _inside = runtime.enter();
        let stdin = io::stdin().as_fd().try_clone_to_owned();
        stdin.and_then(pipe::Receiver::from_owned_fd)
    };
    match pipe {
        // Requests are read where they are carried out: no thread has to be woken for each.
        Ok(pipe) => {
            let lines = Lines::new(PipeReader(pipe));
            let served = runtime.block_on(run_on_pipe(lines, io::stdout()));
            runtime.shutdown_background();
            served
        }
        Err(_) => run(io::stdin(), io::stdout()),
    }
}

/// The same for any input; a thread reads it.
///
/// The thread may stay behind in a read of `stdin` when this returns an error: the process is expected to end.
///
/// # Errors
/// As [`run_stdio`].
pub fn run(
    stdin: impl Read + Send + 'static,
    stdout: impl Write + Send + 'static,
) -> Result<(), WorkerError> {
    let mut lines = Lines::new(stdin);
    let Next::Line(hello) = lines.hello()? else {
        return Ok(());
    };
    let clients = greet(&hello)?;
    let (sender, requests) = mpsc::channel(READ_AHEAD);
    thread::Builder::new()
        .name("requests".to_owned())
        .spawn(move || read_requests(lines, &sender))
        .map_err(WorkerError::Start)?;
    let runtime = runtime()?;
    let served = runtime.block_on(serve(&clients, Source::Thread(requests), stdout));
    // A name that is still being looked up must not hold the process back.
    runtime.shutdown_background();
    served
}

fn runtime() -> Result<runtime::Runtime, WorkerError> {
    runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(WorkerError::Start)
}

/// The clients that the hello asks for.
fn greet(hello: &Hello) -> Result<Clients, WorkerError> {
    let clients = clients(hello)?;
    eprintln!("worker: clients {}", hello.clients.join(", "));
    Ok(clients)
}

async fn run_on_pipe(mut lines: Lines<PipeReader>, stdout: impl Write) -> Result<(), WorkerError> {
    let hello = loop {
        match lines.hello()? {
            Next::Line(hello) => break hello,
            Next::End => return Ok(()),
            Next::NotYet => lines.readable().await?,
        }
    };
    let clients = greet(&hello)?;
    serve(&clients, Source::Pipe(lines), stdout).await
}

/// Where requests come from.
enum Source {
    /// A thread that reads ahead.
    Thread(mpsc::Receiver<Result<Request, WorkerError>>),
    /// A pipe that is read here.
    Pipe(Lines<PipeReader>),
}

impl Source {
    /// The next request; `None` where the input ended. Dropping the future loses nothing.
    async fn next(&mut self) -> Option<Result<Request, WorkerError>> {
        match self {
            Self::Thread(requests) => requests.recv().await,
            Self::Pipe(lines) => loop {
                match lines.request() {
                    Ok(Next::Line(request)) => return Some(Ok(request)),
                    Ok(Next::End) => return None,
                    Ok(Next::NotYet) => {
                        if let Err(error) = lines.readable().await {
                            return Some(Err(error));
                        }
                    }
                    Err(error) => return Some(Err(error)),
                }
            },
        }
    }

    /// A request that is there already.
    fn ready(&mut self) -> Option<Result<Request, WorkerError>> {
        match self {
            Self::Thread(requests) => requests.try_recv().ok(),
            Self::Pipe(lines) => match lines.request() {
                Ok(Next::Line(request)) => Some(Ok(request)),
                // The end is met again, and told, by `next`.
                Ok(Next::End | Next::NotYet) => None,
                Err(error) => Some(Err(error)),
            },
        }
    }
}

/// Reads what a pipe holds and never waits.
struct PipeReader(pipe::Receiver);

impl Read for PipeReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(bytes)
    }
}

/// The run loop: starts what is asked for, answers what is done.
async fn serve(
    clients: &Clients,
    mut requests: Source,
    mut stdout: impl Write,
) -> Result<(), WorkerError> {
    let mut open: JoinSet<Response> = JoinSet::new();
    let mut held = HashMap::new();
    let mut lines = Vec::new();
    loop {
        tokio::select! {
            biased;
            Some(response) = open.join_next() => push_line(&mut lines, &response?),
            request = requests.next() => match request {
                Some(request) => begin(&mut open, &mut held, clients, request?),
                None => return Ok(()),
            },
        }
        while let Some(request) = requests.ready() {
            begin(&mut open, &mut held, clients, request?);
        }
        while let Some(response) = open.try_join_next() {
            push_line(&mut lines, &response?);
        }
        if !lines.is_empty() {
            stdout
                .write_all(&lines)
                .and_then(|()| stdout.flush())
                .map_err(WorkerError::Output)?;
            lines.clear();
        }
    }
}

fn push_line(lines: &mut Vec<u8>, response: &Response) {
    serde_json::to_writer(&mut *lines, response)
        .expect("a response is plain data, and memory does not fail");
    lines.push(b'\n');
}

/// The clients of a worker, by name.
type Clients = HashMap<String, Arc<Client>>;

/// One client: its own connections to either service.
struct Client {
    lock: Box<dyn Lock>,
    resource: Box<dyn Resource>,
    /// What is planted, and what it keeps.
    plant: Option<HolderDefect>,
    /// Until when each lease runs by this client's own clock. Only `clock-check` looks at it.
    leases: Mutex<HashMap<String, Instant>>,
    /// The first token that anybody in this process was granted. Only `token-cached` looks at it.
    first: Arc<OnceLock<Token>>,
}

fn clients(hello: &Hello) -> Result<Clients, WorkerError> {
    let link = |service| hello.links.get(service).ok_or(WorkerError::Link(service));
    let addresses = |service| link(service).map(|joined| joined.split(',').collect::<Vec<_>>());
    let (lock, resource) = (addresses("lock")?, addresses("resource")?);
    if hello.options.timeout_ms == 0 {
        return Err(WorkerError::Timeout);
    }
    let timeout = Duration::from_millis(hello.options.timeout_ms);
    let mut clients = Clients::with_capacity(hello.clients.len());
    let first = Arc::new(OnceLock::new());
    for name in &hello.clients {
        let at = |addresses| Endpoint {
            client: hello.identities.get(name).unwrap_or(name),
            addresses,
            timeout,
            options: &hello.options,
            namespace: &hello.options.namespace,
        };
        let client = Client {
            lock: locks::connect(&hello.options.lock, &at(&lock))?,
            resource: resources::connect(&hello.options.resource, &at(&resource))?,
            plant: hello.options.plant,
            leases: Mutex::default(),
            first: Arc::clone(&first),
        };
        clients.insert(name.clone(), Arc::new(client));
    }
    Ok(clients)
}

/// Starts what is asked for. `held` are writes that were announced and wait for their `go`.
fn begin(
    open: &mut JoinSet<Response>,
    held: &mut HashMap<u64, Request>,
    clients: &Clients,
    request: Request,
) {
    let (request, decided) = match request.f.as_str() {
        // A `go` that nothing waits for says nothing.
        "go" => match held.remove(&request.id) {
            Some(request) => (request, true),
            None => return,
        },
        _ => (request, false),
    };
    let client = clients.get(&request.client).cloned();
    if request.announce && !decided {
        let id = request.id;
        let before = client
            .as_ref()
            .map_or(Ok(()), |client| client.decide(&request));
        let answer = match before {
            Ok(()) => {
                held.insert(id, request);
                Response::new(id, Type::Invoke)
            }
            Err(failure) => response(id, Err(failure)),
        };
        open.spawn(async move { answer });
        return;
    }
    open.spawn(async move {
        let Some(client) = &client else {
            let why = format!("this worker runs no client {:?}", request.client);
            return response(request.id, Err(unfit(why)));
        };
        let presented = client.presents(&request);
        let outcome = match decided {
            false => client.decide(&request),
            true => Ok(()),
        };
        let outcome = match outcome {
            Ok(()) => client.carry_out(&request, presented).await,
            Err(failure) => Err(failure),
        };
        let other = presented.filter(|_| presented != request.token);
        let answer = response(request.id, outcome);
        Response {
            token: answer.token.or(other),
            ..answer
        }
    });
}

/// What an `ok` response carries.
#[derive(Default)]
struct Told {
    token: Option<Token>,
    value: Option<serde_json::Value>,
    high_water: Option<Token>,
    ttl: Option<Duration>,
}

impl Client {
    /// What a client does between the decision to write and the request: nothing, or the look at its own clock that is
    /// to stand in the place of a fence.
    fn decide(&self, request: &Request) -> Result<(), Failure> {
        if self.plant != Some(HolderDefect::ClockCheck) || request.f != "write" {
            return Ok(());
        }
        let leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = request.lock.as_ref().and_then(|lock| leases.get(lock));
        match ends {
            Some(&ends) if Instant::now() < ends => Ok(()),
            _ => Err(Failure::Fail(Reason::NotHeld)),
        }
    }

    /// The token that goes out with a write: the one that was asked for, unless one is cached.
    fn presents(&self, request: &Request) -> Option<Token> {
        let cached = self.plant == Some(HolderDefect::TokenCached) && request.f == "write";
        match self.first.get() {
            Some(&first) if cached => Some(first),
            _ => request.token,
        }
    }

    /// A grant or renewal that was asked for at `asked` is known.
    fn granted(&self, lock: &str, token: Token, asked: Instant, ttl: Duration) {
        // Taken or not, the first stays.
        let _ = self.first.set(token);
        if self.plant == Some(HolderDefect::ClockCheck) {
            let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
            leases.insert(lock.to_owned(), asked + ttl);
        }
    }

    async fn carry_out(&self, request: &Request, presented: Option<Token>) -> Outcome<Told> {
        let asked = Instant::now();
        let lock = || needed(request, "lock", request.lock.as_deref());
        let key = || needed(request, "key", request.key.as_deref());
        let token = || needed(request, "token", request.token);
        let ttl = || needed(request, "ttl_ms", request.ttl_ms).map(Duration::from_millis);
        match request.f.as_str() {
            "acquire" => {
                let wait = Duration::from_millis(request.wait_ms.unwrap_or(0));
                let grant = self.lock.acquire(lock()?, ttl()?, wait).await?;
                // A grant that was queued for began later than it was asked for; from its answer on it is surely shorter.
                let begun = match wait {
                    Duration::ZERO => asked,
                    _ => Instant::now(),
                };
                self.granted(lock()?, grant.token, begun, grant.ttl.unwrap_or(ttl()?));
                Ok(Told {
                    token: Some(grant.token),
                    ttl: grant.ttl,
                    ..Told::default()
                })
            }
            "renew" => {
                let grant = self.lock.renew(lock()?, token()?, ttl()?).await?;
                self.granted(lock()?, grant.token, asked, grant.ttl.unwrap_or(ttl()?));
                Ok(Told {
                    token: Some(grant.token),
                    ttl: grant.ttl,
                    ..Told::default()
                })
            }
            "release" => {
                self.lock.release(lock()?, token()?).await?;
                Ok(Told::default())
            }
            "write" => {
                let value = needed(request, "value", request.value.as_deref())?;
                let write = ResourceWrite {
                    lock: request.lock.as_deref(),
                    key: key()?,
                    path: request.path.as_deref(),
                    token: presented,
                    value,
                };
                let written = self.resource.write_as(write).await?;
                Ok(Told {
                    high_water: written.high_water.filter(|_| presented.is_some()),
                    ..Told::default()
                })
            }
            "cas" => {
                let value = needed(request, "value", request.value.as_deref())?;
                let expected = request.expected.as_deref();
                self.resource
                    .compare_and_set(key()?, expected, value)
                    .await?;
                Ok(Told::default())
            }
            "append" => {
                let value = needed(request, "value", request.value.as_deref())?;
                self.resource.append(key()?, value).await?;
                Ok(Told::default())
            }
            "read" => {
                if let Some(effects) = self.resource.effects(key()?) {
                    return Ok(Told {
                        value: Some(effects.await?.into()),
                        ..Told::default()
                    });
                }
                let reading = self
                    .resource
                    .read_under(request.lock.as_deref(), key()?)
                    .await?;
                Ok(Told {
                    token: reading.token,
                    value: reading.value.map(serde_json::Value::String),
                    high_water: reading.high_water,
                    ttl: None,
                })
            }
            other => Err(unfit(format!(
                "{other:?} is no operation: acquire, renew, release, write, cas, append or read is right"
            ))),
        }
    }
}

/// A field that the operation cannot do without.
fn needed<T>(request: &Request, field: &str, value: Option<T>) -> Outcome<T> {
    value.ok_or_else(|| unfit(format!("{} needs the field {field:?}", request.f)))
}

/// Nothing was sent: the request itself is wrong.
fn unfit(message: String) -> Failure {
    Failure::Fail(Reason::Other(message))
}

fn response(id: u64, outcome: Outcome<Told>) -> Response {
    match outcome {
        Ok(Told {
            token,
            value,
            high_water,
            ttl,
        }) => Response {
            token,
            value,
            high_water,
            ttl_ms: ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
            ..Response::new(id, Type::Ok)
        },
        Err(Failure::Fail(reason)) => {
            let high_water = match reason {
                Reason::StaleToken { high_water } => high_water,
                _ => None,
            };
            Response {
                high_water,
                ..Response::with_error(id, Type::Fail, reason.to_string())
            }
        }
        Err(Failure::Unknown(text)) => Response::with_error(id, Type::Info, text),
    }
}

/// The lines from the harness.
struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    /// The line has begun and its end is still to come.
    partial: bool,
    /// Of the line read last, from 1.
    number: u64,
}

/// What came of looking for a line.
enum Next<T> {
    /// One that fits.
    Line(T),
    /// The input has ended.
    End,
    /// There is no whole line yet; only of an input that does not wait.
    NotYet,
}

impl Lines<PipeReader> {
    async fn readable(&self) -> Result<(), WorkerError> {
        let pipe = &self.input.get_ref().0;
        pipe.readable().await.map_err(WorkerError::Input)
    }
}

impl<R: Read> Lines<R> {
    fn new(input: R) -> Self {
        Self {
            input: BufReader::new(input),
            line: Vec::new(),
            partial: false,
            number: 0,
        }
    }

    fn hello(&mut self) -> Result<Next<Hello>, WorkerError> {
        self.next("hello", |hello: &Hello| hello.f == "hello")
    }

    fn request(&mut self) -> Result<Next<Request>, WorkerError> {
        self.next("request", |_| true)
    }

    /// A line that was cut short by the end of the input was never meant: it is not read as one.
    fn next<T: serde::de::DeserializeOwned>(
        &mut self,
        expected: &'static str,
        fits: impl FnOnce(&T) -> bool,
    ) -> Result<Next<T>, WorkerError> {
        if !self.partial {
            self.line.clear();
            self.number += 1;
        }
        let room = LINE_LIMIT.saturating_sub(self.line.len());
        let mut limited = (&mut self.input).take(room as u64);
        let read = limited.read_until(b'\n', &mut self.line);
        self.partial = matches!(&read, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        if self.partial {
            return Ok(Next::NotYet);
        }
        read.map_err(WorkerError::Input)?;
        let message = match self.line.split_last() {
            Some((b'\n', line)) => match serde_json::from_slice(line) {
                Ok(parsed) if fits(&parsed) => return Ok(Next::Line(parsed)),
                Ok(_) => "\"f\" is another word".to_owned(),
                Err(error) => error.to_string(),
            },
            Some(_) if self.line.len() == LINE_LIMIT => {
                format!("it is longer than {LINE_LIMIT} bytes")
            }
            _ => return Ok(Next::End),
        };
        let text = String::from_utf8_lossy(&self.line);
        let quote = text.trim_end().chars().take(QUOTE_LIMIT).collect();
        Err(WorkerError::Line {
            number: self.number,
            expected,
            message,
            quote,
        })
    }
}

/// Reads ahead until the input ends, a line is malformed, or nobody listens any more.
fn read_requests(
    mut lines: Lines<impl Read>,
    requests: &mpsc::Sender<Result<Request, WorkerError>>,
) {
    loop {
        let request = match lines.request() {
            Ok(Next::Line(request)) => Ok(request),
            Ok(Next::End | Next::NotYet) => return,
            Err(error) => Err(error),
        };
        let last = request.is_err();
        if requests.blocking_send(request).is_err() || last {
            return;
        }
    }
}
