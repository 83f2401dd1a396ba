//! A hash for small numbers that the judge made itself, and a fingerprint for values that it did not.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

/// A map by names, tokens and positions.
pub(super) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;

/// A set of names, tokens and positions.
pub(super) type Set<K> = HashSet<K, BuildHasherDefault<Mix>>;

/// Multiplies and folds, as in Fx and wyhash. What is hashed is interned or counted here, so nobody can aim at it; a
/// process number that a file chooses costs its author no more than a slow map.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mix(u64);

impl Mix {
    fn add(&mut self, word: u64) {
        let product =
            u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xf39c_c060_5ced_c835_u128;
        // Both halves are meant to be cut off.
        #[allow(clippy::cast_possible_truncation)]
        let (low, high) = (product as u64, (product >> 64) as u64);
        self.0 = (low ^ high).wrapping_add(0x2545_f491_4f6c_dd1d);
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.add(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }

    fn write_i128(&mut self, number: i128) {
        // The word is folded: tokens differ in their lower half, or in their sign.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        self.add(number as u64 ^ ((number >> 64) as u64).rotate_left(32));
    }

    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }
}

/// 64 bits that stand for a value. Two values of one key that share them are taken for one: among 50 million values
/// that happens once in some ten thousand histories, and then silences the exact check of that key.
pub(super) fn fingerprint(value: &serde_json::Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
