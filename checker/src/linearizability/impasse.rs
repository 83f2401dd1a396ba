//! Where every order of a part ends: the longest one that was found, and what cannot follow it.

use serde::{Deserialize, Serialize};

crate::only_objects!(Impasse, Placed);

/// How far a part of a history could be explained, and what stands in the way. It shows the neighbourhood of the
/// failure and not all that went before, so its size does not depend on the history's.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Impasse {
    /// The key or lock; `None` where the object has one part.
    pub part: Option<String>,
    /// How many operations the longest order holds.
    pub explained: u64,
    /// How many operations the part has, those left out that say nothing.
    pub operations: u64,
    /// The last of the longest order, at most 64, as they take effect one after the other.
    pub prefix: Vec<Placed>,
    /// The state after them, in the model's words.
    pub state: String,
    /// The operations that were going on there and have no place, at most 64; the one that was answered first stands
    /// first: it is the one that had to follow.
    pub cannot_follow: Vec<Placed>,
}

/// An operation in an [`Impasse`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Placed {
    /// The index of its invocation.
    pub invoked: u64,
    /// The index of its completion, where there was one.
    pub completed: Option<u64>,
    /// The client that sent it.
    pub client: String,
    /// What it is to the model.
    pub call: String,
}
