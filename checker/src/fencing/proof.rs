//! What the file proves about high waters, and which writes came after such a proof.
//!
//! A *proof of h* is an operation after whose completion the high water of a scope was surely at least h. A write
//! invoked after it with a lower token is *late*: it had to be refused. Completion order alone proves nothing.
//!
//! ```text
//!   write 6   |-------|                    proves 6 from here on
//!   write 5      |---------------|         overlaps: nothing is proven about it
//!   write 5              |------|          late
//! ```

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::case::Case;
use super::kinds::Kind;
use super::moments::Moment;
use super::width;
use crate::history::{Function, Operation, Outcome, Token};

/// Why the high water was at least `high_water` once `op` had completed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Proof {
    pub high_water: Token,
    pub op: usize,
    pub by: By,
}

/// What kind of proof it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum By {
    /// A write of that token was accepted.
    Write,
    /// A read returned the value of this write of that token.
    Value(usize),
    /// A read or refusal named it.
    Report,
    /// A refusal that named nothing: it is the least higher token that had been presented, first by this write.
    Refusal(usize),
}

impl Proof {
    /// The operations without which it would prove nothing, the proof itself first.
    pub fn witness(self, case: &Case<'_>) -> Vec<usize> {
        let mut witness = vec![self.op];
        match self.by {
            By::Value(write) | By::Refusal(write) => witness.push(write),
            By::Write | By::Report => {}
        }
        if case.operation(self.op).outcome == Outcome::Unknown {
            witness.extend(case.first_read_of(self.op));
        }
        witness
    }

    /// Why the high water was what it was, as a clause in the past.
    pub fn how(self) -> String {
        let high_water = self.high_water;
        match self.by {
            By::Write => format!("a write with token {high_water} had been accepted"),
            By::Value(_) => format!("a value written with token {high_water} had been read"),
            By::Report => format!("the resource itself had told high water {high_water}"),
            By::Refusal(_) => {
                format!("a refusal had shown that token {high_water} or a higher one was in")
            }
        }
    }
}

/// A write that was invoked after a proof of a high water above its token, whatever its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LateWrite {
    pub write: usize,
    pub proof: Proof,
    /// The proof stands on the write's own key and path; else on another key that shares the high water.
    pub own: bool,
}

/// A write, not late on its own key and path, that was invoked after a proof of a higher token elsewhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Behind {
    pub write: usize,
    pub proof: Proof,
    pub elsewhere: Elsewhere,
}

/// Where the higher token was proven.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Elsewhere {
    /// On the same key, which was written by another path.
    Path,
    /// On another key of the lock.
    Key,
}

/// A report of a high water below one that was proven before its operation was invoked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fallen {
    pub report: usize,
    pub proof: Proof,
}

/// Everything that one pass over the proofs shows.
#[derive(Debug, Default)]
pub(crate) struct Proofs {
    /// All late writes, in the order of their invocations.
    pub late: Vec<LateWrite>,
    /// Writes that were behind what was proven elsewhere.
    pub behind: Vec<Behind>,
    /// Reports of less than was proven.
    pub fallen: Vec<Fallen>,
    /// A refusal of a token, and a write of it by the same key and path that was accepted afterwards.
    pub regained: Vec<(usize, usize)>,
    /// Accepted writes without a token, each with the proof, made before it was invoked, of a high water above 0.
    pub unfenced: Vec<(usize, Proof)>,
    /// Reports of a mark that is not a token which was presented, but that token wrapped or rounded: the report, and the
    /// write that presented it.
    pub distorted: Vec<(usize, usize)>,
}

#[derive(Debug, Default)]
struct Mark {
    proven: Option<Proof>,
    /// Each token, with the first write that presented it.
    presented: BTreeMap<Token, usize>,
    last_presented: Option<Token>,
}

/// Proofs where the high water may be another's.
#[derive(Debug)]
struct Table(Vec<Option<Proof>>);

