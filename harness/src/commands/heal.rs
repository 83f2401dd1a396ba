//! `fencepost heal`: undoes what crashed runs left, and nothing else.
//!
//! It acts on journals whose harness no longer lives. A process is killed only if it carries the marker of exactly
//! that run, and only through a pidfd that was opened before the marker was looked at: so a number that was given to
//! somebody else meanwhile is never signalled. Proxies are removed by their recorded names.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::cli::HealArguments;
use crate::error::{EXIT_FAILURE, HarnessError};
use crate::journal::{Entry, Found, Orphan, Process, find, runs, state_folder};
use crate::proxies::{Cause, Proxies};
use crate::runner::RESERVE;
use crate::runtime;
use crate::targets::Tenancy;
use crate::targets::docker::{Holding, Kind, remove_recorded};
use crate::targets::proc::{self, Home};
use crate::targets::systems::remove_shared_memory;
use crate::terminal::{complain, say};

/// How long killed processes may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// So long nothing more of a compose project must have turned up.
const QUIET_FOR: Duration = Duration::from_secs(1);

/// Heals one run, or every crashed one. Prints a line for each thing done; 0 when nothing is left.
///
/// # Errors
/// When the journals cannot be read, or there is none of the run asked for.
pub fn heal(arguments: &HealArguments) -> Result<u8, HarnessError> {
    let state = state_folder();
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| HarnessError::Input { path, source }
    };
    let known = runs(&state).map_err(unreadable(&state))?;
    let wanted = match &arguments.run {
        Some(run) if known.contains(run) => vec![run.clone()],
        Some(run) => {
            let message = format!(
                "no journal of a run {run:?} in {}: nothing of it is left to heal",
                state.display()
            );
            return Err(HarnessError::Usage(message));
        }
        None => known,
    };
    let mut left = Vec::new();
    let mut orphans = 0;
    for run in wanted {
        match find(&state, &run) {
            Ok(Found::Alive(run)) => say(format_args!("run {run} is alive: left alone")),
            Ok(Found::Orphan(orphan)) if orphan.is_kept() && arguments.run.is_none() => say(
                format_args!("run {run} was kept: left alone, `fencepost heal {run}` removes it"),
            ),
            Ok(Found::Orphan(orphan)) => {
                orphans += 1;
                left.extend(heal_run(orphan)?);
            }
            // It ended by itself between the listing and now.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(unreadable(&state.join(&run))(source)),
        }
    }
    if orphans == 0 {
        say("nothing to heal");
    }
    for what in &left {
        complain(format_args!("left: {what}"));
    }
    Ok(if left.is_empty() { 0 } else { EXIT_FAILURE })
}

/// Undoes one run; returns what could not be undone.
fn heal_run(orphan: Orphan) -> Result<Vec<String>, HarnessError> {
    let run = orphan.run.clone();
    let mut left = Vec::new();
    // Before processes: those of a frozen container die when it goes, and not before.
    let held = orphan.docker();
    let (_, mut stays) = remove_held(&run, &held);
    if orphan.booted_now() {
        left.extend(kill_processes(&run, &orphan.homes()));
        for line in orphan.reused() {
            say(format_args!("run {run}: {line}"));
        }
    } else {
        say(format_args!(
            "run {run}: the machine was booted since; no process of it can be left"
        ));
    }
    if !held.is_empty() {
        // And again: what lived on until just now went on making, a compose above all.
        stays = remove_all_held(&run, &held);
    }
    left.extend(stays);
    left.extend(remove_proxies(&run, &orphan.proxies())?);
    if orphan.booted_now() {
        left.extend(
            orphan
                .homes()
                .iter()
                .filter_map(|home| remove_shared_memory(&home.folder)),
        );
    }
    for data in orphan.data().into_iter().filter(|data| data.is_dir()) {
        match std::fs::remove_dir_all(&data) {
            Ok(()) => say(format_args!(
                "run {run}: removed the services' data in {}",
                data.display()
            )),
            Err(error) => left.push(format!("{}: {error}", data.display())),
        }
        // The folder round data outside the run's own folder; that one is not empty, and stays.
        if let Some(own) = data.parent() {
            let _ = std::fs::remove_dir(own);
        }
    }
    for reserve in orphan.reserves().into_iter().filter(|file| file.is_file()) {
        match std::fs::remove_file(&reserve) {
            Ok(()) => say(format_args!(
                "run {run}: gave back the room that was kept in {}",
                reserve.display()
            )),
            Err(error) => left.push(format!("{}: {error}", reserve.display())),
        }
    }
    left.extend(move_out_of(&run, &orphan.tenancies())?);
    for (id, kind, on) in orphan.open_faults() {
        say(format_args!(
            "run {run}: fault {id} ({kind} on {on}) ended with its nodes"
        ));
    }
    left.extend(orphan.damaged.iter().map(|line| {
        let (file, place) = (orphan.file(), orphan.place());
        format!(
            "what line {line} of {} said, which is damaged: look there for what it may have named; once nothing of run {run} is left that you do not want, `rm -r {}` ends this",
            file.display(),
            place.display()
        )
    }));
    if left.is_empty()
        && let Err(error) = orphan.remove()
    {
        left.push(format!("the journal of run {run}: {error}"));
    }
    Ok(left)
}

