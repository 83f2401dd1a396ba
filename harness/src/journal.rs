//! The journal: what a run has started and is doing, written before it is done, so that it can be undone after a crash.
//!
//! One folder a run under `$XDG_STATE_HOME/fencepost/` (or `~/.local/state/fencepost/`), one JSON object a line. The
//! live harness holds a lock on the file for as long as it lives; the kernel drops the lock when it dies, however it
//! dies. So a journal without a lock is one whose run has crashed, and `fencepost heal` may act on it. A run that took
//! everything down removes its journal.
//!
//! What it survives is the death of the harness at any moment, not a power cut: after that nothing is left to heal.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::HarnessError;
use crate::guardian::guardian;
use crate::targets::docker::Holding;
use crate::targets::{Tenancy, proc};

fencepost_checker::only_objects!(Entry, Process);

const FILE: &str = "journal.jsonl";
/// Its name until it is locked and says whose it is.
const UNBORN: &str = ".journal.jsonl";
/// How long a lock may outlive its harness, and a guardian may take to end what that left.
const ORPHANED_WITHIN: Duration = Duration::from_secs(5);

/// A line of a journal.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self", tag = "entry", rename_all = "kebab-case")]
pub enum Entry {
    /// The first line: whose journal this is.
    Run {
        /// The run's id, which is in the marker of each of its processes.
        run: String,
        /// The harness.
        harness: Process,
        /// Its guardian, which ends what a killed harness leaves running; none if it runs in somebody's test.
        #[serde(default)]
        guardian: Option<Process>,
        /// The machine's boot: after another one no process of the run can be left.
        boot_id: String,
        /// The services' data, unless it is to be kept.
        data: Option<PathBuf>,
    },
    /// The run has come to a phase.
    Phase {
        /// Its name, as the progress line has it.
        name: String,
    },
    /// A node was started.
    Node {
        /// Its name.
        node: String,
        /// Its leader.
        process: Process,
        /// How its other processes are known, where they hide their marker.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        home: Option<proc::Home>,
    },
    /// Room is about to be kept free in the run's folder, for what is written last.
    Reserve {
        /// The file that keeps it.
        path: PathBuf,
    },
    /// A system's data is about to be put outside the run's folder: into a folder `data` in one named after the run.
    Data {
        /// The folder `data`.
        path: PathBuf,
    },
    /// A proxy is about to be created on a Toxiproxy that outlives the run.
    Proxy {
        /// The server.
        api: SocketAddr,
        /// The proxy's name.
        name: String,
    },
    /// Keys and tables are about to be made in a server of the user's.
    Tenancy {
        /// Where, and under which name.
        tenancy: Box<Tenancy>,
    },
    /// Something is about to be made at a Docker engine.
    Docker {
        /// Where, and under which name.
        holding: Holding,
    },
    /// The run has ended, and what it made at a Docker engine was to be kept: it goes when this run is named.
    Kept,
    /// A fault is about to begin.
    Fault {
        /// Its id in the plan.
        id: u64,
        /// Its kind.
        kind: String,
        /// What it is done to.
        on: Vec<String>,
    },
    /// A fault has been undone.
    Undone {
        /// Its id in the plan.
        id: u64,
    },
}

/// A process, told apart from a later one with the same number.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Process {
    /// The process id.
    pub pid: i32,
    /// Clock ticks between the machine's boot and the process's start.
    pub start_time: u64,
}

impl Process {
    /// The process that has `pid` now, if there is one.
    #[must_use]
    pub fn now(pid: i32) -> Option<Self> {
        Some(Self {
            pid,
            start_time: proc::start_time(pid)?,
        })
    }
}

/// A live run's journal.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    file: Mutex<File>,
    outside: Mutex<Outside>,
}

/// What has been announced that no death of a node takes along.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    /// Proxies on a server that outlives the run.
    pub proxies: Vec<String>,
    /// Data outside the run's folder.
    pub data: Vec<PathBuf>,
    /// Keys and tables in servers of the user's.
    pub tenancies: Vec<Tenancy>,
    /// Containers, networks and volumes.
    pub docker: Vec<Holding>,
}

