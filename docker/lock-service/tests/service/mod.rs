//! A real lock service on a port of its own, and a client for it.

#![allow(
    dead_code,
    reason = "each test file is a crate and uses its own part of this"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use fencepost_lock_service::{Config, ServeError, serve};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A service that runs in this process until it is stopped.
pub struct Service {
    pub client: Client,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), ServeError>>,
}

/// Talks to one service.
#[derive(Clone)]
pub struct Client {
    pub address: String,
    http: reqwest::Client,
}

impl Service {
    pub async fn start(data: &Path) -> Self {
        Self::with(Config::new(data)).await
    }

    pub async fn with(config: Config) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(serve(listener, config, async { drop(stopped.await) }));
        Self {
            client: Client::new(address),
            stop,
            task,
        }
    }

    /// Stops it and waits until its data is free.
    pub async fn stop(self) -> Result<(), ServeError> {
        drop(self.stop);
        self.task.await.expect("the service does not panic")
    }

    /// Drops it without a word, and waits until its data is free.
    pub async fn abort(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

impl Client {
    pub fn new(address: String) -> Self {
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_secs(60))
            .build()
            .expect("a client");
        Self { address, http }
    }

    /// Sends a request and reads status and text of the answer.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: impl Into<reqwest::Body>,
    ) -> Result<(StatusCode, String), reqwest::Error> {
        let url = format!("http://{}{path}", self.address);
        let response = self.http.request(method, url).body(body).send().await?;
        Ok((response.status(), response.text().await?))
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let answer = self.send(Method::POST, path, body.to_string()).await;
        let (status, text) = answer.expect("an answer");
        (status.as_u16(), json_of(&text))
    }

    pub async fn acquire(&self, lock: &str, client: &str, ttl: u64, wait: u64) -> (u16, Value) {
        let body = json!({"client": client, "ttl_ms": ttl, "wait_ms": wait});
        self.post(&format!("/v1/locks/{lock}/acquire"), body).await
    }

    pub async fn renew(&self, lock: &str, client: &str, token: u64, ttl: u64) -> (u16, Value) {
        let body = json!({"client": client, "token": token, "ttl_ms": ttl});
        self.post(&format!("/v1/locks/{lock}/renew"), body).await
    }

    pub async fn release(&self, lock: &str, client: &str, token: u64) -> (u16, Value) {
        let body = json!({"client": client, "token": token});
        self.post(&format!("/v1/locks/{lock}/release"), body).await
    }

    pub async fn look(&self, lock: &str) -> Value {
        let path = format!("/v1/locks/{lock}");
        json_of(&self.text(&path).await)
    }

    /// The text that a path answers 200.
    pub async fn text(&self, path: &str) -> String {
        let answer = self.send(Method::GET, path, "").await;
        let (status, text) = answer.expect("an answer");
        assert_eq!(status, StatusCode::OK, "{text}");
        text
    }

    /// Looks at a lock until so many acquires wait for it.
    pub async fn until_waiting(&self, lock: &str, number: u64) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let view = self.look(lock).await;
            if view["waiting"] == number {
                return;
            }
            assert!(Instant::now() < deadline, "not {number} waiting: {view}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// The answer to a grant or renewal.
pub fn token(token: u64, ttl: u64) -> (u16, Value) {
    (200, json!({"token": token, "ttl_ms": ttl}))
}

/// The answer to a refusal that needs no explanation.
pub fn refused(error: &str) -> (u16, Value) {
    (409, json!({"error": error}))
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text:?} is no JSON: {error}"))
}
