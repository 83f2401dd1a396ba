//! `partial-fencing`: one way to what the lock guards is fenced, another is not.
//!
//! An accepted write of t, and before it was sent a higher token had been proven on another path of the same key, or
//! on another key of the lock. With a mark that the lock keeps, and for paths, that is a violation. With a mark a key
//! it is a warning: the resource did what it promised, but a new holder must touch every key before it is safe.
//!
//! Source: <https://github.com/milvus-io/milvus/pull/50007>: the data was fenced, the checkpoint was not, and the old
//! owner truncated the only copy.
//!
//! It fires on: key `k` accepts 31, then key `k/checkpoint` accepts 30. It is silent where the checkpoint was
//! written with 30 before anybody had shown 31.
//!
//! State: the highest proof of each key, each lock, and each key with its path; all of it is in `proof.rs`.

use std::collections::BTreeMap;

use super::case::Case;
use super::proof::{Behind, Elsewhere};
use super::resource::taken;
use super::story::{self, Scene};
use super::{Draft, PARTIAL_FENCING};
use crate::finding::Severity;
use crate::history::{MarkScope, Name};

/// What was not fenced: lock, key, path, and where the higher token was.
type Place = (Option<Name>, Option<Name>, Option<Name>, Elsewhere);

/// One finding for each key and path that is not fenced.
pub(crate) fn partly_fenced(case: &Case<'_>, behind: &[Behind]) -> Vec<Draft> {
    let mut places: BTreeMap<Place, (u64, &Behind)> = BTreeMap::new();
    for write in behind {
        let operation = case.operation(write.write);
        let (lock, path) = (case.lock(operation), case.path(operation));
        places
            .entry((lock, operation.key, path, write.elsewhere))
            .and_modify(|(count, _)| *count += 1)
            .or_insert((1, write));
    }
    places
        .into_iter()
        .map(|((lock, key, _, _), (count, first))| describe(case, count, first).on(lock, key))
        .collect()
}

fn describe(case: &Case<'_>, count: u64, behind: &Behind) -> Draft {
    let mut witness = behind.proof.witness(case);
    witness.extend(taken(case, behind.write));
    let scenes: Vec<Scene<'_>> = witness
        .iter()
        .map(|&op| Scene::Happened(case.operation(op)))
        .collect();
    let write = case.operation(behind.write);
    let token = write.token.unwrap_or_default();
    let how = behind.proof.how();
    let client = case.text(write.client);
    // Keys are of one lock because some operation says so.
    let told: Vec<usize> = witness
        .iter()
        .filter_map(|&op| case.lock_told_by(case.operation(op)))
        .collect();
    let warned = behind.elsewhere == Elsewhere::Key && case.mark_scope == MarkScope::Key;
    let mut ending = match behind.elsewhere {
        Elsewhere::Path => {
            let path = case
                .path(write)
                .map_or_else(|| "primary".into(), |path| case.text(path));
            format!(
                "That is wrong: {how} on this key before {client} sent its write by path {path}, which took the stale \
                 token {token}. Every path to a key has to be fenced."
            )
        }
        Elsewhere::Key if warned => format!(
            "Take care: {how} on another key of this lock before {client} sent its write. Each key has a high water of \
             its own, so a new holder is safe only once it has touched every key of its lock."
        ),
        Elsewhere::Key => format!(
            "That is wrong: {how} on another key of this lock before {client} sent its write. The lock has one high \
             water for all its keys, so token {token} had to be refused on this one too."
        ),
    };
    if count > 1 {
        ending += &format!("\n{count} such writes were accepted here in all.");
    }
    let story = story::tell(case.history, scenes, &ending);
    witness.extend(told);
    let mut draft = Draft::new(PARTIAL_FENCING, count, witness, story);
    if warned {
        draft.severity = Severity::Warning;
    }
    draft
}
