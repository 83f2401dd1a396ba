//! The formats of histories, and which one a file is in.

use std::fmt;

use super::edn::is_space;
use super::stream::MARK;

/// How a history is written.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Format {
    /// One JSON object a line, as `fencepost run` writes it; see [`super::jsonl`].
    Jsonl,
    /// Jepsen's `history.edn`: one map a line, or all in one list or vector.
    Edn,
    /// Jepsen's log: `INFO  jepsen.util - PROCESS<tab>:TYPE<tab>:F<tab>VALUE` among other lines.
    JepsenLog,
}

/// What stands before an operation in a line of Jepsen's log.
pub(super) const LOGGED: &str = "jepsen.util - ";

impl Format {
    /// Every format by the name that the command line uses.
    pub const ALL: [(Self, &str); 3] = [
        (Self::Jsonl, "jsonl"),
        (Self::Edn, "edn"),
        (Self::JepsenLog, "jepsen-log"),
    ];

    /// The format that the beginning of a file looks like: a few thousand bytes are enough, or all of a shorter file.
    ///
    /// `None` where it looks like none. A file without anything in it is JSON lines without a line.
    #[must_use]
    pub fn recognise(beginning: &[u8]) -> Option<Self> {
        let text = beginning.strip_prefix(MARK).unwrap_or(beginning);
        let start = after_comments(text);
        match start {
            [] if text.trim_ascii().is_empty() => return Some(Self::Jsonl),
            [] if text.contains(&b';') => return Some(Self::Edn),
            [b'{', rest @ ..] => {
                return match after_comments(rest) {
                    [b':', ..] => Some(Self::Edn),
                    _ => Some(Self::Jsonl),
                };
            }
            [b'#', ..] => return Some(Self::Edn),
            [b'[' | b'(', rest @ ..] => {
                let inside = after_comments(rest);
                let json = inside.first() == Some(&b'{')
                    && after_comments(&inside[1..]).first() == Some(&b'"');
                let map_or_nothing = matches!(inside, [] | [b'{' | b'#' | b']' | b')', ..]);
                if map_or_nothing && !json {
                    return Some(Self::Edn);
                }
            }
            _ => {}
        }
        memchr::memmem::find(text, LOGGED.as_bytes()).map(|_| Self::JepsenLog)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Self::ALL.iter().find(|(format, _)| format == self);
        f.write_str(known.map_or("", |(_, name)| name))
    }
}

/// Without spaces and EDN's comments before it.
fn after_comments(mut text: &[u8]) -> &[u8] {
    loop {
        match text {
            [b';', ..] => {
                let end = memchr::memchr(b'\n', text);
                text = &text[end.unwrap_or(text.len())..];
            }
            [byte, rest @ ..] if is_space(*byte) => text = rest,
            _ => return text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_is_recognised_and_garbage_is_not() {
        for (text, expected) in [
            ("", Some(Format::Jsonl)),
            ("\u{feff}\n {\"index\":0", Some(Format::Jsonl)),
            ("{:process 0", Some(Format::Edn)),
            ("\u{feff}; x=0\n[{:type :invoke", Some(Format::Edn)),
            ("({:type", Some(Format::Edn)),
            ("#jepsen.history.Op{:index 0", Some(Format::Edn)),
            ("; nothing", Some(Format::Edn)),
            ("[]", Some(Format::Edn)),
            (
                "INFO  jepsen.core - up\nINFO  jepsen.util - 0\t:invoke\t:read\tnil",
                Some(Format::JepsenLog),
            ),
            ("[{\"index\":0}]", None),
            ("hello", None),
            ("\0\0\0", None),
            ("<html>", None),
        ] {
            assert_eq!(Format::recognise(text.as_bytes()), expected, "{text}");
        }
    }
}
