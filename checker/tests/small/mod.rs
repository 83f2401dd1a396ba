//! Small histories of every object, and a naive judge of them that tries all orders. It shares nothing with the models
//! and the search that it is held against: every object's rules are told here a second time, over plain numbers.
#![allow(dead_code)]

use fencepost_checker::history::{Function, History, Instant, Operation, Outcome, Token};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

/// How an operation ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    Ok,
    /// Refused by the fence.
    Stale,
    /// Any other definite no.
    No,
    /// Nobody knows.
    Info,
}

/// An operation over plain numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    pub f: &'static str,
    pub client: u8,
    /// What was sent.
    pub args: Vec<u8>,
    /// What was answered, where something is.
    pub found: Vec<u8>,
    pub token: Option<i8>,
    /// The high water that was told.
    pub mark: Option<i8>,
    pub end: End,
    pub call: usize,
    pub back: usize,
}

impl Op {
    fn new(f: &'static str, args: Vec<u8>) -> Self {
        Self {
            f,
            client: 0,
            args,
            found: Vec::new(),
            token: None,
            mark: None,
            end: End::Ok,
            call: 0,
            back: 0,
        }
    }
}

/// An object, told naively.
pub trait Object {
    type State: Clone;
    fn initial(&self) -> Self::State;
    /// Something to ask.
    fn ask(&self, rng: &mut ChaCha8Rng) -> Op;
    /// Carries `op` out and sets its answer.
    fn answer(&self, state: &mut Self::State, op: &mut Op);
    /// Carries `op` out if its answer can be given. An `Info` has no answer.
    fn accepts(&self, state: &mut Self::State, op: &Op) -> bool;
    /// An `Info` that says nothing, or a definite no that does not.
    fn says_nothing(&self, op: &Op) -> bool {
        op.end == End::No || op.end == End::Stale
    }
    /// A lie about one operation, where the object has more to lie about than values.
    fn lie(&self, rng: &mut ChaCha8Rng, op: &mut Op) {
        match op.found.len() {
            0 => op.end = End::Ok,
            1 => op.found[0] = rng.random_range(0..4),
            length => match rng.random_range(0..3) {
                0 => op.found.swap(0, length - 1),
                1 => {
                    op.found.pop();
                }
                _ => op.found[length - 1] = rng.random_range(0..4),
            },
        }
    }
    /// The value of the operation as a history tells it.
    fn value(&self, op: &Op) -> Option<Value>;
}

// ------------------------------------------------------------------------------------------------ the naive judge

/// Whether some order explains the operations. All orders are tried.
pub fn is_linearizable<O: Object>(object: &O, ops: &[Op]) -> bool {
    is_linearizable_from(object, ops, &object.initial())
}

/// The same, from another beginning.
pub fn is_linearizable_from<O: Object>(object: &O, ops: &[Op], state: &O::State) -> bool {
    let ops: Vec<&Op> = ops.iter().filter(|op| !object.says_nothing(op)).collect();
    explains(object, &ops, state)
}

fn explains<O: Object>(object: &O, rest: &[&Op], state: &O::State) -> bool {
    let completed = || rest.iter().filter(|op| op.end != End::Info);
    let Some(first_back) = completed().map(|op| op.back).min() else {
        return true;
    };
    (0..rest.len())
        .filter(|&at| rest[at].call < first_back)
        .any(|at| {
            let mut next = state.clone();
            object.accepts(&mut next, rest[at]) && {
                let mut others = rest.to_vec();
                others.remove(at);
                explains(object, &others, &next)
            }
        })
}

// ------------------------------------------------------------------------------------------------- the generator

