//! A list that is only added to, with or without a fence. Each key is a part of its own.
//!
//! | operation | answer | means |
//! |---|---|---|
//! | `append` of a value | ok | the value is at the end; a token must not be below the high water, and becomes it |
//! | `append` | fail, `stale-token` | the token is below the high water, which is the one that is named, if one is |
//! | `read` | ok | the whole list, and the high water where it is told |
//!
//! Any other `fail` did not happen. It begins empty, with a high water of 0. An append without a token is not fenced.
//! Without tokens, and with values that were appended once, a log is decided exactly, without a search.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;

use super::values::{Id, Values, shorten};
use crate::history::Token;
use crate::linearizability::chain::{self, Layer};
use crate::linearizability::{Conflict, Effect, Entry, Model, Recorded, Trace, Unfit};

/// A list that is only added to.
#[derive(Clone, Debug, Default)]
pub struct AppendLog {
    values: Values,
}

/// What is asked of a log, and answered.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct LogCall(Asks);

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Asks {
    Append {
        token: Option<i128>,
        value: Id,
    },
    Refused {
        token: i128,
        named: Option<i128>,
    },
    Read {
        list: Option<List>,
        mark: Option<i128>,
    },
}

/// The list and its high water.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Log {
    high_water: i128,
    list: List,
}

/// A list that shares its beginning with those that it was made of: adding to it copies nothing.
#[derive(Clone, Debug, Default)]
pub struct List {
    last: Option<Arc<Node>>,
}

#[derive(Debug)]
struct Node {
    before: List,
    value: Id,
    length: usize,
    /// Of the whole list up to here: lists that differ are told apart without walking them.
    digest: u64,
}

impl List {
    fn with(&self, value: Id) -> Self {
        let digest = (self.digest() ^ u64::from(value))
            .wrapping_add(0x632b_e59b_d9b4_e019)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let node = Node {
            before: self.clone(),
            value,
            length: self.length() + 1,
            digest: digest ^ digest >> 29,
        };
        Self {
            last: Some(Arc::new(node)),
        }
    }

    fn length(&self) -> usize {
        self.last.as_ref().map_or(0, |node| node.length)
    }

    fn digest(&self) -> u64 {
        self.last.as_ref().map_or(0, |node| node.digest)
    }

    /// From the end to the beginning.
    fn backwards(&self) -> impl Iterator<Item = Id> + '_ {
        std::iter::successors(self.last.as_deref(), |node| node.before.last.as_deref())
            .map(|node| node.value)
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        if (self.length(), self.digest()) != (other.length(), other.digest()) {
            return false;
        }
        let (mut one, mut two) = (self.last.as_ref(), other.last.as_ref());
        while let (Some(first), Some(second)) = (one, two) {
            if Arc::ptr_eq(first, second) {
                return true;
            }
            if first.value != second.value {
                return false;
            }
            (one, two) = (first.before.last.as_ref(), second.before.last.as_ref());
        }
        one.is_none() && two.is_none()
    }
}

impl Eq for List {}

impl Hash for List {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.digest());
    }
}

impl Drop for List {
    /// One after the other: a long list that is dropped as it is made would take a stack frame for each element.
    fn drop(&mut self) {
        let mut last = self.last.take();
        while let Some(mut node) = last.and_then(Arc::into_inner) {
            last = node.before.last.take();
        }
    }
}

impl AppendLog {
    /// A log that is empty.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Model for AppendLog {
    type State = Log;
    type Call = LogCall;

    fn call(&mut self, recorded: Recorded<'_>) -> Result<Option<LogCall>, Unfit> {
        let value = recorded.json;
        let mark = recorded.operation.high_water.map(Token::value);
        let token = recorded.token().map(Token::value);
        let refused = recorded.is_failed() && recorded.error() == Some("stale-token");
        let asks = match (recorded.f(), value) {
            ("read", _) if !recorded.is_ok() => return Ok(None),
            ("read", value @ (None | Some(Value::Null | Value::Array(_)))) => {
                let list = match value {
                    None => None,
                    Some(value) => {
                        let values = value.as_array().into_iter().flatten();
                        Some(values.fold(List::default(), |list, value| {
                            list.with(self.values.id(value))
                        }))
                    }
                };
                let tells = list.is_some() || mark.is_some();
                return Ok(tells.then_some(LogCall(Asks::Read { list, mark })));
            }
            ("append", _) if refused => Asks::Refused {
                token: token.unwrap_or(0),
                named: mark,
            },
            ("append", _) if recorded.is_failed() => return Ok(None),
            ("append", Some(value)) => Asks::Append {
                token,
                value: self.values.id(value),
            },
            _ => {
                let right = "it has append of a value, and read of a list";
                return Err(recorded.unfit("append-log", right));
            }
        };
        Ok(Some(LogCall(asks)))
    }

    fn initial(&self) -> Log {
        Log {
            high_water: 0,
            list: List::default(),
        }
    }

    fn step(&self, state: &Log, call: &LogCall) -> Option<Log> {
        match self.effect(state, call) {
            Effect::Never | Effect::NotNow => None,
            Effect::Looks => Some(state.clone()),
            Effect::Acts => match call.0 {
                Asks::Append { token, value } => Some(Log {
                    high_water: token.unwrap_or(state.high_water),
                    list: state.list.with(value),
                }),
                Asks::Refused { .. } | Asks::Read { .. } => None,
            },
        }
    }

