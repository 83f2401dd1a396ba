//! `plots/lag`: how far behind the tokens of refused writes were, as a distribution.
//!
//! One step behind is a holder that missed its successor; many steps are a holder that slept through generations.

use std::collections::BTreeMap;

use fencepost_checker::history::History;

use super::frame::{RIGHT, Sign, WIDTH, captions, heading, legend};
use super::late::{Late, late_writes};
use super::palette::{Answer, INK, SOFT_INK, VIOLATION};
use super::panel::Panel;
use super::plain::{counted, grouped, plain};
use super::scale::LinearScale;
use super::scene::{Anchor, Area, Scene, at, text_area};
use crate::run_record::RunRecord;

const LEFT: f64 = 130.0;
const HEIGHT: f64 = 360.0;
/// Up to so many steps each has a bar of its own; beyond, bars double.
const MOST_SINGLE: i128 = 24;

/// The picture.
#[must_use]
pub fn lag(run: &RunRecord, history: &History) -> Scene {
    let title = "How stale were the tokens that the fence met?";
    let mut scene = Scene::new(WIDTH, title);
    let late = late_writes(history);
    let subtitle = format!(
        "run {}: the high water less the token that was presented, for every write that was refused or should have been",
        plain(&run.run, 16)
    );
    let top = heading(&mut scene, title, &subtitle, 22.0) + 10.0;
    let plot = Area::new(LEFT, top, RIGHT, top + HEIGHT);
    let bars = bars(&late);
    let most = bars.iter().map(Bar::all).max().unwrap_or(0);
    let scale = LinearScale::up_to(most as f64 * 1.06);
    scale.draw(&mut scene, plot, 6.0, true);
    for (place, bar) in bars.iter().enumerate() {
        draw(&mut scene, bar, slot(plot, place, bars.len()), scale);
        name_bar(&mut scene, bar, place, slot(plot, place, bars.len()));
    }
    if bars.is_empty() {
        Panel::nothing(&mut scene, plot, "no write was refused, and none was late");
    }
    scene.outline(plot, SOFT_INK, 1);
    scene.text(at(24.0, plot.middle()), "writes", 14.0, INK, Anchor::Start);
    scene.text(
        at(f64::midpoint(plot.left, plot.right), plot.bottom + 44.0),
        "tokens behind the high water",
        14.0,
        INK,
        Anchor::Middle,
    );
    let entries = [
        (
            Sign::Bars(vec![Answer::Refused.colour()]),
            Answer::Refused.words().to_owned(),
        ),
        (
            Sign::Bars(vec![VIOLATION]),
            "accepted, although a higher token had been accepted before".to_owned(),
        ),
    ];
    let below = legend(&mut scene, &entries, LEFT, plot.bottom + 64.0, 14.0);
    let below = captions(&mut scene, &notes(&late), LEFT, below + 2.0);
    scene.height = (below + 8.0) as u32;
    scene
}

fn notes(late: &[Late]) -> Vec<String> {
    let (accepted, refused): (Vec<&Late>, Vec<&Late>) = late.iter().partition(|late| late.accepted);
    let untold = late.iter().filter(|late| late.lag.is_none()).count();
    let mut notes = vec![format!(
        "{} refused; {} accepted although late.",
        counted(refused.len() as u64, "write"),
        grouped(accepted.len() as u64)
    )];
    if untold > 0 {
        notes.push(format!(
            "{} named no high water, and none was proven: not drawn.",
            counted(untold as u64, "refusal")
        ));
    }
    notes
}

/// Writes whose lag is within bounds.
#[derive(Debug, Eq, PartialEq)]
struct Bar {
    name: String,
    refused: u64,
    accepted: u64,
}

impl Bar {
    fn all(&self) -> u64 {
        self.refused + self.accepted
    }
}

/// One bar for each lag from the least to the greatest, doubling where they are many.
fn bars(late: &[Late]) -> Vec<Bar> {
    let lags: Vec<(i128, bool)> = late
        .iter()
        .filter_map(|late| Some((late.lag?, late.accepted)))
        .collect();
    let Some(greatest) = lags.iter().map(|(lag, _)| *lag).max() else {
        return Vec::new();
    };
    let place = |lag: i128| -> i128 {
        match lag {
            ..1 => 0,
            lag if greatest <= MOST_SINGLE => lag,
            // In range: a logarithm of a positive number.
            lag => i128::from(lag.ilog2()) + 1,
        }
    };
    let mut counts: BTreeMap<i128, (u64, u64)> = BTreeMap::new();
    for &(lag, accepted) in &lags {
        let (refused, stale) = counts.entry(place(lag)).or_default();
        *(if accepted { stale } else { refused }) += 1;
    }
    let least = if counts.contains_key(&0) { 0 } else { 1 };
    (least..=place(greatest).max(1))
        .map(|bar| {
            let (refused, accepted) = counts.get(&bar).copied().unwrap_or_default();
            Bar {
                name: name(bar, greatest <= MOST_SINGLE),
                refused,
                accepted,
            }
        })
        .collect()
}

