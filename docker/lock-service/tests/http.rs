//! The wire format and the rules, as a client sees them.

mod service;

use fencepost_lock_service::{Config, Limits};
use reqwest::Method;
use serde_json::{Value, json};
use service::{Service, refused, token};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

#[tokio::test]
async fn lock_is_taken_renewed_seen_and_released() {
    let data = directory();
    let service = Service::start(data.path()).await;
    let client = &service.client;

    let empty = json!({"lock": "a", "token": 0, "holder": null, "waiting": 0});
    assert_eq!(client.look("a").await, empty);
    assert_eq!(client.acquire("a", "c1", 60_000, 0).await, token(1, 60_000));
    assert_eq!(client.acquire("a", "c2", 1000, 0).await, refused("held"));
    assert_eq!(client.renew("a", "c1", 1, 90_000).await, token(1, 90_000));

    let mut view = client.look("a").await;
    let remaining = view["holder"]["remaining_ms"].take();
    assert!(remaining.as_u64().is_some_and(|left| left <= 90_000));
    let holder = json!({"client": "c1", "token": 1, "ttl_ms": 90_000, "remaining_ms": null});
    let held = json!({"lock": "a", "token": 1, "holder": holder, "waiting": 0});
    assert_eq!(view, held);

    assert_eq!(client.release("a", "c2", 1).await, refused("not-held"));
    assert_eq!(client.release("a", "c1", 1).await, (200, json!({})));
    assert_eq!(client.release("a", "c1", 1).await, refused("not-held"));
    assert_eq!(client.renew("a", "c1", 1, 1000).await, refused("not-held"));
    let free = json!({"lock": "a", "token": 1, "holder": null, "waiting": 0});
    assert_eq!(client.look("a").await, free);
    service.stop().await.expect("a clean stop");
}

#[tokio::test]
async fn waiters_are_granted_in_the_order_they_came() {
    let data = directory();
    let service = Service::start(data.path()).await;
    let client = &service.client;
    client.acquire("a", "c0", 60_000, 0).await;

    let mut waiters = Vec::new();
    for number in 1..=3 {
        let client = client.clone();
        let name = format!("c{number}");
        waiters.push(tokio::spawn(async move {
            let answer = client.acquire("a", &name, 60_000, 60_000).await;
            client.release("a", &name, number + 1).await;
            answer
        }));
        service.client.until_waiting("a", number).await;
    }
    client.release("a", "c0", 1).await;
    for (position, waiter) in waiters.into_iter().enumerate() {
        let answer = waiter.await.expect("a waiter");
        assert_eq!(answer, token(position as u64 + 2, 60_000));
    }
    service.stop().await.expect("a clean stop");
}

#[tokio::test]
async fn lapsed_lease_goes_to_the_waiter() {
    let data = directory();
    let service = Service::start(data.path()).await;
    let client = &service.client;
    assert_eq!(client.acquire("a", "c1", 20, 0).await, token(1, 20));
    let answer = client.acquire("a", "c2", 60_000, 60_000).await;
    assert_eq!(answer, token(2, 60_000));
    assert_eq!(client.renew("a", "c1", 1, 20).await, refused("not-held"));
    service.stop().await.expect("a clean stop");
}

#[tokio::test]
async fn waiter_is_told_held_when_its_wait_is_over() {
    let data = directory();
    let service = Service::start(data.path()).await;
    let client = &service.client;
    client.acquire("a", "c1", 60_000, 0).await;
    assert_eq!(client.acquire("a", "c2", 1000, 30).await, refused("held"));
    assert_eq!(client.look("a").await["waiting"], 0);
    service.stop().await.expect("a clean stop");
}

#[tokio::test]
async fn holder_that_acquires_again_fences_its_former_self() {
    let data = directory();
    let service = Service::start(data.path()).await;
    let client = &service.client;
    client.acquire("a", "c1", 60_000, 0).await;
    assert_eq!(client.acquire("a", "c1", 60_000, 0).await, token(2, 60_000));
    assert_eq!(client.release("a", "c1", 1).await, refused("not-held"));
    assert_eq!(client.release("a", "c1", 2).await, (200, json!({})));
    service.stop().await.expect("a clean stop");
}

