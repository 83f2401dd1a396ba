//! `fencepost selftest`: every row of the catalogue, as a run of its own.

mod under_way;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use fencepost_checker::history::History;
use fencepost_checker::verdict::Verdict;
use serde_json::Value;

use crate::cli::SelftestArguments;
use crate::defects::alternative::{ALTERNATIVES, Alternative};
use crate::defects::{Entry, catalogue, cut_short};
use crate::error::{EXIT_FAILURE, HarnessError};
use crate::machine;
use crate::runner::Interrupts;
use crate::runtime;
use crate::terminal::{complain, print, say_json};
use under_way::UnderWay;

/// One row.
#[derive(Clone, Copy, Debug)]
enum Row {
    /// A planted defect.
    Defect(Entry),
    /// The sound system under the attacks of a suite that brings defects out.
    Sound(&'static str),
    /// A system without a fence.
    Alternative(&'static Alternative),
}

impl Row {
    fn name(&self) -> String {
        match self {
            Self::Defect(entry) => entry.name().to_owned(),
            Self::Sound(suite) => format!("sound: {suite}"),
            Self::Alternative(alternative) => match alternative.defect {
                Some(defect) => format!("{} {defect}", alternative.suite),
                None => alternative.suite.to_owned(),
            },
        }
    }

    /// The words by which a user may mean it.
    fn is_meant_by(&self, word: &str) -> bool {
        let plain = match self {
            Self::Defect(entry) => entry.name(),
            Self::Sound(suite) => suite,
            Self::Alternative(alternative) => alternative.suite,
        };
        plain == word || self.name() == word
    }

    /// Words of which the story of the finding must hold one.
    fn says(&self) -> &'static [&'static str] {
        match self {
            Self::Defect(entry) => entry.says(),
            Self::Sound(_) | Self::Alternative(_) => &[],
        }
    }

    fn suite(&self) -> &'static str {
        match self {
            Self::Defect(entry) => entry.suite(),
            Self::Sound(suite) => suite,
            Self::Alternative(alternative) => alternative.suite,
        }
    }

    fn defect(&self) -> Option<&'static str> {
        match self {
            Self::Defect(entry) => Some(entry.name()),
            Self::Sound(_) => None,
            Self::Alternative(alternative) => alternative.defect,
        }
    }

    /// What must be found; `None`: it must be valid.
    fn must(&self) -> Option<&'static [&'static str]> {
        match self {
            Self::Defect(entry) => Some(entry.found_as()),
            Self::Sound(_) => None,
            Self::Alternative(alternative) => {
                (!alternative.found_as.is_empty()).then_some(alternative.found_as)
            }
        }
    }
}

/// What became of one run of a row.
#[derive(Clone, Debug)]
struct Outcome {
    /// `None`: as it must be; else why not.
    wrong: Option<String>,
    /// What it was found as.
    found: Option<String>,
    /// From the first operation to the last one of the finding's proof.
    seconds: Option<f64>,
    /// The run itself had trouble.
    failed: bool,
}