impl Table {
    fn new(places: usize) -> Self {
        Self(vec![None; places])
    }

    fn above(&self, place: usize, token: Token) -> Option<Proof> {
        self.0[place].filter(|proof| proof.high_water > token)
    }

    fn raise(&mut self, place: usize, proof: Proof) {
        raise(&mut self.0[place], proof);
    }
}

/// What one pass over all invocations and returns finds, and what it has to remember on the way.
#[derive(Debug)]
pub(crate) struct ProofSweep {
    marks: Vec<Mark>,
    own: Table,
    by_key: Table,
    by_lock: Table,
    /// Proofs only rise, so where a scope's stood at an operation's invocation is enough.
    known: Vec<Option<Proof>>,
    known_of_scope: Vec<u32>,
    when_sent: Vec<u32>,
    refused: HashMap<(u32, Token), usize>,
    pub found: Proofs,
}

impl ProofSweep {
    /// The operations that it asks for.
    pub const ASKS_FOR: Kind = Kind::WRITE.or(Kind::READ);

    pub fn new(case: &Case<'_>) -> Self {
        let names = case.history.names.count();
        let mut marks: Vec<Mark> = Vec::new();
        marks.resize_with(case.scopes, Mark::default);
        Self {
            marks,
            own: Table::new(case.objects),
            by_key: Table::new(names + 1),
            by_lock: Table::new(names),
            known: vec![None],
            known_of_scope: vec![0; case.scopes],
            when_sent: vec![0; case.history.operations.len()],
            refused: HashMap::new(),
            found: Proofs::default(),
        }
    }

    /// Takes the next moment. O(log n).
    #[inline]
    pub fn step(&mut self, case: &Case<'_>, moment: Moment) {
        let op = moment.op;
        let writes = case.kinds[op].is(Kind::WRITE);
        if moment.returns {
            self.answer(case, op);
        } else if writes {
            self.write(case, op);
        } else {
            self.when_sent[op] = self.known_of_scope[case.spots[op].scope as usize];
        }
    }

    #[inline]
    fn answer(&mut self, case: &Case<'_>, op: usize) {
        let Self { marks, found, .. } = self;
        let operation = case.operation(op);
        let spot = case.spots[op];
        let (scope, object) = (spot.scope as usize, spot.object as usize);
        let (key, lock) = (key_place(operation), case.lock_place(op));
        let before = self.known[self.when_sent[op] as usize];
        if let (Some(reported), Some(proof)) = (reported(case, op), before)
            && reported < proof.high_water
        {
            found.fallen.push(Fallen { report: op, proof });
        }
        if let Some(write) = distorted(case, op, &marks[scope]) {
            found.distorted.push((op, write));
        }
        if case.is_refusal(operation)
            && let Some(token) = operation.token
        {
            self.refused.entry((spot.object, token)).or_insert(op);
        }
        let Some(proof) = proof_of(case, op, &marks[scope]) else {
            return;
        };
        if raise(&mut marks[scope].proven, proof) {
            self.known_of_scope[scope] = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
            self.known.push(Some(proof));
        }
        self.own.raise(object, proof);
        self.by_key.raise(key, proof);
        if let Some(lock) = lock {
            self.by_lock.raise(lock, proof);
        }
    }

