//! `fencepost check`: judges recorded histories.

use std::fs::File;
use std::io::Read;

use fencepost_checker::fencing::FINDINGS;
use fencepost_checker::history::jsonl::{self, Reader};
use fencepost_checker::history::{History, HistoryError};
use fencepost_checker::models::MODELS;
use fencepost_checker::online::{Limits, Online, RULES};
use fencepost_checker::verdict::Judgement;
use fencepost_checker::{Model, judge};

use crate::cli::{CheckArguments, Ci, Format};
use crate::error::{EXIT_USAGE, HarnessError};
use crate::machine;
use crate::report;
use crate::terminal::{complain, print, say};

/// The largest file that is read, in bytes: the whole of it is held in memory.
const LARGEST: u64 = 16 << 30;

/// How much is looked at before the rest is read.
const FIRST_BLOCK: u64 = 1 << 16;

/// How much of a stream is read at a time.
const STREAM_BLOCK: u64 = 1 << 20;

/// So much of standard input is held, to be judged by all rules; what is longer is judged as it comes.
const KEPT: u64 = 64 << 20;

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
    let mut worst = 0;
    for file in &arguments.files {
        let judged = if file == "-" {
            judge_stream(std::io::stdin().lock(), format, model, KEPT)
        } else {
            read(file, format).map(|history| Judged {
                judgement: judge(&history, model),
                warnings: history.warnings,
            })
        };
        let status = match judged {
            Ok(judged) => {
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
    warnings: Vec<String>,
}

fn read(file: &str, format: Format) -> Result<History, Unreadable> {
    let opened = File::open(file).map_err(|error| Unreadable::Io(error.to_string()));
    let bytes = opened.and_then(|file| read_all(file, format))?;
    History::read(&bytes).map_err(Unreadable::History)
}

/// Judges standard input. What is no longer than `kept` bytes is judged as a file would be; what is longer as it comes, in memory that does
/// not grow with it, by the rules that a stream can be judged by.
fn judge_stream(
    mut input: impl Read,
    format: Format,
    model: Model,
    kept: u64,
) -> Result<Judged, Unreadable> {
    let mut block = Vec::new();
    read_block(&mut input, &mut block, FIRST_BLOCK)?;
    look_at(&block, format)?;
    if read_block(&mut input, &mut block, kept)? < kept {
        let history = History::read(&block).map_err(Unreadable::History)?;
        return Ok(Judged {
            judgement: judge(&history, model),
            warnings: history.warnings,
        });
    }
    let mark = b"\xef\xbb\xbf";
    if block.starts_with(mark) {
        block.drain(..mark.len());
    }
    let mut online = Online::new(model, Limits::default());
    let mut past = Reader::new(b"");
    loop {
        let lines = block.iter().rposition(|&byte| byte == b'\n');
        let whole = lines.map_or(0, |end| end + 1);
        past = feed(&past, &block[..whole], &mut online)?;
        block = block.split_off(whole);
        // A line that is longer than any that is read is not waited for.
        if block.len() > jsonl::MAX_LINE || read_block(&mut input, &mut block, STREAM_BLOCK)? == 0 {
            past = feed(&past, &block, &mut online)?;
            break;
        }
    }
    let mut warnings = past.warnings().to_vec();
    warnings.extend_from_slice(online.warnings());
    if model == Model::Fencing {
        warnings.push(format!(
            "longer than {} MiB, so it was judged as it came, by {} of {} rules; `fencepost check FILE` judges a file by all",
            kept >> 20,
            RULES.len(),
            FINDINGS.len()
        ));
    }
    let judgement = online.finish().map_err(Unreadable::History)?;
    Ok(Judged {
        judgement,
        warnings,
    })
}

/// Hands whole lines to the judge; returns a reader that knows where they stood.
fn feed<'a>(
    past: &Reader<'_>,
    lines: &[u8],
    online: &mut Online,
) -> Result<Reader<'a>, Unreadable> {
    let mut reader = past.continued(lines);
    while let Some((number, line)) = reader.next_line().map_err(Unreadable::History)? {
        online.push(number, line).map_err(Unreadable::History)?;
    }
    Ok(reader.continued(b""))
}

/// Appends what comes next; 0 at the end.
fn read_block(input: &mut impl Read, block: &mut Vec<u8>, most: u64) -> Result<u64, Unreadable> {
    let io = |error: std::io::Error| Unreadable::Io(error.to_string());
    let read = input.take(most).read_to_end(block).map_err(io)?;
    Ok(read as u64)
}

fn look_at(bytes: &[u8], format: Format) -> Result<(), Unreadable> {
    if format == Format::Auto && !looks_like_jsonl(bytes) {
        let message = "no format that is known: one JSON object a line, as `fencepost run` writes it, is right";
        return Err(Unreadable::Io(message.to_owned()));
    }
    Ok(())
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
    look_at(&bytes, format)?;
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
    });
    say(line);
}

fn text(file: &str, judged: &Judged, model: Model) -> String {
    let judgement = &judged.judgement;
    let headline = match model {
        Model::FencedRegister => report::register_headline(judgement),
        Model::Fencing => report::headline(judgement),
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

    const STALE: &str = r#"{"index":0,"time":0,"process":1,"client":"c1","type":"invoke","f":"write","key":"k","token":2,"value":"a"}
{"index":1,"time":1,"process":1,"client":"c1","type":"ok","f":"write"}
{"index":2,"time":2,"process":2,"client":"c2","type":"invoke","f":"write","key":"k","token":1,"value":"b"}
{"index":3,"time":3,"process":2,"client":"c2","type":"ok","f":"write"}
"#;

    fn streamed(text: &str, kept: u64) -> Result<Judged, Unreadable> {
        judge_stream(text.as_bytes(), Format::Auto, Model::Fencing, kept)
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
                panic!("it says by which rules it was judged")
            };
            assert!(told.contains(" rules; "), "{told}");
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
