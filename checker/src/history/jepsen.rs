//! Operations as Jepsen writes them, as maps or as lines of its log, in the order of the file; lines of a history out.
//!
//! | Jepsen | here |
//! |---|---|
//! | `:process 3` | the process; a keyword (`:nemesis`) is no operation but opens or closes a fault window |
//! | `:type :invoke`, `:ok`, `:fail`, `:info` | the same |
//! | `:f :write` | the function, by its name |
//! | `:value` | the value as JSON: nil is null, keywords are texts. Only an `:ok` tells one that the invocation did not |
//! | `:value [k v]` | key and value, where the file's first invocation has it so (`jepsen.independent`) |
//! | `:key` | the key |
//! | `:time` | nanoseconds; times that go back are held still, because the order of the file decides |
//! | `:index` | the index, if all have one; else the place in the file |
//! | `:error` | the error, as one word |
//! | `:client :lock :token :high-water :ttl :path :identity :session` | the fields of those names |
//!
//! A nemesis tells of each thing that it does twice: when it begins to, and when that is done. `:stop-x` ends `:start-x`,
//! `:resume` ends `:pause`, `:start` ends `:kill`; `:stop`, `:heal` and `:recover` end the newest. Everything else opens
//! a window of its name. An acquire, renew or release that names no lock is about the one lock of the file, which
//! is called `lock`.

use serde_json::Value;

use super::edn::{Edn, first_form};
use super::forms::Place;
use super::{
    Event, FaultEvent, FaultOutcome, FaultPhase, HistoryError, Line, NO_INDEX, Token, Type,
};

/// What acquires, renewals and releases are about where a file has one lock and gives it no name.
const THE_LOCK: &str = "lock";

/// Turns maps into lines, one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Jepsen {
    count: u64,
    /// Whether maps have `:index` and `:time`; known from the first.
    indexed: Option<bool>,
    timed: Option<bool>,
    last_time: u64,
    went_back: bool,
    /// Whether values are a key and a value; known from the first invocation.
    independent: Option<bool>,
    /// What the nemesis has begun to do and not done.
    doing: Option<String>,
    windows: Vec<Window>,
    faults: u64,
}

/// A fault that is in force.
#[derive(Clone, Debug)]
struct Window {
    id: u64,
    fault: String,
    installed: bool,
}

/// What is told of one event, before it is known what it means.
#[derive(Clone, Debug, Default)]
struct Fields {
    process: Option<Edn>,
    kind: Option<Edn>,
    f: Option<Edn>,
    value: Option<Edn>,
    key: Option<Edn>,
    time: Option<Edn>,
    index: Option<Edn>,
    error: Option<Edn>,
    client: Option<Edn>,
    lock: Option<Edn>,
    token: Option<Edn>,
    high_water: Option<Edn>,
    ttl: Option<Edn>,
    path: Option<Edn>,
    identity: Option<Edn>,
    session: Option<Edn>,
}

impl Jepsen {
    /// The line that a map is. `text` begins at `place`.
    pub fn map(&mut self, text: &[u8], place: Place) -> Result<Option<Line>, HistoryError> {
        let Ok(text) = std::str::from_utf8(text) else {
            return Err(place.error(None, "the map is not UTF-8"));
        };
        let form = first_form(text).map_err(|error| {
            let place = place.after(text, error.at);
            place.error(None, &error.message)
        })?;
        let Some((Edn::Map(entries), _)) = form else {
            return Err(place.error(None, "a map must stand here"));
        };
        let mut fields = Fields::default();
        for (name, value) in entries {
            let name = name.word();
            let slot = match name.as_str() {
                "process" => &mut fields.process,
                "type" => &mut fields.kind,
                "f" => &mut fields.f,
                "value" => &mut fields.value,
                "key" => &mut fields.key,
                "time" => &mut fields.time,
                "index" => &mut fields.index,
                "error" => &mut fields.error,
                "client" => &mut fields.client,
                "lock" => &mut fields.lock,
                "token" => &mut fields.token,
                "high-water" | "high_water" => &mut fields.high_water,
                "ttl" => &mut fields.ttl,
                "path" => &mut fields.path,
                "identity" => &mut fields.identity,
                "session" => &mut fields.session,
                _ => continue,
            };
            if slot.replace(value).is_some() {
                return Err(place.error(Some(&name), "is given twice"));
            }
        }
        self.event(fields, place)
    }

