//! The systems under test that a run starts, one file a system.
//!
//! A system has one node or several, and serves as the lock, as the resource, or as both. Its file says how a node is
//! started (and started again on the same data), when it is ready, and who leads. To add one: write its file, and name
//! it in [`SYSTEMS`].

mod contained;
mod etcd;
mod external;
mod postgres;
mod program;
mod reference;

use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use fencepost_workloads::suite::{Suite, TargetKind};
use fencepost_workloads::systems::Server;

use super::docker::{ContainerCommand, Estate};
use super::local::Service;
use super::{NodeCommand, Ports, Spawner};
use crate::error::HarnessError;
use crate::faults::Greeting;
use crate::journal::Journal;

pub use external::addresses as external_addresses;
pub use postgres::remove_shared_memory;

/// Something under way.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One node of a system.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its name: `lock`, `etcd2`, `postgres`.
    pub name: String,
    /// Where it serves clients.
    pub address: SocketAddr,
}

/// The way on which a node's peers reach it.
#[derive(Clone, Debug)]
pub struct PeerWay {
    /// The node.
    pub node: String,
    /// Where the proxy is to listen; it is what the node advertises.
    pub advertised: SocketAddr,
    /// Where the node listens for its peers.
    pub listens: SocketAddr,
}

/// What a system may build on.
#[derive(Debug)]
pub struct Site<'a> {
    /// The run's id.
    pub run: &'a str,
    /// The run's folder, with `logs/` and `data/` in it.
    pub folder: &'a Path,
    /// The one binary.
    pub executable: &'a Path,
    /// Clients of the run.
    pub clients: u32,
    /// Whether data is to be kept.
    pub keep: bool,
    /// A defect for the lock service, and one for the resource.
    pub defects: [Option<&'a str>; 2],
    /// The token of each lock's first grant, where the suite says.
    pub first_token: Option<u64>,
    /// Whether the resource is to look at tokens at all.
    pub compares: bool,
}

impl Site<'_> {
    /// A node's log.
    fn log(&self, node: &str) -> PathBuf {
        self.folder.join("logs").join(format!("{node}.log"))
    }

    /// A node's data.
    fn data(&self, node: &str) -> PathBuf {
        self.folder.join("data").join(node)
    }

    fn marker(&self, node: &str) -> String {
        format!("{}/{node}", self.run)
    }
}

/// A system under test.
pub trait System: Debug + Send + Sync {
    /// What all its nodes are called together: at most one of them at a time is stopped, killed or cut off.
    fn name(&self) -> &str;

    /// Its nodes, in order.
    fn places(&self) -> &[Place];

    /// The ways on which its nodes reach each other, each of which goes through a fault proxy.
    fn peer_ways(&self) -> Vec<PeerWay> {
        Vec::new()
    }

    /// What must be done once before the first node is started.
    fn prepare<'a>(
        &'a self,
        _spawner: &'a Spawner,
        _journal: &'a Journal,
    ) -> Doing<'a, Result<(), HarnessError>> {
        Box::pin(async { Ok(()) })
    }

    /// How a node is started, for the first time and on its data; `None` where it is not ours to start.
    fn command(&self, place: usize) -> Option<NodeCommand>;

    /// How a node is made that is a container.
    fn container(&self, _place: usize) -> Option<ContainerCommand> {
        None
    }

    /// Where the fault proxy reaches a node's clients' door, if that is another place than where we do.
    fn upstream(&self, place: usize) -> SocketAddr {
        self.places()[place].address
    }

    /// Where the door for us is told to listen, where a node can be reached only through the fault proxy.
    fn side_door(&self, _place: usize) -> Option<SocketAddr> {
        None
    }

    /// Whether a node serves clients now.
    fn ready<'a>(&'a self, place: usize, http: &'a reqwest::Client) -> Doing<'a, bool>;

    /// The node that leads the others now, where there is such a thing.
    fn leader<'a>(&'a self, _http: &'a reqwest::Client) -> Doing<'a, Option<usize>> {
        Box::pin(async { None })
    }

    /// What it answers without being asked for anything that matters.
    fn greeting(&self) -> Greeting;

    /// Its version, where its program tells.
    fn version(&self) -> Option<(String, String)> {
        None
    }

    /// Removes what its nodes leave behind when they are killed, apart from `data/` in the run's folder. They are dead.
    /// Returns what is left.
    fn clear(&self, _keep_data: bool) -> Vec<String> {
        Vec::new()
    }
}

