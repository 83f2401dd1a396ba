//! Widths at which numbers end: what a token becomes where it is kept in too few bits.
//!
//! A counter of 32 bits with a sign goes from 2147483647 to -2147483648, one without from 4294967295 to 0, a number in
//! floating point goes from 2^53 in steps of 2. Sources: a lock's sequence number past 2147483647
//! (<https://github.com/python-zk/kazoo/issues/730>), a lease id rounded by a tool that reads JSON numbers as floating
//! point (<https://github.com/etcd-io/etcd/issues/14294>).

use crate::history::Token;

/// Limits at which a wrap is looked for, as powers of two.
const WRAPS: [u32; 4] = [15, 31, 32, 63];

/// Whole numbers are exact in floating point up to here.
const EXACT: i128 = 1 << 53;

/// A limit that a number was pressed below, or rounded from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Width(u32);

impl Width {
    /// `2^31`
    pub(crate) fn text(self) -> String {
        format!("2^{}", self.0)
    }

    /// What happened there.
    pub(crate) fn verb(self) -> &'static str {
        if self.0 == 53 { "rounds" } else { "wraps" }
    }
}

/// The width at which `next`, at most `d` steps after `previous`, is a wrap or a rounding: `previous` is within the
/// steps of the limit and `next` is what it becomes beyond.
pub(crate) fn wraps_after(previous: Token, next: Token, most: i128) -> Option<Width> {
    let (previous, next) = (previous.value(), next.value());
    for power in WRAPS {
        let limit = 1_i128 << power;
        // With a sign the whole range is twice the limit, without one it is the limit.
        for range in [2 * limit, limit] {
            let steps = next + range - previous;
            if (1..=most).contains(&steps) && previous < limit && previous + steps >= limit {
                return Some(Width(power));
            }
        }
    }
    let rounded = next == previous && (EXACT..=EXACT + most).contains(&previous);
    rounded.then_some(Width(53))
}

/// The width at which `token` becomes `shown`, another number.
pub(crate) fn distorts(token: Token, shown: Token) -> Option<Width> {
    let (token, shown) = (token.value(), shown.value());
    // A mark of 0 is that of a key that was never written, and no sign of anything.
    if token == shown || shown == 0 {
        return None;
    }
    // The widest comes first: what is 5 modulo 2^32 is 5 modulo 2^15 as well.
    for power in WRAPS.into_iter().rev() {
        let limit = 1_i128 << power;
        let below = token.rem_euclid(limit);
        let signed = (token + limit).rem_euclid(2 * limit) - limit;
        if token >= limit && (shown == below || shown == signed) {
            return Some(Width(power));
        }
    }
    let rounded = token > EXACT && shown == round(token);
    rounded.then_some(Width(53))
}

/// The floating point number nearest to `token`, as an integer.
fn round(token: i128) -> i128 {
    // The rounding is what is asked for; both numbers are far from the ends of i128.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    {
        token as f64 as i128
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(value: i128) -> Token {
        Token::new(value).expect("in range")
    }

    #[test]
    fn a_wrap_is_told_from_a_rollback() {
        let wraps = |previous: i128, next: i128| {
            wraps_after(token(previous), token(next), 16).map(Width::text)
        };
        let named = |text: &str| Some(text.to_owned());
        assert_eq!(wraps(2_147_483_647, -2_147_483_648), named("2^31"));
        assert_eq!(wraps(2_147_483_640, 3), named("2^31"));
        assert_eq!(wraps(4_294_967_295, 0), named("2^32"));
        assert_eq!(wraps(32_767, -32_768), named("2^15"));
        assert_eq!(
            wraps(i128::from(i64::MAX), i128::from(i64::MIN)),
            named("2^63")
        );
        assert_eq!(
            wraps(9_007_199_254_740_992, 9_007_199_254_740_992),
            named("2^53")
        );
        for (previous, next) in [
            (900, 412),
            (2_147_483_647, 412),
            (2_147_483_600, -2_147_483_648),
            (5, 5),
            (32_768, 1),
        ] {
            assert_eq!(wraps(previous, next), None, "{previous} {next}");
        }
    }

    #[test]
    fn a_distorted_token_is_told_from_another() {
        let distorted =
            |from: i128, shown: i128| distorts(token(from), token(shown)).map(Width::text);
        let named = |text: &str| Some(text.to_owned());
        assert_eq!(distorted(4_294_967_301, 5), named("2^32"));
        assert_eq!(distorted(2_147_483_653, -2_147_483_643), named("2^31"));
        assert_eq!(
            distorted(9_007_199_254_740_993, 9_007_199_254_740_992),
            named("2^53")
        );
        assert_eq!(distorted(41, 42), None);
        assert_eq!(
            distorted(9_007_199_254_740_994, 9_007_199_254_740_992),
            None
        );
    }
}
