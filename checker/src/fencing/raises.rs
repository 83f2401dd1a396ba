//! Marks that other things than a key's own writes raised, as far as the file shows it.
//!
//! The model of a fenced resource is that a high water rises by accepted writes and by nothing else. Some systems raise
//! it otherwise as well: a new holder fences with a read, a recovery writes the mark alone, the lock service tells the
//! resource of each grant. For those, a refusal without a write behind it is right. So a key is taken for one of them,
//! from there on and it alone, once it gives a *definite sign*:
//!
//! - a read or a refusal reports a mark that no write of the key, whatever its answer, has presented, and that was
//!   granted: an acquire answers `ok` with that token and was sent before the report came in;
//! - or a refusal names no mark, no write of the key, whatever its answer, has presented a higher token, and a higher
//!   one was granted so.
//!
//! An acquire whose answer nobody knows may have been granted a token too, but it must not excuse whatever a resource
//! makes up. It explains one mark, once. The mark must be above all grants that were known when it was sent, be granted
//! to nobody else, and lie among the tokens that were granted or presented under the lock so far, or go on where they
//! end: by one step for each acquire that was sent and not answered, a step being the widest that was seen between two
//! grants. It explains no refusal that names nothing: else one lost acquire would excuse each. An acquire that is still
//! unanswered where the file ends may be granted any token above: its answer tells, and until then nothing is proven.
//! For a key of which the file does not tell the lock, it may be any.
//!
//! Every mark is judged by what stands before it. So a sign takes back nothing that was proven before it, and a mark
//! that nothing explains is no sign and silences nothing.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};

use super::case::Case;
use super::kinds::Kind;
use crate::history::{Function, Name, Operation, Outcome, Token};

/// What a key shows of marks that were not raised by its writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Raised {
    /// The index of the first definite sign.
    pub since: u64,
    /// The first operation from there on with a mark that neither a write nor a grant explains.
    pub unfounded: Option<usize>,
}

/// What was presented where one high water is kept.
#[derive(Debug, Default)]
struct Presented {
    /// Every token, and whether a write of it may have been accepted.
    tokens: HashMap<Token, bool>,
    /// The highest of them, and of those that may have been accepted.
    highest: Option<Token>,
    accepted: Option<Token>,
    /// The last write: its token, whether it may have been accepted, and its lock.
    last: Option<(Token, bool, Option<Name>)>,
}

/// What was granted under a lock.
#[derive(Debug, Default)]
struct Granted {
    /// Tokens of answered acquires and renewals, from when they were asked for.
    tokens: HashSet<Token>,
    highest: Option<Token>,
    /// The highest token that an answered acquire has told of.
    told: Option<Token>,
    /// The greatest token that was granted or presented.
    seen: Option<Token>,
    /// The widest step between two grants that were told one after the other.
    step: i128,
    /// How many acquires were sent and not answered.
    pending: i128,
    /// How high a token may be that a lost acquire was granted; this never falls.
    reach: i128,
    /// Acquires whose answer was given up.
    lost: Acquires,
    any_lost: bool,
    /// Of acquires that the file leaves unanswered: the least of what was told when each was sent.
    unanswered: Option<Option<Token>>,
    /// Clients and sessions that either are of.
    askers: HashSet<Name>,
    /// Marks that a lost acquire explains.
    explained: HashSet<Token>,
}

/// Acquires that have explained nothing yet, by the highest token that was known when they were sent.
#[derive(Debug, Default)]
struct Acquires(BTreeMap<Option<Token>, u64>);

/// What the marks that were reported show.
#[derive(Debug)]
pub(crate) struct Raises {
    /// Keys that show a definite sign.
    pub keys: HashMap<Option<Name>, Raised>,
    /// Reports of a mark that neither a write nor a grant explains.
    pub unexplained: Vec<usize>,
}

/// Where each reported mark comes from. O(n log n).
pub(crate) fn raises(case: &Case<'_>) -> Raises {
    let mut sweep = Sweep::default();
    sweep.presented.resize_with(case.scopes, Presented::default);
    let asks = Kind::ACQUIRE.or(Kind::RENEW);
    for moment in case.walk_ahead(asks.or(Kind::WRITE).or(Kind::READ)) {
        let kind = case.kinds[moment.op];
        let says_nothing = if moment.returns {
            kind.is(Kind::WRITE) && !kind.is(Kind::REFUSAL)
        } else {
            kind.is(Kind::READ)
        };
        if says_nothing {
            continue;
        }
        let operation = case.operation(moment.op);
        if moment.returns {
            sweep.answer(case, moment.op, operation);
        } else {
            sweep.call(case, moment.op, operation);
        }
    }
    Raises {
        keys: sweep.raised,
        unexplained: sweep.unexplained,
    }
}

