//! `plots/rate`: operations a second, one row an outcome, each on a scale of its own.

use fencepost_checker::history::History;

use super::bins::Bins;
use super::frame::{Sign, WIDTH};
use super::palette::{Answer, SOFT_INK};
use super::panel::Panel;
use super::plain::{grouped, lasting};
use super::scale::LinearScale;
use super::scene::{Area, Scene, Shape, at};
use super::story::moment;
use crate::run_record::RunRecord;

const LEFT: f64 = 330.0;

/// The picture.
#[must_use]
pub fn rate(run: &RunRecord, history: &History) -> Scene {
    let mut scene = Scene::new(WIDTH, "Operations a second, by outcome");
    let about = "counted where the answer arrived; each outcome has a scale of its own";
    let mut panel = Panel::begin(&mut scene, run, history, about, LEFT);
    let bins = Bins::over(&panel.axis);
    let counts = counts(history, &bins);
    for (answer, counts) in Answer::ALL.into_iter().zip(&counts) {
        let height = if answer == Answer::Ok { 190.0 } else { 84.0 };
        let name = format!("{}, a second", answer.words());
        let plot = panel.plot(&mut scene, height, &name);
        draw(&mut scene, &panel, &bins, counts, plot, answer);
        scene.outline(plot, SOFT_INK, 1);
    }
    let entries: Vec<(Sign, String)> = Answer::ALL
        .into_iter()
        .zip(&counts)
        .map(|(answer, counts)| {
            let all = grouped(counts.iter().sum());
            (
                Sign::Bars(vec![answer.colour()]),
                format!("{}: {all}", answer.words()),
            )
        })
        .collect();
    let length = lasting(bins.length as f64 / 1e9);
    let notes = vec![format!(
        "Each step is a span of {length}. An operation that never had an answer counts where it was invoked."
    )];
    panel.end(&mut scene, "seconds since the run began", &entries, notes);
    scene
}

/// Operations of each outcome and span, outcomes in the order of [`Answer::ALL`].
fn counts(history: &History, bins: &Bins) -> [Vec<u64>; 4] {
    let mut counts = [(); 4].map(|()| vec![0; bins.count]);
    for operation in &history.operations {
        let answer = Answer::of(operation, history);
        counts[answer as usize][bins.of(moment(operation))] += 1;
    }
    counts
}

fn draw(
    scene: &mut Scene,
    panel: &Panel<'_>,
    bins: &Bins,
    counts: &[u64],
    plot: Area,
    answer: Answer,
) {
    let a_second = |count: u64| count as f64 * 1e9 / bins.length as f64;
    let most = counts.iter().copied().max().unwrap_or(0);
    if most == 0 {
        Panel::nothing(scene, plot, "none");
        return;
    }
    let scale = LinearScale::up_to(a_second(most));
    scale.draw(scene, plot, (plot.height() / 34.0).max(2.0), false);
    for (bin, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (from, to) = bins.span(bin);
        let bar = Area::new(
            panel.axis.x(from),
            scale.y(a_second(count), plot),
            // Bars that touch would look darker where they do.
            panel.axis.x(to) - 1.0,
            plot.bottom,
        );
        scene.shade(bar, answer.colour(), 0.45);
    }
    let points = counts
        .iter()
        .enumerate()
        .flat_map(|(bin, &count)| {
            let (from, to) = bins.span(bin);
            let y = scale.y(a_second(count), plot);
            [at(panel.axis.x(from), y), at(panel.axis.x(to), y)]
        })
        .collect();
    scene.shapes.push(Shape::Stroke {
        points,
        colour: answer.colour(),
        width: 2,
    });
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Recording, run, zombie_refused};
    use super::*;

    #[test]
    fn every_operation_is_counted_once_where_its_answer_arrived() {
        let mut recording = zombie_refused();
        recording.operation(
            "c3",
            700,
            serde_json::json!({"f": "read", "key": "s"}),
            None,
        );
        let history = recording.history();
        let bins = Bins::over(&super::super::frame::Axis::new(
            0,
            1_400_000_000,
            0.0,
            100.0,
        ));
        let counts = counts(&history, &bins);
        let sums: Vec<u64> = counts.iter().map(|spans| spans.iter().sum()).collect();
        assert_eq!(sums, [5, 1, 0, 1]);
        assert_eq!(counts[1][bins.of(1_303_000_000)], 1);
        assert_eq!(counts[3][bins.of(700_000_000)], 1);
    }

    #[test]
    fn the_picture_names_its_outcomes_with_their_counts_and_says_where_there_are_none() {
        let scene = rate(&run(), &zombie_refused().history());
        scene.assert_readable();
        let texts: Vec<String> = scene
            .text_areas()
            .into_iter()
            .map(|(text, _)| text)
            .collect();
        assert!(texts.iter().any(|text| text == "refused by the fence: 1"));
        assert_eq!(texts.iter().filter(|text| *text == "none").count(), 2);
        rate(&run(), &Recording::default().history()).assert_readable();
    }
}
