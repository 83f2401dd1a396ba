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

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fencepost_checker::history::History;
use fencepost_checker::verdict::Judgement;
use fencepost_checker::{Model, judge};
use fencepost_workloads::seed::Seed;
use fencepost_workloads::suite::{Suite, WorkloadKind};
use fencepost_workloads::workload::Roster;

use super::folder::RunFolder;
use super::interrupts::Interrupts;
use super::progress::Progress;
use super::stage::{Stage, clear_failed};
use super::tally::Tally;
use crate::clock::RunClock;
use crate::defects::Defects;
use crate::error::HarnessError;
use crate::faults;
use crate::journal::{Entry, Journal, state_folder};
use crate::machine;
use crate::report;
use crate::run_record::{Phase, RunRecord, Teeth};

/// The report in words, which finds room where pictures do not.
const SUMMARY: &str = "summary.md";
/// So many files that could not be written are named.
const NAMED: usize = 3;

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
    /// Stop at the first violation, or at the first finding that a planted defect must be found as.
    pub fail_fast: bool,
    /// Write beside what is in a database of the user's.
    pub force: bool,
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

/// Runs `order`; a first interrupt ends its load, a second one cuts short what is still being waited for.
///
/// # Errors
/// When it could not begin, or its history cannot be read back. Once the load has begun, everything else is a
/// [`RunEnd`] with its troubles in the record.
pub async fn run(order: Order, interrupts: Interrupts) -> Result<RunEnd, HarnessError> {
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
    folder
        .write("run.json", &pretty(&record))
        .inspect_err(|_| folder.abandon())?;

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
        journal: None,
        since: clock.now(),
        phase: "set-up",
    };

    tally.enter("set-up");
    let data = (!order.keep).then(|| folder.path().join("data"));
    let journal = match begin_journal(&folder, &record.run, data.as_deref()) {
        Ok(journal) => Arc::new(journal),
        Err(error) => {
            stopwatch.next("judge", &mut record);
            record.troubles.push(error.to_string());
            // As below.
            let _ = save_unbegun(folder, record);
            return Err(error);
        }
    };
    stopwatch.journal = Some(Arc::clone(&journal));
    let set_up = Stage::set_up(
        &order,
        &mut record,
        &folder,
        Arc::clone(&journal),
        clock,
        Arc::clone(&tally),
    );
    // What is under way is dropped by an interrupt, and its nodes die with it.
    let set_up = tokio::select! {
        done = set_up => Some(done),
        () = interrupts.reach(1) => None,
    };
    let mut stage = match set_up {
        Some(Ok(stage)) => stage,
        stopped => {
            clear_failed(&order, &record, &journal, data.as_deref()).await;
            stopwatch.next("judge", &mut record);
            let Some(Err(error)) = stopped else {
                record.ended_early =
                    Some("by a signal during set-up; nothing was recorded".to_owned());
                return save_unbegun(folder, record);
            };
            record.troubles.push(error.to_string());
            // The error itself is what is told; that a report of it cannot be written adds nothing.
            let _ = save_unbegun(folder, record);
            return Err(error);
        }
    };
    stopwatch.next("load", &mut record);
    stage.load(&order, &mut record, &interrupts).await;
    stopwatch.next("settle", &mut record);
    stage.settle(&order, &mut record, &interrupts).await;
    stopwatch.next("final-reads", &mut record);
    stage.final_reads(&mut record, &interrupts).await;
    record.exercise = Some(tally.exercise().clone());
    stopwatch.next("take-down", &mut record);
    let all_gone = stage.take_down(&order, &mut record).await;
    stopwatch.next("judge", &mut record);
    // Until the end it tells of the room that is kept.
    let end_journal = || match all_gone {
        true => journal.remove(),
        false => Ok(()),
    };
    let judged = judge_saved(&folder, suite.workload.kind).inspect_err(|_| {
        folder.give_room_back();
        // That the history cannot be read is what is told.
        let _ = end_journal();
    });
    let (history, mut judgement) = judged?;
    match order.defects.found(&judgement, &history) {
        Some(Ok(found)) => record.defect_found = Some(found),
        Some(Err(missed)) => judgement.lacks(missed),
        None => {}
    }
    stopwatch.next("report", &mut record);
    save(&folder, &mut record, &history, &judgement);
    if let Err(error) = end_journal() {
        record.troubles.push(error.to_string());
        save_record(&folder, &mut record);
    }
    Ok(RunEnd {
        record,
        history,
        judgement,
        folder,
    })
}

/// Opens the run's journal, and keeps room for its end.
fn begin_journal(
    folder: &RunFolder,
    run: &str,
    data: Option<&Path>,
) -> Result<Journal, HarnessError> {
    let journal = Journal::create(&state_folder(), run, data)?;
    let path = std::path::absolute(folder.reserve()).unwrap_or_else(|_| folder.reserve());
    let kept = journal
        .write(&Entry::Reserve { path })
        .and_then(|()| folder.keep_room());
    match kept {
        Ok(()) => Ok(journal),
        Err(error) => {
            // If it cannot be removed, heal finds it and finds nothing to do.
            let _ = journal.remove();
            Err(error)
        }
    }
}

