//! What a history can be judged as.

mod append_log;
mod cas_register;
mod fenced_mutex;
mod fenced_register;
mod kv;
mod multi_register;
mod mutex;
mod queue;
mod reentrant_mutex;
mod set;
mod values;

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::history::History;
use crate::linearizability::{Decided, Limits, Unfit, check};

pub use append_log::{AppendLog, List, Log, LogCall};
pub use cas_register::{CasRegister, RegisterCall};
pub use fenced_mutex::{FencedMutex, GrantCall, Grants};
pub use fenced_register::{Fenced, FencedCall, FencedRegister};
pub use kv::{Kv, KvCall};
pub use multi_register::{MultiCall, MultiRegister};
pub use mutex::{Mutex, MutexCall};
pub use queue::{Queue, QueueCall};
pub use reentrant_mutex::{ReentrantCall, ReentrantMutex};
pub use set::{Set, SetCall};

/// The rules by which a history is judged.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Model {
    /// Locks, grants and fenced writes together: every rule of [`crate::fencing`].
    #[default]
    Fencing,
    /// Each key alone, as a register with a high water; grants and holders are not looked at.
    FencedRegister,
    /// Each key alone, as a plain register.
    Register,
    /// Each key alone, as a register with compare-and-set.
    CasRegister,
    /// Each key alone, as a text that is put, added to and read.
    Kv,
    /// All registers together.
    MultiRegister,
    /// Each lock alone, held or not.
    Mutex,
    /// Each lock alone; its holder may take it again.
    ReentrantMutex,
    /// Each lock alone; each grant carries a higher token.
    FencedMutex,
    /// Each key alone, as a set.
    Set,
    /// Each key alone, as a list that is only added to.
    AppendLog,
    /// Each key alone, first in, first out.
    Queue,
}

/// Every model by name, with a line that says what it is.
pub const MODELS: &[(Model, &str, &str)] = &[
    (
        Model::Fencing,
        "fencing",
        "locks, grants and fenced writes together: every finding of `list findings`",
    ),
    (
        Model::FencedRegister,
        "fenced-register",
        "each key alone, as a register that refuses tokens below its high water",
    ),
    (Model::Register, "register", "each key: read and write"),
    (
        Model::CasRegister,
        "cas-register",
        "each key: read, write, and cas of [old, new]",
    ),
    (Model::Kv, "kv", "each key: get, put and append of texts"),
    (
        Model::MultiRegister,
        "multi-register",
        "all registers together: txn of [read or write, register, value] ...",
    ),
    (
        Model::Mutex,
        "mutex",
        "each lock: acquire and release, by whomever",
    ),
    (
        Model::ReentrantMutex,
        "reentrant-mutex",
        "each lock: acquire and release; its holder may take it again",
    ),
    (
        Model::FencedMutex,
        "fenced-mutex",
        "each lock: acquire, renew and release by the holder; tokens rise from grant to grant",
    ),
    (
        Model::Set,
        "set",
        "each key: add and remove of an element, read of all",
    ),
    (
        Model::AppendLog,
        "append-log",
        "each key: append of a value, with a token or without, read of the whole list",
    ),
    (
        Model::Queue,
        "queue",
        "each key: enqueue and dequeue, first in, first out",
    ),
];

