//! A history with what every rule asks for, computed once.
//!
//! Promises the words of the rules, each in one place: which lock an operation is about, which write a read saw,
//! what was accepted and what refused. Judges nothing.

use std::borrow::Cow;
use std::hint::black_box;
use std::sync::OnceLock;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::by_name::ByName;
use super::kinds::Kind;
use super::moments::{Moment, Moments, Placing};
use crate::history::{Datum, Function, History, MarkScope, Name, Operation, Outcome, Token};

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

/// What is done at locks, and refusals: few among many reads and writes, and what many rules are about.
const FEW: Kind = Kind::ACQUIRE
    .or(Kind::RENEW)
    .or(Kind::RELEASE)
    .or(Kind::REFUSAL);

/// The first two writes of one value of one key, in order of invocation.
#[derive(Clone, Copy, Debug)]
struct Written {
    key: Option<Name>,
    first: u32,
    second: u32,
}

/// Who wrote or appended which value.
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
            second: NONE,
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
        if written.second == NONE {
            written.second = op;
        }
    }

    #[inline]
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
    /// The first operation that names it; `None` where the header does.
    by: Option<usize>,
}

/// A history before its judge.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub history: &'a History,
    /// Every invocation and every return, by index. An unknown outcome never returns.
    pub moments: Moments,
    /// Those of operations that are any of [`FEW`].
    few: Moments,
    pub mark_scope: MarkScope,
    /// What each operation is.
    pub kinds: Vec<Kind>,
    /// Where each operation takes place.
    pub spots: Vec<Spot>,
    /// How many scopes and objects there are.
    pub scopes: usize,
    pub objects: usize,
    stale_token: Option<Name>,
    primary: Option<Name>,
    /// Looked for when it is first asked for: not every check does.
    key_locks: OnceLock<ByName<Voice>>,
    /// For each lock its first acquire, or rather the first that was answered.
    acquired: ByName<usize>,
    grants: HashMap<(Name, Token), Vec<usize>>,
    written: Writings,
    /// Of a history with appends, the elements of each list that was read; one that nobody wrote by itself is `None`.
    lists: HashMap<Datum, Vec<Option<Datum>>>,
    /// For each read the write whose value it returned, for each write the first read that did; else [`NONE`].
    seen: Vec<u32>,
}

impl<'a> Case<'a> {
    /// For the register model alone, which asks neither for moments nor for grants.
    pub fn of_registers(history: &'a History) -> Self {
        let header = history.header.as_ref();
        Self {
            history,
            moments: Moments::default(),
            few: Moments::default(),
            mark_scope: header.map(|header| header.mark_scope).unwrap_or_default(),
            kinds: Vec::new(),
            spots: Vec::new(),
            scopes: 0,
            objects: 0,
            stale_token: history.names.find("stale-token"),
            primary: history.names.find("primary"),
            key_locks: OnceLock::new(),
            acquired: ByName::default(),
            grants: HashMap::new(),
            written: Writings::default(),
            lists: HashMap::new(),
            seen: Vec::new(),
        }
    }

    pub fn new(history: &'a History) -> Self {
        let operations = &history.operations;
        let mut case = Self {
            seen: vec![NONE; operations.len()],
            ..Self::of_registers(history)
        };
        case.written.main = vec![None; history.values.count()];
        case.place();
        case.few = case.moments.only(|op| case.kinds[op].is(FEW));
        let appends = case.has(Kind::APPEND);
        for (op, operation) in operations.iter().enumerate() {
            let kind = case.kinds[op];
            if kind.is(Kind::READ) && kind.is(Kind::OK) {
                if appends {
                    case.note_list(operation);
                }
                case.note_read(op, operation);
            }
        }
        // It was asked for that alone, and is large.
        case.written = Writings::default();
        case
    }

