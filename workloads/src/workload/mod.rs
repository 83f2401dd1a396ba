//! What the clients do: which of them there are, on which worker, under which lock, and what is read at the end.
//!
//! One workload a file; [`WORKLOADS`] is the list that `fencepost list workloads` prints.

mod register;
mod routed;

use crate::defects::HolderDefect;
use crate::holder::{Holder, Lockless};
use crate::seed::Seed;
use crate::suite::{Suite, WorkloadKind};

/// The workloads: name and one line.
pub const WORKLOADS: &[(WorkloadKind, &str, &str)] = &[
    (
        WorkloadKind::Register,
        "register",
        "holders write whole values under their lock's token; everybody reads",
    ),
    (
        WorkloadKind::Cas,
        "cas",
        "no lock: clients replace the value that they read, if it is still there",
    ),
    (
        WorkloadKind::Routed,
        "routed",
        "no lock: each key has one client, which replaces what it read; everybody reads",
    ),
    (
        WorkloadKind::Effects,
        "effects",
        "no lock: clients send effects again and again until they are acknowledged",
    ),
];

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
            WorkloadKind::Register | WorkloadKind::Cas | WorkloadKind::Effects => {
                register::roster(suite)
            }
            WorkloadKind::Routed => routed::roster(suite),
        }
    }

    /// One state machine for each client, in order.
    #[must_use]
    pub fn holders(&self, suite: &Suite, seed: Seed, defect: Option<HolderDefect>) -> Vec<Holder> {
        let clients = self.clients.iter();
        clients
            .map(|member| self.holder(member, suite, seed, defect))
            .collect()
    }

    /// The state machine of one client, by the name that `member` has now.
    #[must_use]
    pub fn holder(
        &self,
        member: &Member,
        suite: &Suite,
        seed: Seed,
        defect: Option<HolderDefect>,
    ) -> Holder {
        let stream = seed.stream(&format!("holder/{}", member.client));
        let holder = Holder::new(
            member.client.clone(),
            self.locks[member.lock].keys.clone(),
            suite.lock.lease.0,
            defect,
            stream,
        )
        .with_critical_section(suite.workload.critical_section)
        .with_paths(
            suite
                .workload
                .paths
                .iter()
                .map(|path| path.name())
                .collect(),
        );
        match suite.workload.kind {
            WorkloadKind::Register => holder,
            // The only writer of a key knows what it replaces; that it does is what the recording is held against.
            WorkloadKind::Cas | WorkloadKind::Routed => holder.without_a_lock(Lockless::Cas),
            WorkloadKind::Effects => holder.without_a_lock(Lockless::Append),
        }
    }
}
