//! A picture as a list of shapes in pixels, before anything is painted.
//!
//! Pictures are computed as scenes and painted twice, as SVG and as PNG ([`super::paint`]), so the two never differ,
//! and a test can ask a scene whether its labels overlap. A scene knows nothing of runs or histories.

use super::paint;
use super::palette::{Colour, PAPER};
use super::plain::plain;

/// A place, in pixels from the upper left corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// To the right.
    pub x: f64,
    /// Downwards.
    pub y: f64,
}

/// A place.
#[must_use]
pub fn at(x: f64, y: f64) -> Point {
    Point { x, y }
}

/// An upright rectangle, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    /// Left edge.
    pub left: f64,
    /// Upper edge.
    pub top: f64,
    /// Right edge, not left of `left`.
    pub right: f64,
    /// Lower edge, not above `top`.
    pub bottom: f64,
}

impl Area {
    /// The area between two edges each way.
    #[must_use]
    pub fn new(left: f64, top: f64, right: f64, bottom: f64) -> Self {
        Self {
            left,
            top,
            right: right.max(left),
            bottom: bottom.max(top),
        }
    }

    /// Its width.
    #[must_use]
    pub fn width(&self) -> f64 {
        self.right - self.left
    }

    /// Its height.
    #[must_use]
    pub fn height(&self) -> f64 {
        self.bottom - self.top
    }

    /// Halfway down.
    #[must_use]
    pub fn middle(&self) -> f64 {
        f64::midpoint(self.top, self.bottom)
    }

    /// Whether the two share more than an edge.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    /// Grown by `by` on every side.
    #[must_use]
    pub fn grown(&self, by: f64) -> Self {
        Self {
            left: self.left - by,
            top: self.top - by,
            right: self.right + by,
            bottom: self.bottom + by,
        }
    }
}

/// Which part of a text stands at its place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Anchor {
    /// Its left end.
    Start,
    /// Its middle.
    Middle,
    /// Its right end.
    End,
}

/// The sign for one operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mark {
    /// A filled disc.
    Dot,
    /// Two strokes, crossed.
    Cross,
    /// A filled triangle.
    Triangle,
    /// An outlined diamond.
    Diamond,
    /// An upright stroke.
    Tick,
}

/// One thing to paint. Later shapes cover earlier ones.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A filled rectangle; `alpha` from 0 (nothing) to 1 (opaque).
    Fill {
        /// Where.
        area: Area,
        /// In which colour.
        colour: Colour,
        /// How opaque.
        alpha: f64,
    },
    /// A stroke through points; the ends are not joined.
    Stroke {
        /// At least two.
        points: Vec<Point>,
        /// In which colour.
        colour: Colour,
        /// Its width.
        width: u32,
    },
    /// A filled polygon.
    Polygon {
        /// At least three.
        points: Vec<Point>,
        /// In which colour.
        colour: Colour,
    },
    /// A filled disc.
    Disc {
        /// Its centre.
        centre: Point,
        /// Its radius.
        radius: u32,
        /// In which colour.
        colour: Colour,
        /// How opaque.
        alpha: f64,
    },
    /// A circle.
    Ring {
        /// Its centre.
        centre: Point,
        /// Its radius.
        radius: u32,
        /// In which colour.
        colour: Colour,
        /// Of its stroke.
        width: u32,
    },
    /// One line of text, centred on its place's height.
    Text {
        /// Where its anchor stands.
        place: Point,
        /// Already harmless, see [`super::plain`].
        text: String,
        /// In pixels, see [`paint::text_width`].
        size: f64,
        /// In which colour.
        colour: Colour,
        /// Which part stands at `place`.
        anchor: Anchor,
    },
}

/// Between the lines of a hatch, in pixels to the right.
const HATCH: f64 = 7.0;

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// What it shows, for those who cannot see it.
    pub title: String,
    /// From back to front.
    pub shapes: Vec<Shape>,
}

impl Scene {
    /// An empty picture; its height is settled at the end.
    #[must_use]
    pub fn new(width: u32, title: &str) -> Self {
        Self {
            width,
            height: 0,
            title: title.to_owned(),
            shapes: Vec::new(),
        }
    }

