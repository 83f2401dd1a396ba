//! The general search: the logs of other checkers' test suites, a lease history of 100 clients, and keys over all cores.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fencepost_checker::history::{
    Datum, Function, History, Instant as At, Name, Operation, Outcome, Token,
};
use fencepost_checker::linearizability::{Answer, Decided, Limits, Model, Part, search};
use fencepost_checker::models::{CasRegister, FencedMutex, FencedRegister, Kv};
use serde_json::{Value, json};

use super::{Row, foreign, rate};

const ONE_CORE: Limits<'static> = Limits {
    steps: None,
    memory: None,
    stop: None,
    threads: Some(1),
};

pub fn measure(row: &mut dyn FnMut(Row)) {
    shared_logs(row);
    lease_histories(row);
    all_cores(row);
}

/// The best of some rounds, so that what else the machine does counts least.
fn best<M: Model + Clone>(
    model: &M,
    history: &History,
    limits: &Limits<'_>,
) -> (Duration, Decided) {
    let rounds = (0..5).map(|_| {
        let model = model.clone();
        let begun = Instant::now();
        let decided = search(model, history, limits).expect("a history of this model");
        (begun.elapsed(), decided)
    });
    rounds.min_by_key(|(took, _)| *took).expect("a round")
}

fn tell(
    row: &mut dyn FnMut(Row),
    figure: String,
    took: Duration,
    operations: usize,
    more: &str,
    goal: Option<(&'static str, bool)>,
) {
    let value = format!(
        "{:.3} ms, {}{more}",
        took.as_secs_f64() * 1e3,
        rate(operations as u64, took)
    );
    let told = Row::new(figure, value);
    row(match goal {
        Some((text, met)) => told.goal(text, met),
        None => told,
    });
}

fn shared(folder: &str) -> Vec<(PathBuf, String)> {
    let shared = std::env::var_os("FENCEPOST_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
        PathBuf::from,
    );
    let folder = shared.join("histories").join(folder);
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("  SKIPPED: {} is not there", folder.display());
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let mut files: Vec<_> = paths
        .filter(|path| {
            path.extension()
                .is_some_and(|end| end == "log" || end == "txt")
        })
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a readable file");
            (path, text)
        })
        .collect();
    files.sort();
    files
}

/// Porcupine (Go) and its best Rust port need 192 ms and more for all 102 of the first.
fn shared_logs(row: &mut dyn FnMut(Row)) {
    let (mut all, mut worst, mut operations) = (Duration::ZERO, Duration::ZERO, 0);
    for (_, text) in shared("porcupine-etcd") {
        let history = foreign::etcd(&text);
        let (took, _) = best(&CasRegister::new(&Value::Null), &history, &ONE_CORE);
        all += took;
        worst = worst.max(took);
        operations += history.operations.len();
    }
    if operations > 0 {
        let more = format!(", the worst {:.3} ms", worst.as_secs_f64() * 1e3);
        let figure = "etcd logs, one core".to_owned();
        let met = all.as_millis() < 50 && worst.as_millis() < 20;
        tell(
            row,
            figure,
            all,
            operations,
            &more,
            Some(("50 ms, the worst 20 ms", met)),
        );
    }
    for (path, text) in shared("porcupine-kv") {
        let history = foreign::jepsen(&text);
        let kv = Kv::new(&Value::Null).expect("null is a beginning");
        let (took, _) = best(&kv, &history, &ONE_CORE);
        let name = path
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let figure = format!("kv {name}, one core");
        // The goal is of the smaller one.
        let goal = name
            .contains("c10")
            .then_some(("1 ms", took.as_micros() < 1000));
        tell(row, figure, took, history.operations.len(), "", goal);
    }
}

/// What a lock service with leases and a fenced resource would have recorded: in turn each client waits for the lock,
/// is granted it, writes and reads, and now and then goes on after its lease, as a zombie that is refused.
struct Leases {
    history: History,
    seed: u64,
}

impl Leases {
    fn random(&mut self, below: u64) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    fn add(
        &mut self,
        client: Name,
        process: u64,
        function: Function,
        interval: (u64, Option<u64>),
    ) -> &mut Operation {
        let key = self.history.names.intern("k");
        let at = |index: u64| At {
            index,
            time: index * 1000,
        };
        self.history.operations.push(Operation {
            process,
            client,
            function,
            lock: Some(key),
            key: Some(key),
            path: None,
            token: None,
            value: None,
            high_water: None,
            error: None,
            ttl_ms: None,
            identity: None,
            session: None,
            outcome: if interval.1.is_some() {
                Outcome::Ok
            } else {
                Outcome::Unknown
            },
            invoked: at(interval.0),
            completed: interval.1.map(at),
        });
        self.history.operations.last_mut().expect("it was pushed")
    }
}

