//! A history with what every rule asks for, computed once.
//!
//! Promises the words of the rules, each in one place: which lock an operation is about, which write a read saw,
//! what was accepted and what refused. Judges nothing.

use std::collections::{HashMap, HashSet};

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

/// What shares one high water, or one issuer's counter.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Scope {
    Lock(Name),
    Key(Option<Name>),
}

#[derive(Clone, Copy, Debug)]
enum Written {
    Once(usize),
    Often,
}

/// A history before its judge.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub history: &'a History,
    /// Every invocation and every return, by index. An unknown outcome never returns.
    pub moments: Vec<Moment>,
    pub mark_scope: MarkScope,
    stale_token: Option<Name>,
    key_locks: HashMap<Name, Option<Name>>,
    acquired: HashSet<Name>,
    grants: HashMap<(Name, Token), Vec<usize>>,
    written: HashMap<(Option<Name>, &'a Value), Written>,
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
        if let Some(value) = &operation.value {
            self.written
                .entry((operation.key, value))
                .and_modify(|written| *written = Written::Often)
                .or_insert(Written::Once(op));
        }
    }

    pub fn operation(&self, op: usize) -> &'a Operation {
        &self.history.operations[op]
    }

    pub fn text(&self, name: Name) -> &'a str {
        self.history.names.text(name)
    }

    /// The lock that an operation names, or that guards its key as far as the file tells.
    pub fn lock(&self, operation: &Operation) -> Option<Name> {
        let guards = || {
            operation
                .key
                .and_then(|key| self.key_locks.get(&key).copied().flatten())
        };
        operation.lock.or_else(guards)
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
            .and_then(|of| self.grants.get(&of))
            .map_or(&[][..], Vec::as_slice);
        grants
            .iter()
            .map(|&op| self.operation(op))
            .filter(move |grant| grant.precedes(before))
    }

    /// The one write whose value this read returned; `None` where that value was written twice or never.
    pub fn write_seen_by(&self, read: &Operation) -> Option<usize> {
        if read.function != Function::Read || read.outcome != Outcome::Ok {
            return None;
        }
        match self.written.get(&(read.key, read.value.as_ref()?))? {
            Written::Once(write) => Some(*write),
            Written::Often => None,
        }
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

/// Which lock guards a key: as the header says, else as the operations on it say with one voice.
fn key_locks(history: &History) -> HashMap<Name, Option<Name>> {
    let mut locks: HashMap<Name, Option<Name>> = HashMap::new();
    for operation in &history.operations {
        if let (Some(key), Some(lock)) = (operation.key, operation.lock) {
            let known = locks.entry(key).or_insert(Some(lock));
            if *known != Some(lock) {
                *known = None;
            }
        }
    }
    for (lock, header) in history.header.iter().flat_map(|header| &header.locks) {
        let Some(lock) = history.names.find(lock) else {
            continue;
        };
        let keys = header.keys.iter().filter_map(|key| history.names.find(key));
        locks.extend(keys.map(|key| (key, Some(lock))));
    }
    locks
}
