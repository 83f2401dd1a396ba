//! Scenes painted as SVG and as PNG, in memory, with the one font that is bundled; for pages, see [`super::svg`].
//!
//! The same scene gives the same bytes: no time, no random ids, no font of the machine. The PNG is painted at twice
//! its size and averaged, because the bitmap backend places letters on whole pixels.

use std::sync::LazyLock;

use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontStyle, IntoFont, RGBAColor, RGBColor, ShapeStyle, TextStyle, register_font,
};

use super::ReportError;
use super::palette::{Colour, PAPER};
use super::plain::xml;
use super::scene::{Anchor, Point, Scene, Shape};
use super::svg;
use super::typeface::{FAMILY, WHOLE, face};

/// How much larger the bitmap is painted than it is saved.
const OVERSAMPLING: u32 = 2;

/// The SVG backend takes a size for 1.24 em; in the bundled font, and so in the bitmap, it is 1.164 em.
const SVG_LETTERS: f64 = 1.24 / 1.164;

/// No picture is larger than this either way, in pixels.
pub const LARGEST: u32 = 8_000;

static FONT: LazyLock<bool> =
    LazyLock::new(|| register_font(FAMILY, FontStyle::Normal, WHOLE).is_ok());

/// How wide `text` is in the bundled font, in pixels, at `size`; letters are about 0.86 of `size` high in all.
#[must_use]
pub fn text_width(text: &str, size: f64) -> f64 {
    // Measured large: the backend cuts widths to whole pixels.
    let measured = if *FONT {
        (FAMILY, 100.0).into_font().box_size(text).ok()
    } else {
        None
    };
    measured.map_or_else(
        || 0.6 * size * text.chars().count() as f64,
        |(width, _)| f64::from(width) * size / 100.0,
    )
}

/// The scene as an SVG document.
///
/// # Errors
/// When the scene is too large or the backend gives up.
pub fn svg(scene: &Scene) -> Result<Vec<u8>, ReportError> {
    check(scene)?;
    let mut document = String::new();
    {
        let mut backend = SVGBackend::with_string(&mut document, (scene.width, scene.height));
        paint(
            &mut backend,
            scene,
            Sizes {
                scale: 1.0,
                text_scale: SVG_LETTERS,
                text_drop: 0.0,
            },
        )?;
    }
    // The backend names no title; readers that speak need one, as the first thing in the document. Nor does it
    // bring the font along.
    let title = format!(
        "<title>{}</title>\n<style>{}</style>\n",
        xml(&scene.title),
        face()
    );
    let after_root = document.find('\n').map_or(document.len(), |end| end + 1);
    document.insert_str(after_root, &title);
    Ok(document.into_bytes())
}

/// The scene as an element of a page.
///
/// # Errors
/// When the scene is too large.
pub fn inline(scene: &Scene) -> Result<String, ReportError> {
    check(scene)?;
    Ok(svg::element(scene))
}

/// The scene as a PNG file of the scene's width and height.
///
/// # Errors
/// When the scene is too large, or the backend or the encoder gives up.
pub fn png(scene: &Scene) -> Result<Vec<u8>, ReportError> {
    check(scene)?;
    let (wide, high) = (scene.width * OVERSAMPLING, scene.height * OVERSAMPLING);
    let mut large = vec![u8::MAX; wide as usize * high as usize * 3];
    {
        let mut backend = BitMapBackend::with_buffer(&mut large, (wide, high));
        // The backend sets letters an eighth of their size higher than SVG does.
        paint(
            &mut backend,
            scene,
            Sizes {
                scale: f64::from(OVERSAMPLING),
                text_scale: 1.0,
                text_drop: 0.12,
            },
        )?;
    }
    encode(
        &averaged(&large, scene.width as usize, scene.height as usize),
        scene,
    )
}

