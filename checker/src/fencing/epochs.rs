//! What must hold among the clusters and refusals of one key for an order of atomic steps to exist.
//!
//! A *cluster* is a write and the reads of its value: `f` is the least return among them, `s` the greatest call. The
//! register holds the value from before `f` until after `s`. The initial value is a cluster of token 0 before time.
//!
//! ```text
//!   write a  |---|          f(a) = 4          two clusters of one epoch conflict when each had to be
//!   read a            |--|  s(a) = 9          there before the other was gone: f(a) < s(b) and f(b) < s(a)
//!   write b      |---|      f(b) = 8, s(b) = 5
//! ```
//!
//! Clusters of one token form an *epoch*, and epochs are ordered by token, because the high water never falls. A
//! refusal that names its high water belongs to that epoch. Within an epoch this is the zone test of Gibbons and
//! Korach (Testing Shared Memories, 1997); across epochs a running maximum of `s` meets each later `f`. An unknown
//! write that nobody read is *dormant*: it constrains nothing, but it may have begun an epoch that a refusal needs.
//!
//! Where other things than writes raise marks ([`Marks::ByOthersToo`]), a mark belongs to no epoch. It is a *sight* of
//! the high water at some instant: no lower write may be sent after it, no lower mark, and no higher one be over before.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::register::{Kind, Marks, Violation};
use crate::history::{Instant, Operation, Outcome, Token};

/// A place in time: an index, or before or after all of them.
type At = u64;
const BEFORE: At = 0;
const NEVER: At = u64::MAX;

/// The place of an index. The two greatest indexes that there are share one, and prove nothing about each other.
#[inline]
fn at(instant: Instant) -> At {
    instant.index.saturating_add(1).min(NEVER - 1)
}

/// An operation in four bytes, from 1.
type Op = Option<NonZeroU32>;

#[inline]
fn pack(op: usize) -> Op {
    u32::try_from(op + 1).ok().and_then(NonZeroU32::new)
}

fn unpack(op: Op) -> Option<usize> {
    op.map(|op| op.get() as usize - 1)
}

/// An extreme instant and the operation that has it; the initial value has none.
#[derive(Clone, Copy, Debug)]
struct Edge {
    at: At,
    op: Op,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cluster {
    write: Op,
    call: At,
    /// The least return.
    first: Edge,
    /// The greatest call.
    last: Edge,
}

#[derive(Clone, Copy, Debug)]
struct Refusal {
    token: Token,
    call: At,
    returned: At,
    op: usize,
}

/// The high water was at `token` (or above, for a refusal that names none) at some instant between `call` and
/// `returned`; or a write of it took effect then.
#[derive(Clone, Copy, Debug)]
struct Sight {
    token: Token,
    call: At,
    returned: At,
    ops: [Option<usize>; 2],
}

#[derive(Clone, Debug, Default)]
struct Epoch {
    clusters: Vec<Cluster>,
    /// Unknown writes that nobody read, with their calls.
    dormant: Vec<Edge>,
    /// Refusals that name this epoch's token.
    refusals: Vec<Refusal>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Epochs {
    by_token: BTreeMap<Token, Epoch>,
    /// Refusals that name no high water.
    nameless: Vec<Refusal>,
    /// Marks that belong to no epoch.
    sights: Vec<Sight>,
}

fn returned(operation: &Operation) -> At {
    operation.returned().map_or(NEVER, at)
}

impl Cluster {
    pub fn initial() -> Self {
        let before = Edge {
            at: BEFORE,
            op: None,
        };
        Self {
            write: None,
            call: BEFORE,
            first: before,
            last: before,
        }
    }

    pub fn of(op: usize, write: &Operation) -> Self {
        let edge = |at| Edge { at, op: pack(op) };
        let call = at(write.invoked);
        Self {
            write: pack(op),
            call,
            first: edge(returned(write)),
            last: edge(call),
        }
    }

