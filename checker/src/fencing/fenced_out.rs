//! `fenced-out`: the fence keeps the rightful holder out, and does so to the end.
//!
//! With no fault in force, at least 3 distinct tokens in a row are refused on a key, each that of the newest grant when
//! its refusal came, with nothing higher presented since that grant was asked for; and none is accepted after the first
//! of them was sent, up to the end of the file. Or the last 3 acquires of a lock are answered `token-exhausted`.
//!
//! Source: <https://github.com/etcd-io/etcd/issues/16028>: a restore rewound the issuer and not the resource, so that
//! every new holder was refused; a commit far in the future that blocks all present ones
//! (<https://github.com/apache/hudi/issues/5843>).
//!
//! It fires on: mark 900; granted and refused 412, 413, 414. It is silent where a later token is accepted, and where
//! those refused are zombies: somebody else had been granted since.
//!
//! Where a key shows that grants raise its mark, an acquire without an answer may have raised it too: then a refusal
//! counts only if none was open.
//!
//! What the file proves here can be taken back by what comes later: a token that is accepted.
//!
//! State, for each lock: the newest grant, the number of open acquires. For each mark: the tokens presented, as a stack
//! from the highest to the newest. For each key and path: its row of refusals.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::case::Case;
use super::kinds::Kind;
use super::raises::Raised;
use super::story::{self, MOST, Scene};
use super::{Draft, FENCED_OUT, Place, TOKEN_OVERFLOW, TOKEN_REGRESSION};
use crate::history::{Function, Name, Outcome, Token};

/// How many tokens in a row, or acquires at the end, it takes.
const ENOUGH: usize = 3;

#[derive(Clone, Copy, Debug, Default)]
struct Issued {
    newest: Option<usize>,
    /// It was asked for after every grant before it was known.
    clear: bool,
    last_return: Option<u64>,
    /// Acquires that are sent and not answered, but for those that are going to be refused.
    open: u64,
}

/// A refusal of the newest token, with the grant.
#[derive(Clone, Copy, Debug)]
struct Shut {
    refusal: usize,
    grant: usize,
}

/// Tokens presented: falling, each with its last write, which is later than that of the one before.
#[derive(Clone, Debug, Default)]
struct Presented {
    falling: Vec<(Token, usize)>,
    /// The highest of all, with the first write of it.
    highest: Option<(Token, usize)>,
}

impl Presented {
    fn note(&mut self, token: Token, write: usize) {
        while self.falling.last().is_some_and(|&(last, _)| last <= token) {
            self.falling.pop();
        }
        self.falling.push((token, write));
        if self.highest.is_none_or(|(highest, _)| highest < token) {
            self.highest = Some((token, write));
        }
    }

    /// The highest token that was presented after `write`'s place.
    fn since(&self, place: usize) -> Option<Token> {
        let from = self.falling.partition_point(|&(_, write)| write < place);
        self.falling.get(from).map(|&(token, _)| token)
    }
}

/// One finding a key, and one a lock whose tokens are used up. O(n log n).
pub(crate) fn fenced_out(case: &Case<'_>, raised: &HashMap<Option<Name>, Raised>) -> Vec<Draft> {
    let mut drafts = exhausted(case);
    if case.has(Kind::REFUSAL) {
        drafts.extend(shut_out(case, raised));
    }
    drafts
}

fn shut_out(case: &Case<'_>, raised: &HashMap<Option<Name>, Raised>) -> Vec<Draft> {
    let mut issued = vec![Issued::default(); case.history.names.count()];
    let mut presented = vec![Presented::default(); case.scopes];
    let mut rows: Vec<Vec<Shut>> = vec![Vec::new(); case.objects];
    for moment in case.walk(Kind::ACQUIRE.or(Kind::WRITE)) {
        let op = moment.op;
        let operation = case.operation(op);
        let spot = case.spots[op];
        let row = &mut rows[spot.object as usize];
        match operation.function {
            Function::Acquire => {
                let Some(lock) = case.lock_place(op) else {
                    continue;
                };
                let issued = &mut issued[lock];
                if operation.outcome == Outcome::Failed {
                    continue;
                }
                if !moment.returns {
                    issued.open += 1;
                    continue;
                }
                issued.open -= 1;
                let (Some(returned), true) = (operation.returned(), Case::is_grant(operation))
                else {
                    continue;
                };
                issued.clear = issued
                    .last_return
                    .is_none_or(|last| last < operation.invoked.index);
                issued.last_return = Some(returned.index);
                issued.newest = Some(op);
            }
            Function::Write | Function::Append | Function::Cas => {
                let taken = match operation.outcome {
                    Outcome::Ok => moment.returns,
                    Outcome::Unknown => case.first_read_of(op).is_some(),
                    Outcome::Failed => false,
                };
                if taken {
                    row.clear();
                }
                let Some(token) = operation.token else {
                    continue;
                };
                let presented = &mut presented[spot.scope as usize];
                if !moment.returns {
                    presented.note(token, op);
                    continue;
                }
                let Some(lock) = case.lock_place(op).filter(|_| case.is_refusal(operation)) else {
                    continue;
                };
                let issued = issued[lock];
                let Some(grant) = issued.newest.filter(|_| issued.clear) else {
                    continue;
                };
                let rightful = case.operation(grant).token == Some(token)
                    && presented.since(grant).is_none_or(|since| since <= token)
                    && (issued.open == 0 || !raised.contains_key(&operation.key));
                if rightful && !is_disturbed(case, op) {
                    row.push(Shut { refusal: op, grant });
                }
            }
            _ => {}
        }
    }
    let mut keys: BTreeMap<Place, Draft> = BTreeMap::new();
    for row in rows {
        let Some(first) = row.first() else { continue };
        let operation = case.operation(first.refusal);
        let place = (case.lock(operation), operation.key);
        let distinct = distinct(case, &row);
        if distinct.len() >= ENOUGH {
            let scope = case.spots[first.refusal].scope as usize;
            let draft = describe(case, row.len() as u64, &distinct, &presented[scope]);
            keys.entry(place)
                .or_insert_with(|| draft.on(place.0, place.1));
        }
    }
    keys.into_values().collect()
}

