//! What reads show of writes: one walk for `non-atomic-check` and `lost-acked-write`.
//!
//! Both hold a read against what was surely done, on its key and path, when it was sent: the write with the highest
//! token, and the one that was sent last. What is wrong with a pair their own files say.

use super::case::Case;
use super::kinds::Kind;
use super::lost_write::{self, Missing};
use super::moments::Moment;
use super::non_atomic::{self, Slipped};
use super::shown::Shown;
use crate::history::Token;

/// No operation.
const NONE: u32 = u32::MAX;

/// What reads show.
#[derive(Debug)]
pub(crate) struct Reads<'a> {
    pub shown: Shown<'a>,
    /// Reads that show a lower write on top of a higher one.
    pub slipped: Vec<Slipped>,
    /// Reads that miss a write.
    pub missing: Vec<Missing>,
}

/// A key and path.
#[derive(Clone, Copy, Debug)]
struct Object {
    /// Of the writes that are surely done the one with the highest token.
    highest: u32,
    token: Option<Token>,
    /// Of those the one that was sent last.
    last: u32,
    /// It may hold a value that the file does not spell out.
    unknown: bool,
}

impl Object {
    fn note(&mut self, write: usize, token: Option<Token>) {
        let write = u32::try_from(write).unwrap_or(NONE);
        if token.is_some() && (self.highest == NONE || self.token < token) {
            self.highest = write;
            self.token = token;
        }
        // Operations are in the order of their invocations.
        if self.last == NONE || self.last < write {
            self.last = write;
        }
    }
}

/// What one pass over all invocations and returns finds, and what it has to remember on the way.
#[derive(Debug)]
pub(crate) struct ReadSweep<'a> {
    objects: Vec<Object>,
    /// For each read the highest and the last write when it was sent.
    when_sent: Vec<[u32; 2]>,
    pub found: Reads<'a>,
}

impl<'a> ReadSweep<'a> {
    /// The operations that it asks for.
    pub const ASKS_FOR: Kind = Kind::READ.or(Kind::WRITE).or(Kind::UNSPELT);

    pub fn new(case: &Case<'a>) -> Self {
        let nothing = Object {
            highest: NONE,
            token: None,
            last: NONE,
            unknown: false,
        };
        Self {
            objects: vec![nothing; case.objects],
            when_sent: vec![[NONE; 2]; case.history.operations.len()],
            found: Reads {
                shown: Shown::nothing(case),
                slipped: Vec::new(),
                missing: Vec::new(),
            },
        }
    }

    /// Takes the next moment. O(1).
    #[inline]
    pub fn step(&mut self, case: &Case<'a>, moment: Moment) {
        let op = moment.op;
        let kind = case.kinds[op];
        let object = case.spots[op].object as usize;
        if moment.returns {
            if kind.is(Kind::OK) {
                self.answer(case, op, object);
            }
        } else if kind.is(Kind::READ) {
            self.when_sent[op] = [self.objects[object].highest, self.objects[object].last];
        } else if kind.is(Kind::UNSPELT) {
            self.objects[object].unknown = true;
        }
    }

    #[inline]
    fn answer(&mut self, case: &Case<'a>, op: usize, object: usize) {
        let Self { objects, found, .. } = self;
        let kind = case.kinds[op];
        if kind.is(Kind::PLAIN.or(Kind::APPEND)) {
            let first = found.shown.show(op, op);
            if first && kind.is(Kind::PLAIN) {
                objects[object].note(op, case.operation(op).token);
            }
        }
        if !kind.is(Kind::READ) {
            return;
        }
        let seen = case.write_seen_by(op);
        if let Some(write) = seen
            && found.shown.show(write, op)
        {
            objects[case.spots[write].object as usize].note(write, case.operation(write).token);
        }
        if objects[object].unknown {
            return;
        }
        let [higher, lost] = self.when_sent[op];
        // Nearly every read finds the highest, which was done last.
        if let Some(lower) = seen.filter(|&lower| higher != NONE && lower != higher as usize) {
            let higher = higher as usize;
            if non_atomic::slips(case, &found.shown, lower, higher, object) {
                let read = op;
                found.slipped.push(Slipped {
                    read,
                    lower,
                    higher,
                });
            }
        }
        if lost != NONE && seen != Some(lost as usize) {
            let lost = lost as usize;
            let missing = lost_write::misses(case, &found.shown, op, seen, lost, object);
            found.missing.extend(missing);
        }
    }
}
