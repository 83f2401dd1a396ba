//! What `/proc` says of a process. Evidence is read here, never inferred from a system call that returned.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

fencepost_checker::only_objects!(Home);

/// The environment variable that marks every process of a run: `<run>/<node>`.
pub const MARKER: &str = "FENCEPOST_RUN";

/// How processes are known that write over their environment, and their marker with it: by the program that they run and
/// the folder that they work in, which is the data of one node of one run.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Home {
    /// The folder, absolute.
    pub folder: PathBuf,
    /// The program.
    pub program: PathBuf,
}

impl Home {
    /// Whether `pid` is at home here.
    #[must_use]
    pub fn houses(&self, pid: i32) -> bool {
        let leads_to = |link: &str, path: &Path| {
            fs::read_link(format!("/proc/{pid}/{link}")).is_ok_and(|found| {
                found == path || path.canonicalize().is_ok_and(|path| found == path)
            })
        };
        leads_to("cwd", &self.folder) && leads_to("exe", &self.program)
    }
}

/// Every process that is at home there, in no particular order.
#[must_use]
pub fn at_home(home: &Home) -> Vec<i32> {
    processes().filter(|&pid| home.houses(pid)).collect()
}

/// Every process in the control groups of the container `id`, in no particular order.
///
/// The path of each of them ends in the id or goes on below it, whoever manages the groups.
#[must_use]
pub fn contained(id: &str) -> Vec<i32> {
    processes().filter(|&pid| is_contained(pid, id)).collect()
}

/// Whether `pid` is in the control groups of the container `id`.
#[must_use]
pub fn is_contained(pid: i32, id: &str) -> bool {
    !id.is_empty()
        && fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|groups| groups.contains(id))
}

/// Whether the control group of `pid` is frozen, and the file that says so; `None` where no such file can be read.
#[must_use]
pub fn freezer(pid: i32) -> Option<(bool, PathBuf)> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let below = |root: &str, path: &str, file: &str| {
        Path::new(root)
            .join(path.trim_start_matches('/'))
            .join(file)
    };
    groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        if controllers.split(',').any(|name| name == "freezer") {
            let file = below("/sys/fs/cgroup/freezer", path, "freezer.state");
            let state = fs::read_to_string(&file).ok()?;
            return Some((state.trim() == "FROZEN", file));
        }
        let file = below("/sys/fs/cgroup", path, "cgroup.events");
        let events = fs::read_to_string(&file)
            .ok()
            .filter(|_| controllers.is_empty())?;
        Some((events.lines().any(|line| line == "frozen 1"), file))
    })
}

/// The state letters of all threads of `pid`, e.g. `['T', 'T']`; empty where there is no such process.
#[must_use]
pub fn thread_states(pid: i32) -> Vec<char> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    tasks
        .filter_map(Result::ok)
        .filter_map(|task| state(&task.path().join("stat")))
        .collect()
}

/// The state letter in a `stat` file. The command name before it may hold anything, so it is found from the right.
fn state(stat: &Path) -> Option<char> {
    let text = fs::read_to_string(stat).ok()?;
    text[text.rfind(')')? + 1..].trim_start().chars().next()
}

/// Whether every thread is stopped (`T`); false where there is no such process.
#[must_use]
pub fn is_stopped(pid: i32) -> bool {
    let states = thread_states(pid);
    !states.is_empty() && states.iter().all(|&state| state == 'T')
}

/// The network interfaces that `pid` has besides its loopback; `None` where they cannot be seen.
#[must_use]
pub fn interfaces(pid: i32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/net/dev")).ok()?;
    // Two lines of headings come first.
    let names = text
        .lines()
        .skip(2)
        .filter_map(|line| line.split(':').next());
    Some(
        names
            .map(|name| name.trim().to_owned())
            .filter(|name| name != "lo")
            .collect(),
    )
}

/// Whether a process exists that is not a zombie of its parent (`Z`).
#[must_use]
pub fn is_alive(pid: i32) -> bool {
    state(Path::new(&format!("/proc/{pid}/stat"))).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Whether this process was told to ignore the signal, by itself or by whoever started it (`nohup`).
#[must_use]
pub fn ignores(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal as i32 - 1) & 1 == 1)
}

/// When `pid` was started, in clock ticks since the machine's boot; `None` where there is no such process.
#[must_use]
pub fn start_time(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Field 22 of proc(5), of which the first two are before the last parenthesis.
    let rest = &text[text.rfind(')')? + 1..];
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The processes whose parent is `pid`, dead ones that nobody has waited for among them.
#[must_use]
pub fn children_of(pid: i32) -> Vec<i32> {
    let parent = |child: i32| -> Option<i32> {
        let text = fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        let rest = &text[text.rfind(')')? + 1..];
        rest.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    processes()
        .filter(|&child| parent(child) == Some(pid))
        .collect()
}

/// Which boot of the machine this is.
#[must_use]
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// The run and the node that `pid` belongs to, if it carries a marker.
///
/// A process that changed its environment after its start is still found: the kernel shows the one it began with.
#[must_use]
pub fn run_of(pid: i32) -> Option<(String, String)> {
    let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let marker = environ
        .split(|&byte| byte == 0)
        .find_map(|entry| entry.strip_prefix(MARKER.as_bytes())?.strip_prefix(b"="))?;
    let (run, node) = std::str::from_utf8(marker).ok()?.split_once('/')?;
    Some((run.to_owned(), node.to_owned()))
}

/// Every process whose environment carries exactly `marker` (`<run>/<node>`), in no particular order.
#[must_use]
pub fn marked(marker: &str) -> Vec<i32> {
    let is_it =
        |pid: &i32| run_of(*pid).is_some_and(|(run, node)| marker == format!("{run}/{node}"));
    processes().filter(is_it).collect()
}

/// Every process of a run with its node's name, in no particular order.
#[must_use]
pub fn of_run(run: &str) -> Vec<(i32, String)> {
    let node = |pid: i32| {
        run_of(pid)
            .filter(|(of, _)| of == run)
            .map(|(_, node)| (pid, node))
    };
    processes().filter_map(node).collect()
}

fn processes() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_marked_process_is_found_by_its_whole_marker_only() {
        let marker = format!("test-{}/w1", std::process::id());
        let mut child = Command::new("sleep")
            .arg("60")
            .env(MARKER, &marker)
            .stdout(Stdio::null())
            .spawn()
            .expect("sleep runs");
        let pid = i32::try_from(child.id()).expect("a pid");
        // The child may not have replaced its image yet; its environment appears with it.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while marked(&marker) != [pid] && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(marked(&marker), [pid]);
        assert_eq!(
            marked(&marker[..marker.len() - 1]),
            Vec::<i32>::new(),
            "a prefix is another node"
        );
        assert!(is_alive(pid) && !is_stopped(pid));
        child.kill().expect("ours to kill");
        child.wait().expect("reaped");
        assert!(!is_alive(pid));
        assert_eq!(thread_states(pid), Vec::<char>::new());
    }
}