impl Orphan {
    fn booted_now(&self) -> bool {
        let boot = self.entries.iter().find_map(|entry| match entry {
            Entry::Run { boot_id, .. } if !boot_id.is_empty() => Some(boot_id.clone()),
            _ => None,
        });
        // A journal that does not say is of this boot as far as anybody knows; the marker decides.
        boot.is_none_or(|boot| boot == proc::boot_id())
    }

    /// Recorded numbers that another process has now.
    fn reused(&self) -> Vec<String> {
        let nodes = self.entries.iter().filter_map(|entry| match entry {
            Entry::Node { node, process, .. } => Some((node, *process)),
            _ => None,
        });
        nodes
            .filter(|(_, process)| is_reused(*process))
            .map(|(node, Process { pid, .. })| {
                format!("pid {pid} of {node} belongs to another process now: left alone")
            })
            .collect()
    }

    fn proxies(&self) -> BTreeSet<(SocketAddr, String)> {
        let proxy = |entry: &Entry| match entry {
            Entry::Proxy { api, name } => Some((*api, name.clone())),
            _ => None,
        };
        self.entries.iter().filter_map(proxy).collect()
    }

    /// The services' data: only folders `data` in folders of exactly this run are ever removed.
    fn data(&self) -> Vec<PathBuf> {
        let data = |entry: &Entry| match entry {
            Entry::Run { run, data, .. } if *run == self.run => data.clone(),
            Entry::Data { path } => Some(path.clone()),
            _ => None,
        };
        let data = self.entries.iter().filter_map(data);
        data.filter(|data| self.is_ours(data)).collect()
    }

    fn is_ours(&self, data: &Path) -> bool {
        self.lies_in_its_folder(data) && data.file_name().is_some_and(|name| name == "data")
    }

    fn lies_in_its_folder(&self, path: &Path) -> bool {
        path.parent()
            .and_then(|folder| folder.file_name()?.to_str())
            .is_some_and(|name| name.ends_with(&format!("-{}", self.run)))
    }

    /// The room that was kept for the run's end: only files of that name in folders of exactly this run.
    fn reserves(&self) -> Vec<PathBuf> {
        let reserve = |entry: &Entry| match entry {
            Entry::Reserve { path } => Some(path.clone()),
            _ => None,
        };
        let mut reserves: Vec<PathBuf> = self.entries.iter().filter_map(reserve).collect();
        reserves.retain(|path| {
            self.lies_in_its_folder(path) && path.file_name().is_some_and(|name| name == RESERVE)
        });
        reserves
    }

    /// How processes of the run are known that hide their marker: only by data of exactly this run.
    fn homes(&self) -> Vec<Home> {
        let home = |entry: &Entry| match entry {
            Entry::Node { home, .. } => home.clone(),
            _ => None,
        };
        let mut homes: Vec<Home> = self.entries.iter().filter_map(home).collect();
        homes.retain(|home| home.folder.parent().is_some_and(|data| self.is_ours(data)));
        homes.dedup();
        homes
    }

