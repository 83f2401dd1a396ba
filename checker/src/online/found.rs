//! Findings out of what the rules remember, with the same words as the judge of whole files.
//!
//! A story is told from a small history: the operations of the witness, the grants around them and the last faults. The
//! rules of the whole judge that history, and what they say of it is taken. Counts are those of the stream.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use super::Model;
use super::Online;
use super::arrival::Arrival;
use super::faults::rank;
use super::fold::Fold;
use super::holders::{LockFindings, Pair};
use super::key::Key;
use super::lease::GivenAway;
use super::marks::{Elsewhere, Guilts, Place};
use super::overflow::Wrapped;
use super::words::{Kept, Op, writes};
use crate::coverage::{say_what_is_missing, say_which_faults_are_missing};
use crate::fencing::{self, Case};
use crate::finding::{Finding, Severity};
use crate::history::{History, MarkScope, Name, Operation, Outcome, Plan, Values};
use crate::judge::{decide, nothing_to_judge};
use crate::verdict::{Coverage, FaultCount, Judgement, Stats, Verdict};

/// How many keys that were not judged are named one by one.
const NAMED: usize = 20;

/// A finding whose cause is not yet a position.
struct Draft {
    finding: &'static str,
    severity: Severity,
    lock: Option<Name>,
    key: Option<Name>,
    count: u64,
    witness: Vec<Kept>,
    around: Vec<Kept>,
    /// The rules whose finding, on the same lock or key, this one follows from: the first that has one.
    causes: Vec<&'static str>,
}

impl Draft {
    fn new(finding: &'static str, count: u64, witness: Vec<Kept>) -> Self {
        Self {
            finding,
            severity: Severity::Violation,
            lock: None,
            key: None,
            count,
            witness,
            around: Vec::new(),
            causes: Vec::new(),
        }
    }

