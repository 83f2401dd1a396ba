//! One event of a made history, without a text in it.

use std::io::Write;

use crate::history::{Datum, Event, Function, History, Line, Name, Names, Token, Told, Type};

/// An invocation or a completion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Made {
    /// Position, from 0.
    pub index: u64,
    /// Nanoseconds since the beginning.
    pub time: u64,
    /// The logical thread.
    pub process: u64,
    /// The client's number, from 0; it is called `c0`.
    pub client: u32,
    /// Invocation, or which kind of completion.
    pub kind: Type,
    /// What was asked for: acquire, release, write or read.
    pub function: Function,
    /// The lock's number; it is called `L0`.
    pub lock: u32,
    /// The key's number, on reads and writes; it is called `k0`.
    pub key: Option<u32>,
    /// Granted, released or presented.
    pub token: Option<u64>,
    /// Written or read.
    pub value: Option<MadeValue>,
    /// What the resource told.
    pub high_water: Option<u64>,
    /// Why it failed or is unknown.
    pub error: Option<&'static str>,
}

/// A value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MadeValue {
    /// A read found nothing.
    Nothing,
    /// The text `c3-17`: the 17th write of client 3.
    Of {
        /// The client.
        client: u32,
        /// Its writes so far.
        number: u64,
    },
}

impl Made {
    /// As a line of a history.
    #[must_use]
    pub fn line(&self) -> Line {
        Line::Event(Box::new(Event {
            index: self.index,
            time: self.time,
            process: self.process,
            client: Some(format!("c{}", self.client)),
            kind: self.kind,
            f: self.function_name().to_owned(),
            lock: self.names_lock().then(|| format!("L{}", self.lock)),
            key: self.key.map(|key| format!("k{key}")),
            token: self.token.map(Token::from),
            value: self.value.map(|value| match value {
                MadeValue::Nothing => serde_json::Value::Null,
                MadeValue::Of { client, number } => format!("c{client}-{number}").into(),
            }),
            high_water: self.high_water.map(Token::from),
            error: self.error.map(str::to_owned),
            ttl: None,
            path: None,
            identity: None,
            session: None,
        }))
    }

    /// Adds the line of `history.jsonl` that it is, with its newline: the same as [`crate::history::jsonl::write`] makes
    /// of [`Made::line`].
    pub fn write(&self, out: &mut Vec<u8>) {
        // Writing to memory cannot fail.
        let _ = self.try_write(out);
    }

    fn try_write(&self, out: &mut Vec<u8>) -> std::io::Result<()> {
        let kind = match self.kind {
            Type::Invoke => "invoke",
            Type::Ok => "ok",
            Type::Fail => "fail",
            Type::Info => "info",
        };
        write!(
            out,
            r#"{{"index":{},"time":{},"process":{},"client":"c{}","type":"{kind}","f":"{}""#,
            self.index,
            self.time,
            self.process,
            self.client,
            self.function_name()
        )?;
        if self.names_lock() {
            write!(out, r#","lock":"L{}""#, self.lock)?;
        }
        if let Some(key) = self.key {
            write!(out, r#","key":"k{key}""#)?;
        }
        if let Some(token) = self.token {
            write!(out, r#","token":{token}"#)?;
        }
        match self.value {
            Some(MadeValue::Nothing) => out.extend_from_slice(br#","value":null"#),
            Some(MadeValue::Of { client, number }) => {
                write!(out, r#","value":"c{client}-{number}""#)?;
            }
            None => {}
        }
        if let Some(mark) = self.high_water {
            write!(out, r#","high_water":{mark}"#)?;
        }
        if let Some(error) = self.error {
            write!(out, r#","error":"{error}""#)?;
        }
        out.extend_from_slice(b"}\n");
        Ok(())
    }

    /// A read is of a key alone.
    pub(super) fn names_lock(&self) -> bool {
        self.function != Function::Read
    }

    fn function_name(&self) -> &'static str {
        match self.function {
            Function::Acquire => "acquire",
            Function::Release => "release",
            Function::Write => "write",
            _ => "read",
        }
    }
}

/// The names of clients, locks and keys in a history, by number, so that each is spelt once.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    clients: Vec<Option<Name>>,
    locks: Vec<Option<Name>>,
    keys: Vec<Option<Name>>,
    spelt: String,
}

impl Dictionary {
    /// The event in words of the history.
    pub fn told(&mut self, made: &Made, history: &mut History) -> Told {
        let names = &mut history.names;
        Told {
            kind: made.kind,
            process: made.process,
            function: made.function,
            client: Some(name(&mut self.clients, names, 'c', made.client)),
            lock: (made.names_lock()).then(|| name(&mut self.locks, names, 'L', made.lock)),
            key: (made.key).map(|key| name(&mut self.keys, names, 'k', key)),
            path: None,
            error: made.error.map(|error| names.intern(error)),
            identity: None,
            session: None,
            token: made.token.map(Token::from),
            value: made.value.map(|value| match value {
                MadeValue::Nothing => Datum::NULL,
                MadeValue::Of { client, number } => {
                    use std::fmt::Write as _;
                    self.spelt.clear();
                    // Writing to memory cannot fail.
                    let _ = write!(self.spelt, "c{client}-{number}");
                    history.values.intern_text(&self.spelt)
                }
            }),
            high_water: made.high_water.map(Token::from),
            ttl: None,
        }
    }
}

fn name(known: &mut Vec<Option<Name>>, names: &mut Names, letter: char, number: u32) -> Name {
    let place = number as usize;
    if known.len() <= place {
        known.resize(place + 1, None);
    }
    *known[place].get_or_insert_with(|| names.intern(&format!("{letter}{number}")))
}
