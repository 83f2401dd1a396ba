//! Marks that other things than a key's own writes raised: the sweep of `fencing/raises.rs`, forgetting.
//!
//! Tokens that were presented or granted are kept one by one while there are few; of a thousand the lower half is
//! forgotten, and from then on every mark up to there counts as presented. So a mark that old is neither a sign nor
//! unfounded; that it fell is seen by other rules.
//!
//! A mark that only a lost acquire explains is the one place where the whole file knows more: whoever is granted that
//! token later takes the explanation away. The rules wait for that ([`super::Limits::patience`]).

use std::collections::{BTreeMap, BTreeSet};

use super::arrival::Arrival;
use super::hash::{Map, Set};
use super::holders::Holders;
use super::words::{Kept, Scope, is_fenced_write, token_of};
use crate::history::{Function, Name, Operation, Outcome, Token};

/// How many tokens of a scope or lock are kept one by one.
const MOST_TOKENS: usize = 1024;

#[derive(Clone, Debug, Default)]
struct Presented {
    /// Every token, and whether a write of it may have been accepted.
    tokens: BTreeMap<Token, bool>,
    floor: Option<Token>,
    highest: Option<Token>,
    accepted: Option<Token>,
    /// The last token of a write that may have been accepted.
    last: Option<Token>,
}

#[derive(Clone, Debug, Default)]
struct Granted {
    tokens: BTreeSet<Token>,
    floor: Option<Token>,
    highest: Option<Token>,
    told: Option<Token>,
    seen: Option<Token>,
    step: i128,
    pending: i128,
    reach: i128,
    lost: BTreeMap<Option<Token>, u64>,
    any_lost: bool,
    unanswered: Option<Option<Token>>,
    askers: Set<Name>,
    explained: BTreeSet<Token>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Sweep {
    presented: Map<Scope, Presented>,
    granted: BTreeMap<Name, Granted>,
}

/// What may have raised a mark.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Explanation {
    /// A grant, and no write: a definite sign.
    Grant,
    /// A grant, or a write that was sent: a sign only if the write is not in.
    Either,
    /// A write, or something that is neither a sign nor wrong.
    Fine,
    /// Nothing.
    None,
}

#[derive(Clone, Copy, Debug)]
enum By {
    Known,
    Lost(Option<Token>),
}

/// What a report of a mark is looked at with.
struct Look<'a> {
    arrival: &'a Arrival,
    holders: &'a Holders,
}

impl Sweep {
    /// An operation is sent; `ahead`: its answer may still come.
    pub fn call(&mut self, arrival: &Arrival, op: &Operation, ahead: bool) {
        if is_fenced_write(op) {
            let token = token_of(op);
            let accepted = op.outcome != Outcome::Failed;
            let presented = self.presented.entry(arrival.scope(op)).or_default();
            presented.add(token, accepted);
            if let Some(lock) = arrival.lock(op) {
                self.granted.entry(lock).or_default().see(token);
            }
        }
        if let (Function::Acquire, Some(lock)) = (op.function, op.lock) {
            self.granted.entry(lock).or_default().ask(op, ahead);
        }
    }

    /// A report of a mark that only a lost acquire explains: what comes may take that back.
    pub fn waits(&self, arrival: &Arrival, holders: &Holders, op: &Operation) -> bool {
        let Some(mark) = reported(arrival, op) else {
            return false;
        };
        if mark <= Token::ZERO || self.written(arrival, op, mark) == Some(true) {
            return false;
        }
        let look = Look { arrival, holders };
        let lost = |(&lock, granted): (&Name, &Granted)| {
            let by = granted.explanation(&look, lock, mark);
            matches!(by, Some(By::Lost(_)))
        };
        match arrival.lock(op) {
            Some(lock) => self.granted.get_key_value(&lock).is_some_and(&lost),
            None => self.granted.iter().any(lost),
        }
    }

