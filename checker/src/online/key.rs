//! One object of the resource: its values, and the exact decision of its register in streaming form.
//!
//! # What is remembered
//!
//! - **Values.** Of each value its write, while there is room ([`super::Limits::values`]); of those that room is made
//!   from, nothing. A write of unknown outcome is kept as long as its value may rightly be read, and longer if it was
//!   late.
//! - **Clusters** that are alive: a write that surely happened, with the least return (`f`) and the greatest call (`s`)
//!   among it and the reads of its value.
//! - **Epochs.** Of each living token what [`super::levels::Epoch`] sums up.
//!
//! What is forgotten, and why that is right, says `forgetting.rs`.

use std::collections::{BTreeMap, VecDeque};

use super::cluster::{At, Cluster, Edge, NEVER, at};
use super::hash::{Map, fingerprint};
use super::levels::{Broken, Dormant, Epoch, Levels, NO_FLOOR, Refusal};
use super::marks::Suspicion;
use super::raises::Explanation;
use super::reads::Done;
use super::words::{Kept, Op, token_of};
use crate::fencing::{Outside, Why};
use crate::history::{Function, Outcome, Token};

mod forgetting;

/// Where a key stopped to be what a check decides.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Limit {
    pub index: u64,
    pub why: Why,
}

/// A value and its writes.
#[derive(Clone, Debug)]
struct Value {
    write: Kept,
    /// It was written a second time.
    twice: bool,
    /// The first write of it that was answered with a definite no, and whether there was one that was not.
    failed: Option<Kept>,
    other: bool,
    /// The first read that returned it.
    read: Option<Kept>,
    /// The first answer that showed that its write has taken effect.
    done: Option<Kept>,
    /// What its write is guilty of if it was accepted, while the write's outcome is unknown.
    suspicion: Option<Box<Suspicion>>,
    /// Its write was answered with a definite no, and its value was read.
    applied: bool,
    /// The highest mark that had been shown when it was sent.
    shown: Option<Shown>,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    /// Sent, and not known to have happened.
    Dormant,
    Alive(Cluster),
    /// Forgotten by the exact check, or none of its business.
    Gone(Option<Box<Cluster>>),
}

/// A mark that was shown, and by what.
type Shown = (Token, Option<Kept>);

/// What reading a value means for other rules.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The accepted write whose value was read.
    pub write: Option<Kept>,
    /// Nobody had known that it was accepted.
    pub newly: bool,
    /// It is guilty of this.
    pub suspicion: Option<Suspicion>,
    /// A write that was answered with a definite no, and nobody had known that it was done.
    pub applied: Option<Kept>,
    /// The one write of this value, whatever its answer, and what first showed it.
    pub done: Option<Done>,
}

#[derive(Clone, Debug)]
pub(super) struct Key {
    values: Map<u64, Value>,
    order: VecDeque<u64>,
    alive: Vec<u64>,
    initial: Cluster,
    initial_alive: bool,
    epochs: BTreeMap<Token, Epoch>,
    nameless: BTreeMap<Token, Refusal>,
    floor: At,
    /// The highest token of which an operation has returned.
    over: Option<Token>,
    /// The calls of open operations in order, with the highest mark that had been shown at each.
    open: Vec<(At, Option<Shown>)>,
    shown: Option<Shown>,
    every: usize,
    since_check: usize,
    maker: bool,
    /// Some of its values are no longer remembered.
    forgetful: bool,
    /// Among them are some that a write may bring back at any time.
    blind: bool,
    /// Since when it shows a mark that a grant may have raised as well as a write.
    doubt: Option<u64>,
    /// Its sign is no definite one, but that doubt; the first that is.
    sign_in_doubt: bool,
    definite: Option<Limit>,
    /// The highest token that it has surely accepted.
    done: Option<Token>,
    /// A mark was shown that a grant had raised.
    raised: bool,
    /// How many writes were answered with a definite no and read, and the first with its read.
    pub applied: Option<(u64, (Kept, Kept))>,
    pub sign: Option<Limit>,
    pub outside: Option<Limit>,
    by_writes: Option<Broken>,
    by_others: Option<Broken>,
    certain: Option<Broken>,
}

