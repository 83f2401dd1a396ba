//! Whether a Toxiproxy answers at an address, asked once and without the client crate, which would wait for half a minute.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::wire;

/// How long connecting and answering may take together.
const WITHIN: Duration = Duration::from_secs(2);
/// No version is longer than this, head of the answer included, in bytes.
const LONGEST: usize = 16 << 10;

/// Asks for the version. Blocks, for two seconds at most.
///
/// # Errors
/// What is wrong with the address, fit to follow it, in one short line.
pub fn look_at(api: SocketAddr) -> Result<String, String> {
    let deadline = Instant::now() + WITHIN;
    let mut stream = TcpStream::connect_timeout(&api, WITHIN)
        .map_err(|error| format!("does not answer ({error})"))?;
    let silent = || format!("takes connections and says nothing within {WITHIN:?}");
    let broken = |error: std::io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => silent(),
        _ => format!("hangs up ({error})"),
    };
    stream.set_write_timeout(Some(WITHIN)).map_err(broken)?;
    let request = format!("GET /version HTTP/1.1\r\nHost: {api}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(broken)?;
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    // Until the end, or until it has the version: some servers keep the connection open all the same.
    let wrong = loop {
        let said = body(&answer).map(|body| wire::version(&body));
        if let Some(Ok(version)) = said {
            return Ok(version);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() && answer.is_empty() {
            return Err(silent());
        }
        if left.is_zero() || answer.len() > LONGEST {
            break said;
        }
        stream.set_read_timeout(Some(left)).map_err(broken)?;
        match stream.read(&mut chunk) {
            Ok(0) => break said,
            Ok(read) => answer.extend_from_slice(&chunk[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if answer.is_empty() => return Err(broken(error)),
            Err(_) => break said,
        }
    };
    let shown = match wrong {
        Some(_) => body(&answer).unwrap_or_default(),
        None => String::from_utf8_lossy(&answer).into_owned(),
    };
    let shown = wire::quoted(shown.trim());
    Err(format!(
        "is no Toxiproxy: asked for its version, it says {shown}"
    ))
}

/// What follows the head of an HTTP answer. A chunk's length is taken off: a version is one chunk.
fn body(answer: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let chunked = head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");
    let body = match body.split_once("\r\n") {
        Some((_, rest)) if chunked => rest.split("\r\n").next().unwrap_or_default(),
        _ => body,
    };
    Some(body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(answer: &'static str) -> SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("it is asked");
            let mut request = [0; 1024];
            let _ = client.read(&mut request);
            let _ = client.write_all(answer.as_bytes());
            // Open until the other side goes away: what was said must be enough.
            let _ = client.read_to_end(&mut Vec::new());
        });
        address
    }

    #[test]
    fn a_toxiproxy_is_known_by_its_version_however_it_sends_it() {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 22\r\n\r\n{\"version\": \"2.12.0\"}\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n16\r\n{\"version\": \"2.12.0\"}\n\r\n0\r\n\r\n",
        ] {
            assert_eq!(look_at(server(answer)).as_deref(), Ok("2.12.0"));
        }
    }

    #[test]
    fn another_server_is_quoted_shortly_and_a_silent_one_is_given_up_in_time() {
        let begun = Instant::now();
        let page = "HTTP/1.1 200 OK\r\n\r\n<html>\n<title>a shop</title>";
        let said = look_at(server(page)).expect_err("no Toxiproxy");
        assert_eq!(
            said,
            "is no Toxiproxy: asked for its version, it says \"<html>\\n<title>a shop</title>\""
        );
        let said = look_at(server("")).expect_err("silent");
        assert_eq!(said, "takes connections and says nothing within 2s");
        assert!(begun.elapsed() < 2 * WITHIN + Duration::from_secs(1));
    }
}
