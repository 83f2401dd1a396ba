//! `plots/marks`: the issuer's counter against the fence's high water, one row a lock.
//!
//! Both are stairs that only go up. Where the counter runs ahead, a new holder has not written yet; what the fence
//! refused lies below the stairs, and what lies below them and was accepted should not have been.

use std::collections::BTreeMap;

use fencepost_checker::history::{Function, History, Name, Outcome};

use super::belief::Belief;
use super::frame::{Sign, WIDTH};
use super::lanes::{Locks, natural};
use super::late::late_writes;
use super::palette::{Answer, Colour, GRANTED, SOFT_INK, VIOLATION, is_write};
use super::panel::Panel;
use super::plain::counted;
use super::scale::LinearScale;
use super::scene::{Area, Mark, Point, Scene, Shape, at};
use super::story::moment;
use crate::run_record::RunRecord;

const LEFT: f64 = 270.0;
/// More locks than this are not drawn.
const MOST_LOCKS: usize = 12;
/// More marks of one kind than this are thinned out evenly, in each row.
const MOST_MARKS: usize = 400;
/// Marks of one kind nearer than this to one before are left out, in pixels each way.
const NEAREST: f64 = 3.0;

/// The picture.
#[must_use]
pub fn marks(run: &RunRecord, history: &History, beliefs: &[Belief]) -> Scene {
    let mut scene = Scene::new(WIDTH, "The issuer's counter and the fence's high water");
    let about = "highest token granted and highest token accepted of each lock; what was refused stands at the token that it presented";
    let mut panel = Panel::begin(&mut scene, run, history, about, LEFT);
    let mut rows = rows(history, beliefs);
    let left_out = rows.len().saturating_sub(MOST_LOCKS);
    rows.truncate(MOST_LOCKS);
    let height = match rows.len() {
        0..=4 => 150.0,
        5..=8 => 110.0,
        _ => 84.0,
    };
    let mut near = 0;
    for row in &rows {
        let plot = panel.plot(&mut scene, height, &row.name(history));
        near += row.draw(&mut scene, &panel, plot);
        scene.outline(plot, SOFT_INK, 1);
    }
    if rows.is_empty() {
        let plot = panel.plot(&mut scene, height, "");
        Panel::nothing(&mut scene, plot, "no token was granted and none presented");
        scene.outline(plot, SOFT_INK, 1);
    }
    let mut notes = Vec::new();
    if near > 0 {
        notes.push(format!(
            "{} left out: nearer than {NEAREST} px to a drawn one, or one of more than {MOST_MARKS} of a kind in a row.",
            counted(near, "mark") + if near == 1 { " is" } else { " are" }
        ));
    }
    if left_out > 0 {
        notes.push(format!(
            "{} with the fewest refusals {} left out.",
            counted(left_out as u64, "more lock"),
            if left_out == 1 { "is" } else { "are" }
        ));
    }
    panel.end(&mut scene, "seconds since the run began", &entries(), notes);
    scene
}

fn entries() -> Vec<(Sign, String)> {
    vec![
        (Sign::Line(GRANTED, 2), "highest token granted".to_owned()),
        (Sign::Mark(Mark::Dot, GRANTED), "a grant".to_owned()),
        (
            Sign::Line(Answer::Ok.colour(), 3),
            "highest token accepted".to_owned(),
        ),
        (
            Sign::Mark(Mark::Cross, Answer::Refused.colour()),
            "write refused".to_owned(),
        ),
        (
            Sign::Ring(VIOLATION),
            "accepted, although a higher token had been accepted before".to_owned(),
        ),
    ]
}

/// Moments with tokens, in order of time.
type Track = Vec<(u64, i128)>;

/// One lock.
#[derive(Debug, Default)]
struct Row {
    lock: Option<Name>,
    granted: Track,
    accepted: Track,
    refused: Track,
    /// Accepted, although late.
    stale: Track,
}