impl Key {
    /// A key that nobody has touched; see [`super::Limits::every`].
    pub fn new(every: usize) -> Self {
        Self {
            values: Map::default(),
            order: VecDeque::new(),
            alive: Vec::new(),
            initial: Cluster::initial(),
            initial_alive: true,
            epochs: BTreeMap::new(),
            nameless: BTreeMap::new(),
            floor: NO_FLOOR,
            over: Some(Token::ZERO),
            open: Vec::new(),
            shown: Some((Token::ZERO, None)),
            every,
            since_check: 0,
            maker: false,
            forgetful: false,
            blind: false,
            doubt: None,
            sign_in_doubt: false,
            definite: None,
            done: None,
            raised: false,
            applied: None,
            sign: None,
            outside: None,
            by_writes: None,
            by_others: None,
            certain: None,
        }
    }

    /// Where and why the exact check of this key ended.
    pub fn limit(&self) -> Option<Limit> {
        self.outside.into_iter().chain(self.sign).min()
    }

    /// Whether it shows that grants raise its mark.
    pub fn is_raised(&self) -> bool {
        self.raised
    }

    /// What was proven about this key so far.
    pub fn broken(&mut self) -> Option<&Broken> {
        while self.since_check > 0 {
            self.check();
        }
        let after_sign = self
            .sign
            .is_some_and(|sign| self.outside.is_none_or(|outside| sign < outside));
        let limited = self.limit().is_some();
        self.by_writes
            .as_ref()
            .or(self.by_others.as_ref().filter(|_| after_sign))
            .or(self.certain.as_ref().filter(|_| limited))
    }

    /// A doubt that excuses nothing, because the key is blamed all the same, is no limit of the exact check.
    pub fn dismiss_doubt(&mut self) {
        if std::mem::take(&mut self.sign_in_doubt) {
            self.sign = self.definite;
        }
    }

    /// The exact check still looks at this key.
    fn is_exact(&self) -> bool {
        self.outside.is_none()
            && self.by_writes.is_none()
            && (self.sign.is_none() || self.by_others.is_none())
    }

    /// Other things than its writes raise the key's mark from this index on.
    pub fn stop_by_sign(&mut self, limit: Limit) {
        if self.definite.is_none_or(|definite| limit < definite) {
            self.definite = Some(limit);
        }
        if self.sign.is_none_or(|sign| limit < sign) {
            if self.sign.is_none() && self.is_exact() {
                self.check();
            }
            if self.sign.is_none_or(|sign| limit < sign) {
                self.sign = Some(limit);
                self.sign_in_doubt = false;
            }
        }
    }

    fn stop(&mut self, limit: Limit) {
        if self.outside.is_some() {
            return;
        }
        self.check();
        // A doubt may have been found out by that.
        if self.since_check > 0 {
            self.check();
        }
        self.outside = Some(limit);
        self.alive.clear();
        self.epochs.clear();
        self.nameless.clear();
        self.open.clear();
    }

    /// An operation is sent, by another path than the primary or by that. `suspicion` is what a write is guilty of whose
    /// outcome is unknown, if it was accepted.
    pub fn call(&mut self, op: &Kept, by_path: bool, suspicion: Option<Suspicion>) {
        let print = value_of(op).map(fingerprint);
        let twice = print.is_some_and(|print| self.values.contains_key(&print));
        if let Some(outside) = why_outside(op, by_path, twice) {
            let (index, why) = (op.invoked.index, Why::Outside(outside));
            self.stop(Limit { index, why });
        }
        if op.function != Function::Read
            && (op.function != Function::Write || op.value.is_none())
            && op.outcome != Outcome::Failed
        {
            self.maker = true;
        }
        let exact = self.is_exact();
        if exact {
            self.since_check += 1;
            if op.outcome != Outcome::Unknown {
                self.open.push((at(op.invoked.index), self.shown.clone()));
            }
        }
        match (print, op.function) {
            (Some(print), Function::Write) => self.write(print, op, suspicion, exact),
            (Some(print), Function::Append) => self.append(print, op, suspicion),
            _ => {}
        }
    }

    /// An element is added to a list; of the lists that are read only the other rules know more.
    fn append(&mut self, print: u64, op: &Kept, suspicion: Option<Suspicion>) {
        if let Some(value) = self.values.get_mut(&print) {
            value.twice = true;
            return;
        }
        let value = Value {
            write: Kept::clone(op),
            twice: false,
            failed: None,
            other: false,
            read: None,
            done: None,
            suspicion: suspicion.map(Box::new),
            applied: false,
            shown: None,
            stage: Stage::Gone(None),
        };
        self.values.insert(print, value);
        self.order.push_back(print);
    }

