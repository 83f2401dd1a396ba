//! A part's calls as a line of events, ready to be walked forwards and backwards.
//!
//! Completed calls are called and return. Calls whose outcome is unknown (*crashed*) are put into classes of equal
//! calls: within a class nothing but their number matters. A crashed call enters only where somebody could have seen it,
//! and its class leaves after the last one who could.

use std::collections::{BTreeMap, HashMap};

use super::{Entry, Model, Trace};

/// What happens at one place of the line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Event {
    /// A completed call begins.
    Call(u32),
    /// A completed call is over: it has happened by now.
    Return(u32),
    /// One more crashed call of this class may happen from here on.
    Crash(u32),
    /// No one who is left could see a call of this class.
    Expire(u32),
}

/// A completed call.
#[derive(Clone, Debug)]
pub(super) struct Completed {
    /// Its entry.
    pub entry: u32,
    /// Its place in the bit set of the calls that are open.
    pub slot: u32,
    /// Where it returns, as a place on the line.
    pub returns: u32,
    pub needs: Trace,
    /// The value that it needs, and the one that it leaves, as places in [`Timeline::values`].
    pub needed: Option<u32>,
    pub left: Option<u32>,
}

/// What is known of a value that calls need or leave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    /// How many completed calls need it.
    pub by: u32,
    /// A crashed call may need it.
    pub by_crashed: bool,
}

/// Equal crashed calls.
#[derive(Clone, Debug)]
pub(super) struct Class {
    /// Their entries, in the order of their invocations.
    pub entries: Vec<u32>,
    pub needs: Trace,
    pub leaves: Trace,
}

#[derive(Debug, Default)]
pub(super) struct Timeline {
    pub events: Vec<Event>,
    pub calls: Vec<Completed>,
    pub classes: Vec<Class>,
    /// How many slots are in use at once, at most.
    pub slots: u32,
    /// Classes by what they leave: a value, or (`None`) anything. In order, so that each search goes the same way.
    pub leavers: BTreeMap<Option<u64>, Vec<u32>>,
    /// Every value that is needed or left.
    pub values: Vec<Wanted>,
}

impl Timeline {
    pub fn new<M: Model>(model: &M, entries: &[Entry<M::Call>]) -> Self {
        let mut timeline = Self::default();
        let completed = |entry: &Entry<M::Call>| entry.returned.is_some();
        timeline.gather_classes(model, entries);
        let useful = timeline.useful_until(model, entries);
        let mut places: HashMap<u64, u32> = HashMap::new();
        let mut values: Vec<Wanted> = Vec::new();
        let mut place = |trace: Trace, values: &mut Vec<Wanted>| {
            let Trace::Value(value) = trace else {
                return None;
            };
            Some(*places.entry(value).or_insert_with(|| {
                values.push(Wanted::default());
                number(values.len() - 1)
            }))
        };
        for class in &timeline.classes {
            if let Some(needed) = place(class.needs, &mut values) {
                values[needed as usize].by_crashed = true;
            }
        }
        // Index and rank: at equal indexes calls come first, so that they overlap.
        let mut line: Vec<(u64, u8, Event)> = Vec::with_capacity(entries.len() * 2);
        for (at, entry) in entries.iter().enumerate().filter(|(_, e)| completed(e)) {
            let call = number(timeline.calls.len());
            let needed = place(model.needs(&entry.call), &mut values);
            let left = place(model.leaves(&entry.call), &mut values);
            if let Some(needed) = needed {
                values[needed as usize].by += 1;
            }
            timeline.calls.push(Completed {
                needed,
                left,
                entry: number(at),
                slot: 0,
                returns: 0,
                needs: model.needs(&entry.call),
            });
            line.push((entry.called, 0, Event::Call(call)));
            line.extend(entry.returned.map(|at| (at, 1, Event::Return(call))));
        }
        timeline.values = values;
        for (class, until) in useful.into_iter().enumerate() {
            let members = &mut timeline.classes[class].entries;
            members.retain(|&at| Some(entries[at as usize].called) < until);
            let crash = Event::Crash(number(class));
            line.extend(
                members
                    .iter()
                    .map(|&at| (entries[at as usize].called, 0, crash)),
            );
            if let (false, Some(until)) = (members.is_empty(), until) {
                line.push((until, 2, Event::Expire(number(class))));
            }
        }
        line.sort_by_key(|&(index, rank, _)| (index, rank));
        timeline.events = line.into_iter().map(|(_, _, event)| event).collect();
        timeline.give_slots();
        for (class, of) in timeline.classes.iter().enumerate() {
            let left = match of.leaves {
                Trace::Nothing => continue,
                Trace::Value(value) => Some(value),
                Trace::Everything => None,
            };
            timeline
                .leavers
                .entry(left)
                .or_default()
                .push(number(class));
        }
        timeline
    }