impl Journal {
    /// Opens a new journal for `run` under `state` and takes its lock.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(state: &Path, run: &str, data: Option<&Path>) -> Result<Self, HarnessError> {
        let folder = state.join(run);
        Self::begin(&folder, run, data)
            // Nothing has been begun, so nothing is to be healed.
            .inspect_err(|_| drop(std::fs::remove_dir_all(&folder)))
    }

    fn begin(folder: &Path, run: &str, data: Option<&Path>) -> Result<Self, HarnessError> {
        let path = folder.join(FILE);
        let output = |source| HarnessError::Output {
            path: path.clone(),
            source,
        };
        std::fs::create_dir_all(folder).map_err(output)?;
        // Under its name only once it is locked and says whose it is: heal must never meet it otherwise.
        let unborn = folder.join(UNBORN);
        let file = File::create_new(&unborn).map_err(output)?;
        file.lock().map_err(output)?;
        let journal = Self {
            folder: folder.to_owned(),
            file: Mutex::new(file),
            outside: Mutex::default(),
        };
        let harness = i32::try_from(std::process::id()).expect("Linux process ids are below 2^22");
        journal.write(&Entry::Run {
            run: run.to_owned(),
            harness: Process::now(harness).unwrap_or(Process {
                pid: harness,
                start_time: 0,
            }),
            guardian: guardian(),
            boot_id: proc::boot_id(),
            data: data.map(|data| std::path::absolute(data).unwrap_or_else(|_| data.to_owned())),
        })?;
        std::fs::rename(&unborn, &path).map_err(output)?;
        Ok(journal)
    }

    /// Writes a line. It is with the kernel when this returns, and survives the harness.
    ///
    /// # Errors
    /// When it cannot be written; then what it announces must not be begun.
    pub fn write(&self, entry: &Entry) -> Result<(), HarnessError> {
        {
            let mut outside = self.outside.lock().expect("nobody panics with this lock");
            match entry {
                Entry::Proxy { name, .. } => outside.proxies.push(name.clone()),
                Entry::Data { path } => outside.data.push(path.clone()),
                Entry::Tenancy { tenancy } => outside.tenancies.push(Tenancy::clone(tenancy)),
                Entry::Docker { holding } => outside.docker.push(holding.clone()),
                _ => {}
            }
        }
        let mut line = serde_json::to_string(entry).expect("entries are plain data");
        line.push('\n');
        let mut file = self.file.lock().expect("nobody panics with this lock");
        file.write_all(line.as_bytes())
            .map_err(|source| HarnessError::Output {
                path: self.folder.join(FILE),
                source,
            })
    }

    /// What has been announced that no death of a node takes along.
    #[must_use]
    pub fn outside(&self) -> Outside {
        self.outside
            .lock()
            .expect("nobody panics with this lock")
            .clone()
    }

    /// Everything has been undone: the journal goes.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self) -> Result<(), HarnessError> {
        std::fs::remove_dir_all(&self.folder).map_err(|source| HarnessError::Output {
            path: self.folder.clone(),
            source,
        })
    }
}

/// The journal of a run that is no longer alive, with its lock held by us.
#[derive(Debug)]
pub struct Orphan {
    /// The run's id.
    pub run: String,
    /// Its lines; a last one that was cut short is left out.
    pub entries: Vec<Entry>,
    /// The lines, from 1, that are no entries although others follow. What they said is not known.
    pub damaged: Vec<usize>,
    folder: PathBuf,
    _lock: File,
}

/// What stands under a run's name in the state folder.
#[derive(Debug)]
pub enum Found {
    /// A crashed run.
    Orphan(Orphan),
    /// A run whose harness lives: not to be touched.
    Alive(String),
}

impl Orphan {
    /// Everything has been undone: the journal goes.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(self) -> io::Result<()> {
        std::fs::remove_dir_all(&self.folder)
    }

    /// Its file.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    /// The folder that it is in.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.folder
    }
}

/// Where journals are kept.
#[must_use]
pub fn state_folder() -> PathBuf {
    let set = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            // A relative one would be another folder for each place that it is looked at from, and counts as unset.
            .filter(|path| path.is_absolute())
    };
    set("XDG_STATE_HOME")
        .or_else(|| Some(set("HOME")?.join(".local/state")))
        .unwrap_or_else(|| std::env::temp_dir().join("fencepost-state"))
        .join("fencepost")
}

