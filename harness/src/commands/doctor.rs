//! `fencepost doctor`: what this machine can and cannot do, tried and not guessed, and how to get what is missing.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cli::DoctorArguments;
use crate::error::{EXIT_FAILURE, HarnessError};
use crate::journal::state_folder;
use crate::proxies::{Proxies, Stream, Toxic};
use crate::targets::systems::{SYSTEMS, SystemKind, kind_of};
use crate::targets::{Node, NodeCommand, Ports, Service, Spawner};
use crate::terminal::say;
use fencepost_workloads::seed::Seed;
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

/// Tries everything and prints a line for each.
///
/// # Errors
/// When no runtime can be started.
pub fn doctor(arguments: &DoctorArguments) -> Result<u8, HarnessError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|source| HarnessError::System {
            what: "start a runtime",
            source,
        })?;
    let check = |about: &str, needed, result| Check {
        about: about.to_owned(),
        needed,
        result,
    };
    let mut checks = vec![
        check("local target: loopback ports", true, ports()),
        check(
            "local target: pause and zombie (SIGSTOP, state T in /proc)",
            true,
            stop_and_go(),
        ),
        check(
            "local target: journal for heal",
            true,
            writable(&state_folder()),
        ),
        check("local target: room for results", true, room(Path::new("."))),
        check(
            "local target: hole, lost-reply, latency (embedded fault proxy)",
            true,
            runtime.block_on(embedded()),
        ),
        check("workers in Python (the example)", false, python()),
    ];
    checks.extend(
        SYSTEMS
            .iter()
            .filter(|system| system.server != Server::Reference)
            .map(servers),
    );
    checks.extend(clients());
    if let Some(api) = arguments.toxiproxy {
        let result = runtime.block_on(toxiproxy(api));
        checks.push(check("--toxiproxy", true, result));
    }
    runtime.shutdown_background();
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
                true => "; it needs a protobuf compiler: apt-get install protobuf-compiler",
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
        say(serde_json::json!({ "checks": lines }));
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

fn ports() -> Result<String, String> {
    let mut ports = Ports::new(Seed(crate::machine::entropy()).stream("doctor"));
    ports
        .claim()
        .map(|address| format!("{address} could be claimed"))
        .map_err(|error| error.to_string())
}

/// Stops a process of its own, looks, and lets it go.
fn stop_and_go() -> Result<String, String> {
    let marker = format!("doctor-{}/sleep", std::process::id());
    let command = NodeCommand {
        arguments: vec!["60".into()],
        ..NodeCommand::new("sleep".as_ref(), marker, "/dev/null".into())
    };
    let spawner = Spawner::start().map_err(|error| error.to_string())?;
    let child = spawner
        .spawn(command.clone())
        .map_err(|error| format!("`sleep` cannot be started: {error}"))?;
    let mut node = Node::of(&command, child);
    let seen = node.stop().and_then(|seen| node.resume().map(|_| seen));
    node.kill()?;
    seen.map_err(|why| {
        format!("{why}; signals between processes of one user and a readable /proc are needed")
    })
}

fn writable(folder: &Path) -> Result<String, String> {
    let probe = folder.join(format!(".doctor-{}", std::process::id()));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&probe, b"x"))
        .and_then(|()| std::fs::remove_file(&probe))
        .map(|()| format!("{} can be written", folder.display()))
        .map_err(|error| {
            format!(
                "{}: {error}; set XDG_STATE_HOME to a folder that can be written",
                folder.display()
            )
        })
}

/// A default run needs some megabytes.
fn room(folder: &Path) -> Result<String, String> {
    const NEEDED: u64 = 64 << 20;
    let free = nix::sys::statvfs::statvfs(folder)
        .map(|stats| {
            stats
                .blocks_available()
                .saturating_mul(stats.fragment_size())
        })
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    let shown = format!("{} MB free here", free >> 20);
    if free >= NEEDED {
        Ok(shown)
    } else {
        Err(format!("{shown}; a run needs about {} MB", NEEDED >> 20))
    }
}

/// Starts the embedded proxy, makes a proxy, cuts it and heals it.
async fn embedded() -> Result<String, String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .map_err(|error| error.to_string())?;
    let api = listener.local_addr().map_err(|error| error.to_string())?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(fencepost_fault_proxy::serve(listener, async {
        // Dropping the sender stops it as well.
        let _ = stopped.await;
    }));
    let seen = exercise(api).await;
    drop(stop);
    let _ = server.await;
    seen
}

/// A Toxiproxy of the user's; the proxy that is tried on it is removed again.
async fn toxiproxy(api: SocketAddr) -> Result<String, String> {
    exercise(api).await.map_err(|why| {
        format!(
            "{why}; start one with `fencepost toxiproxy --listen {api}`, or leave --toxiproxy out"
        )
    })
}

async fn exercise(api: SocketAddr) -> Result<String, String> {
    let proxies = Proxies::connect(api)
        .await
        .map_err(|error| error.to_string())?;
    let name = format!("fp-doctor-{}", std::process::id());
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let tried = async {
        let version = proxies.version().await?;
        proxies.create(&name, any, api).await?;
        proxies.add(&name, Toxic::hole(Stream::Both)).await?;
        proxies.clear(&name).await?;
        Ok::<_, crate::proxies::ProxyError>(version)
    }
    .await;
    let removed = proxies.delete(&name).await;
    let version = tried.map_err(|error| error.to_string())?;
    removed.map_err(|error| error.to_string())?;
    Ok(format!(
        "version {version}; a hole was put in and taken out"
    ))
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
