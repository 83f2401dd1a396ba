//! Properties of the whole judgement, on small recordings of a simulated system from fixed seeds.
//!
//! A system that keeps its promises is never blamed; one that lies is found wherever a search of all orders finds it;
//! and what the beginning of a recording proves, no later line takes back.

mod search;
mod simulated;
mod witness;

use std::collections::{BTreeMap, HashMap};

use fencepost_checker::finding::{Finding, Severity};
use fencepost_checker::history::{Datum, Function, History, Name, Operation, Outcome};
use fencepost_checker::verdict::{Judgement, Verdict};
use fencepost_checker::{Model, judge};
use search::{Answer, Kind, Op, linearizable};
use simulated::{LIES, Make, recording, sabotaged};

const RECORDINGS: u64 = 20_000;

fn read(lines: &[String]) -> History {
    History::read(lines.join("\n").as_bytes()).unwrap_or_else(|error| panic!("{error}: {lines:#?}"))
}

fn judged(lines: &[String]) -> Judgement {
    judge(&read(lines), Model::Fencing)
}

/// Whether a violation is proven that nothing can take back. One can be: that nobody is let in up to the end.
fn invalid(lines: &[String]) -> bool {
    let judgement = judged(lines);
    let lasting = |finding: &Finding| {
        finding.severity == Severity::Violation && finding.finding != "fenced-out"
    };
    judgement.findings.iter().any(lasting)
}

/// One kind of system for each seed.
fn honest(seed: u64) -> Make {
    Make {
        raising: seed % 5 == 1,
        by_lock: seed % 5 == 2,
        unnamed: seed % 5 == 3,
        odd: seed % 7 == 3,
        logs: seed % 6 == 4,
        leases: seed % 4 == 1,
        paths: seed % 9 == 5,
        restarts: seed % 3 == 2,
        steps: 25 + (seed % 4) as usize * 15,
        ..Make::plain()
    }
}

#[test]
fn a_system_that_keeps_its_promises_is_never_blamed() {
    let (mut refusals, mut unknown, mut decided) = (0, 0, 0);
    for seed in 0..RECORDINGS {
        let make = honest(seed);
        let lines = recording(seed, &make);
        if lines.len() < 2 {
            continue;
        }
        let judgement = judged(&lines);
        assert_ne!(
            judgement.verdict,
            Verdict::Invalid,
            "seed {seed} {make:?}: {:#?}\n{}",
            judgement.findings,
            lines.join("\n")
        );
        for warning in &judgement.findings {
            // Each key has a mark of its own; the scheduler is not fair; without a lease any hold may lapse at once.
            let justified = match warning.finding.as_str() {
                "partial-fencing" | "starvation" => true,
                "release-of-others-lock" => !make.leases,
                _ => false,
            };
            assert!(
                justified,
                "seed {seed} {make:?}: {warning:#?}\n{}",
                lines.join("\n")
            );
        }
        refusals += judgement.stats.refused;
        unknown += judgement.stats.unknown;
        decided += judgement.stats.keys_judged;
    }
    assert!(
        refusals > RECORDINGS / 5 && unknown > RECORDINGS && decided > RECORDINGS,
        "{refusals} refusals, {unknown} unknown, {decided} keys decided"
    );
}

// ----------------------------------------------------------------------------- against a search of all orders

