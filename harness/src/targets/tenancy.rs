//! A run's place in a server: its keys and tables, all under one name of the run.
//!
//! A place in a server of the user's is written down before it is made, and removed after the run, however that ends.
//! In a server of the run's own it is made and goes with the server's data.

use std::time::Duration;

use fencepost_workloads::client::{Endpoint, Steward};
use fencepost_workloads::locks::LOCKS;
use fencepost_workloads::protocol::{Options, Settings};
use fencepost_workloads::resources::RESOURCES;
use fencepost_workloads::suite::Suite;
use fencepost_workloads::systems::{Employ, find};
use serde::{Deserialize, Serialize};

use super::local::Service;
use crate::error::HarnessError;
use crate::journal::{Entry, Journal};

fencepost_checker::only_objects!(Tenancy);

/// How long one question to a server may take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);
/// What a server was still doing for a client that is gone has happened after this.
const AFTERMATH: Duration = Duration::from_millis(500);

/// The name under which all keys and tables of a run lie.
#[must_use]
pub fn namespace(run: &str) -> String {
    format!("fp_{run}")
}

/// One role's place. A lock and a resource in one server share what is made there.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Tenancy {
    /// `lock` or `resource`.
    service: String,
    /// The server's members, `host:port`, past the proxies.
    addresses: Vec<String>,
    /// What the workers are told. A password is never in it, only where to find one.
    options: Options,
}

impl Tenancy {
    /// The place of `service` in the servers at `addresses`.
    #[must_use]
    pub fn new(suite: &Suite, service: Service, run: &str, addresses: Vec<String>) -> Self {
        Self {
            service: service.name().to_owned(),
            addresses,
            options: suite.options(&namespace(run)),
        }
    }

    /// Whether everything in it is named after `run`.
    #[must_use]
    pub fn is_of(&self, run: &str) -> bool {
        self.options.namespace == namespace(run)
    }

    fn kind(&self) -> &str {
        match self.service == Service::Lock.name() {
            true => &self.options.lock,
            false => &self.options.resource,
        }
    }

    fn settings(&self) -> &Settings {
        match self.service == Service::Lock.name() {
            true => &self.options.lock_settings,
            false => &self.options.resource_settings,
        }
    }

    /// Who looks after it; `None` where there is nothing to look after, or this build cannot.
    fn employ(&self) -> Option<Employ> {
        match self.service == Service::Lock.name() {
            true => find(LOCKS, self.kind())?.steward,
            false => find(RESOURCES, self.kind())?.steward,
        }
    }

    /// Where it is, for a person.
    #[must_use]
    pub fn place(&self) -> String {
        let database = self.settings().database.as_ref();
        format!(
            "{} at {}{}",
            self.kind(),
            self.addresses.join(","),
            database.map(|name| format!("/{name}")).unwrap_or_default()
        )
    }

    fn steward(&self, employ: Employ) -> Result<Box<dyn Steward>, String> {
        let addresses: Vec<&str> = self.addresses.iter().map(String::as_str).collect();
        let endpoint = Endpoint {
            client: "fencepost",
            addresses: &addresses,
            timeout: ANSWERS_WITHIN,
            options: &self.options,
            namespace: &self.options.namespace,
        };
        employ(&endpoint).map_err(|error| error.to_string())
    }

    /// Makes the place. In a server of the user's it is written down first, and a database that holds something else is
    /// left alone unless `force`.
    ///
    /// # Errors
    /// When the server does not serve, holds something else, or does not let us.
    pub async fn move_in(
        &self,
        of_users: Option<&Journal>,
        force: bool,
    ) -> Result<(), HarnessError> {
        let Some(employ) = self.employ() else {
            return Ok(());
        };
        let failed = |why: String| {
            HarnessError::node(self.service.as_str(), format!("{}: {why}", self.place()))
        };
        let steward = self.steward(employ).map_err(failed)?;
        let told = |error: fencepost_workloads::client::StewardError| failed(error.to_string());
        if let Some(journal) = of_users {
            steward.ready().await.map_err(told)?;
            let strangers = steward.strangers().await.map_err(told)?;
            if !strangers.is_empty() && !force {
                return Err(HarnessError::Usage(format!(
                    "{} holds {}: an empty database is right, or --force, which writes beside them",
                    self.place(),
                    some_of(&strangers)
                )));
            }
            journal.write(&Entry::Tenancy {
                tenancy: Box::new(self.clone()),
            })?;
        }
        steward.prepare().await.map_err(told)
    }

    /// Removes the place with all that is in it.
    ///
    /// # Errors
    /// What is left and why.
    pub async fn move_out(&self) -> Result<(), String> {
        let left = |why: String| {
            let (name, place) = (&self.options.namespace, self.place());
            format!("what is called {name} in {place}: {why}")
        };
        let employ = self.employ().ok_or_else(|| {
            let kind = self.kind();
            left(format!(
                "this build has no client of {kind}: build it with --features all-systems"
            ))
        })?;
        let steward = self.steward(employ).map_err(left)?;
        steward
            .clear()
            .await
            .map_err(|error| left(error.to_string()))
    }
}

/// Removes all places, twice: a server may finish what it was doing for a client that is gone. Returns what is left.
pub async fn move_out(tenancies: &[Tenancy]) -> Vec<String> {
    if tenancies.is_empty() {
        return Vec::new();
    }
    for tenancy in tenancies {
        // What goes wrong now is told below if it still does.
        let _ = tenancy.move_out().await;
    }
    tokio::time::sleep(AFTERMATH).await;
    let mut left = Vec::new();
    for tenancy in tenancies {
        left.extend(tenancy.move_out().await.err());
    }
    left
}

/// The first few of them.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len() {
        0..=SHOWN => shown,
        all => format!("{shown} and {} more", all - SHOWN),
    }
}
