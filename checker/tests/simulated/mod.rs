//! Small recordings of a simulated system: an issuer, fenced registers, and clients that lose answers, go on under new
//! processes, wake up late with old tokens, share sessions and learn late of grants. With a lie the system breaks one
//! promise now and then; without one it keeps all of them.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

/// The promise that a system breaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lie {
    /// A stale write is accepted.
    AcceptsStale,
    /// A write takes effect and is answered as refused.
    DeniesOwnSuccess,
    /// A write is acknowledged and never takes effect.
    LosesAcknowledged,
    /// A read returns the value before the present one.
    ReadsTheOld,
    /// A reported high water is another one.
    InventsMarks,
    /// A fresh write is refused.
    RefusesFresh,
    /// A grant carries an old token.
    GrantsAgain,
}

pub const LIES: [Lie; 7] = [
    Lie::AcceptsStale,
    Lie::DeniesOwnSuccess,
    Lie::LosesAcknowledged,
    Lie::ReadsTheOld,
    Lie::InventsMarks,
    Lie::RefusesFresh,
    Lie::GrantsAgain,
];

/// How a system is built, and how it is recorded.
#[derive(Clone, Debug)]
pub struct Make {
    pub lie: Option<Lie>,
    /// Grants raise marks too, and each key shows it before anything else happens.
    pub raising: bool,
    /// The high water is the lock's.
    pub by_lock: bool,
    /// Clients are not named.
    pub unnamed: bool,
    /// Appends, writes without a token and repeated values are among the operations.
    pub odd: bool,
    pub steps: usize,
}

impl Make {
    pub fn plain() -> Self {
        Self {
            lie: None,
            raising: false,
            by_lock: false,
            unnamed: false,
            odd: false,
            steps: 70,
        }
    }
}

#[derive(Clone, Debug)]
enum Ask {
    Acquire,
    Renew(i64),
    Release(i64),
    Write {
        key: usize,
        token: Option<i64>,
        value: Value,
        append: bool,
    },
    Read(usize),
}

#[derive(Clone, Debug)]
enum Answer {
    Ok(Value),
    No(Value),
}

#[derive(Debug)]
struct Flight {
    thread: usize,
    lock: usize,
    ask: Ask,
    answer: Option<Answer>,
    /// Given up by its client.
    lost: bool,
}

#[derive(Debug)]
struct Thread {
    client: usize,
    process: u64,
    busy: bool,
    /// Whether it takes locks.
    main: bool,
}

#[derive(Clone, Debug, Default)]
struct Register {
    value: Value,
    before: Value,
    mark: i64,
}

struct World {
    rng: ChaCha8Rng,
    make: Make,
    lines: Vec<Value>,
    time: u64,
    processes: u64,
    values: i64,
    threads: Vec<Thread>,
    flights: Vec<Flight>,
    /// By holder and lock: the token that it believes in.
    believed: Vec<[Option<i64>; 2]>,
    /// By lock: the newest token, and whose it is until it is released.
    newest: [(i64, Option<usize>); 2],
    keys: Vec<Register>,
    locks: usize,
    sessions: bool,
    tells: f64,
}

/// The lines of one recording.
pub fn recording(seed: u64, make: &Make) -> Vec<String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let locks = rng.random_range(1..=2);
    let clients = rng.random_range(2..=3);
    let mut world = World {
        make: make.clone(),
        lines: Vec::new(),
        time: 0,
        processes: 0,
        values: 0,
        threads: Vec::new(),
        flights: Vec::new(),
        believed: vec![[None; 2]; clients],
        newest: [
            (rng.random_range(-2..4), None),
            (rng.random_range(-2..4), None),
        ],
        keys: vec![Register::default(); rng.random_range(locks..=3)],
        locks,
        sessions: !make.unnamed && rng.random_bool(0.3),
        tells: [0.0, 0.5, 1.0][rng.random_range(0..3)],
        rng,
    };
    for client in 0..clients {
        world.begin_thread(client, true);
        if !make.unnamed && world.rng.random_bool(0.4) {
            world.begin_thread(client, false);
        }
    }
    world.run();
    let header = make
        .by_lock
        .then(|| json!({"type": "header", "format": 1, "mark_scope": "lock"}).to_string());
    header
        .into_iter()
        .chain(world.lines.iter().map(Value::to_string))
        .collect()
}

impl World {
    fn run(&mut self) {
        if self.make.raising {
            self.show_that_grants_raise();
        }
        for _ in 0..self.make.steps {
            match self.rng.random_range(0..10) {
                0..4 => self.start(),
                4..7 => self.take_effect(),
                _ => self.complete(),
            }
        }
        for _ in 0..self.rng.random_range(0..10) {
            self.take_effect();
            self.complete();
        }
    }

    fn begin_thread(&mut self, client: usize, main: bool) {
        self.processes += 1;
        self.threads.push(Thread {
            client,
            process: self.processes,
            busy: false,
            main,
        });
    }

    /// The first two clients are one holder where sessions are shared.
    fn holder(&self, client: usize) -> usize {
        if self.sessions && client == 1 {
            0
        } else {
            client
        }
    }

