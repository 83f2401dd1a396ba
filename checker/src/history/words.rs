//! Words that come again and again, as numbers: whoever joins events compares no texts.

use std::num::NonZeroU32;

use super::texts::Texts;

/// A word of [`Words`], as a number from 1.
pub(super) type Word = NonZeroU32;

/// The words that one reader has met.
#[derive(Clone, Debug)]
pub(super) struct Words {
    texts: Texts,
    /// Short words that were met lately, by what they are: found without a hash of their texts.
    lately: Box<[Short]>,
}

/// A word of at most eight bytes; of none, there is none.
#[derive(Clone, Copy, Debug, Default)]
struct Short {
    bytes: u64,
    length: u32,
    number: u32,
}

/// How many short words are remembered, as a power of two.
const LATELY: u32 = 11;

impl Default for Words {
    fn default() -> Self {
        Self {
            texts: Texts::default(),
            lately: vec![Short::default(); 1 << LATELY].into_boxed_slice(),
        }
    }
}

impl Words {
    /// The word that stands in `bytes` from `start` to `end`; it is whole UTF-8.
    #[inline]
    pub fn of(&mut self, bytes: &[u8], start: usize, end: usize) -> Word {
        let length = end - start;
        let near = bytes.get(start..).and_then(|rest| rest.first_chunk());
        let Some(chunk) = near.filter(|_| (1..=8).contains(&length)) else {
            return self.look_up(&bytes[start..end]);
        };
        let text = u64::from_le_bytes(*chunk) & (u64::MAX >> (64 - 8 * length));
        self.of_short(text, bytes, start, length)
    }

    /// The same of a word of one to eight bytes: `text` is what it is, in the order of little endians.
    #[inline]
    pub fn of_short(&mut self, text: u64, bytes: &[u8], start: usize, length: usize) -> Word {
        // Any odd number spreads the bits; this one is 2^64 over the golden ratio.
        let spread = text.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - LATELY);
        let place = spread as usize;
        let known = self.lately[place];
        if known.bytes == text
            && known.length as usize == length
            && let Some(word) = Word::new(known.number)
        {
            return word;
        }
        let word = self.look_up(&bytes[start..start + length]);
        self.lately[place] = Short {
            bytes: text,
            length: length as u32,
            number: word.get(),
        };
        word
    }

    fn look_up(&mut self, text: &[u8]) -> Word {
        let hash = self.texts.hasher().hash(text);
        NonZeroU32::MIN.saturating_add(self.texts.intern_hashed(text, hash))
    }

    pub fn text(&self, word: Word) -> &str {
        self.texts.text(word.get() - 1)
    }

    pub fn count(&self) -> usize {
        self.texts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_one_number_wherever_it_stands() {
        let mut words = Words::default();
        let text = "k1 k10 12345678 123456789 k1 stale-token k10\u{0} k10 12345678 k1";
        let mut numbers = Vec::new();
        let mut start = 0;
        for word in text.split(' ') {
            numbers.push(words.of(text.as_bytes(), start, start + word.len()));
            start += word.len() + 1;
        }
        for (one, a) in text.split(' ').zip(&numbers) {
            assert_eq!(words.text(*a), one);
            for (other, b) in text.split(' ').zip(&numbers) {
                assert_eq!(one == other, a == b, "{one} {other}");
            }
        }
        assert_eq!(words.count(), 6);
    }
}
