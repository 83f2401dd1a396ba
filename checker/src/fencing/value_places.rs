//! Which write wrote a value, among the operations of one key.

use hashbrown::HashMap;

use crate::history::Datum;

/// A place for each value. Where a key's values lie close together in the history's table, a list; else a table.
#[derive(Clone, Debug)]
pub(crate) enum ValuePlaces {
    /// Places from 1, by value from the first on.
    Near(usize, Vec<u32>),
    Far(HashMap<Datum, u32>),
}

/// How far apart some values lie.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    least: usize,
    greatest: usize,
    count: usize,
}

impl Span {
    /// Takes in one more value.
    #[inline]
    pub fn take_in(&mut self, value: Datum) {
        let position = value.position();
        if self.count == 0 {
            self.least = position;
        }
        self.least = self.least.min(position);
        self.greatest = self.greatest.max(position);
        self.count += 1;
    }
}

impl ValuePlaces {
    /// For values within this span.
    pub fn within(span: Span) -> Self {
        let range = span.greatest - span.least + 1;
        if range <= span.count.saturating_mul(8) + 64 {
            Self::Near(span.least, vec![0; range])
        } else {
            Self::Far(HashMap::with_capacity(span.count))
        }
    }

    /// Puts a value at a place; false if it has one already, which is changed.
    #[inline]
    pub fn put(&mut self, value: Datum, place: usize) -> bool {
        let place = u32::try_from(place + 1).expect("fewer than 2^32 operations are judged");
        match self {
            Self::Near(least, places) => {
                std::mem::replace(&mut places[value.position() - *least], place) == 0
            }
            Self::Far(places) => places.insert(value, place).is_none(),
        }
    }

    /// The place of a value.
    #[inline]
    pub fn get(&self, value: Datum) -> Option<usize> {
        let place = match self {
            Self::Near(least, places) => {
                let place = value.position().checked_sub(*least)?;
                *places.get(place)?
            }
            Self::Far(places) => *places.get(&value)?,
        };
        Some(place.checked_sub(1)? as usize)
    }
}
