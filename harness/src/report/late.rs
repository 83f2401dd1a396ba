//! Writes that came too late: under a token that had been passed, certainly, before they were sent.
//!
//! Certain is what an accepted write proves that was answered before: rules know more proofs, pictures need no more.
//! What the fence refused is taken at the resource's word, too, where it named its high water.

use std::collections::HashMap;

use fencepost_checker::history::{History, Instant, MarkScope, Name, Operation, Outcome};

use super::palette::{Answer, is_write};

/// One write that was refused, or that should have been.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Late {
    /// Its position among the operations.
    pub position: usize,
    /// It was accepted all the same.
    pub accepted: bool,
    /// The high water less the token that it presented; `None` where neither the refusal nor an earlier write tells.
    pub lag: Option<i128>,
}

/// All of them, in the order of their invocations.
#[must_use]
pub fn late_writes(history: &History) -> Vec<Late> {
    let marks = Marks::of(history);
    let writes = history
        .operations
        .iter()
        .enumerate()
        .filter(|(_, operation)| is_write(operation));
    writes
        .filter_map(|(position, write)| {
            let token = write.token?.value();
            let proven = marks.before(write, history).map(|mark| mark - token);
            let told = write.high_water.map(|mark| mark.value() - token);
            match Answer::of(write, history) {
                Answer::Refused => Some(Late {
                    position,
                    accepted: false,
                    lag: told.or(proven),
                }),
                Answer::Ok => proven.filter(|lag| *lag > 0).map(|lag| Late {
                    position,
                    accepted: true,
                    lag: Some(lag),
                }),
                Answer::Failed | Answer::Unknown => None,
            }
        })
        .collect()
}

/// The high water that accepted writes had proven, of each key or lock, and since which event.
struct Marks {
    proven: HashMap<Name, Vec<(u64, i128)>>,
}

impl Marks {
    fn of(history: &History) -> Self {
        let mut accepted: HashMap<Name, Vec<(u64, i128)>> = HashMap::new();
        for write in history
            .operations
            .iter()
            .filter(|operation| is_write(operation) && operation.outcome == Outcome::Ok)
        {
            if let (Some(place), Some(Instant { index, .. }), Some(token)) =
                (scope(write, history), write.completed, write.token)
            {
                accepted
                    .entry(place)
                    .or_default()
                    .push((index, token.value()));
            }
        }
        for writes in accepted.values_mut() {
            writes.sort_unstable();
            let mut highest = i128::MIN;
            // Only what raises the mark is kept.
            writes.retain(|&(_, token)| {
                let raises = token > highest;
                highest = highest.max(token);
                raises
            });
        }
        Self { proven: accepted }
    }

    fn before(&self, write: &Operation, history: &History) -> Option<i128> {
        let marks = self.proven.get(&scope(write, history)?)?;
        let raised = marks.partition_point(|&(index, _)| index < write.invoked.index);
        raised.checked_sub(1).map(|last| marks[last].1)
    }
}

/// What the write's mark belongs to.
fn scope(write: &Operation, history: &History) -> Option<Name> {
    let scope = history
        .header
        .as_ref()
        .map_or(MarkScope::Key, |header| header.mark_scope);
    match scope {
        MarkScope::Key => write.key,
        MarkScope::Lock => write.lock.or(write.key),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Recording, zombie_accepted, zombie_refused};
    use super::*;

    #[test]
    fn a_refused_write_lags_by_what_it_was_told_and_an_accepted_one_by_what_was_proven() {
        let refused = late_writes(&zombie_refused().history());
        assert_eq!(
            refused,
            [Late {
                position: 4,
                accepted: false,
                lag: Some(1)
            }]
        );
        let accepted = late_writes(&zombie_accepted().history());
        assert_eq!(
            accepted,
            [Late {
                position: 4,
                accepted: true,
                lag: Some(1)
            }]
        );
    }

    #[test]
    fn what_overlaps_proves_nothing() {
        let mut recording = Recording::default();
        recording
            .write("c2", "s", 42, 10, 20, "ok")
            .write("c1", "s", 41, 15, 25, "ok")
            .write("c1", "s", 40, 30, 31, "ok");
        let late = late_writes(&recording.history());
        assert_eq!(
            late.iter()
                .map(|late| (late.position, late.lag))
                .collect::<Vec<_>>(),
            [(2, Some(2))]
        );
    }
}