    /// A filled rectangle.
    pub fn fill(&mut self, area: Area, colour: Colour) {
        self.shade(area, colour, 1.0);
    }

    /// A see-through rectangle.
    pub fn shade(&mut self, area: Area, colour: Colour, alpha: f64) {
        self.shapes.push(Shape::Fill {
            area,
            colour,
            alpha,
        });
    }

    /// Slanting lines all over a rectangle.
    pub fn hatch(&mut self, area: Area, colour: Colour) {
        let Area {
            left,
            top,
            right,
            bottom,
        } = area;
        let height = bottom - top;
        // Each line rises by 45 degrees from where it meets the lower edge, `foot`; what lies outside is cut off.
        let lines = ((right - left + height) / HATCH) as u32;
        for foot in (1..=lines).map(|line| left - height + HATCH * f64::from(line)) {
            let from = at(foot.max(left), bottom - (left - foot).max(0.0));
            let to = at(
                (foot + height).min(right),
                top + (foot + height - right).max(0.0),
            );
            self.line(from, to, colour, 1);
        }
    }

    /// The outline of a rectangle.
    pub fn outline(&mut self, area: Area, colour: Colour, width: u32) {
        let Area {
            left,
            top,
            right,
            bottom,
        } = area;
        let points = vec![
            at(left, top),
            at(right, top),
            at(right, bottom),
            at(left, bottom),
            at(left, top),
        ];
        self.shapes.push(Shape::Stroke {
            points,
            colour,
            width,
        });
    }

    /// A straight stroke.
    pub fn line(&mut self, from: Point, to: Point, colour: Colour, width: u32) {
        self.shapes.push(Shape::Stroke {
            points: vec![from, to],
            colour,
            width,
        });
    }

    /// A circle.
    pub fn ring(&mut self, centre: Point, radius: u32, colour: Colour, width: u32) {
        self.shapes.push(Shape::Ring {
            centre,
            radius,
            colour,
            width,
        });
    }

    /// One line of text.
    pub fn text(&mut self, place: Point, text: &str, size: f64, colour: Colour, anchor: Anchor) {
        self.shapes.push(Shape::Text {
            place,
            text: text.to_owned(),
            size,
            colour,
            anchor,
        });
    }

    /// One line of text on paper of its own, so that what is behind does not disturb it.
    pub fn label(&mut self, place: Point, text: &str, size: f64, colour: Colour, anchor: Anchor) {
        self.shade(text_area(place, text, size, anchor).grown(1.0), PAPER, 0.88);
        self.text(place, text, size, colour, anchor);
    }

    /// The sign of an operation, `reach` pixels in each direction.
    pub fn mark(&mut self, mark: Mark, centre: Point, reach: f64, colour: Colour) {
        let Point { x, y } = centre;
        match mark {
            Mark::Dot => self.shapes.push(Shape::Disc {
                centre,
                radius: reach as u32,
                colour,
                alpha: 0.7,
            }),
            Mark::Cross => {
                self.line(
                    at(x - reach, y - reach),
                    at(x + reach, y + reach),
                    colour,
                    2,
                );
                self.line(
                    at(x - reach, y + reach),
                    at(x + reach, y - reach),
                    colour,
                    2,
                );
            }
            Mark::Triangle => {
                let points = vec![
                    at(x, y - reach),
                    at(x + reach, y + reach),
                    at(x - reach, y + reach),
                ];
                self.shapes.push(Shape::Polygon { points, colour });
            }
            Mark::Diamond => {
                let points = vec![
                    at(x, y - reach),
                    at(x + reach, y),
                    at(x, y + reach),
                    at(x - reach, y),
                    at(x, y - reach),
                ];
                self.shapes.push(Shape::Polygon {
                    points: points.clone(),
                    colour: PAPER,
                });
                self.shapes.push(Shape::Stroke {
                    points,
                    colour,
                    width: 1,
                });
            }
            Mark::Tick => self.line(at(x, y - reach), at(x, y + reach), colour, 2),
        }
    }

