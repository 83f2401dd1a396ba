//! Where a search has been: configurations, packed into one block of words.
//!
//! A configuration is a place on the line, the state there, which open calls have happened, and how many crashed calls
//! of each class were used. It is reduced to what can still matter: calls that have returned are not in it, nor are
//! classes that nobody can see any more. Bit sets are stored once, in the block, and compared there.
//!
//! One configuration *dominates* another that is equal but used at least as many crashed calls of each class: whatever
//! the second can still do, the first can. So of each place, state and bit set only the least uses are kept.

use std::hash::Hasher;

/// Words are kept in chunks, so that growth never copies them.
const CHUNK: usize = 1 << 14;

/// No list, or its end.
const NONE: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Memo {
    chunks: Vec<Vec<u64>>,
    /// Places of heads in the block plus 1; 0 is free. Its length is a power of two.
    table: Vec<u32>,
    heads: usize,
    /// Words of a key: place and state, then the bit set.
    key: usize,
}

impl Memo {
    /// For bit sets of so many words.
    pub fn new(words: usize) -> Self {
        Self {
            chunks: Vec::new(),
            table: vec![0; 64],
            heads: 0,
            key: words + 1,
        }
    }

    /// Takes in a configuration; `false` where it, or one that dominates it, was there already. `used` holds, ascending
    /// by class, `class << 32 | count`.
    pub fn insert(&mut self, key: &[u64], used: &[u64]) -> bool {
        debug_assert_eq!(key.len(), self.key);
        if self.heads * 2 >= self.table.len() {
            self.grow();
        }
        let mask = self.table.len() - 1;
        let mut slot = hash(key) & mask;
        loop {
            match self.table[slot] {
                0 => break,
                head => {
                    let head = head as usize - 1;
                    if self.read(head, self.key) == key {
                        return self.add_use(head, used);
                    }
                }
            }
            slot = (slot + 1) & mask;
        }
        let list = if used.is_empty() {
            NONE
        } else {
            self.write_use(NONE, used)
        };
        let head = self.write(key, &[list]);
        // Places are those of 32 bits, in words: 32 GiB. A search that needs more has met its memory limit before.
        self.table[slot] = u32::try_from(head + 1).unwrap_or(u32::MAX);
        self.heads += 1;
        true
    }

    /// A list that is `NONE` under a head says that no crashed call was used: that dominates all.
    fn add_use(&mut self, head: usize, used: &[u64]) -> bool {
        let list = head + self.key;
        let mut record = self.word(list);
        if record == NONE {
            return false;
        }
        while record != NONE {
            let at = usize::try_from(record).unwrap_or(usize::MAX);
            let length = usize::try_from(self.word(at + 1)).unwrap_or(usize::MAX);
            if dominates(self.read(at + 2, length), used) {
                return false;
            }
            record = self.word(at);
        }
        let first = if used.is_empty() {
            NONE
        } else {
            self.write_use(self.word(list), used)
        };
        self.chunks[list / CHUNK][list % CHUNK] = first;
        true
    }

    fn write_use(&mut self, next: u64, used: &[u64]) -> u64 {
        self.write(&[next, used.len() as u64], used) as u64
    }

    /// Appends words so that they stand in one chunk; a chunk is larger where they need it.
    fn write(&mut self, first: &[u64], second: &[u64]) -> usize {
        let length = first.len() + second.len();
        let room = self
            .chunks
            .last()
            .is_some_and(|chunk| chunk.len() + length <= CHUNK);
        if !room {
            // The first one grows as it fills: most searches are small.
            let capacity = if self.chunks.is_empty() { 64 } else { CHUNK };
            self.chunks.push(Vec::with_capacity(length.max(capacity)));
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        let at = number * CHUNK + chunk.len();
        chunk.extend_from_slice(first);
        chunk.extend_from_slice(second);
        at
    }

    fn read(&self, at: usize, length: usize) -> &[u64] {
        &self.chunks[at / CHUNK][at % CHUNK..at % CHUNK + length]
    }

    fn word(&self, at: usize) -> u64 {
        self.chunks[at / CHUNK][at % CHUNK]
    }

    fn grow(&mut self) {
        let old = std::mem::take(&mut self.table);
        self.table = vec![0; old.len() * 4];
        let mask = self.table.len() - 1;
        for head in old.into_iter().filter(|&head| head != 0) {
            let mut slot = hash(self.read(head as usize - 1, self.key)) & mask;
            while self.table[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            self.table[slot] = head;
        }
    }

    /// Bytes that the next insertion may come to, growth of the table included.
    pub fn bytes(&self) -> usize {
        let table = self.table.len() * size_of::<u32>();
        let growth = if self.heads * 2 >= self.table.len() {
            table * 4
        } else {
            0
        };
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        let last = self
            .chunks
            .last()
            .map_or(0, |chunk| chunk.capacity().max(CHUNK));
        (full + last) * size_of::<u64>() + table + growth
    }
}

/// `less` uses at most as many calls of each class as `more`. Both ascend by class.
fn dominates(less: &[u64], more: &[u64]) -> bool {
    let mut rest = more.iter();
    less.iter().all(|&use_| {
        rest.by_ref()
            .find(|&&other| other >> 32 >= use_ >> 32)
            .is_some_and(|&other| other >> 32 == use_ >> 32 && other >= use_)
    })
}

fn hash(words: &[u64]) -> usize {
    let mut hasher = Mix::default();
    for &word in words {
        hasher.write_u64(word);
    }
    usize::try_from(hasher.finish() >> 16).unwrap_or(0)
}

/// A quick hash for tables whose content never leaves the search. Keys made to collide would cost time, nothing else.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mix(u64);

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in chunks.by_ref() {
            self.write_u64(u64::from_le_bytes(chunk.try_into().unwrap_or_default()));
        }
        let rest = chunks.remainder();
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.write_u64(u64::from_le_bytes(last) ^ (rest.len() as u64) << 56);
        }
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0.rotate_left(23) ^ word) * u128::from(FACTOR);
        // The halves of a product of 64 by 64 bits: nothing is lost.
        #[allow(clippy::cast_possible_truncation)]
        let (low, high) = (product as u64, (product >> 64) as u64);
        self.0 = low ^ high;
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(byte.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_new_once_and_dominated_by_one_that_used_less() {
        let mut memo = Memo::new(1);
        let two_of = |class: u64| class << 32 | 2;
        let one_of = |class: u64| class << 32 | 1;
        assert!(memo.insert(&[7, 1], &[two_of(1), one_of(4)]));
        assert!(!memo.insert(&[7, 1], &[two_of(1), one_of(4)]));
        assert!(!memo.insert(&[7, 1], &[one_of(0), two_of(1), two_of(4)]));
        assert!(memo.insert(&[7, 1], &[one_of(1), two_of(4)]));
        assert!(memo.insert(&[7, 1], &[two_of(1)]));
        assert!(!memo.insert(&[7, 1], &[two_of(1), two_of(3)]));
        assert!(memo.insert(&[7, 2], &[two_of(1)]));
        assert!(memo.insert(&[7, 1], &[]));
        assert!(!memo.insert(&[7, 1], &[one_of(1)]));
    }

    #[test]
    fn many_configurations_are_told_apart_while_the_table_grows() {
        let mut memo = Memo::new(2);
        for round in [true, false] {
            for number in 0..50_000_u64 {
                let key = [number, number % 7, number % 3];
                assert_eq!(memo.insert(&key, &[]), round, "{number}");
            }
        }
        assert!(memo.bytes() > 50_000 * 4 * 8);
    }
}
