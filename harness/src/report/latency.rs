//! `plots/latency`: every completed operation where it began and how long it took, by outcome.

use fencepost_checker::history::{History, Operation};

use super::bands::{bands, shade, strip};
use super::belief::end_of;
use super::frame::{
    Axis, RIGHT, Sign, Unit, WIDTH, band_entries, captions, heading, legend, time_grid,
    time_numbers,
};
use super::palette::{Answer, GRID, SOFT_INK};
use super::plain::{counted, grouped, plain};
use super::scene::{Anchor, Area, Mark, Scene, at};
use crate::run_record::RunRecord;

/// At most so many marks of outcomes other than ok, and of ok.
const MOST_MARKS: usize = 10_000;
/// What took less is drawn as having taken so long, in milliseconds.
const FLOOR_MS: f64 = 0.01;
const LEFT: f64 = 190.0;
const HEIGHT: f64 = 480.0;

/// The picture.
#[must_use]
pub fn latency(run: &RunRecord, history: &History) -> Scene {
    let title = "Latency of every operation, by outcome";
    let mut scene = Scene::new(WIDTH, title);
    let subtitle = format!(
        "run {}: one mark an operation, where it was invoked; log scale; faults in rows above and shaded behind",
        plain(&run.run, 16)
    );
    let top = heading(&mut scene, title, &subtitle, 22.0);
    let axis = Axis::whole(history.first_time, end_of(history).time, LEFT);
    let bands = bands(history);
    let strip = strip(&mut scene, &axis, &bands, top);
    let plot = Area::new(
        LEFT,
        strip.bottom + 14.0,
        RIGHT,
        strip.bottom + 14.0 + HEIGHT,
    );
    let unit = Unit {
        nanoseconds: 1e9,
        zero: 0,
    };

    let (chosen, mut notes) = chosen(history);
    let scale = LogScale::of(chosen.iter().map(|(operation, _)| took_ms(operation)), plot);
    shade(&mut scene, &axis, bands.iter(), plot, 0.08);
    time_grid(&mut scene, &axis, unit, plot);
    scale.draw(&mut scene, plot);
    for (operation, answer) in &chosen {
        let (mark, reach) = mark(*answer);
        scene.mark(
            mark,
            at(axis.x(operation.invoked.time), scale.y(took_ms(operation))),
            reach,
            answer.colour(),
        );
    }
    scene.outline(plot, SOFT_INK, 1);

    let below = time_numbers(
        &mut scene,
        &axis,
        unit,
        plot.bottom,
        "invoked, seconds since the run began",
    );
    let entries: Vec<(Sign, String)> = Answer::ALL
        .map(|answer| {
            (
                Sign::Mark(mark(answer).0, answer.colour()),
                answer.words().to_owned(),
            )
        })
        .to_vec();
    let below = legend(&mut scene, &entries, LEFT, below, 14.0);
    let below = legend(&mut scene, &band_entries(&bands), LEFT, below, 14.0);
    if strip.left_out > 0 {
        notes.push(format!(
            "{} found no row and are only shaded.",
            counted(strip.left_out as u64, "more kind of fault")
        ));
    }
    let below = captions(&mut scene, &notes, LEFT, below + 2.0);
    scene.height = (below + 8.0) as u32;
    scene
}

fn mark(answer: Answer) -> (Mark, f64) {
    match answer {
        Answer::Ok => (Mark::Dot, 2.0),
        Answer::Refused => (Mark::Cross, 4.0),
        Answer::Failed => (Mark::Triangle, 4.0),
        Answer::Unknown => (Mark::Diamond, 4.0),
    }
}

fn took_ms(operation: &Operation) -> f64 {
    let completed = operation.completed.unwrap_or(operation.invoked);
    completed.time.saturating_sub(operation.invoked.time) as f64 / 1e6
}

/// The operations to draw, ok first so that the rarer marks lie on top, and what was left out.
fn chosen(history: &History) -> (Vec<(&Operation, Answer)>, Vec<String>) {
    let completed = history
        .operations
        .iter()
        .filter(|operation| operation.completed.is_some());
    let (ok, rest): (Vec<_>, Vec<_>) = completed
        .map(|operation| (operation, Answer::of(operation, history)))
        .partition(|(_, answer)| *answer == Answer::Ok);
    let open = history.operations.len() - ok.len() - rest.len();
    let mut notes = vec![format!(
        "{} completed; {} had no answer when the recording ended and are not drawn.",
        counted((ok.len() + rest.len()) as u64, "operation"),
        grouped(open as u64)
    )];
    let fast = ok
        .iter()
        .chain(&rest)
        .filter(|(operation, _)| took_ms(operation) < FLOOR_MS)
        .count();
    if fast > 0 {
        notes.push(format!(
            "{} less than {FLOOR_MS} ms; drawn at {FLOOR_MS} ms.",
            counted(fast as u64, "operation") + " took"
        ));
    }
    let mut chosen = Vec::new();
    for (group, words) in [(ok, "ok"), (rest, "other")] {
        let step = group.len().div_ceil(MOST_MARKS).max(1);
        if step > 1 {
            let drawn = group.len().div_ceil(step);
            notes.push(format!(
                "Of {} {words} operations {} are drawn: one in {step}.",
                grouped(group.len() as u64),
                grouped(drawn as u64)
            ));
        }
        chosen.extend(group.into_iter().step_by(step));
    }
    (chosen, notes)
}

