//! `history.jsonl`: byte block in, lines out, and back.
//!
//! Promises: a line that is not understood is an error that names the line, the field, and what would be right;
//! it is never skipped. The one exception is a last line that a crash cut short: it is dropped with a warning.
//! Lines may end with CRLF, and a byte order mark may stand before the first, as some editors leave them.
//! A line longer than [`MAX_LINE`] is an error, so a file of garbage costs no more memory than itself.
//! Nearly every line has one shape, which `shape.rs` reads faster; what is said here is true of both.
//! Does not promise that the events make sense together: that is [`super::pair`]'s business.

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value, json};

use super::large::spelt_out;
use super::{
    Event, FaultEvent, FaultOutcome, FaultPhase, Header, HistoryError, Line, NO_INDEX, Token, Type,
};

/// The longest line that is read, in bytes: 1 MiB.
pub const MAX_LINE: usize = 1 << 20;

/// The version of the format that is read and written.
pub const FORMAT: u32 = 1;

/// A file's lines, with what is needed to speak about them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// Header, events and faults, in order. Blank lines are not among them.
    pub lines: Vec<Line>,
    /// For each of `lines` its number in the file, from 1.
    pub numbers: Vec<usize>,
    /// Whether lines name their position. Where not, `index` is [`NO_INDEX`] on all of them, and time decides order.
    pub indexed: bool,
    /// What was forgiven, one sentence each.
    pub warnings: Vec<String>,
}

impl From<Vec<Line>> for Parsed {
    /// Lines that were made in memory: numbered from 1, in order.
    fn from(lines: Vec<Line>) -> Self {
        let numbers = (1..=lines.len()).collect();
        let indexed = !lines.iter().any(|line| position(line) == Some(NO_INDEX));
        Self {
            lines,
            numbers,
            indexed,
            warnings: Vec::new(),
        }
    }
}

/// Reads a whole file.
///
/// # Errors
/// The first malformed line; see [`Reader`].
pub fn parse(bytes: &[u8]) -> Result<Parsed, HistoryError> {
    let mut reader = Reader::new(bytes);
    let mut parsed = Parsed {
        indexed: true,
        ..Parsed::default()
    };
    while let Some((number, line)) = reader.next_line()? {
        parsed.numbers.push(number);
        parsed.lines.push(line);
    }
    parsed.indexed = reader.placing.indexed != Some(false);
    parsed.warnings = reader.warnings;
    Ok(parsed)
}

/// One line of the file that `line` is, without its newline. Reading it again gives `line`.
///
/// # Panics
/// Never: every field has a JSON form.
#[must_use]
pub fn write(line: &Line) -> String {
    #[derive(Serialize)]
    #[serde(tag = "type", rename_all = "lowercase")]
    enum Tagged<'a> {
        Header(&'a Header),
    }
    match line {
        Line::Header(header) => serde_json::to_string(&Tagged::Header(header)),
        Line::Event(event) => serde_json::to_string(event),
        Line::Fault(fault) => serde_json::to_string(&FaultLine::of(fault)),
    }
    .expect("header, event and fault have only text keys")
}

/// An event that is written as it happens, from what others own: the same line as of the [`Event`] of its fields.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "each is the field of Event of that name")]
pub struct EventLine<'a> {
    pub index: u64,
    pub time: u64,
    pub process: u64,
    pub client: &'a str,
    #[serde(rename = "type")]
    pub kind: Type,
    pub f: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<EventValue<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high_water: Option<Token>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<&'a str>,
}

/// A value written or read.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub enum EventValue<'a> {
    /// A text.
    Text(&'a str),
    /// Anything else.
    Any(&'a Value),
}

impl EventLine<'_> {
    /// Appends the line and its newline.
    ///
    /// # Panics
    /// Never: every field has a JSON form.
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        serde_json::to_writer(&mut *bytes, self).expect("an event has only text keys");
        bytes.push(b'\n');
    }

    /// The same, owned.
    #[must_use]
    pub fn to_event(&self) -> Event {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Event {
            index: self.index,
            time: self.time,
            process: self.process,
            client: Some(self.client.to_owned()),
            kind: self.kind,
            f: self.f.to_owned(),
            lock: owned(self.lock),
            key: owned(self.key),
            token: self.token,
            value: self.value.map(|value| match value {
                EventValue::Text(text) => text.into(),
                EventValue::Any(value) => value.clone(),
            }),
            high_water: self.high_water,
            error: owned(self.error),
            ttl: self.ttl,
            path: owned(self.path),
            identity: owned(self.identity),
            session: None,
        }
    }
}

