//! `fencepost run`: the main job.

use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use fencepost_checker::verdict::Verdict;
use fencepost_workloads::seed::Seed;
use fencepost_workloads::suite::{
    BUILT_IN, Count, Fault, FaultKind, Suite, SuiteError, TargetKind, built_in,
};
use fencepost_workloads::systems::Server;

use clap::ValueEnum as _;

use crate::cli::{Ci, RunArguments, RunFormat, TargetName};
use crate::defects::{Defects, Entry, catalogue};
use crate::error::{EXIT_FAILURE, HarnessError};
use crate::limits;
use crate::machine;
use crate::proxies;
use crate::report;
use crate::run_record::Teeth;
use crate::runner::{self, Interrupts, Order, RunEnd};
use crate::runtime;
use crate::targets::docker::Engine;
use crate::targets::docker::cut::Filter;
use crate::targets::{Service, systems};
use crate::terminal::{complain, print, say_json};

/// Runs a suite, prints the verdict, and returns its exit status.
///
/// # Errors
/// When the suite or a flag cannot be used, or the run could not begin.
pub fn run(arguments: &RunArguments) -> Result<u8, HarnessError> {
    let order = order(arguments)?;
    let unfenced = arguments
        .teeth
        .then(|| without_a_fence(&order))
        .transpose()?;
    let (name, limit) = (order.suite.name.as_str(), order.suite.run.time_limit);
    complain(format_args!("suite {name}, seed {}, {limit}", order.seed.0));
    // One thread: what the pipes say, the conductor hears without a wake-up between threads. What blocks (signals,
    // proxies, the disk) has threads of its own.
    let runtime = runtime::on_this_thread()?;
    let end = runtime.block_on(async {
        let interrupts = Interrupts::listen();
        let mut end = runner::run(order, interrupts.clone()).await?;
        if unfenced.is_some() && end.record.ended_early.is_some() {
            runner::save_without_teeth(&mut end);
        } else if let Some(order) = unfenced {
            complain("again, with the fence taken out");
            let second = runner::run(order, interrupts).await?;
            let mut findings: Vec<String> = second
                .judgement
                .findings
                .iter()
                .map(|finding| finding.finding.clone())
                .collect();
            findings.dedup();
            let teeth = Teeth {
                run: second.record.run.clone(),
                folder: second.folder.path().display().to_string(),
                verdict: second.judgement.verdict,
                findings,
                stale_writes: second.judgement.coverage.zombie_writes,
                refused: second.judgement.coverage.zombie_writes_refused,
            };
            runner::save_teeth(&mut end, teeth);
        }
        Ok::<_, HarnessError>(end)
    });
    // Nothing of the run is left; what a broken pipe still holds must not keep the program.
    runtime.shutdown_background();
    let end = end?;
    let annotated = arguments.annotate == Some(Ci::Github) || arguments.format == RunFormat::Github;
    if arguments.json {
        print_json(&end);
    } else if annotated {
        let word = format!("fencepost-{:016x}", machine::entropy());
        print(&report::quoted(&text(&end), &word));
        print(&report::github_run(&end.record, &end.judgement));
    } else {
        print(&text(&end));
    }
    Ok(status(&end))
}

/// A violation is never hidden by what went wrong besides.
fn status(end: &RunEnd) -> u8 {
    match end.judgement.verdict {
        Verdict::Invalid => Verdict::Invalid.exit_code(),
        _ if end.failed() => EXIT_FAILURE,
        verdict => verdict.exit_code(),
    }
}

