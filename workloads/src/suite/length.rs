//! Durations of a suite: one (`"2s"`) or a range to draw from (`"500ms..3s"`).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

/// One duration, written `250ms`, `2s`, `5m`; from `MIN` to `MAX` milliseconds, which are 1 ms and 24 h unless said.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Span<const MIN: u64 = 1, const MAX: u64 = 86_400_000>(pub Duration);

impl<const MIN: u64, const MAX: u64> Span<MIN, MAX> {
    /// In whole milliseconds.
    #[must_use]
    pub fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

impl<const MIN: u64, const MAX: u64> FromStr for Span<MIN, MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = Duration::from_millis(MIN)..=Duration::from_millis(MAX);
        humantime::parse_duration(text)
            .ok()
            .filter(|duration| range.contains(duration))
            .map(Self)
            .ok_or_else(|| {
                let [min, max] = [*range.start(), *range.end()].map(humantime::format_duration);
                format!("{text:?} is no such duration: one like \"250ms\", \"2s\" or \"5m\", from {min} to {max}, is right")
            })
    }
}

impl<const MIN: u64, const MAX: u64> fmt::Display for Span<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

/// A duration, or a range that one is drawn from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Length {
    /// The least.
    pub from: Span,
    /// The greatest; equal to `from` for a fixed length.
    pub to: Span,
}

impl Length {
    /// Milliseconds from `from` to `to`, both included.
    #[must_use]
    pub const fn millis(from: u64, to: u64) -> Self {
        Self {
            from: Span(Duration::from_millis(from)),
            to: Span(Duration::from_millis(to)),
        }
    }

    /// A length drawn evenly.
    pub fn draw(self, stream: &mut impl Rng) -> Duration {
        let nanos = |span: Span| u64::try_from(span.0.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(stream.random_range(nanos(self.from)..=nanos(self.to)))
    }
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = match text.split_once("..") {
            Some((from, to)) => (from.trim().parse::<Span>()?, to.trim().parse::<Span>()?),
            None => {
                let span = text.parse::<Span>()?;
                (span, span)
            }
        };
        if from > to {
            return Err(format!(
                "{text:?} is upside down: the shorter duration first, \"{to}..{from}\", is right"
            ));
        }
        Ok(Self { from, to })
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.from == self.to {
            self.from.fmt(f)
        } else {
            write!(f, "{}..{}", self.from, self.to)
        }
    }
}

impl<const MIN: u64, const MAX: u64> Serialize for Span<MIN, MAX> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Span<MIN, MAX> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(deserializer)
    }
}

impl Serialize for Length {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(deserializer)
    }
}

fn parsed<'de, T: FromStr<Err = String>, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    String::deserialize(deserializer)
        .map_err(|_| {
            serde::de::Error::custom(
                "a duration in quotes, like \"250ms\", \"2s\" or \"5m\", is right",
            )
        })?
        .parse()
        .map_err(serde::de::Error::custom)
}