#[cfg(test)]
fn raised_keys(case: &Case<'_>) -> HashMap<Option<Name>, Raised> {
    raises(case).keys
}

#[derive(Debug, Default)]
struct Sweep {
    /// For each scope.
    presented: Vec<Presented>,
    granted: BTreeMap<Name, Granted>,
    raised: HashMap<Option<Name>, Raised>,
    unexplained: Vec<usize>,
}

impl Sweep {
    fn call(&mut self, case: &Case<'_>, op: usize, operation: &Operation) {
        if Case::is_fenced_write(operation) {
            let Some(token) = operation.token else { return };
            let accepted = operation.outcome != Outcome::Failed;
            let lock = case.lock(operation);
            let presented = &mut self.presented[case.spots[op].scope as usize];
            // Most writes say what the one before has said.
            let this = Some((token, accepted, lock));
            if std::mem::replace(&mut presented.last, this) == this {
                return;
            }
            *presented.tokens.entry(token).or_insert(false) |= accepted;
            presented.highest = presented.highest.max(Some(token));
            if accepted {
                presented.accepted = presented.accepted.max(Some(token));
            }
            if let Some(lock) = lock {
                self.granted.entry(lock).or_default().see(token);
            }
        }
        if let (Function::Acquire, Some(lock)) = (operation.function, operation.lock) {
            self.granted.entry(lock).or_default().ask(operation);
        }
    }

    fn answer(&mut self, case: &Case<'_>, op: usize, operation: &Operation) {
        if let (Function::Acquire | Function::Renew, Some(lock)) =
            (operation.function, operation.lock)
        {
            let granted = self.granted.entry(lock).or_default();
            granted.pending -= i128::from(operation.function == Function::Acquire);
            if let (Outcome::Ok, Some(token)) = (operation.outcome, operation.token) {
                granted.tell(token);
            }
            return;
        }
        let explanation = if case.is_refusal(operation) {
            match (operation.token, operation.high_water) {
                // A mark that is not above the refused token is wrong whatever raised it, and a sign of nothing.
                (Some(token), Some(mark)) if mark > token => {
                    self.explain(case, op, operation, mark)
                }
                (Some(token), None) => self.explain_nameless(case, op, operation, token),
                _ => return,
            }
        } else if let (Function::Read, Outcome::Ok, Some(mark)) =
            (operation.function, operation.outcome, operation.high_water)
        {
            self.explain(case, op, operation, mark)
        } else {
            return;
        };
        let Some(since) = operation.returned().map(|at| at.index) else {
            return;
        };
        if explanation == Explanation::None {
            self.unexplained.push(op);
        }
        match (explanation, self.raised.get_mut(&operation.key)) {
            (Explanation::Grant, None) => {
                let unfounded = None;
                let raised = Raised { since, unfounded };
                self.raised.insert(operation.key, raised);
            }
            (Explanation::None, Some(raised)) => {
                raised.unfounded = raised.unfounded.or(Some(op));
            }
            _ => {}
        }
    }

    /// Where a mark that was reported by `operation` may come from.
    fn explain(
        &mut self,
        case: &Case<'_>,
        op: usize,
        operation: &Operation,
        mark: Token,
    ) -> Explanation {
        if mark <= Token::ZERO {
            return Explanation::NotAsked;
        }
        let presented = &self.presented[case.spots[op].scope as usize];
        if matches!(presented.last, Some((token, true, _)) if token == mark) {
            return Explanation::Write;
        }
        let written = presented.tokens.get(&mark);
        if written == Some(&true) {
            return Explanation::Write;
        }
        let explained = match case.lock(operation) {
            Some(lock) => {
                let granted = self.granted.entry(lock).or_default();
                let explanation = granted.explanation(case, lock, mark);
                granted.use_up(mark, explanation);
                explanation.is_some()
            }
            // No lock is known for the key, so it may be any.
            None => (self.granted.iter())
                .any(|(&lock, granted)| granted.explanation(case, lock, mark).is_some()),
        };
        match (explained, written) {
            (true, None) => Explanation::Grant,
            // A write of it was sent and answered no: that is not definite, and the write may be what raised it.
            (true, Some(_)) => Explanation::NotAsked,
            (false, _) => Explanation::None,
        }
    }