/// The runs whose journals are still there, in the order of their names.
///
/// # Errors
/// When the folder is there and cannot be read.
pub fn runs(state: &Path) -> io::Result<Vec<String>> {
    let folders = match std::fs::read_dir(state) {
        Ok(folders) => folders,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut runs: Vec<String> = folders
        .filter_map(Result::ok)
        .filter(|folder| {
            [FILE, UNBORN]
                .iter()
                .any(|name| folder.path().join(name).is_file())
        })
        .filter_map(|folder| folder.file_name().into_string().ok())
        .collect();
    runs.sort();
    Ok(runs)
}

/// The journal of `run`.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn find(state: &Path, run: &str) -> io::Result<Found> {
    let folder = state.join(run);
    // A harness that died before its journal had its name has begun nothing.
    let path = [FILE, UNBORN].map(|name| folder.join(name));
    let path = if path[0].exists() { &path[0] } else { &path[1] };
    let lock = OpenOptions::new().read(true).write(true).open(path)?;
    let deadline = Instant::now() + ORPHANED_WITHIN;
    loop {
        match lock.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => {}
        }
        // A child of the harness that was just being born has the lock until it becomes its program or dies. A harness
        // whose guardian is gone has it until it has ended what it started.
        if harness_lives(&entries(path)?.0) || Instant::now() > deadline {
            return Ok(Found::Alive(run.to_owned()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let (entries, damaged) = entries(path)?;
    // What carries no marker only the guardian can end: nothing is healed before it has.
    while guardian_of(&entries).is_some_and(lives) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(Found::Orphan(Orphan {
        run: run.to_owned(),
        entries,
        damaged,
        folder,
        _lock: lock,
    }))
}

/// The lines of a journal, and the numbers of those that are damaged. A last one that was cut short was never meant.
fn entries(path: &Path) -> io::Result<(Vec<Entry>, Vec<usize>)> {
    let bytes = std::fs::read(path)?;
    let (mut entries, mut damaged) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(bytes.split_inclusive(|&byte| byte == b'\n')) {
        match serde_json::from_slice(line) {
            Ok(entry) => entries.push(entry),
            Err(_) if line.ends_with(b"\n") => damaged.push(number),
            Err(_) => {}
        }
    }
    Ok((entries, damaged))
}

/// Whether the harness that wrote them lives, with its guardian if it has one; also if it has not come to write its
/// name yet.
fn harness_lives(entries: &[Entry]) -> bool {
    let harness = entries.iter().find_map(|entry| match entry {
        Entry::Run { harness, .. } => Some(*harness),
        _ => None,
    });
    harness.is_none_or(lives) && guardian_of(entries).is_none_or(lives)
}

fn guardian_of(entries: &[Entry]) -> Option<Process> {
    entries.iter().find_map(|entry| match entry {
        Entry::Run { guardian, .. } => *guardian,
        _ => None,
    })
}

fn lives(process: Process) -> bool {
    Process::now(process.pid) == Some(process) && proc::is_alive(process.pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_alive_while_its_writer_is_and_an_orphan_after() {
        let state = tempfile::tempdir().expect("a folder");
        let journal = Journal::create(state.path(), "0a1b2c3d", Some(Path::new("results/x/data")))
            .expect("made");
        journal.write(&Entry::Undone { id: 7 }).expect("written");
        assert_eq!(runs(state.path()).expect("read"), ["0a1b2c3d"]);
        assert!(
            matches!(find(state.path(), "0a1b2c3d"), Ok(Found::Alive(run)) if run == "0a1b2c3d")
        );
        drop(journal);
        let Ok(Found::Orphan(orphan)) = find(state.path(), "0a1b2c3d") else {
            panic!("nobody holds the lock any longer");
        };
        assert!(matches!(&orphan.entries[0], Entry::Run { run, .. } if run == "0a1b2c3d"));
        assert_eq!(orphan.entries[1], Entry::Undone { id: 7 });
        orphan.remove().expect("removed");
        assert_eq!(runs(state.path()).expect("read"), Vec::<String>::new());
    }

    #[test]
    fn a_damaged_line_is_told_and_a_last_one_that_was_cut_short_was_never_meant() {
        let state = tempfile::tempdir().expect("a folder");
        drop(Journal::create(state.path(), "r", None).expect("made"));
        let path = state.path().join("r").join(FILE);
        let mut text = std::fs::read(&path).expect("read");
        // The same number, started at another time, so that the harness is gone.
        let mut first: serde_json::Value = serde_json::from_slice(&text).expect("one line");
        first["harness"]["start_time"] = 1.into();
        text = format!(
            "{first}\nrub\u{fffd}bish\n{{\"entry\":\"undone\",\"id\":7}}\n{{\"entry\":\"und"
        )
        .into();
        std::fs::write(&path, text).expect("written");
        let Ok(Found::Orphan(orphan)) = find(state.path(), "r") else {
            panic!("its harness is gone");
        };
        assert_eq!(orphan.damaged, [2]);
        assert_eq!(orphan.entries[1..], [Entry::Undone { id: 7 }]);
    }

    #[test]
    fn a_lock_that_outlives_its_harness_for_a_moment_is_waited_for() {
        let state = tempfile::tempdir().expect("a folder");
        drop(Journal::create(state.path(), "r", None).expect("made"));
        let path = state.path().join("r").join(FILE);
        let text = std::fs::read_to_string(&path).expect("read");
        // The same number, started at another time: the harness is gone.
        let mut entry: serde_json::Value = serde_json::from_str(&text).expect("one line");
        entry["harness"]["start_time"] = 1.into();
        std::fs::write(&path, format!("{entry}\n")).expect("written");
        let child = File::open(&path).expect("opened");
        child.lock().expect("locked");
        let (waiting, waited) = std::sync::mpsc::channel();
        let dying = std::thread::spawn(move || {
            waited.recv().expect("the other thread is about to look");
            drop(child);
        });
        waiting.send(()).expect("it listens");
        assert!(matches!(find(state.path(), "r"), Ok(Found::Orphan(_))));
        dying.join().expect("no panic");
    }

    #[test]
    fn a_line_cut_short_by_the_crash_is_left_out() {
        let state = tempfile::tempdir().expect("a folder");
        drop(Journal::create(state.path(), "r", None).expect("made"));
        let path = state.path().join("r").join(FILE);
        let mut text = std::fs::read_to_string(&path).expect("read");
        text.push_str("{\"entry\":\"undone\",\"i");
        std::fs::write(&path, text).expect("written");
        let Ok(Found::Orphan(orphan)) = find(state.path(), "r") else {
            panic!("an orphan");
        };
        assert_eq!(orphan.entries.len(), 1);
    }
}