/// One key's operations, as the search takes them.
fn ops_of<'a>(history: &'a History, operations: &[&'a Operation]) -> Vec<Op> {
    let mut values: HashMap<Datum, u32> = HashMap::new();
    let mut number = |operation: &Operation| match operation.value {
        None | Some(Datum::NULL) => 0,
        Some(value) => {
            let next = values.len() as u32 + 1;
            *values.entry(value).or_insert(next)
        }
    };
    let token = |token: Option<fencepost_checker::history::Token>| {
        token.map(|token| i64::try_from(token.value()).expect("small"))
    };
    let stale = history.names.find("stale-token");
    let op = |operation: &&Operation| {
        let kind = if operation.function == Function::Read {
            Kind::Read {
                value: number(operation),
                mark: token(operation.high_water),
            }
        } else {
            Kind::Write {
                token: token(operation.token).expect("fenced"),
                value: number(operation),
            }
        };
        let answer = match operation.outcome {
            Outcome::Ok => Answer::Ok,
            Outcome::Failed if operation.error == stale => {
                Answer::Refused(token(operation.high_water))
            }
            Outcome::Failed => Answer::OtherNo,
            Outcome::Unknown if operation.completed.is_some() => Answer::Info,
            Outcome::Unknown => Answer::Open,
        };
        Op {
            call: operation.invoked.index as usize,
            returned: operation
                .returned()
                .map_or(usize::MAX, |at| at.index as usize),
            kind,
            answer,
        }
    };
    operations.iter().map(op).collect()
}

/// A refusal or read that shows a mark which no write of the key had surely raised: here grants come in, of which the
/// search knows nothing.
fn shows_a_mark_without_a_write(ops: &[Op]) -> bool {
    let shown = |value: u32, before: usize| {
        ops.iter().any(|read| {
            matches!(read.kind, Kind::Read { value: seen, .. } if seen == value)
                && read.returned <= before
        })
    };
    let written = |before: usize, fits: &dyn Fn(i64) -> bool| {
        ops.iter().any(|op| match op.kind {
            Kind::Write { token, value } => {
                let done = op.answer == Answer::Ok && op.returned < before;
                fits(token) && (done || shown(value, before))
            }
            Kind::Read { .. } => false,
        })
    };
    let sent = |before: usize, mark: i64| {
        ops.iter().any(
            |op| matches!(op.kind, Kind::Write { token, .. } if token == mark && op.call < before),
        )
    };
    let raised = |before: usize, mark: i64| {
        sent(before, mark) && written(before, &|written| written >= mark)
    };
    ops.iter().any(|op| match (op.kind, op.answer) {
        (Kind::Write { token, .. }, Answer::Refused(Some(mark))) => {
            mark > token && !raised(op.returned, mark)
        }
        (Kind::Write { token, .. }, Answer::Refused(None)) => {
            !written(op.returned, &|written| written > token)
        }
        (
            Kind::Read {
                mark: Some(mark), ..
            },
            Answer::Ok,
        ) => mark > 0 && !raised(op.returned, mark),
        _ => false,
    })
}

#[test]
fn a_lie_that_a_search_of_all_orders_finds_is_found() {
    let (mut by_search, mut found, mut excused) = (0, 0, 0);
    for seed in 0..RECORDINGS {
        let make = Make {
            lie: Some(LIES[(seed % 7) as usize]),
            unnamed: seed % 4 == 3,
            ..Make::plain()
        };
        let lines = recording(seed, &make);
        let history = read(&lines);
        let verdict = judge(&history, Model::Fencing).verdict;
        found += u64::from(verdict == Verdict::Invalid);
        let mut keys: BTreeMap<Option<Name>, Vec<&Operation>> = BTreeMap::new();
        for operation in history.operations.iter().filter(|op| op.key.is_some()) {
            keys.entry(operation.key).or_default().push(operation);
        }
        let broken: Vec<Vec<Op>> = keys
            .values()
            .map(|operations| ops_of(&history, operations))
            .filter(|ops| !linearizable(ops))
            .collect();
        by_search += u64::from(!broken.is_empty());
        if broken.iter().all(|ops| shows_a_mark_without_a_write(ops)) {
            excused += u64::from(!broken.is_empty() && verdict != Verdict::Invalid);
            continue;
        }
        assert_eq!(
            verdict,
            Verdict::Invalid,
            "seed {seed} {make:?}:\n{}",
            lines.join("\n")
        );
    }
    assert!(by_search > RECORDINGS / 4, "the search found {by_search}");
    assert!(
        found >= by_search,
        "{found} found, {by_search} by the search"
    );
    assert!(excused < by_search / 8, "{excused} of {by_search} excused");
}

// ------------------------------------------------------------------------------------------------ monotony