fn order(arguments: &RunArguments) -> Result<Order, HarnessError> {
    limits::open_files().map_err(HarnessError::Internal)?;
    let target = arguments.target.map(|target| match target {
        TargetName::Local => TargetKind::Local,
        TargetName::Docker => TargetKind::Docker,
        TargetName::External => TargetKind::External,
    });
    let given = Given::read(&arguments.suite)?;
    let mut suite = Suite::parse_for(&given.text, &given.origin, target)?;
    if let Some(limit) = arguments.time_limit {
        suite.run.time_limit = limit;
    }
    if let Some(rate) = arguments.rate {
        suite.run.rate = rate;
    }
    if let Some(clients) = arguments.clients {
        suite.run.clients = Count(clients);
    }
    if let Some(faults) = &arguments.faults {
        suite.fault = select(&suite.fault, faults)?;
    }
    let defects = match &arguments.defect {
        Some(name) => Defects::named(name).ok_or_else(|| {
            let known: Vec<_> = catalogue().iter().map(Entry::name).collect();
            HarnessError::Usage(format!(
                "no defect {name:?}: there are {}",
                known.join(", ")
            ))
        })?,
        None => Defects::default(),
    };
    defects.set_up(&mut suite);
    suite
        .consistent()
        .map_err(|misfit| HarnessError::Usage(misfit.to_string()))?;
    plantable(&suite, &defects)?;
    buildable(&suite, &arguments.suite)?;
    startable(&suite, &given)?;
    if let Some(program) = suite.worker.command.first()
        && !can_be_started(program)
    {
        return Err(given.is_wrong(
            &["worker.command"],
            format!("there is no program {program:?} that can be started: a path, or a name on the PATH, is right"),
        ));
    }
    if suite.target.kind == TargetKind::Docker && arguments.toxiproxy.is_some() {
        return Err(HarnessError::Usage(
            "--toxiproxy: in the docker target the fault proxy is a container of the run: leave it out".to_owned(),
        ));
    }
    if let Some(api) = arguments.toxiproxy {
        proxies::look_at(api).map_err(|why| {
            HarnessError::Usage(format!(
                "--toxiproxy {api} {why}: the address of a running Toxiproxy's API is right"
            ))
        })?;
    }
    let seed = Seed(arguments.seed.unwrap_or_else(|| machine::entropy() >> 32));
    Ok(Order {
        replay: replay(arguments, seed),
        suite,
        seed,
        defects,
        out: arguments.out.clone(),
        toxiproxy: arguments.toxiproxy,
        fail_fast: arguments.fail_fast,
        force: arguments.force,
        keep: arguments.keep,
        progress: !arguments.json,
        command_line: std::env::args().collect(),
    })
}

/// The same run against the same system, but for its fence.
fn without_a_fence(order: &Order) -> Result<Order, HarnessError> {
    let mut suite = order.suite.clone();
    let kind = suite.resource.kind;
    if !kind.system().variants.contains(&"none") || suite.fence() == "none" {
        return Err(HarnessError::Usage(format!(
            "--teeth: {} has no fence that could be taken out: a resource whose `fence` may be \"none\", and is not, is right",
            suite.name.as_str()
        )));
    }
    suite.resource.fence = Some("none".to_owned());
    suite
        .consistent()
        .map_err(|misfit| HarnessError::Usage(format!("--teeth: {misfit}")))?;
    Ok(Order {
        replay: format!(
            "{} (the second of two runs, with fence = \"none\")",
            order.replay
        ),
        suite,
        fail_fast: true,
        ..order.clone()
    })
}

/// That a defect is planted in a reference service, and not in an image of the user's that knows nothing of it.
fn plantable(suite: &Suite, defects: &Defects) -> Result<(), HarnessError> {
    let Some(name) = &defects.name else {
        return Ok(());
    };
    for (defect, own, table, what) in [
        (
            &defects.lock,
            &suite.nodes.lock,
            "nodes.lock",
            "reference lock service",
        ),
        (
            &defects.resource,
            &suite.nodes.resource,
            "nodes.resource",
            "reference resource",
        ),
    ] {
        let service = match table {
            "nodes.lock" => &suite.lock.kind.system().server,
            _ => &suite.resource.kind.system().server,
        };
        if defect.is_some() && *service != Server::Reference {
            let table = table.trim_start_matches("nodes.");
            return Err(HarnessError::Usage(format!(
                "--defect {name}: it is planted in the {what}, and [{table}] has another kind: kind = \"reference\" is right"
            )));
        }
        if defect.is_some() && own.is_some() {
            return Err(HarnessError::Usage(format!(
                "--defect {name}: it is planted in the {what}, and [{table}] is another: a suite without [{table}] is right"
            )));
        }
    }
    Ok(())
}

/// That this build has the clients of the suite's systems.
fn buildable(suite: &Suite, name: &str) -> Result<(), HarnessError> {
    let missing = suite.missing_features();
    if missing.is_empty() {
        return Ok(());
    }
    let (features, plural) = (missing.join(" "), if missing.len() > 1 { "s" } else { "" });
    let flag = missing.join(",");
    Err(HarnessError::Usage(format!(
        "{} needs the feature{plural} {features}: cargo run --release --features {flag} -- run {name}",
        suite.name.as_str()
    )))
}

