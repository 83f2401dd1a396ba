//! A node that is a process of this machine and leads a session of its own, with everything it started.

use std::process::{Child, ChildStdin, ChildStdout, ExitStatus};
use std::time::Instant;

use nix::unistd::Pid;

use super::NodeCommand;
use super::crowd::{Crowd, Kin, millis};

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub struct ProcessNode {
    crowd: Crowd,
    child: Child,
}

impl ProcessNode {
    /// Takes charge of a child that was started by `command`.
    #[must_use]
    pub fn of(command: &NodeCommand, child: Child) -> Self {
        let leader = i32::try_from(child.id()).expect("Linux process ids are below 2^22");
        let kin = Kin::Marked {
            marker: command.marker.clone(),
            home: command.home.clone(),
        };
        Self {
            crowd: Crowd::new(leader, kin),
            child,
        }
    }

    /// Its processes.
    #[must_use]
    pub fn crowd(&self) -> &Crowd {
        &self.crowd
    }

    /// The leader's process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.crowd.leader()
    }

    /// The pipes to a worker; `None` once taken.
    pub fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        Some((self.child.stdin.take()?, self.child.stdout.take()?))
    }

    /// How the leader ended, if it has.
    #[must_use]
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Kills every process of the node and reaps the leader. `Ok` is the evidence.
    ///
    /// # Errors
    /// When a process outlived SIGKILL for longer than evidence may take.
    pub fn kill(&mut self) -> Result<String, String> {
        let begun = Instant::now();
        let gone = self.crowd.kill();
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
}

impl Drop for ProcessNode {
    fn drop(&mut self) {
        if self.ended().is_none() {
            let _ = self.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::targets::{Spawner, proc};

    fn until(done: impl Fn() -> bool) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !done() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        done()
    }

    fn node(script: &str, name: &str) -> ProcessNode {
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
        ProcessNode::of(&command, child.0.expect("sh runs"))
    }

    #[test]
    fn a_stop_reaches_a_child_in_a_session_of_its_own_and_a_kill_leaves_nothing() {
        let mut node = node("setsid sleep 60 & sleep 60; true", "forker");
        // A shell that waits for a child to replace its image cannot be stopped just then: so both have to be `sleep`.
        let asleep = |pid: &i32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
        };
        assert!(
            until(|| node
                .crowd()
                .processes()
                .iter()
                .filter(|pid| asleep(pid))
                .count()
                == 2),
            "sh, sleep and the sleep in its own session"
        );
        let pids = node.crowd().processes();
        let evidence = node.crowd().stop().expect("stopped");
        assert!(
            evidence.starts_with("state T in all 3 threads"),
            "{evidence}"
        );
        assert!(pids.iter().all(|&pid| proc::is_stopped(pid)));
        node.crowd().resume().expect("resumed");
        assert!(pids.iter().all(|&pid| !proc::is_stopped(pid)));
        node.kill().expect("killed");
        assert!(pids.iter().all(|&pid| !proc::is_alive(pid)));
    }

    #[test]
    fn stopping_a_node_that_is_gone_is_no_evidence() {
        let mut node = node("true", "gone");
        assert!(until(|| !proc::is_alive(node.pid())));
        assert!(node.ended().is_some());
        assert!(node.crowd().stop().is_err());
    }
}
