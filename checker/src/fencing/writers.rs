//! Who was the first to write, when every key asks for the first write of another.

use crate::history::Name;

/// The first write, and the first of another key than that: each key is disturbed by the one or the other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Writers {
    first: Option<(Option<Name>, u64)>,
    second: Option<u64>,
}

impl Writers {
    /// Notes a write, in order of index.
    pub fn note(&mut self, key: Option<Name>, index: u64) {
        let (writer, _) = *self.first.get_or_insert((key, index));
        if writer != key {
            self.second.get_or_insert(index);
        }
    }

    /// The index of the first write of another key.
    pub fn but(&self, key: Option<Name>) -> Option<u64> {
        match self.first {
            Some((writer, _)) if writer == key => self.second,
            first => first.map(|(_, index)| index),
        }
    }
}
