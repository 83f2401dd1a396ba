//! A small source of chance for jitter, slicing and toxicity.
//!
//! It promises independent-looking draws that differ from connection to connection. It is not repeatable from a
//! seed and not fit for secrets: which connections a toxicity of 0.5 hits is up to the day.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A stream of draws (SplitMix64).
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// A stream that starts somewhere else each time.
    pub(crate) fn new() -> Dice {
        Dice(RandomState::new().build_hasher().finish())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        // The top 53 bits are exactly what a double can tell apart.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number in `[-1, 1)`.
    pub(crate) fn sway(&mut self) -> f64 {
        self.unit() * 2.0 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_in_range_and_differ() {
        let mut dice = Dice::new();
        let draws: Vec<f64> = (0..1000).map(|_| dice.unit()).collect();
        assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
        assert!(draws.iter().any(|draw| *draw < 0.1) && draws.iter().any(|draw| *draw > 0.9));
        assert!((0..1000).all(|_| (-1.0..1.0).contains(&dice.sway())));
    }
}
