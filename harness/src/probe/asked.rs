//! Two clients of the resource, whose every word is noted.

use std::sync::Arc;

use fencepost_workloads::client::{Failure, Outcome, Reason, Resource, Write, Written};

use super::{Notes, Subject};
use crate::error::HarnessError;

/// Two clients, each with connections of its own.
pub(super) struct Asked {
    notes: Arc<Notes>,
    one: Box<dyn Resource>,
    two: Box<dyn Resource>,
}

impl Asked {
    /// New ones.
    pub(super) fn of(subject: &Subject, notes: &Arc<Notes>) -> Result<Self, HarnessError> {
        Ok(Self {
            notes: Arc::clone(notes),
            one: subject.client("one")?,
            two: subject.client("two")?,
        })
    }

    /// The first client writes.
    pub(super) async fn one(&self, key: &str, token: u64, value: &str) -> Outcome<Written> {
        let write = write(key, token, value);
        self.notes.write(&*self.one, "one", write).await
    }

    /// The second client writes.
    pub(super) async fn two(&self, key: &str, token: u64, value: &str) -> Outcome<Written> {
        let write = write(key, token, value);
        self.notes.write(&*self.two, "two", write).await
    }

    /// The second client writes by another path than the primary one.
    pub(super) async fn two_by(
        &self,
        path: &str,
        (key, token, value): (&str, u64, &str),
    ) -> Outcome<Written> {
        let path = Some(path);
        let write = Write {
            path,
            ..write(key, token, value)
        };
        self.notes.write(&*self.two, "two", write).await
    }

    /// What a read tells.
    pub(super) async fn value(&self, key: &str) -> Outcome<Option<String>> {
        let reading = self.notes.read(&*self.one, "reader", key).await;
        reading.map(|reading| reading.value)
    }
}

fn write<'a>(key: &'a str, token: u64, value: &'a str) -> Write<'a> {
    Write {
        lock: None,
        key,
        path: None,
        token: Some(token.into()),
        value,
    }
}

/// Whether the fence refused it. Any other no is none of the fence's.
pub(super) fn refused(outcome: &Outcome<Written>) -> bool {
    matches!(outcome, Err(Failure::Fail(Reason::StaleToken { .. })))
}

/// What was heard in the place of an answer; nothing for an answer and for a refusal by the fence.
pub(super) fn heard<T>(outcome: &Outcome<T>) -> Option<String> {
    match outcome {
        Ok(_) | Err(Failure::Fail(Reason::StaleToken { .. })) => None,
        Err(failure) => Some(told(failure)),
    }
}

/// A failure in words; a status of HTTP is called one.
pub(super) fn told(failure: &Failure) -> String {
    let text = match failure {
        Failure::Fail(reason) => reason.to_string(),
        Failure::Unknown(text) => text.clone(),
    };
    let status = text.strip_prefix("unexpected answer ").unwrap_or(&text);
    match status.as_bytes() {
        [b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', b' ', ..] => format!("HTTP {status}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_of_http_is_called_one_and_nothing_else_is() {
        for (failure, words) in [
            (
                Failure::Unknown("unexpected answer 404 without a body".to_owned()),
                "HTTP 404 without a body",
            ),
            (
                Failure::Fail(Reason::Other("400 bad-request: no".to_owned())),
                "HTTP 400 bad-request: no",
            ),
            (
                Failure::Unknown("no answer in time".to_owned()),
                "no answer in time",
            ),
        ] {
            assert_eq!(told(&failure), words);
        }
    }
}
