//! The rules: who broke the promise of the fence, and what proves it.
//!
//! Each family has a file of its own. A rule reports one finding a lock or key, with a count and its first witness;
//! it is silent wherever the file does not prove its case.
//!
//! | file | what it promises |
//! |---|---|
//! | `case.rs` | the words of the rules: accepted, refused, which lock, which write a read saw |
//! | `moments.rs`, `kinds.rs` | invocations and returns in order; which of them concern a rule |
//! | `by_name.rs`, `value_places.rs` | what is kept for each name, and for each value of a key |
//! | `proof.rs` | proofs of a high water, and what one pass over them shows |
//! | `reads.rs` | what reads show of writes, in one walk |
//! | `shown.rs` | when the file first shows that a write has taken effect |
//! | `identity.rs` | when two operations are certainly of two holders |
//! | `resource.rs` | `stale-write-accepted` |
//! | `non_atomic.rs`, `lost_write.rs`, `failed_write.rs` | `non-atomic-check`, `lost-acked-write`, `failed-write-applied` |
//! | `high_water.rs`, `fresh_refused.rs` | `high-water-lost`, `fresh-write-refused` |
//! | `interference.rs`, `unfenced.rs`, `partial.rs` | `cross-key-interference`, `unfenced-write-accepted`, `partial-fencing` |
//! | `append.rs` | what the lists of a log show |
//! | `issuer.rs` | `token-regression`, `duplicate-token` |
//! | `overflow.rs`, `width.rs`, `timestamp.rs` | `token-overflow`, `timestamp-token` |
//! | `phantom.rs` | `phantom-renew` |
//! | `lease.rs`, `overlapping_grant.rs`, `release_of_others.rs` | grants that were given away: `overlapping-grant`, `release-of-others-lock` |
//! | `double_writer.rs` | `double-writer-in-epoch` |
//! | `holder.rs`, `hot_retry.rs`, `write_after_refusal.rs` | `write-without-grant`, `hot-retry`, `write-after-refusal` |
//! | `fenced_out.rs`, `starvation.rs` | `fenced-out`, `starvation` |
//! | `overlap.rs` | how long two clients believed that they held one lock; no finding |
//! | `register.rs` | the exact decision of one key's fenced register |
//! | `epochs.rs` | what must hold among its clusters and refusals |
//! | `raises.rs` | where a key shows that other things than its writes raise its mark |
//! | `doubt.rs` | where a grant may have raised a mark that a write explains as well |
//! | `certain.rs` | what no resource may tell, whatever kind of key it is |
//! | `witness.rs` | a violation of it, shrunk to the few operations that conflict |
//! | `writers.rs` | who wrote first, when every key asks for another |
//! | `linearizable.rs` | `not-linearizable`: which keys the exact decision is for, and what it says |
//! | `story.rs` | findings in plain words |

mod append;
mod by_name;
mod case;
mod certain;
mod double_writer;
mod doubt;
mod epochs;
mod failed_write;
mod fenced_out;
mod fresh_refused;
mod high_water;
mod holder;
mod hot_retry;
mod identity;
mod interference;
mod issuer;
mod kinds;
mod lease;
mod linearizable;
mod lost_write;
mod moments;
mod non_atomic;
mod overflow;
mod overlap;
mod overlapping_grant;
mod partial;
mod phantom;
mod proof;
mod raises;
mod reads;
mod register;
mod release_of_others;
mod resource;
mod shown;
mod starvation;
mod story;
mod timestamp;
mod unfenced;
mod value_places;
mod width;
mod witness;
mod write_after_refusal;
mod writers;

use std::cmp::Reverse;
use std::panic::resume_unwind;
use std::thread;

