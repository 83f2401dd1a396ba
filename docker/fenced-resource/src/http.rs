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
use axum::routing::{get, put};
use axum::{Json, Router};

use crate::answer::{self, Failure};
use crate::defects::{BETWEEN_CHECK_AND_WRITE, Defect};
use crate::fence::{self, Decision};
use crate::metrics::{self, Metrics};
use crate::request::{Idempotency, Key, MAX_VALUE_BYTES, OfLock, Presented, Value};
use crate::store::{Record, Store};
use crate::way::{Path, lock_record};
use crate::writer::{self, Outcome, Queue, Write};

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
        .route("/v1/cache/{key}", put(write_cache))
        .route("/v1/webhooks/{key}", put(write_webhook))
        .route("/v1/admin/{key}", put(write_admin))
        .route("/v1/effects/{key}", get(list_effects).post(add_effect))
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
    lock: Result<OfLock, Failure>,
    value: Result<Value, Failure>,
) -> Result<Json<answer::Written>, Failure> {
    write_by(Path::Primary, service, key, presented, lock, value).await
}

async fn write_cache(
    State(service): State<Service>,
    key: Result<Key, Failure>,
    presented: Result<Presented, Failure>,
    lock: Result<OfLock, Failure>,
    value: Result<Value, Failure>,
) -> Result<Json<answer::Written>, Failure> {
    write_by(Path::Cache, service, key, presented, lock, value).await
}

async fn write_webhook(
    State(service): State<Service>,
    key: Result<Key, Failure>,
    presented: Result<Presented, Failure>,
    lock: Result<OfLock, Failure>,
    value: Result<Value, Failure>,
) -> Result<Json<answer::Written>, Failure> {
    write_by(Path::Webhook, service, key, presented, lock, value).await
}

async fn write_admin(
    State(service): State<Service>,
    key: Result<Key, Failure>,
    presented: Result<Presented, Failure>,
    lock: Result<OfLock, Failure>,
    value: Result<Value, Failure>,
) -> Result<Json<answer::Written>, Failure> {
    write_by(Path::Admin, service, key, presented, lock, value).await
}

async fn write_by(
    path: Path,
    service: Service,
    key: Result<Key, Failure>,
    presented: Result<Presented, Failure>,
    lock: Result<OfLock, Failure>,
    value: Result<Value, Failure>,
) -> Result<Json<answer::Written>, Failure> {
    let (Key(key), presented, Value(value), OfLock(lock)) = (key?, presented?, value?, lock?);
    let Presented {
        token,
        client,
        condition,
    } = presented;
    if service.defect == Some(Defect::CheckThenWrite) {
        check_first(&service, &key, token).await?;
    }
    let write = Write {
        key,
        token,
        client,
        value,
        path,
        lock,
        condition,
        idempotency: None,
    };
    let high_water = decided(service.queue.submit(write).await?)?;
    Ok(Json(answer::Written { high_water }))
}

/// The high water after an accepted write; else why it was not applied.
fn decided(outcome: Outcome) -> Result<u64, Failure> {
    match outcome {
        Outcome::Accepted { high_water } => Ok(high_water),
        Outcome::Refused { high_water } => Err(Failure::StaleToken { high_water }),
        Outcome::ConditionFailed => Err(Failure::ConditionFailed),
        Outcome::TooManyKeys => Err(Failure::TooManyKeys),
    }
}

async fn add_effect(
    State(service): State<Service>,
    key: Result<Key, Failure>,
    idempotency: Result<Idempotency, Failure>,
    value: Result<Value, Failure>,
) -> Result<Json<answer::Done>, Failure> {
    let (Key(key), Idempotency(idempotency), Value(value)) = (key?, idempotency?, value?);
    let effect = Write {
        key,
        value,
        path: Path::Effect,
        idempotency,
        ..Write::default()
    };
    decided(service.queue.submit(effect).await?)?;
    Ok(Json(answer::Done {}))
}

async fn list_effects(
    State(service): State<Service>,
    Key(key): Key,
) -> Result<Json<answer::Effects>, Failure> {
    let record = found(&service, Path::Effect.record(&key)).await?;
    let effects = writer::effects(record.as_ref().map(|record| record.value.as_str()));
    let effects = effects.into_iter().map(|(_, effect)| effect).collect();
    Ok(Json(answer::Effects { effects }))
}

/// The record called `name`, from memory where it was committed lately.
async fn found(service: &Service, name: String) -> Result<Option<Record>, Failure> {
    match service.store.recent(&name) {
        Some(record) => Ok(Some(record)),
        None => on_store(service, move |store| store.record(&name)).await,
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
    OfLock(lock): OfLock,
) -> Result<Json<answer::Value>, Failure> {
    // The lock's mark first: what is committed between the two looks raises both.
    let of_lock = match lock {
        Some(lock) => found(&service, lock_record(&lock)).await?,
        None => None,
    };
    let shared = of_lock.map_or(0, |record| record.high_water);
    let record = found(&service, key).await?;
    Ok(Json(match record {
        Some(record) => answer::Value {
            value: Some(record.value),
            token: Some(record.token),
            high_water: record.high_water.max(shared),
        },
        None => answer::Value {
            value: None,
            token: None,
            high_water: shared,
        },
    }))
}

async fn list(State(service): State<Service>) -> Result<Json<answer::Keys>, Failure> {
    let (marks, truncated) = on_store(&service, |store| store.marks(MAX_LISTED)).await?;
    // What has a slash in its name is no key.
    let keys = marks
        .into_iter()
        .filter(|mark| !mark.key.contains('/'))
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
