//! A set that elements are added to and taken out of. Each key is a part of its own.
//!
//! | operation | value | means |
//! |---|---|---|
//! | `add` | element | the element is in the set |
//! | `remove` | element | it is not |
//! | `read` | list | exactly these were in the set, in whatever order |
//!
//! A `fail` did not happen. It begins empty, or as the list that is given. Without `remove` a set is decided exactly,
//! without a search.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::values::{Values, shorten};
use crate::linearizability::chain::{self, Layer};
use crate::linearizability::{Conflict, Effect, Entry, Model, Recorded, Trace, Unfit};

/// A set.
#[derive(Clone, Debug)]
pub struct Set {
    elements: Values,
    initial: Vec<u64>,
}

/// What is asked of a set, and answered. Elements are numbers; sets of them have a bit for each.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum SetCall {
    /// The element is in the set from now on.
    Add(u32),
    /// The element is not in the set any more.
    Remove(u32),
    /// The set is this one.
    Read(Arc<[u64]>),
}

impl Set {
    /// A set with the elements of the list `initial`; `null`: none.
    ///
    /// # Errors
    /// When it is neither a list nor `null`.
    pub fn new(initial: &Value) -> Result<Self, Unfit> {
        let mut model = Self {
            elements: Values::default(),
            initial: Vec::new(),
        };
        model.initial = match initial {
            Value::Null => Vec::new(),
            Value::Array(elements) => model.bits(elements),
            _ => return Err(Unfit("a set begins with a list".to_owned())),
        };
        Ok(model)
    }

    /// The bits of a list of elements, without zeros at the end: equal sets are equal words.
    fn bits(&mut self, elements: &[Value]) -> Vec<u64> {
        let mut bits = Vec::new();
        for element in elements {
            let id = self.elements.id(element) as usize;
            if bits.len() <= id / 64 {
                bits.resize(id / 64 + 1, 0);
            }
            bits[id / 64] |= 1 << (id % 64);
        }
        bits
    }
}

fn has(bits: &[u64], element: u32) -> bool {
    let word = bits.get(element as usize / 64);
    word.is_some_and(|word| word >> (element % 64) & 1 == 1)
}

impl Model for Set {
    type State = Arc<[u64]>;
    type Call = SetCall;

    fn call(&mut self, recorded: Recorded<'_>) -> Result<Option<SetCall>, Unfit> {
        let value = recorded.json;
        let call = match (recorded.f(), value) {
            _ if recorded.is_failed() => None,
            ("read", _) if !recorded.is_ok() => None,
            ("read", None | Some(Value::Null)) => None,
            ("read", Some(Value::Array(elements))) => {
                Some(SetCall::Read(self.bits(elements).into()))
            }
            ("add", Some(element)) => Some(SetCall::Add(self.elements.id(element))),
            ("remove", Some(element)) => Some(SetCall::Remove(self.elements.id(element))),
            _ => {
                let right = "it has add and remove of an element, and read of a list";
                return Err(recorded.unfit("set", right));
            }
        };
        Ok(call)
    }

    fn initial(&self) -> Arc<[u64]> {
        self.initial.as_slice().into()
    }

    fn step(&self, state: &Arc<[u64]>, call: &SetCall) -> Option<Arc<[u64]>> {
        let changed = |element: u32| {
            let (word, bit) = (element as usize / 64, 1 << (element % 64));
            let mut bits = state.to_vec();
            bits.resize(bits.len().max(word + 1), 0);
            bits[word] ^= bit;
            while bits.last() == Some(&0) {
                bits.pop();
            }
            Arc::from(bits)
        };
        match call {
            SetCall::Add(element) if !has(state, *element) => Some(changed(*element)),
            SetCall::Remove(element) if has(state, *element) => Some(changed(*element)),
            SetCall::Read(found) if found != state => None,
            _ => Some(Arc::clone(state)),
        }
    }

    fn effect(&self, state: &Arc<[u64]>, call: &SetCall) -> Effect {
        match call {
            SetCall::Add(_) | SetCall::Remove(_) => Effect::Acts,
            SetCall::Read(found) if found != state => Effect::NotNow,
            SetCall::Read(_) => Effect::Looks,
        }
    }

    fn leaves(&self, call: &SetCall) -> Trace {
        match call {
            SetCall::Read(_) => Trace::Nothing,
            SetCall::Add(_) | SetCall::Remove(_) => Trace::Everything,
        }
    }

