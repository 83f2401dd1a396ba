//! `not-linearizable`: the exact decision of each key's register, where it applies.
//!
//! Each key is judged for itself, in three ways, one after the other in the file:
//!
//! | from | until | what is asked |
//! |---|---|---|
//! | the start | the first line that does not fit the model | is it a fenced register? (`register.rs`, exact) |
//! | there | the first line that no register has | do its values and its marks, each for themselves, go forward? |
//! | there | the end | is anything told that no resource may tell? (`certain.rs`) |
//!
//! What does not fit the model is a sign that other things than writes raise the key's mark (`raises.rs`), or a write of
//! another key that shares its mark. What no register has is an append, a compare-and-set, a write without a token or
//! value, or a value that was written before. The limits are drawn by what stands before them, so a violation that is
//! proven by the beginning of a file is proven by the whole of it. One thing alone can take it back: a write whose
//! answer says that it presented another token than it was sent with.
//!
//! Under the fencing rules this speaks only about keys that no other finding explains. Which keys were not judged
//! exactly to the end is said.

use hashbrown::{HashMap, HashSet};
use serde_json::Value;

use super::by_name::ByName;
use super::case::Case;
use super::certain::certain_violation;
use super::doubt::first_doubt;
use super::epochs::Cluster;
use super::raises::Raised;
use super::register::{Gathering, Kind, Marks, Outside, Register, Room, Violation, outside};
use super::story::{self, MOST, Scene};
use super::value_places::{AllPlaces, Places};
use super::writers::Writers;
use super::{Draft, NOT_LINEARIZABLE, witness};
use crate::census::Census;
use crate::history::{Datum, Function, MarkScope, Name, Operation, Outcome};

/// How many keys that were not judged are named one by one.
const NAMED: usize = 20;

/// How far the exact check reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Exact {
    /// Keys that were decided.
    pub judged: u64,
    /// Which others were not, or not to the end, and why: one sentence a key.
    pub not_judged: Vec<String>,
}

/// For the fencing rules. `explained` are the keys that another finding is about.
pub(crate) fn broken_keys(
    case: &Case<'_>,
    gathered: Gathered,
    raised: &HashMap<Option<Name>, Raised>,
    explained: &HashSet<Option<Name>>,
) -> (Vec<Draft>, Exact) {
    let signs = Signs {
        raised: raised.clone(),
        shared: shared_from(case),
        grants_count: true,
    };
    judge(case, gathered, explained, &signs)
}

/// For the register model alone: no grants, and a mark a key.
pub(crate) fn broken_registers(case: &Case<'_>, gathered: Gathered) -> (Vec<Draft>, Exact) {
    judge(case, gathered, &HashSet::new(), &Signs::default())
}

/// Every key with its operations; decided where it is nothing but a fenced register.
#[derive(Debug)]
pub(crate) struct Gathered {
    keys: Vec<(Option<Name>, Keyed)>,
    /// What there is in the history, counted on the way.
    pub census: Census,
}

/// What is known of one key.
#[derive(Debug)]
struct Keyed {
    /// The first operation that puts the key outside of what is decided.
    outside: Option<Limit>,
    /// What it is as a fenced register, as long as it is nothing but one.
    gathering: Option<Gathering>,
    /// It is nothing but a fenced register, and an order of atomic steps explains it.
    sound: bool,
}

/// What has been written to all keys, in the order of the file.
#[derive(Default)]
struct Written {
    clusters: Vec<Cluster>,
    /// For each cluster which of the keys it is of.
    slots: Vec<u32>,
}

impl Written {
    /// The places of the clusters of so many keys, those of one key together and ascending; and where each key's end.
    fn by_slot(&self, slots: usize) -> (Vec<u32>, Vec<usize>) {
        let mut ends = vec![0; slots];
        for &slot in &self.slots {
            ends[slot as usize] += 1;
        }
        // Where each key's begin: each of them moves to where they end as its places are filled in.
        let mut sum = 0;
        for end in &mut ends {
            sum += std::mem::replace(end, sum);
        }
        let mut places = vec![0; self.slots.len()];
        for (place, &slot) in (0..).zip(&self.slots) {
            let end = &mut ends[slot as usize];
            places[*end] = place;
            *end += 1;
        }
        (places, ends)
    }
}

