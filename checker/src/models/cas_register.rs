//! A register with compare-and-set: one value that is written, read, and exchanged for another if it is the expected one.
//!
//! | operation | value | means |
//! |---|---|---|
//! | `write` | v | the value is v |
//! | `read` | v | the value was v |
//! | `cas` | `[old, new]` | the value was old and is new |
//!
//! A `fail` did not happen, whatever the reason. A read that finds `null` finds the initial value `null`; where the
//! initial value is another one it tells nothing (Knossos' convention). Without `cas`, and with values that were written
//! once, a register is decided exactly, without a search.
//!
//! A recording that joined a running system does not tell how its registers began. There the first operation that looks
//! at the value tells it ([`CasRegister::joined`]); a value that nobody wrote is still wrong everywhere else.

use serde_json::Value;

use super::values::{Id, Values};
use crate::linearizability::zones::{self, Access};
use crate::linearizability::{Conflict, Effect, Entry, Model, Recorded, Trace, Unfit};

/// A register with compare-and-set.
#[derive(Clone, Debug)]
pub struct CasRegister {
    values: Values,
    initial: Id,
    null_is_silence: bool,
    name: &'static str,
    exchanges: bool,
}

/// The state of a register of which nothing is known yet.
const UNTOLD: Id = Id::MAX;

/// What is asked of a register, and answered.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RegisterCall {
    /// The value becomes this one.
    Write(u32),
    /// The value is this one.
    Read(u32),
    /// The value is the first and becomes the second.
    Cas(u32, u32),
}

impl CasRegister {
    /// A register that holds `initial`.
    #[must_use]
    pub fn new(initial: &Value) -> Self {
        Self::of("cas-register", true, initial)
    }

    /// A plain register: the same without `cas`.
    #[must_use]
    pub fn plain(initial: &Value) -> Self {
        Self::of("register", false, initial)
    }

    fn of(name: &'static str, exchanges: bool, initial: &Value) -> Self {
        let mut values = Values::default();
        Self {
            initial: values.id(initial),
            null_is_silence: !initial.is_null(),
            values,
            name,
            exchanges,
        }
    }

    /// The same, but how it began is not known: whatever looks at it first tells.
    #[must_use]
    pub fn joined(mut self) -> Self {
        self.initial = UNTOLD;
        self.null_is_silence = false;
        self
    }

    /// It is not known how it began.
    fn is_joined(&self) -> bool {
        self.initial == UNTOLD
    }

    fn right(&self) -> &'static str {
        if self.exchanges {
            "it has read, write with a value, and cas with a list of two"
        } else {
            "it has read, and write with a value"
        }
    }
}

impl Model for CasRegister {
    type State = u32;
    type Call = RegisterCall;

    fn call(&mut self, recorded: Recorded<'_>) -> Result<Option<RegisterCall>, Unfit> {
        let value = recorded.json;
        let call = match (recorded.f(), value) {
            ("read", None) => None,
            ("read", Some(value)) if recorded.is_ok() => {
                let tells = !(value.is_null() && self.null_is_silence);
                tells.then(|| RegisterCall::Read(self.values.id(value)))
            }
            ("read", Some(_)) => None,
            ("write", Some(value)) => Some(RegisterCall::Write(self.values.id(value))),
            ("cas", Some(Value::Array(pair))) if self.exchanges && pair.len() == 2 => Some(
                RegisterCall::Cas(self.values.id(&pair[0]), self.values.id(&pair[1])),
            ),
            _ => return Err(recorded.unfit(self.name, self.right())),
        };
        Ok(call.filter(|_| !recorded.is_failed()))
    }

    fn initial(&self) -> u32 {
        self.initial
    }

    fn step(&self, &value: &u32, call: &RegisterCall) -> Option<u32> {
        match *call {
            RegisterCall::Write(new) => Some(new),
            RegisterCall::Read(found) => (found == value || value == UNTOLD).then_some(found),
            RegisterCall::Cas(old, new) => (old == value || value == UNTOLD).then_some(new),
        }
    }

    fn effect(&self, &value: &u32, call: &RegisterCall) -> Effect {
        match *call {
            _ if value == UNTOLD => Effect::Acts,
            RegisterCall::Read(found) | RegisterCall::Cas(found, _) if found != value => {
                Effect::NotNow
            }
            RegisterCall::Read(_) => Effect::Looks,
            RegisterCall::Cas(old, new) if old == new => Effect::Looks,
            RegisterCall::Write(_) | RegisterCall::Cas(..) => Effect::Acts,
        }
    }

    fn needs(&self, call: &RegisterCall) -> Trace {
        match *call {
            RegisterCall::Write(_) => Trace::Nothing,
            RegisterCall::Read(value) | RegisterCall::Cas(value, _) => Trace::Value(value.into()),
        }
    }

    fn leaves(&self, call: &RegisterCall) -> Trace {
        match *call {
            // The first that looks at a register of which nothing is known leaves it with what it found.
            RegisterCall::Read(_) if !self.is_joined() => Trace::Nothing,
            RegisterCall::Read(value)
            | RegisterCall::Write(value)
            | RegisterCall::Cas(_, value) => Trace::Value(value.into()),
        }
    }

    fn hides(&self, _: &u32, hidden: &RegisterCall, by: &RegisterCall) -> bool {
        matches!(
            (hidden, by),
            (RegisterCall::Write(_), RegisterCall::Write(_))
        )
    }

    /// Without `cas`, where each value was written once.
    fn exact(&self, entries: &[Entry<RegisterCall>]) -> Option<Result<(), Conflict>> {
        let exchanges = |entry: &Entry<RegisterCall>| matches!(entry.call, RegisterCall::Cas(..));
        if self.is_joined() || entries.iter().any(exchanges) {
            return None;
        }
        let accesses = entries.iter().filter_map(|entry| {
            let access = match entry.call {
                RegisterCall::Write(value) => Access::Write(value),
                RegisterCall::Read(value) => Access::Read(value),
                RegisterCall::Cas(..) => return None,
            };
            Some(entry.timed(access))
        });
        zones::decide(self.initial, accesses)
    }

    fn show_state(&self, &value: &u32) -> String {
        if value == UNTOLD {
            return "not known yet".to_owned();
        }
        self.values.shown(value)
    }

    fn show_call(&self, call: &RegisterCall) -> String {
        let shown = |value| self.values.shown(value);
        match *call {
            RegisterCall::Write(value) => format!("write {}", shown(value)),
            RegisterCall::Read(value) => format!("read {}", shown(value)),
            RegisterCall::Cas(old, new) => format!("cas {} to {}", shown(old), shown(new)),
        }
    }
}
