//! How a write reaches the data of a key, and on what conditions beside its token.
//!
//! A resource is more than one table: a cache stands before it, a notification goes out, an operator has a path of
//! his own. Each of them is a way for a late holder too. Here all of them are held against the one mark of the key,
//! and each raises it.
//!
//! Promises nothing by itself: `writer.rs` asks.

/// The path by which a write reaches a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Path {
    /// The record itself.
    #[default]
    Primary,
    /// A copy that readers are served from.
    Cache,
    /// A notification to somebody else.
    Webhook,
    /// The record itself, by the hand of an operator.
    Admin,
    /// An effect without a token: it is added to a list.
    Effect,
}

impl Path {
    /// The name of the record that is written. The slash keeps it apart from every key.
    pub(crate) fn record(self, key: &str) -> String {
        match self {
            Path::Primary | Path::Admin => key.to_owned(),
            Path::Cache => format!("cache/{key}"),
            Path::Webhook => format!("webhook/{key}"),
            Path::Effect => format!("effect/{key}"),
        }
    }
}

/// The name of the record that holds the mark of all keys of a lock.
pub(crate) fn lock_record(lock: &str) -> String {
    format!("lock/{lock}")
}

/// What must be so for a write to be applied, beside its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// The key has this value now: the data is its own version.
    Holds(String),
    /// The key was never written.
    Absent,
}

impl Condition {
    /// Whether `value`, what the key holds, is what was asked for.
    pub(crate) fn is_met(&self, value: Option<&str>) -> bool {
        match self {
            Condition::Holds(expected) => value == Some(expected),
            Condition::Absent => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Condition, Path, lock_record};

    #[test]
    fn no_side_record_can_be_taken_for_a_key() {
        for path in [Path::Cache, Path::Webhook, Path::Effect] {
            assert!(path.record("k").contains('/'), "a key has no slash");
        }
        assert!(lock_record("k").contains('/'));
        assert_eq!(Path::Admin.record("k"), "k");
    }

    #[test]
    fn a_condition_is_met_by_that_value_alone() {
        let holds = Condition::Holds("a".to_owned());
        assert!(holds.is_met(Some("a")) && !holds.is_met(Some("b")) && !holds.is_met(None));
        assert!(Condition::Absent.is_met(None) && !Condition::Absent.is_met(Some("a")));
    }
}
