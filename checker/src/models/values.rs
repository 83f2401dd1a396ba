//! Values as small numbers: equal numbers are equal values.

use std::collections::HashMap;

use serde_json::Value;

use crate::history::digits;

/// A value of a history.
pub(super) type Id = u32;

/// The table of a model's values.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    ids: HashMap<Value, Id>,
    values: Vec<Value>,
}

/// How much of a value is shown.
const SHOWN: usize = 120;

impl Values {
    /// The number of `value`, a new one if it was not seen before.
    pub fn id(&mut self, value: &Value) -> Id {
        if let Some(&id) = self.ids.get(value) {
            return id;
        }
        // A history with 2^32 values fits no memory.
        let id = Id::try_from(self.values.len()).unwrap_or(Id::MAX);
        self.values.push(value.clone());
        self.ids.insert(value.clone(), id);
        id
    }

    /// The value, for people; a text without its quotes.
    pub fn text(&self, id: Id) -> String {
        match self.values.get(id as usize) {
            Some(Value::String(text)) => shorten(&text.escape_debug().to_string()),
            _ => self.shown(id),
        }
    }

    /// The value, for people.
    pub fn shown(&self, id: Id) -> String {
        let Some(value) = self.values.get(id as usize) else {
            return String::new();
        };
        shorten(&digits(value).map_or_else(|| value.to_string(), str::to_owned))
    }
}

/// The beginning of a long text.
pub(super) fn shorten(text: &str) -> String {
    if text.chars().nth(SHOWN).is_none() {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(SHOWN).collect();
    short.push_str(" ...");
    short
}
