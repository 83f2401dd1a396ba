//! Lanes of the holder timeline: one for each client of each lock.
//!
//! A write that names no lock goes to the lock that guards its key, else to the one whose token it presents.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use fencepost_checker::history::{History, Name, Operation, Token};

use super::belief::Belief;
use super::palette::{Answer, is_write};

/// One client's doings under one lock.
#[derive(Clone, Debug)]
pub struct Lane {
    /// `None`: writes whose lock nobody knows.
    pub lock: Option<Name>,
    /// Whose.
    pub client: Name,
    /// When it believed that it holds the lock, in order.
    pub beliefs: Vec<Belief>,
    /// The positions of its writes, in the order of their invocations.
    pub writes: Vec<usize>,
}

/// Every lane, by lock and client in the order in which people count (`c2` before `c10`).
#[must_use]
pub fn lanes(history: &History, beliefs: &[Belief]) -> Vec<Lane> {
    let mut lanes: HashMap<(Option<Name>, Name), Lane> = HashMap::new();
    let empty = |lock, client| Lane {
        lock,
        client,
        beliefs: Vec::new(),
        writes: Vec::new(),
    };
    for belief in beliefs {
        let lock = Some(belief.lock);
        lanes
            .entry((lock, belief.client))
            .or_insert_with(|| empty(lock, belief.client))
            .beliefs
            .push(*belief);
    }
    let locks = Locks::new(history, beliefs);
    for (position, write) in history
        .operations
        .iter()
        .enumerate()
        .filter(|(_, operation)| is_write(operation))
    {
        let lock = locks.of(write);
        lanes
            .entry((lock, write.client))
            .or_insert_with(|| empty(lock, write.client))
            .writes
            .push(position);
    }
    let mut lanes: Vec<Lane> = lanes.into_values().collect();
    sort(&mut lanes, history);
    lanes
}

fn sort(lanes: &mut [Lane], history: &History) {
    lanes.sort_by_cached_key(|lane| {
        let lock = lane.lock.map(|lock| natural(history.names.text(lock)));
        (
            lock.is_none(),
            lock,
            natural(history.names.text(lane.client)),
        )
    });
}

/// Keeps the `most` lanes that matter most: with one of `culprits`, then by refusals, then by beliefs and writes.
/// Answers how many were dropped.
pub fn keep_telling(
    lanes: &mut Vec<Lane>,
    culprits: &HashSet<usize>,
    most: usize,
    history: &History,
) -> usize {
    let dropped = lanes.len().saturating_sub(most);
    if dropped > 0 {
        let refused = |lane: &Lane| {
            lane.writes
                .iter()
                .filter(|&&at| Answer::of(&history.operations[at], history) == Answer::Refused)
                .count()
        };
        lanes.sort_by_cached_key(|lane| {
            let guilty = lane
                .writes
                .iter()
                .chain(lane.beliefs.iter().map(|belief| &belief.grant))
                .any(|at| culprits.contains(at));
            Reverse((guilty, refused(lane), lane.beliefs.len(), lane.writes.len()))
        });
        lanes.truncate(most);
        sort(lanes, history);
    }
    dropped
}

/// Finds the lock of a write.
pub struct Locks {
    guarding: HashMap<Name, Name>,
    granted: HashMap<(Name, Token), Name>,
}

impl Locks {
    /// From the header, and from what was granted to whom.
    #[must_use]
    pub fn new(history: &History, beliefs: &[Belief]) -> Self {
        let mut guarding = HashMap::new();
        for (lock, header) in history.header.iter().flat_map(|header| &header.locks) {
            let Some(lock) = history.names.find(lock) else {
                continue;
            };
            guarding.extend(
                header
                    .keys
                    .iter()
                    .filter_map(|key| Some((history.names.find(key)?, lock))),
            );
        }
        let granted = beliefs
            .iter()
            .map(|belief| ((belief.client, belief.token), belief.lock))
            .collect();
        Self { guarding, granted }
    }

    /// The lock under which `write` was made, where anything tells.
    #[must_use]
    pub fn of(&self, write: &Operation) -> Option<Name> {
        let guarding = || self.guarding.get(&write.key?).copied();
        let granted = || self.granted.get(&(write.client, write.token?)).copied();
        write.lock.or_else(guarding).or_else(granted)
    }
}

/// A key that sorts numbers inside names by their size; only equal names have equal keys.
#[must_use]
pub fn natural(text: &str) -> (Vec<(String, u64)>, String) {
    let mut parts: Vec<(String, u64)> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let letters = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let digits = rest[letters..]
            .find(|c: char| !c.is_ascii_digit())
            .map_or(rest.len(), |end| letters + end);
        let number = &rest[letters..digits];
        parts.push((
            rest[..letters].to_owned(),
            if number.is_empty() {
                0
            } else {
                number.parse().unwrap_or(u64::MAX)
            },
        ));
        rest = &rest[digits..];
    }
    (parts, text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::belief::beliefs;
    use super::super::sample::Recording;
    use super::*;
    use serde_json::json;

    fn table(lanes: &[Lane], history: &History) -> Vec<(String, String, usize, usize)> {
        let text =
            |name: Option<Name>| name.map_or("-", |name| history.names.text(name)).to_owned();
        lanes
            .iter()
            .map(|lane| {
                (
                    text(lane.lock),
                    text(Some(lane.client)),
                    lane.beliefs.len(),
                    lane.writes.len(),
                )
            })
            .collect()
    }

    #[test]
    fn lanes_are_grouped_by_lock_and_counted_as_people_count() {
        let mut recording = Recording::default();
        recording
            .grant("c10", "s10", 1, 0, 1)
            .grant("c10", "s2", 1, 2, 3)
            .write("c10", "s2", 1, 4, 5, "ok")
            .grant("c2", "s2", 2, 6, 7);
        recording.operation(
            "c2",
            8,
            json!({"f": "write", "key": "k", "token": 2}),
            Some((9, "ok", json!({}))),
        );
        recording.operation("c9", 8, json!({"f": "write", "key": "k", "token": 9}), None);
        let history = recording.history();
        let row = |lock: &str, client: &str, beliefs, writes| {
            (lock.to_owned(), client.to_owned(), beliefs, writes)
        };
        assert_eq!(
            table(&lanes(&history, &beliefs(&history)), &history),
            [
                row("s2", "c2", 1, 1),
                row("s2", "c10", 1, 1),
                row("s10", "c10", 1, 0),
                row("-", "c9", 0, 1)
            ]
        );
    }

    #[test]
    fn lanes_with_culprits_and_refusals_are_kept_first() {
        let mut recording = Recording::default();
        recording
            .write("c1", "s", 1, 0, 1, "ok")
            .write("c2", "s", 1, 2, 3, "refused")
            .write("c3", "s", 1, 4, 5, "ok");
        let history = recording.history();
        let mut kept = lanes(&history, &[]);
        let dropped = keep_telling(&mut kept, &HashSet::from([2]), 2, &history);
        assert_eq!(dropped, 1);
        assert_eq!(
            kept.iter()
                .map(|lane| history.names.text(lane.client))
                .collect::<Vec<_>>(),
            ["c2", "c3"]
        );
    }

    #[test]
    fn numbers_in_names_sort_by_size() {
        let mut names = ["c10", "c7", "c2", "c2~2", "", "7", "c", "c07"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["", "7", "c", "c2", "c2~2", "c07", "c7", "c10"]);
    }
}
