//! Made histories: honest ones break no rule, each defect is found, and made means made the same everywhere.

use fencepost_checker::generate::{Defect, Generator, Settings};
use fencepost_checker::history::{Function, History, Line, Type, jsonl};
use fencepost_checker::verdict::Verdict;
use fencepost_checker::{Model, judge};

fn settings(seed: u64) -> Settings {
    // All kinds of systems, from one client on one key to more locks than holders.
    let pick = |choices: &[u32], shift: u32| choices[(seed >> shift) as usize % choices.len()];
    Settings {
        operations: 3_000,
        clients: pick(&[1, 2, 3, 10, 40], 0),
        keys: pick(&[1, 2, 7, 300], 1),
        locks: pick(&[1, 2, 5], 2),
        seed,
        reads: f64::from(pick(&[0, 5, 9], 3)) / 10.0,
        zombies: f64::from(pick(&[0, 3, 10], 1)) / 10.0,
        timeouts: f64::from(pick(&[0, 1, 30], 0)) / 100.0,
        nameless: f64::from(pick(&[0, 1, 2], 2)) / 2.0,
        defect: None,
    }
}

#[test]
fn an_honest_system_breaks_no_rule() {
    let (mut refused, mut unknown, mut late) = (0, 0, 0);
    for seed in 0..150 {
        let settings = settings(seed);
        let history = Generator::new(&settings).history();
        for model in [Model::Fencing, Model::FencedRegister] {
            let judgement = judge(&history, model);
            assert_eq!(
                (judgement.verdict, &judgement.findings[..]),
                (Verdict::Valid, &[][..]),
                "{settings:?} as {model}: {:?}",
                judgement.stats.not_judged
            );
            assert_eq!(judgement.stats.not_judged, Vec::<String>::new());
            assert_eq!(judgement.stats.operations, settings.operations);
            refused += judgement.stats.refused;
            unknown += judgement.stats.unknown;
            late += judgement.coverage.zombie_writes;
        }
    }
    assert!(
        refused > 1_000 && unknown > 5_000 && late > 400,
        "there is something to judge: {refused} refused, {unknown} unknown, {late} late"
    );
}

#[test]
fn each_defect_is_found_and_by_its_own_name() {
    for (defect, name) in Defect::ALL {
        let expected: &[&str] = match defect {
            Defect::StaleWrite => &["stale-write-accepted"],
            // Unless somebody reads before the next write, nobody can tell.
            Defect::LostWrite => &["not-linearizable", "lost-acked-write"],
            Defect::InventedValue => &["not-linearizable"],
            Defect::DuplicateToken => &["duplicate-token"],
            Defect::TokenRegression => &["token-regression"],
        };
        let mut seen = 0;
        for seed in 0..10 {
            let settings = Settings {
                operations: 10_000,
                seed,
                timeouts: 0.0,
                zombies: 0.5,
                defect: Some(defect),
                ..Settings::default()
            };
            let history = Generator::new(&settings).history();
            let judgement = judge(&history, Model::Fencing);
            let found: Vec<&str> = (judgement.findings.iter())
                .map(|finding| finding.finding.as_str())
                .collect();
            let by_its_name = expected.iter().any(|expected| found.contains(expected));
            assert_eq!(
                judgement.verdict == Verdict::Invalid,
                by_its_name,
                "{name}, seed {seed}: {found:?}"
            );
            seen += u32::from(by_its_name);
        }
        let enough = if defect == Defect::LostWrite { 4 } else { 10 };
        assert!(seen >= enough, "{name} was seen with {seen} seeds of 10");
        assert_eq!(
            (name.parse(), defect.to_string()),
            (Ok(defect), name.to_owned())
        );
    }
}

#[test]
fn the_same_settings_make_the_same_file_and_it_reads_as_the_history_that_is_made() {
    let settings = Settings {
        timeouts: 0.05,
        ..Settings::default()
    };
    let mut file = Vec::new();
    for made in Generator::new(&settings) {
        let mut line = Vec::new();
        made.write(&mut line);
        assert_eq!(line, (jsonl::write(&made.line()) + "\n").into_bytes());
        file.extend(line);
    }
    let again: Vec<Line> = Generator::new(&settings).map(|made| made.line()).collect();
    assert_eq!(jsonl::parse(&file).expect("well-formed").lines, again);
    let other = Settings {
        seed: 2,
        ..settings.clone()
    };
    assert!(Generator::new(&other).map(|made| made.line()).ne(again));

    let read = History::read(&file).expect("well-formed");
    let made = Generator::new(&settings).history();
    assert_eq!(read.operations.len(), made.operations.len());
    for (read_op, made_op) in read.operations.iter().zip(&made.operations) {
        assert_eq!(read.value(read_op), made.value(made_op));
        assert_eq!(
            (read_op.token, read_op.high_water, read_op.outcome),
            (made_op.token, made_op.high_water, made_op.outcome)
        );
        assert_eq!(
            (read_op.process, read_op.invoked, read_op.completed),
            (made_op.process, made_op.invoked, made_op.completed)
        );
        let text = |history: &History, name| history.names.text(name).to_owned();
        assert_eq!(text(&read, read_op.client), text(&made, made_op.client));
        let key = |history: &History, key: Option<_>| key.map(|key| text(history, key));
        assert_eq!(key(&read, read_op.key), key(&made, made_op.key));
        assert_eq!(key(&read, read_op.lock), key(&made, made_op.lock));
    }
}

/// Grants and writes of each key in the last tenth of a long history.
fn late_life(settings: &Settings) -> Vec<(u32, u64, u64)> {
    let locks = settings.locks;
    let mut grants = vec![0_u64; locks as usize];
    let mut writes = vec![0_u64; settings.keys as usize];
    let mut invoked = 0;
    for made in Generator::new(settings) {
        invoked += u64::from(made.kind == Type::Invoke);
        if made.kind != Type::Ok || invoked * 10 < settings.operations * 9 {
            continue;
        }
        match (made.function, made.key) {
            (Function::Acquire, _) => grants[made.lock as usize] += 1,
            (Function::Write, Some(key)) => writes[key as usize] += 1,
            _ => {}
        }
    }
    let life = |key: u32| (key, grants[(key % locks) as usize], writes[key as usize]);
    (0..settings.keys).map(life).collect()
}

#[test]
fn every_lock_is_granted_and_every_key_written_however_long_it_goes_on() {
    for seed in 1..=6 {
        let timeouts = [0.005, 0.05, 0.3][seed as usize % 3];
        let settings = Settings {
            operations: 200_000,
            seed,
            timeouts,
            ..Settings::default()
        };
        for (key, grants, writes) in late_life(&settings) {
            assert!(
                grants >= 20 && writes >= 200,
                "seed {seed}, key {key}: {grants} grants and {writes} writes in the last tenth"
            );
        }
    }
}

#[test]
fn a_generator_says_whether_it_had_occasion_for_its_defect() {
    let settings = |zombies: f64| Settings {
        zombies,
        timeouts: 0.0,
        clients: 2,
        locks: 1,
        keys: 1,
        defect: Some(Defect::StaleWrite),
        ..Settings::default()
    };
    for (zombies, planted) in [(0.0, None), (0.5, Some(Defect::StaleWrite))] {
        let mut made = Generator::new(&settings(zombies));
        assert_eq!(
            made.by_ref().last().map(|made| made.kind != Type::Invoke),
            Some(true)
        );
        assert_eq!(made.planted(), planted, "zombies {zombies}");
    }
}