/// Claims a system's ports and plans its nodes.
type Plan = fn(&Site<'_>, &mut Ports, Service) -> Result<Box<dyn System>, HarnessError>;

/// Systems, and which of them is the lock service and which the resource.
type Planned = (Vec<Box<dyn System>>, [usize; 2]);

/// What is known of a system before anything of it is started.
#[derive(Clone, Copy, Debug)]
pub struct SystemKind {
    /// Its name.
    pub name: &'static str,
    /// What it is to the suite.
    pub server: Server,
    /// How many nodes it has.
    pub nodes: u32,
    /// Whether one of them leads.
    pub leads: bool,
    /// Whether a run can start it; `Err` says what is missing and how to get it.
    pub installed: fn() -> Result<String, String>,
    /// Claims its ports and plans its nodes.
    plan: Plan,
}

/// Every system that can be started.
pub const SYSTEMS: &[SystemKind] = &[
    SystemKind {
        name: "reference",
        server: Server::Reference,
        nodes: 1,
        leads: false,
        installed: || Ok("comes with the binary".to_owned()),
        plan: reference::plan,
    },
    SystemKind {
        name: "etcd",
        server: Server::Etcd,
        nodes: etcd::MEMBERS,
        leads: true,
        installed: etcd::installed,
        plan: etcd::plan,
    },
    SystemKind {
        name: "postgres",
        server: Server::Postgres,
        nodes: 1,
        leads: false,
        installed: postgres::installed,
        plan: postgres::plan,
    },
];

/// The system that serves as `service` in a suite.
///
/// # Panics
/// When a server of the suite is in no row: a test asks for each.
#[must_use]
pub fn kind_of(suite: &Suite, service: Service) -> &'static SystemKind {
    let server = server_of(suite, service);
    SYSTEMS
        .iter()
        .find(|system| system.server == server)
        .expect("every server is in the table")
}

fn server_of(suite: &Suite, service: Service) -> Server {
    match service {
        Service::Lock => suite.lock.kind.system().server,
        Service::Resource => suite.resource.kind.system().server,
    }
}

/// The systems of a suite, and which of them serves as lock and which as resource. One that can be both is started once.
///
/// # Errors
/// When no port is free, a program is missing, or a server of the user's has no address.
pub fn plan(suite: &Suite, site: &Site<'_>, ports: &mut Ports) -> Result<Planned, HarnessError> {
    if suite.target.kind == TargetKind::External {
        let systems = Service::ALL.map(|service| external::plan(suite, service));
        let [lock, resource] = systems;
        return Ok((vec![lock?, resource?], [0, 1]));
    }
    let [lock, resource] = Service::ALL.map(|service| kind_of(suite, service));
    let mut systems = vec![(lock.plan)(site, ports, Service::Lock)?];
    // The reference services are two programs; anything else serves as both.
    if lock.name != resource.name || resource.server == Server::Reference {
        systems.push((resource.plan)(site, ports, Service::Resource)?);
    }
    let roles = [0, systems.len() - 1];
    Ok((systems, roles))
}

/// The systems of a suite as containers of `estate`, the lock first.
///
/// # Errors
/// When a port cannot be had.
pub fn plan_contained(
    suite: &Suite,
    site: &Site<'_>,
    estate: &Estate,
) -> Result<Planned, HarnessError> {
    let [lock, resource] =
        Service::ALL.map(|service| contained::plan(suite, site, estate, service));
    Ok((vec![lock?, resource?], [0, 1]))
}

#[cfg(test)]
mod tests {
    use fencepost_workloads::locks::LOCKS;
    use fencepost_workloads::resources::RESOURCES;
    use fencepost_workloads::suite::{BUILT_IN, On};

    use super::*;

    #[test]
    fn whatever_can_be_spoken_to_can_be_started() {
        let spoken_to = LOCKS.iter().map(|lock| lock.server);
        for server in spoken_to.chain(RESOURCES.iter().map(|resource| resource.server)) {
            assert!(
                SYSTEMS.iter().any(|system| system.server == server),
                "{server:?}"
            );
        }
    }

    #[test]
    fn a_built_in_suite_aims_at_a_leader_only_where_there_is_one() {
        for suite in BUILT_IN.iter().map(|suite| suite.suite()) {
            let leads = Service::ALL
                .iter()
                .any(|&service| kind_of(&suite, service).leads);
            let aims = suite.fault.iter().any(|fault| fault.on == Some(On::Leader));
            assert!(leads || !aims, "{}", suite.name.as_str());
        }
    }
}