    fn warned(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    fn on(mut self, lock: Option<Name>, key: Option<Name>) -> Self {
        (self.lock, self.key) = (lock, key);
        self
    }
}

/// The judgement on all that the fold has taken.
pub(super) fn judgement(arrival: &mut Arrival, mut fold: Fold, model: Model) -> Judgement {
    fold.settle(arrival);
    let drafts = match model {
        Model::Fencing => fencing_drafts(arrival, &mut fold),
        Model::FencedRegister => broken_keys(arrival, &mut fold, &HashSet::new()),
        _ => Vec::new(),
    };
    let findings = finish(arrival, drafts, model);
    let coverage = match model {
        Model::Fencing => coverage(arrival, &fold),
        _ => coverage_of_faults(arrival),
    };
    let stats = stats(arrival, &fold);
    let undecided = stats.not_judged.first().filter(|_| model != Model::Fencing);
    let (verdict, reason) = if !Online::judges(model) {
        let reason = format!("a {model} is judged by the whole of a history, not as it comes");
        (Verdict::Unknown, Some(reason))
    } else if arrival.counts.operations == 0 {
        (Verdict::Unknown, Some(nothing_to_judge()))
    } else {
        decide(&findings, &coverage, undecided)
    };
    Judgement {
        verdict,
        reason,
        findings,
        coverage,
        stats,
        impasses: Vec::new(),
    }
}

fn fencing_drafts(arrival: &Arrival, fold: &mut Fold) -> Vec<Draft> {
    let mut drafts = at_the_resource(arrival, fold);
    let violations = drafts
        .iter()
        .filter(|draft| draft.severity == Severity::Violation);
    let explained: HashSet<Option<Name>> = violations.map(|draft| draft.key).collect();
    for (&lock, (count, higher, lower)) in &fold.issuer.regressions {
        let witness = vec![Kept::clone(higher), Kept::clone(lower)];
        let mut draft = Draft::new("token-regression", *count, witness).on(Some(lock), None);
        draft.causes.push("token-overflow");
        drafts.push(draft);
    }
    let (ungranted, unfounded) = fold.holders.ungranted(arrival);
    let shared = fold.holders.findings(arrival);
    drafts.extend(overflows(fold, &shared));
    for (lock, found) in shared {
        let duplicate = |pair: &Pair, severity| {
            let witness = vec![Kept::clone(&pair.first), Kept::clone(&pair.second)];
            let mut draft = Draft::new("duplicate-token", pair.count, witness).on(Some(lock), None);
            draft.severity = severity;
            draft.causes.push("token-overflow");
            draft
                .causes
                .extend(pair.regressed.then_some("token-regression"));
            draft
        };
        drafts.extend(
            found
                .shared
                .iter()
                .map(|pair| duplicate(pair, Severity::Violation)),
        );
        drafts.extend(
            found
                .again
                .iter()
                .map(|pair| duplicate(pair, Severity::Warning)),
        );
        if let Some(pair) = found.double {
            drafts.push(double_writer(
                fold,
                lock,
                &pair,
                found.duplicated.contains(&pair.token),
                unfounded.contains(&(lock, pair.token)),
            ));
        }
    }
    for found in ungranted {
        let key = found.first.key;
        let mut draft = Draft::new("write-without-grant", found.count, vec![found.first]);
        if let (Some(write), lock) = (draft.witness.first(), found.lock)
            && let Some(token) = write.token
        {
            draft.around = fold
                .holders
                .grants_of(lock, token)
                .take(1)
                .cloned()
                .collect();
        }
        drafts.push(draft.on(Some(found.lock), key));
    }
    for (&lock, (count, row)) in &fold.retries.hot {
        let key = row[0]
            .key
            .filter(|_| row.iter().all(|op| op.key == row[0].key));
        drafts.push(Draft::new("hot-retry", *count, row.clone()).on(lock, key));
    }
    for (lock, (count, witness)) in fold.renewals.phantoms(arrival) {
        drafts.push(Draft::new("phantom-renew", count, witness).on(Some(lock), None));
    }
    for (&lock, shared) in &fold.interference.shared {
        let witness = shared.witness.clone();
        let draft = Draft::new("cross-key-interference", shared.count, witness);
        drafts.push(draft.on(Some(lock), None));
    }
    drafts.extend(given_away(fold));
    drafts.extend(nobody_gets_on(arrival, fold));
    for (&lock, clock) in &fold.clocks {
        if let Some((matched, _, grants)) = clock.shows() {
            let draft = Draft::new("timestamp-token", matched, grants.to_vec());
            drafts.push(draft.warned().on(Some(lock), None));
        }
    }
    for (&lock, (count, before, after)) in &fold.refused.found {
        if !fold.retries.hot.contains_key(&lock) {
            let witness = vec![Kept::clone(before), Kept::clone(after)];
            let draft = Draft::new("write-after-refusal", *count, witness);
            drafts.push(draft.warned().on(lock, after.key));
        }
    }
    drafts.extend(broken_keys(arrival, fold, &explained));
    drafts
}

/// Tokens that went past the width in which somebody keeps them.
fn overflows(fold: &Fold, shared: &BTreeMap<Name, LockFindings>) -> Vec<Draft> {
    let pair = |pair: &Pair| Wrapped {
        before: Kept::clone(&pair.first),
        after: Kept::clone(&pair.second),
    };
    let twice = shared.iter().flat_map(|(&lock, found)| {
        let pairs = found.shared.iter().chain(&found.again);
        pairs.map(move |of| (lock, pair(of)))
    });
    let mut drafts = Vec::new();
    for (lock, (count, Wrapped { before, after })) in fold.overflows.wrapped(twice) {
        let draft = Draft::new("token-overflow", count, vec![before, after]);
        drafts.push(draft.on(Some(lock), None));
    }
    for (&(lock, key), (count, report, write)) in &fold.overflows.distorted {
        let mut witness = vec![Kept::clone(write), Kept::clone(report)];
        let unknown = write.outcome == Outcome::Unknown;
        let read = fold.keys.get(&write.key).filter(|_| unknown);
        witness.extend(read.and_then(|key| key.first_read(write)));
        drafts.push(Draft::new("token-overflow", *count, witness).on(lock, key));
    }
    for (&lock, (count, first)) in &fold.overflows.exhausted {
        let draft = Draft::new("token-overflow", *count, vec![Kept::clone(first)]);
        drafts.push(draft.warned().on(Some(lock), None));
    }
    drafts
}

/// The newest holders are refused, no token is left, or nobody is granted a lock that is wanted.
fn nobody_gets_on(arrival: &Arrival, fold: &Fold) -> Vec<Draft> {
    let mut drafts = Vec::new();
    let raised = |key: Option<Name>| fold.keys.get(&key).is_some_and(Key::is_raised);
    for ((lock, key), out) in fold.fenced_out.shut_out(arrival, raised) {
        let shown = out.shown.into_iter();
        let witness = shown.flat_map(|shut| [shut.grant, shut.refusal]);
        let witness = witness.chain(out.culprit).collect();
        let mut draft = Draft::new("fenced-out", out.count, witness).on(lock, key);
        draft.causes = vec!["token-regression", "token-overflow"];
        drafts.push(draft);
    }
    for (lock, count, witness) in fold.fenced_out.exhausted() {
        drafts.push(Draft::new("fenced-out", count, witness).on(Some(lock), None));
    }
    for (lock, count, hunger) in fold.starvations.found(arrival) {
        let draft = Draft::new("starvation", count, hunger.witness(fold.last.as_ref()));
        drafts.push(draft.warned().on(Some(lock), None));
    }
    drafts
}

/// Grants to another while a holder's lease ran.
fn given_away(fold: &Fold) -> Vec<Draft> {
    let draft = |finding, lock: Name, count: u64, given: &GivenAway| {
        Draft::new(finding, count, given.witness()).on(Some(lock), None)
    };
    let mut drafts = Vec::new();
    for (&lock, (count, given)) in &fold.leases.early {
        drafts.push(draft("overlapping-grant", lock, *count, given));
    }
    for (&lock, (count, given)) in &fold.leases.released {
        drafts.push(draft("release-of-others-lock", lock, *count, given));
    }
    for (lock, count, given) in fold.leases.likely() {
        drafts.push(draft("release-of-others-lock", lock, count, given).warned());
    }
    drafts
}

/// What the resource did wrong on some key.
fn at_the_resource(arrival: &Arrival, fold: &Fold) -> Vec<Draft> {
    let marks = &fold.marks;
    let mut drafts = guilty(fold, "stale-write-accepted", &marks.stale);
    let mut lost = guilty(fold, "high-water-lost", &marks.lost);
    for (place, (_, first)) in &marks.lost {
        let on = |draft: &&mut Draft| (draft.lock, draft.key) == *place;
        // Fallen from the stale write on, and no sooner: there was no mark to lose.
        let stale = marks.stale.get(place);
        let by_stale_write =
            first.is_report() && stale.is_some_and(|(_, stale)| stale.order() < first.order());
        let (root, follows) = if by_stale_write {
            ("stale-write-accepted", lost.iter_mut().find(on))
        } else {
            ("high-water-lost", drafts.iter_mut().find(on))
        };
        if let Some(draft) = follows {
            draft.causes.push(root);
        }
    }
    for (&(lock, key), (count, witness)) in &fold.reads.slipped {
        let draft = Draft::new("non-atomic-check", *count, witness.clone());
        drafts.push(draft.on(lock, key));
    }
    for (&(lock, key), (count, witness)) in &fold.reads.missing {
        let mut draft = Draft::new("lost-acked-write", *count, witness.clone()).on(lock, key);
        let marks = lost
            .iter()
            .filter(|mark| (mark.lock, mark.key) == (lock, key));
        if forgotten_at_once(witness, marks) {
            draft.causes.push("high-water-lost");
        }
        drafts.push(draft);
    }
    drafts.extend(lost);
    drafts.extend(guilty(fold, "unfenced-write-accepted", &marks.unfenced));
    for (&((lock, key), _, elsewhere), (count, first)) in &marks.behind {
        let mut draft = Draft::new("partial-fencing", *count, first.witness()).on(lock, key);
        if elsewhere == Elsewhere::Key && arrival.mark_scope() == MarkScope::Key {
            draft.severity = Severity::Warning;
        }
        drafts.push(draft);
    }
    for (&(key, wrong), (count, witness)) in &fold.lists.found {
        let lock = fold.lists.lock(arrival, key);
        drafts.push(Draft::new(wrong.finding(), *count, witness.clone()).on(lock, key));
    }
    for (&key, state) in &fold.keys {
        if let Some((count, (write, read))) = &state.applied {
            let witness = vec![Kept::clone(write), Kept::clone(read)];
            let draft = Draft::new("failed-write-applied", *count, witness);
            drafts.push(draft.on(arrival.lock(write), key));
        }
    }
    drafts.extend(refused_without_reason(fold));
    drafts
}

/// As `forgotten_with_the_mark` of `fencing/lost_write.rs`.
fn forgotten_at_once<'a>(value: &[Kept], mut marks: impl Iterator<Item = &'a Draft>) -> bool {
    let sent = value.iter().filter(|op| writes(op));
    let sent = sent.map(|op| op.invoked.index).max();
    let last = events(value).last().copied();
    marks.any(|mark| {
        let mark = events(&mark.witness);
        mark.first().copied() < last && sent < mark.last().copied()
    })
}

