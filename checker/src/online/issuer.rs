//! `token-regression`: of each lock the highest grant is kept, and for each acquire that is open the highest that was
//! known when it was sent.

use std::collections::BTreeMap;

use super::arrival::is_grant;
use super::hash::Map;
use super::words::Kept;
use crate::history::{Function, Name, Outcome};

#[derive(Clone, Debug, Default)]
pub(super) struct Issuer {
    highest: Map<Name, Kept>,
    known_when_asked: Map<u64, Kept>,
    /// By lock: how many, and the first as higher and lower grant.
    pub regressions: BTreeMap<Name, (u64, Kept, Kept)>,
}

impl Issuer {
    pub fn call(&mut self, op: &Kept) {
        if let (Some(lock), true) = (op.lock, is_grant(op))
            && let Some(known) = self.highest.get(&lock)
        {
            self.known_when_asked
                .insert(op.invoked.index, Kept::clone(known));
        }
    }

    /// The higher grant, if this one went back. A renewal tells that its token had been granted.
    pub fn answer(&mut self, op: &Kept) -> Option<Kept> {
        let renews = op.function == Function::Renew && op.outcome == Outcome::Ok;
        let tells = is_grant(op) || (renews && op.token.is_some());
        let lock = op.lock.filter(|_| tells)?;
        let higher = self.known_when_asked.remove(&op.invoked.index);
        let higher = higher.filter(|higher| higher.token > op.token);
        if let Some(higher) = &higher {
            self.regressions
                .entry(lock)
                .and_modify(|known| known.0 += 1)
                .or_insert_with(|| (1, Kept::clone(higher), Kept::clone(op)));
        }
        let highest = self.highest.get(&lock);
        if highest.is_none_or(|highest| highest.token < op.token) {
            self.highest.insert(lock, Kept::clone(op));
        }
        higher
    }
}
