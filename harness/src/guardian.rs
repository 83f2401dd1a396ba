//! The guardian: the process that was started as `fencepost run`, while its only child is the harness.
//!
//! It does next to nothing: it hands signals on and waits. What it is for is the harness's death by SIGKILL (the
//! kernel's, when memory runs out, or anybody's). The nodes die with the harness; what *they* have started, in a session
//! of its own and without our marker, would be handed to the machine's first process, where nobody can tell it from
//! others. The guardian adopts it instead, because it is an ancestor and has asked to, and kills it. Only descendants
//! are adopted, so nothing else is ever touched.
//!
//! Should the guardian be killed, the harness sees its end of a pipe close, starts nothing more, does the same, and
//! ends. Only where both are killed within one moment is the marker all that is left to go by: see `heal`.

use std::collections::HashSet;
use std::io::{PipeReader, Read};
use std::sync::OnceLock;

use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid, setpgid};

use crate::error::{EXIT_FAILURE, HarnessError};
use crate::journal::Process;
use crate::targets::{adopt_orphans, kill_children, proc, start_nothing_more};
use crate::terminal::complain;

/// What ends a program by default, and here ends the run as the harness sees fit.
const HANDED_ON: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

static GUARDIAN: OnceLock<Process> = OnceLock::new();

/// The guardian of this process, if it is a harness that has one.
#[must_use]
pub fn guardian() -> Option<Process> {
    GUARDIAN.get().copied()
}

/// Divides this process in two. Returns `None` in the harness, which goes on; in the guardian it returns when the
/// harness has ended and nothing of it is left, with the exit status.
///
/// Only for a process that has no other thread yet.
///
/// # Errors
/// When the system refuses; then there is one process as before.
///
/// In the harness signals wait, until [`let_signals_in`], so that one that comes before it listens is not lost and does
/// not end it by itself.
pub fn divide() -> Result<Option<u8>, HarnessError> {
    let failed = |source: std::io::Error| HarnessError::System {
        what: "start the harness beside its guardian",
        source,
    };
    let (theirs, ours) = std::io::pipe().map_err(failed)?;
    // A shell that became us by `exec` may have had children: they are none of ours.
    let mut strangers: HashSet<i32> = proc::children_of(getpid().as_raw()).into_iter().collect();
    // From before there is a harness, so that no signal is lost between the two.
    let mut signals = handed_on();
    signals.add(Signal::SIGCHLD);
    signals
        .thread_block()
        .map_err(|error| failed(error.into()))?;
    // SAFETY: no other thread exists, so the child may do whatever this process may.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            drop(ours);
            SigSet::from(Signal::SIGCHLD)
                .thread_unblock()
                .map_err(|error| failed(error.into()))?;
            be_guarded(theirs).map_err(failed)?;
            Ok(None)
        }
        Ok(ForkResult::Parent { child }) => {
            drop(theirs);
            adopt_orphans()?;
            let status = watch(child, &signals, &mut strangers);
            // Held until here: its closing is what tells the harness that its guardian is gone.
            drop(ours);
            Ok(Some(status))
        }
        Err(error) => Err(failed(error.into())),
    }
}

/// In the harness, once it listens: signals that came since there is a guardian come now, and others from now on. What is
/// started before this would be deaf to them; the nodes are started after it.
pub fn let_signals_in() {
    // That cannot fail for signals that exist.
    let _ = handed_on().thread_unblock();
}

fn handed_on() -> SigSet {
    let mut signals = SigSet::empty();
    HANDED_ON.into_iter().for_each(|signal| signals.add(signal));
    signals
}

/// In the harness: a group of its own, so that a terminal's Ctrl-C comes through the guardian alone and counts once, and
/// a thread that notices when the guardian is gone.
fn be_guarded(mut pipe: PipeReader) -> std::io::Result<()> {
    setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    if let Some(process) = Process::now(getppid().as_raw()) {
        // Divided once.
        let _ = GUARDIAN.set(process);
    }
    std::thread::Builder::new()
        .name("guarded".to_owned())
        .spawn(move || {
            // Nothing is ever written: it returns when the guardian's end is closed.
            let _ = pipe.read(&mut [0]);
            start_nothing_more();
            let left = kill_children(&HashSet::new());
            for what in left {
                complain(format_args!("left: {what}"));
            }
            // Nothing may be begun or tidied up behind this: the journal stays for heal.
            // SAFETY: it does not return and runs no handler.
            unsafe { nix::libc::_exit(EXIT_FAILURE.into()) }
        })?;
    Ok(())
}

/// In the guardian: hands signals on until the harness has ended, then kills what it left.
///
/// While the harness lives it is the harness that adopts: whatever else becomes a child of the guardian then is a
/// stranger's, and is spared.
fn watch(harness: Pid, signals: &SigSet, strangers: &mut HashSet<i32>) -> u8 {
    let ended = loop {
        if !strangers.is_empty() {
            let children = proc::children_of(getpid().as_raw());
            // Looked at afterwards: then none of them was the harness's.
            if proc::is_alive(harness.as_raw()) {
                strangers.extend(children);
            }
        }
        match waitpid(harness, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, code)) => break Ok(code),
            Ok(WaitStatus::Signaled(_, signal, _)) => break Err(signal.to_string()),
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => break Err(error.to_string()),
        }
        if let Ok(signal) = signals.wait()
            && signal != Signal::SIGCHLD
        {
            // If it is gone, the next look says so.
            let _ = kill(harness, signal);
        }
    };
    for what in kill_children(strangers) {
        complain(format_args!("left: {what}"));
    }
    match ended {
        Ok(code) => u8::try_from(code).unwrap_or(EXIT_FAILURE),
        Err(how) => {
            complain(format_args!(
                "the harness ended by {how}; its processes are gone, `fencepost heal` removes what else it left"
            ));
            EXIT_FAILURE
        }
    }
}
