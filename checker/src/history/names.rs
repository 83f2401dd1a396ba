//! Interned names, so that operations are small and rules compare integers.

use std::borrow::Cow;
use std::num::NonZeroU32;

use super::texts::Texts;

/// A client, lock, key, path, identity or session, as a number that [`Names`] turns back into text.
///
/// Two names of one history are equal exactly when their texts are. The order is that of first appearance.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Name(NonZeroU32);

impl Name {
    /// Its place among the names of its history, from 0: names may be places in a list.
    #[must_use]
    pub fn position(self) -> usize {
        self.0.get() as usize - 1
    }

    fn at(number: u32) -> Self {
        Self(NonZeroU32::new(number + 1).expect("one above a number is not 0"))
    }
}

/// The table of a history's names.
#[derive(Clone, Debug, Default)]
pub struct Names {
    texts: Texts,
}

impl Names {
    /// The name of `text`, made if it is new.
    ///
    /// # Panics
    /// When a history has more than 2^32 - 2 different names.
    #[inline]
    pub fn intern(&mut self, text: &str) -> Name {
        Name::at(self.texts.intern(text))
    }

    /// The name of `text`, if the history has it.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<Name> {
        self.texts.find(text).map(Name::at)
    }

    /// How many names there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.texts.len()
    }

    /// The text of `name` for a sentence: what would break its line or steer a terminal is escaped.
    ///
    /// # Panics
    /// When `name` comes from another history.
    #[must_use]
    pub fn shown(&self, name: Name) -> Cow<'_, str> {
        let text = self.text(name);
        if text.chars().any(char::is_control) {
            Cow::Owned(text.escape_default().to_string())
        } else {
            Cow::Borrowed(text)
        }
    }

    /// The text of `name`.
    ///
    /// # Panics
    /// When `name` comes from another history.
    #[must_use]
    pub fn text(&self, name: Name) -> &str {
        self.texts.text(name.0.get() - 1)
    }

    pub(super) fn shrink(&mut self) {
        self.texts.shrink();
    }
}
