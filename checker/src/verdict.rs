//! Valid, invalid or unknown, and why.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::linearizability::Impasse;

crate::only_objects!(Judgement, Coverage, FaultCount, Overlap, Stats);
crate::only_words!(Verdict);

/// The answer.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(remote = "Self", rename_all = "lowercase")]
pub enum Verdict {
    /// No rule was broken, and the fence was exercised as planned.
    Valid,
    /// At least one violation is proven. Outranks everything.
    Invalid,
    /// Nothing was proven either way.
    Unknown,
}

impl Verdict {
    /// The process exit status: 0, 1 or 2.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Valid => 0,
            Self::Invalid => 1,
            Self::Unknown => 2,
        }
    }
}

/// What `verdict.json` holds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Judgement {
    /// The answer.
    pub verdict: Verdict,
    /// Why, in one sentence; `None` for a plain valid.
    pub reason: Option<String>,
    /// Every finding, most severe first.
    pub findings: Vec<Finding>,
    /// How far the fence was exercised.
    pub coverage: Coverage,
    /// The denominators.
    pub stats: Stats,
    /// For models other than `fencing`: where the order of each part without one ends, for the first 20 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub impasses: Vec<Impasse>,
}

impl Judgement {
    /// Adds what the run had to show and did not, although its history does not tell: a valid verdict becomes unknown,
    /// a proven violation stays one.
    pub fn lacks(&mut self, what: String) {
        if self.verdict == Verdict::Valid {
            self.verdict = Verdict::Unknown;
            self.reason = Some(format!("unexercised: {what}"));
        }
        self.coverage.unexercised.push(what);
    }
}

/// How far the fence was exercised, against what the run had planned.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Coverage {
    /// Writes invoked after a proof of a high water above their token and answered `ok` or `fail`.
    pub zombie_writes: u64,
    /// Of those, the refused ones.
    pub zombie_writes_refused: u64,
    /// What the plan expects of `zombie_writes`; `None` without a plan.
    pub zombie_writes_expected: Option<u64>,
    /// For each planned fault label: planned, installed, skipped, unknown.
    pub faults: BTreeMap<String, FaultCount>,
    /// What was planned and not exercised, one sentence each; empty where all was.
    pub unexercised: Vec<String>,
}

/// How one kind of fault went.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct FaultCount {
    /// Occurrences in the plan before the time limit.
    pub planned: u64,
    /// In force, with evidence.
    pub installed: u64,
    /// Not begun.
    pub skipped: u64,
    /// Begun without evidence.
    pub unknown: u64,
}

/// Times in which two clients believed that they held one lock: from the later one's grant until the first of them
/// released it, was told that it holds nothing, or used its token for the last time.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Overlap {
    /// How often.
    pub count: u64,
    /// How long in all, in nanoseconds.
    pub total_ns: u64,
    /// The longest, in nanoseconds.
    pub longest_ns: u64,
}

/// The denominators.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Stats {
    /// Events read, faults and header not counted.
    pub events: u64,
    /// Operations.
    pub operations: u64,
    /// Operations answered `ok`.
    pub ok: u64,
    /// Operations answered `fail`.
    pub failed: u64,
    /// Operations whose outcome nobody knows.
    pub unknown: u64,
    /// Grants (acquires answered `ok`).
    pub grants: u64,
    /// Writes and appends invoked.
    pub writes: u64,
    /// Writes and appends answered `fail` with `stale-token`.
    pub refused: u64,
    /// Clients.
    pub clients: u64,
    /// Locks.
    pub locks: u64,
    /// Keys.
    pub keys: u64,
    /// How often and how long two clients believed that they held one lock. That is no finding.
    #[serde(default)]
    pub overlap: Overlap,
    /// Nanoseconds from the first event to the last.
    pub duration_ns: u64,
    /// Keys that the exact check of a fenced register decided.
    #[serde(default)]
    pub keys_judged: u64,
    /// Which keys it did not decide, or not to the end, and why: one sentence a key for the first 20, then how many more;
    /// empty where it decided all.
    #[serde(default)]
    pub not_judged: Vec<String>,
}