    fn write(&mut self, print: u64, op: &Kept, suspicion: Option<Suspicion>, exact: bool) {
        let failed = op.outcome == Outcome::Failed;
        if let Some(value) = self.values.get_mut(&print) {
            value.twice = true;
            value.other |= !failed;
            if failed && value.failed.is_none() {
                value.failed = Some(Kept::clone(op));
            }
            return;
        }
        let stage = if exact {
            self.alive.push(print);
            Stage::Dormant
        } else {
            Stage::Gone(None)
        };
        let value = Value {
            write: Kept::clone(op),
            twice: false,
            failed: failed.then(|| Kept::clone(op)),
            other: !failed,
            read: None,
            done: None,
            suspicion: suspicion.map(Box::new),
            applied: false,
            shown: self.shown.clone(),
            stage,
        };
        self.values.insert(print, value);
        self.order.push_back(print);
    }

    /// Makes room where more values are remembered than these.
    pub fn forget_values(&mut self, most: usize) {
        let mut tries = 4;
        let exact = self.is_exact();
        while self.values.len() > most && tries > 0 {
            tries -= 1;
            let Some(print) = self.order.pop_front() else {
                return;
            };
            let settled = self.values.get(&print).is_none_or(|value| {
                (!exact || matches!(value.stage, Stage::Gone(_))) && value.suspicion.is_none()
            });
            if settled {
                let gone = self.values.remove(&print);
                self.forgetful |= gone.is_some();
                self.blind |= gone.is_some_and(|value| {
                    value.write.outcome == Outcome::Unknown && (!exact || value.twice)
                });
            } else {
                self.order.push_back(print);
            }
        }
    }

    /// What a read that returned saw.
    pub fn see(&mut self, read: &Kept) -> Seen {
        let none = Seen::default();
        let Some(print) = value_of(read).map(fingerprint) else {
            return none;
        };
        if read.outcome != Outcome::Ok {
            return none;
        }
        if !self.values.contains_key(&print) {
            // A list may be that of a log, and what stands at its head may have been there before.
            let listed = value_of(read).is_some_and(serde_json::Value::is_array);
            if !self.maker && !self.forgetful && !listed {
                self.certain.get_or_insert_with(|| Broken::of([read]));
            }
            return none;
        }
        self.see_value(print, read)
    }

    /// What a list that was read shows of an append.
    pub fn see_element(&mut self, element: &serde_json::Value, read: &Kept) -> Seen {
        let print = fingerprint(element);
        let value = self.values.get(&print);
        if value.is_some_and(|value| value.write.function == Function::Append) {
            return self.see_value(print, read);
        }
        Seen::default()
    }

    fn see_value(&mut self, print: u64, read: &Kept) -> Seen {
        let none = Seen::default();
        let Some(value) = self.values.get_mut(&print) else {
            return none;
        };
        if let (Some(failed), false, false) = (&value.failed, value.other, self.maker)
            && self.certain.is_none()
        {
            self.certain = Some(Broken::of([failed, read]));
        }
        if value.twice {
            return none;
        }
        let first = value.read.is_none();
        let earlier = value
            .read
            .as_ref()
            .is_none_or(|known| read.invoked.index < known.invoked.index);
        if earlier {
            value.read = Some(Kept::clone(read));
        }
        let write = &value.write;
        let by = value.done.get_or_insert_with(|| Kept::clone(read));
        let done = Some(Done {
            write: Kept::clone(write),
            by: Kept::clone(by),
        });
        let done = done.filter(|_| !self.blind);
        let none = Seen {
            done: done.clone(),
            ..none
        };
        if write.outcome == Outcome::Failed {
            let applied = write.function == Function::Write && !self.maker;
            if applied && !std::mem::replace(&mut value.applied, true) {
                let pair = (Kept::clone(write), Kept::clone(read));
                let applied = Some(Kept::clone(write));
                self.applied.get_or_insert((0, pair)).0 += 1;
                return Seen { applied, ..none };
            }
            return none;
        }
        let newly = first && write.outcome == Outcome::Unknown;
        Seen {
            write: Some(Kept::clone(write)),
            newly,
            suspicion: if newly {
                value.suspicion.take().map(|suspicion| *suspicion)
            } else {
                None
            },
            applied: None,
            done,
        }
    }

