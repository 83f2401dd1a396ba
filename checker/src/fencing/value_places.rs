//! Which write wrote a value, among the operations of one key.

use hashbrown::HashMap;

use crate::history::{Datum, Name};

/// A place for each value. Where a key's values lie close together in the history's table, a list; else a table.
#[derive(Clone, Debug)]
pub(crate) enum ValuePlaces {
    /// Places from 1, by value from the first on.
    Near(usize, Vec<u32>),
    Far(HashMap<Datum, u32>),
}

/// Where the write of a value is found.
pub(crate) trait Places {
    /// Puts a value at a place.
    fn put(&mut self, value: Datum, place: usize);

    /// The place of a value.
    fn get(&self, value: Datum) -> Option<usize>;
}

/// Places of the values of all keys, in one list: each value belongs to the key that wrote it last.
#[derive(Clone, Debug)]
pub(crate) struct AllPlaces {
    /// Places from 1.
    places: Vec<(Option<Name>, u32)>,
}

impl AllPlaces {
    /// For a history with so many values.
    pub fn new(values: usize) -> Self {
        Self {
            places: vec![(None, 0); values],
        }
    }

    /// The key that wrote this value last, if any did.
    #[inline]
    pub fn writer(&self, value: Datum) -> Option<Option<Name>> {
        let (key, place) = self.places[value.position()];
        (place > 0).then_some(key)
    }

    /// As one key sees it.
    pub fn of_key(&mut self, key: Option<Name>) -> OfKey<'_> {
        OfKey { all: self, key }
    }
}

/// The places of one key's values. A value that another key wrote since then is not found.
pub(crate) struct OfKey<'a> {
    all: &'a mut AllPlaces,
    key: Option<Name>,
}

impl Places for OfKey<'_> {
    #[inline]
    fn put(&mut self, value: Datum, place: usize) {
        let place = u32::try_from(place + 1).expect("fewer than 2^32 operations are judged");
        self.all.places[value.position()] = (self.key, place);
    }

    #[inline]
    fn get(&self, value: Datum) -> Option<usize> {
        let (key, place) = self.all.places[value.position()];
        let place = place.checked_sub(1).filter(|_| key == self.key)?;
        Some(place as usize)
    }
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
}

impl Places for ValuePlaces {
    #[inline]
    fn put(&mut self, value: Datum, place: usize) {
        let place = u32::try_from(place + 1).expect("fewer than 2^32 operations are judged");
        match self {
            Self::Near(least, places) => places[value.position() - *least] = place,
            Self::Far(places) => {
                places.insert(value, place);
            }
        }
    }

    #[inline]
    fn get(&self, value: Datum) -> Option<usize> {
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
