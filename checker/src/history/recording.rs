//! A whole recording, and why a file is none.
//!
//! Promises: what was read is all here, and what was forgiven is said. How lines become operations is the business
//! of [`super::Pairing`].

use std::fmt;
use std::io::Read;

use super::{FaultWindow, Format, Header, Intake, Names, Operation, Values, stream};

/// A whole recording, ready to be judged.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The first line, where there was one.
    pub header: Option<Header>,
    /// Operations, in the order of their invocations.
    pub operations: Vec<Operation>,
    /// What was done to the system, in the order of begins.
    pub faults: Vec<FaultWindow>,
    /// The names of clients, locks, keys and the rest.
    pub names: Names,
    /// The values that were written and read.
    pub values: Values,
    /// What was forgiven, one sentence each.
    pub warnings: Vec<String>,
    /// Invocations and completions read.
    pub events: u64,
    /// Time of the first line, in nanoseconds since the run began; 0 where there is none.
    pub first_time: u64,
    /// Time of the last line.
    pub last_time: u64,
    /// The file tells no times: all are 0, and rules that rest on them say nothing.
    pub untimed: bool,
}

impl History {
    /// Reads a `history.jsonl` that is in memory, in one pass, with as many threads as are of use.
    ///
    /// # Errors
    /// The first line that is malformed or contradicts an earlier one.
    pub fn read(bytes: &[u8]) -> Result<Self, HistoryError> {
        // A thread costs as much as some hundred lines.
        let threads = if bytes.len() < 1 << 20 { 1 } else { threads() };
        stream::held(bytes, threads)
    }

    /// Reads a `history.jsonl` as its bytes come, with as many threads as are of use and without holding the file.
    ///
    /// The reader should give what it has in large blocks; it may be read on after an error in a line, by as much as is
    /// on its way. Use an [`super::Intake`] for bytes that come slowly.
    ///
    /// # Errors
    /// The first line that is malformed or contradicts an earlier one, or that could not be read.
    pub fn read_stream(reader: impl Read + Send) -> Result<Self, ReadError> {
        stream::streamed(reader, threads())
    }

    /// Reads a history in any format that is in memory.
    ///
    /// # Errors
    /// The first line that is malformed or contradicts an earlier one.
    pub fn read_as(bytes: &[u8], format: Format) -> Result<Self, HistoryError> {
        if format == Format::Jsonl {
            return Self::read(bytes);
        }
        let mut intake = Intake::new(format);
        intake.push(bytes)?;
        intake.finish()
    }

    /// Reads a history in any format as its bytes come; see [`History::read_stream`].
    ///
    /// # Errors
    /// The first line that is malformed or contradicts an earlier one, or that could not be read.
    pub fn read_stream_as(mut reader: impl Read + Send, format: Format) -> Result<Self, ReadError> {
        if format == Format::Jsonl {
            return Self::read_stream(reader);
        }
        let mut intake = Intake::new(format);
        let mut block = vec![0; BLOCK];
        loop {
            match reader.read(&mut block) {
                Ok(0) => return Ok(intake.finish()?),
                Ok(length) => intake.push(&block[..length])?,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ReadError::Io(error)),
            }
        }
    }

    /// The value that an operation wrote or read, as JSON; `None` where it has none, null for a read that found nothing.
    #[must_use]
    pub fn value(&self, operation: &Operation) -> Option<serde_json::Value> {
        operation.value.map(|datum| self.values.json(datum))
    }
}

/// How much is read at a time, in bytes.
const BLOCK: usize = 64 << 10;

/// At most so many threads read one file: they have to wait for one that joins.
const MOST_THREADS: usize = 4;

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |threads| threads.get().min(MOST_THREADS))
}

/// Why a history could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The bytes did not come.
    #[error(transparent)]
    Io(std::io::Error),
    /// The bytes are no history.
    #[error(transparent)]
    History(#[from] HistoryError),
}

/// Why a file is no history: the message fits after "line 3, field token".
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HistoryError {
    /// The line, from 1.
    pub line: usize,
    /// The field at fault, where it is one.
    pub field: Option<String>,
    /// What is wrong and what would be right.
    pub message: String,
}

impl HistoryError {
    /// Messages quote the file, which may hold anything: what would break the one line is escaped, and what is long cut.
    pub(crate) fn new(line: usize, field: Option<&str>, message: String) -> Self {
        Self {
            line,
            field: field.map(harmless),
            message: harmless(&message),
        }
    }
}

/// At most so many characters of a message are shown.
const LONGEST_MESSAGE: usize = 500;

fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len().min(LONGEST_MESSAGE));
    for (position, character) in text.chars().enumerate() {
        if position == LONGEST_MESSAGE {
            shown.push_str(" ...");
            break;
        }
        if character.is_control()
            || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

impl fmt::Display for HistoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "line {}, field {field}: {}", self.line, self.message),
            None => write!(f, "line {}: {}", self.line, self.message),
        }
    }
}

impl std::error::Error for HistoryError {}
