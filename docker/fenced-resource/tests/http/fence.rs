//! What the fence lets through and what it refuses.

use fencepost_fenced_resource::Defect;
use reqwest::StatusCode;
use serde_json::json;

use crate::service::Service;

#[tokio::test]
async fn late_write_with_old_token_is_refused_with_the_high_water() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = Service::start(data.path()).await;
    let client = &service.client;

    let first = client.write("shard-7", 42, "c3-17").await;
    assert_eq!(first.status, StatusCode::OK);
    assert_eq!(first.body, json!({"high_water": 42}));
    assert_eq!(client.write("shard-7", 43, "c4-1").await.high_water(), 43);

    let late = client.write("shard-7", 42, "c3-18").await;
    assert_eq!(late.status, StatusCode::CONFLICT);
    assert_eq!(late.body, json!({"error": "stale-token", "high_water": 43}));
    let read = client.read("shard-7").await;
    assert_eq!(
        read.body,
        json!({"value": "c4-1", "token": 43, "high_water": 43})
    );
    service.stop().await;
}

#[tokio::test]
async fn an_equal_token_is_accepted_because_the_same_holder_goes_on() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = Service::start(data.path()).await;
    for value in ["one", "two"] {
        let answer = service.client.write("k", 7, value).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(answer.body, json!({"high_water": 7}));
    }
    assert_eq!(service.client.read("k").await.body["value"], "two");
    service.stop().await;
}

#[tokio::test]
async fn the_greatest_token_is_kept_to_the_last_digit() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = Service::start(data.path()).await;
    let client = &service.client;
    assert_eq!(
        client.write("k", u64::MAX, "v").await.body,
        json!({"high_water": u64::MAX})
    );
    let below = client.write("k", u64::MAX - 1, "w").await;
    assert_eq!(below.status, StatusCode::CONFLICT);
    assert_eq!(below.high_water(), u64::MAX);
    service.stop().await;
}

#[tokio::test]
async fn a_key_that_was_never_written_reads_as_null_and_takes_any_token() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = Service::start(data.path()).await;
    let client = &service.client;
    let read = client.read("new").await;
    assert_eq!(read.status, StatusCode::OK);
    assert_eq!(read.body, json!({"value": null, "high_water": 0}));

    assert_eq!(client.write("new", 0, "").await.status, StatusCode::OK);
    assert_eq!(
        client.read("new").await.body,
        json!({"value": "", "token": 0, "high_water": 0})
    );
    service.stop().await;
}

#[tokio::test]
async fn a_high_token_on_one_key_leaves_another_alone() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = Service::start(data.path()).await;
    let client = &service.client;
    assert_eq!(client.write("a", 1000, "x").await.status, StatusCode::OK);
    assert_eq!(client.write("b", 1, "y").await.status, StatusCode::OK);
    service.stop().await;
}

#[tokio::test]
async fn unfenced_accepts_the_stale_write_and_forgets_the_mark() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = Service::defective(data.path(), Defect::Unfenced).await;
    let client = &service.client;
    assert_eq!(client.write("k", 43, "new").await.status, StatusCode::OK);
    let stale = client.write("k", 42, "stale").await;
    assert_eq!(stale.status, StatusCode::OK);
    assert_eq!(stale.body, json!({"high_water": 42}));
    assert_eq!(
        client.read("k").await.body,
        json!({"value": "stale", "token": 42, "high_water": 42})
    );
    service.stop().await;
}
