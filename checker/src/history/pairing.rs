//! Lines in, a [`History`] out.
//!
//! Promises: every operation has its invocation and its completion or none; an invocation that the file does not
//! close is [`Outcome::Unknown`], so the recording of a run that was killed at any moment still checks. Events that
//! contradict each other are an error that names the line.

use hashbrown::HashMap;

use super::jsonl::Parsed;
use super::operation::UNNAMED;
use super::{
    Datum, Event, FaultEvent, FaultOutcome, FaultPhase, FaultWindow, Function, History,
    HistoryError, Instant, Line, NO_INDEX, Name, Operation, Outcome, Simultaneous, Token, Type,
    in_order,
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

/// At most so many operations may be open at once: 1,048,576. A real history has one a thread; a file that has more is
/// broken or made to fill the memory. It is refused at the first that is too many, with some 200 MB in use.
pub const MAX_OPEN: usize = 1 << 20;

/// An event whose words have become numbers of the history's tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub kind: Type,
    pub process: u64,
    pub function: Function,
    pub client: Option<Name>,
    pub lock: Option<Name>,
    pub key: Option<Name>,
    pub path: Option<Name>,
    pub error: Option<Name>,
    pub identity: Option<Name>,
    pub session: Option<Name>,
    pub token: Option<Token>,
    pub value: Option<Datum>,
    pub high_water: Option<Token>,
    pub ttl: Option<u64>,
}

impl Function {
    /// The function of this name, unless it is a model's own word.
    #[inline]
    pub(super) fn known(name: &str) -> Option<Self> {
        Some(match name {
            "acquire" => Self::Acquire,
            "renew" => Self::Renew,
            "release" => Self::Release,
            "write" => Self::Write,
            "append" => Self::Append,
            "read" => Self::Read,
            "cas" => Self::Cas,
            _ => return None,
        })
    }

    /// What a read asks for is not what it found: the value of its invocation is nobody's.
    #[inline]
    pub(super) fn has_value(self, kind: Type) -> bool {
        self != Self::Read || kind != Type::Invoke
    }
}

/// What a process is doing, and on which line it began to.
#[derive(Clone, Copy, Debug, Default)]
enum Doing {
    #[default]
    Nothing,
    Busy {
        operation: usize,
        line: usize,
    },
    Retired {
        line: usize,
    },
}

#[derive(Clone, Copy, Debug, Default)]
struct Process {
    doing: Doing,
    /// What its client is called where the history names none.
    unnamed: Option<Name>,
}

/// Processes by number; small numbers, which are nearly all, without a search.
#[derive(Clone, Debug, Default)]
struct Processes {
    near: Vec<Process>,
    far: HashMap<u64, Process>,
}

/// Processes below this number are kept in a list.
const NEAR: usize = 1 << 16;

impl Processes {
    #[inline]
    fn of(&mut self, process: u64) -> &mut Process {
        match usize::try_from(process) {
            Ok(place) if place < NEAR => {
                if place >= self.near.len() {
                    self.near.resize(place + 1, Process::default());
                }
                &mut self.near[place]
            }
            _ => self.far.entry(process).or_default(),
        }
    }
}

