//! The pictures of a report, in the order in which they are read, and how each gets its name.

use super::ReportError;
use super::scene::Scene;
use super::source::Source;
use super::violation::finding_picture;
use super::{handover, holders, lag, latency, marks, quantiles, rate, refusals};

/// A picture that every run has.
pub struct Plot {
    /// `fencepost report --plot NAME`, and `plots/NAME.svg`.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// What to look for in it, in one sentence.
    pub hint: &'static str,
    /// Draws it.
    pub draw: fn(&Source<'_>) -> Scene,
}

/// All of them. Close-ups of findings come besides, see [`scene`].
pub const PLOTS: [Plot; 8] = [
    Plot {
        name: "holders",
        title: "Who believed to hold which token when",
        hint: "Two bars of one lock at one time are a holder that does not know of its successor: that is what the fence is for.",
        draw: holders::holders,
    },
    Plot {
        name: "latency",
        title: "Latency of every operation, by outcome",
        hint: "Look for what faults do to operations that they were not aimed at.",
        draw: |source| latency::latency(source.run, source.history),
    },
    Plot {
        name: "quantiles",
        title: "Latency over time, by kind of operation",
        hint: "An acquire waits for its turn, so it takes as long as others hold; a write should not.",
        draw: |source| quantiles::quantiles(source.run, source.history),
    },
    Plot {
        name: "rate",
        title: "Operations a second, by outcome",
        hint: "A gap without a fault above it is a system that stood still by itself.",
        draw: |source| rate::rate(source.run, source.history),
    },
    Plot {
        name: "refusals",
        title: "Writes refused by the fence, by client",
        hint: "Refusals should follow the stops above. A row of crosses without a stop is a client that does not give up.",
        draw: |source| refusals::refusals(source.run, source.history),
    },
    Plot {
        name: "lag",
        title: "How stale were the tokens that the fence met?",
        hint: "One token behind is the usual zombie. A fence that was only ever met from one token behind was met often, not far.",
        draw: |source| lag::lag(source.run, source.history),
    },
    Plot {
        name: "marks",
        title: "The issuer's counter and the fence's high water",
        hint: "Every refusal belongs below the stairs. A ring below them is a stale write that got through; a grant below them is a counter that went back.",
        draw: |source| marks::marks(source.run, source.history, source.beliefs()),
    },
    Plot {
        name: "handover",
        title: "From a holder's stop to its successor's first accepted write",
        hint: "For so long nobody could write under the lock. It cannot be shorter than what was left of the lease.",
        draw: |source| handover::handover(source.run, source.history, source.beliefs()),
    },
];

/// What a picture may be called, for people: "holders, latency ... or finding-1, finding-2 ...".
#[must_use]
pub fn names() -> String {
    let names: Vec<&str> = PLOTS.iter().map(|plot| plot.name).collect();
    format!("{} or finding-1, finding-2 ...", names.join(", "))
}

/// Whether a picture may be called `name`.
#[must_use]
pub fn is_name(name: &str) -> bool {
    PLOTS.iter().any(|plot| plot.name == name) || finding_number(name).is_some()
}

/// The number, from 1, of the finding that `name` is the close-up of.
fn finding_number(name: &str) -> Option<usize> {
    let number = name.strip_prefix("finding-")?.parse().ok()?;
    (number > 0).then_some(number)
}

/// Draws the picture that is called `name`: one of [`PLOTS`], or `finding-N` for the N-th finding from 1.
/// `None`: there is no such name.
#[must_use]
pub fn scene(name: &str, source: &Source<'_>) -> Option<Result<Scene, ReportError>> {
    if let Some(plot) = PLOTS.iter().find(|plot| plot.name == name) {
        return Some(Ok((plot.draw)(source)));
    }
    Some(finding_picture(source, finding_number(name)? - 1))
}

#[cfg(test)]
mod tests {
    use super::super::sample::{judgement, run, stale_write_accepted, zombie_accepted};
    use super::*;

    #[test]
    fn each_picture_has_the_title_and_is_found_under_the_name_that_the_table_says() {
        let (run, history, judgement) = (
            run(),
            zombie_accepted().history(),
            judgement(vec![stale_write_accepted()]),
        );
        let source = Source::new(&run, &history, &judgement);
        for plot in &PLOTS {
            let scene = scene(plot.name, &source)
                .expect("it is in the table")
                .expect("it can be drawn");
            assert_eq!(scene.title, plot.title, "{}", plot.name);
            scene.assert_readable();
        }
        assert!(matches!(scene("finding-1", &source), Some(Ok(_))));
        assert!(matches!(
            scene("finding-2", &source),
            Some(Err(ReportError::NoFinding { position: 1 }))
        ));
        for name in ["finding-0", "finding-x", "nosuch", ""] {
            assert!(scene(name, &source).is_none() && !is_name(name), "{name}");
        }
    }
}