/// Any system, telling the truth or not.
fn any(seed: u64) -> Make {
    Make {
        lie: (!seed.is_multiple_of(8)).then(|| LIES[(seed % 7) as usize]),
        raising: seed % 3 == 1,
        by_lock: seed % 5 == 2,
        unnamed: seed % 11 == 3,
        odd: seed % 2 == 1,
        logs: seed % 13 == 6,
        leases: seed % 4 == 1,
        paths: seed % 9 == 5,
        restarts: seed % 3 == 2,
        ..Make::plain()
    }
}

#[test]
fn what_the_beginning_of_a_recording_proves_is_not_taken_back() {
    let mut proven = 0;
    for seed in 0..RECORDINGS / 5 {
        let make = any(seed);
        let lines = recording(seed, &make);
        let mut since = None;
        for end in 1..=lines.len() {
            match (invalid(&lines[..end]), since) {
                (true, None) => since = Some(end),
                (false, Some(since)) => panic!(
                    "seed {seed} {make:?}: proven by {since} lines, taken back by {end}: {:#?}\n{}",
                    judged(&lines[..since]).findings,
                    lines[..end].join("\n")
                ),
                _ => {}
            }
        }
        proven += u64::from(since.is_some());
    }
    assert!(proven > RECORDINGS / 5 / 3, "{proven} were proven at all");
}

#[test]
fn adding_operations_to_an_illegal_recording_never_makes_it_legal() {
    let mut proven = 0;
    for seed in 0..RECORDINGS / 2 {
        let mut lines = recording(seed, &any(seed));
        if !invalid(&lines) {
            continue;
        }
        proven += 1;
        // Whatever another system tells, under other processes and later.
        let more = recording(seed + 1, &any(seed + 1));
        let last: serde_json::Value =
            serde_json::from_str(&lines[lines.len() - 1]).expect("a line");
        for line in more {
            let mut line: serde_json::Value = serde_json::from_str(&line).expect("a line");
            let Some(index) = line["index"].as_u64() else {
                continue;
            };
            let number = |line: &serde_json::Value, field| line[field].as_u64().expect("a number");
            line["index"] = (number(&last, "index") + index).into();
            line["time"] = (number(&last, "time") + number(&line, "time")).into();
            line["process"] = (1000 + number(&line, "process")).into();
            lines.push(line.to_string());
        }
        assert!(invalid(&lines), "seed {seed}:\n{}", lines.join("\n"));
    }
    assert!(proven > RECORDINGS / 8, "{proven} were proven at all");
}

#[test]
fn each_sabotage_is_found_by_name_and_not_by_chance() {
    let mut missed = Vec::new();
    for (make, names) in sabotaged() {
        let found = (0..300)
            .filter(|&seed| {
                let judgement = judged(&recording(seed, &make));
                let named = |finding: &Finding| names.contains(&finding.finding.as_str());
                judgement.findings.iter().any(named)
            })
            .count();
        println!(
            "{:?}, logs {}: {names:?} in {found} of 300",
            make.lie, make.logs
        );
        if found < 15 {
            missed.push(format!(
                "{:?}, logs {}: {found} of 300",
                make.lie, make.logs
            ));
        }
    }
    assert_eq!(missed, Vec::<String>::new());
}

#[test]
fn every_witness_alone_proves_its_finding() {
    let mut shown = 0;
    let mut complaints = Vec::new();
    for (make, _) in sabotaged() {
        for seed in 0..150 {
            let lines = recording(seed, &make);
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            for finding in judge(
                &History::read(lines.join("\n").as_bytes()).expect("well-formed"),
                Model::Fencing,
            )
            .findings
            {
                shown += 1;
                let complaint = witness::complaint(&lines, &finding);
                complaints.extend(complaint.map(|text| format!("{make:?} seed {seed}: {text}")));
            }
        }
    }
    let few: Vec<_> = complaints.iter().take(5).collect();
    assert!(
        complaints.is_empty(),
        "{} of {shown}: {few:#?}",
        complaints.len()
    );
    assert!(shown > 2_000, "{shown} findings were shown");
}
