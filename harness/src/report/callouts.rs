//! Labels above a lane, each joined to its mark by an upright line, in as few rows as keep them apart.
//!
//! Labels left of some place reach rightwards, those right of it leftwards, and none leaves the paper. A label goes
//! to the lowest row where it meets neither another label nor another's line. The place is the one that leaves the
//! fewest lines behind labels, then the fewest rows.

use super::palette::Colour;
use super::scene::{Anchor, Area, at, text_area};

/// Between a line and its label, in pixels.
const GAP: f64 = 5.0;
/// Beyond this row labels may cross lines.
const MOST_ROWS: usize = 14;

/// A label with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Callout {
    /// Where its mark and its line stand.
    pub x: f64,
    /// What it says.
    pub text: String,
    /// In which colour.
    pub colour: Colour,
    /// Which end of the text is at the line.
    pub anchor: Anchor,
    /// From 0, just above the lane, upwards.
    pub row: usize,
    /// Its left and right end.
    ends: (f64, f64),
}

impl Callout {
    /// Where the anchor of the text stands.
    #[must_use]
    pub fn text_x(&self) -> f64 {
        match self.anchor {
            Anchor::End => self.x - GAP,
            Anchor::Start | Anchor::Middle => self.x + GAP,
        }
    }

    fn meets(&self, other: &Self) -> bool {
        self.row == other.row
            && self.ends.0 - 12.0 < other.ends.1
            && other.ends.0 - 12.0 < self.ends.1
    }

    /// The line of `self` passes through the text of `other`.
    fn crosses(&self, other: &Self) -> bool {
        self.row > other.row && other.ends.0 - 3.0 < self.x && self.x < other.ends.1 + 3.0
    }
}

/// Finds each label (place of its mark, text, colour) a row between `left` and `right`.
#[must_use]
pub fn arranged(
    labels: Vec<(f64, String, Colour)>,
    size: f64,
    left: f64,
    right: f64,
) -> Vec<Callout> {
    let mut turns = vec![f64::midpoint(left, right), left, right];
    turns.extend(labels.iter().map(|(x, ..)| *x));
    let arrangements = turns.into_iter().map(|turn| {
        let unplaced = labels
            .iter()
            .map(|(x, text, colour)| unplaced(*x, text, *colour, size, (left, right), turn));
        placed(unplaced.collect())
    });
    arrangements
        .min_by_key(|callouts| {
            (
                crossings(callouts),
                callouts.iter().map(|callout| callout.row).max(),
            )
        })
        .unwrap_or_default()
}

fn crossings(callouts: &[Callout]) -> usize {
    callouts
        .iter()
        .map(|callout| {
            callouts
                .iter()
                .filter(|other| callout.crosses(other))
                .count()
        })
        .sum()
}

fn placed(mut waiting: Vec<Callout>) -> Vec<Callout> {
    // Nearest to the turn first on the left, last on the right: a line then never passes a lower label of its side.
    waiting.sort_by(|one, other| {
        order(one)
            .cmp(&order(other))
            .then(position(one).total_cmp(&position(other)))
    });
    let mut placed: Vec<Callout> = Vec::new();
    for mut callout in waiting {
        let free = |row: usize, cross: bool| {
            let tried = Callout {
                row,
                ..callout.clone()
            };
            placed.iter().all(|other| {
                !tried.meets(other) && (cross || !(tried.crosses(other) || other.crosses(&tried)))
            })
        };
        let row = (0..MOST_ROWS)
            .find(|&row| free(row, false))
            .or_else(|| (0..).find(|&row| free(row, true)));
        callout.row = row.unwrap_or_default();
        placed.push(callout);
    }
    placed
}

fn order(callout: &Callout) -> u8 {
    u8::from(callout.anchor == Anchor::End)
}

/// Left labels from right to left, right labels from left to right.
fn position(callout: &Callout) -> f64 {
    if callout.anchor == Anchor::End {
        callout.x
    } else {
        -callout.x
    }
}

fn unplaced(
    x: f64,
    text: &str,
    colour: Colour,
    size: f64,
    (left, right): (f64, f64),
    turn: f64,
) -> Callout {
    let area = |anchor| -> Area {
        let from = if anchor == Anchor::End {
            x - GAP
        } else {
            x + GAP
        };
        text_area(at(from, 0.0), text, size, anchor)
    };
    let leftwards =
        area(Anchor::Start).right > right || (x > turn && area(Anchor::End).left >= left);
    let anchor = if leftwards {
        Anchor::End
    } else {
        Anchor::Start
    };
    let ends = (area(anchor).left, area(anchor).right);
    Callout {
        x,
        text: text.to_owned(),
        colour,
        anchor,
        row: 0,
        ends,
    }
}

#[cfg(test)]
mod tests {
    use super::super::palette::INK;
    use super::*;

    fn rows(xs: &[f64]) -> Vec<(f64, Anchor, usize)> {
        let labels = xs
            .iter()
            .map(|&x| (x, "a label of some length".to_owned(), INK))
            .collect();
        let mut placed = arranged(labels, 16.0, 0.0, 1_000.0);
        placed.sort_by(|one, other| one.x.total_cmp(&other.x));
        placed
            .iter()
            .map(|callout| (callout.x, callout.anchor, callout.row))
            .collect()
    }

    #[test]
    fn labels_far_apart_share_the_lowest_row() {
        assert_eq!(
            rows(&[10.0, 300.0, 950.0]),
            [
                (10.0, Anchor::Start, 0),
                (300.0, Anchor::Start, 0),
                (950.0, Anchor::End, 0)
            ]
        );
    }

    #[test]
    fn near_labels_climb_so_that_no_line_passes_a_text() {
        assert_eq!(
            rows(&[10.0, 20.0, 30.0]),
            [
                (10.0, Anchor::Start, 2),
                (20.0, Anchor::Start, 1),
                (30.0, Anchor::Start, 0)
            ]
        );
        assert_eq!(
            rows(&[970.0, 980.0, 990.0]),
            [
                (970.0, Anchor::End, 0),
                (980.0, Anchor::End, 1),
                (990.0, Anchor::End, 2)
            ]
        );
    }

    #[test]
    fn a_row_of_labels_across_the_middle_leaves_no_line_behind_a_label() {
        let labels = [300.0, 400.0, 500.0, 600.0, 700.0]
            .map(|x| (x, "a label of some length".to_owned(), INK));
        assert_eq!(crossings(&arranged(labels.to_vec(), 16.0, 0.0, 1_000.0)), 0);
    }

    #[test]
    fn many_labels_at_one_place_all_find_a_row_of_their_own() {
        let placed = rows(&[500.0; 30]);
        let mut rows: Vec<usize> = placed.iter().map(|(_, _, row)| *row).collect();
        rows.sort_unstable();
        assert_eq!(rows, (0..30).collect::<Vec<_>>());
    }
}
