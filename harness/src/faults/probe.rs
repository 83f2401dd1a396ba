//! A request through a link, as evidence: what a client of that link sees now.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What a service answers to anybody, without being asked for anything that matters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Greeting {
    /// HTTP/1.1: a GET of this path.
    Http(&'static str),
    /// PostgreSQL: the question whether it speaks TLS, which it answers with one byte before it knows who asks.
    Postgres,
}

impl Greeting {
    fn bytes(self, link: &str) -> Vec<u8> {
        match self {
            Self::Http(path) => {
                format!("GET {path} HTTP/1.1\r\nHost: {link}\r\nConnection: close\r\n\r\n")
                    .into_bytes()
            }
            Self::Postgres => vec![0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f],
        }
    }
}

/// What became of a greeting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Passage {
    /// The first byte of an answer came after so long.
    Answered(Duration),
    /// Connected and sent, and nothing came.
    Silent,
    /// The connection was closed or reset without an answer.
    Closed,
    /// No connection.
    Refused,
}

/// Sends one greeting on a connection of its own and waits at most `within` for the first byte of an answer.
pub async fn probe(link: &str, greeting: Greeting, within: Duration) -> Passage {
    let begun = Instant::now();
    let Ok(Ok(mut stream)) = tokio::time::timeout(within, TcpStream::connect(link)).await else {
        return Passage::Refused;
    };
    // Without an answer in time it stays silent, whether the request went out or not.
    if stream.write_all(&greeting.bytes(link)).await.is_err() {
        return Passage::Closed;
    }
    let mut first = [0_u8; 1];
    match tokio::time::timeout(within, stream.read(&mut first)).await {
        Err(_) => Passage::Silent,
        Ok(Ok(1..)) => Passage::Answered(begun.elapsed()),
        Ok(Ok(0) | Err(_)) => Passage::Closed,
    }
}
