//! Every model against a naive judge that tries all orders, on small histories made to be hard: dense in overlaps, with
//! open operations, equal tokens and refusals. `FENCEPOST_HISTORIES` says how many for each model.
// How many histories there are is told from outside.
#![allow(clippy::disallowed_methods)]

mod small;

use fencepost_checker::history::History;
use fencepost_checker::linearizability::{
    Answer, Decided, Effect, Limits, Model, Recorded, check, search,
};
use fencepost_checker::models::{
    AppendLog, CasRegister, FencedMutex, FencedRegister, Kv, MultiRegister, Mutex, Queue,
    ReentrantMutex, Set,
};
use fencepost_checker::verdict::Verdict;
use fencepost_checker::{Model as Named, judge};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use small::{
    End, NaiveFencedMutex, NaiveFencedRegister, NaiveKv, NaiveLog, NaiveMulti, NaiveMutex,
    NaiveQueue, NaiveRegister, NaiveSet, Object, Op, add, generate, is_linearizable, recorded,
};

const SEED: u64 = 0x5eed;

fn histories() -> u64 {
    let told = std::env::var("FENCEPOST_HISTORIES").ok();
    told.map_or(10_000, |told| {
        told.parse().expect("FENCEPOST_HISTORIES is a number")
    })
}

fn is_legal(decided: &Decided) -> bool {
    decided.parts.iter().all(|part| match part.answer {
        Answer::Legal => true,
        Answer::Illegal { .. } => false,
        Answer::Unknown { exhausted, .. } => panic!("no limit, and yet {exhausted:?}"),
    })
}

/// Holds the exact decision, the search and the naive judge against each other.
fn agree<O: Object, M: Model + Clone>(object: &O, model: &M) {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let limits = Limits::default();
    let (mut illegal, mut lies, mut caught) = (0, 0, 0);
    let histories = histories();
    for number in 0..histories {
        let (ops, lied) = generate(object, &mut rng);
        let history = recorded(object, &ops, "k");
        let expected = is_linearizable(object, &ops);
        let shown = || format!("history {number} of seed {SEED}: {ops:#?}");
        let searched = search(model.clone(), &history, &limits).expect("a history of this model");
        assert_eq!(is_legal(&searched), expected, "the search, {}", shown());
        let decided = check(model.clone(), &history, &limits).expect("a history of this model");
        assert_eq!(is_legal(&decided), expected, "the decision, {}", shown());
        for part in searched.parts.iter().chain(&decided.parts) {
            if let Answer::Illegal { impasse, .. } = &part.answer {
                let explained = follow(
                    object,
                    &ops,
                    &impasse.prefix.iter().map(|p| p.invoked).collect::<Vec<_>>(),
                );
                assert!(explained, "the prefix {:?} of {}", impasse.prefix, shown());
                assert!(!impasse.cannot_follow.is_empty(), "{}", shown());
            }
        }
        assert!(lied || expected, "a true history, {}", shown());
        illegal += u64::from(!expected);
        lies += u64::from(lied);
        caught += u64::from(lied && !is_legal(&searched));
    }
    assert_eq!(caught, illegal);
    // A generator that made only one kind would test nothing.
    assert!(
        illegal > histories / 20 && illegal < histories * 19 / 20,
        "{illegal} of {histories} are illegal"
    );
    println!("{histories} histories, {lies} with a lie, {caught} of them caught by both");
}

/// The operations in this order explain themselves, and none is after one that it precedes.
fn follow<O: Object>(object: &O, ops: &[Op], order: &[u64]) -> bool {
    let mut state = object.initial();
    let mut begun = 0;
    order.iter().all(|&call| {
        let op = ops
            .iter()
            .find(|op| op.call as u64 == call)
            .expect("an operation");
        begun = begun.max(op.call);
        (op.end == End::Info || op.back >= begun) && object.accepts(&mut state, op)
    })
}

// --------------------------------------------------------------------------------------- one test for each model

fn kv() -> Kv {
    Kv::new(&Value::Null).expect("null is a beginning")
}

fn multi() -> MultiRegister {
    MultiRegister::new(&json!({"x": 0, "y": 0})).expect("an object is a beginning")
}