    /// Gives every operation its moments, its spot and its kind, and notes acquires and writes.
    fn place(&mut self) {
        let mut moments = Placing::new(&self.history.operations);
        let mut objects: HashMap<(Option<Name>, Option<Name>), u32> = HashMap::new();
        let mut scopes: HashMap<Scope, u32> = HashMap::new();
        // Keys on the primary path are looked up in a table.
        let mut plain = vec![NONE; self.history.names.count() + 1];
        self.kinds.reserve_exact(self.history.operations.len());
        self.spots.reserve_exact(self.history.operations.len());
        for (op, operation) in self.history.operations.iter().enumerate() {
            moments.note(op);
            match operation.function {
                Function::Acquire => self.note_acquire(op, operation),
                Function::Write | Function::Append => {
                    if let Some(value) = operation.value.filter(|value| !value.is_null()) {
                        self.written.note(index(op), operation.key, value);
                    }
                }
                _ => {}
            }
            let path = self.path(operation);
            let mut object = NONE;
            if path.is_none() {
                object = plain[operation.key.map_or(0, |key| key.position() + 1)];
            }
            if object == NONE {
                let next = u32::try_from(objects.len()).unwrap_or(NONE);
                object = *objects.entry((operation.key, path)).or_insert(next);
                if path.is_none() {
                    plain[operation.key.map_or(0, |key| key.position() + 1)] = object;
                }
            }
            let is_refusal = self.is_refusal(operation);
            self.kinds.push(Kind::of(operation, is_refusal));
            let lock = self.lock(operation);
            let scope = if self.mark_scope == MarkScope::Key {
                object
            } else {
                let next = u32::try_from(scopes.len()).unwrap_or(NONE);
                *scopes.entry(self.scope(operation)).or_insert(next)
            };
            self.spots.push(Spot {
                lock: lock.map_or(NONE, |lock| index(lock.position())),
                scope,
                object,
            });
        }
        self.moments = moments.finish();
        self.objects = objects.len();
        self.scopes = scopes.len().max(self.objects);
    }

    /// Spells out the list that a read returned, if it is one.
    fn note_list(&mut self, read: &Operation) {
        if let Some(value) = read.value
            && let Entry::Vacant(new) = self.lists.entry(value)
            && let Some(elements) = self.history.values.elements(value)
        {
            new.insert(elements);
        }
    }

    /// Notes which write a read saw. Of a list it is the append with the greatest token; each of the list was seen.
    fn note_read(&mut self, op: usize, read: &Operation) {
        let (Some(value), Some(returned)) = (read.value, read.returned()) else {
            return;
        };
        let mut seen = self.written_before(read.key, value, returned.index);
        if seen.is_none()
            && let Some(elements) = self.lists.get(&value)
        {
            for &element in elements.iter().flatten() {
                let Some(append) = self
                    .written_before(read.key, element, returned.index)
                    .filter(|&append| self.operation(append).function == Function::Append)
                else {
                    continue;
                };
                note_first_read(&mut self.seen, append, op);
                let newer = seen.is_none_or(|newest| {
                    self.operation(newest).token < self.operation(append).token
                });
                if newer && self.operation(append).outcome != Outcome::Failed {
                    seen = Some(append);
                }
            }
        }
        if let Some(write) = seen {
            self.seen[op] = index(write);
            note_first_read(&mut self.seen, write, op);
        }
    }

    /// The one write of this value that was invoked before `returned`.
    #[inline]
    fn written_before(&self, key: Option<Name>, value: Datum, returned: u64) -> Option<usize> {
        let written = self.written.of(key, value)?;
        let before =
            |write: u32| write != NONE && self.operation(write as usize).invoked.index < returned;
        (before(written.first) && !before(written.second)).then_some(written.first as usize)
    }