impl Model {
    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        // The table has every model; a test holds it to that.
        let found = MODELS.iter().find(|&&(model, _, _)| model == self);
        found.map_or("", |&(_, name, _)| name)
    }

    /// Whether its objects can begin so: as `initial`, or, where the recording joined a running system, as nobody knows.
    ///
    /// # Errors
    /// Why not, in one line.
    pub fn admits(self, initial: &Value, joined: bool) -> Result<(), Unfit> {
        let nothing = History::default();
        match self.decide(&nothing, initial, joined, &Limits::default()) {
            Some(decided) => decided.map(drop),
            None if initial.is_null() && !joined => Ok(()),
            None => Err(Unfit(
                "fencing judges a system from its beginning: each key begins without a value"
                    .to_owned(),
            )),
        }
    }

    /// Decides each part of a history as this object; `None` for [`Model::Fencing`], which is more than one object.
    ///
    /// # Errors
    /// When the object cannot begin so (see [`Model::admits`]), or has no such operation.
    pub(crate) fn decide(
        self,
        history: &History,
        initial: &Value,
        joined: bool,
        limits: &Limits<'_>,
    ) -> Option<Result<Decided, Unfit>> {
        if joined {
            let register = match self {
                _ if !initial.is_null() => {
                    let both = "a register that was joined has no initial value".to_owned();
                    return Some(Err(Unfit(both)));
                }
                Self::Register => CasRegister::plain(initial),
                Self::CasRegister => CasRegister::new(initial),
                Self::Fencing => return None,
                other => {
                    let why = format!(
                        "a {other} cannot be judged from the middle: register and cas-register can"
                    );
                    return Some(Err(Unfit(why)));
                }
            };
            return Some(check(register.joined(), history, limits));
        }
        let without = |what: &str| match initial {
            Value::Null => Ok(()),
            _ => Err(Unfit(format!("{what} has no initial value"))),
        };
        let decided = match self {
            Self::Fencing => return None,
            Self::FencedRegister => check(FencedRegister::new(initial), history, limits),
            Self::Register => check(CasRegister::plain(initial), history, limits),
            Self::CasRegister => check(CasRegister::new(initial), history, limits),
            Self::Kv => Kv::new(initial).and_then(|model| check(model, history, limits)),
            Self::MultiRegister => {
                MultiRegister::new(initial).and_then(|model| check(model, history, limits))
            }
            Self::Mutex => match initial {
                Value::Null => check(Mutex::new(), history, limits),
                Value::Bool(held) => check(Mutex::beginning(*held), history, limits),
                _ => Err(Unfit("a mutex begins as true (held) or false".to_owned())),
            },
            Self::ReentrantMutex => without("a reentrant-mutex")
                .and_then(|()| check(ReentrantMutex::new(), history, limits)),
            Self::FencedMutex => {
                FencedMutex::beginning(initial).and_then(|model| check(model, history, limits))
            }
            Self::Set => Set::new(initial).and_then(|model| check(model, history, limits)),
            Self::AppendLog => {
                without("an append-log").and_then(|()| check(AppendLog::new(), history, limits))
            }
            Self::Queue => Queue::new(initial).and_then(|model| check(model, history, limits)),
        };
        Some(decided)
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Model {
    type Err = UnknownModel;

    fn from_str(name: &str) -> Result<Self, UnknownModel> {
        let found = MODELS.iter().find(|(_, known, _)| *known == name);
        found
            .map(|&(model, _, _)| model)
            .ok_or_else(|| UnknownModel(name.to_owned()))
    }
}

/// A name that is no model's.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnknownModel(pub String);

impl fmt::Display for UnknownModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = MODELS.iter().map(|&(_, name, _)| name).collect();
        write!(
            f,
            "there is no model \"{}\"; there are {}",
            self.0,
            names.join(", ")
        )
    }
}

impl std::error::Error for UnknownModel {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_that_does_not_fit_is_said() {
        use serde_json::json;
        for (model, initial, joined, fits) in [
            (Model::Fencing, json!(null), false, true),
            (Model::Fencing, json!(0), false, false),
            (Model::Fencing, json!(null), true, false),
            (Model::Register, json!(0), false, true),
            (Model::Register, json!(null), true, true),
            (Model::Register, json!(0), true, false),
            (Model::Kv, json!(7), false, false),
            (Model::Mutex, json!("x"), false, false),
            (Model::Queue, json!(null), true, false),
        ] {
            let admits = model.admits(&initial, joined);
            assert_eq!(admits.is_ok(), fits, "{model} {initial} {joined}");
        }
    }

    #[test]
    fn every_model_is_found_by_its_name_and_no_other_name_is() {
        for &(model, name, _) in MODELS {
            assert_eq!((name.parse(), model.name()), (Ok(model), name));
        }
        let error = "stack".parse::<Model>().expect_err("no model");
        assert!(
            error
                .to_string()
                .starts_with("there is no model \"stack\"; there are fencing, fenced-register, ")
        );
    }
}
