//! What was done to the system, as far as a rule or a story may still ask for it.
//!
//! The last [`KEPT`] faults that ended are kept. Of those before them it is known until when they lasted; a rule that asks
//! about a time before that is told that there was a fault.

use std::collections::{BTreeMap, VecDeque};

use crate::history::{FaultOutcome, FaultWindow, Instant};

/// How many faults that have ended are kept.
const KEPT: usize = 256;

/// What was done to the system.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    pub open: BTreeMap<u64, FaultWindow>,
    /// The last that ended.
    ended: VecDeque<FaultWindow>,
    /// By label and outcome, of all that ended or were begun anew.
    counts: BTreeMap<(String, u8), u64>,
    /// When the last of those ended that are forgotten and did take place.
    forgotten: Option<Instant>,
}

impl Faults {
    /// A fault is over, or was begun anew.
    pub fn close(&mut self, window: FaultWindow) {
        let label = window.begin.plan.as_ref().unwrap_or(&window.begin.fault);
        *self
            .counts
            .entry((label.clone(), rank(window.outcome)))
            .or_default() += 1;
        self.ended.push_back(window);
        if self.ended.len() > KEPT
            && let Some(oldest) = self.ended.pop_front()
            && oldest.outcome != FaultOutcome::Skipped
        {
            // One that was begun anew before it ended lasts for ever.
            let never = Instant {
                index: u64::MAX,
                time: u64::MAX,
            };
            let last = oldest.ended.unwrap_or(never);
            self.forgotten = self.forgotten.max(Some(last));
        }
    }

    /// How often each label had each outcome, windows that are open included.
    pub fn by_label(&self) -> BTreeMap<(String, u8), u64> {
        let mut counts = self.counts.clone();
        for window in self.open.values() {
            let label = window.begin.plan.as_ref().unwrap_or(&window.begin.fault);
            *counts
                .entry((label.clone(), rank(window.outcome)))
                .or_default() += 1;
        }
        counts
    }

    fn all(&self) -> impl Iterator<Item = &FaultWindow> {
        self.ended.iter().chain(self.open.values())
    }

    /// All that are kept, in the order of their begins.
    pub fn windows(&self) -> Vec<FaultWindow> {
        let mut windows: Vec<FaultWindow> = self.all().cloned().collect();
        windows.sort_by_key(|window| window.began.index);
        windows
    }

    /// Whether any fault that did take place, of those that `counts` names, was in force between two moments.
    pub fn any(&self, from: Instant, to: Instant, counts: impl Fn(&FaultWindow) -> bool) -> bool {
        self.is_forgotten(from.index)
            || self.all().any(|window| {
                window.outcome != FaultOutcome::Skipped
                    && window.began.index <= to.index
                    && window.ended.is_none_or(|ended| ended.index >= from.index)
                    && counts(window)
            })
    }

    fn is_forgotten(&self, index: u64) -> bool {
        self.forgotten.is_some_and(|last| last.index >= index)
    }

    /// The longest time between two moments in which no fault was in force.
    pub fn longest_quiet(&self, since: u64, until: u64) -> Option<(u64, u64)> {
        let mut from = since.max(self.forgotten.map_or(0, |last| last.time));
        let mut windows: Vec<&FaultWindow> = self.all().collect();
        windows.sort_by_key(|window| window.began.index);
        windows
            .retain(|window| window.outcome != FaultOutcome::Skipped && window.began.time < until);
        let mut longest: Option<(u64, u64)> = None;
        let ends = |window: &&FaultWindow| {
            let ended = window.ended.map_or(u64::MAX, |at| at.time);
            (window.began.time, ended)
        };
        for (began, ended) in windows.iter().map(ends).chain([(until, u64::MAX)]) {
            if from < began && longest.is_none_or(|(a, b)| b - a < began - from) {
                longest = Some((from, began));
            }
            from = from.max(ended);
        }
        longest
    }
}

/// An outcome as a number that can be sorted.
pub(super) fn rank(outcome: FaultOutcome) -> u8 {
    match outcome {
        FaultOutcome::Installed => 0,
        FaultOutcome::Skipped => 1,
        FaultOutcome::Unknown => 2,
    }
}
