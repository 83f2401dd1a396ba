//! `high-water-lost`: the resource forgot the highest token that it had accepted.
//!
//! An operation that was sent after a proof of h reports less than h; or a token is accepted that this key had
//! refused before.
//!
//! Source: <https://github.com/oxia-db/oxia/pull/87>: the fence's epoch was not persisted, so that after a restart
//! writes of an older epoch passed.
//!
//! It fires on: a read reports 8, token 7 is refused, and after a restart token 7 is accepted. It is silent where the
//! lower report overlaps the write that raised the mark.
//!
//! Root or consequence: where the only sign is a stale write that was accepted, and what it made of the mark, the
//! mark was never kept and `stale-write-accepted` is the root. Where the mark had fallen before, or the key had
//! refused that token itself, the lost mark is the root of the stale writes.
//!
//! State: the proof that stood when each open operation was sent; the tokens that each key has refused.

use std::collections::BTreeMap;

use super::case::Case;
use super::proof::{Fallen, Proofs};
use super::resource::taken;
use super::story;
use super::{Draft, HIGH_WATER_LOST, Place, STALE_WRITE_ACCEPTED, TOKEN_OVERFLOW};
use crate::history::Function;

#[derive(Clone, Debug)]
enum Sign {
    Fell(Fallen),
    Regained { refusal: usize, write: usize },
}

#[derive(Debug)]
struct Lost {
    count: u64,
    first: Sign,
    /// When the first sign was in.
    proven: u64,
}

/// One finding a key.
pub(crate) fn lost_marks(case: &Case<'_>, proofs: &Proofs) -> Vec<Draft> {
    let mut stale: BTreeMap<Place, u64> = BTreeMap::new();
    for late in proofs
        .late
        .iter()
        .filter(|late| case.is_accepted(late.write))
    {
        let write = case.operation(late.write);
        stale
            .entry((case.lock(write), write.key))
            .or_insert(write.invoked.index);
    }
    let mut keys: BTreeMap<Place, Lost> = BTreeMap::new();
    let regained = proofs
        .regained
        .iter()
        .map(|&(refusal, write)| (Sign::Regained { refusal, write }, write));
    let fell = proofs
        .fallen
        .iter()
        .map(|&fallen| (Sign::Fell(fallen), fallen.report));
    for (sign, op) in regained.chain(fell) {
        let operation = case.operation(op);
        let proven = operation.completed.unwrap_or(operation.invoked).index;
        let lost = keys
            .entry((case.lock(operation), operation.key))
            .or_insert_with(|| Lost {
                count: 0,
                first: sign.clone(),
                proven,
            });
        lost.count += 1;
        if proven < lost.proven {
            lost.first = sign;
            lost.proven = proven;
        }
    }
    keys.into_iter()
        .map(|(place, lost)| {
            let mut draft = describe(case, &lost).on(place.0, place.1);
            // Fallen from the stale write on, and no sooner: there is no mark to lose.
            let by_stale_write = matches!(lost.first, Sign::Fell(_))
                && stale.get(&place).is_some_and(|&sent| sent < lost.proven);
            if by_stale_write {
                draft.causes = vec![STALE_WRITE_ACCEPTED.name];
            } else {
                draft.causes = vec![TOKEN_OVERFLOW.name];
            }
            draft
        })
        .collect()
}

fn describe(case: &Case<'_>, lost: &Lost) -> Draft {
    let (witness, mut ending, since) = match lost.first {
        Sign::Fell(Fallen { report, proof }) => {
            let mut witness = proof.witness(case);
            witness.push(report);
            let operation = case.operation(report);
            let told = operation.high_water.unwrap_or_default();
            let what = match operation.function {
                Function::Read => "read",
                _ => "write",
            };
            let ending = format!(
                "That is wrong: {} before {} sent its {what}, yet that was answered with high water {told}. A high water never falls.",
                proof.how(),
                case.text(operation.client),
            );
            (witness, ending, proof.op)
        }
        Sign::Regained { refusal, write } => {
            let mut witness = vec![refusal];
            witness.extend(taken(case, write));
            let token = case.operation(write).token.unwrap_or_default();
            let ending = format!(
                "That is wrong: this key had refused token {token} before, so its high water was above it and has fallen since."
            );
            (witness, ending, refusal)
        }
    };
    if lost.count > 1 {
        ending += &format!("\n{} such signs were seen on this key in all.", lost.count);
    }
    let mut witness = witness;
    let mut scenes = story::happened(case, &mut witness);
    let last = case.operation(*witness.last().unwrap_or(&since));
    scenes.extend(story::resource_faults(
        case.history,
        case.operation(since).invoked,
        last.completed.unwrap_or(last.invoked),
    ));
    let story = story::tell(case.history, scenes, &ending);
    Draft::new(HIGH_WATER_LOST, lost.count, witness, story)
}
