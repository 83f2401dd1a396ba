//! What the lists of a log show. What each rule means is in `fencing/append.rs`.
//!
//! Of each log its appends are kept and the longest list so far. Where there are more of them than [`super::Limits::values`]
//! leaves room for, the beginning of that list is summed up: as far as every append in it was surely done before the
//! oldest open read was sent. Whatever is read later begins with it, or something is missing or was put in another order.
//! Appends that were answered no go as well, and those of unknown outcome whose token is below one of that beginning: in
//! whichever list they are found, they are wrong. A log of which that leaves too many (nobody reads it, say) is given up.
//!
//! A list's length is paid for each time that it is read.

use std::collections::{BTreeMap, HashSet};

use super::arrival::Arrival;
use super::hash::{Map, Set, fingerprint};
use super::words::{Kept, Op, writes};
use crate::fencing::Wrong;
use crate::history::{Function, Name, Outcome, Token};

/// How many elements at the heads of lists are remembered that nobody had appended yet.
const MOST_HEADS: usize = 256;

/// No append, in a list.
const NONE: u64 = 0;

/// An element of a list: its append, counted from 1, and what the value looks like.
#[derive(Clone, Copy, Debug)]
struct Place {
    nth: u64,
    print: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    nth: u64,
    append: Kept,
    /// The value was appended a second time.
    again: bool,
    /// The answer that first showed the append: its own, or a list.
    by: Option<Kept>,
    /// It was answered no, and is in a list.
    applied: bool,
}

/// An append, and the index at which it was surely done.
#[derive(Clone, Debug)]
struct Shown {
    append: Kept,
    at: u64,
}

/// The beginning of the longest list, summed up.
#[derive(Clone, Debug, Default)]
struct Beginning {
    length: usize,
    print: u64,
    done: u64,
    highest: Option<Shown>,
    last_sent: Option<(u64, Kept)>,
    /// The last append of it.
    last: Option<Kept>,
}

#[derive(Clone, Debug, Default)]
struct Log {
    path: Option<Name>,
    /// There are appends; else lists were read that nobody is known to have made.
    appended: bool,
    entries: Map<u64, Entry>,
    count: u64,
    /// How many appends are surely done.
    done: u64,
    beginning: Beginning,
    /// What follows it in the longest list.
    longest: Vec<Place>,
    longest_read: Option<Kept>,
    /// Open reads, by when they were sent: how many appends were surely done then.
    open: BTreeMap<u64, u64>,
    /// Elements that stand before every known one: in how many lists, and the first of these.
    heads: Map<u64, (u64, Kept)>,
    /// From so many appends on it is looked for what can be forgotten.
    enough: usize,
}

/// How often, and the operations that prove the first.
pub(super) type Found = BTreeMap<(Option<Name>, Wrong), (u64, Vec<Kept>)>;

#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    logs: Map<Option<Name>, Log>,
    /// Keys that other operations change as well.
    changed: Set<Option<Name>>,
    /// The last append of each key.
    last: Map<Option<Name>, Kept>,
    pub found: Found,
    /// Logs that were given up, and at which index.
    pub given_up: BTreeMap<Option<Name>, u64>,
}

