//! A place in a line of the common shape, and what can be read from there without a general parser.
//!
//! Promises: nothing is guessed. Whatever is not exactly of the shape gives `None`, and the general parser takes the line.

use super::shape::{Asked, Spelt, field};
use super::texts::TextHasher;
use super::words::{Word, Words};
use super::{Function, Token, Type};

/// A place in the bytes, which are UTF-8.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    #[inline]
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    pub fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    #[inline]
    pub fn skip(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    /// One space, as some writers put after a colon or a comma.
    #[inline]
    pub fn space(&mut self) {
        self.at += usize::from(self.peek() == Some(b' '));
    }

    /// Goes past `text` if it stands here.
    #[inline]
    pub fn past<const N: usize>(&mut self, text: &[u8; N]) -> bool {
        let found = self.rest().first_chunk() == Some(text);
        self.at += if found { N } else { 0 };
        found
    }

    /// The field whose name stands here, with the colon after it.
    #[inline]
    pub fn field(&mut self) -> Option<u32> {
        let found = self.near_field().or_else(|| self.far_field())?;
        self.space();
        Some(found)
    }

    /// The same, where it is written without spaces, as most writers do.
    #[inline]
    fn near_field(&mut self) -> Option<u32> {
        let rest = self.rest();
        let letter = |place: usize| rest.get(place).copied().unwrap_or_default();
        let (found, field) = match letter(1) {
            b'i' if letter(2) == b'n' => (self.past(b"\"index\":"), field::INDEX),
            b'i' => (self.past(b"\"identity\":"), field::IDENTITY),
            b't' => match letter(3) {
                b'm' => (self.past(b"\"time\":"), field::TIME),
                b'p' => (self.past(b"\"type\":"), field::TYPE),
                b'k' => (self.past(b"\"token\":"), field::TOKEN),
                _ => (self.past(b"\"ttl\":"), field::TTL),
            },
            b'p' if letter(2) == b'r' => (self.past(b"\"process\":"), field::PROCESS),
            b'p' => (self.past(b"\"path\":"), field::PATH),
            b'c' => (self.past(b"\"client\":"), field::CLIENT),
            b'f' => (self.past(b"\"f\":"), field::F),
            b'l' => (self.past(b"\"lock\":"), field::LOCK),
            b'k' => (self.past(b"\"key\":"), field::KEY),
            b'v' => (self.past(b"\"value\":"), field::VALUE),
            b'h' => (self.past(b"\"high_water\":"), field::HIGH_WATER),
            b'e' => (self.past(b"\"error\":"), field::ERROR),
            b's' => (self.past(b"\"session\":"), field::SESSION),
            _ => return None,
        };
        found.then_some(field)
    }

    fn far_field(&mut self) -> Option<u32> {
        self.space();
        let name = self.string()?;
        self.space();
        self.skip(b':')?;
        Some(match name {
            b"index" => field::INDEX,
            b"time" => field::TIME,
            b"process" => field::PROCESS,
            b"type" => field::TYPE,
            b"f" => field::F,
            b"client" => field::CLIENT,
            b"lock" => field::LOCK,
            b"key" => field::KEY,
            b"token" => field::TOKEN,
            b"value" => field::VALUE,
            b"high_water" => field::HIGH_WATER,
            b"error" => field::ERROR,
            b"ttl" => field::TTL,
            b"path" => field::PATH,
            b"identity" => field::IDENTITY,
            b"session" => field::SESSION,
            _ => return None,
        })
    }

    /// What a line is: an invocation or a completion.
    #[inline]
    pub fn kind(&mut self) -> Option<Type> {
        if self.past(b"\"invoke\"") {
            Some(Type::Invoke)
        } else if self.past(b"\"ok\"") {
            Some(Type::Ok)
        } else if self.past(b"\"fail\"") {
            Some(Type::Fail)
        } else {
            self.past(b"\"info\"").then_some(Type::Info)
        }
    }

    /// What an event asks for.
    #[inline]
    pub fn asked(&mut self, words: &mut Words) -> Option<Asked> {
        if self.past(b"\"write\"") {
            return Some(Asked::Known(Function::Write));
        }
        if self.past(b"\"read\"") {
            return Some(Asked::Known(Function::Read));
        }
        if self.past(b"\"acquire\"") {
            return Some(Asked::Known(Function::Acquire));
        }
        if self.past(b"\"release\"") {
            return Some(Asked::Known(Function::Release));
        }
        let start = self.at + 1;
        let name = std::str::from_utf8(self.string()?).ok()?;
        Some(match Function::known(name) {
            Some(function) => Asked::Known(function),
            None => Asked::Other(words.of(self.bytes, start, start + name.len())),
        })
    }

    /// A text without escapes.
    #[inline]
    fn string(&mut self) -> Option<&'a [u8]> {
        self.skip(b'"')?;
        let start = self.at;
        let end = plain_end(self.bytes, start)?;
        self.at = end + 1;
        Some(&self.bytes[start..end])
    }

    #[inline]
    pub fn null(&mut self) -> bool {
        self.past(b"null")
    }

    #[inline]
    pub fn word(&mut self, words: &mut Words) -> Option<Option<Word>> {
        if self.peek() != Some(b'"') {
            return self.null().then_some(None);
        }
        if let Some((text, length)) = self.short_text() {
            self.at += length + 2;
            let start = self.at - 1 - length;
            return Some(Some(words.of_short(text, self.bytes, start, length)));
        }
        let start = self.at + 1;
        let length = self.string()?.len();
        Some(Some(words.of(self.bytes, start, start + length)))
    }

    /// A text of one to seven bytes without escapes, as a number, behind the quotation mark that stands here.
    #[inline]
    fn short_text(&self) -> Option<(u64, usize)> {
        let chunk = self.bytes.get(self.at + 1..)?.first_chunk()?;
        let word = u64::from_le_bytes(*chunk);
        let stop = stops(word);
        let length = stop.trailing_zeros() as usize / 8;
        if stop == 0 || length == 0 || (word >> (8 * length)) as u8 != b'"' {
            return None;
        }
        Some((word & (u64::MAX >> (64 - 8 * length)), length))
    }

    /// A whole number of at most 18 digits; the general parser reads longer ones.
    #[inline]
    pub fn natural(&mut self) -> Option<u64> {
        let start = self.at;
        let mut number = 0_u64;
        loop {
            let Some(&chunk) = self.rest().first_chunk() else {
                number = self.last_digits(start, number)?;
                break;
            };
            let (value, digits) = leading_number(chunk);
            self.at += digits;
            if self.at - start > 18 {
                return None;
            }
            number = number * TENS[digits] + value;
            if digits < 8 {
                break;
            }
        }
        let digits = self.at - start;
        let leading_zero = digits > 1 && self.bytes[start] == b'0';
        let ends = !matches!(self.peek(), Some(b'.' | b'e' | b'E'));
        (digits > 0 && !leading_zero && ends).then_some(number)
    }

    /// The rest of a number, so near to the end that there is room for less than eight digits.
    #[cold]
    fn last_digits(&mut self, start: usize, mut number: u64) -> Option<u64> {
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            self.at += 1;
            if self.at - start > 18 {
                return None;
            }
            number = number * 10 + u64::from(digit - b'0');
        }
        Some(number)
    }

    #[inline]
    pub fn token(&mut self) -> Option<Option<Token>> {
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
    pub fn value(&mut self, values: &TextHasher) -> Option<Spelt> {
        let start = self.at;
        let end = match self.peek()? {
            b'"' => {
                self.string()?;
                self.at - 1
            }
            b'n' if self.null() => start,
            b't' | b'f' => {
                let rest = &self.bytes[start..];
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
            hash: values.hash(&self.bytes[start..end]),
        })
    }
}

