//! `fencepost report`: draws a saved run again, from its folder alone.
//!
//! Everything is read and drawn before anything is written, so a folder that is no run stays as it is. A run that was
//! killed, and a recording that was cut short, are drawn as far as they go, and it is said.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use fencepost_checker::history::History;
use fencepost_checker::verdict::Judgement;
use fencepost_checker::{Model, judge};
use serde::de::DeserializeOwned;

use crate::cli::{ReportArguments, ReportFormat};
use crate::error::HarnessError;
use crate::journal::{self, Found};
use crate::report::{self, ReportError, plots};
use crate::run_record::RunRecord;
use crate::terminal::{self, complain};

/// So many things that the reader of the history forgave are told on the terminal; the report has more.
const MOST_WARNINGS: usize = 5;

/// Draws what is asked for; 0 whatever the verdict is.
///
/// # Errors
/// When the arguments do not fit together, the folder holds no run that can be read, or something cannot be drawn or
/// written.
pub fn report(arguments: &ReportArguments) -> Result<u8, HarnessError> {
    let wanted = wanted(arguments)?;
    if wanted == Wanted::Everything {
        return rewrite(&Saved::read(&arguments.run)?, &arguments.run);
    }
    let bitmap = matches!(wanted, Wanted::Plot(_, Picture::Png));
    if bitmap && arguments.out.is_none() && std::io::stdout().is_terminal() {
        return Err(HarnessError::Usage(
            "a PNG is nothing for a terminal: --out FILE, or a pipe, is right".to_owned(),
        ));
    }
    let bytes = Saved::read(&arguments.run)?.made(&wanted)?;
    match &arguments.out {
        Some(path) => write_whole(path, &bytes)?,
        None => terminal::put(&bytes),
    }
    Ok(0)
}

