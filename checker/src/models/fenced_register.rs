//! A register that refuses a write under a token below the highest that it has accepted, for the search. Each key is a
//! part of its own.
//!
//! | operation | answer | means |
//! |---|---|---|
//! | `write` | ok | the token is not below the high water; that is the token, and the value is this one |
//! | `cas` of `[old, new]` | ok | the same, and the value was old |
//! | either | fail, `stale-token` | the token is below the high water, which is the one that is named, if one is |
//! | `read` | ok | the value, and the high water where it is told |
//!
//! Any other `fail` did not happen. A write without a token counts as one of token 0, so it is refused once the key is
//! fenced. It begins as `(0, null)`. Keys that only have writes and reads of unique values need no search: see
//! [`crate::fencing`]; this model is its cross-check, and decides all others.

use serde_json::Value;

use super::values::{Id, Values};
use crate::history::Token;
use crate::linearizability::{Effect, Model, Recorded, Trace, Unfit};

/// A register with a high water.
#[derive(Clone, Debug)]
pub struct FencedRegister {
    values: Values,
    initial: Id,
}

/// The high water and the value.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Fenced {
    high_water: i128,
    value: Id,
}

/// What is asked of a fenced register, and answered.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct FencedCall(Asks);

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Asks {
    Write {
        token: i128,
        old: Option<Id>,
        new: Id,
    },
    Refused {
        token: i128,
        named: Option<i128>,
    },
    Read {
        value: Option<Id>,
        mark: Option<i128>,
    },
}

impl FencedRegister {
    /// A register that holds `initial`, with a high water of 0.
    #[must_use]
    pub fn new(initial: &Value) -> Self {
        let mut values = Values::default();
        Self {
            initial: values.id(initial),
            values,
        }
    }
}

impl Model for FencedRegister {
    type State = Fenced;
    type Call = FencedCall;

    fn call(&mut self, recorded: Recorded<'_>) -> Result<Option<FencedCall>, Unfit> {
        let right = "it has read, write with a value, and cas with a list of two";
        let value = recorded.json;
        let token = recorded.token().unwrap_or(Token::ZERO).value();
        let mark = recorded.operation.high_water.map(Token::value);
        let asks = match (recorded.f(), value) {
            ("read", value) => {
                let value = value.map(|value| self.values.id(value));
                let tells = recorded.is_ok() && (value.is_some() || mark.is_some());
                return Ok(tells.then_some(FencedCall(Asks::Read { value, mark })));
            }
            ("write" | "cas", _)
                if recorded.error() == Some("stale-token") && recorded.is_failed() =>
            {
                Asks::Refused { token, named: mark }
            }
            ("write" | "cas", _) if recorded.is_failed() => return Ok(None),
            ("write", Some(new)) => Asks::Write {
                token,
                old: None,
                new: self.values.id(new),
            },
            ("cas", Some(Value::Array(pair))) if pair.len() == 2 => Asks::Write {
                token,
                old: Some(self.values.id(&pair[0])),
                new: self.values.id(&pair[1]),
            },
            _ => return Err(recorded.unfit("fenced-register", right)),
        };
        Ok(Some(FencedCall(asks)))
    }

    fn initial(&self) -> Fenced {
        Fenced {
            high_water: 0,
            value: self.initial,
        }
    }

    fn step(&self, state: &Fenced, call: &FencedCall) -> Option<Fenced> {
        match call.0 {
            Asks::Write { token, old, new } => {
                let accepted =
                    token >= state.high_water && old.is_none_or(|old| old == state.value);
                accepted.then_some(Fenced {
                    high_water: token,
                    value: new,
                })
            }
            Asks::Refused { token, named } => {
                let refused = token < state.high_water;
                let fits = named.is_none_or(|named| named == state.high_water);
                (refused && fits).then_some(*state)
            }
            Asks::Read { value, mark } => {
                let fits = value.is_none_or(|value| value == state.value)
                    && mark.is_none_or(|mark| mark == state.high_water);
                fits.then_some(*state)
            }
        }
    }

    fn effect(&self, state: &Fenced, call: &FencedCall) -> Effect {
        // The high water never falls.
        let gone = match call.0 {
            Asks::Write { token, .. } => token < state.high_water,
            Asks::Refused { token, named } => {
                named.is_some_and(|named| named < state.high_water || named <= token)
            }
            Asks::Read { mark, .. } => mark.is_some_and(|mark| mark < state.high_water),
        };
        if gone {
            return Effect::Never;
        }
        match (self.step(state, call), call.0) {
            (None, _) => Effect::NotNow,
            (Some(_), Asks::Write { .. }) => Effect::Acts,
            (Some(_), Asks::Refused { .. } | Asks::Read { .. }) => Effect::Looks,
        }
    }

    fn needs(&self, call: &FencedCall) -> Trace {
        match call.0 {
            // A write that is accepted above a higher mark is accepted above a lower one.
            Asks::Write { old: None, .. } => Trace::Nothing,
            Asks::Write {
                old: Some(value), ..
            }
            | Asks::Read {
                value: Some(value), ..
            } => Trace::Value(value.into()),
            Asks::Refused { .. } | Asks::Read { value: None, .. } => Trace::Everything,
        }
    }

    fn leaves(&self, call: &FencedCall) -> Trace {
        match call.0 {
            Asks::Write { new, .. } => Trace::Value(new.into()),
            Asks::Refused { .. } | Asks::Read { .. } => Trace::Nothing,
        }
    }

    /// Later, a write can be accepted only where its token is the high water already, which it then leaves as it is.
    fn hides(&self, state: &Fenced, hidden: &FencedCall, by: &FencedCall) -> bool {
        let token = |call: &FencedCall| match call.0 {
            Asks::Write {
                token, old: None, ..
            } => Some(token),
            Asks::Write { .. } | Asks::Refused { .. } | Asks::Read { .. } => None,
        };
        match (token(hidden), token(by)) {
            (Some(hidden), Some(by)) => state.high_water <= hidden && hidden <= by,
            _ => false,
        }
    }

    fn show_state(&self, state: &Fenced) -> String {
        format!(
            "high water {}, value {}",
            state.high_water,
            self.values.shown(state.value)
        )
    }

    fn show_call(&self, call: &FencedCall) -> String {
        let shown = |value| self.values.shown(value);
        match call.0 {
            Asks::Write {
                token,
                old: None,
                new,
            } => format!("write {} under token {token}", shown(new)),
            Asks::Write {
                token,
                old: Some(old),
                new,
            } => format!("cas {} to {} under token {token}", shown(old), shown(new)),
            Asks::Refused { token, named } => {
                let named = named.map_or_else(String::new, |named| format!(", high water {named}"));
                format!("refusal of token {token}{named}")
            }
            Asks::Read { value, mark } => {
                let value = value.map_or_else(|| "something".to_owned(), shown);
                let mark = mark.map_or_else(String::new, |mark| format!(", high water {mark}"));
                format!("read {value}{mark}")
            }
        }
    }
}