#[tokio::test]
async fn waiter_whose_connection_is_gone_is_not_granted() {
    let data = directory();
    let service = Service::start(data.path()).await;
    let client = &service.client;
    client.acquire("a", "c1", 60_000, 0).await;

    let body = r#"{"client":"c2","ttl_ms":60000,"wait_ms":600000}"#;
    let request = format!(
        "POST /v1/locks/a/acquire HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(&client.address)
        .await
        .expect("connected");
    stream.write_all(request.as_bytes()).await.expect("sent");
    client.until_waiting("a", 1).await;
    drop(stream);
    client.until_waiting("a", 0).await;

    client.release("a", "c1", 1).await;
    let free = json!({"lock": "a", "token": 1, "holder": null, "waiting": 0});
    assert_eq!(client.look("a").await, free);
    service.stop().await.expect("a clean stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_fifty_contending_clients_rise_by_one() {
    const ROUNDS: usize = 4;
    let data = directory();
    let service = Service::start(data.path()).await;
    let granted = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut clients = Vec::new();
    for number in 0..50 {
        let client = service.client.clone();
        let granted = granted.clone();
        clients.push(tokio::spawn(async move {
            let name = format!("c{number}");
            for _ in 0..ROUNDS {
                let (status, answer) = client.acquire("a", &name, 600_000, 600_000).await;
                assert_eq!(status, 200, "{answer}");
                let token = answer["token"].as_u64().expect("a token");
                // Noted while the lock is held, so the order is that of the holds.
                granted.lock().expect("no test panicked").push(token);
                let released = client.release("a", &name, token).await;
                assert_eq!(released, (200, json!({})));
            }
        }));
    }
    for client in clients {
        client.await.expect("a client");
    }
    service.stop().await.expect("a clean stop");
    let granted = granted.lock().expect("no test panicked");
    let expected: Vec<u64> = (1..=50 * ROUNDS as u64).collect();
    assert_eq!(*granted, expected);
}

#[tokio::test]
async fn metrics_tell_tokens_grants_expiries_holds_and_waiters() {
    let data = directory();
    let service = Service::start(data.path()).await;
    let client = service.client.clone();
    client.acquire("a", "c1", 20, 0).await;
    client.acquire("a", "c2", 60_000, 60_000).await;
    client.acquire("b", "c1", 60_000, 0).await;
    client.release("b", "c1", 1).await;
    let waiting = client.clone();
    let waiter = tokio::spawn(async move { waiting.acquire("a", "c3", 60_000, 60_000).await });
    client.until_waiting("a", 1).await;

    let text = client.text("/metrics").await;
    for line in [
        "# TYPE fencepost_lock_issued_token gauge",
        r#"fencepost_lock_issued_token{lock="a"} 2"#,
        r#"fencepost_lock_issued_token{lock="b"} 1"#,
        "# TYPE fencepost_lock_grants_total counter",
        r#"fencepost_lock_grants_total{lock="a"} 2"#,
        r#"fencepost_lock_grants_total{lock="b"} 1"#,
        r#"fencepost_lock_expiries_total{lock="a"} 1"#,
        r#"fencepost_lock_expiries_total{lock="b"} 0"#,
        r#"fencepost_lock_held{lock="a"} 1"#,
        r#"fencepost_lock_held{lock="b"} 0"#,
        r#"fencepost_lock_waiting{lock="a"} 1"#,
        r#"fencepost_lock_waiting{lock="b"} 0"#,
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line}\nin\n{text}"
        );
    }
    client.release("a", "c2", 2).await;
    assert_eq!(waiter.await.expect("a waiter"), token(3, 60_000));
    service.stop().await.expect("a clean stop");
}

