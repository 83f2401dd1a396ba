//! The command line as plain data.

use std::net::ToSocketAddrs;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fencepost_workloads::suite::{Rate, TimeLimit};

/// Proves whether a lock holder that lost its lock without knowing it can still corrupt what the lock protects.
#[derive(Debug, Parser)]
#[command(
    name = "fencepost",
    version,
    propagate_version = true,
    disable_help_subcommand = true
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Attack a lock and its fenced resource, record everything, judge it, report.
    ///
    /// Exit status: 0 valid, 1 invalid, 2 unknown (nothing proven, or the fence was not exercised), 64 wrong usage, 70 the run itself failed.
    Run(RunArguments),
    /// Judge recorded histories.
    ///
    /// The exit status is the worst of all files: 1 invalid, 70, 64 unreadable, 2 unknown, 0 valid.
    Check(CheckArguments),
    /// Draw a saved run again: all of its report, or one document or picture of it.
    ///
    /// Without --plot and --format, report.html, summary.md, junit.xml and plots/ of the run are written anew and their
    /// paths printed; with one of them, that alone goes to standard output. Exit status: 0 drawn, whatever the verdict
    /// is, 64 no run or wrong usage, 70 something could not be drawn or written.
    Report(ReportArguments),
    /// List what there is, one a line, the name first; `list suite NAME` prints a suite to start from.
    List(ListArguments),
    /// Undo what crashed runs left: kill their processes, remove their proxies. Runs that are alive are left alone.
    Heal(HealArguments),
    /// Say what this machine can and cannot do, and how to get what is missing.
    ///
    /// Exit status: 0 when the local target can run with every fault, 70 when something it needs is missing.
    Doctor(DoctorArguments),
    /// Serve Toxiproxy's HTTP API: the embedded fault proxy, by itself.
    Toxiproxy(ServeArguments),
    /// The reference lock service, by itself.
    #[command(hide = true)]
    LockService(ServiceArguments),
    /// The reference fenced resource, by itself.
    #[command(hide = true)]
    FencedResource(ServiceArguments),
    /// The built-in worker, driven over standard input and output.
    #[command(hide = true)]
    Worker,
}

/// `fencepost run`
#[derive(Args, Debug)]
pub struct RunArguments {
    /// A built-in suite (see `fencepost list suites`) or a suite file.
    #[arg(default_value = "default")]
    pub suite: String,
    /// Where the nodes live.
    #[arg(long, value_enum)]
    pub target: Option<TargetName>,
    /// How long the load lasts, e.g. 20s.
    #[arg(long, value_name = "DURATION")]
    pub time_limit: Option<TimeLimit>,
    /// Repeat the plan of an earlier run.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Operations a second, all clients together, or "max".
    #[arg(long, value_name = "HZ")]
    pub rate: Option<Rate>,
    /// Clients, spread over the workers.
    #[arg(long, value_name = "N")]
    pub clients: Option<u32>,
    /// Which of the suite's faults: kinds or labels with commas, "none" or "all".
    #[arg(long, value_name = "A,B|none|all")]
    pub faults: Option<String>,
    /// Plant a defect (see `fencepost list defects`): the run must then find it.
    #[arg(long, value_name = "NAME")]
    pub defect: Option<String>,
    /// End the load at the first violation.
    #[arg(long)]
    pub fail_fast: bool,
    /// Where runs are saved: DIR/<suite>-<target>/<UTC time>-<run id>/.
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Print one JSON object and nothing else on standard output.
    #[arg(long)]
    pub json: bool,
    /// How the result is printed.
    #[arg(long, value_enum, default_value = "text", conflicts_with = "json")]
    pub format: RunFormat,
    /// Use a Toxiproxy that is running already instead of the embedded fault proxy.
    #[arg(long, value_name = "HOST:PORT", value_parser = resolve)]
    pub toxiproxy: Option<std::net::SocketAddr>,
    /// Keep the services' data in the run's folder.
    #[arg(long)]
    pub keep: bool,
}

/// The targets.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum TargetName {
    /// Processes of this machine, on loopback.
    Local,
}

