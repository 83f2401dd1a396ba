//! `fresh-write-refused`: a write that nothing stood against was refused.
//!
//! A refusal names a high water that is not above its own token. Or it comes although no write and no grant of a
//! higher token, in what shares the mark, had been sent before it returned, on a key of which the file shows that its
//! mark was not above the token.
//!
//! Source: `external` versions that must be strictly greater, so that the second write of one holder is refused
//! (Elasticsearch's index API); tokens compared as text, where "9" is above "10"
//! (<https://github.com/python-zk/kazoo/issues/730>).
//!
//! It fires on: token 5 is accepted, and token 5 is refused. It is silent where a write of 6 was on its way, whatever
//! became of it, where an acquire of the lock has an unknown outcome (it may have raised the mark), and where the
//! refused value was read (that is `failed-write-applied`).
//!
//! State, for each mark: the highest token presented, the lowest mark that was shown. For each lock: the highest token
//! granted, whether an acquire has an unknown outcome.

use std::collections::BTreeMap;

use hashbrown::HashSet;

use super::case::Case;
use super::kinds::Kind;
use super::resource::taken;
use super::story::{self, Scene};
use super::{Draft, FAILED_WRITE_APPLIED, FRESH_WRITE_REFUSED, Place};
use crate::history::{Datum, Function, MarkScope, Operation, Outcome, Token};

/// What grants say about the tokens that a mark may have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Granted {
    highest: Option<Token>,
    /// An acquire without a certain answer may have been granted anything.
    doubt: bool,
}

impl Granted {
    pub fn note(&mut self, operation: &Operation) {
        match (operation.function, operation.outcome, operation.token) {
            (Function::Acquire | Function::Renew, Outcome::Ok, Some(token)) => {
                self.highest = self.highest.max(Some(token));
            }
            (Function::Acquire, Outcome::Ok, None)
            | (Function::Acquire | Function::Renew, Outcome::Unknown, _) => self.doubt = true,
            _ => {}
        }
    }

    pub fn may_exceed(&self, token: Token) -> bool {
        self.doubt || self.highest > Some(token)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    presented: Option<Token>,
    /// The least mark that was shown, and by which operation.
    shown: Option<(Token, usize)>,
}

impl Mark {
    fn show(&mut self, token: Token, op: usize) {
        if self.shown.is_none_or(|(least, _)| token < least) {
            self.shown = Some((token, op));
        }
    }
}

/// A refusal without a reason, and what shows that the key was fresh.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    refusal: usize,
    shown: Option<usize>,
}

/// One finding a key. `applied` are refused writes whose values were read; `interference` are refusals that another
/// lock's mark explains.
pub(crate) fn fresh_refusals(
    case: &Case<'_>,
    refusals: Vec<Refused>,
    applied: &HashSet<usize>,
    interference: &HashSet<usize>,
) -> Vec<Draft> {
    let mut keys: BTreeMap<Place, (u64, Refused)> = BTreeMap::new();
    for refused in refusals {
        if applied.contains(&refused.refusal) || interference.contains(&refused.refusal) {
            continue;
        }
        let write = case.operation(refused.refusal);
        keys.entry((case.lock(write), write.key))
            .and_modify(|(count, _)| *count += 1)
            .or_insert((1, refused));
    }
    keys.into_iter()
        .map(|((lock, key), (count, first))| describe(case, count, first).on(lock, key))
        .collect()
}

/// Refusals for which the marks of their own scope give no reason. O(n).
pub(crate) fn refusals(case: &Case<'_>) -> Vec<Refused> {
    if !case.has(Kind::REFUSAL) {
        return Vec::new();
    }
    let mut marks = vec![Mark::default(); case.scopes];
    let mut granted = vec![Granted::default(); case.history.names.count()];
    let mut any = Granted::default();
    let mut found = Vec::new();
    for moment in case.walk_ahead(Kind::ACQUIRE.or(Kind::RENEW).or(Kind::WRITE).or(Kind::READ)) {
        if case.kinds[moment.op].is(Kind::READ) && !moment.returns {
            continue;
        }
        let op = moment.op;
        let operation = case.operation(op);
        let scope = case.spots[op].scope as usize;
        match (operation.function, moment.returns) {
            (Function::Acquire | Function::Renew, false) => {
                any.note(operation);
                if let Some(lock) = case.lock_place(op) {
                    granted[lock].note(operation);
                }
            }
            (Function::Write | Function::Append | Function::Cas, false) => {
                let presented = &mut marks[scope].presented;
                *presented = operation.token.max(*presented);
            }
            (Function::Write | Function::Append | Function::Cas, true) => {
                let Some(token) = operation.token else {
                    continue;
                };
                let mark = &mut marks[scope];
                if operation.outcome == Outcome::Ok {
                    mark.show(token, op);
                }
                if !case.is_refusal(operation) {
                    continue;
                }
                let refusal = op;
                if operation.high_water.is_some_and(|named| named <= token) {
                    let shown = None;
                    found.push(Refused { refusal, shown });
                    continue;
                }
                let grants = case.lock_place(op).map_or(any, |lock| granted[lock]);
                if let Some((least, shown)) = mark.shown
                    && least <= token
                    && mark.presented <= Some(token)
                    && !grants.may_exceed(token)
                {
                    let shown = Some(shown);
                    found.push(Refused { refusal, shown });
                }
                if let Some(named) = operation.high_water {
                    mark.show(named, op);
                }
            }
            (Function::Read, true) if operation.outcome == Outcome::Ok => {
                let nothing = operation.value == Some(Datum::NULL)
                    && case.mark_scope == MarkScope::Key
                    && operation.high_water.is_none();
                let told = operation.high_water.or(nothing.then_some(Token::ZERO));
                if let Some(told) = told {
                    marks[scope].show(told, op);
                }
            }
            _ => {}
        }
    }
    found
}

fn describe(case: &Case<'_>, count: u64, refused: Refused) -> Draft {
    let write = case.operation(refused.refusal);
    let token = write.token.unwrap_or_default();
    let mut witness: Vec<usize> = refused
        .shown
        .into_iter()
        .flat_map(|shown| taken(case, shown))
        .collect();
    witness.push(refused.refusal);
    let mut scenes: Vec<Scene<'_>> = witness
        .iter()
        .map(|&op| Scene::Happened(case.operation(op)))
        .collect();
    let own = case
        .grants_before(case.lock(write), write.token, write)
        .rfind(|grant| grant.client == write.client);
    scenes.extend(own.map(Scene::Granted));
    let mut ending = match (refused.shown, write.high_water) {
        (None, Some(named)) => format!(
            "That is wrong: the refusal itself names high water {named}, which is not above {token}. A token that is not below the high water has to be accepted."
        ),
        _ => format!(
            "That is wrong: nothing above token {token} had been presented or granted before the refusal returned, so there was no reason for it."
        ),
    };
    if count > 1 {
        ending += &format!("\n{count} such refusals were seen on this key in all.");
    }
    let story = story::tell(case.history, scenes, &ending);
    let mut draft = Draft::new(FRESH_WRITE_REFUSED, count, witness, story);
    draft.causes = vec![FAILED_WRITE_APPLIED.name];
    draft
}
