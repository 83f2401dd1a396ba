//! What all pictures share: heading, time axis, legend below the plot, captions.
//!
//! Each part draws itself from a top edge downwards and answers where it ends; nothing is ever drawn over data.

use super::bands::Band;
use super::palette::{self, Colour, GRID, INK, SOFT_INK};
use super::plain::counted;
use super::scene::{Anchor, Area, Mark, Scene, at, text_area};

/// The width of every picture, in pixels.
pub const WIDTH: u32 = 1_600;
/// Where plots end; the rest is for the last number of the axis.
pub const RIGHT: f64 = 1_570.0;

/// Where a moment stands.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// The first moment, in nanoseconds since the run began.
    pub from: u64,
    /// The last moment; later than `from`.
    pub to: u64,
    /// Where the first stands, in pixels.
    pub left: f64,
    /// Where the last stands.
    pub right: f64,
}

impl Axis {
    /// An axis of some length, whatever the two moments are.
    #[must_use]
    pub fn new(from: u64, to: u64, left: f64, right: f64) -> Self {
        let from = from.min(u64::MAX - 1_000_000);
        Self {
            from,
            to: to.max(from + 1_000_000),
            left,
            right,
        }
    }

    /// The axis of a whole recording: from its begin to its end, and from 0 where that is near.
    #[must_use]
    pub fn whole(from: u64, to: u64, left: f64) -> Self {
        let from = if from <= to.saturating_sub(from) / 4 {
            0
        } else {
            from
        };
        Self::new(
            from,
            to.saturating_add(to.saturating_sub(from) / 100),
            left,
            RIGHT,
        )
    }

    /// Where `time` (nanoseconds since the run began) stands, within the axis.
    #[must_use]
    pub fn x(&self, time: u64) -> f64 {
        let inside = time.clamp(self.from, self.to) - self.from;
        self.left + (self.right - self.left) * inside as f64 / (self.to - self.from) as f64
    }

    /// Whether the two moments enclose anything of the axis.
    #[must_use]
    pub fn shows(&self, from: u64, to: u64) -> bool {
        from <= self.to && to >= self.from
    }
}

/// Round steps (1, 2 or 5 times a power of ten) from `from` to `to`, about `wanted` of them.
#[must_use]
pub fn ticks(from: f64, to: f64, wanted: f64) -> Vec<f64> {
    let rough = (to - from) / wanted;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(rough);
    let (first, last) = (
        (from / step - 1e-9).ceil() as i64,
        (to / step + 1e-9).floor() as i64,
    );
    (first..=last).map(|number| number as f64 * step).collect()
}

/// A number of an axis, without needless zeros.
#[must_use]
pub fn tick_text(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

/// Title and subtitle; answers where they end.
pub fn heading(scene: &mut Scene, title: &str, subtitle: &str, size: f64) -> f64 {
    scene.text(at(24.0, 16.0 + size * 0.6), title, size, INK, Anchor::Start);
    let below = 16.0 + size * 1.6;
    scene.text(
        at(24.0, below + 2.0),
        subtitle,
        size * 0.64,
        SOFT_INK,
        Anchor::Start,
    );
    below + size * 0.64 + 16.0
}

/// The unit in which an axis counts, and its zero.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    /// Nanoseconds of one.
    pub nanoseconds: f64,
    /// Where zero is, in nanoseconds since the run began.
    pub zero: u64,
}

/// Upright grid lines, behind the data: call it first.
pub fn time_grid(scene: &mut Scene, axis: &Axis, unit: Unit, plot: Area) {
    for (x, _) in time_ticks(axis, unit) {
        scene.line(at(x, plot.top), at(x, plot.bottom), GRID, 1);
    }
}

/// The numbers below the plot and what they count; answers where they end.
pub fn time_numbers(scene: &mut Scene, axis: &Axis, unit: Unit, top: f64, title: &str) -> f64 {
    for (x, value) in time_ticks(axis, unit) {
        scene.line(at(x, top), at(x, top + 5.0), SOFT_INK, 1);
        scene.text(
            at(x, top + 16.0),
            &tick_text(value),
            14.0,
            SOFT_INK,
            Anchor::Middle,
        );
    }
    scene.text(
        at(f64::midpoint(axis.left, axis.right), top + 38.0),
        title,
        14.0,
        INK,
        Anchor::Middle,
    );
    top + 54.0
}

