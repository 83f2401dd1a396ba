//! What people look at after a run. Pure: run, history and judgement in, bytes out; no clock, no files, no sockets,
//! so that any saved run can be drawn again, byte for byte.
//!
//! | file | noun |
//! |---|---|
//! | `headline.rs` | verdict and cause in one sentence |
//! | `terminal.rs` | what is printed: findings and denominators |
//! | `summary.rs` | `summary.md` |
//! | `latency.rs` | `plots/latency`: how long every operation took |
//! | `refusals.rs` | `plots/refusals`: whom the fence refused when |
//! | `holders.rs`, `timeline.rs` | `plots/holders`: who believed to hold which token when; start here |
//! | `violation.rs`, `close_up.rs` | `plots/finding-N`: the same, close up, for the finding that the summary numbers N (from 1) |
//! | [`zombies`] | what became of each zombie fault |
//! | `belief.rs`, `lanes.rs`, `bands.rs`, `culprits.rs`, `story.rs` | what the pictures show, before it has a place |
//! | `frame.rs`, `callouts.rs` | heading, axis, legend, captions; labels that keep apart |
//! | [`palette`] | colours and their words |
//! | `sentence.rs` | one operation in a few words |
//! | `plain.rs` | names from outside, made harmless |
//! | `scene.rs`, `paint.rs` | shapes in pixels; SVG and PNG of them |

mod bands;
mod belief;
mod callouts;
mod close_up;
mod culprits;
mod frame;
mod headline;
mod holders;
mod lanes;
mod latency;
mod paint;
pub mod palette;
mod plain;
mod refusals;
#[cfg(test)]
mod sample;
mod scene;
mod sentence;
mod story;
mod summary;
mod terminal;
mod timeline;
mod violation;
pub mod zombies;

use std::collections::HashSet;

use fencepost_checker::history::History;
use fencepost_checker::verdict::Judgement;
use thiserror::Error;

use crate::run_record::RunRecord;
pub use headline::{headline, register_headline};
use scene::Scene;
use summary::Picture;
pub use terminal::{denominators, finding_text};

/// At most so many findings have a picture of their own: the first of each rule.
const MOST_FINDINGS: usize = 6;

/// A file of the report.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Artifact {
    /// Where it goes, relative to the run's folder, with `/`: `summary.md`, `plots/holders.svg`.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// Why a report is not complete; each message fits after "failed to render ".
#[derive(Debug, Error)]
pub enum ReportError {
    /// The bundled font cannot be read.
    #[error("text: the bundled font cannot be read")]
    Font,
    /// A picture that nobody could open, or none at all.
    #[error(
        "a picture of {width} x {height} px: from 1 to {} each way is right",
        paint::LARGEST
    )]
    Size {
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
    },
    /// The drawing backend or the PNG encoder gave up.
    #[error("a picture: {message}")]
    Paint {
        /// What it said.
        message: String,
    },
    /// There are fewer findings.
    #[error("finding {position}: there is none")]
    NoFinding {
        /// From 0.
        position: usize,
    },
    /// The recording does not hold what the finding speaks of.
    #[error("finding {position}: the history holds none of its events")]
    NoEvents {
        /// From 0.
        position: usize,
    },
    /// Some pictures failed. The rest is here, and the summary says what is missing.
    #[error("{}", failures.join("; "))]
    Incomplete {
        /// What could be rendered, the summary always among it.
        artifacts: Vec<Artifact>,
        /// Picture and reason, one line each.
        failures: Vec<String>,
    },
}

impl ReportError {
    /// What could be rendered all the same.
    #[must_use]
    pub fn into_artifacts(self) -> Vec<Artifact> {
        match self {
            Self::Incomplete { artifacts, .. } => artifacts,
            _ => Vec::new(),
        }
    }
}

