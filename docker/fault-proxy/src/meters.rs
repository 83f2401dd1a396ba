//! Bytes counted, as a real Toxiproxy with `-proxy-metrics` tells them.
//!
//! Received is what was read from a peer, sent what was handed to the kernel for the other; under a hole the first
//! grows and the second does not. Counters move as bytes do. (The real one adds a connection's bytes when it
//! ends.) A proxy that is deleted and created again with the same addresses goes on counting.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::toxic::Stream;

/// The bytes of one proxy under one pair of addresses; index 0 is upstream, 1 downstream.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    received: [AtomicU64; 2],
    sent: [AtomicU64; 2],
}

impl Meter {
    pub(crate) fn received(&self, direction: usize, bytes: usize) {
        self.received[direction].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self, direction: usize, bytes: usize) {
        self.sent[direction].fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Labels {
    proxy: String,
    listener: String,
    upstream: String,
}

/// All meters of a server.
#[derive(Debug, Default)]
pub(crate) struct Meters(Mutex<BTreeMap<Labels, Arc<Meter>>>);

/// A label's value as the text format quotes it.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

impl Meters {
    /// The meter of a proxy under these addresses; the same one for the same words.
    pub(crate) fn meter(&self, proxy: &str, listener: &str, upstream: &str) -> Arc<Meter> {
        let labels = Labels {
            proxy: quoted(proxy),
            listener: quoted(listener),
            upstream: quoted(upstream),
        };
        let mut meters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(meters.entry(labels).or_default())
    }

    /// The Prometheus text format.
    pub(crate) fn text(&self) -> String {
        let meters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for (name, help, sent) in [
            (
                "toxiproxy_proxy_received_bytes_total",
                "The total number of bytes received on a given proxy link in a given direction",
                false,
            ),
            (
                "toxiproxy_proxy_sent_bytes_total",
                "The total number of bytes sent on a given proxy link in a given direction",
                true,
            ),
        ] {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter");
            for (labels, meter) in meters.iter() {
                let counts = if sent { &meter.sent } else { &meter.received };
                for (stream, count) in [Stream::Upstream, Stream::Downstream].iter().zip(counts) {
                    let _ = writeln!(
                        text,
                        "{name}{{direction=\"{}\",listener=\"{}\",proxy=\"{}\",upstream=\"{}\"}} {}",
                        stream.word(),
                        labels.listener,
                        labels.proxy,
                        labels.upstream,
                        count.load(Ordering::Relaxed)
                    );
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_numbers_stand_as_prometheus_wants_them() {
        let meters = Meters::default();
        let meter = meters.meter("a\"b", "127.0.0.1:1", "127.0.0.1:2");
        meter.received(0, 7);
        meters
            .meter("a\"b", "127.0.0.1:1", "127.0.0.1:2")
            .sent(1, 3);
        let text = meters.text();
        assert!(text.contains(
            "toxiproxy_proxy_received_bytes_total{direction=\"upstream\",listener=\"127.0.0.1:1\",\
             proxy=\"a\\\"b\",upstream=\"127.0.0.1:2\"} 7\n"
        ));
        assert!(text.contains("toxiproxy_proxy_sent_bytes_total{direction=\"downstream\""));
        assert_eq!(text.lines().filter(|line| line.ends_with(" 3")).count(), 1);
        assert_eq!(text.lines().filter(|line| line.ends_with(" 0")).count(), 2);
    }
}
