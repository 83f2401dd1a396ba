//! `not-linearizable`: the exact decision of each key's register, where it applies.
//!
//! Under the fencing rules it speaks only about keys that no other finding explains, and only about systems that
//! raise a high water by writes alone: where a grant or a fenced read raises it too, or where the lock keeps the
//! mark for several keys, one key's operations do not tell the whole story. What was not judged is said.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::case::Case;
use super::register::{Kind, Outside, Register, Violation, outside};
use super::story::{self, MOST, Scene};
use super::{Draft, NOT_LINEARIZABLE, witness};
use crate::history::{Function, MarkScope, Name, Operation, Outcome, Token};

/// How far the exact check reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Exact {
    /// Keys that were decided.
    pub judged: u64,
    /// Why others were not, one sentence each.
    pub not_judged: Vec<String>,
}

type Keys = BTreeMap<Option<Name>, Vec<usize>>;

/// For the fencing rules. `explained` are the keys that another finding is about.
pub(crate) fn broken_keys(
    case: &Case<'_>,
    explained: &HashSet<Option<Name>>,
) -> (Vec<Draft>, Exact) {
    let keys = keys(case);
    if marks_move_without_writes(case) {
        let reason =
            "a high water rose without a write of that key, so the exact check does not apply"
                .to_owned();
        return (
            Vec::new(),
            Exact {
                judged: 0,
                not_judged: vec![reason],
            },
        );
    }
    let shared = keys_of_shared_marks(case);
    let alone = keys
        .into_iter()
        .filter(|(key, _)| !shared.contains(key))
        .collect();
    let (drafts, mut exact) = judge(case, alone, explained);
    if !shared.is_empty() {
        exact.not_judged.push(sentence(
            case,
            "a high water shared with other keys of the lock",
            &Vec::from_iter(shared),
        ));
    }
    (drafts, exact)
}

/// For the register model alone: every key that is a register is decided.
pub(crate) fn broken_registers(case: &Case<'_>) -> (Vec<Draft>, Exact) {
    judge(case, keys(case), &HashSet::new())
}

/// Operations by key. Those without a key are about one nameless object.
fn keys(case: &Case<'_>) -> Keys {
    let mut keys = Keys::new();
    for (op, operation) in case.history.operations.iter().enumerate() {
        let on_object = match operation.function {
            Function::Acquire | Function::Renew | Function::Release => false,
            Function::Write | Function::Append | Function::Read | Function::Cas => true,
            Function::Other(_) => operation.key.is_some(),
        };
        if on_object {
            keys.entry(operation.key).or_default().push(op);
        }
    }
    keys
}

fn judge(case: &Case<'_>, keys: Keys, explained: &HashSet<Option<Name>>) -> (Vec<Draft>, Exact) {
    let register = Register {
        operations: &case.history.operations,
        stale_token: case.history.names.find("stale-token"),
    };
    let mut drafts = Vec::new();
    let mut not_judged: BTreeMap<Outside, Vec<Option<Name>>> = BTreeMap::new();
    let mut judged = 0;
    for (key, ops) in keys {
        if let Some(reason) = outside(register.operations, &ops) {
            not_judged.entry(reason).or_default().push(key);
            continue;
        }
        judged += 1;
        if explained.contains(&key) {
            continue;
        }
        if let Err(violation) = register.check(&ops) {
            drafts.push(describe(
                case,
                key,
                witness::shrink(&register, &ops, violation),
            ));
        }
    }
    let not_judged = not_judged
        .iter()
        .map(|(reason, keys)| sentence(case, reason.reason(), keys))
        .collect();
    (drafts, Exact { judged, not_judged })
}

fn sentence(case: &Case<'_>, reason: &str, keys: &[Option<Name>]) -> String {
    let mut named: Vec<&str> = keys
        .iter()
        .map(|key| key.map_or("(unnamed)", |key| case.text(key)))
        .collect();
    let more = named.len().saturating_sub(MOST);
    named.truncate(MOST);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!(
        "the exact check does not decide keys with {reason}: {}{more}",
        named.join(", ")
    )
}

/// With a mark kept by the lock, keys that do not have it for themselves.
fn keys_of_shared_marks(case: &Case<'_>) -> BTreeSet<Option<Name>> {
    let mut shared = BTreeSet::new();
    if case.mark_scope == MarkScope::Key {
        return shared;
    }
    let mut by_lock: HashMap<Name, BTreeSet<Option<Name>>> = HashMap::new();
    for operation in case
        .history
        .operations
        .iter()
        .filter(|operation| operation.key.is_some())
    {
        if let Some(lock) = case.lock(operation) {
            by_lock.entry(lock).or_default().insert(operation.key);
        }
    }
    shared.extend(
        by_lock
            .into_values()
            .filter(|keys| keys.len() > 1)
            .flatten(),
    );
    shared
}