    pub fn take_in(&mut self, op: usize, read: &Operation) {
        let (call, returned) = (at(read.invoked), returned(read));
        if returned < self.first.at {
            self.first = Edge {
                at: returned,
                op: pack(op),
            };
        }
        if call > self.last.at {
            self.last = Edge {
                at: call,
                op: pack(op),
            };
        }
    }

    fn ops(&self) -> [Option<usize>; 3] {
        [self.write, self.first.op, self.last.op].map(unpack)
    }
}

/// Of clusters sorted by `f`, two with `f(a) < s(b)` and `f(b) < s(a)`, if there are such: `ends` tells `f` and `s`. The
/// greatest `s` before `s(b)` decides (Gibbons and Korach).
pub(crate) fn entangled<C>(by_first: &[C], ends: impl Fn(&C) -> [At; 2]) -> Option<(&C, &C)> {
    let last = |cluster: usize| ends(&by_first[cluster])[1];
    // For each prefix the two clusters with the greatest `s`, so that one can be left out.
    let mut greatest: Vec<(usize, Option<usize>)> = Vec::with_capacity(by_first.len());
    for at in 0..by_first.len() {
        let next = match greatest.last() {
            None => (at, None),
            Some(&(best, _)) if last(at) > last(best) => (at, Some(best)),
            Some(&(best, second)) if second.is_none_or(|second| last(at) > last(second)) => {
                (best, Some(at))
            }
            Some(&kept) => kept,
        };
        greatest.push(next);
    }
    by_first.iter().enumerate().find_map(|(at, b)| {
        let [first, last] = ends(b);
        let before = by_first.partition_point(|a| ends(a)[0] < last);
        let &(best, second) = greatest.get(before.checked_sub(1)?)?;
        let other = if best == at { second } else { Some(best) };
        let a = &by_first[other?];
        (first < ends(a)[1]).then_some((a, b))
    })
}

impl Epoch {
    /// No two clusters with `f(a) < s(b)` and `f(b) < s(a)`.
    fn check_within(&self) -> Result<(), Violation> {
        // Nearly always `f` of each cluster comes after `s` of all that were written before it: then no two conflict.
        let mut last = BEFORE;
        let in_turn = self.clusters.iter().all(|cluster| {
            let after = last <= cluster.first.at;
            last = last.max(cluster.last.at);
            after
        });
        if in_turn {
            return Ok(());
        }
        let mut by_first: Vec<&Cluster> = self.clusters.iter().collect();
        by_first.sort_unstable_by_key(|cluster| cluster.first.at);
        match entangled(&by_first, |cluster| [cluster.first.at, cluster.last.at]) {
            Some((a, b)) => Err(Violation::between(
                Kind::WithinEpoch,
                a.ops().into_iter().chain(b.ops()),
            )),
            None => Ok(()),
        }
    }

    /// The least of `f` in this epoch, refusals included, and who has it.
    fn first(&self) -> Option<(At, [Option<usize>; 3])> {
        let clusters = self
            .clusters
            .iter()
            .map(|cluster| (cluster.first.at, cluster.ops()));
        let refusals = self
            .refusals
            .iter()
            .map(|refusal| (refusal.returned, [Some(refusal.op), None, None]));
        clusters.chain(refusals).min_by_key(|&(at, _)| at)
    }

    /// The greatest of `s`, and whether it is only that of a dormant write on which refusals stand.
    fn last(&self) -> Option<(At, [Option<usize>; 3], bool)> {
        let clusters = self
            .clusters
            .iter()
            .map(|cluster| (cluster.last.at, cluster.ops(), false));
        let refusals = self
            .refusals
            .iter()
            .map(|refusal| (refusal.call, [Some(refusal.op), None, None], false));
        let ground = self
            .stands_on_dormant()
            .then(|| self.least_dormant())
            .flatten();
        let ground = ground.map(|write| {
            (
                write.at,
                [unpack(write.op), Some(self.refusals[0].op), None],
                true,
            )
        });
        clusters
            .chain(refusals)
            .chain(ground)
            .max_by_key(|&(at, _, _)| at)
    }

