//! Who is who: when two operations are certainly those of two holders.
//!
//! A holder is a client. It goes on under a new process after an `info`, and its threads share its grants, so two
//! processes of one client are one holder, unless each has a grant of its own of the lock and they were alive at
//! the same time: then two incarnations go by one name. A shared session is one holder always.

use std::collections::{HashMap, HashSet};

use super::case::Case;
use crate::history::{Name, Operation};

/// Tells holders apart.
#[derive(Debug)]
pub(crate) struct Holders {
    granted: HashSet<(Name, u64)>,
    /// First and last index of each process.
    lives: HashMap<u64, (u64, u64)>,
}

impl Holders {
    pub fn new(case: &Case<'_>) -> Self {
        let mut granted = HashSet::new();
        let mut lives: HashMap<u64, (u64, u64)> = HashMap::new();
        for operation in &case.history.operations {
            let first = operation.invoked.index;
            let last = operation.completed.map_or(first, |at| at.index);
            let life = lives.entry(operation.process).or_insert((first, last));
            life.1 = life.1.max(last);
            if let Some(lock) = operation.lock.filter(|_| Case::is_grant(operation)) {
                granted.insert((lock, operation.process));
            }
        }
        Self { granted, lives }
    }

    /// The two operations on `lock` are certainly not of one holder.
    pub fn differ(&self, lock: Name, a: &Operation, b: &Operation) -> bool {
        if a.session.is_some() && a.session == b.session {
            return false;
        }
        if a.client != b.client {
            return true;
        }
        a.process != b.process
            && self.granted.contains(&(lock, a.process))
            && self.granted.contains(&(lock, b.process))
            && self.overlap(a.process, b.process)
    }

    fn overlap(&self, a: u64, b: u64) -> bool {
        let (Some(a), Some(b)) = (self.lives.get(&a), self.lives.get(&b)) else {
            return false;
        };
        a.0 <= b.1 && b.0 <= a.1
    }

    /// The first pair of `ops` with two holders, and how many of `ops` are not of the first one's holder.
    ///
    /// `ops` are in order; costs O(n) but for clients with very many processes under one token.
    pub fn first_pair(
        &self,
        case: &Case<'_>,
        lock: Name,
        ops: &[usize],
    ) -> Option<(usize, usize, u64)> {
        let mut known: Vec<usize> = Vec::new();
        let mut seen = HashSet::new();
        for (at, &op) in ops.iter().enumerate() {
            let operation = case.operation(op);
            if !seen.insert((operation.client, operation.process, operation.session)) {
                continue;
            }
            let other = known
                .iter()
                .find(|&&known| self.differ(lock, case.operation(known), operation));
            if let Some(&first) = other {
                let others = ops[at..]
                    .iter()
                    .filter(|&&op| self.differ(lock, case.operation(first), case.operation(op)));
                return Some((first, op, others.count() as u64));
            }
            known.push(op);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn differ(scenario: &Scenario, a: usize, b: usize) -> bool {
        let history = scenario.history();
        let case = Case::new(&history);
        let lock = history.names.find("L").expect("the scenario names it");
        Holders::new(&case).differ(lock, case.operation(a), case.operation(b))
    }

    #[test]
    fn two_clients_are_two_holders_unless_they_share_a_session() {
        let mut s = Scenario::new();
        s.grant("c1", "L", 1);
        s.grant("c2", "L", 1);
        assert!(differ(&s, 0, 1));
        for client in ["c3", "c4"] {
            let call = s.call(client, "acquire", Some("L"), |event| {
                event.session = Some("s".to_owned())
            });
            s.granted(call, 2);
        }
        assert!(!differ(&s, 2, 3));
        assert!(differ(&s, 1, 2));
    }

    #[test]
    fn a_client_that_goes_on_after_an_info_is_one_holder() {
        let mut s = Scenario::new();
        s.grant("c1", "L", 1);
        let lost = s.write_call("c1", "L", "k", 1, "a");
        s.info(lost);
        s.grant("c1", "L", 2);
        assert!(!differ(&s, 0, 2));
    }

    #[test]
    fn two_overlapping_processes_of_one_name_with_a_grant_each_are_two_holders() {
        let mut s = Scenario::new();
        let (first, second) = (s.acquire_call("c1", "L"), s.acquire_call("c1", "L"));
        let thread = s.write_call("c1", "L", "k", 1, "a");
        s.granted(first, 1);
        s.granted(second, 2);
        s.ok(thread);
        assert!(differ(&s, 0, 1));
        assert!(
            !differ(&s, 0, 2),
            "a process without a grant writes under its client's"
        );
    }
}
