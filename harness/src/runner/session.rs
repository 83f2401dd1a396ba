//! One run, from plan to report.
//!
//! 1. plan: suite and seed fix what is done when;
//! 2. set up: services, fault proxy, one proxy for each worker and service, workers;
//! 3. load under faults;
//! 4. heal: every fault ends, what was let go gets its write;
//! 5. settle: open operations end or are given up as unknown;
//! 6. final reads of every key;
//! 7. take down, judge the saved file, report.
//!
//! Whatever ends the run early (a signal, a worker that died, a full disk, a service that does not come back), what
//! follows is the same: heal, settle, read, judge, report.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost_checker::history::{Expectations, Header, History, LockHeader, Plan};
use fencepost_checker::verdict::{Judgement, Verdict};
use fencepost_checker::{Model, judge};
use fencepost_workloads::protocol::{Hello, Options};
use fencepost_workloads::seed::Seed;
use fencepost_workloads::suite::Suite;
use fencepost_workloads::workload::Roster;
use tokio::sync::{mpsc, watch};

use super::conductor::{Conductor, Message, Score, WorkerLost};
use super::folder::RunFolder;
use super::progress::Progress;
use super::recorder::{Recorder, Writer};
use super::tally::Tally;
use super::worker_link::WorkerLink;
use crate::clock::RunClock;
use crate::defects::Defects;
use crate::error::HarnessError;
use crate::faults::{self, Means, Nemesis};
use crate::machine;
use crate::proxies::Proxies;
use crate::report;
use crate::run_record::{Phase, RunRecord};
use crate::targets::{LocalPlan, LocalTarget, Ports, Service};

/// How much longer than their own timeouts the workers' open operations may take after the load before they are given up.
const SETTLE_SLACK: Duration = Duration::from_secs(1);
/// How long the final reads may take.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// Everything that is asked of a run.
#[derive(Clone, Debug)]
pub struct Order {
    /// The suite, with flags applied.
    pub suite: Suite,
    /// The seed.
    pub seed: Seed,
    /// What is planted.
    pub defects: Defects,
    /// Where runs are saved.
    pub out: PathBuf,
    /// A Toxiproxy of the user's.
    pub toxiproxy: Option<SocketAddr>,
    /// Stop at the first violation.
    pub fail_fast: bool,
    /// Keep the services' data.
    pub keep: bool,
    /// Draw a progress line.
    pub progress: bool,
    /// The command line as given.
    pub command_line: Vec<String>,
    /// A command that repeats the plan.
    pub replay: String,
}

/// What a run ended with.
#[derive(Debug)]
pub struct RunEnd {
    /// What was run.
    pub record: RunRecord,
    /// The history, read back from the file.
    pub history: History,
    /// The verdict on it.
    pub judgement: Judgement,
    /// Where it is saved.
    pub folder: RunFolder,
}

impl RunEnd {
    /// Whether something went wrong with the run itself (not with the system under test).
    #[must_use]
    pub fn failed(&self) -> bool {
        !self.record.troubles.is_empty()
    }
}

/// Runs `order`; `interrupt` turns true when the user wants it to end.
///
/// # Errors
/// When it could not begin, or its history cannot be read back. Once the load has begun, everything else is a
/// [`RunEnd`] with its troubles in the record.
pub async fn run(order: Order, interrupt: watch::Receiver<bool>) -> Result<RunEnd, HarnessError> {
    let mut record = record_of(&order);
    let started = chrono::Utc::now();
    record.started = started.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    let suite = &order.suite;
    let folder = RunFolder::create(
        &order.out,
        suite.name.as_str(),
        suite.target.kind.name(),
        started,
        &record.run,
    )?;
    folder.write("run.json", &pretty(&record))?;

    let clock = RunClock::start();
    let tally = Arc::new(Tally::default());
    let _progress = Progress::start(
        Arc::clone(&tally),
        clock,
        suite.run.time_limit.0,
        order.progress,
    );
    let mut stopwatch = Stopwatch {
        clock,
        tally: Arc::clone(&tally),
        since: clock.now(),
        phase: "set-up",
    };

    tally.enter("set-up");
    let mut stage = Stage::set_up(&order, &mut record, &folder, clock, Arc::clone(&tally)).await?;
    stopwatch.next("load", &mut record);
    stage.load(&order, &mut record, interrupt).await;
    stopwatch.next("settle", &mut record);
    stage
        .conductor
        .settle(suite.worker.timeout.0 + suite.lock.lease.0 + SETTLE_SLACK)
        .await;
    stopwatch.next("final-reads", &mut record);
    let unread = stage.conductor.final_reads(READ_WITHIN).await;
    if let Some(lost) = stage.conductor.lost() {
        record.troubles.push(words_of(&lost, &stage.target));
    }
    if !unread.is_empty() {
        record
            .troubles
            .push(format!("no final read of {}", unread.join(", ")));
    }
    stopwatch.next("take-down", &mut record);
    stage.take_down(&order, &mut record).await;
    stopwatch.next("judge", &mut record);
    let (history, judgement) = judge_saved(&folder)?;
    stopwatch.next("report", &mut record);
    save(&folder, &mut record, &history, &judgement);
    Ok(RunEnd {
        record,
        history,
        judgement,
        folder,
    })
}

