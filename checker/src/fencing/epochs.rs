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

/// A write with the reads of its value so far: 48 bytes, for there are nearly as many as operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cluster {
    call: At,
    /// The least return.
    first: At,
    /// The greatest call.
    last: At,
    write: Op,
    first_op: Op,
    last_op: Op,
    pub token: Token,
    pub outcome: Outcome,
    was_read: bool,
}

#[derive(Clone, Copy, Debug)]
struct Refusal {
    token: Token,
    /// The high water that it names; of one that names none, 0.
    mark: Token,
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

/// What is of one token.
#[derive(Clone, Copy, Debug)]
struct Epoch<'a> {
    token: Token,
    clusters: &'a [Cluster],
    /// Unknown writes that nobody read.
    dormant: &'a [Cluster],
    /// Refusals that name this token.
    refusals: &'a [Refusal],
    /// The least of `f`, refusals included; [`NEVER`] where there is none.
    first: At,
    /// The greatest of `s`; of a dormant write only where refusals stand on it alone. [`BEFORE`] where there is none.
    last: At,
}

/// What a key shows of its high water beside its values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Showings {
    /// Refusals that name a high water.
    named: Vec<Refusal>,
    /// Refusals that name none.
    nameless: Vec<Refusal>,
    /// Marks that belong to no epoch.
    sights: Vec<Sight>,
}

/// All that is known of a key, each in the order of tokens, and of one token in the order of the file.
#[derive(Debug)]
pub(crate) struct Epochs<'a> {
    clusters: &'a [Cluster],
    dormant: &'a [Cluster],
    showings: &'a Showings,
}

fn returned(operation: &Operation) -> At {
    operation.returned().map_or(NEVER, at)
}

impl Cluster {
    /// The value that nobody wrote, and that every key begins with.
    pub const INITIAL: Self = Self {
        call: BEFORE,
        first: BEFORE,
        last: BEFORE,
        write: None,
        first_op: None,
        last_op: None,
        token: Token::ZERO,
        outcome: Outcome::Ok,
        was_read: false,
    };

    #[inline]
    pub fn of(op: usize, write: &Operation) -> Self {
        let call = at(write.invoked);
        let op = pack(op);
        Self {
            call,
            first: returned(write),
            last: call,
            write: op,
            first_op: op,
            last_op: op,
            token: write.token.unwrap_or(Token::ZERO),
            outcome: write.outcome,
            was_read: false,
        }
    }

    #[inline]
    pub fn take_in(&mut self, op: usize, read: &Operation) {
        let (call, returned) = (at(read.invoked), returned(read));
        if returned < self.first {
            self.first = returned;
            self.first_op = pack(op);
        }
        if call > self.last {
            self.last = call;
            self.last_op = pack(op);
        }
        self.was_read = true;
    }

    /// The write, unless it is the initial value.
    pub fn write(&self) -> Option<usize> {
        unpack(self.write)
    }

    /// It surely took effect.
    pub fn happened(&self) -> bool {
        self.outcome == Outcome::Ok || self.was_read
    }

    /// Nobody knows of it, and nobody read it.
    pub fn is_dormant(&self) -> bool {
        self.outcome == Outcome::Unknown && !self.was_read
    }

