//! Some whole lines of a file, read away from where they are joined: by another thread, or by the same one.
//!
//! Promises: the entries of a chunk stand in the order of its lines, and the first line that is not understood is the
//! last entry. Numbers of lines count from the chunk's first.

use std::ops::Deref;

use super::jsonl::{self, MAX_LINE};
use super::pairing::Told;
use super::shape::{self, Asked, Sketch};
use super::texts::TextHasher;
use super::words::{Word, Words};
use super::{Datum, Function, History, HistoryError, Line, Name, Pairing};

/// One line.
#[derive(Debug)]
enum Entry {
    /// An event of the common shape, where it stands in the bytes.
    Event(u32, Sketch),
    /// Any other line.
    Line(u32, Line),
    /// The last line, dropped because a crash cut it short.
    CutShort(u32),
    /// What is wrong with the line.
    Malformed(HistoryError),
}

/// Room for the entries of a chunk: who joins one hands its room on to who reads another, and memory stays warm.
#[derive(Debug, Default)]
pub(super) struct Room(Vec<Entry>);

/// Lines that have been read and not been joined.
#[derive(Debug)]
pub(super) struct Chunk<B> {
    bytes: B,
    entries: Vec<Entry>,
    lines: usize,
    /// Which reader read it, and the words that it met for the first time.
    reader: usize,
    new_words: Vec<Box<str>>,
}

/// Reads chunks, and remembers the words that it has met.
#[derive(Debug)]
pub(super) struct ChunkReader {
    number: usize,
    words: Words,
    told: usize,
    values: TextHasher,
    /// Entries of the last chunk: so many will be in the next.
    expected: usize,
}

impl ChunkReader {
    /// The reader with this number, from 0. `values` is how the history that it reads for hashes values.
    pub fn new(number: usize, values: TextHasher) -> Self {
        Self {
            number,
            words: Words::default(),
            told: 0,
            values,
            expected: 0,
        }
    }

    /// Reads whole lines, at most 4 GiB of them; where `last`, nothing comes after them.
    pub fn read<B: Deref<Target = [u8]>>(
        &mut self,
        bytes: B,
        last: bool,
        Room(mut entries): Room,
    ) -> Chunk<B> {
        entries.clear();
        entries.reserve(self.expected);
        let lines = self.read_lines(&bytes, last, &mut entries);
        self.expected = entries.len() + entries.len() / 8;
        let word = |number: usize| {
            let number = u32::try_from(number + 1).ok().and_then(Word::new);
            number.map(|word| self.words.text(word).into())
        };
        let new_words = (self.told..self.words.count()).filter_map(word).collect();
        self.told = self.words.count();
        Chunk {
            bytes,
            entries,
            lines,
            reader: self.number,
            new_words,
        }
    }

    fn read_lines(&mut self, bytes: &[u8], last: bool, entries: &mut Vec<Entry>) -> usize {
        // Where a part is no text the general parser says so, of the line that it is in.
        let is_text = bytes.is_ascii() || std::str::from_utf8(bytes).is_ok();
        let mut at = 0;
        let mut number = 0;
        while at < bytes.len() {
            number += 1;
            let place = u32::try_from(number).unwrap_or(u32::MAX);
            if is_text {
                // It is written where it will lie: a copy of what was just written in pieces would have to wait for it.
                entries.push(Entry::Event(place, Sketch::NOTHING));
                if let Some(Entry::Event(_, sketch)) = entries.last_mut() {
                    let (words, values) = (&mut self.words, &self.values);
                    if let Some(next) = shape::sketch(bytes, at, MAX_LINE, words, values, sketch) {
                        at = next;
                        continue;
                    }
                }
                entries.pop();
            }
            let end = memchr::memchr(b'\n', &bytes[at..]).map(|end| at + end);
            let line = &bytes[at..end.unwrap_or(bytes.len())];
            at = end.map_or(bytes.len(), |end| end + 1);
            let unfinished = last && end.is_none();
            match jsonl::read_any(line, number, unfinished) {
                Ok(None) => {}
                Ok(Some(jsonl::Any::Line(line))) => entries.push(Entry::Line(place, line)),
                Ok(Some(jsonl::Any::CutShort)) => entries.push(Entry::CutShort(place)),
                Err(error) => {
                    entries.push(Entry::Malformed(error));
                    break;
                }
            }
        }
        number
    }
}

