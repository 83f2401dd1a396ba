//! One form of EDN (github.com/edn-format/edn) in, a value out.
//!
//! Promises: whatever stands in the text, a value or the place and the reason why it is none; no deeper than [`DEEPEST`],
//! so that brackets alone fill no stack. Sets and vectors are lists, tags and metadata are dropped, characters are texts
//! of one letter; numbers beyond 64 bits and ratios are kept as they are spelt. The crates that read EDN are not kept
//! up, and none has a limit.

use serde_json::{Map, Number, Value};

/// How deeply collections may lie in one another.
pub(super) const DEEPEST: usize = 64;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Edn {
    Nil,
    Bool(bool),
    Number(Number),
    Text(String),
    /// Without its colon.
    Keyword(String),
    Symbol(String),
    List(Vec<Edn>),
    Map(Vec<(Edn, Edn)>),
}

impl Edn {
    /// As JSON: nil is null, keywords and symbols are texts.
    pub fn json(&self) -> Value {
        match self {
            Self::Nil => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(number) => Value::Number(number.clone()),
            Self::Text(text) | Self::Keyword(text) | Self::Symbol(text) => text.as_str().into(),
            Self::List(values) => values.iter().map(Self::json).collect(),
            Self::Map(fields) => {
                let field = |(name, value): &(Self, Self)| (name.word(), value.json());
                Value::Object(fields.iter().map(field).collect::<Map<_, _>>())
            }
        }
    }

    /// As one word: texts, keywords and symbols are themselves, everything else as its JSON.
    pub fn word(&self) -> String {
        match self {
            Self::Text(text) | Self::Keyword(text) | Self::Symbol(text) => text.clone(),
            other => other.json().to_string(),
        }
    }
}

/// Where in a text something is wrong, in bytes, and what.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct EdnError {
    pub at: usize,
    pub message: String,
}

/// The first form of a text, and where it ends; `None` where there is none.
pub(super) fn first_form(text: &str) -> Result<Option<(Edn, usize)>, EdnError> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
    };
    let form = parser.form()?;
    Ok(form.map(|form| (form, parser.at)))
}

/// Whether a byte ends a word.
pub(super) fn is_delimiter(byte: u8) -> bool {
    is_space(byte) || matches!(byte, b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'"' | b';')
}

