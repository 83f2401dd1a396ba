//! What people look at after a run. Pure: run, history and judgement in, bytes out; no clock, no files, no sockets,
//! so that any saved run can be drawn again, byte for byte.
//!
//! | file | noun |
//! |---|---|
//! | `headline.rs` | verdict and cause in one sentence |
//! | `terminal.rs` | what is printed: findings and denominators |
//! | `page.rs`, `markup.rs`, `page.css` | `report.html` |
//! | `impasse.rs` | where the order of a model ends: the page of `check --html` |
//! | `summary.rs` | `summary.md` |
//! | `junit.rs`, `annotations.rs` | `junit.xml`; what a CI shows beside a job |
//! | [`plots`] | the table of pictures: start here |
//! | `drawings.rs` | which of them a report has, painted |
//! | `holders.rs`, `timeline.rs` | `plots/holders`: who believed to hold which token when |
//! | `latency.rs`, `quantiles.rs`, `rate.rs` | how long operations took, each and in spans; how many there were |
//! | `refusals.rs`, `lag.rs`, `marks.rs` | whom the fence refused when; how stale they were; counter and high water |
//! | `handover.rs` | how long a lock could not be written to after a stop |
//! | `violation.rs`, `close_up.rs` | `plots/finding-N`: the holder timeline, close up, for the finding that reports number N (from 1) |
//! | [`zombies`], `fault_table.rs` | what became of each zombie fault, and of each fault |
//! | `source.rs`, `belief.rs`, `late.rs`, `successions.rs`, `lanes.rs`, `bands.rs`, `bins.rs`, `culprits.rs`, `story.rs` | what the pictures show, before it has a place |
//! | `omissions.rs` | what a timeline has no room for |
//! | `panel.rs`, `frame.rs`, `scale.rs`, `callouts.rs` | heading, axes, legend, captions; labels that keep apart |
//! | [`palette`] | colours and their words |
//! | `sentence.rs` | one operation in a few words |
//! | `plain.rs` | names from outside, made harmless |
//! | `scene.rs`, `paint.rs`, `svg.rs`, `typeface.rs` | shapes in pixels; PNG and SVG of them; the font |

mod annotations;
mod bands;
mod belief;
mod bins;
mod callouts;
mod close_up;
mod culprits;
mod drawings;
mod fault_table;
mod frame;
mod handover;
mod headline;
mod holders;
mod impasse;
mod junit;
mod lag;
mod lanes;
mod late;
mod latency;
mod marks;
mod markup;
mod omissions;
mod page;
mod paint;
pub mod palette;
mod panel;
mod plain;
pub mod plots;
mod quantiles;
mod rate;
mod refusals;
#[cfg(test)]
mod sample;
mod scale;
mod scene;
mod sentence;
mod source;
mod story;
mod successions;
mod summary;
mod svg;
mod terminal;
mod timeline;
mod typeface;
mod violation;
pub mod zombies;

use fencepost_checker::history::History;
use fencepost_checker::verdict::Judgement;
use thiserror::Error;

use crate::run_record::RunRecord;
pub use annotations::{github, github_run, quoted};
use drawings::{Failure, Wanted, drawn, inlays, scene_of, that_fit, wanted};
pub use headline::{headline, register_headline, run_headline};
pub use impasse::impasse_page;
pub use junit::junit;
pub use plain::{is_hidden, plain};
use source::Source;
use summary::Picture;
pub use terminal::{denominators, finding_text, not_judged_text};

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
    /// No picture is called so.
    #[error("a plot {name:?}: there is none; {} is right", plots::names())]
    NoPlot {
        /// As it was asked for.
        name: String,
    },
    /// There are fewer findings.
    #[error("finding {}: there is none", position + 1)]
    NoFinding {
        /// From 0.
        position: usize,
    },
    /// The recording does not hold what the finding speaks of.
    #[error("finding {}: the history holds none of its events", position + 1)]
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
        /// All of them fail because the recording has lost what they are of: nothing could have done better.
        lost: bool,
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

