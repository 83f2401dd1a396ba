//! Fault windows as bands behind a picture: whom they strike, and the strip above the plot that names them.
//!
//! Skipped faults were never in force and are not drawn. A fault without evidence is drawn in outline.

use std::collections::HashMap;

use fencepost_checker::history::{FaultOutcome, FaultWindow, History, Name};

use super::belief::end_of;
use super::frame::Axis;
use super::palette::{self, Colour, GRID, SOFT_INK};
use super::plain::counted;
use super::scene::{Anchor, Area, Scene, at, fitted};
use crate::run_record::RunRecord;

/// More rows than this are not drawn; the caption says so.
const MOST_ROWS: usize = 14;
const ROW: f64 = 17.0;
/// A band that begins and ends as near as this to the one of its kind before is not drawn again, in pixels.
const SAME: f64 = 3.0;
/// Of more bands of one kind only those are drawn that reach further right than all before, by [`STEP`].
const FEW: usize = 60;
/// What is too narrow to be told from its neighbours where there are many, in pixels.
const STEP: f64 = 10.0;
/// A narrower part of a bar is not hatched, in pixels.
const HATCHED: f64 = 3.0;

/// A fault that was in force.
#[derive(Clone, Debug)]
pub struct Band<'h> {
    /// What the recording says of it.
    pub window: &'h FaultWindow,
    /// The entry of the plan, or the kind: names its row.
    pub label: &'h str,
    /// Its begin, in nanoseconds since the run began.
    pub from: u64,
    /// Its end, or the recording's.
    pub to: u64,
    /// There is evidence that it was in force.
    pub certain: bool,
}

/// The faults that were in force, in order.
#[must_use]
pub fn bands(history: &History) -> Vec<Band<'_>> {
    let end = end_of(history).time;
    let in_force = history
        .faults
        .iter()
        .filter(|window| window.outcome != FaultOutcome::Skipped);
    in_force
        .map(|window| Band {
            window,
            label: window.begin.plan.as_deref().unwrap_or(&window.begin.fault),
            from: window.began.time,
            to: window
                .ended
                .map_or(end, |ended| ended.time)
                .max(window.began.time),
            certain: window.outcome == FaultOutcome::Installed,
        })
        .collect()
}

/// What is said of the faults that were never in force, if there are any.
#[must_use]
pub fn skipped(history: &History) -> Option<String> {
    let skipped = history
        .faults
        .iter()
        .filter(|window| window.outcome == FaultOutcome::Skipped)
        .count() as u64;
    (skipped > 0).then(|| {
        format!(
            "{} skipped, never in force and not drawn.",
            counted(skipped, "fault") + if skipped == 1 { " was" } else { " were" }
        )
    })
}

impl Band<'_> {
    /// Where it is drawn; never so short that it would not be seen.
    fn span(&self, axis: &Axis) -> (f64, f64) {
        let from = axis.x(self.from);
        (from, axis.x(self.to).max(from + 2.0))
    }

    /// The colour of its kind.
    #[must_use]
    pub fn colour(&self) -> Colour {
        palette::fault(&self.window.begin.fault)
    }

    /// Whether it strikes what all clients share: a service, or anything that is no client's worker.
    #[must_use]
    pub fn strikes_all(&self, run: &RunRecord, history: &History) -> bool {
        let begin = &self.window.begin;
        begin.client.is_none()
            && !begin
                .on
                .iter()
                .any(|on| workers(run, history).any(|worker| is_of(on, worker)))
    }

    /// Whether it strikes this client, its worker or one of its links.
    #[must_use]
    pub fn strikes(&self, client: Name, run: &RunRecord, history: &History) -> bool {
        let begin = &self.window.begin;
        let client = history.names.text(client);
        let own = worker_of(client, run, history)
            .is_some_and(|worker| begin.on.iter().any(|on| is_of(on, worker)));
        own || begin.client.as_deref() == Some(client)
    }
}

/// The worker that runs `client`, where run or recording say so.
#[must_use]
pub fn worker_of<'a>(client: &str, run: &'a RunRecord, history: &'a History) -> Option<&'a str> {
    let recorded = history
        .header
        .as_ref()
        .and_then(|header| header.clients.get(client));
    // A restarted worker's clients are named anew (`c3~2`) and stay where they were.
    let first_name = client.split('~').next().unwrap_or(client);
    recorded
        .or_else(|| run.clients.get(client))
        .or_else(|| run.clients.get(first_name))
        .map(String::as_str)
}

