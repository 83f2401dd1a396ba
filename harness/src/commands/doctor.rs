//! `fencepost doctor`: what this machine can and cannot do, tried and not guessed, and how to get what is missing.
//!
//! `doctor/processes.rs` tries what is done to nodes, `doctor/links.rs` what is done to links, `doctor/docker.rs` what is
//! done to containers, `doctor/room.rs` where things are written and which ports there are.

mod docker;
mod links;
mod processes;
mod room;

use std::process::{Command, Stdio};

use crate::cli::DoctorArguments;
use crate::error::{EXIT_FAILURE, HarnessError};
use crate::journal::state_folder;
use crate::runner::Interrupts;
use crate::runtime;
use crate::targets::Service;
use crate::targets::systems::{SYSTEMS, SystemKind, kind_of};
use crate::terminal::{complain, say, say_json};
use fencepost_workloads::locks::LOCKS;
use fencepost_workloads::resources::RESOURCES;
use fencepost_workloads::suite::{BUILT_IN, Suite};
use fencepost_workloads::systems::Server;

/// One thing that was tried.
struct Check {
    /// What it is for: a target, a fault of one, or suites.
    about: String,
    /// Whether the local target cannot run without it.
    needed: bool,
    /// What was seen, or why it cannot be done and how to get it.
    result: Result<String, String>,
}

/// Tries everything and prints a line for each. A signal ends it: what is there for trying is taken down first.
///
/// # Errors
/// When no runtime can be started.
pub fn doctor(arguments: &DoctorArguments) -> Result<u8, HarnessError> {
    let runtime = runtime::on_two_threads()?;
    let interrupts = runtime.block_on(async { Interrupts::listen() });
    let stopped = || runtime.block_on(interrupts.has_come());
    let mut checks = Vec::new();
    let mut needed = |about: &str, result| {
        checks.push(Check {
            about: about.to_owned(),
            needed: true,
            result,
        })
    };
    needed("local target: ports 21000 to 31999", room::ports());
    needed("local target: open files", room::open_files());
    needed(
        "local target: journal for heal",
        room::journal(&state_folder()),
    );
    needed(
        "local target: room for results",
        room::results(&arguments.out),
    );
    needed(
        "local target: pause, zombie and between (SIGSTOP, state T in /proc)",
        processes::stop_and_go(),
    );
    needed(
        "local target: kill (SIGKILL and a restart)",
        processes::kill_and_start_again(),
    );
    needed(
        "local target: nothing outlives a run (orphans are adopted)",
        processes::adopt(),
    );
    needed("heal: signals through a pidfd", processes::pidfd());

    for (fault, result) in runtime.block_on(links::embedded(&interrupts)) {
        needed(&format!("local target: {fault}"), result);
    }
    if let Some(api) = arguments.toxiproxy.filter(|_| !stopped()) {
        for (fault, result) in runtime.block_on(links::toxiproxy(api, &interrupts)) {
            needed(&format!("--toxiproxy {api}: {fault}"), result);
        }
    }
    if !stopped() {
        for (what, result) in runtime.block_on(docker::containers(&interrupts)) {
            checks.push(Check {
                about: format!("docker target: {what}"),
                needed: false,
                result,
            });
        }
    }
    let stopped = stopped();
    runtime.shutdown_background();
    if stopped {
        print(&checks, arguments.json);
        complain("ended by a signal: the rest was not tried");
        return Ok(EXIT_FAILURE);
    }
    checks.push(Check {
        about: "external target: servers that you started".to_owned(),
        needed: false,
        result: external(),
    });
    checks.push(Check {
        about: "workers in Python (the example)".to_owned(),
        needed: false,
        result: python(),
    });
    let others = SYSTEMS
        .iter()
        .filter(|system| system.server != Server::Reference);
    checks.extend(others.map(servers));
    checks.extend(clients());
    print(&checks, arguments.json);
    let missing = checks
        .iter()
        .any(|check| check.needed && check.result.is_err());
    Ok(if missing { EXIT_FAILURE } else { 0 })
}

/// Whether the servers of a kind can be started, for the suites that want them.
fn servers(system: &SystemKind) -> Check {
    let wants = |suite: &Suite| {
        let servers = Service::ALL.map(|service| kind_of(suite, service).server);
        servers.contains(&system.server)
    };
    Check {
        about: format!("local target: {} ({})", system.name, suites(wants)),
        needed: false,
        result: (system.installed)(),
    }
}

/// What the external target can do: the servers are not ours, so only their links and our workers are attacked.
fn external() -> Result<String, String> {
    let mut clients: Vec<&str> = LOCKS
        .iter()
        .map(|lock| (lock.name, lock.server, lock.connect.is_some()))
        .chain(
            RESOURCES
                .iter()
                .map(|resource| (resource.name, resource.server, resource.connect.is_some())),
        )
        .filter(|(_, server, is_built_in)| *is_built_in && *server != Server::Reference)
        .map(|(name, ..)| name)
        .collect();
    clients.sort_unstable();
    clients.dedup();
    if clients.is_empty() {
        return Err("this build has no client of a system that can be external: cargo build --release --features all-systems".to_owned());
    }
    Ok(format!(
        "clients of {}; faults on links and workers, none on servers; addresses come from the suite",
        clients.join(", ")
    ))
}

/// Whether this build has the clients that suites want, one check for each set of features.
fn clients() -> Vec<Check> {
    let mut wanted: Vec<Vec<&str>> = BUILT_IN
        .iter()
        .map(|suite| suite.suite().missing_features())
        .filter(|missing| !missing.is_empty())
        .collect();
    wanted.sort();
    wanted.dedup();
    let check = |missing: Vec<&str>| Check {
        about: format!(
            "clients of {} ({})",
            missing.join(" and "),
            suites(|suite| suite.missing_features() == missing)
        ),
        needed: false,
        result: Err(format!(
            "this build has none: cargo build --release --features {}{}",
            missing.join(","),
            match missing.contains(&"etcd") {
                true =>
                    "; it needs a protobuf compiler: apt-get install protobuf-compiler libprotobuf-dev",
                false => "",
            }
        )),
    };
    wanted.into_iter().map(check).collect()
}

/// The built-in suites that are so, as a list.
fn suites(wanted: impl Fn(&Suite) -> bool) -> String {
    let names: Vec<&str> = BUILT_IN
        .iter()
        .filter(|suite| wanted(&suite.suite()))
        .map(|suite| suite.name)
        .collect();
    names.join(", ")
}

fn print(checks: &[Check], json: bool) {
    if json {
        let lines: Vec<_> = checks
            .iter()
            .map(|check| {
                let (ok, text) = match &check.result {
                    Ok(seen) => (true, seen),
                    Err(why) => (false, why),
                };
                serde_json::json!({"about": check.about, "ok": ok, "needed": check.needed, "text": text})
            })
            .collect();
        say_json(&serde_json::json!({ "checks": lines }));
        return;
    }
    for Check {
        about,
        needed,
        result,
    } in checks
    {
        let (sign, text) = match result {
            Ok(seen) => ("yes", seen),
            Err(why) if *needed => ("NO ", why),
            Err(why) => ("no ", why),
        };
        say(format_args!("{sign}  {about}: {text}"));
    }
}

fn python() -> Result<String, String> {
    let mut command = Command::new("python3");
    command.arg("--version").stdin(Stdio::null());
    match command.output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        _ => Err(
            "there is no python3: apt-get install python3; only workers written in it need it"
                .to_owned(),
        ),
    }
}
