//! The judge of a stream against the judge of the whole, on small recordings of a simulated system from fixed seeds.
//!
//! After every line the stream says what a judgement of the lines up to there says: verdict, findings, counts and
//! statistics. With next to no memory it still gives the same verdict at the end.
//!
//! `FENCEPOST_RECORDINGS` says how many recordings are made; unset, a part that a CI can afford.

#[allow(
    dead_code,
    reason = "some of what is simulated is no business of a stream"
)]
mod simulated;

use std::collections::BTreeMap;

use fencepost_checker::fencing::FINDINGS;
use fencepost_checker::history::jsonl::Reader;
use fencepost_checker::history::{History, Line};
use fencepost_checker::online::{Limits, Online};
use fencepost_checker::verdict::{Judgement, Verdict};
use fencepost_checker::{Model, judge};
use simulated::{LIES, Lie, Make, recording, sabotaged};

/// How many recordings, where nothing else is asked for.
fn recordings(usual: u64) -> u64 {
    std::env::var("FENCEPOST_RECORDINGS").map_or(usual, |text| text.parse().expect("a number"))
}

/// Any system, telling the truth or not.
fn any(seed: u64) -> Make {
    if seed % 4 == 3 {
        let built = |(make, _): &(Make, _)| !make.logs && make.steps <= 400;
        let systems: Vec<_> = sabotaged().into_iter().filter(built).collect();
        let (make, _) = &systems[(seed / 4) as usize % systems.len()];
        return Make {
            restarts: seed % 3 == 1,
            leases: make.leases || seed % 5 < 2,
            steps: make.steps.min(120),
            ..make.clone()
        };
    }
    if seed % 24 == 10 {
        let lies = [
            Lie::LosesAcknowledged,
            Lie::AcceptsStale,
            Lie::DeniesOwnSuccess,
            Lie::AppendsTwice,
            Lie::ReadsTheOld,
        ];
        return Make {
            logs: true,
            lie: Some(lies[(seed / 24) as usize % lies.len()]),
            restarts: seed % 5 == 1,
            steps: 160,
            ..Make::plain()
        };
    }
    Make {
        leases: seed % 7 == 5,
        paths: seed % 13 == 6,
        lie: (!seed.is_multiple_of(8)).then(|| LIES[(seed % 7) as usize]),
        raising: seed % 3 == 1,
        by_lock: seed % 5 == 2,
        unnamed: seed % 11 == 3,
        odd: seed % 4 == 1,
        steps: 25 + (seed % 6) as usize * 15,
        ..Make::plain()
    }
}

fn lines_of(text: &[String]) -> Vec<Line> {
    let bytes = text.join("\n");
    let mut reader = Reader::new(bytes.as_bytes());
    std::iter::from_fn(|| reader.next_line().expect("well-formed"))
        .map(|(_, line)| line)
        .collect()
}

fn whole(text: &[String], model: Model) -> Judgement {
    let history = History::read(text.join("\n").as_bytes()).expect("well-formed");
    judge(&history, model)
}

/// All that must be equal, in an order of its own.
fn essence(judgement: &Judgement) -> (Vec<String>, String) {
    let mut findings: Vec<String> = judgement
        .findings
        .iter()
        .map(|f| {
            format!(
                "{} {:?} {:?} {:?} {}",
                f.finding, f.severity, f.lock, f.key, f.count
            )
        })
        .collect();
    findings.sort();
    let Judgement {
        verdict,
        stats,
        coverage,
        ..
    } = judgement;
    (findings, format!("{verdict:?} {stats:?} {coverage:?}"))
}

/// Why two judgements do not fit each other, if so.
fn difference(streamed: &Judgement, whole: &Judgement) -> Option<String> {
    let (streamed, whole) = (essence(streamed), essence(whole));
    (streamed != whole).then(|| format!("{streamed:#?}\n{whole:#?}"))
}

#[test]
fn after_every_line_a_stream_is_judged_as_the_file_up_to_there() {
    let (mut compared, mut invalid, mut same) = (0_u64, 0_u64, 0_u64);
    let (mut findings, mut overlaps) = (0_u64, 0_u64);
    for seed in 0..recordings(1500) {
        let make = any(seed);
        let text = recording(seed, &make);
        // Where a key is no fenced register (another path, a value written twice) the whole file is searched, and a stream
        // is not: those systems are held against each other under the fencing model alone.
        let plain = !make.paths && !make.logs && seed % 4 != 3;
        let model = if seed % 9 == 4 && plain {
            Model::FencedRegister
        } else {
            Model::Fencing
        };
        let limits = Limits {
            every: (seed % 3) as usize * 8,
            ..Limits::default()
        };
        let mut online = Online::new(model, limits);
        for (at, line) in lines_of(&text).into_iter().enumerate() {
            online.push(at + 1, line).expect("well-formed");
            let (streamed, expected) = (online.so_far(), whole(&text[..=at], model));
            if let Some(difference) = difference(&streamed, &expected) {
                panic!(
                    "seed {seed} {make:?} {model} after {} lines: {difference}\nstreamed {:#?}\nwhole {:#?}\n{}",
                    at + 1,
                    streamed.findings,
                    expected.findings,
                    text[..=at].join("\n")
                );
            }
            compared += 1;
            invalid += u64::from(expected.verdict == Verdict::Invalid);
            overlaps += expected.stats.overlap.count;
            for finding in &expected.findings {
                findings += 1;
                same += u64::from(streamed.findings.iter().any(|f| {
                    f.finding == finding.finding
                        && f.lock == finding.lock
                        && f.key == finding.key
                        && f.events == finding.events
                }));
            }
        }
    }
    println!("{compared} prefixes, {invalid} invalid");
    println!("{same} of {findings} witnesses are the same");
    assert!(invalid * 5 > compared, "{invalid} of {compared} invalid");
    assert!(
        same * 10 > findings * 9,
        "{same} of {findings} witnesses are the same"
    );
    assert!(overlaps > 1000, "{overlaps}");
}

