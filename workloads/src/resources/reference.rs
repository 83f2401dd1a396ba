//! Fencepost's own fenced resource, over HTTP.
//!
//! | request | answers |
//! |---|---|
//! | `PUT /v1/keys/{key}` with headers `Fencing-Token` and `Fencing-Client`; the body is the value | 200 `{"high_water"}`, 409 `stale-token` with `high_water`, 503 `overloaded` |
//! | `GET /v1/keys/{key}` | 200 `{"value" or null,"token","high_water"}`, without `token` where the key was never written |
//!
//! | `PUT` on `/v1/cache/`, `/v1/webhooks/`, `/v1/admin/` | the same for a path beside the primary one |
//! | `POST /v1/effects/{key}` with `Idempotency-Key`, `GET` of it | 200; 200 `{"effects"}` |
//!
//! With `mark = "lock"` a write and a read name the lock in `Fencing-Lock`. With `fence = "conditional"` a write asks for
//! the value that was there just before (`If-Match`), with `idempotency-key` and `no-key` the resource takes effects.
//! `none` is a resource that compares nothing; the client is the same.
//!
//! A refusal is `{"error"}`; 400 and 429 are definite too. See [`crate::client::Failure`] for all the rest.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use fencepost_checker::history::Token;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use serde::{Deserialize, Deserializer};

use crate::client::http::{Answer, Service, answer, segment};
use crate::client::{
    Call, Endpoint, EndpointError, Failure, Outcome, Reading, Reason, Resource, Write, Written,
};
use crate::defects::HolderDefect;

fencepost_checker::only_objects!(read Effects, Mark, Value);

/// Makes one client.
pub(super) fn connect(endpoint: &Endpoint<'_>) -> Result<Box<dyn Resource>, EndpointError> {
    let client = HeaderValue::from_str(endpoint.client)
        .map_err(|_| endpoint.unusable("the name goes into a header: printable ASCII is right"))?;
    let settings = &endpoint.options.resource_settings;
    let retries = endpoint.options.plant == Some(HolderDefect::SdkRetry);
    let fence = settings.fence.as_deref().unwrap_or_default();
    Ok(Box::new(ReferenceResource {
        service: Service::new(endpoint)?,
        client,
        mark_of_lock: settings.mark.as_deref() == Some("lock"),
        conditional: retries || fence == "conditional",
        last: Mutex::default(),
        retries,
        effects: match fence {
            "idempotency-key" => Some(Keyed::ByValue),
            "no-key" => Some(Keyed::No),
            _ => None,
        },
    }))
}

/// How often an effect is sent until it is acknowledged, and a write of `sdk-retry` at the most.
const ATTEMPTS: u32 = 6;

/// How an effect says that it is the same one again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Keyed {
    /// Its value is its idempotency key: no two effects of a run have one value.
    ByValue,
    /// It does not.
    No,
}

/// One client of the reference resource.
struct ReferenceResource {
    service: Service,
    client: HeaderValue,
    /// The high water asked for is the lock's.
    mark_of_lock: bool,
    /// A write asks for the value that was there just before.
    conditional: bool,
    /// The value that it wrote last, by key: what a conditional write asks for without another look.
    last: Mutex<HashMap<String, String>>,
    /// The planted defect `sdk-retry`.
    retries: bool,
    /// It takes effects instead of values.
    effects: Option<Keyed>,
}

/// The answer to a read of effects.
#[derive(Deserialize)]
#[serde(remote = "Self")]
struct Effects {
    effects: Vec<String>,
}

/// What a write asks for beside the fence.
#[derive(Clone, Copy, Debug)]
enum Condition<'a> {
    None,
    Absent,
    Holds(&'a str),
}

impl<'a> Condition<'a> {
    /// That the key is as it was read.
    fn of(value: Option<&'a str>) -> Self {
        value.map_or(Self::Absent, Self::Holds)
    }
}

/// The mark in the answer to a write, whether accepted or refused as stale.
#[derive(Deserialize)]
#[serde(remote = "Self")]
struct Mark {
    high_water: Token,
}

/// The answer to a read.
#[derive(Deserialize)]
#[serde(remote = "Self")]
struct Value {
    #[serde(deserialize_with = "present")]
    value: Option<String>,
    token: Option<Token>,
    high_water: Token,
}

/// Text or null, but there: an answer that leaves the value out says nothing about it.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(deserializer)
}

