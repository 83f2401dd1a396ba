//! What the harness costs: a whole run at `rate = "max"` against the same clients driving themselves.
//!
//! Both sides have the same services and proxies, five workers, ten clients, and the same state machines that say what
//! each client does next ([`fencepost_workloads::holder`]). With the harness an operation is drawn by the conductor,
//! stamped, written down and handed to the worker over its pipe, and its answer comes back the same way. Without it
//! each worker drives its clients' state machines in its own process and tells nobody. The difference is what the
//! harness and the protocol cost.
//!
//! Processor time is read from /proc over the middle of the load, so that set-up and judging are not in it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fencepost::proxies::Proxies;
use fencepost_checker::history::Type;
use fencepost_workloads::client::{Endpoint, Failure, Lock, Outcome, Reason, Resource};
use fencepost_workloads::holder::{Action, Due, Holder, Lane};
use fencepost_workloads::protocol::{Options, Response};
use fencepost_workloads::seed::Seed;
use fencepost_workloads::suite::Suite;
use fencepost_workloads::workload::Roster;
use fencepost_workloads::{locks, resources};
use tokio::task::JoinSet;

use crate::support::{
    BINARY, LOAD, PAIRS, Row, folder, free_address, median, row, runtime, serve, text,
};

const SEED: Seed = Seed(7);
const TIMEOUT: Duration = Duration::from_millis(500);
/// How much of the load is measured, in its middle.
const WINDOW: Duration = Duration::from_millis(2_500);
/// From when both sides are surely at work.
const WARM: Duration = Duration::from_millis(800);

fn suite_text(clients: u32) -> String {
    let limit = LOAD.as_secs();
    format!(
        "name = \"max\"\nfault = []\n[run]\nrate = \"max\"\nclients = {clients}\ntime_limit = \"{limit}s\"\n"
    )
}

/// One side of a pair.
struct Side {
    /// Operations a second.
    rate: f64,
    /// Processor microseconds an operation, by the verb of the process; the harness itself is `run`.
    cost: BTreeMap<String, f64>,
}

impl Side {
    fn of(&self, verb: &str) -> f64 {
        self.cost.get(verb).copied().unwrap_or(0.0)
    }

    fn whole(&self) -> f64 {
        self.cost.values().sum()
    }
}

/// See the module. A client waits for each answer, so few clients measure how fast wake-ups follow each other, and many
/// how much can be carried.
pub fn throughput() -> Vec<Row> {
    [10, 40].into_iter().flat_map(with_clients).collect()
}

fn with_clients(clients: u32) -> Vec<Row> {
    let pairs: Vec<(Side, Side)> = (0..PAIRS)
        .map(|pair| {
            if pair % 2 == 0 {
                let with = harnessed(clients);
                (with, looping(clients))
            } else {
                let without = looping(clients);
                (harnessed(clients), without)
            }
        })
        .collect();
    let of = |figure: fn(&Side, &Side) -> f64| {
        median(
            pairs
                .iter()
                .map(|(with, without)| figure(with, without))
                .collect(),
        )
    };
    let harness = of(|with, _| with.of("run"));
    let protocol = of(|with, without| with.of("worker") - without.of("loop-worker"));
    let both = of(|with, without| with.of("run") + with.of("worker") - without.of("loop-worker"));
    vec![
        row(
            format!("operations a second, `rate = \"max\"`, 5 workers, {clients} clients"),
            format!("{:.0}", of(|with, _| with.rate)),
            "15,000",
        ),
        row(
            "the same clients driving themselves, without the harness",
            format!("{:.0}", of(|_, without| without.rate)),
            "",
        ),
        row(
            "ratio of the two",
            format!(
                "{:.0} %",
                100.0 * of(|with, without| with.rate / without.rate)
            ),
            "at least 60 %",
        ),
        row(
            "processor time an operation, harness and protocol",
            format!("{both:.1} us"),
            "at most 25 us",
        ),
        row(
            "of that the harness process, and what the protocol adds to the workers",
            format!("{harness:.1} and {protocol:.1} us"),
            "",
        ),
        row(
            "processor time an operation, all processes, with and without harness",
            format!(
                "{:.0} and {:.0} us",
                of(|with, _| with.whole()),
                of(|_, without| without.whole())
            ),
            "",
        ),
    ]
}

