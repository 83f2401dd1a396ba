//! Standard output and standard error, for people and for scripts: a reader that has gone away is no reason to panic,
//! and never changes an exit status. A result that could not be written for any other reason is a failure of ours, which
//! the command's end tells.
//!
//! What is said may quote anything: a suite, a history, a worker's words. Nothing that a terminal would obey gets there.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

use serde_json::Value;

use crate::report::{is_hidden, plain};

/// Why a result could not be written, the first time.
static UNWRITTEN: OnceLock<io::Error> = OnceLock::new();

/// A longer complaint is cut.
const LONGEST: usize = 4_000;

/// A line on standard output.
pub fn say(text: impl Display) {
    let line = plain(&text.to_string(), usize::MAX);
    keep(writeln!(io::stdout().lock(), "{line}"));
}

/// A JSON value on a line of standard output.
pub fn say_json(value: &Value) {
    let mut line = String::new();
    for c in value.to_string().chars() {
        if is_hidden(c) {
            // Only within a string; what is below a space is escaped there already.
            for unit in c.encode_utf16(&mut [0; 2]) {
                line.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            line.push(c);
        }
    }
    keep(writeln!(io::stdout().lock(), "{line}"));
}

/// Lines on standard output.
pub fn print(text: &str) {
    put(printable(text).as_bytes());
}

/// Lines as they are, each without what a terminal would obey.
fn printable(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| is_hidden(c) && !matches!(c, '\n' | '\t');
    if !text.contains(harmful) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if harmful(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Bytes on standard output as they stand.
pub fn put(bytes: &[u8]) {
    keep(io::stdout().lock().write_all(bytes));
}

/// Why something said since the program began did not reach standard output, though somebody was there to read it.
#[must_use]
pub fn unwritten() -> Option<&'static io::Error> {
    keep(io::stdout().lock().flush());
    UNWRITTEN.get()
}

fn keep(written: io::Result<()>) {
    match written {
        // Whoever closes the pipe has seen enough.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            let _ = UNWRITTEN.set(error);
        }
        _ => {}
    }
}

/// A line on standard error, after the program's name.
pub fn complain(text: impl Display) {
    let line = plain(&text.to_string(), LONGEST);
    let _ = writeln!(io::stderr().lock(), "fencepost: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_lines_and_what_a_terminal_would_obey_is_written_out() {
        let text = "one\n\ttwo, Größe\n";
        assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
        assert_eq!(
            printable("a\u{1b}[31m\rb\n\u{9b}2J\u{202e}c"),
            "a\\u{1b}[31m\\rb\n\\u{9b}2J\\u{202e}c"
        );
    }
}