    /// A write was answered `ok`: what first showed that it has taken effect.
    pub fn done(&mut self, write: &Kept) -> Done {
        let value = value_of(write).and_then(|value| self.values.get_mut(&fingerprint(value)));
        let value = value.filter(|value| value.write.invoked == write.invoked);
        let by = value.map(|value| value.done.get_or_insert_with(|| Kept::clone(write)));
        Done {
            write: Kept::clone(write),
            by: Kept::clone(by.map_or(write, |by| by)),
        }
    }

    /// A list has shown that this append, answered with a definite no, was done.
    pub fn note_applied(&mut self, append: &Kept, read: &Kept) {
        let value = value_of(append).and_then(|value| self.values.get_mut(&fingerprint(value)));
        if let Some(value) = value.filter(|value| value.write.invoked == append.invoked) {
            value.applied = true;
        }
        let pair = (Kept::clone(append), Kept::clone(read));
        self.applied.get_or_insert((0, pair)).0 += 1;
    }

    /// A read has shown that this write, answered with a definite no, was done.
    pub fn is_applied(&self, write: &Op) -> bool {
        let value = value_of(write).and_then(|value| self.values.get(&fingerprint(value)));
        value.is_some_and(|value| value.applied && value.write.invoked == write.invoked)
    }

    /// The first read that returned the value of a write.
    pub fn first_read(&self, write: &Op) -> Option<Kept> {
        let value = self.values.get(&fingerprint(value_of(write)?))?;
        value.read.clone()
    }

    /// What a write is guilty of, once its answer has come after all.
    pub fn answered_late(&mut self, write: &Kept) -> Option<Suspicion> {
        let value = self.values.get_mut(&fingerprint(value_of(write)?))?;
        if value.write.invoked != write.invoked {
            return None;
        }
        value.write = Kept::clone(write);
        value.other = write.outcome != Outcome::Failed;
        if write.outcome == Outcome::Failed {
            value.failed = Some(Kept::clone(write));
        }
        value.suspicion.take().map(|suspicion| *suspicion)
    }

    /// An operation has returned. `refusal`: it is one. `explanation`: where the mark comes from that it tells. `late`: it
    /// was no longer waited for, so what it must fit may be forgotten.
    pub fn answer(
        &mut self,
        op: &Kept,
        refusal: bool,
        explanation: Option<Explanation>,
        late: bool,
    ) {
        if explanation == Some(Explanation::Grant) {
            let index = op.completed.unwrap_or(op.invoked).index;
            let why = Why::Raised;
            self.stop_by_sign(Limit { index, why });
            self.raised = true;
        }
        if explanation == Some(Explanation::Either) {
            self.note_doubt(op);
        }
        if refusal && op.high_water.is_some_and(|mark| Some(mark) <= op.token) {
            let broken = Broken::of([op]);
            self.certain.get_or_insert(broken.clone());
            self.break_both(broken);
        }
        if !self.is_exact() {
            return;
        }
        if explanation == Some(Explanation::None) && self.raised && !late {
            self.by_others.get_or_insert(Broken::of([op]));
        }
        let call = at(op.invoked.index);
        let place = self.open.binary_search_by_key(&call, |&(call, _)| call);
        let shown = place.ok().and_then(|place| self.open.remove(place).1);
        self.since_check += 1;
        match (op.function, op.outcome) {
            (Function::Write, Outcome::Ok) => self.acknowledged(op, late),
            (Function::Write, Outcome::Failed) => self.denied(op, refusal, shown, late),
            (Function::Read, Outcome::Ok) => self.read(op, shown),
            _ => {}
        }
        if self.since_check > self.every + self.alive.len() {
            self.check();
        }
    }

    /// A mark is told that a grant may have raised as well as a write: if no write of it is surely in, either did. What
    /// stands before it is decided first.
    fn note_doubt(&mut self, op: &Kept) {
        if self.doubt.is_some() || self.sign.is_some() || !self.is_exact() {
            return;
        }
        let seen = value_of(op)
            .filter(|_| op.function == Function::Read)
            .and_then(|value| self.values.get(&fingerprint(value)))
            .filter(|value| !value.twice)
            .and_then(|value| value.write.token);
        let done = self.done.max(seen);
        let more = match op.high_water {
            Some(mark) => Some(mark) > done,
            None => op.token >= done,
        };
        if more {
            self.check();
            self.doubt = Some(op.completed.unwrap_or(op.invoked).index);
        }
    }

