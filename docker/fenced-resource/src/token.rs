//! Reading a fencing token from text.
//!
//! Promises: the whole range 0 to 2^64-1 is read exactly, and everything else is refused with the
//! reason. No rounding, no wrapping, no guess at what was meant: a token that is read wrongly is
//! worse than one that is not read.
//!
//! Does not judge whether the token is stale.

use thiserror::Error;

/// The most digits that a token may have; 2^64-1 has as many.
const MOST_DIGITS: usize = 20;

/// Why a text is no token. The message is a whole sentence for the one who sent it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum TokenError {
    #[error("the Fencing-Token header is missing")]
    Missing,
    #[error("the Fencing-Token header is given more than once")]
    Repeated,
    #[error("the fencing token is empty")]
    Empty,
    #[error("the fencing token is negative; it must be between 0 and 18446744073709551615")]
    Negative,
    #[error("the fencing token has a sign; it must be written in digits only")]
    Signed,
    #[error("the fencing token is fractional; it must be an integer")]
    Fractional,
    #[error("the fencing token contains blanks; it must be written in digits only")]
    Blank,
    #[error("the fencing token is overlong: {0} digits, at most 20 are read")]
    Overlong(usize),
    #[error("the fencing token is too large; it must be between 0 and 18446744073709551615")]
    TooLarge,
    #[error("the fencing token is not a number; it must be written in the digits 0 to 9 only")]
    NotANumber,
}

/// Reads a token written in decimal digits. Leading zeros are allowed, because some issuers pad.
pub(crate) fn parse(text: &str) -> Result<u64, TokenError> {
    if text.is_empty() {
        return Err(TokenError::Empty);
    }
    if text.contains(char::is_whitespace) {
        return Err(TokenError::Blank);
    }
    if text.contains(',') {
        // HTTP lets anyone on the way join two headers of one name with a comma.
        return Err(TokenError::Repeated);
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(why_not_digits(text));
    }
    if text.len() > MOST_DIGITS {
        return Err(TokenError::Overlong(text.len()));
    }
    // Only digits are left, so the one thing that can still be wrong is the size.
    text.parse().map_err(|_| TokenError::TooLarge)
}

fn why_not_digits(text: &str) -> TokenError {
    let unsigned = text.trim_start_matches(['-', '+']);
    let is_decimal = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if !is_decimal {
        TokenError::NotANumber
    } else if text.starts_with('-') {
        TokenError::Negative
    } else if text.starts_with('+') {
        TokenError::Signed
    } else {
        TokenError::Fractional
    }
}

#[cfg(test)]
mod tests {
    use super::{TokenError, parse};

    #[test]
    fn every_token_in_range_is_read_exactly() {
        const TABLE: &[(&str, u64)] = &[
            ("0", 0),
            ("42", 42),
            ("9007199254740993", (1 << 53) + 1),
            ("9223372036854775808", 1 << 63),
            ("18446744073709551615", u64::MAX),
            ("00000000000000000042", 42),
        ];
        for &(text, token) in TABLE {
            assert_eq!(parse(text), Ok(token), "{text:?}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_its_own_reason() {
        let table = [
            ("", TokenError::Empty),
            ("-1", TokenError::Negative),
            ("-0", TokenError::Negative),
            ("-1.5", TokenError::Negative),
            ("+1", TokenError::Signed),
            ("1.5", TokenError::Fractional),
            ("1.0", TokenError::Fractional),
            (" 1", TokenError::Blank),
            ("1 ", TokenError::Blank),
            ("1 2", TokenError::Blank),
            ("1\t", TokenError::Blank),
            ("1,2", TokenError::Repeated),
            ("18446744073709551616", TokenError::TooLarge),
            ("99999999999999999999", TokenError::TooLarge),
            ("000000000000000000042", TokenError::Overlong(21)),
            ("184467440737095516150", TokenError::Overlong(21)),
            ("1e3", TokenError::NotANumber),
            ("0x10", TokenError::NotANumber),
            ("1_000", TokenError::NotANumber),
            ("null", TokenError::NotANumber),
            ("-", TokenError::NotANumber),
            ("٤٢", TokenError::NotANumber),
        ];
        for (text, error) in table {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }
    }
}