/// Whole decades of milliseconds, upwards.
#[derive(Clone, Copy, Debug)]
struct LogScale {
    lowest: i32,
    highest: i32,
    bottom: f64,
    top: f64,
}

impl LogScale {
    fn of(values: impl Iterator<Item = f64>, plot: Area) -> Self {
        let (mut least, mut greatest) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            let value = value.max(FLOOR_MS);
            (least, greatest) = (least.min(value), greatest.max(value));
        }
        if least > greatest {
            (least, greatest) = (0.1, 100.0);
        }
        let lowest = least.log10().floor() as i32;
        let highest = (greatest.log10().ceil() as i32).max(lowest + 1);
        // Room for the marks that lie on an edge.
        Self {
            lowest,
            highest,
            bottom: plot.bottom - 8.0,
            top: plot.top + 8.0,
        }
    }

    fn y(&self, milliseconds: f64) -> f64 {
        let share = (milliseconds.max(FLOOR_MS).log10() - f64::from(self.lowest))
            / f64::from(self.highest - self.lowest);
        self.bottom - (self.bottom - self.top) * share.clamp(0.0, 1.0)
    }

    fn draw(&self, scene: &mut Scene, plot: Area) {
        for decade in self.lowest..=self.highest {
            let value = 10_f64.powi(decade);
            let y = self.y(value);
            scene.line(at(plot.left, y), at(plot.right, y), GRID, 1);
            let text = match decade {
                3.. => format!(
                    "{} s",
                    grouped(10_u64.saturating_pow(decade.unsigned_abs() - 3))
                ),
                0..3 => format!("{value:.0} ms"),
                _ => format!("{value:.*} ms", decade.unsigned_abs() as usize),
            };
            scene.text(at(plot.left - 10.0, y), &text, 14.0, SOFT_INK, Anchor::End);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Recording, run, zombie_refused};
    use super::*;

    #[test]
    fn a_latency_of_zero_stands_at_the_floor() {
        let scale = LogScale::of([0.0, 250.0].into_iter(), Area::new(0.0, 0.0, 100.0, 100.0));
        assert_eq!((scale.lowest, scale.highest), (-2, 3));
        assert!(
            (scale.y(0.0) - scale.y(FLOOR_MS)).abs() < 1e-9 && (scale.y(0.0) - 92.0).abs() < 1e-9
        );
        assert!(scale.y(1.0) > scale.y(250.0));
        let mut recording = Recording::default();
        recording.write("c1", "s", 1, 5, 5, "ok");
        let scene = latency(&run(), &recording.history());
        scene.assert_readable();
        assert!(
            scene
                .text_areas()
                .iter()
                .any(|(text, _)| text == "1 operation took less than 0.01 ms; drawn at 0.01 ms.")
        );
    }

    #[test]
    fn nothing_gives_an_empty_plot_and_one_latency_still_spans_a_decade() {
        let plot = Area::new(0.0, 0.0, 100.0, 100.0);
        let empty = LogScale::of(std::iter::empty(), plot);
        assert_eq!((empty.lowest, empty.highest), (-1, 2));
        let one = LogScale::of(std::iter::once(10.0), plot);
        assert_eq!((one.lowest, one.highest), (1, 2));
        latency(&run(), &Recording::default().history()).assert_readable();
    }

    #[test]
    fn every_completed_operation_is_a_mark_of_its_outcome() {
        let history = zombie_refused().history();
        let (chosen, _) = chosen(&history);
        let count = |wanted| {
            chosen
                .iter()
                .filter(|(_, answer)| *answer == wanted)
                .count()
        };
        assert_eq!(Answer::ALL.map(count), [5, 1, 0, 0]);
        latency(&run(), &history).assert_readable();
    }

    #[test]
    fn what_is_thinned_out_says_so() {
        let mut recording = Recording::default();
        for at in 0..20_001 {
            recording.write("c1", "s", 1, at, at + 1, "ok");
        }
        recording.write("c1", "s", 1, 7, 9, "info");
        let history = recording.history();
        let (chosen, notes) = chosen(&history);
        assert_eq!(chosen.len(), 6_667 + 1);
        assert_eq!(
            notes[1],
            "Of 20,001 ok operations 6,667 are drawn: one in 3."
        );
    }
}