impl Lists {
    /// An operation is sent; there is room for so many appends of its key.
    pub fn call(&mut self, arrival: &Arrival, op: &Kept, most: usize) {
        if self.changed.contains(&op.key) {
            return;
        }
        let (_, path) = arrival.object(op);
        if op.function == Function::Read {
            if let Some(log) = self.logs.get_mut(&op.key)
                && log.path == path
                && op.returned().is_some()
            {
                log.open.insert(op.invoked.index, log.done);
            }
            return;
        }
        let nothing = op.value.as_ref().is_none_or(serde_json::Value::is_null);
        let elsewhere = |log: &Log| log.appended && log.path != path;
        let changes = match op.function {
            Function::Append => nothing || self.logs.get(&op.key).is_some_and(elsewhere),
            Function::Other(_) => op.key.is_some(),
            _ => op.outcome != Outcome::Failed && writes(op),
        };
        if changes {
            self.changed.insert(op.key);
            self.logs.remove(&op.key);
        }
        if op.function != Function::Append {
            return;
        }
        self.last.insert(op.key, Kept::clone(op));
        let (false, Some(value)) = (self.changed.contains(&op.key), op.value.as_ref()) else {
            return;
        };
        let log = self.logs.entry(op.key).or_default();
        if log.path != path {
            *log = Log::default();
        }
        (log.path, log.appended) = (path, true);
        let print = fingerprint(value);
        if let Some((lists, first)) = log.heads.remove(&print) {
            let known = self.found.entry((op.key, Wrong::NeverAppended));
            known.or_insert_with(|| (0, vec![Kept::clone(op), first])).0 += lists;
        }
        log.append(print, op);
        if log.entries.len().max(log.longest.len()) > log.enough.max(most) && !log.forget(most) {
            self.given_up.insert(op.key, op.invoked.index);
            self.changed.insert(op.key);
            self.logs.remove(&op.key);
        }
    }

    /// An append has returned.
    pub fn answer_append(&mut self, op: &Kept) {
        let Some(log) = self.logs.get_mut(&op.key) else {
            return;
        };
        let Some(value) = op.value.as_ref() else {
            return;
        };
        let entry = log.entries.get_mut(&fingerprint(value));
        let Some(entry) = entry.filter(|entry| entry.append.invoked == op.invoked) else {
            return;
        };
        entry.append = Kept::clone(op);
        if op.outcome == Outcome::Ok && entry.by.is_none() {
            entry.by = Some(Kept::clone(op));
            log.done += 1;
        }
    }

    /// A read has returned. Returns the appends in its list that were answered no, and were not known to be done.
    pub fn answer_read(&mut self, arrival: &Arrival, read: &Kept) -> Vec<Kept> {
        let (_, path) = arrival.object(read);
        let list = match &read.value {
            Some(serde_json::Value::Null) => Some(&[][..]),
            Some(serde_json::Value::Array(list)) => Some(&list[..]),
            _ => None,
        };
        let known = self.logs.contains_key(&read.key);
        if !known && list.is_some_and(|list| !list.is_empty()) && !self.changed.contains(&read.key)
        {
            let log = self.logs.entry(read.key).or_default();
            log.path = path;
        }
        let Some(log) = self.logs.get_mut(&read.key) else {
            return Vec::new();
        };
        if log.path != path {
            return Vec::new();
        }
        let sent = log.open.remove(&read.invoked.index);
        let Some(list) = list.filter(|_| read.outcome == Outcome::Ok) else {
            return Vec::new();
        };
        let mut check = Check::default();
        log.check(read, list, sent, &mut check);
        for (wrong, witness) in check.wrong {
            let known = self.found.entry((read.key, wrong));
            known.or_insert_with(|| (0, witness)).0 += 1;
        }
        check.applied
    }

    /// The lock of a log, as its last append has it.
    pub fn lock(&self, arrival: &Arrival, key: Option<Name>) -> Option<Name> {
        arrival.lock(self.last.get(&key)?)
    }
}

/// What a list shows.
#[derive(Debug, Default)]
struct Check {
    wrong: Vec<(Wrong, Vec<Kept>)>,
    applied: Vec<Kept>,
}

impl Log {
    fn append(&mut self, print: u64, op: &Kept) {
        self.count += 1;
        let nth = self.count;
        let known = self.entries.entry(print);
        let entry = known.or_insert_with(|| Entry {
            nth,
            append: Kept::clone(op),
            again: false,
            by: None,
            applied: false,
        });
        entry.again |= entry.nth != nth;
    }

