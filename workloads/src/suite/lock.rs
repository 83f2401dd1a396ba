//! `[lock]`: which lock service, and how it is spoken to.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Span;
use super::kind::{Kind, Listed};
use super::server::{Access, DatabaseUrl, HostPort};
use crate::locks::{Connect, LOCKS};
use crate::protocol::Settings;
use crate::systems::{Server, System};

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
    /// The token of each lock's first grant: a counter that has run for years begins high. Only the reference service
    /// can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_token: Option<FirstToken>,
    /// How to reach an external one.
    #[serde(flatten)]
    pub access: Access,
}

/// A token to begin with: 1 to 2^63-1.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct FirstToken(pub u64);

impl<'de> Deserialize<'de> for FirstToken {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let right = "a whole number from 1 to 9223372036854775807 is right";
        let number = i64::deserialize(deserializer).map_err(|_| serde::de::Error::custom(right))?;
        let fit = u64::try_from(number).ok().filter(|number| *number > 0);
        fit.map(Self)
            .ok_or_else(|| serde::de::Error::custom(format!("{number} is no first token: {right}")))
    }
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
    first_token: Option<FirstToken>,
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
        if written.first_token.is_some() && kind.system().server != Server::Reference {
            return Err(format!("kind {:?} takes no `first_token`", kind.name()));
        }
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
            first_token: written.first_token,
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
