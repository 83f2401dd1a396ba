//! Logs: keys to which tokens append and whose reads return the whole list.
//!
//! An append is accepted by the same rule as a write, so `stale-write-accepted`, `high-water-lost` and the other rules
//! about tokens hold as they are. What a list shows beyond that has the name of the rule that it breaks:
//!
//! | what is seen | finding |
//! |---|---|
//! | a token below one that stands before it in the list | `non-atomic-check`, unless it was stale when sent: then that |
//! | an append that was surely done before the read was sent is not in the list | `lost-acked-write` |
//! | an append that was answered `fail` is in the list | `failed-write-applied` |
//! | an element twice; one that nobody had appended yet; two lists neither of which begins with the other; an append that precedes another stands after it | `not-linearizable` |
//!
//! Silent about keys that are written or compared and set as well, or appended to by two paths, about elements that were
//! appended twice, and about unknown elements at the head of a list: they may have been there before.
//!
//! State, for each log: the longest list so far as the places of its appends; which appends are surely done. A list's
//! length is paid for each time that it is read.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::case::Case;
use super::kinds::Kind;
use super::shown::Shown;
use super::story;
use super::{Draft, FindingInfo, LOST_ACKED_WRITE, NON_ATOMIC_CHECK, NOT_LINEARIZABLE, Place};
use crate::history::{Datum, Function, Name, Outcome};

/// What the lists show.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    pub drafts: Vec<Draft>,
    /// Failed appends that a list shows, each with the read.
    pub failed: Vec<(usize, usize)>,
}

/// What a log's list may not show, in words.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Wrong {
    Fell,
    Lost,
    Twice,
    NeverAppended,
    Forked,
    OutOfOrder,
}

impl Wrong {
    /// The rule that it breaks.
    fn rule(self) -> FindingInfo {
        match self {
            Self::Fell => NON_ATOMIC_CHECK,
            Self::Lost => LOST_ACKED_WRITE,
            Self::Twice | Self::NeverAppended | Self::Forked | Self::OutOfOrder => NOT_LINEARIZABLE,
        }
    }

    /// The name of that rule's finding.
    pub fn finding(self) -> &'static str {
        self.rule().name
    }
}

/// An append of a log.
#[derive(Debug)]
struct Log {
    key: Option<Name>,
    /// By value: the first append, and when the second was sent.
    appended: HashMap<Datum, (usize, u64)>,
    /// Appends in the order in which they stand in the longest list.
    longest: Vec<u32>,
    longest_read: usize,
    /// Appends that are surely done, in the order in which that was shown.
    done: Vec<usize>,
    /// From here on another kind of operation may have changed it too.
    until: u64,
}

const NONE: u32 = u32::MAX;

/// One finding for each log and rule. Linear in what was read.
pub(crate) fn lists(case: &Case<'_>) -> Lists {
    let mut lists = Lists::default();
    if !case.has(Kind::APPEND) {
        return lists;
    }
    let mut logs = logs(case);
    let mut shown = done(case, &logs);
    // How many were done when each read was sent.
    let mut when_sent = vec![NONE; case.history.operations.len()];
    let mut found: BTreeMap<(u32, Wrong), (u64, Vec<usize>)> = BTreeMap::new();
    for moment in &case.moments {
        let op = moment.op;
        let operation = case.operation(op);
        let object = case.spots[op].object;
        let Some(log) = logs.get_mut(&object) else {
            continue;
        };
        match operation.function {
            Function::Append if moment.returns && operation.outcome == Outcome::Ok => {
                log.finish(op, op, &shown);
            }
            Function::Read if !moment.returns => {
                when_sent[op] = u32::try_from(log.done.len()).unwrap_or(NONE);
            }
            Function::Read if operation.outcome == Outcome::Ok => {
                if operation.returned().is_none_or(|at| at.index >= log.until) {
                    continue;
                }
                let list = match operation.value {
                    Some(Datum::NULL) => Some(&[][..]),
                    value => value.and_then(|value| case.list(value)),
                };
                let Some(list) = list else {
                    continue;
                };
                let sent = when_sent[op] as usize;
                for (wrong, witness) in
                    log.check(case, &mut shown, op, list, sent, &mut lists.failed)
                {
                    found
                        .entry((object, wrong))
                        .and_modify(|known| known.0 += 1)
                        .or_insert((1, witness));
                }
            }
            _ => {}
        }
    }
    let places: HashMap<u32, Place> = case
        .history
        .operations
        .iter()
        .enumerate()
        .filter(|(_, operation)| operation.function == Function::Append)
        .map(|(op, operation)| (case.spots[op].object, (case.lock(operation), operation.key)))
        .collect();
    for ((object, wrong), (count, witness)) in found {
        let (lock, key) = places.get(&object).copied().unwrap_or_default();
        lists
            .drafts
            .push(describe(case, wrong, count, witness).on(lock, key));
    }
    lists
}

