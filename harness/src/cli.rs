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
    /// Make a history of a lock service and a fenced resource: honest, or with one promise broken.
    ///
    /// It is made event by event, so that any number of operations takes little memory. The same flags make the same
    /// file everywhere. Exit status: 0 written, 64 wrong usage, 70 it could not be written.
    Generate(GenerateArguments),
    /// Draw a saved run again: all of its report, or one document or picture of it.
    ///
    /// Without --plot and --format, report.html, summary.md, junit.xml and plots/ of the run are written anew and their
    /// paths printed; with one of them, that alone goes to standard output. Exit status: 0 drawn, whatever the verdict
    /// is, 64 no run or wrong usage, 70 something could not be drawn or written.
    Report(ReportArguments),
    /// List what there is, one a line, the name first; `list suite NAME` prints a suite to start from.
    List(ListArguments),
    /// Plant every defect in turn, and see that each is found as the catalogue says; and that nothing is found in a
    /// sound system under the same attacks, or in one that is safe without a fence.
    ///
    /// Exit status: 0 when every row is as it must be, 1 otherwise, 64 wrong usage, 70 a run itself failed.
    Selftest(SelftestArguments),
    /// Ask a resource alone, without a lock service, what it does for each rule of the fence.
    ///
    /// Exit status: 0 every rule that makes a fence is kept, 1 a rule is broken, 2 too little was answered, 64 wrong usage, 70 it failed.
    Probe(ProbeArguments),
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
    LockService(LockServiceArguments),
    /// The reference fenced resource, by itself.
    #[command(hide = true)]
    FencedResource(ServiceArguments),
    /// The built-in worker, driven over standard input and output.
    #[command(hide = true)]
    Worker,
    /// Build the image of every role for Docker, of this program itself, unless it is there already.
    ///
    /// Nothing is pulled and nothing is compiled. Exit status: 0 it is there, 70 there is no engine or it cannot be built.
    Image(ImageArguments),
    /// Ask a service whether it is well; for the health check of a container.
    #[command(hide = true)]
    Healthy(HealthyArguments),
    /// The time of this machine's wall clock, in seconds since 1970; for a look at the clock of a container.
    #[command(hide = true)]
    Clock(ClockArguments),
    /// Start a container that waits for its standard input, and be that.
    #[command(hide = true)]
    Attach(AttachArguments),
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
    #[arg(long, value_name = "N", value_parser = seed, allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Operations a second, all clients together, or "max".
    #[arg(long, value_name = "HZ", allow_negative_numbers = true)]
    pub rate: Option<Rate>,
    /// Clients, spread over the workers.
    #[arg(long, value_name = "N", value_parser = clients, allow_negative_numbers = true)]
    pub clients: Option<u32>,
    /// Which of the suite's faults: kinds or labels with commas, "none" or "all".
    #[arg(long, value_name = "A,B|none|all")]
    pub faults: Option<String>,
    /// Plant a defect (see `fencepost list defects`): the run must then find it.
    #[arg(long, value_name = "NAME")]
    pub defect: Option<String>,
    /// End the load at the first violation; with --defect, at the first finding that it must be found as.
    #[arg(long)]
    pub fail_fast: bool,
    /// Where runs are saved: DIR/<suite>-<target>/<UTC time>-<run id>/.
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Print one JSON object and nothing else on standard output.
    #[arg(long)]
    pub json: bool,
    /// Print, after the text, what a CI shows beside the job.
    #[arg(long, value_enum, value_name = "CI", conflicts_with = "json")]
    pub annotate: Option<Ci>,
    /// Another way to say --annotate.
    #[arg(
        long,
        value_enum,
        default_value = "text",
        conflicts_with = "json",
        hide = true
    )]
    pub format: RunFormat,
    /// Use a Toxiproxy that is running already instead of the embedded fault proxy.
    #[arg(long, value_name = "HOST:PORT", value_parser = resolve)]
    pub toxiproxy: Option<std::net::SocketAddr>,
    /// With --target external: write into a database although it holds other tables. They are left alone.
    #[arg(long)]
    pub force: bool,
    /// Keep the services' data in the run's folder; with --target docker, leave the containers up.
    #[arg(long)]
    pub keep: bool,
    /// Repeat the run with the fence taken out; it must go red for this run to count.
    #[arg(long, conflicts_with = "defect")]
    pub teeth: bool,
}