impl ReferenceResource {
    async fn write(&self, write: Write<'_>) -> Outcome<Written> {
        if !self.conditional {
            return self.put(write, Condition::None).await;
        }
        let last = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            last.remove(write.key)
        };
        let known = match last {
            Some(value) => Some(value),
            None => self.value_before(write).await?,
        };
        let outcome = self.put_over(write, known.as_deref()).await;
        if outcome.is_ok() {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            last.insert(write.key.to_owned(), write.value.to_owned());
        }
        outcome
    }

    /// Nothing was sent yet that could change anything: whatever goes wrong is a definite no.
    async fn value_before(&self, write: Write<'_>) -> Outcome<Option<String>> {
        let known = self.read(write.lock, write.key).await.map_err(|failure| {
            Failure::Fail(Reason::Other(format!(
                "the value before is not known: {failure:?}"
            )))
        })?;
        Ok(known.value)
    }

    /// Writes over that value; under `sdk-retry` again and again until there is an answer.
    async fn put_over(&self, write: Write<'_>, known: Option<&str>) -> Outcome<Written> {
        let condition = Condition::of(known);
        let mut outcome = self.put(write, condition).await;
        for _ in 1..ATTEMPTS {
            if !self.retries || !matches!(outcome, Err(Failure::Unknown(_))) {
                break;
            }
            outcome = self.put(write, condition).await;
        }
        outcome
    }

    /// Sends a write, once. A workload without tokens presents 0, which no mark stands against.
    async fn put(&self, write: Write<'_>, condition: Condition<'_>) -> Outcome<Written> {
        let way = match write.path {
            None => "keys",
            Some("webhook") => "webhooks",
            Some(path) => path,
        };
        let path = format!("/v1/{}/{}", segment(way)?, segment(write.key)?);
        let token = write.token.unwrap_or(Token::ZERO);
        let mut request = self
            .service
            .put(&path)
            .header("fencing-token", token.to_string())
            .header("fencing-client", self.client.clone())
            .header(CONTENT_TYPE, "text/plain; charset=utf-8")
            .body(write.value.to_owned());
        if let Some(lock) = write.lock.filter(|_| self.mark_of_lock) {
            request = request.header("fencing-lock", lock);
        }
        request = match condition {
            Condition::None => request,
            Condition::Absent => request.header("if-none-match", "*"),
            Condition::Holds(value) => request.header("if-match", value),
        };
        let answer = answer(request).await?;
        let accepted = answer.accepted(|answer, status, error| match (status, error) {
            (412, "condition-failed") => Some(Reason::Other("conflict".to_owned())),
            (409, "stale-token") => {
                let Mark { high_water } = answer.json()?;
                Some(Reason::StaleToken {
                    high_water: Some(high_water),
                })
            }
            _ => overloaded(answer, status, error),
        })?;
        let Mark { high_water } = accepted.promised()?;
        Ok(Written {
            high_water: Some(high_water),
        })
    }

    async fn append(&self, key: &str, value: &str) -> Outcome<()> {
        let path = format!("/v1/effects/{}", segment(key)?);
        let mut outcome = Ok(());
        for _ in 0..ATTEMPTS {
            let mut request = self.service.post(&path).body(value.to_owned());
            if self.effects == Some(Keyed::ByValue) {
                request = request.header("idempotency-key", value);
            }
            let sent = match answer(request).await {
                Ok(answer) => answer.accepted(overloaded).map(|_| ()),
                Err(failure) => Err(failure),
            };
            outcome = match (sent, outcome) {
                (Ok(()), _) => return Ok(()),
                // One that may have arrived is not undone by a later one that did not.
                (Err(Failure::Fail(_)), Err(Failure::Unknown(text))) => Err(Failure::Unknown(text)),
                (Err(failure), _) => Err(failure),
            };
        }
        outcome
    }

    async fn list(&self, key: &str) -> Outcome<Vec<String>> {
        let path = format!("/v1/effects/{}", segment(key)?);
        let Effects { effects } = answer(self.service.read(&path))
            .await?
            .accepted(overloaded)?
            .promised()?;
        Ok(effects)
    }

    async fn read(&self, lock: Option<&str>, key: &str) -> Outcome<Reading> {
        let path = format!("/v1/keys/{}", segment(key)?);
        let mut request = self
            .service
            .read(&path)
            .header("fencing-client", self.client.clone());
        if let Some(lock) = lock.filter(|_| self.mark_of_lock) {
            request = request.header("fencing-lock", lock);
        }
        let Value {
            value,
            token,
            high_water,
        } = answer(request).await?.accepted(overloaded)?.promised()?;
        Ok(Reading {
            value,
            token,
            high_water: Some(high_water),
        })
    }
}

fn overloaded(answer: &Answer, status: u16, error: &str) -> Option<Reason> {
    (status == 503 && error == "overloaded").then(|| Reason::Other(answer.quoted()))
}

impl Resource for ReferenceResource {
    fn write<'a>(&'a self, key: &'a str, token: Token, value: &'a str) -> Call<'a, Written> {
        self.write_as(Write {
            lock: None,
            key,
            path: None,
            token: Some(token),
            value,
        })
    }

    fn read<'a>(&'a self, key: &'a str) -> Call<'a, Reading> {
        Box::pin(self.read(None, key))
    }

    fn write_as<'a>(&'a self, write: Write<'a>) -> Call<'a, Written> {
        Box::pin(self.write(write))
    }

    fn read_under<'a>(&'a self, lock: Option<&'a str>, key: &'a str) -> Call<'a, Reading> {
        Box::pin(self.read(lock, key))
    }

    fn compare_and_set<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a str>,
        value: &'a str,
    ) -> Call<'a, ()> {
        let write = Write {
            lock: None,
            key,
            path: None,
            token: None,
            value,
        };
        Box::pin(async move {
            self.put(write, Condition::of(expected)).await?;
            Ok(())
        })
    }

    fn append<'a>(&'a self, key: &'a str, value: &'a str) -> Call<'a, ()> {
        Box::pin(self.append(key, value))
    }

    fn effects<'a>(&'a self, key: &'a str) -> Option<Call<'a, Vec<String>>> {
        self.effects?;
        Some(Box::pin(self.list(key)))
    }
}
