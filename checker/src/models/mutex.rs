//! A lock that is held or not. Each lock is a part of its own.
//!
//! `acquire` takes it when it is free, `release` gives it back when it is held, by whomever. A `fail` did not happen: a
//! refusal because the lock is held proves nothing, as it may stand for a timeout.

use crate::history::{Name, Operation};
use crate::linearizability::{Effect, Model, Recorded, Trace, Unfit};

/// A lock that is held or not.
#[derive(Clone, Debug, Default)]
pub struct Mutex {
    held: bool,
}

/// What is asked of a lock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum MutexCall {
    /// Free becomes held.
    Acquire,
    /// Held becomes free.
    Release,
}

impl Mutex {
    /// A lock that is free.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A lock that is held, or not, to begin with.
    #[must_use]
    pub fn beginning(held: bool) -> Self {
        Self { held }
    }
}

/// What an acquire needs and a release leaves.
const FREE: Trace = Trace::Value(0);
const HELD: Trace = Trace::Value(1);

impl Model for Mutex {
    type State = bool;
    type Call = MutexCall;

    fn call(&mut self, recorded: Recorded<'_>) -> Result<Option<MutexCall>, Unfit> {
        let call = match recorded.f() {
            "acquire" => MutexCall::Acquire,
            "release" => MutexCall::Release,
            _ => return Err(recorded.unfit("mutex", "it has acquire and release")),
        };
        Ok(Some(call).filter(|_| !recorded.is_failed()))
    }

    fn initial(&self) -> bool {
        self.held
    }

    fn part(&self, operation: &Operation) -> Option<Name> {
        operation.lock
    }

    fn step(&self, &held: &bool, call: &MutexCall) -> Option<bool> {
        (held == (*call == MutexCall::Release)).then_some(!held)
    }

    fn effect(&self, state: &bool, call: &MutexCall) -> Effect {
        match self.step(state, call) {
            Some(_) => Effect::Acts,
            None => Effect::NotNow,
        }
    }

    fn needs(&self, call: &MutexCall) -> Trace {
        match call {
            MutexCall::Acquire => FREE,
            MutexCall::Release => HELD,
        }
    }

    fn leaves(&self, call: &MutexCall) -> Trace {
        match call {
            MutexCall::Acquire => HELD,
            MutexCall::Release => FREE,
        }
    }

    fn show_state(&self, &held: &bool) -> String {
        if held { "held" } else { "free" }.to_owned()
    }

    fn show_call(&self, call: &MutexCall) -> String {
        match call {
            MutexCall::Acquire => "acquire",
            MutexCall::Release => "release",
        }
        .to_owned()
    }
}