fn logs(case: &Case<'_>) -> HashMap<u32, Log> {
    let mut logs: HashMap<u32, Log> = HashMap::new();
    let operations = &case.history.operations;
    for (op, operation) in operations.iter().enumerate() {
        if operation.function != Function::Append {
            continue;
        }
        let log = logs.entry(case.spots[op].object).or_insert_with(|| Log {
            key: operation.key,
            appended: HashMap::new(),
            longest: Vec::new(),
            longest_read: 0,
            done: Vec::new(),
            until: u64::MAX,
        });
        match operation.value {
            Some(value) if !value.is_null() => {
                log.appended
                    .entry(value)
                    .and_modify(|known| known.1 = known.1.min(operation.invoked.index))
                    .or_insert((op, u64::MAX));
            }
            _ => log.until = log.until.min(operation.invoked.index),
        }
    }
    // By key: the first object that was appended to, and from when on something else may have changed it.
    let mut keys: HashMap<Option<Name>, (u32, u64)> = HashMap::new();
    for (op, operation) in operations.iter().enumerate() {
        let object = case.spots[op].object;
        let changes = match operation.function {
            Function::Write | Function::Cas => operation.outcome != Outcome::Failed,
            Function::Append => keys.get(&operation.key).is_some_and(|key| key.0 != object),
            Function::Other(_) => operation.key.is_some(),
            _ => false,
        };
        if changes || operation.function == Function::Append {
            let key = keys.entry(operation.key).or_insert((object, u64::MAX));
            if changes {
                key.1 = key.1.min(operation.invoked.index);
            }
        }
    }
    for log in logs.values_mut() {
        let changed = keys.get(&log.key).map_or(u64::MAX, |key| key.1);
        log.until = log.until.min(changed);
    }
    logs
}

/// When each append is first shown: by its own answer, or by the first list that holds it.
fn done<'a>(case: &Case<'a>, logs: &HashMap<u32, Log>) -> Shown<'a> {
    let mut shown = Shown::new(case);
    for (op, operation) in case.history.operations.iter().enumerate() {
        let (Function::Read, Outcome::Ok, Some(value), Some(returned)) = (
            operation.function,
            operation.outcome,
            operation.value,
            operation.returned(),
        ) else {
            continue;
        };
        let Some(list) = case.list(value) else {
            continue;
        };
        let Some(log) = logs.get(&case.spots[op].object) else {
            continue;
        };
        for &element in list {
            if let Some(append) = log.append_of(element, returned.index) {
                shown.note(append, returned.index, op);
            }
        }
    }
    shown
}

impl Log {
    /// The one append of a value that had been sent before a read was over; or the first of those sent later.
    fn append_of(&self, element: Option<Datum>, returned: u64) -> Option<usize> {
        let &(append, again) = self.appended.get(&element?)?;
        (returned < again).then_some(append)
    }

    /// Notes that an append is surely done, if `by` is the first to show it.
    fn finish(&mut self, append: usize, by: usize, shown: &Shown<'_>) {
        if shown.by(append) == by {
            self.done.push(append);
        }
    }

