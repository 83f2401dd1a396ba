//! What Fencepost costs, measured through the processes and proxies that it ships: `cargo bench -p fencepost`.
//!
//! Absolute times mean little on a shared machine; where it can be, a figure is a ratio against a baseline that is
//! measured in turn with it (A B B A ...), and medians are printed. One argument runs the sections whose names hold it.

mod docker;
mod fence;
mod pauses;
mod proxy;
mod recorder;
#[path = "../../tests/support/relay.rs"]
mod relay;
mod report;
mod support;
mod throughput;

use support::Row;

/// A part of the table, by its name.
type Section = (&'static str, fn() -> Vec<Row>);

const SECTIONS: [Section; 7] = [
    ("throughput", throughput::throughput),
    ("recorder", recorder::recorder),
    ("fence", fence::fence),
    ("pauses", pauses::pauses),
    ("proxy", proxy::proxy),
    ("report", report::report),
    ("docker", docker::docker),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "loop-worker") {
        return throughput::loop_worker(&words[1..]);
    }
    let wanted = words
        .iter()
        .find(|word| !word.starts_with('-'))
        .map_or("", String::as_str);
    println!("| figure | value | goal |\n| --- | --- | --- |");
    for (name, measure) in SECTIONS {
        if !name.contains(wanted) {
            continue;
        }
        for Row {
            figure,
            value,
            goal,
        } in measure()
        {
            println!("| {figure} | {value} | {goal} |");
        }
    }
}