/// Whether an operation is one on a key, or on the nameless object of those without a key.
#[inline]
fn is_on_object(operation: &Operation) -> bool {
    match operation.function {
        Function::Acquire | Function::Renew | Function::Release => false,
        Function::Write | Function::Append | Function::Read | Function::Cas => true,
        Function::Other(_) => operation.key.is_some(),
    }
}

/// Operations by key. Those without a key are about one nameless object.
///
/// In one pass, in the order of the file, each key is gathered as a fenced register, for as long as nothing limits
/// that: what one value or key has to do with another is then close together in memory. It asks for nothing but the
/// operations, so it may be done beside everything else.
pub(crate) fn gather(case: &Case<'_>) -> Gathered {
    let register = plain_register(case);
    let mut places = AllPlaces::new(case.history.values.count());
    let mut census = Census::new(case.history.names.count());
    let mut keys: ByName<Keyed> = ByName::default();
    let mut written = Written::default();
    let mut other_keys: HashSet<(Option<Name>, Datum)> = HashSet::new();
    for (op, operation) in case.history.operations.iter().enumerate() {
        census.note(operation, case.is_refusal(operation));
        if !is_on_object(operation) {
            continue;
        }
        let key = operation.key;
        let (slot, keyed) = keys.slot(key, || Keyed {
            outside: None,
            gathering: Some(Gathering::new()),
            sound: false,
        });
        let mut why = match case.path(operation) {
            Some(_) => Some(Outside::OtherPath),
            None => outside(operation),
        };
        if let (Function::Write, Some(value)) = (operation.function, operation.value) {
            let again = match places.writer(value) {
                None => false,
                Some(last) if last == key => true,
                // Several keys have this value: from here on each of them is remembered.
                Some(last) => {
                    other_keys.insert((last, value));
                    !other_keys.insert((key, value))
                }
            };
            if again {
                why = why.or(Some(Outside::ValueTwice));
            }
        }
        if let (Some(why), None) = (why, keyed.outside) {
            keyed.outside = Some(Limit {
                index: operation.invoked.index,
                why: Why::Outside(why),
            });
            keyed.gathering = None;
        }
        let mut own = places.of_key(key);
        match (&mut keyed.gathering, operation.value) {
            (Some(gathering), _) => {
                register.gather(gathering, &mut written.clusters, op, &mut own);
                written.slots.resize(written.clusters.len(), slot);
            }
            // Another key may write the same value.
            (None, Some(value)) if operation.function == Function::Write => own.put(value, 0),
            (None, _) => {}
        }
    }
    let (own, ends) = written.by_slot(keys.iter_mut().len());
    let mut room = Room::default();
    let mut start = 0;
    for ((key, keyed), end) in keys.iter_mut().zip(ends) {
        if let Some(gathering) = keyed.gathering.take() {
            let own = own[start..end].iter().map(|&place| place as usize);
            let places = &places.of_key(key);
            let decided = register.decide(gathering, &mut written.clusters, own, &mut room, places);
            keyed.sound = decided.is_ok();
        }
        start = end;
    }
    let keys = keys.into_sorted();
    Gathered { keys, census }
}

/// The operations of some keys.
fn operations_of(case: &Case<'_>, keys: impl Iterator<Item = Option<Name>>) -> ByName<Vec<usize>> {
    let mut operations: ByName<Vec<usize>> = ByName::default();
    let mut none = true;
    for key in keys {
        operations.of(key, Vec::new);
        none = false;
    }
    if none {
        return operations;
    }
    for (op, operation) in case.history.operations.iter().enumerate() {
        if is_on_object(operation)
            && let Some(ops) = operations.get_mut(operation.key)
        {
            ops.push(op);
        }
    }
    operations
}

/// What decides a key of which only its own writes raise the mark.
fn plain_register<'a>(case: &Case<'a>) -> Register<'a> {
    Register {
        operations: &case.history.operations,
        stale_token: case.history.names.find("stale-token"),
        empty_list: case.history.values.find(&Value::Array(Vec::new())),
        marks: Marks::ByWrites,
    }
}

/// What ends the exact check of a key; in the order in which equal places are told.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Why {
    Outside(Outside),
    Raised,
    Shared,
}

impl Why {
    /// The reason as a clause.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Outside(outside) => outside.reason(),
            Self::Raised => "a mark was shown that a grant had raised and no write",
            Self::Shared => "a write of another key moved the mark that they share",
        }
    }
}