#[tokio::test]
async fn health_is_ok() {
    let data = directory();
    let service = Service::start(data.path()).await;
    let text = service.client.text("/healthz").await;
    assert_eq!(text, r#"{"status":"ok"}"#);
    service.stop().await.expect("a clean stop");
}

#[tokio::test]
async fn bad_input_is_answered_with_the_field_and_what_is_right() {
    let data = directory();
    let service = Service::start(data.path()).await;
    let ttl = "ttl_ms must be a whole number of milliseconds from 10 to 3600000, not ";
    let wait = "wait_ms must be a whole number of milliseconds from 0 to 600000, not ";
    let token = "token must be a whole number from 0 to 2^64-1, not ";
    let client = "client must be 1 to 200 bytes of printable characters other than a slash, not ";
    let json = "the body must be a JSON object";
    let table: &[(&str, &str, String)] = &[
        ("acquire", "", format!("{json}; it is not: EOF")),
        ("acquire", "{", format!("{json}; it is not: EOF")),
        ("acquire", "\u{fffd}", format!("{json}; it is not: ")),
        ("acquire", "[1]", format!("{json}, not [1]")),
        (
            "acquire",
            "{}",
            "client is missing; it must be a string".into(),
        ),
        (
            "acquire",
            r#"{"client":3,"ttl_ms":1000}"#,
            "client must be a string, not 3".into(),
        ),
        (
            "acquire",
            r#"{"client":"","ttl_ms":1000}"#,
            format!("{client}\"\""),
        ),
        (
            "acquire",
            r#"{"client":"a/b","ttl_ms":1000}"#,
            format!("{client}\"a/b\""),
        ),
        (
            "acquire",
            r#"{"client":"c1"}"#,
            "ttl_ms is missing; it must be a whole number of milliseconds from 10 to 3600000"
                .into(),
        ),
        (
            "acquire",
            r#"{"client":"c1","ttl_ms":9}"#,
            format!("{ttl}9"),
        ),
        (
            "acquire",
            r#"{"client":"c1","ttl_ms":3600001}"#,
            format!("{ttl}3600001"),
        ),
        (
            "acquire",
            r#"{"client":"c1","ttl_ms":-1}"#,
            format!("{ttl}-1"),
        ),
        (
            "acquire",
            r#"{"client":"c1","ttl_ms":1000.5}"#,
            format!("{ttl}1000.5"),
        ),
        (
            "acquire",
            r#"{"client":"c1","ttl_ms":"1s"}"#,
            format!("{ttl}\"1s\""),
        ),
        (
            "acquire",
            r#"{"client":"c1","ttl_ms":1000,"wait_ms":600001}"#,
            format!("{wait}600001"),
        ),
        (
            "acquire",
            r#"{"client":"c1","ttl_ms":1000,"wait_ms":null}"#,
            format!("{wait}null"),
        ),
        (
            "acquire",
            r#"{"client":"c1","ttl_ms":1000,"wait":5}"#,
            "\"wait\" is no field of this request; it takes client, ttl_ms, wait_ms".into(),
        ),
        (
            "renew",
            r#"{"client":"c1","token":-1,"ttl_ms":1000}"#,
            format!("{token}-1"),
        ),
        (
            "renew",
            r#"{"client":"c1","token":1}"#,
            "ttl_ms is missing; it must be a whole number of milliseconds from 10 to 3600000"
                .into(),
        ),
        (
            "release",
            r#"{"client":"c1","token":18446744073709551616}"#,
            format!("{token}1.8446744073709552e"),
        ),
        (
            "release",
            r#"{"client":"c1","token":"7"}"#,
            format!("{token}\"7\""),
        ),
        (
            "release",
            r#"{"client":"c1"}"#,
            "token is missing; it must be a whole number from 0 to 2^64-1".into(),
        ),
    ];
    for (verb, body, expected) in table {
        let path = format!("/v1/locks/a/{verb}");
        expect_complaint(
            &service,
            Method::POST,
            &path,
            body,
            400,
            "bad-request",
            expected,
        )
        .await;
    }
    let view = service.client.look("a").await;
    assert_eq!(view["token"], 0, "nothing was granted");
    service.stop().await.expect("a clean stop");
}

#[tokio::test]
async fn bad_paths_methods_and_sizes_are_answered_in_the_same_shape() {
    let data = directory();
    let service = Service::start(data.path()).await;
    let long = format!("/v1/locks/{}", "x".repeat(201));
    let name = "lock must be 1 to 200 bytes of printable characters other than a slash, not ";
    let table = [
        (Method::GET, "/v1/locks/a%2Fb", 400, "bad-request", name),
        (Method::GET, "/v1/locks/a%0Ab", 400, "bad-request", name),
        (Method::GET, &long, 400, "bad-request", name),
        (
            Method::GET,
            "/v1/locks/%FF",
            400,
            "bad-request",
            "lock must be percent-encoded UTF-8: ",
        ),
        (
            Method::GET,
            "/v1/locks/",
            404,
            "not-found",
            "/v1/locks/ is no path here",
        ),
        (
            Method::POST,
            "/v1/locks/a/steal",
            404,
            "not-found",
            "/v1/locks/a/steal is no",
        ),
        (
            Method::GET,
            "/v1/locks/a/acquire",
            405,
            "method-not-allowed",
            "/v1/locks/a/acquire does not answer GET",
        ),
        (
            Method::DELETE,
            "/v1/locks/a",
            405,
            "method-not-allowed",
            "/v1/locks/a does not answer DELETE",
        ),
    ];
    for (method, path, status, error, expected) in table {
        expect_complaint(&service, method, path, "", status, error, expected).await;
    }
    let large = " ".repeat(16 * 1024 + 1);
    let path = "/v1/locks/a/acquire";
    let expected = "the body could not be read: ";
    expect_complaint(
        &service,
        Method::POST,
        path,
        &large,
        413,
        "bad-request",
        expected,
    )
    .await;
    service.stop().await.expect("a clean stop");
}

async fn expect_complaint(
    service: &Service,
    method: Method,
    path: &str,
    body: &str,
    status: u16,
    error: &str,
    message: &str,
) {
    let answer = service.client.send(method, path, body.to_owned()).await;
    let (found, text) = answer.expect("an answer");
    assert_eq!(found.as_u16(), status, "{path} {body}: {text}");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["error"], error, "{path} {body}");
    let said = value["message"].as_str().expect("a message");
    assert!(said.starts_with(message), "{path} {body}: {said}");
}

