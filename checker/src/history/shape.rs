//! The shape that nearly every line of `history.jsonl` has, read without a general parser and without a copy.
//!
//! Promises: what is read here is what `jsonl.rs` reads from the same bytes; anything out of the ordinary (an escape in
//! a text, a fraction, a field given twice, a field that is not known, a header, a fault, bytes that are not UTF-8) is
//! *not understood* rather than guessed at, and goes to the general parser, which also says what is wrong.

use super::cursor::Cursor;
use super::texts::TextHasher;
use super::words::{Word, Words};
use super::{Function, NO_INDEX, Token, Type};

/// What an event asks for: one of the known functions, or a word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Asked {
    Known(Function),
    Other(Word),
}

/// Where a value stands in the bytes, without the quotation mark after a text; of no length for null.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spelt {
    pub start: u32,
    pub length: u32,
    pub hash: u64,
}

/// An event as it stands in the bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sketch {
    pub kind: Type,
    pub asked: Asked,
    pub index: u64,
    pub time: u64,
    pub process: u64,
    pub client: Option<Word>,
    pub lock: Option<Word>,
    pub key: Option<Word>,
    pub path: Option<Word>,
    pub error: Option<Word>,
    pub identity: Option<Word>,
    pub session: Option<Word>,
    pub token: Option<Token>,
    pub high_water: Option<Token>,
    pub ttl: Option<u64>,
    pub value: Option<Spelt>,
}

impl Sketch {
    /// Nothing is known yet.
    pub const NOTHING: Self = Self {
        kind: Type::Invoke,
        asked: Asked::Known(Function::Read),
        index: NO_INDEX,
        time: 0,
        process: 0,
        client: None,
        lock: None,
        key: None,
        path: None,
        error: None,
        identity: None,
        session: None,
        token: None,
        high_water: None,
        ttl: None,
        value: None,
    };
}

/// Reads the line that begins at `start` of `bytes` into `sketch`, of which nothing is known yet, and says where the next
/// begins; `None`: it is out of the ordinary.
///
/// `bytes` are UTF-8, and fewer than 4 GiB. The line, with its end, is at most `longest` bytes long.
#[inline]
pub(super) fn sketch(
    bytes: &[u8],
    start: usize,
    longest: usize,
    words: &mut Words,
    values: &TextHasher,
    sketch: &mut Sketch,
) -> Option<usize> {
    let mut cursor = Cursor::new(bytes, start);
    object(&mut cursor, words, values, sketch)?;
    // Spaces and a carriage return may stand after it.
    loop {
        match cursor.peek() {
            Some(b' ' | b'\r' | b'\t') => cursor.at += 1,
            Some(b'\n') => {
                cursor.at += 1;
                break;
            }
            Some(_) => return None,
            None => break,
        }
    }
    (cursor.at - start <= longest).then_some(cursor.at)
}

/// Fields by place, to see one that is given twice.
pub(super) mod field {
    pub const INDEX: u32 = 1;
    pub const TIME: u32 = 1 << 1;
    pub const PROCESS: u32 = 1 << 2;
    pub const TYPE: u32 = 1 << 3;
    pub const F: u32 = 1 << 4;
    pub const NEEDED: u32 = TIME | PROCESS | TYPE | F;
    pub const CLIENT: u32 = 1 << 5;
    pub const LOCK: u32 = 1 << 6;
    pub const KEY: u32 = 1 << 7;
    pub const TOKEN: u32 = 1 << 8;
    pub const VALUE: u32 = 1 << 9;
    pub const HIGH_WATER: u32 = 1 << 10;
    pub const ERROR: u32 = 1 << 11;
    pub const TTL: u32 = 1 << 12;
    pub const PATH: u32 = 1 << 13;
    pub const IDENTITY: u32 = 1 << 14;
    pub const SESSION: u32 = 1 << 15;
}

#[inline]
fn object(
    cursor: &mut Cursor<'_>,
    words: &mut Words,
    values: &TextHasher,
    sketch: &mut Sketch,
) -> Option<()> {
    let mut seen = in_order(cursor, sketch, words, values)?;
    loop {
        cursor.space();
        match cursor.next()? {
            b'{' if seen == 0 => {}
            b',' if seen != 0 => {}
            b'}' if seen != 0 => break,
            _ => return None,
        }
        let field = cursor.field()?;
        match field {
            field::INDEX => sketch.index = cursor.natural()?,
            field::TIME => sketch.time = cursor.natural()?,
            field::PROCESS => sketch.process = cursor.natural()?,
            field::TYPE => sketch.kind = cursor.kind()?,
            field::F => sketch.asked = cursor.asked(words)?,
            field::CLIENT => sketch.client = cursor.word(words)?,
            field::LOCK => sketch.lock = cursor.word(words)?,
            field::KEY => sketch.key = cursor.word(words)?,
            field::TOKEN => sketch.token = cursor.token()?,
            field::VALUE => sketch.value = Some(cursor.value(values)?),
            field::HIGH_WATER => sketch.high_water = cursor.token()?,
            field::ERROR => sketch.error = cursor.word(words)?,
            field::TTL if cursor.null() => sketch.ttl = None,
            field::TTL => sketch.ttl = Some(cursor.natural()?),
            field::PATH => sketch.path = cursor.word(words)?,
            field::IDENTITY => sketch.identity = cursor.word(words)?,
            _ => sketch.session = cursor.word(words)?,
        }
        if seen & field != 0 {
            return None;
        }
        seen |= field;
    }
    (seen & field::NEEDED == field::NEEDED).then_some(())
}

/// The fields that stand where this project's own writer puts them, each compared as a whole with what comes before it.
/// Says which they are; whatever else there is stands behind them.
#[inline]
fn in_order(
    cursor: &mut Cursor<'_>,
    sketch: &mut Sketch,
    words: &mut Words,
    values: &TextHasher,
) -> Option<u32> {
    if !cursor.past(b"{\"index\":") {
        return Some(0);
    }
    // Whoever puts a space after a colon puts one after a comma too, and has no other field here.
    cursor.space();
    sketch.index = cursor.natural()?;
    let mut seen = field::INDEX;
    if cursor.past(b",\"time\":") {
        sketch.time = cursor.natural()?;
        seen |= field::TIME;
    }
    if cursor.past(b",\"process\":") {
        sketch.process = cursor.natural()?;
        seen |= field::PROCESS;
    }
    if cursor.past(b",\"client\":") {
        sketch.client = cursor.word(words)?;
        seen |= field::CLIENT;
    }
    if cursor.past(b",\"type\":") {
        sketch.kind = cursor.kind()?;
        seen |= field::TYPE;
    }
    if cursor.past(b",\"f\":") {
        sketch.asked = cursor.asked(words)?;
        seen |= field::F;
    }
    if cursor.past(b",\"lock\":") {
        sketch.lock = cursor.word(words)?;
        seen |= field::LOCK;
    }
    if cursor.past(b",\"key\":") {
        sketch.key = cursor.word(words)?;
        seen |= field::KEY;
    }
    if cursor.past(b",\"token\":") {
        sketch.token = cursor.token()?;
        seen |= field::TOKEN;
    }
    if cursor.past(b",\"value\":") {
        sketch.value = Some(cursor.value(values)?);
        seen |= field::VALUE;
    }
    if cursor.past(b",\"high_water\":") {
        sketch.high_water = cursor.token()?;
        seen |= field::HIGH_WATER;
    }
    Some(seen)
}
