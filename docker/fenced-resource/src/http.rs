//! The HTTP interface: from a request to the writer or the store, and back to an answer.
//!
//! Promises: an answer to a write leaves only after the writer gave its outcome, and a read begins
//! only after its request arrived, so an acknowledged write is seen by every later read.
//!
//! Does not decide or count anything itself. The table of paths is in the documentation of the crate.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};

use crate::answer::{self, Failure};
use crate::defects::{BETWEEN_CHECK_AND_WRITE, Defect};
use crate::fence::{self, Decision};
use crate::metrics::{self, Metrics};
use crate::request::{Key, MAX_VALUE_BYTES, Presented, Value};
use crate::store::Store;
use crate::writer::{Outcome, Queue, Write};

/// The most keys that one list holds.
const MAX_LISTED: usize = 10_000;

/// What the handlers share.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) queue: Queue,
    pub(crate) store: Arc<Store>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) defect: Option<Defect>,
}

/// All paths of the service.
pub(crate) fn router(service: Service) -> Router {
    Router::new()
        .route("/v1/keys", get(list))
        .route("/v1/keys/{key}", get(read).put(write))
        .route("/healthz", get(health))
        .route("/metrics", get(scrape))
        .fallback(async || Failure::NotFound)
        .method_not_allowed_fallback(async || Failure::MethodNotAllowed)
        .layer(DefaultBodyLimit::max(MAX_VALUE_BYTES))
        .with_state(service)
}

/// All parts are taken before the first is judged: a request that is refused with its body unread
/// would cost the client its connection.
async fn write(
    State(service): State<Service>,
    key: Result<Key, Failure>,
    presented: Result<Presented, Failure>,
    value: Result<Value, Failure>,
) -> Result<Json<answer::Written>, Failure> {
    let (Key(key), Presented { token, client }, Value(value)) = (key?, presented?, value?);
    if service.defect == Some(Defect::CheckThenWrite) {
        check_first(&service, &key, token).await?;
    }
    let write = Write {
        key,
        token,
        client,
        value,
    };
    match service.queue.submit(write).await? {
        Outcome::Accepted { high_water } => Ok(Json(answer::Written { high_water })),
        Outcome::Refused { high_water } => Err(Failure::StaleToken { high_water }),
        Outcome::TooManyKeys => Err(Failure::TooManyKeys),
    }
}

/// The planted defect `check-then-write`: the first of its two steps.
async fn check_first(service: &Service, key: &str, token: u64) -> Result<(), Failure> {
    let key = key.to_owned();
    let found = on_store(service, move |store| store.record(&key)).await?;
    let high_water = found.map_or(0, |record| record.high_water);
    if fence::decide(token, high_water) == Decision::Refuse {
        return Err(Failure::StaleToken { high_water });
    }
    tokio::time::sleep(BETWEEN_CHECK_AND_WRITE).await;
    Ok(())
}

async fn read(
    State(service): State<Service>,
    Key(key): Key,
) -> Result<Json<answer::Value>, Failure> {
    let record = match service.store.recent(&key) {
        Some(record) => Some(record),
        None => on_store(&service, move |store| store.record(&key)).await?,
    };
    Ok(Json(match record {
        Some(record) => answer::Value {
            value: Some(record.value),
            token: Some(record.token),
            high_water: record.high_water,
        },
        None => answer::Value {
            value: None,
            token: None,
            high_water: 0,
        },
    }))
}

async fn list(State(service): State<Service>) -> Result<Json<answer::Keys>, Failure> {
    let (marks, truncated) = on_store(&service, |store| store.marks(MAX_LISTED)).await?;
    let keys = marks
        .into_iter()
        .map(|mark| answer::Key {
            key: mark.key,
            token: mark.token,
            high_water: mark.high_water,
        })
        .collect();
    Ok(Json(answer::Keys { keys, truncated }))
}

/// Well means that the store can be read.
async fn health(State(service): State<Service>) -> Result<Json<answer::Health>, Failure> {
    on_store(&service, |store| store.marks(0)).await?;
    Ok(Json(answer::Health { status: "ok" }))
}

async fn scrape(State(service): State<Service>) -> impl IntoResponse {
    (
        [(CONTENT_TYPE, metrics::CONTENT_TYPE)],
        service.metrics.text(),
    )
}

/// Runs blocking work on the store away from the threads that serve connections.
async fn on_store<T: Send + 'static>(
    service: &Service,
    work: impl FnOnce(&Store) -> Result<T, redb::Error> + Send + 'static,
) -> Result<T, Failure> {
    let store = Arc::clone(&service.store);
    match tokio::task::spawn_blocking(move || work(&store)).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(Failure::Storage(error.to_string())),
        Err(error) => Err(Failure::Storage(error.to_string())),
    }
}
