//! Scenes as SVG for pages, small enough to stand in one by the dozen. (Files of their own are painted by the plotting
//! library, see `paint.rs`.)
//!
//! Neighbouring shapes of one style share an element, so that ten thousand marks cost a few bytes each and nothing
//! changes its place from back to front. A picture has no ids, no scripts, no links and no styles of its own: as many
//! as one likes stand in one page, which brings the font along once for all of them, and the same scene gives the same bytes.

use std::fmt::Write as _;

use super::palette::{Colour, PAPER};
use super::plain::xml;
use super::scene::{Anchor, Area, Point, Scene, Shape};
use super::typeface::FAMILY;

/// A text's size in em: of the bundled font, as the bitmaps have it.
const EM: f64 = 1.164;
/// How far below its middle a text's baseline is, as a share of its em.
const BASELINE: f64 = 0.29;

/// The scene as an element of an HTML page, as wide as the page lets it be. Inside HTML the namespace goes without
/// saying.
#[must_use]
pub fn element(scene: &Scene) -> String {
    let (width, height, title) = (scene.width, scene.height, xml(&scene.title));
    let mut text = format!(
        "<svg role=\"img\" aria-label=\"{title}\" viewBox=\"0 0 {width} {height}\" font-family=\"{FAMILY}\">\n"
    );
    let paper = Shape::Fill {
        area: Area::new(0.0, 0.0, f64::from(width), f64::from(height)),
        colour: PAPER,
        alpha: 1.0,
    };
    let mut open: Option<Style> = None;
    for shape in std::iter::once(&paper).chain(&scene.shapes) {
        let style = Style::of(shape);
        if open != Some(style) {
            close(&mut text, open);
            text.push_str(&style.opening());
            open = Some(style);
        }
        draw(&mut text, shape);
    }
    close(&mut text, open);
    text.push_str("</svg>\n");
    text
}

/// What neighbours must have in common to share an element.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Style {
    /// Opaque areas: one path.
    Filled(Colour),
    /// See-through rectangles: one group, because overlaps add up.
    Shaded(Colour, f64),
    /// Strokes: one path.
    Stroked(Colour, u32),
    Discs(Colour, f64),
    Rings(Colour, u32),
    Texts(Colour, f64, Anchor),
}

impl Style {
    fn of(shape: &Shape) -> Self {
        match shape {
            Shape::Fill { colour, alpha, .. } if *alpha >= 1.0 => Self::Filled(*colour),
            Shape::Fill { colour, alpha, .. } => Self::Shaded(*colour, *alpha),
            Shape::Polygon { colour, .. } => Self::Filled(*colour),
            Shape::Stroke { colour, width, .. } => Self::Stroked(*colour, *width),
            Shape::Disc { colour, alpha, .. } => Self::Discs(*colour, *alpha),
            Shape::Ring { colour, width, .. } => Self::Rings(*colour, *width),
            Shape::Text {
                colour,
                size,
                anchor,
                ..
            } => Self::Texts(*colour, *size, *anchor),
        }
    }

    fn opening(self) -> String {
        match self {
            Self::Filled(colour) => format!("<path fill=\"{}\" d=\"", hex(colour)),
            Self::Shaded(colour, alpha) | Self::Discs(colour, alpha) => {
                format!(
                    "<g fill=\"{}\" fill-opacity=\"{}\">",
                    hex(colour),
                    short(alpha, 3)
                )
            }
            Self::Stroked(colour, width) => format!(
                "<path fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\" d=\"",
                hex(colour)
            ),
            Self::Rings(colour, width) => format!(
                "<g fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\">",
                hex(colour)
            ),
            Self::Texts(colour, size, anchor) => {
                let anchor = match anchor {
                    Anchor::Start => "start",
                    Anchor::Middle => "middle",
                    Anchor::End => "end",
                };
                format!(
                    "<g fill=\"{}\" font-size=\"{}\" text-anchor=\"{anchor}\">",
                    hex(colour),
                    short(size / EM, 2)
                )
            }
        }
    }
}

fn close(text: &mut String, open: Option<Style>) {
    text.push_str(match open {
        Some(Style::Filled(_) | Style::Stroked(..)) => "\"/>\n",
        Some(_) => "</g>\n",
        None => "",
    });
}

