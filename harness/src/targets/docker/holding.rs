//! What a run has recorded of an engine, and its removal by exactly that record.

use serde::{Deserialize, Serialize};

use super::engine::{Engine, Kind};

/// Something at an engine that is to go with the run.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Holding {
    /// The engine, as DOCKER_HOST would say it.
    pub host: String,
    /// `container`, `network` or `volume`.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

/// Removes what is recorded of `run`, where it carries the label of exactly that run. Returns what was removed, and what
/// is left.
pub fn remove_recorded(run: &str, holdings: &[Holding]) -> (Vec<String>, Vec<String>) {
    let mut hosts: Vec<&str> = holdings
        .iter()
        .map(|holding| holding.host.as_str())
        .collect();
    hosts.sort_unstable();
    hosts.dedup();
    let (mut removed, mut left) = (Vec::new(), Vec::new());
    for host in hosts {
        let there: Vec<Holding> = holdings
            .iter()
            .filter(|holding| holding.host == host)
            .cloned()
            .collect();
        match Engine::reach_at(host) {
            Ok(engine) => {
                let (asked, run) = (engine.clone(), run.to_owned());
                let (gone, stays) =
                    engine.wait_for(async move { remove(&asked, &run, &there).await });
                removed.extend(gone);
                left.extend(stays);
            }
            Err(error) => left.push(format!("what was made at {host}: {error}")),
        }
    }
    (removed, left)
}

/// Containers first: networks and volumes that are in use cannot go.
pub(super) async fn remove(
    engine: &Engine,
    run: &str,
    holdings: &[Holding],
) -> (Vec<String>, Vec<String>) {
    let (mut removed, mut left) = (Vec::new(), Vec::new());
    let mut known: Vec<(Kind, String)> = holdings
        .iter()
        .map(|holding| (holding.kind, holding.name.clone()))
        .collect();
    // A node that was deployed anew is recorded twice.
    known.sort_by_key(|(kind, name)| (kind.name(), name.clone()));
    known.dedup();
    for kind in [Kind::Project, Kind::Container, Kind::Network, Kind::Volume] {
        let mut under_way = tokio::task::JoinSet::new();
        for (_, name) in known.iter().filter(|(of, _)| *of == kind) {
            let (engine, run, name) = (engine.clone(), run.to_owned(), name.clone());
            under_way.spawn(async move {
                let told = format!("{} {name}", kind.name());
                if kind == Kind::Project {
                    // Nobody but this run gives a project its id for a name.
                    return match name.ends_with(&run) {
                        true => {
                            let gone = engine.remove_project(&name).await;
                            gone.map(|gone| gone.then_some(told))
                                .map_err(|error| error.to_string())
                        }
                        false => Ok(None),
                    };
                }
                match engine.owner(kind, &name).await {
                    Ok(None) => Ok(None),
                    // Somebody else's of that name.
                    Ok(Some(owner)) if owner != run => Ok(None),
                    Ok(Some(_)) => match engine.remove(kind, &name).await {
                        Ok(()) => Ok(Some(told)),
                        Err(error) => Err(format!("{told}: {error}")),
                    },
                    Err(error) => Err(format!("{told}: {error}")),
                }
            });
        }
        for done in under_way.join_all().await {
            match done {
                Ok(told) => removed.extend(told),
                Err(told) => left.push(told),
            }
        }
    }
    removed.sort();
    (removed, left)
}
