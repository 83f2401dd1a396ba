//! Blocks of an EDN file in, the maps in it out: one after the other, or all in one list or vector.
//!
//! Promises: what is held is the map that has not ended, and a map longer than [`MAX_LINE`] or deeper than [`DEEPEST`]
//! is an error before its end has been read. Does not read the maps: see `edn.rs`.

use super::HistoryError;
use super::edn::{DEEPEST, is_delimiter, is_space};
use super::jsonl::MAX_LINE;
use super::stream::MARK;

/// Line and column of a byte, both from 1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Place {
    pub line: usize,
    pub column: usize,
}

impl Place {
    /// Where `at` is, counted from a text that begins here.
    pub fn after(self, text: &str, at: usize) -> Self {
        let mut end = at.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &text[..end];
        let lines = before.bytes().filter(|&byte| byte == b'\n').count();
        let last = before.rsplit('\n').next().unwrap_or_default();
        let column = last.chars().count();
        Self {
            line: self.line + lines,
            column: if lines == 0 {
                self.column + column
            } else {
                column + 1
            },
        }
    }

    /// An error here.
    pub fn error(self, field: Option<&str>, message: &str) -> HistoryError {
        let message = format!("{message} (column {})", self.column);
        HistoryError::new(self.line, field, message)
    }
}

/// What the bytes before were in the middle of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Within {
    Nothing,
    Comment,
    Text,
    Escape,
    /// Right after a backslash that begins a character.
    Character,
    /// Right after a # between maps.
    Hash,
    /// The name of a tag before a map.
    Tag,
}

/// Cuts blocks into maps.
#[derive(Clone, Debug)]
pub(super) struct Forms {
    form: Vec<u8>,
    within: Within,
    /// How many brackets of the map are open.
    depth: usize,
    /// The bracket that ends the one list; `None` where maps stand alone.
    list_ends: Option<u8>,
    begun: bool,
    list_ended: bool,
    here: Place,
    start: Place,
    bytes: usize,
}

impl Forms {
    pub fn new() -> Self {
        let here = Place { line: 1, column: 1 };
        Self {
            form: Vec::new(),
            within: Within::Nothing,
            depth: 0,
            list_ends: None,
            begun: false,
            list_ended: false,
            here,
            start: here,
            bytes: 0,
        }
    }

    /// Takes the next bytes; `sink` is given each map that ends in them, and where it began.
    pub fn push(
        &mut self,
        block: &[u8],
        sink: &mut impl FnMut(&[u8], Place) -> Result<(), HistoryError>,
    ) -> Result<(), HistoryError> {
        for &byte in block {
            self.bytes += 1;
            if self.bytes <= MARK.len() && MARK[self.bytes - 1] == byte && self.here.column == 1 {
                continue;
            }
            if self.byte(byte)? {
                sink(&self.form, self.start)?;
                self.form.clear();
            }
            if byte == b'\n' {
                self.here.line += 1;
                self.here.column = 1;
            } else if byte & 0xc0 != 0x80 {
                self.here.column += 1;
            }
        }
        Ok(())
    }

    /// What is missing where the file ends here.
    pub fn unfinished(&self) -> Option<String> {
        if self.depth > 0 {
            let line = self.start.line;
            return Some(format!(
                "the map that begins on line {line} was cut short and is dropped"
            ));
        }
        (self.list_ends.is_some() && !self.list_ended)
            .then(|| "the list was cut short: its end is missing".to_owned())
    }