    #[inline]
    fn write(&mut self, case: &Case<'_>, op: usize) {
        let Self { marks, found, .. } = self;
        let operation = case.operation(op);
        let spot = case.spots[op];
        let (scope, object) = (spot.scope as usize, spot.object as usize);
        let (key, lock) = (key_place(operation), case.lock_place(op));
        self.when_sent[op] = self.known_of_scope[scope];
        let Some(token) = operation.token else {
            let proven = marks[scope].proven;
            if let Some(proof) = proven.filter(|proof| proof.high_water > Token::ZERO)
                && was_taken(case, op)
            {
                found.unfenced.push((op, proof));
            }
            return;
        };
        let own_proof = self.own.above(object, token);
        let shared = marks[scope].proven.filter(|proof| proof.high_water > token);
        if let Some(proof) = own_proof.or(shared) {
            let own = own_proof.is_some();
            let write = op;
            found.late.push(LateWrite { write, proof, own });
        }
        if own_proof.is_none() && case.is_accepted(op) {
            let elsewhere = self
                .by_key
                .above(key, token)
                .map(|proof| (proof, Elsewhere::Path))
                .or_else(|| Some((self.by_lock.above(lock?, token)?, Elsewhere::Key)));
            if let Some((proof, elsewhere)) = elsewhere {
                let write = op;
                found.behind.push(Behind {
                    write,
                    proof,
                    elsewhere,
                });
            }
        }
        if !self.refused.is_empty()
            && let Some(&refusal) = self.refused.get(&(spot.object, token))
            && case.is_accepted(op)
        {
            found.regained.push((refusal, op));
        }
        let mark = &mut marks[scope];
        // Most writes go on with the token of the one before.
        if mark.last_presented.replace(token) != Some(token) {
            mark.presented.entry(token).or_insert(op);
        }
    }
}

/// Where a key stands in a table by key; none at all has a place too.
fn key_place(operation: &Operation) -> usize {
    operation.key.map_or(0, |key| key.position() + 1)
}

/// A write was answered `ok`, or its value was read.
fn was_taken(case: &Case<'_>, op: usize) -> bool {
    let kind = case.kinds[op];
    kind.is(Kind::OK) || (!kind.is(Kind::FAILED) && case.first_read_of(op).is_some())
}

/// The high water that an answer tells: of a read or write that happened, or of a refusal.
fn reported(case: &Case<'_>, op: usize) -> Option<Token> {
    let operation = case.operation(op);
    let told = operation.outcome == Outcome::Ok || case.is_refusal(operation);
    operation.high_water.filter(|_| told)
}

/// The write whose token this answer's high water is, wrapped or rounded: its own, or the one that proved the mark.
fn distorted(case: &Case<'_>, op: usize, mark: &Mark) -> Option<usize> {
    let reported = reported(case, op)?;
    let operation = case.operation(op);
    let plain = operation.token == Some(reported)
        || mark
            .proven
            .is_some_and(|proof| proof.high_water == reported);
    if plain || mark.presented.contains_key(&reported) {
        return None;
    }
    let of_own =
        (operation.function != Function::Read && operation.outcome == Outcome::Ok).then_some(op);
    let of_proven = mark.proven.and_then(|proof| match proof.by {
        By::Write => Some(proof.op),
        By::Value(write) => Some(write),
        By::Report | By::Refusal(_) => None,
    });
    [of_own, of_proven].into_iter().flatten().find(|&write| {
        let token = case.operation(write).token;
        token.is_some_and(|token| width::distorts(token, reported).is_some())
    })
}

/// Keeps the strongest proof; of equal ones the first, but rather an accepted write, which is the plainest.
fn raise(proven: &mut Option<Proof>, proof: Proof) -> bool {
    let stronger = proven.is_none_or(|known| {
        proof.high_water > known.high_water
            || (proof.high_water == known.high_water
                && proof.by == By::Write
                && known.by != By::Write)
    });
    if stronger {
        *proven = Some(proof);
    }
    stronger
}

/// One pass for this alone. O(n log n).
#[cfg(test)]
pub(crate) fn proofs(case: &Case<'_>) -> Proofs {
    let mut sweep = ProofSweep::new(case);
    for moment in case.walk(ProofSweep::ASKS_FOR) {
        sweep.step(case, moment);
    }
    sweep.found
}

/// All late writes, in the order of their invocations. O(n log n).
#[cfg(test)]
pub(crate) fn late_writes(case: &Case<'_>) -> Vec<LateWrite> {
    proofs(case).late
}