/// Commas are spaces.
pub(super) fn is_space(byte: u8) -> bool {
    byte <= b' ' || byte == b','
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn fail<T>(&self, at: usize, message: impl Into<String>) -> Result<T, EdnError> {
        let message = message.into();
        Err(EdnError { at, message })
    }

    fn space(&mut self) {
        while let Some(byte) = self.peek() {
            if byte == b';' {
                let rest = &self.text.as_bytes()[self.at..];
                self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            } else if is_space(byte) {
                self.at += 1;
            } else {
                break;
            }
        }
    }

    /// The next form; `None` before a closing bracket and at the end.
    fn form(&mut self) -> Result<Option<Edn>, EdnError> {
        loop {
            self.space();
            let start = self.at;
            let Some(byte) = self.peek() else {
                return Ok(None);
            };
            return Ok(Some(match byte {
                b')' | b']' | b'}' => return Ok(None),
                b'(' => self.nested(|parser| parser.list(b')'))?,
                b'[' => self.nested(|parser| parser.list(b']'))?,
                b'{' => self.nested(Self::map)?,
                b'"' => Edn::Text(self.string()?),
                b'\\' => Edn::Text(self.character()?),
                b'^' => {
                    self.at += 1;
                    self.nested(|parser| parser.needed(start, "what ^ says"))?;
                    continue;
                }
                b'#' => match self.text.as_bytes().get(self.at + 1) {
                    Some(b'{') => {
                        self.at += 1;
                        self.nested(|parser| parser.list(b'}'))?
                    }
                    Some(b'_') => {
                        self.at += 2;
                        self.nested(|parser| parser.needed(start, "what #_ leaves out"))?;
                        continue;
                    }
                    Some(b'#') => {
                        self.at += 2;
                        Edn::Text(self.token().to_owned())
                    }
                    _ => {
                        self.at += 1;
                        self.token();
                        self.nested(|parser| parser.needed(start, "what the tag is of"))?
                    }
                },
                _ => self.atom(start)?,
            }));
        }
    }

    fn nested(
        &mut self,
        read: impl Fn(&mut Self) -> Result<Edn, EdnError>,
    ) -> Result<Edn, EdnError> {
        if self.depth == DEEPEST {
            return self.fail(self.at, format!("is nested deeper than {DEEPEST}"));
        }
        self.depth += 1;
        let form = read(self)?;
        self.depth -= 1;
        Ok(form)
    }

    fn needed(&mut self, start: usize, what: &str) -> Result<Edn, EdnError> {
        match self.form()? {
            Some(form) => Ok(form),
            None => self.fail(start, format!("{what} is missing")),
        }
    }

    fn list(&mut self, end: u8) -> Result<Edn, EdnError> {
        let start = self.at;
        self.at += 1;
        let mut values = Vec::new();
        while let Some(value) = self.form()? {
            values.push(value);
        }
        self.close(start, end)?;
        Ok(Edn::List(values))
    }

    fn map(&mut self) -> Result<Edn, EdnError> {
        let start = self.at;
        self.at += 1;
        let mut fields = Vec::new();
        while let Some(name) = self.form()? {
            let at = self.at;
            match self.form()? {
                Some(value) => fields.push((name, value)),
                None => return self.fail(at, format!("{} has no value", name.word())),
            }
        }
        self.close(start, b'}')?;
        Ok(Edn::Map(fields))
    }

    fn close(&mut self, start: usize, end: u8) -> Result<(), EdnError> {
        match self.peek() {
            Some(byte) if byte == end => {
                self.at += 1;
                Ok(())
            }
            Some(byte) => {
                let (byte, end) = (char::from(byte), char::from(end));
                self.fail(self.at, format!("{byte} stands where {end} must"))
            }
            None => self.fail(start, "is not closed"),
        }
    }

    fn string(&mut self) -> Result<String, EdnError> {
        let start = self.at;
        self.at += 1;
        let mut read = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(plain) = memchr::memchr2(b'"', b'\\', rest.as_bytes()) else {
                return self.fail(start, "a text is not closed");
            };
            read.push_str(&rest[..plain]);
            self.at += plain + 1;
            if rest.as_bytes()[plain] == b'"' {
                return Ok(read);
            }
            let at = self.at - 1;
            let escaped = self.peek();
            self.at += 1;
            read.push(match escaped {
                Some(b'n') => '\n',
                Some(b't') => '\t',
                Some(b'r') => '\r',
                Some(b'b') => '\u{8}',
                Some(b'f') => '\u{c}',
                Some(b'"') => '"',
                Some(b'\\') => '\\',
                Some(b'u') => {
                    let digits = self.text.get(self.at..self.at + 4);
                    let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                    self.at += 4;
                    match code {
                        // One half of a pair is no letter; Java writes it all the same.
                        Some(code) => char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER),
                        None => return self.fail(at, "\\u needs four hexadecimal digits"),
                    }
                }
                _ => {
                    return self.fail(
                        at,
                        "is no escape: \\n \\t \\r \\b \\f \\\" \\\\ \\uXXXX are",
                    );
                }
            });
        }
    }

    fn character(&mut self) -> Result<String, EdnError> {
        let start = self.at;
        self.at += 1;
        let Some(first) = self.text[self.at..].chars().next() else {
            return self.fail(start, "a letter must follow \\");
        };
        // What ends a word is a letter here.
        self.at += first.len_utf8();
        let named = format!("{first}{}", self.token());
        Ok(match named.as_str() {
            "newline" => "\n".to_owned(),
            "space" => " ".to_owned(),
            "tab" => "\t".to_owned(),
            "return" => "\r".to_owned(),
            _ => named,
        })
    }

    /// What stands up to the next delimiter.
    fn token(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest.bytes().position(is_delimiter);
        let token = &rest[..end.unwrap_or(rest.len())];
        self.at += token.len();
        token
    }

    fn atom(&mut self, start: usize) -> Result<Edn, EdnError> {
        let token = self.token();
        if let Some(name) = token.strip_prefix(':') {
            return match name {
                "" => self.fail(start, "a keyword has no name"),
                name => Ok(Edn::Keyword(name.to_owned())),
            };
        }
        let unsigned = token.strip_prefix(['+', '-']).unwrap_or(token);
        Ok(match token {
            "nil" => Edn::Nil,
            "true" => Edn::Bool(true),
            "false" => Edn::Bool(false),
            _ if unsigned.starts_with(|first: char| first.is_ascii_digit()) => {
                number(token).map_or_else(|| Edn::Text(token.to_owned()), Edn::Number)
            }
            _ => Edn::Symbol(token.to_owned()),
        })
    }
}