    fn stands_on_dormant(&self) -> bool {
        self.clusters.is_empty() && !self.refusals.is_empty()
    }

    fn least_dormant(&self) -> Option<Edge> {
        self.dormant.iter().copied().min_by_key(|write| write.at)
    }

    /// The earliest call of a write that may be this epoch's first; `later` is the least `f` of later epochs.
    fn first_call(&self, later: At) -> At {
        // The two least of `f`, so that a cluster's own can be left out.
        let (mut least, mut second) = (NEVER, NEVER);
        for cluster in &self.clusters {
            let first = cluster.first.at;
            second = second.min(first.max(least));
            least = least.min(first);
        }
        let unforced = |cluster: &&Cluster| {
            let others = if least == cluster.first.at {
                second
            } else {
                least
            };
            others >= cluster.last.at
        };
        let clusters = self
            .clusters
            .iter()
            .filter(unforced)
            .map(|cluster| cluster.call);
        let bound = if !self.clusters.is_empty() {
            least
        } else if self.refusals.is_empty() {
            later
        } else {
            NEVER
        };
        let dormant = self
            .dormant
            .iter()
            .map(|write| write.at)
            .filter(|&call| call <= bound);
        clusters.chain(dormant).min().unwrap_or(NEVER)
    }
}

impl Epochs {
    pub fn add_refusal(
        &mut self,
        op: usize,
        operation: &Operation,
        marks: Marks,
    ) -> Result<(), Violation> {
        let Some(token) = operation.token else {
            return Ok(());
        };
        let refusal = Refusal {
            token,
            call: at(operation.invoked),
            returned: returned(operation),
            op,
        };
        match operation.high_water {
            None if marks == Marks::ByOthersToo => {
                // It was above the refused token: nothing bounds it from above.
                self.sights
                    .extend(Token::new(token.value() + 1).map(|above| Sight {
                        token: above,
                        call: BEFORE,
                        returned: refusal.returned,
                        ops: [Some(op), None],
                    }));
            }
            Some(mark) if mark > token && marks == Marks::ByOthersToo => {
                self.sights.push(Sight {
                    token: mark,
                    call: refusal.call,
                    returned: refusal.returned,
                    ops: [Some(op), None],
                });
            }
            None => self.nameless.push(refusal),
            Some(mark) if mark > token => self
                .by_token
                .entry(mark)
                .or_default()
                .refusals
                .push(refusal),
            Some(_) => return Err(Violation::plain(Kind::MarkNotAbove, [op])),
        }
        Ok(())
    }

    /// The mark that a read reports, as a sight.
    pub fn add_report(&mut self, op: usize, read: &Operation) {
        if let (Some(mark), Outcome::Ok) = (read.high_water, read.outcome) {
            self.sights.push(Sight {
                token: mark,
                call: at(read.invoked),
                returned: returned(read),
                ops: [Some(op), None],
            });
        }
    }

    /// An unknown write that nobody read.
    pub fn add_dormant(&mut self, op: usize, token: Token, write: &Operation) {
        let call = Edge {
            at: at(write.invoked),
            op: pack(op),
        };
        self.by_token.entry(token).or_default().dormant.push(call);
    }

    /// Clusters, each of the epoch of its token. Most stand beside one of the same epoch.
    pub fn add_clusters(&mut self, clusters: impl Iterator<Item = (Token, Cluster)>) {
        let mut clusters = clusters.peekable();
        while let Some((token, cluster)) = clusters.next() {
            let epoch = self.by_token.entry(token).or_default();
            epoch.clusters.push(cluster);
            while let Some((_, cluster)) = clusters.next_if(|&(next, _)| next == token) {
                epoch.clusters.push(cluster);
            }
        }
    }

    /// All that must hold among epochs and within them.
    pub fn check(&self) -> Result<(), Violation> {
        self.by_token.values().try_for_each(Epoch::check_within)?;
        self.check_across()?;
        self.check_sights()?;
        self.check_refusals()
    }

