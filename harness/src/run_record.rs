//! `run.json`: everything that fixes a run, and what became of it apart from the verdict.

use std::collections::BTreeMap;

use fencepost_checker::verdict::Verdict;
use fencepost_workloads::suite::Suite;
use serde::{Deserialize, Serialize};

use crate::runner::exercise::Exercise;

fencepost_checker::only_objects!(RunRecord, Teeth, PlannedFault, Phase);

/// The content of `run.json`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct RunRecord {
    /// The version of this format; 1.
    pub format: u32,
    /// The run's id: 8 lower-case hexadecimal digits.
    pub run: String,
    /// The suite, after flags have changed it.
    pub suite: Suite,
    /// The seed that fixes the plan.
    pub seed: u64,
    /// The planted defect, if any.
    pub defect: Option<String>,
    /// When the run began, RFC 3339, UTC.
    pub started: String,
    /// The command line as given.
    pub command_line: Vec<String>,
    /// A command that repeats the run's plan.
    pub replay: String,
    /// Name to version: `fencepost`, `commit` (that it was built from), `toxiproxy`, ...
    pub versions: BTreeMap<String, String>,
    /// The machine: `os`, `kernel`, `cpu`, `cores`, `memory_mb`.
    pub machine: BTreeMap<String, String>,
    /// How things were done to the nodes, where that differs between machines: `engine`, `signals`, `links` ...
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub means: BTreeMap<String, String>,
    /// Client to worker.
    pub clients: BTreeMap<String, String>,
    /// The planned faults in order of time.
    pub plan: Vec<PlannedFault>,
    /// How long each phase took, in milliseconds, in order.
    pub phases: Vec<Phase>,
    /// What the fence was made to do; none in a run that never began, and in one of a version that did not count.
    #[serde(default)]
    pub exercise: Option<Exercise>,
    /// As what the planted defect was found, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defect_found: Option<String>,
    /// The same run with the fence taken out, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teeth: Option<Teeth>,
    /// Why the load ended before its time although nothing went wrong: a signal, or `--fail-fast`.
    #[serde(default)]
    pub ended_early: Option<String>,
    /// What went wrong with the run itself: a dead worker, a full disk. Empty for a plain run.
    pub troubles: Vec<String>,
}

impl RunRecord {
    /// Whether the run came to an end that it could write down. One that did not was killed, or goes on.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        !self.phases.is_empty() || !self.troubles.is_empty() || self.ended_early.is_some()
    }
}

/// A run repeated with the fence taken out: it must go red for the first one to count.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Teeth {
    /// The id of the repeated run.
    pub run: String,
    /// Where it is saved.
    pub folder: String,
    /// Its verdict.
    pub verdict: Verdict,
    /// What was found in it, each name once.
    pub findings: Vec<String>,
    /// How many stale writes it attempted.
    #[serde(default)]
    pub stale_writes: u64,
    /// How many of those were refused.
    #[serde(default)]
    pub refused: u64,
}

impl Teeth {
    /// Whether the repeated run was red.
    #[must_use]
    pub fn bite(&self) -> bool {
        self.verdict == Verdict::Invalid
    }

    /// One sentence about both runs.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self {
            run,
            findings,
            stale_writes,
            refused,
            ..
        } = self;
        if self.bite() {
            format!(
                "the same plan without the fence (run {run}) was invalid ({}; stale writes: {stale_writes}, refused: {refused}): this run would have shown a missing fence",
                findings.join(", ")
            )
        } else {
            format!(
                "the same plan without the fence (run {run}) was not invalid (stale writes: {stale_writes}, refused: {refused}): this run would not have shown a missing fence, and proves nothing"
            )
        }
    }
}

/// One occurrence of the plan.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct PlannedFault {
    /// Joins it to the fault lines of the history.
    pub id: u64,
    /// The entry of the suite that it comes from, e.g. `kill:lock`.
    pub label: String,
    /// Which of the suite's entries with that label it comes from, from 0.
    #[serde(default, skip_serializing_if = "is_first")]
    pub nth: usize,
    /// When it is due, in milliseconds after the load began.
    pub at_ms: u64,
    /// How long it is to last, in milliseconds.
    pub length_ms: u64,
    /// The worker drawn for it, where the kind needs one: an index from 0.
    pub worker: Option<u32>,
    /// The node drawn for it, where it strikes a service that has several: an index from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// The delay drawn for it, in milliseconds: that of an answer (latency), or how long keys are left alone (zombie).
    pub delay_ms: Option<u64>,
    /// How far the clock was drawn to jump, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_ms: Option<u64>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over references"
)]
fn is_first(nth: &usize) -> bool {
    *nth == 0
}

/// How long a phase took.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Phase {
    /// `set-up`, `load` (with the healing), `settle`, `final-reads`, `take-down`, `judge`.
    pub name: String,
    /// In milliseconds.
    pub took_ms: u64,
}
