//! Fencepost's own lock service, over HTTP.
//!
//! | request | body | answers |
//! |---|---|---|
//! | `POST /v1/locks/{lock}/acquire` | `{"client","ttl_ms","wait_ms"}` | 200 `{"token","ttl_ms"}`, 409 `held`, 409 `token-exhausted` |
//! | `POST /v1/locks/{lock}/renew` | `{"client","token","ttl_ms"}` | 200 `{"token","ttl_ms"}`, 409 `not-held` |
//! | `POST /v1/locks/{lock}/release` | `{"client","token"}` | 200 with any body, 409 `not-held` |
//!
//! A refusal is `{"error"}`; 400 and 429 are definite too. See [`crate::client::Failure`] for all the rest.

use std::time::Duration;

use fencepost_checker::history::Token;
use serde::{Deserialize, Serialize};

use crate::client::http::{Answer, Service, answer, segment};
use crate::client::{Call, Endpoint, EndpointError, Grant, Lock, Outcome, Reason};

fencepost_checker::only_objects!(read Granted);

/// Makes one client.
pub(super) fn connect(endpoint: &Endpoint<'_>) -> Result<Box<dyn Lock>, EndpointError> {
    Ok(Box::new(ReferenceLock {
        service: Service::new(endpoint)?,
        client: endpoint.client.to_owned(),
    }))
}

/// One client of the reference lock service.
struct ReferenceLock {
    service: Service,
    client: String,
}

/// The body of every request; what a request does not need is left out.
#[derive(Serialize)]
struct Ask<'a> {
    client: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<Token>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_ms: Option<u64>,
}

/// The answer to an acquire and to a renewal.
#[derive(Deserialize)]
#[serde(remote = "Self")]
struct Granted {
    token: Token,
    ttl_ms: u64,
}

impl From<Granted> for Grant {
    fn from(granted: Granted) -> Self {
        Self {
            token: granted.token,
            ttl: Some(Duration::from_millis(granted.ttl_ms)),
        }
    }
}

impl ReferenceLock {
    /// The request body that says who asks.
    fn ask(&self) -> Ask<'_> {
        Ask {
            client: &self.client,
            token: None,
            ttl_ms: None,
            wait_ms: None,
        }
    }

    async fn acquire(&self, lock: &str, ttl: Duration, wait: Duration) -> Outcome<Grant> {
        let path = format!("/v1/locks/{}/acquire", segment(lock)?);
        let ask = Ask {
            ttl_ms: Some(millis(ttl)),
            wait_ms: Some(millis(wait)),
            ..self.ask()
        };
        let patience = self.service.timeout().saturating_add(wait);
        let answer = answer(self.service.post(&path).json(&ask).timeout(patience)).await?;
        let accepted = answer.accepted(|_, status, error| match (status, error) {
            (409, "held") => Some(Reason::Held),
            (409, "token-exhausted") => Some(Reason::TokenExhausted),
            _ => None,
        })?;
        Ok(accepted.promised::<Granted>()?.into())
    }

    async fn renew(&self, lock: &str, token: Token, ttl: Duration) -> Outcome<Grant> {
        let path = format!("/v1/locks/{}/renew", segment(lock)?);
        let ask = Ask {
            token: Some(token),
            ttl_ms: Some(millis(ttl)),
            ..self.ask()
        };
        let answer = answer(self.service.post(&path).json(&ask)).await?;
        Ok(answer.accepted(not_held)?.promised::<Granted>()?.into())
    }

    async fn release(&self, lock: &str, token: Token) -> Outcome<()> {
        let path = format!("/v1/locks/{}/release", segment(lock)?);
        let ask = Ask {
            token: Some(token),
            ..self.ask()
        };
        let answer = answer(self.service.post(&path).json(&ask)).await?;
        answer.accepted(not_held)?;
        Ok(())
    }
}

fn not_held(_: &Answer, status: u16, error: &str) -> Option<Reason> {
    (status == 409 && error == "not-held").then_some(Reason::NotHeld)
}

/// Whole milliseconds; what does not fit is for the service to refuse.
fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

impl Lock for ReferenceLock {
    fn acquire<'a>(&'a self, lock: &'a str, ttl: Duration, wait: Duration) -> Call<'a, Grant> {
        Box::pin(self.acquire(lock, ttl, wait))
    }

    fn renew<'a>(&'a self, lock: &'a str, token: Token, ttl: Duration) -> Call<'a, Grant> {
        Box::pin(self.renew(lock, token, ttl))
    }

    fn release<'a>(&'a self, lock: &'a str, token: Token) -> Call<'a, ()> {
        Box::pin(self.release(lock, token))
    }
}
