//! `failed-write-applied`: a write was answered with a definite no, and was done.
//!
//! A read returns the value of a write that was answered `fail`, whatever the error, even if the read was over before
//! the answer came. What nobody knows must be told as unknown.
//!
//! Source: <https://github.com/apache/iceberg/issues/11866>: the commit was applied, its answer lost, the retry was told
//! "modified", and the client deleted its own committed files. The same in a storage client:
//! <https://github.com/aws/aws-sdk-java-v2/issues/6580>.
//!
//! It fires on: write `b` answered `fail`, read `b`. It is silent where the outcome is `info`, and where the same value
//! was sent by another write too.
//!
//! State, for each key: the first write of each value, and whether there was a second.

use std::collections::BTreeMap;

use hashbrown::HashSet;

use super::case::Case;
use super::kinds::Kind;
use super::story::{self, Scene};
use super::{Draft, FAILED_WRITE_APPLIED, Place};
use crate::history::{Function, Name};

/// One finding a key; and the writes that were applied so. `in_lists` are failed appends that a list shows, each with
/// the read. O(n).
pub(crate) fn applied_failures(
    case: &Case<'_>,
    in_lists: &[(usize, usize)],
) -> (Vec<Draft>, HashSet<usize>) {
    let mut unknown = vec![u64::MAX; case.history.names.count() + 1];
    let place = |key: Option<Name>| key.map_or(0, |key| key.position() + 1);
    let mut pairs: Vec<(usize, usize)> = in_lists.to_vec();
    for (_, operation) in case.of(Kind::UNSPELT) {
        let first = &mut unknown[place(operation.key)];
        *first = operation.invoked.index.min(*first);
    }
    for (op, _) in case.of(Kind::READ) {
        let Some(write) = case.write_seen_by(op) else {
            continue;
        };
        let kind = case.kinds[write];
        if kind.is(Kind::FAILED) && kind.is(Kind::PLAIN) {
            pairs.push((write, op));
        }
    }
    // Another operation may have made the same value, if it was sent before the read was over.
    pairs.retain(|&(write, read)| {
        let returned = case.operation(read).returned().map_or(0, |at| at.index);
        case.operation(write).function == Function::Append
            || returned < unknown[place(case.operation(read).key)]
    });
    pairs.sort_unstable_by_key(|&(_, read)| case.operation(read).completed);
    let mut keys: BTreeMap<Place, (HashSet<usize>, usize, usize)> = BTreeMap::new();
    let mut applied = HashSet::new();
    for (write, read) in pairs {
        applied.insert(write);
        let operation = case.operation(write);
        keys.entry((case.lock(operation), operation.key))
            .or_insert_with(|| (HashSet::new(), write, read))
            .0
            .insert(write);
    }
    let drafts = keys
        .into_iter()
        .map(|((lock, key), (writes, write, read))| {
            describe(case, writes.len() as u64, write, read).on(lock, key)
        })
        .collect();
    (drafts, applied)
}

fn describe(case: &Case<'_>, count: u64, write: usize, read: usize) -> Draft {
    let scenes = [write, read].map(|op| Scene::Happened(case.operation(op)));
    let client = case.text(case.operation(write).client);
    let mut ending = format!(
        "That is wrong: {client} was told that its write had surely not happened, yet its value was read. Only what is \
         certain may be answered with no; all else is unknown."
    );
    if count > 1 {
        ending += &format!("\n{count} writes of this key were answered no and applied in all.");
    }
    let story = story::tell(case.history, scenes.to_vec(), &ending);
    Draft::new(FAILED_WRITE_APPLIED, count, vec![write, read], story)
}