/// A history dense in overlaps: told truthfully, and with a lie in every second.
pub fn generate<O: Object>(object: &O, rng: &mut ChaCha8Rng) -> (Vec<Op>, bool) {
    let count = rng.random_range(2..=7);
    let clients: u8 = rng.random_range(1..=4);
    let (mut ops, mut clock) = (Vec::new(), 0);
    let mut open: Vec<(u8, usize)> = Vec::new();
    // Each client does one thing at a time; calls and returns are drawn in turn.
    while ops.len() < count || !open.is_empty() {
        clock += 1;
        let idle: Vec<u8> = (0..clients)
            .filter(|client| open.iter().all(|(busy, _)| busy != client))
            .collect();
        if ops.len() < count && !idle.is_empty() && (open.is_empty() || rng.random_bool(0.6)) {
            let client = idle[rng.random_range(0..idle.len())];
            let mut op = object.ask(rng);
            (op.client, op.call) = (client, clock);
            open.push((client, ops.len()));
            ops.push(op);
        } else {
            let (_, at) = open.swap_remove(rng.random_range(0..open.len()));
            let op: &mut Op = &mut ops[at];
            op.back = clock;
            if rng.random_bool(0.2) {
                op.end = End::Info;
            }
        }
    }
    let order = happen(rng, &ops);
    let mut state = object.initial();
    for at in order {
        let op = &mut ops[at];
        if op.end == End::Info {
            object.accepts(&mut state, op);
        } else {
            object.answer(&mut state, op);
        }
    }
    let lies = rng.random_bool(0.6);
    if lies {
        let at = rng.random_range(0..ops.len());
        if ops[at].end != End::Info {
            object.lie(rng, &mut ops[at]);
        }
    }
    (ops, lies)
}

/// Each at a moment within its interval; an `Info` later or never.
fn happen(rng: &mut ChaCha8Rng, ops: &[Op]) -> Vec<usize> {
    let mut moments = Vec::new();
    for (at, op) in ops.iter().enumerate() {
        let until = match op.end {
            End::Info if rng.random_bool(0.4) => continue,
            End::Info => op.back + rng.random_range(0..6),
            _ => op.back,
        };
        let moment = rng.random_range(op.call * 8..until * 8);
        moments.push((moment, at));
    }
    moments.sort_unstable();
    moments.into_iter().map(|(_, at)| at).collect()
}

/// The same as a recording tells it, all on one lock and one key.
pub fn recorded<O: Object>(object: &O, ops: &[Op], key: &str) -> History {
    let mut history = History::default();
    add(object, ops, key, 1, 0, &mut history);
    history
}

/// Adds operations to a history, at `scale` times their places plus `shift`.
pub fn add<O: Object>(
    object: &O,
    ops: &[Op],
    key: &str,
    scale: u64,
    shift: u64,
    history: &mut History,
) {
    let History { names, values, .. } = history;
    let key = names.intern(key);
    let stale = names.intern("stale-token");
    let other = names.intern("held");
    for op in ops {
        let at = |place: usize| Instant {
            index: place as u64 * scale + shift,
            time: (place as u64 * scale + shift) * 1000,
        };
        let function = match op.f {
            "acquire" => Function::Acquire,
            "renew" => Function::Renew,
            "release" => Function::Release,
            "write" => Function::Write,
            "append" => Function::Append,
            "read" => Function::Read,
            "cas" => Function::Cas,
            other => Function::Other(names.intern(other)),
        };
        history.operations.push(Operation {
            process: u64::from(op.client),
            client: names.intern(&format!("c{}", op.client)),
            function,
            lock: Some(key),
            key: Some(key),
            path: None,
            token: op.token.map(|token| Token::from(i64::from(token))),
            value: object.value(op).map(|value| values.intern(&value)),
            high_water: op.mark.map(|mark| Token::from(i64::from(mark))),
            error: match op.end {
                End::Stale => Some(stale),
                End::No => Some(other),
                End::Ok | End::Info => None,
            },
            ttl_ms: None,
            identity: None,
            session: None,
            outcome: match op.end {
                End::Ok => Outcome::Ok,
                End::Stale | End::No => Outcome::Failed,
                End::Info => Outcome::Unknown,
            },
            invoked: at(op.call),
            completed: (op.end != End::Info).then(|| at(op.back)),
        });
    }
    history.operations.sort_by_key(|op| op.invoked);
    history.events = history.operations.len() as u64 * 2;
}

// ----------------------------------------------------------------------------------------------------- the objects