    fn ops(&self) -> [Option<usize>; 3] {
        [self.write, self.first_op, self.last_op].map(unpack)
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

impl<'a> Epoch<'a> {
    fn new(
        token: Token,
        clusters: &'a [Cluster],
        dormant: &'a [Cluster],
        refusals: &'a [Refusal],
    ) -> Self {
        let (mut first, mut last) = (NEVER, BEFORE);
        for cluster in clusters {
            first = first.min(cluster.first);
            last = last.max(cluster.last);
        }
        for refusal in refusals {
            first = first.min(refusal.returned);
            last = last.max(refusal.call);
        }
        let mut epoch = Self {
            token,
            clusters,
            dormant,
            refusals,
            first,
            last,
        };
        if let Some(ground) = epoch.ground() {
            epoch.last = last.max(ground.call);
        }
        epoch
    }

    /// It has neither clusters nor refusals, so it may never have been.
    fn is_unforced(&self) -> bool {
        self.clusters.is_empty() && self.refusals.is_empty()
    }

    /// No two clusters with `f(a) < s(b)` and `f(b) < s(a)`.
    fn check_within(&self) -> Result<(), Violation> {
        // Nearly always `f` of each cluster comes after `s` of all that were written before it: then no two conflict.
        let mut last = BEFORE;
        let in_turn = self.clusters.iter().all(|cluster| {
            let after = last <= cluster.first;
            last = last.max(cluster.last);
            after
        });
        if in_turn {
            return Ok(());
        }
        let mut by_first: Vec<&Cluster> = self.clusters.iter().collect();
        by_first.sort_unstable_by_key(|cluster| cluster.first);
        match entangled(&by_first, |cluster| [cluster.first, cluster.last]) {
            Some((a, b)) => Err(Violation::between(
                Kind::WithinEpoch,
                a.ops().into_iter().chain(b.ops()),
            )),
            None => Ok(()),
        }
    }

    /// Who has the least of `f`.
    fn who_is_first(&self) -> [Option<usize>; 3] {
        let clusters = (self.clusters.iter()).map(|cluster| (cluster.first, cluster.ops()));
        let refusals = (self.refusals.iter())
            .map(|refusal| (refusal.returned, [Some(refusal.op), None, None]));
        let all = clusters.chain(refusals);
        let first = all.min_by_key(|&(at, _)| at);
        first.map_or([None; 3], |(_, ops)| ops)
    }

    /// Who has the greatest of `s`, and whether it is only a dormant write on which refusals stand.
    fn who_is_last(&self) -> ([Option<usize>; 3], bool) {
        let clusters = (self.clusters.iter()).map(|cluster| (cluster.last, cluster.ops(), false));
        let refusals = (self.refusals.iter())
            .map(|refusal| (refusal.call, [Some(refusal.op), None, None], false));
        let ground = self.ground().map(|write| {
            let ops = [write.write(), Some(self.refusals[0].op), None];
            (write.call, ops, true)
        });
        let all = clusters.chain(refusals).chain(ground);
        let last = all.max_by_key(|&(at, _, _)| at);
        last.map_or(([None; 3], false), |(_, ops, by_absence)| (ops, by_absence))
    }

    /// The dormant write on which refusals stand.
    fn ground(&self) -> Option<&'a Cluster> {
        let stands = self.clusters.is_empty() && !self.refusals.is_empty();
        let least = stands.then(|| self.dormant.iter().min_by_key(|write| write.call));
        least.flatten()
    }

    /// The earliest call of a write that may be this epoch's first; `later` is the least `f` of later epochs.
    fn first_call(&self, later: At) -> At {
        // The two least of `f`, so that a cluster's own can be left out.
        let (mut least, mut second) = (NEVER, NEVER);
        for cluster in self.clusters {
            let first = cluster.first;
            second = second.min(first.max(least));
            least = least.min(first);
        }
        let unforced = |cluster: &&Cluster| {
            let others = if least == cluster.first {
                second
            } else {
                least
            };
            others >= cluster.last
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
            .map(|write| write.call)
            .filter(|&call| call <= bound);
        clusters.chain(dormant).min().unwrap_or(NEVER)
    }
}

impl Showings {
    /// Takes a refusal; an error where it is wrong by itself.
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
            mark: operation.high_water.unwrap_or(Token::ZERO),
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
            Some(mark) if mark > token => self.named.push(refusal),
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
}

/// Brings them into the order of tokens, if they are not: a lock service grants tokens in that order.
fn by_token<T>(these: &mut [T], token: impl Fn(&T) -> Token) {
    if !these.is_sorted_by_key(&token) {
        these.sort_by_key(token);
    }
}

/// Takes from the front what is of this token.
fn take_level<'a, T>(rest: &mut &'a [T], this: Token, token: impl Fn(&T) -> Token) -> &'a [T] {
    let count = rest.iter().take_while(|one| token(one) == this).count();
    let (level, after) = rest.split_at(count);
    *rest = after;
    level
}

impl<'a> Epochs<'a> {
    /// Of clusters that have happened, dormant writes, and what was shown beside them; each in the order of the file.
    pub fn of(
        clusters: &'a mut [Cluster],
        dormant: &'a mut [Cluster],
        showings: &'a mut Showings,
    ) -> Self {
        by_token(clusters, |cluster| cluster.token);
        by_token(dormant, |write| write.token);
        by_token(&mut showings.named, |refusal| refusal.mark);
        Self {
            clusters,
            dormant,
            showings,
        }
    }