fn name(bar: i128, single: bool) -> String {
    match bar {
        0 => "none".to_owned(),
        bar if single || bar == 1 => bar.to_string(),
        bar => {
            let power = |exponent: i128| 1_i128 << exponent.clamp(0, 126);
            let (from, to) = (power(bar - 1), power(bar) - 1);
            if bar > 13 {
                format!("2^{}+", bar - 1)
            } else {
                format!("{from}-{to}")
            }
        }
    }
}

/// The part of the plot that belongs to one of `all` bars.
fn slot(plot: Area, place: usize, all: usize) -> Area {
    let wide = (plot.width() / all as f64).min(150.0);
    let left = plot.left + (plot.width() - wide * all as f64) / 2.0 + wide * place as f64;
    Area::new(left, plot.top, left + wide, plot.bottom)
}

fn draw(scene: &mut Scene, bar: &Bar, slot: Area, scale: LinearScale) {
    let (left, right) = (
        slot.left + slot.width() * 0.15,
        slot.right - slot.width() * 0.15,
    );
    let refused = scale.y(bar.refused as f64, slot);
    let top = scale.y(bar.all() as f64, slot);
    if bar.refused > 0 {
        let area = Area::new(left, refused, right, slot.bottom);
        scene.fill(area, Answer::Refused.colour());
    }
    if bar.accepted > 0 {
        scene.fill(Area::new(left, top, right, refused), VIOLATION);
    }
    let centre = f64::midpoint(left, right);
    let words = grouped(bar.all());
    if bar.all() > 0
        && text_area(at(centre, 0.0), &words, 13.0, Anchor::Middle).width() < slot.width()
    {
        scene.label(at(centre, top - 9.0), &words, 13.0, INK, Anchor::Middle);
    }
}

/// The name of every bar, or of every so many where they are narrow.
fn name_bar(scene: &mut Scene, bar: &Bar, place: usize, slot: Area) {
    let step = (64.0 / slot.width()).ceil().max(1.0) as usize;
    if place.is_multiple_of(step) {
        let below = at(f64::midpoint(slot.left, slot.right), slot.bottom + 18.0);
        scene.text(below, &bar.name, 13.0, SOFT_INK, Anchor::Middle);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Recording, run, zombie_accepted, zombie_refused};
    use super::*;

    fn late(lag: i128, accepted: bool) -> Late {
        Late {
            position: 0,
            accepted,
            lag: Some(lag),
        }
    }

    fn table(late: &[Late]) -> Vec<(String, u64, u64)> {
        bars(late)
            .into_iter()
            .map(|bar| (bar.name, bar.refused, bar.accepted))
            .collect()
    }

    #[test]
    fn each_lag_has_a_bar_and_a_gap_is_a_bar_of_none() {
        let row = |name: &str, refused, accepted| (name.to_owned(), refused, accepted);
        assert_eq!(
            table(&[late(1, false), late(3, false), late(3, true)]),
            [row("1", 1, 0), row("2", 0, 0), row("3", 1, 1)]
        );
        assert_eq!(
            table(&[late(-4, false)]),
            [row("none", 1, 0), row("1", 0, 0)]
        );
        assert_eq!(table(&[]), []);
    }

    #[test]
    fn great_lags_share_bars_that_double() {
        let names: Vec<String> = table(&[late(1, false), late(100, false)])
            .into_iter()
            .map(|(name, ..)| name)
            .collect();
        assert_eq!(
            names,
            ["1", "2-3", "4-7", "8-15", "16-31", "32-63", "64-127"]
        );
        let widest = table(&[late(i128::from(u64::MAX) + (1 << 63), false)]);
        assert_eq!(widest.len(), 65);
    }

    #[test]
    fn pictures_are_readable_whatever_there_is() {
        for recording in [zombie_refused(), zombie_accepted(), Recording::default()] {
            lag(&run(), &recording.history()).assert_readable();
        }
        let mut recording = Recording::default();
        recording
            .write("c1", "s", 1, 0, 1, "refused")
            .write("c1", "s", u64::MAX, 2, 3, "ok")
            .write("c1", "s", 1, 4, 5, "ok");
        let scene = lag(&run(), &recording.history());
        scene.assert_readable();
        assert!(
            scene
                .text_areas()
                .iter()
                .any(|(text, _)| text == "1 write refused; 1 accepted although late.")
        );
    }
}
