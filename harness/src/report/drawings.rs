//! Which pictures a report has, and each of them painted for all the places where it goes.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use fencepost_checker::verdict::Judgement;

use super::page::Inlay;
use super::plain::plain;
use super::plots::{self, PLOTS};
use super::scene::Scene;
use super::source::Source;
use super::summary::Picture;
use super::{Artifact, ReportError, paint};

/// At most so many findings have files of their own: the first of each rule.
const MOST_FILES: usize = 6;
/// At most so many findings have a picture in the page ...
const MOST_INLAYS: usize = 60;
/// ... and no more than fit into so many bytes: the page stays under 5 MB.
const MOST_INLAID: usize = 1_500_000;

/// A picture that a report is to have.
pub struct Wanted {
    /// As in [`super::plots::scene`].
    pub name: String,
    /// What it shows.
    pub title: String,
    /// The position of the finding that it tells, where it tells one.
    pub finding: Option<usize>,
    /// It has files of its own.
    pub filed: bool,
}

impl Wanted {
    /// As a summary names it.
    #[must_use]
    pub fn picture(&self) -> Picture {
        Picture {
            path: format!("plots/{}", self.name),
            title: self.title.clone(),
            finding: self.finding,
        }
    }
}

/// The first findings that have events, then every plot.
#[must_use]
pub fn wanted(judgement: &Judgement) -> Vec<Wanted> {
    let filed = pictured(judgement);
    let told = judgement
        .findings
        .iter()
        .enumerate()
        .filter(|(_, finding)| !finding.events.is_empty());
    let inlaid = told.map(|(position, _)| position).take(MOST_INLAYS);
    let positions: BTreeSet<usize> = inlaid.chain(filed.iter().copied()).collect();
    let close_ups = positions.into_iter().map(|position| Wanted {
        name: format!("finding-{}", position + 1),
        title: format!("Close up: {}", judgement.findings[position].finding),
        finding: Some(position),
        filed: filed.contains(&position),
    });
    let whole = PLOTS.iter().map(|plot| Wanted {
        name: plot.name.to_owned(),
        title: plot.title.to_owned(),
        finding: None,
        filed: true,
    });
    close_ups.chain(whole).collect()
}

/// The positions of the findings with files of their own: the first of each rule that has events.
fn pictured(judgement: &Judgement) -> Vec<usize> {
    let mut rules = HashSet::new();
    let findings = judgement.findings.iter().enumerate();
    findings
        .filter(|(_, finding)| !finding.events.is_empty() && rules.insert(&finding.finding))
        .map(|(position, _)| position)
        .take(MOST_FILES)
        .collect()
}

/// Why a picture is missing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    /// Picture and reason, in one line.
    pub line: String,
    /// The recording has lost what the picture is of: nothing can draw it any more.
    pub lost: bool,
}

impl Failure {
    fn of(wanted: &Wanted, error: &ReportError) -> Self {
        Self {
            line: format!("plots/{}: {error}", wanted.name),
            lost: matches!(error, ReportError::NoEvents { .. }),
        }
    }
}

/// Leaves out close-ups of findings that would make the page too large; the last ones go first.
#[must_use]
pub fn that_fit(inlays: Vec<Inlay>) -> Vec<Inlay> {
    let mut room = MOST_INLAID;
    let mut fits = |inlay: &Inlay| {
        if !inlay.name.starts_with("finding-") {
            return true;
        }
        // Once one found no room, none after it does: what is left out is the end of the list.
        room = room.saturating_sub(inlay.svg.len());
        room > 0
    };
    inlays.into_iter().filter(|inlay| fits(inlay)).collect()
}

/// A picture, painted for all its places.
pub struct Drawing {
    /// For the page.
    pub inlay: Inlay,
    /// For the summary, where it has files of its own.
    pub picture: Option<Picture>,
    /// Those files.
    pub files: Vec<Artifact>,
}

/// Each picture for all its places, or why there is none.
#[must_use]
pub fn drawn(source: &Source<'_>, wanted: &[Wanted]) -> Vec<Result<Drawing, Failure>> {
    side_by_side(source, wanted, |wanted| drawing(source, wanted))
}

