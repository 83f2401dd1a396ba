//! `plots/holders`: the holder timeline. One lane a client, grouped by lock: who believed to hold which token when,
//! what was written under it, and what was done to whom meanwhile.
//!
//! A bar is a belief ([`super::belief`]); two bars of one lock that overlap are a holder that does not know of its
//! successor. Accepted writes are ticks, refused ones crosses; what a finding proves is ringed.

use std::collections::BTreeMap;

use fencepost_checker::history::History;
use fencepost_checker::verdict::Judgement;

use super::bands::{bands, skipped, strip};
use super::belief::{end_of, turns};
use super::culprits::culprits;
use super::frame::{
    Axis, RIGHT, Sign, Unit, WIDTH, band_entries, captions, heading, legend, time_numbers,
};
use super::lanes::{Lane, keep_telling, lanes};
use super::palette::{self, Answer, VIOLATION};
use super::plain::plain;
use super::scene::{Area, Mark, Scene};
use super::source::Source;
use super::timeline::{LEFT, Timeline};

/// More lanes than this are not drawn.
const MOST_LANES: usize = 60;
/// What more findings than this point at is not ringed.
const MOST_POINTED: usize = 40;

/// The picture.
#[must_use]
pub fn holders(source: &Source<'_>) -> Scene {
    let (run, history) = (source.run, source.history);
    let title = "Who believed to hold which token when";
    let mut scene = Scene::new(WIDTH, title);
    let subtitle = format!(
        "run {}: one lane a client, grouped by lock; a bar lasts from a grant until its holder had reason to give up; the number is the token",
        plain(&run.run, 16)
    );
    let top = heading(&mut scene, title, &subtitle, 22.0);
    let axis = Axis::whole(history.first_time, end_of(history).time, LEFT);
    let bands = bands(history);
    let strip = strip(&mut scene, &axis, &bands, top);
    let beliefs = source.beliefs();
    let pointed = pointed(history, source.judgement);
    let mut lanes = lanes(history, beliefs);
    let dropped = keep_telling(
        &mut lanes,
        &pointed.keys().copied().collect(),
        MOST_LANES,
        history,
    );

    let timeline = Timeline {
        run,
        history,
        axis,
        bands: &bands,
        turns: turns(beliefs),
        lanes: placed(&lanes, strip.bottom + 14.0),
    };
    let bottom = timeline
        .lanes
        .last()
        .map_or(strip.bottom + 54.0, |(_, area)| area.bottom);
    let plot = Area::new(LEFT, strip.bottom + 14.0, RIGHT, bottom);
    let counts = timeline.draw(&mut scene, plot, &pointed);

    let unit = Unit {
        nanoseconds: 1e9,
        zero: 0,
    };
    let below = time_numbers(
        &mut scene,
        &axis,
        unit,
        plot.bottom,
        "seconds since the run began",
    );
    let below = legend(&mut scene, &entries(!pointed.is_empty()), LEFT, below, 14.0);
    let below = legend(&mut scene, &band_entries(&bands), LEFT, below, 14.0);
    let mut notes = counts.notes(dropped, strip.left_out);
    notes.extend(strip.hidden_note());
    notes.extend(skipped(history));
    let below = captions(&mut scene, &notes, LEFT, below + 2.0);
    scene.height = (below + 8.0) as u32;
    scene
}

/// The operations to ring, each with the first finding that points at it.
fn pointed(history: &History, judgement: &Judgement) -> BTreeMap<usize, String> {
    let mut pointed = BTreeMap::new();
    for finding in judgement.findings.iter().take(MOST_POINTED) {
        for position in culprits(finding, history) {
            pointed
                .entry(position)
                .or_insert_with(|| plain(&finding.finding, 30));
        }
    }
    pointed
}

/// Gives each lane its area, locks a little apart.
fn placed(lanes: &[Lane], top: f64) -> Vec<(&Lane, Area)> {
    let height = match lanes.len() {
        0..=12 => 42.0,
        13..=24 => 34.0,
        _ => 26.0,
    };
    let mut y = top;
    let mut previous: Option<&Lane> = None;
    let mut placed = Vec::new();
    for lane in lanes {
        if previous.is_some_and(|previous| previous.lock != lane.lock) {
            y += 8.0;
        }
        placed.push((lane, Area::new(LEFT, y, RIGHT, y + height)));
        (y, previous) = (y + height, Some(lane));
    }
    placed
}