/// Where a key stops to be what a check decides: events from this index on are not looked at.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Limit {
    index: u64,
    why: Why,
}

/// Where keys show that not only their own writes raise their marks.
#[derive(Debug, Default)]
struct Signs {
    raised: HashMap<Option<Name>, Raised>,
    /// With a mark kept by the lock: the index of the first write that moves it for another key.
    shared: HashMap<Option<Name>, u64>,
    /// A grant may have raised a mark; not so under the register model alone.
    grants_count: bool,
}

impl Signs {
    fn limit(&self, key: Option<Name>) -> Option<Limit> {
        let raised = self.raised.get(&key).map(|raised| Limit {
            index: raised.since,
            why: Why::Raised,
        });
        let shared = self.shared.get(&key).map(|&index| Limit {
            index,
            why: Why::Shared,
        });
        raised.into_iter().chain(shared).min()
    }

    /// The first mark after the first sign that nothing explains, if it was told before `until`.
    fn unfounded(&self, case: &Case<'_>, key: Option<Name>, until: u64) -> Option<Violation> {
        let op = self.raised.get(&key)?.unfounded?;
        let told = case.operation(op).returned()?.index;
        (told < until).then(|| Violation::plain(Kind::Unfounded, [op]))
    }
}

fn judge(
    case: &Case<'_>,
    gathered: Gathered,
    explained: &HashSet<Option<Name>>,
    signs: &Signs,
) -> (Vec<Draft>, Exact) {
    let mut drafts = Vec::new();
    let mut limits = Vec::new();
    let mut judged = 0;
    // A no is asked for again below, with its reasons.
    let holds = |key: Option<Name>, keyed: &Keyed| keyed.sound && signs.limit(key).is_none();
    let doubtful = gathered
        .keys
        .iter()
        .filter(|(key, keyed)| !holds(*key, keyed));
    let mut operations = operations_of(case, doubtful.map(|&(key, _)| key));
    for (key, keyed) in gathered.keys {
        let mut sign = signs.limit(key);
        let outside = keyed.outside;
        if !holds(key, &keyed) {
            let ops = operations.get_mut(key).map(std::mem::take);
            let ops = ops.unwrap_or_default();
            let keyed = KeyedOps { key, ops };
            let mut violation = keyed.violation(case, signs, outside, sign);
            // Where grants count, what the register forbids may be what a grant has done.
            if let (Some(_), true) = (&violation, signs.grants_count)
                && let Some(index) = first_doubt(case, &keyed.ops)
                && sign.is_none_or(|sign| index < sign.index)
            {
                let why = Why::Raised;
                let doubt = Some(Limit { index, why });
                violation = keyed.violation(case, signs, outside, doubt);
                if violation.is_none() {
                    sign = doubt;
                }
            }
            let violation = violation.filter(|_| !explained.contains(&key));
            drafts.extend(violation.map(|violation| describe(case, key, violation)));
        }
        match outside.into_iter().chain(sign).min() {
            Some(limit) => limits.push((key, limit)),
            None => judged += 1,
        }
    }
    let not_judged = say_not_judged(case, &limits);
    (drafts, Exact { judged, not_judged })
}

/// A key's operations.
struct KeyedOps {
    key: Option<Name>,
    ops: Vec<usize>,
}

impl KeyedOps {
    /// The first of the three checks that says no. `sign`: from where on others may have raised the mark.
    fn violation(
        &self,
        case: &Case<'_>,
        signs: &Signs,
        outside: Option<Limit>,
        sign: Option<Limit>,
    ) -> Option<Violation> {
        let of_register = outside.map_or(u64::MAX, |limit| limit.index);
        let of_model = sign.map_or(u64::MAX, |limit| limit.index).min(of_register);
        check_before(case, &self.ops, of_model, Marks::ByWrites)
            .or_else(|| {
                let after_sign = (of_model < of_register).then_some(Marks::ByOthersToo)?;
                check_before(case, &self.ops, of_register, after_sign)
                    .or_else(|| signs.unfounded(case, self.key, of_register))
            })
            .or_else(|| {
                // Where the exact check went to the end it has asked this too.
                (of_model < u64::MAX).then(|| certain_violation(case, &self.ops))?
            })
    }
}

