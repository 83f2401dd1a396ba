//! What became of each lock whose holder was stopped: who wrote next, and how long nobody could.
//!
//! A stop is a zombie fault, a pause or a kill of the worker that ran the holder, or a hole in one of that worker's
//! links: of whoever was granted the lock last and still believed so. The time of a hand-over goes from the begin of
//! the stop to the successor's first accepted write. A lock that changes hands because its holder went on and gave it
//! back is no hand-over: the stop was over, or never kept it from anything. Only the recording is read.
//!
//! ```text
//! c1  granted 41 ====[ stopped ]                              hand-over: from here
//! c2                      granted 42 ==| write ok |           to here
//!
//! c1  granted 41 ====[ stopped ]==| release |                 given back: c2 did not wait for the stop
//! c2                                  granted 42 ==| write ok |
//! ```

use std::collections::{BTreeMap, HashMap};

use fencepost_checker::history::{Function, History, Instant, Name, Operation, Outcome, Token};

use super::bands::bands;
use super::belief::Belief;
use super::palette::is_write;
use crate::run_record::RunRecord;

/// The kinds of fault that stop a holder, where they strike it.
pub const STOPS: [&str; 4] = ["zombie", "pause", "kill", "hole"];

/// One holder's stop under one lock.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Succession {
    /// Of the fault.
    pub fault: u64,
    /// Its kind, one of [`STOPS`].
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
    /// The holder went on before anybody else was granted the lock: it wrote, renewed its lease or gave the lock back.
    Kept,
    /// Nobody wrote under the lock until the recording ended.
    Unwritten,
}