fn number(token: &str) -> Option<Number> {
    let plain = token.strip_prefix('+').unwrap_or(token);
    let whole = plain.strip_suffix('N').unwrap_or(plain);
    if let Ok(natural) = whole.parse::<u64>() {
        return Some(natural.into());
    }
    if let Ok(integer) = whole.parse::<i64>() {
        return Some(integer.into());
    }
    let fraction = plain.strip_suffix('M').unwrap_or(plain);
    if whole
        .bytes()
        .all(|byte| byte == b'-' || byte.is_ascii_digit())
    {
        return None;
    }
    Number::from_f64(fraction.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        let (form, end) = first_form(text).expect("EDN").expect("a form");
        assert_eq!(end, text.len(), "{text}");
        form.json().to_string()
    }

    #[test]
    fn every_kind_of_value_becomes_json() {
        for (edn, expected) in [
            ("nil", "null"),
            (" ; a comment\n\ttrue", "true"),
            ("-7", "-7"),
            ("+7", "7"),
            ("12N", "12"),
            ("18446744073709551615", "18446744073709551615"),
            ("18446744073709551616", "\"18446744073709551616\""),
            ("2/3", "\"2/3\""),
            ("1.5M", "1.5"),
            ("-1e3", "-1000.0"),
            (":timed-out", "\"timed-out\""),
            (":a.b/c", "\"a.b/c\""),
            ("clojure.lang/x", "\"clojure.lang/x\""),
            ("\"a\\n\\\"\\u20ac\"", "\"a\\n\\\"€\""),
            ("[1, (2) #{3}]", "[1,[2],[3]]"),
            (
                "{:a 1 \"b\" [nil] 3 x}",
                "{\"3\":\"x\",\"a\":1,\"b\":[null]}",
            ),
            ("#inst \"2020\"", "\"2020\""),
            ("#jepsen.history.Op{:f :read}", "{\"f\":\"read\"}"),
            ("[#_{:left out} 1 ^{:m 1} [2]]", "[1,[2]]"),
            (
                "[\\a \\newline \\{ \\) ##Inf]",
                "[\"a\",\"\\n\",\"{\",\")\",\"Inf\"]",
            ),
        ] {
            assert_eq!(json(edn), expected, "{edn}");
        }
        assert_eq!(first_form(" ;\n"), Ok(None));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (edn, at, complaint) in [
            ("[1 2", 0, "not closed"),
            ("[1 }", 3, "} stands where ] must"),
            ("{:a}", 3, "a has no value"),
            (" \"abc", 1, "a text is not closed"),
            ("\"a\\q\"", 2, "no escape"),
            ("\"\\u12\"", 1, "four hexadecimal digits"),
            ("[: 1]", 1, "no name"),
            ("[#_]", 1, "leaves out is missing"),
        ] {
            let error = first_form(edn).expect_err(edn);
            assert_eq!(error.at, at, "{edn}: {error:?}");
            assert!(error.message.contains(complaint), "{edn}: {error:?}");
        }
    }

    #[test]
    fn brackets_alone_fill_no_stack() {
        for opening in ["[", "{", "(", "#{", "#_", "^", "#a ", "{:a "] {
            let error = first_form(&opening.repeat(1_000_000)).expect_err("too deep");
            assert!(
                error.message.contains("nested deeper than 64"),
                "{opening}: {error:?}"
            );
        }
        let deep = format!("{}{}", "[".repeat(DEEPEST), "]".repeat(DEEPEST));
        assert!(first_form(&deep).is_ok());
    }
}