pub(crate) use append::Wrong;
pub(crate) use case::Case;
pub(crate) use epochs::entangled;
pub(crate) use fresh_refused::Granted;
pub(crate) use lease::on_lock_service;
pub(crate) use linearizable::{Exact, Why};
pub(crate) use overflow::SPARE;
pub(crate) use overlap::{Belief, Overlaps};
pub(crate) use proof::LateWrite;
#[cfg(test)]
pub(crate) use proof::late_writes;
pub(crate) use register::Outside;
pub(crate) use story::touches_worker;
pub(crate) use timestamp::Clock;
pub(crate) use width::{Width, distorts, wraps_after};
pub(crate) use writers::Writers;

use hashbrown::HashSet;

use crate::census::Census;
use crate::finding::{Finding, Severity};
use crate::history::{History, Name, Operation};
use crate::verdict::Overlap;
use proof::{ProofSweep, Proofs};
use reads::{ReadSweep, Reads};

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

const fn warning(name: &'static str, wrong: &'static str, summary: &'static str) -> FindingInfo {
    FindingInfo {
        name,
        severity: Severity::Warning,
        wrong,
        summary,
    }
}

const STALE_WRITE_ACCEPTED: FindingInfo = violation(
    "stale-write-accepted",
    "resource",
    "a write was accepted although a higher token was already proven when it was sent",
);
const NON_ATOMIC_CHECK: FindingInfo = violation(
    "non-atomic-check",
    "resource",
    "a write slipped in on top of a concurrent one with a higher token that was already done",
);
const LOST_ACKED_WRITE: FindingInfo = violation(
    "lost-acked-write",
    "resource",
    "a read misses a write that was accepted before it, and finds nothing or something older",
);
const FAILED_WRITE_APPLIED: FindingInfo = violation(
    "failed-write-applied",
    "resource or client",
    "the value of a write that was answered with a definite no is read",
);
const HIGH_WATER_LOST: FindingInfo = violation(
    "high-water-lost",
    "resource",
    "less than a proven high water is reported, or a token is accepted that the key had refused",
);
const CROSS_KEY_INTERFERENCE: FindingInfo = violation(
    "cross-key-interference",
    "resource or lock service",
    "a refusal names another lock's high water, or a free lock is held for as long as another one",
);
const FRESH_WRITE_REFUSED: FindingInfo = violation(
    "fresh-write-refused",
    "resource",
    "a write was refused although nothing above its token stood against it",
);
const UNFENCED_WRITE_ACCEPTED: FindingInfo = violation(
    "unfenced-write-accepted",
    "resource",
    "a write without a token was accepted after a high water had been proven",
);
const PARTIAL_FENCING: FindingInfo = violation(
    "partial-fencing",
    "system",
    "a stale token was accepted on another path, or another key of the lock (warning, if each key has its own mark)",
);
const TOKEN_OVERFLOW: FindingInfo = violation(
    "token-overflow",
    "lock service or resource",
    "a token wrapped or was rounded at the width in which it is kept; or (warning) none is left",
);
const TIMESTAMP_TOKEN: FindingInfo = warning(
    "timestamp-token",
    "lock service",
    "tokens advance with the clock and not with the grants",
);
const PHANTOM_RENEW: FindingInfo = violation(
    "phantom-renew",
    "lock service",
    "a renewal succeeded although another had been granted, or the token had been given back",
);
const RELEASE_OF_OTHERS_LOCK: FindingInfo = violation(
    "release-of-others-lock",
    "lock service",
    "a late release took the lock from its new holder",
);
const OVERLAPPING_GRANT: FindingInfo = violation(
    "overlapping-grant",
    "lock service",
    "the lock was granted to another while its holder's lease ran",
);
const WRITE_AFTER_REFUSAL: FindingInfo = warning(
    "write-after-refusal",
    "holder",
    "a process goes on with a token after it was told that the token is stale",
);
const FENCED_OUT: FindingInfo = violation(
    "fenced-out",
    "system",
    "the newest holders are refused in a row, up to the end; or no token is left to grant",
);
const STARVATION: FindingInfo = warning(
    "starvation",
    "system",
    "somebody wants a lock for more than 3 leases, and nobody is granted it, renews it or writes",
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
    NON_ATOMIC_CHECK,
    DOUBLE_WRITER_IN_EPOCH,
    LOST_ACKED_WRITE,
    FAILED_WRITE_APPLIED,
    HIGH_WATER_LOST,
    CROSS_KEY_INTERFERENCE,
    FRESH_WRITE_REFUSED,
    UNFENCED_WRITE_ACCEPTED,
    PARTIAL_FENCING,
    TOKEN_REGRESSION,
    DUPLICATE_TOKEN,
    TOKEN_OVERFLOW,
    TIMESTAMP_TOKEN,
    PHANTOM_RENEW,
    RELEASE_OF_OTHERS_LOCK,
    OVERLAPPING_GRANT,
    WRITE_WITHOUT_GRANT,
    HOT_RETRY,
    WRITE_AFTER_REFUSAL,
    FENCED_OUT,
    STARVATION,
    NOT_LINEARIZABLE,
];