/// Joins chunks, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Joiner {
    pairing: Pairing,
    placing: jsonl::Placing,
    /// Lines of the chunks before.
    lines: usize,
    warnings: Vec<String>,
    /// For each reader its words, and what they are in the history once they have been needed.
    words: Vec<Vec<(Box<str>, Option<Name>)>>,
}

impl Joiner {
    pub fn values(&mut self) -> TextHasher {
        self.pairing.history_mut().values.hasher().clone()
    }

    /// Takes the next chunk; gives back its bytes and its room.
    pub fn take<B: Deref<Target = [u8]>>(
        &mut self,
        mut chunk: Chunk<B>,
    ) -> Result<(B, Room), HistoryError> {
        if self.words.len() <= chunk.reader {
            self.words.resize_with(chunk.reader + 1, Vec::new);
        }
        let words = &mut self.words[chunk.reader];
        words.extend(chunk.new_words.into_iter().map(|word| (word, None)));
        for entry in chunk.entries.drain(..) {
            match entry {
                Entry::Event(place, sketch) => {
                    let number = self.lines + place as usize;
                    self.placing.check(number, sketch.index)?;
                    let history = self.pairing.history_mut();
                    let told = understand(history, words, &sketch, &chunk.bytes);
                    self.pairing
                        .event(number, sketch.index, sketch.time, told)?;
                }
                Entry::Line(place, line) => {
                    let number = self.lines + place as usize;
                    if let Some(index) = jsonl::position(&line) {
                        self.placing.check(number, index)?;
                    }
                    self.pairing.push(number, line)?;
                }
                Entry::CutShort(place) => {
                    let number = self.lines + place as usize;
                    self.warnings
                        .push(format!("line {number} was cut short and is dropped"));
                }
                Entry::Malformed(error) => return Err(self.place(error)),
            }
        }
        self.lines += chunk.lines;
        Ok((chunk.bytes, Room(chunk.entries)))
    }

    /// An error whose line is counted from what has been taken, as one of the file.
    pub fn place(&self, error: HistoryError) -> HistoryError {
        HistoryError {
            line: error.line + self.lines,
            ..error
        }
    }

    pub fn finish(self) -> History {
        let mut history = self.pairing.finish();
        history.warnings.splice(0..0, self.warnings);
        history
    }
}

/// Turns a reader's words into names of the history.
#[inline]
fn understand(
    history: &mut History,
    words: &mut [(Box<str>, Option<Name>)],
    sketch: &Sketch,
    bytes: &[u8],
) -> Told {
    let History { names, values, .. } = history;
    let mut name = |word: Word| {
        let (text, name) = &mut words[word.get() as usize - 1];
        *name.get_or_insert_with(|| names.intern(text))
    };
    let function = match sketch.asked {
        Asked::Known(function) => function,
        Asked::Other(word) => Function::Other(name(word)),
    };
    let value = sketch.value.filter(|_| function.has_value(sketch.kind));
    Told {
        kind: sketch.kind,
        process: sketch.process,
        function,
        lock: sketch.lock.map(&mut name),
        key: sketch.key.map(&mut name),
        path: sketch.path.map(&mut name),
        error: sketch.error.map(&mut name),
        identity: sketch.identity.map(&mut name),
        session: sketch.session.map(&mut name),
        client: sketch.client.map(&mut name),
        token: sketch.token,
        value: value.map(|spelt| {
            let (start, length) = (spelt.start as usize, spelt.length as usize);
            if length == 0 {
                return Datum::NULL;
            }
            values.intern_spelt(&bytes[start..start + length], spelt.hash)
        }),
        high_water: sketch.high_water,
        ttl: sketch.ttl,
    }
}
