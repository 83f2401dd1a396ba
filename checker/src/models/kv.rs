//! A map from keys to texts. Each key is a part of its own.
//!
//! | operation | value | means |
//! |---|---|---|
//! | `put`, `write` | text | the key's text is this |
//! | `append` | text | this is added at the end |
//! | `get`, `read` | text or `null` | the key's text was this; `null` is that of a key without one |
//!
//! A `fail` did not happen. Texts begin as `""` or as the initial value. A key without `append`, whose texts were put
//! once, is decided exactly, without a search.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;

use super::values::shorten;
use crate::linearizability::zones::{self, Access};
use crate::linearizability::{Conflict, Effect, Entry, Model, Recorded, Trace, Unfit};

/// A map from keys to texts.
#[derive(Clone, Debug)]
pub struct Kv {
    initial: Arc<str>,
}

/// What is asked of one key, and answered.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum KvCall {
    /// The text becomes this one.
    Put(Arc<str>),
    /// This is added at the end.
    Append(Arc<str>),
    /// The text is this one.
    Get(Arc<str>),
}

impl Kv {
    /// A map in which each key begins with `initial`; `null` is the empty text.
    ///
    /// # Errors
    /// When it is neither a text nor `null`.
    pub fn new(initial: &Value) -> Result<Self, Unfit> {
        match text(initial) {
            Some(initial) => Ok(Self { initial }),
            None => Err(Unfit("a kv begins with a text".to_owned())),
        }
    }
}

fn text(value: &Value) -> Option<Arc<str>> {
    match value {
        Value::Null => Some("".into()),
        Value::String(text) => Some(text.as_str().into()),
        _ => None,
    }
}

fn number(text: &str) -> Trace {
    let mut hasher = std::hash::DefaultHasher::new();
    text.hash(&mut hasher);
    Trace::Value(hasher.finish())
}

impl Model for Kv {
    type State = Arc<str>;
    type Call = KvCall;

    fn call(&mut self, recorded: Recorded<'_>) -> Result<Option<KvCall>, Unfit> {
        let value = recorded.json;
        let given = value.and_then(text);
        let call = match (recorded.f(), given) {
            ("get" | "read", _) if !recorded.is_ok() => None,
            ("get" | "read", Some(text)) => {
                let absent = value.is_some_and(Value::is_null);
                Some(KvCall::Get(if absent {
                    self.initial.clone()
                } else {
                    text
                }))
            }
            ("get" | "read", None) if value.is_none() => None,
            ("put" | "write", Some(text)) => Some(KvCall::Put(text)),
            ("append", Some(text)) => Some(KvCall::Append(text)),
            _ => return Err(recorded.unfit("kv", "it has get, put and append, with texts")),
        };
        Ok(call.filter(|_| !recorded.is_failed()))
    }

    fn initial(&self) -> Arc<str> {
        self.initial.clone()
    }

    fn step(&self, state: &Arc<str>, call: &KvCall) -> Option<Arc<str>> {
        match call {
            KvCall::Put(text) => Some(text.clone()),
            KvCall::Append(text) => {
                let mut long = String::with_capacity(state.len() + text.len());
                long.push_str(state);
                long.push_str(text);
                Some(long.into())
            }
            KvCall::Get(found) => (found == state).then(|| state.clone()),
        }
    }

    fn effect(&self, state: &Arc<str>, call: &KvCall) -> Effect {
        match call {
            KvCall::Get(found) if found != state => Effect::NotNow,
            KvCall::Get(_) => Effect::Looks,
            KvCall::Append(text) if text.is_empty() => Effect::Looks,
            KvCall::Put(_) | KvCall::Append(_) => Effect::Acts,
        }
    }

    fn needs(&self, call: &KvCall) -> Trace {
        match call {
            KvCall::Put(_) => Trace::Nothing,
            KvCall::Append(_) => Trace::Everything,
            KvCall::Get(text) => number(text),
        }
    }

    fn leaves(&self, call: &KvCall) -> Trace {
        match call {
            KvCall::Put(text) => number(text),
            KvCall::Append(_) => Trace::Everything,
            KvCall::Get(_) => Trace::Nothing,
        }
    }

    /// Without `append`, where each text was put once.
    fn exact(&self, entries: &[Entry<KvCall>]) -> Option<Result<(), Conflict>> {
        let appends = |entry: &Entry<KvCall>| matches!(entry.call, KvCall::Append(_));
        if entries.iter().any(appends) {
            return None;
        }
        let accesses = entries.iter().filter_map(|entry| {
            let access = match &entry.call {
                KvCall::Put(text) => Access::Write(&**text),
                KvCall::Get(text) => Access::Read(&**text),
                KvCall::Append(_) => return None,
            };
            Some(entry.timed(access))
        });
        zones::decide(&*self.initial, accesses)
    }

    fn weight(&self, state: &Arc<str>) -> usize {
        state.len() + 48
    }

    fn show_state(&self, state: &Arc<str>) -> String {
        format!("\"{}\"", shorten(&state.escape_debug().to_string()))
    }

    fn show_call(&self, call: &KvCall) -> String {
        let (word, text) = match call {
            KvCall::Put(text) => ("put", text),
            KvCall::Append(text) => ("append", text),
            KvCall::Get(text) => ("get", text),
        };
        format!("{word} {}", self.show_state(text))
    }
}