/// Joins lines one after the other. A copy can be finished and judged while the run goes on.
#[derive(Clone, Debug, Default)]
pub struct Pairing {
    history: History,
    processes: Processes,
    open: usize,
    /// Fault id to its window, while it is open.
    open_faults: HashMap<u64, usize>,
    last: Option<Instant>,
    /// For lines without an index, in file order: time, and what stands at it.
    unplaced: Vec<(u64, Simultaneous)>,
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
                let told = self.understand(&event);
                self.event(number, event.index, event.time, told)?;
            }
            Line::Fault(fault) => {
                let line = Simultaneous {
                    process: None,
                    ends: fault.phase == FaultPhase::End,
                };
                let at = self.place(number, fault.index, fault.time, line)?;
                self.fault(number, *fault, at);
            }
        }
        Ok(())
    }

    /// Takes an event whose words are numbers of this history's tables.
    ///
    /// # Errors
    /// As [`Pairing::push`].
    #[inline]
    pub(crate) fn event(
        &mut self,
        number: usize,
        index: u64,
        time: u64,
        told: Told,
    ) -> Result<(), HistoryError> {
        let completes = told.kind != Type::Invoke;
        let line = Simultaneous {
            process: Some(told.process),
            ends: completes,
        };
        let at = self.place(number, index, time, line)?;
        self.history.events += 1;
        if completes {
            self.complete(number, told, at)
        } else {
            self.invoke(number, told, at)
        }
    }

    /// The tables in which the words of events are numbers.
    pub(crate) fn history_mut(&mut self) -> &mut History {
        &mut self.history
    }

    fn understand(&mut self, event: &Event) -> Told {
        let History { names, values, .. } = &mut self.history;
        let function =
            Function::known(&event.f).unwrap_or_else(|| Function::Other(names.intern(&event.f)));
        let mut intern = |text: &Option<String>| text.as_ref().map(|text| names.intern(text));
        Told {
            kind: event.kind,
            process: event.process,
            function,
            lock: intern(&event.lock),
            key: intern(&event.key),
            path: intern(&event.path),
            error: intern(&event.error),
            identity: intern(&event.identity),
            session: intern(&event.session),
            client: intern(&event.client),
            token: event.token,
            value: (event.value.as_ref())
                .filter(|_| function.has_value(event.kind))
                .map(|value| values.intern(value)),
            high_water: event.high_water,
            ttl: event.ttl,
        }
    }

    /// Everything that was read. Open invocations stay unknown, open faults open.
    #[must_use]
    pub fn finish(mut self) -> History {
        if !self.unplaced.is_empty() {
            self.spread();
        }
        let history = &mut self.history;
        if history.operations.is_empty() {
            let warning = "the history holds no operation".to_owned();
            history.warnings.push(warning);
        }
        history.operations.shrink_to_fit();
        history.names.shrink();
        history.values.shrink();
        self.history
    }

    #[inline]
    fn place(
        &mut self,
        number: usize,
        index: u64,
        time: u64,
        line: Simultaneous,
    ) -> Result<Instant, HistoryError> {
        let unplaced = index == NO_INDEX;
        let index = if unplaced {
            self.unplaced.len() as u64
        } else {
            index
        };
        let at = Instant::after(self.last, number, index, time)?;
        if self.last.is_none() {
            self.history.first_time = time;
        }
        if unplaced {
            self.unplaced.push((time, line));
        }
        self.history.last_time = time;
        self.last = Some(at);
        Ok(at)
    }

    #[inline]
    fn invoke(&mut self, number: usize, told: Told, at: Instant) -> Result<(), HistoryError> {
        let History {
            operations, names, ..
        } = &mut self.history;
        let process = self.processes.of(told.process);
        match process.doing {
            Doing::Nothing => {}
            Doing::Busy { line, .. } => {
                let message = format!(
                    "process {} is still busy with its operation of line {line}; it must complete first",
                    told.process
                );
                return Err(HistoryError::new(number, Some("process"), message));
            }
            Doing::Retired { line } => {
                let message = format!(
                    "process {} ended with the info of line {line}; its client must go on under a new process",
                    told.process
                );
                return Err(HistoryError::new(number, Some("process"), message));
            }
        }
        if self.open == MAX_OPEN {
            let message = format!(
                "more than {MAX_OPEN} operations are open at once; one for each thread of the system is right"
            );
            return Err(HistoryError::new(number, Some("process"), message));
        }
        let needs_lock = matches!(
            told.function,
            Function::Acquire | Function::Renew | Function::Release
        );
        if needs_lock && told.lock.is_none() {
            let asked = told.function.name(names);
            let message = format!("is missing; {asked} must say which lock");
            return Err(HistoryError::new(number, Some("lock"), message));
        }
        let client = told.client.unwrap_or_else(|| {
            let unnamed = || names.intern(&format!("{UNNAMED}{}", told.process));
            *process.unnamed.get_or_insert_with(unnamed)
        });
        process.doing = Doing::Busy {
            operation: operations.len(),
            line: number,
        };
        self.open += 1;
        operations.push(Operation {
            process: told.process,
            client,
            function: told.function,
            lock: told.lock,
            key: told.key,
            path: told.path,
            token: told.token,
            value: told.value,
            high_water: told.high_water,
            error: told.error,
            ttl_ms: told.ttl,
            identity: told.identity,
            session: told.session,
            outcome: Outcome::Unknown,
            invoked: at,
            completed: None,
        });
        Ok(())
    }

    #[inline]
    fn complete(&mut self, number: usize, told: Told, at: Instant) -> Result<(), HistoryError> {
        let History {
            operations, names, ..
        } = &mut self.history;
        let process = self.processes.of(told.process);
        let Doing::Busy { operation, line } = process.doing else {
            let message = format!(
                "process {} completes an operation that it did not invoke",
                told.process
            );
            return Err(HistoryError::new(number, Some("process"), message));
        };
        let operation = &mut operations[operation];
        if told.function != operation.function {
            let message = format!(
                "is {}, but process {} invoked {} on line {line}",
                told.function.name(names),
                told.process,
                operation.function.name(names)
            );
            return Err(HistoryError::new(number, Some("f"), message));
        }
        let named = Some(operation.client).filter(|&client| process.unnamed != Some(client));
        for (field, told, known) in [
            ("client", told.client, named),
            ("lock", told.lock, operation.lock),
            ("key", told.key, operation.key),
        ] {
            if let (Some(told), Some(known)) = (told, known)
                && told != known
            {
                let (told, known) = (names.text(told), names.text(known));
                let message = format!("is {told}, but line {line} invoked it as {known}");
                return Err(HistoryError::new(number, Some(field), message));
            }
        }
        self.open -= 1;
        operation.client = told.client.unwrap_or(operation.client);
        operation.lock = told.lock.or(operation.lock);
        operation.key = told.key.or(operation.key);
        operation.path = told.path.or(operation.path);
        operation.error = told.error.or(operation.error);
        operation.identity = told.identity.or(operation.identity);
        operation.session = told.session.or(operation.session);
        operation.token = told.token.or(operation.token);
        operation.value = told.value.or(operation.value);
        operation.high_water = told.high_water.or(operation.high_water);
        operation.ttl_ms = told.ttl.or(operation.ttl_ms);
        operation.completed = Some(at);
        operation.outcome = match told.kind {
            Type::Ok => Outcome::Ok,
            Type::Fail => Outcome::Failed,
            Type::Info | Type::Invoke => Outcome::Unknown,
        };
        process.doing = if told.kind == Type::Info {
            Doing::Retired { line: number }
        } else {
            Doing::Nothing
        };
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

    /// Gives lines without an index positions in which equal times are concurrent; see [`in_order`].
    fn spread(&mut self) {
        let mut places = vec![0; self.unplaced.len()];
        let mut start = 0;
        for group in self.unplaced.chunk_by(|a, b| a.0 == b.0) {
            let lines: Vec<Simultaneous> = group.iter().map(|&(_, line)| line).collect();
            for (nth, at) in in_order(&lines).into_iter().enumerate() {
                places[start + at] = (start + nth) as u64;
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
        assert_eq!(history.value(write), Some("a".into()));
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
    fn without_an_index_a_process_keeps_its_own_order() {
        let history = read(&[
            r#"{"time":1,"process":1,"client":"c","type":"invoke","f":"acquire","lock":"L"}"#,
            r#"{"time":5,"process":1,"client":"c","type":"ok","f":"acquire","token":3}"#,
            r#"{"time":5,"process":1,"client":"c","type":"invoke","f":"write","lock":"L","key":"k","token":3,"value":"a"}"#,
            r#"{"time":5,"process":2,"type":"invoke","f":"read","key":"k"}"#,
            r#"{"time":5,"process":1,"client":"c","type":"ok","f":"write"}"#,
            r#"{"time":5,"process":2,"type":"ok","f":"read","value":"a"}"#,
        ])
        .expect("well-formed");
        let of = |f: Function| {
            let mut operations = history.operations.iter();
            operations.find(|op| op.function == f).expect("it is there")
        };
        let (acquire, write, read) = (
            of(Function::Acquire),
            of(Function::Write),
            of(Function::Read),
        );
        assert!(acquire.precedes(write));
        assert!(!acquire.precedes(read) && !read.precedes(write) && !write.precedes(read));
        let judgement = crate::judge(&history, crate::Model::Fencing);
        assert_eq!(judgement.findings, []);
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
