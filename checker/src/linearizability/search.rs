//! The search for an order of atomic steps that explains one part of a history.
//!
//! Promises: [`Found::Linearizable`] exactly when there is such an order, [`Found::Not`] exactly when there is none.
//!
//! The line of events is walked from the left. A call is given its place in the order only when it has to have one: at
//! its return (Lowe, *Testing for linearizability*, 2017, calls it just-in-time linearization; the backtracking is that
//! of Wing and Gong, 1993). There the call that returns is tried first, then each other open call before it. What keeps
//! the tree small:
//!
//! - A completed call that is possible and only looks happens at once, with no second choice: whatever order exists,
//!   exists with the call moved here. This is not so for one that leaves the state as it is by chance (a write of the
//!   value that is there), nor for a crashed one, which may as well never happen.
//! - A crashed call is tried only while a call is open that needs what it leaves ([`Trace`]), and only such a call may
//!   come next: in an order with the fewest crashed calls each is seen by the very next one.
//! - Equal crashed calls are one class with a number ([`Timeline`]).
//! - An open call that the next one would hide ([`Model::hides`]), and that nobody needs but calls that are open and can
//!   look at once, happens right before it, they with it: of an order that has it later, the same without it is one.
//! - Where the model says that an open call can never happen any more, the branch ends.
//! - No configuration is entered twice, nor one that is dominated by another ([`Memo`]).

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::limits::{Exhausted, Limits};
use super::memo::{Memo, Mix};
use super::timeline::{Event, Timeline};
use super::{Effect, Entry, Model, Trace};

/// How many of the calls that lead to a dead end are kept, and how many of those that cannot follow.
pub(super) const SHOWN: usize = 64;

/// How much is done between two questions whether to stop.
const WORK: usize = 2048;

/// Marks a candidate that is a class of crashed calls.
const CRASHED: u32 = 1 << 31;

/// The answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Found {
    Linearizable,
    Not,
    Unknown(Exhausted),
}

/// How far an order got, and what is in its way.
#[derive(Clone, Debug)]
pub(super) struct DeadEnd<S> {
    /// How many calls have a place.
    pub explained: usize,
    /// The last of them, as entries.
    pub last: Vec<u32>,
    pub state: S,
    /// Open calls that have none, the one that returns next first; entries.
    pub stuck: Vec<u32>,
}

/// What was done, to be undone in the opposite order.
#[derive(Clone, Copy, Debug)]
enum Done {
    Called(u32),
    Returned(u32),
    Happened(u32),
    Crashed(u32),
    Used(u32),
    Expired(u32),
}

/// A return whose call has no place yet, and what was tried.
#[derive(Debug)]
struct Choice<S> {
    done: usize,
    at: usize,
    order: usize,
    state: S,
    target: u32,
    /// The crashed call just before, if the next one must need it.
    after: Trace,
    /// Where the other candidates begin, once the target was tried.
    candidates: Option<usize>,
}

/// What comes next.
enum Next {
    End,
    Blocked(u32),
    Dead,
}

pub(super) struct Search<'a, M: Model> {
    model: &'a M,
    entries: &'a [Entry<M::Call>],
    line: Timeline,
    limits: Limits<'a>,

    /// The next event.
    at: usize,
    state: M::State,
    /// Completed calls that are open and have not happened.
    open: Links,
    /// The slots of those that are open and have.
    happened: Vec<u64>,
    /// Of each class how many were called, and how many have happened.
    called: Vec<u32>,
    used: Vec<u32>,
    /// Classes of which some have happened and that somebody may still see.
    live: Links,
    /// How many completed calls that have not happened need each value.
    wanted: Vec<u32>,
    /// Entries in the order that is tried.
    order: Vec<u32>,
    /// What the next call must need, where the last one was a crashed one that nobody has seen yet.
    after: Trace,

    done: Vec<Done>,
    choices: Vec<Choice<M::State>>,
    candidates: Vec<u32>,
    memo: Memo,
    states: HashMap<M::State, u32, BuildHasherDefault<Mix>>,
    /// Bytes of the states in `states` and `choices`.
    weight: usize,
    steps: u64,
    work: usize,
    furthest: Option<DeadEnd<M::State>>,
    // Kept to be used again.
    key: Vec<u64>,
    uses: Vec<u64>,
    classes: Vec<u32>,
    listed: Vec<bool>,
}

