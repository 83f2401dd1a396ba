//! What the service counts, in Prometheus text.
//!
//! It promises the state as of the last commit; nothing is shown that a crash could take back.
//! Grants and expiries are counted from the start of this process, the issued token is not.

use std::fmt;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, prometheus_text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::state::{Effects, LockName, Moment, State};

/// The content type of what [`Metrics::text`] returns.
pub(crate) const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

type Level = Gauge<u64, AtomicU64>;

/// All metrics of one service, each a family by lock.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    issued: Family<LockLabel, Level>,
    held: Family<LockLabel, Level>,
    waiting: Family<LockLabel, Level>,
    grants: Family<LockLabel, Counter>,
    expiries: Family<LockLabel, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LockLabel {
    lock: LockName,
}

impl Metrics {
    /// Nothing counted yet.
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("fencepost_lock"),
            issued: Family::default(),
            held: Family::default(),
            waiting: Family::default(),
            grants: Family::default(),
            expiries: Family::default(),
        };
        let registry = &mut metrics.registry;
        registry.register(
            "issued_token",
            "Newest token that was issued for the lock",
            metrics.issued.clone(),
        );
        registry.register(
            "held",
            "1 while the lock is held, else 0",
            metrics.held.clone(),
        );
        registry.register(
            "waiting",
            "Acquires that wait for the lock",
            metrics.waiting.clone(),
        );
        registry.register(
            "grants",
            "Grants of the lock since the service started",
            metrics.grants.clone(),
        );
        registry.register(
            "expiries",
            "Leases of the lock that lapsed since the service started",
            metrics.expiries.clone(),
        );
        metrics
    }

    /// Takes up effects that are durable, and what the locks they touched look like now.
    pub fn observe(&self, effects: &Effects, state: &State, now: Moment) {
        for name in &effects.touched {
            let view = state.view(now, name);
            let label = LockLabel { lock: name.clone() };
            self.issued.get_or_create(&label).set(view.issued);
            let held = u64::from(view.holder.is_some());
            self.held.get_or_create(&label).set(held);
            let waiting = view.waiting as u64;
            self.waiting.get_or_create(&label).set(waiting);
            // Named from the first, so that a rate over them has a zero to start from.
            drop(self.grants.get_or_create(&label));
            drop(self.expiries.get_or_create(&label));
        }
        for name in &effects.granted {
            let label = LockLabel { lock: name.clone() };
            self.grants.get_or_create(&label).inc();
        }
        for name in &effects.lapsed {
            let label = LockLabel { lock: name.clone() };
            self.expiries.get_or_create(&label).inc();
        }
    }

    /// All of it as Prometheus text.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Limits;
    use crate::state::{Record, StoredHold};

    #[test]
    fn largest_token_and_a_quoted_name_are_written_exactly() {
        let mut state = State::new(Limits::default(), None);
        let hold = StoredHold {
            client: "c1".into(),
            token: u64::MAX,
            ttl: Duration::from_secs(1),
        };
        let record = Record {
            issued: u64::MAX,
            hold: Some(hold),
        };
        state.restore(Duration::ZERO, &"say \"a\\b\"".into(), record);
        let metrics = Metrics::new();
        metrics.observe(&state.take_effects(), &state, Duration::ZERO);
        let text = metrics.text().expect("text");
        let line = r#"fencepost_lock_issued_token{lock="say \"a\\b\""} 18446744073709551615"#;
        assert!(text.lines().any(|found| found == line), "{text}");
    }
}
