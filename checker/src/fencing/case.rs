//! A history with what every rule asks for, computed once.
//!
//! Promises the words of the rules, each in one place: which lock an operation is about, which write a read saw,
//! what was accepted and what refused. Judges nothing.

use std::borrow::Cow;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::by_name::ByName;
use super::moments::Moments;

use crate::history::{Datum, Function, History, MarkScope, Name, Operation, Outcome, Token};

/// What shares one high water, or one issuer's counter.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Scope {
    Lock(Name),
    Key(Option<Name>),
}

/// The first two writes of one value of one key, in order of invocation.
#[derive(Clone, Copy, Debug)]
struct Written {
    key: Option<Name>,
    first: u32,
    second: u32,
}

/// What stands for no operation.
const NOBODY: u32 = u32::MAX;

/// Who wrote which value.
#[derive(Debug, Default)]
struct Writings {
    /// By value, for the first key that it is written to.
    main: Vec<Option<Written>>,
    /// For the other keys.
    rest: HashMap<(Option<Name>, Datum), Written>,
}

impl Writings {
    fn note(&mut self, op: u32, key: Option<Name>, value: Datum) {
        let new = Written {
            key,
            first: op,
            second: NOBODY,
        };
        let written = match &mut self.main[value.position()] {
            none @ None => {
                *none = Some(new);
                return;
            }
            Some(written) if written.key == key => written,
            Some(_) => match self.rest.entry((key, value)) {
                Entry::Occupied(written) => written.into_mut(),
                Entry::Vacant(vacant) => {
                    vacant.insert(new);
                    return;
                }
            },
        };
        if written.second == NOBODY {
            written.second = op;
        }
    }

    fn of(&self, key: Option<Name>, value: Datum) -> Option<&Written> {
        match self.main.get(value.position())? {
            Some(written) if written.key == key => Some(written),
            Some(_) => self.rest.get(&(key, value)),
            None => None,
        }
    }
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
    pub moments: Moments,
    pub mark_scope: MarkScope,
    stale_token: Option<Name>,
    key_locks: ByName<Voice>,
    acquired: ByName<()>,
    grants: HashMap<(Name, Token), Vec<usize>>,
    written: Writings,
    /// For each operation the first read that returned its value.
    first_reads: Vec<u32>,
}

impl<'a> Case<'a> {
    /// For the register model alone, which asks neither for moments nor for grants.
    pub fn of_registers(history: &'a History) -> Self {
        let header = history.header.as_ref();
        Self {
            history,
            moments: Moments::default(),
            mark_scope: header.map(|header| header.mark_scope).unwrap_or_default(),
            stale_token: history.names.find("stale-token"),
            key_locks: key_locks(history),
            acquired: ByName::default(),
            grants: HashMap::new(),
            written: Writings::default(),
            first_reads: Vec::new(),
        }
    }

    pub fn new(history: &'a History) -> Self {
        let operations = &history.operations;
        let mut case = Self {
            moments: Moments::of(operations),
            first_reads: vec![NOBODY; operations.len()],
            ..Self::of_registers(history)
        };
        case.written.main = vec![None; history.values.count()];
        for (op, operation) in operations.iter().enumerate() {
            match operation.function {
                Function::Acquire => case.note_acquire(op, operation),
                Function::Write => {
                    if let Some(value) = operation.value.filter(|value| !value.is_null()) {
                        // There are fewer than 2^31 operations, or there were no moments.
                        case.written.note(op as u32, operation.key, value);
                    }
                }
                _ => {}
            }
        }
        for (op, operation) in operations.iter().enumerate() {
            if let Some(write) = case.write_seen_by(operation) {
                let first = &mut case.first_reads[write];
                if *first == NOBODY {
                    *first = op as u32;
                }
            }
        }
        case
    }

    fn note_acquire(&mut self, op: usize, operation: &Operation) {
        if operation.lock.is_some() {
            self.acquired.or_default(operation.lock);
        }
        if let (Some(lock), Some(token), true) =
            (operation.lock, operation.token, Self::is_grant(operation))
        {
            self.grants.entry((lock, token)).or_default().push(op);
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
            let voice = self.key_locks.get(Some(operation.key?))?;
            (operation.invoked.index < voice.until).then_some(voice.lock)
        };
        operation.lock.or_else(guards)
    }

    /// The lock that the header, else the first operation that names one, puts before a key.
    pub fn first_lock(&self, key: Option<Name>) -> Option<Name> {
        self.key_locks.get(Some(key?)).map(|voice| voice.lock)
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
        self.acquired.get(Some(lock)).is_some()
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
    /// written after the read's answer does not count.
    pub fn write_seen_by(&self, read: &Operation) -> Option<usize> {
        if read.function != Function::Read || read.outcome != Outcome::Ok {
            return None;
        }
        let written = self.written.of(read.key, read.value?)?;
        let returned = read.returned()?.index;
        let before =
            |write: u32| write != NOBODY && self.operation(write as usize).invoked.index < returned;
        (before(written.first) && !before(written.second)).then_some(written.first as usize)
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
        let first = self.first_reads.get(write).copied();
        first
            .filter(|&read| read != NOBODY)
            .map(|read| read as usize)
    }
}

/// Which lock guards a key: as the header says, else as the operations on it say, for as long as they do so with one
/// voice.
fn key_locks(history: &History) -> ByName<Voice> {
    let mut locks: ByName<Voice> = ByName::default();
    for operation in &history.operations {
        if let (Some(key), Some(lock)) = (operation.key, operation.lock) {
            let until = u64::MAX;
            let known = locks.of(Some(key), || Voice { lock, until });
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
        for key in keys {
            *locks.of(Some(key), || Voice { lock, until }) = Voice { lock, until };
        }
    }
    locks
}