/// Everything: `report.html`, `summary.md` and `junit.xml`, then each plot as SVG and as PNG. The same input gives the
/// same bytes.
///
/// # Errors
/// [`ReportError::Incomplete`] when a picture failed; it carries all the others, see [`ReportError::into_artifacts`].
pub fn render(
    run: &RunRecord,
    history: &History,
    judgement: &Judgement,
) -> Result<Vec<Artifact>, ReportError> {
    let source = Source::new(run, history, judgement);
    let drawn = drawn(&source, &wanted(judgement));
    let mut failures: Vec<Failure> = Vec::new();
    let (mut inlays, mut pictures, mut files) = (Vec::new(), Vec::new(), Vec::new());
    for drawing in drawn {
        match drawing {
            Ok(drawing) => {
                inlays.push(drawing.inlay);
                pictures.extend(drawing.picture);
                files.extend(drawing.files);
            }
            Err(failure) => failures.push(failure),
        }
    }
    let document = |path: &str, text: String| Artifact {
        path: path.to_owned(),
        bytes: text.into_bytes(),
    };
    let lost = failures.iter().all(|failure| failure.lost);
    let failures: Vec<String> = failures.into_iter().map(|failure| failure.line).collect();
    let inlays = that_fit(inlays);
    let mut artifacts = vec![
        document("report.html", page::page(&source, &inlays, &failures)),
        document(
            "summary.md",
            summary::summary(run, history, judgement, &pictures, &failures),
        ),
        document("junit.xml", junit::junit(run, judgement)),
    ];
    artifacts.extend(files);
    if failures.is_empty() {
        Ok(artifacts)
    } else {
        Err(ReportError::Incomplete {
            artifacts,
            failures,
            lost,
        })
    }
}

/// Only `report.html`. It says which pictures could not be drawn.
#[must_use]
pub fn html(run: &RunRecord, history: &History, judgement: &Judgement) -> Vec<u8> {
    let source = Source::new(run, history, judgement);
    let (mut shown, mut failures) = (Vec::new(), Vec::new());
    for inlay in inlays(&source, &wanted(judgement)) {
        match inlay {
            Ok(inlay) => shown.push(inlay),
            Err(failure) => failures.push(failure.line),
        }
    }
    page::page(&source, &that_fit(shown), &failures).into_bytes()
}

/// Only `summary.md`; it names the pictures without drawing them.
#[must_use]
pub fn markdown(run: &RunRecord, history: &History, judgement: &Judgement) -> Vec<u8> {
    let wanted = wanted(judgement);
    let pictures: Vec<Picture> = wanted
        .iter()
        .filter(|wanted| wanted.filed)
        .map(Wanted::picture)
        .collect();
    summary::summary(run, history, judgement, &pictures, &[]).into_bytes()
}

/// One picture as an SVG document.
///
/// # Errors
/// When there is no picture of that name, or it cannot be drawn.
pub fn plot_svg(
    name: &str,
    run: &RunRecord,
    history: &History,
    judgement: &Judgement,
) -> Result<Vec<u8>, ReportError> {
    paint::svg(&scene_of(name, &Source::new(run, history, judgement))?)
}

/// One picture as a PNG file.
///
/// # Errors
/// When there is no picture of that name, or it cannot be drawn.
pub fn plot_png(
    name: &str,
    run: &RunRecord,
    history: &History,
    judgement: &Judgement,
) -> Result<Vec<u8>, ReportError> {
    paint::png(&scene_of(name, &Source::new(run, history, judgement))?)
}

#[cfg(test)]
mod tests {
    use super::plots::PLOTS;
    use super::sample::{Recording, judgement, run, stale_write_accepted, zombie_accepted};
    use super::*;

    fn paths(artifacts: &[Artifact]) -> Vec<&str> {
        artifacts
            .iter()
            .map(|artifact| artifact.path.as_str())
            .collect()
    }

