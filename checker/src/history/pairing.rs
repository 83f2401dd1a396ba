//! Lines in, a [`History`] out.
//!
//! Promises: every operation has its invocation and its completion or none; an invocation that the file does not
//! close is [`Outcome::Unknown`], so the recording of a run that was killed at any moment still checks. Events that
//! contradict each other are an error that names the line.

use std::collections::HashMap;

use super::jsonl::Parsed;
use super::operation::UNNAMED;
use super::value::plain;
use super::{
    Event, FaultEvent, FaultOutcome, FaultPhase, FaultWindow, Function, History, HistoryError,
    Instant, Line, NO_INDEX, Names, Operation, Outcome, Type,
};

/// Joins lines that were read before.
///
/// # Errors
/// The first line that contradicts an earlier one.
pub fn pair(lines: impl Into<Parsed>) -> Result<History, HistoryError> {
    let Parsed {
        lines,
        numbers,
        warnings,
        ..
    } = lines.into();
    let mut pairing = Pairing::new();
    for (number, line) in numbers.into_iter().zip(lines) {
        pairing.push(number, line)?;
    }
    let mut history = pairing.finish();
    history.warnings.splice(0..0, warnings);
    Ok(history)
}

/// At most so many operations may be open at once. A real history has one a thread; a file that has more is broken or
/// made to fill the memory.
pub const MAX_OPEN: usize = 2_000_000;

/// What a process is doing, and on which line it began to.
#[derive(Clone, Copy, Debug)]
enum Process {
    Idle,
    Busy { operation: usize, line: usize },
    Retired { line: usize },
}

/// Joins lines one after the other. A copy can be finished and judged while the run goes on.
#[derive(Clone, Debug, Default)]
pub struct Pairing {
    history: History,
    processes: HashMap<u64, Process>,
    open: usize,
    /// Fault id to its window, while it is open.
    open_faults: HashMap<u64, usize>,
    last: Option<Instant>,
    /// For lines without an index: time and whether it is a completion, in file order.
    unplaced: Vec<(u64, bool)>,
}

impl Pairing {
    /// Nothing read yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next line; `number` is its place in the file, for error messages.
    ///
    /// # Errors
    /// A header that is not the first line; an index that does not rise or a time that goes down; a second
    /// invocation of a busy process; a completion without invocation, or of another function, client, lock or key;
    /// a process that goes on after its `info`; an acquire, renew or release without a lock.
    pub fn push(&mut self, number: usize, line: Line) -> Result<(), HistoryError> {
        match line {
            Line::Header(header) => {
                if self.history.header.is_some() || self.last.is_some() {
                    let message = "a header stands here; only the first line may be one".to_owned();
                    return Err(HistoryError::new(number, None, message));
                }
                self.history.header = Some(*header);
            }
            Line::Event(event) => {
                let completes = event.kind != Type::Invoke;
                let at = self.place(number, event.index, event.time, completes)?;
                self.history.events += 1;
                if completes {
                    self.complete(number, *event, at)?;
                } else {
                    self.invoke(number, *event, at)?;
                }
            }
            Line::Fault(fault) => {
                let at = self.place(
                    number,
                    fault.index,
                    fault.time,
                    fault.phase == FaultPhase::End,
                )?;
                self.fault(number, *fault, at);
            }
        }
        Ok(())
    }

    /// Everything that was read. Open invocations stay unknown, open faults open.
    #[must_use]
    pub fn finish(mut self) -> History {
        if !self.unplaced.is_empty() {
            self.spread();
        }
        if self.history.operations.is_empty() {
            self.history
                .warnings
                .push("the history holds no operation".to_owned());
        }
        self.history
    }

    fn place(
        &mut self,
        number: usize,
        index: u64,
        time: u64,
        completes: bool,
    ) -> Result<Instant, HistoryError> {
        let unplaced = index == NO_INDEX;
        let index = if unplaced {
            self.unplaced.len() as u64
        } else {
            index
        };
        if let Some(last) = self.last {
            if index <= last.index {
                let message = format!(
                    "is {index} after {}; it must rise from line to line",
                    last.index
                );
                return Err(HistoryError::new(number, Some("index"), message));
            }
            if time < last.time {
                let message = format!("is {time} after {}; it must never go down", last.time);
                return Err(HistoryError::new(number, Some("time"), message));
            }
        } else {
            self.history.first_time = time;
        }
        if unplaced {
            self.unplaced.push((time, completes));
        }
        self.history.last_time = time;
        let at = Instant { index, time };
        self.last = Some(at);
        Ok(at)
    }

