//! One node of a run: a process that leads a session of its own, with everything it started.
//!
//! Stop, continue and kill address every process of a node: its group, and whatever carries its marker (a child that
//! made a session of its own). A stop is believed when `/proc` shows every thread in state T, not when kill() returned.

use std::process::Child;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::proc;

/// How long evidence of a signal may take before the outcome is unknown.
const EVIDENCE_WITHIN: Duration = Duration::from_secs(2);

/// A running node. Dropping it kills it.
#[derive(Debug)]
pub struct Node {
    marker: String,
    child: Child,
}

impl Node {
    /// Takes charge of a child that was started with `marker`.
    #[must_use]
    pub fn new(marker: String, child: Child) -> Self {
        Self { marker, child }
    }

    /// The leader's process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("Linux process ids are below 2^22")
    }

    /// The pipes to a worker; `None` once taken.
    pub fn pipes(&mut self) -> Option<(std::process::ChildStdin, std::process::ChildStdout)> {
        Some((self.child.stdin.take()?, self.child.stdout.take()?))
    }

    /// How the leader ended, if it has.
    #[must_use]
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Every process of the node that lives: the leader, and all that carry its marker.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        let mut pids = proc::marked(&self.marker);
        if !pids.contains(&self.pid()) && proc::is_alive(self.pid()) {
            pids.push(self.pid());
        }
        pids
    }

    /// Stops the node. `Ok` is the evidence, `Err` why there is none.
    ///
    /// # Errors
    /// When the node is gone, or a thread was not in state T in time.
    pub fn stop(&self) -> Result<String, String> {
        let begun = Instant::now();
        self.signal(Signal::SIGSTOP)?;
        let pids = self.processes();
        until(|| {
            pids.iter()
                .all(|&pid| proc::is_stopped(pid) || !proc::is_alive(pid))
                && proc::is_stopped(self.pid())
        })
        .then(|| {
            let threads: usize = pids.iter().map(|&pid| proc::thread_states(pid).len()).sum();
            format!(
                "state T in all {threads} threads of pid {} after {}",
                self.pid(),
                millis(begun)
            )
        })
        .ok_or_else(|| {
            format!(
                "pid {}: not every thread reached state T within {EVIDENCE_WITHIN:?}",
                self.pid()
            )
        })
    }

    /// Lets the node go on. `Ok` is the evidence, `Err` why there is none.
    ///
    /// # Errors
    /// When the node is gone, or a thread stayed in state T.
    pub fn resume(&self) -> Result<String, String> {
        let begun = Instant::now();
        self.signal(Signal::SIGCONT)?;
        until(|| !proc::thread_states(self.pid()).contains(&'T'))
            .then(|| format!("state T left by pid {} after {}", self.pid(), millis(begun)))
            .ok_or_else(|| {
                format!(
                    "pid {}: a thread is still in state T after {EVIDENCE_WITHIN:?}",
                    self.pid()
                )
            })
    }

    /// Kills every process of the node and reaps the leader. `Ok` is the evidence.
    ///
    /// # Errors
    /// When a process outlived SIGKILL for longer than evidence may take.
    pub fn kill(&mut self) -> Result<String, String> {
        let begun = Instant::now();
        let pids = self.processes();
        // A node that is gone already needs no signal; what matters is that none of it is left.
        let _ = self.signal(Signal::SIGKILL);
        let reaped = self.child.wait();
        let gone = until(|| pids.iter().all(|&pid| !proc::is_alive(pid)));
        match reaped {
            Ok(status) if gone => Ok(format!(
                "pid {} gone ({status}) after {}",
                self.pid(),
                millis(begun)
            )),
            Ok(_) => Err(format!("pid {}: a descendant outlived SIGKILL", self.pid())),
            Err(error) => Err(format!("pid {}: {error}", self.pid())),
        }
    }

    /// The group first, which is one system call and reaches nearly everything; then what left the group.
    fn signal(&self, signal: Signal) -> Result<(), String> {
        let leader = Pid::from_raw(self.pid());
        killpg(leader, signal)
            .map_err(|error| format!("pid {leader}: {signal} failed: {error}"))?;
        for pid in proc::marked(&self.marker)
            .into_iter()
            .filter(|&pid| pid != self.pid())
        {
            match kill(Pid::from_raw(pid), signal) {
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(error) => return Err(format!("pid {pid}: {signal} failed: {error}")),
            }
        }
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.ended().is_none() {
            let _ = self.kill();
        }
    }
}

/// Polls `done` closely, then gives up after [`EVIDENCE_WITHIN`].
fn until(done: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + EVIDENCE_WITHIN;
    loop {
        if done() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn millis(begun: Instant) -> String {
    format!("{:.1} ms", begun.elapsed().as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::{NodeCommand, Spawner};

    fn node(script: &str, name: &str) -> Node {
        let marker = format!("test-{}/{name}", std::process::id());
        let command = NodeCommand {
            program: "sh".into(),
            arguments: vec!["-c".into(), script.into()],
            marker: marker.clone(),
            log: "/dev/null".into(),
            piped: false,
        };
        let child = Spawner::start()
            .map(|spawner| (spawner.spawn(command), spawner))
            .expect("a thread");
        // The spawner's thread must outlive the node; a test leaks it on purpose.
        std::mem::forget(child.1);
        Node::new(marker, child.0.expect("sh runs"))
    }

    #[test]
    fn a_stop_reaches_a_child_in_a_session_of_its_own_and_a_kill_leaves_nothing() {
        let mut node = node("setsid sleep 60 & sleep 60; true", "forker");
        assert!(
            until(|| node.processes().len() == 3),
            "sh, sleep and the sleep in its own session"
        );
        let pids = node.processes();
        let evidence = node.stop().expect("stopped");
        assert!(
            evidence.starts_with("state T in all 3 threads"),
            "{evidence}"
        );
        assert!(pids.iter().all(|&pid| proc::is_stopped(pid)));
        node.resume().expect("resumed");
        assert!(pids.iter().all(|&pid| !proc::is_stopped(pid)));
        node.kill().expect("killed");
        assert!(pids.iter().all(|&pid| !proc::is_alive(pid)));
    }

    #[test]
    fn stopping_a_node_that_is_gone_is_no_evidence() {
        let mut node = node("true", "gone");
        assert!(until(|| !proc::is_alive(node.pid())));
        assert!(node.ended().is_some());
        assert!(node.stop().is_err());
    }
}
