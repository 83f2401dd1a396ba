//! The values that were written and read, each kept once; and when two values are one.
//!
//! A service may write `1` and read back `1.0`, and both are the same number. So values are brought into one spelling
//! when a history is read: a fraction-free number that an integer holds exactly becomes that integer. Texts stay as they
//! are, and so do integers too large for 64 bits, digit by digit (`large.rs`).

use std::num::NonZeroU32;

use serde_json::{Number, Value};

use super::texts::{TextHasher, Texts};

/// A value of a history, as a number that [`Values`] turns back into JSON. Two are equal exactly when their values are.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Datum(NonZeroU32);

impl Datum {
    /// JSON's `null`: a read that found nothing.
    pub const NULL: Self = Self(NonZeroU32::MIN);

    /// It is [`Datum::NULL`].
    #[must_use]
    pub fn is_null(self) -> bool {
        self == Self::NULL
    }

    /// Its place among the values of its history, from 0, which is null: values may be places in a list.
    #[must_use]
    pub fn position(self) -> usize {
        self.0.get() as usize - 1
    }

    fn at(number: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(1).saturating_add(number))
    }
}

/// The table of a history's values.
///
/// A text is kept as itself after a quotation mark, everything else as JSON in one spelling: no two look the same.
#[derive(Clone, Debug, Default)]
pub struct Values {
    spelt: Texts,
    scratch: String,
}

/// What stands before a text.
const TEXT: char = '"';

impl Values {
    pub(super) fn hasher(&self) -> &TextHasher {
        self.spelt.hasher()
    }

    /// The number of `value`, made if it is new.
    ///
    /// # Panics
    /// When a history has more than 2^32 - 2 different values.
    pub fn intern(&mut self, value: &Value) -> Datum {
        match spelling(value) {
            None => Datum::NULL,
            Some(spelt) => Datum::at(self.spelt.intern(&spelt)),
        }
    }

    /// The number of a text, made if it is new.
    pub(crate) fn intern_text(&mut self, text: &str) -> Datum {
        self.scratch.clear();
        self.scratch.push(TEXT);
        self.scratch.push_str(text);
        Datum::at(self.spelt.intern(&self.scratch))
    }

    /// The number of a value that is not null, from its one spelling (UTF-8) and the hash of that.
    #[inline]
    pub(super) fn intern_spelt(&mut self, spelt: &[u8], hash: u64) -> Datum {
        Datum::at(self.spelt.intern_hashed(spelt, hash))
    }

    /// The number of `value`, if the history has it.
    #[must_use]
    pub fn find(&self, value: &Value) -> Option<Datum> {
        match spelling(value) {
            None => Some(Datum::NULL),
            Some(spelt) => self.spelt.find(&spelt).map(Datum::at),
        }
    }

    /// How many values there are, null among them.
    #[must_use]
    pub fn count(&self) -> usize {
        self.spelt.len() + 1
    }

    /// The value itself.
    ///
    /// # Panics
    /// When `datum` comes from another history.
    #[must_use]
    pub fn json(&self, datum: Datum) -> Value {
        if datum.is_null() {
            return Value::Null;
        }
        let spelt = self.spelt.text(datum.0.get() - 2);
        match spelt.strip_prefix(TEXT) {
            Some(text) => Value::from(text),
            None => serde_json::from_str(spelt).expect("it was spelt as JSON"),
        }
    }

    /// Every value as JSON, each at its position.
    pub(crate) fn all(&self) -> Vec<Value> {
        let numbers = 0..u32::try_from(self.spelt.len()).unwrap_or(u32::MAX);
        std::iter::once(Value::Null)
            .chain(numbers.map(|number| self.json(Datum::at(number))))
            .collect()
    }