    /// Keys and tables in servers of the user's, under the name of exactly this run.
    fn tenancies(&self) -> Vec<Tenancy> {
        let tenancy = |entry: &Entry| match entry {
            Entry::Tenancy { tenancy } if tenancy.is_of(&self.run) => Some(Tenancy::clone(tenancy)),
            _ => None,
        };
        self.entries.iter().filter_map(tenancy).collect()
    }

    /// What was made at Docker engines; whether it is of exactly this run its labels say.
    fn docker(&self) -> Vec<Holding> {
        let holding = |entry: &Entry| match entry {
            Entry::Docker { holding } => Some(holding.clone()),
            _ => None,
        };
        self.entries.iter().filter_map(holding).collect()
    }

    /// Whether it ended in order, and left what it made because that was asked for.
    fn is_kept(&self) -> bool {
        self.entries.contains(&Entry::Kept)
    }

    fn open_faults(&self) -> Vec<(u64, String, String)> {
        let undone = |wanted: u64| {
            let is_it = |entry: &Entry| matches!(entry, Entry::Undone { id } if *id == wanted);
            self.entries.iter().any(is_it)
        };
        let open = |entry: &Entry| match entry {
            Entry::Fault { id, kind, on } if !undone(*id) => {
                Some((*id, kind.clone(), on.join(", ")))
            }
            _ => None,
        };
        self.entries.iter().filter_map(open).collect()
    }
}

/// Whether the number lives on in a process that was started at another time.
fn is_reused(process: Process) -> bool {
    Process::now(process.pid).is_some_and(|now| now != process)
}

/// Removes once what the run has at Docker engines; whether there was anything, and what is left.
fn remove_held(run: &str, held: &[Holding]) -> (bool, Vec<String>) {
    let (removed, left) = remove_recorded(run, held);
    for what in &removed {
        say(format_args!("run {run}: removed {what}"));
    }
    (!removed.is_empty(), left)
}

