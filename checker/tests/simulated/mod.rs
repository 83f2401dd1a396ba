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
    /// The high water falls back to nothing now and then.
    ForgetsMarks,
    /// The token is looked at when a write comes in, and the value is written when it is answered.
    ChecksThenWrites,
    /// One high water for the keys of all locks.
    SharesMarks,
    /// A token that equals the high water is refused.
    WantsMore,
    /// Writes without a token are always taken.
    TakesTokenless,
    /// The path `admin` is not fenced.
    OpenPath,
    /// Any renewal succeeds.
    RenewsBlindly,
    /// Any release frees the lock.
    ReleasesBlindly,
    /// The lock is granted although the lease runs.
    IgnoresLease,
    /// The lock is kept for its holder although the lease is over.
    KeepsForever,
    /// Tokens are counted in 16 bits with a sign.
    Wraps,
    /// Tokens are the clock's milliseconds.
    IsAClock,
    /// The first write carries a huge token.
    Poisons,
    /// Holders go on after a refusal.
    GoesOn,
    /// An append is done twice.
    AppendsTwice,
}

/// Systems that break one promise, and the findings of which one must name it.
pub fn sabotaged() -> Vec<(Make, &'static [&'static str])> {
    let make = |lie| Make {
        lie: Some(lie),
        ..Make::plain()
    };
    let long = |lie| Make {
        steps: 400,
        ..make(lie)
    };
    let leased = |lie| Make {
        leases: true,
        steps: 150,
        ..make(lie)
    };
    let logs = |lie| Make {
        logs: true,
        ..make(lie)
    };
    vec![
        (make(Lie::AcceptsStale), &["stale-write-accepted"]),
        (make(Lie::DeniesOwnSuccess), &["failed-write-applied"]),
        (make(Lie::LosesAcknowledged), &["lost-acked-write"]),
        (make(Lie::ReadsTheOld), &["lost-acked-write"]),
        (
            make(Lie::InventsMarks),
            &["high-water-lost", "not-linearizable"],
        ),
        (make(Lie::RefusesFresh), &["fresh-write-refused"]),
        (
            make(Lie::GrantsAgain),
            &["token-regression", "duplicate-token"],
        ),
        (make(Lie::ForgetsMarks), &["high-water-lost"]),
        (long(Lie::ChecksThenWrites), &["non-atomic-check"]),
        (make(Lie::SharesMarks), &["cross-key-interference"]),
        (make(Lie::WantsMore), &["fresh-write-refused"]),
        (
            Make {
                odd: true,
                ..long(Lie::TakesTokenless)
            },
            &["unfenced-write-accepted"],
        ),
        (
            Make {
                paths: true,
                ..make(Lie::OpenPath)
            },
            &["partial-fencing"],
        ),
        (long(Lie::RenewsBlindly), &["phantom-renew"]),
        (
            Make {
                leases: true,
                steps: 2_000,
                ..make(Lie::ReleasesBlindly)
            },
            &["release-of-others-lock", "overlapping-grant"],
        ),
        (leased(Lie::IgnoresLease), &["overlapping-grant"]),
        (make(Lie::Wraps), &["token-overflow"]),
        (
            Make {
                steps: 250,
                ..make(Lie::IsAClock)
            },
            &["timestamp-token"],
        ),
        (
            Make {
                steps: 200,
                ..make(Lie::Poisons)
            },
            &["fenced-out"],
        ),
        (make(Lie::GoesOn), &["write-after-refusal", "hot-retry"]),
        (logs(Lie::LosesAcknowledged), &["lost-acked-write"]),
        (logs(Lie::AcceptsStale), &["stale-write-accepted"]),
        (logs(Lie::DeniesOwnSuccess), &["failed-write-applied"]),
        (
            Make {
                logs: true,
                ..long(Lie::ChecksThenWrites)
            },
            &["non-atomic-check"],
        ),
        (logs(Lie::AppendsTwice), &["not-linearizable"]),
    ]
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
    /// Compare-and-sets, writes without a token and repeated values are among the operations.
    pub odd: bool,
    /// Each key is a log: appends, and reads of the whole list.
    pub logs: bool,
    /// Locks have a lease, which acquires tell.
    pub leases: bool,
    /// Some writes come by the path `admin`.
    pub paths: bool,
    /// Workers are restarted: their clients get new names, and what was open stays open.
    pub restarts: bool,
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
            logs: false,
            leases: false,
            paths: false,
            restarts: false,
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
        admin: bool,
        /// A compare-and-set that finds something else.
        cas: bool,
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
    /// On whose behalf: a client in one of its lives.
    owner: usize,
    answer: Option<Answer>,
    /// Checked, and not written yet.
    pending: bool,
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
    /// By lock: until when the lease runs, and how long it is.
    until: [u64; 2],
    lease: u64,
    /// How often each client was restarted.
    lives: Vec<usize>,
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
    let first = match make.lie {
        Some(Lie::Wraps) => 32_760,
        _ => 0,
    };
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
            (rng.random_range(-2..4) + first, None),
            (rng.random_range(-2..4) + first, None),
        ],
        until: [0; 2],
        lease: rng.random_range(30..80) * 1_000_000,
        lives: vec![0; clients],
        keys: vec![
            Register {
                value: if make.logs { json!([]) } else { Value::Null },
                ..Register::default()
            };
            rng.random_range(locks..=3)
        ],
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