    fn note_acquire(&mut self, op: usize, operation: &Operation) {
        if operation.lock.is_some() {
            let known = self.acquired.of(operation.lock, || op);
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

    /// The moments of operations that are any of these, in order.
    pub fn walk(&self, kinds: Kind) -> impl Iterator<Item = Moment> {
        let moments = if FEW.holds(kinds) {
            &self.few
        } else {
            &self.moments
        };
        let moments = moments.iter();
        moments.filter(move |moment| self.kinds[moment.op].is(kinds))
    }

    /// The same for a rule that looks at nearly all of them, and at most of those only where they return: a leap back in
    /// memory. Invocations are in the order of memory, which is fetched ahead; so each is touched there, and whoever
    /// looks later finds it in the cache.
    pub fn walk_ahead(&self, kinds: Kind) -> impl Iterator<Item = Moment> {
        self.walk(kinds).inspect(|moment| {
            if !moment.returns {
                black_box(self.history.operations[moment.op].outcome);
            }
        })
    }

    /// The operations that are any of these, with their positions.
    pub fn of(&self, kinds: Kind) -> impl Iterator<Item = (usize, &'a Operation)> {
        let all = self.kinds.iter().enumerate();
        let these = all.filter(move |(_, kind)| kind.is(kinds));
        these.map(|(op, _)| (op, self.operation(op)))
    }

    /// There is an operation that is any of these.
    pub fn has(&self, kinds: Kind) -> bool {
        self.kinds.iter().any(|kind| kind.is(kinds))
    }

    pub fn operation(&self, op: usize) -> &'a Operation {
        &self.history.operations[op]
    }

    pub fn text(&self, name: Name) -> Cow<'a, str> {
        self.history.names.shown(name)
    }

    #[inline]
    fn key_locks(&self) -> &ByName<Voice> {
        self.key_locks.get_or_init(|| key_locks(self.history))
    }

    /// The lock that an operation names, or that guards its key as far as the file tells up to there.
    pub fn lock(&self, operation: &Operation) -> Option<Name> {
        let guards = || {
            let voice = self.key_locks().get(Some(operation.key?))?;
            (operation.invoked.index < voice.until).then_some(voice.lock)
        };
        operation.lock.or_else(guards)
    }

    /// The lock that the header, else the first operation that names one, puts before a key.
    pub fn first_lock(&self, key: Option<Name>) -> Option<Name> {
        self.key_locks().get(Some(key?)).map(|voice| voice.lock)
    }

    /// The operation that tells the lock of one that does not name it.
    pub fn lock_told_by(&self, operation: &Operation) -> Option<usize> {
        let voice = self.key_locks().get(Some(operation.key?))?;
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
        self.acquired.get(Some(lock)).is_some()
    }

    /// An acquire of the lock, answered if any was.
    pub fn acquire_of(&self, lock: Name) -> Option<usize> {
        self.acquired.get(Some(lock)).copied()
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
        let kind = self.kinds[op];
        kind.is(Kind::FENCED)
            && !kind.is(Kind::FAILED)
            && (kind.is(Kind::OK) || self.first_read_of(op).is_some())
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
        let reads = self.kinds[read].is(Kind::READ);
        (reads && self.seen[read] != NONE).then(|| self.seen[read] as usize)
    }

    /// The elements of a list that was read in a history with appends; those that nobody wrote by themselves are `None`.
    pub fn list(&self, value: Datum) -> Option<&[Option<Datum>]> {
        self.lists.get(&value).map(Vec::as_slice)
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
        let writes = !self.kinds[write].is(Kind::READ);
        (writes && self.seen[write] != NONE).then(|| self.seen[write] as usize)
    }
}

/// A position among operations, small. More than 2^32 of them fit no memory.
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(NONE)
}

fn note_first_read(seen: &mut [u32], write: usize, read: usize) {
    if seen[write] == NONE {
        seen[write] = index(read);
    }
}

/// Which lock guards a key: as the header says, else as the operations on it say, for as long as they do so with one
/// voice.
fn key_locks(history: &History) -> ByName<Voice> {
    let mut locks: ByName<Voice> = ByName::default();
    for (op, operation) in history.operations.iter().enumerate() {
        if let (Some(key), Some(lock)) = (operation.key, operation.lock) {
            let known = locks.of(Some(key), || Voice {
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
        for key in keys {
            *locks.of(Some(key), || voice) = voice;
        }
    }
    locks
}
