//! One line of `history.jsonl`.

use serde::{Deserialize, Serialize};

use super::{Header, Token};

crate::only_objects!(Event, FaultEvent);
crate::only_words!(Type, FaultPhase, FaultOutcome);

/// A line of a history file. The field `type` tells which it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// The optional first line.
    Header(Box<Header>),
    /// An invocation or a completion.
    Event(Box<Event>),
    /// Something that was done to the system.
    Fault(Box<FaultEvent>),
}

/// What an event says about its operation.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(remote = "Self", rename_all = "lowercase")]
pub enum Type {
    /// The request is about to leave.
    Invoke,
    /// It happened.
    Ok,
    /// It definitely did not happen.
    Fail,
    /// Nobody knows: it may take effect at any later moment, or never.
    Info,
}

/// An invocation or a completion. A completion inherits what it does not repeat.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Event {
    /// Position in the file, from 0. [`NO_INDEX`] where an imported line names none and nothing gave it one yet.
    #[serde(default = "no_index")]
    pub index: u64,
    /// Nanoseconds since the run began, never decreasing.
    pub time: u64,
    /// The logical thread: one operation at a time, and never again after an `info`.
    pub process: u64,
    /// The incarnation of a program that issued it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Invocation, or which kind of completion.
    #[serde(rename = "type")]
    pub kind: Type,
    /// What was asked for: `acquire`, `renew`, `release`, `write`, `append`, `read`, `cas`, or a model's own word.
    pub f: String,
    /// The lock it is about, or the lock under which a key is touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// The object of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The fencing token: granted, renewed, released, presented, or (on a read) of the write that is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// The value written or read. `Some(Null)` is a read that found nothing.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub value: Option<serde_json::Value>,
    /// What the resource said its high water was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_water: Option<Token>,
    /// `stale-token` is a refusal by the fence; `held` and `token-exhausted` are the lock service's; the rest is free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The lease asked for or given, in milliseconds; on acquire and renew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u64>,
    /// The write path; absent means `primary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What the client tells the service it is, where that is not its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Processes that share a session are one holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

impl Event {
    /// An event of `process` that says nothing but what it is; its place and time are 0.
    #[must_use]
    pub fn new(process: u64, kind: Type, f: impl Into<String>) -> Self {
        Self {
            index: 0,
            time: 0,
            process,
            client: None,
            kind,
            f: f.into(),
            lock: None,
            key: None,
            token: None,
            value: None,
            high_water: None,
            error: None,
            ttl: None,
            path: None,
            identity: None,
            session: None,
        }
    }
}

/// What [`Event::index`] and [`FaultEvent::index`] hold while a line that names no position has not been given one.
pub const NO_INDEX: u64 = u64::MAX;

fn no_index() -> u64 {
    NO_INDEX
}

/// Keeps `"value": null` (a read that found nothing) apart from an absent value.
fn present<'de, D>(deserializer: D) -> Result<Option<serde_json::Value>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    serde_json::Value::deserialize(deserializer).map(Some)
}

/// Whether a fault line opens or closes its window.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(remote = "Self", rename_all = "lowercase")]
pub enum FaultPhase {
    /// The fault is in force from here on (or was found impossible).
    Begin,
    /// It has been undone.
    End,
}

/// Whether a fault really was in force.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(remote = "Self", rename_all = "lowercase")]
pub enum FaultOutcome {
    /// In force, with evidence.
    Installed,
    /// Never begun: there was nothing to aim at, or the machine cannot do it.
    Skipped,
    /// Begun, but nothing proves that it took hold.
    Unknown,
}

/// Something done to a node or a link: `{"type":"fault","fault":"pause","phase":"begin","id":4,"on":["w2"],...}`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct FaultEvent {
    /// Position in the file, from 0. [`NO_INDEX`] where an imported line names none and nothing gave it one yet.
    #[serde(default = "no_index")]
    pub index: u64,
    /// Nanoseconds since the run began.
    pub time: u64,
    /// The kind of fault, as `fencepost list faults` names it: `pause`, `zombie`, `hole` ...
    pub fault: String,
    /// Opens or closes the window.
    pub phase: FaultPhase,
    /// Joins a begin to its end.
    pub id: u64,
    /// The nodes and links it was done to: `w2`, `lock`, `resource`, `w2-lock` (the link of worker 2 to the lock service).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
    /// The entry of the plan that it belongs to, e.g. `kill:lock`; joins it to [`super::Plan::faults`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The lock it was aimed at (zombie).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// The client it was aimed at (zombie).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The token that client believed in (zombie).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// Whether it was in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<FaultOutcome>,
    /// What proves it: `state T after 0.4 ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}
