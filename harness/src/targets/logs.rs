//! What nodes say on standard error, kept small: a node that floods must not fill the disk.
//!
//! Nodes write their logs themselves, so that their last words are there however they and the harness end. A thread
//! looks at the files, and cuts one that has grown too large: its beginning stays, and what is said from then on.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::HarnessError;

/// A log that is larger is cut, in bytes.
const LARGEST: u64 = 16 << 20;
/// How much of its beginning stays, in bytes.
const KEPT: u64 = 8 << 20;
/// How often it is looked. What a node can write meanwhile comes on top.
const EVERY: Duration = Duration::from_millis(50);

/// Looks after the logs in one folder until it is dropped.
#[derive(Debug)]
pub struct LogKeeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LogKeeper {
    /// Starts to look after `folder`, which need not be there yet.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(folder: PathBuf) -> Result<Self, HarnessError> {
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::Builder::new()
            .name("logs".to_owned())
            .spawn(move || {
                while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                    cut_all(&folder, LARGEST, KEPT);
                }
                cut_all(&folder, LARGEST, KEPT);
            })
            .map_err(|source| HarnessError::System {
                what: "start the thread that keeps logs small",
                source,
            })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for LogKeeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        // It does not panic, and looks once more before it ends.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Cuts what is too large. A log that cannot be cut stays as it is: nothing of the run depends on it.
fn cut_all(folder: &Path, largest: u64, kept: u64) {
    for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let size = file.metadata().map_or(0, |data| data.len());
        if size > largest {
            let _ = cut(&file.path(), size, kept);
        }
    }
}

/// Those who write have it open for appending, so that they go on behind the new end.
fn cut(path: &Path, size: u64, kept: u64) -> std::io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(path)?;
    file.set_len(kept)?;
    let lost = size - kept;
    writeln!(
        file,
        "\n[log cut by fencepost: it had grown to {size} bytes, {lost} bytes are left out here]"
    )
}

/// The last line of a log that says something.
pub(super) fn last_line(log: &[u8]) -> Option<String> {
    let tail = String::from_utf8_lossy(&log[log.len().saturating_sub(4_096)..]).into_owned();
    let line = tail.lines().rfind(|line| !line.trim().is_empty())?;
    Some(line.trim().to_owned())
}

/// The same for the end of an error message, and what there is to say where it says nothing.
pub(super) fn last_words(log: &[u8]) -> String {
    match last_line(log) {
        Some(line) => format!("; its last words: {line}"),
        None => "; its log is empty".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_floods_is_cut_with_a_note_and_goes_on_behind_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("w1.log");
        let mut node = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .expect("opened");
        write!(node, "begin{}", "x".repeat(995)).expect("written");
        std::fs::write(folder.path().join("lock.log"), "small").expect("written");
        cut_all(folder.path(), 1_000, 100);
        assert_eq!(
            path.metadata().expect("there").len(),
            1_000,
            "not too large"
        );
        write!(node, "y").expect("written");
        cut_all(folder.path(), 1_000, 100);
        write!(node, "last words").expect("written");
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(text.starts_with("beginxxx") && text.ends_with("last words"));
        assert!(
            text.contains(
                "[log cut by fencepost: it had grown to 1001 bytes, 901 bytes are left out here]\n"
            ),
            "{text}"
        );
        assert!(text.len() < 250, "{}", text.len());
        let small = std::fs::read_to_string(folder.path().join("lock.log")).expect("read");
        assert_eq!(small, "small");
    }
}
