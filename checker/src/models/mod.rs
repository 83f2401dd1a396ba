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
];

impl Model {
    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fencing => "fencing",
            Self::FencedRegister => "fenced-register",
        }
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
    fn every_model_is_found_by_its_name_and_no_other_name_is() {
        for &(model, name, _) in MODELS {
            assert_eq!((name.parse(), model.name()), (Ok(model), name));
        }
        let error = "mutex".parse::<Model>().expect_err("not yet a model");
        assert_eq!(
            error.to_string(),
            "there is no model \"mutex\"; there are fencing, fenced-register"
        );
    }
}
