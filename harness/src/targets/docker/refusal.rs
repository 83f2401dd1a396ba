//! What an engine refuses, in one line.

use bollard::errors::Error;

/// Whether the engine has nothing of that name.
pub(super) fn is_missing(error: &Error) -> bool {
    matches!(
        error,
        Error::DockerResponseServerError {
            status_code: 404,
            ..
        }
    )
}

/// So much of somebody else's words is repeated, in characters.
const REPEATED: usize = 200;

/// Somebody else's words in one line, and not more of them than help.
pub(super) fn in_one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown: String = line.chars().take(REPEATED).collect();
    if shown.len() < line.len() {
        shown.push_str("...");
    }
    // What else a terminal would obey.
    let plain = |c: char| {
        if c.is_control() {
            c.escape_default().to_string()
        } else {
            c.to_string()
        }
    };
    shown.chars().map(plain).collect()
}

/// Whether an engine could be where a DOCKER_HOST of `tcp://` or `http://` says: `HOST` or `HOST:PORT`.
pub(super) fn is_address(authority: &str) -> bool {
    let authority = authority.trim_end_matches('/');
    let (host, port) = match authority.rsplit_once(':') {
        // An address of version 6 has brackets round it, and colons inside.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let port_fits = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let host_fits = match bare {
        Some(bare) => bare.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            !host.is_empty() && host.chars().all(inside)
        }
    };
    host_fits && port_fits
}

/// Why an engine cannot be spoken with, and what would be right.
pub(super) fn unreachable(host: &str, error: &Error) -> String {
    let host = in_one_line(host);
    let kind = io_kind(error);
    match kind {
        Some(std::io::ErrorKind::PermissionDenied) => format!(
            "no permission on {host}: be root, or a member of the group that owns the socket (usually `docker`)"
        ),
        Some(std::io::ErrorKind::ConnectionRefused | std::io::ErrorKind::NotFound) => format!(
            "no engine answers at {host} ({}); start one, or name it in DOCKER_HOST",
            words(error)
        ),
        _ => format!(
            "{host}: {}; a Docker engine from 20.10 on is right",
            words(error)
        ),
    }
}

/// The operating system's reason, where there is one.
fn io_kind(error: &Error) -> Option<std::io::ErrorKind> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(found) = cause {
        if let Some(io) = found.downcast_ref::<std::io::Error>() {
            return Some(io.kind());
        }
        cause = found.source();
    }
    None
}

/// An error in one line, with its innermost reason; one that says nothing is told by its kind.
pub(super) fn words(error: &Error) -> String {
    let mut text = match error {
        Error::DockerResponseServerError {
            status_code,
            message,
        } if message.trim().is_empty() => format!("status {status_code} without a word"),
        Error::DockerResponseServerError {
            status_code,
            message,
        } if message.trim_start().starts_with('<') => {
            format!("status {status_code} with a page that is no engine's")
        }
        Error::DockerResponseServerError { message, .. } => message.clone(),
        Error::DockerStreamError { error } => error.clone(),
        Error::RequestTimeoutError => "no answer in time".to_owned(),
        other => other.to_string(),
    };
    let mut cause = std::error::Error::source(error);
    while let Some(found) = cause {
        let inner = found.to_string();
        if !text.contains(&inner) {
            text = format!("{text}: {inner}");
        }
        cause = found.source();
    }
    match text.trim() {
        "" => in_one_line(&format!("{error:?}")),
        text => in_one_line(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(message: &str) -> Error {
        Error::DockerResponseServerError {
            status_code: 503,
            message: message.to_owned(),
        }
    }

    #[test]
    fn what_is_refused_is_told_in_one_short_line() {
        assert_eq!(words(&answer(" \n")), "status 503 without a word");
        assert_eq!(
            words(&answer("<html>\n<p>Hello")),
            "status 503 with a page that is no engine's"
        );
        assert_eq!(
            words(&answer("no\nsuch\tthing\u{1b}[1m")),
            "no such thing\\u{1b}[1m"
        );
        let long = words(&answer(&"x".repeat(5_000)));
        assert_eq!((long.chars().count(), long.ends_with("x...")), (203, true));
        assert_eq!(words(&Error::RequestTimeoutError), "no answer in time");
        let words = unreachable("tcp://h:1", &answer(""));
        assert_eq!(
            words,
            "tcp://h:1: status 503 without a word; a Docker engine from 20.10 on is right"
        );
    }

    #[test]
    fn an_address_has_a_host_and_perhaps_a_port() {
        for right in [
            "host",
            "host:2375",
            "10.0.0.7:1/",
            "[::1]:2375",
            "[::1]",
            "my_host-1",
        ] {
            assert!(is_address(right), "{right}");
        }
        for wrong in [
            "",
            "/",
            ":2375",
            "host:",
            "host:port",
            "host:0",
            "host:65536",
            "a b:1",
            "h/p",
            "[x]:1",
            "u@h:1",
        ] {
            assert!(!is_address(wrong), "{wrong}");
        }
    }
}
