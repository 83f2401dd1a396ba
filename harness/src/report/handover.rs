//! `plots/handover`: how long a lock could not be written to after its holder was stopped, as a distribution.

use fencepost_checker::history::History;

use super::belief::Belief;
use super::frame::{
    Axis, RIGHT, Sign, Unit, WIDTH, captions, heading, legend, time_grid, time_numbers,
};
use super::palette::{Colour, INK, SOFT_INK, fault};
use super::panel::Panel;
use super::plain::{counted, grouped, lasting, plain};
use super::scale::LinearScale;
use super::scene::{Anchor, Area, Mark, Scene, Shape, at};
use super::successions::{Fate, STOPS, Succession, successions};
use crate::run_record::RunRecord;

const LEFT: f64 = 130.0;
const HEIGHT: f64 = 380.0;

/// What a stop does to the holder.
fn words_of(kind: &str) -> &'static str {
    match kind {
        "zombie" => "zombie: stopped until a successor had written",
        "pause" => "pause: stopped for some time",
        "kill" => "kill: its worker was killed",
        _ => "hole: cut off from the lock service or the resource",
    }
}

/// The picture.
#[must_use]
pub fn handover(run: &RunRecord, history: &History, beliefs: &[Belief]) -> Scene {
    let title = "From a holder's stop to its successor's first accepted write";
    let mut scene = Scene::new(WIDTH, title);
    let successions = successions(run, history, beliefs);
    let passed = |one: &&Succession| matches!(one.fate, Fate::Passed { .. });
    let subtitle = format!(
        "run {}: n = {} after {} that struck the holder of a lock; the share that was done after so long, one mark each",
        plain(&run.run, 16),
        counted(
            successions.iter().filter(passed).count() as u64,
            "hand-over"
        ),
        counted(successions.len() as u64, "stop")
    );
    let top = heading(&mut scene, title, &subtitle, 22.0) + 16.0;
    let plot = Area::new(LEFT, top, RIGHT, top + HEIGHT);
    let curves: Vec<Curve> = STOPS
        .into_iter()
        .map(|kind| Curve::of(kind, words_of(kind), fault(kind), &successions))
        .filter(|curve| curve.all() > 0)
        .collect();
    let longest = curves
        .iter()
        .filter_map(|curve| curve.took.last().copied())
        .max();
    let lease = lease(history);
    let end = longest.unwrap_or(1_000_000_000).max(lease.unwrap_or(0));
    let axis = Axis::new(0, end.saturating_add(end / 16), LEFT, RIGHT);
    let unit = Unit {
        nanoseconds: if end < 4_000_000_000 { 1e6 } else { 1e9 },
        zero: 0,
    };

    time_grid(&mut scene, &axis, unit, plot);
    let scale = LinearScale {
        from: 0.0,
        to: 104.0,
    };
    scale.draw(&mut scene, plot, 10.0, true);
    for curve in &curves {
        curve.draw(&mut scene, &axis, scale, plot);
    }
    if let Some(lease) = lease {
        let x = axis.x(lease);
        scene.line(at(x, plot.top), at(x, plot.bottom), SOFT_INK, 2);
        let words = format!("one lease: {}", lasting(lease as f64 / 1e9));
        scene.label(
            at(x, plot.top - 9.0),
            &words,
            13.0,
            SOFT_INK,
            Anchor::Middle,
        );
    }
    if longest.is_none() {
        Panel::nothing(
            &mut scene,
            plot,
            "no lock changed hands because its holder was stopped",
        );
    }
    scene.outline(plot, SOFT_INK, 1);
    scene.text(at(24.0, plot.middle()), "percent", 14.0, INK, Anchor::Start);
    let words = if unit.nanoseconds < 1e9 {
        "milliseconds"
    } else {
        "seconds"
    };
    let below = time_numbers(
        &mut scene,
        &axis,
        unit,
        plot.bottom,
        &format!("{words} since the holder was stopped"),
    );
    let entries: Vec<(Sign, String)> = curves
        .iter()
        .map(|curve| {
            let words = format!("{} (n = {})", curve.words, grouped(curve.took.len() as u64));
            (Sign::Edged(curve.colour), words)
        })
        .collect();
    let below = legend(&mut scene, &entries, LEFT, below, 14.0);
    let notes: Vec<String> = curves.iter().map(Curve::note).collect();
    let below = captions(&mut scene, &notes, LEFT, below + 2.0);
    scene.height = (below + 8.0) as u32;
    scene
}

/// The lease of all locks in nanoseconds, where the recording names one.
fn lease(history: &History) -> Option<u64> {
    let mut leases = history
        .header
        .iter()
        .flat_map(|header| header.locks.values())
        .map(|lock| lock.lease_ms);
    let first = leases.next()??;
    leases
        .all(|lease| lease == Some(first))
        .then(|| first.saturating_mul(1_000_000))
}

/// The hand-overs after one kind of stop.
#[derive(Debug)]
struct Curve {
    kind: &'static str,
    words: &'static str,
    colour: Colour,
    /// Nanoseconds, ascending.
    took: Vec<u64>,
    kept: u64,
    unwritten: u64,
}

