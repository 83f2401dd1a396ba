//! Packets of a container dropped, in its own network namespace, with the packet filter's counters as evidence.
//!
//! Only where the container's processes are processes of this machine and we may enter their namespaces. The rules are
//! the container's alone and vanish with its namespace, so a container that ends takes them along.

use std::io::Write;
use std::process::{Command, Stdio};

use fencepost_workloads::suite::Direction;

/// The table and the chains that hold our rules, and nothing else.
const TABLE: &str = "fencepost";

/// What drops packets here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Filter {
    /// nftables.
    Nft,
    /// iptables.
    Iptables,
}

impl Filter {
    /// The filter that this machine has.
    ///
    /// # Errors
    /// What is missing.
    pub fn here() -> Result<Self, String> {
        if !nix::unistd::geteuid().is_root() {
            return Err(
                "entering a container's network needs root: `sudo -E` is right, or other --faults"
                    .to_owned(),
            );
        }
        if !answers("nsenter", &["--version"]) {
            return Err("nsenter is not installed: apt-get install util-linux".to_owned());
        }
        if answers("nft", &["--version"]) {
            return Ok(Self::Nft);
        }
        if answers("iptables", &["--version"]) {
            return Ok(Self::Iptables);
        }
        Err("neither nft nor iptables is installed: apt-get install nftables".to_owned())
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nft => "nft",
            Self::Iptables => "iptables",
        }
    }
}

/// Drops packets of the container whose first process is `pid`; its loopback is left alone. The words say what was done.
///
/// # Errors
/// When the filter is missing or refuses.
pub fn install(pid: i32, direction: Direction) -> Result<String, String> {
    let filter = Filter::here()?;
    let (inwards, outwards) = ways(direction);
    match filter {
        Filter::Nft => {
            let mut rules = format!("add table inet {TABLE}\n");
            for (wanted, hook, interface) in
                [(inwards, "input", "iif"), (outwards, "output", "oif")]
            {
                if wanted {
                    rules += &format!(
                        "add chain inet {TABLE} {hook} {{ type filter hook {hook} priority 0; }}\nadd rule inet {TABLE} {hook} {interface} != lo counter drop\n"
                    );
                }
            }
            enter(pid, &["nft", "-f", "-"], &rules)?;
        }
        Filter::Iptables => chains(pid, "-I", direction)?,
    }
    Ok(format!(
        "{} drops packets {}",
        filter.name(),
        words(direction)
    ))
}

/// Lets packets pass again; says how many had been dropped.
///
/// # Errors
/// When the filter refuses.
pub fn remove(pid: i32, direction: Direction) -> Result<u64, String> {
    let dropped = dropped(pid)?;
    match Filter::here()? {
        Filter::Nft => {
            enter(pid, &["nft", "delete", "table", "inet", TABLE], "")?;
        }
        Filter::Iptables => chains(pid, "-D", direction)?,
    }
    Ok(dropped)
}

/// Puts our rules into the chains of iptables (`-I`), or takes them out (`-D`).
fn chains(pid: i32, verb: &str, direction: Direction) -> Result<(), String> {
    let (inwards, outwards) = ways(direction);
    for (wanted, chain, interface) in [(inwards, "INPUT", "-i"), (outwards, "OUTPUT", "-o")] {
        if wanted {
            let rule = [
                "iptables", "-w", verb, chain, "!", interface, "lo", "-j", "DROP",
            ];
            let marked = ["-m", "comment", "--comment", TABLE];
            enter(pid, &[&rule[..], &marked[..]].concat(), "")?;
        }
    }
    Ok(())
}

/// How many packets our rules have dropped.
///
/// # Errors
/// When the filter does not tell.
pub fn dropped(pid: i32) -> Result<u64, String> {
    match Filter::here()? {
        Filter::Nft => {
            let text = enter(pid, &["nft", "list", "table", "inet", TABLE], "")?;
            let counts = text.split("counter packets ").skip(1);
            Ok(counts
                .filter_map(|rest| rest.split(' ').next()?.parse::<u64>().ok())
                .sum())
        }
        Filter::Iptables => {
            let text = enter(pid, &["iptables", "-w", "-L", "-v", "-x", "-n"], "")?;
            let ours = text.lines().filter(|line| line.contains(TABLE));
            Ok(ours
                .filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok())
                .sum())
        }
    }
}

fn ways(direction: Direction) -> (bool, bool) {
    (direction != Direction::Out, direction != Direction::In)
}

fn words(direction: Direction) -> &'static str {
    match direction {
        Direction::In => "to it",
        Direction::Out => "from it",
        _ => "to it and from it",
    }
}

/// Runs a program in the network of `pid`; what it printed.
fn enter(pid: i32, words: &[&str], input: &str) -> Result<String, String> {
    let shown = words.join(" ");
    let failed = |why: String| format!("`{shown}` in the network of pid {pid}: {why}");
    let mut child = Command::new("nsenter")
        .arg(format!("--net=/proc/{pid}/ns/net"))
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that has ended says why itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child
        .wait_with_output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let first = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("it failed");
    Err(failed(first.trim().to_owned()))
}

fn answers(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
