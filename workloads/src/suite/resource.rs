//! `[resource]`: which fenced resource, and how it is spoken to.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::kind::{Kind, Listed};
use super::server::{Access, DatabaseUrl, HostPort};
use crate::protocol::Settings;
use crate::resources::{Connect, RESOURCES};
use crate::systems::System;

/// `[resource]`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(try_from = "Written")]
pub struct Resource {
    /// Which system.
    pub kind: Kind<Connect>,
    /// How a write is fenced; absent: the kind's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<String>,
    /// How to reach an external one.
    #[serde(flatten)]
    pub access: Access,
}

/// As it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    kind: Kind<Connect>,
    fence: Option<String>,
    #[serde(default)]
    endpoints: Vec<HostPort>,
    url: Option<DatabaseUrl>,
    user: Option<String>,
    password_env: Option<String>,
    password_file: Option<PathBuf>,
}

impl TryFrom<Written> for Resource {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let kind = written.kind;
        kind.takes("fence", written.fence.as_deref())?;
        let access = Access {
            endpoints: written.endpoints,
            url: written.url,
            user: written.user,
            password_env: written.password_env,
            password_file: written.password_file,
        };
        Ok(Self {
            kind,
            fence: written.fence,
            access: access.of(kind.name(), kind.system().server)?,
        })
    }
}

impl Resource {
    /// What a client has to know to speak to it, reached by `access`.
    #[must_use]
    pub fn settings(&self, access: &Access) -> Settings {
        Settings {
            fence: self.fence.clone(),
            ..access.settings()
        }
    }
}

impl Listed for Connect {
    const WHAT: &'static str = "resource";
    const ALL: &'static [System<Self>] = RESOURCES;
}
