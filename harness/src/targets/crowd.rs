//! All processes of a node, stopped, let go or killed together, with evidence from `/proc`.
//!
//! Stop, continue and kill address every process of a node: its leader's group, and whatever else is of its kin. A stop
//! is believed when `/proc` shows every thread in state T, not when kill() returned.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::proc::{self, Home};

/// How long evidence of a signal may take before the outcome is unknown.
const EVIDENCE_WITHIN: Duration = Duration::from_secs(2);

/// The processes of one node.
#[derive(Clone, Debug)]
pub struct Crowd {
    leader: i32,
    kin: Kin,
}

/// How the processes of a node are known.
#[derive(Clone, Debug)]
pub enum Kin {
    /// They carry a marker, or are at home in the node's data.
    Marked {
        /// `<run>/<node>`, in their environment.
        marker: String,
        /// Where those are at home that hide the marker.
        home: Option<Home>,
    },
    /// They are in the control groups of a container.
    Contained {
        /// The container's id.
        id: String,
    },
}

impl Crowd {
    /// The processes that are of `kin`, and `leader` among them.
    #[must_use]
    pub fn new(leader: i32, kin: Kin) -> Self {
        Self { leader, kin }
    }

    /// The leader's process id.
    #[must_use]
    pub fn leader(&self) -> i32 {
        self.leader
    }

    /// Every process of the node that lives.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        let mut pids = match &self.kin {
            Kin::Marked { marker, home } => {
                let mut pids = proc::marked(marker);
                if let Some(home) = home {
                    let housed = proc::at_home(home).into_iter();
                    let housed: Vec<i32> = housed.filter(|pid| !pids.contains(pid)).collect();
                    pids.extend(housed);
                }
                pids
            }
            Kin::Contained { id } => proc::contained(id),
        };
        if !pids.contains(&self.leader) && proc::is_alive(self.leader) {
            pids.push(self.leader);
        }
        pids
    }

    /// Stops all. `Ok` is the evidence, `Err` why there is none.
    ///
    /// # Errors
    /// When the node is gone, or a thread was not in state T in time.
    pub fn stop(&self) -> Result<String, String> {
        let begun = Instant::now();
        let pids = self.drive(Signal::SIGSTOP, |pid| {
            proc::is_stopped(pid) || !proc::is_alive(pid)
        })?;
        if !proc::is_stopped(self.leader) {
            return Err(format!("pid {}: it is gone", self.leader));
        }
        let threads: usize = pids.iter().map(|&pid| proc::thread_states(pid).len()).sum();
        let (pid, took) = (self.leader, millis(begun));
        Ok(format!(
            "state T in all {threads} threads of pid {pid} after {took}"
        ))
    }

    /// Lets all go on. `Ok` is the evidence, `Err` why there is none.
    ///
    /// # Errors
    /// When the node is gone, or a thread stayed in state T.
    pub fn resume(&self) -> Result<String, String> {
        let begun = Instant::now();
        self.drive(Signal::SIGCONT, |pid| {
            !proc::thread_states(pid).contains(&'T')
        })?;
        if !proc::is_alive(self.leader) {
            return Err(format!("pid {}: it is gone", self.leader));
        }
        Ok(format!(
            "state T left by pid {} after {}",
            self.leader,
            millis(begun)
        ))
    }

    /// Kills all; returns those that there were. Nobody has waited for them yet.
    ///
    /// # Errors
    /// When a process outlived SIGKILL for longer than evidence may take.
    pub fn kill(&self) -> Result<Vec<i32>, String> {
        self.drive(Signal::SIGKILL, |pid| !proc::is_alive(pid))
    }

    /// Sends `signal` until every process of the node has `settled`; returns all that were seen. The group comes first,
    /// which is one system call and reaches nearly everything. Then what left the group; again and again, because a
    /// process that is being born, or is just replacing its image, shows no marker yet.
    fn drive(&self, signal: Signal, settled: impl Fn(i32) -> bool) -> Result<Vec<i32>, String> {
        let deadline = Instant::now() + EVIDENCE_WITHIN;
        // Whoever dies with the leader has to be known before.
        let mut seen = match self.kin {
            Kin::Marked { home: None, .. } => Vec::new(),
            _ => self.processes(),
        };
        // A group that is gone has nobody to signal; what else is of the kin is found below.
        let _ = killpg(Pid::from_raw(self.leader), signal);
        loop {
            let pids = self.processes();
            let new: Vec<i32> = pids
                .iter()
                .filter(|pid| !seen.contains(*pid))
                .copied()
                .collect();
            seen.extend(new);
            // Of all that were seen: one that is dying shows neither marker nor home any more, and is not dead yet.
            let Some(&first) = seen.iter().find(|&&pid| !settled(pid)) else {
                return Ok(seen);
            };
            if Instant::now() > deadline {
                return Err(format!(
                    "pid {first}: {signal} had no effect within {EVIDENCE_WITHIN:?}"
                ));
            }
            for &pid in pids.iter().filter(|&&pid| !settled(pid)) {
                match kill(Pid::from_raw(pid), signal) {
                    Ok(()) | Err(Errno::ESRCH) => {}
                    Err(error) => return Err(format!("pid {pid}: {signal} failed: {error}")),
                }
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Since `begun`, for an evidence.
pub(super) fn millis(begun: Instant) -> String {
    format!("{:.1} ms", begun.elapsed().as_secs_f64() * 1e3)
}
