//! The one font of all pictures: whole for bitmaps and for measuring, a subset for what others will open.
//!
//! A viewer draws an SVG or a page with fonts of its own machine, where texts may be wider than the room that was
//! measured for them. So the subset goes along, once in each file. It holds Latin-1 and a few signs; names in other
//! scripts are drawn with what the viewer has. How it was made stands in `font/README.md`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The font as pictures ask for it: the subset that goes along, the same font of the viewer's for other scripts, then
/// what is as wide.
pub const FAMILY: &str = "Fencepost Sans, DejaVu Sans, Verdana, sans-serif";
/// All of it.
pub const WHOLE: &[u8] = include_bytes!("font/DejaVuSans.ttf");
const SUBSET: &[u8] = include_bytes!("font/DejaVuSans-pictures.woff2");

/// The rule that gives a page or an SVG file the subset, without any address.
#[must_use]
pub fn face() -> String {
    format!(
        "@font-face {{ font-family: \"Fencepost Sans\"; src: url(data:font/woff2;base64,{}) format(\"woff2\"); }}\n",
        STANDARD.encode(SUBSET)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subset_is_a_font_small_enough_for_every_file_and_goes_along_whole() {
        assert_eq!(SUBSET[..4], *b"wOF2");
        assert!(SUBSET.len() < 20_000, "{} bytes", SUBSET.len());
        let face = face();
        let coded = face
            .split_once("base64,")
            .and_then(|(_, rest)| rest.split_once(')'))
            .expect("a data URL");
        assert_eq!(STANDARD.decode(coded.0).expect("base64"), SUBSET);
        assert!(FAMILY.starts_with("Fencepost Sans,") && face.contains("\"Fencepost Sans\""));
        assert!(!face.contains("://") && !face.contains('<'));
    }
}
