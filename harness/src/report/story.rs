//! What one finding tells of: which operations, whose, from when to when, and which of them should not have been.
//!
//! To the witness belong the grants under which its writes were made: a write is wrong because of what had been
//! granted before. Nothing is placed or drawn here.

use std::collections::HashSet;

use fencepost_checker::finding::Finding;
use fencepost_checker::history::{Function, History, Name, Operation, Outcome};

use super::belief::Belief;
use super::culprits::{culprits, operations_of};
use super::palette::is_write;
use super::plain::counted;

/// More operations than this are not labelled.
const MOST_LABELS: usize = 12;
/// More clients than this are not shown.
const MOST_CLIENTS: usize = 8;

/// What a finding tells of, as positions among the operations.
#[derive(Clone, Debug)]
pub struct Story {
    /// The operations of its witness and the grants behind them, in the order of their invocations.
    told: Vec<usize>,
    /// Those of them that have a label.
    pub labelled: HashSet<usize>,
    /// Those that should not have gone as they did.
    pub guilty: HashSet<usize>,
    /// Whose operations they are, the guilty first.
    pub clients: Vec<Name>,
    /// Clients beyond [`MOST_CLIENTS`].
    clients_left_out: usize,
    /// The lock that it is about.
    pub lock: Option<Name>,
    /// Its first event, in nanoseconds since the run began.
    pub from: u64,
    /// Its last event.
    pub to: u64,
}

impl Story {
    /// The story of `finding`; `None` where the history holds none of its events.
    #[must_use]
    pub fn of(finding: &Finding, history: &History, beliefs: &[Belief]) -> Option<Self> {
        let mut told = operations_of(finding, history);
        told.extend(grants_of(&told, history, beliefs));
        told.sort_unstable();
        told.dedup();
        let operations = || told.iter().map(|&at| &history.operations[at]);
        let from = operations().map(begin).min()?;
        let to = operations().map(moment).max()?.max(from);
        let guilty: HashSet<usize> = culprits(finding, history).into_iter().collect();
        let mut clients: Vec<Name> = Vec::new();
        // The guilty first, so that a limit never hides them.
        for client in told
            .iter()
            .filter(|at| guilty.contains(at))
            .chain(&told)
            .map(|&at| history.operations[at].client)
        {
            if !clients.contains(&client) {
                clients.push(client);
            }
        }
        let clients_left_out = clients.len().saturating_sub(MOST_CLIENTS);
        clients.truncate(MOST_CLIENTS);
        let lock = finding
            .lock
            .as_deref()
            .and_then(|lock| history.names.find(lock))
            .or_else(|| operations().find_map(|operation| operation.lock));
        let labelled = labelled(&told, &guilty);
        Some(Self {
            told,
            labelled,
            guilty,
            clients,
            clients_left_out,
            lock,
            from,
            to,
        })
    }

    /// What had passed a guilty operation's token before it began.
    #[must_use]
    pub fn too_late(&self, operation: &Operation, history: &History) -> String {
        let told = self
            .told
            .iter()
            .map(|&position| &history.operations[position]);
        let passed = told.filter(|other| {
            other.outcome == Outcome::Ok
                && other.token > operation.token
                && other.precedes(operation)
        });
        let highest = passed.max_by_key(|other| (other.token, is_write(other)));
        match highest.and_then(|other| Some((other.token?, is_write(other), other.function))) {
            _ if operation.token.is_none() => String::new(),
            Some((token, true, _)) => format!(" after {token} was accepted"),
            Some((token, _, Function::Acquire)) => format!(" after {token} was granted"),
            Some((token, ..)) => format!(" after {token} was seen"),
            None => String::new(),
        }
    }

    /// Whether the story tells of the operation at `position`.
    #[must_use]
    pub fn tells(&self, position: usize) -> bool {
        self.told.binary_search(&position).is_ok()
    }

