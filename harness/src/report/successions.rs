//! What became of each lock whose holder was stopped: who wrote next, and how long nobody could.
//!
//! A stop is a zombie fault, a pause, or a kill of the worker that ran the holder: of whoever was granted the lock last
//! and still believed so. The time of a hand-over goes from the
//! begin of the stop to the successor's first accepted write. Only the recording is read.

use std::collections::{BTreeMap, HashMap};

use fencepost_checker::history::{History, Instant, Name, Operation, Outcome, Token};

use super::bands::bands;
use super::belief::Belief;
use super::palette::is_write;
use crate::run_record::RunRecord;

/// One holder's stop under one lock.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Succession {
    /// Of the fault.
    pub fault: u64,
    /// Its kind: `zombie`, `pause`, `kill`.
    pub kind: String,
    /// Who held the lock.
    pub holder: Name,
    /// Which.
    pub lock: Name,
    /// Under which token.
    pub token: Token,
    /// What came of it.
    pub fate: Fate,
}

/// What came of a lock whose holder was stopped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// A successor's write was accepted so many nanoseconds after the stop began.
    Passed {
        /// Whose write.
        successor: Name,
        /// Nanoseconds since the stop began.
        took: u64,
    },
    /// The holder wrote on before anybody else did.
    Kept,
    /// Nobody wrote under the lock until the recording ended.
    Unwritten,
}

/// Every stop of a holder, in the order of the faults.
#[must_use]
pub fn successions(run: &RunRecord, history: &History, beliefs: &[Belief]) -> Vec<Succession> {
    let writes = Accepted::of(history);
    let grants = grants_of_locks(beliefs);
    let mut successions = Vec::new();
    let stops = bands(history).into_iter().filter(|band| {
        band.certain
            && matches!(
                band.window.begin.fault.as_str(),
                "zombie" | "pause" | "kill"
            )
    });
    for band in stops {
        let began = band.window.began;
        for grants in grants.values() {
            let before = grants.partition_point(|belief| belief.from.index < began.index);
            // Whoever was granted the lock last holds it, if it still believes so.
            let holder = before.checked_sub(1).map(|last| grants[last]);
            let stopped = holder.filter(|belief| {
                began.index < belief.to.index && band.strikes(belief.client, run, history)
            });
            successions.extend(stopped.map(|belief| Succession {
                fault: band.window.begin.id,
                kind: band.window.begin.fault.clone(),
                holder: belief.client,
                lock: belief.lock,
                token: belief.token,
                fate: writes.fate(belief, began),
            }));
        }
    }
    successions
}

/// The beliefs in each lock, in the order of the grants.
fn grants_of_locks(beliefs: &[Belief]) -> BTreeMap<Name, Vec<&Belief>> {
    let mut of_lock: BTreeMap<Name, Vec<&Belief>> = BTreeMap::new();
    for belief in beliefs {
        of_lock.entry(belief.lock).or_default().push(belief);
    }
    of_lock
}

/// The accepted writes of each lock, in the order of their answers.
struct Accepted<'h> {
    of_lock: HashMap<Name, Vec<(Instant, &'h Operation)>>,
}

impl<'h> Accepted<'h> {
    fn of(history: &'h History) -> Self {
        let mut of_lock: HashMap<Name, Vec<(Instant, &Operation)>> = HashMap::new();
        for write in &history.operations {
            if let (true, Outcome::Ok, Some(lock), Some(answered)) =
                (is_write(write), write.outcome, write.lock, write.completed)
            {
                of_lock.entry(lock).or_default().push((answered, write));
            }
        }
        for writes in of_lock.values_mut() {
            writes.sort_by_key(|(answered, _)| answered.index);
        }
        Self { of_lock }
    }

    /// The first accepted write after the stop decides, unless the holder had sent it before.
    fn fate(&self, belief: &Belief, began: Instant) -> Fate {
        let writes = self
            .of_lock
            .get(&belief.lock)
            .map_or(&[][..], Vec::as_slice);
        let after = writes.partition_point(|(answered, _)| answered.index < began.index);
        for (answered, write) in &writes[after..] {
            let own = write.client == belief.client && write.token == Some(belief.token);
            if own && write.invoked.index > began.index {
                return Fate::Kept;
            }
            if write.token > Some(belief.token) {
                return Fate::Passed {
                    successor: write.client,
                    took: answered.time.saturating_sub(began.time),
                };
            }
        }
        Fate::Unwritten
    }
}

#[cfg(test)]
mod tests {
    use super::super::belief::beliefs;
    use super::super::sample::{Recording, run, zombie_refused};
    use super::*;

    fn fates(recording: &Recording) -> Vec<(String, Fate)> {
        let history = recording.history();
        successions(&run(), &history, &beliefs(&history))
            .into_iter()
            .map(|succession| (succession.kind, succession.fate))
            .collect()
    }

    #[test]
    fn a_hand_over_lasts_from_the_stop_to_the_first_accepted_write_of_the_successor() {
        let [(kind, Fate::Passed { took, .. })] = &fates(&zombie_refused())[..] else {
            panic!("{:?}", fates(&zombie_refused()))
        };
        assert_eq!((kind.as_str(), *took), ("zombie", 1_052_000_000));
    }

    #[test]
    fn a_holder_that_writes_on_has_kept_its_lock_and_one_that_had_sent_its_write_before_has_not() {
        let mut kept = Recording::default();
        kept.grant("c1", "s", 41, 0, 4)
            .fault(1, "pause", &["w1"], 10, Some(50), "installed");
        kept.write("c1", "s", 41, 60, 61, "ok");
        assert_eq!(fates(&kept), [("pause".to_owned(), Fate::Kept)]);

        let mut sent = Recording::default();
        sent.grant("c1", "s", 41, 0, 4)
            .write("c1", "s", 41, 9, 12, "ok")
            .fault(1, "pause", &["w1"], 10, Some(50), "installed");
        assert_eq!(fates(&sent), [("pause".to_owned(), Fate::Unwritten)]);
    }

    #[test]
    fn one_that_has_been_succeeded_holds_nothing_that_could_be_handed_over() {
        let mut recording = Recording::default();
        recording
            .grant("c1", "s", 41, 0, 4)
            .grant("c2", "s", 42, 5, 6)
            .fault(1, "pause", &["w1"], 10, Some(50), "installed");
        recording.write("c2", "s", 42, 20, 21, "ok");
        assert_eq!(fates(&recording), []);
    }

    #[test]
    fn only_certain_stops_of_a_holder_count() {
        let mut recording = Recording::default();
        recording
            .grant("c1", "s", 41, 0, 4)
            .fault(1, "pause", &["w2"], 10, Some(50), "installed")
            .fault(2, "pause", &["w1"], 11, Some(50), "unknown")
            .fault(3, "kill", &["lock"], 12, Some(50), "installed")
            .fault(4, "hole", &["w1-lock"], 13, Some(50), "installed");
        assert_eq!(fates(&recording), []);
    }
}