/// Writes, reads and refusals of one key, by 100 clients that are all at work at once.
fn register_history(clients: u64, operations: u64) -> History {
    let mut leases = Leases {
        history: History::default(),
        seed: 7,
    };
    let names: Vec<Name> = (0..clients)
        .map(|c| leases.history.names.intern(&format!("c{c}")))
        .collect();
    let stale = leases.history.names.intern("stale-token");
    let (mut granted, mut mark, mut stored) = (0_u64, 0_u64, Datum::NULL);
    // Each client's operation takes effect at one moment and is answered up to 100 moments later; calls came as early.
    for number in 0..operations {
        let client = number % clients;
        let moment = number * 1000 + 200_000;
        let call = moment - 1 - leases.random(45_000 * clients / 100) / 10 * 10 - number % 7;
        let back = moment + 1 + leases.random(45_000 * clients / 100) / 10 * 10 + number % 7;
        let name = names[usize::try_from(client).expect("a client")];
        let (asks, late) = (leases.random(10), leases.random(20) == 0);
        if asks < 4 {
            let (value, high_water) = (stored, Token::from(mark));
            let read = leases.add(name, client, Function::Read, (call, Some(back)));
            (read.value, read.high_water) = (Some(value), Some(high_water));
            continue;
        }
        granted += u64::from(leases.random(50) == 0);
        let token = if late && granted > 2 {
            granted - 1 - leases.random(2)
        } else {
            granted
        };
        let value = leases.history.values.intern(&json!(number));
        let lost = leases.random(50) == 0;
        let write = leases.add(
            name,
            client,
            Function::Write,
            (call, Some(back).filter(|_| !lost)),
        );
        (write.token, write.value) = (Some(Token::from(token)), Some(value));
        if token < mark {
            (write.error, write.high_water) = (Some(stale), Some(Token::from(mark)));
            write.outcome = if lost {
                Outcome::Unknown
            } else {
                Outcome::Failed
            };
        } else {
            (mark, stored) = (token, value);
        }
    }
    placed(leases.history)
}

/// Grants, renewals and releases of one lock, by clients that all wait for it at once.
fn mutex_history(clients: u64, operations: u64) -> History {
    let mut leases = Leases {
        history: History::default(),
        seed: 11,
    };
    let names: Vec<Name> = (0..clients)
        .map(|c| leases.history.names.intern(&format!("c{c}")))
        .collect();
    let mut waiting: VecDeque<(u64, u64)> =
        (0..clients).map(|client| (client, client + 1)).collect();
    let (mut now, mut token) = (clients * 10, 0_u64);
    while (leases.history.operations.len() as u64) < operations {
        let (client, call) = waiting.pop_front().expect("somebody waits");
        let name = names[usize::try_from(client).expect("a client")];
        token += 1 + leases.random(3);
        now += 10;
        let answer = now + leases.random(3);
        let grant = leases.add(name, client, Function::Acquire, (call, Some(answer)));
        (grant.token, grant.ttl_ms) = (Some(Token::from(token)), Some(1000));
        for _ in 0..leases.random(2) {
            now += 10;
            let renew = leases.add(name, client, Function::Renew, (now - 5, Some(now)));
            renew.token = Some(Token::from(token));
        }
        now += 10;
        // The next one is granted it before this one hears that it has given it back.
        let heard = now + 15 + leases.random(4);
        let release = leases.add(name, client, Function::Release, (now - 4, Some(heard)));
        release.token = Some(Token::from(token));
        waiting.push_back((client, heard + 1));
    }
    placed(leases.history)
}

/// Gives each call and return an index of its own, in order.
fn placed(mut history: History) -> History {
    let mut places: Vec<(u64, bool, usize)> = Vec::new();
    for (at, op) in history.operations.iter().enumerate() {
        places.push((op.invoked.index, false, at));
        places.extend(op.completed.map(|back| (back.index, true, at)));
    }
    places.sort_unstable();
    for (index, &(_, is_return, at)) in places.iter().enumerate() {
        let op = &mut history.operations[at];
        let place = At {
            index: index as u64,
            time: index as u64 * 1000,
        };
        if is_return {
            op.completed = Some(place);
        } else {
            op.invoked = place;
        }
    }
    history.operations.sort_by_key(|op| op.invoked);
    history
}

fn within(took: Duration) -> Option<(&'static str, bool)> {
    Some(("1 s", took < Duration::from_secs(1)))
}

fn legal(decided: &Decided) -> &'static str {
    let is_legal = |part: &Part| part.answer == Answer::Legal;
    if decided.parts.iter().all(is_legal) {
        ", legal"
    } else {
        ", ILLEGAL"
    }
}

fn lease_histories(row: &mut dyn FnMut(Row)) {
    for (clients, operations) in [(20, 10_000), (100, 1_000), (100, 100_000)] {
        let history = register_history(clients, operations);
        let (took, decided) = best(&FencedRegister::new(&Value::Null), &history, &ONE_CORE);
        let figure =
            format!("fenced register, one key, {clients} clients, {operations} operations");
        let made = history.operations.len();
        tell(row, figure, took, made, legal(&decided), within(took));
        let history = mutex_history(clients, operations);
        let (took, decided) = best(&FencedMutex::new(), &history, &ONE_CORE);
        let figure = format!("fenced mutex, one lock, {clients} clients, {operations} operations");
        let made = history.operations.len();
        tell(row, figure, took, made, legal(&decided), within(took));
    }
}

/// The same history on many keys, on one core and on all of them.
fn all_cores(row: &mut dyn FnMut(Row)) {
    let one = register_history(20, 20_000);
    let mut history = History {
        values: one.values.clone(),
        ..History::default()
    };
    for number in 0..16 {
        let key = history.names.intern(&format!("k{number}"));
        let stale = history.names.intern("stale-token");
        history
            .operations
            .extend(one.operations.iter().copied().map(|mut op| {
                op.key = Some(key);
                op.error = op.error.map(|_| stale);
                op.client = key;
                op
            }));
    }
    let model = FencedRegister::new(&Value::Null);
    let (alone, _) = best(&model, &history, &ONE_CORE);
    let (together, _) = best(&model, &history, &Limits::default());
    let times = alone.as_secs_f64() / together.as_secs_f64();
    let made = history.operations.len();
    tell(row, "16 keys, one core".to_owned(), alone, made, "", None);
    let more = format!(", {times:.2} times as fast");
    tell(
        row,
        "16 keys, all cores".to_owned(),
        together,
        made,
        &more,
        None,
    );
}