/// Everything: `summary.md` first, then each plot as SVG and as PNG. The same input gives the same bytes.
///
/// # Errors
/// [`ReportError::Incomplete`] when a picture failed; it carries all the others, see [`ReportError::into_artifacts`].
pub fn render(
    run: &RunRecord,
    history: &History,
    judgement: &Judgement,
) -> Result<Vec<Artifact>, ReportError> {
    let close_up = |position: usize| Plot {
        path: format!("plots/finding-{}", position + 1),
        title: format!("Close up: {}", judgement.findings[position].finding),
        files: violation(run, history, judgement, position),
        finding: Some(position),
    };
    let whole = |name: &str, scene: Scene| Plot {
        path: format!("plots/{name}"),
        files: painted(&scene),
        title: scene.title,
        finding: None,
    };
    let mut plots: Vec<Plot> = pictured(judgement).into_iter().map(close_up).collect();
    plots.push(whole("holders", holders::holders(run, history, judgement)));
    plots.push(whole("refusals", refusals::refusals(run, history)));
    plots.push(whole("latency", latency::latency(run, history)));
    assemble(plots, |drawn, failures| {
        summary::summary(run, history, judgement, drawn, failures)
    })
}

/// The close-up of one finding, as SVG and as PNG.
///
/// # Errors
/// When there is no finding at `position` (from 0), the history holds none of its events, or painting fails.
pub fn violation(
    run: &RunRecord,
    history: &History,
    judgement: &Judgement,
    position: usize,
) -> Result<(Vec<u8>, Vec<u8>), ReportError> {
    painted(&violation::finding_picture(
        run, history, judgement, position,
    )?)
}

/// The positions of the findings with a picture: the first of each rule that has events.
fn pictured(judgement: &Judgement) -> Vec<usize> {
    let mut rules = HashSet::new();
    let findings = judgement.findings.iter().enumerate();
    findings
        .filter(|(_, finding)| !finding.events.is_empty() && rules.insert(&finding.finding))
        .map(|(position, _)| position)
        .take(MOST_FINDINGS)
        .collect()
}

fn painted(scene: &Scene) -> Result<(Vec<u8>, Vec<u8>), ReportError> {
    Ok((paint::svg(scene)?, paint::png(scene)?))
}

/// A picture, if it could be painted.
struct Plot {
    path: String,
    title: String,
    files: Result<(Vec<u8>, Vec<u8>), ReportError>,
    finding: Option<usize>,
}

