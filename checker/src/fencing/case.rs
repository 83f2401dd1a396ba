//! A history with what every rule asks for, computed once.
//!
//! Promises the words of the rules, each in one place: which lock an operation is about, which write a read saw,
//! what was accepted and what refused. Judges nothing.

use std::borrow::Cow;

use hashbrown::{HashMap, HashSet};

use crate::history::{Datum, Function, History, MarkScope, Name, Operation, Outcome, Token};

/// An invocation or a return, as a place to stand at while going through the history in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The operation's position in [`History::operations`].
    pub op: usize,
    /// Whether it returns here; else it is invoked.
    pub returns: bool,
    index: u64,
}

/// What shares one high water, or one issuer's counter.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Scope {
    Lock(Name),
    Key(Option<Name>),
}

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
}

/// A history before its judge.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub history: &'a History,
    /// Every invocation and every return, by index. An unknown outcome never returns.
    pub moments: Vec<Moment>,
    pub mark_scope: MarkScope,
    stale_token: Option<Name>,
    key_locks: HashMap<Name, Voice>,
    acquired: HashSet<Name>,
    grants: HashMap<(Name, Token), Vec<usize>>,
    written: HashMap<(Option<Name>, Datum), Written>,
    first_reads: HashMap<usize, usize>,
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
            stale_token: history.names.find("stale-token"),
            key_locks: key_locks(history),
            acquired: HashSet::new(),
            grants: HashMap::new(),
            written: HashMap::new(),
            first_reads: HashMap::new(),
        };
        for (op, operation) in history.operations.iter().enumerate() {
            match operation.function {
                Function::Acquire => case.note_acquire(op, operation),
                Function::Write => case.note_written(op, operation),
                _ => {}
            }
        }
        for (op, operation) in history.operations.iter().enumerate() {
            if let Some(write) = case.write_seen_by(operation) {
                case.first_reads.entry(write).or_insert(op);
            }
        }
        case
    }

    fn note_acquire(&mut self, op: usize, operation: &Operation) {
        self.acquired.extend(operation.lock);
        if let (Some(lock), Some(token), true) =
            (operation.lock, operation.token, Self::is_grant(operation))
        {
            self.grants.entry((lock, token)).or_default().push(op);
        }
    }

    fn note_written(&mut self, op: usize, operation: &'a Operation) {
        if let Some(value) = operation.value.filter(|value| !value.is_null()) {
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

    /// What shares a high water with this operation.
    pub fn scope(&self, operation: &Operation) -> Scope {
        match (self.mark_scope, self.lock(operation)) {
            (MarkScope::Lock, Some(lock)) => Scope::Lock(lock),
            (MarkScope::Lock, None) | (MarkScope::Key, _) => Scope::Key(operation.key),
        }
    }

    /// The file shows acquires of this lock, so a missing grant means something.
    pub fn is_acquired(&self, lock: Name) -> bool {
        self.acquired.contains(&lock)
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
                Outcome::Unknown => self.first_reads.contains_key(&op),
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
    /// written after the read's answer does not count.
    pub fn write_seen_by(&self, read: &Operation) -> Option<usize> {
        if read.function != Function::Read || read.outcome != Outcome::Ok {
            return None;
        }
        let written = self.written.get(&(read.key, read.value?))?;
        let returned = read.returned()?.index;
        let before = |write: usize| self.operation(write).invoked.index < returned;
        (before(written.first) && !written.second.is_some_and(before)).then_some(written.first)
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

    /// The first read that returned this write's value.
    pub fn first_read_of(&self, write: usize) -> Option<usize> {
        self.first_reads.get(&write).copied()
    }
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
    for operation in &history.operations {
        if let (Some(key), Some(lock)) = (operation.key, operation.lock) {
            let until = u64::MAX;
            let known = locks.entry(key).or_insert(Voice { lock, until });
            if known.lock != lock {
                known.until = known.until.min(operation.invoked.index);
            }
        }
    }
    for (lock, header) in history.header.iter().flat_map(|header| &header.locks) {
        let Some(lock) = history.names.find(lock) else {
            continue;
        };
        let until = u64::MAX;
        let keys = header.keys.iter().filter_map(|key| history.names.find(key));
        locks.extend(keys.map(|key| (key, Voice { lock, until })));
    }
    locks
}
