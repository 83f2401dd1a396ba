//! A lock service, a fenced resource and their clients, as one state machine that draws what happens next.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::made::Dictionary;
use super::{Defect, Made, MadeValue, Settings};
use crate::history::{Function, History, Pairing, Type};

/// How often a holder writes at most before it ends its hold.
const LONGEST_HOLD: u32 = 60;

/// How many events a grant lives at most that nobody knows of.
const GHOST_LIVES: u64 = 200;

/// How many requests without an answer may be on their way to a late effect.
const MOST_LATE: usize = 64;

/// Makes the events of a history one after the other.
#[derive(Clone, Debug)]
pub struct Generator {
    settings: Settings,
    chance: ChaCha8Rng,
    locks: Vec<Lock>,
    keys: Vec<Key>,
    clients: Vec<Client>,
    busy: Vec<u32>,
    sleepers: Vec<u32>,
    late: Vec<Request>,
    in_flight: usize,
    invoked: u64,
    index: u64,
    time: u64,
    next_process: u64,
    defect: Option<Defect>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lock {
    /// The last token that was granted.
    token: u64,
    /// The last that somebody was told, and who.
    told: Option<(u64, u32)>,
    held: Option<Held>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    token: u64,
    /// Who knows of it, once somebody does.
    holder: Option<u32>,
    /// From this index on somebody else may have it, if nobody knows of it.
    expires: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Key {
    mark: u64,
    /// The highest token of a write that was answered ok.
    proven: u64,
    value: Option<(u32, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Client {
    process: u64,
    lock: u32,
    request: Option<Request>,
    hold: Option<Hold>,
    written: u64,
}

/// What a client believes.
#[derive(Clone, Copy, Debug)]
struct Hold {
    token: u64,
    writes_left: u32,
    asleep: bool,
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
struct Request {
    client: u32,
    function: Function,
    lock: u32,
    key: u32,
    token: u64,
    number: u64,
    /// What was proven of the key when it was sent.
    proven: u64,
    answer: Option<Answer>,
}

#[derive(Clone, Copy, Debug)]
enum Answer {
    Granted(u64),
    Held,
    Done,
    Refused(u64),
    Found(Key),
}

impl Generator {
    /// Nothing made yet.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let keys = settings.keys.max(1);
        let clients = settings.clients.max(1);
        let locks = settings.locks.clamp(1, keys.min(clients));
        let client = |number: u32| Client {
            process: number.into(),
            lock: number % locks,
            request: None,
            hold: None,
            written: 0,
        };
        Self {
            settings: settings.clone(),
            chance: ChaCha8Rng::seed_from_u64(settings.seed),
            locks: vec![Lock::default(); locks as usize],
            keys: vec![Key::default(); keys as usize],
            clients: (0..clients).map(client).collect(),
            busy: Vec::new(),
            sleepers: Vec::new(),
            late: Vec::new(),
            in_flight: (clients as usize).div_ceil(2),
            invoked: 0,
            index: 0,
            time: 0,
            next_process: clients.into(),
            defect: None,
        }
    }

    /// All of it, joined.
    ///
    /// # Panics
    /// Never: what is made contradicts nothing.
    #[must_use]
    pub fn history(self) -> History {
        let mut pairing = Pairing::new();
        let mut words = Dictionary::default();
        for (line, made) in self.enumerate() {
            let told = words.told(&made, pairing.history_mut());
            pairing
                .event(line + 1, made.index, made.time, told)
                .expect("what is made contradicts nothing");
        }
        pairing.finish()
    }

    /// The defect, once it is planted. A history may give no occasion for it: where nobody writes late, none is accepted.
    #[must_use]
    pub fn planted(&self) -> Option<Defect> {
        self.defect
    }

    /// The defect is planted from the second half on, once.
    fn breaks(&mut self, defect: Defect) -> bool {
        let now = self.settings.defect == Some(defect)
            && self.defect.is_none()
            && self.invoked * 2 >= self.settings.operations;
        if now {
            self.defect = Some(defect);
        }
        now
    }

    fn below(&mut self, bound: usize) -> usize {
        self.chance.random_range(0..bound.max(1))
    }

    fn happens(&mut self, share: f64) -> bool {
        self.chance.random::<f64>() < share
    }

    fn key_of(&mut self, lock: u32) -> u32 {
        let locks = self.locks.len();
        let own = (self.keys.len() - lock as usize).div_ceil(locks);
        let nth = self.below(own);
        lock + u32::try_from(nth * locks).unwrap_or_default()
    }

    /// An event, or nothing where what was drawn cannot be.
    fn draw(&mut self) -> Option<Made> {
        self.land_late();
        let done = self.invoked >= self.settings.operations;
        let full = self.busy.len() >= self.clients.len();
        let load = self.busy.len() as f64 / (2 * self.in_flight) as f64;
        if !self.busy.is_empty() && (done || full || self.happens(load)) {
            let place = self.below(self.busy.len());
            let client = self.busy.swap_remove(place);
            return Some(self.answer(client));
        }
        if !self.sleepers.is_empty() && self.happens(0.1) {
            let place = self.below(self.sleepers.len());
            return self.wake(place);
        }
        if self.happens(self.settings.reads) {
            let client = u32::try_from(self.below(self.clients.len())).unwrap_or_default();
            let lock = self.clients[client as usize].lock;
            let key = self.key_of(lock);
            return self.invoke(client, Function::Read, key, 0);
        }
        let lock = u32::try_from(self.below(self.locks.len())).unwrap_or_default();
        let holder = self.locks[lock as usize].held.and_then(|held| held.holder);
        match holder.filter(|_| !self.happens(0.02)) {
            Some(holder) => self.go_on(holder),
            None => self.try_to_take(lock),
        }
    }

    /// A sleeper writes once more, when its successor's token has arrived.
    fn wake(&mut self, place: usize) -> Option<Made> {
        let client = self.sleepers[place];
        let Client { lock, hold, .. } = self.clients[client as usize];
        let Some(hold) = hold.filter(|hold| hold.asleep) else {
            // It has forgotten its hold, or has another by now.
            self.sleepers.swap_remove(place);
            return None;
        };
        let key = self.key_of(lock);
        if self.keys[key as usize].mark > hold.token {
            let made = self.invoke(client, Function::Write, key, hold.token)?;
            self.sleepers.swap_remove(place);
            return Some(made);
        }
        if self.happens(0.01) {
            // It has waited for long, and gives up.
            self.sleepers.swap_remove(place);
            self.clients[client as usize].hold = None;
        }
        None
    }

    fn go_on(&mut self, holder: u32) -> Option<Made> {
        let Client {
            lock,
            hold,
            request,
            ..
        } = self.clients[holder as usize];
        if request.is_some() {
            return None;
        }
        let hold = hold?;
        if hold.writes_left > 0 {
            let key = self.key_of(lock);
            return self.invoke(holder, Function::Write, key, hold.token);
        }
        if self.happens(self.settings.zombies) {
            self.locks[lock as usize].held = None;
            self.clients[holder as usize].hold = Some(Hold {
                asleep: true,
                ..hold
            });
            self.sleepers.push(holder);
            return None;
        }
        self.invoke(holder, Function::Release, 0, hold.token)
    }

    fn try_to_take(&mut self, lock: u32) -> Option<Made> {
        let locks = self.locks.len();
        let own = (self.clients.len() - lock as usize).div_ceil(locks);
        let client = lock as usize + self.below(own) * locks;
        let known = self.clients[client];
        if known.hold.is_some() {
            return None;
        }
        let client = u32::try_from(client).unwrap_or_default();
        self.invoke(client, Function::Acquire, 0, 0)
    }

    fn invoke(&mut self, client: u32, function: Function, key: u32, token: u64) -> Option<Made> {
        let known = &mut self.clients[client as usize];
        if known.request.is_some() || (self.invoked >= self.settings.operations) {
            return None;
        }
        let write = function == Function::Write;
        if write {
            known.written += 1;
            if let Some(hold) = &mut known.hold {
                hold.writes_left = hold.writes_left.saturating_sub(1);
            }
        }
        let request = Request {
            client,
            function,
            lock: known.lock,
            key,
            token,
            number: known.written,
            proven: self.keys[key as usize].proven,
            answer: None,
        };
        self.clients[client as usize].request = Some(request);
        self.busy.push(client);
        self.invoked += 1;
        let made = Made {
            token: matches!(function, Function::Write | Function::Release).then_some(token),
            value: write.then_some(MadeValue::Of {
                client,
                number: request.number,
            }),
            ..self.event(&request, Type::Invoke)
        };
        if self.happens(0.5) {
            let answer = self.take_effect(&request);
            if let Some(request) = &mut self.clients[client as usize].request {
                request.answer = Some(answer);
            }
        }
        Some(made)
    }

    fn event(&mut self, request: &Request, kind: Type) -> Made {
        let index = self.index;
        self.index += 1;
        self.time += self.chance.random_range(1_000..30_000_u64);
        let on_key = matches!(request.function, Function::Read | Function::Write);
        Made {
            index,
            time: self.time,
            process: self.clients[request.client as usize].process,
            client: request.client,
            kind,
            function: request.function,
            lock: request.lock,
            key: on_key.then_some(request.key),
            token: None,
            value: None,
            high_water: None,
            error: None,
        }
    }

    /// What the services do, in one step.
    fn take_effect(&mut self, request: &Request) -> Answer {
        match request.function {
            Function::Acquire => self.grant(request),
            Function::Release => {
                let lock = &mut self.locks[request.lock as usize];
                if lock.held.is_some_and(|held| held.token == request.token) {
                    lock.held = None;
                }
                Answer::Done
            }
            Function::Write => {
                let key = request.key as usize;
                let mark = self.keys[key].mark;
                let stale = request.token < mark;
                let surely_stale = request.token < request.proven;
                if stale && !(surely_stale && self.breaks(Defect::StaleWrite)) {
                    return Answer::Refused(mark);
                }
                if !stale && self.breaks(Defect::LostWrite) {
                    return Answer::Done;
                }
                let key = &mut self.keys[key];
                key.mark = request.token.max(mark);
                key.value = Some((request.client, request.number));
                Answer::Done
            }
            _ => Answer::Found(self.keys[request.key as usize]),
        }
    }

    fn grant(&mut self, request: &Request) -> Answer {
        let lock = self.locks[request.lock as usize];
        if lock.held.is_some_and(|held| self.runs(held)) {
            return Answer::Held;
        }
        let before = lock.told.filter(|&(_, client)| client != request.client);
        let token = match before {
            Some((token, _)) if token > 1 && self.breaks(Defect::TokenRegression) => token - 1,
            Some((token, _)) if self.breaks(Defect::DuplicateToken) => token,
            _ => lock.token + 1,
        };
        self.locks[request.lock as usize] = Lock {
            token: token.max(lock.token),
            told: lock.told,
            held: Some(Held {
                token,
                holder: None,
                expires: self.index + GHOST_LIVES,
            }),
        };
        Answer::Granted(token)
    }

    /// A lease lapses when nobody prolongs it: nobody was told of it for long, or who was told has forgotten.
    fn runs(&self, held: Held) -> bool {
        let Some(holder) = held.holder else {
            return held.expires > self.index;
        };
        let hold = self.clients[holder as usize].hold;
        hold.is_some_and(|hold| hold.token == held.token)
    }

    fn answer(&mut self, client: u32) -> Made {
        let request = self.clients[client as usize].request.take();
        let request = request.expect("a busy client has sent a request");
        if self.happens(self.settings.timeouts) {
            return self.lose(&request);
        }
        let answer = match request.answer {
            Some(answer) => answer,
            None => self.take_effect(&request),
        };
        let known = &mut self.clients[client as usize];
        match (request.function, answer) {
            (Function::Acquire, Answer::Granted(token)) => {
                let writes_left = self.chance.random_range(1..=LONGEST_HOLD);
                self.clients[client as usize].hold = Some(Hold {
                    token,
                    writes_left,
                    asleep: false,
                });
                let lock = &mut self.locks[request.lock as usize];
                lock.told = Some((token, client));
                match &mut lock.held {
                    Some(held) if held.token == token => held.holder = Some(client),
                    // It was given on while the answer was on its way: whoever reads it is late already.
                    _ => {
                        if let Some(hold) = &mut self.clients[client as usize].hold {
                            hold.asleep = true;
                        }
                        self.sleepers.push(client);
                    }
                }
                Made {
                    token: Some(token),
                    ..self.event(&request, Type::Ok)
                }
            }
            (Function::Acquire, _) => Made {
                error: Some("held"),
                ..self.event(&request, Type::Fail)
            },
            (Function::Write, Answer::Refused(mark)) => {
                // It stops, and acquires anew.
                known.hold = None;
                self.forget(client, &request);
                let named = !self.happens(self.settings.nameless);
                Made {
                    high_water: named.then_some(mark),
                    error: Some("stale-token"),
                    ..self.event(&request, Type::Fail)
                }
            }
            (_, Answer::Found(key)) => {
                let invented = self.breaks(Defect::InventedValue);
                let told = !invented && !self.happens(self.settings.nameless);
                let value = match key.value {
                    _ if invented => MadeValue::Of {
                        client,
                        number: u64::MAX,
                    },
                    Some((client, number)) => MadeValue::Of { client, number },
                    None => MadeValue::Nothing,
                };
                Made {
                    value: Some(value),
                    high_water: told.then_some(key.mark),
                    ..self.event(&request, Type::Ok)
                }
            }
            (function, _) => {
                let asleep = known.hold.is_some_and(|hold| hold.asleep);
                if function == Function::Release || asleep {
                    known.hold = None;
                }
                if function == Function::Write {
                    let key = &mut self.keys[request.key as usize];
                    key.proven = key.proven.max(request.token);
                }
                self.event(&request, Type::Ok)
            }
        }
    }

    /// The answer is lost: the request takes effect now, later, or never.
    fn lose(&mut self, request: &Request) -> Made {
        let event = self.event(request, Type::Info);
        let client = request.client;
        if request.answer.is_none() && self.late.len() < MOST_LATE && self.happens(0.5) {
            self.late.push(*request);
        }
        let known = &mut self.clients[client as usize];
        known.process = self.next_process;
        self.next_process += 1;
        if matches!(request.function, Function::Release)
            || known.hold.is_some_and(|hold| hold.asleep)
        {
            known.hold = None;
            self.forget(client, request);
        }
        Made {
            error: Some("timeout"),
            ..event
        }
    }

    /// The client gives up its hold; the lock service frees what nobody will give back.
    fn forget(&mut self, client: u32, request: &Request) {
        let held = &mut self.locks[request.lock as usize].held;
        if held.is_some_and(|held| held.holder == Some(client)) {
            *held = None;
        }
    }

    fn land_late(&mut self) {
        if !self.late.is_empty() && self.happens(0.05) {
            let place = self.below(self.late.len());
            let request = self.late.swap_remove(place);
            self.take_effect(&request);
        }
    }
}

impl Iterator for Generator {
    type Item = Made;

    fn next(&mut self) -> Option<Made> {
        loop {
            if self.invoked >= self.settings.operations && self.busy.is_empty() {
                return None;
            }
            if let Some(made) = self.draw() {
                return Some(made);
            }
        }
    }
}