fn values(numbers: &[u8]) -> Value {
    numbers
        .iter()
        .map(|&number| json!(number))
        .collect::<Vec<_>>()
        .into()
}

/// Registers, with or without `cas`; `unique`: each write has a value of its own.
#[derive(Clone, Copy, Debug)]
pub struct NaiveRegister {
    pub cas: bool,
    pub unique: bool,
}

thread_local! {
    static UNIQUE: std::cell::Cell<u8> = const { std::cell::Cell::new(0) };
}

fn unique(rng: &mut ChaCha8Rng) -> u8 {
    UNIQUE.with(|next| {
        // Far more than a history has operations; a random step, so that orders of values tell nothing.
        next.set(next.get() % 100 + 1 + rng.random_range(0..2));
        next.get()
    })
}

impl Object for NaiveRegister {
    type State = u8;
    fn initial(&self) -> u8 {
        0
    }
    fn ask(&self, rng: &mut ChaCha8Rng) -> Op {
        let mut value = |unique_: bool| {
            if unique_ {
                unique(rng)
            } else {
                rng.random_range(0..4)
            }
        };
        let written = value(self.unique);
        let other = value(false);
        match rng.random_range(0..if self.cas { 3 } else { 2 }) {
            0 => Op::new("read", Vec::new()),
            1 => Op::new("write", vec![written]),
            _ => Op::new("cas", vec![other, written]),
        }
    }
    fn answer(&self, state: &mut u8, op: &mut Op) {
        match op.f {
            "read" => op.found = vec![*state],
            "write" => *state = op.args[0],
            _ if *state == op.args[0] => *state = op.args[1],
            _ => op.end = End::No,
        }
    }
    fn accepts(&self, state: &mut u8, op: &Op) -> bool {
        match op.f {
            "read" => return op.end == End::Info || op.found == [*state],
            "write" => *state = op.args[0],
            _ if *state == op.args[0] => *state = op.args[1],
            _ => return false,
        }
        true
    }
    fn lie(&self, rng: &mut ChaCha8Rng, op: &mut Op) {
        if self.unique && !op.found.is_empty() {
            // A value that is near: one that was written, as often as not.
            op.found[0] = op.found[0]
                .saturating_add(rng.random_range(0..5))
                .saturating_sub(2);
        } else if op.found.is_empty() {
            op.end = if rng.random_bool(0.5) {
                End::Ok
            } else {
                End::No
            };
        } else {
            op.found[0] = rng.random_range(0..4);
        }
    }
    fn value(&self, op: &Op) -> Option<Value> {
        match op.f {
            "read" => op.found.first().map(|value| json!(value)),
            "write" => Some(json!(op.args[0])),
            _ => Some(values(&op.args)),
        }
    }
}

/// Texts that are put, added to and read.
#[derive(Clone, Copy, Debug)]
pub struct NaiveKv {
    pub append: bool,
}

fn text(numbers: &[u8]) -> Value {
    let letters = numbers.iter().map(|&number| char::from(b'a' + number % 26));
    Value::String(letters.collect())
}

impl Object for NaiveKv {
    type State = Vec<u8>;
    fn initial(&self) -> Vec<u8> {
        Vec::new()
    }
    fn ask(&self, rng: &mut ChaCha8Rng) -> Op {
        let value = if self.append {
            rng.random_range(0..4)
        } else {
            unique(rng) % 26
        };
        match rng.random_range(0..if self.append { 4 } else { 2 }) {
            0 => Op::new("get", Vec::new()),
            1 => Op::new("put", vec![value]),
            _ => Op::new("append", vec![value]),
        }
    }
    fn answer(&self, state: &mut Vec<u8>, op: &mut Op) {
        match op.f {
            "get" => op.found.clone_from(state),
            "put" => state.clone_from(&op.args),
            _ => state.extend(&op.args),
        }
    }
    fn accepts(&self, state: &mut Vec<u8>, op: &Op) -> bool {
        match op.f {
            "get" => return op.end == End::Info || op.found == *state,
            "put" => state.clone_from(&op.args),
            _ => state.extend(&op.args),
        }
        true
    }
    fn value(&self, op: &Op) -> Option<Value> {
        match op.f {
            "get" => (op.end == End::Ok).then(|| text(&op.found)),
            _ => Some(text(&op.args)),
        }
    }
    fn lie(&self, rng: &mut ChaCha8Rng, op: &mut Op) {
        match (op.f, rng.random_range(0..3)) {
            ("get", 0) => op.found.clear(),
            ("get", 1) => op.found.push(rng.random_range(0..4)),
            ("get", _) => op.found = vec![rng.random_range(0..4)],
            _ => op.end = End::No,
        }
    }
}