    /// What of it is not shown, one sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let unlabelled = self.told.len() - self.labelled.len();
        if unlabelled > 0 {
            notes.push(format!(
                "{} of the story {} not labelled.",
                counted(unlabelled as u64, "operation"),
                if unlabelled == 1 { "is" } else { "are" }
            ));
        }
        if self.clients_left_out > 0 {
            notes.push(format!(
                "{} of the story {} left out.",
                counted(self.clients_left_out as u64, "client"),
                if self.clients_left_out == 1 {
                    "is"
                } else {
                    "are"
                }
            ));
        }
        notes
    }
}

/// The grants under which those of `told` wrote whose writes may have taken effect.
fn grants_of(told: &[usize], history: &History, beliefs: &[Belief]) -> Vec<usize> {
    let writes = told
        .iter()
        .map(|&at| &history.operations[at])
        .filter(|operation| is_write(operation) && operation.outcome != Outcome::Failed);
    writes
        .filter_map(|write| {
            let own = |belief: &&Belief| {
                belief.client == write.client
                    && Some(belief.token) == write.token
                    && write.lock.is_none_or(|lock| lock == belief.lock)
            };
            beliefs
                .iter()
                .filter(own)
                .rfind(|belief| belief.from < write.invoked)
                .map(|belief| belief.grant)
        })
        .collect()
}

/// The guilty, then from both ends of the story, at most [`MOST_LABELS`].
fn labelled(told: &[usize], guilty: &HashSet<usize>) -> HashSet<usize> {
    let mut labelled: HashSet<usize> = told
        .iter()
        .copied()
        .filter(|at| guilty.contains(at))
        .take(MOST_LABELS)
        .collect();
    let (mut first, mut last) = (told.iter(), told.iter().rev());
    while labelled.len() < MOST_LABELS.min(told.len()) {
        labelled.extend(first.next().copied());
        if labelled.len() < MOST_LABELS {
            labelled.extend(last.next().copied());
        }
    }
    labelled
}

/// A time within a story, as its text has it: `+131.8 ms`, `+1.809 s`.
#[must_use]
pub fn since(nanoseconds: u64) -> String {
    let milliseconds = nanoseconds as f64 / 1e6;
    if nanoseconds < 1_000_000_000 {
        format!("+{milliseconds:.1} ms")
    } else {
        format!("+{:.3} s", milliseconds / 1e3)
    }
}

/// When an operation counts as begun: a grant when its holder learnt of it, all else when it was invoked.
#[must_use]
pub fn begin(operation: &Operation) -> u64 {
    if operation.function == Function::Acquire {
        moment(operation)
    } else {
        operation.invoked.time
    }
}

/// When an operation's answer arrived, or when it was invoked if it had none: its mark stands there.
#[must_use]
pub fn moment(operation: &Operation) -> u64 {
    operation.completed.unwrap_or(operation.invoked).time
}

#[cfg(test)]
mod tests {
    use super::super::belief::beliefs;
    use super::super::sample::{stale_write_accepted, zombie_accepted};
    use super::*;

    #[test]
    fn grants_of_accepted_writes_belong_to_the_story_and_its_time_begins_with_the_first() {
        let history = zombie_accepted().history();
        let writes_only = Finding {
            events: vec![7, 8, 10, 11],
            ..stale_write_accepted()
        };
        let story =
            Story::of(&writes_only, &history, &beliefs(&history)).expect("its events are there");
        assert_eq!(story.told, [0, 2, 3, 4]);
        assert_eq!((story.from, story.to), (4_000_000, 1_303_000_000));
        assert_eq!(story.guilty, HashSet::from([4]));
        assert_eq!(
            story
                .clients
                .iter()
                .map(|&client| history.names.text(client))
                .collect::<Vec<_>>(),
            ["c1", "c2"]
        );
        assert_eq!(
            story.too_late(&history.operations[4], &history),
            " after 42 was accepted"
        );
        assert!(story.notes().is_empty());
    }

    #[test]
    fn times_read_as_in_the_text_of_a_story() {
        for (nanoseconds, text) in [
            (0, "+0.0 ms"),
            (999_940_000, "+999.9 ms"),
            (1_808_800_000, "+1.809 s"),
        ] {
            assert_eq!(since(nanoseconds), text);
        }
    }
}