    fn invoke(&mut self, number: usize, event: Event, at: Instant) -> Result<(), HistoryError> {
        match self.processes.get(&event.process) {
            Some(Process::Busy { line, .. }) => {
                let message = format!(
                    "process {} is still busy with its operation of line {line}; it must complete first",
                    event.process
                );
                return Err(HistoryError::new(number, Some("process"), message));
            }
            Some(Process::Retired { line }) => {
                let message = format!(
                    "process {} ended with the info of line {line}; its client must go on under a new process",
                    event.process
                );
                return Err(HistoryError::new(number, Some("process"), message));
            }
            Some(Process::Idle) | None => {}
        }
        if self.open == MAX_OPEN {
            let message = format!(
                "more than {MAX_OPEN} operations are open at once; one for each thread of the system is right"
            );
            return Err(HistoryError::new(number, Some("process"), message));
        }
        self.open += 1;
        let process = event.process;
        let operation = self.operation(number, event, at)?;
        let busy = Process::Busy {
            operation: self.history.operations.len(),
            line: number,
        };
        self.processes.insert(process, busy);
        self.history.operations.push(operation);
        Ok(())
    }

    fn operation(
        &mut self,
        number: usize,
        event: Event,
        at: Instant,
    ) -> Result<Operation, HistoryError> {
        let names = &mut self.history.names;
        let function = match event.f.as_str() {
            "acquire" => Function::Acquire,
            "renew" => Function::Renew,
            "release" => Function::Release,
            "write" => Function::Write,
            "append" => Function::Append,
            "read" => Function::Read,
            "cas" => Function::Cas,
            other => Function::Other(names.intern(other)),
        };
        let needs_lock = matches!(
            function,
            Function::Acquire | Function::Renew | Function::Release
        );
        if needs_lock && event.lock.is_none() {
            let message = format!("is missing; {} must say which lock", event.f);
            return Err(HistoryError::new(number, Some("lock"), message));
        }
        let client = event
            .client
            .unwrap_or_else(|| format!("{UNNAMED}{}", event.process));
        let mut intern = |text: Option<String>| text.map(|text| names.intern(&text));
        Ok(Operation {
            process: event.process,
            lock: intern(event.lock),
            key: intern(event.key),
            path: intern(event.path),
            error: intern(event.error),
            identity: intern(event.identity),
            session: intern(event.session),
            client: names.intern(&client),
            function,
            token: event.token,
            // What a read asks for is not what it found: its value is the completion's alone.
            value: if function == Function::Read {
                None
            } else {
                event.value.map(plain)
            },
            high_water: event.high_water,
            ttl_ms: event.ttl,
            outcome: Outcome::Unknown,
            invoked: at,
            completed: None,
        })
    }

    fn complete(&mut self, number: usize, event: Event, at: Instant) -> Result<(), HistoryError> {
        let process = event.process;
        let Some(&Process::Busy { operation, line }) = self.processes.get(&process) else {
            let message =
                format!("process {process} completes an operation that it did not invoke");
            return Err(HistoryError::new(number, Some("process"), message));
        };
        self.open -= 1;
        let names = &mut self.history.names;
        let operation = &mut self.history.operations[operation];
        let invoked = function_name(operation.function, names);
        if event.f != invoked {
            let message = format!(
                "is {}, but process {process} invoked {invoked} on line {line}",
                event.f
            );
            return Err(HistoryError::new(number, Some("f"), message));
        }
        let unnamed = format!("{UNNAMED}{process}");
        for (field, told, known) in [
            (
                "client",
                &event.client,
                Some(operation.client).filter(|&name| names.text(name) != unnamed),
            ),
            ("lock", &event.lock, operation.lock),
            ("key", &event.key, operation.key),
        ] {
            let (Some(told), Some(known)) = (told, known) else {
                continue;
            };
            if told != names.text(known) {
                let message = format!(
                    "is {told}, but line {line} invoked it as {}",
                    names.text(known)
                );
                return Err(HistoryError::new(number, Some(field), message));
            }
        }
        let mut intern = |text: Option<String>| text.map(|text| names.intern(&text));
        if let Some(client) = intern(event.client) {
            operation.client = client;
        }
        operation.lock = intern(event.lock).or(operation.lock);
        operation.key = intern(event.key).or(operation.key);
        operation.path = intern(event.path).or(operation.path);
        operation.error = intern(event.error).or(operation.error);
        operation.identity = intern(event.identity).or(operation.identity);
        operation.session = intern(event.session).or(operation.session);
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
        let now = if event.kind == Type::Info {
            Process::Retired { line: number }
        } else {
            Process::Idle
        };
        self.processes.insert(process, now);
        Ok(())
    }

