//! When two values are one: numbers that are equal are, however they were spelt.
//!
//! A service may write `1` and read back `1.0`, and both are the same number. So values are brought into one spelling
//! when a history is read: a fraction-free number that an integer holds exactly becomes that integer. Texts, and numbers
//! too large for 64 bits, stay as they are.

use serde_json::{Number, Value};

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
