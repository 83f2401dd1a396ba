//! How fast a stream is judged, and in how much memory: `cargo bench -p fencepost-checker --bench online`.
//!
//! A recording is made event by event and judged event by event, in a process of its own for each length, whose greatest
//! memory the kernel tells. What making it takes is measured alone and taken off; time is that which the process had a processor. Lengths (in operations) may be given:
//! `cargo bench -p fencepost-checker --bench online -- 1000000`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the bench measures its own process and starts itself; the judge does neither"
)]

#[path = "../tests/stream/mod.rs"]
mod stream;

use std::process::Command;
use std::time::Duration;

use fencepost_checker::Model;
use fencepost_checker::history::Line;
use fencepost_checker::online::{Limits, Online};
use fencepost_checker::verdict::Verdict;
use stream::{Size, Stream};

const LENGTHS: [u64; 3] = [500_000, 5_000_000, 50_000_000];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, operations] = &words[..]
        && word == "child"
    {
        return child(operations.parse().expect("a number of operations"));
    }
    let mut lengths: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if lengths.is_empty() {
        lengths = LENGTHS.to_vec();
    }
    println!("| operations | events | processor time | million events/s | greatest memory |");
    println!("| --- | --- | --- | --- | --- |");
    let own = std::env::current_exe().expect("this program has a path");
    for length in lengths {
        let status = Command::new(&own)
            .args(["child", &length.to_string()])
            .status()
            .expect("it can be started again");
        assert!(status.success(), "{status}");
    }
}

fn stream(operations: u64) -> Stream {
    let size = Size {
        clients: 100,
        locks: 20,
        keys_of_lock: 5,
        operations: 0,
    };
    let mut stream = Stream::new(3, size);
    stream.go_on(operations);
    stream
}

fn child(operations: u64) {
    let begun = busy();
    let events = stream(operations)
        .inspect(|event| {
            std::hint::black_box(event);
        })
        .count();
    let making = busy() - begun;
    let begun = busy();
    let mut online = Online::new(Model::Fencing, Limits::default());
    for (at, event) in stream(operations).enumerate() {
        let line = Line::Event(Box::new(event));
        online.push(at + 1, line).expect("well-formed");
    }
    let judgement = online.finish().expect("well-formed");
    let judging = (busy() - begun).saturating_sub(making);
    assert_eq!(
        judgement.verdict,
        Verdict::Valid,
        "{:#?}",
        judgement.findings
    );
    assert_eq!(judgement.stats.operations, operations);
    let rate = events as f64 / judging.max(Duration::from_millis(1)).as_secs_f64() / 1e6;
    println!(
        "| {operations} | {events} | {:.1} s | {rate:.2} | {} MiB |",
        judging.as_secs_f64(),
        peak() >> 20
    );
}

/// How long this process has had a processor: what others do on the machine does not count.
fn busy() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    // The name may hold anything, and ends with the last parenthesis; the ticks are hundredths of a second.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// The most memory that this process has had, in bytes; 0 where the kernel does not tell.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
