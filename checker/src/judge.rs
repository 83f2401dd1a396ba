//! From a history to its judgement: rules, coverage, denominators, and one sentence that says why.

use crate::coverage;
use crate::fencing::{self, Case, Exact, overlaps, proofs};
use crate::finding::{Finding, Severity};
use crate::history::{Function, History, Outcome};
use crate::models::Model;
use crate::verdict::{Coverage, Judgement, Stats, Verdict};

const NOTHING: &str = "empty: there is nothing to judge";

/// Judges a history. The same history gives the same judgement everywhere. O(n log n).
///
/// Invalid outranks everything: a run that did not exercise the fence never hides a proven violation. Under
/// [`Model::Fencing`] a clean history is unknown only where its header carries a plan that it did not live up to;
/// under [`Model::FencedRegister`] only where a key is outside of what that model decides. Under both a history without
/// operations is unknown: nothing is no evidence.
#[must_use]
pub fn judge(history: &History, model: Model) -> Judgement {
    let case = match model {
        Model::Fencing => Case::new(history),
        Model::FencedRegister => Case::of_registers(history),
    };
    let (findings, exact, coverage) = match model {
        Model::Fencing => {
            let proofs = proofs(&case);
            let (findings, exact) = fencing::judge(&case, &proofs);
            (findings, exact, coverage::measure(&case, &proofs.late))
        }
        Model::FencedRegister => {
            let (findings, exact) = fencing::judge_registers(&case);
            (findings, exact, Coverage::default())
        }
    };
    let undecided = if model == Model::FencedRegister {
        exact.not_judged.first()
    } else {
        None
    };
    let (verdict, reason) = if history.operations.is_empty() {
        (Verdict::Unknown, Some(NOTHING.to_owned()))
    } else {
        decide(&findings, &coverage, undecided)
    };
    Judgement {
        verdict,
        reason,
        findings,
        coverage,
        stats: stats(&case, exact),
    }
}

/// Why a history without operations is unknown.
pub(crate) fn nothing_to_judge() -> String {
    NOTHING.to_owned()
}

/// The verdict, and one sentence that says why.
pub(crate) fn decide(
    findings: &[Finding],
    coverage: &Coverage,
    undecided: Option<&String>,
) -> (Verdict, Option<String>) {
    // Violations are sorted to the front.
    if let Some(first) = findings
        .first()
        .filter(|finding| finding.severity == Severity::Violation)
    {
        return (Verdict::Invalid, Some(blame(first, findings.len() - 1)));
    }
    if let Some((first, rest)) = coverage.unexercised.split_first() {
        let more = if rest.is_empty() {
            String::new()
        } else {
            format!(" (+{} more)", rest.len())
        };
        return (
            Verdict::Unknown,
            Some(format!("unexercised: {first}{more}")),
        );
    }
    match undecided {
        Some(reason) => (Verdict::Unknown, Some(reason.clone())),
        None => (Verdict::Valid, None),
    }
}

fn blame(first: &Finding, others: usize) -> String {
    let place = match (&first.key, &first.lock) {
        (Some(key), _) => format!(" on key {key}"),
        (None, Some(lock)) => format!(" on lock {lock}"),
        (None, None) => String::new(),
    };
    let more = match others {
        0 => String::new(),
        1 => " (+1 more finding)".to_owned(),
        others => format!(" (+{others} more findings)"),
    };
    format!("{}{place}{more}", first.finding)
}