/// What the events before `until` prove about one key, shrunk to a small witness.
fn check_before(case: &Case<'_>, ops: &[usize], until: u64, marks: Marks) -> Option<Violation> {
    let stale_token = case.history.names.find("stale-token");
    let empty_list = case.history.values.find(&Value::Array(Vec::new()));
    let check = |operations: &[Operation], ops: &[usize]| {
        let register = Register {
            operations,
            stale_token,
            empty_list,
            marks,
        };
        let violation = register.check(ops).err()?;
        Some(witness::shrink(&register, ops, violation))
    };
    let operations = &case.history.operations;
    if until == u64::MAX {
        return check(operations, ops);
    }
    let sent = ops.partition_point(|&op| operations[op].invoked.index < until);
    let seen: Vec<Operation> = ops[..sent]
        .iter()
        .map(|&op| as_of(&operations[op], until))
        .collect();
    let places: Vec<usize> = (0..sent).collect();
    let violation = check(&seen, &places)?;
    Some(Violation {
        ops: violation.ops.iter().map(|&place| ops[place]).collect(),
        ..violation
    })
}

/// The operation as it stands in the file up to `until`: an answer that comes later is not known yet.
fn as_of(operation: &Operation, until: u64) -> Operation {
    let mut seen = *operation;
    if seen.completed.is_some_and(|at| at.index >= until) {
        seen.completed = None;
        seen.outcome = Outcome::Unknown;
    }
    seen
}

/// With a mark kept by the lock: for each key from which write of another key on its mark is no longer its own.
fn shared_from(case: &Case<'_>) -> HashMap<Option<Name>, u64> {
    let mut shared = HashMap::new();
    if case.mark_scope == MarkScope::Key {
        return shared;
    }
    let mut by_lock: HashMap<Option<Name>, Writers> = HashMap::new();
    let mut all = Writers::default();
    for operation in &case.history.operations {
        if !Case::is_fenced_write(operation) {
            continue;
        }
        let index = operation.invoked.index;
        let named = operation.lock.or_else(|| case.first_lock(operation.key));
        if named != case.first_lock(operation.key) {
            shared.entry(operation.key).or_insert(index);
        }
        by_lock.entry(named).or_default().note(operation.key, index);
        all.note(operation.key, index);
    }
    let keys: HashSet<Option<Name>> = case.history.operations.iter().map(|op| op.key).collect();
    for key in keys {
        let lock = case.first_lock(key);
        // A key of which no lock is known may be anybody's, and a write that names no lock may move any mark.
        let disturbing = match lock {
            Some(_) => [by_lock.get(&lock), by_lock.get(&None)],
            None => [Some(&all), None],
        };
        let first = disturbing
            .into_iter()
            .flatten()
            .filter_map(|writers| writers.but(key));
        if let Some(index) = first.min() {
            let known = shared.entry(key).or_insert(index);
            *known = index.min(*known);
        }
    }
    shared
}

/// One sentence a key, for the first few.
fn say_not_judged(case: &Case<'_>, limits: &[(Option<Name>, Limit)]) -> Vec<String> {
    let say = |&(key, limit): &(Option<Name>, Limit)| {
        let key = key.map_or_else(
            || "the register without a key".to_owned(),
            |key| format!("key {}", case.text(key)),
        );
        format!(
            "{key} is judged exactly only before event {}, where {}",
            limit.index,
            limit.why.reason()
        )
    };
    let mut sentences: Vec<String> = limits.iter().take(NAMED).map(say).collect();
    if limits.len() > NAMED {
        sentences.push(format!(
            "{} more keys are not judged exactly to the end",
            limits.len() - NAMED
        ));
    }
    sentences
}

fn describe(case: &Case<'_>, key: Option<Name>, violation: Violation) -> Draft {
    let operations = violation.ops.iter().map(|&op| case.operation(op));
    let lock = operations
        .clone()
        .find_map(|operation| case.lock(operation));
    let shown = violation.ops.len().min(4 * MOST);
    let scenes = operations.take(shown).map(Scene::Happened).collect();
    let mut ending = ending(violation.kind).to_owned();
    if shown < violation.ops.len() {
        ending = format!(
            "({} more operations belong to this.)\n{ending}",
            violation.ops.len() - shown
        );
    }
    let story = story::tell(case.history, scenes, &ending);
    Draft::new(NOT_LINEARIZABLE, 1, violation.ops, story).on(lock, key)
}