    /// Without `remove`.
    fn exact(&self, entries: &[Entry<SetCall>]) -> Option<Result<(), Conflict>> {
        let removes = |entry: &Entry<SetCall>| matches!(entry.call, SetCall::Remove(_));
        (!entries.iter().any(removes)).then(|| grows(&self.initial, entries))
    }

    fn weight(&self, state: &Arc<[u64]>) -> usize {
        size_of_val::<[u64]>(state) + 32
    }

    fn show_state(&self, state: &Arc<[u64]>) -> String {
        let all = (0..).take(state.len() * 64);
        let elements = all.filter(|&element| has(state, element)).take(50);
        let shown: Vec<String> = elements.map(|id| self.elements.shown(id)).collect();
        shorten(&format!("{{{}}}", shown.join(", ")))
    }

    fn show_call(&self, call: &SetCall) -> String {
        match call {
            SetCall::Add(element) => format!("add {}", self.elements.shown(*element)),
            SetCall::Remove(element) => format!("remove {}", self.elements.shown(*element)),
            SetCall::Read(found) => format!("read {}", self.show_state(found)),
        }
    }
}

/// Decides a set that is only added to. Its reads stand in a line, each with all that the one before it has; between two
/// of them an element comes in with whichever of its additions is the first.
fn grows(initial: &[u64], entries: &[Entry<SetCall>]) -> Result<(), Conflict> {
    let why = "what was read and what was added do not follow each other";
    let mut reads: Vec<(&Entry<SetCall>, &[u64])> = Vec::new();
    let mut adds: HashMap<u32, Vec<&Entry<SetCall>>> = HashMap::new();
    for entry in entries {
        match &entry.call {
            SetCall::Add(element) => adds.entry(*element).or_default().push(entry),
            SetCall::Read(found) => reads.push((entry, found)),
            SetCall::Remove(_) => {}
        }
    }
    let size = |bits: &[u64]| bits.iter().map(|word| word.count_ones()).sum::<u32>();
    reads.sort_by_cached_key(|(_, found)| size(found));
    // The states that were read, each with its reads; the first is the initial one.
    let mut states: Vec<(&[u64], Vec<&Entry<SetCall>>)> = vec![(initial, Vec::new())];
    for (read, found) in reads {
        let last = states.len() - 1;
        let (state, of_state) = &mut states[last];
        if *state == found {
            of_state.push(read);
        } else if is_within(state, found) {
            states.push((found, vec![read]));
        } else {
            let other = of_state.first().map(|other| other.operation);
            return Err(Conflict {
                operations: other.into_iter().chain([read.operation]).collect(),
                why: "each of two reads lacks something that the other has",
            });
        }
    }
    // Twice for each state: what is new in it, and its reads. What nobody read comes after all of them.
    let mut layers = Vec::with_capacity(states.len() * 2 + 1);
    let mut before: &[u64] = initial;
    for (state, of_state) in &states {
        let mut new = Layer::default();
        for element in added(before, state) {
            let of_element = adds.remove(&element).unwrap_or_default();
            let Some(first) = of_element.iter().min_by_key(|add| add.called) else {
                return Err(Conflict {
                    operations: of_state
                        .first()
                        .map(|read| read.operation)
                        .into_iter()
                        .collect(),
                    why: "an element was read that was never added",
                });
            };
            new.called(first.called, first.operation);
            for add in of_element {
                new.returned(add.returned, add.operation);
            }
        }
        let mut shown = Layer::default();
        for read in of_state {
            shown.called(read.called, read.operation);
            shown.returned(read.returned, read.operation);
        }
        layers.extend([new, shown]);
        before = state;
    }
    let mut unread = Layer::default();
    for (_, of_element) in adds.iter().filter(|&(&element, _)| !has(initial, element)) {
        for add in of_element {
            unread.returned(add.returned, add.operation);
        }
    }
    layers.push(unread);
    chain::decide(layers, why)
}

/// The elements of `state` that `before` has not.
fn added(before: &[u64], state: &[u64]) -> impl Iterator<Item = u32> {
    let elements = (0..).take(state.len() * 64);
    elements.filter(|&element| has(state, element) && !has(before, element))
}

/// All of `less` is in `more`.
fn is_within(less: &[u64], more: &[u64]) -> bool {
    less.len() <= more.len() && less.iter().zip(more).all(|(less, more)| less & !more == 0)
}
