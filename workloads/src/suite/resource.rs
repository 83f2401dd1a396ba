//! `[resource]`: which fenced resource, and how it is spoken to.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::kind::{Kind, Listed};
use super::server::{Access, DatabaseUrl, HostPort};
use crate::protocol::Settings;
use crate::resources::{Connect, RESOURCES};
use crate::systems::{Server, System};

/// `[resource]`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(try_from = "Written")]
pub struct Resource {
    /// Which system.
    pub kind: Kind<Connect>,
    /// How a write is fenced; absent: the kind's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<String>,
    /// Whether the high water is a key's or a lock's. Only the reference resource can keep a lock's.
    #[serde(default, skip_serializing_if = "Mark::is_of_key")]
    pub mark: Mark,
    /// How to reach an external one.
    #[serde(flatten)]
    pub access: Access,
}

/// What has a high water of its own.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// Each key.
    #[default]
    Key,
    /// Each lock, for all its keys together.
    Lock,
}

impl Mark {
    fn is_of_key(&self) -> bool {
        *self == Self::Key
    }
}

/// As it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    kind: Kind<Connect>,
    fence: Option<String>,
    #[serde(default)]
    mark: Mark,
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
        if written.mark == Mark::Lock && kind.system().server != Server::Reference {
            return Err(format!(
                "kind {:?} keeps one mark a key: mark = \"key\" is right",
                kind.name()
            ));
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
            fence: written.fence,
            mark: written.mark,
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
            mark: (self.mark == Mark::Lock).then(|| "lock".to_owned()),
            ..access.settings()
        }
    }
}

impl Listed for Connect {
    const WHAT: &'static str = "resource";
    const ALL: &'static [System<Self>] = RESOURCES;
}
