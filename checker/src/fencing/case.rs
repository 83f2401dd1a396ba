//! A history with what every rule asks for, computed once.
//!
//! Promises the words of the rules, each in one place: which lock an operation is about, which write a read saw,
//! what was accepted and what refused. Judges nothing.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;

use crate::history::{Function, History, MarkScope, Name, Operation, Outcome, Token};

/// An invocation or a return, as a place to stand at while going through the history in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The operation's position in [`History::operations`].
    pub op: usize,
    /// Whether it returns here; else it is invoked.
    pub returns: bool,
    index: u64,
}

/// What shares one high water: a lock or a key, each with the path by which it is written (`None` is `primary`).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Scope {
    Lock(Name, Option<Name>),
    Key(Option<Name>, Option<Name>),
}

/// Where an operation takes place, as small numbers, so that rules keep tables and compare nothing but integers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    /// The lock that it names or that guards its key; [`NONE`] where the file does not tell.
    lock: u32,
    /// What shares its high water.
    pub scope: u32,
    /// Its key and path; of an operation without a key, the nameless object of its path.
    pub object: u32,
}

/// No operation, no name.
const NONE: u32 = u32::MAX;

/// The first two writes of one value of one key, in order of invocation.
#[derive(Clone, Copy, Debug)]
struct Written {
    first: usize,
    second: Option<usize>,
}

/// What the operations on a key say about the lock that guards it.
#[derive(Clone, Copy, Debug)]
struct Voice {
    lock: Name,
    /// The index from which on they contradict each other.
    until: u64,
    /// The first operation that names it; `None` where the header does.
    by: Option<usize>,
}

/// A history before its judge.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub history: &'a History,
    /// Every invocation and every return, by index. An unknown outcome never returns.
    pub moments: Vec<Moment>,
    pub mark_scope: MarkScope,
    /// Where each operation takes place.
    pub spots: Vec<Spot>,
    /// How many scopes and objects there are.
    pub scopes: usize,
    pub objects: usize,
    stale_token: Option<Name>,
    primary: Option<Name>,
    key_locks: HashMap<Name, Voice>,
    /// For each lock its first acquire, or rather the first that was answered.
    acquired: HashMap<Name, usize>,
    grants: HashMap<(Name, Token), Vec<usize>>,
    written: HashMap<(Option<Name>, &'a Value), Written>,
    /// For each read the write whose value it returned, for each write the first read that did; else [`NONE`].
    seen: Vec<u32>,
}

impl<'a> Case<'a> {
    pub fn new(history: &'a History) -> Self {
        let mut case = Self {
            history,
            moments: moments(&history.operations),
            mark_scope: history
                .header
                .as_ref()
                .map(|header| header.mark_scope)
                .unwrap_or_default(),
            spots: Vec::with_capacity(history.operations.len()),
            scopes: 0,
            objects: 0,
            stale_token: history.names.find("stale-token"),
            primary: history.names.find("primary"),
            key_locks: key_locks(history),
            acquired: HashMap::new(),
            grants: HashMap::new(),
            written: HashMap::new(),
            seen: vec![NONE; history.operations.len()],
        };
        case.place();
        for (op, operation) in history.operations.iter().enumerate() {
            match operation.function {
                Function::Acquire => case.note_acquire(op, operation),
                Function::Write | Function::Append => case.note_written(op, operation),
                _ => {}
            }
        }
        for (op, operation) in history.operations.iter().enumerate() {
            if operation.function == Function::Read && operation.outcome == Outcome::Ok {
                case.note_read(op, operation);
            }
        }
        case
    }

    /// Gives every operation its spot.
    fn place(&mut self) {
        let mut objects: HashMap<(Option<Name>, Option<Name>), u32> = HashMap::new();
        let mut scopes: HashMap<Scope, u32> = HashMap::new();
        // Keys on the primary path are looked up in a table.
        let mut plain = vec![NONE; self.history.names.len() + 1];
        for operation in &self.history.operations {
            let path = self.path(operation);
            let mut object = NONE;
            if path.is_none() {
                object = plain[operation.key.map_or(0, |key| key.index() + 1)];
            }
            if object == NONE {
                let next = u32::try_from(objects.len()).unwrap_or(NONE);
                object = *objects.entry((operation.key, path)).or_insert(next);
                if path.is_none() {
                    plain[operation.key.map_or(0, |key| key.index() + 1)] = object;
                }
            }
            let lock = self.lock(operation);
            let scope = if self.mark_scope == MarkScope::Key {
                object
            } else {
                let next = u32::try_from(scopes.len()).unwrap_or(NONE);
                *scopes.entry(self.scope(operation)).or_insert(next)
            };
            self.spots.push(Spot {
                lock: lock.map_or(NONE, |lock| index(lock.index())),
                scope,
                object,
            });
        }
        self.objects = objects.len();
        self.scopes = scopes.len().max(self.objects);
    }