/// Saves a run whose load never began, with its report: an empty recording, of which nothing can be said.
fn save_unbegun(folder: RunFolder, mut record: RunRecord) -> Result<RunEnd, HarnessError> {
    if !folder.history().exists() {
        folder.write("history.jsonl", b"")?;
    }
    let (history, judgement) = judge_saved(&folder, record.suite.workload.kind)?;
    save(&folder, &mut record, &history, &judgement);
    Ok(RunEnd {
        record,
        history,
        judgement,
        folder,
    })
}

/// Adds to a run that it was repeated without the fence, and writes anew what says so. A run that would not have shown a
/// missing fence shows nothing.
pub fn save_teeth(end: &mut RunEnd, teeth: Teeth) {
    if !teeth.bite() {
        end.judgement.lacks(teeth.sentence());
    }
    end.record.teeth = Some(teeth);
    save(&end.folder, &mut end.record, &end.history, &end.judgement);
}

/// Saves a run again that was to be repeated without its fence, and ended too early for that: it proves nothing.
pub fn save_without_teeth(end: &mut RunEnd) {
    end.judgement.lacks(
        "the run ended early, so it was not repeated with the fence taken out, as --teeth asks"
            .to_owned(),
    );
    save(&end.folder, &mut end.record, &end.history, &end.judgement);
}

/// Writes everything that follows from the history. What cannot be written is a trouble and no failure: the verdict
/// stands, and is still to be told. What matters most comes first, and then what the kept room lets say of the rest.
fn save(folder: &RunFolder, record: &mut RunRecord, history: &History, judgement: &Judgement) {
    folder.give_most_room_back();
    let mut unwritten = Vec::new();
    let mut write = |name: &str, bytes: &[u8]| {
        if let Err(error) = folder.write(name, bytes) {
            unwritten.push((name.to_owned(), error));
        }
    };
    write("verdict.json", &pretty(judgement));
    write("run.json", &pretty(record));
    let rendered = report::render(record, history, judgement);
    let mut troubles: Vec<String> = rendered
        .as_ref()
        .err()
        .map(|error| format!("the report is incomplete: failed to render {error}"))
        .into_iter()
        .collect();
    let mut artifacts = rendered.unwrap_or_else(report::ReportError::into_artifacts);
    artifacts.sort_by_key(|artifact| artifact.path != SUMMARY);
    for artifact in artifacts {
        write(&artifact.path, &artifact.bytes);
    }
    troubles.extend(folder.point_latest().err().map(|error| error.to_string()));
    troubles.extend(not_written(folder, &unwritten));
    folder.give_room_back();
    if troubles.is_empty() {
        return;
    }
    record.troubles.extend(troubles);
    let summary = report::markdown(record, history, judgement);
    save_record(folder, record);
    if let Err(error) = folder.write(SUMMARY, &summary) {
        record.troubles.push(error.to_string());
    }
}

fn save_record(folder: &RunFolder, record: &mut RunRecord) {
    if let Err(error) = folder.write("run.json", &pretty(record)) {
        record.troubles.push(error.to_string());
    }
}

/// One line for all files of the run that could not be written: what stops one of them stops many.
fn not_written(folder: &RunFolder, unwritten: &[(String, HarnessError)]) -> Option<String> {
    let [(_, first), more @ ..] = unwritten else {
        return None;
    };
    if more.is_empty() {
        return Some(first.to_string());
    }
    let why = match first {
        HarnessError::Output { source, .. } => source.to_string(),
        other => other.to_string(),
    };
    let names: Vec<&str> = unwritten.iter().map(|(name, _)| name.as_str()).collect();
    let shown = names[..names.len().min(NAMED)].join(", ");
    let rest = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    Some(format!(
        "failed to write {} files in {} ({shown}{rest}): {why}; `fencepost report` on a copy of the folder where there is room makes them",
        names.len(),
        folder.path().display()
    ))
}

/// What the histories of a workload are held against.
fn model_of(workload: WorkloadKind) -> Model {
    match workload {
        WorkloadKind::Register => Model::Fencing,
        WorkloadKind::Cas | WorkloadKind::Routed => Model::CasRegister,
        WorkloadKind::Effects => Model::AppendLog,
    }
}

fn judge_saved(
    folder: &RunFolder,
    workload: WorkloadKind,
) -> Result<(History, Judgement), HarnessError> {
    let path = folder.history();
    let bytes = std::fs::read(&path).map_err(|source| HarnessError::Input {
        path: path.clone(),
        source,
    })?;
    let history = History::read(&bytes)
        .map_err(|error| HarnessError::Internal(format!("{}: {error}", path.display())))?;
    let judgement = judge(&history, model_of(workload));
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
        means: std::collections::BTreeMap::new(),
        clients: roster
            .clients
            .iter()
            .map(|member| (member.client.clone(), format!("w{}", member.worker + 1)))
            .collect(),
        plan: faults::plan(&order.suite, order.seed),
        phases: Vec::new(),
        exercise: None,
        defect_found: None,
        teeth: None,
        ended_early: None,
        troubles: Vec::new(),
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
    journal: Option<Arc<Journal>>,
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
        if let Some(journal) = &self.journal {
            // It says how far a run came that was killed; nothing is undone by it.
            let _ = journal.write(&Entry::Phase {
                name: phase.to_owned(),
            });
        }
    }
}