/// Every stop of a holder, in the order of the faults.
#[must_use]
pub fn successions(run: &RunRecord, history: &History, beliefs: &[Belief]) -> Vec<Succession> {
    let acts = Acts::of(history, beliefs);
    let grants = grants_of_locks(beliefs);
    let mut successions = Vec::new();
    let stops = bands(history)
        .into_iter()
        .filter(|band| band.certain && STOPS.contains(&band.window.begin.fault.as_str()));
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
                fate: acts.fate(belief, began),
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

/// What was done under each lock.
struct Acts<'h> {
    /// When each client was last granted each token.
    granted: HashMap<(Name, Name, Token), Instant>,
    /// The accepted writes, in the order of their answers.
    written: HashMap<Name, Vec<(Instant, &'h Operation)>>,
    /// What a holder does only while it goes on: accepted writes, renewals that were granted, releases that were not
    /// denied. In the order of their invocations.
    went_on: HashMap<(Name, Name, Token), Vec<Instant>>,
}

impl<'h> Acts<'h> {
    fn of(history: &'h History, beliefs: &[Belief]) -> Self {
        let granted = beliefs
            .iter()
            .map(|belief| ((belief.client, belief.lock, belief.token), belief.from))
            .collect();
        let mut written: HashMap<Name, Vec<(Instant, &Operation)>> = HashMap::new();
        let mut went_on: HashMap<(Name, Name, Token), Vec<Instant>> = HashMap::new();
        for operation in &history.operations {
            let Some(lock) = operation.lock else { continue };
            let accepted = is_write(operation) && operation.outcome == Outcome::Ok;
            if let (true, Some(answered)) = (accepted, operation.completed) {
                written.entry(lock).or_default().push((answered, operation));
            }
            let goes_on = match operation.function {
                Function::Renew => operation.outcome == Outcome::Ok,
                Function::Release => operation.outcome != Outcome::Failed,
                _ => accepted,
            };
            if let (true, Some(token)) = (goes_on, operation.token) {
                let holder = (operation.client, lock, token);
                went_on.entry(holder).or_default().push(operation.invoked);
            }
        }
        for writes in written.values_mut() {
            writes.sort_by_key(|(answered, _)| answered.index);
        }
        for acts in went_on.values_mut() {
            acts.sort_unstable();
        }
        Self {
            granted,
            written,
            went_on,
        }
    }

    /// The first accepted write under a grant of after the stop decides, unless the holder went on before that grant.
    /// What the holder had sent before it was stopped says nothing.
    fn fate(&self, belief: &Belief, began: Instant) -> Fate {
        let writes = self
            .written
            .get(&belief.lock)
            .map_or(&[][..], Vec::as_slice);
        let after = writes.partition_point(|(answered, _)| answered.index < began.index);
        let passed = writes[after..].iter().find_map(|(answered, write)| {
            let grant = self
                .granted
                .get(&(write.client, belief.lock, write.token?))?;
            let later = began.index < grant.index && grant.index < answered.index;
            later.then_some((*answered, write.client, *grant))
        });
        let by = passed.map_or(u64::MAX, |(_, _, granted)| granted.index);
        let own = (belief.client, belief.lock, belief.token);
        let acts = self.went_on.get(&own).map_or(&[][..], Vec::as_slice);
        let next = acts.partition_point(|act| act.index <= began.index);
        if acts.get(next).is_some_and(|act| act.index < by) {
            return Fate::Kept;
        }
        passed.map_or(Fate::Unwritten, |(answered, successor, _)| Fate::Passed {
            successor,
            took: answered.time.saturating_sub(began.time),
        })
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
    fn a_lock_that_its_holder_gives_back_or_renews_was_not_handed_over_by_the_stop() {
        for (what, answer, expected) in [
            ("release", "ok", Fate::Kept),
            ("release", "info", Fate::Kept),
            ("renew", "ok", Fate::Kept),
        ] {
            let mut recording = Recording::default();
            recording.grant("c1", "s", 41, 0, 4).fault(
                1,
                "pause",
                &["w1"],
                10,
                Some(50),
                "installed",
            );
            match what {
                "release" => recording.release("c1", "s", 41, 60, 61, answer),
                _ => recording.renew("c1", "s", 41, 60, 61, answer),
            };
            recording
                .grant("c2", "s", 42, 20, 70)
                .write("c2", "s", 42, 71, 72, "ok");
            assert_eq!(
                fates(&recording),
                [("pause".to_owned(), expected)],
                "{what} {answer}"
            );
        }
    }

    #[test]
    fn what_the_holder_does_after_its_successor_was_granted_changes_nothing() {
        let mut recording = Recording::default();
        recording
            .grant("c1", "s", 41, 0, 4)
            .fault(1, "pause", &["w1"], 10, Some(50), "installed");
        recording
            .grant("c2", "s", 42, 20, 30)
            .release("c1", "s", 41, 55, 56, "ok")
            .write("c1", "s", 41, 57, 58, "ok")
            .write("c2", "s", 42, 71, 72, "ok");
        let [(_, Fate::Passed { took, .. })] = fates(&recording)[..] else {
            panic!("{:?}", fates(&recording))
        };
        assert_eq!(took, 62_000_000);
    }

    #[test]
    fn a_successor_whose_token_is_lower_is_one_all_the_same() {
        let mut recording = Recording::default();
        recording
            .grant("c1", "s", 41, 0, 4)
            .fault(1, "kill", &["w1"], 10, Some(50), "installed");
        recording
            .grant("c2", "s", 1, 20, 30)
            .write("c2", "s", 1, 35, 40, "ok");
        assert!(matches!(
            fates(&recording)[..],
            [(
                _,
                Fate::Passed {
                    took: 30_000_000,
                    ..
                }
            )]
        ));
    }

    #[test]
    fn bystanders_do_not_count_and_a_cut_of_the_holder_does() {
        let mut recording = Recording::default();
        // c1 on w1 holds s; c2 on w2 held it before, c3 on w1 waits for it.
        recording
            .grant("c2", "s", 40, 0, 1)
            .release("c2", "s", 40, 2, 3, "ok")
            .grant("c1", "s", 41, 4, 5)
            .fault(1, "pause", &["w2"], 10, Some(15), "installed")
            .fault(2, "hole", &["w2-lock"], 11, Some(15), "installed")
            .fault(3, "kill", &["lock"], 12, Some(15), "installed")
            .fault(4, "latency", &["w1-lock"], 13, Some(15), "installed")
            .fault(5, "hole", &["w1-lock"], 20, Some(70), "installed");
        recording
            .grant("c2", "s", 42, 16, 50)
            .write("c2", "s", 42, 55, 60, "ok");
        let fates = fates(&recording);
        assert_eq!(fates.len(), 1, "{fates:?}");
        assert!(
            matches!(&fates[0], (kind, Fate::Passed { took: 40_000_000, .. }) if kind == "hole"),
            "{fates:?}"
        );
    }

    #[test]
    fn only_certain_stops_of_a_holder_count() {
        let mut recording = Recording::default();
        recording
            .grant("c1", "s", 41, 0, 4)
            .fault(1, "pause", &["w2"], 10, Some(50), "installed")
            .fault(2, "pause", &["w1"], 11, Some(50), "unknown")
            .fault(3, "kill", &["lock"], 12, Some(50), "installed")
            .fault(4, "hole", &["w2-lock"], 13, Some(50), "installed")
            .fault(5, "latency", &["w1-lock"], 14, Some(50), "installed");
        assert_eq!(fates(&recording), []);
    }
}