impl<'a, M: Model> Search<'a, M> {
    pub fn new(model: &'a M, entries: &'a [Entry<M::Call>], limits: Limits<'a>) -> Self {
        let line = Timeline::new(model, entries);
        let words = (line.slots as usize).div_ceil(64);
        let classes = line.classes.len();
        Self {
            model,
            entries,
            limits,
            at: 0,
            state: model.initial(),
            open: Links::new(line.calls.len()),
            happened: vec![0; words],
            called: vec![0; classes],
            used: vec![0; classes],
            live: Links::new(classes),
            wanted: line.values.iter().map(|value| value.by).collect(),
            order: Vec::new(),
            after: Trace::Everything,
            done: Vec::new(),
            choices: Vec::new(),
            candidates: Vec::new(),
            memo: Memo::new(words),
            states: HashMap::default(),
            weight: 0,
            steps: 0,
            work: WORK,
            furthest: None,
            key: Vec::new(),
            uses: Vec::new(),
            classes: Vec::new(),
            listed: vec![false; classes],
            line,
        }
    }

    /// Searches until there is an answer or a limit is reached.
    pub fn run(&mut self) -> Found {
        loop {
            if let Some(exhausted) = self.exhausted() {
                self.note();
                return Found::Unknown(exhausted);
            }
            let goes_on = match self.advance() {
                Next::End => return Found::Linearizable,
                Next::Dead => false,
                Next::Blocked(target) => self.choose(target),
            };
            if goes_on && self.take(None) {
                continue;
            }
            loop {
                self.note();
                if let Some(exhausted) = self.exhausted() {
                    return Found::Unknown(exhausted);
                }
                match self.other() {
                    Some(candidate) => {
                        if self.take(Some(candidate)) {
                            break;
                        }
                    }
                    None if self.choices.is_empty() => return Found::Not,
                    None => self.leave(),
                }
            }
        }
    }

    /// How many steps were taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// How far the best order got. There is one unless the part is linearizable.
    pub fn furthest(&mut self) -> Option<DeadEnd<M::State>> {
        self.furthest.take()
    }

    fn exhausted(&mut self) -> Option<Exhausted> {
        if self.limits.steps.is_some_and(|most| self.steps >= most) {
            return Some(Exhausted::Steps);
        }
        if self.limits.memory.is_some_and(|most| self.bytes() >= most) {
            return Some(Exhausted::Memory);
        }
        if self.work >= WORK {
            self.work = 0;
            if self.limits.stop.is_some_and(|stop| stop()) {
                return Some(Exhausted::Stopped);
            }
        }
        None
    }

    /// Bytes in use, and those that the next growth of a table may take on top.
    fn bytes(&self) -> usize {
        let line = self.entries.len() * 64 + self.line.events.len() * size_of::<Event>();
        let lists = self.done.capacity() * size_of::<Done>()
            + self.choices.capacity() * size_of::<Choice<M::State>>()
            + (self.candidates.capacity() + self.order.capacity()) * size_of::<u32>();
        let states = self.states.capacity() * (size_of::<M::State>() + size_of::<u64>());
        line + lists * 2 + states * 2 + self.weight + self.memo.bytes()
    }

    /// Walks to the next return of a call that has not happened.
    fn advance(&mut self) -> Next {
        while let Some(&event) = self.line.events.get(self.at) {
            self.work += 1;
            match event {
                Event::Call(call) => {
                    self.open.add(call);
                    self.done.push(Done::Called(call));
                    match self.effect(call) {
                        Effect::Never => return Next::Dead,
                        Effect::Looks => self.happen(call),
                        Effect::NotNow | Effect::Acts => {}
                    }
                }
                Event::Return(call) => {
                    if !self.has_happened(call) {
                        return Next::Blocked(call);
                    }
                    self.flip(call);
                    self.done.push(Done::Returned(call));
                }
                Event::Crash(class) => {
                    self.called[class as usize] += 1;
                    self.done.push(Done::Crashed(class));
                }
                Event::Expire(class) => {
                    if self.used[class as usize] > 0 {
                        self.live.remove(class);
                        self.done.push(Done::Expired(class));
                    }
                }
            }
            self.at += 1;
        }
        Next::End
    }

    /// Enters a choice, if its configuration is a new one.
    fn choose(&mut self, target: u32) -> bool {
        if !self.is_new() {
            return false;
        }
        self.weight += self.model.weight(&self.state);
        self.choices.push(Choice {
            done: self.done.len(),
            at: self.at,
            order: self.order.len(),
            state: self.state.clone(),
            target,
            after: self.after,
            candidates: None,
        });
        true
    }

