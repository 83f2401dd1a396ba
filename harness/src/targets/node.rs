//! One node of a run: a process that leads a session of its own, with everything it started.
//!
//! Stop, continue and kill address every process of a node: its group, and whatever carries its marker (a child that
//! made a session of its own). A stop is believed when `/proc` shows every thread in state T, not when kill() returned.

use std::process::Child;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::NodeCommand;
use super::proc::{self, Home};

/// How long evidence of a signal may take before the outcome is unknown.
const EVIDENCE_WITHIN: Duration = Duration::from_secs(2);

/// A running node. Dropping it kills it.
#[derive(Debug)]
pub struct Node {
    marker: String,
    home: Option<Home>,
    child: Child,
}

impl Node {
    /// Takes charge of a child that was started by `command`.
    #[must_use]
    pub fn of(command: &NodeCommand, child: Child) -> Self {
        Self {
            marker: command.marker.clone(),
            home: command.home.clone(),
            child,
        }
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

    /// Every process of the node that lives: the leader, all that carry its marker, and all that are at home in it.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        let mut pids = proc::marked(&self.marker);
        if let Some(home) = &self.home {
            let housed = proc::at_home(home).into_iter();
            let housed: Vec<i32> = housed.filter(|pid| !pids.contains(pid)).collect();
            pids.extend(housed);
        }
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
        let pids = self.drive(Signal::SIGSTOP, |pid| {
            proc::is_stopped(pid) || !proc::is_alive(pid)
        })?;
        if !proc::is_stopped(self.pid()) {
            return Err(format!("pid {}: it is gone", self.pid()));
        }
        let threads: usize = pids.iter().map(|&pid| proc::thread_states(pid).len()).sum();
        let (pid, took) = (self.pid(), millis(begun));
        Ok(format!(
            "state T in all {threads} threads of pid {pid} after {took}"
        ))
    }

    /// Lets the node go on. `Ok` is the evidence, `Err` why there is none.
    ///
    /// # Errors
    /// When the node is gone, or a thread stayed in state T.
    pub fn resume(&self) -> Result<String, String> {
        let begun = Instant::now();
        self.drive(Signal::SIGCONT, |pid| {
            !proc::thread_states(pid).contains(&'T')
        })?;
        if !proc::is_alive(self.pid()) {
            return Err(format!("pid {}: it is gone", self.pid()));
        }
        Ok(format!(
            "state T left by pid {} after {}",
            self.pid(),
            millis(begun)
        ))
    }

    /// Kills every process of the node and reaps the leader. `Ok` is the evidence.
    ///
    /// # Errors
    /// When a process outlived SIGKILL for longer than evidence may take.
    pub fn kill(&mut self) -> Result<String, String> {
        let begun = Instant::now();
        let gone = self.drive(Signal::SIGKILL, |pid| !proc::is_alive(pid));
        // The leader is dead or was never there to be killed; waiting for it takes no time in either case.
        let status = self.child.wait();
        for pid in gone?.into_iter().filter(|&pid| pid != self.pid()) {
            // Without their parent they are children of the harness, which adopts; others are nobody's to wait for.
            let _ = nix::sys::wait::waitpid(
                Pid::from_raw(pid),
                Some(nix::sys::wait::WaitPidFlag::WNOHANG),
            );
        }
        let (pid, took) = (self.pid(), millis(begun));
        match status {
            Ok(status) => Ok(format!("pid {pid} gone ({status}) after {took}")),
            Err(error) => Err(format!("pid {pid}: {error}")),
        }
    }

    /// Sends `signal` until every process of the node has `settled`; returns all that were seen. The group comes first,
    /// which is one system call and reaches nearly everything. Then what left the group; again and again, because a
    /// process that is being born, or is just replacing its image, shows no marker yet.
    fn drive(&self, signal: Signal, settled: impl Fn(i32) -> bool) -> Result<Vec<i32>, String> {
        let deadline = Instant::now() + EVIDENCE_WITHIN;
        // Whoever dies with the leader has to be known before.
        let mut seen = match self.home {
            Some(_) => self.processes(),
            None => Vec::new(),
        };
        // A group that is gone has nobody to signal; what carries the marker is found below.
        let _ = killpg(Pid::from_raw(self.pid()), signal);
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

impl Drop for Node {
    fn drop(&mut self) {
        if self.ended().is_none() {
            let _ = self.kill();
        }
    }
}

fn millis(begun: Instant) -> String {
    format!("{:.1} ms", begun.elapsed().as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::{NodeCommand, Spawner};

    fn until(done: impl Fn() -> bool) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !done() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        done()
    }

    fn node(script: &str, name: &str) -> Node {
        let marker = format!("test-{}/{name}", std::process::id());
        let command = NodeCommand {
            arguments: vec!["-c".into(), script.into()],
            ..NodeCommand::new("sh".as_ref(), marker, "/dev/null".into())
        };
        let child = Spawner::start()
            .map(|spawner| (spawner.spawn(command.clone()), spawner))
            .expect("a thread");
        // The spawner's thread must outlive the node; a test leaks it on purpose.
        std::mem::forget(child.1);
        Node::of(&command, child.0.expect("sh runs"))
    }

    #[test]
    fn a_stop_reaches_a_child_in_a_session_of_its_own_and_a_kill_leaves_nothing() {
        let mut node = node("setsid sleep 60 & sleep 60; true", "forker");
        // A shell that waits for a child to replace its image cannot be stopped just then: so both have to be `sleep`.
        let asleep = |pid: &i32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
        };
        assert!(
            until(|| node.processes().iter().filter(|pid| asleep(pid)).count() == 2),
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
