//! How far the fence was exercised, against what the run had planned.
//!
//! A run in which no holder ever wrote late, or in which a planned fault never took hold, shows nothing about the
//! fence. Whoever planned it (the header's plan) is told so; a history without a plan is taken as it is.

use crate::fencing::{Case, LateWrite};
use crate::history::{FaultOutcome, FaultWindow, Header, History, Outcome, Plan};
use crate::verdict::{Coverage, FaultCount};

/// Counts zombie writes and faults, and says what was planned and not exercised.
pub(crate) fn measure(case: &Case<'_>, late: &[LateWrite]) -> Coverage {
    let zombies = || {
        late.iter()
            .map(|late| case.operation(late.write))
            .filter(|write| write.outcome != Outcome::Unknown)
    };
    let mut coverage = Coverage {
        zombie_writes: zombies().count() as u64,
        zombie_writes_refused: zombies().filter(|write| case.is_refusal(write)).count() as u64,
        ..Coverage::default()
    };
    if let Some(plan) = plan_of(case.history) {
        count_faults(&case.history.faults, plan, &mut coverage);
        say_what_is_missing(plan, &mut coverage);
    }
    coverage
}

/// Counts faults alone: what is said of an object that has no fence.
pub(crate) fn of_faults(history: &History) -> Coverage {
    let mut coverage = Coverage::default();
    if let Some(plan) = plan_of(history) {
        count_faults(&history.faults, plan, &mut coverage);
        say_which_faults_are_missing(plan, &mut coverage);
    }
    coverage
}

fn plan_of(history: &History) -> Option<&Plan> {
    let header: Option<&Header> = history.header.as_ref();
    header?.plan.as_ref()
}

fn count_faults(faults: &[FaultWindow], plan: &Plan, coverage: &mut Coverage) {
    for (label, &planned) in &plan.faults {
        coverage.faults.insert(
            label.clone(),
            FaultCount {
                planned,
                ..FaultCount::default()
            },
        );
    }
    for window in faults {
        let label = window.begin.plan.as_ref().unwrap_or(&window.begin.fault);
        let Some(count) = coverage.faults.get_mut(label) else {
            continue;
        };
        match window.outcome {
            FaultOutcome::Installed => count.installed += 1,
            FaultOutcome::Skipped => count.skipped += 1,
            FaultOutcome::Unknown => count.unknown += 1,
        }
    }
}

/// Fills in what the plan expects and the run did not show.
pub(crate) fn say_what_is_missing(plan: &Plan, coverage: &mut Coverage) {
    // A fence that no stale write ever met was not exercised, whatever the plan says.
    let expected = plan.expect.zombie_writes.max(1);
    coverage.zombie_writes_expected = (!plan.expect.no_fence).then_some(expected);
    if coverage.zombie_writes < expected && !plan.expect.no_fence {
        coverage.unexercised.push(format!(
            "zombie writes: {} of the {expected} expected; a longer --time-limit or more frequent zombie faults would raise it",
            coverage.zombie_writes
        ));
    }
    say_which_faults_are_missing(plan, coverage);
}

/// Fills in which planned faults never took hold.
pub(crate) fn say_which_faults_are_missing(plan: &Plan, coverage: &mut Coverage) {
    // Where there is no fence that could refuse, the faults alone show that anything was tried.
    if plan.expect.no_fence && plan.faults.values().all(|&planned| planned == 0) {
        coverage.unexercised.push(
            "faults: none was planned, and there is no fence to meet; a longer --time-limit or other --faults would raise it"
                .to_owned(),
        );
    }
    for (label, count) in &coverage.faults {
        if count.planned == 0 || count.installed > 0 {
            continue;
        }
        let mut fates = vec![format!("{} planned", count.planned)];
        fates.extend((count.skipped > 0).then(|| format!("{} skipped", count.skipped)));
        fates.extend((count.unknown > 0).then(|| format!("{} without evidence", count.unknown)));
        coverage.unexercised.push(format!(
            "no {label} was installed with evidence ({}); a longer --time-limit, or --faults {label}, would raise it",
            fates.join(", ")
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fencing::late_writes;
    use crate::history::{Expectations, FaultPhase, Type};
    use crate::scenario::Scenario;

    fn coverage(scenario: &Scenario) -> Coverage {
        let history = scenario.history();
        let case = Case::new(&history);
        measure(&case, &late_writes(&case))
    }

    fn plan(scenario: &mut Scenario, zombie_writes: u64, faults: &[(&str, u64)]) {
        let faults = faults
            .iter()
            .map(|&(label, count)| (label.to_owned(), count))
            .collect();
        scenario.header().plan = Some(Plan {
            faults,
            expect: Expectations {
                zombie_writes,
                no_fence: false,
            },
        });
    }

    #[test]
    fn late_writes_with_a_certain_answer_are_zombie_writes() {
        let mut s = Scenario::new();
        plan(&mut s, 3, &[]);
        let overlapping = s.write_call("c1", "L", "k", 5, "a");
        s.write("c2", "L", "k", 6, "b");
        s.refuse(overlapping, Some(6));
        s.refused("c1", "L", "k", 5, "c", Some(6));
        s.write("c1", "L", "k", 5, "d");
        let broken = s.write_call("c1", "L", "k", 5, "e");
        s.end(broken, Type::Fail, |event| {
            event.error = Some("disk full".to_owned())
        });
        let lost = s.write_call("c1", "L", "k", 5, "f");
        s.info(lost);
        let coverage = coverage(&s);
        assert_eq!(
            (coverage.zombie_writes, coverage.zombie_writes_refused),
            (3, 1)
        );
        assert_eq!(coverage.unexercised, Vec::<String>::new());
    }

    #[test]
    fn what_was_planned_and_did_not_happen_is_said() {
        let mut s = Scenario::new();
        plan(&mut s, 5, &[("kill:lock", 3), ("zombie", 2), ("later", 0)]);
        for id in 0..3 {
            s.fault("kill", FaultPhase::Begin, id, "lock", FaultOutcome::Skipped);
        }
        s.fault(
            "zombie",
            FaultPhase::Begin,
            9,
            "w1",
            FaultOutcome::Installed,
        );
        let coverage = coverage(&s);
        assert_eq!(
            coverage.faults["kill:lock"],
            FaultCount {
                planned: 3,
                skipped: 3,
                ..FaultCount::default()
            }
        );
        assert_eq!(
            coverage.faults["zombie"],
            FaultCount {
                planned: 2,
                installed: 1,
                ..FaultCount::default()
            }
        );
        assert_eq!(
            coverage.unexercised,
            [
                "zombie writes: 0 of the 5 expected; a longer --time-limit or more frequent zombie faults would raise it",
                "no kill:lock was installed with evidence (3 planned, 3 skipped); a longer --time-limit, or --faults kill:lock, would raise it",
            ]
        );
    }

    #[test]
    fn a_plan_never_expects_less_than_one_zombie_write_and_no_plan_expects_nothing() {
        let mut s = Scenario::new();
        assert_eq!(coverage(&s), Coverage::default());
        plan(&mut s, 0, &[]);
        assert_eq!(coverage(&s).zombie_writes_expected, Some(1));
        assert_eq!(coverage(&s).unexercised.len(), 1);
    }
}