/// The targets.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum TargetName {
    /// Processes of this machine, on loopback.
    Local,
    /// Containers of a Docker engine, from an image that is built of this program; workers are processes of this machine.
    Docker,
    /// Servers that you started, named by `endpoints` and `url` of the suite; none of them is stopped or killed.
    External,
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
    #[arg(long, value_name = "JSON", default_value = "null", value_parser = json)]
    pub initial: serde_json::Value,
    /// The recordings joined a running system, so how a register began is not known: what looks at it first tells. For
    /// the models register and cas-register.
    #[arg(long)]
    pub joined: bool,
    /// Let the search of a model take at most so many steps for each key; then the answer is unknown, everywhere.
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
    /// Let the searches take at most so many MiB together.
    #[arg(long, value_name = "MIB")]
    pub memory: Option<usize>,
    /// Let the searches of one file take at most so long, e.g. 30s.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub within: Option<std::time::Duration>,
    /// Write a page that shows where the order of the model ends: the last steps, the state there, and what cannot
    /// follow. Of one file; not for the model fencing, whose findings tell their own stories.
    #[arg(long, value_name = "PAGE")]
    pub html: Option<PathBuf>,
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

/// `fencepost generate`
#[derive(Args, Debug)]
pub struct GenerateArguments {
    /// How many operations are invoked.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub operations: u64,
    /// How many clients there are.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub clients: u32,
    /// How many keys there are.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub keys: u32,
    /// How many locks guard them; at most one for each key and for each client.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub locks: u32,
    /// Everything that is drawn is drawn from this.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The share of reads among the operations, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    pub reads: f64,
    /// The share of holds that end with the holder asleep, which then writes too late.
    #[arg(long, value_name = "SHARE", default_value_t = 0.2)]
    pub zombies: f64,
    /// The share of operations whose answer is lost.
    #[arg(long, value_name = "SHARE", default_value_t = 0.005)]
    pub timeouts: f64,
    /// The share of refusals and reads that do not name the high water.
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    pub nameless: f64,
    /// Break one promise once: stale-write, lost-write, invented-value, duplicate-token or token-regression.
    #[arg(long, value_name = "NAME")]
    pub defect: Option<fencepost_checker::generate::Defect>,
    /// Write here instead of to standard output.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `fencepost selftest`
#[derive(Args, Debug)]
pub struct SelftestArguments {
    /// Rows: defects (see `fencepost list defects`) or suites; all of them if none is named.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// How often each row is run, each time with another seed.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// The first seed; the others follow it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How many rows are run at a time.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub at_a_time: u32,
    /// How long each run may last; what its suite says if it is left out.
    #[arg(long, value_name = "DURATION")]
    pub time_limit: Option<TimeLimit>,
    /// Keep the runs here; otherwise only those that are not as they must be, in a folder that is told.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print one JSON object a row and nothing else on standard output.
    #[arg(long)]
    pub json: bool,
}

/// `fencepost probe`
#[derive(Args, Debug)]
pub struct ProbeArguments {
    /// The kind of resource: reference, or one that this build has a client for.
    #[arg(long, value_name = "KIND", default_value = "reference")]
    pub resource: String,
    /// Where it is; a reference resource is started, and may be restarted, if this is left out.
    #[arg(long, value_name = "HOST:PORT")]
    pub address: Option<String>,
    /// How a write is fenced, as in `[resource] fence`; of the reference resource `none` alone, where the probe starts it.
    #[arg(long, value_name = "FENCE")]
    pub fence: Option<String>,
    /// As whom to log in.
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// The database.
    #[arg(long, value_name = "NAME")]
    pub database: Option<String>,
    /// The environment variable that holds the password.
    #[arg(long, value_name = "NAME")]
    pub password_env: Option<String>,
    /// Plant a defect in the resource that is started.
    #[arg(long, value_name = "NAME", conflicts_with = "address")]
    pub defect: Option<String>,
    /// How many rounds of racing writes, each on a fresh key.
    #[arg(long, value_name = "N", default_value_t = 3_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rounds: u32,
    /// Print one JSON object and nothing else on standard output.
    #[arg(long)]
    pub json: bool,
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
    /// Annotations of GitHub Actions (`::error title=...::...`).
    Github,
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
    /// Jepsen's history.edn: one map a line, or all in one list or vector.
    Edn,
    /// Jepsen's log: `INFO  jepsen.util - PROCESS :TYPE :F VALUE` among other lines.
    JepsenLog,
    /// Another way to say --annotate github, as `run` knows it; the file is read as if nothing was said.
    #[value(hide = true)]
    Github,
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
    /// Where runs are to be saved: is there room?
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Also try this Toxiproxy.
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
    /// With `defects`: one JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// With `defects`: the page of the documents.
    #[arg(long, conflicts_with = "json")]
    pub page: bool,
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

/// `fencepost lock-service`
#[derive(Args, Debug)]
pub struct LockServiceArguments {
    /// Where it listens, on what, and what is planted.
    #[command(flatten)]
    pub service: ServiceArguments,
    /// The token of each lock's first grant.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub first_token: u64,
}

/// `fencepost fenced-resource`, and a part of `fencepost lock-service`
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

/// `fencepost image`
#[derive(Args, Debug)]
pub struct ImageArguments {
    /// What it is called besides its own name, which is made of what goes in.
    #[arg(long, value_name = "NAME[:TAG]", default_value = "fencepost:latest")]
    pub tag: String,
}

/// `fencepost healthy`
#[derive(Args, Debug)]
pub struct HealthyArguments {
    /// What is asked for, e.g. 127.0.0.1:8100/healthz.
    #[arg(value_name = "HOST:PORT/PATH")]
    pub url: String,
}

/// `fencepost clock`
#[derive(Args, Debug)]
pub struct ClockArguments {
    /// Before it is told: what the file of a preloaded clock is to say from now on.
    #[arg(long, value_names = ["FILE", "SECONDS"], num_args = 2, allow_hyphen_values = true)]
    pub set: Option<Vec<String>>,
}

/// `fencepost attach`
#[derive(Args, Debug)]
pub struct AttachArguments {
    /// The container's id.
    #[arg(value_name = "CONTAINER")]
    pub container: String,
}

/// Any 64-bit number.
fn seed(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("a whole number from 0 to {} is right", u64::MAX))
}

/// As many as a suite may have.
fn clients(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|clients| (1..=1000).contains(clients))
        .ok_or_else(|| "a whole number from 1 to 1000 is right".to_owned())
}

