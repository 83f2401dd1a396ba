//! What the tests of the binary share: starting it, and looking for what it left behind.
//!
//! Runs start services, workers and faults of their own and are sensitive to a machine that is busy with other runs;
//! so those of one test binary take turns.

#![allow(dead_code, reason = "each test binary uses its own part of this")]

pub mod contained;
pub mod relay;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// The binary under test.
pub fn fencepost() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command
        .stdin(Stdio::null())
        .env("XDG_STATE_HOME", state_home());
    command
}

/// The journals of the tests' runs, apart from those of the user.
pub fn state_home() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("state-{}", std::process::id()))
}

/// One run at a time.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The exit status, standard output and standard error, as text.
pub fn outcome(output: &Output) -> (i32, String, String) {
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// The one JSON object that `--json` printed, and nothing else.
pub fn only_json(stdout: &str) -> Value {
    assert_eq!(
        stdout.lines().count(),
        1,
        "one object and nothing else: {stdout}"
    );
    serde_json::from_str(stdout).expect("JSON")
}

/// The names of all findings, each once.
pub fn findings(end: &Value) -> Vec<String> {
    let mut names: Vec<String> = end["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|finding| finding["finding"].as_str().expect("a name").to_owned())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Processes that carry the marker of `run` (or of any run, for an empty id), with their command lines.
pub fn left_behind(run: &str) -> Vec<String> {
    let wanted = format!("FENCEPOST_RUN={run}/");
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")
        .expect("a Linux machine")
        .filter_map(Result::ok)
    {
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environ
            .split(|&byte| byte == 0)
            .any(|variable| variable.starts_with(wanted.as_bytes()))
        {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push(String::from_utf8_lossy(&line).replace('\0', " "));
        }
    }
    found
}

/// The text of a file of the run.
pub fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A suite that is short and expects little, with `more` appended.
pub fn short_suite(folder: &Path, seconds: u32, more: &str) -> PathBuf {
    let path = folder.join("short.toml");
    let text = format!(
        "name = \"short\"\n[run]\ntime_limit = \"{seconds}s\"\n[expect]\nzombie_writes = 1\n{more}\n\
         [[fault]]\nkind = \"zombie\"\nevery = \"1s\"\n"
    );
    std::fs::write(&path, text).expect("written");
    path
}

/// A run under way; it ends with the test. The process that was started is the guardian, its only child the harness.
pub struct Running {
    pub child: Child,
    out: PathBuf,
    suite: String,
}

impl Running {
    /// Starts `fencepost run` on a suite file that is named like its suite.
    pub fn start(suite: &Path, out: &Path, flags: &[&str]) -> Self {
        Self::start_as(fencepost(), suite, out, flags)
    }

    /// The same by a program of the test's own choice.
    pub fn start_as(mut program: Command, suite: &Path, out: &Path, flags: &[&str]) -> Self {
        program.arg("run").arg(suite).arg("--json").args(flags);
        program.arg("--out").arg(out);
        program.stdout(Stdio::piped()).stderr(Stdio::null());
        let stem = suite.file_stem().and_then(|stem| stem.to_str());
        Self {
            child: program.spawn().expect("it runs"),
            out: out.to_owned(),
            suite: stem.expect("a name").to_owned(),
        }
    }

    /// Its folder, if it has come so far.
    pub fn folder(&self) -> Option<PathBuf> {
        let mut targets = ["local", "docker"].into_iter();
        targets.find_map(|target| {
            let runs = self.out.join(format!("{}-{target}", self.suite));
            Some(std::fs::read_dir(runs).ok()?.next()?.ok()?.path())
        })
    }

    /// Its id, if it has a folder.
    pub fn id(&self) -> Option<String> {
        let folder = self.folder()?;
        let name = folder.file_name()?.to_str()?;
        Some(name.rsplit('-').next()?.to_owned())
    }

    /// The lines of its journal, while it has one.
    pub fn journal(&self) -> Option<Vec<Value>> {
        let path = state_home().join("fencepost").join(self.id()?);
        let text = std::fs::read_to_string(path.join("journal.jsonl")).ok()?;
        Some(
            text.lines()
                .filter_map(|line| serde_json::from_str(line).ok())
                .collect(),
        )
    }

    /// The phase that it is in, as its journal says, or after that is gone its folder.
    pub fn phase(&self) -> String {
        let Some(folder) = self.folder() else {
            return "set-up".to_owned();
        };
        if let Some(entries) = self.journal() {
            let mut phases = entries
                .iter()
                .rev()
                .filter(|entry| entry["entry"] == "phase");
            let named = phases.find_map(|entry| entry["name"].as_str());
            return named.unwrap_or("set-up").to_owned();
        }
        let phase = match (
            folder.join("verdict.json").exists(),
            folder.join("history.jsonl").exists(),
        ) {
            (true, _) => "report",
            (false, true) => "judge",
            (false, false) => "set-up",
        };
        phase.to_owned()
    }

    /// Whether a fault is in force, as far as the journal knows.
    pub fn under_a_fault(&self) -> bool {
        let entries = self.journal().unwrap_or_default();
        let undone = |id: &Value| {
            entries
                .iter()
                .any(|entry| entry["entry"] == "undone" && entry["id"] == *id)
        };
        entries
            .iter()
            .any(|entry| entry["entry"] == "fault" && !undone(&entry["id"]))
    }

    /// Waits until `seen`; false if the run ended before.
    pub fn reaches(&mut self, what: &str, seen: impl Fn(&Self) -> bool) -> bool {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !seen(self) {
            if self.child.try_wait().expect("ours").is_some() {
                return false;
            }
            assert!(Instant::now() < deadline, "it does not come to {what}");
            std::thread::sleep(Duration::from_micros(300));
        }
        true
    }

    /// Waits for a phase; false if the run ended before that was seen.
    pub fn reaches_phase(&mut self, phase: &str) -> bool {
        self.reaches(phase, |run| run.phase() == phase)
    }

    /// To the process that was started, unless it has ended.
    pub fn signal(&mut self, signal: Signal) {
        // Not waited for before, so that its number is still its own.
        if self.child.try_wait().expect("ours").is_none() {
            let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a pid"));
            kill(pid, signal).expect("it is ours");
        }
    }

    /// Kills the harness and its guardian, so that nobody is left to tidy up.
    pub fn kill_both(&mut self) {
        let harness = self.harness().expect("beside its guardian");
        // Stopped first, so that it has no time to do anything.
        self.signal(Signal::SIGSTOP);
        kill(harness, Signal::SIGKILL).expect("it is ours");
        self.signal(Signal::SIGKILL);
    }

    /// The harness, once it is beside its guardian.
    pub fn harness(&self) -> Option<Pid> {
        child_of(self.child.id())
    }

    /// Waits for its end; its exit status, and what it printed.
    pub fn end(&mut self) -> (Option<i32>, String) {
        let mut stdout = String::new();
        let mut pipe = self.child.stdout.take().expect("a pipe");
        pipe.read_to_string(&mut stdout).expect("UTF-8");
        (self.child.wait().expect("it ends").code(), stdout)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only a test that failed before it ended the run gets here with one that still goes on. The harness ends what
        // it has started when its guardian is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The harness beside a guardian.
pub fn child_of(guardian: u32) -> Option<Pid> {
    let wanted = guardian.to_string();
    let parent = |pid: i32| -> Option<String> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let rest = &text[text.rfind(')')? + 1..];
        Some(rest.split_ascii_whitespace().nth(1)?.to_owned())
    };
    let pids = std::fs::read_dir("/proc").expect("a Linux machine");
    let mut pids = pids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_ours = |pid: i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("fencepost")
    };
    let child = pids.find(|pid| parent(*pid).as_ref() == Some(&wanted) && is_ours(*pid));
    child.map(Pid::from_raw)
}

/// The processes `sleep SECONDS`, marked or not.
fn sleeping(seconds: &str) -> Vec<i32> {
    let wanted = format!("sleep\0{seconds}\0");
    let pids = std::fs::read_dir("/proc").expect("a Linux machine");
    let pids = pids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_it = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == wanted.as_bytes())
    };
    pids.filter(is_it).collect()
}

/// How many there are.
pub fn sleepers(seconds: &str) -> usize {
    sleeping(seconds).len()
}

/// One of them.
pub fn pid_of_sleeper(seconds: &str) -> Option<Pid> {
    sleeping(seconds).first().copied().map(Pid::from_raw)
}

/// A small file system that is unmounted with the test; nothing where that is not allowed, which everybody sees.
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    pub fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]);
        let mounted = mount.arg(folder.path()).output();
        if mounted.is_ok_and(|mounted| mounted.status.success()) {
            return Some(Self(folder));
        }
        // Past the capture of the test runner.
        let skipped = b"SKIPPED: a small file system cannot be mounted here; root can\n";
        let _ = std::io::Write::write_all(&mut std::io::stderr(), skipped);
        None
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Leaves no byte free.
    pub fn fill(&self) {
        let mut file = std::fs::File::create(self.path().join("filler")).expect("made");
        let mut size = 1 << 16;
        while size > 0 {
            match std::io::Write::write_all(&mut file, &vec![b'x'; size]) {
                Ok(()) => {}
                Err(_) => size /= 2,
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.path()).status();
        if !std::thread::panicking() {
            assert!(unmounted.is_ok_and(|status| status.success()), "unmounted");
        }
    }
}
