//! `routed`: one writer for each partition. Each client has a key of its own; a router sends it every write of that key.
//!
//! It reads and replaces, as any program does that keeps a state somewhere, and nothing compares: nobody else writes there,
//! so what it read is what it replaces. Two writers of a partition are `cas` on a resource that compares nothing.

use super::{LockKeys, Member, Roster};
use crate::suite::Suite;

/// One partition a client. A partition is named like a lock, so that everybody finds its key, but nobody takes it.
pub(super) fn roster(suite: &Suite) -> Roster {
    let workers = suite.run.workers.0 as usize;
    let clients = suite.run.clients.0 as usize;
    let partition = |number: usize| format!("part-{}", number + 1);
    Roster {
        locks: (0..clients)
            .map(|number| LockKeys {
                lock: partition(number),
                keys: vec![partition(number)],
            })
            .collect(),
        clients: (0..clients)
            .map(|number| Member {
                client: format!("c{}", number + 1),
                lock: number,
                worker: number % workers,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_clients_have_one_key() {
        let suite = Suite::parse("", "test").expect("an empty suite is the default");
        let roster = roster(&suite);
        let mut keys: Vec<_> = roster.clients.iter().map(|member| member.lock).collect();
        keys.dedup();
        assert_eq!(keys.len(), roster.clients.len());
        assert_eq!(roster.locks.len(), roster.clients.len());
    }
}
