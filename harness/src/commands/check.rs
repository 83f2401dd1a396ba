//! `fencepost check`: judges recorded histories.

use std::fs::File;
use std::io::{Cursor, ErrorKind, Read};

use fencepost_checker::history::{self, History, HistoryError, Intake, ReadError};
use fencepost_checker::models::MODELS;
use fencepost_checker::verdict::Judgement;
use fencepost_checker::{Model, judge};

use crate::cli::{CheckArguments, Ci, Format};
use crate::error::{EXIT_USAGE, HarnessError};
use crate::machine;
use crate::report;
use crate::terminal::{complain, print, say};

/// The largest file that is read, in bytes.
const LARGEST: u64 = 16 << 30;

/// How much is looked at before the rest is read, and how much of a pipe is read at a time.
const FIRST_BLOCK: usize = 1 << 16;

/// So many bytes of a pipe show the format.
const ENOUGH: usize = 1 << 12;

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
                let judgement = judge(&history, model);
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
    if file == "-" {
        return read_as_it_comes(std::io::stdin().lock(), format);
    }
    let mut opened = File::open(file)?;
    let length = opened.metadata()?.len();
    if length > LARGEST {
        return Err(too_large());
    }
    let mut beginning = Vec::new();
    (&mut opened)
        .take(FIRST_BLOCK as u64)
        .read_to_end(&mut beginning)?;
    let format = recognise(format, &beginning)?;
    let whole = Cursor::new(beginning).chain(opened);
    match History::read_stream_as(whole, format) {
        Ok(history) => Ok(history),
        Err(ReadError::Io(error)) => Err(error.into()),
        Err(ReadError::History(error)) => Err(Unreadable::History(error)),
    }
}

/// From a pipe: each block is read as it arrives, so that what is wrong is told before the writer has ended.
fn read_as_it_comes(mut pipe: impl Read, format: Format) -> Result<History, Unreadable> {
    let mut beginning = Vec::new();
    let mut block = vec![0; FIRST_BLOCK];
    let mut intake: Option<Intake> = None;
    let mut total = 0;
    loop {
        let length = match pipe.read(&mut block) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        total += length as u64;
        if total > LARGEST {
            return Err(too_large());
        }
        let new = &block[..length];
        match &mut intake {
            Some(intake) if length > 0 => intake.push(new)?,
            Some(_) => break,
            None => {
                beginning.extend_from_slice(new);
                // A format shows within the first lines, however few bytes came with the first block.
                if length == 0 || beginning.len() >= ENOUGH {
                    let format = recognise(format, &beginning)?;
                    intake.insert(Intake::new(format)).push(&beginning)?;
                    if length == 0 {
                        break;
                    }
                }
            }
        }
    }
    match intake {
        Some(intake) => Ok(intake.finish()?),
        None => Ok(History::default()),
    }
}

fn too_large() -> Unreadable {
    Unreadable::Io(format!("larger than {} GiB: split it", LARGEST >> 30))
}

fn recognise(format: Format, beginning: &[u8]) -> Result<history::Format, Unreadable> {
    let known = match format {
        Format::Auto => history::Format::recognise(beginning),
        Format::Jsonl => Some(history::Format::Jsonl),
        Format::Edn => Some(history::Format::Edn),
        Format::JepsenLog => Some(history::Format::JepsenLog),
    };
    known.ok_or_else(|| {
        let message = "no format that is known: one JSON object a line, as `fencepost run` writes it, Jepsen's history.edn \
                       or Jepsen's log is right";
        Unreadable::Io(message.to_owned())
    })
}

impl From<std::io::Error> for Unreadable {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error.to_string())
    }
}

impl From<HistoryError> for Unreadable {
    fn from(error: HistoryError) -> Self {
        Self::History(error)
    }
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
    });
    say(line);
}

fn text(file: &str, history: &History, judgement: &Judgement, model: Model) -> String {
    let headline = match model {
        Model::FencedRegister => report::register_headline(judgement),
        Model::Fencing => report::headline(judgement),
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