fn set() -> Set {
    Set::new(&Value::Null).expect("null is a beginning")
}

fn queue() -> Queue {
    Queue::new(&Value::Null).expect("null is a beginning")
}

const REGISTER: NaiveRegister = NaiveRegister {
    cas: false,
    unique: false,
};
const UNIQUE_REGISTER: NaiveRegister = NaiveRegister {
    cas: false,
    unique: true,
};
const CAS_REGISTER: NaiveRegister = NaiveRegister {
    cas: true,
    unique: false,
};

#[test]
fn register() {
    agree(&REGISTER, &CasRegister::plain(&json!(0)));
}

#[test]
fn register_of_unique_values() {
    agree(&UNIQUE_REGISTER, &CasRegister::plain(&json!(0)));
}

#[test]
fn cas_register() {
    agree(&CAS_REGISTER, &CasRegister::new(&json!(0)));
}

#[test]
fn registers_that_were_joined() {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let limits = Limits::default();
    let (mut illegal, mut only_joined) = (0, 0);
    for number in 0..histories() {
        let (object, model) = if number % 2 == 0 {
            (REGISTER, CasRegister::plain(&Value::Null))
        } else {
            (CAS_REGISTER, CasRegister::new(&Value::Null))
        };
        let (ops, _) = generate(&object, &mut rng);
        // Its operations alone: it began as something, and all values are below 8.
        let rest = &ops[ops.len().min((number % 3) as usize)..];
        let history = recorded(&object, rest, "k");
        let expected = (0..8).any(|begun| small::is_linearizable_from(&object, rest, &begun));
        let decided = check(model.joined(), &history, &limits).expect("a history of this model");
        assert_eq!(is_legal(&decided), expected, "history {number}: {rest:#?}");
        illegal += u64::from(!expected);
        only_joined += u64::from(expected && !is_linearizable(&object, rest));
    }
    assert!(
        illegal > histories() / 50 && only_joined > histories() / 50,
        "{illegal} are illegal, {only_joined} legal only because they joined"
    );
}

#[test]
fn kv_with_append() {
    agree(&NaiveKv { append: true }, &kv());
}

#[test]
fn kv_without_append() {
    agree(&NaiveKv { append: false }, &kv());
}

#[test]
fn multi_register() {
    agree(&NaiveMulti, &multi());
}

#[test]
fn mutex() {
    agree(&NaiveMutex { reentrant: false }, &Mutex::new());
}

#[test]
fn reentrant_mutex() {
    agree(&NaiveMutex { reentrant: true }, &ReentrantMutex::new());
}

#[test]
fn fenced_mutex() {
    agree(&NaiveFencedMutex { leased: false }, &FencedMutex::new());
}

#[test]
fn leased_fenced_mutex() {
    agree(&NaiveFencedMutex { leased: true }, &FencedMutex::leased());
}

#[test]
fn fenced_register() {
    agree(
        &NaiveFencedRegister { unique: false },
        &FencedRegister::new(&Value::Null),
    );
}

#[test]
fn set_that_only_grows() {
    agree(&NaiveSet { remove: false }, &set());
}

#[test]
fn set_with_remove() {
    agree(&NaiveSet { remove: true }, &set());
}

#[test]
fn append_log_of_unique_values() {
    agree(
        &NaiveLog {
            fenced: false,
            unique: true,
        },
        &AppendLog::new(),
    );
}

#[test]
fn append_log_of_any_values() {
    agree(
        &NaiveLog {
            fenced: false,
            unique: false,
        },
        &AppendLog::new(),
    );
}

#[test]
fn fenced_append_log() {
    agree(
        &NaiveLog {
            fenced: true,
            unique: false,
        },
        &AppendLog::new(),
    );
}

#[test]
fn queue_first_in_first_out() {
    agree(&NaiveQueue, &queue());
}