    fn check(
        &mut self,
        read: &Kept,
        list: &[serde_json::Value],
        sent: Option<u64>,
        to: &mut Check,
    ) {
        let prints: Vec<u64> = list.iter().map(fingerprint).collect();
        let begun = self.beginning.length;
        if begun > 0 {
            // One that was sent before there was a log was not waited for.
            if sent.is_none() {
                return;
            }
            if let Some(wrong) = self.beginning.differs(&prints) {
                let known = self.beginning.last.iter().chain(&self.longest_read);
                let witness = known.chain([read]).cloned().collect();
                to.wrong.push((wrong, witness));
                return;
            }
        }
        let sent_at = read.invoked.index;
        let mut places: Vec<Place> = Vec::with_capacity(prints.len() - begun);
        let mut highest = self.beginning.highest.clone();
        let mut last_sent = self.beginning.last_sent.clone();
        let mut done = self.beginning.done;
        let mut known = self.beginning.done > 0;
        for &print in &prints[begun..] {
            let Some(entry) = self.entries.get_mut(&print) else {
                if known {
                    to.wrong
                        .push((Wrong::NeverAppended, vec![Kept::clone(read)]));
                } else if self.heads.len() < MOST_HEADS || self.heads.contains_key(&print) {
                    let first = || (0, Kept::clone(read));
                    self.heads.entry(print).or_insert_with(first).0 += 1;
                }
                places.push(Place { nth: NONE, print });
                continue;
            };
            if entry.again {
                places.push(Place { nth: NONE, print });
                continue;
            }
            known = true;
            let append = &entry.append;
            if append.outcome == Outcome::Failed && !std::mem::replace(&mut entry.applied, true) {
                to.applied.push(Kept::clone(append));
            }
            if entry.by.is_none() {
                entry.by = Some(Kept::clone(read));
                self.done += 1;
            }
            let at = entry.shown_at();
            done += u64::from(at < sent_at);
            let above = highest
                .as_ref()
                .filter(|above| above.append.token > append.token);
            if let Some(above) = above {
                // One that was stale when it was sent is found as such.
                if above.at > append.invoked.index {
                    let witness = [&above.append, append, read].map(Kept::clone).to_vec();
                    to.wrong.push((Wrong::Fell, witness));
                }
            } else {
                let append = Kept::clone(append);
                highest = Some(Shown { append, at });
            }
            if let Some((_, later)) = &last_sent
                && append.outcome == Outcome::Ok
                && append.precedes(later)
            {
                let witness = [append, later, read].map(Kept::clone).to_vec();
                to.wrong.push((Wrong::OutOfOrder, witness));
            }
            if last_sent.as_ref().is_none_or(|&(last, _)| last < entry.nth) {
                last_sent = Some((entry.nth, Kept::clone(append)));
            }
            let nth = entry.nth;
            places.push(Place { nth, print });
        }
        if let Some(twice) = twice(&places) {
            let append = self.entries.get(&twice).map(|entry| &entry.append);
            let witness = append.into_iter().chain([read]).cloned().collect();
            to.wrong.push((Wrong::Twice, witness));
        }
        if sent.is_some_and(|sent| done < sent)
            && let Some(witness) = self.missing(&places, read)
        {
            to.wrong.push((Wrong::Lost, witness));
        }
        self.compare(places, read, to);
    }

    /// The first of the appends that were surely done when a read was sent and are not in its list, with what shows it.
    fn missing(&self, places: &[Place], read: &Kept) -> Option<Vec<Kept>> {
        let listed: HashSet<u64> = places.iter().map(|place| place.nth).collect();
        let lost = self.entries.values().filter(|entry| {
            !entry.again && entry.shown_at() < read.invoked.index && !listed.contains(&entry.nth)
        });
        let lost = lost.min_by_key(|entry| entry.shown_at())?;
        let append = &lost.append;
        let own = append.outcome == Outcome::Ok && append.precedes(read);
        let by = lost.by.iter().filter(|_| !own);
        Some([append, read].into_iter().chain(by).cloned().collect())
    }

    /// One of two lists begins with the other, and the longer one stays.
    fn compare(&mut self, places: Vec<Place>, read: &Kept, to: &mut Check) {
        let pairs = places.iter().zip(&self.longest);
        let mut apart =
            pairs.filter(|(one, two)| one.nth != two.nth && one.nth != NONE && two.nth != NONE);
        if let Some((one, two)) = apart.next() {
            let appends = [one, two].into_iter().filter_map(|place| {
                let entry = self.entries.get(&place.print);
                entry.map(|entry| &entry.append)
            });
            let witness = appends.chain(&self.longest_read).chain([read]);
            to.wrong.push((Wrong::Forked, witness.cloned().collect()));
        } else if places.len() > self.longest.len() {
            self.longest = places;
            self.longest_read = Some(Kept::clone(read));
        }
    }

