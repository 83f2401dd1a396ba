//! What a run does to processes, tried on processes of our own.

use std::time::{Duration, Instant};

use nix::unistd::{Pid, getpid};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::targets::{NodeCommand, ProcessNode, Spawner, adopt_orphans, proc};

/// How long what was tried may take to be seen.
const SEEN_WITHIN: Duration = Duration::from_secs(2);

const SIGNALS: &str = "signals between processes of one user and a readable /proc are needed: no seccomp filter, no /proc mounted with hidepid";

fn command(program: &str, arguments: &[&str]) -> NodeCommand {
    let marker = format!("doctor-{}/tried", std::process::id());
    NodeCommand {
        arguments: arguments.iter().map(Into::into).collect(),
        ..NodeCommand::new(program.as_ref(), marker, "/dev/null".into())
    }
}

/// A node, and the thread that must live as long.
fn started(program: &str, arguments: &[&str]) -> Result<(ProcessNode, Spawner), String> {
    let command = command(program, arguments);
    let spawner = Spawner::start().map_err(|error| error.to_string())?;
    let child = spawner
        .spawn(command.clone())
        .map_err(|error| {
            format!(
                "`{program}` cannot be started: {error}; a PATH that has it is right (apt-get install coreutils util-linux dash)"
            )
        })?;
    Ok((ProcessNode::of(&command, child), spawner))
}

/// Stops a process, looks, and lets it go.
pub(super) fn stop_and_go() -> Result<String, String> {
    let (mut node, _spawner) = started("sleep", &["60"])?;
    let seen = node.crowd().stop().and_then(|stopped| {
        node.crowd()
            .resume()
            .map(|resumed| format!("{stopped}; {resumed}"))
    });
    node.kill()?;
    seen.map_err(|why| format!("{why}; {SIGNALS}"))
}

/// Kills a process, and starts another in its place.
pub(super) fn kill_and_start_again() -> Result<String, String> {
    let (mut node, spawner) = started("sleep", &["60"])?;
    let killed = node.kill().map_err(|why| format!("{why}; {SIGNALS}"))?;
    let begun = Instant::now();
    let again = spawner
        .spawn(command("sleep", &["60"]))
        .map_err(|error| format!("{killed}, and it cannot be started again: {error}"))?;
    let mut again = ProcessNode::of(&command("sleep", &[]), again);
    let pid = again.pid();
    let lives = proc::is_alive(pid);
    again.kill()?;
    if lives {
        let took = begun.elapsed().as_secs_f64() * 1e3;
        Ok(format!(
            "{killed}; pid {pid} in its place after {took:.1} ms"
        ))
    } else {
        Err(format!("{killed}; pid {pid} in its place did not live"))
    }
}

/// A grandchild in a session of its own, without our marker, must become ours when its parent ends.
pub(super) fn adopt() -> Result<String, String> {
    adopt_orphans().map_err(|error| format!("{error}; a kernel from 3.4 on is needed"))?;
    let (mut node, _spawner) = started("sh", &["-c", "setsid env -i sleep 60 & exit 0"])?;
    let harness = getpid().as_raw();
    let deadline = Instant::now() + SEEN_WITHIN;
    let mut adopted = None;
    while adopted.is_none() && Instant::now() < deadline {
        // The shell's own end is not waited for before: it would be taken for what it left.
        // Only once it is that program: on its way there it is not past our reach yet.
        let sleeps = |pid: &i32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
        };
        let is_it = |pid: &i32| *pid != node.pid() && sleeps(pid) && proc::run_of(*pid).is_none();
        adopted = proc::children_of(harness).into_iter().find(is_it);
        std::thread::sleep(Duration::from_millis(1));
    }
    node.kill()?;
    let Some(pid) = adopted.map(Pid::from_raw) else {
        return Err(
            "what a process left behind was not handed to us; util-linux (`setsid`) and a kernel from 3.4 on are needed"
                .to_owned(),
        );
    };
    // It is our child, so its number cannot have become another's.
    let killed = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL)
        .and_then(|()| nix::sys::wait::waitpid(pid, None));
    killed
        .map(|_| format!("pid {pid}, left behind without a marker, was adopted and killed"))
        .map_err(|error| format!("pid {pid} was adopted and cannot be killed: {error}"))
}

/// Signals a child through a descriptor that pins it.
pub(super) fn pidfd() -> Result<String, String> {
    let (mut node, _spawner) = started("sleep", &["60"])?;
    let tried = rustix::process::Pid::from_raw(node.pid())
        .ok_or(rustix::io::Errno::SRCH)
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
        .and_then(|pinned| pidfd_send_signal(&pinned, Signal::KILL));
    let deadline = Instant::now() + SEEN_WITHIN;
    while tried.is_ok() && proc::is_alive(node.pid()) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    let gone = !proc::is_alive(node.pid());
    node.kill()?;
    match tried {
        Ok(()) if gone => Ok(format!("pid {} was killed through one", node.pid())),
        Ok(()) => Err(format!("a signal through one did nothing; {SIGNALS}")),
        Err(error) => Err(format!(
            "{error}; a kernel from 5.3 on, and no seccomp filter that hides pidfd_open, are needed"
        )),
    }
}