fn time_ticks(axis: &Axis, unit: Unit) -> Vec<(f64, f64)> {
    let count = |time: u64| (time as f64 - unit.zero as f64) / unit.nanoseconds;
    let (from, to) = (count(axis.from), count(axis.to));
    let x = |value: f64| axis.left + (axis.right - axis.left) * (value - from) / (to - from);
    ticks(from, to, 12.0)
        .into_iter()
        .map(|value| (x(value), value))
        .collect()
}

/// What stands before the words of a legend.
#[derive(Clone, Debug)]
pub enum Sign {
    /// A mark.
    Mark(Mark, Colour),
    /// Bars side by side.
    Bars(Vec<Colour>),
    /// A line and its width.
    Line(Colour, u32),
    /// A line that is edged with ink.
    Edged(Colour),
    /// A bar, hatched.
    Hatch(Colour),
    /// A band.
    Shade(Colour),
    /// A band of which nobody knows whether it was there, as it stands in a row above a plot and as it shades.
    Doubt,
    /// A ring around a mark.
    Ring(Colour),
}

/// The bands of a legend: one for each kind of fault that is there, then how those without evidence are drawn and how
/// many they are.
#[must_use]
pub fn band_entries(bands: &[Band<'_>]) -> Vec<(Sign, String)> {
    let mut entries: Vec<(Sign, String)> = Vec::new();
    for kind in bands.iter().map(|band| band.window.begin.fault.as_str()) {
        let words = if palette::FAULTS.contains(&kind) {
            format!("{kind}: {}", palette::fault_words(kind))
        } else {
            "another fault".to_owned()
        };
        if !entries.iter().any(|(_, other)| *other == words) {
            entries.push((Sign::Shade(palette::fault(kind)), words));
        }
    }
    let doubtful = bands.iter().filter(|band| !band.certain).count() as u64;
    if doubtful > 0 {
        let words = format!("without evidence: {}", counted(doubtful, "fault"));
        entries.push((Sign::Doubt, words));
    }
    entries
}

/// Signs and words in rows; answers where they end.
pub fn legend(
    scene: &mut Scene,
    entries: &[(Sign, String)],
    left: f64,
    top: f64,
    size: f64,
) -> f64 {
    let (mut x, mut y) = (left, top + size * 0.7);
    for (sign, words) in entries {
        let wide = text_area(at(0.0, 0.0), words, size, Anchor::Start).width();
        if x > left && x + 34.0 + wide > RIGHT {
            (x, y) = (left, y + size * 1.7);
        }
        draw_sign(scene, sign, Area::new(x, y - 7.0, x + 24.0, y + 7.0));
        scene.text(at(x + 31.0, y), words, size, INK, Anchor::Start);
        x += 31.0 + wide + 26.0;
    }
    if entries.is_empty() {
        top
    } else {
        y + size * 1.2
    }
}

fn draw_sign(scene: &mut Scene, sign: &Sign, area: Area) {
    let centre = at(f64::midpoint(area.left, area.right), area.middle());
    match sign {
        Sign::Mark(mark, colour) => scene.mark(*mark, centre, 4.0, *colour),
        Sign::Bars(colours) => {
            let wide = area.width() / colours.len().max(1) as f64;
            for (place, colour) in colours.iter().enumerate() {
                let left = area.left + wide * place as f64;
                let bar = Area::new(left, area.top, left + wide, area.bottom);
                scene.fill(bar, *colour);
                scene.outline(bar, SOFT_INK, 1);
            }
        }
        Sign::Line(colour, width) => scene.line(
            at(area.left, centre.y),
            at(area.right, centre.y),
            *colour,
            *width,
        ),
        Sign::Edged(colour) => {
            for (colour, width) in [(INK, 5), (*colour, 3)] {
                scene.line(
                    at(area.left, centre.y),
                    at(area.right, centre.y),
                    colour,
                    width,
                );
            }
        }
        Sign::Hatch(colour) => {
            scene.fill(area, *colour);
            scene.hatch(area, SOFT_INK.tint(0.6));
            scene.outline(area, SOFT_INK, 1);
        }
        Sign::Shade(colour) => {
            scene.fill(area, colour.tint(0.3));
            scene.fill(
                Area {
                    top: area.bottom - 4.0,
                    ..area
                },
                *colour,
            );
        }
        Sign::Doubt => {
            scene.fill(area, SOFT_INK.tint(0.3 * palette::DOUBT));
            scene.outline(area, SOFT_INK, 1);
        }
        Sign::Ring(colour) => scene.ring(centre, 7, *colour, 3),
    }
}

/// Captions, one below the other, broken where they would leave the paper; answers where they end.
pub fn captions(scene: &mut Scene, lines: &[String], left: f64, top: f64) -> f64 {
    let size = 13.0;
    let mut y = top + size * 0.7;
    for line in lines
        .iter()
        .flat_map(|line| wrapped(line, size, RIGHT - left))
    {
        scene.text(at(left, y), &line, size, SOFT_INK, Anchor::Start);
        y += size * 1.45;
    }
    if lines.is_empty() { top } else { y }
}

/// `text` in lines of at most `room` pixels, broken between words.
#[must_use]
pub fn wrapped(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let longer = lines.last().map(|line| format!("{line} {word}"));
        let fits = longer
            .filter(|line| text_area(at(0.0, 0.0), line, size, Anchor::Start).width() <= room);
        match (fits, lines.last_mut()) {
            (Some(longer), Some(last)) => *last = longer,
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::bands::bands;
    use super::super::sample::Recording;
    use super::*;

    #[test]
    fn the_legend_says_how_a_fault_without_evidence_is_drawn_only_where_there_is_one() {
        let words = |outcome: &str| -> Vec<String> {
            let mut recording = Recording::default();
            recording
                .fault(1, "pause", &["w1"], 10, Some(20), "installed")
                .fault(2, "pause", &["w2"], 30, Some(40), outcome);
            let history = recording.history();
            let entries = band_entries(&bands(&history));
            entries.into_iter().map(|(_, words)| words).collect()
        };
        assert_eq!(words("installed"), ["pause: stopped (SIGSTOP)"]);
        assert_eq!(
            words("unknown"),
            ["pause: stopped (SIGSTOP)", "without evidence: 1 fault"]
        );
    }

    #[test]
    fn ticks_are_round_and_inside() {
        let rows = [
            (
                0.0,
                20.0,
                vec![0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0],
            ),
            (
                0.0,
                1.0,
                vec![0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0],
            ),
            (
                -30.0,
                950.0,
                vec![
                    0.0, 100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0,
                ],
            ),
        ];
        for (from, to, expected) in rows {
            let ticks: Vec<String> = ticks(from, to, 12.0).into_iter().map(tick_text).collect();
            assert_eq!(
                ticks,
                expected.into_iter().map(tick_text).collect::<Vec<_>>(),
                "{from} to {to}"
            );
        }
    }

    #[test]
    fn tick_texts_have_no_needless_zeros() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (0.5, "0.5"),
            (20.0, "20"),
            (0.0002, "0.0002"),
        ] {
            assert_eq!(tick_text(value), text);
        }
    }

    #[test]
    fn an_axis_has_a_length_even_where_time_stands_still() {
        let axis = Axis::new(5, 5, 100.0, 200.0);
        assert!((axis.x(5) - 100.0).abs() < 1e-9 && axis.x(u64::MAX) <= 200.0);
        let late = Axis::whole(u64::MAX, u64::MAX, 100.0);
        assert!(late.x(u64::MAX).is_finite());
    }

    #[test]
    fn captions_break_between_words() {
        let lines = wrapped("one two three four", 13.0, 70.0);
        assert!(lines.len() > 1 && lines.concat().len() < "one two three four".len());
        assert_eq!(lines.join(" "), "one two three four");
    }
}
