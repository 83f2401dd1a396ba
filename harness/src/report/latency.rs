//! `plots/latency`: every completed operation where it began and how long it took, by outcome.

use fencepost_checker::history::{History, Operation};

use super::frame::{Sign, WIDTH};
use super::palette::{Answer, SOFT_INK};
use super::panel::Panel;
use super::plain::{counted, grouped};
use super::scale::{FLOOR_MS, LogScale};
use super::scene::{Mark, Scene, at};
use crate::run_record::RunRecord;

/// At most so many marks of outcomes other than ok, and of ok.
const MOST_MARKS: usize = 10_000;
const LEFT: f64 = 190.0;
const HEIGHT: f64 = 480.0;

/// The picture.
#[must_use]
pub fn latency(run: &RunRecord, history: &History) -> Scene {
    let mut scene = Scene::new(WIDTH, "Latency of every operation, by outcome");
    let about = "one mark an operation, where it was invoked; log scale; faults in rows above and shaded behind";
    let mut panel = Panel::begin(&mut scene, run, history, about, LEFT);
    let plot = panel.plot(&mut scene, HEIGHT, "");
    let (chosen, notes) = chosen(history);
    let scale = LogScale::of(chosen.iter().map(|(operation, _)| took_ms(operation)));
    scale.draw(&mut scene, plot);
    for (operation, answer) in &chosen {
        let (mark, reach) = mark(*answer);
        let centre = at(
            panel.axis.x(operation.invoked.time),
            scale.y(took_ms(operation), plot),
        );
        scene.mark(mark, centre, reach, answer.colour());
    }
    scene.outline(plot, SOFT_INK, 1);
    let entries = Answer::ALL.map(|answer| {
        (
            Sign::Mark(mark(answer).0, answer.colour()),
            answer.words().to_owned(),
        )
    });
    panel.end(
        &mut scene,
        "invoked, seconds since the run began",
        &entries,
        notes,
    );
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

/// How long an operation took, in milliseconds; 0 without an answer.
#[must_use]
pub fn took_ms(operation: &Operation) -> f64 {
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

#[cfg(test)]
mod tests {
    use super::super::sample::{Recording, run, zombie_refused};
    use super::*;

    #[test]
    fn a_latency_of_zero_is_said_and_nothing_gives_an_empty_plot() {
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
