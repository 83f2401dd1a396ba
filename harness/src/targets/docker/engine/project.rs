//! What compose made under one name, known by the labels that compose gives.

use std::collections::HashMap;

use bollard::models::ContainerSummary;
use bollard::query_parameters::ListContainersOptionsBuilder;

use super::{Engine, Kind};
use crate::error::HarnessError;

const PROJECT_LABEL: &str = "com.docker.compose.project";
const SERVICE_LABEL: &str = "com.docker.compose.service";

impl Engine {
    /// Removes all that compose made under a name; says whether there was anything.
    pub async fn remove_project(&self, name: &str) -> Result<bool, HarnessError> {
        let there = self.labelled(&format!("{PROJECT_LABEL}={name}")).await?;
        for wanted in [Kind::Container, Kind::Network, Kind::Volume] {
            for (_, name) in there.iter().filter(|(kind, _)| *kind == wanted) {
                Box::pin(self.remove(wanted, name)).await?;
            }
        }
        Ok(!there.is_empty())
    }

    /// The containers of a compose project, whatever their state: the service that each is of, and its name.
    pub async fn of_project(&self, project: &str) -> Result<Vec<(String, String)>, HarnessError> {
        let found = self.composed(project, None, true).await?.into_iter();
        let mut services: Vec<(String, String)> = found
            .filter_map(|mut found| {
                let service = found.labels.as_mut()?.remove(SERVICE_LABEL)?;
                Some((service, name_of(&found)?))
            })
            .collect();
        services.sort();
        Ok(services)
    }

    /// The container of a service of a compose project that runs: its id and its name.
    pub async fn of_service(
        &self,
        project: &str,
        service: &str,
    ) -> Result<Option<(String, String)>, HarnessError> {
        let found = self.composed(project, Some(service), false).await?;
        let mut found = found.into_iter();
        Ok(found.find_map(|found| {
            let name = name_of(&found)?;
            Some((found.id?, name))
        }))
    }

    /// The first container of a compose project, or of a service of it, that has ended or is unhealthy: its name, and in
    /// what state it is. One that failed comes before one that ended well: that may have been all it was to do.
    pub async fn troubled(
        &self,
        project: &str,
        service: Option<&str>,
    ) -> Result<Option<(String, String)>, HarnessError> {
        let found = self.composed(project, service, true).await?;
        let states = found.into_iter().filter_map(|found| {
            let name = name_of(&found)?;
            let state = found.status?;
            let ended = state.starts_with("Exited") || state.starts_with("Dead");
            let troubled = ended || state.contains("unhealthy") || state.starts_with("Restarting");
            // Without how long ago that was: `Exited (1) 2 seconds ago`.
            let state = state.split_inclusive(')').next().unwrap_or_default();
            troubled.then(|| (name, state.to_lowercase()))
        });
        Ok(states.min_by_key(|(name, state)| (state == "exited (0)", name.clone())))
    }

    /// The containers of a project, or of one service of it: those that run, or all.
    async fn composed(
        &self,
        project: &str,
        service: Option<&str>,
        all: bool,
    ) -> Result<Vec<ContainerSummary>, HarnessError> {
        let mut labels = vec![format!("{PROJECT_LABEL}={project}")];
        labels.extend(service.map(|service| format!("{SERVICE_LABEL}={service}")));
        let wanted: Vec<&str> = labels.iter().map(String::as_str).collect();
        let filters = HashMap::from([("label", wanted)]);
        let options = ListContainersOptionsBuilder::default()
            .all(all)
            .filters(&filters)
            .build();
        let found = self.docker.list_containers(Some(options));
        self.call(&format!("list the containers of {project}"), found)
            .await
    }
}

/// The first name of a container, without the slash before it.
fn name_of(container: &ContainerSummary) -> Option<String> {
    let name = container.names.as_ref()?.first()?;
    Some(name.trim_start_matches('/').to_owned())
}
