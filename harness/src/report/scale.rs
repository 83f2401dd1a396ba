//! Upright scales: where a value stands in a plot, and the lines and numbers that say so.

use super::frame::{tick_text, ticks};
use super::palette::{GRID, SOFT_INK};
use super::plain::grouped;
use super::scene::{Anchor, Area, Scene, at};

/// What took less is drawn as having taken so long, in milliseconds.
pub const FLOOR_MS: f64 = 0.01;

/// Whole decades of milliseconds, upwards.
#[derive(Clone, Copy, Debug)]
pub struct LogScale {
    /// The exponent of the lowest line.
    pub lowest: i32,
    /// The exponent of the highest line.
    pub highest: i32,
}

impl LogScale {
    /// A scale that holds all `values`, in milliseconds.
    #[must_use]
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let (mut least, mut greatest) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            let value = value.max(FLOOR_MS);
            (least, greatest) = (least.min(value), greatest.max(value));
        }
        if least > greatest {
            (least, greatest) = (0.1, 100.0);
        }
        let lowest = least.log10().floor() as i32;
        Self {
            lowest,
            highest: (greatest.log10().ceil() as i32).max(lowest + 1),
        }
    }

    /// Where `milliseconds` stand in `plot`, with a little room for marks that lie on an edge.
    #[must_use]
    pub fn y(&self, milliseconds: f64, plot: Area) -> f64 {
        let share = (milliseconds.max(FLOOR_MS).log10() - f64::from(self.lowest))
            / f64::from(self.highest - self.lowest);
        let (bottom, top) = (plot.bottom - 8.0, plot.top + 8.0);
        bottom - (bottom - top) * share.clamp(0.0, 1.0)
    }

    /// Lines and numbers, as many as find room.
    pub fn draw(&self, scene: &mut Scene, plot: Area) {
        let decades = f64::from(self.highest - self.lowest);
        let room = (plot.height() - 16.0) / decades;
        let step = ((20.0 / room).ceil() as usize).max(1);
        for (turn, decade) in (self.lowest..=self.highest).enumerate() {
            let y = self.y(10_f64.powi(decade), plot);
            scene.line(at(plot.left, y), at(plot.right, y), GRID, 1);
            if turn % step == 0 {
                let place = at(plot.left - 10.0, y);
                scene.text(place, &decade_text(decade), 14.0, SOFT_INK, Anchor::End);
            }
        }
    }
}

fn decade_text(decade: i32) -> String {
    match decade {
        3.. => format!(
            "{} s",
            grouped(10_u64.saturating_pow(decade.unsigned_abs() - 3))
        ),
        0..3 => format!("{:.0} ms", 10_f64.powi(decade)),
        _ => format!(
            "{:.*} ms",
            decade.unsigned_abs() as usize,
            10_f64.powi(decade)
        ),
    }
}

/// From one value to another, evenly.
#[derive(Clone, Copy, Debug)]
pub struct LinearScale {
    /// The value at the lower edge.
    pub from: f64,
    /// The value at the upper edge; above `from`.
    pub to: f64,
}

impl LinearScale {
    /// From 0 to a little above `greatest`.
    #[must_use]
    pub fn up_to(greatest: f64) -> Self {
        Self {
            from: 0.0,
            to: if greatest > 0.0 { greatest * 1.06 } else { 1.0 },
        }
    }

    /// Where `value` stands in `plot`.
    #[must_use]
    pub fn y(&self, value: f64, plot: Area) -> f64 {
        let share = (value - self.from) / (self.to - self.from);
        plot.bottom - plot.height() * share.clamp(0.0, 1.0)
    }

    /// About `wanted` lines with their numbers, whole numbers only where `whole`.
    pub fn draw(&self, scene: &mut Scene, plot: Area, wanted: f64, whole: bool) {
        for value in ticks(self.from, self.to, wanted) {
            if whole && (value - value.round()).abs() > 1e-6 {
                continue;
            }
            let y = self.y(value, plot);
            scene.line(at(plot.left, y), at(plot.right, y), GRID, 1);
            let text = if value >= 1_000.0 {
                // In range: a count or a token's distance, far below 2^53.
                grouped(value.round() as u64)
            } else {
                tick_text(value)
            };
            scene.text(at(plot.left - 10.0, y), &text, 13.0, SOFT_INK, Anchor::End);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLOT: Area = Area {
        left: 100.0,
        top: 0.0,
        right: 200.0,
        bottom: 100.0,
    };

    #[test]
    fn a_latency_of_zero_stands_at_the_floor() {
        let scale = LogScale::of([0.0, 250.0].into_iter());
        assert_eq!((scale.lowest, scale.highest), (-2, 3));
        assert!((scale.y(0.0, PLOT) - 92.0).abs() < 1e-9);
        assert!((scale.y(FLOOR_MS, PLOT) - 92.0).abs() < 1e-9);
        assert!(scale.y(1.0, PLOT) > scale.y(250.0, PLOT));
    }

    #[test]
    fn nothing_gives_an_empty_scale_and_one_value_still_spans_a_decade() {
        let empty = LogScale::of(std::iter::empty());
        assert_eq!((empty.lowest, empty.highest), (-1, 2));
        let one = LogScale::of(std::iter::once(10.0));
        assert_eq!((one.lowest, one.highest), (1, 2));
    }

    #[test]
    fn numbers_keep_apart_in_a_low_plot() {
        for high in [40.0, 100.0, 400.0] {
            let mut scene = Scene::new(300, "scale");
            scene.height = 500;
            LogScale {
                lowest: -2,
                highest: 4,
            }
            .draw(&mut scene, Area::new(100.0, 20.0, 200.0, 20.0 + high));
            scene.assert_readable();
            assert!(scene.text_areas().len() > 1);
        }
    }

    #[test]
    fn a_linear_scale_begins_at_zero_and_counts_in_whole_numbers_where_asked() {
        let scale = LinearScale::up_to(2.0);
        assert!((scale.y(0.0, PLOT) - 100.0).abs() < 1e-9 && scale.y(2.0, PLOT) > 0.0);
        assert!((LinearScale::up_to(0.0).to - 1.0).abs() < 1e-9);
        let mut scene = Scene::new(300, "scale");
        scale.draw(&mut scene, PLOT, 8.0, true);
        let texts: Vec<String> = scene
            .text_areas()
            .into_iter()
            .map(|(text, _)| text)
            .collect();
        assert_eq!(texts, ["0", "1", "2"]);
    }
}