/// A whole run.
fn harnessed(clients: u32) -> Side {
    let out = folder();
    let suite = out.path().join("max.toml");
    std::fs::write(&suite, suite_text(clients)).expect("written");
    let mut command = Command::new(BINARY);
    command.arg("run").arg(&suite).args(["--json", "--out"]);
    let mut run = command
        .arg(out.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    let spent = spent_by(run.id(), || history_begins(out.path()));
    let mut line = String::new();
    BufReader::new(run.stdout.take().expect("a pipe"))
        .read_line(&mut line)
        .expect("its result");
    run.wait().expect("it ends");
    let end: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let operations = end["stats"]["operations"].as_f64().expect("a number");
    side(operations, spent)
}

/// Whether the load of the run under `out` has begun.
fn history_begins(out: &Path) -> bool {
    let runs = std::fs::read_dir(out.join("max-local"))
        .into_iter()
        .flatten();
    runs.flatten().any(|run| {
        let history = std::fs::metadata(run.path().join("history.jsonl"));
        history.is_ok_and(|history| history.len() > 50_000)
    })
}

/// The services and proxies of a run, and five processes that drive their own clients.
fn looping(clients: u32) -> Side {
    let (locks, records) = (folder(), folder());
    let (_lock, lock) = serve(&["lock-service", "--data", text(locks.path())]);
    let (_resource, resource) = serve(&["fenced-resource", "--data", text(records.path())]);
    let (_proxy, api) = serve(&["toxiproxy"]);
    let runtime = runtime();
    let proxies = runtime
        .block_on(Proxies::connect(api))
        .expect("the proxy answers");
    let proxied = |name: String, service: SocketAddr| {
        let listen = runtime.block_on(proxies.create(&name, free_address(), service));
        listen.expect("created").to_string()
    };
    let mut workers: Vec<Child> = (0..5_u32)
        .map(|worker| {
            let links = [
                proxied(format!("loop-{worker}-lock"), lock),
                proxied(format!("loop-{worker}-resource"), resource),
            ];
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            command.arg("loop-worker").args(links);
            command.args([worker, clients].map(|word| word.to_string()));
            command.stdout(Stdio::piped());
            command.spawn().expect("it runs")
        })
        .collect();
    let spent = spent_by(std::process::id(), || true);
    let counts = workers.iter_mut().map(|worker| {
        let mut line = String::new();
        BufReader::new(worker.stdout.take().expect("a pipe"))
            .read_line(&mut line)
            .expect("its count");
        worker.wait().expect("it ends");
        line.trim().parse::<f64>().expect("a number")
    });
    let operations = counts.sum();
    let mut side = side(operations, spent);
    // This program only waits.
    side.cost.retain(|verb, _| verb != "run");
    side
}

fn side(operations: f64, spent: BTreeMap<String, f64>) -> Side {
    let rate = operations / LOAD.as_secs_f64();
    let cost = spent
        .into_iter()
        .map(|(verb, micros)| (verb, micros / (rate * WINDOW.as_secs_f64())))
        .collect();
    Side { rate, cost }
}

/// Processor microseconds that a process and its children spend in the window, by their first argument. The process
/// itself is `run`.
fn spent_by(parent: u32, begun: impl Fn() -> bool) -> BTreeMap<String, f64> {
    while !begun() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(WARM);
    let members = members(parent);
    let sum = || {
        let mut sum: BTreeMap<String, f64> = BTreeMap::new();
        for (pid, verb) in &members {
            *sum.entry(verb.clone()).or_default() += micros(*pid).unwrap_or(0.0);
        }
        sum
    };
    let before = sum();
    std::thread::sleep(WINDOW);
    sum()
        .into_iter()
        .map(|(verb, after)| (verb.clone(), after - before[&verb]))
        .collect()
}

/// The process and its descendants, each with its verb. A run is two processes, the harness and its guardian.
fn members(parent: u32) -> Vec<(u32, String)> {
    let mut members = vec![(parent, "run".to_owned())];
    let mut looked = 0;
    while looked < members.len() {
        let parent = members[looked].0;
        looked += 1;
        for entry in std::fs::read_dir("/proc").expect("Linux").flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            if stat(pid).is_some_and(|fields| fields[1] == parent.to_string()) {
                let words = std::fs::read_to_string(entry.path().join("cmdline"));
                let verb = words.unwrap_or_default();
                let verb = verb.split('\0').nth(1).unwrap_or_default();
                members.push((pid, verb.to_owned()));
            }
        }
    }
    members
}

/// Processor microseconds of one living process.
fn micros(pid: u32) -> Option<f64> {
    let fields = stat(pid)?;
    let ticks = fields[11].parse::<f64>().ok()? + fields[12].parse::<f64>().ok()?;
    Some(ticks * 1e6 / 100.0)
}

/// The fields of /proc/PID/stat from the state on.
fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(
        stat[stat.rfind(')')? + 2..]
            .split(' ')
            .map(str::to_owned)
            .collect(),
    )
}

