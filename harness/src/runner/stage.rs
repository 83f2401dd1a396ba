//! What a run stands on: its nodes, links, history and conductor, from set-up to take-down.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost_checker::history::{Expectations, Header, LockHeader, MarkScope, Plan};
use fencepost_workloads::protocol::Hello;
use fencepost_workloads::seed::Seed;
use fencepost_workloads::suite::{Mark, Suite, TargetKind};
use fencepost_workloads::workload::Roster;
use tokio::sync::{mpsc, watch};

use super::conductor::{Conductor, Message, Reborn, Score, WorkerLost};
use super::folder::RunFolder;
use super::interrupts::Interrupts;
use super::recorder::{Recorder, Writer};
use super::session::Order;
use super::tally::Tally;
use super::watch::Watch;
use super::worker_link::{self, FromWorker, WorkerLink};
use crate::clock::RunClock;
use crate::error::HarnessError;
use crate::faults::{self, Means, Nemesis};
use crate::journal::{Entry, Journal};
use crate::proxies::{Cause, Proxies};
use crate::run_record::RunRecord;
use crate::targets::{
    LocalPlan, LocalTarget, LogKeeper, Ports, Service, SharedNode, Wire, docker, link_of, move_out,
    namespace, proc,
};

/// How much longer than their own timeouts the workers' open operations may take after the load before they are given up.
const SETTLE_SLACK: Duration = Duration::from_secs(1);
/// How often it is asked whether a worker's process has ended.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// How long a worker whose pipe is closed may take until its exit status is known.
const ENDS_WITHIN: Duration = Duration::from_millis(500);
/// How long the final reads may take.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// How long they may go on after a signal.
const READ_AFTER_A_SIGNAL: Duration = Duration::from_secs(2);

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
    wires: Arc<[Wire]>,
    journal: Arc<Journal>,
    tally: Arc<Tally>,
    /// What each worker was told first.
    hellos: Vec<Hello>,
    /// Services and proxies that died although no fault killed them, each told once.
    dead: BTreeSet<String>,
    // Held, not read: a claim keeps a port for a service that is down.
    _ports: Ports,
    // Held, not read: logs stay small for as long as nodes write them.
    _logs: LogKeeper,
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
        let logs = LogKeeper::start(folder.path().join("logs"))?;
        let local = LocalPlan {
            suite,
            run: &record.run,
            folder: folder.path(),
            lock_defect: order.defects.lock.as_deref(),
            resource_defect: order.defects.resource.as_deref(),
            keep: order.keep,
            toxiproxy: order.toxiproxy,
            journal: Arc::clone(&journal),
        };
        let mut target = LocalTarget::open(local, &mut ports).await?;
        let proxies = Proxies::connect(target.proxy_api()).await?;
        let version = proxies.version().await?;
        record.versions.insert("toxiproxy".to_owned(), version);
        record.versions.extend(target.versions());
        record.means = target.means();
        let workers = suite.run.workers.0 as usize;
        let [mut between, mut to_clients] = target.wires(workers, &mut ports)?;
        if order.toxiproxy.is_some() {
            for wire in between.iter().chain(&to_clients) {
                let (api, name) = (proxies.api(), wire.proxy.clone());
                journal.write(&Entry::Proxy { api, name })?;
            }
        }
        create_proxies(&mut between, &proxies).await?;
        target.start_systems().await?;
        let of_users = (suite.target.kind == TargetKind::External).then_some(&*journal);
        for tenancy in target.tenancies(suite) {
            tenancy.move_in(of_users, order.force).await?;
        }
        create_proxies(&mut to_clients, &proxies).await?;
        let header = header(record, suite, &roster);
        let watch = order
            .fail_fast
            .then(|| Watch::start(order.defects.found_as));
        let (watch, lines) = match watch.transpose()? {
            Some((watch, lines)) => (Some(watch), Some(lines)),
            None => (None, None),
        };
        let history = folder.history();
        let (recorder, writer) =
            Recorder::create(&history, header, clock, Arc::clone(&tally), lines)?;
        let (conductor_sender, inbox) = mpsc::unbounded_channel();
        let namespace = namespace(&record.run);
        let mut hellos = hellos(suite, &roster, &namespace, &to_clients, &target);
        for hello in &mut hellos {
            hello.options.plant = order.defects.holder;
        }
        let links =
            start_workers(suite, &mut target, &hellos, &recorder, &conductor_sender).await?;
        let conductor = Conductor::new(Score {
            clock,
            recorder: Arc::clone(&recorder),
            holders: roster.holders(suite, order.seed, order.defects.holder),
            roster,
            links,
            rate: suite.run.rate,
            stream: order.seed.stream("conductor"),
            inbox,
            tally: Arc::clone(&tally),
            timeout: suite.worker.timeout.0,
            reborn: reborn(order),
            lease: suite.lock.lease.0,
            shared_mark: suite.resource.mark == Mark::Lock,
            has_locks: suite.workload.kind.has_locks(),
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
            wires: between.into_iter().chain(to_clients).collect(),
            journal,
            tally,
            hellos,
            dead: BTreeSet::new(),
            _ports: ports,
            _logs: logs,
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
            wires: Arc::clone(&self.wires),
            conductor: self.conductor_sender.clone(),
            stop: stopped,
            workers: order.suite.run.workers.0 as usize,
            journal: Arc::clone(&self.journal),
            tally: Arc::clone(&self.tally),
            busy: Mutex::default(),
            worker_command: order.suite.worker.command.clone(),
            hellos: Mutex::new(self.hellos.clone()),
            trouble,
        });
        let lost_worker = means.trouble.clone();
        let watched = Watched {
            target: Arc::clone(&self.target),
            means: Some(Arc::clone(&means)),
        };
        let mut nemesis = tokio::spawn(Nemesis::new(means, &record.plan, &order.suite).run());
        let ends = self.clock.now() + order.suite.run.time_limit.0;
        let (clock, recorder, tally) = (
            self.clock,
            Arc::clone(&self.recorder),
            Arc::clone(&self.tally),
        );
        let watch = self.watch.take();
        let (journal, dead) = (Arc::clone(&self.journal), &mut self.dead);
        let end = async {
            tokio::select! {
                () = tokio::time::sleep_until(clock.instant(ends)) => {}
                () = interrupts.reach(1) => {
                    record.ended_early = Some("by a signal; judged as far as it went".to_owned());
                }
                () = first_violation(watch.as_ref()) => {
                    record.ended_early = Some("at the first finding that it waited for, as --fail-fast asks".to_owned());
                }
                trouble = troubles.recv() => record.troubles.extend(trouble),
                error = disk_trouble(&recorder) => record.troubles.push(error),
                died = watched.unplanned_death(dead) => record.troubles.push(died),
            }
            tally.enter("heal");
            // As with every phase: it says how far a run came that was killed.
            let _ = journal.write(&Entry::Phase {
                name: "heal".to_owned(),
            });
            // The nemesis holds a receiver until it has undone everything.
            let _ = stop.send(true);
            let healed = loop {
                tokio::select! {
                    healed = &mut nemesis => break Some(healed),
                    // What is still stopped is killed when everything is taken down.
                    () = interrupts.reach(2) => break None,
                    died = watched.unplanned_death(dead) => record.troubles.push(died),
                }
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
            let _ = lost_worker.send(words_of(&lost, &self.target).await);
        }
    }

    /// Lets open operations end. A second signal cuts that short.
    pub(super) async fn settle(
        &mut self,
        order: &Order,
        record: &mut RunRecord,
        interrupts: &Interrupts,
    ) {
        let within = order.suite.worker.timeout.0 + SETTLE_SLACK;
        let watched = Watched::after_the_faults(&self.target);
        let cut_short = {
            let settled = self.conductor.settle(within);
            tokio::pin!(settled);
            loop {
                tokio::select! {
                    () = &mut settled => break false,
                    () = interrupts.reach(2) => break true,
                    died = watched.unplanned_death(&mut self.dead) => record.troubles.push(died),
                }
            }
        };
        if cut_short {
            self.conductor.settle(Duration::ZERO).await;
        }
    }

    /// Reads every key once more. A signal leaves it little time and a second one none, and so does the death of what is
    /// read from.
    pub(super) async fn final_reads(&mut self, record: &mut RunRecord, interrupts: &Interrupts) {
        let watched = Watched::after_the_faults(&self.target);
        let unread = {
            let reads = self.conductor.final_reads(READ_WITHIN);
            tokio::pin!(reads);
            let hurried = async {
                interrupts.reach(1).await;
                tokio::time::sleep(READ_AFTER_A_SIGNAL).await;
            };
            tokio::pin!(hurried);
            loop {
                if self.dead.iter().any(|name| name != Service::Lock.name()) {
                    record
                        .troubles
                        .push("the final reads were cut short: nothing answers them".to_owned());
                    break Vec::new();
                }
                tokio::select! {
                    unread = &mut reads => break unread,
                    () = interrupts.reach(2) => {
                        record.ended_early = Some("by a second signal; the final reads were cut short".to_owned());
                        break Vec::new();
                    }
                    () = &mut hurried => {
                        record.ended_early = Some(format!(
                            "by a signal; the final reads were cut short, as not all were answered within {} s of it",
                            READ_AFTER_A_SIGNAL.as_secs()
                        ));
                        break Vec::new();
                    }
                    died = watched.unplanned_death(&mut self.dead) => record.troubles.push(died),
                }
            }
        };
        while let Some(lost) = self.conductor.lost() {
            record.troubles.push(words_of(&lost, &self.target).await);
        }
        if !unread.is_empty() {
            record
                .troubles
                .push(format!("no final read of {}", unread.join(", ")));
        }
    }

    /// Ends the workers, takes the proxies off a Toxiproxy that outlives the run, kills the rest, closes the history.
    /// Whether nothing is left that the journal must tell.
    pub(super) async fn take_down(mut self, order: &Order, record: &mut RunRecord) -> bool {
        self.conductor.settle(Duration::ZERO).await;
        self.conductor.dismiss();
        let mut left = Vec::new();
        left.extend(delete_proxies(&self.journal.outside().proxies, &self.proxies).await);
        let (target, keep) = (Arc::clone(&self.target), order.keep);
        match tokio::task::spawn_blocking(move || target.take_down(keep)).await {
            Ok(more) => left.extend(more),
            Err(broken) => left.push(format!("the take-down broke: {broken}")),
        }
        // Every client and every proxy is gone, so nobody asks the servers for more.
        left.extend(move_out(&self.journal.outside().tenancies).await);
        self.recorder.close();
        let writer = self.writer;
        // It ends once everything is on disk, or nothing can be any more.
        let _ = tokio::task::spawn_blocking(move || writer.join()).await;
        // It may have ended the load, and is told already then.
        let full = self.recorder.disk_error();
        let untold = full.filter(|error| !record.troubles.contains(error));
        record.troubles.extend(untold);
        if order.keep && !self.journal.outside().docker.is_empty() {
            // Everything is still there, and only whoever names the run takes it down.
            let kept = self.journal.write(&Entry::Kept);
            record
                .troubles
                .extend(kept.err().map(|error| error.to_string()));
            return false;
        }
        let run = &record.run;
        let hint = format!("left behind, `fencepost heal {run}` removes it");
        let told = left.iter().map(|what| format!("{hint}: {what}"));
        record.troubles.extend(told);
        left.is_empty()
    }
}

