//! The fence itself: the one line of this service that compares two integers.
//!
//! Promises: `decide` is the whole rule. It is pure, it holds for the full range of a token, and
//! every write of the sound service passes through it, in the transaction that also stores the write.
//!
//! Does not promise that it is asked at the right moment. That the check and the write are one
//! atomic, durable step is the work of `writer.rs` and `store.rs`.

/// What the fence says about one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The write is applied, and its token becomes the high water of the key.
    Accept,
    /// The write is refused: somebody with a higher token has already written.
    Refuse,
}

/// Decides whether a write that presents `token` may pass a key whose highest accepted token is `high_water`.
///
/// A key that was never written has the high water 0, so its first write passes with any token.
/// An equal token passes, because it is the same holder going on.
///
/// ```
/// use fencepost_fenced_resource::fence::{decide, Decision};
///
/// assert_eq!(decide(42, 43), Decision::Refuse);
/// assert_eq!(decide(43, 43), Decision::Accept);
/// assert_eq!(decide(44, 43), Decision::Accept);
/// ```
pub fn decide(token: u64, high_water: u64) -> Decision {
    if token < high_water {
        Decision::Refuse
    } else {
        Decision::Accept
    }
}

#[cfg(test)]
mod tests {
    use super::{Decision, decide};

    #[test]
    fn only_a_token_below_the_high_water_is_refused() {
        const TABLE: &[(u64, u64, Decision)] = &[
            // token, high water, decision
            (0, 0, Decision::Accept),
            (1, 0, Decision::Accept),
            (0, 1, Decision::Refuse),
            (42, 42, Decision::Accept),
            (41, 42, Decision::Refuse),
            (43, 42, Decision::Accept),
            // As text, "9" stands after "10".
            (9, 10, Decision::Refuse),
            (10, 9, Decision::Accept),
            // The widths at which a narrower mark would wrap or round.
            (1, 1 << 31, Decision::Refuse),
            (1 << 31, (1 << 31) - 1, Decision::Accept),
            (1, (1 << 32) + 1, Decision::Refuse),
            (1 << 32, (1 << 32) + 1, Decision::Refuse),
            ((1 << 32) + 1, 1 << 32, Decision::Accept),
            (1 << 53, (1 << 53) + 1, Decision::Refuse),
            ((1 << 53) + 1, 1 << 53, Decision::Accept),
            ((1 << 63) - 1, 1 << 63, Decision::Refuse),
            (1 << 63, (1 << 63) - 1, Decision::Accept),
            (u64::MAX - 1, u64::MAX, Decision::Refuse),
            (u64::MAX, u64::MAX, Decision::Accept),
            (0, u64::MAX, Decision::Refuse),
            (u64::MAX, 0, Decision::Accept),
        ];
        for &(token, high_water, expected) in TABLE {
            assert_eq!(
                decide(token, high_water),
                expected,
                "token {token} at high water {high_water}"
            );
        }
    }
}