/// A lock whose holder is gone, and which is given to nobody else.
fn deserted() -> (Make, &'static [&'static str]) {
    let make = Make {
        lie: Some(Lie::KeepsForever),
        leases: true,
        restarts: true,
        steps: 800,
        ..Make::plain()
    };
    (make, &["starvation"])
}

/// Every promise is broken, for so long that every rule finds something to say.
#[test]
fn whatever_is_broken_the_stream_says_what_the_file_says() {
    let mut findings: BTreeMap<String, u64> = BTreeMap::new();
    let systems = sabotaged().into_iter().chain([deserted()]);
    for (make, names) in systems {
        // Who goes on after a refusal does so hotly once in a while.
        let long = names.contains(&"hot-retry");
        let steps = make.steps.max(if long { 3000 } else { 200 });
        let make = Make { steps, ..make };
        for seed in 0..recordings(600) / 12 {
            let text = recording(seed, &make);
            let mut online = Online::new(Model::Fencing, Limits::default());
            for (at, line) in lines_of(&text).into_iter().enumerate() {
                online.push(at + 1, line).expect("well-formed");
                if at % (text.len() / 6) != 7 && at + 1 < text.len() {
                    continue;
                }
                let (streamed, expected) = (online.so_far(), whole(&text[..=at], Model::Fencing));
                let difference = difference(&streamed, &expected);
                let lines = at + 1;
                assert_eq!(difference, None, "seed {seed} {make:?} after {lines} lines");
                for finding in &expected.findings {
                    *findings.entry(finding.finding.clone()).or_default() += 1;
                }
            }
        }
    }
    println!("{findings:#?}");
    for info in FINDINGS {
        let often = findings.get(info.name).copied().unwrap_or(0);
        assert!(often > 2, "{} was seen {often} times", info.name);
    }
}

/// Next to no memory, drawn anew for each recording; patience stays, so that nothing is decided too early.
fn tight(seed: u64) -> Limits {
    Limits {
        patience: 1 << 12,
        values: (seed % 3) as usize,
        tokens: 1 << 10,
        every: (seed % 2) as usize * 5,
    }
}

#[test]
fn with_next_to_no_memory_for_values_every_violation_is_found_at_the_same_line() {
    let (mut invalid, mut total) = (0_u64, 0_u64);
    for seed in 0..recordings(1500) {
        // A value of a failed write is not known again, once it is forgotten, on a key that is no plain register.
        let make = Make {
            odd: false,
            paths: false,
            logs: false,
            ..any(seed)
        };
        let text = recording(seed, &make);
        let mut online = Online::new(Model::Fencing, tight(seed));
        for (at, line) in lines_of(&text).into_iter().enumerate() {
            online.push(at + 1, line).expect("well-formed");
            let (streamed, expected) = (online.so_far(), whole(&text[..=at], Model::Fencing));
            assert_eq!(
                streamed.verdict,
                expected.verdict,
                "seed {seed} {make:?} after {} lines\nstreamed {:#?}\nwhole {:#?}\n{}",
                at + 1,
                streamed.findings,
                expected.findings,
                text[..=at].join("\n")
            );
            total += 1;
            invalid += u64::from(expected.verdict == Verdict::Invalid);
        }
    }
    assert!(invalid * 8 > total, "{invalid} of {total} invalid");
}

#[test]
fn with_next_to_no_patience_an_honest_system_is_not_blamed() {
    for seed in 0..recordings(8000) {
        // Writes without a token are a fault of their own.
        let make = Make {
            lie: None,
            odd: false,
            restarts: seed % 3 == 1,
            ..any(seed)
        };
        let text = recording(seed, &make);
        let mut online = Online::new(
            Model::Fencing,
            Limits {
                patience: (seed % 40) as usize,
                values: (seed % 5) as usize,
                tokens: 1 + (seed % 4) as usize,
                every: (seed % 3) as usize,
            },
        );
        for (at, line) in lines_of(&text).into_iter().enumerate() {
            online.push(at + 1, line).expect("well-formed");
        }
        let judgement = online.finish().expect("well-formed");
        assert_ne!(
            judgement.verdict,
            Verdict::Invalid,
            "seed {seed} {make:?}: {:#?}\n{}",
            judgement.findings,
            text.join("\n")
        );
    }
}

