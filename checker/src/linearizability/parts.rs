//! A history taken apart into what is independent, and each part decided.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::search::{DeadEnd, Found, Search};
use super::{Conflict, Entry, Exhausted, Impasse, Limits, Model, Placed, Recorded, Unfit};
use crate::history::{History, Name};

/// After an exact decision against a part, the search looks so far for the longest order, to show it.
const STEPS_TO_SHOW: u64 = 200_000;

/// Every part of a history, decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The parts, in the order in which their names first appear.
    pub parts: Vec<Part>,
}

/// One part of a history.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The key or lock; `None` where the model has one part, or the operations name none.
    pub name: Option<Name>,
    /// How many operations say something.
    pub operations: usize,
    /// How many steps the search took; 0 where the decision needed none.
    pub steps: u64,
    /// The answer.
    pub answer: Answer,
}

/// Whether some order of atomic steps explains a part.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// There is one.
    Legal,
    /// There is none.
    Illegal {
        /// How far an order can get.
        impasse: Impasse,
        /// Operations that cannot all have happened, where an exact decision named them.
        conflict: Option<Conflict>,
    },
    /// A limit was reached before it was decided.
    Unknown {
        /// Which one.
        exhausted: Exhausted,
        /// How far the search had got.
        impasse: Option<Impasse>,
    },
}

/// Decides every part of `history`: exactly where the model has a way, otherwise with the search.
///
/// # Errors
/// The first operation that the model does not have.
pub fn check<M: Model>(model: M, history: &History, limits: &Limits<'_>) -> Result<Decided, Unfit> {
    decide(model, history, limits, true)
}

/// Decides every part with the search alone, whatever exact way the model has: a cross-check.
///
/// # Errors
/// The first operation that the model does not have.
pub fn search<M: Model>(
    model: M,
    history: &History,
    limits: &Limits<'_>,
) -> Result<Decided, Unfit> {
    decide(model, history, limits, false)
}

fn decide<M: Model>(
    mut model: M,
    history: &History,
    limits: &Limits<'_>,
    exactly: bool,
) -> Result<Decided, Unfit> {
    let parts = take_apart(&mut model, history)?;
    let model = &model;
    let threads = threads(limits, parts.len());
    let limits = Limits {
        memory: limits.memory.map(|bytes| bytes / threads),
        ..*limits
    };
    let judge = |(name, entries): &(Option<Name>, Vec<Entry<M::Call>>)| {
        let (steps, answer) = decide_part(model, history, *name, entries, limits, exactly);
        Part {
            name: *name,
            operations: entries.len(),
            steps,
            answer,
        }
    };
    if threads == 1 {
        return Ok(Decided {
            parts: parts.iter().map(judge).collect(),
        });
    }
    // The largest first, so that no core is left alone with it at the end.
    let mut by_size: Vec<usize> = (0..parts.len()).collect();
    by_size.sort_by_key(|&part| std::cmp::Reverse(parts[part].1.len()));
    let next = AtomicUsize::new(0);
    let decided: Mutex<Vec<(usize, Part)>> = Mutex::new(Vec::with_capacity(parts.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(&part) = by_size.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let judged = judge(&parts[part]);
                    let mut decided = decided.lock().unwrap_or_else(|error| error.into_inner());
                    decided.push((part, judged));
                }
            });
        }
    });
    let mut decided = decided
        .into_inner()
        .unwrap_or_else(|error| error.into_inner());
    decided.sort_unstable_by_key(|&(part, _)| part);
    Ok(Decided {
        parts: decided.into_iter().map(|(_, part)| part).collect(),
    })
}

fn threads(limits: &Limits<'_>, parts: usize) -> usize {
    if parts < 2 {
        return 1;
    }
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    limits.threads.unwrap_or_else(cores).clamp(1, parts)
}

type Parts<C> = Vec<(Option<Name>, Vec<Entry<C>>)>;