impl Curve {
    fn of(
        kind: &'static str,
        words: &'static str,
        colour: Colour,
        successions: &[Succession],
    ) -> Self {
        let mut curve = Self {
            kind,
            words,
            colour,
            took: Vec::new(),
            kept: 0,
            unwritten: 0,
        };
        for succession in successions.iter().filter(|one| one.kind == kind) {
            match succession.fate {
                Fate::Passed { took, .. } => curve.took.push(took),
                Fate::Kept => curve.kept += 1,
                Fate::Unwritten => curve.unwritten += 1,
            }
        }
        curve.took.sort_unstable();
        curve
    }

    fn all(&self) -> u64 {
        self.took.len() as u64 + self.kept + self.unwritten
    }

    /// The share of the hand-overs done, rising at each of them.
    fn draw(&self, scene: &mut Scene, axis: &Axis, scale: LinearScale, plot: Area) {
        let count = self.took.len() as f64;
        let mut points = vec![at(axis.left, scale.y(0.0, plot))];
        let (mut dots, mut drawn) = (Vec::new(), f64::NEG_INFINITY);
        for (place, &took) in self.took.iter().enumerate() {
            let x = axis.x(took);
            let next = scale.y((place + 1) as f64 * 100.0 / count, plot);
            // Thousands of steps and marks in one place would say no more than one of them.
            if let Some(last) = points
                .last_mut()
                .filter(|last| place > 0 && x - last.x < 0.5)
            {
                last.y = next;
            } else {
                let y = points.last().map_or(next, |last| last.y);
                points.extend([at(x, y), at(x, next)]);
            }
            if x - drawn >= 2.0 {
                dots.push(at(x, next));
                drawn = x;
            }
        }
        let y = points.last().map_or(0.0, |last| last.y);
        if count > 0.0 {
            points.push(at(axis.right, y));
        }
        // Edged with ink, as faults are shades elsewhere and a bright one is hard to see as a line.
        for (colour, width, size) in [(INK, 4, 5.0), (self.colour, 2, 4.0)] {
            if count > 0.0 {
                scene.shapes.push(Shape::Stroke {
                    points: points.clone(),
                    colour,
                    width,
                });
            }
            for &dot in &dots {
                scene.mark(Mark::Dot, dot, size, colour);
            }
        }
    }

    /// What the curve says in numbers.
    fn note(&self) -> String {
        let at = |share: f64| {
            let rank = (share * self.took.len() as f64).ceil() as usize;
            let took = self.took.get(rank.saturating_sub(1)).copied();
            lasting(took.unwrap_or(0) as f64 / 1e9)
        };
        let mut text = format!("{}: ", self.kind);
        if self.took.is_empty() {
            text.push_str("no hand-over");
        } else {
            let count = counted(self.took.len() as u64, "hand-over");
            text.push_str(&format!(
                "{count}, half of them within {}, nine in ten within {}, the longest {}",
                at(0.5),
                at(0.9),
                at(1.0)
            ));
        }
        if self.kept > 0 {
            text.push_str(&format!(
                "; {} went on, or gave the lock back, before anybody else was granted it",
                counted(self.kept, "holder")
            ));
        }
        if self.unwritten > 0 {
            text.push_str(&format!(
                "; {} until the recording ended nobody wrote",
                grouped(self.unwritten)
                    + if self.unwritten == 1 {
                        " time"
                    } else {
                        " times"
                    }
            ));
        }
        text + "."
    }
}

#[cfg(test)]
mod tests {
    use super::super::belief::beliefs;
    use super::super::sample::{Recording, run, zombie_refused};
    use super::*;

    fn picture(recording: &Recording) -> Vec<String> {
        let history = recording.history();
        let scene = handover(&run(), &history, &beliefs(&history));
        scene.assert_readable();
        scene
            .text_areas()
            .into_iter()
            .map(|(text, _)| text)
            .collect()
    }

    #[test]
    fn a_hand_over_is_a_mark_and_a_number() {
        let texts = picture(&zombie_refused());
        assert!(
            texts
                .iter()
                .any(|text| text.contains("n = 1 hand-over after 1 stop that struck"))
                && texts
                    .iter()
                    .any(|text| text.ends_with("had written (n = 1)")),
            "{texts:?}"
        );
        assert!(
            texts.iter().any(|text| text
                == "zombie: 1 hand-over, half of them within 1.05 s, nine in ten within 1.05 s, the longest 1.05 s."),
            "{texts:?}"
        );
    }

    #[test]
    fn a_stop_has_the_colour_that_it_has_in_every_other_picture() {
        let history = zombie_refused().history();
        let scene = handover(&run(), &history, &beliefs(&history));
        let drawn = |wanted: Colour| {
            scene.shapes.iter().any(
                |shape| matches!(shape, Shape::Stroke { colour, points, .. } if *colour == wanted && points.len() > 2),
            )
        };
        assert!(drawn(fault("zombie")));
        assert!(
            STOPS
                .iter()
                .all(|kind| *kind == "zombie" || !drawn(fault(kind)))
        );
    }

    #[test]
    fn where_nothing_changed_hands_it_is_said() {
        let mut recording = Recording::default();
        recording
            .grant("c1", "s", 41, 0, 4)
            .fault(1, "pause", &["w1"], 10, Some(50), "installed");
        for recording in [recording, Recording::default()] {
            let texts = picture(&recording);
            assert!(
                texts
                    .iter()
                    .any(|text| text == "no lock changed hands because its holder was stopped"),
                "{texts:?}"
            );
        }
    }
}