/// What is to be made.
#[derive(Debug, Eq, PartialEq)]
enum Wanted {
    /// All files, in the run's own folder.
    Everything,
    /// One document.
    Document(Document),
    /// One picture.
    Plot(String, Picture),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Document {
    Html,
    Markdown,
    Json,
    Junit,
    Annotations,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Picture {
    Svg,
    Png,
}

fn wanted(arguments: &ReportArguments) -> Result<Wanted, HarnessError> {
    let usage = |message: String| Err(HarnessError::Usage(message));
    if let Some(name) = &arguments.plot {
        if !plots::is_name(name) {
            return usage(format!(
                "--plot: no plot {:?}: {} is right",
                report::plain(name, 60),
                plots::names()
            ));
        }
        let name = name.clone();
        return match arguments.format {
            None | Some(ReportFormat::Svg) => Ok(Wanted::Plot(name, Picture::Svg)),
            Some(ReportFormat::Png) => Ok(Wanted::Plot(name, Picture::Png)),
            Some(_) => usage(
                "--plot: a picture is svg or png; without --plot, html, md, json, junit or github is right"
                    .to_owned(),
            ),
        };
    }
    let document = match arguments.format {
        None if arguments.out.is_some() => {
            return usage(
                "--out: a file holds one thing: --format or --plot says which".to_owned(),
            );
        }
        None => return Ok(Wanted::Everything),
        Some(ReportFormat::Html) => Document::Html,
        Some(ReportFormat::Md) => Document::Markdown,
        Some(ReportFormat::Json) => Document::Json,
        Some(ReportFormat::Junit) => Document::Junit,
        Some(ReportFormat::Github) => Document::Annotations,
        Some(ReportFormat::Svg | ReportFormat::Png) => {
            return usage(format!(
                "--format: svg and png are for one picture: --plot {} is right",
                plots::names()
            ));
        }
    };
    Ok(Wanted::Document(document))
}

/// A run as its folder has it.
struct Saved {
    record: RunRecord,
    history: History,
    judgement: Judgement,
}

impl Saved {
    /// Reads `run.json`, `history.jsonl` and `verdict.json`. Without the last (the run was killed before it was
    /// judged) the history is judged now.
    fn read(folder: &Path) -> Result<Self, HarnessError> {
        if !folder.join("run.json").exists() {
            return Err(HarnessError::Usage(format!(
                "{}: no run: a folder with run.json and history.jsonl, e.g. results/latest, is right",
                folder.display()
            )));
        }
        let mut record: RunRecord = read_json(&folder.join("run.json"))?;
        let recorded = folder.join("history.jsonl");
        let mut history = if record.has_ended() || recorded.exists() {
            read_history(&recorded)?
        } else {
            // Killed before anything was recorded.
            History::read(b"").map_err(|error| HarnessError::Internal(error.to_string()))?
        };
        let verdict = folder.join("verdict.json");
        let judgement: Judgement = if verdict.exists() {
            read_json(&verdict)?
        } else {
            judge(&history, Model::Fencing)
        };
        if !record.has_ended() {
            let said = without_end(&record.run);
            complain(format_args!("{}: {said}", folder.display()));
            record.troubles.push(said);
        }
        let (judged, left) = (judgement.stats.events, history.events);
        if judged != left {
            history.warnings.push(format!(
                "verdict.json was made of {judged} events and history.jsonl has {left}: the verdict stands, the pictures show what is there"
            ));
        }
        for said in history.warnings.iter().take(MOST_WARNINGS) {
            complain(format_args!("{}: {said}", recorded.display()));
        }
        Ok(Self {
            record,
            history,
            judgement,
        })
    }

    fn made(&self, wanted: &Wanted) -> Result<Vec<u8>, HarnessError> {
        let (run, history, judgement) = (&self.record, &self.history, &self.judgement);
        let made = match wanted {
            Wanted::Everything => Ok(Vec::new()),
            Wanted::Document(Document::Html) => Ok(report::html(run, history, judgement)),
            Wanted::Document(Document::Markdown) => Ok(report::markdown(run, history, judgement)),
            Wanted::Document(Document::Json) => Ok(self.json()),
            Wanted::Document(Document::Junit) => Ok(report::junit(run, judgement).into_bytes()),
            Wanted::Document(Document::Annotations) => {
                Ok(report::github_run(run, judgement).into_bytes())
            }
            Wanted::Plot(name, Picture::Svg) => report::plot_svg(name, run, history, judgement),
            Wanted::Plot(name, Picture::Png) => report::plot_png(name, run, history, judgement),
        };
        made.map_err(|error| match error {
            ReportError::NoPlot { .. }
            | ReportError::NoFinding { .. }
            | ReportError::NoEvents { .. } => HarnessError::Usage(format!("--plot: {error}")),
            error => HarnessError::Internal(format!("failed to render {error}")),
        })
    }

    /// One object on one line.
    fn json(&self) -> Vec<u8> {
        let Self {
            record, judgement, ..
        } = self;
        let line = serde_json::json!({
            "run": record.run,
            "suite": record.suite.name.as_str(),
            "seed": record.seed,
            "started": record.started,
            "verdict": judgement.verdict,
            "reason": judgement.reason,
            "findings": judgement.findings,
            "coverage": judgement.coverage,
            "stats": judgement.stats,
            "ended_early": record.ended_early,
            "troubles": record.troubles,
            "replay": record.replay,
        });
        format!("{line}\n").into_bytes()
    }
}

/// What is said of a run whose `run.json` has no end. Its journal tells why: a live harness holds it, a killed one has
/// left it behind, and once everything is undone it is gone.
fn without_end(run: &str) -> String {
    // An id that is none names no folder outside of the journals'.
    let is_id =
        !run.is_empty() && run.len() <= 64 && run.bytes().all(|b| b.is_ascii_alphanumeric());
    let found = is_id.then(|| journal::find(&journal::state_folder(), run).ok());
    match found.flatten() {
        Some(Found::Alive(_)) => {
            "the run has not ended: its harness is still at work; this is what was recorded so far"
                .to_owned()
        }
        Some(Found::Orphan(_)) => format!(
            "the run has no end: its harness was killed; this is what was recorded until then. What it left running is still to be undone: fencepost heal {run}"
        ),
        None => "the run has no end: its harness was killed, or could not write down how it ended (a full disk, a copy that was made before); this is what was recorded until then"
            .to_owned(),
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, HarnessError> {
    std::fs::read(path).map_err(|source| HarnessError::Input {
        path: path.to_owned(),
        source,
    })
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, HarnessError> {
    serde_json::from_slice(&read_file(path)?).map_err(|error| {
        let message = report::plain(&error.to_string(), 300);
        HarnessError::Usage(format!("{}: {message}", path.display()))
    })
}

fn read_history(path: &Path) -> Result<History, HarnessError> {
    History::read(&read_file(path)?).map_err(|error| {
        let message = report::plain(&error.to_string(), 300);
        HarnessError::Usage(format!("{}, {message}", path.display()))
    })
}

/// Writes all files of the report into the run's folder and prints their paths.
fn rewrite(saved: &Saved, folder: &Path) -> Result<u8, HarnessError> {
    let rendered = report::render(&saved.record, &saved.history, &saved.judgement);
    let incomplete = match &rendered {
        // What a recording has lost is no failure of ours.
        Err(error @ ReportError::Incomplete { lost: true, .. }) => {
            complain(format_args!("not drawn: {error}"));
            None
        }
        Err(error) => Some(HarnessError::Internal(format!(
            "the report is incomplete: failed to render {error}"
        ))),
        Ok(_) => None,
    };
    let mut paths = String::new();
    for artifact in rendered.unwrap_or_else(ReportError::into_artifacts) {
        let path = folder.join(&artifact.path);
        write_whole(&path, &artifact.bytes)?;
        paths.push_str(&format!("{}\n", path.display()));
    }
    crate::terminal::print(&paths);
    incomplete.map_or(Ok(0), Err)
}

/// Writes a file with the folders it needs, whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), HarnessError> {
    let write = |partial: &PathBuf| {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(partial, bytes)?;
        std::fs::rename(partial, path)
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let partial = path.with_file_name(format!(".{name}.{}.partial", std::process::id()));
    write(&partial).map_err(|source| {
        // Best effort: what counts is why the file could not be written.
        let _ = std::fs::remove_file(&partial);
        HarnessError::Output {
            path: path.to_owned(),
            source,
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::{Cli, Verb};

    fn asked(words: &[&str]) -> Result<Wanted, String> {
        match Cli::try_parse_from(["fencepost", "report"].iter().chain(words))
            .expect("fine words")
            .verb
        {
            Verb::Report(arguments) => wanted(&arguments).map_err(|error| error.to_string()),
            other => panic!("{other:?} is no report"),
        }
    }

    #[test]
    fn the_help_names_every_picture() {
        let mut cli = Cli::command();
        let verb = cli
            .find_subcommand_mut("report")
            .expect("there is such a verb");
        let help = verb.render_long_help().to_string();
        for plot in &plots::PLOTS {
            assert!(help.contains(plot.name), "{}: {help}", plot.name);
        }
    }

    #[test]
    fn a_picture_is_svg_unless_png_is_asked_for_and_nothing_asked_for_is_everything() {
        let plot = |kind| Ok(Wanted::Plot("lag".to_owned(), kind));
        assert_eq!(asked(&[]), Ok(Wanted::Everything));
        assert_eq!(asked(&["--plot", "lag"]), plot(Picture::Svg));
        assert_eq!(
            asked(&["--plot", "lag", "--format", "png"]),
            plot(Picture::Png)
        );
        assert_eq!(
            asked(&["--format", "junit"]),
            Ok(Wanted::Document(Document::Junit))
        );
        assert!(asked(&["--plot", "lag", "--format", "junit"]).is_err());
    }
}