/// Each picture for the page alone, or why there is none.
#[must_use]
pub fn inlays(source: &Source<'_>, wanted: &[Wanted]) -> Vec<Result<Inlay, Failure>> {
    side_by_side(source, wanted, |wanted| {
        inlay(wanted, &scene_of(&wanted.name, source)?)
    })
}

/// Pictures are painted side by side, because bitmaps are slow to compress.
fn side_by_side<T: Send>(
    source: &Source<'_>,
    wanted: &[Wanted],
    draw: impl Fn(&Wanted) -> Result<T, ReportError> + Sync,
) -> Vec<Result<T, Failure>> {
    // Derived once, before all of them ask for it at the same time.
    let _ = source.beliefs();
    let painters = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(4));
    let next = AtomicUsize::new(0);
    let paint_some = || {
        let mut painted = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(wanted) = wanted.get(place) else {
                return painted;
            };
            let drawing = draw(wanted).map_err(|error| Failure::of(wanted, &error));
            painted.push((place, drawing));
        }
    };
    let mut painted: Vec<(usize, Result<T, Failure>)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..painters).map(|_| scope.spawn(paint_some)).collect();
        let mut painted = paint_some();
        for other in others {
            match other.join() {
                Ok(more) => painted.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        painted
    });
    painted.sort_by_key(|(place, _)| *place);
    painted.into_iter().map(|(_, drawing)| drawing).collect()
}

fn inlay(wanted: &Wanted, scene: &Scene) -> Result<Inlay, ReportError> {
    Ok(Inlay {
        name: wanted.name.clone(),
        svg: paint::inline(scene)?,
    })
}

fn drawing(source: &Source<'_>, wanted: &Wanted) -> Result<Drawing, ReportError> {
    let scene = scene_of(&wanted.name, source)?;
    let inlay = inlay(wanted, &scene)?;
    let file = |kind: &str, bytes: Vec<u8>| Artifact {
        path: format!("plots/{}.{kind}", wanted.name),
        bytes,
    };
    let files = if wanted.filed {
        vec![
            file("svg", paint::svg(&scene)?),
            file("png", paint::png(&scene)?),
        ]
    } else {
        Vec::new()
    };
    Ok(Drawing {
        inlay,
        picture: wanted.filed.then(|| wanted.picture()),
        files,
    })
}

/// The picture of that name.
///
/// # Errors
/// When there is none, or the recording does not hold what it needs.
pub fn scene_of(name: &str, source: &Source<'_>) -> Result<Scene, ReportError> {
    plots::scene(name, source).unwrap_or_else(|| {
        Err(ReportError::NoPlot {
            name: plain(name, 60),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::sample::{judgement, stale_write_accepted};
    use super::*;

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

    #[test]
    fn more_findings_are_in_the_page_than_have_files() {
        let wanted = wanted(&judgement(vec![stale_write_accepted(); 2 * MOST_INLAYS]));
        assert_eq!(wanted.len(), MOST_INLAYS + PLOTS.len());
        let filed: Vec<&str> = wanted
            .iter()
            .filter(|wanted| wanted.filed)
            .map(|wanted| wanted.name.as_str())
            .collect();
        assert_eq!(filed.len(), 1 + PLOTS.len());
        assert_eq!(filed[0], "finding-1");
    }

    #[test]
    fn close_ups_that_would_make_the_page_too_large_are_left_out_from_the_end() {
        let inlay = |name: &str, size: usize| Inlay {
            name: name.to_owned(),
            svg: "x".repeat(size),
        };
        let kept = that_fit(vec![
            inlay("finding-1", MOST_INLAID / 2),
            inlay("finding-2", MOST_INLAID),
            inlay("finding-3", 1),
            inlay("marks", MOST_INLAID),
        ]);
        let names: Vec<&str> = kept.iter().map(|inlay| inlay.name.as_str()).collect();
        assert_eq!(names, ["finding-1", "marks"]);
    }
}
