//! From a history to its judgement: rules, coverage, denominators, and one sentence that says why.

use serde_json::Value;

use crate::census::Census;
use crate::coverage;
use crate::fencing::{self, Case, Exact};
use crate::finding::{Finding, Severity};
use crate::history::History;
use crate::linearizability::{Answer, Impasse, Limits, SHOWN, Verdicts};
use crate::models::Model;
use crate::verdict::{Coverage, Judgement, Overlap, Stats, Verdict};

const NOTHING: &str = "empty: there is nothing to judge";

/// What a judgement may take for granted, and how long it may search.
#[derive(Clone, Debug, Default)]
pub struct Options<'a> {
    /// How each object begins; `null`: as its model says. [`Model::Fencing`] has none.
    pub initial: Value,
    /// The recording joined a running system, so nobody knows how its registers began. For [`Model::Register`] and
    /// [`Model::CasRegister`]; see [`Model::admits`].
    pub joined: bool,
    /// Where the search stops.
    pub limits: Limits<'a>,
}

/// Judges a history. The same history gives the same judgement everywhere. O(n log n) under [`Model::Fencing`].
///
/// Invalid outranks everything: a run that did not exercise the fence never hides a proven violation. A clean history
/// is unknown where its header carries a plan that it did not live up to (of a fence and its faults under
/// [`Model::Fencing`], of faults alone under any other model), and where it holds an operation that the object does not
/// have. Under all models a history without operations is unknown: nothing is no evidence.
#[must_use]
pub fn judge(history: &History, model: Model) -> Judgement {
    judge_within(history, model, &Options::default())
}

/// Judges a history within limits, from a given beginning: unknown, with the reason, also where a limit is reached or
/// the object cannot begin like that.
#[must_use]
pub fn judge_within(history: &History, model: Model, options: &Options<'_>) -> Judgement {
    match model {
        Model::Fencing => {
            let (case, judged) = fencing::judge(history);
            let coverage = coverage::measure(&case, &judged.late);
            let counted = (judged.census, judged.overlap);
            conclude(history, judged.findings, judged.exact, coverage, counted)
        }
        Model::FencedRegister if options.initial.is_null() && !options.joined => {
            let case = Case::of_registers(history);
            let (findings, exact, census) = fencing::judge_registers(&case);
            if findings.is_empty() && !exact.not_judged.is_empty() {
                return judge_object(&case, model, options);
            }
            let counted = (census, Overlap::default());
            let coverage = coverage::of_faults(history);
            conclude(history, findings, exact, coverage, counted)
        }
        _ => judge_object(&Case::of_registers(history), model, options),
    }
}

/// What findings and coverage come to.
fn conclude(
    history: &History,
    findings: Vec<Finding>,
    exact: Exact,
    coverage: Coverage,
    (census, overlap): (Census, Overlap),
) -> Judgement {
    let (verdict, reason) = if history.operations.is_empty() {
        (Verdict::Unknown, Some(NOTHING.to_owned()))
    } else {
        decide(&findings, &coverage, None)
    };
    Judgement {
        verdict,
        reason,
        findings,
        coverage,
        stats: Stats {
            overlap,
            ..stats(history, exact, &census)
        },
        impasses: Vec::new(),
    }
}

/// How many steps a search takes at the most to show where an order ends.
const STEPS_TO_SHOW: u64 = 200_000;

/// Where the order of each part ends that has none, for the first 20 of them. Where the judgement says, that; a fenced
/// register is decided without any order, and there a search looks for the longest, for so many steps at the most.
#[must_use]
pub fn impasses(
    history: &History,
    judgement: &Judgement,
    model: Model,
    options: &Options<'_>,
) -> Vec<Impasse> {
    let shown = !judgement.impasses.is_empty() || judgement.verdict != Verdict::Invalid;
    if shown || model != Model::FencedRegister {
        return judgement.impasses.clone();
    }
    let broken: Vec<&Option<String>> = judgement.findings.iter().map(|f| &f.key).collect();
    let steps = Some(options.limits.steps.unwrap_or(u64::MAX).min(STEPS_TO_SHOW));
    let limits = Limits {
        steps,
        ..options.limits
    };
    let decided = model.decide(history, &options.initial, false, &limits);
    let parts = decided
        .into_iter()
        .flatten()
        .flat_map(|decided| decided.parts);
    parts
        .filter_map(|part| match part.answer {
            Answer::Legal => None,
            Answer::Illegal { impasse, .. } => Some(impasse),
            Answer::Unknown { impasse, .. } => impasse,
        })
        .filter(|impasse| broken.contains(&&impasse.part))
        .take(SHOWN)
        .collect()
}

