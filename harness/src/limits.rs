//! What the system lets one process have.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Files and sockets that a run's fullest process, the fault proxy, may come to hold open, generously.
pub const FILES_NEEDED: u64 = 256;
/// As many are asked for where they may be had.
const FILES_WANTED: u64 = 4096;

/// Asks for room for files and sockets, as far as it may be had, for this process and those that it starts; answers how
/// much there is.
///
/// # Errors
/// When there is less than [`FILES_NEEDED`]; the text says what is right.
pub fn open_files() -> Result<u64, String> {
    let kind = Resource::RLIMIT_NOFILE;
    let (soft, hard) = getrlimit(kind).map_err(|error| format!("RLIMIT_NOFILE: {error}"))?;
    let wanted = FILES_WANTED.min(hard);
    let room = if soft < wanted && setrlimit(kind, wanted, hard).is_ok() {
        wanted
    } else {
        soft
    };
    if room >= FILES_NEEDED {
        Ok(room)
    } else {
        Err(format!(
            "a process may have only {room} files open: at least {FILES_NEEDED} is right (`ulimit -n`, `ulimit -Hn`)"
        ))
    }
}
