//! The optional first line of a history: what the run was, and what it had planned.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

crate::only_objects!(Header, LockHeader, Plan, Expectations);
crate::only_words!(MarkScope);

/// `{"type":"header","format":1,...}`. Every field but `format` is optional; unknown ones are ignored.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Header {
    /// The version of the format; 1.
    pub format: u32,
    /// The run's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The suite's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// The seed that fixes the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// When the run began, RFC 3339, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// Whether the resource keeps one high water a key or one a lock.
    #[serde(default)]
    pub mark_scope: MarkScope,
    /// What is known of each lock.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub locks: BTreeMap<String, LockHeader>,
    /// Which worker runs which client, e.g. `"c3": "w2"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clients: BTreeMap<String, String>,
    /// What the run set out to do. Present: a verdict must be earned by exercising the fence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
}

/// What is known of one lock before the run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct LockHeader {
    /// The keys that it guards.
    #[serde(default)]
    pub keys: Vec<String>,
    /// Its lease in milliseconds; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// It never lapses: only a release, or the end of its holder's connection, ends a hold.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_lease: bool,
}

/// Where the resource keeps its high water.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(remote = "Self", rename_all = "lowercase")]
pub enum MarkScope {
    /// One a key.
    #[default]
    Key,
    /// One a lock, shared by all its keys.
    Lock,
}

/// What a run set out to do, so that `check` can tell a quiet run from a sound system.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Plan {
    /// How often each planned fault occurs before the time limit, by label (`zombie`, `hole:worker-lock`, `kill:lock`).
    #[serde(default)]
    pub faults: BTreeMap<String, u64>,
    /// What a valid run must have.
    #[serde(default)]
    pub expect: Expectations,
}

/// The `[expect]` of a suite.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Expectations {
    /// Zombie writes (invoked after a proof of a high water above their token, and answered `ok` or `fail`); fewer is "unexercised".
    pub zombie_writes: u64,
    /// None is expected: the system is to be safe without a fence.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_fence: bool,
}

impl Default for Expectations {
    fn default() -> Self {
        Self {
            zombie_writes: 1,
            no_fence: false,
        }
    }
}
