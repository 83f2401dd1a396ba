//! What every part of a report is made from: run, history and judgement, and what is derived from them once for all.

use std::sync::OnceLock;

use fencepost_checker::history::History;
use fencepost_checker::verdict::Judgement;

use super::belief::{Belief, beliefs};
use crate::run_record::RunRecord;

/// A run to report on.
pub struct Source<'a> {
    /// What was run.
    pub run: &'a RunRecord,
    /// What was recorded.
    pub history: &'a History,
    /// What was found.
    pub judgement: &'a Judgement,
    beliefs: OnceLock<Vec<Belief>>,
}

impl<'a> Source<'a> {
    /// Nothing is derived yet.
    #[must_use]
    pub fn new(run: &'a RunRecord, history: &'a History, judgement: &'a Judgement) -> Self {
        Self {
            run,
            history,
            judgement,
            beliefs: OnceLock::new(),
        }
    }

    /// Who believed to hold what when.
    #[must_use]
    pub fn beliefs(&self) -> &[Belief] {
        self.beliefs.get_or_init(|| beliefs(self.history))
    }
}