    fn fault(&mut self, number: usize, fault: FaultEvent, at: Instant) {
        match fault.phase {
            FaultPhase::Begin => {
                if self
                    .open_faults
                    .insert(fault.id, self.history.faults.len())
                    .is_some()
                {
                    let warning = format!(
                        "line {number} begins fault {} again, which had not ended",
                        fault.id
                    );
                    self.history.warnings.push(warning);
                }
                self.history.faults.push(FaultWindow {
                    outcome: fault.outcome.unwrap_or(FaultOutcome::Unknown),
                    evidence: fault.evidence.iter().cloned().collect(),
                    begin: fault,
                    began: at,
                    ended: None,
                });
            }
            FaultPhase::End => {
                let Some(window) = self.open_faults.remove(&fault.id) else {
                    let warning =
                        format!("line {number} ends fault {}, which had not begun", fault.id);
                    self.history.warnings.push(warning);
                    return;
                };
                let window = &mut self.history.faults[window];
                window.ended = Some(at);
                window.outcome = fault.outcome.unwrap_or(window.outcome);
                window.evidence.extend(fault.evidence);
            }
        }
    }

    /// Gives lines without an index positions in which equal times are concurrent: all that begins at a time stands
    /// before all that ends at it.
    fn spread(&mut self) {
        let mut places = vec![0; self.unplaced.len()];
        let mut start = 0;
        for group in self.unplaced.chunk_by(|a, b| a.0 == b.0) {
            let mut next = start as u64;
            for completes in [false, true] {
                for (offset, _) in group
                    .iter()
                    .enumerate()
                    .filter(|(_, line)| line.1 == completes)
                {
                    places[start + offset] = next;
                    next += 1;
                }
            }
            start += group.len();
        }
        let move_to_place = |at: &mut Instant| {
            let line =
                usize::try_from(at.index).expect("an unplaced index counts lines held in memory");
            at.index = places[line];
        };
        for operation in &mut self.history.operations {
            move_to_place(&mut operation.invoked);
            operation.completed.as_mut().map(move_to_place);
        }
        for window in &mut self.history.faults {
            move_to_place(&mut window.began);
            window.ended.as_mut().map(move_to_place);
        }
        self.history
            .operations
            .sort_by_key(|operation| operation.invoked.index);
    }
}

