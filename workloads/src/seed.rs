//! One seed fixes a run's plan; every consumer draws from a stream of its own.
//!
//! A new draw in one place therefore shifts no other place. The streams are ChaCha, whose output is fixed by its
//! specification, so that a seed means the same on every machine and in every version.

use rand::SeedableRng;
pub use rand_chacha::ChaCha8Rng as Stream;

/// The seed of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Seed(pub u64);

impl Seed {
    /// The random stream called `name`, e.g. `plan/zombie` or `holder/c3`. The same name gives the same stream again.
    #[must_use]
    pub fn stream(self, name: &str) -> Stream {
        let mut bytes = [0_u8; 32];
        bytes[..8].copy_from_slice(&self.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&fnv1a(name.as_bytes()).to_le_bytes());
        bytes[16..24].copy_from_slice(&(name.len() as u64).to_le_bytes());
        Stream::from_seed(bytes)
    }
}

/// The 64-bit FNV-1a hash: stable for ever, which the standard library's hasher does not promise.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    #[test]
    fn the_same_name_gives_the_same_draws_and_another_name_gives_others() {
        let draws = |seed: u64, name: &str| {
            let mut stream = Seed(seed).stream(name);
            [stream.next_u64(), stream.next_u64()]
        };
        assert_eq!(draws(7, "plan/zombie"), draws(7, "plan/zombie"));
        assert_ne!(draws(7, "plan/zombie"), draws(7, "plan/pause"));
        assert_ne!(draws(7, "plan/zombie"), draws(8, "plan/zombie"));
    }
}