    /// The areas that the texts take, for tests and for nobody else.
    #[cfg(test)]
    pub fn text_areas(&self) -> Vec<(String, Area)> {
        let area = |shape: &Shape| match shape {
            Shape::Text {
                place,
                text,
                size,
                anchor,
                ..
            } => Some((text.clone(), text_area(*place, text, *size, *anchor))),
            _ => None,
        };
        self.shapes.iter().filter_map(area).collect()
    }

    /// Fails when two texts overlap or one is cut off at an edge.
    #[cfg(test)]
    pub fn assert_readable(&self) {
        let texts = self.text_areas();
        let paper = Area::new(0.0, 0.0, f64::from(self.width), f64::from(self.height));
        for (place, (text, area)) in texts.iter().enumerate() {
            let inside = area.left >= paper.left
                && area.top >= paper.top
                && area.right <= paper.right
                && area.bottom <= paper.bottom;
            assert!(inside, "{text:?} at {area:?} is cut off at {paper:?}");
            for (other_text, other) in &texts[place + 1..] {
                assert!(
                    !area.overlaps(other),
                    "{text:?} at {area:?} and {other_text:?} at {other:?} overlap"
                );
            }
        }
    }
}

/// The area that a text takes.
#[must_use]
pub fn text_area(place: Point, text: &str, size: f64, anchor: Anchor) -> Area {
    let width = paint::text_width(text, size);
    let left = match anchor {
        Anchor::Start => place.x,
        Anchor::Middle => place.x - width / 2.0,
        Anchor::End => place.x - width,
    };
    Area::new(
        left,
        place.y - size * 0.45,
        left + width,
        place.y + size * 0.45,
    )
}

/// A name from outside, harmless and no wider than `room` pixels.
#[must_use]
pub fn fitted(name: &str, size: f64, room: f64) -> String {
    let whole = plain(name, 80);
    let length = whole.chars().count();
    let shorter = (1..=length).rev().map(|longest| plain(&whole, longest));
    shorter
        .into_iter()
        .find(|text| paint::text_width(text, size) <= room)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_that_only_touch_do_not_overlap() {
        let one = Area::new(0.0, 0.0, 10.0, 10.0);
        assert!(!one.overlaps(&Area::new(10.0, 0.0, 20.0, 10.0)));
        assert!(one.overlaps(&Area::new(9.0, 9.0, 20.0, 20.0)));
    }

    #[test]
    fn a_hatch_stays_in_its_area() {
        for (right, bottom) in [(40.0, 20.0), (12.0, 60.0), (3.0, 3.0), (0.0, 10.0)] {
            let area = Area::new(0.0, 0.0, right, bottom);
            let mut scene = Scene::new(100, "hatch");
            scene.hatch(area, PAPER);
            for shape in &scene.shapes {
                let Shape::Stroke { points, .. } = shape else {
                    panic!("{shape:?} is no line")
                };
                for Point { x, y } in points {
                    assert!(
                        (0.0..=right).contains(x) && (0.0..=bottom).contains(y),
                        "{x} {y} in {area:?}"
                    );
                }
                assert!(
                    (points[1].x - points[0].x - (points[0].y - points[1].y)).abs() < 1e-9,
                    "45 degrees: {points:?}"
                );
            }
        }
    }

    #[test]
    fn a_name_is_cut_to_its_room() {
        assert_eq!(fitted("c1", 14.0, 100.0), "c1");
        let cut = fitted("a-very-long-client-name", 14.0, 60.0);
        assert!(
            cut.ends_with('…') && cut.starts_with("a-v") && paint::text_width(&cut, 14.0) <= 60.0,
            "{cut}"
        );
        assert_eq!(fitted("anything", 14.0, 1.0), "");
    }

    #[test]
    fn a_text_takes_its_area_on_the_side_that_its_anchor_says() {
        let place = at(100.0, 50.0);
        let start = text_area(place, "token", 14.0, Anchor::Start);
        let end = text_area(place, "token", 14.0, Anchor::End);
        assert!((start.left - 100.0).abs() < 1e-9 && (end.right - 100.0).abs() < 1e-9);
        assert!((start.width() - end.width()).abs() < 1e-9 && start.width() > 20.0);
    }
}
