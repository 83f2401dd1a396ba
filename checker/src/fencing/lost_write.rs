//! `lost-acked-write`: a write was acknowledged, and is gone.
//!
//! A read that was sent after an accepted write w was done returns nothing, or a value whose own write or first read
//! was over before w was sent. So what the read found is older than w.
//!
//! Source: <https://github.com/slatedb/slatedb/issues/352>: a stalled writer's put succeeds once the fence object is
//! garbage-collected, is acknowledged, and never replayed. Acknowledged inserts that a partition takes back:
//! <https://github.com/elastic/elasticsearch/issues/10407>.
//!
//! It fires on: write `a` ok, write `b` ok, read `a`. It is silent where the write of `b` overlaps the read, or the
//! write of `a`: then `a` may have come last.
//!
//! Silent from the first operation on an object that may set it to a value which the file does not spell out (append,
//! compare-and-set, a write without a value), and for values written twice.
//!
//! State (`reads.rs`), for each key and path: of the writes that are surely done the one that was sent last; the same for each open
//! read as it was when the read was sent; when each value was first shown.

use std::collections::BTreeMap;

use super::case::Case;
use super::kinds::Kind;
use super::reads::Reads;
use super::shown::Shown;
use super::story;
use super::{Draft, HIGH_WATER_LOST, LOST_ACKED_WRITE, Place};
use crate::history::{Datum, Function, Operation, Outcome};

/// A read, the write that it misses, and the older one that it saw instead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missing {
    pub read: usize,
    pub lost: usize,
    pub older: Option<usize>,
}

/// One finding a key.
pub(crate) fn lost_writes(case: &Case<'_>, reads: &Reads<'_>) -> Vec<Draft> {
    describe_all(case, &reads.shown, &reads.missing)
}

/// Whether an operation may leave an object with a value that the file does not spell out.
pub(crate) fn makes_unknown(operation: &Operation) -> bool {
    operation.outcome != Outcome::Failed
        && match operation.function {
            Function::Read | Function::Acquire | Function::Renew | Function::Release => false,
            Function::Write => operation.value.is_none_or(Datum::is_null),
            Function::Append | Function::Cas => true,
            Function::Other(_) => operation.key.is_some(),
        }
}

/// A resource that forgot its mark and a value at once forgot them for one reason: the lost mark is the root. Both
/// proofs say between which events it forgot, and if the two times have a moment in common, that was it.
pub(crate) fn forgotten_with_the_mark(case: &Case<'_>, lost: &mut [Draft], marks: &[Draft]) {
    let of_mark = |draft: &Draft| {
        let events = super::events(case, &draft.witness);
        Some((*events.first()?, *events.last()?))
    };
    // Of the writes in the proof the lost one was sent last.
    let of_value = |draft: &Draft| {
        let writes = (draft.witness.iter()).filter(|&&op| case.kinds[op].is(Kind::WRITE));
        let sent = writes.map(|&op| case.operation(op).invoked.index).max();
        Some((sent?, *super::events(case, &draft.witness).last()?))
    };
    for draft in lost {
        let at_once = |mark: &Draft| {
            (mark.lock, mark.key) == (draft.lock, draft.key)
                && of_mark(mark)
                    .zip(of_value(draft))
                    .is_some_and(|(mark, value)| mark.0 < value.1 && value.0 < mark.1)
        };
        if marks.iter().any(at_once) {
            draft.causes.push(HIGH_WATER_LOST.name);
        }
    }
}

/// What a read on this object, sent when `lost` was surely done, shows by returning something else: nothing, or what it
/// saw.
pub(crate) fn misses(
    case: &Case<'_>,
    shown: &Shown<'_>,
    read: usize,
    seen: Option<usize>,
    lost: usize,
    object: usize,
) -> Option<Missing> {
    let older = match (case.operation(read).value, seen) {
        (Some(Datum::NULL), _) => None,
        (_, Some(write)) if is_older(case, shown, write, lost, object) => Some(write),
        _ => return None,
    };
    Some(Missing { read, lost, older })
}

/// The value of `write` was there, on this object, before `lost` was sent.
fn is_older(case: &Case<'_>, shown: &Shown<'_>, write: usize, lost: usize, object: usize) -> bool {
    case.operation(write).function == Function::Write
        && case.spots[write].object as usize == object
        && shown.at(write) < case.operation(lost).invoked.index
}

fn describe_all(case: &Case<'_>, shown: &Shown<'_>, missing: &[Missing]) -> Vec<Draft> {
    let mut keys: BTreeMap<Place, (u64, Missing)> = BTreeMap::new();
    for &missing in missing {
        let lost = case.operation(missing.lost);
        keys.entry((case.lock(lost), lost.key))
            .and_modify(|(count, _)| *count += 1)
            .or_insert((1, missing));
    }
    keys.into_iter()
        .map(|((lock, key), (count, first))| describe(case, shown, count, first).on(lock, key))
        .collect()
}

/// The proof that a write is missing, told.
pub(crate) fn describe(case: &Case<'_>, shown: &Shown<'_>, count: u64, missing: Missing) -> Draft {
    let Missing { read, lost, older } = missing;
    let mut witness = vec![lost, read];
    // The first answer that shows the write may be a read's, where its own came later or never.
    let own = case.operation(lost).outcome == Outcome::Ok
        && case.operation(lost).precedes(case.operation(read));
    witness.extend((!own).then(|| shown.by(lost)));
    if let Some(older) = older {
        let own = case.operation(older).outcome == Outcome::Ok
            && case.operation(older).precedes(case.operation(lost));
        witness.push(older);
        witness.extend((!own).then(|| shown.by(older)));
    }
    let mut scenes = story::happened(case, &mut witness);
    let (write, reader) = (case.operation(lost), case.operation(read));
    scenes.extend(story::resource_faults(
        case.history,
        write.invoked,
        reader.completed.unwrap_or(reader.invoked),
    ));
    let value = story::value_text(case.history.value(write).as_ref());
    let instead = if older.is_some() {
        "what it found is older"
    } else {
        "it found nothing"
    };
    let mut ending = format!(
        "That is wrong: {value} was in before {} asked, and {instead}. An acknowledged write must not be lost.",
        case.text(reader.client)
    );
    if count > 1 {
        ending += &format!("\n{count} reads of this key missed an acknowledged write in all.");
    }
    let story = story::tell(case.history, scenes, &ending);
    Draft::new(LOST_ACKED_WRITE, count, witness, story)
}