/// Refusals that no mark explains, or only that of another lock.
fn refused_without_reason(fold: &Fold) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for (&(lock, key), row) in &fold.fresh.found {
        let Some(first) = row.first() else { continue };
        let witness = first.shown.iter().chain([&first.refusal]).cloned();
        let mut draft = Draft::new("fresh-write-refused", row.count, witness.collect());
        draft.around = fold
            .holders
            .grant_to(lock, &first.refusal)
            .into_iter()
            .collect();
        draft.causes.push("failed-write-applied");
        drafts.push(draft.on(lock, key));
    }
    for (&(lock, key), (count, witness)) in &fold.interference.strayed {
        let draft = Draft::new("cross-key-interference", *count, witness.to_vec());
        drafts.push(draft.on(lock, key));
    }
    drafts
}

fn guilty(fold: &Fold, finding: &'static str, guilts: &Guilts<Place>) -> Vec<Draft> {
    let describe = |(&(lock, key), (count, first)): (&Place, &(u64, super::marks::Guilt))| {
        let mut draft = Draft::new(finding, *count, first.witness()).on(lock, key);
        let proof = first.proof.as_ref().map(|proof| &proof.op);
        for write in std::iter::once(&first.op).chain(proof) {
            draft.around.extend(fold.holders.grant_to(lock, write));
        }
        draft
    };
    guilts.iter().map(describe).collect()
}