/// Writes everything that follows from the history. What cannot be written is a trouble and no failure: the verdict
/// stands, and is still to be told.
fn save(folder: &RunFolder, record: &mut RunRecord, history: &History, judgement: &Judgement) {
    let mut troubles = Vec::new();
    let mut write = |name: &str, bytes: &[u8]| {
        if let Err(error) = folder.write(name, bytes) {
            troubles.push(error.to_string());
        }
    };
    write("verdict.json", &pretty(judgement));
    let rendered = report::render(record, history, judgement);
    let incomplete = rendered
        .as_ref()
        .err()
        .map(|error| format!("the report is incomplete: failed to render {error}"));
    for artifact in rendered.unwrap_or_else(report::ReportError::into_artifacts) {
        write(&artifact.path, &artifact.bytes);
    }
    troubles.extend(incomplete);
    troubles.extend(folder.point_latest().err().map(|error| error.to_string()));
    record.troubles.extend(troubles);
    if let Err(error) = folder.write("run.json", &pretty(record)) {
        record.troubles.push(error.to_string());
    }
}

/// A run that has been set up.
struct Stage {
    clock: RunClock,
    recorder: Arc<Recorder>,
    writer: Writer,
    conductor: Conductor,
    conductor_sender: mpsc::UnboundedSender<Message>,
    target: Arc<LocalTarget>,
    proxies: Proxies,
    proxy_names: Vec<String>,
    tally: Arc<Tally>,
    folder: RunFolder,
    // Held, not read: a claim keeps a port for a service that is down.
    _ports: Ports,
}

impl Stage {
    async fn set_up(
        order: &Order,
        record: &mut RunRecord,
        folder: &RunFolder,
        clock: RunClock,
        tally: Arc<Tally>,
    ) -> Result<Self, HarnessError> {
        let suite = &order.suite;
        let roster = Roster::of(suite);
        let mut ports = Ports::new(Seed(u64::from(std::process::id())).stream(&record.run));
        let local = LocalPlan {
            run: &record.run,
            folder: folder.path(),
            lock_defect: order.defects.lock.as_deref(),
            resource_defect: order.defects.resource.as_deref(),
            toxiproxy: order.toxiproxy,
        };
        let mut target = LocalTarget::bring_up(local, &mut ports).await?;
        let proxies = Proxies::connect(target.proxy_api()).await?;
        record
            .versions
            .insert("toxiproxy".to_owned(), proxies.version().await?);
        let (recorder, writer) = Recorder::create(
            &folder.history(),
            header(record, suite, &roster),
            clock,
            Arc::clone(&tally),
        )?;
        let (conductor_sender, inbox) = mpsc::unbounded_channel();
        let workers = suite.run.workers.0 as usize;
        let (proxy_names, addresses) =
            match create_proxies(&record.run, workers, &proxies, &target, &mut ports).await {
                Ok(addresses) => addresses,
                Err(error) => {
                    // One that was never made cannot be deleted, which is fine; the error that counts is the first.
                    for name in proxy_names(&record.run, workers) {
                        let _ = proxies.delete(&name).await;
                    }
                    return Err(error);
                }
            };
        let mut links = Vec::new();
        for (worker, addresses) in addresses.into_iter().enumerate() {
            let hello = Hello {
                f: "hello".to_owned(),
                clients: roster
                    .clients
                    .iter()
                    .filter(|member| member.worker == worker)
                    .map(|member| member.client.clone())
                    .collect(),
                links: addresses,
                options: Options {
                    lock: suite.lock.kind.name().to_owned(),
                    resource: suite.resource.kind.name().to_owned(),
                    timeout_ms: suite.worker.timeout.as_millis(),
                },
            };
            let node = target.start_worker(&suite.worker.command)?;
            let pipes = node
                .lock()
                .expect("no holder of a node's lock panics")
                .pipes();
            let (stdin, stdout) = pipes
                .ok_or_else(|| HarnessError::node(format!("w{}", worker + 1), "has no pipes"))?;
            let sender = conductor_sender.clone();
            let report = move |from| {
                // A conductor that is gone wants no more answers.
                let _ = sender.send(Message::Worker(worker, from));
            };
            links.push(WorkerLink::open(
                stdin,
                stdout,
                &hello,
                Arc::clone(&recorder),
                report,
            )?);
        }
        let conductor = Conductor::new(Score {
            clock,
            recorder: Arc::clone(&recorder),
            holders: roster.holders(suite, order.seed, order.defects.holder),
            roster,
            links,
            rate: suite.run.rate,
            stream: order.seed.stream("conductor"),
            inbox,
        });
        Ok(Self {
            clock,
            recorder,
            writer,
            conductor,
            conductor_sender,
            target: Arc::new(target),
            proxies,
            proxy_names,
            tally,
            folder: folder.clone(),
            _ports: ports,
        })
    }