    fn lies(&mut self, lie: Lie) -> bool {
        self.make.lie == Some(lie) && self.rng.random_bool(0.6)
    }

    fn log(&mut self, thread: usize, lock: usize, kind: &str, f: &str, fields: &Value) {
        self.time += self.rng.random_range(1..5) * 1_000_000;
        let Thread {
            client, process, ..
        } = self.threads[thread];
        let mut line = json!({
            "index": self.lines.len() as u64 + 1, "time": self.time, "process": process, "type": kind, "f": f,
        });
        if !self.make.unnamed {
            line["client"] = format!("c{client}").into();
        }
        if self.sessions && client < 2 {
            line["session"] = "s".into();
        }
        if f != "read" {
            line["lock"] = format!("L{lock}").into();
        }
        for (name, value) in fields.as_object().into_iter().flatten() {
            line[name] = value.clone();
        }
        self.lines.push(line);
    }

    fn show_that_grants_raise(&mut self) {
        for lock in 0..self.locks {
            let token = self.newest[lock].0.max(0) + 1;
            self.newest[lock] = (token, Some(0));
            self.believed[0][lock] = Some(token);
            self.log(0, lock, "invoke", "acquire", &json!({}));
            self.log(0, lock, "ok", "acquire", &json!({"token": token}));
            for key in (lock..self.keys.len()).step_by(self.locks) {
                self.keys[key].mark = token;
                let name = format!("k{key}");
                self.log(0, lock, "invoke", "read", &json!({"key": name}));
                let found = json!({"key": name, "value": null, "high_water": token});
                self.log(0, lock, "ok", "read", &found);
            }
        }
    }

    fn start(&mut self) {
        let idle: Vec<usize> = (0..self.threads.len())
            .filter(|&at| !self.threads[at].busy)
            .collect();
        let Some(&thread) = idle.choose(&mut self.rng) else {
            return;
        };
        let key = self.rng.random_range(0..self.keys.len());
        let lock = key % self.locks;
        let holder = self.holder(self.threads[thread].client);
        let believed = self.believed[holder][lock];
        let main = self.threads[thread].main;
        let ask = match (believed, self.rng.random_range(0..12)) {
            (_, 0..3) => Ask::Read(key),
            (Some(token), 3) if main => Ask::Renew(token),
            (Some(token), 4) if main => {
                self.believed[holder][lock] = None;
                Ask::Release(token)
            }
            (Some(token), 5..11) => {
                self.values += 1;
                let odd = if self.make.odd {
                    self.rng.random_range(0..12)
                } else {
                    9
                };
                let value = if odd == 0 { 1 } else { self.values };
                Ask::Write {
                    key,
                    token: (odd != 1).then_some(token),
                    value: value.into(),
                    append: odd == 2,
                }
            }
            _ if main => Ask::Acquire,
            _ => Ask::Read(key),
        };
        let (f, fields) = match &ask {
            Ask::Acquire => ("acquire", json!({})),
            Ask::Renew(token) => ("renew", json!({"token": token})),
            Ask::Release(token) => ("release", json!({"token": token})),
            Ask::Read(key) => ("read", json!({"key": format!("k{key}")})),
            Ask::Write {
                key,
                token,
                value,
                append,
            } => {
                let mut fields = json!({"key": format!("k{key}"), "value": value});
                if let Some(token) = token {
                    fields["token"] = (*token).into();
                }
                (if *append { "append" } else { "write" }, fields)
            }
        };
        self.log(thread, lock, "invoke", f, &fields);
        self.threads[thread].busy = true;
        self.flights.push(Flight {
            thread,
            lock,
            ask,
            answer: None,
            lost: false,
        });
    }

    fn take_effect(&mut self) {
        let waiting: Vec<usize> = (0..self.flights.len())
            .filter(|&at| self.flights[at].answer.is_none())
            .collect();
        let Some(&at) = waiting.choose(&mut self.rng) else {
            return;
        };
        let (lock, ask) = (self.flights[at].lock, self.flights[at].ask.clone());
        let holder = self.holder(self.threads[self.flights[at].thread].client);
        let answer = match ask {
            Ask::Acquire => self.acquire(lock, holder),
            Ask::Renew(token) if self.newest[lock] == (token, Some(holder)) => {
                Answer::Ok(json!({"token": token}))
            }
            Ask::Renew(_) => Answer::No(json!({"error": "not yours"})),
            Ask::Release(token) => {
                if self.newest[lock] == (token, Some(holder)) {
                    self.newest[lock].1 = None;
                }
                Answer::Ok(json!({"token": token}))
            }
            Ask::Read(key) => self.read(key),
            Ask::Write {
                key,
                token,
                value,
                append,
            } => self.write(key, token, value, append),
        };
        self.flights[at].answer = Some(answer);
    }

