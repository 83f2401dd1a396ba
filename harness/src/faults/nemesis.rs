//! The nemesis: carries the plan out, each fault as a task of its own, and undoes everything when told to stop.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost_checker::history::{FaultEvent, FaultOutcome, FaultPhase};
use fencepost_workloads::protocol::Hello;
use fencepost_workloads::suite::{Fault, FaultKind, Suite};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::{container, kill, link, pause, plan, rebirth, zombie};
use crate::clock::RunClock;
use crate::journal::{Entry, Journal};
use crate::proxies::Proxies;
use crate::run_record::PlannedFault;
use crate::runner::conductor::{Message, Wish};
use crate::runner::recorder::Recorder;
use crate::runner::tally::Tally;
use crate::targets::{LocalTarget, SharedNode, Wire};

/// How long before it is looked again whether something is free.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// What faults need to be done, and to be seen to be done. Shared by all of them.
pub struct Means {
    /// The run's id, in the names of its proxies.
    pub run: String,
    /// The run's clock.
    pub clock: RunClock,
    /// Where begin and end are recorded.
    pub recorder: Arc<Recorder>,
    /// The nodes.
    pub target: Arc<LocalTarget>,
    /// The fault proxy.
    pub proxies: Proxies,
    /// Every link and its proxies.
    pub wires: Arc<[Wire]>,
    /// To the conductor.
    pub conductor: mpsc::UnboundedSender<Message>,
    /// True once everything is to end.
    pub stop: watch::Receiver<bool>,
    /// How many workers there are.
    pub workers: usize,
    /// Where a fault is written down before it begins.
    pub journal: Arc<Journal>,
    /// For the progress line.
    pub tally: Arc<Tally>,
    /// Nodes and links to which something is being done, by name.
    pub busy: Mutex<BTreeSet<String>>,
    /// How workers are started.
    pub worker_command: Vec<String>,
    /// What each worker was told first, by its index.
    pub hellos: Mutex<Vec<Hello>>,
    /// What went wrong that the run must end for, e.g. a service that does not come back.
    pub trouble: mpsc::UnboundedSender<String>,
}

/// Carries a plan out.
pub struct Nemesis {
    means: Arc<Means>,
    plan: Vec<(PlannedFault, Fault)>,
}

impl Nemesis {
    /// A nemesis for `plan`, whose labels are those of `suite`.
    #[must_use]
    pub fn new(means: Arc<Means>, plan: &[PlannedFault], suite: &Suite) -> Self {
        let described = |planned: &PlannedFault| {
            let fault = plan::entry(planned, suite)?;
            Some((planned.clone(), fault.clone()))
        };
        Self {
            means,
            plan: plan.iter().filter_map(described).collect(),
        }
    }

    /// Begins each fault when it is due (counted from now). Once `stop` is true no fault begins, those under way end
    /// early, and this returns when the last has been undone.
    pub async fn run(self) {
        let Self { means, plan } = self;
        let start = means.clock.now();
        let mut under_way = JoinSet::new();
        for (planned, fault) in plan {
            if !means
                .sleep(start + Duration::from_millis(planned.at_ms))
                .await
            {
                break;
            }
            let means = Arc::clone(&means);
            under_way.spawn(async move {
                match fault.kind {
                    FaultKind::Zombie | FaultKind::Between => {
                        zombie::inject(&means, &planned, &fault).await;
                    }
                    FaultKind::Pause | FaultKind::Freeze => {
                        pause::inject(&means, &planned, &fault).await;
                    }
                    FaultKind::Kill if fault.identity.is_some() => {
                        rebirth::inject(&means, &planned, &fault).await;
                    }
                    FaultKind::Kill => kill::inject(&means, &planned, &fault).await,
                    kind if kind.is_of_links() => link::inject(&means, &planned, &fault).await,
                    _ => container::inject(&means, &planned, &fault).await,
                }
            });
        }
        let mut stop = means.stop.clone();
        // The sender lives until the run has healed; if it is gone, so is the run.
        let _ = stop.wait_for(|&stop| stop).await;
        while let Some(ended) = under_way.join_next().await {
            if let Err(broken) = ended {
                // The run is over then; its nodes are killed, stopped or not.
                let _ = means
                    .trouble
                    .send(format!("a fault's own task broke: {broken}"));
            }
        }
    }
}

/// A node or link that nobody else touches while this lives.
pub struct Reserved<'a> {
    means: &'a Means,
    names: Vec<String>,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut busy = self
            .means
            .busy
            .lock()
            .expect("nobody panics with this lock");
        for name in &self.names {
            busy.remove(name);
        }
    }
}

impl Means {
    /// Sleeps until `at`; false when the run is to end instead.
    pub async fn sleep(&self, at: Duration) -> bool {
        let mut stop = self.stop.clone();
        if *stop.borrow() {
            return false;
        }
        tokio::select! {
            () = tokio::time::sleep_until(self.clock.instant(at)) => true,
            _ = stop.wait_for(|&stop| stop) => false,
        }
    }

    /// Completes when the run is to end.
    pub async fn stopped(&self) {
        let mut stop = self.stop.clone();
        let _ = stop.wait_for(|&stop| stop).await;
    }

