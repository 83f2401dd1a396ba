//! `register`: holders write whole values under their lock's token, everybody reads, at the end every key is read.

use super::{LockKeys, Member, Roster};
use crate::suite::Suite;

/// Clients are dealt to the locks in turn, and each lock's clients to workers that follow one another, so that the
/// rivals for a lock never sit in one process as long as there are workers enough.
pub(super) fn roster(suite: &Suite) -> Roster {
    let (locks, workers) = (
        suite.workload.locks.0 as usize,
        suite.run.workers.0 as usize,
    );
    let keys = |lock: usize| match suite.workload.keys_per_lock.0 {
        1 => vec![format!("shard-{lock}")],
        many => (1..=many)
            .map(|key| format!("shard-{lock}.{key}"))
            .collect(),
    };
    Roster {
        locks: (1..=locks)
            .map(|lock| LockKeys {
                lock: format!("shard-{lock}"),
                keys: keys(lock),
            })
            .collect(),
        clients: (0..suite.run.clients.0 as usize)
            .map(|client| {
                let (lock, round) = (client % locks, client / locks);
                Member {
                    client: format!("c{}", client + 1),
                    lock,
                    worker: (lock + round) % workers,
                }
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Suite;

    #[test]
    fn rivals_for_a_lock_sit_on_different_workers() {
        let suite = Suite::parse("", "test").expect("an empty suite is the default");
        let roster = roster(&suite);
        for lock in 0..roster.locks.len() {
            let mut workers: Vec<_> = roster
                .clients
                .iter()
                .filter(|m| m.lock == lock)
                .map(|m| m.worker)
                .collect();
            let all = workers.len();
            assert!(all >= 2, "lock {lock} has no rivals");
            workers.sort_unstable();
            workers.dedup();
            assert_eq!(workers.len(), all, "lock {lock}");
        }
    }

    #[test]
    fn one_key_is_named_after_its_lock_and_several_are_numbered() {
        let suite = Suite::parse("[workload]\nkeys_per_lock = 2\n", "test").expect("a fine suite");
        assert_eq!(roster(&suite).locks[0].keys, ["shard-1.1", "shard-1.2"]);
        let suite = Suite::parse("", "test").expect("an empty suite is the default");
        assert_eq!(roster(&suite).locks[0].keys, ["shard-1"]);
    }
}
