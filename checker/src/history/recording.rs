//! A whole recording, and why a file is none.
//!
//! Promises: what was read is all here, and what was forgiven is said. How lines become operations is the business
//! of [`super::Pairing`].

use std::fmt;

use super::jsonl::Reader;
use super::{FaultWindow, Header, Names, Operation, Pairing};

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
    /// What was forgiven, one sentence each.
    pub warnings: Vec<String>,
    /// Invocations and completions read.
    pub events: u64,
    /// Time of the first line, in nanoseconds since the run began; 0 where there is none.
    pub first_time: u64,
    /// Time of the last line.
    pub last_time: u64,
}

impl History {
    /// Reads a `history.jsonl` in one pass.
    ///
    /// # Errors
    /// The first line that is malformed or contradicts an earlier one.
    pub fn read(bytes: &[u8]) -> Result<Self, HistoryError> {
        let mut reader = Reader::new(bytes);
        let mut pairing = Pairing::new();
        while let Some((number, line)) = reader.next_line()? {
            pairing.push(number, line)?;
        }
        let mut history = pairing.finish();
        history
            .warnings
            .splice(0..0, reader.warnings().iter().cloned());
        Ok(history)
    }
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