    /// Whether the map ends with this byte.
    fn byte(&mut self, byte: u8) -> Result<bool, HistoryError> {
        if self.depth > 0 {
            self.form.push(byte);
            if self.form.len() > MAX_LINE {
                let message = format!("a map is longer than {MAX_LINE} bytes");
                return Err(self.start.error(None, &message));
            }
        }
        match self.within {
            Within::Comment => {
                if byte == b'\n' {
                    self.within = Within::Nothing;
                }
                return Ok(false);
            }
            Within::Text => {
                self.within = match byte {
                    b'"' => Within::Nothing,
                    b'\\' => Within::Escape,
                    _ => Within::Text,
                };
                return Ok(false);
            }
            Within::Escape => {
                self.within = Within::Text;
                return Ok(false);
            }
            Within::Character => {
                self.within = Within::Nothing;
                return Ok(false);
            }
            Within::Hash if byte == b'_' || is_delimiter(byte) => {
                let message = "a map must stand here, or a tag and a map";
                return Err(self.here.error(None, message));
            }
            Within::Hash => {
                self.within = Within::Tag;
                return Ok(false);
            }
            Within::Tag if !is_delimiter(byte) => return Ok(false),
            Within::Tag | Within::Nothing => self.within = Within::Nothing,
        }
        if byte == b';' {
            self.within = Within::Comment;
            return Ok(false);
        }
        if self.depth == 0 {
            return self.between(byte).map(|()| false);
        }
        match byte {
            b'"' => self.within = Within::Text,
            b'\\' => self.within = Within::Character,
            b'{' | b'[' | b'(' => {
                self.depth += 1;
                if self.depth > DEEPEST {
                    let message = format!("is nested deeper than {DEEPEST}");
                    return Err(self.here.error(None, &message));
                }
            }
            b'}' | b']' | b')' => {
                self.depth -= 1;
                return Ok(self.depth == 0);
            }
            _ => {}
        }
        Ok(false)
    }

    /// A byte between maps.
    fn between(&mut self, byte: u8) -> Result<(), HistoryError> {
        let ending = self.list_ends.filter(|_| !self.list_ended);
        match byte {
            _ if is_space(byte) => {}
            b'(' | b'[' if !self.begun => {
                self.list_ends = Some(if byte == b'(' { b')' } else { b']' });
                self.begun = true;
            }
            _ if Some(byte) == ending => self.list_ended = true,
            _ if self.list_ended => {
                return Err(self
                    .here
                    .error(None, "something stands after the end of the list"));
            }
            b'#' => self.within = Within::Hash,
            b'{' => {
                self.begun = true;
                self.depth = 1;
                self.start = self.here;
                self.form.push(byte);
            }
            _ => {
                let message = "a map must stand here, such as {:process 0, :type :invoke, :f :read, :value nil}";
                return Err(self.here.error(None, message));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(text: &str, block: usize) -> Result<Vec<(String, usize, usize)>, HistoryError> {
        let mut forms = Forms::new();
        let mut found = Vec::new();
        for block in text.as_bytes().chunks(block) {
            forms.push(block, &mut |form, place| {
                let form = String::from_utf8(form.to_vec()).expect("UTF-8");
                found.push((form, place.line, place.column));
                Ok(())
            })?;
        }
        Ok(found)
    }

    #[test]
    fn maps_are_cut_out_however_the_bytes_come() {
        let text = "\u{feff}; a comment {\n[{:a \"}\\\"\" :b \\}}\n #op{:c [{}] ; }\n}, {}] ; end";
        let expected = [
            ("{:a \"}\\\"\" :b \\}}", 2, 2),
            ("{:c [{}] ; }\n}", 3, 5),
            ("{}", 4, 4),
        ]
        .map(|(form, line, column)| (form.to_owned(), line, column));
        for block in 1..20 {
            assert_eq!(
                forms(text, block).expect("well-formed"),
                expected,
                "{block}"
            );
        }
    }

    #[test]
    fn what_is_no_map_is_an_error_with_its_place() {
        for (text, line, complaint) in [
            ("{}\n  7", 2, "(column 3)"),
            ("[{}]\n[", 2, "after the end of the list"),
            ("{}]", 1, "a map must stand here"),
            ("hello", 1, "(column 1)"),
            ("{} #_{}", 1, "(column 5)"),
        ] {
            let error = forms(text, 3).expect_err("no map");
            assert_eq!(error.line, line, "{error}");
            assert!(error.message.contains(complaint), "{error}");
        }
        let deep = "{".repeat(100);
        assert!(
            forms(&deep, 7)
                .expect_err("deep")
                .message
                .contains("nested deeper")
        );
        let long = format!("{{:a \"{}", "x".repeat(MAX_LINE));
        assert!(
            forms(&long, 4096)
                .expect_err("long")
                .message
                .contains("longer than")
        );
    }
}
