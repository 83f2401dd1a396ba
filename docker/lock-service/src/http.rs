//! The HTTP face: paths in, JSON out.
//!
//! It promises one shape for everything that goes wrong, the framework's own complaints included:
//! `{"error":NAME}`, with a `message` where the request itself is at fault. It keeps no state.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};

use crate::Limits;
use crate::defects::{self, Defect};
use crate::desk::{Desk, Stopped};
use crate::metrics::{self, Metrics};
use crate::request::{self, Complaint, Reader};
use crate::state::Answer;

/// What every handler needs.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    pub desk: Desk,
    pub metrics: Arc<Metrics>,
    pub limits: Arc<Limits>,
    pub defect: Option<Defect>,
}

type LockPath = Result<Path<String>, PathRejection>;
type Body = Result<Bytes, BytesRejection>;

/// All routes of the service.
pub(crate) fn router(front: Front) -> Router {
    let body_bytes = front.limits.body_bytes;
    Router::new()
        .route("/v1/locks/{lock}", get(look))
        .route("/v1/locks/{lock}/acquire", post(acquire))
        .route("/v1/locks/{lock}/renew", post(renew))
        .route("/v1/locks/{lock}/release", post(release))
        .route("/metrics", get(show_metrics))
        .route("/healthz", get(health))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(body_bytes))
        .with_state(front)
}

async fn acquire(
    State(front): State<Front>,
    lock: LockPath,
    body: Body,
) -> Result<Response, Refusal> {
    front.ask(lock, body, request::acquire).await
}

async fn renew(
    State(front): State<Front>,
    lock: LockPath,
    body: Body,
) -> Result<Response, Refusal> {
    front.ask(lock, body, request::renew).await
}

async fn release(
    State(front): State<Front>,
    lock: LockPath,
    body: Body,
) -> Result<Response, Refusal> {
    front.ask(lock, body, request::release).await
}

async fn look(State(front): State<Front>, lock: LockPath) -> Result<Json<Value>, Refusal> {
    let lock = request::lock_name(&lock?, &front.limits)?;
    let view = front.desk.look(lock.clone()).await?;
    let holder = view.holder.map(|(hold, remaining)| {
        json!({
            "client": hold.client,
            "token": hold.token,
            "ttl_ms": milliseconds(hold.ttl),
            "remaining_ms": milliseconds(remaining),
        })
    });
    Ok(Json(json!({
        "lock": &*lock,
        "token": view.issued,
        "holder": holder,
        "waiting": view.waiting,
    })))
}

async fn show_metrics(State(front): State<Front>) -> Result<Response, Refusal> {
    let text = front.metrics.text().map_err(|error| Refusal {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        error: "internal",
        message: Some(format!("the metrics could not be written: {error}")),
    })?;
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}

async fn health() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

async fn no_such_path(uri: Uri) -> Refusal {
    let message = format!(
        "{} is no path here; there are /v1/locks/LOCK, /v1/locks/LOCK/acquire, renew and release, /metrics and /healthz",
        uri.path()
    );
    Refusal::of(StatusCode::NOT_FOUND, "not-found", message)
}

async fn no_such_method(method: Method, uri: Uri) -> Refusal {
    let message = format!("{} does not answer {method}", uri.path());
    Refusal::of(
        StatusCode::METHOD_NOT_ALLOWED,
        "method-not-allowed",
        message,
    )
}

impl Front {
    async fn ask(&self, lock: LockPath, body: Body, read: Reader) -> Result<Response, Refusal> {
        let lock = request::lock_name(&lock?, &self.limits)?;
        let request = read(&body?, &self.limits)?;
        let lock = defects::table_entry(self.defect, lock, request.client());
        let answer = self.desk.ask(lock, request).await?;
        self.response(answer)
    }

    fn response(&self, answer: Answer) -> Result<Response, Refusal> {
        match answer {
            Answer::Granted { token, ttl } | Answer::Renewed { token, ttl } => {
                let body = json!({"token": token, "ttl_ms": milliseconds(ttl)});
                Ok(Json(body).into_response())
            }
            Answer::Released => Ok(Json(json!({})).into_response()),
            Answer::Held => Err(Refusal::conflict("held")),
            Answer::NotHeld => Err(Refusal::conflict("not-held")),
            Answer::TokenExhausted => Err(Refusal::conflict("token-exhausted")),
            Answer::TooManyLocks => Err(Refusal::too_many("locks exist", self.limits.locks)),
            Answer::TooManyWaiters => Err(Refusal::too_many(
                "acquires wait for this lock",
                self.limits.waiters,
            )),
        }
    }
}

fn milliseconds(duration: std::time::Duration) -> u64 {
    // Leases are bounded far below 2^64 milliseconds.
    duration.as_millis() as u64
}

/// Anything but a yes.
#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    error: &'static str,
    message: Option<String>,
}

impl Refusal {
    fn of(status: StatusCode, error: &'static str, message: String) -> Self {
        Self {
            status,
            error,
            message: Some(message),
        }
    }

    fn conflict(error: &'static str) -> Self {
        Self {
            status: StatusCode::CONFLICT,
            error,
            message: None,
        }
    }

    fn too_many(what: &str, most: usize) -> Self {
        let message = format!("{most} {what} already, and no more may");
        Self::of(StatusCode::TOO_MANY_REQUESTS, "too-many", message)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = match self.message {
            Some(message) => json!({"error": self.error, "message": message}),
            None => json!({"error": self.error}),
        };
        (self.status, Json(body)).into_response()
    }
}

impl From<Complaint> for Refusal {
    fn from(Complaint(message): Complaint) -> Self {
        Self::of(StatusCode::BAD_REQUEST, "bad-request", message)
    }
}

impl From<PathRejection> for Refusal {
    fn from(rejection: PathRejection) -> Self {
        let message = format!(
            "lock must be percent-encoded UTF-8: {}",
            rejection.body_text()
        );
        Self::of(StatusCode::BAD_REQUEST, "bad-request", message)
    }
}

impl From<BytesRejection> for Refusal {
    fn from(rejection: BytesRejection) -> Self {
        let status = rejection.status();
        let message = format!("the body could not be read: {}", rejection.body_text());
        Self::of(status, "bad-request", message)
    }
}

impl From<Stopped> for Refusal {
    fn from(_: Stopped) -> Self {
        let message = "the service is stopping; whether the request took effect is not known";
        Self::of(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            message.into(),
        )
    }
}
