//! What is not a valid request, and that each is told so in one shape and changes nothing.

use fencepost_fenced_resource::Config;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::service::{Answer, Service};

#[tokio::test]
async fn every_bad_token_is_a_400_that_says_what_is_wrong() {
    const TABLE: &[(&[&str], &str)] = &[
        (&[], "the Fencing-Token header is missing"),
        (
            &["1", "1"],
            "the Fencing-Token header is given more than once",
        ),
        (
            &["1, 2"],
            "the fencing token contains blanks; it must be written in digits only",
        ),
        (&["1,2"], "the Fencing-Token header is given more than once"),
        (&[""], "the fencing token is empty"),
        (&["   "], "the fencing token is empty"),
        (
            &["-1"],
            "the fencing token is negative; it must be between 0 and 18446744073709551615",
        ),
        (
            &["+1"],
            "the fencing token has a sign; it must be written in digits only",
        ),
        (
            &["1.5"],
            "the fencing token is fractional; it must be an integer",
        ),
        (
            &["1 2"],
            "the fencing token contains blanks; it must be written in digits only",
        ),
        (
            &["184467440737095516150"],
            "the fencing token is overlong: 21 digits, at most 20 are read",
        ),
        (
            &["18446744073709551616"],
            "the fencing token is too large; it must be between 0 and 18446744073709551615",
        ),
        (
            &["forty-two"],
            "the fencing token is not a number; it must be written in the digits 0 to 9 only",
        ),
        (
            &["٤٢"],
            "the fencing token is not a number; it must be written in the digits 0 to 9 only",
        ),
    ];
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = Service::start(data.path()).await;
    for &(tokens, message) in TABLE {
        let mut request = service.client.request(Method::PUT, "/v1/keys/k").body("v");
        for &token in tokens {
            request = request.header("Fencing-Token", token);
        }
        let answer = Answer::from(request.send().await.expect("an answer")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{tokens:?}");
        assert_eq!(
            answer.body,
            json!({"error": "bad-request", "message": message}),
            "{tokens:?}"
        );
    }
    assert_eq!(
        service.client.read("k").await.body,
        json!({"value": null, "high_water": 0})
    );
    service.stop().await;
}

#[tokio::test]
async fn a_key_is_printable_ascii_of_1_to_200_bytes_without_a_slash() {
    let longest = "k".repeat(200);
    let too_long = "k".repeat(201);
    let table = [
        ("a%20b%22", StatusCode::OK),
        (longest.as_str(), StatusCode::OK),
        (too_long.as_str(), StatusCode::BAD_REQUEST),
        ("a%2Fb", StatusCode::BAD_REQUEST),
        ("a%0Ab", StatusCode::BAD_REQUEST),
        ("a%7F", StatusCode::BAD_REQUEST),
        ("%C3%A9", StatusCode::BAD_REQUEST),
        ("%FF", StatusCode::BAD_REQUEST),
        ("", StatusCode::NOT_FOUND),
        ("a/b", StatusCode::NOT_FOUND),
    ];
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = Service::start(data.path()).await;
    for (key, status) in table {
        let written = service.client.write(key, 1, "v").await;
        assert_eq!(written.status, status, "{key:?}");
        let read = service.client.read(key).await;
        assert_eq!(read.status, status, "{key:?}");
        let word = match status {
            StatusCode::BAD_REQUEST => json!("bad-request"),
            StatusCode::NOT_FOUND => json!("not-found"),
            _ => json!(null),
        };
        assert_eq!(written.body["error"], word, "{key:?}");
        assert_eq!(read.body["error"], word, "{key:?}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_value_is_text_of_at_most_64_kib() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = Service::start(data.path()).await;
    let client = &service.client;
    let longest = "x".repeat(64 * 1024);
    assert_eq!(client.write("k", 1, &longest).await.status, StatusCode::OK);
    assert_eq!(client.read("k").await.body["value"], longest.as_str());

    let too_long = client.write("k", 2, &"x".repeat(64 * 1024 + 1)).await;
    assert_eq!(too_long.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(
        too_long.body,
        json!({"error": "too-large", "message": "the value is too large; at most 65536 bytes are stored"})
    );

    let request = client
        .request(Method::PUT, "/v1/keys/k")
        .header("Fencing-Token", "2")
        .body(vec![0x66, 0xff]);
    let no_text = Answer::from(request.send().await.expect("an answer")).await;
    assert_eq!(no_text.status, StatusCode::BAD_REQUEST);
    assert_eq!(no_text.body["error"], "bad-request");
    assert_eq!(client.read("k").await.body["token"], 1);
    service.stop().await;
}

#[tokio::test]
async fn an_unknown_path_or_method_is_answered_in_the_same_shape() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = Service::start(data.path()).await;
    let client = &service.client;
    let path = client.json("/v2/keys/k").await;
    assert_eq!(path.status, StatusCode::NOT_FOUND);
    assert_eq!(path.body["error"], "not-found");

    let request = client.request(Method::DELETE, "/v1/keys/k");
    let method = Answer::from(request.send().await.expect("an answer")).await;
    assert_eq!(method.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(method.body["error"], "method-not-allowed");
    service.stop().await;
}

#[tokio::test]
async fn a_new_key_is_refused_when_the_store_is_full() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let mut config = Config::new(data.path());
    config.max_keys = 1;
    let service = Service::with(config).await;
    let client = &service.client;
    assert_eq!(client.write("a", 1, "v").await.status, StatusCode::OK);
    let full = client.write("b", 1, "v").await;
    assert_eq!(full.status, StatusCode::INSUFFICIENT_STORAGE);
    assert_eq!(full.body["error"], "too-many-keys");
    assert_eq!(client.write("a", 2, "v").await.status, StatusCode::OK);
    service.stop().await;
}
