//! Reads the logs that other checkers' test suites use, just well enough for tests: whatever is odd ends the test.

use fencepost_checker::history::{Event, History, Line, Type, pair};
use serde_json::{Map, Value};

/// An event without anything but what every event has.
pub fn event(index: u64, process: u64, kind: Type, f: &str, value: Option<Value>) -> Event {
    Event {
        index,
        time: index * 1000,
        value,
        ..Event::new(process, kind, f)
    }
}

/// Joins events; a process that goes on after an `info` becomes a new one.
pub fn joined(events: Vec<Event>) -> History {
    let mut lives: std::collections::HashMap<u64, u64> = std::collections::HashMap::new();
    let lines = events.into_iter().map(|mut event| {
        let life = lives.entry(event.process).or_default();
        let process = event.process * 1000 + *life;
        *life += u64::from(event.kind == Type::Info);
        event.process = process;
        Line::Event(Box::new(event))
    });
    pair(lines.collect::<Vec<_>>()).expect("a history")
}

fn kind(word: &str) -> Type {
    match word {
        "invoke" => Type::Invoke,
        "ok" => Type::Ok,
        "fail" => Type::Fail,
        "info" => Type::Info,
        other => panic!("no type: {other}"),
    }
}

/// `INFO  jepsen.util - PROCESS<tab>:TYPE<tab>:F<tab>VALUE`
#[allow(dead_code)]
pub fn etcd(text: &str) -> History {
    let mut events = Vec::new();
    for line in text.lines() {
        let Some(line) = line.strip_prefix("INFO  jepsen.util - ") else {
            continue;
        };
        let mut rest = line;
        let mut word = || {
            let (word, after) = rest.trim_start().split_once(char::is_whitespace)?;
            rest = after.trim();
            Some(word)
        };
        let (Some(process), Some(kind_), Some(f)) = (word(), word(), word()) else {
            panic!("{line}");
        };
        let value = rest;
        let Ok(process) = process.parse() else {
            continue;
        };
        let kind = kind(kind_.trim_start_matches(':'));
        let value = Some(edn(value)).filter(|_| value != ":timed-out");
        let f = f.trim_start_matches(':');
        events.push(event(events.len() as u64, process, kind, f, value));
    }
    joined(events)
}

/// Maps of events, with or without a list around them; the processes of a nemesis are left out.
#[allow(dead_code)]
pub fn jepsen(text: &str) -> History {
    let mut read = Edn { rest: text };
    let mut events = Vec::new();
    while read.skip() {
        let values = match read.value() {
            Value::Array(values) => values,
            value => vec![value],
        };
        for value in values {
            let text = |field: &str| value[field].as_str().unwrap_or_else(|| panic!("{value}"));
            let Some(process) = value["process"].as_u64() else {
                continue;
            };
            let told = value.get("value").cloned();
            let mut event = event(
                events.len() as u64,
                process,
                kind(text("type")),
                text("f"),
                told,
            );
            event.key = value.get("key").and_then(Value::as_str).map(str::to_owned);
            events.push(event);
        }
    }
    joined(events)
}

/// One EDN value as JSON; a keyword is its name.
fn edn(text: &str) -> Value {
    let mut read = Edn { rest: text };
    assert!(read.skip(), "nothing to read");
    read.value()
}

struct Edn<'a> {
    rest: &'a str,
}

impl Edn<'_> {
    /// Skips what is between values; `false` at the end.
    fn skip(&mut self) -> bool {
        loop {
            self.rest = self
                .rest
                .trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            match self.rest.strip_prefix(';') {
                Some(comment) => self.rest = comment.split_once('\n').map_or("", |(_, rest)| rest),
                None => return !self.rest.is_empty(),
            }
        }
    }

    fn value(&mut self) -> Value {
        match self.rest.as_bytes()[0] {
            b'{' => {
                let parts = self.until('}');
                let pairs = parts.chunks(2);
                let field = |value: &Value| value.as_str().expect("a keyword").to_owned();
                let map: Map<_, _> = pairs
                    .map(|pair| (field(&pair[0]), pair[1].clone()))
                    .collect();
                map.into()
            }
            b'[' => self.until(']').into(),
            b'(' => self.until(')').into(),
            b'"' => {
                let mut quoted = serde_json::Deserializer::from_str(self.rest).into_iter();
                let value = quoted.next().expect("a text").expect("a closed text");
                self.rest = &self.rest[quoted.byte_offset()..];
                value
            }
            _ => {
                let ends = |c: char| c.is_whitespace() || "()[]{},;\"".contains(c);
                let end = self.rest.find(ends).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                match word {
                    "nil" => Value::Null,
                    "true" => true.into(),
                    "false" => false.into(),
                    _ => word
                        .parse::<i64>()
                        .map_or_else(|_| word.trim_start_matches(':').into(), Into::into),
                }
            }
        }
    }

    fn until(&mut self, end: char) -> Vec<Value> {
        self.rest = &self.rest[1..];
        let mut values = Vec::new();
        while self.skip() && !self.rest.starts_with(end) {
            values.push(self.value());
        }
        self.rest = &self.rest[1..];
        values
    }
}