/// Two registers that are read and written together: pairs of (register, value), the first of which is whether it writes.
#[derive(Clone, Copy, Debug)]
pub struct NaiveMulti;

impl Object for NaiveMulti {
    type State = [u8; 2];
    fn initial(&self) -> [u8; 2] {
        [0, 0]
    }
    fn ask(&self, rng: &mut ChaCha8Rng) -> Op {
        let parts = rng.random_range(1..=3);
        let args = (0..parts).flat_map(|_| {
            [
                rng.random_range(0..2),
                rng.random_range(0..2),
                rng.random_range(0..3),
            ]
        });
        Op::new("txn", args.collect())
    }
    fn answer(&self, state: &mut [u8; 2], op: &mut Op) {
        for part in op.args.chunks_mut(3) {
            match part[0] {
                0 => part[2] = state[usize::from(part[1])],
                _ => state[usize::from(part[1])] = part[2],
            }
        }
    }
    fn accepts(&self, state: &mut [u8; 2], op: &Op) -> bool {
        op.args.chunks(3).all(|part| {
            let register = &mut state[usize::from(part[1])];
            let fits = part[0] == 1 || op.end == End::Info || *register == part[2];
            if part[0] == 1 {
                *register = part[2];
            }
            fits
        })
    }
    fn lie(&self, rng: &mut ChaCha8Rng, op: &mut Op) {
        let part = rng.random_range(0..op.args.len() / 3);
        op.args[part * 3 + 2] = rng.random_range(0..3);
    }
    fn value(&self, op: &Op) -> Option<Value> {
        let part = |part: &[u8]| {
            let f = if part[0] == 1 { "w" } else { "r" };
            json!([f, if part[1] == 0 { "x" } else { "y" }, part[2]])
        };
        Some(op.args.chunks(3).map(part).collect::<Vec<_>>().into())
    }
}

/// Locks: `reentrant`, or not and then anybody's release is good.
#[derive(Clone, Copy, Debug)]
pub struct NaiveMutex {
    pub reentrant: bool,
}

impl Object for NaiveMutex {
    /// Holder and depth.
    type State = (u8, u8);
    fn initial(&self) -> (u8, u8) {
        (0, 0)
    }
    fn ask(&self, rng: &mut ChaCha8Rng) -> Op {
        Op::new(
            if rng.random_bool(0.5) {
                "acquire"
            } else {
                "release"
            },
            Vec::new(),
        )
    }
    fn answer(&self, state: &mut (u8, u8), op: &mut Op) {
        if !self.accepts(state, op) {
            op.end = End::No;
        }
    }
    fn accepts(&self, (holder, depth): &mut (u8, u8), op: &Op) -> bool {
        let own = *holder == op.client;
        match (op.f, *depth, self.reentrant) {
            ("acquire", 0, _) => (*holder, *depth) = (op.client, 1),
            ("acquire", _, true) if own => *depth += 1,
            ("release", 1.., false) => *depth = 0,
            ("release", 1.., true) if own => *depth -= 1,
            _ => return false,
        }
        true
    }
    fn lie(&self, _: &mut ChaCha8Rng, op: &mut Op) {
        op.end = if op.end == End::Ok { End::No } else { End::Ok };
    }
    fn value(&self, _: &Op) -> Option<Value> {
        None
    }
}

/// A lock that gives out increasing tokens. `leased`: a hold may end by itself.
#[derive(Clone, Copy, Debug)]
pub struct NaiveFencedMutex {
    pub leased: bool,
}

