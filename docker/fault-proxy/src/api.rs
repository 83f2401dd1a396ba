//! Toxiproxy's HTTP API: routes, status codes and JSON shapes; nothing is decided here.
//!
//! Changes run in tasks of their own, so that a client that hangs up half-way does not leave a proxy half stopped.
//! Browsers are refused by their user agent, as Toxiproxy does, so that a web page cannot cut our links.

use std::future::Future;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;

use crate::VERSION;
use crate::collection::{Collection, Wanted};
use crate::failure::{Failure, FailureBody};
use crate::proxy::View;
use crate::toxic::Toxic;

type Proxies = Arc<Mutex<Collection>>;
type Answer = Result<Response, Failure>;

/// All routes over the given proxies.
pub(crate) fn router(proxies: Proxies) -> Router {
    Router::new()
        .route("/version", get(version))
        .route("/metrics", get(metrics))
        .route("/reset", post(reset))
        .route("/populate", post(populate))
        .route("/proxies", get(list).post(create))
        .route(
            "/proxies/{proxy}",
            get(show).post(update).patch(update).delete(delete),
        )
        .route("/proxies/{proxy}/toxics", get(toxics).post(add_toxic))
        .route(
            "/proxies/{proxy}/toxics/{toxic}",
            get(toxic)
                .post(change_toxic)
                .patch(change_toxic)
                .delete(remove_toxic),
        )
        .layer(middleware::from_fn(refuse_browsers))
        .with_state(proxies)
}

async fn refuse_browsers(request: Request, next: Next) -> Response {
    let agent = request.headers().get(header::USER_AGENT);
    if agent.is_some_and(|agent| agent.as_bytes().starts_with(b"Mozilla/")) {
        return (StatusCode::FORBIDDEN, "User agent not allowed\n").into_response();
    }
    next.run(request).await
}

/// Runs a change to its end, whether or not the client still listens.
async fn completed<T: Send + 'static>(
    change: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    tokio::spawn(change)
        .await
        .unwrap_or_else(|error| Err(Failure::Internal(error.to_string())))
}

fn decoded<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|error| Failure::BadRequestBody(error.to_string()))
}

async fn version() -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json;charset=utf-8")];
    (kind, format!("{{\"version\": \"{VERSION}\"}}\n")).into_response()
}

async fn metrics(State(proxies): State<Proxies>) -> Response {
    let kind = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    (kind, proxies.lock().await.meters().text()).into_response()
}

async fn list(State(proxies): State<Proxies>) -> Response {
    Json(proxies.lock().await.views()).into_response()
}

async fn create(State(proxies): State<Proxies>, body: Bytes) -> Answer {
    let wanted: Wanted = decoded(&body)?;
    let view = completed(async move { proxies.lock().await.create(wanted).await }).await?;
    Ok((StatusCode::CREATED, Json(view)).into_response())
}

/// Toxiproxy puts the refusal and the proxies (null then) into one object.
#[derive(Serialize)]
struct Populated {
    #[serde(flatten)]
    failure: Option<FailureBody>,
    proxies: Option<Vec<View>>,
}

async fn populate(State(proxies): State<Proxies>, body: Bytes) -> Response {
    let populated = match decoded(&body) {
        Ok(wanted) => completed(async move { proxies.lock().await.populate(wanted).await }).await,
        Err(failure) => Err(failure),
    };
    let (status, failure, proxies) = match populated {
        Ok(views) => (StatusCode::CREATED, None, Some(views)),
        Err(failure) => (failure.status(), Some(failure.body()), None),
    };
    (status, Json(Populated { failure, proxies })).into_response()
}

async fn reset(State(proxies): State<Proxies>) -> Answer {
    completed(async move { proxies.lock().await.reset().await }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn show(State(proxies): State<Proxies>, Path(name): Path<String>) -> Answer {
    Ok(Json(proxies.lock().await.proxy(&name)?.view()).into_response())
}

async fn update(State(proxies): State<Proxies>, Path(name): Path<String>, body: Bytes) -> Answer {
    proxies.lock().await.proxy(&name)?;
    let wanted: Wanted = decoded(&body)?;
    let view = completed(async move { proxies.lock().await.update(&name, wanted).await }).await?;
    Ok(Json(view).into_response())
}

async fn delete(State(proxies): State<Proxies>, Path(name): Path<String>) -> Answer {
    completed(async move { proxies.lock().await.delete(&name).await }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn toxics(State(proxies): State<Proxies>, Path(name): Path<String>) -> Answer {
    let toxics = proxies.lock().await.proxy(&name)?.line().toxics();
    let toxics: Vec<&Toxic> = toxics.iter().map(Arc::as_ref).collect();
    Ok(Json(toxics).into_response())
}

async fn add_toxic(
    State(proxies): State<Proxies>,
    Path(name): Path<String>,
    body: Bytes,
) -> Answer {
    let proxies = proxies.lock().await;
    let proxy = proxies.proxy(&name)?;
    let toxic = proxy.line().add(Toxic::from_request(&body)?)?;
    Ok(Json(toxic.as_ref()).into_response())
}

async fn toxic(
    State(proxies): State<Proxies>,
    Path((name, toxic)): Path<(String, String)>,
) -> Answer {
    let toxic = proxies.lock().await.proxy(&name)?.line().toxic(&toxic)?;
    Ok(Json(toxic.as_ref()).into_response())
}

async fn change_toxic(
    State(proxies): State<Proxies>,
    Path((name, toxic)): Path<(String, String)>,
    body: Bytes,
) -> Answer {
    let toxic = proxies
        .lock()
        .await
        .proxy(&name)?
        .line()
        .change(&toxic, &body)?;
    Ok(Json(toxic.as_ref()).into_response())
}

async fn remove_toxic(
    State(proxies): State<Proxies>,
    Path((name, toxic)): Path<(String, String)>,
) -> Answer {
    proxies.lock().await.proxy(&name)?.line().remove(&toxic)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
