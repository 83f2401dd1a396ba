//! `hot-retry`. A row of refusals goes on only within ten milliseconds, so what is older is forgotten.

use std::collections::BTreeMap;

use super::arrival::Arrival;
use super::hash::{Map, Set};
use super::words::Kept;
use crate::history::{Name, Operation, Token};

/// The gap, in nanoseconds, that a retry must keep to the refusal before it.
const HOT_NS: u64 = 10_000_000;

/// How many refusals in a row make a finding.
const ENOUGH: usize = 5;

/// After so many refusals it is time to forget.
const SWEEP_EVERY: usize = 4096;

type Holding = (Name, Option<Name>, Option<Token>);

/// A refusal as part of a row, with the row up to it while that is short.
#[derive(Clone, Debug)]
struct Link {
    /// The row: the index of its first invocation.
    row: u64,
    depth: usize,
    path: Vec<Kept>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Retries {
    /// The last refusal of each holding, and when it was told.
    last: Map<Holding, (Link, u64)>,
    /// Refused writes that have not returned.
    open: Map<u64, Link>,
    /// The longest depth of each row.
    lengths: Map<u64, usize>,
    /// By lock: how many rows, and the first.
    pub hot: BTreeMap<Option<Name>, (u64, Vec<Kept>)>,
    since_sweep: usize,
}

impl Retries {
    pub fn call(&mut self, arrival: &Arrival, op: &Kept) {
        if !arrival.is_refusal(op) {
            return;
        }
        let holding = holding(arrival, op);
        let before = self.last.get(&holding);
        let before = before.filter(|(_, told)| op.invoked.time.saturating_sub(*told) <= HOT_NS);
        let mut link = before.map_or_else(
            || Link {
                row: op.invoked.index,
                depth: 0,
                path: Vec::new(),
            },
            |(link, _)| link.clone(),
        );
        link.depth += 1;
        if link.depth <= ENOUGH {
            link.path.push(Kept::clone(op));
        } else {
            link.path.clear();
        }
        let length = self.lengths.entry(link.row).or_default();
        if link.depth == ENOUGH && *length < ENOUGH {
            self.hot
                .entry(holding.1)
                .and_modify(|known| known.0 += 1)
                .or_insert((1, link.path.clone()));
        }
        *length = link.depth.max(*length);
        self.open.insert(op.invoked.index, link);
    }

    pub fn answer(&mut self, arrival: &Arrival, op: &Kept) {
        let Some(link) = self.open.remove(&op.invoked.index) else {
            return;
        };
        let told = op.completed.unwrap_or(op.invoked).time;
        self.last.insert(holding(arrival, op), (link, told));
        self.since_sweep += 1;
        if self.since_sweep >= SWEEP_EVERY {
            self.since_sweep = 0;
            self.last
                .retain(|_, (_, at)| told.saturating_sub(*at) <= HOT_NS);
            let rows = self.last.values().map(|(link, _)| link.row);
            let rows: Set<u64> = rows
                .chain(self.open.values().map(|link| link.row))
                .collect();
            self.lengths.retain(|row, _| rows.contains(row));
        }
    }
}

fn holding(arrival: &Arrival, op: &Operation) -> Holding {
    (op.client, arrival.lock(op), op.token)
}