/// Each pixel the mean of the four that were painted for it.
fn averaged(large: &[u8], width: usize, height: usize) -> Vec<u8> {
    let row = width * 6;
    let mut small = Vec::with_capacity(width * height * 3);
    for lines in large.chunks_exact(row * 2) {
        let (upper, lower) = lines.split_at(row);
        for (above, below) in upper.chunks_exact(6).zip(lower.chunks_exact(6)) {
            for channel in 0..3 {
                let sum = [
                    above[channel],
                    above[channel + 3],
                    below[channel],
                    below[channel + 3],
                ]
                .map(u16::from)
                .iter()
                .sum::<u16>();
                small.push((sum.div_ceil(4)).min(255) as u8);
            }
        }
    }
    small
}

fn encode(pixels: &[u8], scene: &Scene) -> Result<Vec<u8>, ReportError> {
    let failed = |error: png::EncodingError| ReportError::Paint {
        message: error.to_string(),
    };
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, scene.width, scene.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    // The best costs three times as long for a tenth of the size.
    encoder.set_compression(png::Compression::Default);
    encoder.set_filter(png::FilterType::Up);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(file)
}

fn check(scene: &Scene) -> Result<(), ReportError> {
    if !*FONT {
        return Err(ReportError::Font);
    }
    let (width, height) = (scene.width, scene.height);
    if width == 0 || height == 0 || width > LARGEST || height > LARGEST {
        return Err(ReportError::Size { width, height });
    }
    Ok(())
}

/// What differs between the two backends.
#[derive(Clone, Copy)]
struct Sizes {
    /// Backend pixels for one of the scene's.
    scale: f64,
    /// How much larger texts are asked for than they are to be.
    text_scale: f64,
    /// How much lower texts are placed, as a share of their size.
    text_drop: f64,
}

impl Sizes {
    fn place(self, point: Point) -> (i32, i32) {
        // `as` saturates; scenes are at most LARGEST wide and high.
        (
            (point.x * self.scale).round() as i32,
            (point.y * self.scale).round() as i32,
        )
    }

    fn length(self, pixels: u32) -> u32 {
        (f64::from(pixels) * self.scale).round() as u32
    }
}

fn paint<B: DrawingBackend>(
    backend: &mut B,
    scene: &Scene,
    sizes: Sizes,
) -> Result<(), ReportError> {
    let failed = |message: String| ReportError::Paint { message };
    let (width, height) = backend.get_size();
    let corner = (
        i32::try_from(width).unwrap_or(i32::MAX),
        i32::try_from(height).unwrap_or(i32::MAX),
    );
    backend
        .draw_rect((0, 0), corner, &colour(PAPER, 1.0), true)
        .map_err(|error| failed(error.to_string()))?;
    for shape in &scene.shapes {
        paint_shape(backend, shape, sizes).map_err(failed)?;
    }
    backend.present().map_err(|error| failed(error.to_string()))
}

fn paint_shape<B: DrawingBackend>(
    backend: &mut B,
    shape: &Shape,
    sizes: Sizes,
) -> Result<(), String> {
    let place = |point: &Point| sizes.place(*point);
    let painted = match shape {
        Shape::Fill {
            area,
            colour: fill,
            alpha,
        } => {
            let upper_left = sizes.place(Point {
                x: area.left,
                y: area.top,
            });
            let lower_right = sizes.place(Point {
                x: area.right,
                y: area.bottom,
            });
            backend.draw_rect(upper_left, lower_right, &colour(*fill, *alpha), true)
        }
        Shape::Stroke {
            points,
            colour: stroke,
            width,
        } => backend.draw_path(
            points.iter().map(place),
            &stroked(*stroke, sizes.length(*width)),
        ),
        Shape::Polygon {
            points,
            colour: fill,
        } => backend.fill_polygon(points.iter().map(place), &colour(*fill, 1.0)),
        Shape::Disc {
            centre,
            radius,
            colour: fill,
            alpha,
        } => backend.draw_circle(
            place(centre),
            sizes.length(*radius),
            &colour(*fill, *alpha),
            true,
        ),
        Shape::Ring {
            centre,
            radius,
            colour: stroke,
            width,
        } => backend.draw_circle(
            place(centre),
            sizes.length(*radius),
            &stroked(*stroke, sizes.length(*width)),
            false,
        ),
        Shape::Text {
            place: point,
            text,
            size,
            colour: ink,
            anchor,
        } => {
            let lowered = Point {
                x: point.x,
                y: point.y + size * sizes.text_drop,
            };
            backend.draw_text(
                text,
                &text_style(*size * sizes.scale * sizes.text_scale, *ink, *anchor),
                sizes.place(lowered),
            )
        }
    };
    painted.map_err(|error| error.to_string())
}

