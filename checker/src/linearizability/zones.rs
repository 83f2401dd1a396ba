//! The exact decision of a register whose values were each written once: no search, O(n log n).
//!
//! A *cluster* is a write and the reads of its value; `f` is the least return among them, `s` the greatest call. The
//! register holds the value from before `f` until after `s`. There is an order exactly when no read returned before
//! its write was called and no two clusters have `f(A) < s(B)` and `f(B) < s(A)` (Gibbons and Korach, *Testing shared
//! memories*, 1997). Where `f < s` the cluster's *zone* is forward and blocks `f..s` for all others: no two such zones
//! overlap, and none contains a zone that is not forward. The initial value is a cluster from before time.

use std::collections::HashMap;

use super::Conflict;

/// What a call is to a register.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Access<V> {
    Write(V),
    Read(V),
}

/// One access: its operation, when it was called, and when it returned, if it did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed<V> {
    pub access: Access<V>,
    pub operation: usize,
    pub called: u64,
    pub returned: Option<u64>,
}

/// A place in time, or before or after all of them.
type At = i128;

#[derive(Clone, Copy, Debug)]
struct Zone {
    first: (At, Option<usize>),
    last: (At, Option<usize>),
}

impl Zone {
    fn is_forward(&self) -> bool {
        self.first.0 < self.last.0
    }
}

/// Decides a register that begins as `initial`; `None` where a value was written twice, or the initial one was written.
pub(crate) fn decide<V: Copy + Eq + std::hash::Hash>(
    initial: V,
    accesses: impl Iterator<Item = Timed<V>> + Clone,
) -> Option<Result<(), Conflict>> {
    let before = Zone {
        first: (At::MIN, None),
        last: (At::MIN, None),
    };
    let mut written: HashMap<V, Timed<V>> = HashMap::new();
    let mut zones: HashMap<V, Zone> = HashMap::from([(initial, before)]);
    for write in accesses.clone() {
        let Access::Write(value) = write.access else {
            continue;
        };
        if value == initial || written.insert(value, write).is_some() {
            return None;
        }
        // A write without an answer happened if it was read, and need not be there otherwise.
        if write.returned.is_some() {
            zones.insert(value, zone(&write));
        }
    }
    for read in accesses {
        let (Access::Read(value), Some(returned)) = (read.access, read.returned) else {
            continue;
        };
        if value != initial {
            let Some(write) = written.get(&value) else {
                return Some(Err(Conflict {
                    operations: vec![read.operation],
                    why: "the value that was read was never written",
                }));
            };
            if returned < write.called {
                return Some(Err(Conflict {
                    operations: vec![read.operation, write.operation],
                    why: "the value was read before its write began",
                }));
            }
            zones.entry(value).or_insert_with(|| zone(write));
        }
        if let Some(zone) = zones.get_mut(&value) {
            zone.first = zone.first.min((returned.into(), Some(read.operation)));
            zone.last = zone.last.max((read.called.into(), Some(read.operation)));
        }
    }
    Some(disjoint(zones.into_values().collect()))
}

fn zone<V>(write: &Timed<V>) -> Zone {
    Zone {
        first: (
            write.returned.map_or(At::MAX, At::from),
            Some(write.operation),
        ),
        last: (write.called.into(), Some(write.operation)),
    }
}

fn disjoint(zones: Vec<Zone>) -> Result<(), Conflict> {
    let (mut forward, mut backward): (Vec<_>, Vec<_>) =
        zones.into_iter().partition(Zone::is_forward);
    // Both in an order of their own, so that the same history names the same conflict.
    forward.sort_unstable_by_key(|zone| zone.first.0);
    backward.sort_unstable_by_key(|zone| zone.last.0);
    if let Some(pair) = forward
        .windows(2)
        .find(|pair| pair[1].first.0 < pair[0].last.0)
    {
        return Err(conflict(pair[0], pair[1]));
    }
    for zone in backward {
        let after = forward.partition_point(|other| other.first.0 < zone.last.0);
        let around = after.checked_sub(1).map(|at| forward[at]);
        if let Some(around) = around.filter(|around| zone.first.0 < around.last.0) {
            return Err(conflict(around, zone));
        }
    }
    Ok(())
}

fn conflict(one: Zone, other: Zone) -> Conflict {
    let edges = [one.first.1, one.last.1, other.first.1, other.last.1];
    let mut operations: Vec<usize> = edges.into_iter().flatten().collect();
    operations.sort_unstable();
    operations.dedup();
    Conflict {
        operations,
        why: "each of two values had to be there before the other was gone",
    }
}