/// Removes it until nothing more turns up: an engine carries out what a compose had asked for before it was killed.
fn remove_all_held(run: &str, held: &[Holding]) -> Vec<String> {
    let composed = held.iter().any(|holding| holding.kind == Kind::Project);
    let mut last = Instant::now();
    loop {
        let (found, left) = remove_held(run, held);
        if found {
            last = Instant::now();
        } else if !composed || last.elapsed() > QUIET_FOR {
            return left;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills everything that carries the run's marker or is at home in its data, again and again until nothing does.
fn kill_processes(run: &str, homes: &[Home]) -> Vec<String> {
    let deadline = Instant::now() + GONE_WITHIN;
    let mut told = BTreeSet::new();
    loop {
        let mut found = proc::of_run(run);
        let housed = homes.iter().flat_map(|home| {
            let name = home.folder.file_name().unwrap_or_default();
            let name = name.to_string_lossy().into_owned();
            proc::at_home(home)
                .into_iter()
                .map(move |pid| (pid, name.clone()))
        });
        let housed: Vec<_> = housed
            .filter(|(pid, _)| found.iter().all(|(known, _)| known != pid))
            .collect();
        found.extend(housed);
        if found.is_empty() {
            return Vec::new();
        }
        if Instant::now() > deadline {
            return found
                .into_iter()
                .map(|(pid, node)| format!("pid {pid} of {node} in run {run}"))
                .collect();
        }
        for (pid, node) in found {
            match kill(run, homes, pid) {
                Ok(true) if told.insert(pid) => {
                    say(format_args!("run {run}: killed pid {pid} of {node}"))
                }
                Ok(_) => {}
                Err(error) => return vec![format!("pid {pid} of {node} in run {run}: {error}")],
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Kills `pid` if it is of `run`. The pidfd pins the process: what is looked at afterwards is what will be signalled.
fn kill(run: &str, homes: &[Home], pid: i32) -> std::io::Result<bool> {
    let Some(number) = Pid::from_raw(pid) else {
        return Ok(false);
    };
    let pinned = match pidfd_open(number, PidfdFlags::empty()) {
        Ok(pinned) => pinned,
        Err(rustix::io::Errno::SRCH) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let marked = proc::run_of(pid).is_some_and(|(of, _)| of == run);
    if !marked && !homes.iter().any(|home| home.houses(pid)) {
        return Ok(false);
    }
    match pidfd_send_signal(&pinned, Signal::KILL) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Removes what the run made in servers of the user's; returns what is left.
fn move_out_of(run: &str, tenancies: &[Tenancy]) -> Result<Vec<String>, HarnessError> {
    if tenancies.is_empty() {
        return Ok(Vec::new());
    }
    let runtime = runtime::on_this_thread()?;
    let mut left = Vec::new();
    for tenancy in tenancies {
        match runtime.block_on(tenancy.move_out()) {
            Ok(()) => say(format_args!(
                "run {run}: removed its keys and tables in {}",
                tenancy.place()
            )),
            Err(what) => left.push(what),
        }
    }
    Ok(left)
}

/// Deletes the recorded proxies; a server that is gone took them with it.
fn remove_proxies(
    run: &str,
    proxies: &BTreeSet<(SocketAddr, String)>,
) -> Result<Vec<String>, HarnessError> {
    if proxies.is_empty() {
        return Ok(Vec::new());
    }
    let runtime = runtime::on_this_thread()?;
    let servers: BTreeSet<SocketAddr> = proxies.iter().map(|(api, _)| *api).collect();
    let mut left = Vec::new();
    for api in servers {
        let names: Vec<&String> = proxies
            .iter()
            .filter(|(of, _)| *of == api)
            .map(|(_, name)| name)
            .collect();
        left.extend(runtime.block_on(remove_from(run, api, &names)));
    }
    Ok(left)
}

async fn remove_from(run: &str, api: SocketAddr, names: &[&String]) -> Vec<String> {
    let stays = |what: &str, error: &dyn std::fmt::Display| {
        format!(
            "{what} of run {run}: {error}; see that the Toxiproxy there answers, or end it (its proxies go with it), and `fencepost heal {run}` again"
        )
    };
    let proxies = match Proxies::connect(api).await {
        Ok(proxies) => proxies,
        Err(error) if std::net::TcpStream::connect(api).is_err() => {
            say(format_args!(
                "run {run}: no toxiproxy at {api} any longer; its proxies went with it ({error})"
            ));
            return Vec::new();
        }
        Err(error) => return vec![stays(&format!("{} proxies at {api}", names.len()), &error)],
    };
    let mut left = Vec::new();
    for name in names {
        match proxies.delete(name).await {
            Ok(()) => say(format_args!("run {run}: removed proxy {name}")),
            // It was announced and never made, or is gone already.
            Err(error) if matches!(error.cause, Cause::Refused { status: 404, .. }) => {}
            Err(error) => left.push(stays(&format!("proxy {name} at {api}"), &error)),
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn sleeper(marker: &str) -> Child {
        let mut command = Command::new("sleep");
        command.arg("60").env(proc::MARKER, marker);
        command.spawn().expect("sleep runs")
    }

    fn pid(child: &Child) -> i32 {
        i32::try_from(child.id()).expect("a pid")
    }

    #[test]
    fn only_processes_of_exactly_that_run_are_killed() {
        let (run, other) = (
            format!("aa{}", std::process::id()),
            format!("aa{}0", std::process::id()),
        );
        let (mut ours, mut theirs) = (
            sleeper(&format!("{run}/w1")),
            sleeper(&format!("{other}/w1")),
        );
        let marked = |child: &Child| proc::run_of(pid(child)).is_some();
        let deadline = Instant::now() + Duration::from_secs(10);
        while !(marked(&ours) && marked(&theirs)) && Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(kill_processes(&run, &[]), Vec::<String>::new());
        assert!(!ours.wait().expect("reaped").success());
        assert_eq!(
            theirs.try_wait().expect("ours to ask"),
            None,
            "another run's"
        );
        assert_eq!(kill(&run, &[], pid(&theirs)).ok(), Some(false));
        theirs.kill().expect("ours to kill");
        theirs.wait().expect("reaped");
    }

    #[test]
    fn a_number_that_another_process_has_now_is_left_alone() {
        let mut child = sleeper("nobody/w1");
        let now = Process::now(pid(&child)).expect("it lives");
        let before = Process {
            start_time: now.start_time - 1,
            ..now
        };
        assert!(is_reused(before));
        assert!(!is_reused(now));
        child.kill().expect("ours to kill");
        child.wait().expect("reaped");
        assert!(!is_reused(before), "nobody has it now");
    }
}