fn workers<'a>(run: &'a RunRecord, history: &'a History) -> impl Iterator<Item = &'a str> {
    let recorded = history
        .header
        .iter()
        .flat_map(|header| header.clients.values());
    run.clients.values().chain(recorded).map(String::as_str)
}

/// `w2` and its links (`w2-lock`) are of worker `w2`.
fn is_of(on: &str, worker: &str) -> bool {
    on.strip_prefix(worker)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Draws one row for each label, with its bands, and answers how many labels found no row.
pub fn strip(scene: &mut Scene, axis: &Axis, bands: &[Band<'_>], top: f64) -> Strip {
    let mut labels: Vec<&str> = Vec::new();
    for band in bands {
        if !labels.contains(&band.label) {
            labels.push(band.label);
        }
    }
    let left_out = labels.len().saturating_sub(MOST_ROWS);
    labels.truncate(MOST_ROWS);
    let mut hidden = 0;
    for (row, label) in labels.iter().enumerate() {
        let middle = top + ROW * (row as f64 + 0.5);
        scene.line(at(axis.left, middle), at(axis.right, middle), GRID, 1);
        scene.text(
            at(axis.left - 10.0, middle),
            &fitted(label, 13.0, axis.left - 34.0),
            13.0,
            SOFT_INK,
            Anchor::End,
        );
        let mut spots = Spots::default();
        for band in bands.iter().filter(|band| band.label == *label) {
            let (from, to) = band.span(axis);
            if !spots.is_new(band, from, to) {
                hidden += 1;
                continue;
            }
            let area = Area::new(from, middle - 5.0, to, middle + 5.0);
            if band.certain {
                scene.fill(area, band.colour());
            }
            scene.outline(area, band.colour().tint(0.8), 1);
        }
    }
    let bottom = if labels.is_empty() {
        top
    } else {
        top + ROW * labels.len() as f64 + 8.0
    };
    Strip {
        bottom,
        left_out,
        hidden,
    }
}

/// What [`strip`] drew.
#[derive(Clone, Copy, Debug)]
pub struct Strip {
    /// Where it ends.
    pub bottom: f64,
    /// Labels without a row.
    pub left_out: usize,
    /// Faults that would lie on others of their row.
    pub hidden: usize,
}

impl Strip {
    /// What is said of the faults that lie on others, if there are any.
    #[must_use]
    pub fn hidden_note(&self) -> Option<String> {
        let verb = if self.hidden == 1 { "lies" } else { "lie" };
        (self.hidden > 0).then(|| {
            format!(
                "{} {verb} within {STEP} px of others of the kind and {} no band.",
                counted(self.hidden as u64, "fault"),
                if self.hidden == 1 { "has" } else { "have" }
            )
        })
    }
}

/// Where bands were drawn, kind by kind: thousands of faults on one spot are seen no better than one of them.
#[derive(Default)]
struct Spots(HashMap<(Colour, bool), Spot>);

/// The last band of a kind, how far right its kind reaches, and how many there were.
struct Spot {
    last: (f64, f64),
    reached: f64,
    seen: usize,
}

impl Spots {
    /// Whether a band from one place to another shows something that the ones of its kind before do not. Where there
    /// are few, each that is not on the very spot of the last one does.
    fn is_new(&mut self, band: &Band<'_>, from: f64, to: f64) -> bool {
        let spot = self.0.entry((band.colour(), band.certain)).or_insert(Spot {
            last: (f64::MIN, f64::MIN),
            reached: f64::MIN,
            seen: 0,
        });
        spot.seen += 1;
        let is_new = if spot.seen <= FEW {
            (from - spot.last.0).abs() >= SAME || (to - spot.last.1).abs() >= SAME
        } else {
            to - spot.reached >= STEP
        };
        if is_new {
            spot.last = (from, to);
            spot.reached = spot.reached.max(to);
        }
        is_new
    }
}

/// Shades `area`'s height behind everything for each of `bands`.
pub fn shade<'a>(
    scene: &mut Scene,
    axis: &Axis,
    bands: impl Iterator<Item = &'a Band<'a>>,
    area: Area,
    alpha: f64,
) {
    let mut spots = Spots::default();
    for band in bands {
        let (from, to) = band.span(axis);
        if !spots.is_new(band, from, to) {
            continue;
        }
        let alpha = if band.certain {
            alpha
        } else {
            alpha * palette::DOUBT
        };
        scene.shade(
            Area::new(from, area.top, to, area.bottom),
            band.colour(),
            alpha,
        );
    }
}

/// Hatches the part of `bar` during which its client was stopped: it neither wrote nor learnt anything then.
pub fn hatch_stopped<'a>(
    scene: &mut Scene,
    axis: &Axis,
    bands: impl Iterator<Item = &'a Band<'a>>,
    bar: Area,
) {
    for band in bands.filter(|band| {
        matches!(
            band.window.begin.fault.as_str(),
            "zombie" | "between" | "pause"
        )
    }) {
        let (from, to) = (
            axis.x(band.from).max(bar.left),
            axis.x(band.to).min(bar.right),
        );
        if to - from >= HATCHED {
            scene.hatch(Area::new(from, bar.top, to, bar.bottom), SOFT_INK.tint(0.6));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Recording, run};
    use super::*;

    #[test]
    fn a_fault_strikes_the_clients_of_its_worker_and_links_and_services_strike_all() {
        let mut recording = Recording::default();
        recording
            .grant("c1", "s", 1, 0, 1)
            .grant("c2", "s", 2, 2, 3)
            .grant("c3~2", "s", 3, 4, 5);
        let rows: [(&[&str], [bool; 4]); 6] = [
            (&["w1"], [false, true, false, true]),
            (&["w2-lock"], [false, false, true, false]),
            (&["lock"], [true, false, false, false]),
            (&["resource"], [true, false, false, false]),
            (&["w10"], [true, false, false, false]),
            (&[], [true, false, false, false]),
        ];
        for (id, (on, _)) in rows.iter().enumerate() {
            recording.fault(
                id as u64,
                "pause",
                on,
                10 + id as u64,
                Some(30),
                "installed",
            );
        }
        let (history, run) = (recording.history(), run());
        let name = |client: &str| history.names.find(client).expect("it acquired");
        for (band, (on, expected)) in bands(&history).iter().zip(rows) {
            let strikes = |client| band.strikes(name(client), &run, &history);
            assert_eq!(
                [
                    band.strikes_all(&run, &history),
                    strikes("c1"),
                    strikes("c2"),
                    strikes("c3~2")
                ],
                expected,
                "{on:?}"
            );
        }
    }

    #[test]
    fn of_thousands_of_faults_as_many_are_drawn_as_can_be_told_apart() {
        let mut recording = Recording::default();
        recording.grant("c1", "s", 1, 0, 1);
        for id in 0..5_000 {
            let (from, worker) = (id * 20, format!("w{}", 1 + id % 3));
            recording.fault(
                id,
                "pause",
                &[worker.as_str()],
                from,
                Some(from + 15),
                "installed",
            );
        }
        let history = recording.history();
        let bands = bands(&history);
        let axis = Axis {
            left: 100.0,
            right: 1_100.0,
            from: 0,
            to: 100_000_000_000,
        };
        let mut scene = Scene::new(1_200, "many");
        let strip = strip(&mut scene, &axis, &bands, 0.0);
        let drawn = bands.len() - strip.hidden;
        assert!((100..200).contains(&drawn), "{drawn}");
        assert!(
            strip
                .hidden_note()
                .is_some_and(|note| note.contains("have no band"))
        );
    }

    #[test]
    fn skipped_faults_are_no_bands_and_open_ones_last_to_the_end() {
        let mut recording = Recording::default();
        recording
            .fault(1, "pause", &["w1"], 10, None, "installed")
            .fault(2, "kill", &["lock"], 20, Some(30), "skipped");
        recording.fault(3, "hole", &["w1-lock"], 40, Some(50), "unknown");
        let history = recording.history();
        let bands: Vec<_> = bands(&history)
            .iter()
            .map(|band| {
                (
                    band.label,
                    band.from / 1_000_000,
                    band.to / 1_000_000,
                    band.certain,
                )
            })
            .collect();
        assert_eq!(bands, [("pause", 10, 50, true), ("hole", 40, 50, false)]);
        assert_eq!(
            skipped(&history).as_deref(),
            Some("1 fault was skipped, never in force and not drawn.")
        );
        assert_eq!(skipped(&Recording::default().history()), None);
    }
}
