//! The answers as they stand on the wire.
//!
//! Promises: every answer of a handler is one JSON object (only `/metrics` is text), and every error,
//! the framework's own included, has the field `error` with one of the words below. Numbers are
//! written out in full, up to 2^64-1: a reader that rounds to a double loses them.
//!
//! Does not cover what never becomes a request, such as malformed HTTP: that is answered by the
//! HTTP layer, without a body.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::writer::NoOutcome;

/// A write that was accepted.
#[derive(Debug, Serialize)]
pub(crate) struct Written {
    pub(crate) high_water: u64,
}

/// What a key holds; `value` is null and `token` absent if it was never written.
#[derive(Debug, Serialize)]
pub(crate) struct Value {
    pub(crate) value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<u64>,
    pub(crate) high_water: u64,
}

/// The effects of a key, in the order in which they were added.
#[derive(Debug, Serialize)]
pub(crate) struct Effects {
    pub(crate) effects: Vec<String>,
}

/// An effect that was added, or had been.
#[derive(Debug, Serialize)]
pub(crate) struct Done {}

/// The keys that exist, in byte order.
#[derive(Debug, Serialize)]
pub(crate) struct Keys {
    pub(crate) keys: Vec<Key>,
    /// Whether there are more keys than the list holds.
    pub(crate) truncated: bool,
}

/// One key of the list, without its value.
#[derive(Debug, Serialize)]
pub(crate) struct Key {
    pub(crate) key: String,
    pub(crate) token: u64,
    pub(crate) high_water: u64,
}

/// The service is well.
#[derive(Debug, Serialize)]
pub(crate) struct Health {
    pub(crate) status: &'static str,
}

/// Why a request was not granted. All but `Storage` are definite: nothing was written.
#[derive(Debug)]
pub(crate) enum Failure {
    BadRequest(String),
    StaleToken { high_water: u64 },
    ConditionFailed,
    TooLarge(String),
    NotFound,
    MethodNotAllowed,
    TooManyKeys,
    Overloaded(String),
    Stopping(String),
    Storage(String),
}

#[derive(Serialize)]
struct FailureBody {
    error: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    high_water: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl Failure {
    fn status(&self) -> StatusCode {
        match self {
            Failure::BadRequest(_) => StatusCode::BAD_REQUEST,
            Failure::StaleToken { .. } => StatusCode::CONFLICT,
            Failure::ConditionFailed => StatusCode::PRECONDITION_FAILED,
            Failure::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Failure::NotFound => StatusCode::NOT_FOUND,
            Failure::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Failure::TooManyKeys => StatusCode::INSUFFICIENT_STORAGE,
            Failure::Overloaded(_) | Failure::Stopping(_) => StatusCode::SERVICE_UNAVAILABLE,
            Failure::Storage(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn body(self) -> FailureBody {
        let said = |error, message| FailureBody {
            error,
            high_water: None,
            message: Some(message),
        };
        match self {
            Failure::StaleToken { high_water } => FailureBody {
                error: "stale-token",
                high_water: Some(high_water),
                message: None,
            },
            Failure::BadRequest(message) => said("bad-request", message),
            Failure::ConditionFailed => said(
                "condition-failed",
                "the key is not as the condition asks; it was not written".to_owned(),
            ),
            Failure::TooLarge(message) => said("too-large", message),
            Failure::NotFound => said("not-found", "there is nothing at this path".to_owned()),
            Failure::MethodNotAllowed => said(
                "method-not-allowed",
                "this path does not know that method".to_owned(),
            ),
            Failure::TooManyKeys => said(
                "too-many-keys",
                "the key is new and the store is full; it was not written".to_owned(),
            ),
            Failure::Overloaded(message) => said("overloaded", message),
            Failure::Stopping(message) => said("stopping", message),
            Failure::Storage(message) => said("storage", message),
        }
    }
}

impl From<NoOutcome> for Failure {
    fn from(error: NoOutcome) -> Self {
        let message = error.to_string();
        match error {
            NoOutcome::Overloaded => Failure::Overloaded(message),
            NoOutcome::Stopping => Failure::Stopping(message),
            NoOutcome::Storage(_) => Failure::Storage(message),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status(), Json(self.body())).into_response()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use axum::response::IntoResponse;
    use serde_json::{Value, json};

    use super::{Failure, NoOutcome};

    #[tokio::test]
    async fn every_failure_has_its_status_and_its_word() {
        let said = |error: &str| json!({"error": error, "message": "m"});
        let table = [
            (
                Failure::StaleToken { high_water: 43 },
                409,
                json!({"error": "stale-token", "high_water": 43}),
            ),
            (Failure::BadRequest("m".into()), 400, said("bad-request")),
            (Failure::TooLarge("m".into()), 413, said("too-large")),
            (
                Failure::from(NoOutcome::Overloaded),
                503,
                json!({"error": "overloaded", "message": "too many writes are waiting; this one was not applied"}),
            ),
            (
                Failure::from(NoOutcome::Stopping),
                503,
                json!({"error": "stopping", "message": "the service is stopping; this write was not applied"}),
            ),
            (
                Failure::from(NoOutcome::Storage("disk".into())),
                500,
                json!({"error": "storage", "message": "disk; whether this write was applied is unknown"}),
            ),
        ];
        for (failure, status, body) in table {
            let response = failure.into_response();
            assert_eq!(response.status().as_u16(), status, "{body}");
            let bytes = to_bytes(response.into_body(), 1_000)
                .await
                .expect("a short body");
            let sent: Value = serde_json::from_slice(&bytes).expect("a JSON body");
            assert_eq!(sent, body);
        }
    }
}
