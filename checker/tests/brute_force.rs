//! The exact check against a search of all orders, on small dense histories from a fixed seed.
//!
//! The search shares nothing with the check: it tries every order of atomic steps that real time allows.

mod search;

use fencepost_checker::history::{Event, History, Line, Token, Type, pair};
use fencepost_checker::verdict::{Judgement, Verdict};
use fencepost_checker::{Model, judge};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use search::{Answer, Kind, Op, linearizable};

const HISTORIES: u64 = 20_000;
const SEED: u64 = 7;

// ------------------------------------------------------------------------------------------ the generator

fn generate(rng: &mut ChaCha8Rng) -> Vec<Op> {
    let count = rng.random_range(2..=8);
    let mut places: Vec<usize> = Vec::new();
    // Most histories are dense; the window says how many operations may be open together.
    let window = rng.random_range(1..=4);
    let mut open: Vec<usize> = Vec::new();
    let mut ops: Vec<Op> = Vec::new();
    while ops.len() < count || !open.is_empty() {
        if ops.len() < count && (open.is_empty() || (open.len() < window && rng.random_bool(0.5))) {
            let kind = if rng.random_bool(0.5) {
                Kind::Write {
                    token: rng.random_range(-1..=3),
                    value: ops.len() as u32 + 1,
                }
            } else {
                Kind::Read {
                    value: 0,
                    mark: None,
                }
            };
            open.push(ops.len());
            ops.push(Op {
                call: places.len(),
                returned: 0,
                kind,
                answer: Answer::Ok,
            });
            places.push(0);
        } else {
            let at = open.swap_remove(rng.random_range(0..open.len()));
            ops[at].returned = places.len();
            places.push(0);
        }
    }
    answer_truthfully(rng, &mut ops);
    for _ in 0..rng.random_range(0..=2) {
        spoil(rng, &mut ops);
    }
    ops
}

/// Runs the operations on a real register, each at a moment within its interval.
fn answer_truthfully(rng: &mut ChaCha8Rng, ops: &mut [Op]) {
    let mut order: Vec<(usize, u32, usize)> = Vec::new();
    for (at, op) in ops.iter_mut().enumerate() {
        let mut until = op.returned;
        if matches!(op.kind, Kind::Write { .. }) && rng.random_bool(0.25) {
            op.answer = if rng.random_bool(0.5) {
                Answer::Info
            } else {
                Answer::Open
            };
            until = if rng.random_bool(0.5) {
                40
            } else {
                op.returned
            };
            if rng.random_bool(0.3) {
                continue;
            }
        }
        order.push((
            rng.random_range(op.call..until),
            rng.random_range(0..1000),
            at,
        ));
    }
    order.sort_unstable();
    let (mut mark, mut stored) = (0, 0);
    for (_, _, at) in order {
        let tells = rng.random_bool(0.6);
        let op = &mut ops[at];
        match &mut op.kind {
            Kind::Write { token, value } if *token >= mark => (mark, stored) = (*token, *value),
            Kind::Write { .. } if op.answer == Answer::Ok => {
                op.answer = Answer::Refused(tells.then_some(mark))
            }
            Kind::Write { .. } => {}
            Kind::Read { value, mark: told } => (*value, *told) = (stored, tells.then_some(mark)),
        }
    }
}

/// Changes one thing; the history may stay legal.
fn spoil(rng: &mut ChaCha8Rng, ops: &mut [Op]) {
    let count = ops.len() as u32;
    let at = rng.random_range(0..ops.len());
    let op = &mut ops[at];
    match (&mut op.kind, rng.random_range(0..4)) {
        (Kind::Read { value, .. }, 0 | 1) => *value = rng.random_range(0..=count),
        (Kind::Read { mark, .. }, 2) => *mark = Some(rng.random_range(-1..=3)),
        (Kind::Read { mark, .. }, _) => *mark = None,
        (Kind::Write { token, .. }, 0) => *token = rng.random_range(-1..=3),
        (Kind::Write { .. }, 1) => op.answer = Answer::Ok,
        (Kind::Write { .. }, 2) => {
            op.answer = Answer::Refused(rng.random_bool(0.5).then(|| rng.random_range(0..=3)));
        }
        (Kind::Write { .. }, _) => {
            op.answer = if rng.random_bool(0.5) {
                Answer::Info
            } else {
                Answer::OtherNo
            }
        }
    }
}

// ------------------------------------------------------------------------------------------- the same, told