    fn is_new(&mut self) -> bool {
        if self.after != Trace::Everything {
            // Not every order is tried from here, so it must not stand for those that are. It is as good as its choices.
            return true;
        }
        let id = match self.states.get(&self.state) {
            Some(&id) => id,
            None => {
                let id = u32::try_from(self.states.len()).unwrap_or(u32::MAX);
                self.weight += self.model.weight(&self.state);
                self.states.insert(self.state.clone(), id);
                id
            }
        };
        self.key.clear();
        self.key.push((self.at as u64) << 32 | u64::from(id));
        self.key.extend_from_slice(&self.happened);
        self.uses.clear();
        let used = &self.used;
        self.uses.extend(
            self.live
                .iter()
                .map(|class| u64::from(class) << 32 | u64::from(used[class as usize])),
        );
        self.uses.sort_unstable();
        self.memo.insert(&self.key, &self.uses)
    }

    /// The next candidate of the last choice, with everything undone that came after it.
    fn other(&mut self) -> Option<u32> {
        let choice = self.choices.last()?;
        let (done, order) = (choice.done, choice.order);
        self.at = choice.at;
        self.after = choice.after;
        self.state.clone_from(&choice.state);
        self.undo(done);
        self.order.truncate(order);
        let choice = self.choices.last()?;
        let from = match choice.candidates {
            Some(from) => from,
            None => {
                let (from, target) = (self.candidates.len(), choice.target);
                self.list_candidates(target);
                if let Some(choice) = self.choices.last_mut() {
                    choice.candidates = Some(from);
                }
                from
            }
        };
        if self.candidates.len() > from {
            self.candidates.pop()
        } else {
            None
        }
    }

    fn leave(&mut self) {
        if let Some(choice) = self.choices.pop() {
            self.weight -= self.model.weight(&choice.state);
        }
    }

    /// Lets a candidate happen, or the target of the last choice. `false`: that leads nowhere.
    fn take(&mut self, candidate: Option<u32>) -> bool {
        let Some(candidate) = candidate.or_else(|| Some(self.choices.last()?.target)) else {
            return false;
        };
        self.steps += 1;
        self.work += 1;
        let after = self.after;
        self.after = Trace::Everything;
        if candidate & CRASHED == 0 {
            let needs = self.line.calls[candidate as usize].needs;
            if after != Trace::Everything && !after.meets(needs) {
                return false;
            }
            let entry = self.line.calls[candidate as usize].entry;
            if after == Trace::Everything && !self.hide(entry) {
                return false;
            }
            let Some(next) = self.model.step(&self.state, self.call(entry)) else {
                return false;
            };
            self.state = next;
            self.happen(candidate);
            return self.settle().is_some();
        }
        let class = candidate & !CRASHED;
        let of = &self.line.classes[class as usize];
        let used = self.used[class as usize];
        let (entry, leaves) = (of.entries[used as usize], of.leaves);
        if after != Trace::Everything && !after.meets(of.needs) {
            return false;
        }
        if after == Trace::Everything && !self.hide(entry) {
            return false;
        }
        let next = self.model.step(&self.state, self.call(entry));
        // One that changes nothing is one that need not have happened.
        let Some(next) = next.filter(|next| *next != self.state) else {
            return false;
        };
        self.state = next;
        if used == 0 {
            self.live.add(class);
        }
        self.used[class as usize] += 1;
        self.done.push(Done::Used(class));
        self.order.push(entry);
        match self.settle() {
            None => false,
            Some(seen) => {
                if !seen {
                    self.after = leaves;
                }
                true
            }
        }
    }

    /// Lets all open calls happen that `by` hides, with those that see them. `false`: another one never can now.
    fn hide(&mut self, by: u32) -> bool {
        let by = self.call(by);
        let mut call = self.open.first();
        while let Some(open) = call {
            call = self.open.after(open);
            self.work += 1;
            let of = &self.line.calls[open as usize];
            let (entry, Some(left)) = (of.entry, of.left) else {
                continue;
            };
            let hidden = self.call(entry);
            if std::ptr::eq(hidden, by)
                || self.line.values[left as usize].by_crashed
                || !self.model.hides(&self.state, hidden, by)
            {
                continue;
            }
            let Some(next) = self.model.step(&self.state, hidden) else {
                continue;
            };
            if !self.all_look(left, &next) {
                continue;
            }
            self.state = next;
            self.happen(open);
            if self.settle().is_none() {
                return false;
            }
            // Others may have happened with it.
            call = self.open.first();
        }
        true
    }

