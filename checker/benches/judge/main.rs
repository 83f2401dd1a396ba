//! What judging costs: `cargo bench -p fencepost-checker`. One argument runs the sections whose names hold it.
//!
//! Absolute times mean little on a shared machine; where it can be, a figure is a ratio against a baseline that is
//! measured in turn with it (A B A B ...), and medians are printed. What one core does is measured by how long it was
//! busy with it, so that other work on the machine counts less. Histories are made by `generate`, in this process;
//! peak memory is that of a child process of its own.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark has a clock and files"
)]

mod fencing;
#[path = "../../tests/foreign/mod.rs"]
mod foreign;
mod memory;
mod reader;
mod register;
mod search;

use std::time::{Duration, Instant};

use fencepost_checker::generate::{Generator, Settings};
use fencepost_checker::history::History;

/// One line of the table.
struct Row {
    figure: String,
    value: String,
    goal: &'static str,
}

/// A section's name, and what measures it.
type Section = (&'static str, fn(&mut dyn FnMut(Row)));

/// Every section. A new one is a file of its own and a line here.
const SECTIONS: &[Section] = &[
    ("register", register::measure),
    ("fencing", fencing::measure),
    ("reader", reader::measure),
    ("memory", memory::measure),
    ("search", search::measure),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == memory::CHILD) {
        return memory::child(&words[1..]);
    }
    let wanted = words.iter().find(|word| !word.starts_with('-'));
    let wanted = wanted.cloned().unwrap_or_default();
    println!("| figure | value | goal |\n| --- | --- | --- |");
    for (name, measure) in SECTIONS {
        if name.contains(&wanted) {
            measure(&mut |row| println!("| {} | {} | {} |", row.figure, row.value, row.goal));
        }
    }
}

/// Kinds of histories that are measured: a name, clients, keys, locks.
const SHAPES: &[(&str, u32, u32, u32)] = &[
    ("20 clients, 1 key", 20, 1, 1),
    ("100 clients, 1,000 keys, 100 locks", 100, 1_000, 100),
];

fn settings(operations: u64, clients: u32, keys: u32, locks: u32) -> Settings {
    Settings {
        operations,
        clients,
        keys,
        locks,
        timeouts: 0.001,
        ..Settings::default()
    }
}

fn made(operations: u64, clients: u32, keys: u32, locks: u32) -> History {
    Generator::new(&settings(operations, clients, keys, locks)).history()
}

/// How long `work` takes.
fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let begun = Instant::now();
    let result = work();
    (begun.elapsed(), result)
}

/// How long `work` keeps this thread's core busy: what else the machine does is left out.
fn busy<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let spent = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
        let nanoseconds = text.split_whitespace().next().map(str::parse);
        Duration::from_nanos(nanoseconds.expect("three numbers").expect("a number"))
    };
    let begun = spent();
    let result = work();
    (spent().saturating_sub(begun), result)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// `12.3 million/s`.
fn rate(count: u64, time: Duration) -> String {
    format!("{:.1} million/s", count as f64 / time.as_secs_f64() / 1e6)
}

/// `1,000,000`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