fn draw(text: &mut String, shape: &Shape) {
    match shape {
        Shape::Fill { area, alpha, .. } => {
            let (left, top) = (short(area.left, 1), short(area.top, 1));
            if *alpha >= 1.0 {
                let (right, bottom) = (short(area.right, 1), short(area.bottom, 1));
                text.extend(["M", &left, " ", &top, "H", &right]);
                text.extend(["V", &bottom, "H", &left, "z"]);
            } else {
                let (width, height) = (short(area.width(), 1), short(area.height(), 1));
                text.extend(["<rect x=\"", &left, "\" y=\"", &top]);
                text.extend(["\" width=\"", &width, "\" height=\"", &height, "\"/>"]);
            }
        }
        Shape::Stroke { points, .. } => path(text, points),
        Shape::Polygon { points, .. } => {
            path(text, points);
            text.push('z');
        }
        Shape::Disc { centre, radius, .. } | Shape::Ring { centre, radius, .. } => {
            let (x, y) = (short(centre.x, 1), short(centre.y, 1));
            text.extend(["<circle cx=\"", &x, "\" cy=\"", &y, "\" r=\""]);
            // Writing into a string never fails.
            let _ = write!(text, "{radius}\"/>");
        }
        Shape::Text {
            place,
            text: words,
            size,
            ..
        } => {
            let y = short(place.y + size / EM * BASELINE, 1);
            text.extend(["<text x=\"", &short(place.x, 1), "\" y=\"", &y, "\">"]);
            text.push_str(&xml(words));
            text.push_str("</text>");
        }
    }
}

fn path(text: &mut String, points: &[Point]) {
    for (turn, point) in points.iter().enumerate() {
        text.push(match turn {
            0 => 'M',
            1 => 'L',
            _ => ' ',
        });
        text.extend([&short(point.x, 1), " ", &short(point.y, 1)]);
    }
}

fn hex(Colour(red, green, blue): Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// A number with at most so many decimals, and none that say nothing.
fn short(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0" } else { text }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::palette::{INK, SOFT_INK};
    use super::super::scene::{Mark, at};
    use super::*;

    fn scene() -> Scene {
        let mut scene = Scene::new(120, "a <small> \"picture\"");
        scene.height = 40;
        scene.fill(Area::new(0.0, 0.0, 10.0, 40.0), INK);
        scene.mark(Mark::Cross, at(60.0, 20.0), 4.0, INK);
        scene.mark(Mark::Cross, at(70.0, 20.0), 4.0, INK);
        scene.text(at(70.0, 20.0), "<b>&\u{0}", 11.64, SOFT_INK, Anchor::Start);
        scene
    }

    #[test]
    fn neighbours_of_one_style_share_an_element_and_the_order_stays() {
        let text = element(&scene());
        assert_eq!(
            text,
            "<svg role=\"img\" aria-label=\"a &lt;small&gt; &quot;picture&quot;\" viewBox=\"0 0 120 40\" font-family=\"Fencepost Sans, DejaVu Sans, Verdana, sans-serif\">\n\
             <path fill=\"#ffffff\" d=\"M0 0H120V40H0z\"/>\n\
             <path fill=\"#202124\" d=\"M0 0H10V40H0z\"/>\n\
             <path fill=\"none\" stroke=\"#202124\" stroke-width=\"2\" d=\"M56 16L64 24M56 24L64 16M66 16L74 24M66 24L74 16\"/>\n\
             <g fill=\"#5f6368\" font-size=\"10\" text-anchor=\"start\"><text x=\"70\" y=\"22.9\">&lt;b&gt;&amp;</text></g>\n\
             </svg>\n"
        );
    }

    #[test]
    fn see_through_shapes_stay_apart_so_that_overlaps_add_up() {
        let mut scene = Scene::new(10, "shade");
        scene.height = 10;
        for left in [0.0, 1.0] {
            scene.shade(Area::new(left, 0.0, left + 2.0, 1.0), INK, 0.125);
        }
        let text = element(&scene);
        assert!(
            text.contains("<g fill=\"#202124\" fill-opacity=\"0.125\"><rect x=\"0\" y=\"0\" width=\"2\" height=\"1\"/><rect x=\"1\" y=\"0\" width=\"2\" height=\"1\"/></g>"),
            "{text}"
        );
    }

    #[test]
    fn in_a_page_there_is_neither_an_address_nor_an_id_and_the_title_is_for_readers_that_speak() {
        let text = element(&scene());
        assert!(!text.contains("http") && !text.contains("id="), "{text}");
        assert!(
            text.starts_with("<svg role=\"img\" aria-label=\"a &lt;small&gt; &quot;picture&quot;\" viewBox=\"0 0 120 40\""),
            "{text}"
        );
    }

    #[test]
    fn numbers_have_no_decimals_that_say_nothing() {
        for (value, text) in [
            (1.0, "1"),
            (0.04, "0"),
            (-0.04, "0"),
            (12.34, "12.3"),
            (100.0, "100"),
        ] {
            assert_eq!(short(value, 1), text);
        }
    }
}