    /// No sight or write of a higher token is over before one of a lower token begins.
    fn check_sights(&self) -> Result<(), Violation> {
        if self.sights.is_empty() {
            return Ok(());
        }
        let writes = self.by_token.iter().flat_map(|(&token, epoch)| {
            epoch.clusters.iter().map(move |cluster| Sight {
                token,
                call: cluster.call,
                returned: cluster.first.at,
                ops: [cluster.write, cluster.first.op].map(unpack),
            })
        });
        let mut sights: Vec<Sight> = self.sights.iter().copied().chain(writes).collect();
        sights.sort_by_key(|sight| sight.token);
        let mut latest: Option<Sight> = None;
        for level in sights.chunk_by(|a, b| a.token == b.token) {
            let over = level.iter().min_by_key(|sight| sight.returned);
            if let (Some(lower), Some(higher)) = (latest, over)
                && higher.returned < lower.call
            {
                let ops = higher.ops.into_iter().chain(lower.ops);
                return Err(Violation::between(Kind::MarkFell, ops));
            }
            let candidates = latest.into_iter().chain(level.iter().copied());
            latest = candidates.max_by_key(|sight| sight.call);
        }
        Ok(())
    }

    /// For every member x of an earlier and y of a later epoch not `f(y) < s(x)`.
    fn check_across(&self) -> Result<(), Violation> {
        let mut last: Option<(At, [Option<usize>; 3], bool)> = None;
        for epoch in self.by_token.values() {
            if let (Some((latest, earlier, by_absence)), Some((first, later))) =
                (last, epoch.first())
                && first < latest
            {
                let violation =
                    Violation::between(Kind::AcrossEpochs, earlier.into_iter().chain(later));
                return Err(Violation {
                    by_absence,
                    ..violation
                });
            }
            let candidates = last.into_iter().chain(epoch.last());
            last = candidates.max_by_key(|&(at, _, _)| at);
        }
        Ok(())
    }

    /// Every refusal needs an epoch above its token that can have begun before it returned.
    fn check_refusals(&self) -> Result<(), Violation> {
        let named = self
            .by_token
            .values()
            .any(|epoch| !epoch.refusals.is_empty());
        if !named && self.nameless.is_empty() {
            return Ok(());
        }
        let unexplained = |refusal: &Refusal| Violation {
            kind: Kind::Unexplained,
            ops: vec![refusal.op],
            by_absence: true,
        };
        let mut later = NEVER;
        let mut first_calls: Vec<(Token, At)> = Vec::with_capacity(self.by_token.len());
        for (&token, epoch) in self.by_token.iter().rev() {
            let first_call = epoch.first_call(later);
            if let Some(refusal) = epoch
                .refusals
                .iter()
                .find(|refusal| first_call > refusal.returned)
            {
                return Err(unexplained(refusal));
            }
            first_calls.push((token, first_call));
            later = epoch.first().map_or(later, |(at, _)| at.min(later));
        }
        first_calls.reverse();
        let mut lower = BEFORE;
        let mut starts: Vec<(Token, At)> = Vec::with_capacity(first_calls.len());
        for ((token, first_call), epoch) in first_calls.into_iter().zip(self.by_token.values()) {
            starts.push((token, first_call.max(lower)));
            lower = epoch.last().map_or(lower, |(at, _, _)| at.max(lower));
        }
        // From here on: the earliest start among this epoch and all above it.
        for at in (1..starts.len()).rev() {
            starts[at - 1].1 = starts[at - 1].1.min(starts[at].1);
        }
        let missing = self.nameless.iter().find(|refusal| {
            let above = starts.partition_point(|&(token, _)| token <= refusal.token);
            starts
                .get(above)
                .is_none_or(|&(_, start)| start > refusal.returned)
        });
        missing.map_or(Ok(()), |refusal| Err(unexplained(refusal)))
    }
}