/// What the model reads, by part.
fn take_apart<M: Model>(model: &mut M, history: &History) -> Result<Parts<M::Call>, Unfit> {
    let mut parts: BTreeMap<Option<Name>, Vec<Entry<M::Call>>> = BTreeMap::new();
    let names = &history.names;
    let values = history.values.all();
    for (position, operation) in history.operations.iter().enumerate() {
        let json = operation.value.map(|datum| &values[datum.position()]);
        let recorded = Recorded {
            operation,
            names,
            json,
        };
        if let Some(call) = model.call(recorded)? {
            let part = parts.entry(model.part(operation)).or_default();
            part.push(Entry::new(position, operation, call));
        }
    }
    Ok(parts.into_iter().collect())
}

fn decide_part<M: Model>(
    model: &M,
    history: &History,
    name: Option<Name>,
    entries: &[Entry<M::Call>],
    limits: Limits<'_>,
    exactly: bool,
) -> (u64, Answer) {
    let show = |end: DeadEnd<M::State>| show(model, history, name, entries, end);
    let exact = if exactly { model.exact(entries) } else { None };
    match exact {
        Some(Ok(())) => (0, Answer::Legal),
        Some(Err(conflict)) => {
            let steps = Some(limits.steps.unwrap_or(u64::MAX).min(STEPS_TO_SHOW));
            let mut search = Search::new(model, entries, Limits { steps, ..limits });
            let found = search.run();
            debug_assert!(found != Found::Linearizable, "{conflict:?}");
            let impasse = search
                .furthest()
                .map_or_else(|| nowhere(model, history, name, entries, &conflict), show);
            let conflict = Some(conflict);
            (search.steps(), Answer::Illegal { impasse, conflict })
        }
        None => {
            let mut search = Search::new(model, entries, limits);
            let found = search.run();
            let impasse = search.furthest().map(show);
            let answer = match (found, impasse) {
                (Found::Linearizable, _) => Answer::Legal,
                (Found::Unknown(exhausted), impasse) => Answer::Unknown { exhausted, impasse },
                (Found::Not, Some(impasse)) => Answer::Illegal {
                    impasse,
                    conflict: None,
                },
                // A search without an order notes how far it got; were it not so, there is nothing proven to show.
                (Found::Not, None) => Answer::Unknown {
                    exhausted: Exhausted::Stopped,
                    impasse: None,
                },
            };
            (search.steps(), answer)
        }
    }
}

fn show<M: Model>(
    model: &M,
    history: &History,
    name: Option<Name>,
    entries: &[Entry<M::Call>],
    end: DeadEnd<M::State>,
) -> Impasse {
    let place = |&entry: &u32| placed(model, history, &entries[entry as usize]);
    Impasse {
        part: name.map(|name| history.names.text(name).to_owned()),
        explained: end.explained as u64,
        operations: entries.len() as u64,
        prefix: end.last.iter().map(place).collect(),
        state: model.show_state(&end.state),
        cannot_follow: end.stuck.iter().map(place).collect(),
    }
}

/// An exact decision whose search was stopped before its first step.
fn nowhere<M: Model>(
    model: &M,
    history: &History,
    name: Option<Name>,
    entries: &[Entry<M::Call>],
    conflict: &Conflict,
) -> Impasse {
    let conflicts = |entry: &&Entry<M::Call>| conflict.operations.contains(&entry.operation);
    Impasse {
        part: name.map(|name| history.names.text(name).to_owned()),
        explained: 0,
        operations: entries.len() as u64,
        prefix: Vec::new(),
        state: model.show_state(&model.initial()),
        cannot_follow: entries
            .iter()
            .filter(conflicts)
            .map(|entry| placed(model, history, entry))
            .collect(),
    }
}

fn placed<M: Model>(model: &M, history: &History, entry: &Entry<M::Call>) -> Placed {
    let operation = &history.operations[entry.operation];
    Placed {
        invoked: operation.invoked.index,
        completed: operation.completed.map(|at| at.index),
        client: history.names.shown(operation.client).into_owned(),
        call: model.show_call(&entry.call),
    }
}