/// That the suite's servers can be started here; or reached, and logged in to, where they are the user's.
fn startable(suite: &Suite, given: &Given) -> Result<(), HarnessError> {
    if suite.target.kind == TargetKind::Docker {
        // Asked before anything is begun: that there is none is said at once.
        let engine = Engine::reach()?;
        for (own, table) in [
            (&suite.nodes.lock, "nodes.lock"),
            (&suite.nodes.resource, "nodes.resource"),
        ] {
            if let Some(file) = own.as_ref().and_then(|own| own.compose.as_ref())
                && let Err(error) = std::fs::File::open(file)
            {
                let message = format!("compose = {file:?}: {error}; a compose file is right");
                return Err(given.is_wrong(&[table], message));
            }
        }
        return droppable(suite, &engine);
    }
    if suite.target.kind == TargetKind::Local {
        for service in Service::ALL {
            (systems::kind_of(suite, service).installed)().map_err(|why| {
                HarnessError::Usage(format!("{} cannot run here: {why}", suite.name.as_str()))
            })?;
        }
        return Ok(());
    }
    let (of_lock, of_resource) = suite.access();
    for (access, env, file) in [
        (of_lock, "lock.password_env", "lock.password_file"),
        (
            of_resource,
            "resource.password_env",
            "resource.password_file",
        ),
    ] {
        if access
            .password_env
            .as_ref()
            .is_some_and(|name| std::env::var_os(name).is_none())
        {
            return Err(given.is_wrong(
                &[env],
                "the environment has no variable of that name: one that holds the password is right".to_owned(),
            ));
        }
        if let Some(path) = &access.password_file
            && let Err(error) = std::fs::File::open(path)
        {
            let path = path.display();
            return Err(given.is_wrong(
                &[file],
                format!("{path}: {error}; a file that holds the password is right"),
            ));
        }
    }
    for service in Service::ALL {
        let fields = match service {
            Service::Lock => ["lock.endpoints", "lock.url"],
            Service::Resource => ["resource.endpoints", "resource.url"],
        };
        // One that answers is enough: the others may be down, and what that means is for the run to find out.
        let mut silent = None;
        for (name, address) in systems::external_addresses(suite, service)? {
            match TcpStream::connect_timeout(&address, ANSWERS_WITHIN) {
                Ok(_) => {
                    silent = None;
                    break;
                }
                Err(error) => silent = silent.or(Some((name, error))),
            }
        }
        if let Some((name, error)) = silent {
            let message = format!(
                "{name} does not answer ({error}): the address of a server that runs is right"
            );
            return Err(given.is_wrong(&fields, message));
        }
    }
    Ok(())
}

/// That packets can be dropped here, where the suite wants that.
fn droppable(suite: &Suite, engine: &Engine) -> Result<(), HarnessError> {
    let Some(cut) = suite
        .fault
        .iter()
        .find(|fault| fault.kind == FaultKind::Cut)
    else {
        return Ok(());
    };
    let refused = |why: String| {
        let (name, label) = (suite.name.as_str(), cut.label());
        HarnessError::Usage(format!(
            "{name} cannot run here: {label} drops packets, and {why}"
        ))
    };
    if !engine.is_near() {
        return Err(refused(format!(
            "the engine at {} is not of this machine: disconnect is right instead, or other --faults",
            engine.host()
        )));
    }
    match Filter::here() {
        Ok(_) => Ok(()),
        Err(why) => Err(refused(why)),
    }
}

/// How long a server of the user's may take to accept a connection.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// The largest suite that is read, in bytes.
const LARGEST_SUITE: u64 = 1 << 20;

/// A suite as it was given: a built-in one, or a file.
struct Given {
    origin: String,
    text: String,
}

