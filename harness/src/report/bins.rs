//! The time of a run cut into spans of one round length, to count and to rank in.

use super::frame::Axis;

/// At most so many spans.
const MOST: u64 = 120;

/// Spans of one length, side by side from the begin of an axis.
#[derive(Clone, Copy, Debug)]
pub struct Bins {
    /// Where the first begins, in nanoseconds since the run began.
    from: u64,
    /// How long each is, in nanoseconds.
    pub length: u64,
    /// How many there are.
    pub count: usize,
}

impl Bins {
    /// Spans of 1, 2 or 5 times a power of ten nanoseconds, at least 10 ms long and at most [`MOST`] of them.
    #[must_use]
    pub fn over(axis: &Axis) -> Self {
        let whole = axis.to - axis.from;
        let least = whole.div_ceil(MOST).max(10_000_000);
        let mut power = 1_u64;
        while power.saturating_mul(10) <= least {
            power *= 10;
        }
        let length = [1, 2, 5, 10]
            .into_iter()
            .map(|factor| power.saturating_mul(factor))
            .find(|&length| length >= least)
            .unwrap_or(least);
        Self {
            from: axis.from,
            length,
            // At most MOST, which fits.
            count: whole.div_ceil(length) as usize,
        }
    }

    /// The span that holds `time`; times outside belong to the first or the last.
    #[must_use]
    pub fn of(&self, time: u64) -> usize {
        let place = time.saturating_sub(self.from) / self.length;
        (place as usize).min(self.count - 1)
    }

    /// Begin and end of a span, in nanoseconds since the run began.
    #[must_use]
    pub fn span(&self, bin: usize) -> (u64, u64) {
        let from = self
            .from
            .saturating_add(self.length.saturating_mul(bin as u64));
        (from, from.saturating_add(self.length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_round_few_and_cover_the_axis() {
        for (to, length) in [
            (1, 10_000_000),
            (6_000_000_000, 50_000_000),
            (20_000_000_000, 200_000_000),
            (86_400_000_000_000, 1_000_000_000_000),
        ] {
            let bins = Bins::over(&Axis::new(0, to, 0.0, 100.0));
            assert_eq!(bins.length, length, "{to}");
            assert!(bins.count as u64 <= MOST && bins.span(bins.count - 1).1 >= to);
            assert_eq!((bins.of(0), bins.of(u64::MAX)), (0, bins.count - 1));
        }
    }

    #[test]
    fn a_moment_belongs_to_the_span_that_begins_with_it() {
        let bins = Bins::over(&Axis::new(0, 6_000_000_000, 0.0, 100.0));
        assert_eq!((bins.of(49_999_999), bins.of(50_000_000)), (0, 1));
        assert_eq!(bins.span(1), (50_000_000, 100_000_000));
    }
}