/// A fault in the order of fields that people read it in.
#[derive(Serialize)]
struct FaultLine<'a> {
    index: u64,
    time: u64,
    r#type: &'static str,
    fault: &'a str,
    phase: FaultPhase,
    id: u64,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    on: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<Token>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<FaultOutcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<&'a str>,
}

impl<'a> FaultLine<'a> {
    fn of(fault: &'a FaultEvent) -> Self {
        Self {
            index: fault.index,
            time: fault.time,
            r#type: "fault",
            fault: &fault.fault,
            phase: fault.phase,
            id: fault.id,
            on: &fault.on,
            plan: fault.plan.as_deref(),
            lock: fault.lock.as_deref(),
            client: fault.client.as_deref(),
            token: fault.token,
            outcome: fault.outcome,
            evidence: fault.evidence.as_deref(),
        }
    }
}

/// Reads line after line, so that a large file need not be held twice.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    number: usize,
    placing: Placing,
    warnings: Vec<String>,
}

impl<'a> Reader<'a> {
    /// A reader of a whole file. A byte order mark is skipped.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        let rest = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        Self {
            rest,
            number: 0,
            placing: Placing::default(),
            warnings: Vec::new(),
        }
    }

    /// What was forgiven so far.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The next line and its number, or `None` at the end.
    ///
    /// # Errors
    /// A malformed line, a header that is not the first line or not of format 1, a line without `index` among lines
    /// that have one. Nothing can be read after an error.
    pub fn next_line(&mut self) -> Result<Option<(usize, Line)>, HistoryError> {
        while !self.rest.is_empty() {
            let (text, terminated) = self.cut_line();
            match read_any(text, self.number, !terminated)? {
                None => {}
                Some(Any::CutShort) => {
                    self.warnings
                        .push(format!("line {} was cut short and is dropped", self.number));
                    return Ok(None);
                }
                Some(Any::Line(line)) => {
                    if let Some(index) = position(&line) {
                        self.placing.check(self.number, index)?;
                    }
                    return Ok(Some((self.number, line)));
                }
            }
        }
        Ok(None)
    }

    fn cut_line(&mut self) -> (&'a [u8], bool) {
        self.number += 1;
        match memchr::memchr(b'\n', self.rest) {
            Some(end) => {
                let line = &self.rest[..end];
                self.rest = &self.rest[end + 1..];
                (line, true)
            }
            None => (std::mem::take(&mut self.rest), false),
        }
    }
}

/// Whether lines name their position: known from the first that could.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Placing {
    indexed: Option<bool>,
}

impl Placing {
    /// Either every event and fault names its position or none does.
    #[inline]
    pub fn check(&mut self, number: usize, index: u64) -> Result<(), HistoryError> {
        let has = index != NO_INDEX;
        let expected = *self.indexed.get_or_insert(has);
        if has == expected {
            return Ok(());
        }
        let message = if has {
            "is given here but not on earlier lines"
        } else {
            "is missing; earlier lines have it"
        };
        let message = format!("{message}; give it on every line or on none");
        Err(HistoryError::new(number, Some("index"), message))
    }
}

/// The index of an event or a fault.
pub(super) fn position(line: &Line) -> Option<u64> {
    match line {
        Line::Header(_) => None,
        Line::Event(event) => Some(event.index),
        Line::Fault(fault) => Some(fault.index),
    }
}

/// What a line that is not blank turns out to be.
#[derive(Debug)]
pub(super) enum Any {
    Line(Line),
    /// It was cut short by a crash.
    CutShort,
}

/// One line without its newline; `None` where it is blank. `unfinished`: the file ends before a newline.
pub(super) fn read_any(
    text: &[u8],
    number: usize,
    unfinished: bool,
) -> Result<Option<Any>, HistoryError> {
    if text.len() > MAX_LINE {
        return Err(too_long(number));
    }
    if text.trim_ascii().is_empty() {
        return Ok(None);
    }
    if unfinished && was_cut_short(text) {
        return Ok(Some(Any::CutShort));
    }
    read_line(text, number).map(|line| Some(Any::Line(line)))
}

