//! The rules: who broke the promise of the fence, and what proves it.
//!
//! Each family has a file of its own. A rule reports one finding a lock or key, with a count and its first witness;
//! it is silent wherever the file does not prove its case.
//!
//! | file | what it promises |
//! |---|---|
//! | `case.rs` | the words of the rules: accepted, refused, which lock, which write a read saw |
//! | `moments.rs` | invocations and returns in order |
//! | `by_name.rs`, `value_places.rs` | what is kept for each name, and for each value of a key |
//! | `proof.rs` | proofs of a high water, and the writes that came after one |
//! | `identity.rs` | when two operations are certainly of two holders |
//! | `resource.rs` | `stale-write-accepted` |
//! | `issuer.rs` | `token-regression`, `duplicate-token` |
//! | `double_writer.rs` | `double-writer-in-epoch` |
//! | `holder.rs` | `write-without-grant` |
//! | `hot_retry.rs` | `hot-retry` |
//! | `register.rs` | the exact decision of one key's fenced register |
//! | `epochs.rs` | what must hold among its clusters and refusals |
//! | `raises.rs` | where a key shows that other things than its writes raise its mark |
//! | `certain.rs` | what no resource may tell, whatever kind of key it is |
//! | `witness.rs` | a violation of it, shrunk to the few operations that conflict |
//! | `linearizable.rs` | `not-linearizable`: which keys the exact decision is for, and what it says |
//! | `story.rs` | findings in plain words |

mod by_name;
mod case;
mod certain;
mod double_writer;
mod epochs;
mod holder;
mod hot_retry;
mod identity;
mod issuer;
mod linearizable;
mod moments;
mod proof;
mod raises;
mod register;
mod resource;
mod story;
mod value_places;
mod witness;

use std::cmp::Reverse;
use std::panic::resume_unwind;
use std::thread;

pub(crate) use case::Case;
pub(crate) use linearizable::Exact;
pub(crate) use proof::{LateWrite, late_writes};

use crate::finding::{Finding, Severity};
use crate::history::Name;

/// What is known of a rule before any history is seen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FindingInfo {
    /// The name that findings, the command line and reports use.
    pub name: &'static str,
    /// How bad it is; a weaker form of it may be reported as a warning.
    pub severity: Severity,
    /// Who is to blame.
    pub wrong: &'static str,
    /// What it means, in one line.
    pub summary: &'static str,
}

const fn violation(name: &'static str, wrong: &'static str, summary: &'static str) -> FindingInfo {
    FindingInfo {
        name,
        severity: Severity::Violation,
        wrong,
        summary,
    }
}

const STALE_WRITE_ACCEPTED: FindingInfo = violation(
    "stale-write-accepted",
    "resource",
    "a write was accepted although a higher token was already proven when it was sent",
);
const DOUBLE_WRITER_IN_EPOCH: FindingInfo = violation(
    "double-writer-in-epoch",
    "lock service and resource",
    "two holders have accepted writes with one token of one lock",
);
const TOKEN_REGRESSION: FindingInfo = violation(
    "token-regression",
    "lock service",
    "a grant asked for after another was known carries a lower token",
);
const DUPLICATE_TOKEN: FindingInfo = violation(
    "duplicate-token",
    "lock service",
    "two holders were granted one token; or (warning) one holder again, after it had released it",
);
const WRITE_WITHOUT_GRANT: FindingInfo = violation(
    "write-without-grant",
    "holder",
    "a write carries a token that its client had not been granted",
);
const HOT_RETRY: FindingInfo = violation(
    "hot-retry",
    "holder",
    "a refused token is sent again at least 5 times, each within 10 ms of the last refusal",
);
const NOT_LINEARIZABLE: FindingInfo = violation(
    "not-linearizable",
    "resource",
    "no order of atomic steps of a fenced register explains the operations on a key",
);

/// Every rule that is judged, in the order of the sections that explain them.
pub const FINDINGS: &[FindingInfo] = &[
    STALE_WRITE_ACCEPTED,
    DOUBLE_WRITER_IN_EPOCH,
    TOKEN_REGRESSION,
    DUPLICATE_TOKEN,
    WRITE_WITHOUT_GRANT,
    HOT_RETRY,
    NOT_LINEARIZABLE,
];

/// A finding whose cause is not yet a position.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    rule: FindingInfo,
    severity: Severity,
    lock: Option<Name>,
    key: Option<Name>,
    count: u64,
    /// The operations of the first witness.
    witness: Vec<usize>,
    story: String,
    /// The rule, on the same lock, whose finding this one follows from.
    cause: Option<&'static str>,
}

impl Draft {
    fn new(rule: FindingInfo, count: u64, witness: Vec<usize>, story: String) -> Self {
        Self {
            rule,
            severity: rule.severity,
            lock: None,
            key: None,
            count,
            witness,
            story,
            cause: None,
        }
    }