    /// Notes which write a read saw. Of a list it is the append with the greatest token; each of the list was seen.
    fn note_read(&mut self, op: usize, read: &'a Operation) {
        let (Some(value), Some(returned)) = (read.value.as_ref(), read.returned()) else {
            return;
        };
        let seen = match (self.written_before(read.key, value, returned.index), value) {
            (Some(write), _) => Some(write),
            (None, Value::Array(elements)) => {
                let mut newest: Option<usize> = None;
                for element in elements {
                    let Some(append) = self
                        .written_before(read.key, element, returned.index)
                        .filter(|&append| self.operation(append).function == Function::Append)
                    else {
                        continue;
                    };
                    self.note_first_read(append, op);
                    let newer = newest.is_none_or(|newest| {
                        self.operation(newest).token < self.operation(append).token
                    });
                    if newer && self.operation(append).outcome != Outcome::Failed {
                        newest = Some(append);
                    }
                }
                newest
            }
            (None, _) => None,
        };
        if let Some(write) = seen {
            self.seen[op] = index(write);
            self.note_first_read(write, op);
        }
    }

    fn note_first_read(&mut self, write: usize, read: usize) {
        if self.seen[write] == NONE {
            self.seen[write] = index(read);
        }
    }

    /// The one write of this value that was invoked before `returned`.
    fn written_before(&self, key: Option<Name>, value: &Value, returned: u64) -> Option<usize> {
        let written = self.written.get(&(key, value))?;
        let before = |write: usize| self.operation(write).invoked.index < returned;
        (before(written.first) && !written.second.is_some_and(before)).then_some(written.first)
    }

    fn note_acquire(&mut self, op: usize, operation: &Operation) {
        if let Some(lock) = operation.lock {
            let known = self.acquired.entry(lock).or_insert(op);
            if self.history.operations[*known].outcome == Outcome::Unknown {
                *known = op;
            }
        }
        if let (Some(lock), Some(token), true) =
            (operation.lock, operation.token, Self::is_grant(operation))
        {
            self.grants.entry((lock, token)).or_default().push(op);
        }
    }

    fn note_written(&mut self, op: usize, operation: &'a Operation) {
        if let Some(value) = operation.value.as_ref().filter(|value| !value.is_null()) {
            self.written
                .entry((operation.key, value))
                .and_modify(|written| written.second = written.second.or(Some(op)))
                .or_insert(Written {
                    first: op,
                    second: None,
                });
        }
    }