fn history(ops: &[Op]) -> History {
    let mut lines: Vec<(usize, Line)> = Vec::new();
    for (at, op) in ops.iter().enumerate() {
        let (f, token, value) = match op.kind {
            Kind::Write { token, value } => (
                "write",
                Some(Token::from(token)),
                Some(format!("v{value}").into()),
            ),
            Kind::Read { .. } => ("read", None, None),
        };
        let event = |place: usize, kind: Type| Event {
            index: place as u64,
            time: place as u64 * 1000,
            client: Some(format!("c{at}")),
            key: Some("k".to_owned()),
            token,
            value: value.clone(),
            ..Event::new(at as u64, kind, f)
        };
        lines.push((op.call, Line::Event(Box::new(event(op.call, Type::Invoke)))));
        let mut end = event(op.returned, Type::Ok);
        if let Kind::Read { value, mark } = op.kind {
            end.value = Some(if value == 0 {
                serde_json::Value::Null
            } else {
                format!("v{value}").into()
            });
            end.high_water = mark.map(Token::from);
        }
        let no = |error: &str| Some(error.to_owned());
        match op.answer {
            Answer::Ok => {}
            Answer::Refused(named) => {
                (end.kind, end.error) = (Type::Fail, no("stale-token"));
                end.high_water = named.map(Token::from);
            }
            Answer::OtherNo => (end.kind, end.error) = (Type::Fail, no("disk full")),
            Answer::Info => (end.kind, end.error) = (Type::Info, no("timeout")),
            Answer::Open => continue,
        }
        lines.push((op.returned, Line::Event(Box::new(end))));
    }
    lines.sort_by_key(|&(place, _)| place);
    pair(lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>())
        .expect("the generator tells well-formed histories")
}

fn decide(ops: &[Op]) -> Judgement {
    judge(&history(ops), Model::FencedRegister)
}

#[test]
fn the_exact_check_agrees_with_a_search_of_all_orders() {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let mut invalid = 0;
    for number in 0..HISTORIES {
        let ops = generate(&mut rng);
        let judgement = decide(&ops);
        let expected = if linearizable(&ops) {
            Verdict::Valid
        } else {
            Verdict::Invalid
        };
        assert_eq!(
            judgement.verdict, expected,
            "history {number} of seed {SEED}: {ops:#?}"
        );
        invalid += u64::from(expected == Verdict::Invalid);
    }
    // A generator that made only one kind would test nothing.
    assert!(
        invalid > HISTORIES / 5 && invalid < HISTORIES * 4 / 5,
        "{invalid} of {HISTORIES} are invalid"
    );
}

#[test]
fn a_witness_alone_is_not_linearizable_and_every_part_of_it_is_needed() {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED + 1);
    let mut witnesses = 0;
    for number in 0..HISTORIES / 4 {
        let ops = generate(&mut rng);
        let judgement = decide(&ops);
        let [finding] = &judgement.findings[..] else {
            continue;
        };
        let witness: Vec<Op> = ops
            .iter()
            .filter(|op| finding.events.contains(&(op.call as u64)))
            .copied()
            .collect();
        assert!(
            !linearizable(&witness),
            "history {number}: {ops:#?}\n{finding:#?}"
        );
        for part in &witness {
            let fewer = unreasoned(&without(&witness, part));
            assert!(
                linearizable(&fewer),
                "history {number}: {part:?} in {witness:#?}"
            );
        }
        witnesses += 1;
    }
    assert!(witnesses > HISTORIES / 20, "only {witnesses} witnesses");
}

/// The operations but `part`, and but the reads of its value.
fn without(ops: &[Op], part: &Op) -> Vec<Op> {
    let stays = |op: &&Op| match (op.kind, part.kind) {
        (Kind::Read { value, .. }, Kind::Write { value: written, .. }) => value != written,
        _ => op.call != part.call,
    };
    ops.iter()
        .filter(stays)
        .filter(|op| op.call != part.call)
        .copied()
        .collect()
}

/// The operations with every refusal taken as a plain no: part of a witness may be the reason for a refusal in it, and
/// a refusal without its reason is impossible in a way that proves nothing.
fn unreasoned(ops: &[Op]) -> Vec<Op> {
    let plain = |op: &Op| match op.answer {
        Answer::Refused(_) => Op {
            answer: Answer::OtherNo,
            ..*op
        },
        _ => *op,
    };
    ops.iter().map(plain).collect()
}

#[test]
fn adding_operations_to_an_illegal_history_never_makes_it_legal() {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED + 2);
    for _ in 0..HISTORIES / 4 {
        let mut ops = generate(&mut rng);
        let before = decide(&ops).verdict;
        // A value that nobody could have written before, read or lost at the very end.
        let end = ops.iter().map(|op| op.returned).max().unwrap_or(0) + 1;
        let kind = Kind::Write {
            token: rng.random_range(-1..=3),
            value: 99,
        };
        ops.push(Op {
            call: end,
            returned: end + 1,
            kind,
            answer: Answer::Info,
        });
        let after = decide(&ops).verdict;
        assert!(before == after, "{before:?} became {after:?}: {ops:#?}");
    }
}
