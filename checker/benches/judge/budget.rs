//! How far a search goes beyond its budget of time.

use std::fmt::Write;
use std::time::{Duration, Instant};

use fencepost_checker::history::History;
use fencepost_checker::linearizability::Limits;
use fencepost_checker::verdict::Verdict;
use fencepost_checker::{Model, Options, judge_within};

use super::Row;

const BUDGET: Duration = Duration::from_millis(200);

pub fn measure(tell: &mut dyn FnMut(Row)) {
    let history = History::read(hard(18).as_bytes()).expect("well-formed");
    let mut overshoots = Vec::new();
    for _ in 0..5 {
        let begun = Instant::now();
        let stop = || begun.elapsed() >= BUDGET;
        let limits = Limits {
            stop: Some(&stop),
            ..Limits::default()
        };
        let options = Options {
            limits,
            ..Options::default()
        };
        let judgement = judge_within(&history, Model::Queue, &options);
        assert_eq!(judgement.verdict, Verdict::Unknown);
        overshoots.push(begun.elapsed().saturating_sub(BUDGET));
    }
    let worst = overshoots.into_iter().max().unwrap_or_default();
    let row = Row::new(
        "a search of a queue beyond its budget of 200 ms, the worst of 5",
        format!("{:.1} ms", worst.as_secs_f64() * 1e3),
    );
    tell(row.goal("100 ms", worst < Duration::from_millis(100)));
}

/// A queue for which no pruning is known: many enqueues at once, and a front that none of their orders has.
fn hard(width: u64) -> String {
    let mut lines = String::new();
    let mut index = 0;
    let mut line = |process: u64, kind: &str, f: &str, value: u64| {
        writeln!(
            lines,
            r#"{{"index":{index},"time":{index},"process":{process},"type":"{kind}","f":"{f}","key":"q","value":{value}}}"#
        )
        .expect("memory takes it");
        index += 1;
    };
    for process in 0..width {
        line(process, "invoke", "enqueue", process);
    }
    for process in 0..width {
        line(process, "ok", "enqueue", process);
    }
    for process in width..2 * width - 1 {
        line(process, "invoke", "dequeue", 0);
        line(process, "info", "dequeue", 0);
    }
    line(2 * width, "invoke", "dequeue", 0);
    line(2 * width, "ok", "dequeue", 7777);
    lines
}
