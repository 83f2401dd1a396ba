//! One thing that the checker proved, with the operations that prove it.

use serde::{Deserialize, Serialize};

crate::only_objects!(Finding);
crate::only_words!(Severity);

/// How bad a finding is. Only violations make a run invalid.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(remote = "Self", rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing, nobody's fault.
    Observation,
    /// Wrong, but not by itself unsafe.
    Warning,
    /// The system broke its promise.
    Violation,
}

/// One cause, with a count and its first witness.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Finding {
    /// The rule's name, as `fencepost list findings` has it.
    pub finding: String,
    /// How bad it is.
    pub severity: Severity,
    /// The position in the list of findings of the one that this follows from.
    pub cause: Option<usize>,
    /// The lock it is about.
    pub lock: Option<String>,
    /// The key it is about.
    pub key: Option<String>,
    /// How often it was seen.
    pub count: u64,
    /// Indexes of the events (invocations and completions, ascending) of the first witness.
    pub events: Vec<u64>,
    /// What happened, in plain words, one sentence a line, times relative to the story's first event.
    pub story: String,
}
