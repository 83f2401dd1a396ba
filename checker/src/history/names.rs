//! Interned names, so that operations are small and rules compare integers.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// A client, lock, key, path, identity or session, as a number that [`Names`] turns back into text.
///
/// Two names of one history are equal exactly when their texts are. The order is that of first appearance.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Name(u32);

impl Name {
    /// Its place in the order of first appearance, from 0, for tables that a rule keeps by name.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The table of a history's names.
#[derive(Clone, Debug, Default)]
pub struct Names {
    texts: Vec<Arc<str>>,
    by_text: HashMap<Arc<str>, Name>,
}

impl Names {
    /// The name of `text`, made if it is new.
    ///
    /// # Panics
    /// When a history has more than 2^32 different names.
    pub fn intern(&mut self, text: &str) -> Name {
        if let Some(&name) = self.by_text.get(text) {
            return name;
        }
        let name = Name(u32::try_from(self.texts.len()).expect("fewer than 2^32 names"));
        let text: Arc<str> = text.into();
        self.texts.push(Arc::clone(&text));
        self.by_text.insert(text, name);
        name
    }

    /// The name of `text`, if the history has it.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<Name> {
        self.by_text.get(text).copied()
    }

    /// How many names there are.
    pub(crate) fn len(&self) -> usize {
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
        &self.texts[name.0 as usize]
    }
}