    /// Load under faults until the time limit, a signal, a trouble, or (with `fail_fast`) a violation; then heal.
    async fn load(
        &mut self,
        order: &Order,
        record: &mut RunRecord,
        mut interrupt: watch::Receiver<bool>,
    ) {
        let (stop, stopped) = watch::channel(false);
        let (trouble, mut troubles) = mpsc::unbounded_channel();
        let means = Arc::new(Means {
            run: record.run.clone(),
            clock: self.clock,
            recorder: Arc::clone(&self.recorder),
            target: Arc::clone(&self.target),
            proxies: self.proxies.clone(),
            conductor: self.conductor_sender.clone(),
            stop: stopped,
            workers: order.suite.run.workers.0 as usize,
            tally: Arc::clone(&self.tally),
            busy: Mutex::default(),
            trouble,
        });
        let lost_worker = means.trouble.clone();
        let nemesis = tokio::spawn(Nemesis::new(means, &record.plan, &order.suite).run());
        let ends = self.clock.now() + order.suite.run.time_limit.0;
        let (clock, recorder, tally) = (
            self.clock,
            Arc::clone(&self.recorder),
            Arc::clone(&self.tally),
        );
        let (history, fail_fast) = (self.folder.history(), order.fail_fast);
        let end = async {
            tokio::select! {
                () = tokio::time::sleep_until(clock.instant(ends)) => {}
                _ = interrupt.wait_for(|&interrupt| interrupt) => {
                    record.ended_early = Some("by a signal; judged as far as it went".to_owned());
                }
                () = first_violation(&history), if fail_fast => {
                    record.ended_early = Some("at the first violation, as --fail-fast asks".to_owned());
                }
                trouble = troubles.recv() => record.troubles.extend(trouble),
                error = disk_trouble(&recorder) => record.troubles.push(error),
            }
            tally.enter("heal");
            // The nemesis holds a receiver until it has undone everything.
            let _ = stop.send(true);
            if let Err(broken) = nemesis.await {
                record.troubles.push(format!("the nemesis broke: {broken}"));
            }
            while let Ok(trouble) = troubles.try_recv() {
                record.troubles.push(trouble);
            }
        };
        tokio::pin!(end);
        while let Err(lost) = self.conductor.load(&mut end).await {
            // The receiver lives in `end`, which has not completed.
            let _ = lost_worker.send(words_of(&lost, &self.target));
        }
    }

    /// Ends the workers, takes the proxies off a Toxiproxy that outlives the run, kills the rest, closes the history.
    async fn take_down(mut self, order: &Order, record: &mut RunRecord) {
        self.conductor.dismiss();
        if order.toxiproxy.is_some() {
            for name in &self.proxy_names {
                if let Err(error) = self.proxies.delete(name).await {
                    record.troubles.push(format!("left behind: {error}"));
                }
            }
        }
        let (target, keep) = (Arc::clone(&self.target), order.keep);
        let ended = tokio::task::spawn_blocking(move || target.take_down(keep)).await;
        if let Err(broken) = ended {
            record
                .troubles
                .push(format!("the take-down broke: {broken}"));
        }
        self.recorder.close();
        let writer = self.writer;
        let _ = tokio::task::spawn_blocking(move || writer.join()).await;
        record.troubles.extend(self.recorder.disk_error());
    }
}

/// The names of a run's proxies, the workers in turn and for each of them both services.
fn proxy_names(run: &str, workers: usize) -> Vec<String> {
    let of_worker = |worker: usize| {
        Service::ALL.map(|service| format!("fp-{run}-w{}-{}", worker + 1, service.name()))
    };
    (0..workers).flat_map(of_worker).collect()
}