    /// Where the high water may come from that a refusal of `token` does not name.
    fn explain_nameless(
        &mut self,
        case: &Case<'_>,
        op: usize,
        operation: &Operation,
        token: Token,
    ) -> Explanation {
        // A key that nobody wrote has the mark 0, which is reason enough.
        if token < Token::ZERO {
            return Explanation::NotAsked;
        }
        let presented = &self.presented[case.spots[op].scope as usize];
        if presented.accepted > Some(token) {
            return Explanation::Write;
        }
        let sent = presented.highest > Some(token);
        let mut locks: Box<dyn Iterator<Item = &Granted>> = match case.lock(operation) {
            Some(lock) => Box::new(self.granted.get(&lock).into_iter()),
            None => Box::new(self.granted.values()),
        };
        let mut lost = false;
        let granted = locks.any(|granted| {
            lost |= granted.any_lost;
            granted.highest > Some(token) || granted.unanswered.is_some()
        });
        match (granted, lost) {
            (true, _) if !sent => Explanation::Grant,
            (true, _) | (_, true) => Explanation::NotAsked,
            (false, false) => Explanation::None,
        }
    }
}

/// What may have raised a mark.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Explanation {
    /// A write of the key.
    Write,
    /// A grant, and no write: a definite sign.
    Grant,
    /// Something that is neither a sign nor wrong.
    NotAsked,
    /// Nothing.
    None,
}

/// What explains a mark: something that explains it however often it is shown, or an acquire whose answer was given up.
#[derive(Clone, Copy, Debug)]
enum By {
    Known,
    Lost(Option<Token>),
}

impl Granted {
    /// Notes an acquire that is sent.
    fn ask(&mut self, acquire: &Operation) {
        self.pending += 1;
        self.stretch();
        match (acquire.outcome, acquire.token) {
            (Outcome::Ok, Some(token)) => self.grant(token),
            (Outcome::Unknown, _) => {
                self.askers.extend(
                    [Some(acquire.client), acquire.session]
                        .into_iter()
                        .flatten(),
                );
                if acquire.completed.is_some() {
                    self.lost.add(self.told);
                    self.any_lost = true;
                } else {
                    // What was told never falls, so the first stands for all.
                    self.unanswered.get_or_insert(self.told);
                }
            }
            _ => {}
        }
    }

    /// Notes an answer that carries a token.
    fn tell(&mut self, token: Token) {
        if let Some(told) = self.told {
            self.step = self.step.max(token.value() - told.value());
        }
        self.grant(token);
        self.see(token);
        self.told = self.told.max(Some(token));
    }

    fn grant(&mut self, token: Token) {
        self.tokens.insert(token);
        self.highest = self.highest.max(Some(token));
    }

    fn see(&mut self, token: Token) {
        self.seen = self.seen.max(Some(token));
        self.stretch();
    }

    fn stretch(&mut self) {
        let greatest = self.seen.unwrap_or(Token::ZERO).value();
        self.reach = self.reach.max(greatest + self.pending * self.step.max(1));
    }

    /// What explains the mark, if anything does.
    fn explanation(&self, case: &Case<'_>, lock: Name, mark: Token) -> Option<By> {
        if self.tokens.contains(&mark) || self.explained.contains(&mark) {
            return Some(By::Known);
        }
        // Whoever was granted it asked for it only later, and had not asked before.
        if case
            .grants_of(lock, mark)
            .any(|grant| !self.may_have_asked(case, grant))
        {
            return None;
        }
        let fits = mark.value() <= self.reach;
        let unanswered = self.unanswered.is_some_and(|above| above < Some(mark));
        match self.lost.below(mark).filter(|_| fits) {
            Some(above) => Some(By::Lost(above)),
            None => unanswered.then_some(By::Known),
        }
    }

    /// Each lost acquire explains one mark.
    fn use_up(&mut self, mark: Token, explanation: Option<By>) {
        if let Some(By::Lost(above)) = explanation {
            self.lost.remove(above);
            self.explained.insert(mark);
        }
    }