#[test]
fn fenced_register_and_the_exact_check_of_the_fencing_rules() {
    let object = NaiveFencedRegister { unique: true };
    let mut rng = ChaCha8Rng::seed_from_u64(SEED + 1);
    for number in 0..histories() {
        let (ops, _) = generate(&object, &mut rng);
        let history = recorded(&object, &ops, "k");
        let searched = search(
            FencedRegister::new(&Value::Null),
            &history,
            &Limits::default(),
        );
        let legal = is_legal(&searched.expect("a fenced register"));
        assert_eq!(
            legal,
            is_linearizable(&object, &ops),
            "history {number}: {ops:#?}"
        );
        let exact = judge(&history, Named::FencedRegister);
        let expected = if legal {
            Verdict::Valid
        } else {
            Verdict::Invalid
        };
        assert_eq!(exact.verdict, expected, "history {number}: {ops:#?}");
    }
}

// ------------------------------------------------------------------------------------------------- what stays equal

/// Shifting time, renaming clients and values, beside another key: none changes a verdict. A history that goes on after
/// something illegal stays illegal.
fn invariant<O: Object, M: Model + Clone>(object: &O, model: &M, renames_values: bool) {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED + 2);
    let limits = Limits::default();
    let legal = |history: &History| {
        let decided = check(model.clone(), history, &limits).expect("a history of this model");
        let searched = search(model.clone(), history, &limits).expect("a history of this model");
        assert_eq!(is_legal(&decided), is_legal(&searched));
        is_legal(&decided)
    };
    let mut last: (Vec<Op>, bool) = (Vec::new(), true);
    for number in 0..histories() / 5 {
        let (ops, _) = generate(object, &mut rng);
        let expected = legal(&recorded(object, &ops, "k"));
        let shown = || format!("history {number} of seed {}: {ops:#?}", SEED + 2);

        let mut shifted = History::default();
        add(object, &ops, "k", 3, 1000, &mut shifted);
        assert_eq!(legal(&shifted), expected, "shifted, {}", shown());

        let mut renamed = recorded(object, &ops, "other");
        for operation in &mut renamed.operations {
            let client = renamed.names.text(operation.client).to_owned();
            operation.client = renamed.names.intern(&format!("{client} by another name"));
            operation.process += 77;
            if renames_values {
                let values = &mut renamed.values;
                let other = |datum| values.intern(&rename(values.json(datum)));
                operation.value = operation.value.map(other);
            }
        }
        assert_eq!(legal(&renamed), expected, "renamed, {}", shown());

        let mut beside = recorded(object, &last.0, "one");
        add(object, &ops, "two", 1, 0, &mut beside);
        assert_eq!(
            legal(&beside),
            expected && last.1,
            "beside {:?}, {}",
            last.0,
            shown()
        );

        if !expected {
            let mut longer = ops.clone();
            let end = ops.iter().map(|op| op.back).max().unwrap_or(0);
            for more in 0..rng.random_range(1..4) {
                let mut op = object.ask(&mut rng);
                op.client = 9;
                (op.call, op.back) = (end + 2 * more + 1, end + 2 * more + 2);
                op.end = End::Info;
                longer.push(op);
            }
            assert!(
                !legal(&recorded(object, &longer, "k")),
                "longer, {}",
                shown()
            );
        }
        last = (ops, expected);
    }
}

/// Other values, equal where they were; the initial 0 stays.
fn rename(value: Value) -> Value {
    match value {
        Value::Array(values) => values.into_iter().map(rename).collect(),
        Value::Number(number) if number.as_u64() != Some(0) => json!(format!("<{number}>")),
        other => other,
    }
}

#[test]
fn verdicts_do_not_hang_on_times_names_or_neighbours() {
    invariant(&REGISTER, &CasRegister::plain(&json!(0)), true);
    invariant(&CAS_REGISTER, &CasRegister::new(&json!(0)), true);
    invariant(&NaiveKv { append: true }, &kv(), false);
    invariant(&NaiveMutex { reentrant: false }, &Mutex::new(), false);
    invariant(
        &NaiveMutex { reentrant: true },
        &ReentrantMutex::new(),
        false,
    );
    invariant(
        &NaiveFencedMutex { leased: false },
        &FencedMutex::new(),
        false,
    );
    invariant(
        &NaiveFencedRegister { unique: false },
        &FencedRegister::new(&Value::Null),
        true,
    );
    invariant(&NaiveSet { remove: true }, &set(), true);
    invariant(
        &NaiveLog {
            fenced: true,
            unique: false,
        },
        &AppendLog::new(),
        true,
    );
    invariant(&NaiveQueue, &queue(), true);
}