/// What each worker is told: service to address.
type Addresses = Vec<BTreeMap<String, String>>;

/// One proxy for each worker and service: without that no partition could be asymmetric.
async fn create_proxies(
    run: &str,
    workers: usize,
    proxies: &Proxies,
    target: &LocalTarget,
    ports: &mut Ports,
) -> Result<(Vec<String>, Addresses), HarnessError> {
    let names = proxy_names(run, workers);
    let mut addresses = vec![BTreeMap::new(); workers];
    for (position, name) in names.iter().enumerate() {
        let service = Service::ALL[position % Service::ALL.len()];
        let listen = proxies
            .create(name, ports.claim()?, target.address(service))
            .await?;
        addresses[position / Service::ALL.len()]
            .insert(service.name().to_owned(), listen.to_string());
    }
    Ok((names, addresses))
}

/// What happened to a worker, with the last line of its log.
fn words_of(lost: &WorkerLost, target: &LocalTarget) -> String {
    let WorkerLost { worker, why } = lost;
    format!("{worker}: {why}{}", target.last_words(worker))
}

/// Completes when the history can no longer be written.
async fn disk_trouble(recorder: &Recorder) -> String {
    loop {
        if let Some(error) = recorder.disk_error() {
            return error;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Completes when what is on disk so far is invalid.
async fn first_violation(history: &std::path::Path) {
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let path = history.to_owned();
        let invalid = tokio::task::spawn_blocking(move || {
            let bytes = std::fs::read(path).ok()?;
            Some(judge(&History::read(&bytes).ok()?, Model::Fencing).verdict == Verdict::Invalid)
        });
        if invalid.await.ok().flatten() == Some(true) {
            return;
        }
    }
}

fn judge_saved(folder: &RunFolder) -> Result<(History, Judgement), HarnessError> {
    let path = folder.history();
    let bytes = std::fs::read(&path).map_err(|source| HarnessError::Input {
        path: path.clone(),
        source,
    })?;
    let history = History::read(&bytes)
        .map_err(|error| HarnessError::Internal(format!("{}: {error}", path.display())))?;
    let judgement = judge(&history, Model::Fencing);
    Ok((history, judgement))
}

fn record_of(order: &Order) -> RunRecord {
    let roster = Roster::of(&order.suite);
    RunRecord {
        format: 1,
        run: machine::run_id(),
        suite: order.suite.clone(),
        seed: order.seed.0,
        defect: order.defects.name.clone(),
        started: String::new(),
        command_line: order.command_line.clone(),
        replay: order.replay.clone(),
        versions: machine::versions(),
        machine: machine::describe(),
        clients: roster
            .clients
            .iter()
            .map(|member| (member.client.clone(), format!("w{}", member.worker + 1)))
            .collect(),
        plan: faults::plan(&order.suite, order.seed),
        phases: Vec::new(),
        ended_early: None,
        troubles: Vec::new(),
    }
}

fn header(record: &RunRecord, suite: &Suite, roster: &Roster) -> Header {
    let lease_ms = Some(suite.lock.lease.as_millis());
    let locks = roster.locks.iter().map(|lock| {
        (
            lock.lock.clone(),
            LockHeader {
                keys: lock.keys.clone(),
                lease_ms,
            },
        )
    });
    Header {
        format: 1,
        run: Some(record.run.clone()),
        suite: Some(suite.name.as_str().to_owned()),
        seed: Some(record.seed),
        started: Some(record.started.clone()),
        locks: locks.collect(),
        clients: record.clients.clone(),
        plan: Some(Plan {
            faults: faults::labels(&record.plan),
            expect: Expectations {
                zombie_writes: suite.expect.zombie_writes.0.into(),
            },
        }),
        ..Header::default()
    }
}

fn pretty(value: &impl serde::Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("records are plain data");
    bytes.push(b'\n');
    bytes
}

/// Times the phases.
struct Stopwatch {
    clock: RunClock,
    tally: Arc<Tally>,
    since: Duration,
    phase: &'static str,
}

impl Stopwatch {
    /// The phase under way is over, and `phase` begins.
    fn next(&mut self, phase: &'static str, record: &mut RunRecord) {
        let now = self.clock.now();
        let took_ms = u64::try_from((now - self.since).as_millis())
            .expect("a run lasts less than 584 million years");
        record.phases.push(Phase {
            name: self.phase.to_owned(),
            took_ms,
        });
        (self.since, self.phase) = (now, phase);
        self.tally.enter(phase);
    }
}
