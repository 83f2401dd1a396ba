//! What was asked and answered, in order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use fencepost_checker::history::{Event, History, HistoryError, Line, Token, Type, jsonl};
use fencepost_checker::verdict::Judgement;
use fencepost_checker::{Model, judge};
use fencepost_workloads::client::{Failure, Outcome, Reading, Reason, Resource, Written};

/// The record of a probe. Position and time of a line are assigned together.
#[derive(Debug)]
pub struct Notes {
    begun: Instant,
    lines: Mutex<Vec<Event>>,
    next_process: AtomicU64,
}

impl Default for Notes {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            lines: Mutex::default(),
            next_process: AtomicU64::new(0),
        }
    }
}

impl Notes {
    /// Writes through `resource` and notes it, as client `client`.
    pub async fn write(
        &self,
        resource: &dyn Resource,
        client: &str,
        (key, token, value): (&str, u64, &str),
    ) -> Outcome<Written> {
        let mut event = self.event(client, "write", key);
        event.token = Some(token.into());
        event.value = Some(value.into());
        self.note(event.clone());
        let outcome = resource.write(key, Token::from(token), value).await;
        let (kind, error, high_water) = match &outcome {
            Ok(written) => (Type::Ok, None, written.high_water),
            Err(Failure::Fail(reason)) => {
                let high_water = match reason {
                    Reason::StaleToken { high_water } => *high_water,
                    _ => None,
                };
                (Type::Fail, Some(reason.to_string()), high_water)
            }
            Err(Failure::Unknown(text)) => (Type::Info, Some(text.clone()), None),
        };
        self.note(Event {
            kind,
            error,
            high_water,
            token: None,
            value: None,
            ..event
        });
        outcome
    }

    /// Reads through `resource` and notes it.
    pub async fn read(&self, resource: &dyn Resource, client: &str, key: &str) -> Outcome<Reading> {
        let event = self.event(client, "read", key);
        self.note(event.clone());
        let outcome = resource.read(key).await;
        self.note(match &outcome {
            Ok(reading) => Event {
                kind: Type::Ok,
                value: Some(reading.value.clone().into()),
                token: reading.token,
                high_water: reading.high_water,
                ..event
            },
            Err(failure) => Event {
                kind: Type::Info,
                error: Some(format!("{failure:?}")),
                ..event
            },
        });
        outcome
    }

    /// How many operations were noted.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.lines.lock().map_or(0, |lines| lines.len() / 2)
    }

    /// What the checker says of all of it.
    ///
    /// # Errors
    /// Never, unless lines that we wrote cannot be read.
    pub fn judged(&self) -> Result<Judgement, HistoryError> {
        let lines = self.lines.lock().expect("nobody panics with this lock");
        let mut text = String::new();
        for event in lines.iter() {
            text += &jsonl::write(&Line::Event(Box::new(event.clone())));
            text.push('\n');
        }
        Ok(judge(&History::read(text.as_bytes())?, Model::Fencing))
    }

    /// An invocation by a process of its own. Its client is a new one for each key: rounds have nothing to do with each
    /// other, and a token that is presented in many of them is not tried again.
    fn event(&self, client: &str, f: &str, key: &str) -> Event {
        Event {
            client: Some(format!("{client}-{key}")),
            key: Some(key.to_owned()),
            ..Event::new(self.next_process.fetch_add(1, Relaxed), Type::Invoke, f)
        }
    }

    fn note(&self, mut event: Event) {
        let mut lines = self.lines.lock().expect("nobody panics with this lock");
        event.index = lines.len() as u64;
        event.time = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        lines.push(event);
    }
}