    /// Reserves all of `names`, or none.
    pub fn reserve(&self, names: &[String]) -> Option<Reserved<'_>> {
        let mut busy = self.busy.lock().expect("nobody panics with this lock");
        if names.iter().any(|name| busy.contains(name)) {
            return None;
        }
        busy.extend(names.iter().cloned());
        Some(Reserved {
            means: self,
            names: names.to_vec(),
        })
    }

    /// The same once all are free, or nothing if that takes longer than `within` or the run is to end.
    pub async fn reserve_within(&self, names: &[String], within: Duration) -> Option<Reserved<'_>> {
        let deadline = self.clock.now() + within;
        loop {
            if let Some(reserved) = self.reserve(names) {
                return Some(reserved);
            }
            let next = self.clock.now() + BETWEEN_LOOKS;
            if next > deadline || !self.sleep(next).await {
                return None;
            }
        }
    }

    /// Nodes and links that something is being done to.
    pub fn busy_nodes(&self) -> BTreeSet<String> {
        self.busy
            .lock()
            .expect("nobody panics with this lock")
            .clone()
    }

    /// Workers that something is being done to, or to one of their links.
    pub fn busy_workers(&self) -> Vec<usize> {
        let busy = self.busy_nodes();
        let touches = |worker: &usize| {
            let name = worker_name(*worker);
            busy.iter().any(|busy| {
                busy.strip_prefix(&name)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            })
        };
        (0..self.workers).filter(touches).collect()
    }

    /// Tells the conductor; if it is gone, so is the run.
    pub fn wish(&self, wish: Wish) {
        let _ = self.conductor.send(Message::Nemesis(wish));
    }

    /// Writes down that a fault is about to begin, so that it can be undone after a crash. False where that fails: then
    /// it must not begin, which is recorded.
    pub fn announce(&self, event: &FaultEvent) -> bool {
        let entry = Entry::Fault {
            id: event.id,
            kind: event.fault.clone(),
            on: event.on.clone(),
        };
        match self.journal.write(&entry) {
            Ok(()) => true,
            Err(error) => {
                self.skip(event.clone(), &error.to_string());
                false
            }
        }
    }

    /// Records a fault that was begun, with its evidence, or why there is none; answers what it counts as.
    pub fn begin_with(&self, line: &FaultEvent, begun: Result<String, String>) -> FaultOutcome {
        let outcome = match begun {
            Ok(_) => FaultOutcome::Installed,
            Err(_) => FaultOutcome::Unknown,
        };
        self.begin(FaultEvent {
            outcome: Some(outcome),
            evidence: Some(begun.unwrap_or_else(|why| why)),
            ..line.clone()
        });
        outcome
    }

    /// Records that it was undone, with the evidence of that: without any, nothing is known of the fault.
    pub fn end_with(
        &self,
        line: FaultEvent,
        outcome: FaultOutcome,
        undone: Result<String, String>,
    ) {
        let outcome = match undone {
            Ok(_) => outcome,
            Err(_) => FaultOutcome::Unknown,
        };
        self.end(FaultEvent {
            outcome: Some(outcome),
            evidence: Some(undone.unwrap_or_else(|why| why)),
            ..line
        });
    }

    /// Records that a fault is in force.
    pub fn begin(&self, event: FaultEvent) {
        self.tally
            .fault_began(event.id, format!("{} {}", event.fault, event.on.join(",")));
        self.recorder.fault(FaultEvent {
            phase: FaultPhase::Begin,
            ..event
        });
    }

    /// Records that a fault has been undone.
    pub fn end(&self, event: FaultEvent) {
        self.tally.fault_ended(event.id);
        // Left open in the journal it is healed once more than needed, which does no harm.
        let _ = self.journal.write(&Entry::Undone { id: event.id });
        self.recorder.fault(FaultEvent {
            phase: FaultPhase::End,
            ..event
        });
    }

    /// Records a fault that was never begun.
    pub fn skip(&self, event: FaultEvent, why: &str) {
        self.recorder.fault(FaultEvent {
            outcome: Some(FaultOutcome::Skipped),
            evidence: Some(why.to_owned()),
            ..event
        });
    }
}

/// A fault's line, to be filled in: kind, id and plan label.
pub fn event(planned: &PlannedFault, kind: FaultKind, on: Vec<String>) -> FaultEvent {
    FaultEvent {
        index: 0,
        time: 0,
        fault: kind.name().to_owned(),
        phase: FaultPhase::Begin,
        id: planned.id,
        on,
        plan: Some(planned.label.clone()),
        lock: None,
        client: None,
        token: None,
        outcome: None,
        evidence: None,
    }
}

/// Does something blocking to a node (signals, looks at `/proc`) off the async threads.
pub async fn on_node<R: Send + 'static>(
    node: SharedNode,
    act: impl FnOnce(&mut crate::targets::Node) -> R + Send + 'static,
) -> R {
    tokio::task::spawn_blocking(move || {
        act(&mut node.lock().expect("no holder of a node's lock panics"))
    })
    .await
    .expect("signals and /proc do not panic")
}

/// A worker's name from its index.
pub fn worker_name(worker: usize) -> String {
    format!("w{}", worker + 1)
}
