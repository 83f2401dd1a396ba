//! What a run stands on: its nodes, links, history and conductor, from set-up to take-down.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost_checker::history::{Expectations, Header, LockHeader, Plan};
use fencepost_workloads::protocol::{Hello, Options};
use fencepost_workloads::seed::Seed;
use fencepost_workloads::suite::Suite;
use fencepost_workloads::workload::Roster;
use tokio::sync::{mpsc, watch};

use super::conductor::{Conductor, Message, Score, WorkerLost};
use super::folder::RunFolder;
use super::interrupts::Interrupts;
use super::recorder::{Recorder, Writer};
use super::session::Order;
use super::tally::Tally;
use super::watch::Watch;
use super::worker_link::WorkerLink;
use crate::clock::RunClock;
use crate::error::HarnessError;
use crate::faults::{self, Means, Nemesis};
use crate::journal::{Entry, Journal};
use crate::proxies::{Cause, Proxies};
use crate::run_record::RunRecord;
use crate::targets::{LocalPlan, LocalTarget, Ports, Service, proc};

/// How much longer than their own timeouts the workers' open operations may take after the load before they are given up.
const SETTLE_SLACK: Duration = Duration::from_secs(1);
/// How long the final reads may take.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// A run that has been set up.
pub(super) struct Stage {
    clock: RunClock,
    recorder: Arc<Recorder>,
    writer: Writer,
    /// Judges while the run goes on, where that is asked for.
    watch: Option<Watch>,
    conductor: Conductor,
    conductor_sender: mpsc::UnboundedSender<Message>,
    target: Arc<LocalTarget>,
    proxies: Proxies,
    journal: Arc<Journal>,
    tally: Arc<Tally>,
    folder: RunFolder,
    // Held, not read: a claim keeps a port for a service that is down.
    _ports: Ports,
}

