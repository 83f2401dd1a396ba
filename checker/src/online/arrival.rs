//! Lines in, operations and moments out: what [`crate::history::Pairing`] does, without keeping what has passed.
//!
//! Promises the same operations, the same order and the same errors as reading the whole file, while holding only
//! operations whose moments have not been taken yet. Lines without an index are held back until time goes on, because
//! equal times are concurrent.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::faults::Faults;
use super::hash::{Map, Set};
use super::words::{Kept, Op};
use crate::history::{
    Event, FaultEvent, FaultOutcome, FaultPhase, FaultWindow, Function, Header, HistoryError,
    Instant, Line, LockHeader, MAX_OPEN, MarkScope, NO_INDEX, Name, Names, Operation, Outcome,
    Simultaneous, Type, UNNAMED, in_order, plain,
};

/// How many different errors are kept by name; the rest are one.
const MOST_ERRORS: usize = 1000;

/// How many processes that ended with an `info` are kept to tell holders apart.
const RETIRED_KEPT: usize = 1 << 14;

/// An invocation or a return.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub op: u64,
    pub returns: bool,
}

/// An operation that still has moments to come.
#[derive(Clone, Debug)]
pub(super) enum Slot {
    Open(Box<Op>),
    Done(Kept),
    Gone,
}

#[derive(Clone, Copy, Debug)]
enum Process {
    Idle,
    Busy { op: u64, line: usize },
}

/// What is known of a process, in indexes; see `fencing/identity.rs`.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub first: u64,
    pub last: u64,
    pub unnamed: bool,
    pub ended: Option<u64>,
    /// It may be the process of an unnamed client that went on after an `info`.
    pub may_go_on: bool,
    /// Locks of which it was granted a token.
    pub granted: Vec<Name>,
}

/// What the operations on a key say about the lock that guards it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Voice {
    pub lock: Name,
    /// The index from which on they contradict each other.
    pub until: u64,
}

/// What has arrived, as far as something may still ask for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrival {
    pub header: Option<Header>,
    pub names: Names,
    pub stale_token: Option<Name>,
    exhausted: Option<Name>,
    pub voices: Map<Name, Voice>,
    pub lives: Map<u64, Life>,
    pub acquired: Set<Name>,
    /// Moments that the rules have not taken, in order.
    pub window: VecDeque<Moment>,
    ops: VecDeque<Slot>,
    base: u64,
    /// Operations that are no longer waited for.
    aside: Map<u64, Slot>,
    processes: Map<u64, Process>,
    /// Processes that ended with an `info`, as ranges: first to last.
    retired: BTreeMap<u64, u64>,
    recently_retired: VecDeque<u64>,
    first_unnamed_end: Option<u64>,
    open: usize,
    last: Option<Instant>,
    placed: u64,
    /// Lines without an index, all of one time.
    group: Vec<(usize, Line)>,
    /// Which lock the header puts before a key, by text.
    guards: Map<String, String>,
    /// By lock: how many acquires were sent, and the longest that one waited for its answer, in nanoseconds.
    asked: Map<Name, u64>,
    waits: Map<Name, u64>,
    errors: usize,
    pub faults: Faults,
    pub counts: Counts,
    pub warnings: Vec<String>,
}

/// The denominators.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub events: u64,
    pub operations: u64,
    pub ok: u64,
    pub failed: u64,
    pub info: u64,
    pub grants: u64,
    pub writes: u64,
    pub refused: u64,
    pub first_time: u64,
    pub last_time: u64,
    pub clients: Set<Name>,
    pub locks: Set<Name>,
    pub keys: Set<Name>,
}

impl Arrival {
    /// Takes a line; its moments are in the window afterwards, or once time goes on.
    pub fn push(&mut self, number: usize, line: Line) -> Result<(), HistoryError> {
        let (index, time) = match &line {
            Line::Header(_) => {
                return self.header(number, line);
            }
            Line::Event(event) => (event.index, event.time),
            Line::Fault(fault) => (fault.index, fault.time),
        };
        if index != NO_INDEX {
            let at = self.place(number, index, time)?;
            return self.take(number, line, at).map(|moment| {
                self.window.extend(moment);
            });
        }
        self.place(number, self.last.map_or(0, |last| last.index + 1), time)?;
        let goes_on = self.group.first().is_some_and(|(_, first)| match first {
            Line::Event(event) => event.time < time,
            Line::Fault(fault) => fault.time < time,
            Line::Header(_) => false,
        });
        if goes_on {
            self.flush()?;
        }
        self.group.push((number, line));
        Ok(())
    }

