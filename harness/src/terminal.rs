//! Standard output and standard error, for people and for scripts: a reader that has gone away is no reason to panic,
//! and never changes an exit status. A result that could not be written for any other reason is a failure of ours, which
//! the command's end tells.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

/// Why a result could not be written, the first time.
static UNWRITTEN: OnceLock<io::Error> = OnceLock::new();

/// A line on standard output.
pub fn say(text: impl Display) {
    keep(writeln!(io::stdout().lock(), "{text}"));
}

/// Text on standard output as it stands.
pub fn print(text: &str) {
    put(text.as_bytes());
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
    let _ = writeln!(io::stderr().lock(), "fencepost: {text}");
}