fn double_writer(fold: &Fold, lock: Name, pair: &Pair, duplicated: bool, unfounded: bool) -> Draft {
    let writes = [&pair.first, &pair.second];
    let mut witness: Vec<Kept> = writes.map(Kept::clone).to_vec();
    for write in writes {
        if write.returned().is_none()
            && let Some(key) = fold.keys.get(&write.key)
        {
            witness.extend(key.first_read(write));
        }
    }
    let key = pair.first.key.filter(|_| pair.first.key == pair.second.key);
    let mut draft = Draft::new("double-writer-in-epoch", pair.count, witness).on(Some(lock), key);
    draft.causes.extend(if duplicated {
        Some("duplicate-token")
    } else {
        unfounded.then_some("write-without-grant")
    });
    let grants = fold.holders.grants_of(lock, pair.token).cloned();
    draft.around = grants.take(3).collect();
    draft
}

fn broken_keys(
    arrival: &Arrival,
    fold: &mut Fold,
    explained: &HashSet<Option<Name>>,
) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for (&key, state) in &mut fold.keys {
        let Some(broken) = state.broken() else {
            continue;
        };
        if !explained.contains(&key) {
            let lock = broken.ops.iter().find_map(|op| arrival.lock(op));
            drafts.push(Draft::new("not-linearizable", 1, broken.ops.clone()).on(lock, key));
        }
        state.dismiss_doubt();
    }
    drafts
}