    /// Takes the lines that were held back.
    pub fn flush(&mut self) -> Result<(), HistoryError> {
        let group = std::mem::take(&mut self.group);
        let lines: Vec<Simultaneous> = group
            .iter()
            .map(|(_, line)| match line {
                Line::Event(event) => Simultaneous {
                    process: Some(event.process),
                    ends: event.kind != Type::Invoke,
                },
                Line::Fault(fault) => Simultaneous {
                    process: None,
                    ends: fault.phase == FaultPhase::End,
                },
                Line::Header(_) => Simultaneous {
                    process: None,
                    ends: false,
                },
            })
            .collect();
        let mut places = vec![0; lines.len()];
        for (nth, at) in in_order(&lines).into_iter().enumerate() {
            places[at] = self.placed + nth as u64;
        }
        self.placed += group.len() as u64;
        let mut moments: Vec<(u64, Moment)> = Vec::new();
        for (index, (number, line)) in places.into_iter().zip(group) {
            let time = self.last.map_or(0, |last| last.time);
            let time = match &line {
                Line::Event(event) => event.time,
                Line::Fault(fault) => fault.time,
                Line::Header(_) => time,
            };
            let moment = self.take(number, line, Instant { index, time })?;
            moments.extend(moment.map(|moment| (index, moment)));
        }
        moments.sort_by_key(|&(index, _)| index);
        self.window
            .extend(moments.into_iter().map(|(_, moment)| moment));
        Ok(())
    }

    fn header(&mut self, number: usize, line: Line) -> Result<(), HistoryError> {
        if self.header.is_some() || self.last.is_some() {
            let message = "a header stands here; only the first line may be one".to_owned();
            return Err(HistoryError::new(number, None, message));
        }
        if let Line::Header(header) = line {
            for (lock, keys) in &header.locks {
                let keys = keys.keys.iter();
                self.guards
                    .extend(keys.map(|key| (key.clone(), lock.clone())));
            }
            self.header = Some(*header);
        }
        Ok(())
    }

    fn place(&mut self, number: usize, index: u64, time: u64) -> Result<Instant, HistoryError> {
        let at = Instant::after(self.last, number, index, time)?;
        if self.last.is_none() {
            self.counts.first_time = time;
        }
        self.counts.last_time = time;
        self.last = Some(at);
        Ok(at)
    }

    fn take(
        &mut self,
        number: usize,
        line: Line,
        at: Instant,
    ) -> Result<Option<Moment>, HistoryError> {
        match line {
            Line::Header(_) => Ok(None),
            Line::Event(event) => {
                self.counts.events += 1;
                if event.kind == Type::Invoke {
                    self.invoke(number, *event, at).map(Some)
                } else {
                    self.complete(number, *event, at)
                }
            }
            Line::Fault(fault) => {
                self.fault(number, *fault, at);
                Ok(None)
            }
        }
    }

    fn invoke(&mut self, number: usize, event: Event, at: Instant) -> Result<Moment, HistoryError> {
        let process = event.process;
        match self.processes.get(&process) {
            Some(Process::Busy { line, .. }) => {
                let message = format!(
                    "process {process} is still busy with its operation of line {line}; it must complete first"
                );
                return Err(HistoryError::new(number, Some("process"), message));
            }
            Some(Process::Idle) => {}
            None => {
                if self.is_retired(process) {
                    let message = format!(
                        "process {process} ended with an info before; its client must go on under a new process"
                    );
                    return Err(HistoryError::new(number, Some("process"), message));
                }
            }
        }
        if self.open == MAX_OPEN {
            let message = format!(
                "more than {MAX_OPEN} operations are open at once; one for each thread of the system is right"
            );
            return Err(HistoryError::new(number, Some("process"), message));
        }
        let mut operation = self.operation(number, event, at)?;
        operation.asked = self.ask(&operation);
        self.open += 1;
        self.counts.operations += 1;
        self.counts.writes += u64::from(is_write(operation.function));
        self.begin_or_go_on(&operation);
        self.hear(&operation);
        let op = self.base + self.ops.len() as u64;
        self.processes
            .insert(process, Process::Busy { op, line: number });
        self.ops.push_back(Slot::Open(Box::new(operation)));
        Ok(Moment { op, returns: false })
    }