    /// All that must hold among epochs and within them.
    pub fn check(&self) -> Result<(), Violation> {
        let epochs = self.epochs();
        epochs.iter().try_for_each(Epoch::check_within)?;
        check_across(&epochs)?;
        self.check_sights()?;
        self.check_refusals(&epochs)
    }

    fn epochs(&self) -> Vec<Epoch<'a>> {
        let (mut clusters, mut dormant) = (self.clusters, self.dormant);
        let mut refusals: &'a [Refusal] = &self.showings.named;
        let mut epochs = Vec::new();
        loop {
            let next = [
                clusters.first().map(|cluster| cluster.token),
                dormant.first().map(|write| write.token),
                refusals.first().map(|refusal| refusal.mark),
            ];
            let Some(token) = next.into_iter().flatten().min() else {
                return epochs;
            };
            epochs.push(Epoch::new(
                token,
                take_level(&mut clusters, token, |cluster| cluster.token),
                take_level(&mut dormant, token, |write| write.token),
                take_level(&mut refusals, token, |refusal| refusal.mark),
            ));
        }
    }

    /// No sight or write of a higher token is over before one of a lower token begins.
    fn check_sights(&self) -> Result<(), Violation> {
        if self.showings.sights.is_empty() {
            return Ok(());
        }
        let writes = self.clusters.iter().map(|cluster| Sight {
            token: cluster.token,
            call: cluster.call,
            returned: cluster.first,
            ops: [cluster.write, cluster.first_op].map(unpack),
        });
        let mut sights: Vec<Sight> = self.showings.sights.iter().copied().chain(writes).collect();
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

    /// Every refusal needs an epoch above its token that can have begun before it returned.
    fn check_refusals(&self, epochs: &[Epoch<'_>]) -> Result<(), Violation> {
        let nameless = &self.showings.nameless;
        if self.showings.named.is_empty() && nameless.is_empty() {
            return Ok(());
        }
        let unexplained = |refusal: &Refusal| Violation {
            kind: Kind::Unexplained,
            ops: vec![refusal.op],
            by_absence: true,
        };
        let mut later = NEVER;
        let mut first_calls: Vec<At> = Vec::with_capacity(epochs.len());
        for epoch in epochs.iter().rev() {
            let first_call = epoch.first_call(later);
            if let Some(refusal) = epoch
                .refusals
                .iter()
                .find(|refusal| first_call > refusal.returned)
            {
                return Err(unexplained(refusal));
            }
            first_calls.push(first_call);
            later = later.min(epoch.first);
        }
        if nameless.is_empty() {
            return Ok(());
        }
        first_calls.reverse();
        let mut lower = BEFORE;
        let mut starts: Vec<(Token, At)> = Vec::with_capacity(epochs.len());
        for (first_call, epoch) in first_calls.into_iter().zip(epochs) {
            starts.push((epoch.token, first_call.max(lower)));
            lower = lower.max(epoch.last);
        }
        // From here on: the earliest start among this epoch and all above it.
        for at in (1..starts.len()).rev() {
            starts[at - 1].1 = starts[at - 1].1.min(starts[at].1);
        }
        let missing = nameless.iter().find(|refusal| {
            let above = starts.partition_point(|&(token, _)| token <= refusal.token);
            starts
                .get(above)
                .is_none_or(|&(_, start)| start > refusal.returned)
        });
        missing.map_or(Ok(()), |refusal| Err(unexplained(refusal)))
    }
}

/// For every member x of an earlier and y of a later epoch not `f(y) < s(x)`.
fn check_across(epochs: &[Epoch<'_>]) -> Result<(), Violation> {
    let mut last: Option<&Epoch<'_>> = None;
    for epoch in epochs.iter().filter(|epoch| !epoch.is_unforced()) {
        if let Some(earlier) = last.filter(|earlier| epoch.first < earlier.last) {
            let (ops, by_absence) = earlier.who_is_last();
            let ops = ops.into_iter().chain(epoch.who_is_first());
            let violation = Violation::between(Kind::AcrossEpochs, ops);
            return Err(Violation {
                by_absence,
                ..violation
            });
        }
        last = last
            .into_iter()
            .chain([epoch])
            .max_by_key(|epoch| epoch.last);
    }
    Ok(())
}
