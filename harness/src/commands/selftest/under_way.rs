//! The runs that are under way, each a process of its own, and how they hear that they are to end.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// What a run ended with.
pub(super) struct Ended {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// All of them. Each heals and judges when it is told to end, and leaves nothing.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    told_to_end: bool,
    /// None of them has been waited for, so no number is another's.
    runs: BTreeSet<i32>,
}

impl UnderWay {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells all runs to end, and lets no other begin. Told again, they hurry.
    pub fn end(&self) {
        let mut state = self.state();
        state.told_to_end = true;
        for &run in &state.runs {
            // What a shell starts in the background ignores SIGINT. One that has ended meanwhile does not mind.
            let _ = kill(Pid::from_raw(run), Signal::SIGTERM);
        }
    }

    /// Whether they were told to end.
    pub fn is_ending(&self) -> bool {
        self.state().told_to_end
    }

    /// Runs a command to its end; `None` where none is to begin any more.
    pub fn run(&self, command: &mut Command) -> Option<io::Result<Ended>> {
        let begun = {
            let mut state = self.state();
            if state.told_to_end {
                return None;
            }
            let begun = command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                // A terminal's Ctrl-C comes through us alone, and counts once.
                .process_group(0)
                .spawn();
            if let Ok(child) = &begun {
                state.runs.insert(number(child));
            }
            begun
        };
        Some(begun.and_then(|child| self.heard(child)))
    }

    fn heard(&self, mut child: Child) -> io::Result<Ended> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let read = std::thread::scope(|scope| {
            let pipe = child.stderr.take();
            let errors = scope.spawn(|| read_all(pipe, &mut stderr));
            let read = read_all(child.stdout.take(), &mut stdout);
            read.and(errors.join().unwrap_or(Ok(())))
        });
        // Before it is waited for: its number may be another's afterwards.
        self.state().runs.remove(&number(&child));
        let status = child.wait()?;
        read?;
        Ok(Ended {
            status,
            stdout,
            stderr,
        })
    }
}

fn number(child: &Child) -> i32 {
    i32::try_from(child.id()).expect("Linux process ids are below 2^22")
}

fn read_all(pipe: Option<impl Read>, bytes: &mut Vec<u8>) -> io::Result<()> {
    match pipe {
        Some(mut pipe) => pipe.read_to_end(bytes).map(drop),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn what_is_under_way_is_told_to_end_and_nothing_begins_afterwards() {
        let runs = UnderWay::default();
        let words = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let ended = runs.run(&mut words("echo out; echo err >&2; exit 3"));
        let ended = ended.expect("it may begin").expect("it was started");
        assert_eq!(
            (ended.status.code(), &*ended.stdout, &*ended.stderr),
            (Some(3), &b"out\n"[..], &b"err\n"[..])
        );
        std::thread::scope(|scope| {
            let long = scope.spawn(|| runs.run(&mut words("exec sleep 60")));
            let deadline = Instant::now() + Duration::from_secs(10);
            while runs.state().runs.is_empty() && Instant::now() < deadline {
                std::thread::yield_now();
            }
            runs.end();
            let ended = long.join().expect("it does not panic");
            let ended = ended.expect("it may begin").expect("it was started");
            assert_eq!(ended.status.signal(), Some(15));
        });
        assert!(runs.is_ending() && runs.run(&mut words("exit 0")).is_none());
    }
}