    fn operation(&mut self, number: usize, event: Event, at: Instant) -> Result<Op, HistoryError> {
        let function = match event.f.as_str() {
            "acquire" => Function::Acquire,
            "renew" => Function::Renew,
            "release" => Function::Release,
            "write" => Function::Write,
            "append" => Function::Append,
            "read" => Function::Read,
            "cas" => Function::Cas,
            other => Function::Other(self.name(other)),
        };
        let needs_lock = matches!(
            function,
            Function::Acquire | Function::Renew | Function::Release
        );
        if needs_lock && event.lock.is_none() {
            let message = format!("is missing; {} must say which lock", event.f);
            return Err(HistoryError::new(number, Some("lock"), message));
        }
        let core = Operation {
            process: event.process,
            lock: self.some_name(event.lock.as_deref()),
            key: self.some_name(event.key.as_deref()),
            path: self.some_name(event.path.as_deref()),
            error: self.error(event.error.as_deref()),
            identity: self.some_name(event.identity.as_deref()),
            session: self.some_name(event.session.as_deref()),
            client: match event.client {
                Some(client) => self.name(&client),
                None => self.name(&format!("{UNNAMED}{}", event.process)),
            },
            function,
            token: event.token,
            value: None,
            high_water: event.high_water,
            ttl_ms: event.ttl,
            outcome: Outcome::Unknown,
            invoked: at,
            completed: None,
        };
        let value = if function == Function::Read {
            None
        } else {
            event.value.map(plain)
        };
        Ok(Op {
            core,
            value,
            asked: 0,
        })
    }

    /// How many acquires of its lock were sent before this operation.
    fn ask(&mut self, operation: &Operation) -> u64 {
        let (Function::Acquire | Function::Renew, Some(lock)) =
            (operation.function, operation.lock)
        else {
            return 0;
        };
        let asked = self.asked.entry(lock).or_default();
        let before = *asked;
        *asked += u64::from(operation.function == Function::Acquire);
        before
    }

    fn complete(
        &mut self,
        number: usize,
        event: Event,
        at: Instant,
    ) -> Result<Option<Moment>, HistoryError> {
        let process = event.process;
        let Some(&Process::Busy { op, line }) = self.processes.get(&process) else {
            let message =
                format!("process {process} completes an operation that it did not invoke");
            return Err(HistoryError::new(number, Some("process"), message));
        };
        let Some(Slot::Open(open)) = self.slot(op) else {
            let message = format!("process {process} completes an operation that is over");
            return Err(HistoryError::new(number, Some("process"), message));
        };
        self.check_same(number, line, open, &event)?;
        let mut operation = match self.slot_mut(op) {
            Some(slot) => match std::mem::replace(slot, Slot::Gone) {
                Slot::Open(operation) => operation,
                Slot::Done(_) | Slot::Gone => return Ok(None),
            },
            None => return Ok(None),
        };
        self.open -= 1;
        if let Some(client) = self.some_name(event.client.as_deref()) {
            operation.client = client;
        }
        operation.lock = self.some_name(event.lock.as_deref()).or(operation.lock);
        operation.key = self.some_name(event.key.as_deref()).or(operation.key);
        operation.path = self.some_name(event.path.as_deref()).or(operation.path);
        operation.error = self.error(event.error.as_deref()).or(operation.error);
        operation.identity = self
            .some_name(event.identity.as_deref())
            .or(operation.identity);
        operation.session = self
            .some_name(event.session.as_deref())
            .or(operation.session);
        operation.token = event.token.or(operation.token);
        operation.value = event.value.map(plain).or_else(|| operation.value.take());
        operation.high_water = event.high_water.or(operation.high_water);
        operation.ttl_ms = event.ttl.or(operation.ttl_ms);
        operation.completed = Some(at);
        operation.outcome = match event.kind {
            Type::Ok => Outcome::Ok,
            Type::Fail => Outcome::Failed,
            Type::Info | Type::Invoke => Outcome::Unknown,
        };
        self.end(&operation, at);
        self.hear(&operation);
        let returns = operation.outcome != Outcome::Unknown;
        let done = Slot::Done(Arc::from(operation));
        if !returns && self.aside.remove(&op).is_some() {
            return Ok(None);
        }
        if let Some(slot) = self.slot_mut(op) {
            *slot = done;
        }
        Ok(returns.then_some(Moment { op, returns: true }))
    }