/// Lock and key: where most findings are counted.
type Place = (Option<Name>, Option<Name>);

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
    /// The rules whose finding, on the same lock or key, this one follows from: the first that has one.
    causes: Vec<&'static str>,
}

impl Draft {
    fn new(rule: FindingInfo, count: u64, mut witness: Vec<usize>, story: String) -> Self {
        witness.sort_unstable();
        witness.dedup();
        Self {
            rule,
            severity: rule.severity,
            lock: None,
            key: None,
            count,
            witness,
            story,
            causes: Vec::new(),
        }
    }

    fn on(mut self, lock: Option<Name>, key: Option<Name>) -> Self {
        self.lock = lock;
        self.key = key;
        self
    }
}

/// From so many operations on a second thread is of use.
const WORTH_A_THREAD: usize = 20_000;

/// From so many operations on memory counts for more than a thread: what the exact check takes on its way is given back
/// before the other rules begin.
const ROOMY: usize = 4_000_000;

/// What the rules say of a history.
#[derive(Debug)]
pub(crate) struct Judged {
    pub findings: Vec<Finding>,
    /// How far the exact check reached.
    pub exact: Exact,
    /// Writes that came after a proof of a higher token.
    pub late: Vec<LateWrite>,
    pub overlap: Overlap,
    pub census: Census,
}

/// Does both, at once where a second thread is of use.
fn both<A: Send, B>(
    history: &History,
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B,
) -> (A, B) {
    if history.operations.len() < WORTH_A_THREAD {
        return (one(), other());
    }
    thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        (
            one.join().unwrap_or_else(|panic| resume_unwind(panic)),
            other,
        )
    })
}

/// Applies every rule. What does not need another's outcome is done beside it.
pub(crate) fn judge(history: &History) -> (Case<'_>, Judged) {
    let plain = Case::of_registers(history);
    let gather = || linearizable::gather(&plain);
    let rest = || {
        let case = Case::new(history);
        let (at_resource, beside) = both(
            history,
            || at_the_resource(&case),
            || {
                // It goes to whichever core the others leave free.
                both(
                    history,
                    || overlap::overlaps(&case),
                    || {
                        let raised = raises::raises(&case);
                        let beside = beside_the_resource(&case, &raised);
                        (raised, beside)
                    },
                )
            },
        );
        (case, at_resource, beside)
    };
    let (gathered, (case, at_resource, (overlap, (raised, beside)))) =
        if history.operations.len() < ROOMY {
            both(history, gather, rest)
        } else {
            (gather(), rest())
        };
    let AtResource {
        proofs,
        mut drafts,
        fresh,
        applied,
        after,
    } = at_resource;
    let (strayed, interference) = interference::strayed_marks(&case, &raised.unexplained);
    drafts.extend(fresh_refused::fresh_refusals(
        &case,
        fresh,
        &applied,
        &interference,
    ));
    drafts.extend(strayed);
    drafts.extend(after);
    let explained = drafts
        .iter()
        .filter(|draft| draft.severity == Severity::Violation)
        .map(|draft| draft.key)
        .collect();
    let Beside {
        regressions,
        pairs,
        drafts: others,
    } = beside;
    drafts.extend(overflow::overflows(
        &case,
        &regressions,
        &pairs,
        &proofs.distorted,
    ));
    drafts.extend(others);
    let census = gathered.census.clone();
    let (broken, exact) = linearizable::broken_keys(&case, gathered, &raised.keys, &explained);
    drafts.extend(broken);
    let findings = finish(&case, drafts);
    let judged = Judged {
        findings,
        exact,
        late: proofs.late,
        overlap,
        census,
    };
    (case, judged)
}

