//! Standard output and standard error, for people and for scripts: a reader that has gone away is no reason to panic,
//! and never changes an exit status.

use std::fmt::Display;
use std::io::Write;

/// A line on standard output.
pub fn say(text: impl Display) {
    // Whoever read it has seen enough.
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Text on standard output as it stands.
pub fn print(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// A line on standard error, after the program's name.
pub fn complain(text: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "fencepost: {text}");
}
