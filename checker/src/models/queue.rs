//! A queue: what was put in first comes out first. Each key is a part of its own.
//!
//! | operation | value | means |
//! |---|---|---|
//! | `enqueue` | v | v is at the end |
//! | `dequeue` | v | v was at the front and is out |
//! | `dequeue` | `null` or none | the queue was empty |
//!
//! A `fail` did not happen. It begins empty, or as the list that is given, its front first.

use std::sync::Arc;

use serde_json::Value;

use super::values::{Id, Values, shorten};
use crate::linearizability::{Effect, Model, Recorded, Trace, Unfit};

/// A first-in first-out queue.
#[derive(Clone, Debug)]
pub struct Queue {
    values: Values,
    initial: Vec<Id>,
}

/// What is asked of a queue, and answered.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum QueueCall {
    /// This is at the end.
    Enqueue(u32),
    /// This was at the front and is out.
    Dequeue(u32),
    /// The queue was empty.
    Empty,
    /// Whatever was at the front is out: nobody heard what it was.
    Lost,
}

impl Queue {
    /// A queue that holds the list `initial`; `null`: nothing.
    ///
    /// # Errors
    /// When it is neither a list nor `null`.
    pub fn new(initial: &Value) -> Result<Self, Unfit> {
        let mut values = Values::default();
        let initial = match initial {
            Value::Null => Vec::new(),
            Value::Array(list) => list.iter().map(|value| values.id(value)).collect(),
            _ => return Err(Unfit("a queue begins with a list".to_owned())),
        };
        Ok(Self { values, initial })
    }
}

impl Model for Queue {
    type State = Arc<[u32]>;
    type Call = QueueCall;

    fn call(&mut self, recorded: Recorded<'_>) -> Result<Option<QueueCall>, Unfit> {
        let call = match (recorded.f(), recorded.value()) {
            _ if recorded.is_failed() => return Ok(None),
            ("enqueue", Some(value)) => QueueCall::Enqueue(self.values.id(value)),
            ("dequeue", _) if recorded.is_unknown() => QueueCall::Lost,
            ("dequeue", Some(value)) => QueueCall::Dequeue(self.values.id(value)),
            ("dequeue", None) => QueueCall::Empty,
            _ => {
                let right = "it has enqueue of a value, and dequeue";
                return Err(recorded.unfit("queue", right));
            }
        };
        Ok(Some(call))
    }

    fn initial(&self) -> Arc<[u32]> {
        self.initial.as_slice().into()
    }

    fn step(&self, state: &Arc<[u32]>, call: &QueueCall) -> Option<Arc<[u32]>> {
        match (call, state.split_first()) {
            (QueueCall::Enqueue(value), _) => Some(
                state
                    .iter()
                    .chain(std::iter::once(value))
                    .copied()
                    .collect(),
            ),
            (QueueCall::Dequeue(value), Some((front, rest))) if front == value => Some(rest.into()),
            (QueueCall::Lost, Some((_, rest))) => Some(rest.into()),
            (QueueCall::Empty | QueueCall::Lost, None) => Some(Arc::clone(state)),
            _ => None,
        }
    }

    fn effect(&self, state: &Arc<[u32]>, call: &QueueCall) -> Effect {
        match (call, state.first()) {
            (QueueCall::Enqueue(_) | QueueCall::Lost, _) => Effect::Acts,
            (QueueCall::Dequeue(value), Some(front)) if front == value => Effect::Acts,
            (QueueCall::Empty, None) => Effect::Looks,
            _ => Effect::NotNow,
        }
    }

    fn leaves(&self, call: &QueueCall) -> Trace {
        match call {
            QueueCall::Empty => Trace::Nothing,
            _ => Trace::Everything,
        }
    }

    fn weight(&self, state: &Arc<[u32]>) -> usize {
        size_of_val::<[u32]>(state) + 32
    }

    fn show_state(&self, state: &Arc<[u32]>) -> String {
        let shown: Vec<String> = state
            .iter()
            .take(50)
            .map(|&id| self.values.shown(id))
            .collect();
        shorten(&format!("[{}]", shown.join(", ")))
    }

    fn show_call(&self, call: &QueueCall) -> String {
        match call {
            QueueCall::Enqueue(value) => format!("enqueue {}", self.values.shown(*value)),
            QueueCall::Dequeue(value) => format!("dequeue {}", self.values.shown(*value)),
            QueueCall::Empty => "dequeue nothing".to_owned(),
            QueueCall::Lost => "dequeue without an answer".to_owned(),
        }
    }
}
