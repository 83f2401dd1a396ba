//! `fencepost check`: judges recorded histories.

use std::fs::File;
use std::io::Read;
use std::time::Instant;

use fencepost_checker::history::{History, HistoryError};
use fencepost_checker::linearizability::Limits;
use fencepost_checker::models::MODELS;
use fencepost_checker::verdict::Judgement;
use fencepost_checker::{Model, Options, judge_within};

use crate::cli::{CheckArguments, Ci, Format};
use crate::error::{EXIT_USAGE, HarnessError};
use crate::machine;
use crate::report;
use crate::terminal::{complain, print, say};

/// The largest file that is read, in bytes: the whole of it is held in memory.
const LARGEST: u64 = 16 << 30;

/// How much is looked at before the rest is read.
const FIRST_BLOCK: u64 = 1 << 16;

/// Judges each file in order; the worst of them is the exit status. One that cannot be read does not stop the others.
///
/// # Errors
/// When there is no such model.
pub fn check(arguments: &CheckArguments) -> Result<u8, HarnessError> {
    let model: Model = arguments.model.parse().map_err(|_| {
        let known: Vec<_> = MODELS.iter().map(|&(_, name, _)| name).collect();
        HarnessError::Usage(format!(
            "no model {:?}: there are {}",
            arguments.model,
            known.join(", ")
        ))
    })?;
    let mut worst = 0;
    for file in &arguments.files {
        let status = match read(file, arguments.format) {
            Ok(history) => {
                let judgement = judged(&history, model, arguments);
                if arguments.json {
                    print_json(file, &history, &judgement)
                } else if arguments.annotate == Some(Ci::Github) {
                    let word = format!("fencepost-{:016x}", machine::entropy());
                    let text = text(file, &history, &judgement, model);
                    print(&report::quoted(&text, &word));
                    print(&report::github(&judgement));
                } else {
                    print(&text(file, &history, &judgement, model))
                }
                judgement.verdict.exit_code()
            }
            Err(unreadable) => {
                report_unreadable(file, &unreadable, arguments.json);
                EXIT_USAGE
            }
        };
        worst = worse(worst, status);
    }
    Ok(worst)
}

/// Within the limits that were given; time is counted from here.
fn judged(history: &History, model: Model, arguments: &CheckArguments) -> Judgement {
    let begun = Instant::now();
    let late = || arguments.within.is_some_and(|most| begun.elapsed() >= most);
    let limits = Limits {
        steps: arguments.steps,
        memory: arguments.memory.map(|mib| mib.saturating_mul(1 << 20)),
        stop: arguments.within.is_some().then_some(&late),
        threads: None,
    };
    let initial = arguments.initial.clone();
    judge_within(history, model, &Options { initial, limits })
}

/// The worse of two exit statuses; worst first: 1, 70, 64, 2, 0.
fn worse(a: u8, b: u8) -> u8 {
    let rank = |status: u8| [0, 2, 64, 70, 1].iter().position(|&known| known == status);
    if rank(a) >= rank(b) { a } else { b }
}

/// Why a file could not be judged.
enum Unreadable {
    Io(String),
    History(HistoryError),
}

fn read(file: &str, format: Format) -> Result<History, Unreadable> {
    let bytes = if file == "-" {
        read_all(std::io::stdin().lock(), format)
    } else {
        let opened = File::open(file).map_err(|error| Unreadable::Io(error.to_string()));
        opened.and_then(|file| read_all(file, format))
    };
    History::read(&bytes?).map_err(Unreadable::History)
}

/// All of a file, if its first block looks right: so that what is no history is not read to its end.
fn read_all(file: impl Read, format: Format) -> Result<Vec<u8>, Unreadable> {
    let io = |error: std::io::Error| Unreadable::Io(error.to_string());
    let mut bytes = Vec::new();
    let mut file = file.take(LARGEST);
    (&mut file)
        .take(FIRST_BLOCK)
        .read_to_end(&mut bytes)
        .map_err(io)?;
    if format == Format::Auto && !looks_like_jsonl(&bytes) {
        let message = "no format that is known: one JSON object a line, as `fencepost run` writes it, is right";
        return Err(Unreadable::Io(message.to_owned()));
    }
    file.read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 >= LARGEST {
        return Err(Unreadable::Io(format!(
            "larger than {} GiB: split it",
            LARGEST >> 30
        )));
    }
    Ok(bytes)
}

/// The first thing in it is an object, or there is nothing.
fn looks_like_jsonl(bytes: &[u8]) -> bool {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    text.iter()
        .find(|byte| !byte.is_ascii_whitespace())
        .is_none_or(|&first| first == b'{')
}

fn print_json(file: &str, history: &History, judgement: &Judgement) {
    let line = serde_json::json!({
        "file": file,
        "verdict": judgement.verdict,
        "reason": judgement.reason,
        "findings": judgement.findings,
        "warnings": history.warnings,
        "coverage": judgement.coverage,
        "stats": judgement.stats,
        "impasses": judgement.impasses,
    });
    say(line);
}

fn text(file: &str, history: &History, judgement: &Judgement, model: Model) -> String {
    let headline = match model {
        Model::Fencing => report::headline(judgement),
        _ => report::register_headline(judgement),
    };
    for warning in &history.warnings {
        complain(format_args!("{file}: {warning}"));
    }
    let mut text = format!("{file}: {headline}\n");
    text.push_str(&report::not_judged_text(judgement));
    for finding in &judgement.findings {
        text.push_str(&report::finding_text(finding));
        text.push('\n');
    }
    text
}

fn report_unreadable(file: &str, unreadable: &Unreadable, json: bool) {
    let (line, field, message) = match unreadable {
        Unreadable::Io(message) => (None, None, message.clone()),
        Unreadable::History(error) => {
            (Some(error.line), error.field.clone(), error.message.clone())
        }
    };
    if json {
        say(
            serde_json::json!({"file": file, "verdict": null, "error": {"line": line, "field": field, "message": message}}),
        );
    } else {
        let place = line.map_or(String::new(), |line| format!(", line {line}"));
        let field = field.map_or(String::new(), |field| format!(", field {field}"));
        complain(format_args!("{file}{place}{field}: {message}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_status_wins_in_the_documented_order() {
        let order = [1, 70, 64, 2, 0];
        for (position, &worst) in order.iter().enumerate() {
            for &other in &order[position..] {
                assert_eq!(worse(worst, other), worst);
                assert_eq!(worse(other, worst), worst);
            }
        }
    }
}