    /// By its writes alone the key has no order. Where there is a doubt, grants may have done it.
    fn refute(&mut self, broken: Broken) {
        match self.doubt {
            Some(index) if self.by_writes.is_none() => {
                let why = Why::Raised;
                self.sign = Some(Limit { index, why });
                self.sign_in_doubt = true;
                self.since_check += 1;
            }
            _ => {
                self.by_writes.get_or_insert(broken);
            }
        }
    }

    /// Something that had been forgotten is back, which no order explains.
    fn hurry(&mut self) {
        self.since_check += self.every + self.alive.len();
    }

    fn break_both(&mut self, broken: Broken) {
        if self.outside.is_none() {
            self.by_others.get_or_insert(broken.clone());
            if self.sign.is_none() {
                self.refute(broken);
            }
        }
    }

    fn acknowledged(&mut self, op: &Kept, late: bool) {
        let Some(print) = value_of(op).map(fingerprint) else {
            return;
        };
        let token = token_of(op);
        let forgotten = |value: &&mut Value| late && matches!(value.stage, Stage::Gone(_));
        let value = self.values.get_mut(&print);
        if let Some(value) = value.filter(|value| !forgotten(value)) {
            let (cluster, fresh) = value.wake();
            cluster.returns(op);
            let fell = fell(value.shown.as_ref(), token, op);
            if fresh {
                self.alive.push(print);
            }
            if let Some(broken) = fell {
                self.by_others.get_or_insert(broken);
            }
        }
        self.show(token, op);
    }

    fn denied(&mut self, op: &Kept, refusal: bool, shown: Option<Shown>, late: bool) {
        if let Some(print) = value_of(op).map(fingerprint) {
            let read_before = self.values.get_mut(&print).and_then(|value| {
                let before = std::mem::replace(&mut value.stage, Stage::Gone(None));
                match before {
                    Stage::Alive(cluster) => Some(cluster),
                    Stage::Dormant | Stage::Gone(_) => None,
                }
            });
            if let Some(at) = self.alive.iter().rposition(|&alive| alive == print) {
                self.alive.swap_remove(at);
            }
            if let Some(cluster) = read_before {
                self.break_both(Broken::of(cluster.ops().chain([op])));
            }
        }
        let (Some(token), true) = (op.token, refusal) else {
            return;
        };
        let Some(mark) = op.high_water else {
            if self.over <= Some(token) && !late {
                self.nameless
                    .entry(token)
                    .or_insert_with(|| Refusal::of(op));
            }
            if let Some(above) = Token::new(token.value() + 1) {
                self.mark(above, op);
            }
            return;
        };
        if mark <= token {
            return;
        }
        if let Some(broken) = fell(shown.as_ref(), mark, op) {
            self.by_others.get_or_insert(broken);
        }
        self.mark(mark, op);
        self.over = self.over.max(Some(mark));
        // The writes of its epoch may be forgotten, because nobody who might ask for them was known to be open.
        if late {
            return;
        }
        let epoch = self.epochs.entry(mark).or_default();
        epoch.refused_first.get_or_insert_with(|| Refusal::of(op));
        let call = Edge::new(at(op.invoked.index), op);
        epoch
            .refused_last
            .get_or_insert_with(|| call.clone())
            .raise(&call);
    }

    fn read(&mut self, op: &Kept, shown: Option<Shown>) {
        if let Some(mark) = op.high_water {
            if let Some(broken) = fell(shown.as_ref(), mark, op) {
                self.by_others.get_or_insert(broken);
            }
            self.mark(mark, op);
        }
        // An empty list is a log that nobody has written to.
        let empty = |list: &Vec<serde_json::Value>| list.is_empty();
        let nothing = value_of(op).is_none_or(|value| {
            value.as_array().is_some_and(empty) && !self.values.contains_key(&fingerprint(value))
        });
        let token = match op.value.as_ref() {
            None => return,
            Some(_) if nothing => {
                self.initial.take_in(op);
                if !std::mem::replace(&mut self.initial_alive, true) {
                    self.hurry();
                }
                self.fits(op, None, Token::ZERO);
                Token::ZERO
            }
            Some(value) => {
                let print = fingerprint(value);
                let Some(value) = self.values.get_mut(&print) else {
                    self.break_both(Broken::of([op]));
                    return;
                };
                let write = Kept::clone(&value.write);
                if write.outcome == Outcome::Failed {
                    self.break_both(Broken::of([&write, op]));
                    return;
                }
                let (cluster, fresh) = value.wake();
                let dormant = cluster.first.at == NEVER;
                cluster.take_in(op);
                let token = cluster.token;
                let fell = fell(value.shown.as_ref(), token, &write).filter(|_| dormant);
                if fresh {
                    self.alive.push(print);
                    self.hurry();
                }
                if let Some(broken) = fell {
                    self.by_others.get_or_insert(broken);
                }
                self.fits(op, Some(&write), token);
                token
            }
        };
        self.show(token, op);
    }

