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
            let unfit = |why: &str| Err(Misfit::between(&[table], why.to_owned()));
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
            if name == "toxiproxy" && (node.port.is_some() || node.data.is_some()) {
                return unfit("takes an image, and perhaps a command and environment, alone");
            }
            node.possible()
                .map_err(|why| Misfit::between(&[table], why))?;
        }
        Ok(())
    }
}

impl NodeImage {
    /// That an engine would take it.
    fn possible(&self) -> Result<(), String> {
        if let Some(image) = self.image.as_ref().filter(|image| !is_reference(image)) {
            return Err(format!(
                "{image:?} is no image: a name as in \"registry.example:5000/fenced-store:1.4\", in small letters, is right"
            ));
        }
        let inside = |data: &str| data.starts_with('/') && data.len() > 1 && !data.contains('\0');
        if let Some(data) = self.data.as_ref().filter(|data| !inside(data)) {
            return Err(format!(
                "data = {data:?} is no folder inside: an absolute path, \"/data\", is right"
            ));
        }
        let names = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
        if let Some(name) = self.environment.keys().find(names) {
            return Err(format!(
                "{name:?} is no name of a variable: one without \"=\" is right"
            ));
        }
        let mut words = self.command.iter().chain(self.environment.values());
        if words.any(|word| word.contains('\0')) {
            return Err("no program can be given a NUL byte: leave it out".to_owned());
        }
        Ok(())
    }
}

/// Whether an engine reads `text` as the name of an image: `[host[:port]/]path[:tag][@digest]`.
fn is_reference(text: &str) -> bool {
    let (text, digest) = match text.split_once('@') {
        Some((text, digest)) => (text, Some(digest)),
        None => (text, None),
    };
    let fine_digest = digest.is_none_or(|digest| {
        let (algorithm, digits) = digest.split_once(':').unwrap_or_default();
        !algorithm.is_empty()
            && algorithm.chars().all(|c| c.is_ascii_alphanumeric())
            && digits.len() >= 32
            && digits.chars().all(|c| c.is_ascii_hexdigit())
    });
    // A colon before a slash is a port's.
    let (name, tag) = match text.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (text, None),
    };
    let fine_tag = tag.is_none_or(|tag| {
        let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        (1..=128).contains(&tag.len()) && !tag.starts_with(['.', '-']) && tag.chars().all(inside)
    });
    // As engines tell a registry from the first part of a path.
    let (host, path) = match name.split_once('/') {
        Some((host, path))
            if host.contains(['.', ':'])
                || host == "localhost"
                || host.chars().any(|c| c.is_ascii_uppercase()) =>
        {
            (Some(host), path)
        }
        _ => (None, name),
    };
    let fine_host = host.is_none_or(|host| {
        let inside =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
        host.chars().all(inside)
    });
    let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let mut parts = path.split('/');
    let fine_path = parts.all(|part| {
        let inside = |c: char| end(Some(c)) || matches!(c, '.' | '_' | '-');
        end(part.chars().next()) && end(part.chars().next_back()) && part.chars().all(inside)
    });
    fine_digest && fine_tag && fine_host && fine_path && name.len() <= 255
}
