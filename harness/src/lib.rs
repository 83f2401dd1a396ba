//! Fencepost: proves whether a lock holder that lost its lock without knowing it can still corrupt what the lock protects.
//!
//! [`main`] parses, calls, and turns the result into an exit status; everything else lives in the rooms. They are a
//! library only so that tests and benchmarks can enter them: its names are not stable.
//!
//! | room | what |
//! |---|---|
//! | [`commands`] | one verb a file |
//! | [`runner`] | one run: load, history, phases; start at `runner/session.rs` |
//! | [`faults`] | what is done to the system, with evidence |
//! | [`guardian`] | outlives a harness that is killed, and ends what it left |
//! | [`journal`] | what a run has started and is doing, for `heal` |
//! | [`targets`] | nodes: brought up, reached into, taken down |
//! | [`proxies`] | the driver of any Toxiproxy |
//! | [`probe`] | a resource alone, asked rule by rule |
//! | [`report`] | pure: run, history and verdict in; text and pictures out |

pub mod cli;
pub mod clock;
pub mod commands;
pub mod defects;
pub mod error;
pub mod faults;
pub mod guardian;
pub mod journal;
pub mod limits;
pub mod machine;
pub mod probe;
pub mod proxies;
pub mod report;
pub mod run_record;
pub mod runner;
pub mod runtime;
pub mod targets;
pub mod terminal;

use std::process::ExitCode;

use clap::Parser;
// Linked for its feature `vendored` alone: toxiproxy_rust's TLS needs OpenSSL, and a newcomer's machine has none.
use openssl as _;

use cli::{Cli, Verb};
use error::{EXIT_FAILURE, EXIT_USAGE, HarnessError};

/// The program: arguments in, exit status out.
pub fn main() -> ExitCode {
    keep_loopback_off_proxies();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; clap's own status for wrong usage would be ours for "unknown".
            let status = if error.use_stderr() { EXIT_USAGE } else { 0 };
            match cli::in_one_line(&error) {
                Some(line) => terminal::complain(line),
                // A terminal that has gone away is no reason to end otherwise.
                None => drop(error.print()),
            }
            return status.into();
        }
    };
    let status = guarded(&cli.verb).unwrap_or_else(|error| {
        terminal::complain(&error);
        error.exit_code()
    });
    match terminal::unwritten() {
        // What went wrong before is told already, and is more.
        Some(error) if status != EXIT_USAGE && status != EXIT_FAILURE => {
            terminal::complain(format!("failed to write to standard output: {error}"));
            EXIT_FAILURE.into()
        }
        _ => status.into(),
    }
}

/// A run has a guardian; nothing else starts processes that could outlive it.
fn guarded(verb: &Verb) -> Result<u8, HarnessError> {
    if matches!(verb, Verb::Run(_) | Verb::Probe(_))
        && let Some(status) = guardian::divide()?
    {
        return Ok(status);
    }
    dispatch(verb)
}

fn dispatch(verb: &Verb) -> Result<u8, HarnessError> {
    match verb {
        Verb::Run(arguments) => commands::run::run(arguments),
        Verb::Check(arguments) => commands::check::check(arguments),
        Verb::Generate(arguments) => commands::generate::generate(arguments),
        Verb::Heal(arguments) => commands::heal::heal(arguments),
        Verb::Doctor(arguments) => commands::doctor::doctor(arguments),
        Verb::Report(arguments) => commands::report::report(arguments),
        Verb::Selftest(arguments) => commands::selftest::selftest(arguments),
        Verb::Probe(arguments) => commands::probe::probe(arguments),
        Verb::List(arguments) => commands::list::list(arguments),
        Verb::Toxiproxy(arguments) => commands::serve::toxiproxy(arguments),
        Verb::LockService(arguments) => commands::serve::lock_service(arguments),
        Verb::FencedResource(arguments) => commands::serve::fenced_resource(arguments),
        Verb::Worker => commands::serve::worker(),
        Verb::Image(arguments) => commands::image::image(arguments),
        Verb::Healthy(arguments) => commands::image::healthy(arguments),
        Verb::Clock(arguments) => commands::image::clock(arguments),
        Verb::Attach(arguments) => commands::attach::attach(arguments),
    }
}

/// `toxiproxy_rust` sends even loopback requests to a proxy that HTTP_PROXY names; everything of a run is loopback or
/// an address that the user gave, so nothing of it ever goes through one.
fn keep_loopback_off_proxies() {
    for name in [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
    ] {
        // SAFETY: the first statement of main; no other thread exists that could read the environment.
        unsafe { std::env::remove_var(name) };
    }
}