/// `fencepost check`
#[derive(Args, Debug)]
pub struct CheckArguments {
    /// History files; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<String>,
    /// What to hold them against (see `fencepost list models`).
    #[arg(long, value_name = "NAME", default_value = "fencing")]
    pub model: String,
    /// How each object begins, e.g. 0 or '{"x":0}'; null is what its model says. Not for the model fencing.
    #[arg(long, value_name = "JSON", default_value = "null")]
    pub initial: serde_json::Value,
    /// Let the search of a model take at most so many steps for each key; then the answer is unknown, everywhere.
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
    /// Let the searches take at most so many MiB together.
    #[arg(long, value_name = "MIB")]
    pub memory: Option<usize>,
    /// Let the searches of one file take at most so long, e.g. 30s.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub within: Option<std::time::Duration>,
    /// How they are written.
    #[arg(long, value_enum, default_value = "auto")]
    pub format: Format,
    /// Print one JSON object a file and nothing else on standard output.
    #[arg(long)]
    pub json: bool,
    /// Print, after the text, what a CI shows beside the job.
    #[arg(long, value_enum, value_name = "CI", conflicts_with = "json")]
    pub annotate: Option<Ci>,
}

/// How a run's result is printed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum RunFormat {
    /// For people.
    Text,
    /// For people, then as annotations of GitHub Actions (`::error title=...::...`).
    Github,
}

/// A CI that has annotations.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Ci {
    /// GitHub Actions (`::error title=...::...`).
    Github,
}

/// `fencepost report`
#[derive(Args, Debug)]
pub struct ReportArguments {
    /// The folder of a run.
    #[arg(value_name = "RUN", default_value = "results/latest")]
    pub run: PathBuf,
    /// One picture: holders, latency, quantiles, rate, refusals, lag, marks, handover, or finding-1, finding-2 ...
    #[arg(long, value_name = "NAME")]
    pub plot: Option<String>,
    /// One document, or with --plot how the picture is saved (svg if nothing is said).
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Write the one document or picture here instead of to standard output.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// What `fencepost report` makes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum ReportFormat {
    /// The page that holds everything: report.html.
    Html,
    /// For the summary of a CI job: summary.md.
    Md,
    /// The verdict with its denominators, one object on one line.
    Json,
    /// A test suite, one case a rule: junit.xml.
    Junit,
    /// A picture as lines.
    Svg,
    /// A picture as pixels.
    Png,
}

/// How a history is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Format {
    /// Whatever it looks like.
    Auto,
    /// One JSON object a line, as `fencepost run` writes it.
    Jsonl,
}

/// `fencepost heal`
#[derive(Args, Debug)]
pub struct HealArguments {
    /// The run's id, as its folder's name ends; every crashed run if left out.
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
}

/// `fencepost doctor`
#[derive(Args, Debug)]
pub struct DoctorArguments {
    /// Also ask this Toxiproxy.
    #[arg(long, value_name = "HOST:PORT", value_parser = resolve)]
    pub toxiproxy: Option<std::net::SocketAddr>,
    /// Print one JSON object and nothing else on standard output.
    #[arg(long)]
    pub json: bool,
}

/// `fencepost list`
#[derive(Args, Debug)]
pub struct ListArguments {
    /// What to list.
    #[arg(value_enum)]
    pub what: Option<Listing>,
    /// With `suite`: which one to print.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// What can be listed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Listing {
    /// Built-in suites.
    Suites,
    /// One built-in suite's file.
    Suite,
    /// What clients can do.
    Workloads,
    /// What can be done to the system.
    Faults,
    /// What can be planted in it.
    Defects,
    /// Where it can live.
    Targets,
    /// What histories can be held against.
    Models,
    /// What can be found.
    Findings,
}

/// `fencepost toxiproxy`
#[derive(Args, Debug)]
pub struct ServeArguments {
    /// Where the API listens.
    #[arg(long, value_name = "HOST:PORT", value_parser = resolve)]
    pub listen: std::net::SocketAddr,
}

/// `fencepost lock-service`, `fencepost fenced-resource`
#[derive(Args, Debug)]
pub struct ServiceArguments {
    /// Where it listens.
    #[arg(long, value_name = "HOST:PORT", value_parser = resolve)]
    pub listen: std::net::SocketAddr,
    /// Where its data lives.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// What is planted in it.
    #[arg(long, value_name = "NAME")]
    pub defect: Option<String>,
}

/// Resolves an address once, at the beginning.
fn resolve(text: &str) -> Result<std::net::SocketAddr, String> {
    match text.to_socket_addrs() {
        Ok(mut addresses) => addresses
            .next()
            .ok_or_else(|| "the name has no address".to_owned()),
        Err(error) => Err(format!("{error}; HOST:PORT, e.g. 127.0.0.1:8474, is right")),
    }
}
