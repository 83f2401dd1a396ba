//! What judging costs: `cargo bench -p fencepost-checker`. One argument runs the sections whose names hold it.
//!
//! Absolute times mean little on a shared machine; where it can be, a figure is a ratio against a baseline that is
//! measured in turn with it (A B A B ...). What one core does is measured by how long it was busy with it, so that other
//! work on the machine counts less; what several do is the best of some rounds. Each goal is told to be met or missed.
//! Histories are made by `generate`, in this process; peak memory is that of a child process of its own.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark has a clock and files"
)]

mod budget;
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
    goal: Option<Goal>,
}

/// What a figure should be, and whether it is.
struct Goal {
    text: &'static str,
    met: bool,
}

impl Row {
    fn new(figure: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            figure: figure.into(),
            value: value.into(),
            goal: None,
        }
    }

    fn goal(self, text: &'static str, met: bool) -> Self {
        let goal = Some(Goal { text, met });
        Self { goal, ..self }
    }

    fn print(&self) {
        let goal = self.goal.as_ref().map_or_else(String::new, |goal| {
            format!("{}: {}", goal.text, if goal.met { "met" } else { "missed" })
        });
        println!("| {} | {} | {goal} |", self.figure, self.value);
    }
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
    ("budget", budget::measure),
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
            measure(&mut |row: Row| row.print());
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

/// How long all threads of this process have been busy, those that have ended too; in hundredths of a second.
fn worked() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    // The name may hold anything, and ends with the last parenthesis.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn best(times: &[Duration]) -> Duration {
    times.iter().copied().min().unwrap_or_default()
}

/// How many millions a second.
fn millions(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64() / 1e6
}

/// `12.3 million/s`.
fn rate(count: u64, time: Duration) -> String {
    format!("{:.1} million/s", millions(count, time))
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