/// Each part of an object alone: is there an order of atomic steps?
fn judge_object(case: &Case<'_>, model: Model, options: &Options<'_>) -> Judgement {
    let decided = model.decide(
        case.history,
        &options.initial,
        options.joined,
        &options.limits,
    );
    let (verdicts, unfit) = match decided {
        None => (Verdicts::default(), None),
        Some(Ok(decided)) => (Verdicts::of(&decided, case.history, model.name()), None),
        Some(Err(unfit)) => (Verdicts::default(), Some(unfit.to_string())),
    };
    let exact = Exact {
        judged: verdicts.judged,
        not_judged: verdicts.not_judged,
    };
    let undecided = unfit.as_ref().or(exact.not_judged.first());
    let coverage = coverage::of_faults(case.history);
    let (verdict, reason) = if case.history.operations.is_empty() {
        (Verdict::Unknown, Some(NOTHING.to_owned()))
    } else {
        decide(&verdicts.findings, &coverage, undecided)
    };
    Judgement {
        verdict,
        reason,
        findings: verdicts.findings,
        coverage,
        stats: stats(case.history, exact, &Census::of(case)),
        impasses: verdicts.impasses,
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

fn stats(history: &History, exact: Exact, census: &Census) -> Stats {
    let mut stats = Stats {
        events: history.events,
        operations: history.operations.len() as u64,
        duration_ns: history.last_time.saturating_sub(history.first_time),
        keys_judged: exact.judged,
        not_judged: exact.not_judged,
        ..Stats::default()
    };
    census.tell(&mut stats);
    stats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Expectations, Plan};
    use crate::scenario::Scenario;

    fn plan(s: &mut Scenario, zombie_writes: u64) {
        s.header().plan = Some(Plan {
            expect: Expectations {
                zombie_writes,
                ..Expectations::default()
            },
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
    fn the_register_model_searches_where_values_repeat_and_names_what_it_does_not_have() {
        let mut s = Scenario::new();
        s.write("c1", "L", "k", 1, "a");
        s.write("c1", "L", "k", 2, "a");
        assert_eq!(
            judge(&s.history(), Model::FencedRegister).verdict,
            Verdict::Valid
        );
        s.write("c1", "L", "k", 1, "a");
        let judgement = judge(&s.history(), Model::FencedRegister);
        assert_eq!(judgement.verdict, Verdict::Invalid);
        assert_eq!(judgement.impasses[0].explained, 2);
        assert_eq!(judgement.impasses[0].state, "high water 2, value \"a\"");
        let judgement = judge(&s.history(), Model::Queue);
        assert_eq!(judgement.verdict, Verdict::Unknown);
        assert!(judgement.reason.is_some_and(|reason| {
            reason.starts_with("write at index 0 is no operation of a queue")
        }));
    }

    #[test]
    fn a_limit_ends_in_unknown_with_the_reason_and_how_far_it_got() {
        let mut s = Scenario::new();
        for value in ["a", "b", "a", "b"] {
            s.write("c1", "L", "k", 1, value);
        }
        let options = Options {
            limits: Limits {
                steps: Some(2),
                ..Limits::default()
            },
            ..Options::default()
        };
        let judgement = judge_within(&s.history(), Model::Register, &options);
        assert_eq!(judgement.verdict, Verdict::Unknown);
        assert_eq!(
            judgement.reason.as_deref(),
            Some(
                "\"k\" was not decided: the budget of steps ran out; 2 of 4 operations were put in order"
            )
        );
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