/// The error for a line that is not read to its end.
pub(super) fn too_long(number: usize) -> HistoryError {
    let message = format!("is longer than {MAX_LINE} bytes, and no line of a history is");
    HistoryError::new(number, None, message)
}

/// The beginning of an object that stops in the middle, as a crash leaves it. Anything else is malformed.
fn was_cut_short(text: &[u8]) -> bool {
    text.trim_ascii_start().first() == Some(&b'{')
        && serde_json::from_slice::<IgnoredAny>(text).is_err_and(|error| error.is_eof())
}

/// Nearly every line is a well-formed event: that is tried first, and everything else is looked at with care.
fn read_line(text: &[u8], number: usize) -> Result<Line, HistoryError> {
    let failure = match serde_json::from_slice::<Event>(&spelt_out(text)) {
        Ok(event) => return Ok(Line::Event(Box::new(event))),
        Err(failure) => failure,
    };
    let error = |field: Option<&str>, message: String| HistoryError::new(number, field, message);
    let value: Value = serde_json::from_slice(text).map_err(|failure| {
        error(
            None,
            format!(
                "is not JSON: {}; each line must be one object",
                failure
                    .to_string()
                    .replace(" at line 1 column", " at column")
            ),
        )
    })?;
    let Value::Object(fields) = value else {
        return Err(error(
            None,
            "is not a JSON object, such as {\"index\":0,...}".to_owned(),
        ));
    };
    match fields.get("type") {
        Some(Value::String(kind)) => match kind.as_str() {
            "header" => {
                let header: Header = typed(
                    text,
                    number,
                    &fields,
                    &json!({"type": "header", "format": FORMAT}),
                )?;
                if header.format != FORMAT {
                    let message =
                        format!("is {}; format {FORMAT} is what can be read", header.format);
                    return Err(error(Some("format"), message));
                }
                Ok(Line::Header(Box::new(header)))
            }
            "fault" => {
                let base = json!({"type": "fault", "time": 0, "fault": "pause", "phase": "begin", "id": 0});
                typed(text, number, &fields, &base).map(|fault| Line::Fault(Box::new(fault)))
            }
            "invoke" | "ok" | "fail" | "info" => {
                let base = json!({"type": "invoke", "time": 0, "process": 0, "f": "read"});
                Err(diagnose::<Event>(number, &fields, &base, &failure))
            }
            other => {
                let message =
                    format!("is \"{other}\"; it must be invoke, ok, fail, info, fault or header");
                Err(error(Some("type"), message))
            }
        },
        Some(other) => {
            let message = format!(
                "is {other}; it must be \"invoke\", \"ok\", \"fail\", \"info\", \"fault\" or \"header\""
            );
            Err(error(Some("type"), message))
        }
        None => {
            let message =
                "is missing; it must be invoke, ok, fail, info, fault or header".to_owned();
            Err(error(Some("type"), message))
        }
    }
}

fn typed<T: DeserializeOwned>(
    text: &[u8],
    number: usize,
    fields: &Map<String, Value>,
    base: &Value,
) -> Result<T, HistoryError> {
    serde_json::from_slice(text).map_err(|failure| diagnose::<T>(number, fields, base, &failure))
}

/// Finds the field at fault: the first that is missing, or that spoils a `base` known to be good.
fn diagnose<T: DeserializeOwned>(
    number: usize,
    fields: &Map<String, Value>,
    base: &Value,
    failure: &serde_json::Error,
) -> HistoryError {
    let required = base.as_object().into_iter().flat_map(Map::keys);
    if let Some(missing) = required
        .into_iter()
        .find(|name| !fields.contains_key(*name))
    {
        return HistoryError::new(number, Some(missing), "is missing".to_owned());
    }
    for (name, value) in fields {
        let mut trial = base.clone();
        trial[name.as_str()] = value.clone();
        if let Err(failure) = T::deserialize(trial) {
            return HistoryError::new(number, Some(name), plain(&failure.to_string()));
        }
    }
    let message = failure.to_string();
    let named = message.split('`').nth(1).map(str::to_owned);
    HistoryError::new(number, named.as_deref(), plain(&message))
}

