//! What was planned to be done to the system, what came of it, and what proves it: rows for a page and a summary.

use std::collections::{HashMap, HashSet};

use fencepost_checker::history::{FaultOutcome, FaultWindow, History};

use super::plain::lasting;
use crate::run_record::{PlannedFault, RunRecord};

/// The columns.
pub const HEAD: [&str; 8] = [
    "id",
    "fault",
    "on",
    "planned at",
    "planned for",
    "begun, lasted",
    "outcome",
    "evidence",
];

/// One row for each fault of the recording, then one for each of the plan that the recording does not have.
#[must_use]
pub fn rows(run: &RunRecord, history: &History) -> Vec<Vec<String>> {
    let planned: HashMap<u64, &PlannedFault> =
        run.plan.iter().map(|fault| (fault.id, fault)).collect();
    let recorded: HashSet<u64> = history
        .faults
        .iter()
        .map(|window| window.begin.id)
        .collect();
    let begun = history
        .faults
        .iter()
        .map(|window| row(window, planned.get(&window.begin.id).copied()));
    let missing = run
        .plan
        .iter()
        .filter(|fault| !recorded.contains(&fault.id))
        .map(never_begun);
    begun.chain(missing).collect()
}

fn row(window: &FaultWindow, planned: Option<&PlannedFault>) -> Vec<String> {
    let begin = &window.begin;
    let (at, length) = plan_of(planned);
    let lasted = match (window.outcome, window.ended) {
        (FaultOutcome::Skipped, _) => "-".to_owned(),
        (_, Some(ended)) => format!(
            "{}, {}",
            seconds(window.began.time),
            lasting(ended.time.saturating_sub(window.began.time) as f64 / 1e9)
        ),
        (_, None) => format!("{}, to the end", seconds(window.began.time)),
    };
    let outcome = match window.outcome {
        FaultOutcome::Installed => "installed",
        FaultOutcome::Skipped => "skipped",
        FaultOutcome::Unknown => "without evidence",
    };
    vec![
        begin.id.to_string(),
        begin.plan.clone().unwrap_or_else(|| begin.fault.clone()),
        or_dash(begin.on.join(", ")),
        at,
        length,
        lasted,
        outcome.to_owned(),
        or_dash(window.evidence.join("; ")),
    ]
}

fn never_begun(fault: &PlannedFault) -> Vec<String> {
    let (at, length) = plan_of(Some(fault));
    vec![
        fault.id.to_string(),
        fault.label.clone(),
        "-".to_owned(),
        at,
        length,
        "-".to_owned(),
        "not begun".to_owned(),
        "-".to_owned(),
    ]
}

fn plan_of(planned: Option<&PlannedFault>) -> (String, String) {
    planned.map_or(("-".to_owned(), "-".to_owned()), |planned| {
        (
            format!("{:.2} s", planned.at_ms as f64 / 1e3),
            lasting(planned.length_ms as f64 / 1e3),
        )
    })
}

fn seconds(nanoseconds: u64) -> String {
    format!("{:.2} s", nanoseconds as f64 / 1e9)
}

fn or_dash(text: String) -> String {
    if text.is_empty() {
        "-".to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Recording, run};
    use super::*;

    #[test]
    fn plan_outcome_and_evidence_stand_side_by_side_and_what_never_began_is_there() {
        let planned = |id| PlannedFault {
            node: None,
            id,
            label: "pause:worker".to_owned(),
            nth: 0,
            at_ms: 1_500,
            length_ms: 700,
            worker: Some(0),
            delay_ms: None,
            by_ms: None,
        };
        let run = RunRecord {
            plan: vec![planned(1), planned(2)],
            ..run()
        };
        let mut recording = Recording::default();
        recording
            .fault(1, "pause", &["w1"], 1_510, Some(2_210), "installed")
            .fault(7, "kill", &["lock"], 1_600, None, "skipped");
        let rows = rows(&run, &recording.history());
        assert_eq!(
            rows,
            [
                [
                    "1",
                    "pause",
                    "w1",
                    "1.50 s",
                    "700 ms",
                    "1.51 s, 700 ms",
                    "installed",
                    "-"
                ],
                ["7", "kill", "lock", "-", "-", "-", "skipped", "-"],
                [
                    "2",
                    "pause:worker",
                    "-",
                    "1.50 s",
                    "700 ms",
                    "-",
                    "not begun",
                    "-"
                ],
            ]
        );
    }
}