impl Given {
    /// What is wrong with one of `fields`, with its line where the suite has one.
    fn is_wrong(&self, fields: &[&'static str], message: String) -> HarnessError {
        SuiteError::of_use(fields, message, &self.text, &self.origin).into()
    }

    /// By the name of a built-in one, or of a file.
    fn read(name: &str) -> Result<Self, HarnessError> {
        if let Some(suite) = built_in(name) {
            return Ok(Self {
                origin: format!("built-in suite {name}"),
                text: suite.text.to_owned(),
            });
        }
        let path = Path::new(name);
        let looks_like_a_file = path.extension().is_some() || name.contains('/');
        if !looks_like_a_file && !path.exists() {
            let known: Vec<_> = BUILT_IN.iter().map(|suite| suite.name).collect();
            return Err(HarnessError::Usage(format!(
                "no suite {name:?}: there are {}, or a file such as my-suite.toml",
                known.join(", ")
            )));
        }
        let input = |source| HarnessError::Input {
            path: path.to_owned(),
            source,
        };
        // A pipe would be waited for.
        if !std::fs::metadata(path).map_err(input)?.is_file() {
            return Err(HarnessError::Usage(format!(
                "{name}: no regular file: a TOML file is right"
            )));
        }
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(input)?;
        file.take(LARGEST_SUITE + 1)
            .read_to_string(&mut text)
            .map_err(input)?;
        if text.len() as u64 > LARGEST_SUITE {
            return Err(HarnessError::Usage(format!(
                "{name}: larger than {LARGEST_SUITE} bytes: a suite is a small TOML file"
            )));
        }
        Ok(Self {
            origin: name.to_owned(),
            text,
        })
    }
}

/// Those of `faults` whose kind or label is named.
fn select(faults: &[Fault], wanted: &str) -> Result<Vec<Fault>, HarnessError> {
    let names: Vec<&str> = match wanted {
        "all" => return Ok(faults.to_vec()),
        "none" => return Ok(Vec::new()),
        names => names.split(',').map(str::trim).collect(),
    };
    let fits = |fault: &Fault, name: &str| fault.kind.name() == name || fault.label() == name;
    if let Some(stranger) = names
        .iter()
        .find(|name| !faults.iter().any(|fault| fits(fault, name)))
    {
        let mut known: Vec<_> = faults.iter().map(Fault::label).collect();
        known.dedup();
        return Err(HarnessError::Usage(format!(
            "--faults: the suite has no {stranger:?}: it has {}; \"none\" and \"all\" are right too",
            known.join(", ")
        )));
    }
    Ok(faults
        .iter()
        .filter(|fault| names.iter().any(|name| fits(fault, name)))
        .cloned()
        .collect())
}

/// The command that repeats the plan: the same arguments and the seed.
fn replay(arguments: &RunArguments, seed: Seed) -> String {
    let mut words = vec![
        "fencepost run".to_owned(),
        quoted(&arguments.suite),
        format!("--seed {}", seed.0),
    ];
    words.extend(arguments.force.then(|| "--force".to_owned()));
    words.extend(arguments.teeth.then(|| "--teeth".to_owned()));
    let mut flag = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("--{name} {}", quoted(&value))))
    };
    flag(
        "target",
        arguments.target.map(|target| {
            let name = target.to_possible_value();
            name.map_or_else(String::new, |name| name.get_name().to_owned())
        }),
    );
    flag(
        "time-limit",
        arguments
            .time_limit
            .map(|limit| limit.to_string().replace(' ', "")),
    );
    flag("rate", arguments.rate.map(|rate| rate.to_string()));
    flag(
        "clients",
        arguments.clients.map(|clients| clients.to_string()),
    );
    flag("faults", arguments.faults.clone());
    flag("defect", arguments.defect.clone());
    flag(
        "toxiproxy",
        arguments.toxiproxy.map(|address| address.to_string()),
    );
    words.join(" ")
}