    /// A read reports the token of what it saw; where others raise marks as well, at least that.
    fn fits(&mut self, read: &Kept, write: Option<&Kept>, token: Token) {
        let Some(mark) = read.high_water.filter(|&mark| mark != token) else {
            return;
        };
        let broken = Broken::of(write.into_iter().chain([read]));
        if mark < token {
            self.by_others.get_or_insert(broken.clone());
        }
        if self.sign.is_none() {
            self.refute(broken);
        }
    }

    /// A value of this token was there when `op` returned.
    fn show(&mut self, token: Token, op: &Kept) {
        self.mark(token, op);
        self.over = self.over.max(Some(token));
        self.done = self.done.max(Some(token));
    }

    fn mark(&mut self, mark: Token, op: &Kept) {
        if self.shown.as_ref().is_none_or(|(known, _)| *known < mark) {
            self.shown = Some((mark, Some(Kept::clone(op))));
        }
    }

    /// Decides what is alive, then forgets what may be forgotten.
    fn check(&mut self) {
        self.since_check = 0;
        if !self.is_exact() {
            return;
        }
        let refusals = self.sign.is_none();
        let alive = self.alive.iter().filter_map(|print| self.values.get(print));
        let mut levels = Levels {
            clusters: Vec::with_capacity(self.alive.len() + 1),
            dormant: Vec::new(),
            epochs: &self.epochs,
            nameless: &self.nameless,
            floor: self.floor,
            refusals,
        };
        for value in alive {
            match &value.stage {
                Stage::Alive(cluster) => levels.clusters.push(cluster),
                Stage::Dormant => levels.dormant.push(Dormant {
                    token: token_of(&value.write),
                    call: at(value.write.invoked.index),
                    op: &value.write,
                }),
                Stage::Gone(_) => {}
            }
        }
        if self.initial_alive {
            levels.clusters.push(&self.initial);
        }
        match levels.check() {
            Ok(starts) => self.forget(&starts),
            Err(broken) if refusals => self.refute(broken),
            Err(broken) => self.by_others = Some(broken),
        }
    }
}

impl Value {
    /// The cluster of this value, and whether it was not among the living.
    fn wake(&mut self) -> (&mut Cluster, bool) {
        let fresh = match &mut self.stage {
            Stage::Alive(_) => false,
            Stage::Dormant => {
                self.stage = Stage::Alive(Cluster::of(&self.write));
                false
            }
            Stage::Gone(known) => {
                let known = known.take().map(|cluster| *cluster);
                self.stage = Stage::Alive(known.unwrap_or_else(|| Cluster::of(&self.write)));
                true
            }
        };
        match &mut self.stage {
            Stage::Alive(cluster) => (cluster, fresh),
            Stage::Dormant | Stage::Gone(_) => unreachable!("it was just woken"),
        }
    }
}

/// A mark was shown before something of a lower one was sent.
fn fell(shown: Option<&Shown>, mark: Token, op: &Kept) -> Option<Broken> {
    let (known, by) = shown?;
    (*known > mark).then(|| Broken::of(by.iter().chain([op])))
}

fn value_of(op: &Op) -> Option<&serde_json::Value> {
    op.value.as_ref().filter(|value| !value.is_null())
}

fn why_outside(op: &Op, by_path: bool, twice: bool) -> Option<Outside> {
    if by_path {
        return Some(Outside::OtherPath);
    }
    match op.function {
        Function::Read => None,
        Function::Write if op.token.is_none() => Some(Outside::NoToken),
        Function::Write if value_of(op).is_none() => Some(Outside::NoValue),
        Function::Write => twice.then_some(Outside::ValueTwice),
        _ => Some(Outside::OtherFunction),
    }
}