/// One client's operations on one log, one after the other.
struct Log {
    lines: Vec<String>,
    length: u64,
}

impl Log {
    fn of(appends: u64, read_every: u64) -> Self {
        let mut log = Self {
            lines: Vec::new(),
            length: 0,
        };
        for value in 0..appends {
            log.append(value, 1, "ok");
            if (value + 1).is_multiple_of(read_every) {
                log.read(0..=value);
            }
        }
        log
    }

    fn event(&mut self, kind: &str, f: &str, fields: &str) {
        let index = self.lines.len();
        self.lines.push(format!(
            r#"{{"index":{index},"time":{index},"process":1,"client":"c","type":"{kind}","f":"{f}","key":"k"{fields}}}"#
        ));
    }

    fn append(&mut self, value: u64, token: u64, kind: &str) {
        let fields = format!(r#","lock":"L","token":{token},"value":{value}"#);
        self.event("invoke", "append", &fields);
        self.event(kind, "append", &fields);
        self.length += 1;
    }

    fn read(&mut self, list: impl IntoIterator<Item = u64>) {
        let list: Vec<u64> = list.into_iter().collect();
        self.event("invoke", "read", "");
        self.event("ok", "read", &format!(r#","value":{list:?}"#));
    }

    /// What a stream says that remembers a few appends.
    fn judged(&self) -> Judgement {
        let limits = Limits {
            values: 8,
            ..Limits::default()
        };
        let mut online = Online::new(Model::Fencing, limits);
        for (at, line) in lines_of(&self.lines).into_iter().enumerate() {
            online.push(at + 1, line).expect("well-formed");
        }
        online.finish().expect("well-formed")
    }
}

#[test]
fn of_a_long_log_its_beginning_is_known_although_its_appends_are_forgotten() {
    let legal = Log::of(400, 5);
    let judgement = legal.judged();
    assert_eq!(judgement.verdict, Verdict::Valid);
    assert_eq!(judgement.stats.not_judged.len(), 1, "{:?}", judgement.stats);
    let ends = |list: Vec<u64>| {
        let mut log = Log::of(400, 5);
        log.read(list);
        let whole = whole(&log.lines, Model::Fencing);
        let streamed = log.judged();
        assert_eq!(streamed.verdict, whole.verdict, "{:?}", whole.findings);
        streamed.findings.first().map(|f| f.finding.clone())
    };
    let named = |name: &str| Some(name.to_owned());
    assert_eq!(ends((0..400).collect()), None);
    assert_eq!(ends((0..200).collect()), named("lost-acked-write"));
    assert_eq!(ends((0..398).collect()), named("lost-acked-write"));
    assert_eq!(ends(Vec::new()), named("lost-acked-write"));
    let swapped = [1, 0].into_iter().chain(2..400);
    assert_eq!(ends(swapped.collect()), named("not-linearizable"));
    for twice in [0, 399] {
        let list = (0..400).chain([twice]);
        assert_eq!(ends(list.collect()), named("not-linearizable"), "{twice}");
    }
    let invented = (0..400).chain([77_777]);
    assert_eq!(ends(invented.collect()), named("not-linearizable"));
}

#[test]
fn a_log_that_nobody_reads_is_given_up() {
    let mut log = Log::of(4000, 1 << 40);
    log.read([]);
    let judgement = log.judged();
    assert_eq!(
        judgement.verdict,
        Verdict::Valid,
        "it is not known any more"
    );
    let told = &judgement.stats.not_judged;
    let given_up = |sentence: &String| sentence.contains("are looked into only before event");
    assert!(told.iter().any(given_up), "{told:?}");
}

/// Lines without an index: equal times are concurrent, and stand in the file in any order.
#[test]
fn lines_without_an_index_are_judged_by_time() {
    for seed in 0..recordings(600) {
        let text: Vec<String> = recording(seed, &any(seed))
            .iter()
            .map(|line| {
                let mut line: serde_json::Value = serde_json::from_str(line).expect("a line");
                if let Some(fields) = line.as_object_mut() {
                    fields.remove("index");
                    if let Some(time) = fields.get("time").and_then(serde_json::Value::as_u64) {
                        fields.insert("time".to_owned(), (time / 4_000_000).into());
                    }
                }
                line.to_string()
            })
            .collect();
        let mut online = Online::new(Model::Fencing, Limits::default());
        for (at, line) in lines_of(&text).into_iter().enumerate() {
            online.push(at + 1, line).expect("well-formed");
        }
        let streamed = online.finish().expect("well-formed");
        let difference = difference(&streamed, &whole(&text, Model::Fencing));
        assert_eq!(difference, None, "seed {seed}\n{}", text.join("\n"));
    }
}
