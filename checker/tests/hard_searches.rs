//! Searches that are hard for a search: many open writes, impossible reads after many possible ones, limits.
// Memory and time are measured here, from what the system tells of this process.
#![allow(clippy::disallowed_methods)]

mod foreign;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencepost_checker::history::{Event, History, Type};
use fencepost_checker::linearizability::{Answer, Decided, Exhausted, Limits, check, search};
use fencepost_checker::models::{CasRegister, Queue};
use serde_json::{Value, json};

use foreign::{event, joined};

/// A history in the making: each operation has a process of its own.
#[derive(Default)]
struct Told {
    events: Vec<Event>,
    processes: u64,
}

impl Told {
    fn push(&mut self, process: u64, kind: Type, f: &str, value: Option<Value>) {
        let index = self.events.len() as u64;
        let mut event = event(index, process, kind, f, value);
        event.key = Some("k".to_owned());
        self.events.push(event);
    }

    fn open(&mut self, f: &str, value: Value) -> u64 {
        self.processes += 1;
        self.push(self.processes, Type::Invoke, f, Some(value));
        self.processes
    }

    fn done(&mut self, f: &str, value: Value) {
        let process = self.open(f, value.clone());
        self.push(process, Type::Ok, f, Some(value));
    }

    fn history(self) -> History {
        joined(self.events)
    }
}

fn answer(decided: &Decided) -> &Answer {
    &decided.parts[0].answer
}

fn is_illegal(decided: &Decided) -> bool {
    matches!(answer(decided), Answer::Illegal { .. })
}

/// 30 writes that were never answered, each of a value of its own or of few; then reads.
fn open_writes(values: u64) -> Told {
    let mut told = Told::default();
    for number in 0..30 {
        told.open("write", json!(number % values));
    }
    told
}

#[test]
fn thirty_open_writes_decide_in_under_a_second() {
    let limits = Limits::default();
    let register = || CasRegister::new(&Value::Null);
    let begun = own_time();
    for values in [30, 5, 1] {
        // Nobody read any of them.
        let mut told = open_writes(values);
        told.done("read", Value::Null);
        told.done("write", json!(99));
        told.done("read", json!(99));
        told.done("read", Value::Null);
        assert!(is_illegal(
            &search(register(), &told.history(), &limits).expect("a register")
        ));

        // All were read, and then a value that none is left to write.
        let mut told = open_writes(values);
        for number in 0..30 {
            told.done("read", json!(number % values));
        }
        told.done("write", json!(99));
        let legal = search(register(), &open_like(&told), &limits).expect("a register");
        assert_eq!(answer(&legal), &Answer::Legal);
        told.done("read", json!(0));
        if values == 30 {
            assert!(is_illegal(
                &search(register(), &told.history(), &limits).expect("a register")
            ));
        }

        // A chain of exchanges hangs on them, and its last link is missing.
        let mut told = open_writes(values);
        for number in 0..values {
            told.done("cas", json!([number % values, 100 + number]));
        }
        told.done("read", json!(7777));
        assert!(is_illegal(
            &search(register(), &told.history(), &limits).expect("a register")
        ));
    }
    if let (Some(begun), Some(now)) = (begun, own_time()) {
        let took = now.saturating_sub(begun);
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
}

fn open_like(told: &Told) -> History {
    joined(told.events.clone())
}

/// No pruning is known for it: many enqueues at once, and a front that none of their orders has.
fn hard(width: u64) -> History {
    let mut told = Told::default();
    let open: Vec<(u64, Value)> = (0..width)
        .map(|number| (told.open("enqueue", json!(number)), json!(number)))
        .collect();
    for (process, value) in open {
        told.push(process, Type::Ok, "enqueue", Some(value));
    }
    for _ in 0..width - 1 {
        let process = told.open("dequeue", Value::Null);
        told.push(process, Type::Info, "dequeue", None);
    }
    told.done("dequeue", json!(7777));
    told.history()
}

fn queue() -> Queue {
    Queue::new(&Value::Null).expect("null is a beginning")
}

fn exhausted(decided: &Decided) -> (Exhausted, u64) {
    match answer(decided) {
        Answer::Unknown { exhausted, impasse } => (
            *exhausted,
            impasse.as_ref().map_or(0, |impasse| impasse.explained),
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_budget_of_steps_ends_at_the_same_step_every_time() {
    let history = hard(16);
    for steps in [1, 1000, 50_000] {
        let limits = |threads| Limits {
            steps: Some(steps),
            threads: Some(threads),
            ..Limits::default()
        };
        let first = check(queue(), &history, &limits(1)).expect("a queue");
        assert_eq!(exhausted(&first).0, Exhausted::Steps);
        assert!(first.parts[0].steps <= steps);
        assert_eq!(
            check(queue(), &history, &limits(2)).expect("a queue"),
            first
        );
        assert_eq!(
            check(queue(), &history, &limits(1)).expect("a queue"),
            first
        );
    }
}

#[test]
fn the_longest_order_goes_with_what_ran_out() {
    let limits = Limits {
        steps: Some(50_000),
        ..Limits::default()
    };
    let decided = check(queue(), &hard(16), &limits).expect("a queue");
    assert!(exhausted(&decided).1 >= 16, "{decided:?}");
}

/// Said past the capture of the test runner.
fn skipped(why: &str) {
    let _ = std::io::Write::write_all(
        &mut std::io::stderr(),
        format!("SKIPPED: {why}\n").as_bytes(),
    );
}

#[test]
fn an_outer_stop_is_heard_within_a_tenth_of_a_second() {
    let history = hard(18);
    let Some(begun) = own_time() else {
        skipped("this system does not tell how long a thread has run");
        return;
    };
    // What else the machine does is not the search's fault, so the time is that of this thread alone.
    let ran = || own_time().unwrap_or_default().saturating_sub(begun);
    let most = Duration::from_millis(200);
    let asked = AtomicU64::new(0);
    let stop = || {
        asked.fetch_add(1, Ordering::Relaxed);
        ran() >= most
    };
    let limits = Limits {
        stop: Some(&stop),
        ..Limits::default()
    };
    let decided = check(queue(), &history, &limits).expect("a queue");
    let took = ran();
    assert_eq!(exhausted(&decided).0, Exhausted::Stopped);
    assert!(
        took >= most && took < most + Duration::from_millis(100),
        "{took:?}"
    );
    assert!(asked.load(Ordering::Relaxed) > 10, "asked {asked:?} times");
}

/// How long this thread has run.
fn own_time() -> Option<Duration> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    told.split_whitespace()
        .next()?
        .parse()
        .ok()
        .map(Duration::from_nanos)
}

#[test]
fn memory_stays_under_its_limit() {
    let history = hard(18);
    for mib in [8, 64] {
        let before = resident();
        let limits = Limits {
            memory: Some(mib << 20),
            ..Limits::default()
        };
        let decided = check(queue(), &history, &limits).expect("a queue");
        assert_eq!(exhausted(&decided).0, Exhausted::Memory);
        let (Some(before), Some(after)) = (before, peak()) else {
            skipped("this system does not tell how much memory is in use");
            return;
        };
        // Other tests of this file run beside it, each with less than this.
        assert!(
            after < before + (mib << 20) + (24 << 20),
            "{mib} MiB: {before} to {after}"
        );
    }
}

fn status(field: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace()
        .nth(1)?
        .parse::<usize>()
        .ok()
        .map(|kib| kib << 10)
}

fn resident() -> Option<usize> {
    status("VmRSS:")
}

fn peak() -> Option<usize> {
    status("VmHWM:")
}
