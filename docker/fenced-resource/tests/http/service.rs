//! A running service for tests, and the few requests that they make.
//!
//! Promises: each service has a port of its own, and is stopped, with its store closed, when `stop` returns.

use std::net::SocketAddr;
use std::path::Path;

use fencepost_fenced_resource::{Config, Defect, ServeError, serve};
use reqwest::{Client, Response, StatusCode};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A service that runs in this process.
pub struct Service {
    pub client: ResourceClient,
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServeError>>,
}

impl Service {
    /// A sound service on `data`.
    pub async fn start(data: &Path) -> Service {
        Service::with(Config::new(data)).await
    }

    /// A service with a planted defect.
    pub async fn defective(data: &Path, defect: Defect) -> Service {
        let mut config = Config::new(data);
        config.defect = Some(defect);
        Service::with(config).await
    }

    pub async fn with(config: Config) -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(serve(listener, config, async {
            let _ = stopped.await;
        }));
        Service {
            client: ResourceClient::new(address),
            address,
            stop,
            served,
        }
    }

    /// Stops the service and waits until its store is closed.
    pub async fn stop(self) {
        self.stop.send(()).expect("the service still runs");
        self.served
            .await
            .expect("the service did not panic")
            .expect("the service ended well");
    }
}

/// A client of the resource. A clone shares its connections.
#[derive(Clone)]
pub struct ResourceClient {
    http: Client,
    base: String,
}

/// A status and the JSON body that came with it.
#[derive(Debug, PartialEq)]
pub struct Answer {
    pub status: StatusCode,
    pub body: Value,
}

impl Answer {
    pub async fn from(response: Response) -> Answer {
        let status = response.status();
        let text = response.text().await.expect("a whole body");
        let body = serde_json::from_str(&text).unwrap_or_else(|error| {
            panic!("{status} with a body that is no JSON: {error}: {text}")
        });
        Answer { status, body }
    }

    /// The high water that the answer tells.
    pub fn high_water(&self) -> u64 {
        self.body["high_water"]
            .as_u64()
            .unwrap_or_else(|| panic!("no high water in {self:?}"))
    }
}

impl ResourceClient {
    pub fn new(address: SocketAddr) -> ResourceClient {
        ResourceClient {
            http: Client::builder()
                .no_proxy()
                .build()
                .expect("a client without TLS"),
            base: format!("http://{address}"),
        }
    }

    /// A request to a path, for what the methods below do not cover.
    pub fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base))
    }

    pub async fn try_write(
        &self,
        key: &str,
        token: u64,
        value: &str,
    ) -> Result<Response, reqwest::Error> {
        self.request(reqwest::Method::PUT, &format!("/v1/keys/{key}"))
            .header("Fencing-Token", token.to_string())
            .header("Fencing-Client", "c3")
            .body(value.to_owned())
            .send()
            .await
    }

    pub async fn write(&self, key: &str, token: u64, value: &str) -> Answer {
        let sent = self.try_write(key, token, value).await;
        Answer::from(sent.expect("an answer")).await
    }

    pub async fn read(&self, key: &str) -> Answer {
        self.json(&format!("/v1/keys/{key}")).await
    }

    pub async fn json(&self, path: &str) -> Answer {
        let sent = self.request(reqwest::Method::GET, path).send().await;
        Answer::from(sent.expect("an answer")).await
    }
}