impl Object for NaiveFencedMutex {
    /// Holder, its token where known, and the highest token, or the least that it can be.
    type State = (Option<(u8, Option<i8>)>, i8);
    fn initial(&self) -> Self::State {
        (None, i8::MIN)
    }
    fn ask(&self, rng: &mut ChaCha8Rng) -> Op {
        let f = ["acquire", "acquire", "release", "release", "renew"][rng.random_range(0..5)];
        Op::new(f, vec![rng.random_range(0..3)])
    }
    fn answer(&self, state: &mut Self::State, op: &mut Op) {
        if op.f == "acquire" {
            op.token = Some(state.1.max(0) + 1 + (op.args[0] / 2) as i8);
        } else if op.args[0] == 0 {
            op.token = state.0.and_then(|(_, token)| token);
        }
        if !self.accepts(state, op) {
            op.end = End::No;
        }
    }
    fn accepts(&self, (holder, last): &mut Self::State, op: &Op) -> bool {
        if op.f == "acquire" {
            let token = if op.end == End::Info { None } else { op.token };
            let next = token.unwrap_or(*last + 1);
            if holder.is_some() && !self.leased || next <= *last {
                return false;
            }
            (*holder, *last) = (Some((op.client, token)), next);
            return true;
        }
        let holds = match (*holder, op.token) {
            (Some((client, _)), _) if client != op.client => false,
            (Some((_, Some(known))), Some(told)) => known == told,
            (Some((_, None)), Some(told)) => told >= *last,
            (held, _) => held.is_some(),
        };
        match (op.f, holds) {
            ("renew", false) => return false,
            ("release", false) => return self.leased,
            _ => {}
        }
        *last = op.token.unwrap_or(*last);
        *holder = match op.f {
            "release" => None,
            _ => holder.map(|(client, token)| (client, token.or(op.token))),
        };
        true
    }
    fn lie(&self, rng: &mut ChaCha8Rng, op: &mut Op) {
        if op.f == "acquire" && rng.random_bool(0.7) {
            (op.end, op.token) = (End::Ok, Some(rng.random_range(1..5)));
        } else if op.end == End::Ok {
            op.end = End::No;
        } else {
            op.end = End::Ok;
            op.token = op.token.or(Some(rng.random_range(1..4)));
        }
    }
    fn value(&self, _: &Op) -> Option<Value> {
        None
    }
}

/// A register behind a fence.
#[derive(Clone, Copy, Debug)]
pub struct NaiveFencedRegister {
    pub unique: bool,
}

