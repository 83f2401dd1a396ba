//! A stream of two million operations is judged in the memory that its first half million took.

#![allow(clippy::disallowed_methods, reason = "it measures its own process")]
//!
//! It stands in a file of its own, because what is measured is the whole process.

mod stream;

use fencepost_checker::Model;
use fencepost_checker::history::Line;
use fencepost_checker::online::{Limits, Online};
use fencepost_checker::verdict::Verdict;
use stream::{Size, Stream};

const WARM: u64 = 500_000;
const OPERATIONS: u64 = 2_000_000;

/// The most memory that this process has had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("the kernel tells it");
    let kib = line.trim().trim_end_matches(" kB");
    kib.parse::<u64>().expect("a number") << 10
}

#[test]
fn two_million_operations_take_no_more_memory_than_half_a_million() {
    let size = Size {
        clients: 40,
        locks: 10,
        keys_of_lock: 3,
        operations: OPERATIONS,
    };
    let mut stream = Stream::new(7, size);
    // So small that they are reached long before memory is first looked at.
    let limits = Limits {
        patience: 1 << 12,
        values: 1 << 12,
        tokens: 1 << 10,
        ..Limits::default()
    };
    let mut online = Online::new(Model::Fencing, limits);
    let mut warm = 0;
    for at in 0.. {
        let Some(event) = stream.next() else { break };
        online
            .push(at + 1, Line::Event(Box::new(event)))
            .expect("well-formed");
        if at as u64 == 2 * WARM {
            warm = peak();
        }
    }
    let grown = peak() - warm;
    let judgement = online.so_far();
    println!("{} MiB, then {} KiB more", warm >> 20, grown >> 10);
    assert_eq!(
        judgement.verdict,
        Verdict::Valid,
        "{:#?}",
        judgement.findings
    );
    assert_eq!(judgement.stats.operations, OPERATIONS);
    assert_eq!(judgement.stats.keys_judged, 30);
    assert!(judgement.stats.refused > OPERATIONS / 1000 && judgement.stats.unknown > 500);
    assert!(grown < 4 << 20, "{grown} bytes more than at half a million");

    // It has not gone blind: a resource that forgets its fence is found out at once.
    stream.broken = true;
    stream.go_on(20_000);
    for at in 0.. {
        let Some(event) = stream.next() else { break };
        online
            .push(at, Line::Event(Box::new(event)))
            .expect("well-formed");
    }
    let judgement = online.finish().expect("well-formed");
    assert_eq!(
        judgement.reason.as_deref().map(|r| r.split(' ').next()),
        Some(Some("stale-write-accepted"))
    );
}
