//! One fault, from its begin to its end.

use super::{FaultEvent, FaultOutcome, Instant};

/// A fault's window in a history.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultWindow {
    /// What its begin line said: kind, nodes, plan label, aim.
    pub begin: FaultEvent,
    /// Where it began.
    pub began: Instant,
    /// Where it had been undone; `None` where the history ended first.
    pub ended: Option<Instant>,
    /// The outcome: the end line's where that has one, else the begin line's, else unknown.
    pub outcome: FaultOutcome,
    /// Evidence of both lines, in order.
    pub evidence: Vec<String>,
}