    /// What a list that was read shows.
    fn check(
        &mut self,
        case: &Case<'_>,
        shown: &mut Shown<'_>,
        read: usize,
        list: &[Option<Datum>],
        done_when_sent: usize,
        failed: &mut Vec<(usize, usize)>,
    ) -> Vec<(Wrong, Vec<usize>)> {
        let mut wrong = Vec::new();
        let returned = case.operation(read).returned().map_or(0, |at| at.index);
        let sent = case.operation(read).invoked.index;
        let mut places: Vec<u32> = Vec::with_capacity(list.len());
        let mut highest: Option<usize> = None;
        let mut last_sent: Option<usize> = None;
        let mut done = 0;
        let mut known = false;
        for &element in list {
            let append = match self.append_of(element, returned) {
                Some(append) => append,
                None => {
                    if known && element.is_none_or(|element| !self.appended.contains_key(&element))
                    {
                        wrong.push((Wrong::NeverAppended, vec![read]));
                    }
                    places.push(NONE);
                    continue;
                }
            };
            let operation = case.operation(append);
            known = true;
            if operation.invoked.index > returned {
                wrong.push((Wrong::NeverAppended, vec![append, read]));
                continue;
            }
            if operation.outcome == Outcome::Failed {
                failed.push((append, read));
            }
            if shown.by(append) == read {
                self.done.push(append);
            }
            done += usize::from(shown.at(append) < sent);
            let token = operation.token;
            if let Some(above) = highest.filter(|&above| case.operation(above).token > token) {
                // One that was stale when it was sent is found as such.
                if shown.at(above) > operation.invoked.index {
                    wrong.push((Wrong::Fell, vec![above, append, read]));
                }
            } else {
                highest = Some(append);
            }
            // An append that was over before one that stands before it was sent.
            if let Some(later) = last_sent
                && operation.precedes(case.operation(later))
                && operation.outcome == Outcome::Ok
            {
                wrong.push((Wrong::OutOfOrder, vec![append, later, read]));
            }
            if last_sent.is_none_or(|last| last < append) {
                last_sent = Some(append);
            }
            places.push(u32::try_from(append).unwrap_or(NONE));
        }
        if has_twice(&places) {
            wrong.push((Wrong::Twice, self.twice(&places, read)));
        }
        if done < done_when_sent {
            let missing = self.done[..done_when_sent].iter().copied().find(|&append| {
                let value = case.operation(append).value;
                // One whose value was sent again may be in the list under the other's name.
                self.append_of(value, returned) == Some(append)
                    && !places.contains(&u32::try_from(append).unwrap_or(NONE))
            });
            if let Some(append) = missing {
                let mut witness = vec![append, read];
                let own = case.operation(append).outcome == Outcome::Ok
                    && case.operation(append).precedes(case.operation(read));
                witness.extend((!own).then(|| shown.by(append)));
                wrong.push((Wrong::Lost, witness));
            }
        }
        let common = places.len().min(self.longest.len());
        if let Some(at) = (0..common).find(|&at| {
            let (one, two) = (places[at], self.longest[at]);
            one != two && one != NONE && two != NONE
        }) {
            let mut witness = vec![places[at] as usize, self.longest[at] as usize];
            witness.extend([self.longest_read, read]);
            wrong.push((Wrong::Forked, witness));
        } else if places.len() > self.longest.len() {
            self.longest = places;
            self.longest_read = read;
        }
        wrong
    }

    /// The appends that stand twice in a list, at least the first, with the read.
    fn twice(&self, places: &[u32], read: usize) -> Vec<usize> {
        let mut sorted: Vec<u32> = places.iter().copied().filter(|&at| at != NONE).collect();
        sorted.sort_unstable();
        let pair = sorted.windows(2).find(|pair| pair[0] == pair[1]);
        pair.map(|pair| pair[0] as usize)
            .into_iter()
            .chain([read])
            .collect()
    }
}

/// Whether a place stands in the list twice. Lists that rise, as nearly all do, are seen through at once.
fn has_twice(places: &[u32]) -> bool {
    let known = || places.iter().copied().filter(|&at| at != NONE);
    if known().zip(known().skip(1)).all(|(one, next)| one < next) {
        return false;
    }
    let mut sorted: Vec<u32> = known().collect();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}

fn describe(case: &Case<'_>, wrong: Wrong, count: u64, mut witness: Vec<usize>) -> Draft {
    let scenes = story::happened(case, &mut witness);
    let ending = match wrong {
        Wrong::Fell => {
            "That is wrong: in the list a lower token stands after a higher one, so it was appended when it had to be refused. The check of the token and the append are not one atomic step."
        }
        Wrong::Lost => {
            "That is wrong: the append was done before the read was sent, and is not in the list."
        }
        Wrong::Twice => "That is wrong: what was appended once stands in the list twice.",
        Wrong::NeverAppended => {
            "That is wrong: the list holds what nobody had appended before the read was over."
        }
        Wrong::Forked => {
            "That is wrong: neither of the two lists begins with the other, so no single order of appends explains both."
        }
        Wrong::OutOfOrder => {
            "That is wrong: one append was over before the other was sent, and stands after it in the list."
        }
    };
    let mut ending = ending.to_owned();
    if count > 1 {
        ending += &format!("\n{count} reads of this log showed such a thing in all.");
    }
    let story = story::tell(case.history, scenes, &ending);
    Draft::new(wrong.rule(), count, witness, story)
}
