//! One client's connections to one HTTP service, and what its answers prove.
//!
//! **Nothing is sent twice.** Three layers could, and here is why none does (reqwest 0.12.28, hyper-util 0.1.21,
//! hyper 1.12):
//!
//! - *reqwest* repeats a request on redirects (switched off) and by its retry policy, by default for refusals of
//!   HTTP/2 and HTTP/3 that are known to be safe (switched off too, and only HTTP/1.1 is spoken).
//! - *hyper-util* repeats a request when hyper hands the message back from a pooled connection that closed just then.
//!   This cannot be switched off through reqwest, and need not be: hyper hands a message back only while it still
//!   waits in the connection's queue. Once the connection has taken it up, before its first byte is written, it can
//!   no longer be handed back, and a failure is an error that nobody repeats.
//! - *This crate* has no loop around a request.
//!
//! **A connect error means that no request left.** A request is given to a connection only when that one stands; an
//! attempt before it on another connection ended unsent, as above. So `is_connect` is definite. A proxy that accepts
//! and goes silent is none of this: that is a timeout, and unknown.
//!
//! After a timeout hyper closes the connection, so an answer that comes late is never taken for the next one's.

use std::error::Error;
use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, redirect, retry};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Endpoint, EndpointError, Failure, Reason};

fencepost_checker::only_objects!(read Complaint);

/// The longest answer that is read, in bytes: a value of 64 KiB of which JSON escapes every byte (`\u0001`), and
/// the rest of the object.
const ANSWER_LIMIT: usize = 6 * 64 * 1024 + 4 * 1024;

/// The most of an unexpected body that is quoted in an error, in characters.
const QUOTE_LIMIT: usize = 120;

/// Idle connections that are kept: a client has two operations under way, its renewals go on beside its writes.
const IDLE_CONNECTIONS: usize = 2;

/// One client's connections to one HTTP service.
#[derive(Debug)]
pub(crate) struct Service {
    connections: Client,
    /// `http://host:port/`
    base: Url,
    timeout: Duration,
}

impl Service {
    /// Prepares connections; none is opened yet.
    pub(crate) fn new(endpoint: &Endpoint<'_>) -> Result<Self, EndpointError> {
        let unusable = |message: String| endpoint.unusable(message);
        let base = format!("http://{}", endpoint.single()?);
        let base = match Url::parse(&base) {
            Ok(url) if url.path() == "/" && url.query().is_none() && url.fragment().is_none() => {
                url
            }
            Ok(_) => return Err(unusable("host:port is right".to_owned())),
            Err(error) => return Err(unusable(error.to_string())),
        };
        let connections = Client::builder()
            .no_proxy()
            .http1_only()
            .retry(retry::never())
            .redirect(redirect::Policy::none())
            .referer(false)
            .tcp_nodelay(true)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .timeout(endpoint.timeout)
            // Shorter than the whole, so that a connection that cannot be made is told from an answer that is late.
            .connect_timeout(endpoint.timeout / 2)
            .build()
            .map_err(|error| unusable(innermost(&error)))?;
        Ok(Self {
            connections,
            base,
            timeout: endpoint.timeout,
        })
    }

    /// How long an answer may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Begins a `GET` of `path`.
    pub(crate) fn read(&self, path: &str) -> RequestBuilder {
        self.connections.get(self.at(path))
    }

    /// Begins a `PUT` to `path`.
    pub(crate) fn put(&self, path: &str) -> RequestBuilder {
        self.connections.put(self.at(path))
    }

    /// Begins a `POST` to `path`.
    pub(crate) fn post(&self, path: &str) -> RequestBuilder {
        self.connections.post(self.at(path))
    }

    /// The host was looked at once; `path` is made of segments that need no more escaping.
    fn at(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(path);
        url
    }
}

/// Sends a request, once, and reads its answer to the end.
pub(crate) async fn answer(request: RequestBuilder) -> Result<Answer, Failure> {
    let mut response = request.send().await.map_err(|error| failure(&error))?;
    let body = body(&mut response).await?;
    Ok(Answer {
        status: response.status(),
        body,
    })
}

