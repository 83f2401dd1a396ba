//! Texts, each kept once and known by a number.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// All texts one after the other, where each ends, and a table that finds the number of a text.
///
/// A text of 8 bytes costs some 25 bytes in all, however often it is used.
#[derive(Clone, Debug, Default)]
pub(super) struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    index: HashTable<Known>,
    hasher: TextHasher,
    /// Numbers of texts that were met lately, from 1, each with a part of its hash at the place of the hash: found
    /// without a way through the whole of memory. Made with the first text.
    lately: Vec<(u32, u32)>,
}

/// The number of a text, and a part of its hash: a table that grows, or meets another text at the same place, need not
/// look at the text itself, which lies anywhere in memory.
#[derive(Clone, Copy, Debug)]
struct Known {
    part: u32,
    number: u32,
}

impl Known {
    fn of(hash: u64, number: u32) -> Self {
        // The upper half; the lower one tells texts that were met lately from each other.
        let part = (hash >> 32) as u32;
        Self { part, number }
    }

    /// The hash by which the table goes: it must follow from the part alone.
    fn hash(self) -> u64 {
        u64::from(self.part).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// How many texts are remembered as met lately, as a power of two.
const LATELY: u32 = 13;

/// How texts are hashed. Seeded anew in each process, so that nobody can make a file whose names all collide; shared
/// between tables by cloning, so that a hash may be made before it is known where the text will be kept.
#[derive(Clone, Debug, Default)]
pub(super) struct TextHasher(RandomState);

impl TextHasher {
    #[inline]
    pub fn hash(&self, text: &[u8]) -> u64 {
        self.0.hash_one(text)
    }
}

impl Texts {
    pub fn hasher(&self) -> &TextHasher {
        &self.hasher
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn text(&self, number: u32) -> &str {
        std::str::from_utf8(text(&self.bytes, &self.ends, number))
            .expect("only whole texts are kept")
    }

    pub fn find(&self, sought: &str) -> Option<u32> {
        let sought = sought.as_bytes();
        let hash = self.hasher.hash(sought);
        let wanted = Known::of(hash, 0);
        let same = |known: &Known| {
            known.part == wanted.part && text(&self.bytes, &self.ends, known.number) == sought
        };
        let found = self.index.find(wanted.hash(), same);
        found.map(|known| known.number)
    }

    #[inline]
    pub fn intern(&mut self, sought: &str) -> u32 {
        let sought = sought.as_bytes();
        self.intern_hashed(sought, self.hasher.hash(sought))
    }

    /// The number of a text, of which the bytes and the hash are known, made if it is new.
    ///
    /// # Panics
    /// When there are more than 2^32 - 2 different texts: a file that large is refused long before.
    #[inline]
    pub fn intern_hashed(&mut self, sought: &[u8], hash: u64) -> u32 {
        if self.lately.is_empty() {
            self.lately = vec![(0, 0); 1 << LATELY];
        }
        // The upper bits: the table of all texts goes by the lower ones.
        let place = (hash >> (64 - LATELY)) as usize;
        let (part, known) = self.lately[place];
        if let Some(known) = known.checked_sub(1)
            && part == hash as u32
            && text(&self.bytes, &self.ends, known) == sought
        {
            return known;
        }
        let number = self.intern_rare(sought, hash);
        self.lately[place] = (hash as u32, number + 1);
        number
    }

    fn intern_rare(&mut self, sought: &[u8], hash: u64) -> u32 {
        let (bytes, ends) = (&mut self.bytes, &mut self.ends);
        let wanted = Known::of(hash, 0);
        let same =
            |known: &Known| known.part == wanted.part && text(bytes, ends, known.number) == sought;
        if let Some(known) = self.index.find(wanted.hash(), same) {
            return known.number;
        }
        let number = u32::try_from(ends.len()).expect("fewer than 2^32 texts");
        bytes.extend_from_slice(sought);
        ends.push(bytes.len());
        let known = Known::of(hash, number);
        self.index
            .insert_unique(known.hash(), known, |known| known.hash());
        number
    }

    /// Gives back what was set aside for texts to come.
    pub fn shrink(&mut self) {
        self.lately = Vec::new();
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

#[inline]
fn text<'a>(bytes: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let number = number as usize;
    let start = number.checked_sub(1).map_or(0, |before| ends[before]);
    &bytes[start..ends[number]]
}
