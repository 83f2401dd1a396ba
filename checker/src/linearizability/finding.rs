//! What was decided about the parts of an object, as findings.

use super::{Answer, Conflict, Decided, Impasse, Part, Placed};
use crate::finding::{Finding, Severity};
use crate::history::History;

/// How many parts without an order are shown with their impasse, and how many undecided ones are named.
pub(crate) const SHOWN: usize = 20;

/// How many operations before the impasse belong to a finding.
const BEFORE: usize = 4;

/// Everything that a judgement says of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdicts {
    /// One for each part without an order, in the order of their impasses in the history.
    pub findings: Vec<Finding>,
    /// The first of them.
    pub impasses: Vec<Impasse>,
    /// Parts that were decided.
    pub judged: u64,
    /// Why the others were not, one sentence each; then how many more there are.
    pub not_judged: Vec<String>,
}

impl Verdicts {
    pub fn of(decided: &Decided, history: &History, model: &str) -> Self {
        let mut verdicts = Self::default();
        let mut illegal: Vec<(&Part, &Impasse, Option<&Conflict>)> = Vec::new();
        let mut undecided = 0;
        for part in &decided.parts {
            match &part.answer {
                Answer::Legal => verdicts.judged += 1,
                Answer::Illegal { impasse, conflict } => {
                    verdicts.judged += 1;
                    illegal.push((part, impasse, conflict.as_ref()));
                }
                Answer::Unknown { exhausted, impasse } => {
                    undecided += 1;
                    if undecided <= SHOWN {
                        let reached = impasse.as_ref().map_or(0, |impasse| impasse.explained);
                        verdicts.not_judged.push(format!(
                            "{} was not decided: {}; {reached} of {} operations were put in order",
                            named(part, history),
                            exhausted.reason(),
                            part.operations
                        ));
                    }
                }
            }
        }
        if undecided > SHOWN {
            verdicts
                .not_judged
                .push(format!("{} more", undecided - SHOWN));
        }
        illegal.sort_by_key(|(_, impasse, _)| last_event(impasse));
        verdicts.findings = illegal
            .iter()
            .map(|(part, impasse, conflict)| finding(part, impasse, *conflict, history, model))
            .collect();
        let shown = illegal.iter().take(SHOWN);
        verdicts.impasses = shown.map(|(_, impasse, _)| (*impasse).clone()).collect();
        verdicts
    }
}

fn named(part: &Part, history: &History) -> String {
    part.name.map_or_else(
        || "the object".to_owned(),
        |name| format!("\"{}\"", history.names.shown(name)),
    )
}

fn last_event(impasse: &Impasse) -> Option<u64> {
    let first = impasse.cannot_follow.first();
    first.and_then(|placed| placed.completed)
}

fn finding(
    part: &Part,
    impasse: &Impasse,
    conflict: Option<&Conflict>,
    history: &History,
    model: &str,
) -> Finding {
    let mut story = vec![format!(
        "No order of atomic steps of a {model} explains the operations on {}.",
        named(part, history)
    )];
    if let Some(conflict) = conflict {
        story.push(format!("It is proven without a search: {}.", conflict.why));
    }
    let so_far = match impasse.explained {
        0 => format!("It begins as {}.", impasse.state),
        explained => format!(
            "The longest order that was found holds {explained} of {} operations and ends with {}; then it is {}.",
            impasse.operations,
            impasse.prefix.last().map_or("none", |placed| &placed.call),
            impasse.state
        ),
    };
    story.push(so_far);
    if let Some(first) = impasse.cannot_follow.first() {
        story.push(format!(
            "There {} by {} had to follow, and cannot.",
            first.call, first.client
        ));
    }
    Finding {
        finding: "not-linearizable".to_owned(),
        severity: Severity::Violation,
        cause: None,
        lock: None,
        key: part.name.map(|name| history.names.text(name).to_owned()),
        count: 1,
        events: events(impasse, conflict, history),
        story: story.join("\n"),
    }
}

/// Those of the conflict, or of what stands around the impasse.
fn events(impasse: &Impasse, conflict: Option<&Conflict>, history: &History) -> Vec<u64> {
    let mut events: Vec<u64> = match conflict {
        Some(conflict) => {
            let operations = conflict.operations.iter();
            let of = operations.map(|&operation| &history.operations[operation]);
            of.flat_map(|of| std::iter::once(of.invoked).chain(of.completed))
                .map(|at| at.index)
                .collect()
        }
        None => {
            let both = |placed: &Placed| std::iter::once(placed.invoked).chain(placed.completed);
            let before = impasse.prefix.iter().rev().take(BEFORE);
            let first = impasse.cannot_follow.first();
            before.chain(first).flat_map(both).collect()
        }
    };
    events.sort_unstable();
    events.dedup();
    events
}