    /// The holder of the grant had an acquire before that may have been granted the same token.
    fn may_have_asked(&self, case: &Case<'_>, grant: &Operation) -> bool {
        self.askers.contains(&grant.client)
            || grant
                .session
                .is_some_and(|session| self.askers.contains(&session))
            || grant.is_unnamed(&case.history.names)
    }
}

impl Acquires {
    fn add(&mut self, above: Option<Token>) {
        *self.0.entry(above).or_default() += 1;
    }

    /// Of those that can explain this mark the one that can explain the fewest others.
    fn below(&self, mark: Token) -> Option<Option<Token>> {
        let (&above, _) = self.0.range(..Some(mark)).next_back()?;
        Some(above)
    }

    fn remove(&mut self, above: Option<Token>) {
        if let Some(count) = self.0.get_mut(&above) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&above);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    /// Index of the first sign on key `k`, and of the invocation of the first unfounded mark after it.
    fn raised(s: &Scenario) -> Option<(u64, Option<u64>)> {
        let history = s.history();
        let case = Case::new(&history);
        let raised = *raised_keys(&case).get(&history.names.find("k"))?;
        let invoked = |op: usize| case.operation(op).invoked.index;
        Some((raised.since, raised.unfounded.map(invoked)))
    }

    #[test]
    fn a_mark_that_was_granted_and_never_presented_is_a_sign() {
        let mut s = Scenario::new();
        s.grant("c2", "L", 6);
        let refused = s.refused("c1", "L", "k", 5, "a", Some(6));
        assert_eq!(raised(&s), Some((refused[1], None)));
        let mut s = Scenario::new();
        s.write("c1", "L", "k", 5, "a");
        let asked = s.acquire_call("c2", "L");
        let read = s.read("c3", "k", Some("a"), Some(600));
        s.granted(asked, 600);
        assert_eq!(raised(&s), Some((read[1], None)), "the answer came later");
        let mut s = Scenario::new();
        s.grant("c2", "L", 6);
        let nameless = s.refused("c1", "L", "k", 5, "a", None);
        assert_eq!(raised(&s), Some((nameless[1], None)));
    }

    #[test]
    fn a_mark_that_a_write_presented_or_that_nobody_was_granted_is_none() {
        let mut s = Scenario::new();
        s.grant("c2", "L", 6);
        s.grant("c3", "M", 7);
        let lost = s.write_call("c2", "L", "k", 6, "a");
        s.info(lost);
        s.refused("c1", "L", "k", 5, "b", Some(6));
        s.refused("c1", "L", "k", 5, "c", Some(7));
        s.refused("c1", "L", "k", 5, "d", None);
        s.refused("c2", "L", "k", 6, "e", Some(6));
        assert_eq!(raised(&s), None);
    }

    #[test]
    fn a_lost_acquire_explains_one_mark_that_goes_on_where_tokens_end_and_no_stray_number() {
        let with_lost = |marks: &[u64]| {
            let mut s = Scenario::new();
            s.grant("c1", "L", 5);
            let lost = s.acquire_call("c2", "L");
            s.info(lost);
            for &mark in marks {
                let value = format!("x{mark}");
                s.refused("c1", "L", "k", 5, &value, Some(mark));
            }
            raised(&s)
        };
        assert_eq!(with_lost(&[987_654_321]), None);
        assert_eq!(with_lost(&[6]), Some((5, None)));
        assert_eq!(
            with_lost(&[6, 6]),
            Some((5, None)),
            "one grant, shown twice"
        );
        assert_eq!(with_lost(&[6, 7]), Some((5, Some(6))));
        assert_eq!(with_lost(&[987_654_321, 6]), Some((7, None)));
        assert_eq!(with_lost(&[6, 987_654_321]), Some((5, Some(6))));
        let mut s = Scenario::new();
        s.grant("c1", "L", 5);
        let lost = s.acquire_call("c2", "L");
        s.info(lost);
        s.refused("c1", "L", "k", 5, "a", Some(6));
        s.grant("c3", "L", 6);
        assert_eq!(raised(&s), None, "another asked for it later and got it");
    }

    #[test]
    fn a_lost_acquire_explains_no_refusal_that_names_nothing() {
        let mut s = Scenario::new();
        s.grant("c1", "L", 5);
        let lost = s.acquire_call("c2", "L");
        s.info(lost);
        s.refused("c1", "L", "k", 5, "a", None);
        assert_eq!(raised(&s), None);
    }
}
