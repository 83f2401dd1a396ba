//! `unfenced-write-accepted`: a write without a token gets past the fence.
//!
//! A write that carries no token is accepted, and before it was sent a high water above 0 had been proven for its key
//! and path. Whoever leaves out the token then writes whatever the fence says.
//!
//! Source: entry points without the check beside those with it (<https://github.com/matrixarkai/TemporalStore/pull/1450>).
//!
//! It fires on: token 5 is accepted, then a write without a token. It is silent where a key is seeded without a token
//! before anybody has fenced it, and where the two overlap.
//!
//! State: the highest proof of each mark.

use std::collections::BTreeMap;

use super::case::Case;
use super::proof::Proof;
use super::resource::taken;
use super::story::{self, Scene};
use super::{Draft, Place, UNFENCED_WRITE_ACCEPTED};

/// One finding a key.
pub(crate) fn unfenced_writes(case: &Case<'_>, unfenced: &[(usize, Proof)]) -> Vec<Draft> {
    let mut keys: BTreeMap<Place, (u64, usize, Proof)> = BTreeMap::new();
    for &(write, proof) in unfenced {
        let operation = case.operation(write);
        keys.entry((case.lock(operation), operation.key))
            .and_modify(|(count, _, _)| *count += 1)
            .or_insert((1, write, proof));
    }
    keys.into_iter()
        .map(|((lock, key), (count, write, proof))| {
            let mut witness = proof.witness(case);
            witness.extend(taken(case, write));
            let scenes = witness
                .iter()
                .map(|&op| Scene::Happened(case.operation(op)))
                .collect();
            let client = case.text(case.operation(write).client);
            let mut ending = format!(
                "That is wrong: {} before {client} sent its write, and a fence that takes writes without a token keeps nobody out.",
                proof.how()
            );
            if count > 1 {
                ending += &format!("\n{count} writes without a token were accepted on this key in all.");
            }
            let story = story::tell(case.history, scenes, &ending);
            Draft::new(UNFENCED_WRITE_ACCEPTED, count, witness, story).on(lock, key)
        })
        .collect()
}