    #[test]
    fn a_report_is_its_documents_and_each_picture_twice_and_is_the_same_every_time() {
        let (run, history, judgement) = (
            run(),
            zombie_accepted().history(),
            judgement(vec![stale_write_accepted(), stale_write_accepted()]),
        );
        let once = render(&run, &history, &judgement).expect("a sample can be rendered");
        let mut expected = vec![
            "report.html".to_owned(),
            "summary.md".to_owned(),
            "junit.xml".to_owned(),
        ];
        let names = PLOTS.iter().map(|plot| plot.name);
        for name in std::iter::once("finding-1").chain(names) {
            expected.extend(["svg", "png"].map(|kind| format!("plots/{name}.{kind}")));
        }
        assert_eq!(paths(&once), expected);
        let again = render(&run, &history, &judgement).expect("a sample can be rendered");
        assert!(once == again, "two renderings differ");
        let alone = |name| plot_svg(name, &run, &history, &judgement).expect("it can be drawn");
        assert!(alone("finding-1") == once[3].bytes && alone("holders") == once[5].bytes);
        let alone = plot_png("finding-1", &run, &history, &judgement).expect("it can be drawn");
        assert!(alone == once[4].bytes);
        assert!(html(&run, &history, &judgement) == once[0].bytes);
        assert!(markdown(&run, &history, &judgement) == once[1].bytes);
    }

    #[test]
    fn nothing_and_a_single_operation_are_reports_too() {
        let mut single = Recording::default();
        single.write("c1", "s", 1, 0, 0, "ok");
        for recording in [Recording::default(), single] {
            let artifacts = render(&run(), &recording.history(), &judgement(Vec::new()))
                .expect("it can be rendered");
            assert_eq!(artifacts.len(), 3 + 2 * PLOTS.len());
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
        assert!(matches!(error, ReportError::Incomplete { lost: true, .. }));
        assert_eq!(
            error.to_string(),
            "plots/finding-1: finding 1: the history holds none of its events"
        );
        let artifacts = error.into_artifacts();
        assert_eq!(artifacts.len(), 3 + 2 * PLOTS.len());
        for document in &artifacts[..2] {
            let text = String::from_utf8(document.bytes.clone()).expect("a document is UTF-8");
            assert!(
                text.contains("Not drawn:") && text.contains("plots/finding-1: finding 1:"),
                "{text}"
            );
        }
    }

    #[test]
    fn pictures_in_the_page_have_no_ids_so_none_can_clash_and_no_address() {
        let (history, judgement) = (
            zombie_accepted().history(),
            judgement(vec![stale_write_accepted(), stale_write_accepted()]),
        );
        let page = html(&run(), &history, &judgement);
        let page = String::from_utf8(page).expect("a page is UTF-8");
        assert_eq!(page.matches("<svg ").count(), 2 + PLOTS.len());
        for part in page.split("<svg ").skip(1) {
            let picture = part.split("</svg>").next().expect("it ends");
            assert!(
                !picture.contains("id=") && !picture.contains("href"),
                "{picture}"
            );
        }
        let mut ids: Vec<&str> = page
            .split(" id=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "each id once");
        assert_eq!(page.matches("@font-face").count(), 1, "the font once");
        assert!(
            page.contains("src: url(data:font/woff2;base64,") && page.contains("font-src data:")
        );
        assert!(!page.contains("://") && !page.contains("src=") && !page.contains("<script"));
        for target in page.split("href=\"").skip(1) {
            let target = target.split('"').next().expect("it ends");
            assert!(ids.contains(&target.trim_start_matches('#')), "{target}");
        }
    }

    #[test]
    fn hostile_names_stay_text_and_short_everywhere() {
        let evil = "</text></script><script>alert(1)</script>\"><img src=x onerror=alert(1)>]]>&|`\n\u{0}\u{202e}";
        let evil = &format!("{evil}{}", "x".repeat(10_000));
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
            .filter(|artifact| !artifact.path.ends_with(".png"))
        {
            let document = std::str::from_utf8(&artifact.bytes).expect("it is UTF-8");
            assert!(
                !document.contains("<script")
                    && !document.contains("<img")
                    && !document.contains("]]>")
                    && !document.contains(['\u{0}', '\u{202e}']),
                "{}",
                artifact.path
            );
            assert!(document.len() < 200_000, "{}", artifact.path);
            assert_eq!(
                document.matches("<text").count(),
                document.matches("</text>").count(),
                "{}",
                artifact.path
            );
        }
    }
}