/// A client that drives itself.
struct Driven {
    holder: Holder,
    lock: String,
    service: std::sync::Arc<(Box<dyn Lock>, Box<dyn Resource>)>,
}

/// `loop-worker LOCK RESOURCE WORKER CLIENTS`: the worker's share of the clients, each with its state machine, as fast as they can.
pub fn loop_worker(words: &[String]) {
    let worker: usize = words[2].parse().expect("a number");
    let clients: u32 = words[3].parse().expect("a number");
    let suite = Suite::parse(&suite_text(clients), "this benchmark").expect("a suite");
    let roster = Roster::of(&suite);
    let holders = roster.holders(&suite, SEED, None);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let options = Options::plain("reference", "reference", TIMEOUT);
    let operations = runtime.block_on(async {
        let mut clients: Vec<Driven> = roster
            .clients
            .iter()
            .zip(holders)
            .filter(|(member, _)| member.worker == worker)
            .map(|(member, holder)| {
                let at = |links| Endpoint {
                    client: &member.client,
                    addresses: links,
                    timeout: TIMEOUT,
                    options: &options,
                    namespace: &options.namespace,
                };
                let (lock, resource) = ([words[0].as_str()], [words[1].as_str()]);
                let lock = locks::connect("reference", &at(&lock)).expect("a client");
                let resource = resources::connect("reference", &at(&resource)).expect("a client");
                Driven {
                    holder,
                    lock: roster.locks[member.lock].lock.clone(),
                    service: std::sync::Arc::new((lock, resource)),
                }
            })
            .collect();
        drive(&mut clients).await
    });
    println!("{operations}");
}

async fn drive(clients: &mut [Driven]) -> u64 {
    let begun = Instant::now();
    let mut open: JoinSet<(usize, Lane, Action, Response)> = JoinSet::new();
    let mut done = 0;
    while begun.elapsed() < LOAD {
        let now = begun.elapsed();
        for (index, client) in clients.iter_mut().enumerate() {
            for lane in [Lane::Main, Lane::Side] {
                if matches!(client.holder.due(lane, now), Due::At(_) | Due::Idle) {
                    continue;
                }
                let action = client.holder.take(lane, now);
                let (service, lock) = (client.service.clone(), client.lock.clone());
                open.spawn(async move {
                    let answer = carry_out(&service.0, &service.1, &lock, &action).await;
                    (index, lane, action, answer)
                });
            }
        }
        // A lane may become due with nothing open; the pace of both sides' timers is a millisecond.
        let mut next = tokio::select! {
            ended = open.join_next(), if !open.is_empty() => ended,
            () = tokio::time::sleep(Duration::from_millis(1)) => None,
        };
        while let Some(ended) = next {
            let (index, lane, action, answer) = ended.expect("no panic");
            let now = begun.elapsed();
            clients[index]
                .holder
                .completed(lane, &action, Some(&answer), now);
            done += 1;
            next = open.try_join_next();
        }
    }
    done
}

#[allow(clippy::borrowed_box, reason = "both are what a client holds")]
async fn carry_out(
    lock: &Box<dyn Lock>,
    resource: &Box<dyn Resource>,
    name: &str,
    action: &Action,
) -> Response {
    match action {
        Action::Acquire { ttl, wait } => {
            answer(lock.acquire(name, *ttl, *wait).await, |grant, answer| {
                answer.token = Some(grant.token);
            })
        }
        Action::Renew { token, ttl } => {
            answer(lock.renew(name, *token, *ttl).await, |grant, answer| {
                answer.token = Some(grant.token);
            })
        }
        Action::Release { token } => answer(lock.release(name, *token).await, |(), _| {}),
        Action::Write {
            key, token, value, ..
        } => answer(
            resource.write(key, *token, value).await,
            |written, answer| {
                answer.high_water = written.high_water;
            },
        ),
        Action::Read { key } => answer(resource.read(key).await, |reading, answer| {
            answer.high_water = reading.high_water;
        }),
        Action::Cas { .. } | Action::Append { .. } => {
            unreachable!("the register has none of them")
        }
    }
}

fn answer<T>(outcome: Outcome<T>, fill: impl FnOnce(T, &mut Response)) -> Response {
    match outcome {
        Ok(told) => {
            let mut answer = Response::new(1, Type::Ok);
            fill(told, &mut answer);
            answer
        }
        Err(Failure::Fail(reason)) => {
            let high_water = match &reason {
                Reason::StaleToken { high_water } => *high_water,
                _ => None,
            };
            Response {
                high_water,
                ..Response::with_error(1, Type::Fail, reason.to_string())
            }
        }
        Err(Failure::Unknown(text)) => Response::with_error(1, Type::Info, text),
    }
}