/// Runs the rows, prints a table, and returns the exit status. A signal ends the runs that are under way, and no other is
/// begun.
///
/// # Errors
/// When a name means no row, or nothing can be started.
pub fn selftest(arguments: &SelftestArguments) -> Result<u8, HarnessError> {
    let rows = rows(&arguments.names)?;
    let runs = Arc::<UnderWay>::default();
    let runtime = runtime::on_two_threads()?;
    let told = Arc::clone(&runs);
    runtime.block_on(async {
        let interrupts = Interrupts::listen();
        tokio::spawn(async move {
            for times in 1.. {
                interrupts.reach(times).await;
                told.end();
            }
        });
    });
    let kept = arguments.out.clone();
    let out = kept.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("fencepost-selftest-{:016x}", machine::entropy()))
    });
    let jobs: Vec<(usize, u32)> = (0..arguments.runs)
        .flat_map(|run| (0..rows.len()).map(move |row| (row, run)))
        .collect();
    let all_runs = jobs.len();
    let queue = Mutex::new(jobs.into_iter());
    let (results, done) = mpsc::channel();
    let mut outcomes: BTreeMap<usize, Vec<Outcome>> = BTreeMap::new();
    std::thread::scope(|scope| {
        for _ in 0..arguments.at_a_time {
            let (queue, results, rows, out) = (&queue, results.clone(), &rows, &out);
            let runs = &runs;
            let keep = kept.is_some();
            scope.spawn(move || {
                loop {
                    let next = queue.lock().ok().and_then(|mut queue| queue.next());
                    let Some((row, run)) = next else { return };
                    let folder = out.join(format!("{row}-{run}"));
                    let outcome = attempt(&rows[row], arguments, run, &folder, runs);
                    let wrong = outcome.as_ref().and_then(|outcome| outcome.wrong.as_ref());
                    if wrong.is_none() && !keep {
                        // What cannot be removed lies in a folder for temporary files.
                        let _ = std::fs::remove_dir_all(&folder);
                    }
                    let Some(outcome) = outcome else { return };
                    if results.send((row, outcome)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        for (row, outcome) in done {
            if let Some(wrong) = &outcome.wrong {
                complain(format_args!("{}: {wrong}", rows[row].name()));
            }
            let of_row = outcomes.entry(row).or_default();
            of_row.push(outcome);
            if arguments.json && of_row.len() == arguments.runs as usize {
                say_json(&json(&rows[row], of_row));
            }
        }
    });
    runtime.shutdown_background();
    if !arguments.json {
        print(&table(&rows, &outcomes));
    }
    let made = outcomes.values().map(Vec::len).sum::<usize>();
    if made < all_runs {
        complain(format_args!(
            "ended by a signal: {made} of {all_runs} runs were made, those under way were ended"
        ));
    }
    let all = || outcomes.values().flatten();
    let wrong = all().filter(|outcome| outcome.wrong.is_some()).count();
    if wrong == 0 && kept.is_none() {
        let _ = std::fs::remove_dir_all(&out);
    } else if wrong > 0 {
        complain(format_args!(
            "{wrong} runs were not as they must be: {}",
            out.display()
        ));
    }
    Ok(match wrong {
        0 if made < all_runs => Verdict::Unknown.exit_code(),
        0 => 0,
        _ if all().any(|outcome| outcome.failed) => EXIT_FAILURE,
        _ => 1,
    })
}

fn rows(names: &[String]) -> Result<Vec<Row>, HarnessError> {
    let entries = catalogue();
    let mut suites: Vec<&'static str> = entries.iter().map(Entry::suite).collect();
    // It brings out no defect of its own: a restart under one identity must never be mistaken for two holders.
    suites.push("teeth-identity");
    suites.sort_unstable();
    suites.dedup();
    let all: Vec<Row> = entries
        .into_iter()
        .map(Row::Defect)
        .chain(suites.into_iter().map(Row::Sound))
        .chain(ALTERNATIVES.iter().map(Row::Alternative))
        .collect();
    if let Some(stranger) = names
        .iter()
        .find(|name| !all.iter().any(|row| row.is_meant_by(name)))
    {
        return Err(HarnessError::Usage(format!(
            "no row {stranger:?}: a defect (`fencepost list defects`) or a suite that begins with teeth or alt, or a row as its table names it, is right"
        )));
    }
    let meant = |row: &Row| names.is_empty() || names.iter().any(|name| row.is_meant_by(name));
    Ok(all.into_iter().filter(meant).collect())
}

/// One run of a row, as a process of its own with a guardian of its own; `None` where a signal ended it or let it not begin.
fn attempt(
    row: &Row,
    arguments: &SelftestArguments,
    run: u32,
    folder: &Path,
    runs: &UnderWay,
) -> Option<Outcome> {
    let failed = |why: String| {
        Some(Outcome {
            wrong: Some(why),
            found: None,
            seconds: None,
            failed: true,
        })
    };
    let Ok(executable) = std::env::current_exe() else {
        return failed("the running program cannot be found".to_owned());
    };
    let mut command = Command::new(executable);
    command.args(["run", row.suite(), "--json", "--seed"]);
    command.arg(arguments.seed.saturating_add(run.into()).to_string());
    command.arg("--out").arg(folder);
    if let Some(defect) = row.defect() {
        command.args(["--defect", defect]);
    }
    // What must be valid runs to its end, and so does what is only to be observed.
    if row.must().is_some_and(|names| !names.is_empty()) {
        command.arg("--fail-fast");
    }
    if let Some(limit) = arguments.time_limit {
        command.args(["--time-limit", &limit.to_string().replace(' ', "")]);
    }
    let ended = match runs.run(&mut command)? {
        Ok(ended) => ended,
        Err(error) => return failed(format!("it could not be started: {error}")),
    };
    let said: Value = match serde_json::from_slice(&ended.stdout) {
        Ok(said) if runs.is_ending() && was_ended(&said) => return None,
        Ok(said) => said,
        Err(_) if runs.is_ending() => return None,
        Err(_) => {
            let words = String::from_utf8_lossy(&ended.stderr);
            let last = words.lines().last().unwrap_or("nothing").to_owned();
            return failed(format!("it ended with {}: {last}", ended.status));
        }
    };
    let outcome = judge(row, &said);
    Some(match row {
        Row::Sound(_) if outcome.wrong.is_none() => silent(outcome, &said),
        _ => outcome,
    })
}

/// Whether a run was ended by a signal before its time.
fn was_ended(said: &Value) -> bool {
    let why = said["ended_early"].as_str().unwrap_or_default();
    why.contains("signal")
}

/// What a defect is only observed by must not be seen of the sound system.
fn silent(outcome: Outcome, said: &Value) -> Outcome {
    let read = || {
        let folder = PathBuf::from(said["folder"].as_str()?);
        let bytes = std::fs::read(folder.join("history.jsonl")).ok()?;
        History::read(&bytes).ok()
    };
    let wrong = match read() {
        None => Some("its recording cannot be read".to_owned()),
        Some(history) => cut_short(&history)
            .first()
            .map(|cut| format!("a lease was cut short: {}", cut.sentence())),
    };
    Outcome { wrong, ..outcome }
}

/// Whether what a run said is what the row asks for.
fn judge(row: &Row, said: &Value) -> Outcome {
    let verdict = said["verdict"].as_str().unwrap_or_default();
    let findings = said["findings"].as_array().map_or(&[][..], Vec::as_slice);
    let troubles = said["troubles"].as_array().map_or(&[][..], Vec::as_slice);
    let names: Vec<&str> = findings
        .iter()
        .filter_map(|one| one["finding"].as_str())
        .collect();
    let reason = said["reason"].as_str().unwrap_or("no reason");
    let told = format!("{verdict} ({reason}), found: {}", names.join(", "));
    let mut outcome = Outcome {
        wrong: None,
        found: None,
        seconds: None,
        failed: !troubles.is_empty(),
    };
    match row.must() {
        None if verdict == "valid" => outcome.found = Some("valid".to_owned()),
        None => outcome.wrong = Some(format!("must be valid, was {told}")),
        Some([]) => {
            let refused = said["coverage"]["zombie_writes_refused"].as_u64();
            let observed = said["defect_found"].is_string();
            if verdict == "valid" && refused > Some(0) && observed {
                outcome.found = Some("leases cut short, stale writes refused".to_owned());
            } else {
                outcome.wrong = Some(format!(
                    "must be valid with refusals and leases cut short, was {told}"
                ));
            }
        }
        Some(wanted) => {
            let wanted_one = |one: &&Value| {
                let name = one["finding"].as_str();
                name.is_some_and(|name| wanted.contains(&name))
            };
            let explains = |one: &&Value| {
                let story = one["story"].as_str().unwrap_or_default();
                let says = row.says();
                says.is_empty() || says.iter().any(|words| story.contains(words))
            };
            let mut found = findings.iter().filter(wanted_one);
            let named = found.clone().next();
            match found.find(explains).or(named) {
                Some(found) if !explains(&found) => {
                    outcome.wrong = Some(format!(
                        "the story must say {:?}, was {}",
                        row.says(),
                        found["story"]
                    ));
                }
                Some(found) => {
                    outcome.found = found["finding"].as_str().map(str::to_owned);
                    outcome.seconds = seconds_to(found, said);
                }
                None => {
                    outcome.wrong = Some(format!(
                        "must be found as {}, was {told}",
                        wanted.join(" or ")
                    ));
                }
            }
        }
    }
    if outcome.failed && outcome.wrong.is_none() {
        let told: Vec<&str> = troubles.iter().filter_map(Value::as_str).collect();
        outcome.wrong = Some(format!("the run itself had trouble: {}", told.join("; ")));
    }
    outcome
}

/// From the first operation to the last event of a finding's proof, by the history of the run.
fn seconds_to(found: &Value, said: &Value) -> Option<f64> {
    let last = found["events"]
        .as_array()?
        .iter()
        .filter_map(Value::as_u64)
        .max()?;
    let folder = PathBuf::from(said["folder"].as_str()?);
    let text = std::fs::read_to_string(folder.join("history.jsonl")).ok()?;
    let mut first = None;
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).ok()?;
        let (Some(index), Some(time)) = (line["index"].as_u64(), line["time"].as_u64()) else {
            continue;
        };
        let first = *first.get_or_insert(time);
        if index == last {
            return Some(time.saturating_sub(first) as f64 / 1e9);
        }
    }
    None
}

/// The middle one and the longest of the times to the finding.
fn times(outcomes: &[Outcome]) -> Option<(f64, f64)> {
    let mut seconds: Vec<f64> = outcomes
        .iter()
        .filter_map(|outcome| outcome.seconds)
        .collect();
    seconds.sort_by(f64::total_cmp);
    Some((*seconds.get(seconds.len() / 2)?, *seconds.last()?))
}

fn found(outcomes: &[Outcome]) -> Vec<String> {
    let mut found: Vec<String> = outcomes
        .iter()
        .filter_map(|one| one.found.clone())
        .collect();
    found.sort();
    found.dedup();
    found
}

fn good(outcomes: &[Outcome]) -> usize {
    outcomes
        .iter()
        .filter(|outcome| outcome.wrong.is_none())
        .count()
}

fn json(row: &Row, outcomes: &[Outcome]) -> Value {
    let wrong: Vec<&String> = outcomes
        .iter()
        .filter_map(|one| one.wrong.as_ref())
        .collect();
    serde_json::json!({
        "row": row.name(),
        "suite": row.suite(),
        "defect": row.defect(),
        "must_be": row.must().map_or(vec!["valid"], <[_]>::to_vec),
        "found_as": found(outcomes),
        "seconds": outcomes.iter().map(|outcome| outcome.seconds).collect::<Vec<_>>(),
        "runs": outcomes.len(),
        "as_it_must_be": good(outcomes),
        "wrong": wrong,
    })
}

fn table(rows: &[Row], outcomes: &BTreeMap<usize, Vec<Outcome>>) -> String {
    let mut text = format!(
        "{:28}{:44}{:>8}{:>8}  runs\n",
        "row", "found as", "median", "longest"
    );
    for (number, outcomes) in outcomes {
        let (good, all) = (good(outcomes), outcomes.len());
        let mark = if good == all {
            ""
        } else {
            "  NOT AS IT MUST BE"
        };
        let (median, longest) = match times(outcomes) {
            Some((median, longest)) => (format!("{median:.1} s"), format!("{longest:.1} s")),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let found = found(outcomes).join(", ");
        let name = rows[*number].name();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{name:28}{found:44}{median:>8}{longest:>8}  {good} of {all}{mark}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(verdict: &str, findings: &[&str]) -> Value {
        let findings: Vec<_> = findings
            .iter()
            .map(|name| json!({"finding": name}))
            .collect();
        json!({"verdict": verdict, "findings": findings, "troubles": [], "coverage": {"zombie_writes_refused": 3}, "stats": {"overlap": {"count": 1}}})
    }

    /// The same with what is said of a planted defect that is only observed.
    fn observed(verdict: &str) -> Value {
        let mut said = said(verdict, &[]);
        said["defect_found"] = "it was observed".into();
        said
    }

    fn told(finding: &str, story: &str) -> Value {
        let mut said = said("invalid", &[finding]);
        said["findings"][0]["story"] = story.into();
        said
    }

    fn row(name: &str) -> Row {
        let rows = rows(&[name.to_owned()]).expect("it is there");
        rows[0]
    }

    #[test]
    fn a_row_asks_for_its_own_finding_and_a_sound_system_for_none() {
        for (row, said, good) in [
            (
                row("unfenced"),
                said("invalid", &["stale-write-accepted"]),
                true,
            ),
            (
                row("unfenced"),
                said("invalid", &["token-regression"]),
                false,
            ),
            (
                row("timestamp-tokens"),
                said("valid", &["timestamp-token"]),
                true,
            ),
            (row("timestamp-tokens"), said("valid", &[]), false),
            (row("never-expires"), said("valid", &["starvation"]), true),
            (row("never-expires"), said("valid", &[]), false),
            (row("grant-to-lapsed-waiter"), observed("valid"), true),
            // What the sound system shows too: refusals, and holds that overlap.
            (row("grant-to-lapsed-waiter"), said("valid", &[]), false),
            (row("grant-to-lapsed-waiter"), observed("invalid"), false),
            (
                row("32-bit-mark"),
                told("token-overflow", "it wraps at 2^31."),
                true,
            ),
            (
                row("32-bit-mark"),
                told("token-overflow", "it is wrong."),
                false,
            ),
            (
                row("unfenced-cache"),
                told("partial-fencing", "by path cache"),
                true,
            ),
            (
                row("unfenced-cache"),
                told("partial-fencing", "by path admin"),
                false,
            ),
            (row("teeth-race"), said("valid", &[]), true),
            (row("teeth-race"), said("unknown", &[]), false),
            (row("alt-shared-file"), said("valid", &[]), false),
        ] {
            let outcome = judge(&row, &said);
            assert_eq!(outcome.wrong.is_none(), good, "{row:?} {outcome:?}");
        }
    }

    #[test]
    fn there_is_a_sound_twin_for_the_suite_of_each_defect() {
        let rows = rows(&[]).expect("all");
        let sound: Vec<_> = rows
            .iter()
            .filter(|row| matches!(row, Row::Sound(_)))
            .collect();
        for row in rows.iter().filter(|row| matches!(row, Row::Defect(_))) {
            assert!(
                sound.iter().any(|sound| sound.suite() == row.suite()),
                "{}",
                row.name()
            );
        }
        assert!(super::rows(&["nosuch".to_owned()]).is_err());
        for row in &rows {
            let name = row.name();
            let meant = super::rows(std::slice::from_ref(&name)).expect("a name of the table");
            assert!(meant.iter().any(|row| row.name() == name), "{name}");
        }
    }
}