    /// All who still need `value` are open, and can look at it in `state`.
    fn all_look(&mut self, value: u32, state: &M::State) -> bool {
        let wanted = self.wanted[value as usize];
        if wanted == 0 {
            return true;
        }
        self.work += self.line.slots as usize;
        let looks = self.open.iter().filter(|&open| {
            let of = &self.line.calls[open as usize];
            of.needed == Some(value)
                && self.model.effect(state, self.call(of.entry)) == Effect::Looks
        });
        looks.count() == wanted as usize
    }

    /// Lets all open calls happen that can and only look. Whether there were any; `None`: one of the others
    /// never can.
    fn settle(&mut self) -> Option<bool> {
        let mut any = false;
        let mut call = self.open.first();
        while let Some(open) = call {
            call = self.open.after(open);
            self.work += 1;
            match self.effect(open) {
                Effect::Never => return None,
                Effect::Looks => {
                    any = true;
                    self.happen(open);
                }
                Effect::NotNow | Effect::Acts => {}
            }
        }
        Some(any)
    }

    /// Everything that could come before the call that returns, the best last.
    fn list_candidates(&mut self, target: u32) {
        let from = self.candidates.len();
        self.list_crashed();
        let crashed = self.candidates.len();
        let mut call = self.open.first();
        while let Some(open) = call {
            call = self.open.after(open);
            self.work += 1;
            if open != target && self.effect(open) == Effect::Acts {
                self.candidates.push(open);
            }
        }
        let calls = &self.line.calls;
        self.candidates[crashed..]
            .sort_by_key(|&call| std::cmp::Reverse(calls[call as usize].returns));
        // Best of all is one after which the target can happen.
        let wanted = self.call(calls[target as usize].entry);
        if self.model.effect(&self.state, wanted) != Effect::NotNow {
            return;
        }
        let mut candidates = self.candidates.split_off(from);
        self.work += candidates.len();
        candidates.sort_by_cached_key(|&candidate| {
            let entry = if candidate & CRASHED == 0 {
                self.line.calls[candidate as usize].entry
            } else {
                let class = (candidate & !CRASHED) as usize;
                self.line.classes[class].entries[self.used[class] as usize]
            };
            let next = self.model.step(&self.state, self.call(entry));
            next.is_some_and(|next| {
                matches!(
                    self.model.effect(&next, wanted),
                    Effect::Looks | Effect::Acts
                )
            })
        });
        self.candidates.append(&mut candidates);
    }

    /// Classes that an open call needs, or that a class needs which is needed itself.
    fn list_crashed(&mut self) {
        if self.called == self.used {
            return;
        }
        self.classes.clear();
        let mut needs = Called::default();
        for call in self.open.iter() {
            needs.add(self.line.calls[call as usize].needs, self);
        }
        while let Some(class) = needs.found.pop() {
            if !self.listed[class as usize] {
                self.listed[class as usize] = true;
                self.classes.push(class);
                needs.add(self.line.classes[class as usize].needs, self);
            }
        }
        for at in 0..self.classes.len() {
            let class = self.classes[at];
            self.listed[class as usize] = false;
            let entry =
                self.line.classes[class as usize].entries[self.used[class as usize] as usize];
            self.work += 1;
            if self.model.effect(&self.state, self.call(entry)) == Effect::Acts {
                self.candidates.push(class | CRASHED);
            }
        }
    }

    /// More of this class were called than have happened.
    fn is_available(&self, class: u32) -> bool {
        self.used[class as usize] < self.called[class as usize]
    }