/// What may have raised marks, as far as the sweep has come.
#[derive(Debug, Default)]
struct Raised {
    /// Tokens presented on a key.
    presented: HashMap<Option<Name>, BTreeSet<Token>>,
    /// Tokens whose write of a key was acknowledged.
    acknowledged: HashSet<(Option<Name>, Token)>,
    /// Tokens granted, or presented on any key, under a lock.
    known: HashMap<Name, BTreeSet<Token>>,
    /// Locks with an acquire whose answer nobody knows.
    uncertain: HashSet<Name>,
}

/// The file shows a high water that no write of its key can have raised, but a grant or another key's write can:
/// this system raises marks by other means (recovery, fenced reads), and the register alone is not its model.
fn marks_move_without_writes(case: &Case<'_>) -> bool {
    let mut raised = Raised::default();
    case.moments.iter().any(|moment| {
        let operation = case.operation(moment.op);
        if moment.returns {
            raised.shows_other_means(case, operation)
        } else {
            raised.note_call(case, operation)
        }
    })
}

impl Raised {
    fn note_call(&mut self, case: &Case<'_>, operation: &Operation) -> bool {
        let lock = case.lock(operation);
        match (lock, operation.function) {
            (Some(lock), Function::Acquire) if operation.outcome == Outcome::Unknown => {
                self.uncertain.insert(lock);
            }
            (Some(lock), Function::Acquire | Function::Renew)
                if operation.outcome == Outcome::Ok =>
            {
                self.known.entry(lock).or_default().extend(operation.token);
            }
            _ if Case::is_fenced_write(operation) && operation.outcome != Outcome::Failed => {
                self.presented
                    .entry(operation.key)
                    .or_default()
                    .extend(operation.token);
                if let Some(lock) = lock {
                    self.known.entry(lock).or_default().extend(operation.token);
                }
            }
            _ => {}
        }
        false
    }

    fn shows_other_means(&mut self, case: &Case<'_>, operation: &Operation) -> bool {
        if case.is_refusal(operation) {
            return match operation.high_water {
                Some(mark) => {
                    !self.presented_on(operation, mark)
                        && self.known_under(case, operation, mark, mark)
                }
                None => {
                    let Some(token) = operation.token else {
                        return false;
                    };
                    let Some(above) = Token::new(token.value() + 1) else {
                        return false;
                    };
                    let presented = self.presented.get(&operation.key);
                    presented.is_none_or(|tokens| tokens.range(above..).next().is_none())
                        && self.known_under(case, operation, above, Token::MAX)
                }
            };
        }
        if operation.function == Function::Read && operation.outcome == Outcome::Ok {
            let seen = case
                .write_seen_by(operation)
                .and_then(|write| case.operation(write).token);
            let (Some(mark), Some(_)) = (operation.high_water, &operation.value) else {
                return false;
            };
            return mark > seen.unwrap_or(Token::ZERO)
                && !self.acknowledged.contains(&(operation.key, mark))
                && self.known_under(case, operation, mark, mark);
        }
        if let (true, Outcome::Ok, Some(token)) = (
            Case::is_fenced_write(operation),
            operation.outcome,
            operation.token,
        ) {
            self.acknowledged.insert((operation.key, token));
        }
        false
    }

    fn presented_on(&self, operation: &Operation, mark: Token) -> bool {
        self.presented
            .get(&operation.key)
            .is_some_and(|tokens| tokens.contains(&mark))
    }

    fn known_under(&self, case: &Case<'_>, operation: &Operation, from: Token, to: Token) -> bool {
        case.lock(operation).is_some_and(|lock| {
            self.uncertain.contains(&lock)
                || self
                    .known
                    .get(&lock)
                    .is_some_and(|tokens| tokens.range(from..=to).next().is_some())
        })
    }
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
        let (drafts, exact) = broken_keys(&case, &HashSet::new());
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
    fn keys_outside_the_class_are_named_and_never_flagged() {
        let mut s = Scenario::new();
        s.write("c1", "L", "twice", 5, "a");
        s.write("c1", "L", "twice", 6, "a");
        s.read("c3", "twice", Some("zzz"), None);
        let bare = s.call("c1", "write", Some("L"), |event| {
            event.key = Some("bare".to_owned())
        });
        s.ok(bare);
        let (found, exact) = findings(&s);
        assert_eq!(found, Found::new());
        assert_eq!(
            exact.not_judged,
            [
                "the exact check does not decide keys with writes without a token: bare",
                "the exact check does not decide keys with values written twice: twice",
            ]
        );
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
}