    fn acquire(&mut self, lock: usize, holder: usize) -> Answer {
        if self.newest[lock].1 == Some(holder) {
            return Answer::Ok(json!({"token": self.newest[lock].0}));
        }
        let step = if self.lies(Lie::GrantsAgain) {
            self.rng.random_range(-2..=0)
        } else if self.make.raising {
            // What a lost acquire was granted is told from an invention because tokens go on step by step.
            1
        } else {
            [1, 1, 1, 5][self.rng.random_range(0..4)]
        };
        let token = self.newest[lock].0 + step;
        self.newest[lock] = (token, Some(holder));
        if self.make.raising {
            for key in (lock..self.keys.len()).step_by(self.locks) {
                self.keys[key].mark = self.keys[key].mark.max(token);
            }
        }
        Answer::Ok(json!({"token": token}))
    }

    /// With marks by lock the first key of the lock keeps them.
    fn mark(&mut self, key: usize) -> &mut i64 {
        let keeper = if self.make.by_lock {
            key % self.locks
        } else {
            key
        };
        &mut self.keys[keeper].mark
    }

    fn told(&mut self, mut fields: Value, mark: i64) -> Value {
        let mark = if self.lies(Lie::InventsMarks) {
            [mark + 1, mark - 1, self.newest[0].0, 987_654_321][self.rng.random_range(0..4)]
        } else {
            mark
        };
        if self.rng.random_bool(self.tells) {
            fields["high_water"] = mark.into();
        }
        fields
    }

    fn read(&mut self, key: usize) -> Answer {
        let mark = *self.mark(key);
        let old = self.lies(Lie::ReadsTheOld);
        let register = &self.keys[key];
        let value = if old {
            &register.before
        } else {
            &register.value
        };
        // The store spells its numbers in its own way.
        let value = value
            .as_i64()
            .map_or(Value::Null, |number| json!(number as f64));
        let fields = json!({"value": value});
        Answer::Ok(self.told(fields, mark))
    }

    fn write(&mut self, key: usize, token: Option<i64>, value: Value, append: bool) -> Answer {
        let mark = *self.mark(key);
        let refused = json!({"error": "stale-token"});
        if token.is_some_and(|token| token < mark) && !self.lies(Lie::AcceptsStale) {
            return Answer::No(self.told(refused, mark));
        }
        if self.lies(Lie::RefusesFresh) {
            let mark = mark + self.rng.random_range(0..3);
            return Answer::No(self.told(refused, mark));
        }
        if self.rng.random_bool(0.03) {
            return Answer::No(json!({"error": "disk full"}));
        }
        if !self.lies(Lie::LosesAcknowledged) {
            *self.mark(key) = mark.max(token.unwrap_or(mark));
            let register = &mut self.keys[key];
            register.before = std::mem::replace(&mut register.value, value);
            if append {
                register.value = register.before.clone();
            }
        }
        if self.lies(Lie::DeniesOwnSuccess) {
            let mark = *self.mark(key);
            return Answer::No(self.told(refused, mark));
        }
        Answer::Ok(json!({}))
    }

    fn complete(&mut self) {
        let open: Vec<usize> = (0..self.flights.len())
            .filter(|&at| !self.flights[at].lost)
            .collect();
        let Some(&at) = open.choose(&mut self.rng) else {
            return;
        };
        let (thread, lock) = (self.flights[at].thread, self.flights[at].lock);
        let f = match &self.flights[at].ask {
            Ask::Acquire => "acquire",
            Ask::Renew(_) => "renew",
            Ask::Release(_) => "release",
            Ask::Write { append: true, .. } => "append",
            Ask::Write { .. } => "write",
            Ask::Read(_) => "read",
        };
        let gives_up = self.rng.random_bool(0.12);
        let Some(answer) = self.flights[at].answer.clone().filter(|_| !gives_up) else {
            if gives_up {
                self.give_up(at, f);
            }
            return;
        };
        let flight = self.flights.swap_remove(at);
        self.threads[thread].busy = false;
        let believed = &mut self.believed[if self.sessions && self.threads[thread].client == 1 {
            0
        } else {
            self.threads[thread].client
        }][lock];
        match (&flight.ask, &answer) {
            (Ask::Acquire, Answer::Ok(fields)) => *believed = fields["token"].as_i64(),
            (
                Ask::Renew(token)
                | Ask::Write {
                    token: Some(token), ..
                },
                Answer::No(_),
            ) if *believed == Some(*token) => {
                *believed = None;
            }
            _ => {}
        }
        let (kind, fields) = match &answer {
            Answer::Ok(fields) => ("ok", fields),
            Answer::No(fields) => ("fail", fields),
        };
        self.log(thread, lock, kind, f, fields);
    }

    /// The client goes on under a new process; what it asked for may still happen. It may learn of a grant later.
    fn give_up(&mut self, at: usize, f: &str) {
        let (thread, lock) = (self.flights[at].thread, self.flights[at].lock);
        self.log(thread, lock, "info", f, &json!({"error": "timeout"}));
        self.flights[at].lost = true;
        self.processes += 1;
        self.threads[thread].process = self.processes;
        self.threads[thread].busy = false;
        let holder = self.holder(self.threads[thread].client);
        if let (Ask::Acquire, Some(Answer::Ok(fields))) =
            (&self.flights[at].ask, &self.flights[at].answer)
            && self.rng.random_bool(0.3)
        {
            self.believed[holder][lock] = fields["token"].as_i64();
        }
    }
}
