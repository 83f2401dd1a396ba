//! The lines between the harness and a worker: one request and one response a line, JSON, over stdin and stdout.
//!
//! The first line to a worker is a [`Hello`]; it needs no answer. Every other line is a [`Request`] and is answered by
//! one [`Response`] with the same `id`, in any order: several clients run at once. What is not `ok` or a *definite*
//! `fail` is `info`. Standard error is the worker's log.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use fencepost_checker::history::{Token, Type};
use serde::{Deserialize, Serialize};

use crate::defects::HolderDefect;

fencepost_checker::only_objects!(Hello, Options, Settings, Request, Response);

/// The first line to a worker: `{"f":"hello","clients":["c1"],"links":{"lock":"127.0.0.1:21001"},"options":{...}}`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Hello {
    /// Always `hello`.
    pub f: String,
    /// The clients that this worker runs.
    pub clients: Vec<String>,
    /// Service (`lock`, `resource`) to the address of this worker's own proxy for it; where a service has several
    /// members, theirs, joined by commas.
    pub links: BTreeMap<String, String>,
    /// What the clients need to know.
    pub options: Options,
    /// What a client tells the services it is, where that is not its name: a restarted worker's clients are new ones
    /// under old identities.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub identities: BTreeMap<String, String>,
}

/// What a worker's clients need to know.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Options {
    /// The kind of the lock service, as in `[lock] kind`.
    pub lock: String,
    /// The kind of the resource, as in `[resource] kind`.
    pub resource: String,
    /// How long to wait for an answer, in milliseconds; an acquire waits its `wait_ms` longer.
    pub timeout_ms: u64,
    /// The name under which all keys and tables of the run lie: 1 to 48 lower-case letters, digits and `_`.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// How to speak to the lock service.
    #[serde(default, skip_serializing_if = "Settings::is_default")]
    pub lock_settings: Settings,
    /// How to speak to the resource.
    #[serde(default, skip_serializing_if = "Settings::is_default")]
    pub resource_settings: Settings,
    /// What is planted in the clients themselves; only the built-in worker has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plant: Option<HolderDefect>,
}

/// How to speak to one system. A password is never in it, only where to find one.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Settings {
    /// What is taken for the token, as in `[lock] token`; absent: the kind's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// How a write is fenced, as in `[resource] fence`; absent: the kind's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<String>,
    /// `lock` where the resource keeps one high water for all keys of a lock, as in `[resource] mark`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// As whom to log in; absent: `postgres` at PostgreSQL, nobody at etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The database; absent: `postgres`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// The environment variable that holds the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_env: Option<String>,
    /// The file that holds the password; a newline at its end is no part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
}

impl Settings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Options {
    /// Options without any settings.
    #[must_use]
    pub fn plain(lock: &str, resource: &str, timeout: Duration) -> Self {
        Self {
            lock: lock.to_owned(),
            resource: resource.to_owned(),
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            namespace: default_namespace(),
            lock_settings: Settings::default(),
            resource_settings: Settings::default(),
            plant: None,
        }
    }
}

/// Of a worker that is driven by hand.
fn default_namespace() -> String {
    "fencepost".to_owned()
}

/// One operation to carry out.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Request {
    /// Joins the response to it; never reused within a run.
    pub id: u64,
    /// The logical thread that is recorded as the operation's.
    pub process: u64,
    /// The client that carries it out.
    pub client: String,
    /// `acquire`, `renew`, `release`, `write`, `read`, `cas` or `append`; or `go`, which is no operation: the write
    /// that was announced under this id may leave.
    pub f: String,
    /// The lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// The key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The token to renew, release or present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// The value to write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The lease to ask for, in milliseconds (acquire, renew).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// How long to queue for the lock, in milliseconds (acquire).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// The path to write by, where it is not the primary one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The value that a `cas` replaces; absent: the key was never written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// Do all that comes before sending, answer with type `invoke`, and send only after `go`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub announce: bool,
    /// What the client tells the services it is, where that is not its name; for the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
}

/// What became of a request.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Response {
    /// The request's.
    pub id: u64,
    /// `ok`, `fail` (it definitely did not happen) or `info`; `invoke` where an announced write is about to leave.
    #[serde(rename = "type")]
    pub kind: Type,
    /// The token granted or renewed; on a read, that of the value; on a write, the one presented where that was not the one asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// The value read; absent or null: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<serde_json::Value>,
    /// What the resource said its high water was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_water: Option<Token>,
    /// `stale-token`, `held`, `token-exhausted`, `not-held`, or free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The lease given, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
}

impl Response {
    /// A response without any particulars.
    #[must_use]
    pub fn new(id: u64, kind: Type) -> Self {
        Self {
            id,
            kind,
            token: None,
            value: None,
            high_water: None,
            error: None,
            ttl_ms: None,
        }
    }

    /// A response with an error text.
    #[must_use]
    pub fn with_error(id: u64, kind: Type, error: impl Into<String>) -> Self {
        Self {
            error: Some(error.into()),
            ..Self::new(id, kind)
        }
    }
}