impl Object for NaiveFencedRegister {
    type State = (i8, u8);
    fn initial(&self) -> (i8, u8) {
        (0, 0)
    }
    fn ask(&self, rng: &mut ChaCha8Rng) -> Op {
        let value = if self.unique {
            unique(rng)
        } else {
            rng.random_range(1..4)
        };
        let mut op = match rng.random_range(0..if self.unique { 5 } else { 6 }) {
            0 | 1 => Op::new("read", vec![rng.random_range(0..2)]),
            5 => Op::new(
                "cas",
                vec![rng.random_range(1..4), value, rng.random_range(0..2)],
            ),
            _ => Op::new("write", vec![value, rng.random_range(0..2)]),
        };
        if op.f != "read" {
            op.token = Some(rng.random_range(-1..=3));
        }
        op
    }
    fn answer(&self, (mark, value): &mut (i8, u8), op: &mut Op) {
        let tells = op.args.last() == Some(&1);
        let token = op.token.unwrap_or(0);
        match op.f {
            "read" => (op.found, op.mark) = (vec![*value], tells.then_some(*mark)),
            _ if token < *mark => (op.end, op.mark) = (End::Stale, tells.then_some(*mark)),
            "write" => (*mark, *value) = (token, op.args[0]),
            _ if op.args[0] == *value => (*mark, *value) = (token, op.args[1]),
            _ => op.end = End::No,
        }
    }
    fn accepts(&self, (mark, value): &mut (i8, u8), op: &Op) -> bool {
        let told = op.mark.is_none_or(|told| told == *mark);
        let token = op.token.unwrap_or(0);
        match op.f {
            "read" => return op.end == End::Info || told && op.found == [*value],
            _ if op.end == End::Stale => return told && token < *mark,
            _ if token < *mark => return false,
            "write" => (*mark, *value) = (token, op.args[0]),
            _ if op.args[0] == *value => (*mark, *value) = (token, op.args[1]),
            _ => return false,
        }
        true
    }
    fn says_nothing(&self, op: &Op) -> bool {
        op.end == End::No
    }
    fn lie(&self, rng: &mut ChaCha8Rng, op: &mut Op) {
        match (op.f, rng.random_range(0..4)) {
            ("read", 0 | 1) if self.unique => {
                op.found[0] = op.found[0]
                    .saturating_add(rng.random_range(0..5))
                    .saturating_sub(2);
            }
            ("read", 0 | 1) => op.found = vec![rng.random_range(0..4)],
            ("read", _) => op.mark = Some(rng.random_range(-1..=3)),
            (_, 0) => (op.end, op.mark) = (End::Ok, None),
            (_, 1) => (op.end, op.mark) = (End::Stale, None),
            (_, 2) => (op.end, op.mark) = (End::Stale, Some(rng.random_range(0..=3))),
            _ => op.token = Some(rng.random_range(-1..=3)),
        }
    }
    fn value(&self, op: &Op) -> Option<Value> {
        let shown = |value: u8| {
            if value == 0 {
                Value::Null
            } else {
                json!(value)
            }
        };
        match op.f {
            "read" => op.found.first().map(|&value| shown(value)),
            "write" => Some(shown(op.args[0])),
            _ => Some(json!([shown(op.args[0]), shown(op.args[1])])),
        }
    }
}

/// A set, with or without `remove`.
#[derive(Clone, Copy, Debug)]
pub struct NaiveSet {
    pub remove: bool,
}

impl Object for NaiveSet {
    /// A bit for each element.
    type State = u8;
    fn initial(&self) -> u8 {
        0
    }
    fn ask(&self, rng: &mut ChaCha8Rng) -> Op {
        let element = rng.random_range(0..4);
        match rng.random_range(0..if self.remove { 5 } else { 4 }) {
            0 | 1 => Op::new("read", Vec::new()),
            4 => Op::new("remove", vec![element]),
            _ => Op::new("add", vec![element]),
        }
    }
    fn answer(&self, state: &mut u8, op: &mut Op) {
        match op.f {
            "read" => op.found = (0..8).filter(|bit| *state >> bit & 1 == 1).collect(),
            "add" => *state |= 1 << op.args[0],
            _ => *state &= !(1 << op.args[0]),
        }
    }
    fn accepts(&self, state: &mut u8, op: &Op) -> bool {
        match op.f {
            "read" => {
                let found = op
                    .found
                    .iter()
                    .fold(0, |bits, element| bits | 1_u8 << element);
                return op.end == End::Info || found == *state;
            }
            "add" => *state |= 1 << op.args[0],
            _ => *state &= !(1 << op.args[0]),
        }
        true
    }
    fn lie(&self, rng: &mut ChaCha8Rng, op: &mut Op) {
        match (op.f, rng.random_range(0..2)) {
            ("read", 0) => {
                op.found.pop();
            }
            ("read", _) => op.found.push(rng.random_range(0..4)),
            _ => op.end = End::No,
        }
    }
    fn value(&self, op: &Op) -> Option<Value> {
        match op.f {
            "read" => (op.end == End::Ok).then(|| values(&op.found)),
            _ => Some(json!(op.args[0])),
        }
    }
}

/// A log; `fenced`: appends have tokens and may be refused; `unique`: each has a value of its own.
#[derive(Clone, Copy, Debug)]
pub struct NaiveLog {
    pub fenced: bool,
    pub unique: bool,
}

