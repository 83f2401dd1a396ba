//! The shape that nearly every line of `history.jsonl` has, read without a general parser and without a copy.
//!
//! Promises: what is read here is what `jsonl.rs` reads from the same bytes; anything out of the ordinary (an escape in
//! a text, a fraction, a field given twice, a field that is not known, a header, a fault, bytes that are not UTF-8) is
//! *not understood* rather than guessed at, and goes to the general parser, which also says what is wrong. Words that
//! come again and again are given numbers here, so that whoever joins events compares no texts.

use std::num::NonZeroU32;

use super::texts::{TextHasher, Texts};
use super::{Function, NO_INDEX, Token, Type};

/// A word of [`Words`], as a number from 1.
pub(super) type Word = NonZeroU32;

/// The words that one reader has met.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    texts: Texts,
}

impl Words {
    #[inline]
    fn of(&mut self, text: &str) -> Word {
        NonZeroU32::MIN.saturating_add(self.texts.intern(text))
    }

    pub fn text(&self, word: Word) -> &str {
        self.texts.text(word.get() - 1)
    }

    pub fn count(&self) -> usize {
        self.texts.len()
    }
}

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

/// Reads the line that begins at `start` of `text`, and says where the next begins; `None`: it is out of the ordinary.
///
/// `text` is shorter than 4 GiB. The line, with its end, is at most `longest` bytes long.
#[inline]
pub(super) fn sketch(
    text: &str,
    start: usize,
    longest: usize,
    words: &mut Words,
    values: &TextHasher,
) -> Option<(Sketch, usize)> {
    let mut cursor = Cursor { text, at: start };
    let sketch = object(&mut cursor, words, values)?;
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
    (cursor.at - start <= longest).then_some((sketch, cursor.at))
}

/// Fields by place, to see one that is given twice.
mod field {
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
fn object(cursor: &mut Cursor<'_>, words: &mut Words, values: &TextHasher) -> Option<Sketch> {
    let mut sketch = Sketch {
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
    let mut seen = 0;
    cursor.skip(b'{')?;
    loop {
        cursor.space();
        let name = cursor.string()?;
        cursor.space();
        cursor.skip(b':')?;
        cursor.space();
        let field = match name.as_bytes() {
            b"index" => {
                sketch.index = cursor.natural()?;
                field::INDEX
            }
            b"time" => {
                sketch.time = cursor.natural()?;
                field::TIME
            }
            b"process" => {
                sketch.process = cursor.natural()?;
                field::PROCESS
            }
            b"type" => {
                sketch.kind = match cursor.string()?.as_bytes() {
                    b"invoke" => Type::Invoke,
                    b"ok" => Type::Ok,
                    b"fail" => Type::Fail,
                    b"info" => Type::Info,
                    _ => return None,
                };
                field::TYPE
            }
            b"f" => {
                let name = cursor.string()?;
                sketch.asked = match Function::known(name) {
                    Some(function) => Asked::Known(function),
                    None => Asked::Other(words.of(name)),
                };
                field::F
            }
            b"client" => {
                sketch.client = cursor.word(words)?;
                field::CLIENT
            }
            b"lock" => {
                sketch.lock = cursor.word(words)?;
                field::LOCK
            }
            b"key" => {
                sketch.key = cursor.word(words)?;
                field::KEY
            }
            b"token" => {
                sketch.token = cursor.token()?;
                field::TOKEN
            }
            b"value" => {
                sketch.value = Some(cursor.value(values)?);
                field::VALUE
            }
            b"high_water" => {
                sketch.high_water = cursor.token()?;
                field::HIGH_WATER
            }
            b"error" => {
                sketch.error = cursor.word(words)?;
                field::ERROR
            }
            b"ttl" => {
                sketch.ttl = if cursor.null() {
                    None
                } else {
                    Some(cursor.natural()?)
                };
                field::TTL
            }
            b"path" => {
                sketch.path = cursor.word(words)?;
                field::PATH
            }
            b"identity" => {
                sketch.identity = cursor.word(words)?;
                field::IDENTITY
            }
            b"session" => {
                sketch.session = cursor.word(words)?;
                field::SESSION
            }
            _ => return None,
        };
        if seen & field != 0 {
            return None;
        }
        seen |= field;
        cursor.space();
        match cursor.next()? {
            b',' => {}
            b'}' => break,
            _ => return None,
        }
    }
    (seen & field::NEEDED == field::NEEDED).then_some(sketch)
}

/// A place in the text.
#[derive(Clone, Copy, Debug)]
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    #[inline]
    fn skip(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    /// One space, as some writers put after a colon or a comma.
    #[inline]
    fn space(&mut self) {
        self.at += usize::from(self.peek() == Some(b' '));
    }

    /// A text without escapes.
    #[inline]
    fn string(&mut self) -> Option<&'a str> {
        self.skip(b'"')?;
        let start = self.at;
        let end = plain_end(self.text.as_bytes(), start)?;
        self.at = end + 1;
        Some(&self.text[start..end])
    }

    #[inline]
    fn null(&mut self) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(b"null");
        self.at += if found { 4 } else { 0 };
        found
    }