    fn effect(&self, state: &Log, call: &LogCall) -> Effect {
        // Neither the list nor the high water ever shrinks.
        match &call.0 {
            Asks::Append {
                token: Some(token), ..
            } if *token < state.high_water => Effect::Never,
            Asks::Append { .. } => Effect::Acts,
            Asks::Refused { token, named } => match named {
                Some(named) if *named < state.high_water || named <= token => Effect::Never,
                Some(named) if *named > state.high_water => Effect::NotNow,
                Some(_) => Effect::Looks,
                None if *token < state.high_water => Effect::Looks,
                None => Effect::NotNow,
            },
            Asks::Read { list, mark } => {
                let gone = mark.is_some_and(|mark| mark < state.high_water)
                    || list.as_ref().is_some_and(|list| {
                        list.length() < state.list.length()
                            || list.length() == state.list.length() && *list != state.list
                    });
                let fits = mark.is_none_or(|mark| mark == state.high_water)
                    && list
                        .as_ref()
                        .is_none_or(|list| list.length() == state.list.length());
                match (gone, fits) {
                    (true, _) => Effect::Never,
                    (false, true) => Effect::Looks,
                    (false, false) => Effect::NotNow,
                }
            }
        }
    }

    fn leaves(&self, call: &LogCall) -> Trace {
        match call.0 {
            Asks::Append { .. } => Trace::Everything,
            Asks::Refused { .. } | Asks::Read { .. } => Trace::Nothing,
        }
    }

    /// Without tokens, where each value was appended once.
    fn exact(&self, entries: &[Entry<LogCall>]) -> Option<Result<(), Conflict>> {
        grows(entries)
    }

    fn weight(&self, _state: &Log) -> usize {
        size_of::<Log>() + size_of::<Node>()
    }

    fn show_state(&self, state: &Log) -> String {
        format!(
            "{}, high water {}",
            self.shown(&state.list),
            state.high_water
        )
    }

    fn show_call(&self, call: &LogCall) -> String {
        let under = |token: &Option<i128>| {
            token.map_or_else(String::new, |token| format!(" under token {token}"))
        };
        let told = |mark: &Option<i128>| {
            mark.map_or_else(String::new, |mark| format!(", high water {mark}"))
        };
        match &call.0 {
            Asks::Append { token, value } => {
                format!("append {}{}", self.values.shown(*value), under(token))
            }
            Asks::Refused { token, named } => format!("refusal of token {token}{}", told(named)),
            Asks::Read { list, mark } => {
                let list = list
                    .as_ref()
                    .map_or_else(|| "something".to_owned(), |list| self.shown(list));
                format!("read {list}{}", told(mark))
            }
        }
    }
}

impl AppendLog {
    /// The end of a list: what came last says most.
    fn shown(&self, list: &List) -> String {
        let mut shown: Vec<String> = list
            .backwards()
            .take(20)
            .map(|value| self.values.shown(value))
            .collect();
        shown.reverse();
        let before = if list.length() > shown.len() {
            "..., "
        } else {
            ""
        };
        let length = list.length();
        shorten(&format!("[{before}{}] ({length} long)", shown.join(", ")))
    }
}

/// Decides a log without tokens whose values were appended once; `None` where it is none. The longest read is the order
/// of what is in it; what is not comes in after all of them.
fn grows(entries: &[Entry<LogCall>]) -> Option<Result<(), Conflict>> {
    let mut appends: HashMap<Id, &Entry<LogCall>> = HashMap::new();
    let mut reads: Vec<(&Entry<LogCall>, &List)> = Vec::new();
    for entry in entries {
        match &entry.call.0 {
            Asks::Append { token: None, value } => {
                if appends.insert(*value, entry).is_some() {
                    return None;
                }
            }
            Asks::Read {
                list: Some(list),
                mark: None,
            } => reads.push((entry, list)),
            Asks::Append { .. } | Asks::Refused { .. } | Asks::Read { .. } => return None,
        }
    }
    let longest = reads.iter().max_by_key(|(_, list)| list.length()).copied();
    let mut order: Vec<Id> = longest.map_or_else(Vec::new, |(_, list)| list.backwards().collect());
    order.reverse();
    // The digests of the beginnings of the longest, and then the lists themselves, are what the others must be.
    let mut beginnings = vec![List::default()];
    for &value in &order {
        let last = beginnings.len() - 1;
        beginnings.push(beginnings[last].with(value));
    }
    // Twice for each length: the append that makes it, and its reads. What nobody read comes after all of them.
    let mut layers = vec![Layer::default(); beginnings.len() * 2];
    for (read, list) in &reads {
        if beginnings[list.length()] != **list {
            let longest = longest.map(|(read, _)| read.operation);
            return Some(Err(Conflict {
                operations: longest.into_iter().chain([read.operation]).collect(),
                why: "neither of two reads is the beginning of the other",
            }));
        }
        let layer = &mut layers[list.length() * 2 + 1];
        layer.called(read.called, read.operation);
        layer.returned(read.returned, read.operation);
    }
    let reader = longest.map(|(read, _)| read.operation);
    for (at, value) in order.iter().enumerate() {
        // A value that stands in it twice was appended once.
        let Some(append) = appends.remove(value) else {
            return Some(Err(Conflict {
                operations: reader.into_iter().collect(),
                why: "a value was read that was never appended, or twice what was appended once",
            }));
        };
        let layer = &mut layers[(at + 1) * 2];
        layer.called(append.called, append.operation);
        layer.returned(append.returned, append.operation);
    }
    let mut unread = Layer::default();
    for append in appends.values() {
        unread.returned(append.returned, append.operation);
    }
    layers.push(unread);
    Some(chain::decide(
        layers,
        "what was read and what was appended do not follow each other",
    ))
}
