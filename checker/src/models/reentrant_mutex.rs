//! A lock that its holder may take again; it is free when it was released as often as it was taken. Each lock is a part
//! of its own.
//!
//! The holder is the *client*; where a history names none, the process. A `fail` did not happen.

use crate::history::{Name, Operation};
use crate::linearizability::{Effect, Model, Recorded, Trace, Unfit};

/// A lock that its holder may take again.
#[derive(Clone, Debug, Default)]
pub struct ReentrantMutex {
    clients: Vec<String>,
    numbers: std::collections::HashMap<Name, u32>,
}

/// What a client asks of a lock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ReentrantCall {
    client: u32,
    releases: bool,
}

impl ReentrantMutex {
    /// A lock that is free.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn client(&self, client: u32) -> &str {
        self.clients.get(client as usize).map_or("", String::as_str)
    }
}

impl Model for ReentrantMutex {
    /// The holder and how often it holds; `None`: free.
    type State = Option<(u32, u32)>;
    type Call = ReentrantCall;

    fn call(&mut self, recorded: Recorded<'_>) -> Result<Option<ReentrantCall>, Unfit> {
        let releases = match recorded.f() {
            "acquire" => false,
            "release" => true,
            _ => return Err(recorded.unfit("reentrant-mutex", "it has acquire and release")),
        };
        let name = recorded.operation.client;
        let clients = &mut self.clients;
        let client = *self.numbers.entry(name).or_insert_with(|| {
            clients.push(recorded.names.shown(name).into_owned());
            u32::try_from(clients.len() - 1).unwrap_or(u32::MAX)
        });
        Ok(Some(ReentrantCall { client, releases }).filter(|_| !recorded.is_failed()))
    }

    fn initial(&self) -> Self::State {
        None
    }

    fn part(&self, operation: &Operation) -> Option<Name> {
        operation.lock
    }

    fn step(&self, state: &Self::State, call: &ReentrantCall) -> Option<Self::State> {
        match (*state, call.releases) {
            (None, false) => Some(Some((call.client, 1))),
            (Some((holder, times)), false) if holder == call.client => {
                Some(Some((holder, times.checked_add(1)?)))
            }
            (Some((holder, 1)), true) if holder == call.client => Some(None),
            (Some((holder, times)), true) if holder == call.client => {
                Some(Some((holder, times - 1)))
            }
            _ => None,
        }
    }

    fn effect(&self, state: &Self::State, call: &ReentrantCall) -> Effect {
        match self.step(state, call) {
            Some(_) => Effect::Acts,
            None => Effect::NotNow,
        }
    }

    fn needs(&self, call: &ReentrantCall) -> Trace {
        if call.releases {
            Trace::Value(call.client.into())
        } else {
            Trace::Everything
        }
    }

    fn leaves(&self, call: &ReentrantCall) -> Trace {
        if call.releases {
            Trace::Everything
        } else {
            Trace::Value(call.client.into())
        }
    }

    fn show_state(&self, state: &Self::State) -> String {
        match *state {
            None => "free".to_owned(),
            Some((holder, 1)) => format!("held by {}", self.client(holder)),
            Some((holder, times)) => format!("held {times} times by {}", self.client(holder)),
        }
    }

    fn show_call(&self, call: &ReentrantCall) -> String {
        let word = if call.releases { "release" } else { "acquire" };
        format!("{word} by {}", self.client(call.client))
    }
}
