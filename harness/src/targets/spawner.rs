//! The one OS thread that starts every node of a run, and lives as long as the run.
//!
//! Linux sends a process its parent-death signal when the *thread* that started it ends. So nodes are started neither
//! by a pool's worker nor by a task, but by this thread: while the harness lives, so does it; when the harness dies,
//! however that happens, every node dies with it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};

use nix::sys::{prctl, signal::Signal};
use nix::unistd::{Pid, getpid, getppid, setsid};

use super::proc::{Home, MARKER};
use crate::error::HarnessError;

/// Held while a node is being started.
static DOOR: Mutex<()> = Mutex::new(());

/// Waits for a node that is being started, and lets no other be started by this process any more.
pub fn start_nothing_more() {
    std::mem::forget(DOOR.lock().unwrap_or_else(PoisonError::into_inner));
}

/// What to start.
#[derive(Clone, Debug)]
pub struct NodeCommand {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// `<run>/<node>`, put into the environment.
    pub marker: String,
    /// Where its standard error goes, appended; also its standard output unless `piped`.
    pub log: PathBuf,
    /// Whether standard input and output are pipes of ours (workers) or closed and logged (services).
    pub piped: bool,
    /// Variables that it is given.
    pub environment: Vec<(&'static str, &'static str)>,
    /// Variables that it is not given: those whose names begin so.
    pub without: Option<&'static str>,
    /// As whom it runs, where that is not the harness's own user.
    pub owner: Option<Owner>,
    /// How its processes are known that hide the marker.
    pub home: Option<Home>,
}

/// A user and a group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Owner {
    /// The user's number.
    pub user: u32,
    /// The group's number.
    pub group: u32,
}

impl NodeCommand {
    /// A program without arguments, as the harness's own user, unpiped.
    #[must_use]
    pub fn new(program: &Path, marker: String, log: PathBuf) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            marker,
            log,
            piped: false,
            environment: Vec::new(),
            without: None,
            owner: None,
            home: None,
        }
    }
}

type Order = (NodeCommand, mpsc::SyncSender<std::io::Result<Child>>);

/// A handle on the thread.
#[derive(Clone, Debug)]
pub struct Spawner {
    orders: mpsc::Sender<Order>,
}

impl Spawner {
    /// Starts the thread. It ends when the last handle is dropped, and its nodes with it.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start() -> Result<Self, HarnessError> {
        let (orders, inbox) = mpsc::channel::<Order>();
        std::thread::Builder::new()
            .name("spawner".to_owned())
            .spawn(move || {
                for (command, reply) in inbox {
                    // The receiver may be gone; then nobody wants the child, and dropping the pipes ends it.
                    let _ = reply.send(spawn(&command));
                }
            })
            .map_err(|source| HarnessError::System {
                what: "start the spawner thread",
                source,
            })?;
        Ok(Self { orders })
    }

    /// Starts a node and waits until it has been started.
    ///
    /// # Errors
    /// As the operating system says, e.g. that there is no such program.
    pub fn spawn(&self, command: NodeCommand) -> std::io::Result<Child> {
        let (reply, answer) = mpsc::sync_channel(1);
        let gone = || std::io::Error::other("the spawner thread has ended");
        self.orders.send((command, reply)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}

fn spawn(node: &NodeCommand) -> std::io::Result<Child> {
    let _door = DOOR.lock().unwrap_or_else(PoisonError::into_inner);
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&node.log)?;
    let mut command = Command::new(&node.program);
    command
        .args(&node.arguments)
        .env(MARKER, &node.marker)
        .env("PYTHONUNBUFFERED", "1")
        .envs(node.environment.iter().copied())
        .stderr(log.try_clone()?);
    if let Some(prefix) = node.without {
        let foreign = std::env::vars_os().map(|(name, _)| name);
        let ours = |name: &OsString| node.environment.iter().any(|(given, _)| name == *given);
        for name in foreign.filter(|name| !ours(name)) {
            if name.as_encoded_bytes().starts_with(prefix.as_bytes()) {
                command.env_remove(name);
            }
        }
    }
    if let Some(owner) = node.owner {
        // These come before what is asked for below: a change of user would undo the death signal.
        command.uid(owner.user).gid(owner.group);
    }
    if node.piped {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
    } else {
        command.stdin(Stdio::null()).stdout(log);
    }
    let harness = getpid();
    // SAFETY: between fork and exec only async-signal-safe calls are made: setsid, prctl and getppid.
    unsafe { command.pre_exec(move || lead_a_session(harness)) };
    command.spawn()
}

/// Runs in the child: a session of its own, so that a terminal's Ctrl-C reaches the harness alone, and death with the
/// harness. Where the harness died before the request took hold, nobody would send the signal: so look once more.
fn lead_a_session(harness: Pid) -> std::io::Result<()> {
    setsid()?;
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() == harness {
        Ok(())
    } else {
        Err(std::io::Error::other("the harness is gone"))
    }
}