    fn check_same(
        &self,
        number: usize,
        line: usize,
        open: &Operation,
        event: &Event,
    ) -> Result<(), HistoryError> {
        let process = event.process;
        let invoked = open.function.name(&self.names);
        if event.f != invoked {
            let message = format!(
                "is {}, but process {process} invoked {invoked} on line {line}",
                event.f
            );
            return Err(HistoryError::new(number, Some("f"), message));
        }
        let named = Some(open.client).filter(|_| !open.is_unnamed(&self.names));
        for (field, told, known) in [
            ("client", &event.client, named),
            ("lock", &event.lock, open.lock),
            ("key", &event.key, open.key),
        ] {
            let (Some(told), Some(known)) = (told, known) else {
                continue;
            };
            if told != self.names.text(known) {
                let message = format!(
                    "is {told}, but line {line} invoked it as {}",
                    self.names.text(known)
                );
                return Err(HistoryError::new(number, Some(field), message));
            }
        }
        Ok(())
    }

    // ------------------------------------------------------------------------------------------------ names

    fn some_name(&mut self, text: Option<&str>) -> Option<Name> {
        text.map(|text| self.name(text))
    }

    fn name(&mut self, text: &str) -> Name {
        if let Some(name) = self.names.find(text) {
            return name;
        }
        let name = self.names.intern(text);
        if !self.guards.is_empty() {
            self.place_guards(text);
        }
        name
    }

    /// A name that the header speaks of has appeared: keys whose lock has a name are guarded by it from the start.
    fn place_guards(&mut self, text: &str) {
        let until = u64::MAX;
        for (key, lock) in &self.guards {
            if (key == text || lock == text)
                && let (Some(key), Some(lock)) = (self.names.find(key), self.names.find(lock))
            {
                self.voices.insert(key, Voice { lock, until });
            }
        }
    }

    fn error(&mut self, text: Option<&str>) -> Option<Name> {
        let text = text?;
        // A client may have that name, too.
        if text == "stale-token" {
            self.stale_token = Some(self.name(text));
            return self.stale_token;
        }
        if text == "token-exhausted" {
            self.exhausted = Some(self.name(text));
            return self.exhausted;
        }
        if let Some(name) = self.names.find(text) {
            return Some(name);
        }
        self.errors += 1;
        let text = if text == "held" || self.errors < MOST_ERRORS {
            text
        } else {
            "another error"
        };
        Some(self.name(text))
    }

    /// What an operation tells about the lock of its key.
    fn hear(&mut self, operation: &Operation) {
        self.counts.clients.insert(operation.client);
        self.counts.locks.extend(operation.lock);
        self.counts.keys.extend(operation.key);
        if operation.function == Function::Acquire {
            self.acquired.extend(operation.lock);
        }
        let (Some(key), Some(lock)) = (operation.key, operation.lock) else {
            return;
        };
        let until = u64::MAX;
        let voice = self.voices.entry(key).or_insert(Voice { lock, until });
        if voice.lock != lock && !self.guarded_by_header(key) {
            let at = operation.invoked.index;
            if let Some(voice) = self.voices.get_mut(&key) {
                voice.until = voice.until.min(at);
            }
        }
    }

    fn guarded_by_header(&self, key: Name) -> bool {
        let lock = self.guards.get(self.names.text(key));
        lock.is_some_and(|lock| self.names.find(lock).is_some())
    }

