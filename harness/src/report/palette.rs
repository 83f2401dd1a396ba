//! Colours and the words that go with them, defined once for all pictures.
//!
//! They are Okabe and Ito's palette, which people with any common colour vision tell apart, with two dark shades of
//! Paul Tol's for the faults. Colour is never the only sign: outcomes differ in their marks, faults are named in
//! words, see-through and without an outline, tokens are opaque bars of paper and sand, outlined and numbered. What a
//! finding proves is the one thing drawn in vermilion. Nothing here knows where things are drawn.

use fencepost_checker::history::{Function, History, Operation, Outcome};

/// An sRGB colour.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Colour(pub u8, pub u8, pub u8);

impl Colour {
    /// The colour thinned with white; `share` (0 to 1) of it is left.
    #[must_use]
    pub fn tint(self, share: f64) -> Self {
        let thin = |channel: u8| {
            let mixed = f64::from(channel) * share + 255.0 * (1.0 - share);
            // In range for any share from 0 to 1, and `as` saturates for others.
            mixed.round() as u8
        };
        Self(thin(self.0), thin(self.1), thin(self.2))
    }
}

/// Paper.
pub const PAPER: Colour = Colour(255, 255, 255);
/// Titles and names.
pub const INK: Colour = Colour(32, 33, 36);
/// Captions and axis numbers.
pub const SOFT_INK: Colour = Colour(95, 99, 104);
/// Grid lines and borders.
pub const GRID: Colour = Colour(222, 225, 230);
/// Every second lane.
pub const LANE: Colour = Colour(247, 248, 250);
/// What a finding proves, and nothing else.
pub const VIOLATION: Colour = Colour(213, 94, 0);

const BLACK: Colour = Colour(0, 0, 0);
const ORANGE: Colour = Colour(230, 159, 0);
const SKY: Colour = Colour(86, 180, 233);
const GREEN: Colour = Colour(0, 158, 115);
const YELLOW: Colour = Colour(240, 228, 66);
const BLUE: Colour = Colour(0, 114, 178);
const PURPLE: Colour = Colour(204, 121, 167);
const GREY: Colour = Colour(110, 110, 110);
const DARK: Colour = Colour(60, 60, 60);
const INDIGO: Colour = Colour(51, 34, 136);
const OLIVE: Colour = Colour(153, 153, 51);
const SAND: Colour = Colour(214, 200, 170);

/// Quantiles, from the median to the slowest: one hue, darker where more operations were faster.
pub const QUANTILES: [Colour; 4] = [INDIGO, BLUE, SKY, GREY];
/// The highest token that a lock service has granted.
pub const GRANTED: Colour = INDIGO;

/// How strongly a fault shades the lane of a client that it strikes.
pub const SHADE_OF_LANE: f64 = 0.24;
/// How strongly one that strikes all clients shades all lanes.
pub const SHADE_OF_ALL: f64 = 0.16;
/// How strongly faults shade a plot whose marks lie in front of them.
pub const SHADE_OF_PLOT: f64 = 0.08;
/// A fault without evidence shades so much of that.
pub const DOUBT: f64 = 0.5;

/// How an operation ended, as pictures and tables show it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Answer {
    /// It happened.
    Ok,
    /// The fence refused it: a write that failed with `stale-token`.
    Refused,
    /// It did not happen, for another reason.
    Failed,
    /// Nobody knows.
    Unknown,
}

impl Answer {
    /// All, in the order of a legend.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Refused, Self::Failed, Self::Unknown];

    /// How `operation` ended.
    #[must_use]
    pub fn of(operation: &Operation, history: &History) -> Self {
        match operation.outcome {
            Outcome::Ok => Self::Ok,
            Outcome::Unknown => Self::Unknown,
            Outcome::Failed => {
                let stale = operation
                    .error
                    .is_some_and(|error| history.names.text(error) == "stale-token");
                if stale && is_write(operation) {
                    Self::Refused
                } else {
                    Self::Failed
                }
            }
        }
    }

    /// Its colour.
    #[must_use]
    pub fn colour(self) -> Colour {
        match self {
            Self::Ok => GREEN,
            Self::Refused => BLUE,
            Self::Failed => ORANGE,
            Self::Unknown => DARK,
        }
    }

    /// Its words in a legend.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused => "refused by the fence",
            Self::Failed => "failed",
            Self::Unknown => "outcome unknown",
        }
    }
}

/// Whether `operation` is a write or an append: what a fence can refuse.
#[must_use]
pub fn is_write(operation: &Operation) -> bool {
    matches!(operation.function, Function::Write | Function::Append)
}

/// The kinds of fault with a colour of their own.
pub const FAULTS: [&str; 6] = ["zombie", "pause", "hole", "lost-reply", "latency", "kill"];

/// The colour of a kind of fault; kinds that are not in [`FAULTS`] share a grey.
#[must_use]
pub fn fault(kind: &str) -> Colour {
    match kind {
        "zombie" | "between" => PURPLE,
        "pause" => YELLOW,
        "hole" => INDIGO,
        "lost-reply" => SKY,
        "latency" => OLIVE,
        "kill" => BLACK,
        _ => GREY,
    }
}

/// What a kind of fault did, in words short enough for a picture.
#[must_use]
pub fn fault_words(kind: &str) -> &str {
    match kind {
        "zombie" | "between" | "pause" => "stopped (SIGSTOP)",
        "hole" => "link swallows everything",
        "lost-reply" => "replies lost",
        "latency" => "link delayed",
        "reset" => "connections reset",
        "kill" => "killed and restarted",
        other => other,
    }
}