fn entries(ringed: bool) -> Vec<(Sign, String)> {
    let mut entries = vec![
        (
            Sign::Bars((0..palette::TOKENS).map(palette::token).collect()),
            "a client believes that it holds the lock".to_owned(),
        ),
        (
            Sign::Hatch(palette::token(0)),
            "while it is stopped".to_owned(),
        ),
        (
            Sign::Mark(Mark::Tick, Answer::Ok.colour()),
            "write accepted".to_owned(),
        ),
        (
            Sign::Mark(Mark::Cross, Answer::Refused.colour()),
            "write refused by the fence".to_owned(),
        ),
        (
            Sign::Mark(Mark::Diamond, Answer::Unknown.colour()),
            "write of unknown outcome".to_owned(),
        ),
    ];
    if ringed {
        entries.push((Sign::Ring(VIOLATION), "a finding proves this".to_owned()));
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::super::sample::{
        Recording, judgement, run, stale_write_accepted, zombie_accepted, zombie_refused,
    };
    use super::super::scene::Shape;
    use super::*;

    fn texts(scene: &Scene) -> Vec<String> {
        scene
            .text_areas()
            .into_iter()
            .map(|(text, _)| text)
            .collect()
    }

    #[test]
    fn lanes_tokens_workers_and_locks_are_named() {
        let scene = holders(&Source::new(
            &run(),
            &zombie_refused().history(),
            &judgement(Vec::new()),
        ));
        scene.assert_readable();
        for text in ["s", "c1 · w1", "c2 · w2", "41", "42", "zombie"] {
            assert!(texts(&scene).iter().any(|shown| shown == text), "{text}");
        }
        assert!(
            !scene
                .shapes
                .iter()
                .any(|shape| matches!(shape, Shape::Ring { .. }))
        );
    }

    #[test]
    fn the_late_write_of_a_violation_is_ringed_and_named() {
        let scene = holders(&Source::new(
            &run(),
            &zombie_accepted().history(),
            &judgement(vec![stale_write_accepted()]),
        ));
        scene.assert_readable();
        let rings = scene
            .shapes
            .iter()
            .filter(|shape| matches!(shape, Shape::Ring { .. }))
            .count();
        assert_eq!(rings, 2, "the write and its sign in the legend");
        assert!(
            texts(&scene)
                .iter()
                .any(|text| text == "stale-write-accepted")
        );
    }

    #[test]
    fn nothing_recorded_is_said_and_one_operation_is_enough() {
        let empty = holders(&Source::new(
            &run(),
            &Recording::default().history(),
            &judgement(Vec::new()),
        ));
        empty.assert_readable();
        assert!(
            texts(&empty)
                .iter()
                .any(|text| text == "no grant and no write was recorded")
        );
        let mut recording = Recording::default();
        recording.grant("c1", "s", 1, 0, 1);
        holders(&Source::new(
            &run(),
            &recording.history(),
            &judgement(Vec::new()),
        ))
        .assert_readable();
    }

    #[test]
    fn crowded_lanes_are_thinned_out_and_say_so() {
        let mut recording = Recording::default();
        for client in 0..70 {
            recording.grant(&format!("c{client}"), "s", client + 1, 0, 1);
            for write in 0..60 {
                recording.write(
                    &format!("c{client}"),
                    "s",
                    client + 1,
                    2 + write,
                    3 + write,
                    "ok",
                );
            }
        }
        recording.release("c0", "s", 1, 40_000, 40_001, "ok");
        let scene = holders(&Source::new(
            &run(),
            &recording.history(),
            &judgement(Vec::new()),
        ));
        scene.assert_readable();
        let texts = texts(&scene);
        assert!(
            texts
                .iter()
                .any(|text| text == "10 lanes with the fewest refusals and grants are left out."),
            "{texts:?}"
        );
        assert!(
            texts
                .iter()
                .any(|text| text.contains("of 3,600 accepted writes are left out")),
            "{texts:?}"
        );
    }
}
