//! What was asked and answered, in order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use fencepost_checker::finding::Finding;
use fencepost_checker::history::{Event, History, HistoryError, Line, Type, jsonl};
use fencepost_checker::verdict::Judgement;
use fencepost_checker::{Model, judge};
use fencepost_workloads::client::{Failure, Outcome, Reading, Reason, Resource, Write, Written};

/// The record of a probe. Position and time of a line are assigned together.
#[derive(Debug)]
pub struct Notes {
    begun: Instant,
    lines: Mutex<Vec<Event>>,
    next_process: AtomicU64,
}

impl Default for Notes {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            lines: Mutex::default(),
            next_process: AtomicU64::new(0),
        }
    }
}

impl Notes {
    /// Writes through `resource` and notes it, as client `client`.
    pub async fn write(
        &self,
        resource: &dyn Resource,
        client: &str,
        write: Write<'_>,
    ) -> Outcome<Written> {
        let mut event = self.event(client, "write", write.key);
        event.token = write.token;
        event.value = Some(write.value.into());
        event.path = write.path.map(str::to_owned);
        self.note(event.clone());
        let outcome = resource.write_as(write).await;
        let (kind, error, high_water) = match &outcome {
            Ok(written) => (Type::Ok, None, written.high_water),
            Err(Failure::Fail(reason)) => {
                let high_water = match reason {
                    Reason::StaleToken { high_water } => *high_water,
                    _ => None,
                };
                (Type::Fail, Some(reason.to_string()), high_water)
            }
            Err(Failure::Unknown(text)) => (Type::Info, Some(text.clone()), None),
        };
        self.note(Event {
            kind,
            error,
            high_water,
            token: None,
            value: None,
            ..event
        });
        outcome
    }

    /// Reads through `resource` and notes it.
    pub async fn read(&self, resource: &dyn Resource, client: &str, key: &str) -> Outcome<Reading> {
        let event = self.event(client, "read", key);
        self.note(event.clone());
        let outcome = resource.read(key).await;
        self.note(match &outcome {
            Ok(reading) => Event {
                kind: Type::Ok,
                value: Some(reading.value.clone().into()),
                token: reading.token,
                high_water: reading.high_water,
                ..event
            },
            Err(failure) => Event {
                kind: Type::Info,
                error: Some(format!("{failure:?}")),
                ..event
            },
        });
        outcome
    }

    /// How many operations were noted.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.lines.lock().map_or(0, |lines| lines.len() / 2)
    }

    /// What the checker says of all of it. Keys are rounds of one question, so what was seen on many of them is one finding
    /// here: the first, with the count of all.
    ///
    /// # Errors
    /// Never, unless lines that we wrote cannot be read.
    pub fn judged(&self) -> Result<Judgement, HistoryError> {
        let lines = self.lines.lock().expect("nobody panics with this lock");
        let mut text = String::new();
        for event in lines.iter() {
            text += &jsonl::write(&Line::Event(Box::new(event.clone())));
            text.push('\n');
        }
        let mut judgement = judge(&History::read(text.as_bytes())?, Model::Fencing);
        judgement.findings = one_a_name(&judgement.findings);
        Ok(judgement)
    }

    /// An invocation by a process of its own. Its client is a new one for each key: rounds have nothing to do with each
    /// other, and a token that is presented in many of them is not tried again.
    fn event(&self, client: &str, f: &str, key: &str) -> Event {
        Event {
            client: Some(format!("{client}-{key}")),
            key: Some(key.to_owned()),
            ..Event::new(self.next_process.fetch_add(1, Relaxed), Type::Invoke, f)
        }
    }

    fn note(&self, mut event: Event) {
        let mut lines = self.lines.lock().expect("nobody panics with this lock");
        event.index = lines.len() as u64;
        event.time = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        lines.push(event);
    }
}

/// The first finding of each name and severity, with the count of all of them.
fn one_a_name(findings: &[Finding]) -> Vec<Finding> {
    let mut kept: Vec<Finding> = Vec::new();
    // Where each finding of the old list stands in the new one.
    let mut places = Vec::new();
    for finding in findings {
        let same =
            |one: &Finding| (&one.finding, one.severity) == (&finding.finding, finding.severity);
        let place = match kept.iter().position(same) {
            Some(place) => {
                kept[place].count += finding.count;
                place
            }
            None => {
                kept.push(finding.clone());
                kept.len() - 1
            }
        };
        places.push(place);
    }
    for (place, finding) in kept.iter_mut().enumerate() {
        let cause = finding.cause.and_then(|cause| places.get(cause).copied());
        finding.cause = cause.filter(|cause| *cause != place);
    }
    kept
}

#[cfg(test)]
mod tests {
    use fencepost_checker::finding::Severity;

    use super::*;

    #[test]
    fn what_was_seen_on_many_keys_is_one_finding_and_causes_still_point_to_their_roots() {
        let finding = |name: &str, count, cause| Finding {
            finding: name.to_owned(),
            severity: Severity::Violation,
            cause,
            lock: None,
            key: None,
            count,
            events: Vec::new(),
            story: String::new(),
        };
        let findings = [
            finding("a", 2, None),
            finding("a", 3, None),
            finding("b", 1, Some(1)),
            finding("b", 1, Some(2)),
        ];
        let kept = one_a_name(&findings);
        assert_eq!(kept, [finding("a", 5, None), finding("b", 2, Some(0))]);
    }
}