fn ending(kind: Kind) -> &'static str {
    match kind {
        Kind::NeverWritten => "That is wrong: nobody wrote the value that was read.",
        Kind::FailedWriteRead => {
            "That is wrong: the write was answered with a definite no, yet its value was read."
        }
        Kind::ReadBeforeWrite => "That is wrong: the value was read before its write was sent.",
        Kind::OtherMark => {
            "That is wrong: the reported high water is not the token under which the value that was read was written."
        }
        Kind::MarkNotAbove => {
            "That is wrong: a refusal must name a high water above the token that it refuses."
        }
        Kind::WithinEpoch => {
            "That is wrong: of two values under one token, each had to be there before the other was gone; no order of atomic steps does that."
        }
        Kind::AcrossEpochs => {
            "That is wrong: something under the higher token was over before something under the lower one was sent, so the high water fell."
        }
        Kind::Unexplained => {
            "That is wrong: no write that could have raised the high water was in before the refusal was answered."
        }
        Kind::MarkFell => {
            "That is wrong: a high water had been shown before something below it was sent, and a high water never falls."
        }
        Kind::Unfounded => {
            "That is wrong: neither a write nor a grant that could have raised the high water was in before it was shown."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    type Found = Vec<Vec<u64>>;

    fn findings(scenario: &Scenario) -> (Found, Exact) {
        let history = scenario.history();
        let case = Case::new(&history);
        let raised = super::super::raises::raises(&case).keys;
        let (drafts, exact) = broken_keys(&case, gather(&case), &raised, &HashSet::new());
        (
            drafts
                .into_iter()
                .map(|d| super::super::events(&case, &d.witness))
                .collect(),
            exact,
        )
    }

    #[test]
    fn a_value_that_comes_back_under_one_token_is_not_linearizable() {
        let mut s = Scenario::new();
        s.read("c3", "k", None, None);
        let first = s.write("c1", "L", "k", 5, "a");
        s.read("c3", "k", Some("a"), Some(5));
        let second = s.write("c1", "L", "k", 5, "b");
        let again = s.read("c3", "k", Some("a"), Some(5));
        s.read("c3", "k", Some("b"), Some(5));
        let (found, exact) = findings(&s);
        assert_eq!(found, [[first, second, again].concat()]);
        assert_eq!(
            exact,
            Exact {
                judged: 1,
                not_judged: vec![]
            }
        );
    }

    #[test]
    fn a_slow_write_may_land_between_two_reads() {
        let mut s = Scenario::new();
        let slow = s.write_call("c1", "L", "k", 5, "b");
        s.write("c1", "L", "k", 5, "a");
        s.read("c3", "k", Some("a"), Some(5));
        s.read("c3", "k", Some("b"), Some(5));
        s.ok(slow);
        assert_eq!(findings(&s).0, Found::new());
    }

    #[test]
    fn a_refusal_for_which_nothing_higher_was_in_yet_is_not_linearizable() {
        let mut s = Scenario::new();
        s.write("c1", "L", "k", 5, "a");
        let refused = s.refused("c1", "L", "k", 5, "b", Some(6));
        s.write("c2", "L", "k", 6, "c");
        assert_eq!(findings(&s).0, [refused.to_vec()]);
    }

    #[test]
    fn a_refusal_may_rest_on_a_write_that_nobody_saw() {
        let mut s = Scenario::new();
        let lost = s.write_call("c2", "L", "k", 6, "c");
        s.info(lost);
        s.refused("c1", "L", "k", 5, "b", Some(6));
        assert_eq!(findings(&s).0, Found::new());
    }

    #[test]
    fn where_grants_raise_the_mark_the_register_alone_is_not_judged() {
        let mut s = Scenario::new();
        s.grant("c2", "L", 6);
        s.refused("c1", "L", "k", 5, "b", Some(6));
        let (found, exact) = findings(&s);
        assert_eq!(found, Found::new());
        assert_eq!((exact.judged, exact.not_judged.len()), (0, 1));
    }

    #[test]
    fn keys_outside_the_class_are_named_and_not_flagged() {
        let mut s = Scenario::new();
        s.write("c1", "L", "twice", 5, "a");
        s.write("c1", "L", "twice", 6, "a");
        s.read("c3", "twice", Some("a"), None);
        let bare = s.call("c1", "write", Some("L"), |event| {
            event.key = Some("bare".to_owned())
        });
        s.ok(bare);
        let (found, exact) = findings(&s);
        assert_eq!(found, Found::new());
        assert_eq!(
            exact.not_judged,
            [
                "key twice is judged exactly only before event 2, where a value was written a second time",
                "key bare is judged exactly only before event 6, where a write without a token was sent",
            ]
        );
    }

    #[test]
    fn a_granted_mark_is_no_lie_while_a_write_of_it_is_on_its_way_or_was_answered_no() {
        // The grant had raised the mark, and the value of the lower token was still there.
        let mut s = Scenario::new();
        s.write("c1", "L", "k", 5, "a");
        s.grant("c2", "L", 6);
        let on_its_way = s.write_call("c2", "L", "k", 6, "b");
        s.refused("c1", "L", "k", 5, "c", Some(6));
        s.read("c3", "k", Some("a"), Some(6));
        s.ok(on_its_way);
        s.read("c3", "k", Some("b"), Some(6));
        let (found, exact) = findings(&s);
        assert_eq!((found, exact.not_judged.len()), (Found::new(), 1));
        let mut s = Scenario::new();
        s.write("c1", "L", "k", 5, "a");
        s.grant("c2", "L", 6);
        let no = s.write_call("c2", "L", "k", 6, "b");
        s.end(no, crate::history::Type::Fail, |event| {
            event.error = Some("disk full".to_owned());
        });
        s.refused("c1", "L", "k", 5, "c", Some(6));
        s.refused("c1", "L", "k", 5, "d", None);
        s.read("c3", "k", Some("a"), None);
        assert_eq!(findings(&s).0, Found::new());
        // Without the grant nothing but the write can have raised it.
        let mut s = Scenario::new();
        s.write("c1", "L", "k", 5, "a");
        let on_its_way = s.write_call("c2", "L", "k", 6, "b");
        s.read("c3", "k", Some("a"), Some(6));
        s.ok(on_its_way);
        assert_eq!(findings(&s).0.len(), 1);
    }

    #[test]
    fn a_mark_kept_by_the_lock_is_not_judged_key_by_key() {
        let mut s = Scenario::new();
        s.mark_by_lock();
        s.write("c2", "L", "k1", 6, "a");
        s.refused("c1", "L", "k2", 5, "b", Some(6));
        let (found, exact) = findings(&s);
        assert_eq!((found, exact.judged), (Found::new(), 0));
    }

    #[test]
    fn a_sign_on_one_key_silences_neither_another_nor_what_stood_before_it() {
        let mut s = Scenario::new();
        s.write("c1", "L", "k", 1, "a");
        s.write("c1", "L", "k", 1, "b");
        s.read("c3", "k", Some("a"), Some(1));
        let (before, _) = findings(&s);
        assert_eq!(before.len(), 1);
        s.grant("c2", "L", 2);
        s.grant("c2", "M", 5);
        s.read("c3", "k", Some("b"), Some(2));
        s.refused("c4", "M", "other", 4, "x", Some(5));
        let (found, exact) = findings(&s);
        assert_eq!(found, before);
        assert_eq!((exact.judged, exact.not_judged.len()), (0, 2));
    }

    #[test]
    fn where_others_raise_the_mark_it_still_never_falls_and_values_never_go_back() {
        let raised = || {
            let mut s = Scenario::new();
            s.write("c1", "L", "k", 5, "a");
            s.grant("c2", "L", 6);
            s.read("c3", "k", Some("a"), Some(6));
            s
        };
        let mut s = raised();
        s.write("c2", "L", "k", 6, "b");
        s.read("c3", "k", Some("b"), Some(6));
        assert_eq!(findings(&s).0, Found::new());
        let back = s.read("c3", "k", Some("a"), Some(6));
        let (found, _) = findings(&s);
        assert!(found.len() == 1 && found[0].ends_with(&back), "{found:?}");
        let mut s = raised();
        let fallen = s.read("c3", "k", Some("a"), Some(5));
        let (found, _) = findings(&s);
        assert!(found.len() == 1 && found[0].ends_with(&fallen), "{found:?}");
        let mut s = raised();
        let stray = s.read("c3", "k", Some("a"), Some(987_654_321));
        assert_eq!(findings(&s).0, [stray.to_vec()]);
    }

    #[test]
    fn a_stray_mark_is_a_finding_even_beside_a_lost_acquire() {
        let mut s = Scenario::new();
        let lost = s.acquire_call("c3", "L");
        s.info(lost);
        s.grant("c4", "L", 5);
        let refused = s.refused("c4", "L", "k", 5, "x", Some(987_654_321));
        assert_eq!(findings(&s).0, [refused.to_vec()]);
    }

    #[test]
    fn a_refusal_that_names_its_own_token_is_a_finding_on_any_key() {
        let mut s = Scenario::new();
        s.grant("c1", "L", 5);
        let own = s.refused("c1", "L", "k", 5, "a", Some(5));
        assert_eq!(findings(&s).0, [own.to_vec()]);
        let mut s = Scenario::new();
        let call = |s: &mut Scenario| {
            s.call("c1", "append", Some("L"), |event| {
                event.key = Some("log".to_owned());
                event.token = Some(5u64.into());
                event.value = Some("a".into());
            })
        };
        let first = call(&mut s);
        s.ok(first);
        let second = call(&mut s);
        let own = s.refuse(second, Some(4));
        assert_eq!(findings(&s).0, [own.to_vec()]);
    }

    #[test]
    fn a_read_of_a_failed_write_is_a_finding_even_where_values_are_written_twice() {
        let mut s = Scenario::new();
        s.write("c1", "L", "k", 5, "a");
        s.write("c1", "L", "k", 5, "a");
        let no = s.write_call("c1", "L", "k", 5, "b");
        let no = s.end(no, crate::history::Type::Fail, |event| {
            event.error = Some("disk full".to_owned());
        });
        let read = s.read("c2", "k", Some("b"), None);
        assert_eq!(findings(&s).0, [[no, read].concat()]);
        // Somebody else may have written it as well.
        let mut s = Scenario::new();
        s.write("c1", "L", "k", 5, "a");
        s.write("c1", "L", "k", 5, "a");
        s.refused("c1", "L", "k", 4, "b", Some(5));
        let lost = s.write_call("c2", "L", "k", 5, "b");
        s.info(lost);
        s.read("c2", "k", Some("b"), None);
        assert_eq!(findings(&s).0, Found::new());
    }

    #[test]
    fn a_value_that_nobody_sent_is_a_finding_whatever_else_was_written() {
        let seeded = || {
            let mut s = Scenario::new();
            let bare = s.call("admin", "write", Some("L"), |event| {
                event.key = Some("k".to_owned());
                event.value = Some("seed".into());
            });
            s.ok(bare);
            s.write("c1", "L", "k", 5, "a");
            s.write("c1", "L", "k", 5, "a");
            s
        };
        let mut s = seeded();
        let stray = s.read("c2", "k", Some("zzz"), None);
        assert_eq!(findings(&s).0, [stray.to_vec()]);
        let mut s = seeded();
        s.read("c2", "k", Some("seed"), None);
        s.read("c2", "k", Some("a"), None);
        s.read("c2", "k", None, None);
        assert_eq!(findings(&s).0, Found::new());
        // An append or a compare-and-set may leave a value that the file does not spell out.
        let cas = s.call("c1", "cas", Some("L"), |event| {
            event.key = Some("k".to_owned());
        });
        s.info(cas);
        s.read("c2", "k", Some("zzz"), None);
        assert_eq!(findings(&s).0, Found::new());
    }

    #[test]
    fn what_is_proven_before_a_key_leaves_the_class_stays_proven() {
        let mut s = Scenario::new();
        s.write("c1", "L", "k", 5, "a");
        s.write("c1", "L", "k", 5, "b");
        s.read("c3", "k", Some("a"), Some(5));
        let (before, _) = findings(&s);
        assert_eq!(before.len(), 1);
        s.write("c1", "L", "k", 5, "a");
        assert_eq!(findings(&s).0, before);
    }

    #[test]
    fn of_very_many_keys_that_are_not_judged_the_first_are_named_and_the_others_counted() {
        let mut s = Scenario::new();
        for key in 0..25 {
            let bare = s.call("c1", "write", None, |event| {
                event.key = Some(format!("k{key}"));
            });
            s.ok(bare);
        }
        let (_, exact) = findings(&s);
        assert_eq!(exact.not_judged.len(), 21);
        assert_eq!(
            exact.not_judged[20],
            "5 more keys are not judged exactly to the end"
        );
    }
}
