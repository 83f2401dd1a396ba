//! `fencepost check`: judges recorded histories.

use std::fs::File;
use std::io::{Cursor, ErrorKind, Read};
use std::path::Path;
use std::time::Instant;

use fencepost_checker::history::{self, History, HistoryError, Intake, Lines, ReadError};
use fencepost_checker::linearizability::{Impasse, Limits};
use fencepost_checker::models::MODELS;
use fencepost_checker::online::{self, Online};
use fencepost_checker::verdict::Judgement;
use fencepost_checker::{Model, Options, impasses, judge_within};

use crate::cli::{CheckArguments, Ci, Format};
use crate::error::{EXIT_USAGE, HarnessError};
use crate::machine;
use crate::report;
use crate::terminal::{complain, print, say_json};

/// The largest file that is read, in bytes.
const LARGEST: u64 = 16 << 30;

/// How much is looked at before the rest is read, in bytes.
const FIRST_BLOCK: usize = 1 << 16;

/// How much of a pipe is read at a time.
const BLOCK: usize = 1 << 18;

/// So many bytes of a pipe show the format.
const ENOUGH: usize = 1 << 12;

/// So much of standard input is held, to be judged as a whole; what is longer is judged as it comes.
const KEPT: usize = 64 << 20;

/// Judges each file in order; the worst of them is the exit status. One that cannot be read does not stop the others.
///
/// # Errors
/// When there is no such model, or flags do not go together.
pub fn check(arguments: &CheckArguments) -> Result<u8, HarnessError> {
    let model: Model = arguments.model.parse().map_err(|_| {
        let known: Vec<_> = MODELS.iter().map(|&(_, name, _)| name).collect();
        HarnessError::Usage(format!(
            "no model {:?}: there are {}",
            arguments.model,
            known.join(", ")
        ))
    })?;
    let (format, annotated) = match arguments.format {
        Format::Github => (Format::Auto, true),
        format => (format, arguments.annotate == Some(Ci::Github)),
    };
    if annotated && arguments.json {
        return Err(HarnessError::Usage(
            "--json and annotations for a CI do not go together: one of them is right".to_owned(),
        ));
    }
    fits(model, arguments)?;
    let mut worst = 0;
    for file in &arguments.files {
        let judged = if file == "-" {
            judge_pipe(std::io::stdin().lock(), format, model, arguments, KEPT)
        } else {
            read(file, format).map(|history| whole(&history, model, arguments))
        };
        let status = match judged {
            Ok(judged) => {
                if let Some(path) = &arguments.html {
                    write_page(path, file, &judged, model)?;
                }
                if arguments.json {
                    print_json(file, &judged)
                } else if annotated {
                    let word = format!("fencepost-{:016x}", machine::entropy());
                    let text = text(file, &judged, model);
                    print(&report::quoted(&text, &word));
                    print(&report::github(&judged.judgement));
                } else {
                    print(&text(file, &judged, model))
                }
                judged.judgement.verdict.exit_code()
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

/// Whether the flags mean something for this model; what would be ignored is refused.
fn fits(model: Model, arguments: &CheckArguments) -> Result<(), HarnessError> {
    if model == Model::Fencing {
        let given = [
            ("--initial", !arguments.initial.is_null()),
            ("--joined", arguments.joined),
            ("--steps", arguments.steps.is_some()),
            ("--memory", arguments.memory.is_some()),
            ("--within", arguments.within.is_some()),
            ("--html", arguments.html.is_some()),
        ];
        let given: Vec<&str> = given
            .iter()
            .filter(|flag| flag.1)
            .map(|flag| flag.0)
            .collect();
        if !given.is_empty() {
            return Err(HarnessError::Usage(format!(
                "{} {} not apply to the model fencing, which needs no search; another --model is right",
                given.join(", "),
                if given.len() == 1 { "does" } else { "do" }
            )));
        }
    }
    if arguments.html.is_some() && arguments.files.len() > 1 {
        let message = "--html is the page of one file; one FILE is right";
        return Err(HarnessError::Usage(message.to_owned()));
    }
    let admits = model.admits(&arguments.initial, arguments.joined);
    admits.map_err(|unfit| {
        let flag = if arguments.joined {
            "--joined".to_owned()
        } else {
            format!("--initial {}", arguments.initial)
        };
        HarnessError::Usage(format!("{flag}: {unfit}"))
    })
}

fn write_page(path: &Path, file: &str, judged: &Judged, model: Model) -> Result<(), HarnessError> {
    let headline = report::register_headline(&judged.judgement);
    let page = report::impasse_page(file, model.name(), &headline, &judged.impasses);
    std::fs::write(path, page).map_err(|source| HarnessError::Output {
        path: path.to_owned(),
        source,
    })
}

/// Judges a history within the limits that were given; time is counted from here.
fn whole(history: &History, model: Model, arguments: &CheckArguments) -> Judged {
    let begun = Instant::now();
    let late = || arguments.within.is_some_and(|most| begun.elapsed() >= most);
    let limits = Limits {
        steps: arguments.steps,
        memory: arguments.memory.map(|mib| mib.saturating_mul(1 << 20)),
        stop: arguments.within.is_some().then_some(&late),
        threads: None,
    };
    let options = Options {
        initial: arguments.initial.clone(),
        joined: arguments.joined,
        limits,
    };
    let judgement = judge_within(history, model, &options);
    let impasses = match arguments.html {
        Some(_) => impasses(history, &judgement, model, &options),
        None => Vec::new(),
    };
    Judged {
        judgement,
        impasses,
        warnings: history.warnings.clone(),
    }
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

/// What is told of a file.
struct Judged {
    judgement: Judgement,
    /// For a page: where orders end.
    impasses: Vec<Impasse>,
    warnings: Vec<String>,
}

fn read(file: &str, format: Format) -> Result<History, Unreadable> {
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

/// Judges what comes through a pipe. What is no longer than `kept` bytes is judged as a file would be, and what is wrong
/// is told before the writer has ended. JSON lines that are longer are judged as they come, in memory that does not grow
/// with them.
fn judge_pipe(
    mut pipe: impl Read,
    format: Format,
    model: Model,
    arguments: &CheckArguments,
    kept: usize,
) -> Result<Judged, Unreadable> {
    let mut block = vec![0; BLOCK];
    let mut held = Vec::new();
    // A format shows within the first lines, however few bytes came with the first block.
    while held.len() < ENOUGH {
        match next_block(&mut pipe, &mut block)? {
            [] => break,
            new => held.extend_from_slice(new),
        }
    }
    let format = recognise(format, &held)?;
    // A page is made from the whole.
    let streams = format == history::Format::Jsonl
        && Online::judges(model)
        && arguments.initial.is_null()
        && arguments.html.is_none();
    if streams && held.len() > kept {
        return judge_stream(&held, pipe, &mut block, model, kept);
    }
    let mut intake = Intake::new(format);
    intake.push(&held)?;
    let mut total = held.len() as u64;
    loop {
        let new = next_block(&mut pipe, &mut block)?;
        if new.is_empty() {
            break;
        }
        total += new.len() as u64;
        if total > LARGEST {
            return Err(too_large());
        }
        if streams {
            held.extend_from_slice(new);
            if held.len() > kept {
                drop(intake);
                return judge_stream(&held, pipe, &mut block, model, kept);
            }
        }
        intake.push(new)?;
    }
    drop(held);
    Ok(whole(&intake.finish()?, model, arguments))
}

/// Judges JSON lines as they come; `held` is what came before, more than `kept` bytes.
fn judge_stream(
    held: &[u8],
    mut pipe: impl Read,
    block: &mut [u8],
    model: Model,
    kept: usize,
) -> Result<Judged, Unreadable> {
    let mut judge = Online::new(model, online::Limits::default());
    let mut lines = Lines::new(history::Format::Jsonl);
    lines.push(held, &mut |number, line| judge.push(number, line))?;
    loop {
        match next_block(&mut pipe, block)? {
            [] => break,
            new => lines.push(new, &mut |number, line| judge.push(number, line))?,
        }
    }
    lines.end(&mut |number, line| judge.push(number, line))?;
    let mut warnings = lines.warnings().to_vec();
    warnings.extend_from_slice(judge.warnings());
    if model == Model::Fencing {
        warnings.push(format!(
            "longer than {} MiB, so it was judged as it came, by all rules, in memory that does not grow with it: what is far apart in it may go unnoticed; `fencepost check FILE` holds a file as a whole",
            kept >> 20
        ));
    }
    Ok(Judged {
        judgement: judge.finish()?,
        impasses: Vec::new(),
        warnings,
    })
}

/// What has come, at least something; nothing at the end.
fn next_block<'a>(pipe: &mut impl Read, block: &'a mut [u8]) -> Result<&'a [u8], Unreadable> {
    loop {
        match pipe.read(block) {
            Ok(length) => return Ok(&block[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn too_large() -> Unreadable {
    Unreadable::Io(format!("larger than {} GiB: split it", LARGEST >> 30))
}

fn recognise(format: Format, beginning: &[u8]) -> Result<history::Format, Unreadable> {
    let known = match format {
        Format::Auto | Format::Github => history::Format::recognise(beginning),
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

fn print_json(file: &str, judged: &Judged) {
    let judgement = &judged.judgement;
    let line = serde_json::json!({
        "file": file,
        "verdict": judgement.verdict,
        "reason": judgement.reason,
        "findings": judgement.findings,
        "warnings": judged.warnings,
        "coverage": judgement.coverage,
        "stats": judgement.stats,
        "impasses": judgement.impasses,
    });
    say_json(&line);
}

fn text(file: &str, judged: &Judged, model: Model) -> String {
    let judgement = &judged.judgement;
    let headline = match model {
        Model::Fencing => report::headline(judgement),
        _ => report::register_headline(judgement),
    };
    for warning in &judged.warnings {
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
        say_json(
            &serde_json::json!({"file": file, "verdict": null, "error": {"line": line, "field": field, "message": message}}),
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

    const STALE: &str = r#"{"index":0,"time":0,"process":1,"client":"c1","type":"invoke","f":"write","key":"k","token":2,"value":"a"}
{"index":1,"time":1,"process":1,"client":"c1","type":"ok","f":"write"}
{"index":2,"time":2,"process":2,"client":"c2","type":"invoke","f":"write","key":"k","token":1,"value":"b"}
{"index":3,"time":3,"process":2,"client":"c2","type":"ok","f":"write"}
"#;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        check: CheckArguments,
    }

    fn streamed(text: &str, kept: usize) -> Result<Judged, Unreadable> {
        let line: Line = clap::Parser::parse_from(["check", "-"]);
        judge_pipe(
            text.as_bytes(),
            Format::Auto,
            Model::Fencing,
            &line.check,
            kept,
        )
    }

    #[test]
    fn a_stream_that_is_not_held_is_judged_as_it_comes() {
        let marked = format!("\u{feff}{STALE}");
        for text in [
            STALE,
            &marked,
            STALE.trim_end(),
            &format!("{STALE}{{\"index\":4,\"ti"),
        ] {
            let (Ok(held), Ok(passed)) = (streamed(text, KEPT), streamed(text, 0)) else {
                panic!("{text} is well-formed")
            };
            let first = |judged: &Judged| judged.judgement.findings[0].clone();
            assert_eq!(first(&held).finding, "stale-write-accepted");
            assert_eq!(first(&held).events, first(&passed).events);
            assert_eq!(held.judgement.verdict, passed.judgement.verdict);
            let [forgiven @ .., told] = &passed.warnings[..] else {
                panic!("it says how it was judged")
            };
            assert!(told.contains("as it came"), "{told}");
            assert_eq!(forgiven, held.warnings);
        }
    }

    #[test]
    fn a_wrong_line_of_a_stream_is_named_by_its_number() {
        let text = format!("{STALE}\n{{\"index\":9,\"time\":9}}\n");
        let Err(Unreadable::History(error)) = streamed(&text, 0) else {
            panic!("a line without a type is wrong")
        };
        assert_eq!(error.line, 6);
    }

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
