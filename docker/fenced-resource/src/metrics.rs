//! What the service tells Prometheus.
//!
//! Promises: counters move after the commit and before the answer, so that a scrape that follows an
//! answer has counted it. The number of series is bounded by [`MAX_SERIES`] for each metric, however
//! many keys, tokens and clients there are; what comes later is counted under labels that say `other`.
//!
//! Does not promise durability: counters start at 0 with the process, as is usual. The high waters
//! are read from the store at the start.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, prometheus_text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::store::Mark;
use crate::writer::{Outcome, Write};

/// The most series of one metric, not counting the one for the others.
pub(crate) const MAX_SERIES: usize = 1_000;

/// The content type of [`Metrics::text`].
pub(crate) const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

const OTHER: &str = "other";

/// Gaps grow by one with each grant of a lock, but by thousands where a system counts all it does.
const GAP_BUCKETS: [f64; 13] = [
    0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1e3, 1e4, 1e6, 1e9,
];

const BATCH_BUCKETS: [f64; 11] = [
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0,
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KeyLabel {
    key: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RefusalLabels {
    key: String,
    token: String,
    client: String,
}

type HighWater = Gauge<u64, AtomicU64>;

/// All metrics of the service.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    accepted: Family<KeyLabel, Counter>,
    refusals: Family<RefusalLabels, Counter>,
    high_water: Family<KeyLabel, HighWater>,
    gap: Histogram,
    commit_writes: Histogram,
    storage_failures: Counter,
    series: Mutex<Series>,
}

/// How many series the bounded metrics have.
#[derive(Debug, Default)]
struct Series {
    keys: usize,
    refusals: usize,
}

impl Metrics {
    /// Metrics with nothing counted yet.
    pub(crate) fn new() -> Metrics {
        let metrics = Metrics {
            registry: Registry::with_prefix("fencepost_resource"),
            accepted: Family::default(),
            refusals: Family::default(),
            high_water: Family::default(),
            gap: Histogram::new(GAP_BUCKETS),
            commit_writes: Histogram::new(BATCH_BUCKETS),
            storage_failures: Counter::default(),
            series: Mutex::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Metrics {
        let registry = &mut self.registry;
        registry.register("accepted", "Writes accepted", self.accepted.clone());
        registry.register(
            "refusals",
            "Writes refused because their token was below the high water",
            self.refusals.clone(),
        );
        registry.register(
            "high_water",
            "Highest token accepted for the key",
            self.high_water.clone(),
        );
        registry.register(
            "refusal_gap",
            "High water minus presented token, of refused writes only",
            self.gap.clone(),
        );
        registry.register(
            "commit_writes",
            "Writes that were decided in one transaction",
            self.commit_writes.clone(),
        );
        registry.register(
            "storage_failures",
            "Writes whose commit failed and whose outcome is unknown",
            self.storage_failures.clone(),
        );
        self
    }

    /// Takes over the high waters that were found on disk at the start.
    pub(crate) fn restore(&self, marks: &[Mark]) {
        for mark in marks {
            if let Some(label) = self.key_label(&mark.key) {
                let gauge = self.high_water.get_or_create(&label);
                gauge.set(mark.high_water);
            }
        }
    }

    /// Counts a transaction that decided `writes` writes.
    pub(crate) fn batch(&self, writes: usize) {
        self.commit_writes.observe(writes as f64);
    }

    /// Counts what became of a write.
    pub(crate) fn outcome(&self, write: &Write, outcome: Outcome) {
        match outcome {
            Outcome::Accepted { high_water } => self.accept(&write.key, high_water),
            Outcome::Refused { high_water } => self.refuse(write, high_water),
            Outcome::ConditionFailed | Outcome::TooManyKeys => {}
        }
    }

    /// Counts a write whose commit failed.
    pub(crate) fn storage_failure(&self) {
        self.storage_failures.inc();
    }

    /// Everything in Prometheus' text format.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        prometheus_text::encode(&mut text, &self.registry)
            .expect("writing to a string never fails, and no metric has an encoder of its own");
        text
    }

    fn accept(&self, key: &str, high_water: u64) {
        match self.key_label(key) {
            Some(label) => {
                self.accepted.get_or_create(&label).inc();
                self.high_water.get_or_create(&label).set(high_water);
            }
            // One gauge cannot hold the marks of many keys, so the others have none.
            None => {
                let label = KeyLabel {
                    key: OTHER.to_owned(),
                };
                self.accepted.get_or_create(&label).inc();
            }
        }
    }

    fn refuse(&self, write: &Write, high_water: u64) {
        // Only a defect refuses a token that is not below the mark; its gap counts as 0.
        self.gap
            .observe(high_water.saturating_sub(write.token) as f64);
        let labels = RefusalLabels {
            key: write.key.clone(),
            token: write.token.to_string(),
            client: write.client.clone(),
        };
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.refusals.get(&labels).is_some();
        let labels = if admitted(known, &mut series.refusals) {
            labels
        } else {
            RefusalLabels {
                key: OTHER.to_owned(),
                token: OTHER.to_owned(),
                client: OTHER.to_owned(),
            }
        };
        self.refusals.get_or_create(&labels).inc();
    }

    /// The label of a key that has series of its own, or `None` if there are too many already.
    fn key_label(&self, key: &str) -> Option<KeyLabel> {
        let label = KeyLabel {
            key: key.to_owned(),
        };
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.high_water.get(&label).is_some();
        if !admitted(known, &mut series.keys) {
            return None;
        }
        // Made under the lock, so that no two callers count the same key.
        drop(self.high_water.get_or_create(&label));
        Some(label)
    }
}

/// Whether labels may have a series: they have one already, or there is room, which this takes.
fn admitted(known: bool, count: &mut usize) -> bool {
    if known {
        return true;
    }
    let room = *count < MAX_SERIES;
    if room {
        *count += 1;
    }
    room
}

#[cfg(test)]
mod tests {
    use super::{MAX_SERIES, Metrics};
    use crate::writer::{Outcome, Write};

    fn write(key: &str, token: u64) -> Write {
        Write {
            key: key.to_owned(),
            token,
            client: "c3".to_owned(),
            ..Write::default()
        }
    }

    fn lines_with(text: &str, start: &str) -> usize {
        text.lines().filter(|line| line.starts_with(start)).count()
    }

    #[test]
    fn a_high_water_above_2_to_the_63_is_told_exactly() {
        let metrics = Metrics::new();
        let accepted = Outcome::Accepted {
            high_water: u64::MAX,
        };
        metrics.outcome(&write("k", u64::MAX), accepted);
        assert!(
            metrics
                .text()
                .contains("\nfencepost_resource_high_water{key=\"k\"} 18446744073709551615\n")
        );
    }

    #[test]
    fn refusals_beyond_the_bound_are_counted_as_other() {
        let metrics = Metrics::new();
        let high_water = 10_000;
        for token in 0..MAX_SERIES as u64 + 3 {
            metrics.outcome(&write("k", token), Outcome::Refused { high_water });
        }
        metrics.outcome(&write("k", 0), Outcome::Refused { high_water });
        let text = metrics.text();
        assert_eq!(
            lines_with(&text, "fencepost_resource_refusals_total{"),
            MAX_SERIES + 1
        );
        assert!(text.contains(
            "fencepost_resource_refusals_total{key=\"other\",token=\"other\",client=\"other\"} 3\n"
        ));
        assert!(text.contains(
            "fencepost_resource_refusals_total{key=\"k\",token=\"0\",client=\"c3\"} 2\n"
        ));
    }

    #[test]
    fn keys_beyond_the_bound_are_counted_as_other_and_have_no_gauge() {
        let metrics = Metrics::new();
        for key in 0..MAX_SERIES + 2 {
            let accepted = Outcome::Accepted { high_water: 1 };
            metrics.outcome(&write(&format!("k{key}"), 1), accepted);
        }
        let text = metrics.text();
        assert_eq!(
            lines_with(&text, "fencepost_resource_high_water{"),
            MAX_SERIES
        );
        assert!(text.contains("fencepost_resource_accepted_total{key=\"other\"} 2\n"));
    }

    #[test]
    fn a_quote_in_a_key_is_escaped() {
        let metrics = Metrics::new();
        metrics.outcome(&write("a\"b\\", 1), Outcome::Accepted { high_water: 1 });
        assert!(
            metrics
                .text()
                .contains("fencepost_resource_accepted_total{key=\"a\\\"b\\\\\"} 1\n")
        );
    }
}