#[tokio::test]
async fn too_many_locks_or_waiters_are_refused() {
    let data = directory();
    let mut config = Config::new(data.path());
    config.limits = Limits {
        locks: 1,
        waiters: 1,
        ..Limits::default()
    };
    let service = Service::with(config).await;
    let client = service.client.clone();
    client.acquire("a", "c1", 60_000, 0).await;
    let expected = "1 locks exist already, and no more may";
    let answer = client.acquire("b", "c1", 60_000, 0).await;
    assert_eq!(
        answer,
        (429, json!({"error": "too-many", "message": expected}))
    );

    let waiting = client.clone();
    let waiter = tokio::spawn(async move { waiting.acquire("a", "c2", 60_000, 60_000).await });
    client.until_waiting("a", 1).await;
    let expected = "1 acquires wait for this lock already, and no more may";
    let answer = client.acquire("a", "c3", 60_000, 60_000).await;
    assert_eq!(
        answer,
        (429, json!({"error": "too-many", "message": expected}))
    );
    client.release("a", "c1", 1).await;
    assert_eq!(waiter.await.expect("a waiter"), token(2, 60_000));
    service.stop().await.expect("a clean stop");
}

#[tokio::test]
async fn stop_answers_those_who_wait() {
    let data = directory();
    let service = Service::start(data.path()).await;
    let client = service.client.clone();
    client.acquire("a", "c1", 60_000, 0).await;
    let waiting = client.clone();
    let waiter = tokio::spawn(async move { waiting.acquire("a", "c2", 60_000, 600_000).await });
    client.until_waiting("a", 1).await;
    service.stop().await.expect("a clean stop");
    let (status, answer) = waiter.await.expect("a waiter");
    assert_eq!(status, 503);
    assert_eq!(answer["error"], "unavailable");
}
