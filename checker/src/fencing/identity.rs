//! Who is who: when two operations are certainly those of two holders.
//!
//! A holder is a client. It goes on under a new process after an `info`, and its threads share its grants, so two
//! processes of one client are one holder, unless each has a grant of its own of the lock and they were alive at
//! the same time: then two incarnations go by one name. A shared session is one holder always.
//!
//! Where a history names no clients, nothing tells who begins under a new process. It may be whoever went on after the
//! `info` of an earlier one, so it is a holder of its own only beside processes that had not ended so when it began.

use hashbrown::{HashMap, HashSet};

use super::case::Case;
use crate::history::{Name, Operation, Outcome};

/// Tells holders apart.
#[derive(Debug)]
pub(crate) struct Holders {
    granted: HashMap<(Name, u64), usize>,
    lives: Lives,
    /// When the first process of an unnamed client ended with an `info`.
    first_unnamed_end: u64,
}

/// What is known of a process, in indexes.
#[derive(Clone, Copy, Debug)]
struct Life {
    first: u64,
    last: u64,
    /// Its client is not named.
    unnamed: bool,
    /// When it ended with an `info`.
    ended: Option<u64>,
    /// Its first operation, and the one with its last event.
    first_op: usize,
    last_op: usize,
}

/// The lives of processes; of those with small numbers, which are nearly all, without a search.
#[derive(Debug, Default)]
struct Lives {
    near: Vec<Option<Life>>,
    far: HashMap<u64, Life>,
}

/// Processes below this number are kept in a list.
const NEAR: usize = 1 << 16;

impl Lives {
    #[inline]
    fn of(&mut self, process: u64, new: impl FnOnce() -> Life) -> &mut Life {
        match usize::try_from(process) {
            Ok(place) if place < NEAR => {
                if place >= self.near.len() {
                    self.near.resize(place + 1, None);
                }
                self.near[place].get_or_insert_with(new)
            }
            _ => self.far.entry(process).or_insert_with(new),
        }
    }

    fn get(&self, process: u64) -> Option<&Life> {
        match usize::try_from(process) {
            Ok(place) if place < NEAR => self.near.get(place)?.as_ref(),
            _ => self.far.get(&process),
        }
    }
}

/// Client, process and session of an operation: two that agree in these are of one holder.
pub(crate) type Who = (Name, u64, Option<Name>);

/// Who does an operation.
#[inline]
pub(crate) fn who(operation: &Operation) -> Who {
    (operation.client, operation.process, operation.session)
}

impl Holders {
    pub fn new(case: &Case<'_>) -> Self {
        let mut granted = HashMap::new();
        let mut lives = Lives::default();
        let mut first_unnamed_end = u64::MAX;
        for (op, operation) in case.history.operations.iter().enumerate() {
            let first = operation.invoked.index;
            let last = operation.completed.map_or(first, |at| at.index);
            let life = lives.of(operation.process, || Life {
                first,
                last,
                unnamed: operation.is_unnamed(&case.history.names),
                ended: None,
                first_op: op,
                last_op: op,
            });
            if last > life.last {
                life.last = last;
                life.last_op = op;
            }
            if operation.outcome == Outcome::Unknown && operation.completed.is_some() {
                life.ended = Some(last);
                if life.unnamed {
                    first_unnamed_end = first_unnamed_end.min(last);
                }
            }
            if let Some(lock) = operation.lock.filter(|_| Case::is_grant(operation)) {
                granted.entry((lock, operation.process)).or_insert(op);
            }
        }
        Self {
            granted,
            lives,
            first_unnamed_end,
        }
    }

    /// The process may be that of a client, not named, which went on after the `info` of an earlier process.
    pub fn may_go_on(&self, process: u64) -> bool {
        self.lives
            .get(process)
            .is_some_and(|life| life.unnamed && self.first_unnamed_end < life.first)
    }

    /// One of the processes, of clients that are not named, may be the other's after its `info`.
    fn may_be_one(&self, a: u64, b: u64) -> bool {
        let (Some(a), Some(b)) = (self.lives.get(a), self.lives.get(b)) else {
            return false;
        };
        let goes_on = |from: &Life, to: &Life| from.ended.is_some_and(|ended| ended < to.first);
        a.unnamed && b.unnamed && (goes_on(a, b) || goes_on(b, a))
    }

    /// The two operations on `lock` are certainly not of one holder.
    pub fn differ(&self, lock: Name, a: &Operation, b: &Operation) -> bool {
        if a.session.is_some() && a.session == b.session {
            return false;
        }
        if a.client != b.client {
            return !self.may_be_one(a.process, b.process);
        }
        a.process != b.process
            && self.granted.contains_key(&(lock, a.process))
            && self.granted.contains_key(&(lock, b.process))
            && self.overlap(a.process, b.process)
    }

    /// The operations that show that two of one client are those of two holders: each one's grant, and that the one
    /// was still there when the other came. None for two clients.
    pub fn evidence(&self, lock: Name, a: &Operation, b: &Operation) -> Vec<usize> {
        if a.client != b.client {
            return Vec::new();
        }
        let mut shown: Vec<usize> = [a.process, b.process]
            .into_iter()
            .filter_map(|process| self.granted.get(&(lock, process)).copied())
            .collect();
        if let (Some(a), Some(b)) = (self.lives.get(a.process), self.lives.get(b.process)) {
            let (early, late) = if a.first < b.first { (a, b) } else { (b, a) };
            shown.extend([early.last_op, late.first_op]);
        }
        shown
    }

    fn overlap(&self, a: u64, b: u64) -> bool {
        let (Some(a), Some(b)) = (self.lives.get(a), self.lives.get(b)) else {
            return false;
        };
        a.first <= b.last && b.first <= a.last
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
        let mut before = None;
        for (at, &op) in ops.iter().enumerate() {
            let operation = case.operation(op);
            let who = who(operation);
            // Nearly all that is done under one token is done by one process.
            if before.replace(who) == Some(who) || !seen.insert(who) {
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
    use crate::history::History;
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

    #[test]
    fn where_clients_are_not_named_a_process_may_go_on_for_one_that_ended_with_an_info() {
        let history = History::read(
            br#"
{"index":0,"time":0,"process":1,"type":"invoke","f":"acquire","lock":"L"}
{"index":1,"time":1,"process":1,"type":"ok","f":"acquire","token":5}
{"index":2,"time":2,"process":2,"type":"invoke","f":"acquire","lock":"L"}
{"index":3,"time":3,"process":2,"type":"ok","f":"acquire","token":6}
{"index":4,"time":4,"process":1,"type":"invoke","f":"write","key":"k","token":5,"value":"a"}
{"index":5,"time":5,"process":1,"type":"info","f":"write"}
{"index":6,"time":6,"process":6,"type":"invoke","f":"write","lock":"L","key":"k","token":5,"value":"b"}
{"index":7,"time":7,"process":6,"type":"ok","f":"write"}
"#,
        )
        .expect("well-formed");
        let case = Case::new(&history);
        let lock = history.names.find("L").expect("it is named");
        let holders = Holders::new(&case);
        let differ = |a, b| holders.differ(lock, case.operation(a), case.operation(b));
        assert!(!differ(0, 3) && !differ(2, 3), "6 may go on for 1");
        assert!(differ(1, 3), "2 had not ended when 6 began");
        assert!(differ(0, 1));
        assert_eq!(
            [1, 2, 6].map(|process| holders.may_go_on(process)),
            [false, false, true]
        );
    }
}