/// What is wrong with the command line, which part of it, and what would be right: clap's words without its lines.
/// Nothing where help is what is to be shown.
pub(crate) fn in_one_line(error: &clap::Error) -> Option<String> {
    use clap::error::ErrorKind;
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        return None;
    }
    if let Some(line) = no_such_value(error) {
        return Some(line);
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let paragraph = |part: &str| {
        let lines = part.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join(" ")
    };
    // What is wrong, a tip perhaps, the usage, and where help is.
    let mut parts = text.split("\n\n").map(paragraph);
    let mut line = parts.next().unwrap_or_default();
    for part in parts {
        if let Some(tip) = part.strip_prefix("tip: ") {
            // That a flag could be meant as a file's name is no help to anybody.
            if tip.starts_with("to pass ") {
                continue;
            }
            line = format!("{line}; {tip}");
        } else if let Some(usage) = part.strip_prefix("Usage: ") {
            line = format!("{line}; right is `{usage}`, see --help");
        }
    }
    // What was given is repeated, and may hold anything.
    Some(line.replace(char::is_control, " "))
}

/// A flag was given a word that is not on its list: the list is told, as for names that we look up.
fn no_such_value(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) if !text.is_empty() => Some(text.as_str()),
        _ => None,
    };
    let Some(ContextValue::Strings(known)) = error.get(ContextKind::ValidValue) else {
        return None;
    };
    let flag = text(ContextKind::InvalidArg)?.split(' ').next()?;
    let given = crate::report::plain(text(ContextKind::InvalidValue)?, 60);
    (error.kind() == ErrorKind::InvalidValue && !known.is_empty())
        .then(|| format!("{flag}: no {given:?}: {} is right", known.join(", ")))
}

