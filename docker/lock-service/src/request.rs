//! Reads names and bodies, and says exactly what is wrong with them.
//!
//! It promises that whatever it returns lies within the limits, and that its complaints name the
//! field and what would be right. It knows nothing of HTTP.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::Limits;
use crate::state::{LockName, Request};

/// What is wrong with a request, as a sentence for whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Complaint(pub String);

/// Reads the body of one kind of request.
pub(crate) type Reader = fn(&[u8], &Limits) -> Result<Request, Complaint>;

/// A lock's name, as it stands in the path after percent-decoding.
pub(crate) fn lock_name(name: &str, limits: &Limits) -> Result<LockName, Complaint> {
    check_name("lock", name, limits)?;
    Ok(name.into())
}

/// `{"client","ttl_ms","wait_ms"}`; without `wait_ms` it does not wait.
pub(crate) fn acquire(body: &[u8], limits: &Limits) -> Result<Request, Complaint> {
    let fields = Fields::read(body, &["client", "ttl_ms", "wait_ms"])?;
    Ok(Request::Acquire {
        client: fields.client(limits)?,
        ttl: fields.milliseconds("ttl_ms", &limits.ttl_ms)?,
        wait: match fields.object.get("wait_ms") {
            Some(_) => fields.milliseconds("wait_ms", &limits.wait_ms)?,
            None => Duration::ZERO,
        },
    })
}

/// `{"client","token","ttl_ms"}`
pub(crate) fn renew(body: &[u8], limits: &Limits) -> Result<Request, Complaint> {
    let fields = Fields::read(body, &["client", "token", "ttl_ms"])?;
    Ok(Request::Renew {
        client: fields.client(limits)?,
        token: fields.token()?,
        ttl: fields.milliseconds("ttl_ms", &limits.ttl_ms)?,
    })
}

/// `{"client","token"}`
pub(crate) fn release(body: &[u8], limits: &Limits) -> Result<Request, Complaint> {
    let fields = Fields::read(body, &["client", "token"])?;
    Ok(Request::Release {
        client: fields.client(limits)?,
        token: fields.token()?,
    })
}

/// The fields of a body, none of them unknown.
struct Fields {
    object: Map<String, Value>,
}

impl Fields {
    /// An unknown field is refused: a misspelt `wait_ms` would else silently not wait.
    fn read(body: &[u8], known: &[&str]) -> Result<Self, Complaint> {
        let value: Value = serde_json::from_slice(body).map_err(|error| {
            Complaint(format!(
                "the body must be a JSON object; it is not: {error}"
            ))
        })?;
        let Value::Object(object) = value else {
            let shown = excerpt(&value);
            return Err(Complaint(format!(
                "the body must be a JSON object, not {shown}"
            )));
        };
        match object.keys().find(|key| !known.contains(&key.as_str())) {
            Some(unknown) => Err(Complaint(format!(
                "{} is no field of this request; it takes {}",
                excerpt(&unknown.as_str().into()),
                known.join(", ")
            ))),
            None => Ok(Self { object }),
        }
    }

    fn client(&self, limits: &Limits) -> Result<String, Complaint> {
        match self.object.get("client") {
            Some(Value::String(name)) => {
                check_name("client", name, limits)?;
                Ok(name.clone())
            }
            other => Err(wrong("client", "a string", other)),
        }
    }

    fn token(&self) -> Result<u64, Complaint> {
        let value = self.object.get("token");
        value
            .and_then(Value::as_u64)
            .ok_or_else(|| wrong("token", "a whole number from 0 to 2^64-1", value))
    }

    fn milliseconds(
        &self,
        field: &str,
        range: &RangeInclusive<u64>,
    ) -> Result<Duration, Complaint> {
        let value = self.object.get(field);
        match value.and_then(Value::as_u64) {
            Some(number) if range.contains(&number) => Ok(Duration::from_millis(number)),
            _ => {
                let (least, most) = (range.start(), range.end());
                let right = format!("a whole number of milliseconds from {least} to {most}");
                Err(wrong(field, &right, value))
            }
        }
    }
}

fn check_name(field: &str, name: &str, limits: &Limits) -> Result<(), Complaint> {
    let most = limits.name_bytes;
    if (1..=most).contains(&name.len()) && name.chars().all(may_be_in_a_name) {
        return Ok(());
    }
    let right = format!("1 to {most} bytes of printable characters other than a slash");
    Err(wrong(field, &right, Some(&name.into())))
}

fn may_be_in_a_name(character: char) -> bool {
    let printable = character == ' ' || !(character.is_control() || character.is_whitespace());
    printable && character != '/'
}

fn wrong(field: &str, right: &str, found: Option<&Value>) -> Complaint {
    Complaint(match found {
        None => format!("{field} is missing; it must be {right}"),
        Some(value) => format!("{field} must be {right}, not {}", excerpt(value)),
    })
}

/// A value as JSON, cut where it would make the sentence unreadable.
fn excerpt(value: &Value) -> String {
    const LONGEST: usize = 40;
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acquire_without_a_wait_does_not_wait() {
        let body = br#"{"client":"c3","ttl_ms":1000}"#;
        let expected = Request::Acquire {
            client: "c3".into(),
            ttl: Duration::from_secs(1),
            wait: Duration::ZERO,
        };
        assert_eq!(acquire(body, &Limits::default()), Ok(expected));
    }

    #[test]
    fn ends_of_each_range_are_inside() {
        let limits = Limits::default();
        for (ttl, wait) in [(10, 0), (3_600_000, 600_000)] {
            let body = format!(r#"{{"client":"c3","ttl_ms":{ttl},"wait_ms":{wait}}}"#);
            let expected = Request::Acquire {
                client: "c3".into(),
                ttl: Duration::from_millis(ttl),
                wait: Duration::from_millis(wait),
            };
            assert_eq!(acquire(body.as_bytes(), &limits), Ok(expected));
        }
        let body = br#"{"client":"c3","token":18446744073709551615}"#;
        let expected = Request::Release {
            client: "c3".into(),
            token: u64::MAX,
        };
        assert_eq!(release(body, &limits), Ok(expected));
    }

    #[test]
    fn names_are_printable_short_and_without_a_slash() {
        let limits = Limits::default();
        let longest = "x".repeat(200);
        for name in ["a", "shard 7", "\u{e9}\u{4e2d}", ".", longest.as_str()] {
            assert_eq!(lock_name(name, &limits), Ok(name.into()));
        }
        let too_long = "x".repeat(201);
        for name in [
            "",
            "a/b",
            "a\nb",
            "a\u{0}",
            "a\u{85}",
            "\t",
            too_long.as_str(),
        ] {
            let Complaint(message) = lock_name(name, &limits).expect_err(name);
            let right = "lock must be 1 to 200 bytes of printable characters other than a slash";
            assert!(message.starts_with(right), "{message}");
        }
    }

    #[test]
    fn long_values_are_cut_at_a_character() {
        let Complaint(message) = acquire(
            format!(r#"{{"client":["{}"]}}"#, "\u{e9}".repeat(500)).as_bytes(),
            &Limits::default(),
        )
        .expect_err("no string");
        let shown = format!("[\"{}...", "\u{e9}".repeat(38));
        assert_eq!(message, format!("client must be a string, not {shown}"));
    }
}