fn proof_of(case: &Case<'_>, op: usize, mark: &Mark) -> Option<Proof> {
    let operation = case.operation(op);
    let proof = |high_water, by| Some(Proof { high_water, op, by });
    if operation.function == Function::Read {
        if operation.outcome != Outcome::Ok {
            return None;
        }
        let seen = case
            .write_seen_by(op)
            .filter(|&write| case.is_accepted(write));
        let by_value = seen.and_then(|write| Some((case.operation(write).token?, write)));
        return match (operation.high_water, by_value) {
            (Some(reported), Some((token, write))) if token > reported => {
                proof(token, By::Value(write))
            }
            (Some(reported), _) => proof(reported, By::Report),
            (None, Some((token, write))) => proof(token, By::Value(write)),
            (None, None) => None,
        };
    }
    let token = operation.token?;
    if case.is_refusal(operation) {
        return match operation.high_water {
            Some(reported) => proof(reported, By::Report),
            // The mark of a key that was never written is reason enough.
            None if token < Token::from(0_u64) => None,
            None => {
                let above = (std::ops::Bound::Excluded(token), std::ops::Bound::Unbounded);
                let (&least, &presented) = mark.presented.range(above).next()?;
                proof(least, By::Refusal(presented))
            }
        };
    }
    if operation.outcome == Outcome::Ok {
        proof(token, By::Write)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn late(scenario: &Scenario) -> Vec<(usize, i128, By)> {
        let history = scenario.history();
        let case = Case::new(&history);
        late_writes(&case)
            .iter()
            .map(|late| (late.write, late.proof.high_water.value(), late.proof.by))
            .collect()
    }

    #[test]
    fn an_accepted_write_proves_its_token_for_writes_invoked_after_it_only() {
        let mut s = Scenario::new();
        let overlapping = s.write_call("c1", "L", "k", 5, "a");
        s.write("c2", "L", "k", 6, "b");
        s.ok(overlapping);
        assert_eq!(late(&s), []);
        s.write("c1", "L", "k", 5, "c");
        assert_eq!(late(&s), [(2, 6, By::Write)]);
    }

    #[test]
    fn a_read_of_a_value_proves_the_token_of_its_write() {
        let mut s = Scenario::new();
        let lost = s.write_call("c2", "L", "k", 6, "b");
        s.info(lost);
        s.write("c1", "L", "k", 5, "a");
        assert_eq!(late(&s), []);
        s.read("c3", "k", Some("b"), None);
        s.write("c1", "L", "k", 5, "c");
        assert_eq!(late(&s), [(3, 6, By::Value(0))]);
    }

    #[test]
    fn a_value_written_twice_proves_nothing() {
        let mut s = Scenario::new();
        let lost = s.write_call("c2", "L", "k", 6, "b");
        s.info(lost);
        s.write("c1", "L", "k", 5, "b");
        s.read("c3", "k", Some("b"), None);
        s.write("c1", "L", "k", 5, "c");
        assert_eq!(late(&s), []);
    }

    #[test]
    fn a_refusal_that_names_nothing_proves_the_least_higher_token_presented() {
        let mut s = Scenario::new();
        let first = s.write_call("c7", "L", "k", 7, "a");
        s.info(first);
        let second = s.write_call("c9", "L", "k", 9, "b");
        s.info(second);
        s.refused("c5", "L", "k", 5, "c", None);
        s.write("c6", "L", "k", 6, "d");
        s.write("c7", "L", "k", 7, "e");
        assert_eq!(late(&s), [(3, 7, By::Refusal(0))]);
    }

    #[test]
    fn the_mark_of_one_key_says_nothing_of_another_unless_the_lock_keeps_it() {
        let mut s = Scenario::new();
        s.write("c2", "L", "k1", 6, "a");
        s.write("c1", "L", "k2", 5, "b");
        assert_eq!(late(&s), []);
        s.mark_by_lock();
        assert_eq!(late(&s), [(1, 6, By::Write)]);
    }
}