async fn body(response: &mut Response) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failure(&error))? {
        if body.len() + chunk.len() > ANSWER_LIMIT {
            return Err(Failure::Unknown(format!(
                "the answer is longer than {ANSWER_LIMIT} bytes"
            )));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// What an error of the connection proves; see the table of [`Failure`].
fn failure(error: &reqwest::Error) -> Failure {
    if error.is_builder() {
        Failure::Fail(Reason::Other(format!(
            "no request could be made: {}",
            innermost(error)
        )))
    } else if error.is_connect() {
        Failure::Fail(Reason::Other(format!(
            "no connection could be made: {}",
            innermost(error)
        )))
    } else if error.is_timeout() {
        Failure::Unknown("no answer in time".to_owned())
    } else {
        Failure::Unknown(format!("the connection failed: {}", innermost(error)))
    }
}

/// The last cause in the chain: the outer ones repeat the address and little else.
fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// An answer that arrived whole.
#[derive(Debug)]
pub(crate) struct Answer {
    status: StatusCode,
    body: Vec<u8>,
}

/// The body of every answer that is not 200.
#[derive(Debug, Deserialize)]
#[serde(remote = "Self")]
struct Complaint {
    error: String,
    message: Option<String>,
}

impl Answer {
    /// Itself, if it is a 200. `refusal` knows, by status and error, what else of the service's is definite.
    pub(crate) fn accepted(
        &self,
        refusal: impl FnOnce(&Self, u16, &str) -> Option<Reason>,
    ) -> Result<&Self, Failure> {
        match self.status {
            StatusCode::OK => Ok(self),
            // The HTTP layer of a service refuses what is no HTTP to it without a body.
            StatusCode::BAD_REQUEST | StatusCode::TOO_MANY_REQUESTS => {
                Err(Failure::Fail(Reason::Other(self.quoted())))
            }
            status => self
                .json::<Complaint>()
                .and_then(|complaint| refusal(self, status.as_u16(), &complaint.error))
                .map_or_else(
                    || Err(self.unexpected()),
                    |reason| Err(Failure::Fail(reason)),
                ),
        }
    }

    /// The body that was promised; without it the answer proves nothing.
    pub(crate) fn promised<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        self.json().ok_or_else(|| self.unexpected())
    }

    /// The body as `T`; `None` where it is anything else.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }

    fn unexpected(&self) -> Failure {
        Failure::Unknown(format!("unexpected answer {}", self.quoted()))
    }

    /// Status and complaint: `400 bad-request: the token is missing`.
    pub(crate) fn quoted(&self) -> String {
        let status = self.status.as_u16();
        match self.json() {
            Some(Complaint {
                error,
                message: Some(message),
            }) => format!("{status} {error}: {message}"),
            Some(Complaint {
                error,
                message: None,
            }) => format!("{status} {error}"),
            None if self.body.is_empty() => format!("{status} without a body"),
            None => {
                let text = String::from_utf8_lossy(&self.body);
                let quote: String = text.chars().take(QUOTE_LIMIT).collect();
                format!("{status} {quote:?}")
            }
        }
    }
}

/// `name` as one segment of a path.
///
/// Everything but letters, digits, `-`, `_`, `~` and `.` is escaped, so that no name can end the segment or be
/// taken for another one.
///
/// # Errors
/// For the three names that no segment can hold: the empty one, `.` and `..` (URLs drop them, escaped or not).
pub(crate) fn segment(name: &str) -> Result<String, Failure> {
    if matches!(name, "" | "." | "..") {
        let message = format!("no request could be made: the name {name:?} cannot stand in a path");
        return Err(Failure::Fail(Reason::Other(message)));
    }
    let mut segment = String::with_capacity(name.len());
    for &byte in name.as_bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~' | b'.') {
            segment.push(char::from(byte));
        } else {
            segment.push('%');
            for digit in [byte >> 4, byte & 15] {
                segment.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
            }
        }
    }
    Ok(segment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Options;

    #[test]
    fn a_name_is_one_segment_of_a_path_whatever_it_holds() {
        for (name, expected) in [
            ("shard-7", "shard-7"),
            ("A_z~0.9", "A_z~0.9"),
            ("a/b", "a%2Fb"),
            ("..%2f", "..%252f"),
            ("a b?c#d", "a%20b%3Fc%23d"),
            ("é\n", "%C3%A9%0A"),
            ("...", "..."),
        ] {
            assert_eq!(segment(name), Ok(expected.to_owned()), "{name:?}");
        }
    }

    #[test]
    fn a_name_that_no_path_can_hold_is_a_definite_failure() {
        for name in ["", ".", ".."] {
            assert!(
                matches!(segment(name), Err(Failure::Fail(Reason::Other(_)))),
                "{name:?}"
            );
        }
    }

    #[test]
    fn an_address_is_a_host_and_a_port_and_nothing_else() {
        let options = Options::plain("reference", "reference", Duration::from_secs(1));
        let service = |address| {
            Service::new(&Endpoint {
                client: "c1",
                addresses: &[address],
                timeout: Duration::from_secs(1),
                options: &options,
                namespace: &options.namespace,
            })
        };
        assert!(service("127.0.0.1:80").is_ok());
        assert!(service("[::1]:80").is_ok());
        for address in [
            "",
            "127.0.0.1:port",
            "127.0.0.1:80/v1",
            "127.0.0.1:80?x",
            "127.0.0.1:80#x",
        ] {
            assert!(service(address).is_err(), "{address:?}");
        }
    }
}