fn written_by(append: bool, cas: bool) -> &'static str {
    match (append, cas) {
        (true, _) => "append",
        (_, true) => "cas",
        _ => "write",
    }
}

impl World {
    fn run(&mut self) {
        if self.make.raising {
            self.show_that_grants_raise();
        }
        if self.make.lie == Some(Lie::Poisons) {
            self.keys.iter_mut().for_each(|key| key.mark = 987_654_321);
        }
        for _ in 0..self.make.steps {
            if self.make.restarts && self.rng.random_bool(0.02) {
                self.restart();
            }
            if self.lies(Lie::ForgetsMarks) && self.rng.random_bool(0.1) {
                let key = self.rng.random_range(0..self.keys.len());
                self.keys[key].mark = 0;
            }
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

    /// The same, in its present life.
    fn owner(&self, client: usize) -> usize {
        self.holder(client) + 1000 * self.lives[client]
    }

    /// A worker dies and comes back: nobody hears of what was open, and nothing is remembered.
    fn restart(&mut self) {
        let client = self.rng.random_range(0..self.lives.len());
        if self.sessions || self.make.unnamed {
            return;
        }
        self.lives[client] += 1;
        self.believed[client] = [None; 2];
        for flight in &mut self.flights {
            flight.lost |= self.threads[flight.thread].client == client;
        }
        for thread in &mut self.threads {
            if thread.client == client {
                self.processes += 1;
                thread.process = self.processes;
                thread.busy = false;
            }
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
            line["client"] = match self.lives[client] {
                0 => format!("c{client}"),
                life => format!("c{client}~{}", life + 1),
            }
            .into();
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
                    append: self.make.logs,
                    cas: odd == 2 && !self.make.logs,
                    admin: self.make.paths && self.rng.random_bool(0.4),
                }
            }
            _ if main => Ask::Acquire,
            _ => Ask::Read(key),
        };
        let (f, fields) = match &ask {
            Ask::Acquire if self.make.leases => ("acquire", json!({"ttl": self.lease / 1_000_000})),
            Ask::Acquire => ("acquire", json!({})),
            Ask::Renew(token) => ("renew", json!({"token": token})),
            Ask::Release(token) => ("release", json!({"token": token})),
            Ask::Read(key) => ("read", json!({"key": format!("k{key}")})),
            Ask::Write {
                key,
                token,
                value,
                append,
                admin,
                cas,
            } => {
                let mut fields = json!({"key": format!("k{key}"), "value": value});
                if let Some(token) = token {
                    fields["token"] = (*token).into();
                }
                if *admin {
                    fields["path"] = "admin".into();
                }
                (written_by(*append, *cas), fields)
            }
        };
        self.log(thread, lock, "invoke", f, &fields);
        self.threads[thread].busy = true;
        let owner = self.owner(self.threads[thread].client);
        self.flights.push(Flight {
            thread,
            lock,
            ask,
            owner,
            answer: None,
            pending: false,
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
        let (lock, ask, owner) = {
            let flight = &self.flights[at];
            (flight.lock, flight.ask.clone(), flight.owner)
        };
        let answer = match ask {
            Ask::Acquire => {
                if self.is_leased(lock, owner) && !self.lies(Lie::IgnoresLease) {
                    // It waits, or is told so.
                    if self.rng.random_bool(0.5) {
                        return;
                    }
                    Answer::No(json!({"error": "held"}))
                } else {
                    self.acquire(lock, owner)
                }
            }
            Ask::Renew(token) if self.newest[lock] == (token, Some(owner)) => {
                self.until[lock] = self.time + self.lease;
                Answer::Ok(json!({"token": token}))
            }
            Ask::Renew(token) if self.lies(Lie::RenewsBlindly) => {
                Answer::Ok(json!({"token": token}))
            }
            Ask::Renew(_) => Answer::No(json!({"error": "not yours"})),
            Ask::Release(token) => {
                if self.newest[lock] == (token, Some(owner)) || self.lies(Lie::ReleasesBlindly) {
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
                admin,
                cas,
            } => {
                if self.flights[at].pending {
                    self.apply(key, token, (!cas).then_some(value), append);
                    Answer::Ok(json!({}))
                } else if self.lies(Lie::ChecksThenWrites)
                    && token.is_some_and(|token| token >= *self.mark(key))
                {
                    self.flights[at].pending = true;
                    return;
                } else {
                    self.write(key, token, (!cas).then_some(value), append, admin)
                }
            }
        };
        self.flights[at].answer = Some(answer);
    }

    fn is_leased(&self, lock: usize, owner: usize) -> bool {
        self.make.leases
            && self.newest[lock].1.is_some_and(|other| other != owner)
            && (self.time <= self.until[lock] || self.make.lie == Some(Lie::KeepsForever))
    }

    fn acquire(&mut self, lock: usize, holder: usize) -> Answer {
        self.until[lock] = self.time + self.lease;
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
        let mut token = self.newest[lock].0 + step;
        match self.make.lie {
            Some(Lie::Wraps) if token > 32_767 => token -= 65_536,
            Some(Lie::IsAClock) => {
                let now = i64::try_from(self.time / 1_000_000).expect("a short run");
                token = 1_700_000_000_000 + now;
            }
            _ => {}
        }
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
        let keeper = if self.make.lie == Some(Lie::SharesMarks) {
            0
        } else if self.make.by_lock {
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
        let spelt = |value: &Value| {
            value
                .as_i64()
                .map_or(Value::Null, |number| json!(number as f64))
        };
        let value = match value {
            Value::Array(list) => list.iter().map(spelt).collect(),
            value => spelt(value),
        };
        let fields = json!({"value": value});
        Answer::Ok(self.told(fields, mark))
    }

    fn write(
        &mut self,
        key: usize,
        token: Option<i64>,
        value: Option<Value>,
        append: bool,
        admin: bool,
    ) -> Answer {
        let mark = *self.mark(key);
        let refused = json!({"error": "stale-token"});
        if token.is_none() && mark > 0 && !self.lies(Lie::TakesTokenless) {
            return Answer::No(json!({"error": "token required"}));
        }
        let open = admin && self.make.lie == Some(Lie::OpenPath);
        let least = mark + i64::from(self.make.lie == Some(Lie::WantsMore));
        if token.is_some_and(|token| token < least) && !open && !self.lies(Lie::AcceptsStale) {
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
            self.apply(key, token, value.clone(), append);
        }
        if append && self.lies(Lie::AppendsTwice) {
            self.apply(key, token, value, append);
        }
        if self.lies(Lie::DeniesOwnSuccess) {
            let mark = *self.mark(key);
            return Answer::No(self.told(refused, mark));
        }
        Answer::Ok(json!({}))
    }

    fn apply(&mut self, key: usize, token: Option<i64>, value: Option<Value>, append: bool) {
        let mark = self.mark(key);
        *mark = (*mark).max(token.unwrap_or(*mark));
        let Some(value) = value else { return };
        let register = &mut self.keys[key];
        register.before = register.value.clone();
        match &mut register.value {
            Value::Array(list) if append => list.push(value),
            _ if append => {}
            present => *present = value,
        }
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
            Ask::Write { append, cas, .. } => written_by(*append, *cas),
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
            ) if *believed == Some(*token) && self.make.lie != Some(Lie::GoesOn) => {
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
