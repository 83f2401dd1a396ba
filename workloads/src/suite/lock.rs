//! `[lock]`: which lock service, and how it is spoken to.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Span;
use super::kind::{Kind, Listed};
use super::server::{Access, DatabaseUrl, HostPort};
use crate::locks::{Connect, LOCKS};
use crate::protocol::Settings;
use crate::systems::System;

/// `[lock]`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(try_from = "Written")]
pub struct Lock {
    /// Which system.
    pub kind: Kind<Connect>,
    /// How long a grant lasts without a renewal; 50 ms to 1 h.
    pub lease: Lease,
    /// What is taken for the token; absent: the kind's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// How to reach an external one.
    #[serde(flatten)]
    pub access: Access,
}

/// How long a grant lasts: 50 ms to 1 h.
pub type Lease = Span<50, 3_600_000>;

impl Default for Lease {
    fn default() -> Self {
        Self(Duration::from_secs(1))
    }
}

/// As it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    kind: Kind<Connect>,
    #[serde(default)]
    lease: Lease,
    token: Option<String>,
    #[serde(default)]
    endpoints: Vec<HostPort>,
    url: Option<DatabaseUrl>,
    user: Option<String>,
    password_env: Option<String>,
    password_file: Option<PathBuf>,
}

impl TryFrom<Written> for Lock {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let kind = written.kind;
        kind.takes("token", written.token.as_deref())?;
        let access = Access {
            endpoints: written.endpoints,
            url: written.url,
            user: written.user,
            password_env: written.password_env,
            password_file: written.password_file,
        };
        Ok(Self {
            kind,
            lease: written.lease,
            token: written.token,
            access: access.of(kind.name(), kind.system().server)?,
        })
    }
}

impl Lock {
    /// What a client has to know to speak to it, reached by `access`.
    #[must_use]
    pub fn settings(&self, access: &Access) -> Settings {
        Settings {
            token: self.token.clone(),
            ..access.settings()
        }
    }
}

impl Listed for Connect {
    const WHAT: &'static str = "lock service";
    const ALL: &'static [System<Self>] = LOCKS;
}