fn colour(Colour(red, green, blue): Colour, alpha: f64) -> RGBAColor {
    RGBColor(red, green, blue).mix(alpha)
}

fn stroked(ink: Colour, width: u32) -> ShapeStyle {
    colour(ink, 1.0).stroke_width(width)
}

fn text_style(size: f64, ink: Colour, anchor: Anchor) -> TextStyle<'static> {
    let horizontal = match anchor {
        Anchor::Start => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::End => HPos::Right,
    };
    let mut style = TextStyle::from((FAMILY, size).into_font());
    style.color = colour(ink, 1.0).to_backend_color();
    style.pos = Pos::new(horizontal, VPos::Center);
    style
}

#[cfg(test)]
mod tests {
    use super::super::palette::INK;
    use super::super::scene::{Area, Mark, at};
    use super::*;

    fn scene() -> Scene {
        let mut scene = Scene::new(120, "a <small> picture");
        scene.height = 40;
        scene.fill(Area::new(0.0, 0.0, 10.0, 40.0), INK);
        scene.mark(Mark::Cross, at(60.0, 20.0), 4.0, INK);
        scene.text(at(70.0, 20.0), "<b>&", 12.0, INK, Anchor::Start);
        scene
    }

    #[test]
    fn a_png_begins_with_its_signature_and_has_the_size_of_the_scene() {
        let file = png(&scene()).expect("a small scene can be painted");
        assert_eq!(file[..8], *b"\x89PNG\r\n\x1a\n");
        assert_eq!(file[16..24], [0, 0, 0, 120, 0, 0, 0, 40]);
    }

    #[test]
    fn pixels_show_what_the_scene_says() {
        let file = png(&scene()).expect("a small scene can be painted");
        let mut reader = png::Decoder::new(file.as_slice())
            .read_info()
            .expect("our own file can be read");
        let mut pixels = vec![0; reader.output_buffer_size()];
        reader
            .next_frame(&mut pixels)
            .expect("our own file can be read");
        assert_eq!(
            pixels[(20 * 120 + 5) * 3..][..3],
            [INK.0, INK.1, INK.2],
            "inside the filled area"
        );
        assert_eq!(
            pixels[(20 * 120 + 30) * 3..][..3],
            [255, 255, 255],
            "beside it"
        );
    }

    #[test]
    fn a_scene_without_height_or_beyond_all_bounds_is_an_error() {
        for height in [0, LARGEST + 1] {
            let scene = Scene { height, ..scene() };
            assert!(
                matches!(svg(&scene), Err(ReportError::Size { .. })),
                "{height}"
            );
            assert!(
                matches!(png(&scene), Err(ReportError::Size { .. })),
                "{height}"
            );
        }
    }

    #[test]
    fn an_svg_file_brings_its_font_along_once_and_names_no_address() {
        let file = String::from_utf8(svg(&scene()).expect("it can be painted")).expect("UTF-8");
        assert_eq!(file.matches("@font-face").count(), 1);
        assert_eq!(file.matches("data:font/woff2;base64,").count(), 1);
        assert!(file.contains("font-family=\"Fencepost Sans, "), "{file}");
        let addresses = file.replace("http://www.w3.org/2000/svg", "");
        assert!(!addresses.contains("://"), "only the namespace");
    }

    #[test]
    fn wider_letters_and_longer_texts_are_wider() {
        assert!(text_width("WWW", 12.0) > text_width("iii", 12.0));
        assert!((text_width("token", 24.0) - 2.0 * text_width("token", 12.0)).abs() < 1e-9);
    }
}