fn stats(case: &Case<'_>, exact: Exact) -> Stats {
    let history = case.history;
    let mut stats = Stats {
        events: history.events,
        operations: history.operations.len() as u64,
        duration_ns: history.last_time.saturating_sub(history.first_time),
        keys_judged: exact.judged,
        not_judged: exact.not_judged,
        overlap: overlaps(case),
        ..Stats::default()
    };
    let mut seen = vec![[false; 3]; history.names.count()];
    for operation in &history.operations {
        match operation.outcome {
            Outcome::Ok => stats.ok += 1,
            Outcome::Failed => stats.failed += 1,
            Outcome::Unknown => stats.unknown += 1,
        }
        stats.grants += u64::from(Case::is_grant(operation));
        stats.writes += u64::from(matches!(
            operation.function,
            Function::Write | Function::Append
        ));
        let counts = matches!(operation.function, Function::Write | Function::Append);
        stats.refused += u64::from(counts && case.is_refusal(operation));
        let names = [Some(operation.client), operation.lock, operation.key];
        for (place, name) in names.into_iter().enumerate() {
            if let Some(name) = name {
                seen[name.position()][place] = true;
            }
        }
    }
    let count = |place: usize| seen.iter().filter(|seen| seen[place]).count() as u64;
    stats.clients = count(0);
    stats.locks = count(1);
    stats.keys = count(2);
    stats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Expectations, Plan};
    use crate::scenario::Scenario;

    fn plan(s: &mut Scenario, zombie_writes: u64) {
        s.header().plan = Some(Plan {
            expect: Expectations { zombie_writes },
            ..Plan::default()
        });
    }

    fn late_write_refused() -> Scenario {
        let mut s = Scenario::new();
        s.grant("c1", "L", 1);
        s.grant("c2", "L", 2);
        s.write("c2", "L", "k", 2, "a");
        s.refused("c1", "L", "k", 1, "b", Some(2));
        s
    }

    #[test]
    fn a_clean_history_is_valid_and_unknown_only_against_its_plan() {
        let mut s = late_write_refused();
        let judgement = judge(&s.history(), Model::Fencing);
        assert_eq!(
            (judgement.verdict, judgement.reason),
            (Verdict::Valid, None)
        );
        assert_eq!(
            (
                judgement.stats.grants,
                judgement.stats.writes,
                judgement.stats.refused
            ),
            (2, 2, 1)
        );
        assert_eq!(
            (
                judgement.stats.clients,
                judgement.stats.locks,
                judgement.stats.keys
            ),
            (2, 1, 1)
        );
        plan(&mut s, 1);
        assert_eq!(judge(&s.history(), Model::Fencing).verdict, Verdict::Valid);
        plan(&mut s, 2);
        let judgement = judge(&s.history(), Model::Fencing);
        assert_eq!(judgement.verdict, Verdict::Unknown);
        assert!(
            judgement
                .reason
                .is_some_and(|reason| reason.starts_with("unexercised: zombie writes: 1 of the 2"))
        );
        assert_eq!(
            judge(&s.history(), Model::FencedRegister).verdict,
            Verdict::Valid
        );
    }

    #[test]
    fn a_violation_is_never_hidden_by_an_unexercised_plan() {
        let mut s = late_write_refused();
        plan(&mut s, 99);
        s.write("c1", "L", "k", 1, "c");
        s.grant("c3", "L", 1);
        let judgement = judge(&s.history(), Model::Fencing);
        assert_eq!(judgement.verdict, Verdict::Invalid);
        assert_eq!(
            judgement.reason.as_deref(),
            Some("high-water-lost on key k (+3 more findings)")
        );
        assert!(!judgement.coverage.unexercised.is_empty());
    }

    #[test]
    fn a_warning_alone_does_not_make_a_run_invalid() {
        let mut s = Scenario::new();
        s.grant("c1", "L", 1);
        s.release("c1", "L", 1);
        s.grant("c1", "L", 1);
        let judgement = judge(&s.history(), Model::Fencing);
        assert_eq!(
            (judgement.verdict, judgement.findings.len()),
            (Verdict::Valid, 1)
        );
    }

    #[test]
    fn the_register_model_does_not_answer_for_keys_it_cannot_decide() {
        let mut s = Scenario::new();
        s.write("c1", "L", "k", 1, "a");
        s.write("c1", "L", "k", 2, "a");
        let judgement = judge(&s.history(), Model::FencedRegister);
        assert_eq!(judgement.verdict, Verdict::Unknown);
        assert!(judgement.reason.is_some_and(|reason| {
            reason.contains("key k is judged exactly only before")
                && reason.contains("a value was written a second time")
        }));
    }

    #[test]
    fn a_history_without_operations_is_no_evidence_for_either_model() {
        let mut faults_alone = Scenario::new();
        faults_alone.fault(
            "kill",
            crate::history::FaultPhase::Begin,
            1,
            "lock",
            crate::history::FaultOutcome::Installed,
        );
        let mut planned = Scenario::new();
        plan(&mut planned, 1);
        for scenario in [Scenario::new(), faults_alone, planned] {
            for model in [Model::Fencing, Model::FencedRegister] {
                let judgement = judge(&scenario.history(), model);
                assert_eq!(
                    (judgement.verdict, judgement.reason.as_deref()),
                    (Verdict::Unknown, Some("empty: there is nothing to judge"))
                );
            }
        }
    }
}