    fn call(&self, entry: u32) -> &'a M::Call {
        &self.entries[entry as usize].call
    }

    fn effect(&self, call: u32) -> Effect {
        let entry = self.line.calls[call as usize].entry;
        self.model.effect(&self.state, self.call(entry))
    }

    fn happen(&mut self, call: u32) {
        self.open.remove(call);
        self.flip(call);
        if let Some(needed) = self.line.calls[call as usize].needed {
            self.wanted[needed as usize] -= 1;
        }
        self.done.push(Done::Happened(call));
        self.order.push(self.line.calls[call as usize].entry);
    }

    fn has_happened(&self, call: u32) -> bool {
        let slot = self.line.calls[call as usize].slot as usize;
        self.happened[slot / 64] >> (slot % 64) & 1 == 1
    }

    fn flip(&mut self, call: u32) {
        let slot = self.line.calls[call as usize].slot as usize;
        self.happened[slot / 64] ^= 1 << (slot % 64);
    }

    fn undo(&mut self, down_to: usize) {
        while self.done.len() > down_to {
            self.work += 1;
            match self.done.pop() {
                None => {}
                Some(Done::Called(call)) => self.open.remove(call),
                Some(Done::Returned(call)) => self.flip(call),
                Some(Done::Happened(call)) => {
                    if let Some(needed) = self.line.calls[call as usize].needed {
                        self.wanted[needed as usize] += 1;
                    }
                    self.flip(call);
                    self.open.put_back(call);
                }
                Some(Done::Crashed(class)) => self.called[class as usize] -= 1,
                Some(Done::Used(class)) => {
                    self.used[class as usize] -= 1;
                    if self.used[class as usize] == 0 {
                        self.live.remove(class);
                    }
                }
                Some(Done::Expired(class)) => self.live.put_back(class),
            }
        }
    }

    /// Remembers where it is, if no order got further.
    fn note(&mut self) {
        let explained = self.order.len();
        if self
            .furthest
            .as_ref()
            .is_some_and(|best| best.explained >= explained)
        {
            return;
        }
        let calls = &self.line.calls;
        let mut stuck: Vec<u32> = self.open.iter().collect();
        stuck.sort_unstable_by_key(|&call| calls[call as usize].returns);
        stuck.truncate(SHOWN);
        self.furthest = Some(DeadEnd {
            explained,
            last: self.order[explained.saturating_sub(SHOWN)..].to_vec(),
            state: self.state.clone(),
            stuck: stuck
                .into_iter()
                .map(|call| calls[call as usize].entry)
                .collect(),
        });
    }
}

/// Classes that are needed.
#[derive(Debug, Default)]
struct Called {
    anything: bool,
    everything: bool,
    found: Vec<u32>,
}

impl Called {
    fn add<M: Model>(&mut self, needs: Trace, search: &Search<'_, M>) {
        let leavers = &search.line.leavers;
        let mut find = |left: Option<u64>| {
            let classes = leavers.get(&left).into_iter().flatten().copied();
            self.found
                .extend(classes.filter(|&class| search.is_available(class)));
        };
        match needs {
            Trace::Nothing => return,
            Trace::Value(value) => find(Some(value)),
            Trace::Everything if !self.everything => {
                self.everything = true;
                leavers
                    .keys()
                    .filter(|left| left.is_some())
                    .for_each(|&left| find(left));
            }
            Trace::Everything => {}
        }
        if !self.anything {
            self.anything = true;
            find(None);
        }
    }
}

/// A list of small numbers from which any can be taken out and, in the opposite order, put back where it was.
#[derive(Debug)]
struct Links {
    /// The last place is that of the list's ends.
    next: Vec<u32>,
    previous: Vec<u32>,
}

impl Links {
    fn new(numbers: usize) -> Self {
        let end = u32::try_from(numbers).unwrap_or(u32::MAX);
        Self {
            next: vec![end; numbers + 1],
            previous: vec![end; numbers + 1],
        }
    }

    fn end(&self) -> u32 {
        u32::try_from(self.next.len() - 1).unwrap_or(u32::MAX)
    }

    fn first(&self) -> Option<u32> {
        self.after(self.end())
    }

    fn after(&self, number: u32) -> Option<u32> {
        let next = self.next[number as usize];
        (next != self.end()).then_some(next)
    }

    fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.first(), |&number| self.after(number))
    }

    /// Adds a number at the end.
    fn add(&mut self, number: u32) {
        let end = self.end();
        let last = self.previous[end as usize];
        self.previous[number as usize] = last;
        self.next[number as usize] = end;
        self.put_back(number);
    }

    fn remove(&mut self, number: u32) {
        let (previous, next) = (self.previous[number as usize], self.next[number as usize]);
        self.next[previous as usize] = next;
        self.previous[next as usize] = previous;
    }

    fn put_back(&mut self, number: u32) {
        let (previous, next) = (self.previous[number as usize], self.next[number as usize]);
        self.next[previous as usize] = number;
        self.previous[next as usize] = number;
    }
}
