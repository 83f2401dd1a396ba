//! `plots/quantiles`: how latency went over the run, as quantiles of short spans, one row a kind of operation.
//!
//! Only answers count (`ok` and `fail`): how long nobody knew an outcome says how patient the client was.

use fencepost_checker::history::{Function, History, Operation, Outcome};

use super::bins::Bins;
use super::frame::{Sign, WIDTH};
use super::latency::took_ms;
use super::palette::{Colour, QUANTILES, SOFT_INK};
use super::panel::Panel;
use super::plain::{counted, lasting};
use super::scale::LogScale;
use super::scene::{Area, Mark, Scene, Shape, at};
use crate::run_record::RunRecord;

const LEFT: f64 = 190.0;
const HEIGHT: f64 = 124.0;
/// What is drawn of each span, with its words; one colour each.
const SHARES: [(f64, &str); 4] = [
    (0.5, "p50 (half were faster)"),
    (0.9, "p90"),
    (0.99, "p99"),
    (1.0, "slowest"),
];
/// A row's name, and what belongs to it.
type Kind = (&'static str, fn(Function) -> bool);
/// The rows.
const KINDS: [Kind; 5] = [
    ("write", |f| {
        matches!(f, Function::Write | Function::Append | Function::Cas)
    }),
    ("read", |f| f == Function::Read),
    ("acquire", |f| f == Function::Acquire),
    ("renew", |f| f == Function::Renew),
    ("release", |f| f == Function::Release),
];

/// The picture.
#[must_use]
pub fn quantiles(run: &RunRecord, history: &History) -> Scene {
    let mut scene = Scene::new(WIDTH, "Latency over time, by kind of operation");
    let about = "quantiles of what was answered in each span of time; log scale";
    let mut panel = Panel::begin(&mut scene, run, history, about, LEFT);
    let bins = Bins::over(&panel.axis);
    let rows = rows(history, &bins);
    let scale = LogScale::of(rows.iter().flat_map(Row::extremes));
    for row in &rows {
        let plot = panel.plot(&mut scene, HEIGHT, row.name);
        scale.draw(&mut scene, plot);
        row.draw(&mut scene, &panel, &bins, scale, plot);
        scene.outline(plot, SOFT_INK, 1);
    }
    if rows.is_empty() {
        let plot = panel.plot(&mut scene, HEIGHT, "");
        Panel::nothing(&mut scene, plot, "no operation was answered");
        scene.outline(plot, SOFT_INK, 1);
    }
    let entries: Vec<(Sign, String)> = SHARES
        .iter()
        .zip(QUANTILES)
        .map(|((_, words), colour)| {
            let sign = if *words == "slowest" {
                Sign::Mark(Mark::Triangle, colour)
            } else {
                Sign::Line(colour, 3)
            };
            (sign, (*words).to_owned())
        })
        .collect();
    let notes = notes(history, &bins);
    panel.end(
        &mut scene,
        "answered, seconds since the run began",
        &entries,
        notes,
    );
    scene
}

fn notes(history: &History, bins: &Bins) -> Vec<String> {
    let mut notes = vec![format!(
        "Each span is {} long; quantiles are by nearest rank, so that of a few operations the higher ones are the slowest; a span without an answer is a gap.",
        lasting(bins.length as f64 / 1e9)
    )];
    let unknown = history
        .operations
        .iter()
        .filter(|operation| operation.outcome == Outcome::Unknown)
        .count() as u64;
    let other = history
        .operations
        .iter()
        .filter(|operation| {
            operation.outcome != Outcome::Unknown
                && !KINDS.iter().any(|(_, of_kind)| of_kind(operation.function))
        })
        .count() as u64;
    if unknown > 0 {
        notes.push(format!(
            "{} of unknown outcome {} not counted.",
            counted(unknown, "operation"),
            if unknown == 1 { "is" } else { "are" }
        ));
    }
    if other > 0 {
        notes.push(format!(
            "{} of other kinds {} not drawn.",
            counted(other, "operation"),
            if other == 1 { "is" } else { "are" }
        ));
    }
    notes
}

/// One kind of operation.
#[derive(Debug)]
struct Row {
    name: &'static str,
    /// For each span its quantiles in milliseconds, in the order of [`SHARES`]; `None`: no answer.
    spans: Vec<Option<[f64; 4]>>,
}

/// The kinds that were answered at all.
fn rows(history: &History, bins: &Bins) -> Vec<Row> {
    let mut took: Vec<Vec<Vec<f32>>> = KINDS.map(|_| vec![Vec::new(); bins.count]).to_vec();
    for operation in &history.operations {
        let Some(answered) = answered(operation) else {
            continue;
        };
        let kind = KINDS
            .iter()
            .position(|(_, of_kind)| of_kind(operation.function));
        if let Some(kind) = kind {
            took[kind][bins.of(answered)].push(took_ms(operation) as f32);
        }
    }
    KINDS
        .iter()
        .zip(took)
        .filter(|(_, spans)| spans.iter().any(|span| !span.is_empty()))
        .map(|((name, _), spans)| Row {
            name,
            spans: spans.into_iter().map(quantiles_of).collect(),
        })
        .collect()
}

fn answered(operation: &Operation) -> Option<u64> {
    operation.returned().map(|returned| returned.time)
}

/// The quantiles of [`SHARES`], by nearest rank.
fn quantiles_of(mut took: Vec<f32>) -> Option<[f64; 4]> {
    took.sort_unstable_by(f32::total_cmp);
    let last = took.len().checked_sub(1)?;
    Some(SHARES.map(|(share, _)| {
        let rank = (share * took.len() as f64).ceil() as usize;
        f64::from(took[rank.saturating_sub(1).min(last)])
    }))
}

impl Row {
    /// The fastest median and the slowest operation: what the scale must hold.
    fn extremes(&self) -> impl Iterator<Item = f64> + '_ {
        self.spans
            .iter()
            .flatten()
            .flat_map(|[median, .., slowest]| [*median, *slowest])
    }

    fn draw(&self, scene: &mut Scene, panel: &Panel<'_>, bins: &Bins, scale: LogScale, plot: Area) {
        for (place, colour) in QUANTILES.into_iter().enumerate().rev() {
            if place == SHARES.len() - 1 {
                self.draw_slowest(scene, panel, bins, scale, plot, colour);
            } else {
                self.draw_steps(
                    scene,
                    panel,
                    bins,
                    |span| scale.y(span[place], plot),
                    colour,
                );
            }
        }
    }

    fn draw_slowest(
        &self,
        scene: &mut Scene,
        panel: &Panel<'_>,
        bins: &Bins,
        scale: LogScale,
        plot: Area,
        colour: Colour,
    ) {
        for (bin, span) in self.spans.iter().enumerate() {
            let Some(span) = span else { continue };
            let (from, to) = bins.span(bin);
            let x = f64::midpoint(panel.axis.x(from), panel.axis.x(to));
            scene.mark(Mark::Triangle, at(x, scale.y(span[3], plot)), 2.5, colour);
        }
    }

    /// A level over each span, joined where spans follow one another.
    fn draw_steps(
        &self,
        scene: &mut Scene,
        panel: &Panel<'_>,
        bins: &Bins,
        y: impl Fn(&[f64; 4]) -> f64,
        colour: Colour,
    ) {
        for run in steps(&self.spans, y) {
            let points = run
                .into_iter()
                .flat_map(|(bin, y)| {
                    let (from, to) = bins.span(bin);
                    [at(panel.axis.x(from), y), at(panel.axis.x(to), y)]
                })
                .collect();
            scene.shapes.push(Shape::Stroke {
                points,
                colour,
                width: 2,
            });
        }
    }
}