/// A JSON value. Named, because otherwise any text would be taken for a JSON string.
fn json(text: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("{error}; JSON, e.g. 0 or '{{\"x\":0}}', is right"))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> String {
        let error =
            Cli::try_parse_from(["fencepost"].iter().chain(words)).expect_err("it means nothing");
        in_one_line(&error).expect("an error")
    }

    #[test]
    fn a_beginning_is_json_and_no_text() {
        for (words, expected) in [
            (&["check", "x"][..], serde_json::Value::Null),
            (&["check", "x", "--initial", "0"], 0.into()),
            (&["check", "x", "--initial", "\"0\""], "0".into()),
        ] {
            let cli = Cli::parse_from(["fencepost"].iter().chain(words));
            let Verb::Check(arguments) = cli.verb else {
                panic!("it is check");
            };
            assert_eq!(arguments.initial, expected);
        }
    }

    #[test]
    fn wrong_usage_is_told_in_one_line_with_the_flag_and_what_would_be_right() {
        for (words, expected) in [
            (
                &["run", "--rate", "abc"][..],
                "invalid value 'abc' for '--rate <HZ>': abc is no rate: operations a second from 0.1 to 1000000, or \"max\", is right",
            ),
            (
                &["run", "--seed", "x"],
                "invalid value 'x' for '--seed <N>': a whole number from 0 to 18446744073709551615 is right",
            ),
            (
                &["run", "--rate", "-5"],
                "invalid value '-5' for '--rate <HZ>': -5 is no rate: operations a second from 0.1 to 1000000, or \"max\", is right",
            ),
            (
                &["run", "--no-such-flag"],
                "unexpected argument '--no-such-flag' found; right is `fencepost run [OPTIONS] [SUITE]`, see --help",
            ),
            (
                &["check", "x", "--initial", "nil"],
                "invalid value 'nil' for '--initial <JSON>': expected ident at line 1 column 2; JSON, e.g. 0 or '{\"x\":0}', is right",
            ),
            (
                &["run", "--clients", "0"],
                "invalid value '0' for '--clients <N>': a whole number from 1 to 1000 is right",
            ),
            (
                &["run", "--target", "moon"],
                "--target: no \"moon\": local, docker, external is right",
            ),
            (
                &["run", "--time-limit"],
                "a value is required for '--time-limit <DURATION>' but none was supplied",
            ),
        ] {
            assert_eq!(line(words), expected);
        }
        let message = line(&["run", "--clientz", "4"]);
        assert!(
            message.starts_with("unexpected argument '--clientz' found; a similar argument exists: '--clients'; right is `fencepost run"),
            "{message}"
        );
        let message = line(&["check"]);
        assert!(
            message.starts_with("the following required arguments were not provided: <FILE>...; right is `fencepost check"),
            "{message}"
        );
        for words in [&["run", "--clientz", "4"][..], &["check"], &["nosuch"]] {
            assert!(!line(words).contains('\n'));
        }
    }
}
