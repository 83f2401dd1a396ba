//! Which operations a finding speaks of, and which of them a picture should point at.

use fencepost_checker::finding::{Finding, Severity};
use fencepost_checker::history::{History, Operation, Outcome};

use super::palette::is_write;

/// The positions of the operations that have an event in `finding`, in the order of their invocations.
#[must_use]
pub fn operations_of(finding: &Finding, history: &History) -> Vec<usize> {
    let mut events = finding.events.clone();
    events.sort_unstable();
    let (Some(&first), Some(&last)) = (events.first(), events.last()) else {
        return Vec::new();
    };
    // Most operations of a long recording are ruled out by the bounds alone.
    let named =
        |index: u64| (first..=last).contains(&index) && events.binary_search(&index).is_ok();
    let until = history
        .operations
        .partition_point(|operation| operation.invoked.index <= last);
    let concerned = |operation: &Operation| {
        named(operation.invoked.index) || operation.completed.is_some_and(|at| named(at.index))
    };
    (0..until)
        .filter(|&position| concerned(&history.operations[position]))
        .collect()
}

/// The operations that should not have gone as they did: of the writes that may have taken effect, those under a
/// token that had been passed before; else all those writes; else the last operation. Only for violations.
#[must_use]
pub fn culprits(finding: &Finding, history: &History) -> Vec<usize> {
    if finding.severity != Severity::Violation {
        return Vec::new();
    }
    let positions = operations_of(finding, history);
    let operation = |position: &usize| &history.operations[*position];
    let effective: Vec<usize> = positions
        .iter()
        .copied()
        .filter(|at| is_write(operation(at)) && operation(at).outcome != Outcome::Failed)
        .collect();
    let passed = |late: &usize| {
        let late = operation(late);
        positions
            .iter()
            .map(operation)
            .any(|other| other.token > late.token && late.token.is_some() && other.precedes(late))
    };
    let stale: Vec<usize> = effective.iter().copied().filter(passed).collect();
    match (stale.is_empty(), effective.is_empty()) {
        (false, _) => stale,
        (true, false) => effective,
        (true, true) => positions.last().copied().into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Recording, stale_write_accepted, zombie_accepted};
    use super::*;

    #[test]
    fn the_late_write_is_the_culprit_and_the_write_that_passed_it_is_not() {
        let history = zombie_accepted().history();
        let finding = stale_write_accepted();
        assert_eq!(operations_of(&finding, &history).len(), 4);
        let culprits = culprits(&finding, &history);
        let times: Vec<u64> = culprits
            .iter()
            .map(|&at| history.operations[at].invoked.time / 1_000_000)
            .collect();
        assert_eq!(times, [1_301]);
    }

    #[test]
    fn a_finding_without_writes_points_at_its_last_operation() {
        let mut recording = Recording::default();
        recording
            .grant("c1", "s", 41, 0, 1)
            .grant("c2", "s", 40, 2, 3)
            .grant("c3", "s", 42, 4, 5);
        let history = recording.history();
        let finding = Finding {
            finding: "token-regression".to_owned(),
            events: vec![0, 1, 2, 3],
            ..stale_write_accepted()
        };
        assert_eq!(culprits(&finding, &history), [1]);
        assert_eq!(
            culprits(
                &Finding {
                    severity: Severity::Warning,
                    ..finding
                },
                &history
            ),
            Vec::<usize>::new()
        );
    }

    #[test]
    fn events_that_are_not_there_concern_nobody() {
        let finding = Finding {
            events: vec![900, 901],
            ..stale_write_accepted()
        };
        assert_eq!(
            culprits(&finding, &Recording::default().history()),
            Vec::<usize>::new()
        );
    }
}
