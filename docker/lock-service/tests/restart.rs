//! What a new service finds on the data of an old one.

mod service;

use std::path::Path;

use fencepost_lock_service::{Config, Defect, LockService, ServeError};
use serde_json::json;
use service::{Service, refused, token};

#[tokio::test]
async fn restart_reuses_no_token_and_forgets_no_hold() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = Service::start(data.path()).await;
    service.client.acquire("free", "c1", 60_000, 0).await;
    service.client.release("free", "c1", 1).await;
    service.client.acquire("held", "c1", 60_000, 0).await;
    service.client.renew("held", "c1", 1, 90_000).await;
    service.stop().await.expect("a clean stop");

    let service = Service::start(data.path()).await;
    let client = &service.client;
    assert_eq!(client.acquire("free", "c2", 1000, 0).await, token(2, 1000));
    assert_eq!(client.acquire("held", "c2", 1000, 0).await, refused("held"));
    assert_eq!(client.look("held").await["holder"]["ttl_ms"], 90_000);
    assert_eq!(client.renew("held", "c1", 1, 1000).await, token(1, 1000));
    service.stop().await.expect("a clean stop");
}

#[tokio::test]
async fn waiter_gets_the_lock_when_a_restored_hold_lapses() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = Service::start(data.path()).await;
    assert_eq!(
        service.client.acquire("a", "c1", 300, 0).await,
        token(1, 300)
    );
    service.abort().await;

    let service = Service::start(data.path()).await;
    let answer = service.client.acquire("a", "c2", 1000, 60_000).await;
    assert_eq!(answer, token(2, 1000));
    service.stop().await.expect("a clean stop");
}

#[tokio::test]
async fn answered_grant_is_in_a_copy_of_the_data_made_while_the_service_runs() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let copy = tempfile::tempdir().expect("a temporary directory");
    let service = Service::start(data.path()).await;
    assert_eq!(
        service.client.acquire("a", "c1", 60_000, 0).await,
        token(1, 60_000)
    );
    // Nothing is asked and nothing lapses while it is copied: this is what a crash would leave.
    let file = "locks.redb";
    std::fs::copy(data.path().join(file), copy.path().join(file)).expect("copied");

    let second = Service::start(copy.path()).await;
    let view = second.client.look("a").await;
    assert_eq!(view["holder"]["client"], "c1");
    assert_eq!(second.client.release("a", "c1", 1).await, (200, json!({})));
    assert_eq!(
        second.client.acquire("a", "c2", 1000, 0).await,
        token(2, 1000)
    );
    second.stop().await.expect("a clean stop");
    service.stop().await.expect("a clean stop");
}

#[tokio::test]
async fn volatile_counter_starts_again_from_one_after_a_restart() {
    for (defect, expected) in [(None, 4), (Some(Defect::VolatileCounter), 1)] {
        let data = tempfile::tempdir().expect("a temporary directory");
        let mut config = Config::new(data.path());
        config.defect = defect;
        let service = Service::with(config.clone()).await;
        for number in 1..=3 {
            let answer = service.client.acquire("a", "c1", 1000, 0).await;
            assert_eq!(answer, token(number, 1000), "{defect:?}");
        }
        service.client.release("a", "c1", 3).await;
        service.stop().await.expect("a clean stop");

        let service = Service::with(config).await;
        let answer = service.client.acquire("a", "c1", 1000, 0).await;
        assert_eq!(answer, token(expected, 1000), "{defect:?}");
        service.stop().await.expect("a clean stop");
    }
}

#[tokio::test]
async fn stopped_service_serves_no_more_and_frees_its_data() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = LockService::open(Config::new(data.path())).expect("opened");
    let error = open(data.path());
    assert!(matches!(error, ServeError::InUse { .. }), "{error:?}");
    let path = data.path().join("locks.redb");
    let expected = format!("open {}: another process has it open", path.display());
    assert_eq!(error.to_string(), expected);
    service.stop().expect("a clean stop");
    let again = LockService::open(Config::new(data.path())).expect("free again");
    again.stop().expect("a clean stop");
}

#[test]
fn data_that_cannot_be_used_is_named() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let file = data.path().join("a-file");
    std::fs::write(&file, "not a directory").expect("written");
    let error = open(&file);
    assert!(
        matches!(error, ServeError::DataDirectory { .. }),
        "{error:?}"
    );
    let expected = format!("use the data directory {}: ", file.display());
    assert!(error.to_string().starts_with(&expected), "{error}");

    let store = data.path().join("locks.redb");
    std::fs::write(&store, "no store at all").expect("written");
    let error = open(data.path());
    assert!(matches!(error, ServeError::Store { .. }), "{error:?}");
    let expected = format!("read or write {}: ", store.display());
    assert!(error.to_string().starts_with(&expected), "{error}");
}

fn open(data: &Path) -> ServeError {
    LockService::open(Config::new(data)).expect_err("it cannot be opened")
}