/// Every lock that tokens were granted of or presented for; the most refusals first where there are many.
fn rows(history: &History, beliefs: &[Belief]) -> Vec<Row> {
    let locks = Locks::new(history, beliefs);
    let mut rows: BTreeMap<Option<Name>, Row> = BTreeMap::new();
    let mut row = |lock: Option<Name>, pick: fn(&mut Row) -> &mut Track, mark: (u64, i128)| {
        let row = rows.entry(lock).or_default();
        row.lock = lock;
        pick(row).push(mark);
    };
    for operation in &history.operations {
        let (Some(token), Some(_)) = (operation.token, operation.completed) else {
            continue;
        };
        let mark = (moment(operation), token.value());
        if operation.function == Function::Acquire && operation.outcome == Outcome::Ok {
            row(operation.lock, |row| &mut row.granted, mark);
        }
        if is_write(operation) && operation.outcome == Outcome::Ok {
            row(locks.of(operation), |row| &mut row.accepted, mark);
        }
    }
    for late in late_writes(history) {
        let write = &history.operations[late.position];
        if let Some(token) = write.token {
            let pick: fn(&mut Row) -> &mut Track = if late.accepted {
                |row| &mut row.stale
            } else {
                |row| &mut row.refused
            };
            row(locks.of(write), pick, (moment(write), token.value()));
        }
    }
    let mut rows: Vec<Row> = rows.into_values().collect();
    for row in &mut rows {
        for track in [
            &mut row.granted,
            &mut row.accepted,
            &mut row.refused,
            &mut row.stale,
        ] {
            track.sort_unstable();
        }
    }
    if rows.len() > MOST_LOCKS {
        rows.sort_by_key(|row| std::cmp::Reverse((row.stale.len(), row.refused.len())));
    }
    let shown = rows.len().min(MOST_LOCKS);
    rows[..shown].sort_by_cached_key(|row| {
        (
            row.lock.is_none(),
            row.lock.map(|lock| natural(history.names.text(lock))),
        )
    });
    rows
}

impl Row {
    fn tracks(&self) -> [&Track; 4] {
        [&self.granted, &self.accepted, &self.refused, &self.stale]
    }

    fn bounds(&self) -> (i128, i128) {
        let tokens = || self.tracks().into_iter().flatten().map(|(_, token)| *token);
        (tokens().min().unwrap_or(0), tokens().max().unwrap_or(0))
    }

    /// From where the scale counts: 0, or the least token where all of them are far away from it.
    fn base(&self) -> i128 {
        let (least, greatest) = self.bounds();
        let near = least >= 0 && least <= (greatest - least) * 4 + 50;
        if near { 0 } else { least }
    }

    fn name(&self, history: &History) -> String {
        let lock = self.lock.map_or("no lock", |lock| history.names.text(lock));
        match self.base() {
            0 => format!("{lock}: token"),
            base => format!("{lock}: token - {base}"),
        }
    }

    /// Draws the row and answers how many marks were left out.
    fn draw(&self, scene: &mut Scene, panel: &Panel<'_>, plot: Area) -> u64 {
        let base = self.base();
        let (least, greatest) = self.bounds();
        // Distances between tokens: a picture needs no more precision than a float has.
        let size = |token: i128| (token - base) as f64;
        let air = (size(greatest) - size(least)).max(1.0) * 0.1;
        let scale = LinearScale {
            from: size(least) - air,
            to: size(greatest) + air,
        };
        scale.draw(scene, plot, (plot.height() / 30.0).max(2.0), true);
        let place =
            |&(time, token): &(u64, i128)| at(panel.axis.x(time), scale.y(size(token), plot));
        let climb = |scene: &mut Scene, track: &Track, colour: Colour, width: u32| {
            let points = stairs(track, place, panel.axis.x(panel.axis.to));
            if points.len() > 1 {
                scene.shapes.push(Shape::Stroke {
                    points,
                    colour,
                    width,
                });
            }
        };
        let mut left_out = 0;
        let mut mark = |track: &Track, sign: &mut dyn FnMut(Point)| {
            let (apart, near) = apart(track.iter().map(place));
            left_out += near;
            apart.into_iter().for_each(sign);
        };
        climb(scene, &self.granted, GRANTED, 2);
        mark(&self.granted, &mut |point| {
            scene.mark(Mark::Dot, point, 4.0, GRANTED);
        });
        climb(scene, &self.accepted, Answer::Ok.colour(), 3);
        mark(&self.refused, &mut |point| {
            scene.mark(Mark::Cross, point, 4.0, Answer::Refused.colour());
        });
        mark(&self.stale, &mut |point| scene.ring(point, 6, VIOLATION, 2));
        left_out
    }
}

/// The highest so far as a line that rises where it is raised, up to `end`; one step a pixel is enough.
fn stairs(track: &Track, place: impl Fn(&(u64, i128)) -> Point, end: f64) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    let mut highest = i128::MIN;
    for mark in track {
        if mark.1 <= highest {
            continue;
        }
        highest = mark.1;
        let next = place(mark);
        match points.last().copied() {
            Some(last) if next.x - last.x < 1.0 && points.len() > 2 => {
                if let Some(last) = points.last_mut() {
                    last.y = next.y;
                }
            }
            Some(last) => points.extend([at(next.x, last.y), next]),
            None => points.push(next),
        }
    }
    let level = points.last().map(|last| at(end.max(last.x), last.y));
    points.extend(level);
    points
}

