//! `write-after-refusal`: a process goes on with a token after it was told that the token is stale.
//!
//! A warning: a write of t is sent by a process whose earlier write of t, under the same lock, was refused as stale,
//! and is refused again. After a refusal a holder must stop and acquire anew; what it does in between, it does in the
//! belief that it holds the lock.
//!
//! Source: the holder's side of the fence; a lock file that was gone, and a backup that went on
//! (<https://github.com/restic/restic/issues/2771>).
//!
//! It fires on: token 5 is refused, and a second later refused again, to one process. It is silent where the second
//! write was on its way before the first refusal came, where another process of the client sends it (it may not have
//! heard), where it may have been granted the token anew, and where the write is accepted: then the resource is wrong (`high-water-lost`). Under a lock with `hot-retry`
//! it is not said again.
//!
//! State: for each process the refusal that it had last.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};

use super::case::Case;
use super::kinds::Kind;
use super::story::{self, Scene};
use super::{Draft, WRITE_AFTER_REFUSAL};
use crate::history::{Function, Name, Outcome};

/// One warning a lock; none for locks that are `hot`. O(n).
pub(crate) fn writes_after_refusals(case: &Case<'_>, hot: &HashSet<Option<Name>>) -> Vec<Draft> {
    let mut told: HashMap<u64, usize> = HashMap::new();
    // Whoever has an acquire of unknown outcome may have been granted the same token once more.
    let mut uncertain: HashSet<Name> = HashSet::new();
    let mut locks: BTreeMap<Option<Name>, (u64, usize, usize)> = BTreeMap::new();
    for moment in case.walk(Kind::REFUSAL.or(Kind::ACQUIRE)) {
        let operation = case.operation(moment.op);
        if operation.function == Function::Acquire && operation.outcome == Outcome::Unknown {
            uncertain.insert(operation.client);
        }
        if !case.is_refusal(operation) {
            continue;
        }
        if moment.returns {
            told.insert(operation.process, moment.op);
            continue;
        }
        let Some(&before) = told.get(&operation.process) else {
            continue;
        };
        let refused = case.operation(before);
        let lock = case.lock(operation);
        // A holder that acquires anew may be told the same token, or its session may.
        let anew = || {
            let mut grants = case.grants_before(lock, operation.token, operation);
            grants.any(|grant| grant.completed > refused.completed)
                || operation.session.is_some()
                || uncertain.contains(&operation.client)
        };
        if refused.token == operation.token
            && case.lock(refused) == lock
            && !hot.contains(&lock)
            && !anew()
        {
            locks
                .entry(lock)
                .and_modify(|known| known.0 += 1)
                .or_insert((1, before, moment.op));
        }
    }
    locks
        .into_iter()
        .map(|(lock, (count, before, after))| {
            let scenes = [before, after].map(|op| Scene::Happened(case.operation(op)));
            let operation = case.operation(after);
            let mut ending = format!(
                "{} knew that token {} was stale and went on with it. A holder that is refused must stop and acquire anew.",
                case.text(operation.client),
                operation.token.unwrap_or_default()
            );
            if count > 1 {
                ending += &format!("\n{count} such writes were sent under this lock in all.");
            }
            let story = story::tell(case.history, scenes.to_vec(), &ending);
            Draft::new(WRITE_AFTER_REFUSAL, count, vec![before, after], story).on(lock, operation.key)
        })
        .collect()
}