    /// Sums up what may be forgotten; whether that was enough.
    fn forget(&mut self, most: usize) -> bool {
        let oldest = self.open.keys().next().copied().unwrap_or(u64::MAX);
        let mut length = 0;
        for place in &self.longest {
            if place.nth != NONE
                && let Some(entry) = self.entries.get(&place.print)
            {
                if entry.again || entry.shown_at() >= oldest {
                    break;
                }
                self.beginning.take(entry);
                self.entries.remove(&place.print);
            }
            self.beginning.print = next_print(self.beginning.print, place.print);
            length += 1;
        }
        self.beginning.length += length;
        self.longest.drain(..length);
        let highest = self.beginning.highest.as_ref();
        let highest = highest.and_then(|highest| highest.append.token);
        self.entries.retain(|_, entry| {
            entry.again || entry.by.is_some() || !entry.is_hopeless(highest, oldest)
        });
        let left = self.entries.len().max(self.longest.len());
        self.enough = (2 * left).max(most);
        left <= 4 * most + 64
    }
}

impl Entry {
    /// From here on the append is surely done.
    fn shown_at(&self) -> u64 {
        self.by
            .as_ref()
            .map_or(u64::MAX, |by| by.completed.unwrap_or(by.invoked).index)
    }

    /// Wherever it is read, it is wrong: it was answered no, or stands after a higher token.
    fn is_hopeless(&self, highest: Option<Token>, oldest: u64) -> bool {
        match self.append.outcome {
            Outcome::Failed => self.append.invoked.index < oldest,
            Outcome::Unknown => self.append.token.is_some() && self.append.token < highest,
            Outcome::Ok => false,
        }
    }
}

impl Beginning {
    fn take(&mut self, entry: &Entry) {
        self.done += 1;
        let append = &entry.append;
        let higher = |known: &Shown| known.append.token <= append.token;
        if self.highest.as_ref().is_none_or(higher) {
            let (append, at) = (Kept::clone(append), entry.shown_at());
            self.highest = Some(Shown { append, at });
        }
        if (self.last_sent.as_ref()).is_none_or(|&(last, _)| last < entry.nth) {
            self.last_sent = Some((entry.nth, Kept::clone(append)));
        }
        self.last = Some(Kept::clone(append));
    }

    /// What is wrong with a list that does not begin so.
    fn differs(&self, prints: &[u64]) -> Option<Wrong> {
        let Some(same) = prints.get(..self.length) else {
            return Some(Wrong::Lost);
        };
        let print = same.iter().copied().fold(0, next_print);
        (print != self.print).then_some(Wrong::Forked)
    }
}

/// The fingerprint of a list that goes on with an element.
fn next_print(list: u64, element: u64) -> u64 {
    (list.rotate_left(5) ^ element).wrapping_mul(0xf39c_c060_5ced_c835)
}

/// What stands in a list twice. Lists that rise, as nearly all do, are seen through at once.
fn twice(places: &[Place]) -> Option<u64> {
    let known = || places.iter().filter(|place| place.nth != NONE);
    if known()
        .zip(known().skip(1))
        .all(|(one, next)| one.nth < next.nth)
    {
        return None;
    }
    let mut sorted: Vec<&Place> = known().collect();
    sorted.sort_unstable_by_key(|place| place.nth);
    let pair = sorted.windows(2).find(|pair| pair[0].nth == pair[1].nth);
    pair.map(|pair| pair[0].print)
}

/// What the elements of a list show of the writes of their key.
pub(super) fn elements(read: &Op) -> &[serde_json::Value] {
    match &read.value {
        Some(serde_json::Value::Array(list)) if read.outcome == Outcome::Ok => list,
        _ => &[],
    }
}