// ------------------------------------------------------------------------------------------ what models promise

/// `effect` says what `step` does, `Never` stays so, and `needs` and `leaves` keep their promise: from random states,
/// for each pair of calls.
fn keeps_its_promises<O: Object, M: Model + Clone>(object: &O, model: &M) {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED + 3);
    for _ in 0..histories() / 20 {
        let (ops, _) = generate(object, &mut rng);
        let history = recorded(object, &ops, "k");
        let mut model = model.clone();
        let calls = calls(&mut model, &history);
        if calls.is_empty() {
            continue;
        }
        let mut state = model.initial();
        for _ in 0..12 {
            for call in &calls {
                promises_of_a_pair(&model, &state, call, &calls);
            }
            let some = &calls[rng.random_range(0..calls.len())];
            state = model.step(&state, some).unwrap_or(state);
        }
    }
}

fn calls<M: Model>(model: &mut M, history: &History) -> Vec<M::Call> {
    let names = &history.names;
    let read = history.operations.iter().map(|operation| {
        let value = history.value(operation);
        let json = value.as_ref();
        let recorded = Recorded {
            operation,
            names,
            json,
        };
        model.call(recorded).expect("a call")
    });
    read.flatten().collect()
}

fn promises_of_a_pair<M: Model>(model: &M, state: &M::State, call: &M::Call, calls: &[M::Call]) {
    let next = model.step(state, call);
    let told = model.effect(state, call);
    let is = match &next {
        None if told == Effect::Never => Effect::Never,
        None => Effect::NotNow,
        Some(next) if next == state && told == Effect::Looks => Effect::Looks,
        Some(_) => Effect::Acts,
    };
    assert_eq!(told, is, "{call:?} in {state:?}");
    for other in calls {
        if told == Effect::Never {
            let later = model.step(state, other);
            let still = later.is_none_or(|later| model.effect(&later, call) == Effect::Never);
            assert!(still, "{call:?} after {other:?} in {state:?}");
        }
        if told == Effect::Looks
            && let Some(later) = model.step(state, other)
            && let Some(then) = model.step(&later, call)
        {
            assert_eq!(then, later, "{call:?} after {other:?} in {state:?}");
        }
        let Some(next) = &next else { continue };
        if !model.leaves(call).meets(model.needs(other))
            && let Some(both) = model.step(next, other)
        {
            let without = model.step(state, other);
            let without =
                without.unwrap_or_else(|| panic!("{other:?} without {call:?} in {state:?}"));
            // As good: whatever is possible after both is possible without the first.
            for third in calls {
                if model.step(&both, third).is_some() {
                    assert!(
                        model.step(&without, third).is_some(),
                        "{third:?} after {other:?} without {call:?} in {state:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn models_keep_what_they_promise_to_the_search() {
    keeps_its_promises(&CAS_REGISTER, &CasRegister::new(&json!(0)));
    keeps_its_promises(&NaiveKv { append: true }, &kv());
    keeps_its_promises(&NaiveMulti, &multi());
    keeps_its_promises(&NaiveMutex { reentrant: false }, &Mutex::new());
    keeps_its_promises(&NaiveMutex { reentrant: true }, &ReentrantMutex::new());
    keeps_its_promises(&NaiveFencedMutex { leased: false }, &FencedMutex::new());
    keeps_its_promises(&NaiveFencedMutex { leased: true }, &FencedMutex::leased());
    keeps_its_promises(
        &NaiveFencedRegister { unique: false },
        &FencedRegister::new(&Value::Null),
    );
    keeps_its_promises(&NaiveSet { remove: true }, &set());
    keeps_its_promises(
        &NaiveLog {
            fenced: true,
            unique: false,
        },
        &AppendLog::new(),
    );
    keeps_its_promises(&NaiveQueue, &queue());
}
