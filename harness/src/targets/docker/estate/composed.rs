//! What compose makes for a run: each file is brought up once, as a project of its own that has the run's id in its name.

use std::net::Ipv4Addr;
use std::sync::PoisonError;

use super::super::compose;
use super::super::container::Container;
use super::super::engine::{Engine, Kind};
use super::{Estate, Made};
use crate::error::HarnessError;
use crate::targets::logs::last_words;

impl Estate {
    /// Brings a compose file's services up, unless another node has done so, and puts the one that is to be `node` on the
    /// run's network. Its engine does not start it again by itself from then on: that is for the faults to do.
    ///
    /// # Errors
    /// When compose or the engine refuses.
    pub async fn start_composed(
        &self,
        node: &str,
        file: &str,
        service: &str,
        address: Ipv4Addr,
    ) -> Result<Container, HarnessError> {
        let (project, is_up) = self.project_of(node, file);
        self.announce(Kind::Project, &project)?;
        let (engine, network) = (self.engine.clone(), self.network.clone());
        let (path, wanted, alias) = (file.to_owned(), service.to_owned(), node.to_owned());
        let marker = format!("{}/{node}", self.run);
        if !is_up {
            self.projects
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((file.to_owned(), project.clone()));
        }
        let (name, container) = self
            .make(async move {
                if !is_up && let Err(error) = compose::up(&project, &path, &marker).await {
                    return Err(with_last_words(&engine, &project, None, error).await);
                }
                let found = engine.of_service(&project, &wanted).await?;
                let Some((id, name)) = found else {
                    let ended = engine.troubled(&project, Some(&wanted)).await;
                    if ended.is_ok_and(|ended| ended.is_some()) {
                        let error = HarnessError::node("compose", format!("{path} is up"));
                        return Err(with_last_words(&engine, &project, Some(&wanted), error).await);
                    }
                    return Err(HarnessError::Usage(format!(
                        "{path}: no container of a service {wanted:?} runs: the name of one of its services is right"
                    )));
                };
                engine.never_restart(&id).await?;
                engine
                    .connect(&network, &id, &address.to_string(), &alias)
                    .await?;
                Ok((name, Container::of(&engine, &id).await?))
            })
            .await
            .map_err(|error| self.of_node(node, error))?;
        let made = Made {
            name,
            address,
            attached: false,
        };
        self.containers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(node.to_owned(), made);
        Ok(container)
    }

    /// The name of a file's project, and whether it is up: the run's for the first file, with the node's for another.
    fn project_of(&self, node: &str, file: &str) -> (String, bool) {
        let projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        match projects.iter().find(|(known, _)| known == file) {
            Some((_, project)) => (project.clone(), true),
            None if projects.is_empty() => (self.network.clone(), false),
            // It ends in the run's id too, which is how it is known as the run's.
            None => (format!("fencepost-{node}-{}", self.run), false),
        }
    }

    /// Saves what the services of compose files have said that are no nodes of the run, as `compose-SERVICE.log`.
    pub(super) fn save_logs_of_others(&self) {
        let projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        let ours: Vec<String> = self
            .containers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .map(|made| made.name.clone())
            .collect();
        for (_, project) in projects.iter() {
            let (engine, project) = (self.engine.clone(), project.clone());
            let (logs, ours) = (self.logs.clone(), ours.clone());
            // A log that cannot be had or saved is no reason to leave the container.
            self.engine.wait_for(async move {
                let services = engine.of_project(&project).await.unwrap_or_default();
                for (service, name) in services.iter().filter(|(_, name)| !ours.contains(name)) {
                    let Ok(text) = engine.logs(name, true).await else {
                        continue;
                    };
                    let mut path = logs.join(format!("compose-{service}.log"));
                    if path.exists() {
                        path = logs.join(format!("compose-{name}.log"));
                    }
                    let _ = std::fs::write(path, text);
                }
            });
        }
    }
}

/// An error of a compose project, with what the first of its containers says that has ended or is not well.
async fn with_last_words(
    engine: &Engine,
    project: &str,
    service: Option<&str>,
    error: HarnessError,
) -> HarnessError {
    let HarnessError::Node { node, message } = error else {
        return error;
    };
    let troubled = engine.troubled(project, service).await.ok().flatten();
    let message = match troubled {
        Some((name, state)) => {
            let log = engine.logs(&name, true).await.unwrap_or_default();
            format!("{message}; {name}: {state}{}", last_words(&log))
        }
        None => message,
    };
    HarnessError::Node { node, message }
}
