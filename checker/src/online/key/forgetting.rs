//! What a key forgets, and why that is right.
//!
//! Let M be the call of the oldest open operation of the key, or now. Let C be the cluster of the highest token with
//! `f(C) < M`; of several that with the greatest call.
//!
//! - *Lower tokens.* Whatever is invoked from M on and belongs to a lower token contradicts C: `f(C) < s`. So clusters
//!   and dormant writes of lower tokens gain no member any more without a violation that C itself proves, what is known
//!   among them has been checked, and an `f` still to come is above every `s` that they have. They go, all of them. Only
//!   their greatest `s` stays, below which no later epoch begins.
//! - *The same token.* A with `f(A) < call(C)` was over before C was sent. A read of A's value invoked from M on
//!   contradicts C, so `s(A)` is final. What A still forbids is that a B with `f(B) < s(A)` is read again; that B has to
//!   come before A, and A comes before C. So if C's `s` is raised to `s(A)`, C forbids the same, and nothing that A did
//!   not: `f(A) < call(C) <= f(C) < s(B)`. Whether A can have been the first of its epoch is final as well, and is kept
//!   as one number.
//! - *Refusals* that name h need an epoch h that can have begun before they returned: of all of them, the first to
//!   return asks the most. Those that name nothing ask for any epoch above their token: if an operation of one had
//!   returned already, that is settled for good; else the first to return of each token is kept until an epoch that was
//!   forgotten explains it.
//!
//! Where other things than writes raise marks, a mark shown at y forbids lower ones that are *sent* after y returned.
//! So each operation remembers, when it is sent, the highest mark that had been shown, and is compared when its own
//! token or mark is known.
//!
//! A value that comes back after it was forgotten is a violation whoever wrote it: by the above if it was written once,
//! and as never written otherwise. Under which name it is reported may differ from a judgement of the whole file. A value
//! that is *written* again after it was forgotten counts as a new one.

use super::{Key, Shown, Stage, Value};
use crate::history::Token;
use crate::online::cluster::{At, Cluster, Edge, NEVER, at};
use crate::online::levels::NO_FLOOR;
use crate::online::words::token_of;

impl Key {
    /// See the head of this file.
    pub(super) fn forget(&mut self, starts: &[(Token, At)]) {
        let oldest_open = self.open.first().map_or(NEVER, |&(call, _)| call);
        let clusters = self.alive.iter().filter_map(|print| {
            let Stage::Alive(cluster) = &self.values.get(print)?.stage else {
                return None;
            };
            Some((cluster, Some(*print)))
        });
        let initial = Some((&self.initial, None)).filter(|_| self.initial_alive);
        let over = clusters
            .chain(initial)
            .filter(|(cluster, _)| cluster.first.at < oldest_open);
        let Some((present, present_print)) =
            over.max_by_key(|(cluster, _)| (cluster.token, cluster.call))
        else {
            return;
        };
        let (token, sent) = (present.token, present.call);
        let mut passed = Passed {
            token,
            sent,
            floor: self.floor,
            gone: Vec::new(),
        };
        let mut alive = std::mem::take(&mut self.alive);
        alive.retain(|print| {
            self.values
                .get_mut(print)
                .is_some_and(|value| !passed.takes(value, &self.open))
        });
        self.alive = alive;
        if self.initial_alive && passed.takes_cluster(&self.initial) {
            passed.gone.push(self.initial.clone());
            self.initial_alive = false;
        }
        self.floor = passed.floor;
        if self
            .epochs
            .first_key_value()
            .is_some_and(|(&first, _)| first < token)
        {
            for (_, epoch) in self.epochs.iter().filter(|&(&of, _)| of < token) {
                let last = epoch.last.iter().chain(&epoch.refused_last);
                self.floor = last.map(|edge| edge.at).fold(self.floor, At::max);
            }
            self.epochs = self.epochs.split_off(&token);
        }
        self.nameless.retain(|&of, refusal| {
            let settled = |&(epoch, start): &(Token, At)| {
                of < epoch && epoch < token && start <= refusal.returned
            };
            !starts.iter().any(settled)
        });
        if !passed.gone.is_empty() {
            self.sum_up(passed.gone, present_print);
        }
    }

    /// Adds clusters of the present epoch, which were over before its present cluster was sent, to its summary.
    fn sum_up(&mut self, gone: Vec<Cluster>, present: Option<u64>) {
        let token = gone[0].token;
        let mut firsts: Vec<At> = gone.iter().map(|cluster| cluster.first.at).collect();
        let alive = self.alive.iter().filter_map(|print| {
            let Stage::Alive(cluster) = &self.values.get(print)?.stage else {
                return None;
            };
            (cluster.token == token).then_some(cluster.first.at)
        });
        firsts.extend(alive);
        let epoch = self.epochs.entry(token).or_default();
        firsts.extend(epoch.first.iter().map(|first| first.at));
        firsts.sort_unstable();
        let mut last = Edge::none(NO_FLOOR);
        for cluster in gone {
            let other = if firsts[0] == cluster.first.at {
                firsts.get(1)
            } else {
                firsts.first()
            };
            if other.is_none_or(|&first| first >= cluster.last.at) {
                let call = epoch.first_call.unwrap_or(NEVER).min(cluster.call);
                epoch.first_call = Some(call);
            }
            let with_write = |edge: &Edge| Edge {
                write: edge.write.clone().or_else(|| cluster.write.clone()),
                ..edge.clone()
            };
            let (first, greatest) = (with_write(&cluster.first), with_write(&cluster.last));
            epoch
                .first
                .get_or_insert_with(|| first.clone())
                .lower(&first);
            epoch
                .last
                .get_or_insert_with(|| greatest.clone())
                .raise(&greatest);
            last.raise(&greatest);
        }
        let present = present.and_then(|print| self.values.get_mut(&print));
        if let Some(Value {
            stage: Stage::Alive(cluster),
            ..
        }) = present
        {
            cluster.last.raise(&last);
        }
    }
}

/// What the present cluster lets go.
struct Passed {
    token: Token,
    sent: At,
    /// The greatest `s` of lower tokens.
    floor: At,
    /// Clusters of the present token.
    gone: Vec<Cluster>,
}

impl Passed {
    fn takes(&mut self, value: &mut Value, open: &[(At, Option<Shown>)]) -> bool {
        let is_open = |call: At| open.binary_search_by_key(&call, |&(call, _)| call).is_ok();
        let gone = match &value.stage {
            Stage::Gone(_) => return true,
            Stage::Dormant => {
                let call = at(value.write.invoked.index);
                let old = token_of(&value.write) < self.token && !is_open(call);
                if old {
                    value.stage = Stage::Gone(None);
                }
                return old;
            }
            Stage::Alive(cluster) => {
                // Its own write may be open still: it was read already.
                self.takes_cluster(cluster) && !is_open(cluster.call)
            }
        };
        if !gone {
            return false;
        }
        if let Stage::Alive(cluster) = std::mem::replace(&mut value.stage, Stage::Gone(None)) {
            if cluster.token == self.token {
                self.gone.push(cluster.clone());
            }
            value.stage = Stage::Gone(Some(Box::new(cluster)));
        }
        true
    }

    fn takes_cluster(&mut self, cluster: &Cluster) -> bool {
        if cluster.token < self.token {
            self.floor = self.floor.max(cluster.last.at);
            return true;
        }
        cluster.token == self.token && cluster.first.at < self.sent
    }
}
