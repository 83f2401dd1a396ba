//! Fencepost's own fenced resource, over HTTP.
//!
//! | request | answers |
//! |---|---|
//! | `PUT /v1/keys/{key}` with headers `Fencing-Token` and `Fencing-Client`; the body is the value | 200 `{"high_water"}`, 409 `stale-token` with `high_water`, 503 `overloaded` |
//! | `GET /v1/keys/{key}` | 200 `{"value" or null,"token","high_water"}`, without `token` where the key was never written |
//!
//! A refusal is `{"error"}`; 400 and 429 are definite too. See [`crate::client::Failure`] for all the rest.

use fencepost_checker::history::Token;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use serde::{Deserialize, Deserializer};

use crate::client::http::{Answer, Service, answer, segment};
use crate::client::{Call, Endpoint, EndpointError, Outcome, Reading, Reason, Resource, Written};

/// Makes one client.
pub(super) fn connect(endpoint: &Endpoint<'_>) -> Result<Box<dyn Resource>, EndpointError> {
    let client = HeaderValue::from_str(endpoint.client)
        .map_err(|_| endpoint.unusable("the name goes into a header: printable ASCII is right"))?;
    Ok(Box::new(ReferenceResource {
        service: Service::new(endpoint)?,
        client,
    }))
}

/// One client of the reference resource.
struct ReferenceResource {
    service: Service,
    client: HeaderValue,
}

/// The mark in the answer to a write, whether accepted or refused as stale.
#[derive(Deserialize)]
struct Mark {
    high_water: Token,
}

/// The answer to a read.
#[derive(Deserialize)]
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
    async fn write(&self, key: &str, token: Token, value: &str) -> Outcome<Written> {
        let path = format!("/v1/keys/{}", segment(key)?);
        let request = self
            .service
            .put(&path)
            .header("fencing-token", token.to_string())
            .header("fencing-client", self.client.clone())
            .header(CONTENT_TYPE, "text/plain; charset=utf-8")
            .body(value.to_owned());
        let answer = answer(request).await?;
        let accepted = answer.accepted(|answer, status, error| match (status, error) {
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

    async fn read(&self, key: &str) -> Outcome<Reading> {
        let path = format!("/v1/keys/{}", segment(key)?);
        let request = self
            .service
            .read(&path)
            .header("fencing-client", self.client.clone());
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
        Box::pin(self.write(key, token, value))
    }

    fn read<'a>(&'a self, key: &'a str) -> Call<'a, Reading> {
        Box::pin(self.read(key))
    }
}