/// Takes what was painted, then lets `summarise` speak of that and of the failures.
fn assemble(
    plots: Vec<Plot>,
    summarise: impl FnOnce(&[Picture], &[String]) -> String,
) -> Result<Vec<Artifact>, ReportError> {
    let (mut artifacts, mut drawn, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for Plot {
        path,
        title,
        files,
        finding,
    } in plots
    {
        match files {
            Ok((svg, png)) => {
                artifacts.push(Artifact {
                    path: format!("{path}.svg"),
                    bytes: svg,
                });
                artifacts.push(Artifact {
                    path: format!("{path}.png"),
                    bytes: png,
                });
                drawn.push(Picture {
                    path,
                    title,
                    finding,
                });
            }
            Err(error) => failures.push(format!("{path}: {error}")),
        }
    }
    let bytes = summarise(&drawn, &failures).into_bytes();
    artifacts.insert(
        0,
        Artifact {
            path: "summary.md".to_owned(),
            bytes,
        },
    );
    if failures.is_empty() {
        Ok(artifacts)
    } else {
        Err(ReportError::Incomplete {
            artifacts,
            failures,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::sample::{Recording, judgement, run, stale_write_accepted, zombie_accepted};
    use super::*;

    fn paths(artifacts: &[Artifact]) -> Vec<&str> {
        artifacts
            .iter()
            .map(|artifact| artifact.path.as_str())
            .collect()
    }

    #[test]
    fn a_report_is_a_summary_and_each_picture_twice_and_is_the_same_every_time() {
        let (run, history, judgement) = (
            run(),
            zombie_accepted().history(),
            judgement(vec![stale_write_accepted(), stale_write_accepted()]),
        );
        let once = render(&run, &history, &judgement).expect("a sample can be rendered");
        assert_eq!(
            paths(&once),
            [
                "summary.md",
                "plots/finding-1.svg",
                "plots/finding-1.png",
                "plots/holders.svg",
                "plots/holders.png",
                "plots/refusals.svg",
                "plots/refusals.png",
                "plots/latency.svg",
                "plots/latency.png"
            ]
        );
        let again = render(&run, &history, &judgement).expect("a sample can be rendered");
        assert!(once == again, "two renderings differ");
        let (svg, png) = violation(&run, &history, &judgement, 0).expect("there is a finding");
        assert!(svg == once[1].bytes && png == once[2].bytes);
    }

    #[test]
    fn nothing_and_a_single_operation_are_reports_too() {
        let mut single = Recording::default();
        single.write("c1", "s", 1, 0, 0, "ok");
        for recording in [Recording::default(), single] {
            let artifacts = render(&run(), &recording.history(), &judgement(Vec::new()))
                .expect("it can be rendered");
            assert_eq!(artifacts.len(), 7);
        }
    }

    #[test]
    fn a_failing_picture_takes_no_other_with_it() {
        let gone = fencepost_checker::finding::Finding {
            events: vec![999],
            ..stale_write_accepted()
        };
        let error = render(&run(), &zombie_accepted().history(), &judgement(vec![gone]))
            .expect_err("its events are not there");
        assert_eq!(
            error.to_string(),
            "plots/finding-1: finding 0: the history holds none of its events"
        );
        let artifacts = error.into_artifacts();
        assert_eq!(artifacts.len(), 7);
        let summary = String::from_utf8(artifacts[0].bytes.clone()).expect("a summary is UTF-8");
        assert!(
            summary.contains("Not drawn:\n\n- plots/finding-1: finding 0:"),
            "{summary}"
        );
    }

    #[test]
    fn hostile_names_stay_text_in_every_picture() {
        let evil = "</text><script>alert(1)</script>&|`\n\u{0}\u{202e}";
        let mut recording = Recording::default();
        recording
            .grant(evil, evil, 41, 0, 4)
            .zombie(1, evil, evil, 41, 10, 20)
            .write(evil, evil, 41, 30, 31, "ok");
        recording.fault(2, evil, &[evil], 12, Some(25), "unknown");
        let finding = fencepost_checker::finding::Finding {
            finding: evil.to_owned(),
            lock: Some(evil.to_owned()),
            events: vec![0, 1, 6, 7],
            ..stale_write_accepted()
        };
        let artifacts = render(&run(), &recording.history(), &judgement(vec![finding]))
            .expect("it can be rendered");
        for artifact in artifacts
            .iter()
            .filter(|artifact| artifact.path.ends_with(".svg"))
        {
            let document = std::str::from_utf8(&artifact.bytes).expect("SVG is UTF-8");
            assert!(
                !document.contains("<script") && !document.contains(['\u{0}', '\u{202e}']),
                "{}",
                artifact.path
            );
            assert_eq!(
                document.matches("<text").count(),
                document.matches("</text>").count(),
                "{}",
                artifact.path
            );
        }
    }

    #[test]
    fn the_first_finding_of_each_rule_is_pictured_up_to_a_limit() {
        let named = |name: &str, events: Vec<u64>| fencepost_checker::finding::Finding {
            finding: name.to_owned(),
            events,
            ..stale_write_accepted()
        };
        let mut findings = vec![
            named("a", vec![1]),
            named("b", vec![]),
            named("a", vec![2]),
            named("b", vec![3]),
        ];
        assert_eq!(pictured(&judgement(findings.clone())), [0, 3]);
        findings.extend(["c", "d", "e", "f", "g"].map(|name| named(name, vec![1])));
        assert_eq!(pictured(&judgement(findings)), [0, 3, 4, 5, 6, 7]);
    }
}