/// Neighbouring spans that have a value, together.
fn steps<T>(spans: &[Option<T>], y: impl Fn(&T) -> f64) -> Vec<Vec<(usize, f64)>> {
    let mut runs: Vec<Vec<(usize, f64)>> = Vec::new();
    let mut open = false;
    for (bin, span) in spans.iter().enumerate() {
        match span {
            Some(span) => {
                let level = (bin, y(span));
                match runs.last_mut().filter(|_| open) {
                    Some(run) => run.push(level),
                    None => runs.push(vec![level]),
                }
                open = true;
            }
            None => open = false,
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Recording, run, zombie_refused};
    use super::*;

    #[test]
    fn quantiles_are_by_nearest_rank() {
        assert_eq!(quantiles_of(Vec::new()), None);
        assert_eq!(quantiles_of(vec![3.0]), Some([3.0; 4]));
        let hundred: Vec<f32> = (1..=100_u8).rev().map(f32::from).collect();
        assert_eq!(quantiles_of(hundred), Some([50.0, 90.0, 99.0, 100.0]));
    }

    #[test]
    fn each_kind_that_was_answered_has_a_row_and_unknown_outcomes_have_none() {
        let mut recording = zombie_refused();
        recording
            .renew("c2", "s", 42, 1_330, 1_331, "info")
            .release("c2", "s", 42, 1_340, 1_341, "fail");
        let history = recording.history();
        let scene = quantiles(&run(), &history);
        scene.assert_readable();
        let texts: Vec<String> = scene
            .text_areas()
            .into_iter()
            .map(|(text, _)| text)
            .collect();
        for name in ["write", "acquire", "release"] {
            assert!(texts.iter().any(|text| text == name), "{name}: {texts:?}");
        }
        assert!(!texts.iter().any(|text| text == "renew"));
        assert!(
            texts
                .iter()
                .any(|text| text == "1 operation of unknown outcome is not counted."),
            "{texts:?}"
        );
    }

    #[test]
    fn a_span_without_an_answer_is_a_gap() {
        let spans = [Some(1.0), Some(2.0), None, Some(3.0)];
        let runs = steps(&spans, |value| *value);
        assert_eq!(runs, [vec![(0, 1.0), (1, 2.0)], vec![(3, 3.0)]]);
    }

    #[test]
    fn nothing_is_said() {
        let scene = quantiles(&run(), &Recording::default().history());
        scene.assert_readable();
        assert!(
            scene
                .text_areas()
                .iter()
                .any(|(text, _)| text == "no operation was answered")
        );
    }
}
