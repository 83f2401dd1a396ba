//! Everything that has this process for its parent, killed until nothing has.
//!
//! A process that has asked to adopt orphans ([`adopt_orphans`]) becomes the parent of whatever its descendants leave
//! behind, in whatever session and with whatever environment. So killing children again and again reaches every
//! descendant in the end, and nothing else.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid};

use super::proc;
use crate::error::HarnessError;

/// How long what is killed may outlive SIGKILL.
const GONE_WITHIN: Duration = Duration::from_secs(2);

/// From now on this process becomes the parent of what its descendants leave behind.
///
/// # Errors
/// When the kernel refuses.
pub fn adopt_orphans() -> Result<(), HarnessError> {
    nix::sys::prctl::set_child_subreaper(true).map_err(|error| HarnessError::System {
        what: "adopt what nodes leave behind",
        source: error.into(),
    })
}

/// Kills and reaps all children of this process, those that it adopts meanwhile among them. Returns what is left.
///
/// Only for a moment at which no child is to live on, except for `spared`.
#[must_use]
pub fn kill_children(spared: &HashSet<i32>) -> Vec<String> {
    let parent = getpid().as_raw();
    let deadline = Instant::now() + GONE_WITHIN;
    loop {
        let mut children = proc::children_of(parent);
        children.retain(|pid| !spared.contains(pid));
        if children.is_empty() {
            return Vec::new();
        }
        if Instant::now() > deadline {
            let tell = |pid: &i32| format!("pid {pid}, left behind by a node, outlived SIGKILL");
            return children.iter().map(tell).collect();
        }
        for pid in children.into_iter().map(Pid::from_raw) {
            // Gone already, or waited for by nobody else: both are what is wanted.
            let _ = kill(pid, Signal::SIGKILL);
            let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
