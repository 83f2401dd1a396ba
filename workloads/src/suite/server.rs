//! Where a server that somebody else started is found: `endpoints` and `url`.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::protocol::Settings;
use crate::systems::Server;

/// `host:port`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct HostPort(String);

impl HostPort {
    /// As written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn read(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let bracketed = host.starts_with('[') && host.ends_with(']');
        let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let named = !host.is_empty() && host.chars().all(fit);
        let numbered = bracketed
            && host[1..host.len() - 1]
                .parse::<std::net::Ipv6Addr>()
                .is_ok();
        let port = port.parse::<u16>().ok().filter(|port| *port > 0)?;
        (named || numbered).then(|| Self(format!("{host}:{port}")))
    }
}

impl<'de> Deserialize<'de> for HostPort {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::read(&text).ok_or_else(|| {
            de::Error::custom(format!(
                "{text:?} is no address: host:port, \"10.0.0.7:2379\", is right"
            ))
        })
    }
}

/// `postgres://user@host:port/database`. It never holds a password.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DatabaseUrl {
    /// As whom to log in.
    pub user: String,
    /// The server.
    pub address: HostPort,
    /// The database.
    pub database: String,
}

impl DatabaseUrl {
    /// Nothing of a text that may hold a password is quoted.
    fn read(text: &str) -> Result<Self, &'static str> {
        const FORM: &str = "no such URL: postgres://user@host:port/database is right";
        let rest = ["postgres://", "postgresql://"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme))
            .ok_or(FORM)?;
        let (before, after) = rest.rsplit_once('@').ok_or(FORM)?;
        if before.contains(':') {
            return Err(
                "a password has no place in a suite: password_env = \"NAME\" or password_file = \"PATH\" is right",
            );
        }
        let (server, database) = after.split_once('/').ok_or(FORM)?;
        let plain = |name: &str| {
            let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            (!name.is_empty() && name.chars().all(fit)).then(|| name.to_owned())
        };
        let address = match HostPort::read(server) {
            Some(address) => address,
            None => HostPort::read(&format!("{server}:5432")).ok_or(FORM)?,
        };
        Ok(Self {
            user: plain(before).ok_or(FORM)?,
            address,
            database: plain(database).ok_or(FORM)?,
        })
    }
}

impl Serialize for DatabaseUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!(
            "postgres://{}@{}/{}",
            self.user,
            self.address.as_str(),
            self.database
        ))
    }
}

impl<'de> Deserialize<'de> for DatabaseUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// How to reach a server that somebody else started. All of it is empty where the run starts its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Access {
    /// The members of an etcd.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<HostPort>,
    /// A PostgreSQL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<DatabaseUrl>,
    /// As whom to log in at an etcd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The environment variable that holds the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_env: Option<String>,
    /// The file that holds the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
}

impl Access {
    /// Itself, if `kind` is reached that way.
    pub(super) fn of(self, kind: &str, server: Server) -> Result<Self, String> {
        let given = |key: &str, given: bool, right: &str| match given {
            true => Err(format!("kind {kind:?} takes no `{key}`{right}")),
            false => Ok(()),
        };
        let (endpoints, url) = match server {
            Server::Reference => ("", ""),
            Server::Etcd => ("", ": endpoints = [\"host:port\"] is right"),
            Server::Postgres => (
                ": url = \"postgres://user@host:port/database\" is right",
                "",
            ),
        };
        let etcd = server == Server::Etcd;
        given("endpoints", !self.endpoints.is_empty() && !etcd, endpoints)?;
        given("url", self.url.is_some() && server != Server::Postgres, url)?;
        given(
            "user",
            self.user.is_some() && !etcd,
            if server == Server::Postgres {
                ": its url names the user"
            } else {
                ""
            },
        )?;
        let own = server == Server::Reference;
        given("password_env", self.password_env.is_some() && own, "")?;
        given("password_file", self.password_file.is_some() && own, "")?;
        if self.password_env.is_some() && self.password_file.is_some() {
            return Err("password_env and password_file: one of them is right".to_owned());
        }
        Ok(self)
    }

    /// The addresses, `host:port`; empty where none are given.
    #[must_use]
    pub fn addresses(&self) -> Vec<&str> {
        let url = self.url.iter().map(|url| &url.address);
        self.endpoints
            .iter()
            .chain(url)
            .map(HostPort::as_str)
            .collect()
    }

    /// What a client has to know beside the addresses.
    pub(super) fn settings(&self) -> Settings {
        let url = self.url.as_ref();
        Settings {
            user: self
                .user
                .clone()
                .or_else(|| url.map(|url| url.user.clone())),
            database: url.map(|url| url.database.clone()),
            password_env: self.password_env.clone(),
            password_file: self.password_file.clone(),
            ..Settings::default()
        }
    }
}