/// How many colours token bars have.
pub const TOKENS: usize = 2;

/// The colours of token bars: `turn` counts a lock's tokens in order, and neighbours differ. No fault and no shade of
/// one looks like them.
#[must_use]
pub fn token(turn: usize) -> Colour {
    [PAPER, SAND][turn % TOKENS]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance as WCAG defines it.
    fn luminance(Colour(red, green, blue): Colour) -> f64 {
        let linear = |channel: u8| {
            let share = f64::from(channel) / 255.0;
            if share <= 0.04045 {
                share / 12.92
            } else {
                ((share + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    }

    fn contrast(one: Colour, other: Colour) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    /// Distance in sRGB as seen by an eye whose response is `matrix` (rows; Machado and others, 2009, severity 1).
    fn distance(one: Colour, other: Colour, matrix: [[f64; 3]; 3]) -> f64 {
        let seen = |Colour(red, green, blue): Colour| {
            let channels = [f64::from(red), f64::from(green), f64::from(blue)];
            matrix.map(|row| {
                row.iter()
                    .zip(channels)
                    .map(|(weight, channel)| weight * channel)
                    .sum::<f64>()
            })
        };
        seen(one)
            .iter()
            .zip(seen(other))
            .map(|(a, b)| (a - b).powi(2))
            .sum::<f64>()
            .sqrt()
    }

    const EYES: [(&str, [[f64; 3]; 3]); 3] = [
        (
            "trichromat",
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        ),
        (
            "protanope",
            [
                [0.152, 1.053, -0.205],
                [0.115, 0.786, 0.099],
                [-0.004, -0.048, 1.052],
            ],
        ),
        (
            "deuteranope",
            [
                [0.367, 0.861, -0.228],
                [0.280, 0.673, 0.047],
                [-0.012, 0.043, 0.969],
            ],
        ),
    ];

    fn assert_all_differ(what: &str, colours: &[Colour], least: f64) {
        for (eye, matrix) in EYES {
            for (at, &one) in colours.iter().enumerate() {
                for &other in &colours[at + 1..] {
                    let distance = distance(one, other, matrix);
                    assert!(
                        distance >= least,
                        "{what}: a {eye} sees {one:?} and {other:?} only {distance:.0} apart"
                    );
                }
            }
        }
    }

    #[test]
    fn outcomes_and_the_violation_are_told_apart_by_every_eye() {
        let mut colours = Answer::ALL.map(Answer::colour).to_vec();
        colours.push(VIOLATION);
        assert_all_differ("outcomes", &colours, 35.0);
    }

    #[test]
    fn quantiles_and_marks_are_told_apart_by_every_eye() {
        assert_all_differ("quantiles", &QUANTILES, 35.0);
        assert_all_differ(
            "marks",
            &[
                GRANTED,
                Answer::Ok.colour(),
                Answer::Refused.colour(),
                VIOLATION,
            ],
            35.0,
        );
    }

    #[test]
    fn kinds_of_fault_are_told_apart_by_every_eye() {
        assert_all_differ("faults", &FAULTS.map(fault), 35.0);
    }

    #[test]
    fn neighbouring_token_bars_differ_and_carry_readable_ink() {
        let bars = [token(0), token(1)];
        assert_all_differ("tokens", &bars, 35.0);
        assert_eq!(token(TOKENS), token(0));
        for bar in bars {
            assert!(
                contrast(INK, bar) >= 7.0,
                "{bar:?}: {:.1}",
                contrast(INK, bar)
            );
        }
    }

    #[test]
    fn no_eye_takes_a_fault_or_its_shade_for_a_token() {
        let over = |behind: Colour, colour: Colour, alpha: f64| {
            let mixed = |below: u8, above: u8| {
                (f64::from(above) * alpha + f64::from(below) * (1.0 - alpha)).round() as u8
            };
            Colour(
                mixed(behind.0, colour.0),
                mixed(behind.1, colour.1),
                mixed(behind.2, colour.2),
            )
        };
        for kind in FAULTS.into_iter().chain(["another"]) {
            for paper in [PAPER, LANE] {
                // Paper that is barely shaded is still paper: what is thinner than this is told by its outline.
                for (shade, least) in [(1.0, 60.0), (SHADE_OF_LANE, 25.0), (SHADE_OF_ALL, 15.0)] {
                    let shaded = over(paper, fault(kind), shade);
                    for turn in 0..TOKENS {
                        assert_all_differ(kind, &[shaded, token(turn)], least);
                    }
                }
            }
        }
    }

    #[test]
    fn ink_is_readable_on_paper_and_lanes() {
        for ink in [INK, SOFT_INK] {
            assert!(
                contrast(ink, PAPER) >= 4.5 && contrast(ink, LANE) >= 4.5,
                "{ink:?}"
            );
        }
        assert!(
            contrast(VIOLATION, PAPER) >= 3.0,
            "large and ringed, so 3 is enough"
        );
    }

    #[test]
    fn a_tint_of_nothing_is_white_and_a_whole_one_is_itself() {
        assert_eq!(VIOLATION.tint(0.0), PAPER);
        assert_eq!(VIOLATION.tint(1.0), VIOLATION);
    }
}