/// As `finish` of the judge of whole files.
fn finish(arrival: &mut Arrival, drafts: Vec<Draft>, model: Model) -> Vec<Finding> {
    let follows: HashSet<usize> = (0..drafts.len())
        .filter(|&at| root_of(&drafts, at).is_some())
        .collect();
    let mut order: Vec<(usize, Draft)> = drafts.into_iter().enumerate().collect();
    order.sort_by_cached_key(|(at, draft)| {
        let proven = events(&draft.witness).last().copied();
        (
            Reverse(draft.severity),
            follows.contains(at),
            proven,
            draft.lock,
            draft.key,
        )
    });
    let drafts: Vec<Draft> = order.into_iter().map(|(_, draft)| draft).collect();
    let causes: Vec<Option<usize>> = (0..drafts.len()).map(|at| root_of(&drafts, at)).collect();
    let mut findings = Vec::with_capacity(drafts.len());
    for (draft, cause) in drafts.into_iter().zip(causes) {
        let (events, story) = tell(arrival, &draft, model);
        let text = |name: Option<Name>| name.map(|name| arrival.names.text(name).to_owned());
        findings.push(Finding {
            finding: draft.finding.to_owned(),
            severity: draft.severity,
            cause,
            lock: text(draft.lock),
            key: text(draft.key),
            count: draft.count,
            events,
            story,
        });
    }
    findings
}

/// Where the finding stands that another follows from: on its key if there is one, else anywhere on its lock.
fn root_of(drafts: &[Draft], at: usize) -> Option<usize> {
    let draft = &drafts[at];
    draft.causes.iter().find_map(|&root| {
        let is_root = |other: usize| {
            other != at && drafts[other].finding == root && drafts[other].lock == draft.lock
        };
        let roots = || (0..drafts.len()).filter(|&other| is_root(other));
        let on_key = roots().find(|&other| drafts[other].key == draft.key);
        on_key.or_else(|| roots().next())
    })
}

/// The witness and its story, from a small history.
fn tell(arrival: &mut Arrival, draft: &Draft, model: Model) -> (Vec<u64>, String) {
    let mut operations: Vec<Kept> = draft.witness.iter().chain(&draft.around).cloned().collect();
    operations.sort_by_key(|op| op.invoked.index);
    operations.dedup_by_key(|op| op.invoked.index);
    let mut header = arrival.header.clone();
    if let Some(header) = &mut header {
        header.plan = None;
    }
    let mut values = Values::default();
    let history = History {
        header,
        operations: operations.iter().map(|op| whole(op, &mut values)).collect(),
        values,
        faults: arrival.faults.windows(),
        names: std::mem::take(&mut arrival.names),
        ..History::default()
    };
    let found = match model {
        Model::Fencing => fencing::judge(&history).1.findings,
        _ => fencing::judge_registers(&Case::of_registers(&history)).0,
    };
    let text = |name: Option<Name>| name.map(|name| history.names.text(name).to_owned());
    let (lock, key) = (text(draft.lock), text(draft.key));
    let same = |finding: &Finding| {
        finding.finding == draft.finding
            && finding.severity == draft.severity
            && finding.lock == lock
            && finding.key == key
    };
    let found = found.into_iter().find(same);
    let (events, mut story) = match found {
        Some(found) if draft.finding == "not-linearizable" => (found.events, found.story),
        Some(found) => (events(&draft.witness), found.story),
        None => (
            events(&draft.witness),
            fencing::plain_story(&history, draft.finding),
        ),
    };
    if draft.count > 1 {
        story += &format!("\nThis was seen {} times in all.", draft.count);
    }
    arrival.names = history.names;
    (events, story)
}

fn whole(op: &Op, values: &mut Values) -> Operation {
    Operation {
        value: op.value.as_ref().map(|value| values.intern(value)),
        ..op.core
    }
}