    /// The elements of a value that is a list; `None` for each that the history does not have as a value by itself.
    ///
    /// # Panics
    /// When `datum` comes from another history.
    #[must_use]
    pub(crate) fn elements(&self, datum: Datum) -> Option<Vec<Option<Datum>>> {
        let number = datum.0.get().checked_sub(2)?;
        if !self.spelt.text(number).starts_with('[') {
            return None;
        }
        match self.json(datum) {
            Value::Array(elements) => Some(elements.iter().map(|value| self.find(value)).collect()),
            _ => None,
        }
    }

    /// The value where it is a text.
    ///
    /// # Panics
    /// When `datum` comes from another history.
    #[must_use]
    pub fn text(&self, datum: Datum) -> Option<&str> {
        let number = datum.0.get().checked_sub(2)?;
        self.spelt.text(number).strip_prefix(TEXT)
    }

    pub(super) fn shrink(&mut self) {
        self.spelt.shrink();
    }
}

/// The one spelling of a value; `None` for null.
fn spelling(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(format!("{TEXT}{text}")),
        value => Some(plain(value.clone()).to_string()),
    }
}

/// 2^63 and 2^64 are exact as floating point numbers, unlike the greatest integers below them.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;
const TWO_64: f64 = 18_446_744_073_709_551_616.0;

/// `value` with every number in its one spelling.
pub(crate) fn plain(mut value: Value) -> Value {
    respell(&mut value);
    value
}

fn respell(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(integer) = integer(number) {
                *number = integer;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(respell),
        Value::Object(fields) => fields.values_mut().for_each(respell),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn integer(number: &Number) -> Option<Number> {
    let fraction = number.as_f64().filter(|_| number.is_f64())?;
    if fraction.fract() != 0.0 {
        return None;
    }
    // Both casts are exact: the number is whole and in range.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    if (-TWO_63..TWO_63).contains(&fraction) {
        Some((fraction as i64).into())
    } else if (TWO_63..TWO_64).contains(&fraction) {
        Some((fraction as u64).into())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_comes_back_as_it_was_and_equal_ones_have_one_number() {
        let mut values = Values::default();
        let read = |text: &str| -> Value { serde_json::from_str(text).expect("JSON") };
        let texts = [
            "null",
            "true",
            "1",
            "-7",
            "1.5",
            "\"1\"",
            "\"\"",
            "\"null\"",
            "\"\\\"x\\u0000\"",
            "[]",
            "[1,\"a\",null]",
            "{\"a\":{\"b\":[2]}}",
            "1e300",
        ];
        let data: Vec<Datum> = texts
            .iter()
            .map(|text| values.intern(&read(text)))
            .collect();
        for (at, (text, &datum)) in texts.iter().zip(&data).enumerate() {
            let value = read(text);
            assert_eq!((values.json(datum), datum.position()), (value.clone(), at));
            assert_eq!(values.find(&value), Some(datum));
            assert_eq!(values.text(datum), value.as_str());
        }
        assert_eq!(values.count(), texts.len());
        assert_eq!(values.intern(&read("1.0")), data[2]);
        assert_eq!(values.find(&read("2")), None);
    }

    #[test]
    fn equal_numbers_are_one_value_and_others_stay_apart() {
        let read = |text: &str| plain(serde_json::from_str(text).expect("JSON"));
        for (one, other) in [
            ("1", "1.0"),
            ("0", "-0.0"),
            ("-3", "-3e0"),
            ("[1, {\"a\": 2}]", "[1.0, {\"a\": 2.0}]"),
            ("9007199254740992", "9007199254740992.0"),
            ("9223372036854775808", "9223372036854775808.0"),
            ("-9223372036854775808", "-9223372036854775808.0"),
        ] {
            assert_eq!(read(one), read(other), "{one} {other}");
        }
        for (one, other) in [
            ("1", "1.5"),
            ("1", "\"1\""),
            ("9007199254740993", "9007199254740992.0"),
            ("9223372036854775807", "9223372036854775808.0"),
        ] {
            assert_ne!(read(one), read(other), "{one} {other}");
        }
    }
}