fn function_name(function: Function, names: &Names) -> &str {
    match function {
        Function::Acquire => "acquire",
        Function::Renew => "renew",
        Function::Release => "release",
        Function::Write => "write",
        Function::Append => "append",
        Function::Read => "read",
        Function::Cas => "cas",
        Function::Other(name) => names.text(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Token;

    fn read(lines: &[&str]) -> Result<History, HistoryError> {
        History::read(lines.join("\n").as_bytes())
    }

    fn error_of(lines: &[&str]) -> (usize, Option<String>) {
        let error = read(lines).expect_err("the lines contradict each other");
        (error.line, error.field)
    }

    const INVOKE: &str = r#"{"index":0,"time":1,"process":1,"client":"c","type":"invoke","f":"write","key":"k","token":3,"value":"a"}"#;
    const OK: &str = r#"{"index":1,"time":2,"process":1,"type":"ok","f":"write","high_water":3}"#;
    const INFO: &str =
        r#"{"index":1,"time":2,"process":1,"type":"info","f":"write","error":"timeout"}"#;

    #[test]
    fn a_completion_inherits_what_it_does_not_repeat() {
        let history = read(&[INVOKE, OK]).expect("well-formed");
        let [write] = &history.operations[..] else {
            panic!("one operation")
        };
        assert_eq!(write.function, Function::Write);
        assert_eq!(write.token, Some(Token::from(3_u64)));
        assert_eq!(write.high_water, Some(Token::from(3_u64)));
        assert_eq!(write.value, Some("a".into()));
        assert_eq!(history.names.text(write.client), "c");
        assert_eq!((write.outcome, write.invoked.index), (Outcome::Ok, 0));
        assert_eq!(write.completed, Some(Instant { index: 1, time: 2 }));
        assert_eq!(
            (history.events, history.first_time, history.last_time),
            (2, 1, 2)
        );
    }

    #[test]
    fn an_open_invocation_and_an_info_are_unknown() {
        for lines in [&[INVOKE][..], &[INVOKE, INFO][..]] {
            let history = read(lines).expect("well-formed");
            assert_eq!(history.operations[0].outcome, Outcome::Unknown);
            assert_eq!(history.operations[0].returned(), None);
        }
    }

    #[test]
    fn a_process_that_is_busy_or_retired_invokes_nothing() {
        let again = INVOKE.replace("\"index\":0,\"time\":1", "\"index\":2,\"time\":2");
        assert_eq!(error_of(&[INVOKE, &again]), (2, Some("process".to_owned())));
        assert_eq!(
            error_of(&[INVOKE, INFO, &again]),
            (3, Some("process".to_owned()))
        );
        assert!(read(&[INVOKE, OK, &again]).is_ok());
    }

    #[test]
    fn a_completion_needs_its_own_invocation() {
        assert_eq!(error_of(&[OK]), (1, Some("process".to_owned())));
        assert_eq!(
            error_of(&[INVOKE, &OK.replace("write", "read")]),
            (2, Some("f".to_owned()))
        );
        let other_key = OK.replace("\"f\":\"write\"", "\"f\":\"write\",\"key\":\"l\"");
        assert_eq!(error_of(&[INVOKE, &other_key]), (2, Some("key".to_owned())));
    }

    #[test]
    fn neither_index_nor_time_goes_back() {
        assert_eq!(
            error_of(&[INVOKE, &OK.replace("\"index\":1", "\"index\":0")]),
            (2, Some("index".to_owned()))
        );
        assert_eq!(
            error_of(&[INVOKE, &OK.replace("\"time\":2", "\"time\":0")]),
            (2, Some("time".to_owned()))
        );
    }

    #[test]
    fn a_header_may_only_come_first_and_a_lock_operation_names_its_lock() {
        assert_eq!(
            error_of(&[INVOKE, r#"{"type":"header","format":1}"#]),
            (2, None)
        );
        let acquire = r#"{"index":0,"time":1,"process":1,"type":"invoke","f":"acquire"}"#;
        assert_eq!(error_of(&[acquire]), (1, Some("lock".to_owned())));
    }

    #[test]
    fn without_an_index_equal_times_are_concurrent() {
        let bare = |time: u64, process: u64, kind: &str| {
            format!(
                r#"{{"time":{time},"process":{process},"type":"{kind}","f":"read","key":"k","value":null}}"#
            )
        };
        let lines = [
            bare(1, 1, "invoke"),
            bare(5, 1, "ok"),
            bare(5, 2, "invoke"),
            bare(6, 2, "ok"),
            bare(7, 1, "invoke"),
        ];
        let history = read(&lines.each_ref().map(String::as_str)).expect("well-formed");
        let [first, second, third] = &history.operations[..] else {
            panic!("three operations")
        };
        assert!(!first.precedes(second) && !second.precedes(first));
        assert!(first.precedes(third) && second.precedes(third));
    }

    #[test]
    fn a_fault_is_a_window_from_its_begin_to_its_end() {
        let begin = r#"{"index":0,"time":1,"type":"fault","fault":"pause","phase":"begin","id":4,"on":["w2"],"evidence":"state T"}"#;
        let end = r#"{"index":1,"time":9,"type":"fault","fault":"pause","phase":"end","id":4,"outcome":"installed","evidence":"state S"}"#;
        let history = read(&[begin, end]).expect("well-formed");
        let [window] = &history.faults[..] else {
            panic!("one window")
        };
        assert_eq!(
            (window.began.time, window.ended.map(|at| at.time)),
            (1, Some(9))
        );
        assert_eq!(window.outcome, FaultOutcome::Installed);
        assert_eq!(window.evidence, ["state T", "state S"]);
        assert_eq!(
            read(&[begin]).expect("cut").faults[0].outcome,
            FaultOutcome::Unknown
        );
        assert_eq!(read(&[end]).expect("cut").warnings.len(), 2);
    }

    #[test]
    fn a_recording_cut_at_any_byte_still_reads() {
        let whole = format!("{INVOKE}\n{OK}\n");
        for end in 0..whole.len() {
            let history = History::read(&whole.as_bytes()[..end]).expect("a cut recording reads");
            assert!(history.operations.len() <= 1);
        }
    }
}
