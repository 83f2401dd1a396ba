//! What an operator sees: health, the list of keys, and metrics.

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::service::Service;

async fn metrics(service: &Service) -> String {
    let request = service.client.request(Method::GET, "/metrics");
    let response = request.send().await.expect("an answer");
    assert_eq!(
        response.headers()["content-type"],
        "text/plain; version=0.0.4; charset=utf-8"
    );
    response.text().await.expect("a whole body")
}

#[tokio::test]
async fn metrics_tell_refusals_by_key_token_and_client() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = Service::start(data.path()).await;
    let client = &service.client;
    client.write("a", 45, "x").await;
    client.write("a", 45, "y").await;
    client.write("a", 42, "z").await;
    let nameless = client
        .request(Method::PUT, "/v1/keys/a")
        .header("Fencing-Token", "44");
    assert_eq!(
        nameless.send().await.expect("an answer").status(),
        StatusCode::CONFLICT
    );

    let text = metrics(&service).await;
    for line in [
        "# TYPE fencepost_resource_refusals_total counter",
        "fencepost_resource_accepted_total{key=\"a\"} 2",
        "fencepost_resource_refusals_total{key=\"a\",token=\"42\",client=\"c3\"} 1",
        "fencepost_resource_refusals_total{key=\"a\",token=\"44\",client=\"unknown\"} 1",
        "fencepost_resource_high_water{key=\"a\"} 45",
        "fencepost_resource_refusal_gap_bucket{le=\"0\"} 0",
        "fencepost_resource_refusal_gap_bucket{le=\"1\"} 1",
        "fencepost_resource_refusal_gap_bucket{le=\"3\"} 2",
        "fencepost_resource_refusal_gap_sum 4.0",
        "fencepost_resource_refusal_gap_count 2",
        "fencepost_resource_storage_failures_total 0",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "no line {line:?} in:\n{text}"
        );
    }
    service.stop().await;
}

#[tokio::test]
async fn the_client_header_never_decides_about_a_write() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = Service::start(data.path()).await;
    service.client.write("a", 2, "x").await;
    let overlong = service
        .client
        .request(Method::PUT, "/v1/keys/a")
        .header("Fencing-Token", "1")
        .header("Fencing-Client", "c".repeat(101));
    assert_eq!(
        overlong.send().await.expect("an answer").status(),
        StatusCode::CONFLICT
    );
    let line = "fencepost_resource_refusals_total{key=\"a\",token=\"1\",client=\"invalid\"} 1\n";
    assert!(metrics(&service).await.contains(line));
    service.stop().await;
}

#[tokio::test]
async fn health_and_the_list_of_keys_answer_in_json() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = Service::start(data.path()).await;
    let client = &service.client;
    assert_eq!(client.json("/healthz").await.body, json!({"status": "ok"}));
    assert_eq!(
        client.json("/v1/keys").await.body,
        json!({"keys": [], "truncated": false})
    );
    client.write("b", 2, "y").await;
    client.write("a", 1, "x").await;
    assert_eq!(
        client.json("/v1/keys").await.body,
        json!({"keys": [
            {"key": "a", "token": 1, "high_water": 1},
            {"key": "b", "token": 2, "high_water": 2},
        ], "truncated": false})
    );
    service.stop().await;
}