    pub fn operation(&self, op: usize) -> &'a Operation {
        &self.history.operations[op]
    }

    pub fn text(&self, name: Name) -> Cow<'a, str> {
        self.history.names.shown(name)
    }

    /// The lock that an operation names, or that guards its key as far as the file tells up to there.
    pub fn lock(&self, operation: &Operation) -> Option<Name> {
        let guards = || {
            let voice = self.key_locks.get(&operation.key?)?;
            (operation.invoked.index < voice.until).then_some(voice.lock)
        };
        operation.lock.or_else(guards)
    }

    /// The lock that the header, else the first operation that names one, puts before a key.
    pub fn first_lock(&self, key: Option<Name>) -> Option<Name> {
        self.key_locks.get(&key?).map(|voice| voice.lock)
    }

    /// The operation that tells the lock of one that does not name it.
    pub fn lock_told_by(&self, operation: &Operation) -> Option<usize> {
        let voice = self.key_locks.get(&operation.key?)?;
        voice.by.filter(|_| operation.lock.is_none())
    }

    /// What shares a high water with this operation.
    pub fn scope(&self, operation: &Operation) -> Scope {
        let path = self.path(operation);
        match (self.mark_scope, self.lock(operation)) {
            (MarkScope::Lock, Some(lock)) => Scope::Lock(lock, path),
            (MarkScope::Lock, None) | (MarkScope::Key, _) => Scope::Key(operation.key, path),
        }
    }

    /// The path of an operation; `None` is `primary`, however it was told.
    pub fn path(&self, operation: &Operation) -> Option<Name> {
        operation.path.filter(|_| operation.path != self.primary)
    }

    /// The place of an operation's lock in tables.
    pub fn lock_place(&self, op: usize) -> Option<usize> {
        let lock = self.spots[op].lock;
        (lock != NONE).then_some(lock as usize)
    }

    /// The file shows acquires of this lock, so a missing grant means something.
    pub fn is_acquired(&self, lock: Name) -> bool {
        self.acquired.contains_key(&lock)
    }

    /// An acquire of the lock, answered if any was.
    pub fn acquire_of(&self, lock: Name) -> Option<usize> {
        self.acquired.get(&lock).copied()
    }

    /// A write that the fence did or should have looked at: it presents a token.
    pub fn is_fenced_write(operation: &Operation) -> bool {
        matches!(
            operation.function,
            Function::Write | Function::Append | Function::Cas
        ) && operation.token.is_some()
    }

    /// Answered `fail` with `stale-token`.
    pub fn is_refusal(&self, operation: &Operation) -> bool {
        Self::is_fenced_write(operation)
            && operation.outcome == Outcome::Failed
            && operation.error.is_some()
            && operation.error == self.stale_token
    }

    /// Answered `ok`, or unknown and its value was read.
    pub fn is_accepted(&self, op: usize) -> bool {
        let operation = self.operation(op);
        Self::is_fenced_write(operation)
            && match operation.outcome {
                Outcome::Ok => true,
                Outcome::Unknown => self.first_read_of(op).is_some(),
                Outcome::Failed => false,
            }
    }

    /// A grant: an acquire answered `ok` with a token.
    pub fn is_grant(operation: &Operation) -> bool {
        operation.function == Function::Acquire
            && operation.outcome == Outcome::Ok
            && operation.token.is_some()
    }

    /// The grants of one token of one lock that were known before `before` was invoked, in order of invocation.
    pub fn grants_before(
        &self,
        lock: Option<Name>,
        token: Option<Token>,
        before: &Operation,
    ) -> impl DoubleEndedIterator<Item = &'a Operation> {
        let grants = lock
            .zip(token)
            .map(|(lock, token)| self.grants_of(lock, token));
        grants
            .into_iter()
            .flatten()
            .filter(move |grant| grant.precedes(before))
    }

    /// The one write whose value this read returned; `None` where that value was written twice or never. What is
    /// written after the read's answer does not count. Of a list it is the append with the greatest token.
    pub fn write_seen_by(&self, read: usize) -> Option<usize> {
        let reads = self.operation(read).function == Function::Read;
        (reads && self.seen[read] != NONE).then(|| self.seen[read] as usize)
    }

    /// All grants of one token of one lock, in order of invocation.
    pub fn grants_of(
        &self,
        lock: Name,
        token: Token,
    ) -> impl DoubleEndedIterator<Item = &'a Operation> {
        let grants = self.grants.get(&(lock, token));
        let grants = grants.map_or(&[][..], Vec::as_slice);
        grants.iter().map(|&op| self.operation(op))
    }

    /// The first read, by its invocation, that returned this write's value.
    pub fn first_read_of(&self, write: usize) -> Option<usize> {
        let writes = self.operation(write).function != Function::Read;
        (writes && self.seen[write] != NONE).then(|| self.seen[write] as usize)
    }
}

/// A position among operations, small. More than 2^32 of them fit no memory.
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(NONE)
}

fn moments(operations: &[Operation]) -> Vec<Moment> {
    let mut moments = Vec::with_capacity(operations.len() * 2);
    for (op, operation) in operations.iter().enumerate() {
        moments.push(Moment {
            op,
            returns: false,
            index: operation.invoked.index,
        });
        if let Some(returned) = operation.returned() {
            moments.push(Moment {
                op,
                returns: true,
                index: returned.index,
            });
        }
    }
    moments.sort_unstable_by_key(|moment| (moment.index, moment.returns, moment.op));
    moments
}

/// Which lock guards a key: as the header says, else as the operations on it say, for as long as they do so with one
/// voice.
fn key_locks(history: &History) -> HashMap<Name, Voice> {
    let mut locks: HashMap<Name, Voice> = HashMap::new();
    for (op, operation) in history.operations.iter().enumerate() {
        if let (Some(key), Some(lock)) = (operation.key, operation.lock) {
            let known = locks.entry(key).or_insert(Voice {
                lock,
                until: u64::MAX,
                by: Some(op),
            });
            if known.lock != lock {
                known.until = known.until.min(operation.invoked.index);
            }
        }
    }
    for (lock, header) in history.header.iter().flat_map(|header| &header.locks) {
        let Some(lock) = history.names.find(lock) else {
            continue;
        };
        let voice = Voice {
            lock,
            until: u64::MAX,
            by: None,
        };
        let keys = header.keys.iter().filter_map(|key| history.names.find(key));
        locks.extend(keys.map(|key| (key, voice)));
    }
    locks
}
