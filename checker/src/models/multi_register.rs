//! Several registers that one operation reads and writes together.
//!
//! | operation | value | means |
//! |---|---|---|
//! | `txn`, `read`, `write` | list of `[f, register, value]` | all of them at once, in this order; f is `read` (`r`) or `write` (`w`) |
//!
//! The initial value is an object, one field a register; a register without one begins as `null`. A `fail` did not
//! happen. A read of `null` tells nothing where the register begins as something else.

use std::sync::Arc;

use serde_json::Value;

use super::values::{Id, Values};
use crate::history::{Name, Operation};
use crate::linearizability::{Effect, Model, Recorded, Trace, Unfit};

/// Several registers.
#[derive(Clone, Debug)]
pub struct MultiRegister {
    registers: Values,
    values: Values,
    /// By register.
    initial: Vec<Id>,
    null: Id,
}

/// What one operation does to the registers, in this order.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct MultiCall(Vec<Part>);

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Part {
    writes: bool,
    register: Id,
    value: Id,
}

impl MultiRegister {
    /// Registers that begin as the fields of `initial`; `null`: all as `null`.
    ///
    /// # Errors
    /// When it is neither an object nor `null`.
    pub fn new(initial: &Value) -> Result<Self, Unfit> {
        let mut values = Values::default();
        let null = values.id(&Value::Null);
        let mut model = Self {
            registers: Values::default(),
            values,
            initial: Vec::new(),
            null,
        };
        match initial {
            Value::Null => {}
            Value::Object(fields) => {
                for (name, value) in fields {
                    let register = model.register(&Value::String(name.clone()));
                    model.initial[register as usize] = model.values.id(value);
                }
            }
            _ => {
                let message = "a multi-register begins with an object, one field a register";
                return Err(Unfit(message.to_owned()));
            }
        }
        Ok(model)
    }

    /// A register may be named by a text or a number.
    fn register(&mut self, name: &Value) -> Id {
        let text = name
            .as_str()
            .map_or_else(|| name.to_string(), str::to_owned);
        let register = self.registers.id(&Value::String(text));
        if self.initial.len() <= register as usize {
            self.initial.resize(register as usize + 1, self.null);
        }
        register
    }

    fn part(&mut self, part: &Value) -> Option<Part> {
        let [f, register, value] = part.as_array()?.as_slice() else {
            return None;
        };
        let writes = match f.as_str()? {
            "write" | "w" => true,
            "read" | "r" => false,
            _ => return None,
        };
        Some(Part {
            writes,
            register: self.register(register),
            value: self.values.id(value),
        })
    }
}

impl Model for MultiRegister {
    type State = Arc<[u32]>;
    type Call = MultiCall;

    fn call(&mut self, recorded: Recorded<'_>) -> Result<Option<MultiCall>, Unfit> {
        let right = "it has txn, with a list of [read or write, register, value]";
        let value = recorded.json;
        let named = matches!(recorded.f(), "txn" | "read" | "write");
        let parts = match value {
            None if named => Some(Vec::new()),
            Some(Value::Array(parts)) if named => {
                parts.iter().map(|part| self.part(part)).collect()
            }
            _ => None,
        };
        let mut parts: Vec<Part> = parts.ok_or_else(|| recorded.unfit("multi-register", right))?;
        parts.retain(|part| {
            let silent =
                part.value == self.null && self.initial[part.register as usize] != self.null;
            part.writes || recorded.is_ok() && !silent
        });
        let tells = !parts.is_empty() && !recorded.is_failed();
        Ok(tells.then_some(MultiCall(parts)))
    }

    fn initial(&self) -> Arc<[u32]> {
        self.initial.as_slice().into()
    }

    fn part(&self, _operation: &Operation) -> Option<Name> {
        None
    }

    fn step(&self, state: &Arc<[u32]>, call: &MultiCall) -> Option<Arc<[u32]>> {
        let mut next: Option<Vec<u32>> = None;
        for part in &call.0 {
            let register = part.register as usize;
            if part.writes {
                next.get_or_insert_with(|| state.to_vec())[register] = part.value;
            } else if next.as_deref().unwrap_or(state)[register] != part.value {
                return None;
            }
        }
        Some(next.map_or_else(|| Arc::clone(state), Into::into))
    }

    fn effect(&self, state: &Arc<[u32]>, call: &MultiCall) -> Effect {
        let mut effect = Effect::Looks;
        for (at, part) in call.0.iter().enumerate() {
            let mut before = call.0[..at].iter().rev();
            let own = before.find(|own| own.writes && own.register == part.register);
            let value = own.map_or(state[part.register as usize], |own| own.value);
            if !part.writes && value != part.value {
                return Effect::NotNow;
            }
            if part.writes {
                effect = Effect::Acts;
            }
        }
        effect
    }

    fn leaves(&self, call: &MultiCall) -> Trace {
        if call.0.iter().any(|part| part.writes) {
            Trace::Everything
        } else {
            Trace::Nothing
        }
    }

    fn weight(&self, state: &Arc<[u32]>) -> usize {
        size_of_val::<[u32]>(state) + 32
    }

    fn show_state(&self, state: &Arc<[u32]>) -> String {
        let registers = state.iter().enumerate().take(20).map(|(register, &value)| {
            let register = u32::try_from(register).unwrap_or(u32::MAX);
            format!(
                "{} {}",
                self.registers.text(register),
                self.values.shown(value)
            )
        });
        registers.collect::<Vec<_>>().join(", ")
    }

    fn show_call(&self, call: &MultiCall) -> String {
        let parts = call.0.iter().take(20).map(|part| {
            let word = if part.writes { "write" } else { "read" };
            let register = self.registers.text(part.register);
            format!("{word} {register} {}", self.values.shown(part.value))
        });
        parts.collect::<Vec<_>>().join(", ")
    }
}
