//! What an object promises, one step at a time: the trait that every model implements.

use std::fmt::Debug;
use std::hash::Hash;

use serde_json::Value;

use super::{Conflict, Entry};
use crate::history::{Name, Names, Operation, Outcome, Token};

/// An object with atomic operations: its initial state, and what each call does to it.
///
/// Three methods are needed: [`call`](Model::call) reads a recorded operation, [`initial`](Model::initial) and
/// [`step`](Model::step) say what the object does. The others have defaults that are always right; they only make the
/// search faster or its answer easier to read.
pub trait Model: Sync {
    /// The object's state. Two states that behave alike should be equal: the search never enters one twice.
    type State: Clone + Debug + Eq + Hash + Send;
    /// What was asked and, where it is known, what was answered.
    type Call: Clone + Debug + Eq + Hash + Send + Sync;

    /// What a recorded operation means to this object. `None`: it says nothing (a read without an answer, anything
    /// that surely did not happen).
    ///
    /// # Errors
    /// When the operation is none that this object has, or lacks what it needs: then nothing can be said of its part.
    fn call(&mut self, recorded: Recorded<'_>) -> Result<Option<Self::Call>, Unfit>;

    /// The state before anything happened.
    fn initial(&self) -> Self::State;

    /// The state after `call`, or `None` where the call cannot happen (as it was answered) in this state.
    ///
    /// A call whose outcome is unknown is asked for only as *having happened*: the search tries without it as well.
    fn step(&self, state: &Self::State, call: &Self::Call) -> Option<Self::State>;

    /// Which independent part of the object an operation is about; each part is searched for itself. The key, unless
    /// a model says otherwise.
    fn part(&self, operation: &Operation) -> Option<Name> {
        operation.key
    }

    /// What `call` would do in `state`. To be overridden where that is cheaper to say than to do, or where more can be
    /// said: that a call is impossible from here on, or that all it can still do is to look.
    fn effect(&self, state: &Self::State, call: &Self::Call) -> Effect {
        match self.step(state, call) {
            None => Effect::NotNow,
            Some(_) if self.leaves(call) == Trace::Nothing => Effect::Looks,
            Some(_) => Effect::Acts,
        }
    }

    /// What `call` must find. See [`Trace`] for what is promised with it.
    fn needs(&self, _call: &Self::Call) -> Trace {
        Trace::Everything
    }

    /// What `call` leaves behind. See [`Trace`] for what is promised with it.
    fn leaves(&self, _call: &Self::Call) -> Trace {
        Trace::Everything
    }

    /// Whether `hidden`, done in `state` right before `by`, is as good as done at any later place: `by` ends in the same
    /// state with it and without, and all that `hidden` could ever do is to be seen by those who need what it leaves.
    /// (A register: a write before a write.) The search then need not try it everywhere.
    fn hides(&self, _state: &Self::State, _hidden: &Self::Call, _by: &Self::Call) -> bool {
        false
    }

    /// Decides a part without a search, where this model has an exact way for such histories; `None` where it has not.
    fn exact(&self, _entries: &[Entry<Self::Call>]) -> Option<Result<(), Conflict>> {
        None
    }

    /// About how many bytes a state takes, for the memory limit.
    fn weight(&self, _state: &Self::State) -> usize {
        size_of::<Self::State>()
    }

    /// A state in a few words.
    fn show_state(&self, state: &Self::State) -> String {
        format!("{state:?}")
    }

    /// A call in a few words.
    fn show_call(&self, call: &Self::Call) -> String {
        format!("{call:?}")
    }
}

/// What a call would do in a state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// It cannot happen in this state, nor in any that can follow.
    Never,
    /// It cannot happen in this state.
    NotNow,
    /// It can, and leaves the state as it is; so it would wherever it could happen later. Such a call happens at once. A
    /// write of the value that is there is none: later it would be a write over another value.
    Looks,
    /// It can.
    Acts,
}

/// What ties two calls together, so that a call whose outcome is unknown is tried only where somebody could have seen it.
///
/// The promise of a model that gives anything but [`Trace::Everything`]: let `c` leave `v`, let `d` be a call that does
/// not need `v`, and let both be possible one after the other in some state. Then `d` without `c` is possible in that
/// state too, and ends in the same state, or in one where as much is possible. (A register: `c` writes `v`, `d` is a
/// write, or a read of another value.)
/// Numbers that are equal by accident cost time, never exactness.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Trace {
    /// It needs nothing (a blind write), or leaves every state as it is (a read).
    Nothing,
    /// This alone, as a number that the model makes of it.
    Value(u64),
    /// It may depend on, or be seen by, anything.
    Everything,
}

impl Trace {
    /// What leaves `self` may matter to what needs `needed`.
    #[must_use]
    pub fn meets(self, needed: Self) -> bool {
        match (self, needed) {
            (Self::Nothing, _) | (_, Self::Nothing) => false,
            (Self::Value(left), Self::Value(needed)) => left == needed,
            _ => true,
        }
    }
}

/// Why a history cannot be judged by a model: a clause that names the operation and what would be right.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(pub String);

/// An operation as it was recorded, with the names of its history.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a> {
    /// The operation.
    pub operation: &'a Operation,
    /// The names that it uses.
    pub names: &'a Names,
    /// The value written or read, `null` included; `None` where there is none.
    pub json: Option<&'a Value>,
}

impl<'a> Recorded<'a> {
    /// What was asked for: `read`, `write`, `enqueue` ...
    #[must_use]
    pub fn f(&self) -> &'a str {
        self.operation.function.name(self.names)
    }

    /// It was answered `ok`.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.operation.outcome == Outcome::Ok
    }

    /// It surely did not happen.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.operation.outcome == Outcome::Failed
    }

    /// Nobody knows whether it happened.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.operation.outcome == Outcome::Unknown
    }

    /// The value written or read; `None` where there is none or it is `null`.
    #[must_use]
    pub fn value(&self) -> Option<&'a Value> {
        self.json.filter(|value| !value.is_null())
    }

    /// The fencing token.
    #[must_use]
    pub fn token(&self) -> Option<Token> {
        self.operation.token
    }

    /// The text of the completion's error.
    #[must_use]
    pub fn error(&self) -> Option<&'a str> {
        self.operation.error.map(|name| self.names.text(name))
    }

    /// What to say of an operation that a model does not have.
    #[must_use]
    pub fn unfit(&self, model: &str, right: &str) -> Unfit {
        let mut f: String = self.f().escape_debug().take(80).collect();
        if f.is_empty() {
            f.push_str("(nothing)");
        }
        Unfit(format!(
            "{f} at index {} is no operation of a {model}: {right}",
            self.operation.invoked.index
        ))
    }
}