const ONES: u64 = u64::MAX / 255;
const HIGHS: u64 = ONES << 7;

/// The powers of ten for as many digits as are read at once.
const TENS: [u64; 9] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
];

/// The number that eight bytes begin with, and how many digits it has; the first byte is the most significant digit.
#[inline]
fn leading_number(chunk: [u8; 8]) -> (u64, usize) {
    // Digits become 0 to 9. Adding 118 gives any other byte, and none of those before the first such, its high bit.
    let word = u64::from_le_bytes(chunk) ^ (ONES * u64::from(b'0'));
    let others = (word.wrapping_add(ONES * 118) | word) & HIGHS;
    let digits = others.trailing_zeros() as usize / 8;
    if digits == 0 {
        return (0, 0);
    }
    // What is shifted in stands before the number, as zeros.
    let mut sum = word << (64 - 8 * digits);
    sum = sum.wrapping_mul(10).wrapping_add(sum >> 8) & 0x00ff_00ff_00ff_00ff;
    sum = sum.wrapping_mul(100).wrapping_add(sum >> 16) & 0x0000_ffff_0000_ffff;
    sum = sum.wrapping_mul(10_000).wrapping_add(sum >> 32) & 0xffff_ffff;
    (sum, digits)
}

/// The high bit of the first byte that is a quotation mark, an escape or a control character; bytes after it may have
/// theirs wrongly.
#[inline]
fn stops(word: u64) -> u64 {
    /// The same of the first byte that is below `limit`.
    fn below(word: u64, limit: u64) -> u64 {
        word.wrapping_sub(ONES * limit) & !word & HIGHS
    }
    let quote = below(word ^ (ONES * u64::from(b'"')), 1);
    let escape = below(word ^ (ONES * u64::from(b'\\')), 1);
    quote | escape | below(word, 0x20)
}

/// Where the text that begins at `at` ends with a quotation mark; `None` if an escape or a control character comes first.
#[inline]
fn plain_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let stop = stops(u64::from_le_bytes(*chunk));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_length_are_read_wherever_they_end() {
        for digits in 1..=18 {
            let number: String = "9072345816308150264".chars().take(digits).collect();
            for after in [
                "",
                ",",
                "}",
                " \n",
                "\u{7f}\u{7f}aaaaaaaa",
                "é,\"time\":12345678",
            ] {
                let text = format!("{number}{after}");
                let mut cursor = Cursor::new(text.as_bytes(), 0);
                assert_eq!(cursor.natural(), number.parse().ok(), "{text}");
                assert_eq!(cursor.at, digits);
            }
        }
        for wrong in [
            "",
            "a",
            "-1",
            "01",
            "1.5",
            "1e3",
            "1E3",
            "1234567890123456789",
            "00",
        ] {
            assert_eq!(Cursor::new(wrong.as_bytes(), 0).natural(), None, "{wrong}");
        }
        let zero = Cursor::new(b"0,", 0).natural();
        assert_eq!(zero, Some(0));
    }
}
