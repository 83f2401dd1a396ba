//! Integers that no 64 bits hold: kept to the last digit, so that two of them are one value only if they are equal.
//!
//! A general parser makes floating point numbers of them, and 2^64 and 2^64+1 become one. So before a line is parsed
//! such an integer is spelt as `{"integer":"18446744073709551616"}`, and where a value is shown to people it is a number
//! again. Numbers with a fraction or an exponent are what they always were.

use std::borrow::Cow;

use serde_json::Value;

const NAME: &str = "integer";

/// Fewer digits than this fit 64 bits.
const FEWEST: usize = 19;

/// The line with its large integers spelt out; as it is where it has none, or is no JSON. O(n).
pub(super) fn spelt_out(line: &[u8]) -> Cow<'_, [u8]> {
    let mut spelt: Vec<u8> = Vec::new();
    let (mut at, mut copied) = (0, 0);
    while let Some(&byte) = line.get(at) {
        match byte {
            b'"' => at = end_of_text(line, at + 1),
            b'-' | b'0'..=b'9' => {
                let is_part =
                    |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
                let end = at + line[at..].iter().take_while(|byte| is_part(byte)).count();
                if let Some(digits) = large(&line[at..end]) {
                    spelt.extend_from_slice(&line[copied..at]);
                    spelt.extend_from_slice(format!("{{\"{NAME}\":\"{digits}\"}}").as_bytes());
                    copied = end;
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(line);
    }
    spelt.extend_from_slice(&line[copied..]);
    Cow::Owned(spelt)
}

/// The digits of such an integer, with its sign.
pub(crate) fn digits(value: &Value) -> Option<&str> {
    let fields = value.as_object().filter(|fields| fields.len() == 1)?;
    let digits = fields.get(NAME)?.as_str()?;
    large(digits.as_bytes())
}

/// A number as its digits, if it is an integer that neither an i64 nor a u64 holds.
fn large(number: &[u8]) -> Option<&str> {
    if number.len() < FEWEST {
        return None;
    }
    let text = std::str::from_utf8(number).ok()?;
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let whole = unsigned.bytes().all(|byte| byte.is_ascii_digit()) && !unsigned.starts_with('0');
    (whole && text.parse::<u64>().is_err() && text.parse::<i64>().is_err()).then_some(text)
}

/// Behind the quotation mark that ends the text which begins at `at`.
fn end_of_text(line: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = line.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_integers_beyond_64_bits_are_spelt_out() {
        for same in [
            r#"{"value":18446744073709551615}"#,
            r#"{"value":-9223372036854775808}"#,
            r#"{"value":18446744073709551616.0}"#,
            r#"{"value":1.8446744073709551616}"#,
            r#"{"value":18446744073709551616e3}"#,
            r#"{"value":"18446744073709551616 \" 18446744073709551616"}"#,
            r#"{"value":018446744073709551616}"#,
            r#"{"value":"18446744073709551616"#,
        ] {
            assert_eq!(spelt_out(same.as_bytes()), Cow::Borrowed(same.as_bytes()));
        }
        let line = br#"{"value":[18446744073709551616,-9223372036854775809, 1],"x":2}"#;
        let spelt = br#"{"value":[{"integer":"18446744073709551616"},{"integer":"-9223372036854775809"}, 1],"x":2}"#;
        assert_eq!(&*spelt_out(line), spelt);
    }

    #[test]
    fn it_is_shown_as_a_number() {
        let value = |text: &str| -> Value { serde_json::from_str(text).expect("JSON") };
        let large = value(r#"{"integer":"18446744073709551616"}"#);
        assert_eq!(digits(&large), Some("18446744073709551616"));
        for other in [r#"{"integer":"7"}"#, r#"{"integer":7}"#, "7", "[]"] {
            assert_eq!(digits(&value(other)), None, "{other}");
        }
    }
}
