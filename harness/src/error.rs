//! Our own failures, and the exit status that each has. Verdicts and outcomes of operations are never errors.

use std::path::PathBuf;

use fencepost_workloads::suite::SuiteError;

/// Exit status for wrong usage or an unreadable input.
pub const EXIT_USAGE: u8 = 64;
/// Exit status when the harness itself failed.
pub const EXIT_FAILURE: u8 = 70;

/// Why a command could not do its work. Each variant carries what it touched.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// A flag or argument that means nothing.
    #[error("{0}")]
    Usage(String),
    /// A suite that cannot be used.
    #[error(transparent)]
    Suite(#[from] SuiteError),
    /// A file given by the user that cannot be read.
    #[error("{}: {source}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file or folder of the run that cannot be written.
    #[error("failed to write {}: {source}", path.display())]
    Output {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A node that did not come up, or died.
    #[error("{node}: {message}")]
    Node {
        /// `lock`, `resource`, `proxy`, `w1` ...
        node: String,
        /// What happened, with the last line of its log.
        message: String,
    },
    /// The fault proxy did not do as it was told.
    #[error(transparent)]
    Proxy(#[from] crate::proxies::ProxyError),
    /// The operating system refused something.
    #[error("failed to {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// Something else of ours broke.
    #[error("{0}")]
    Internal(String),
}

impl HarnessError {
    /// 64 where the user can mend it, 70 where we failed.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Suite(_) | Self::Input { .. } => EXIT_USAGE,
            _ => EXIT_FAILURE,
        }
    }

    /// A node's trouble.
    pub fn node(node: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Node {
            node: node.into(),
            message: message.into(),
        }
    }
}