/// Makes the state machine of a client that comes back.
fn reborn(order: &Order) -> Reborn {
    let (suite, seed, defect) = (order.suite.clone(), order.seed, order.defects.holder);
    let roster = Roster::of(&suite);
    Box::new(move |member| roster.holder(member, &suite, seed, defect))
}

/// Makes the proxies, and notes where they listen.
async fn create_proxies(wires: &mut [Wire], proxies: &Proxies) -> Result<(), HarnessError> {
    for wire in wires {
        let listens = proxies
            .create(&wire.proxy, wire.told, wire.upstream)
            .await?;
        if wire.told == wire.listen {
            wire.listen = listens;
        }
    }
    Ok(())
}

/// After a set-up that failed: its nodes are gone already, what else it may have left is removed, and the journal with
/// it. What cannot be removed stays in the journal.
pub(super) async fn clear_failed(
    order: &Order,
    record: &RunRecord,
    journal: &Journal,
    data: Option<&Path>,
) {
    let outside = journal.outside();
    // Before processes: those of a frozen container die when it goes, and not before.
    let mut left = docker::remove_recorded(&record.run, &outside.docker)
        .1
        .len();
    left += proc::of_run(&record.run).len();
    if let Some(data) = data.filter(|data| data.exists()) {
        left += usize::from(std::fs::remove_dir_all(data).is_err());
    }
    // Each is a folder of that name in one of its own.
    for own in outside.data.iter().filter_map(|data| data.parent()) {
        left += usize::from(own.exists() && std::fs::remove_dir_all(own).is_err());
    }
    left += move_out(&outside.tenancies).await.len();
    let names = outside.proxies;
    if let Some(api) = order.toxiproxy.filter(|_| !names.is_empty()) {
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

/// What each worker is told first. A link to several nodes has all their addresses, joined by commas.
fn hellos(
    suite: &Suite,
    roster: &Roster,
    namespace: &str,
    wires: &[Wire],
    target: &LocalTarget,
) -> Vec<Hello> {
    let hello = |worker: usize| {
        let link = |service: Service| {
            let link = link_of(worker, service);
            let parts = wires.iter().filter(|wire| wire.link == link);
            let seen = |wire| target.seen_by_workers(wire, &suite.worker).to_string();
            let addresses: Vec<String> = parts.map(seen).collect();
            (service.name().to_owned(), addresses.join(","))
        };
        Hello {
            f: "hello".to_owned(),
            clients: roster
                .clients
                .iter()
                .filter(|member| member.worker == worker)
                .map(|member| member.client.clone())
                .collect(),
            links: Service::ALL.into_iter().map(link).collect(),
            options: suite.options(namespace),
            identities: BTreeMap::new(),
        }
    };
    (0..suite.run.workers.0 as usize).map(hello).collect()
}

async fn start_workers(
    suite: &Suite,
    target: &mut LocalTarget,
    hellos: &[Hello],
    recorder: &Arc<Recorder>,
    conductor: &mpsc::UnboundedSender<Message>,
) -> Result<Vec<WorkerLink>, HarnessError> {
    let mut links = Vec::new();
    for (worker, hello) in hellos.iter().enumerate() {
        let node = target.start_worker(&suite.worker).await?;
        let pipes = node
            .lock()
            .expect("no holder of a node's lock panics")
            .pipes();
        let (stdin, stdout) =
            pipes.ok_or_else(|| HarnessError::node(format!("w{}", worker + 1), "has no pipes"))?;
        tokio::spawn(tell_of_its_end(
            Arc::clone(&node),
            worker,
            conductor.clone(),
        ));
        let sender = conductor.clone();
        let report = move |from| {
            // A conductor that is gone wants no more answers.
            let _ = sender.send(Message::Worker(worker, from));
        };
        let recorder = Arc::clone(recorder);
        links.push(WorkerLink::open(
            stdin, stdout, worker, hello, recorder, report,
        )?);
    }
    Ok(links)
}

/// Tells the conductor of a worker whose process has ended while something else, a child of it, holds its pipes open.
async fn tell_of_its_end(
    node: SharedNode,
    worker: usize,
    conductor: mpsc::UnboundedSender<Message>,
) {
    let has_ended = || how_it_ended(&node).is_some();
    // One that a fault killed has another in its place by the second look.
    loop {
        while !has_ended() {
            tokio::time::sleep(BETWEEN_LOOKS).await;
            if conductor.is_closed() {
                return;
            }
        }
        // What it still said is read first; most ends are told by the pipe.
        tokio::time::sleep(ENDS_WITHIN).await;
        if has_ended() {
            break;
        }
    }
    let why =
        FromWorker::Ended("has ended, though something of it holds its standard output".to_owned());
    let _ = conductor.send(Message::Worker(worker, why));
}

/// How a node has ended, if it has. One that a fault has in its hands, which may take seconds, is nobody's to ask: this
/// thread has the whole run to see to.
fn how_it_ended(node: &SharedNode) -> Option<String> {
    node.try_lock().ok()?.ended()
}

/// What happened to a worker: how it ended, if it has, and the last line of its log.
async fn words_of(lost: &WorkerLost, target: &LocalTarget) -> String {
    let WorkerLost { index, worker, why } = lost;
    let node = target.worker(*index);
    let ended = || how_it_ended(&node);
    let mut status = ended();
    if why == worker_link::CLOSED {
        // Its pipes close a moment before it can be waited for.
        let deadline = tokio::time::Instant::now() + ENDS_WITHIN;
        while status.is_none() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
            status = ended();
        }
    }
    let mut how = match &status {
        Some(status) => format!(" and ended with {status}"),
        None => String::new(),
    };
    // One that failed says why; one that thinks that it is done must be told that it is not.
    if why == worker_link::CLOSED && status.is_none_or(|status| status == "exit status: 0") {
        how.push_str(": one line for each request, until its standard input is closed, is right");
    }
    format!("{worker}: {why}{how}{}", target.last_words(worker))
}

/// The nodes that stand as long as the run, watched for a death that no fault asked for.
struct Watched {
    target: Arc<LocalTarget>,
    /// What is being done to nodes, while anything is.
    means: Option<Arc<Means>>,
}

impl Watched {
    fn after_the_faults(target: &Arc<LocalTarget>) -> Self {
        Self {
            target: Arc::clone(target),
            means: None,
        }
    }

    /// Completes when a service or the proxy has died and no fault had killed it; each is told once, and is in `dead`
    /// from then on.
    async fn unplanned_death(&self, dead: &mut BTreeSet<String>) -> String {
        loop {
            for (name, node) in self.target.standing() {
                let busy = |means: &Arc<Means>| means.busy_nodes().contains(name);
                let free = || !self.means.as_ref().is_some_and(busy);
                let ended = || how_it_ended(&node);
                // Asked twice round the question whether a fault has it: a restart may have come in between.
                if !dead.contains(name)
                    && let Some(status) = ended()
                    && free()
                    && ended().is_some()
                    && free()
                {
                    dead.insert(name.to_owned());
                    let words = self.target.last_words(name);
                    return format!("{name}: ended by itself with {status}{words}");
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
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
    let guarded = roster
        .locks
        .iter()
        .filter(|_| suite.workload.kind.has_locks());
    let locks = guarded.map(|lock| {
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
        mark_scope: match suite.resource.mark {
            Mark::Key => MarkScope::Key,
            Mark::Lock => MarkScope::Lock,
        },
        plan: Some(Plan {
            faults: faults::labels(&record.plan),
            expect: Expectations {
                zombie_writes: suite.expect.zombie_writes.0.into(),
                no_fence: suite.expect.no_fence,
            },
        }),
    }
}