/// What was found without a look at the resource.
struct Beside {
    regressions: Vec<issuer::Regression>,
    /// Grants of one token.
    pairs: Vec<overflow::Pair>,
    drafts: Vec<Draft>,
}

/// What the issuer, the lock service and the holders did wrong.
fn beside_the_resource(case: &Case<'_>, raised: &raises::Raises) -> Beside {
    let holders = identity::Holders::new(case);
    let mut beside = at_the_issuer(case, &holders);
    let drafts = &mut beside.drafts;
    drafts.extend(at_the_lock_service(case, &holders));
    let hot = hot_retry::hot_retries(case);
    let hot_locks = hot.iter().map(|draft| draft.lock).collect();
    drafts.extend(write_after_refusal::writes_after_refusals(case, &hot_locks));
    drafts.extend(hot);
    drafts.extend(fenced_out::fenced_out(case, &raised.keys));
    drafts.extend(starvation::starvations(case));
    beside
}

/// What was found at the resource.
struct AtResource {
    proofs: Proofs,
    drafts: Vec<Draft>,
    /// Refusals that had no reason, unless another finding is it.
    fresh: Vec<fresh_refused::Refused>,
    /// Writes that were answered no and done.
    applied: HashSet<usize>,
    /// What is told after the refusals.
    after: Vec<Draft>,
}

/// What writes and reads prove: one walk for both.
fn at_each_moment<'a>(case: &Case<'a>) -> (Proofs, Reads<'a>) {
    let mut proofs = ProofSweep::new(case);
    let mut reads = ReadSweep::new(case);
    for moment in case.walk_ahead(ProofSweep::ASKS_FOR.or(ReadSweep::ASKS_FOR)) {
        if case.kinds[moment.op].is(ProofSweep::ASKS_FOR) {
            proofs.step(case, moment);
        }
        reads.step(case, moment);
    }
    (proofs.found, reads.found)
}

/// What the resource did wrong on some key.
fn at_the_resource(case: &Case<'_>) -> AtResource {
    let (proofs, reads) = at_each_moment(case);
    let mut drafts = resource::stale_writes(case, &proofs.late);
    let lost_marks = high_water::lost_marks(case, &proofs);
    // Where the mark was lost first, stale writes follow from that.
    for draft in &mut drafts {
        let rooted = lost_marks.iter().any(|lost| {
            (lost.lock, lost.key) == (draft.lock, draft.key)
                && !lost.causes.contains(&STALE_WRITE_ACCEPTED.name)
        });
        if rooted {
            draft.causes.push(HIGH_WATER_LOST.name);
        }
    }
    let lists = append::lists(case);
    let (failed, applied) = failed_write::applied_failures(case, &lists.failed);
    let mut lost_writes = lost_write::lost_writes(case, &reads);
    lost_write::forgotten_with_the_mark(case, &mut lost_writes, &lost_marks);
    drafts.extend(lost_marks);
    drafts.extend(non_atomic::non_atomic_checks(case, &reads));
    drafts.extend(lost_writes);
    drafts.extend(failed);
    drafts.extend(lists.drafts);
    let fresh = fresh_refused::refusals(case);
    let mut after = unfenced::unfenced_writes(case, &proofs.unfenced);
    after.extend(partial::partly_fenced(case, &proofs.behind));
    AtResource {
        proofs,
        drafts,
        fresh,
        applied,
        after,
    }
}

