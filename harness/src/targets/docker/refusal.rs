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

/// Why an engine cannot be spoken with, and what would be right.
pub(super) fn unreachable(host: &str, error: &Error) -> String {
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

/// An error in one line, with its innermost reason.
pub(super) fn words(error: &Error) -> String {
    let mut text = match error {
        Error::DockerResponseServerError { message, .. } => message.clone(),
        Error::DockerStreamError { error } => error.clone(),
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
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
