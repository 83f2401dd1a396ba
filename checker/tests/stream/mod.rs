//! A recording of any length, made line by line: locks with leases that end, zombies that write on until they are
//! refused, lost answers, and clients that go on under new processes. The system keeps its promises, until it is asked to
//! break one.

use fencepost_checker::history::{Event, Token, Type};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

/// How large the system is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub clients: usize,
    pub locks: usize,
    pub keys_of_lock: usize,
    /// Operations in all.
    pub operations: u64,
}

#[derive(Clone, Debug)]
enum Ask {
    Acquire,
    Write { key: usize, token: u64, value: u64 },
    Read { key: usize },
}

#[derive(Debug)]
struct Client {
    name: String,
    process: u64,
    lock: usize,
    token: Option<u64>,
    asks: Option<Ask>,
    values: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Register {
    mark: u64,
    /// Who wrote the present value, and which of its values it is.
    value: Option<(usize, u64)>,
}

/// The system, its clients, and how far they are.
#[derive(Debug)]
pub struct Stream {
    rng: ChaCha8Rng,
    size: Size,
    clients: Vec<Client>,
    locks: Vec<String>,
    keys: Vec<String>,
    newest: Vec<u64>,
    registers: Vec<Register>,
    processes: u64,
    index: u64,
    time: u64,
    sent: u64,
    /// From here on the resource accepts whatever is written.
    pub broken: bool,
}

impl Stream {
    pub fn new(seed: u64, size: Size) -> Self {
        let client = |at: usize| Client {
            name: format!("c{at}"),
            process: at as u64,
            lock: at % size.locks,
            token: None,
            asks: None,
            values: 0,
        };
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            size,
            clients: (0..size.clients).map(client).collect(),
            locks: (0..size.locks).map(|at| format!("lock-{at}")).collect(),
            keys: (0..size.locks * size.keys_of_lock)
                .map(|at| format!("key-{at}"))
                .collect(),
            newest: vec![0; size.locks],
            registers: vec![Register::default(); size.locks * size.keys_of_lock],
            processes: size.clients as u64,
            index: 0,
            time: 0,
            sent: 0,
            broken: false,
        }
    }

    /// Goes on for so many operations more.
    pub fn go_on(&mut self, operations: u64) {
        self.size.operations += operations;
    }

    fn event(&mut self, at: usize, kind: Type, f: &str) -> Event {
        self.time += self.rng.random_range(1_000..20_000);
        let event = Event {
            index: self.index,
            time: self.time,
            client: Some(self.clients[at].name.clone()),
            ..Event::new(self.clients[at].process, kind, f)
        };
        self.index += 1;
        event
    }

    fn send(&mut self, at: usize) -> Event {
        self.sent += 1;
        let lock = self.clients[at].lock;
        let key = lock * self.size.keys_of_lock + self.rng.random_range(0..self.size.keys_of_lock);
        let ask = match self.clients[at].token {
            _ if self.rng.random_bool(0.3) => Ask::Read { key },
            Some(token) => {
                self.clients[at].values += 1;
                let value = self.clients[at].values;
                Ask::Write { key, token, value }
            }
            None => Ask::Acquire,
        };
        let event = match &ask {
            Ask::Acquire => self.event(at, Type::Invoke, "acquire"),
            Ask::Read { .. } => self.event(at, Type::Invoke, "read"),
            Ask::Write { .. } => self.event(at, Type::Invoke, "write"),
        };
        let event = match ask {
            Ask::Acquire => Event {
                lock: Some(self.locks[lock].clone()),
                ..event
            },
            Ask::Read { key } => Event {
                key: Some(self.keys[key].clone()),
                ..event
            },
            Ask::Write { key, token, value } => Event {
                lock: Some(self.locks[lock].clone()),
                key: Some(self.keys[key].clone()),
                token: Some(token.into()),
                value: Some(text(at, value)),
                ..event
            },
        };
        self.clients[at].asks = Some(ask);
        event
    }

    fn answer(&mut self, at: usize, ask: Ask) -> Event {
        if self.rng.random_bool(0.001) {
            return self.lose(at, ask);
        }
        match ask {
            Ask::Acquire => {
                let lock = self.clients[at].lock;
                // A rival is let in once in a while: then a lease has ended.
                if self.rng.random_bool(0.9) {
                    let event = self.event(at, Type::Fail, "acquire");
                    return Event {
                        error: Some("held".to_owned()),
                        ..event
                    };
                }
                self.newest[lock] += 1;
                let token = self.newest[lock];
                self.clients[at].token = Some(token);
                let event = self.event(at, Type::Ok, "acquire");
                Event {
                    token: Some(token.into()),
                    ..event
                }
            }
            Ask::Read { key } => {
                let Register { mark, value } = self.registers[key];
                let event = self.event(at, Type::Ok, "read");
                Event {
                    value: Some(value.map_or(Value::Null, |(by, value)| text(by, value))),
                    high_water: Some(Token::from(mark)),
                    ..event
                }
            }
            Ask::Write { key, token, value } => {
                if self.take(at, key, token, value) {
                    return self.event(at, Type::Ok, "write");
                }
                self.clients[at].token = None;
                let mark = self.registers[key].mark;
                let event = self.event(at, Type::Fail, "write");
                Event {
                    error: Some("stale-token".to_owned()),
                    high_water: Some(mark.into()),
                    ..event
                }
            }
        }
    }

    fn take(&mut self, at: usize, key: usize, token: u64, value: u64) -> bool {
        let register = &mut self.registers[key];
        if token < register.mark && !self.broken {
            return false;
        }
        register.mark = token.max(register.mark);
        register.value = Some((at, value));
        true
    }

    /// The answer is lost. Half of what was asked for has happened.
    fn lose(&mut self, at: usize, ask: Ask) -> Event {
        let f = match ask {
            Ask::Acquire => "acquire",
            Ask::Read { .. } => "read",
            Ask::Write { key, token, value } => {
                if self.rng.random_bool(0.5) {
                    self.take(at, key, token, value);
                }
                "write"
            }
        };
        let event = self.event(at, Type::Info, f);
        self.clients[at].process = self.processes;
        self.processes += 1;
        Event {
            error: Some("timeout".to_owned()),
            ..event
        }
    }
}

impl Iterator for Stream {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        if self.sent >= self.size.operations {
            return None;
        }
        let at = self.rng.random_range(0..self.clients.len());
        Some(match self.clients[at].asks.take() {
            None => self.send(at),
            Some(ask) => self.answer(at, ask),
        })
    }
}

fn text(client: usize, value: u64) -> Value {
    Value::String(format!("c{client}-{value}"))
}
