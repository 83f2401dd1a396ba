//! Something for each name, found without a search: names are small numbers.

use crate::history::Name;

/// A `T` for each name that has been asked for, and one for no name.
#[derive(Clone, Debug)]
pub(crate) struct ByName<T> {
    /// Where in `kept` each name's is, from 1.
    places: Vec<u32>,
    kept: Vec<(Option<Name>, T)>,
    /// The place of what belongs to no name.
    nameless: u32,
}

impl<T> Default for ByName<T> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            kept: Vec::new(),
            nameless: 0,
        }
    }
}

impl<T> ByName<T> {
    #[inline]
    fn place(&self, name: Option<Name>) -> u32 {
        match name {
            Some(name) => self.places.get(name.position()).copied().unwrap_or(0),
            None => self.nameless,
        }
    }

    /// What belongs to `name`, if it has been asked for.
    #[inline]
    pub fn get(&self, name: Option<Name>) -> Option<&T> {
        let place = self.place(name).checked_sub(1)?;
        Some(&self.kept[place as usize].1)
    }

    /// What belongs to `name`, if it has been asked for.
    #[inline]
    pub fn get_mut(&mut self, name: Option<Name>) -> Option<&mut T> {
        let place = self.place(name).checked_sub(1)?;
        Some(&mut self.kept[place as usize].1)
    }

    /// What belongs to `name`, made if it is new.
    #[inline]
    pub fn of(&mut self, name: Option<Name>, new: impl FnOnce() -> T) -> &mut T {
        self.slot(name, new).1
    }

    /// The same, and which of all that have been asked for it is, from 0.
    #[inline]
    pub fn slot(&mut self, name: Option<Name>, new: impl FnOnce() -> T) -> (u32, &mut T) {
        let mut place = self.place(name);
        if place == 0 {
            self.kept.push((name, new()));
            place = u32::try_from(self.kept.len()).expect("there are fewer than 2^32 names");
            match name {
                None => self.nameless = place,
                Some(name) => {
                    if self.places.len() <= name.position() {
                        self.places.resize(name.position() + 1, 0);
                    }
                    self.places[name.position()] = place;
                }
            }
        }
        (place - 1, &mut self.kept[place as usize - 1].1)
    }

    /// All that have been asked for, in that order.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (Option<Name>, &mut T)> {
        self.kept.iter_mut().map(|(name, kept)| (*name, kept))
    }

    /// All that have been asked for, in the order of names.
    pub fn into_sorted(self) -> Vec<(Option<Name>, T)> {
        let mut kept = self.kept;
        kept.sort_by_key(|&(name, _)| name);
        kept
    }
}