    /// The line that `3 :invoke :read nil` is, as Jepsen's log has it after `jepsen.util - `; nothing for other talk.
    pub fn log_line(&mut self, text: &str, place: Place) -> Result<Option<Line>, HistoryError> {
        let mut fields = Fields::default();
        let mut at = 0;
        for slot in [
            &mut fields.process,
            &mut fields.kind,
            &mut fields.f,
            &mut fields.value,
            &mut fields.error,
        ] {
            let rest = &text[at..];
            let form = first_form(rest).map_err(|error| {
                let place = place.after(text, at + error.at);
                place.error(None, &error.message)
            })?;
            let Some((form, end)) = form else { break };
            at += end;
            *slot = Some(form);
        }
        let speaks_of_an_operation = matches!(
            (&fields.process, &fields.kind),
            (
                Some(Edn::Number(_) | Edn::Keyword(_)),
                Some(Edn::Keyword(_))
            )
        );
        if !speaks_of_an_operation {
            return Ok(None);
        }
        // What stands for the value of an unknown outcome is why it is unknown.
        if fields.kind == Some(Edn::Keyword("info".to_owned())) && fields.error.is_none() {
            fields.error = fields.value.take().filter(|error| *error != Edn::Nil);
        }
        self.event(fields, place)
    }

    /// What was forgiven, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.went_back {
            warnings.push(
                "some times go back; the order of the file decides, and they are held still"
                    .to_owned(),
            );
        }
        if self.independent == Some(true) {
            let warning = "values are read as [key value], as the first invocation has it (jepsen.independent)";
            warnings.push(warning.to_owned());
        }
        warnings
    }

    /// The file has events, and tells no times.
    pub fn untimed(&self) -> bool {
        self.timed == Some(false)
    }

    fn event(&mut self, fields: Fields, place: Place) -> Result<Option<Line>, HistoryError> {
        let kind = self.kind(&fields, place)?;
        let f = match &fields.f {
            Some(Edn::Keyword(name) | Edn::Text(name) | Edn::Symbol(name)) => name.clone(),
            Some(_) => return Err(place.error(Some("f"), "must be a keyword, such as :read")),
            None => return Err(place.error(Some("f"), "is missing")),
        };
        let index = self.index(&fields, place)?;
        let time = self.time(&fields, place)?;
        self.count += 1;
        let process = match &fields.process {
            Some(Edn::Number(number)) => number.as_u64(),
            Some(Edn::Keyword(_)) => return Ok(self.nemesis(&f, fields.value, index, time)),
            Some(_) => None,
            None => return Err(place.error(Some("process"), "is missing")),
        };
        let Some(process) = process else {
            let message = "must be a whole number from 0, or a keyword such as :nemesis";
            return Err(place.error(Some("process"), message));
        };
        let (key, value) = self.key_and_value(kind, &f, &fields);
        let word = |edn: Option<&Edn>| edn.filter(|edn| **edn != Edn::Nil).map(Edn::word);
        let mut lock = word(fields.lock.as_ref());
        if matches!(f.as_str(), "acquire" | "renew" | "release") && kind == Type::Invoke {
            lock = lock.or_else(|| key.clone());
            lock.get_or_insert_with(|| THE_LOCK.to_owned());
        }
        let ttl = whole(fields.ttl.as_ref(), "ttl", place)?.filter(|_| !self.untimed());
        Ok(Some(Line::Event(Box::new(Event {
            index,
            time,
            process,
            client: word(fields.client.as_ref()),
            kind,
            f,
            lock,
            key,
            token: token(fields.token.as_ref(), "token", place)?,
            value,
            high_water: token(fields.high_water.as_ref(), "high_water", place)?,
            error: word(fields.error.as_ref()),
            ttl,
            path: word(fields.path.as_ref()),
            identity: word(fields.identity.as_ref()),
            session: word(fields.session.as_ref()),
        }))))
    }

    fn kind(&self, fields: &Fields, place: Place) -> Result<Type, HistoryError> {
        match &fields.kind {
            Some(Edn::Keyword(kind) | Edn::Text(kind)) => match kind.as_str() {
                "invoke" => Ok(Type::Invoke),
                "ok" => Ok(Type::Ok),
                "fail" => Ok(Type::Fail),
                "info" => Ok(Type::Info),
                other => {
                    let message = format!("is :{other}; it must be :invoke, :ok, :fail or :info");
                    Err(place.error(Some("type"), &message))
                }
            },
            Some(_) => Err(place.error(Some("type"), "must be :invoke, :ok, :fail or :info")),
            None => Err(place.error(
                Some("type"),
                "is missing; it must be :invoke, :ok, :fail or :info",
            )),
        }
    }

    fn index(&mut self, fields: &Fields, place: Place) -> Result<u64, HistoryError> {
        let given = whole(fields.index.as_ref(), "index", place)?.filter(|&at| at != NO_INDEX);
        if *self.indexed.get_or_insert(given.is_some()) == given.is_some() {
            return Ok(given.unwrap_or(self.count));
        }
        let message = "is given on some maps and not on others; give it on every one or on none";
        Err(place.error(Some("index"), message))
    }

    fn time(&mut self, fields: &Fields, place: Place) -> Result<u64, HistoryError> {
        let given = whole(fields.time.as_ref(), "time", place)?;
        let timed = *self.timed.get_or_insert(given.is_some());
        let Some(time) = given.filter(|_| timed) else {
            return Ok(self.last_time);
        };
        self.went_back |= time < self.last_time;
        self.last_time = time.max(self.last_time);
        Ok(self.last_time)
    }

    /// Only an answer that is ok tells what the invocation did not; and of that nil tells nothing, but of a read.
    fn key_and_value(
        &mut self,
        kind: Type,
        f: &str,
        fields: &Fields,
    ) -> (Option<String>, Option<Value>) {
        let mut key = fields.key.as_ref().filter(|key| **key != Edn::Nil);
        let mut value = fields.value.as_ref();
        if kind == Type::Invoke && self.independent.is_none() {
            self.independent = Some(key.is_none() && value.is_some_and(|value| is_pair(f, value)));
        }
        if let (Some(true), None, Some(Edn::List(pair))) = (self.independent, key, value)
            && let [first, second] = &pair[..]
        {
            (key, value) = (Some(first), Some(second));
        }
        let tells = match kind {
            Type::Invoke => true,
            Type::Ok => f == "read" || value != Some(&Edn::Nil),
            Type::Fail | Type::Info => false,
        };
        (key.map(Edn::word), value.filter(|_| tells).map(Edn::json))
    }

    /// What a nemesis tells, as begins and ends of windows.
    fn nemesis(&mut self, f: &str, value: Option<Edn>, index: u64, time: u64) -> Option<Line> {
        let done = self.doing.as_deref() == Some(f);
        self.doing = (!done).then(|| f.to_owned());
        let evidence = value
            .as_ref()
            .filter(|value| **value != Edn::Nil)
            .map(Edn::word);
        let line = |window: &Window, phase, evidence: Option<String>| FaultEvent {
            index,
            time,
            fault: window.fault.clone(),
            phase,
            id: window.id,
            on: Vec::new(),
            plan: None,
            lock: None,
            client: None,
            token: None,
            outcome: (window.installed && phase == FaultPhase::End)
                .then_some(FaultOutcome::Installed),
            evidence,
        };
        if self.is_end(f) {
            let ended = self.ended_by(f).filter(|_| done)?;
            let window = self.windows.remove(ended);
            let end = line(&window, FaultPhase::End, evidence);
            return Some(Line::Fault(Box::new(end)));
        }
        let fault = f.strip_prefix("start-").unwrap_or(f);
        if let Some(window) = self.windows.iter_mut().find(|window| window.fault == fault) {
            window.installed |= done;
            return None;
        }
        let window = Window {
            id: self.faults,
            fault: fault.to_owned(),
            installed: false,
        };
        self.faults += 1;
        let begun = line(&window, FaultPhase::Begin, evidence);
        self.windows.push(window);
        Some(Line::Fault(Box::new(begun)))
    }
    /// Undoes something rather than doing it.
    fn is_end(&self, f: &str) -> bool {
        f.starts_with("stop")
            || matches!(f, "heal" | "resume" | "recover")
            || (f == "start" && self.windows.iter().any(|window| window.fault == "kill"))
    }

    /// Which window is over: the one that is meant, else the newest.
    fn ended_by(&self, f: &str) -> Option<usize> {
        let meant = match f {
            "resume" => "pause",
            "start" => "kill",
            "stop" => "start",
            other => other.strip_prefix("stop-").unwrap_or_default(),
        };
        let found = self
            .windows
            .iter()
            .rposition(|window| window.fault == meant);
        found.or_else(|| self.windows.len().checked_sub(1))
    }
}

