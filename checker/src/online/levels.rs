//! What must hold among the clusters and refusals of one key that are still alive, and what has been summed up.
//!
//! The conditions are those of `fencing/epochs.rs`. Of clusters that were forgotten each level keeps the least `f`, the
//! greatest `s`, and the earliest call of one that can have been its first.

use std::collections::BTreeMap;

use super::cluster::{At, BEFORE, Cluster, Edge, NEVER, at};
use super::words::{Kept, returned};
use crate::fencing::entangled;
use crate::history::Token;

/// A proof that no order exists.
#[derive(Clone, Debug)]
pub(super) struct Broken {
    pub ops: Vec<Kept>,
}

impl Broken {
    pub fn of<'a>(ops: impl IntoIterator<Item = &'a Kept>) -> Self {
        let mut ops: Vec<Kept> = ops.into_iter().cloned().collect();
        ops.sort_unstable_by_key(|op| op.invoked.index);
        ops.dedup_by_key(|op| op.invoked.index);
        Self { ops }
    }
}

/// A refusal.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub op: Kept,
    pub returned: At,
}

impl Refusal {
    pub fn of(op: &Kept) -> Self {
        Self {
            op: Kept::clone(op),
            returned: returned(op).map_or(NEVER, at),
        }
    }
}

/// What is remembered of a token beyond its living clusters.
#[derive(Clone, Debug, Default)]
pub(super) struct Epoch {
    /// Of forgotten clusters: the least `f`, the greatest `s`, the earliest call of a possible first.
    pub first: Option<Edge>,
    pub last: Option<Edge>,
    pub first_call: Option<At>,
    /// Of refusals that name this token: the first to return, and the greatest call.
    pub refused_first: Option<Refusal>,
    pub refused_last: Option<Edge>,
}

/// An unknown or open write that nobody has read.
#[derive(Clone, Debug)]
pub(super) struct Dormant<'a> {
    pub token: Token,
    pub call: At,
    pub op: &'a Kept,
}

/// Everything of one token.
#[derive(Debug)]
struct Level<'a> {
    token: Token,
    clusters: &'a [&'a Cluster],
    dormant: &'a [Dormant<'a>],
    epoch: Option<&'a Epoch>,
    refusals: bool,
}

/// What is checked: living clusters and dormant writes, the epochs' summaries, and refusals that name nothing.
#[derive(Debug)]
pub(super) struct Levels<'a> {
    pub clusters: Vec<&'a Cluster>,
    pub dormant: Vec<Dormant<'a>>,
    pub epochs: &'a BTreeMap<Token, Epoch>,
    pub nameless: &'a BTreeMap<Token, Refusal>,
    /// The greatest `s` of epochs that were forgotten altogether.
    pub floor: At,
    /// Whether refusals belong to epochs; else other things than writes raise marks.
    pub refusals: bool,
}

impl Levels<'_> {
    /// All that must hold. Returns for each token from which instant on its epoch may have begun.
    pub fn check(&mut self) -> Result<Vec<(Token, At)>, Broken> {
        self.clusters
            .sort_unstable_by_key(|c| (c.token, c.first.at));
        self.dormant.sort_unstable_by_key(|d| (d.token, d.call));
        let levels = self.levels();
        levels.iter().try_for_each(Level::check_within)?;
        check_across(&levels)?;
        if !self.refusals {
            return Ok(Vec::new());
        }
        let needed =
            !self.nameless.is_empty() || levels.iter().any(|level| level.first_refusal().is_some());
        if !needed {
            return Ok(Vec::new());
        }
        self.check_refusals(&levels)
    }

    fn levels(&self) -> Vec<Level<'_>> {
        let (mut clusters, mut dormant) = (&self.clusters[..], &self.dormant[..]);
        let mut epochs = self.epochs.iter().peekable();
        let mut levels = Vec::new();
        loop {
            let next = [
                clusters.first().map(|cluster| cluster.token),
                dormant.first().map(|dormant| dormant.token),
                epochs.peek().map(|&(&token, _)| token),
            ];
            let Some(token) = next.into_iter().flatten().min() else {
                return levels;
            };
            let (mine, others) =
                clusters.split_at(clusters.partition_point(|cluster| cluster.token == token));
            clusters = others;
            let (asleep, others) =
                dormant.split_at(dormant.partition_point(|dormant| dormant.token == token));
            dormant = others;
            let epoch = epochs.next_if(|&(&of, _)| of == token);
            levels.push(Level {
                token,
                clusters: mine,
                dormant: asleep,
                epoch: epoch.map(|(_, epoch)| epoch),
                refusals: self.refusals,
            });
        }
    }

    fn check_refusals(&self, levels: &[Level<'_>]) -> Result<Vec<(Token, At)>, Broken> {
        let mut later = NEVER;
        let mut starts: Vec<(Token, At)> = Vec::with_capacity(levels.len());
        for level in levels.iter().rev() {
            let first_call = level.first_call(later);
            if let Some(refusal) = level.first_refusal()
                && first_call > refusal.returned
            {
                return Err(Broken::of([&refusal.op]));
            }
            starts.push((level.token, first_call));
            later = level.first().map_or(later, |first| first.at.min(later));
        }
        starts.reverse();
        let mut lower = self.floor;
        for (start, level) in starts.iter_mut().zip(levels) {
            start.1 = start.1.max(lower);
            lower = level.last().map_or(lower, |(last, _)| last.at.max(lower));
        }
        for (&token, refusal) in self.nameless {
            let above = starts.partition_point(|&(of, _)| of <= token);
            let fits = |&(_, start): &(Token, At)| start <= refusal.returned;
            if !starts[above..].iter().any(fits) {
                return Err(Broken::of([&refusal.op]));
            }
        }
        Ok(starts)
    }
}

