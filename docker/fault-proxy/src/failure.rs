//! What the API answers when it refuses: Toxiproxy's words, status codes and JSON shape.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// A refused API call.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("bad request body: {0}")]
    BadRequestBody(String),
    #[error("missing required field: {0}")]
    MissingField(String),
    #[error("proxy not found")]
    ProxyNotFound,
    #[error("proxy already exists")]
    ProxyAlreadyExists,
    #[error("stream was invalid, can be either upstream or downstream")]
    InvalidStream,
    #[error("invalid toxic type")]
    InvalidToxicType,
    #[error("toxic already exists")]
    ToxicAlreadyExists,
    #[error("toxic not found")]
    ToxicNotFound,
    /// The listen address cannot be had.
    #[error("listen tcp {listen}: {cause}")]
    Listen {
        listen: String,
        cause: std::io::Error,
    },
    /// Two proxies of one populate call share a name.
    #[error("duplicate proxy name {0:?}")]
    DuplicateName(String),
    /// A task of ours ended before its answer.
    #[error("internal: {0}")]
    Internal(String),
}

/// Toxiproxy's body of a refusal.
#[derive(Debug, Serialize)]
pub(crate) struct FailureBody {
    error: String,
    status: u16,
}

impl Failure {
    /// The HTTP status of the refusal.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Failure::BadRequestBody(_)
            | Failure::MissingField(_)
            | Failure::InvalidStream
            | Failure::InvalidToxicType => StatusCode::BAD_REQUEST,
            Failure::ProxyNotFound | Failure::ToxicNotFound => StatusCode::NOT_FOUND,
            Failure::ProxyAlreadyExists | Failure::ToxicAlreadyExists => StatusCode::CONFLICT,
            Failure::Listen { .. } | Failure::DuplicateName(_) | Failure::Internal(_) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }

    /// The JSON body of the refusal.
    pub(crate) fn body(&self) -> FailureBody {
        FailureBody {
            error: self.to_string(),
            status: self.status().as_u16(),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let kind = [(header::CONTENT_TYPE, "application/json")];
        let body = serde_json::to_string(&self.body()).unwrap_or_default();
        (self.status(), kind, body).into_response()
    }
}