    // -------------------------------------------------------------------------------------------- processes

    fn begin_or_go_on(&mut self, operation: &Operation) {
        let at = operation.invoked.index;
        let unnamed = operation.is_unnamed(&self.names);
        let first_unnamed_end = self.first_unnamed_end;
        let life = self.lives.entry(operation.process).or_insert_with(|| Life {
            first: at,
            last: at,
            unnamed,
            ended: None,
            may_go_on: unnamed && first_unnamed_end.is_some_and(|ended| ended < at),
            granted: Vec::new(),
        });
        life.last = life.last.max(at);
    }

    fn end(&mut self, operation: &Operation, at: Instant) {
        let unnamed = operation.is_unnamed(&self.names);
        let ended = operation.outcome == Outcome::Unknown;
        if let Some(life) = self.lives.get_mut(&operation.process) {
            life.last = life.last.max(at.index);
            if life.first == operation.invoked.index && !unnamed {
                (life.unnamed, life.may_go_on) = (false, false);
            }
            if ended {
                life.ended = Some(at.index);
                if life.unnamed {
                    let first = self.first_unnamed_end.unwrap_or(u64::MAX);
                    self.first_unnamed_end = Some(first.min(at.index));
                }
            }
            if let (Some(lock), true) = (operation.lock, is_grant(operation))
                && !life.granted.contains(&lock)
            {
                life.granted.push(lock);
            }
        }
        match operation.outcome {
            Outcome::Ok => self.counts.ok += 1,
            Outcome::Failed => self.counts.failed += 1,
            Outcome::Unknown => self.counts.info += 1,
        }
        if let (Function::Acquire, Some(lock), false) = (operation.function, operation.lock, ended)
        {
            let waited = at.time.saturating_sub(operation.invoked.time);
            let longest = self.waits.entry(lock).or_default();
            *longest = waited.max(*longest);
        }
        self.counts.grants += u64::from(is_grant(operation));
        self.counts.refused += u64::from(
            is_write(operation.function)
                && operation.token.is_some()
                && operation.outcome == Outcome::Failed
                && operation.error.is_some()
                && operation.error == self.stale_token,
        );
        if ended {
            self.processes.remove(&operation.process);
            self.retire(operation.process);
        } else {
            self.processes.insert(operation.process, Process::Idle);
        }
    }

    fn is_retired(&self, process: u64) -> bool {
        let range = self.retired.range(..=process).next_back();
        range.is_some_and(|(_, &last)| process <= last)
    }

    fn retire(&mut self, process: u64) {
        let (mut first, mut last) = (process, process);
        if let Some((&from, &to)) = self.retired.range(..process).next_back()
            && to.checked_add(1) == Some(process)
        {
            first = from;
        }
        if let Some(after) = process.checked_add(1)
            && let Some(to) = self.retired.remove(&after)
        {
            last = to;
        }
        self.retired.insert(first, last);
        self.recently_retired.push_back(process);
        if self.recently_retired.len() > RETIRED_KEPT
            && let Some(oldest) = self.recently_retired.pop_front()
        {
            self.lives.remove(&oldest);
        }
    }

    // --------------------------------------------------------------------------------------------- moments

    fn slot(&self, op: u64) -> Option<&Slot> {
        let inside = op.checked_sub(self.base);
        let slot = inside.and_then(|at| self.ops.get(usize::try_from(at).ok()?));
        match slot {
            Some(Slot::Gone) | None => self.aside.get(&op),
            slot => slot,
        }
    }

    fn slot_mut(&mut self, op: u64) -> Option<&mut Slot> {
        if let Some(aside) = self.aside.get_mut(&op) {
            return Some(aside);
        }
        let inside = op.checked_sub(self.base)?;
        self.ops.get_mut(usize::try_from(inside).ok()?)
    }

    /// The operation of a moment as it is known now: with its answer, if that has arrived.
    pub fn operation_of(&self, op: u64) -> Option<Kept> {
        match self.slot(op)? {
            Slot::Done(operation) => Some(Arc::clone(operation)),
            Slot::Open(operation) => Some(Arc::new((**operation).clone())),
            Slot::Gone => None,
        }
    }