/// Whether there is an executable file of that name, as a shell would find it.
fn can_be_started(program: &str) -> bool {
    let executable = |path: &Path| {
        std::fs::metadata(path)
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return executable(Path::new(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| executable(&folder.join(program)))
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = !word.is_empty()
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_./:,=".contains(c));
    if plain {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn text(end: &RunEnd) -> String {
    let RunEnd {
        record,
        history,
        judgement,
        folder,
    } = end;
    let mut lines = vec![report::run_headline(record, judgement)];
    lines.extend(judgement.findings.iter().map(report::finding_text));
    lines.push(String::new());
    lines.push(report::denominators(history, judgement));
    let not_judged = report::not_judged_text(judgement);
    lines.extend(not_judged.lines().map(str::to_owned));
    lines.extend(
        judgement
            .coverage
            .unexercised
            .iter()
            .map(|what| format!("not exercised  {what}")),
    );
    lines.extend(
        record
            .defect_found
            .iter()
            .map(|found| format!("defect         {found}")),
    );
    lines.extend(
        record
            .teeth
            .iter()
            .map(|teeth| format!("teeth          {}", teeth.sentence())),
    );
    lines.extend(
        record
            .ended_early
            .iter()
            .map(|why| format!("ended early    {why}")),
    );
    lines.extend(
        record
            .troubles
            .iter()
            .map(|trouble| format!("trouble        {trouble}")),
    );
    lines.push(format!("saved          {}", folder.path().display()));
    let page = folder.path().join("report.html");
    if page.exists() {
        lines.push(format!("report         {}", page.display()));
    }
    lines.push(format!("replay         {}", record.replay));
    lines.join("\n") + "\n"
}

fn print_json(end: &RunEnd) {
    let zombies: Vec<_> = report::zombies::zombies(&end.history)
        .iter()
        .map(|zombie| {
            serde_json::json!({
                "id": zombie.id,
                "lock": zombie.lock,
                "client": zombie.client,
                "token": zombie.token,
                "completed": zombie.completed,
                "refused_first": zombie.refused_first,
            })
        })
        .collect();
    let line = serde_json::json!({
        "run": end.record.run,
        "folder": end.folder.path(),
        "seed": end.record.seed,
        "verdict": end.judgement.verdict,
        "reason": end.judgement.reason,
        "findings": end.judgement.findings,
        "coverage": end.judgement.coverage,
        "stats": end.judgement.stats,
        "zombies": zombies,
        "defect_found": end.record.defect_found,
        "teeth": end.record.teeth,
        "exercise": end.record.exercise,
        "ended_early": end.record.ended_early,
        "troubles": end.record.troubles,
        "replay": end.record.replay,
    });
    say_json(&line);
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Verb};

    fn arguments(words: &[&str]) -> RunArguments {
        match Cli::try_parse_from(["fencepost", "run"].iter().chain(words))
            .expect("fine words")
            .verb
        {
            Verb::Run(arguments) => arguments,
            other => panic!("{other:?} is no run"),
        }
    }

    #[test]
    fn every_flag_changes_the_order() {
        let plain = order(&arguments(&["--seed", "1"])).expect("fine");
        let changed =
            |words: &[&str]| order(&arguments(&[&["--seed", "1"], words].concat())).expect("fine");
        assert_ne!(changed(&["--time-limit", "3s"]).suite, plain.suite);
        assert_ne!(changed(&["--rate", "max"]).suite, plain.suite);
        assert_ne!(changed(&["--clients", "4"]).suite, plain.suite);
        assert_ne!(changed(&["--faults", "zombie"]).suite, plain.suite);
        assert_ne!(changed(&["--defect", "unfenced"]).defects, plain.defects);
        assert_ne!(changed(&["--out", "elsewhere"]).out, plain.out);
        let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let api = server.local_addr().expect("an address").to_string();
        let answering = std::thread::spawn(move || {
            let (mut client, _) = server.accept().expect("it is asked");
            let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"version\": \"2.12.0\"}";
            std::io::Write::write_all(&mut client, answer.as_bytes()).expect("sent");
        });
        assert_ne!(changed(&["--toxiproxy", &api]).toxiproxy, plain.toxiproxy);
        answering.join().expect("it was asked");
        assert_ne!(
            order(&arguments(&["--seed", "2"])).expect("fine").seed,
            plain.seed
        );
        assert!(changed(&["--fail-fast"]).fail_fast && changed(&["--keep"]).keep);
    }

    #[test]
    fn the_replay_command_gives_the_same_order_again() {
        let first = arguments(&[
            "default",
            "--time-limit",
            "1m 30s",
            "--rate",
            "12.5",
            "--faults",
            "zombie,kill:lock",
            "--defect",
            "hot-loop",
        ]);
        let one = order(&first).expect("fine");
        let words: Vec<String> = one
            .replay
            .split(' ')
            .skip(2)
            .map(|word| word.trim_matches('\'').to_owned())
            .collect();
        let two = order(&arguments(
            &words.iter().map(String::as_str).collect::<Vec<_>>(),
        ))
        .expect("fine");
        assert_eq!(
            (one.suite, one.seed, one.defects),
            (two.suite, two.seed, two.defects)
        );
    }

    #[test]
    fn what_means_nothing_is_refused_in_one_line_that_says_what_would_be_right() {
        let refusal = |words: &[&str]| {
            order(&arguments(words))
                .expect_err("means nothing")
                .to_string()
        };
        for (words, expected) in [
            (&["nosuch"][..], "no suite \"nosuch\": there are default"),
            (
                &["--defect", "nosuch"],
                "no defect \"nosuch\": there are unfenced, check-then-write, volatile-high-water, ",
            ),
            (
                &["--faults", "flood"],
                "the suite has no \"flood\": it has zombie, pause:worker",
            ),
            (&["--clients", "3"], "workload.locks: 4 locks for 3 clients"),
            (&["no/such.toml"], "no/such.toml: No such file"),
        ] {
            let message = refusal(words);
            assert!(message.contains(expected), "{message}");
            assert!(!message.contains('\n'));
        }
    }
}
