//! `[nodes]`: images and compose services of one's own in the docker target.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Count, Misfit};

/// `[nodes]`: whose containers serve in which role; what is left out is the reference service.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Nodes {
    /// The lock service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<NodeImage>,
    /// The fenced resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<NodeImage>,
    /// The fault proxy: an image of Toxiproxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toxiproxy: Option<NodeImage>,
}

/// `[nodes.NAME]`
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeImage {
    /// An image; it is pulled where it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// A compose file instead, whose services are all started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compose: Option<String>,
    /// Which of its services serves in this role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The port inside at which clients are served; 1 to 65535.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<Count<65_535>>,
    /// Arguments for the image's entry point; its own if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Variables.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The folder inside that is a volume, kept over restarts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

impl Nodes {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// That each says enough and not too much.
    ///
    /// # Errors
    /// The key and what would be right.
    pub(super) fn fit(&self) -> Result<(), Misfit> {
        for (name, table, node) in [
            ("lock", "nodes.lock", &self.lock),
            ("resource", "nodes.resource", &self.resource),
            ("toxiproxy", "nodes.toxiproxy", &self.toxiproxy),
        ] {
            let Some(node) = node else { continue };
            let unfit = |why: &str| Err(Misfit::between(&[table], format!("[{table}] {why}")));
            match (&node.image, &node.compose, &node.service) {
                (Some(_), None, None) => {}
                (None, Some(_), Some(_)) if name != "toxiproxy" => {
                    let own = !node.command.is_empty()
                        || !node.environment.is_empty()
                        || node.data.is_some();
                    if own {
                        return unfit("takes command, environment and data from its compose file");
                    }
                }
                (None, None, None) | (None, Some(_), None) | (None, None, Some(_)) => {
                    return unfit(
                        "needs image = \"...\", or compose = \"FILE\" and service = \"NAME\"",
                    );
                }
                _ => return unfit("is an image, or a service of a compose file, and not both"),
            }
            if node.port.is_none() && name != "toxiproxy" {
                return unfit("needs port = N, where clients are served inside");
            }
        }
        Ok(())
    }
}