    /// The operation of a moment, once its answer has arrived or will never.
    pub fn settled(&self, op: u64) -> Option<&Kept> {
        match self.slot(op)? {
            Slot::Done(operation) => Some(operation),
            Slot::Open(_) | Slot::Gone => None,
        }
    }

    /// No longer waits for this operation's answer.
    pub fn give_up(&mut self, op: u64) -> Option<Kept> {
        let slot = self.slot_mut(op)?;
        let Slot::Open(operation) = std::mem::replace(slot, Slot::Gone) else {
            return None;
        };
        let known = Arc::new((*operation).clone());
        self.aside.insert(op, Slot::Open(operation));
        Some(known)
    }

    /// Whether the answer of this operation came after it was given up.
    pub fn was_given_up(&self, op: u64) -> bool {
        self.aside.contains_key(&op)
    }

    /// The last moment of this operation has been taken.
    pub fn forget(&mut self, op: u64) {
        if self.aside.remove(&op).is_some() {
            return;
        }
        if let Some(slot) = self.slot_mut(op) {
            *slot = Slot::Gone;
        }
        while matches!(self.ops.front(), Some(Slot::Gone)) {
            self.ops.pop_front();
            self.base += 1;
        }
    }

    /// Answered grants of a token whose moments are still in the window.
    pub fn grants_ahead(&self, lock: Name, token: crate::history::Token) -> Vec<Kept> {
        let done = self.ops.iter().filter_map(|slot| match slot {
            Slot::Done(operation) => Some(operation),
            Slot::Open(_) | Slot::Gone => None,
        });
        done.filter(|op| is_grant(op) && op.lock == Some(lock) && op.token == Some(token))
            .cloned()
            .collect()
    }

    /// The longest that an acquire of this lock waited for its answer, in nanoseconds.
    pub fn longest_wait(&self, lock: Name) -> u64 {
        self.waits.get(&lock).copied().unwrap_or(0)
    }

    /// An acquire that was told that no token is left.
    pub fn is_exhausted(&self, operation: &Operation) -> bool {
        operation.function == Function::Acquire
            && operation.outcome == Outcome::Failed
            && operation.error.is_some()
            && operation.error == self.exhausted
    }

    /// What the header says of a lock.
    pub fn lock_header(&self, lock: Name) -> Option<&LockHeader> {
        self.header.as_ref()?.locks.get(self.names.text(lock))
    }

    pub fn mark_scope(&self) -> MarkScope {
        let header = self.header.as_ref();
        header.map(|header| header.mark_scope).unwrap_or_default()
    }

    // ---------------------------------------------------------------------------------------------- faults

    fn fault(&mut self, number: usize, fault: FaultEvent, at: Instant) {
        match fault.phase {
            FaultPhase::Begin => {
                let window = FaultWindow {
                    outcome: fault.outcome.unwrap_or(FaultOutcome::Unknown),
                    evidence: fault.evidence.iter().cloned().collect(),
                    began: at,
                    ended: None,
                    begin: fault,
                };
                let id = window.begin.id;
                if let Some(before) = self.faults.open.insert(id, window) {
                    self.faults.close(before);
                    self.warn(format!(
                        "line {number} begins fault {id} again, which had not ended"
                    ));
                }
            }
            FaultPhase::End => {
                let Some(mut window) = self.faults.open.remove(&fault.id) else {
                    let id = fault.id;
                    self.warn(format!(
                        "line {number} ends fault {id}, which had not begun"
                    ));
                    return;
                };
                window.ended = Some(at);
                window.outcome = fault.outcome.unwrap_or(window.outcome);
                window.evidence.extend(fault.evidence);
                self.faults.close(window);
            }
        }
    }

    fn warn(&mut self, warning: String) {
        if self.warnings.len() < MOST_ERRORS {
            self.warnings.push(warning);
        }
    }
}

pub(super) fn is_write(function: Function) -> bool {
    matches!(function, Function::Write | Function::Append)
}

/// An acquire answered `ok` with a token.
pub(super) fn is_grant(operation: &Operation) -> bool {
    operation.function == Function::Acquire
        && operation.outcome == Outcome::Ok
        && operation.token.is_some()
}