impl Stage {
    /// Brings everything up. What was brought up before an error is taken down again.
    pub(super) async fn set_up(
        order: &Order,
        record: &mut RunRecord,
        folder: &RunFolder,
        journal: Arc<Journal>,
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
            journal: Arc::clone(&journal),
        };
        let mut target = LocalTarget::bring_up(local, &mut ports).await?;
        let proxies = Proxies::connect(target.proxy_api()).await?;
        let version = proxies.version().await?;
        record.versions.insert("toxiproxy".to_owned(), version);
        let header = header(record, suite, &roster);
        let (watch, lines) = match order.fail_fast.then(Watch::start).transpose()? {
            Some((watch, lines)) => (Some(watch), Some(lines)),
            None => (None, None),
        };
        let history = folder.history();
        let (recorder, writer) =
            Recorder::create(&history, header, clock, Arc::clone(&tally), lines)?;
        let workers = suite.run.workers.0 as usize;
        let names = proxy_names(&record.run, workers);
        if order.toxiproxy.is_some() {
            for name in &names {
                let (api, name) = (proxies.api(), name.clone());
                journal.write(&Entry::Proxy { api, name })?;
            }
        }
        let (conductor_sender, inbox) = mpsc::unbounded_channel();
        let addresses = create_proxies(&names, &proxies, &target, &mut ports).await?;
        let hellos = hellos(suite, &roster, addresses);
        let links = start_workers(suite, &mut target, hellos, &recorder, &conductor_sender)?;
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
            watch,
            conductor,
            conductor_sender,
            target: Arc::new(target),
            proxies,
            journal,
            tally,
            folder: folder.clone(),
            _ports: ports,
        })
    }

    /// Load under faults until the time limit, a signal, a trouble, or (with `fail_fast`) a violation; then heal.
    pub(super) async fn load(
        &mut self,
        order: &Order,
        record: &mut RunRecord,
        interrupts: &Interrupts,
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
            journal: Arc::clone(&self.journal),
            tally: Arc::clone(&self.tally),
            busy: Mutex::default(),
            trouble,
        });
        let (lost_worker, watched) = (means.trouble.clone(), Arc::clone(&means));
        let mut nemesis = tokio::spawn(Nemesis::new(means, &record.plan, &order.suite).run());
        let ends = self.clock.now() + order.suite.run.time_limit.0;
        let (clock, recorder, tally) = (
            self.clock,
            Arc::clone(&self.recorder),
            Arc::clone(&self.tally),
        );
        let watch = self.watch.take();
        let end = async {
            tokio::select! {
                () = tokio::time::sleep_until(clock.instant(ends)) => {}
                () = interrupts.reach(1) => {
                    record.ended_early = Some("by a signal; judged as far as it went".to_owned());
                }
                () = first_violation(watch.as_ref()) => {
                    record.ended_early = Some("at the first violation, as --fail-fast asks".to_owned());
                }
                trouble = troubles.recv() => record.troubles.extend(trouble),
                error = disk_trouble(&recorder) => record.troubles.push(error),
                died = unplanned_death(&watched) => record.troubles.push(died),
            }
            tally.enter("heal");
            // The nemesis holds a receiver until it has undone everything.
            let _ = stop.send(true);
            let healed = tokio::select! {
                healed = &mut nemesis => Some(healed),
                // What is still stopped is killed when everything is taken down.
                () = interrupts.reach(2) => None,
            };
            match healed {
                Some(Ok(())) => {}
                Some(Err(broken)) => record.troubles.push(format!("the nemesis broke: {broken}")),
                None => nemesis.abort(),
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

    /// Lets open operations end, then reads every key. A second signal cuts both short.
    pub(super) async fn settle(&mut self, order: &Order, interrupts: &Interrupts) {
        let suite = &order.suite;
        let within = suite.worker.timeout.0 + SETTLE_SLACK;
        let cut_short = tokio::select! {
            () = self.conductor.settle(within) => false,
            () = interrupts.reach(2) => true,
        };
        if cut_short {
            self.conductor.settle(Duration::ZERO).await;
        }
    }

    /// Reads every key once more.
    pub(super) async fn final_reads(&mut self, record: &mut RunRecord, interrupts: &Interrupts) {
        let unread = tokio::select! {
            unread = self.conductor.final_reads(READ_WITHIN) => unread,
            () = interrupts.reach(2) => {
                record.troubles.push("the final reads were cut short by a second signal".to_owned());
                Vec::new()
            }
        };
        let lost = self.conductor.lost();
        record
            .troubles
            .extend(lost.map(|lost| words_of(&lost, &self.target)));
        if !unread.is_empty() {
            record
                .troubles
                .push(format!("no final read of {}", unread.join(", ")));
        }
    }

    /// Ends the workers, takes the proxies off a Toxiproxy that outlives the run, kills the rest, closes the history.
    pub(super) async fn take_down(mut self, order: &Order, record: &mut RunRecord) {
        self.conductor.settle(Duration::ZERO).await;
        self.conductor.dismiss();
        let mut left = Vec::new();
        if order.toxiproxy.is_some() {
            let names = proxy_names(&record.run, order.suite.run.workers.0 as usize);
            left.extend(delete_proxies(&names, &self.proxies).await);
        }
        let (target, keep) = (Arc::clone(&self.target), order.keep);
        match tokio::task::spawn_blocking(move || target.take_down(keep)).await {
            Ok(more) => left.extend(more),
            Err(broken) => left.push(format!("the take-down broke: {broken}")),
        }
        self.recorder.close();
        let writer = self.writer;
        // It ends once everything is on disk, or nothing can be any more.
        let _ = tokio::task::spawn_blocking(move || writer.join()).await;
        record.troubles.extend(self.recorder.disk_error());
        if left.is_empty() {
            let removed = self.journal.remove();
            record
                .troubles
                .extend(removed.err().map(|error| error.to_string()));
        } else {
            let run = &record.run;
            let hint = format!("left behind, `fencepost heal {run}` removes it");
            let told = left.iter().map(|what| format!("{hint}: {what}"));
            record.troubles.extend(told);
        }
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
    names: &[String],
    proxies: &Proxies,
    target: &LocalTarget,
    ports: &mut Ports,
) -> Result<Addresses, HarnessError> {
    let services = Service::ALL.len();
    let mut addresses = vec![BTreeMap::new(); names.len() / services];
    for (position, name) in names.iter().enumerate() {
        let service = Service::ALL[position % services];
        let upstream = target.address(service);
        let listen = proxies.create(name, ports.claim()?, upstream).await?;
        addresses[position / services].insert(service.name().to_owned(), listen.to_string());
    }
    Ok(addresses)
}

/// After a set-up that failed: its nodes are gone already, what else it may have left is removed, and the journal with
/// it. What cannot be removed stays in the journal.
pub(super) async fn clear_failed(
    order: &Order,
    record: &RunRecord,
    journal: &Journal,
    data: Option<&Path>,
) {
    let mut left = proc::of_run(&record.run).len();
    if let Some(data) = data.filter(|data| data.exists()) {
        left += usize::from(std::fs::remove_dir_all(data).is_err());
    }
    if let Some(api) = order.toxiproxy.filter(|_| journal.holds_proxies()) {
        let names = proxy_names(&record.run, order.suite.run.workers.0 as usize);
        left += match Proxies::connect(api).await {
            Ok(proxies) => delete_proxies(&names, &proxies).await.len(),
            Err(_) => names.len(),
        };
    }
    if left == 0 {
        // If it cannot be removed, heal finds it and finds nothing to do.
        let _ = journal.remove();
    }
}

/// Deletes the proxies; returns what could not be.
async fn delete_proxies(names: &[String], proxies: &Proxies) -> Vec<String> {
    let mut left = Vec::new();
    for name in names {
        match proxies.delete(name).await {
            Ok(()) => {}
            // One that was never made.
            Err(error) if matches!(error.cause, Cause::Refused { status: 404, .. }) => {}
            Err(error) => left.push(error.to_string()),
        }
    }
    left
}

/// What each worker is told first.
fn hellos(suite: &Suite, roster: &Roster, addresses: Addresses) -> Vec<Hello> {
    let hello = |(worker, links): (usize, BTreeMap<String, String>)| Hello {
        f: "hello".to_owned(),
        clients: roster
            .clients
            .iter()
            .filter(|member| member.worker == worker)
            .map(|member| member.client.clone())
            .collect(),
        links,
        options: Options {
            lock: suite.lock.kind.name().to_owned(),
            resource: suite.resource.kind.name().to_owned(),
            timeout_ms: suite.worker.timeout.as_millis(),
        },
    };
    addresses.into_iter().enumerate().map(hello).collect()
}

fn start_workers(
    suite: &Suite,
    target: &mut LocalTarget,
    hellos: Vec<Hello>,
    recorder: &Arc<Recorder>,
    conductor: &mpsc::UnboundedSender<Message>,
) -> Result<Vec<WorkerLink>, HarnessError> {
    let mut links = Vec::new();
    for (worker, hello) in hellos.into_iter().enumerate() {
        let node = target.start_worker(&suite.worker.command)?;
        let pipes = node
            .lock()
            .expect("no holder of a node's lock panics")
            .pipes();
        let (stdin, stdout) =
            pipes.ok_or_else(|| HarnessError::node(format!("w{}", worker + 1), "has no pipes"))?;
        let sender = conductor.clone();
        let report = move |from| {
            // A conductor that is gone wants no more answers.
            let _ = sender.send(Message::Worker(worker, from));
        };
        let recorder = Arc::clone(recorder);
        links.push(WorkerLink::open(
            stdin, stdout, worker, &hello, recorder, report,
        )?);
    }
    Ok(links)
}

/// What happened to a worker, with the last line of its log.
fn words_of(lost: &WorkerLost, target: &LocalTarget) -> String {
    let WorkerLost { worker, why } = lost;
    format!("{worker}: {why}{}", target.last_words(worker))
}

/// Completes when a service or the proxy died and no fault had killed it.
async fn unplanned_death(means: &Means) -> String {
    loop {
        for (name, node) in means.target.standing() {
            let free = || !means.busy_nodes().contains(name);
            let ended = || node.lock().ok().and_then(|mut node| node.ended());
            // Asked twice round the question whether a fault has it: a restart may have come in between.
            if let Some(status) = ended()
                && free()
                && ended().is_some()
                && free()
            {
                let words = means.target.last_words(name);
                return format!("{name}: ended by itself with {status}{words}");
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
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

/// Completes when what was recorded so far is invalid.
async fn first_violation(watch: Option<&Watch>) {
    match watch {
        Some(watch) => watch.violation().await,
        None => std::future::pending().await,
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
                ..LockHeader::default()
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