/// Whether the first invocation's value is a key and a value. A compare-and-set has a pair of its own, and a
/// transaction a list of steps.
fn is_pair(f: &str, value: &Edn) -> bool {
    let Edn::List(pair) = value else { return false };
    let [first, second] = &pair[..] else {
        return false;
    };
    let plain = !matches!(first, Edn::List(_) | Edn::Map(_));
    let nested = matches!(second, Edn::List(_));
    plain && (nested || !matches!(f, "cas" | "txn"))
}

/// A whole number from 0, where there is one.
fn whole(edn: Option<&Edn>, field: &str, place: Place) -> Result<Option<u64>, HistoryError> {
    match edn {
        None | Some(Edn::Nil) => Ok(None),
        Some(Edn::Number(number)) if number.is_u64() => Ok(number.as_u64()),
        Some(_) => Err(place.error(Some(field), "must be a whole number from 0 to 2^64-1")),
    }
}

fn token(edn: Option<&Edn>, field: &str, place: Place) -> Result<Option<Token>, HistoryError> {
    let number = match edn {
        None | Some(Edn::Nil) => return Ok(None),
        Some(Edn::Number(number)) => number,
        Some(_) => return Err(place.error(Some(field), "must be an integer from -2^63 to 2^64-1")),
    };
    let natural = number.as_u64().map(Token::from);
    match natural.or_else(|| number.as_i64().map(Token::from)) {
        Some(token) => Ok(Some(token)),
        None => Err(place.error(Some(field), "must be an integer from -2^63 to 2^64-1")),
    }
}