fn events(witness: &[Kept]) -> Vec<u64> {
    let mut events: Vec<u64> = witness
        .iter()
        .flat_map(|op| std::iter::once(op.invoked).chain(op.completed))
        .map(|at| at.index)
        .collect();
    events.sort_unstable();
    events.dedup();
    events
}

fn coverage(arrival: &Arrival, fold: &Fold) -> Coverage {
    let mut coverage = Coverage {
        zombie_writes: fold.marks.zombies,
        zombie_writes_refused: fold.marks.zombies_refused,
        ..Coverage::default()
    };
    if let Some(plan) = plan_of(arrival) {
        count_faults(arrival, plan, &mut coverage);
        say_what_is_missing(plan, &mut coverage);
    }
    coverage
}

fn coverage_of_faults(arrival: &Arrival) -> Coverage {
    let mut coverage = Coverage::default();
    if let Some(plan) = plan_of(arrival) {
        count_faults(arrival, plan, &mut coverage);
        say_which_faults_are_missing(plan, &mut coverage);
    }
    coverage
}

fn plan_of(arrival: &Arrival) -> Option<&Plan> {
    arrival.header.as_ref()?.plan.as_ref()
}

fn count_faults(arrival: &Arrival, plan: &Plan, coverage: &mut Coverage) {
    let counts = arrival.faults.by_label();
    for (label, &planned) in &plan.faults {
        let of = |outcome: u8| counts.get(&(label.clone(), outcome)).copied().unwrap_or(0);
        let count = FaultCount {
            planned,
            installed: of(rank(crate::history::FaultOutcome::Installed)),
            skipped: of(rank(crate::history::FaultOutcome::Skipped)),
            unknown: of(rank(crate::history::FaultOutcome::Unknown)),
        };
        coverage.faults.insert(label.clone(), count);
    }
}

fn stats(arrival: &Arrival, fold: &Fold) -> Stats {
    let counts = &arrival.counts;
    let (judged, not_judged) = reach(arrival, fold);
    Stats {
        events: counts.events,
        operations: counts.operations,
        ok: counts.ok,
        failed: counts.failed,
        unknown: counts.operations - counts.ok - counts.failed,
        grants: counts.grants,
        writes: counts.writes,
        refused: counts.refused,
        clients: counts.clients.len() as u64,
        locks: counts.locks.len() as u64,
        keys: counts.keys.len() as u64,
        duration_ns: counts.last_time.saturating_sub(counts.first_time),
        keys_judged: judged,
        not_judged,
        overlap: fold.believed.in_all(),
    }
}

/// How many keys were decided, and of the others, up to where and why.
fn reach(arrival: &Arrival, fold: &Fold) -> (u64, Vec<String>) {
    let mut limits: Vec<(Option<Name>, _)> = fold
        .keys
        .iter()
        .filter_map(|(&key, state): (_, &Key)| Some((key, state.limit()?)))
        .collect();
    limits.sort_unstable();
    let judged = (fold.keys.len() - limits.len()) as u64;
    let name = |key: Option<Name>| {
        key.map_or_else(
            || "the register without a key".to_owned(),
            |key| format!("key {}", arrival.names.shown(key)),
        )
    };
    let say = |&(key, limit): &(Option<Name>, super::key::Limit)| {
        let key = name(key);
        format!(
            "{key} is judged exactly only before event {}, where {}",
            limit.index,
            limit.why.reason()
        )
    };
    let mut sentences: Vec<String> = limits.iter().take(NAMED).map(say).collect();
    let unread = |(&key, index): (&Option<Name>, &u64)| {
        format!(
            "the lists of {} are looked into only before event {index}, where more was appended than is remembered",
            name(key)
        )
    };
    sentences.extend(fold.lists.given_up.iter().take(NAMED).map(unread));
    if limits.len() > NAMED {
        sentences.push(format!(
            "{} more keys are not judged exactly to the end",
            limits.len() - NAMED
        ));
    }
    (judged, sentences)
}