    fn gather_classes<M: Model>(&mut self, model: &M, entries: &[Entry<M::Call>]) {
        let mut by_call: HashMap<&M::Call, usize> = HashMap::new();
        for (at, entry) in entries.iter().enumerate() {
            if entry.returned.is_some() {
                continue;
            }
            let class = *by_call.entry(&entry.call).or_insert_with(|| {
                self.classes.push(Class {
                    entries: Vec::new(),
                    needs: model.needs(&entry.call),
                    leaves: model.leaves(&entry.call),
                });
                self.classes.len() - 1
            });
            self.classes[class].entries.push(number(at));
        }
        for class in &mut self.classes {
            class.entries.sort_by_key(|&at| entries[at as usize].called);
        }
    }

    /// For each class the last return of a completed call that could see it, through other crashed calls or not;
    /// `None`: nobody could.
    fn useful_until<M: Model>(&self, model: &M, entries: &[Entry<M::Call>]) -> Vec<Option<u64>> {
        if self.classes.is_empty() {
            return Vec::new();
        }
        let mut seen = Seen::default();
        for entry in entries {
            if let Some(returned) = entry.returned {
                seen.add(model.needs(&entry.call), returned);
            }
        }
        let mut useful = vec![None; self.classes.len()];
        loop {
            let mut grew = false;
            for (class, until) in self.classes.iter().zip(&mut useful) {
                let now = seen.until(class.leaves);
                if now > *until {
                    *until = now;
                    grew = true;
                    seen.add(class.needs, now.unwrap_or_default());
                }
            }
            if !grew {
                return useful;
            }
        }
    }

    fn give_slots(&mut self) {
        let mut free: Vec<u32> = Vec::new();
        for (place, event) in self.events.iter().enumerate() {
            match *event {
                Event::Call(call) => {
                    self.calls[call as usize].slot = free.pop().unwrap_or_else(|| {
                        self.slots += 1;
                        self.slots - 1
                    });
                }
                Event::Return(call) => {
                    let call = &mut self.calls[call as usize];
                    call.returns = number(place);
                    free.push(call.slot);
                }
                Event::Crash(_) | Event::Expire(_) => {}
            }
        }
    }
}

/// Until when somebody needs a value, anything at all, or everything.
#[derive(Debug, Default)]
struct Seen {
    by_value: HashMap<u64, u64>,
    anything: Option<u64>,
    everything: Option<u64>,
}

impl Seen {
    fn add(&mut self, needs: Trace, until: u64) {
        match needs {
            Trace::Nothing => return,
            Trace::Value(value) => {
                let known = self.by_value.entry(value).or_insert(until);
                *known = (*known).max(until);
            }
            Trace::Everything => self.everything = self.everything.max(Some(until)),
        }
        self.anything = self.anything.max(Some(until));
    }

    fn until(&self, leaves: Trace) -> Option<u64> {
        match leaves {
            Trace::Nothing => None,
            Trace::Value(value) => self.by_value.get(&value).copied().max(self.everything),
            Trace::Everything => self.anything,
        }
    }
}

/// Positions within one part fit 32 bits: a history with more operations fits no memory.
fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
