//! Tells small histories in tests. Each event takes a millisecond and the next index; each client has a process of
//! its own, a second one where the first is busy, and a new one after an `info`.

use std::collections::HashMap;

use crate::history::{
    Event, FaultEvent, FaultOutcome, FaultPhase, Header, History, Line, MarkScope, Token, Type,
    pair,
};

const MILLISECOND: u64 = 1_000_000;

/// An invocation that waits for its completion.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    event: Event,
}

/// A history in the making.
#[derive(Debug, Default)]
pub(crate) struct Scenario {
    header: Header,
    lines: Vec<Line>,
    time: u64,
    processes: u64,
    /// Idle processes of each client.
    idle: HashMap<String, Vec<u64>>,
}

impl Scenario {
    pub fn new() -> Self {
        Self {
            header: Header {
                format: 1,
                ..Header::default()
            },
            ..Self::default()
        }
    }

    pub fn header(&mut self) -> &mut Header {
        &mut self.header
    }

    pub fn mark_by_lock(&mut self) {
        self.header.mark_scope = MarkScope::Lock;
    }

    /// Lets time pass without an event.
    pub fn wait_ms(&mut self, ms: u64) {
        self.time += ms * MILLISECOND;
    }

    pub fn history(&self) -> History {
        let header = Line::Header(Box::new(self.header.clone()));
        let lines: Vec<Line> = std::iter::once(header)
            .chain(self.lines.iter().cloned())
            .collect();
        pair(lines).expect("a scenario is well-formed")
    }

    fn next(&mut self) -> (u64, u64) {
        self.time += MILLISECOND;
        (self.lines.len() as u64, self.time)
    }

    pub fn call(
        &mut self,
        client: &str,
        f: &str,
        lock: Option<&str>,
        shape: impl FnOnce(&mut Event),
    ) -> Call {
        let idle = self.idle.entry(client.to_owned()).or_default().pop();
        let process = idle.unwrap_or_else(|| {
            self.processes += 1;
            self.processes
        });
        let (index, time) = self.next();
        let mut event = Event {
            index,
            time,
            client: Some(client.to_owned()),
            lock: lock.map(str::to_owned),
            ..Event::new(process, Type::Invoke, f)
        };
        shape(&mut event);
        self.lines.push(Line::Event(Box::new(event.clone())));
        Call { event }
    }

    pub fn end(&mut self, call: Call, kind: Type, shape: impl FnOnce(&mut Event)) -> [u64; 2] {
        let invoked = call.event.index;
        let (index, time) = self.next();
        let mut event = Event {
            index,
            time,
            kind,
            ..call.event
        };
        shape(&mut event);
        if kind != Type::Info {
            let client = event.client.clone().expect("a scenario names clients");
            self.idle.entry(client).or_default().push(event.process);
        }
        self.lines.push(Line::Event(Box::new(event)));
        [invoked, index]
    }

    pub fn ok(&mut self, call: Call) -> [u64; 2] {
        self.end(call, Type::Ok, |_| {})
    }

    pub fn info(&mut self, call: Call) -> [u64; 2] {
        self.end(call, Type::Info, |event| {
            event.error = Some("timeout".to_owned())
        })
    }

    pub fn refuse(&mut self, call: Call, high_water: Option<u64>) -> [u64; 2] {
        self.end(call, Type::Fail, |event| {
            event.error = Some("stale-token".to_owned());
            event.high_water = high_water.map(Token::from);
        })
    }

    pub fn acquire_call(&mut self, client: &str, lock: &str) -> Call {
        self.call(client, "acquire", Some(lock), |_| {})
    }

    pub fn granted(&mut self, call: Call, token: u64) -> [u64; 2] {
        self.end(call, Type::Ok, |event| event.token = Some(token.into()))
    }

    pub fn grant(&mut self, client: &str, lock: &str, token: u64) -> [u64; 2] {
        let call = self.acquire_call(client, lock);
        self.granted(call, token)
    }

    pub fn release(&mut self, client: &str, lock: &str, token: u64) -> [u64; 2] {
        let call = self.call(client, "release", Some(lock), |event| {
            event.token = Some(token.into())
        });
        self.ok(call)
    }

    pub fn renew(&mut self, client: &str, lock: &str, token: u64) -> [u64; 2] {
        let call = self.call(client, "renew", Some(lock), |event| {
            event.token = Some(token.into())
        });
        self.ok(call)
    }

    pub fn write_call(
        &mut self,
        client: &str,
        lock: &str,
        key: &str,
        token: u64,
        value: &str,
    ) -> Call {
        self.call(client, "write", Some(lock), |event| {
            event.key = Some(key.to_owned());
            event.token = Some(token.into());
            event.value = Some(value.into());
        })
    }

    pub fn write(
        &mut self,
        client: &str,
        lock: &str,
        key: &str,
        token: u64,
        value: &str,
    ) -> [u64; 2] {
        let call = self.write_call(client, lock, key, token, value);
        self.ok(call)
    }

    pub fn refused(
        &mut self,
        client: &str,
        lock: &str,
        key: &str,
        token: u64,
        value: &str,
        high_water: Option<u64>,
    ) -> [u64; 2] {
        let call = self.write_call(client, lock, key, token, value);
        self.refuse(call, high_water)
    }

    pub fn read_call(&mut self, client: &str, key: &str) -> Call {
        self.call(client, "read", None, |event| {
            event.key = Some(key.to_owned())
        })
    }

    pub fn found(&mut self, call: Call, value: Option<&str>, high_water: Option<u64>) -> [u64; 2] {
        self.end(call, Type::Ok, |event| {
            event.value = Some(value.map_or(serde_json::Value::Null, Into::into));
            event.high_water = high_water.map(Token::from);
        })
    }

    pub fn read(
        &mut self,
        client: &str,
        key: &str,
        value: Option<&str>,
        high_water: Option<u64>,
    ) -> [u64; 2] {
        let call = self.read_call(client, key);
        self.found(call, value, high_water)
    }

    /// One line of a fault; its number joins a begin to its end.
    pub fn fault(
        &mut self,
        kind: &str,
        phase: FaultPhase,
        id: u64,
        on: &str,
        outcome: FaultOutcome,
    ) {
        let (index, time) = self.next();
        self.lines.push(Line::Fault(Box::new(FaultEvent {
            index,
            time,
            fault: kind.to_owned(),
            phase,
            id,
            on: vec![on.to_owned()],
            plan: Some(if kind == "kill" {
                format!("kill:{on}")
            } else {
                kind.to_owned()
            }),
            lock: None,
            client: None,
            token: None,
            outcome: Some(outcome),
            evidence: None,
        })));
    }
}