    #[inline]
    fn word(&mut self, words: &mut Words) -> Option<Option<Word>> {
        if self.null() {
            return Some(None);
        }
        Some(Some(words.of(self.string()?)))
    }

    /// A whole number of at most 18 digits; the general parser reads longer ones.
    #[inline]
    fn natural(&mut self) -> Option<u64> {
        let start = self.at;
        let mut number = 0_u64;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            if self.at - start == 18 {
                return None;
            }
            number = number * 10 + u64::from(digit - b'0');
            self.at += 1;
        }
        let digits = self.at - start;
        let leading_zero = digits > 1 && self.text.as_bytes()[start] == b'0';
        let ends = !matches!(self.peek(), Some(b'.' | b'e' | b'E'));
        (digits > 0 && !leading_zero && ends).then_some(number)
    }

    #[inline]
    fn token(&mut self) -> Option<Option<Token>> {
        if self.null() {
            return Some(None);
        }
        let negative = self.peek() == Some(b'-');
        self.at += usize::from(negative);
        let number = self.natural()?;
        if !negative {
            return Some(Some(number.into()));
        }
        // Minus zero is a fraction to the general parser.
        let number = i64::try_from(number).ok().filter(|&number| number != 0)?;
        Some(Some((-number).into()))
    }

    #[inline]
    fn value(&mut self, values: &TextHasher) -> Option<Spelt> {
        let start = self.at;
        let end = match self.peek()? {
            b'"' => {
                self.string()?;
                self.at - 1
            }
            b'n' if self.null() => start,
            b't' | b'f' => {
                let rest = &self.text.as_bytes()[start..];
                let length = if rest.starts_with(b"true") {
                    4
                } else if rest.starts_with(b"false") {
                    5
                } else {
                    return None;
                };
                self.at += length;
                self.at
            }
            b'-' | b'0'..=b'9' => {
                self.token()?;
                self.at
            }
            _ => return None,
        };
        Some(Spelt {
            start: u32::try_from(start).ok()?,
            length: u32::try_from(end - start).ok()?,
            hash: values.hash(&self.text.as_bytes()[start..end]),
        })
    }
}

/// Where the text that begins at `at` ends with a quotation mark; `None` if an escape or a control character comes first.
#[inline]
fn plain_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    /// The high bit of the first byte that is below `limit`; bytes after it may have theirs wrongly.
    fn below(word: u64, limit: u64) -> u64 {
        word.wrapping_sub(ONES * limit) & !word & HIGHS
    }
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*chunk);
        let quote = below(word ^ (ONES * u64::from(b'"')), 1);
        let escape = below(word ^ (ONES * u64::from(b'\\')), 1);
        let stop = quote | escape | below(word, 0x20);
        if stop != 0 {
            at += stop.trailing_zeros() as usize / 8;
            return (bytes[at] == b'"').then_some(at);
        }
        at += 8;
    }
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return Some(at),
            b'\\' | 0..0x20 => return None,
            _ => at += 1,
        }
    }
    None
}
