//! A cluster of three etcd members, from an installed `etcd`.
//!
//! Members advertise their fault proxies to each other, so every word between them passes one. What they advertise to
//! clients is an address at which nobody listens: a client that learned it and went there would be refused at once,
//! and not bypass its links unseen.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

use super::program::{find_program, version_of};
use super::{Doing, PeerWay, Place, Site, System};
use crate::error::HarnessError;
use crate::faults::Greeting;
use crate::targets::local::Service;
use crate::targets::{NodeCommand, Ports};

/// How many members there are: the fewest that outlive the loss of one.
pub(super) const MEMBERS: u32 = 3;

#[derive(Debug)]
struct Etcd {
    places: Vec<Place>,
    peers: Vec<PeerWay>,
    commands: Vec<NodeCommand>,
    program: PathBuf,
}

/// Whether there is an `etcd` to start.
pub(super) fn installed() -> Result<String, String> {
    let program = program()?;
    Ok(version_of(&program).unwrap_or_else(|| program.display().to_string()))
}

fn program() -> Result<PathBuf, String> {
    find_program("etcd", &["/usr/sbin", "/usr/local/bin"])
        .ok_or_else(|| "there is no etcd: apt-get install etcd-server".to_owned())
}

pub(super) fn plan(
    site: &Site<'_>,
    ports: &mut Ports,
    _service: Service,
) -> Result<Box<dyn System>, HarnessError> {
    let program = program().map_err(HarnessError::Usage)?;
    let mut places = Vec::new();
    let mut peers = Vec::new();
    for member in 1..=MEMBERS {
        let name = format!("etcd{member}");
        places.push(Place {
            name: name.clone(),
            address: ports.claim()?,
        });
        peers.push(PeerWay {
            node: name,
            advertised: ports.claim()?,
            listens: ports.claim()?,
        });
    }
    let nobody = ports.claim()?;
    let cluster: Vec<String> = peers
        .iter()
        .map(|peer| format!("{}={}", peer.node, url(peer.advertised)))
        .collect();
    let command = |(place, peer): (&Place, &PeerWay)| {
        let name = place.name.as_str();
        let arguments = [
            ("--name", name.to_owned()),
            ("--data-dir", site.data(name).display().to_string()),
            ("--listen-client-urls", url(place.address)),
            ("--advertise-client-urls", url(nobody)),
            ("--listen-peer-urls", url(peer.listens)),
            ("--initial-advertise-peer-urls", url(peer.advertised)),
            ("--initial-cluster", cluster.join(",")),
            ("--initial-cluster-state", "new".to_owned()),
            ("--initial-cluster-token", format!("fencepost-{}", site.run)),
            ("--logger", "zap".to_owned()),
            ("--log-level", "warn".to_owned()),
        ];
        NodeCommand {
            arguments: arguments
                .into_iter()
                .flat_map(|(flag, value)| [flag.into(), value.into()])
                .collect(),
            // It refuses flags that such a variable contradicts.
            without: Some("ETCD_"),
            environment: unsupported_architecture(),
            ..NodeCommand::new(&program, site.marker(name), site.log(name))
        }
    };
    Ok(Box::new(Etcd {
        commands: places.iter().zip(&peers).map(command).collect(),
        places,
        peers,
        program,
    }))
}

/// etcd 3.4 starts on some processors only when it is told their name.
fn unsupported_architecture() -> Vec<(&'static str, &'static str)> {
    match std::env::consts::ARCH {
        "aarch64" => vec![("ETCD_UNSUPPORTED_ARCH", "arm64")],
        "riscv64" => vec![("ETCD_UNSUPPORTED_ARCH", "riscv64")],
        _ => Vec::new(),
    }
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

/// The answer of `/v3/maintenance/status`; 64-bit numbers are text in it.
#[derive(Deserialize)]
struct Status {
    header: StatusHeader,
    #[serde(default)]
    leader: String,
    #[serde(default, rename = "raftTerm")]
    term: String,
}

#[derive(Deserialize)]
struct StatusHeader {
    member_id: String,
}

impl Status {
    /// The term in which this member leads, if it believes that it does.
    fn leads(&self) -> Option<u64> {
        let leads = !self.leader.is_empty() && self.leader == self.header.member_id;
        leads.then(|| self.term.parse().unwrap_or(0))
    }
}

impl System for Etcd {
    fn name(&self) -> &str {
        "etcd"
    }

    fn places(&self) -> &[Place] {
        &self.places
    }

    fn peer_ways(&self) -> Vec<PeerWay> {
        self.peers.clone()
    }

    fn command(&self, place: usize) -> Option<NodeCommand> {
        Some(self.commands[place].clone())
    }

    fn ready<'a>(&'a self, place: usize, http: &'a reqwest::Client) -> Doing<'a, bool> {
        // Says true only where there is a leader.
        let url = format!("{}/health", url(self.places[place].address));
        Box::pin(async move {
            let answer = http.get(url).send().await;
            answer.is_ok_and(|answer| answer.status().is_success())
        })
    }

    fn leader<'a>(&'a self, http: &'a reqwest::Client) -> Doing<'a, Option<usize>> {
        Box::pin(async move {
            let mut asked = tokio::task::JoinSet::new();
            for (position, place) in self.places.iter().enumerate() {
                let url = format!("{}/v3/maintenance/status", url(place.address));
                let request = http.post(url).body("{}").send();
                asked.spawn(async move {
                    let status: Status = request.await.ok()?.json().await.ok()?;
                    Some((status.leads()?, position))
                });
            }
            let answers = asked.join_all().await;
            // One that was deposed may not know yet: the later term is right.
            answers.into_iter().flatten().max().map(|(_, leads)| leads)
        })
    }

    fn greeting(&self) -> Greeting {
        Greeting::Http("/version")
    }

    fn version(&self) -> Option<(String, String)> {
        Some(("etcd".to_owned(), version_of(&self.program)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_leads_where_the_leader_is_itself() {
        let status = |text: &str| serde_json::from_str::<Status>(text).expect("as etcd answers");
        let leader = status(
            r#"{"header":{"cluster_id":"1","member_id":"9","revision":"4","raft_term":"7"},"version":"3.4.23","leader":"9","raftIndex":"12","raftTerm":"7"}"#,
        );
        assert_eq!(leader.leads(), Some(7));
        let follower = status(r#"{"header":{"member_id":"8"},"leader":"9","raftTerm":"7"}"#);
        assert_eq!(follower.leads(), None);
        // A member without a leader leaves the field out.
        let lost = status(r#"{"header":{"member_id":"8"},"raftTerm":"7"}"#);
        assert_eq!(lost.leads(), None);
    }
}