fn is_disturbed(case: &Case<'_>, op: usize) -> bool {
    let operation = case.operation(op);
    let until = operation.completed.unwrap_or(operation.invoked);
    story::any_fault(case.history, operation.invoked, until, |_| true)
}

/// The first refusal of each token.
fn distinct(case: &Case<'_>, row: &[Shut]) -> Vec<Shut> {
    let mut seen = std::collections::HashSet::new();
    let new = |shut: &&Shut| seen.insert(case.operation(shut.refusal).token);
    row.iter().filter(new).copied().collect()
}

fn describe(case: &Case<'_>, count: u64, distinct: &[Shut], presented: &Presented) -> Draft {
    let shown = &distinct[..ENOUGH];
    let mut witness: Vec<usize> = shown
        .iter()
        .flat_map(|shut| [shut.grant, shut.refusal])
        .collect();
    // Who set the mark, if anybody is known to have.
    let highest = presented.highest;
    let (refused, named) = {
        let first = case.operation(shown[0].refusal);
        (first.token.unwrap_or_default(), first.high_water)
    };
    let culprit = highest.filter(|&(token, write)| {
        token > refused
            && named.is_none_or(|named| named == token)
            && case.operation(write).outcome != Outcome::Failed
    });
    witness.extend(culprit.map(|(_, write)| write));
    let mut scenes: Vec<Scene<'_>> = Vec::new();
    for shut in shown {
        scenes.push(Scene::Granted(case.operation(shut.grant)));
        scenes.push(Scene::RefusedHolder(case.operation(shut.refusal)));
    }
    scenes.extend(culprit.map(|(_, write)| Scene::Happened(case.operation(write))));
    scenes.truncate(4 * MOST);
    let because = match (culprit, named) {
        (Some((token, write)), _) => format!(
            " The high water is token {token}, which {} presented.",
            case.text(case.operation(write).client)
        ),
        (None, Some(named)) => format!(" The high water is {named}."),
        (None, None) => String::new(),
    };
    let ending = format!(
        "That is wrong: each of these was the newest holder, and {count} of their writes were refused, up to the end of the file; nobody can write any more.{because}"
    );
    let story = story::tell(case.history, scenes, &ending);
    let mut draft = Draft::new(FENCED_OUT, count, witness, story);
    draft.causes = vec![TOKEN_REGRESSION.name, TOKEN_OVERFLOW.name];
    draft
}

/// Locks whose last acquires were all answered `token-exhausted`.
fn exhausted(case: &Case<'_>) -> Vec<Draft> {
    let Some(error) = case.history.names.find("token-exhausted") else {
        return Vec::new();
    };
    let mut locks: BTreeMap<Name, Vec<usize>> = BTreeMap::new();
    for (op, operation) in case.of(Kind::ACQUIRE) {
        let (Function::Acquire, Some(lock)) = (operation.function, operation.lock) else {
            continue;
        };
        let row = locks.entry(lock).or_default();
        if operation.outcome == Outcome::Failed && operation.error == Some(error) {
            row.push(op);
        } else {
            row.clear();
        }
    }
    locks
        .into_iter()
        .filter(|(_, row)| row.len() >= ENOUGH)
        .map(|(lock, row)| {
            let witness = row[row.len() - ENOUGH..].to_vec();
            let scenes = witness
                .iter()
                .map(|&op| Scene::Happened(case.operation(op)))
                .collect();
            let ending = format!(
                "That is wrong: the last {} acquires of lock {} found no token left. Nobody can ever be granted it again, or fence out whoever holds it.",
                row.len(),
                case.text(lock)
            );
            let story = story::tell(case.history, scenes, &ending);
            Draft::new(FENCED_OUT, row.len() as u64, witness, story).on(Some(lock), None)
        })
        .collect()
}
