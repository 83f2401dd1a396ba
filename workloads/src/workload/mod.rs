//! What the clients do: which of them there are, on which worker, under which lock, and what is read at the end.
//!
//! One workload a file; [`WORKLOADS`] is the list that `fencepost list workloads` prints.

mod register;

use crate::defects::HolderDefect;
use crate::holder::Holder;
use crate::seed::Seed;
use crate::suite::{Suite, WorkloadKind};

/// The workloads: name and one line.
pub const WORKLOADS: &[(WorkloadKind, &str, &str)] = &[(
    WorkloadKind::Register,
    "register",
    "holders write whole values under their lock's token; everybody reads",
)];

/// Who takes part, and what they guard.
#[derive(Clone, Debug, PartialEq)]
pub struct Roster {
    /// Every lock with its keys.
    pub locks: Vec<LockKeys>,
    /// Every client.
    pub clients: Vec<Member>,
}

/// A lock and the keys that it guards.
#[derive(Clone, Debug, PartialEq)]
pub struct LockKeys {
    /// The lock's name.
    pub lock: String,
    /// The keys' names, at least one.
    pub keys: Vec<String>,
}

/// One client's place.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The client's name.
    pub client: String,
    /// Its lock: an index into [`Roster::locks`].
    pub lock: usize,
    /// Its worker: an index from 0.
    pub worker: usize,
}

impl Roster {
    /// The roster that a suite describes.
    #[must_use]
    pub fn of(suite: &Suite) -> Self {
        match suite.workload.kind {
            WorkloadKind::Register => register::roster(suite),
        }
    }

    /// One state machine for each client, in order.
    #[must_use]
    pub fn holders(&self, suite: &Suite, seed: Seed, defect: Option<HolderDefect>) -> Vec<Holder> {
        let holder = |member: &Member| {
            let stream = seed.stream(&format!("holder/{}", member.client));
            Holder::new(
                member.client.clone(),
                self.locks[member.lock].keys.clone(),
                suite.lock.lease.0,
                defect,
                stream,
            )
            .with_critical_section(suite.workload.critical_section)
        };
        self.clients.iter().map(holder).collect()
    }
}