    /// What explains the mark that an operation tells, if it tells one.
    pub fn answer(
        &mut self,
        arrival: &Arrival,
        holders: &Holders,
        op: &Operation,
    ) -> Option<Explanation> {
        if let (Function::Acquire | Function::Renew, Some(lock)) = (op.function, op.lock) {
            let granted = self.granted.entry(lock).or_default();
            granted.pending -= i128::from(op.function == Function::Acquire);
            if let (Outcome::Ok, Some(token)) = (op.outcome, op.token) {
                granted.tell(token);
            }
            return None;
        }
        if let Some(mark) = reported(arrival, op) {
            return Some(self.explain(&Look { arrival, holders }, op, mark));
        }
        if arrival.is_refusal(op) && op.high_water.is_none() {
            return Some(self.explain_nameless(arrival, op, token_of(op)));
        }
        None
    }

    fn written(&self, arrival: &Arrival, op: &Operation, mark: Token) -> Option<bool> {
        self.presented.get(&arrival.scope(op))?.is_written(mark)
    }

    fn explain(&mut self, look: &Look<'_>, op: &Operation, mark: Token) -> Explanation {
        if mark <= Token::ZERO {
            return Explanation::Fine;
        }
        let written = self.written(look.arrival, op, mark);
        let granted = written.is_some() && self.was_granted(look.arrival, op, mark);
        if written == Some(true) {
            return if granted {
                Explanation::Either
            } else {
                Explanation::Fine
            };
        }
        let explained = match look.arrival.lock(op) {
            Some(lock) => {
                let granted = self.granted.entry(lock).or_default();
                let explanation = granted.explanation(look, lock, mark);
                granted.use_up(mark, explanation);
                explanation.is_some()
            }
            None => (self.granted.iter())
                .any(|(&lock, granted)| granted.explanation(look, lock, mark).is_some()),
        };
        match (explained, written) {
            (true, None) => Explanation::Grant,
            (true, Some(_)) if granted => Explanation::Either,
            (true, Some(_)) => Explanation::Fine,
            (false, _) => Explanation::None,
        }
    }

    /// An acquire or a renewal was answered with this token; of one that is no longer remembered it is taken for granted.
    fn was_granted(&self, arrival: &Arrival, op: &Operation, mark: Token) -> bool {
        let knows = |granted: &Granted| {
            granted.tokens.contains(&mark) || granted.floor.is_some_and(|floor| mark <= floor)
        };
        match arrival.lock(op) {
            Some(lock) => self.granted.get(&lock).is_some_and(knows),
            None => self.granted.values().any(knows),
        }
    }

    fn explain_nameless(&self, arrival: &Arrival, op: &Operation, token: Token) -> Explanation {
        // A key that nobody wrote has the mark 0, which is reason enough.
        if token < Token::ZERO {
            return Explanation::Fine;
        }
        let mut lost = false;
        let mut certain = false;
        let mut raises = |granted: &Granted| {
            lost |= granted.any_lost;
            certain |= granted.highest > Some(token);
            granted.highest > Some(token) || granted.unanswered.is_some()
        };
        let granted = match arrival.lock(op) {
            Some(lock) => self.granted.get(&lock).is_some_and(&mut raises),
            None => {
                self.granted
                    .values()
                    .filter(|granted| raises(granted))
                    .count()
                    > 0
            }
        };
        let presented = self.presented.get(&arrival.scope(op));
        let sent = presented.is_some_and(|presented| presented.highest > Some(token));
        if presented.is_some_and(|presented| presented.accepted > Some(token)) {
            return if certain {
                Explanation::Either
            } else {
                Explanation::Fine
            };
        }
        match (granted, lost) {
            (true, _) if !sent => Explanation::Grant,
            (true, _) if certain => Explanation::Either,
            (true, _) | (_, true) => Explanation::Fine,
            (false, false) => Explanation::None,
        }
    }
}

/// The mark that a read or a refusal names; one that is not above the refused token is wrong whatever raised it.
fn reported(arrival: &Arrival, op: &Operation) -> Option<Token> {
    let mark = op.high_water?;
    let read = op.function == Function::Read && op.outcome == Outcome::Ok;
    (read || (arrival.is_refusal(op) && Some(mark) > op.token)).then_some(mark)
}