/// Serde's words, without Rust's names of types.
fn plain(message: &str) -> String {
    let message = message.split(" at line ").next().unwrap_or(message);
    ["u64", "u32"]
        .iter()
        .fold(message.to_owned(), |text, width| {
            let bits = &width[1..];
            text.replace(
                &format!("expected {width}"),
                &format!("expected a whole number from 0 to 2^{bits}-1"),
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INVOKE: &str = r#"{"index":0,"time":5,"process":3,"client":"c3","type":"invoke","f":"write","lock":"L","key":"k","token":42,"value":"v"}"#;

    fn error_of(text: &str) -> HistoryError {
        parse(text.as_bytes()).expect_err("the text is malformed")
    }

    #[test]
    fn an_event_that_is_written_as_it_happens_is_the_line_of_that_event() {
        let null = Value::Null;
        let full = EventLine {
            index: 3,
            time: 5,
            process: 7,
            client: "c\"1",
            kind: Type::Ok,
            f: "write",
            lock: Some("l"),
            key: Some("k"),
            token: Some(2_u64.into()),
            value: Some(EventValue::Text("\n")),
            high_water: Some(9_u64.into()),
            error: Some("why"),
            ttl: Some(10),
            path: Some("admin"),
            identity: Some("c3"),
        };
        let bare = EventLine {
            lock: None,
            key: None,
            token: None,
            value: Some(EventValue::Any(&null)),
            high_water: None,
            error: None,
            ttl: None,
            path: None,
            identity: None,
            ..full
        };
        for line in [full, bare] {
            let mut bytes = Vec::new();
            line.append_to(&mut bytes);
            let event = Line::Event(Box::new(line.to_event()));
            assert_eq!(
                String::from_utf8(bytes).expect("UTF-8"),
                write(&event) + "\n"
            );
        }
    }

    #[test]
    fn every_kind_of_line_is_written_in_the_documented_order_and_read_back() {
        let texts = [
            r#"{"type":"header","format":1,"seed":7,"mark_scope":"lock","clients":{"c3":"w2"},"plan":{"faults":{"zombie":3},"expect":{"zombie_writes":5}}}"#,
            INVOKE,
            r#"{"index":1,"time":9,"process":3,"client":"c3","type":"fail","f":"write","high_water":43,"error":"stale-token"}"#,
            r#"{"index":2,"time":9,"process":3,"type":"ok","f":"read","key":"k","value":null}"#,
            r#"{"index":9,"time":10,"type":"fault","fault":"pause","phase":"begin","id":4,"on":["w2"],"outcome":"installed","evidence":"state T after 0.4 ms"}"#,
        ];
        let parsed = parse(texts.join("\n").as_bytes()).expect("well-formed");
        assert_eq!(parsed.lines.iter().map(write).collect::<Vec<_>>(), texts);
        assert_eq!(parsed.numbers, [1, 2, 3, 4, 5]);
        assert!(parsed.indexed && parsed.warnings.is_empty());
    }

    #[test]
    fn a_byte_order_mark_and_carriage_returns_change_nothing() {
        let answer = r#"{"index":1,"time":9,"process":3,"type":"ok","f":"write"}"#;
        let plain = parse(format!("{INVOKE}\n{answer}\n").as_bytes()).expect("well-formed");
        for text in [
            format!("\u{feff}{INVOKE}\n{answer}\n"),
            format!("\u{feff}{INVOKE}\r\n{answer}\r\n"),
            format!("\u{feff}\r\n{INVOKE}\r\n{answer}"),
        ] {
            let read = parse(text.as_bytes()).expect("well-formed");
            assert_eq!(
                (read.lines, read.warnings),
                (plain.lines.clone(), plain.warnings.clone())
            );
        }
        assert_eq!(parse("\u{feff}".as_bytes()).expect("empty").lines, []);
        let twice = format!("{INVOKE}\n\u{feff}{answer}\n");
        assert_eq!(
            parse(twice.as_bytes()).expect_err("not at the start").line,
            2
        );
    }

    #[test]
    fn tokens_reach_from_the_least_signed_to_the_greatest_unsigned_number() {
        for token in ["-9223372036854775808", "18446744073709551615"] {
            let text = INVOKE.replace("42", token);
            let parsed = parse(text.as_bytes()).expect("in range");
            assert_eq!(write(&parsed.lines[0]), text);
        }
    }

    #[test]
    fn a_token_that_is_no_integer_in_range_is_an_error_that_names_line_and_field() {
        for (token, complaint) in [
            ("4.5", "floating point"),
            ("\"42\"", "string \"42\""),
            ("18446744073709551616", "floating point"),
            ("-9223372036854775809", "floating point"),
            ("true", "boolean"),
        ] {
            let error = error_of(&format!("\n{}\n", INVOKE.replace("42", token)));
            assert_eq!(
                (error.line, error.field.as_deref()),
                (2, Some("token")),
                "{error}"
            );
            assert!(error.message.contains(complaint), "{error}");
            assert!(
                error.message.contains("an integer from -2^63 to 2^64-1"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_malformed_field_is_named_with_what_would_be_right() {
        for (from, to, field, complaint) in [
            (
                "\"time\":5",
                "\"time\":-5",
                "time",
                "expected a whole number from 0 to 2^64-1",
            ),
            ("\"process\":3,", "", "process", "is missing"),
            (
                "\"invoke\"",
                "\"begin\"",
                "type",
                "it must be invoke, ok, fail, info, fault or header",
            ),
            ("\"type\":\"invoke\",", "", "type", "is missing"),
            ("\"key\":\"k\"", "\"key\":7", "key", "expected a string"),
            (
                "\"key\":\"k\"",
                "\"key\":\"k\",\"key\":\"l\"",
                "key",
                "duplicate field",
            ),
        ] {
            let error = error_of(&INVOKE.replace(from, to));
            assert_eq!(error.field.as_deref(), Some(field), "{error}");
            assert!(error.message.contains(complaint), "{error}");
        }
        let error = error_of(
            r#"{"index":0,"time":1,"type":"fault","fault":"pause","phase":"middle","id":1}"#,
        );
        assert_eq!(error.field.as_deref(), Some("phase"));
        let error = error_of(r#"{"type":"header","format":2}"#);
        assert_eq!((error.field.as_deref(), error.line), (Some("format"), 1));
    }

    #[test]
    fn a_last_line_cut_anywhere_is_dropped_with_a_warning() {
        let second = INVOKE
            .replace("\"index\":0", "\"index\":1")
            .replace("\"v\"", "\"v\u{20ac}\"");
        let whole = format!("{INVOKE}\n{second}");
        for end in INVOKE.len() + 2..whole.len() {
            let parsed = parse(&whole.as_bytes()[..end]).expect("a cut tail is forgiven");
            assert_eq!(parsed.lines.len(), 1, "cut at {end}");
            assert_eq!(parsed.warnings, ["line 2 was cut short and is dropped"]);
        }
        assert_eq!(parse(whole.as_bytes()).expect("complete").lines.len(), 2);
    }

    #[test]
    fn only_a_last_line_without_newline_may_be_cut() {
        let half = &INVOKE[..40];
        assert_eq!(error_of(&format!("{half}\n")).line, 1);
        assert_eq!(error_of(&format!("{half}\n{INVOKE}\n")).line, 1);
        assert_eq!(error_of("hello").line, 1);
        assert_eq!(error_of("[1,").line, 1);
    }

    #[test]
    fn an_overlong_line_is_an_error_and_blank_lines_are_nothing() {
        let long = format!("{INVOKE}\n{}", "x".repeat(MAX_LINE + 1));
        assert_eq!(error_of(&long).line, 2);
        let parsed =
            parse(format!("\n \r\n{INVOKE}\r\n\n").as_bytes()).expect("blank lines are ignored");
        assert_eq!(parsed.numbers, [3]);
    }

    #[test]
    fn an_index_is_given_on_all_lines_or_on_none() {
        let bare = INVOKE.replace("\"index\":0,", "");
        let parsed = parse(bare.as_bytes()).expect("the index is optional");
        assert!(!parsed.indexed);
        let error = error_of(&format!("{INVOKE}\n{bare}"));
        assert_eq!((error.line, error.field.as_deref()), (2, Some("index")));
        let error = error_of(&format!("{bare}\n{INVOKE}"));
        assert_eq!((error.line, error.field.as_deref()), (2, Some("index")));
    }

    #[test]
    fn unknown_fields_are_ignored() {
        let text = INVOKE.replace("\"time\"", "\"colour\":[1,{}],\"time\"");
        assert_eq!(
            write(&parse(text.as_bytes()).expect("ignored").lines[0]),
            INVOKE
        );
    }
}