impl Object for NaiveLog {
    type State = (i8, Vec<u8>);
    fn initial(&self) -> Self::State {
        (0, Vec::new())
    }
    fn ask(&self, rng: &mut ChaCha8Rng) -> Op {
        if rng.random_bool(0.45) {
            return Op::new("read", vec![u8::from(self.fenced && rng.random_bool(0.5))]);
        }
        let value = if self.unique {
            unique(rng)
        } else {
            rng.random_range(0..3)
        };
        let mut op = Op::new("append", vec![value, rng.random_range(0..2)]);
        if self.fenced && rng.random_bool(0.8) {
            op.token = Some(rng.random_range(-1..=3));
        }
        op
    }
    fn answer(&self, (mark, list): &mut Self::State, op: &mut Op) {
        let tells = op.args.last() == Some(&1);
        if op.f == "read" {
            (op.found, op.mark) = (list.clone(), tells.then_some(*mark));
        } else if op.token.is_some_and(|token| token < *mark) {
            (op.end, op.mark) = (End::Stale, tells.then_some(*mark));
        } else {
            *mark = op.token.unwrap_or(*mark);
            list.push(op.args[0]);
        }
    }
    fn accepts(&self, (mark, list): &mut Self::State, op: &Op) -> bool {
        let told = op.mark.is_none_or(|told| told == *mark);
        if op.f == "read" {
            return op.end == End::Info || told && op.found == *list;
        }
        if op.end == End::Stale {
            return told && op.token.unwrap_or(0) < *mark;
        }
        if op.token.is_some_and(|token| token < *mark) {
            return false;
        }
        *mark = op.token.unwrap_or(*mark);
        list.push(op.args[0]);
        true
    }
    fn says_nothing(&self, op: &Op) -> bool {
        op.end == End::No
    }
    fn lie(&self, rng: &mut ChaCha8Rng, op: &mut Op) {
        match (op.f, rng.random_range(0..3)) {
            ("read", 0) => {
                op.found.pop();
            }
            ("read", 1) => op.found.reverse(),
            ("read", _) => op.found.push(rng.random_range(0..3)),
            (_, 0) if self.fenced => op.token = Some(rng.random_range(-1..=3)),
            (_, 1) if self.fenced => {
                (op.end, op.mark) = (End::Stale, Some(rng.random_range(0..=3)))
            }
            _ => (op.end, op.mark) = (End::No, None),
        }
    }
    fn value(&self, op: &Op) -> Option<Value> {
        match op.f {
            "read" => (op.end == End::Ok).then(|| values(&op.found)),
            _ => Some(json!(op.args[0])),
        }
    }
}

/// A queue.
#[derive(Clone, Copy, Debug)]
pub struct NaiveQueue;

impl Object for NaiveQueue {
    type State = Vec<u8>;
    fn initial(&self) -> Vec<u8> {
        Vec::new()
    }
    fn ask(&self, rng: &mut ChaCha8Rng) -> Op {
        match rng.random_range(0..2) {
            0 => Op::new("enqueue", vec![rng.random_range(0..4)]),
            _ => Op::new("dequeue", Vec::new()),
        }
    }
    fn answer(&self, state: &mut Vec<u8>, op: &mut Op) {
        if op.f == "enqueue" {
            state.extend(&op.args);
        } else if !state.is_empty() {
            op.found = vec![state.remove(0)];
        }
    }
    fn accepts(&self, state: &mut Vec<u8>, op: &Op) -> bool {
        if op.f == "enqueue" {
            state.extend(&op.args);
            return true;
        }
        let front = if state.is_empty() {
            None
        } else {
            Some(state.remove(0))
        };
        op.end == End::Info || op.found.first().copied() == front
    }
    fn lie(&self, rng: &mut ChaCha8Rng, op: &mut Op) {
        match (op.f, rng.random_range(0..3)) {
            ("dequeue", 0) => op.found.clear(),
            ("dequeue", _) => op.found = vec![rng.random_range(0..4)],
            _ => op.end = End::No,
        }
    }
    fn value(&self, op: &Op) -> Option<Value> {
        match op.f {
            "enqueue" => Some(json!(op.args[0])),
            _ => op.found.first().map(|value| json!(value)),
        }
    }
}