impl Presented {
    fn add(&mut self, token: Token, accepted: bool) {
        if self.last == Some(token) {
            return;
        }
        if accepted {
            self.last = Some(token);
        }
        self.highest = self.highest.max(Some(token));
        if accepted {
            self.accepted = self.accepted.max(Some(token));
        }
        if self.floor.is_some_and(|floor| token <= floor) {
            return;
        }
        *self.tokens.entry(token).or_insert(false) |= accepted;
        if self.tokens.len() > MOST_TOKENS {
            for _ in 0..MOST_TOKENS / 2 {
                let lowest = self.tokens.pop_first();
                self.floor = lowest.map(|(token, _)| token).or(self.floor);
            }
        }
    }

    fn is_written(&self, mark: Token) -> Option<bool> {
        if self.last == Some(mark) || self.floor.is_some_and(|floor| mark <= floor) {
            return Some(true);
        }
        self.tokens.get(&mark).copied()
    }
}

impl Granted {
    fn ask(&mut self, acquire: &Operation, ahead: bool) {
        self.pending += 1;
        self.stretch();
        match (acquire.outcome, acquire.token) {
            (Outcome::Ok, Some(token)) => self.grant(token),
            (Outcome::Unknown, _) => {
                let askers = [Some(acquire.client), acquire.session];
                self.askers.extend(askers.into_iter().flatten());
                if acquire.completed.is_some() || !ahead {
                    *self.lost.entry(self.told).or_default() += 1;
                    self.any_lost = true;
                } else {
                    self.unanswered.get_or_insert(self.told);
                }
            }
            _ => {}
        }
    }

    fn tell(&mut self, token: Token) {
        if let Some(told) = self.told {
            self.step = self.step.max(token.value() - told.value());
        }
        self.grant(token);
        self.see(token);
        self.told = self.told.max(Some(token));
    }

    fn grant(&mut self, token: Token) {
        self.highest = self.highest.max(Some(token));
        if self.floor.is_some_and(|floor| token <= floor) {
            return;
        }
        self.tokens.insert(token);
        if self.tokens.len() > MOST_TOKENS {
            for _ in 0..MOST_TOKENS / 2 {
                self.floor = self.tokens.pop_first().or(self.floor);
            }
        }
    }

    fn see(&mut self, token: Token) {
        self.seen = self.seen.max(Some(token));
        self.stretch();
    }

    fn stretch(&mut self) {
        let greatest = self.seen.unwrap_or(Token::ZERO).value();
        self.reach = self.reach.max(greatest + self.pending * self.step.max(1));
    }

    fn explanation(&self, look: &Look<'_>, lock: Name, mark: Token) -> Option<By> {
        let old = self.floor.is_some_and(|floor| mark <= floor);
        if old || self.tokens.contains(&mark) || self.explained.contains(&mark) {
            return Some(By::Known);
        }
        let fits = mark.value() <= self.reach;
        let unanswered = self.unanswered.is_some_and(|above| above < Some(mark));
        let below = self.lost.range(..Some(mark)).next_back();
        let by = match below.filter(|_| fits) {
            Some((&above, _)) => Some(By::Lost(above)),
            None => unanswered.then_some(By::Known),
        };
        // Whoever was granted it asked for it only later, and had not asked before.
        let may_have_asked = |grant: &Kept| {
            self.askers.contains(&grant.client)
                || grant
                    .session
                    .is_some_and(|session| self.askers.contains(&session))
                || grant.is_unnamed(&look.arrival.names)
        };
        by.filter(|_| {
            look.holders
                .grants_of(lock, mark)
                .chain(&look.arrival.grants_ahead(lock, mark))
                .all(may_have_asked)
        })
    }

    fn use_up(&mut self, mark: Token, explanation: Option<By>) {
        let Some(By::Lost(above)) = explanation else {
            return;
        };
        if let Some(count) = self.lost.get_mut(&above) {
            *count -= 1;
            if *count == 0 {
                self.lost.remove(&above);
            }
        }
        self.explained.insert(mark);
        if self.explained.len() > MOST_TOKENS {
            self.explained.pop_first();
        }
    }
}