/// What is wrong with the tokens, and what follows from it; but for what their width explains.
fn at_the_issuer(case: &Case<'_>, holders: &identity::Holders) -> Beside {
    let regressions = issuer::regressions(case);
    let duplicates = issuer::duplicates(case, holders, &regressions);
    let (ungranted, unfounded) = holder::ungranted_writes(case, holders);
    let mut drafts = issuer::describe_regressions(case, &regressions);
    drafts.extend(duplicates.drafts);
    drafts.extend(double_writer::double_writers(
        case,
        holders,
        &duplicates.tokens,
        &unfounded,
    ));
    drafts.extend(ungranted);
    drafts.extend(timestamp::timestamps(case));
    Beside {
        regressions,
        pairs: duplicates.pairs,
        drafts,
    }
}

/// What the lock service did wrong beside its tokens.
fn at_the_lock_service(case: &Case<'_>, holders: &identity::Holders) -> Vec<Draft> {
    let given_away = lease::given_away(case, holders);
    let mut drafts = phantom::phantom_renewals(case, holders);
    drafts.extend(overlapping_grant::overlapping_grants(case, &given_away));
    drafts.extend(release_of_others::releases_of_others(case, &given_away));
    drafts.extend(interference::shared_slots(case));
    drafts
}

/// The place of an operation of the history.
fn place_of(case: &Case<'_>, operation: &Operation) -> usize {
    let operations = &case.history.operations;
    operations.partition_point(|other| other.invoked.index < operation.invoked.index)
}

/// Judges each key as a fenced register alone: no grants, no holders.
pub(crate) fn judge_registers(case: &Case<'_>) -> (Vec<Finding>, Exact, Census) {
    let gathered = linearizable::gather(case);
    let census = gathered.census.clone();
    let (broken, exact) = linearizable::broken_registers(case, gathered);
    (finish(case, broken), exact, census)
}

/// The operations of a history one after the other, for a finding that has no better words.
pub(crate) fn plain_story(history: &crate::history::History, finding: &str) -> String {
    let scenes = history
        .operations
        .iter()
        .take(4 * story::MOST)
        .map(story::Scene::Happened)
        .collect();
    let info = FINDINGS.iter().find(|info| info.name == finding);
    let wrong = info.map_or_else(String::new, |info| {
        format!("That is wrong: {}.", info.summary)
    });
    story::tell(history, scenes, &wrong)
}

/// Sorts violations first, roots before what follows, then by when each was proven; turns causes into positions.
fn finish(case: &Case<'_>, mut drafts: Vec<Draft>) -> Vec<Finding> {
    let follows: Vec<bool> = (0..drafts.len())
        .map(|at| root_of(&drafts, at).is_some())
        .collect();
    let mut order: Vec<usize> = (0..drafts.len()).collect();
    order.sort_by_cached_key(|&at| {
        let draft = &drafts[at];
        let proven = events(case, &draft.witness).last().copied();
        (
            Reverse(draft.severity),
            follows[at],
            proven,
            draft.lock,
            draft.key,
        )
    });
    drafts = order.iter().map(|&at| drafts[at].clone()).collect();
    let causes: Vec<_> = (0..drafts.len()).map(|at| root_of(&drafts, at)).collect();
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

/// Where the finding stands that another follows from: on its key if there is one, else anywhere on its lock.
fn root_of(drafts: &[Draft], at: usize) -> Option<usize> {
    let draft = &drafts[at];
    draft.causes.iter().find_map(|&root| {
        let is_root = |other: &&(usize, &Draft)| {
            other.0 != at && other.1.rule.name == root && other.1.lock == draft.lock
        };
        let mut roots = drafts.iter().enumerate().filter(|other| is_root(&other));
        let first = roots.next()?;
        let on_key = std::iter::once(first)
            .chain(roots)
            .find(|(_, other)| other.key == draft.key);
        Some(on_key.unwrap_or(first).0)
    })
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
        let findings = judge(&history).1.findings;
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
