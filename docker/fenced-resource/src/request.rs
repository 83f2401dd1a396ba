//! The parts of a request, read strictly.
//!
//! Promises: what a handler is given is within its limits, and what is not is answered with a reason.
//!
//! Does not trim: HTTP itself strips the blanks around a header's value before anybody here sees it,
//! so `Fencing-Token:  42 ` is 42; every other blank is refused.

use axum::extract::rejection::StringRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};

use crate::answer::Failure;
use crate::token::{self, TokenError};
use crate::way::Condition;

/// The header that carries the token.
const TOKEN_HEADER: &str = "fencing-token";

/// The header that names the client, for metrics.
const CLIENT_HEADER: &str = "fencing-client";

/// The header that names the lock whose mark is asked for.
const LOCK_HEADER: &str = "fencing-lock";

/// The header under which a second effect is none.
const IDEMPOTENCY_HEADER: &str = "idempotency-key";

/// The longest name of a key, in bytes.
pub(crate) const MAX_KEY_BYTES: usize = 200;

/// The longest value, in bytes.
pub(crate) const MAX_VALUE_BYTES: usize = 64 * 1024;

/// The longest name of a client, in bytes.
const MAX_CLIENT_BYTES: usize = 100;

/// The name of a key: 1 to 200 bytes of printable ASCII without a slash.
#[derive(Debug)]
pub(crate) struct Key(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let Path(key) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Failure::BadRequest(rejection.body_text()))?;
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            return Err(Failure::BadRequest(format!(
                "the key has {} bytes; it must have 1 to {MAX_KEY_BYTES}",
                key.len()
            )));
        }
        if !key.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'/') {
            return Err(Failure::BadRequest(
                "the key must be printable ASCII without a slash".to_owned(),
            ));
        }
        Ok(Key(key))
    }
}

/// The token of a write, and who presents it.
#[derive(Debug)]
pub(crate) struct Presented {
    pub(crate) token: u64,
    /// `unknown` if the client did not say, `invalid` if it is overlong or not printable.
    pub(crate) client: String,
    /// What must be so beside the token.
    pub(crate) condition: Option<Condition>,
}

impl<S: Send + Sync> FromRequestParts<S> for Presented {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let token = presented_token(&parts.headers)
            .map_err(|error| Failure::BadRequest(error.to_string()))?;
        Ok(Presented {
            token,
            client: client_name(&parts.headers),
            condition: condition(&parts.headers)?,
        })
    }
}

/// The lock whose mark is asked for, if one is.
#[derive(Debug)]
pub(crate) struct OfLock(pub(crate) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for OfLock {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        Ok(OfLock(text_of(&parts.headers, LOCK_HEADER)?))
    }
}

/// The key under which a second effect is none, if there is one.
#[derive(Debug)]
pub(crate) struct Idempotency(pub(crate) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for Idempotency {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        Ok(Idempotency(text_of(&parts.headers, IDEMPOTENCY_HEADER)?))
    }
}

fn condition(headers: &HeaderMap) -> Result<Option<Condition>, Failure> {
    let holds = text_of(headers, "if-match")?.map(Condition::Holds);
    match text_of(headers, "if-none-match")?.as_deref() {
        None => Ok(holds),
        Some("*") if holds.is_none() => Ok(Some(Condition::Absent)),
        Some(_) => Err(Failure::BadRequest(
            "If-None-Match must be * and stand alone".to_owned(),
        )),
    }
}

/// A header of printable ASCII, as long as a key at the most; `None` where it is absent.
fn text_of(headers: &HeaderMap, name: &str) -> Result<Option<String>, Failure> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    match value.to_str() {
        Ok(text) if (1..=MAX_KEY_BYTES).contains(&text.len()) => Ok(Some(text.to_owned())),
        _ => Err(Failure::BadRequest(format!(
            "the header {name} must be 1 to {MAX_KEY_BYTES} bytes of printable ASCII"
        ))),
    }
}

fn presented_token(headers: &HeaderMap) -> Result<u64, TokenError> {
    let mut values = headers.get_all(TOKEN_HEADER).iter();
    let value = values.next().ok_or(TokenError::Missing)?;
    if values.next().is_some() {
        return Err(TokenError::Repeated);
    }
    token::parse(value.to_str().map_err(|_| TokenError::NotANumber)?)
}

/// A write is never refused for the name of its client: the name decides nothing.
fn client_name(headers: &HeaderMap) -> String {
    let Some(value) = headers.get(CLIENT_HEADER) else {
        return "unknown".to_owned();
    };
    match value.to_str() {
        Ok(name) if (1..=MAX_CLIENT_BYTES).contains(&name.len()) => name.to_owned(),
        _ => "invalid".to_owned(),
    }
}

/// The value of a write: UTF-8 text of at most 64 KiB.
#[derive(Debug)]
pub(crate) struct Value(pub(crate) String);

impl<S: Send + Sync> FromRequest<S> for Value {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        match String::from_request(request, state).await {
            Ok(value) => Ok(Value(value)),
            Err(rejection) => Err(unreadable(&rejection)),
        }
    }
}

fn unreadable(rejection: &StringRejection) -> Failure {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Failure::TooLarge(format!(
            "the value is too large; at most {MAX_VALUE_BYTES} bytes are stored"
        )),
        _ => Failure::BadRequest(rejection.body_text()),
    }
}
