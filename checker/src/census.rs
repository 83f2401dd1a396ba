//! How many there are of what in a history: counted along a pass over its operations that somebody makes anyhow.

use crate::fencing::Case;
use crate::history::{Function, Name, Operation, Outcome};
use crate::verdict::Stats;

/// The counts so far.
#[derive(Clone, Debug)]
pub(crate) struct Census {
    ok: u64,
    failed: u64,
    unknown: u64,
    grants: u64,
    writes: u64,
    refused: u64,
    /// For each name whether it is a client's, a lock's, a key's.
    seen: Vec<[bool; 3]>,
}

impl Census {
    /// Nothing counted yet, in a history with so many names.
    pub fn new(names: usize) -> Self {
        Self {
            ok: 0,
            failed: 0,
            unknown: 0,
            grants: 0,
            writes: 0,
            refused: 0,
            seen: vec![[false; 3]; names],
        }
    }

    /// All operations of a history.
    pub fn of(case: &Case<'_>) -> Self {
        let mut census = Self::new(case.history.names.count());
        for operation in &case.history.operations {
            census.note(operation, case.is_refusal(operation));
        }
        census
    }

    /// Counts one more operation.
    #[inline]
    pub fn note(&mut self, operation: &Operation, is_refusal: bool) {
        match operation.outcome {
            Outcome::Ok => self.ok += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Unknown => self.unknown += 1,
        }
        self.grants += u64::from(Case::is_grant(operation));
        let writes = matches!(operation.function, Function::Write | Function::Append);
        self.writes += u64::from(writes);
        self.refused += u64::from(writes && is_refusal);
        self.see(Some(operation.client), 0);
        self.see(operation.lock, 1);
        self.see(operation.key, 2);
    }

    #[inline]
    fn see(&mut self, name: Option<Name>, place: usize) {
        if let Some(name) = name {
            self.seen[name.position()][place] = true;
        }
    }

    /// Puts the counts where they are told.
    pub fn tell(&self, stats: &mut Stats) {
        let count = |place: usize| self.seen.iter().filter(|seen| seen[place]).count() as u64;
        stats.ok = self.ok;
        stats.failed = self.failed;
        stats.unknown = self.unknown;
        stats.grants = self.grants;
        stats.writes = self.writes;
        stats.refused = self.refused;
        stats.clients = count(0);
        stats.locks = count(1);
        stats.keys = count(2);
    }
}
