//! Why a suite cannot be used, in one line.

/// A suite that cannot be used: where it stands, what is wrong, what would be right.
#[derive(Debug, thiserror::Error)]
#[error("{origin}{}: {message}", line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct SuiteError {
    /// The file, or the built-in suite.
    pub origin: String,
    /// The line, from 1, where it is known.
    pub line: Option<usize>,
    /// What is wrong and what would be right, with the field's name.
    pub message: String,
}

impl SuiteError {
    pub(super) fn from_toml(error: &toml::de::Error, text: &str, origin: &str) -> Self {
        let line = error.span().map(|span| {
            text.as_bytes()[..span.start.min(text.len())]
                .iter()
                .filter(|&&b| b == b'\n')
                .count()
                + 1
        });
        let quoted = line
            .and_then(|line| text.lines().nth(line - 1))
            .map(str::trim)
            .filter(|quoted| !quoted.is_empty())
            .map(without_url);
        let reason = error
            .message()
            .split('\n')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("; ");
        let message = match quoted {
            Some(quoted) => format!(
                "`{}`: {reason}",
                quoted.chars().take(120).collect::<String>()
            ),
            None => reason,
        };
        Self {
            origin: origin.to_owned(),
            line,
            message,
        }
    }

    pub(super) fn in_field(origin: &str, field: &str, message: String) -> Self {
        Self {
            origin: origin.to_owned(),
            line: None,
            message: format!("{field}: {message}"),
        }
    }
}

/// A line without its URL or login: people write passwords into them, and an error ends up in a log.
fn without_url(line: &str) -> String {
    match line.split_once('=') {
        Some((key, value)) if value.contains("://") || value.contains('@') => {
            format!("{}= ...", key)
        }
        _ => line.to_owned(),
    }
}