    fn on(mut self, lock: Option<Name>, key: Option<Name>) -> Self {
        self.lock = lock;
        self.key = key;
        self
    }
}

/// Applies every rule. Late writes and the outcome of the exact check are handed back for coverage and statistics.
pub(crate) fn judge(case: &Case<'_>, late: &[LateWrite]) -> (Vec<Finding>, Exact) {
    let mut drafts = resource::stale_writes(case, late);
    let explained = drafts.iter().map(|draft| draft.key).collect();
    let exactly = || linearizable::broken_keys(case, &explained);
    let (others, (broken, exact)) = if case.history.operations.len() < WORTH_A_THREAD {
        (all_but_the_exact_check(case), exactly())
    } else {
        // The exact check takes as long as all other rules together, and neither needs the other.
        thread::scope(|scope| {
            let exact = scope.spawn(exactly);
            let others = all_but_the_exact_check(case);
            (
                others,
                exact.join().unwrap_or_else(|panic| resume_unwind(panic)),
            )
        })
    };
    drafts.extend(others);
    drafts.extend(broken);
    (finish(case, drafts), exact)
}

/// From so many operations on a second thread is of use.
const WORTH_A_THREAD: usize = 20_000;

fn all_but_the_exact_check(case: &Case<'_>) -> Vec<Draft> {
    let holders = identity::Holders::new(case);
    let regressions = issuer::regressions(case);
    let (duplicates, duplicated) = issuer::duplicates(case, &holders, &regressions);
    let (ungranted, unfounded) = holder::ungranted_writes(case, &holders);
    let mut drafts = issuer::describe_regressions(case, &regressions);
    drafts.extend(duplicates);
    drafts.extend(double_writer::double_writers(
        case,
        &holders,
        &duplicated,
        &unfounded,
    ));
    drafts.extend(ungranted);
    drafts.extend(hot_retry::hot_retries(case));
    drafts
}

/// Judges each key as a fenced register alone: no grants, no holders.
pub(crate) fn judge_registers(case: &Case<'_>) -> (Vec<Finding>, Exact) {
    let (broken, exact) = linearizable::broken_registers(case);
    (finish(case, broken), exact)
}

/// Sorts violations first, roots before what follows, then by when each was proven; turns causes into positions.
fn finish(case: &Case<'_>, mut drafts: Vec<Draft>) -> Vec<Finding> {
    drafts.sort_by_cached_key(|draft| {
        let proven = events(case, &draft.witness).last().copied();
        (
            Reverse(draft.severity),
            draft.cause.is_some(),
            proven,
            draft.lock,
            draft.key,
        )
    });
    let position = |draft: &Draft| {
        let root = draft.cause?;
        drafts
            .iter()
            .position(|other| other.rule.name == root && other.lock == draft.lock)
    };
    let causes: Vec<_> = drafts.iter().map(position).collect();
    let text = |name: Option<Name>| name.map(|name| case.history.names.text(name).to_owned());
    drafts
        .into_iter()
        .zip(causes)
        .map(|(draft, cause)| Finding {
            finding: draft.rule.name.to_owned(),
            severity: draft.severity,
            cause,
            lock: text(draft.lock),
            key: text(draft.key),
            count: draft.count,
            events: events(case, &draft.witness),
            story: draft.story,
        })
        .collect()
}

/// The indexes of invocations and completions of a witness, ascending.
fn events(case: &Case<'_>, witness: &[usize]) -> Vec<u64> {
    let operations = witness.iter().map(|&op| case.operation(op));
    let mut events: Vec<u64> = operations
        .flat_map(|op| std::iter::once(op.invoked).chain(op.completed))
        .map(|at| at.index)
        .collect();
    events.sort_unstable();
    events.dedup();
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn a_service_that_starts_over_is_one_root_with_what_follows_from_it() {
        let mut s = Scenario::new();
        s.grant("c1", "L", 1);
        s.write("c1", "L", "k", 1, "a");
        s.grant("c2", "L", 2);
        s.grant("c3", "L", 1);
        s.write("c3", "L", "k", 1, "b");
        let history = s.history();
        let case = Case::new(&history);
        let (findings, _) = judge(&case, &late_writes(&case));
        let names: Vec<_> = findings
            .iter()
            .map(|f| (f.finding.as_str(), f.cause))
            .collect();
        assert_eq!(
            names,
            [
                ("token-regression", None),
                ("duplicate-token", Some(0)),
                ("double-writer-in-epoch", Some(1))
            ]
        );
    }

    #[test]
    fn every_finding_has_a_name_of_its_own_and_a_one_line_summary() {
        for (at, info) in FINDINGS.iter().enumerate() {
            assert!(
                FINDINGS[..at].iter().all(|other| other.name != info.name),
                "{}",
                info.name
            );
            assert!(!info.summary.is_empty() && !info.summary.contains('\n'));
        }
    }
}
