//! The fault plan: which fault when, for how long, to whom. Pure: suite and seed fix it, and nothing else.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost_workloads::seed::Seed;
use fencepost_workloads::suite::{Fault, FaultKind, Link, On, Suite};
use rand::{Rng, RngExt};

use crate::run_record::PlannedFault;
use crate::targets::Service;
use crate::targets::systems::kind_of;

/// The jitter of `every`, as a share of it either way.
const JITTER: f64 = 0.2;
/// A plan never holds more than this: a suite that asks for more is bounded, not believed.
const MOST: usize = 100_000;

/// Every occurrence before the time limit, in order of time. Each entry of the suite draws from a stream of its own.
#[must_use]
pub fn plan(suite: &Suite, seed: Seed) -> Vec<PlannedFault> {
    let mut planned: Vec<PlannedFault> = (0..suite.fault.len())
        .flat_map(|position| occurrences(suite, position, seed))
        .collect();
    planned.sort_by(|a, b| (a.at_ms, &a.label).cmp(&(b.at_ms, &b.label)));
    planned.truncate(MOST);
    for (id, fault) in (1..).zip(&mut planned) {
        fault.id = id;
    }
    planned
}

/// How often each label is planned.
#[must_use]
pub fn labels(plan: &[PlannedFault]) -> BTreeMap<String, u64> {
    let mut labels = BTreeMap::new();
    for fault in plan {
        *labels.entry(fault.label.clone()).or_default() += 1;
    }
    labels
}

/// The entry of the suite that a planned fault comes from.
pub(super) fn entry<'a>(planned: &PlannedFault, suite: &'a Suite) -> Option<&'a Fault> {
    let mut same = suite
        .fault
        .iter()
        .filter(|fault| fault.label() == planned.label);
    same.nth(planned.nth)
}

fn occurrences(suite: &Suite, position: usize, seed: Seed) -> Vec<PlannedFault> {
    let fault = &suite.fault[position];
    let label = fault.label();
    // Named by label, so that leaving other faults out moves none of these.
    let nth = suite.fault[..position]
        .iter()
        .filter(|earlier| earlier.label() == label)
        .count();
    let mut stream = seed.stream(&format!("plan/{label}/{nth}"));
    let every = fault.every.0.as_secs_f64();
    let limit = suite.run.time_limit.0;
    let mut occurrences = Vec::new();
    for round in 0..MOST {
        // Half an interval in, so that a run half as long as the interval still meets the fault.
        let at = Duration::from_secs_f64(
            every * (round as f64 + 0.5 + stream.random_range(-JITTER..JITTER)),
        );
        if at >= limit {
            break;
        }
        occurrences.push(PlannedFault {
            id: 0,
            label: label.clone(),
            nth,
            at_ms: millis(at),
            length_ms: millis(fault.length.draw(&mut stream)),
            worker: worker(suite, fault, &mut stream),
            node: node(suite, fault, &mut stream),
            delay_ms: fault
                .delay
                .or(fault.after)
                .map(|delay| millis(delay.draw(&mut stream))),
            by_ms: fault.by.map(|by| millis(by.draw(&mut stream))),
        });
    }
    occurrences
}

/// The worker that the fault strikes, where it is not aimed at run time.
fn worker(suite: &Suite, fault: &Fault, stream: &mut impl Rng) -> Option<u32> {
    let workers = suite.run.workers.0;
    match (fault.kind, &fault.on) {
        (FaultKind::Zombie, _) => None,
        (_, Some(On::Node(number))) => Some(number - 1),
        (_, Some(On::Worker)) => Some(stream.random_range(0..workers)),
        (kind, _)
            if kind.is_of_links()
                && !matches!(
                    fault.link,
                    Some(Link::LeaderPeers | Link::HolderLock | Link::HolderResource)
                ) =>
        {
            Some(stream.random_range(0..workers))
        }
        _ => None,
    }
}

/// The node of a service that the fault strikes, where there are several to draw from.
fn node(suite: &Suite, fault: &Fault, stream: &mut impl Rng) -> Option<u32> {
    let service = match fault.on {
        Some(On::Lock) => Service::Lock,
        Some(On::Resource) => Service::Resource,
        _ => return None,
    };
    let nodes = kind_of(suite, service).nodes;
    (nodes > 1).then(|| stream.random_range(0..nodes))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("lengths of a suite are at most a day")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(text: &str) -> Suite {
        Suite::parse(text, "test").expect("a fine suite")
    }

    #[test]
    fn the_same_seed_plans_the_same_and_another_seed_something_else() {
        let suite = suite("");
        assert_eq!(plan(&suite, Seed(1)), plan(&suite, Seed(1)));
        assert_ne!(plan(&suite, Seed(1)), plan(&suite, Seed(2)));
    }

    #[test]
    fn faults_that_are_taken_out_shift_no_other() {
        let whole = suite("");
        for kept in &whole.fault {
            let alone = Suite {
                fault: vec![kept.clone()],
                ..whole.clone()
            };
            let of = |plan: Vec<PlannedFault>| -> Vec<PlannedFault> {
                let label = kept.label();
                let same = plan.into_iter().filter(|fault| fault.label == label);
                same.map(|fault| PlannedFault { id: 0, ..fault }).collect()
            };
            assert_eq!(of(plan(&whole, Seed(3))), of(plan(&alone, Seed(3))));
        }
    }

    #[test]
    fn every_occurrence_lies_before_the_time_limit_and_within_the_drawn_lengths() {
        let suite = suite(
            "[run]\ntime_limit = \"30s\"\n[[fault]]\nkind = \"pause\"\nevery = \"2s\"\nlength = \"100ms..200ms\"\n",
        );
        let plan = plan(&suite, Seed(5));
        assert_eq!(plan.len(), 15);
        assert!(plan.iter().all(|fault| fault.at_ms < 30_000
            && (100..=200).contains(&fault.length_ms)
            && fault.worker < Some(5)));
        assert!(plan.is_sorted_by_key(|fault| fault.at_ms));
        assert_eq!(
            labels(&plan),
            BTreeMap::from([("pause:worker".to_owned(), 15)])
        );
    }

    #[test]
    fn entries_of_one_label_are_told_apart() {
        let suite = suite(
            "[run]\ntime_limit = \"9s\"\n[[fault]]\nkind = \"pause\"\nevery = \"3s\"\nlength = \"100ms\"\n\
             [[fault]]\nkind = \"pause\"\nevery = \"3s\"\nlength = \"200ms\"\n",
        );
        let plan = plan(&suite, Seed(5));
        assert_eq!(plan.len(), 6);
        for planned in &plan {
            let fault = entry(planned, &suite).expect("an entry");
            let (least, most) = (millis(fault.length.from.0), millis(fault.length.to.0));
            assert!((least..=most).contains(&planned.length_ms), "{planned:?}");
        }
    }

    #[test]
    fn the_default_plan_holds_every_kind() {
        let suite = suite("");
        for seed in 0..50 {
            let labels = labels(&plan(&suite, Seed(seed)));
            for fault in &suite.fault {
                assert!(
                    labels[&fault.label()] >= 2,
                    "{} with seed {seed}",
                    fault.label()
                );
            }
            assert!(labels["zombie"] >= 12);
        }
    }
}