/// Those of `places` (from left to right) that stand apart from those before them, and how many do not.
fn apart(places: impl Iterator<Item = Point>) -> (Vec<Point>, u64) {
    let (mut kept, mut near): (Vec<Point>, u64) = (Vec::new(), 0);
    for place in places {
        let crowded = kept
            .iter()
            .rev()
            .take_while(|other| place.x - other.x < NEAREST)
            .any(|other| (place.y - other.y).abs() < NEAREST);
        if crowded {
            near += 1;
        } else {
            kept.push(place);
        }
    }
    let step = kept.len().div_ceil(MOST_MARKS).max(1);
    let all = kept.len();
    let kept: Vec<Point> = kept.into_iter().step_by(step).collect();
    let thinned = (all - kept.len()) as u64;
    (kept, near + thinned)
}

#[cfg(test)]
mod tests {
    use super::super::belief::beliefs;
    use super::super::sample::{Recording, run, zombie_accepted, zombie_refused};
    use super::*;

    fn picture(recording: &Recording) -> Scene {
        let history = recording.history();
        let scene = marks(&run(), &history, &beliefs(&history));
        scene.assert_readable();
        scene
    }

    #[test]
    fn grants_accepted_and_refused_writes_stand_at_their_tokens() {
        let history = zombie_refused().history();
        let [row] = rows(&history, &beliefs(&history))
            .try_into()
            .expect("one lock");
        let ms = |track: &Track| -> Vec<(u64, i128)> {
            track
                .iter()
                .map(|(time, token)| (time / 1_000_000, *token))
                .collect()
        };
        assert_eq!(ms(&row.granted), [(4, 41), (1_104, 42)]);
        assert_eq!(ms(&row.accepted), [(22, 41), (1_152, 42), (1_322, 42)]);
        assert_eq!((ms(&row.refused), row.stale.len()), (vec![(1_303, 41)], 0));
        picture(&zombie_refused());
    }

    #[test]
    fn a_late_write_that_was_accepted_is_ringed() {
        let rings = |recording: &Recording| {
            picture(recording)
                .shapes
                .iter()
                .filter(|shape| matches!(shape, Shape::Ring { .. }))
                .count()
        };
        assert_eq!(rings(&zombie_refused()), 1, "the legend's");
        assert_eq!(rings(&zombie_accepted()), 2);
    }

    #[test]
    fn stairs_only_rise_and_go_on_to_the_end() {
        let track = vec![(0, 1), (10, 3), (20, 2), (30, 4)];
        let points = stairs(&track, |&(time, token)| at(time as f64, token as f64), 50.0);
        let places: Vec<(i64, i64)> = points
            .iter()
            .map(|point| (point.x as i64, point.y as i64))
            .collect();
        assert_eq!(
            places,
            [(0, 1), (10, 1), (10, 3), (30, 3), (30, 4), (50, 4)]
        );
    }

    #[test]
    fn tokens_far_from_zero_count_from_the_least() {
        let mut recording = Recording::default();
        recording
            .grant("c1", "s", u64::MAX - 9, 0, 1)
            .write("c1", "s", u64::MAX - 9, 2, 3, "ok")
            .grant("c1", "s", u64::MAX, 4, 5);
        let texts: Vec<String> = picture(&recording)
            .text_areas()
            .into_iter()
            .map(|(text, _)| text)
            .collect();
        assert!(
            texts.iter().any(|text| text.starts_with("s: token - 1844")),
            "{texts:?}"
        );
    }

    #[test]
    fn many_locks_are_cut_to_those_with_refusals_and_nothing_is_said() {
        let mut recording = Recording::default();
        for lock in 0..20 {
            let name = format!("s{lock}");
            recording.grant("c1", &name, 1, lock, lock + 1).write(
                "c1",
                &name,
                1,
                50 + lock,
                60 + lock,
                if lock == 19 { "refused" } else { "ok" },
            );
        }
        let texts: Vec<String> = picture(&recording)
            .text_areas()
            .into_iter()
            .map(|(text, _)| text)
            .collect();
        assert!(texts.iter().any(|text| text == "s19: token"), "{texts:?}");
        assert!(
            texts
                .iter()
                .any(|text| text == "8 more locks with the fewest refusals are left out."),
            "{texts:?}"
        );
        let empty = picture(&Recording::default()).text_areas();
        assert!(
            empty
                .iter()
                .any(|(text, _)| text == "no token was granted and none presented")
        );
    }
}
