//! What the tests of the binary share: starting it, and looking for what it left behind.
//!
//! Runs start services, workers and faults of their own and are sensitive to a machine that is busy with other runs;
//! so those of one test binary take turns.

#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