/// For every member x of an earlier and y of a later epoch not `f(y) < s(x)`.
fn check_across(levels: &[Level<'_>]) -> Result<(), Broken> {
    let mut latest: Option<(Edge, Vec<&Kept>)> = None;
    for level in levels {
        if let (Some((last, ops)), Some(first)) = (&latest, level.first())
            && first.at < last.at
        {
            let mine = level.ops_of_first(&first);
            return Err(Broken::of(ops.iter().copied().chain(mine)));
        }
        if let Some((last, ops)) = level.last()
            && latest.as_ref().is_none_or(|(known, _)| last.at >= known.at)
        {
            latest = Some((last, ops));
        }
    }
    Ok(())
}

impl<'a> Level<'a> {
    /// No two clusters with `f(a) < s(b)` and `f(b) < s(a)`; they are sorted by `f`.
    fn check_within(&self) -> Result<(), Broken> {
        match entangled(self.clusters, |cluster| [cluster.first.at, cluster.last.at]) {
            Some((a, b)) => Err(Broken::of(a.ops().chain(b.ops()))),
            None => Ok(()),
        }
    }

    fn first_refusal(&self) -> Option<&'a Refusal> {
        let epoch = self.epoch.filter(|_| self.refusals)?;
        epoch.refused_first.as_ref()
    }

    /// The least `f`, refusals included.
    fn first(&self) -> Option<Edge> {
        let mut first = self.first_of_clusters();
        if let Some(refusal) = self.first_refusal()
            && first
                .as_ref()
                .is_none_or(|first| refusal.returned < first.at)
        {
            first = Some(Edge::new(refusal.returned, &refusal.op));
        }
        first
    }

    fn first_of_clusters(&self) -> Option<Edge> {
        let mut first = self.clusters.first().map(|cluster| cluster.first.clone());
        if let Some(summed) = self.epoch.and_then(|epoch| epoch.first.as_ref()) {
            first.get_or_insert_with(|| summed.clone()).lower(summed);
        }
        first
    }

    fn ops_of_first(&self, first: &'a Edge) -> Vec<&'a Kept> {
        let cluster = self.clusters.first().filter(|c| c.first.at == first.at);
        let cluster = cluster.into_iter().flat_map(|cluster| cluster.ops());
        cluster.chain(first.ops()).collect()
    }

    /// The greatest `s`, with the operations that give it.
    fn last(&self) -> Option<(Edge, Vec<&'a Kept>)> {
        let cluster = self.clusters.iter().max_by_key(|cluster| cluster.last.at);
        let mut last = cluster.map(|cluster| (cluster.last.clone(), cluster.ops().collect()));
        let mut consider = |edge: &Edge, ops: Vec<&'a Kept>| {
            if last
                .as_ref()
                .is_none_or(|(known, _): &(Edge, Vec<&'a Kept>)| edge.at > known.at)
            {
                last = Some((edge.clone(), ops));
            }
        };
        if let Some(epoch) = self.epoch {
            if let Some(summed) = &epoch.last {
                consider(summed, summed.ops().collect());
            }
            if let Some(refused) = epoch.refused_last.as_ref().filter(|_| self.refusals) {
                consider(refused, refused.ops().collect());
            }
        }
        let stands_on_dormant = self.clusters.is_empty()
            && self.epoch.is_none_or(|epoch| epoch.first.is_none())
            && self.first_refusal().is_some();
        if let (true, Some(ground), Some(refusal)) = (
            stands_on_dormant,
            self.dormant.first(),
            self.first_refusal(),
        ) {
            let edge = Edge::new(ground.call, ground.op);
            consider(&edge, vec![ground.op, &refusal.op]);
        }
        last
    }

    /// The earliest call of a write that may be this epoch's first; `later` is the least `f` of later epochs.
    fn first_call(&self, later: At) -> At {
        let summed = self.epoch.and_then(|epoch| epoch.first.as_ref());
        let summed = summed.map(|first| first.at);
        let least = |skip: usize| {
            // They are sorted by `f`, so the least of the others is the first or the second.
            let other = if skip == 0 {
                self.clusters.get(1)
            } else {
                self.clusters.first()
            };
            let other = other.map(|cluster| cluster.first.at);
            other.into_iter().chain(summed).min()
        };
        let unforced = self
            .clusters
            .iter()
            .enumerate()
            .filter(|&(at, cluster)| least(at).is_none_or(|first| first >= cluster.last.at));
        let clusters = unforced.map(|(_, cluster)| cluster.call);
        let bound = match self.first_of_clusters() {
            Some(first) => first.at,
            None if self.first_refusal().is_none() => later,
            None => NEVER,
        };
        let dormant = self
            .dormant
            .iter()
            .map(|dormant| dormant.call)
            .filter(|&call| call <= bound);
        let forgotten = self.epoch.and_then(|epoch| epoch.first_call);
        clusters
            .chain(dormant)
            .chain(forgotten)
            .min()
            .unwrap_or(NEVER)
    }
}

/// The beginning of time, for a key of which no epoch was forgotten.
pub(super) const NO_FLOOR: At = BEFORE;
