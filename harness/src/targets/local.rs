//! The nodes of a run: brought up, reached into, taken down. Locally each is a process of this machine, on loopback,
//! started from the one binary; in Docker the fault proxy and the systems are containers of one image of it.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fencepost_workloads::suite::{Suite, TargetKind, Whereabouts, Worker};

use super::docker::{Container, ContainerCommand, Estate, EstatePlan};
use super::logs::{last_line, last_words};
use super::systems::{self, Doing, Place, Site, System};
use super::wires::{self, PEERS, Wire, link_of};
use super::{Node, NodeCommand, Ports, Spawner, Tenancy, adopt_orphans, kill_children};
use crate::error::HarnessError;
use crate::faults::Greeting;
use crate::journal::{Entry, Journal, Process};

/// How long a node may take from its start until it answers; a database that was killed recovers first, while its clients
/// knock all the time.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// How the fault proxy's node is called.
const PROXY: &str = "proxy";
/// How the links are called on which the harness itself reaches what it cannot reach otherwise.
const OURS: &str = "harness";

/// One of the two roles that the systems under test have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Service {
    /// The lock service.
    Lock,
    /// The fenced resource.
    Resource,
}

impl Service {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Lock, Self::Resource];

    /// The role's name, as links have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Resource => "resource",
        }
    }
}

/// A node behind a lock, because faults stop and restart it from tasks of their own.
pub type SharedNode = Arc<Mutex<Node>>;

/// A node of a system of the run, and the process that it is now.
#[derive(Debug)]
struct RunningNode {
    system: usize,
    place: usize,
    name: String,
    node: SharedNode,
}

/// The nodes of a run.
#[derive(Debug)]
pub struct LocalTarget {
    run: String,
    folder: PathBuf,
    executable: PathBuf,
    systems: Vec<Box<dyn System>>,
    /// Which system is the lock, and which the resource.
    roles: [usize; 2],
    nodes: Vec<RunningNode>,
    proxy: Option<SharedNode>,
    proxy_api: SocketAddr,
    workers: Vec<SharedNode>,
    http: reqwest::Client,
    journal: Arc<Journal>,
    /// The run's containers, if it has any.
    estate: Option<Estate>,
    // Last: when the spawner's thread ends, the kernel kills what is left.
    spawner: Spawner,
}

/// What a local target needs to know.
#[derive(Clone, Debug)]
pub struct LocalPlan<'a> {
    /// The suite.
    pub suite: &'a Suite,
    /// The run's id.
    pub run: &'a str,
    /// The run's folder; `logs/` and `data/` are made in it.
    pub folder: &'a Path,
    /// A defect for the lock service.
    pub lock_defect: Option<&'a str>,
    /// A defect for the resource.
    pub resource_defect: Option<&'a str>,
    /// Whether the systems' data is to be kept.
    pub keep: bool,
    /// A Toxiproxy of the user's instead of the embedded one.
    pub toxiproxy: Option<SocketAddr>,
    /// Where every node is written down as soon as it runs.
    pub journal: Arc<Journal>,
}

impl LocalTarget {
    /// Plans the systems, starts the fault proxy and waits until it answers. The systems are still to be started: their
    /// nodes may need proxies between them.
    ///
    /// # Errors
    /// When a folder cannot be made, no port is free, a program is missing, or the proxy does not come up in time.
    pub async fn open(plan: LocalPlan<'_>, ports: &mut Ports) -> Result<Self, HarnessError> {
        let executable = std::env::current_exe().map_err(|source| HarnessError::System {
            what: "find the running program",
            source,
        })?;
        Self::open_with(&executable, plan, ports).await
    }

    /// The same where the one binary is another program than this.
    ///
    /// # Errors
    /// As [`LocalTarget::open`].
    pub async fn open_with(
        executable: &Path,
        plan: LocalPlan<'_>,
        ports: &mut Ports,
    ) -> Result<Self, HarnessError> {
        // What a worker's children leave behind becomes ours, marked or not, and is killed at the take-down.
        adopt_orphans()?;
        for folder in ["logs", "data"] {
            let path = plan.folder.join(folder);
            std::fs::create_dir_all(&path)
                .map_err(|source| HarnessError::Output { path, source })?;
        }
        let spawner = Spawner::start()?;
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_millis(500))
            .pool_max_idle_per_host(0)
            .build()
            .map_err(|error| HarnessError::Internal(format!("no HTTP client: {error}")))?;
        let site = Site {
            run: plan.run,
            folder: plan.folder,
            executable,
            clients: plan.suite.run.clients.0,
            keep: plan.keep,
            defects: [plan.lock_defect, plan.resource_defect],
            first_token: plan.suite.lock.first_token.map(|first| first.0),
            compares: plan.suite.fence() != "none",
        };
        let estate = match plan.suite.target.kind {
            TargetKind::Docker => Some(Estate::open(estate_plan(&plan, executable)).await?),
            TargetKind::Local | TargetKind::External => None,
        };
        let started = match &estate {
            Some(estate) => Some(
                estate
                    .start_proxy(PROXY, plan.suite.nodes.toxiproxy.as_ref())
                    .await?,
            ),
            None => None,
        };
        if let Some(estate) = &estate {
            estate.can(&plan.suite.fault)?;
        }
        let (systems, roles) = match &estate {
            Some(estate) => systems::plan_contained(plan.suite, &site, estate)?,
            None => systems::plan(plan.suite, &site, ports)?,
        };
        let (proxy, proxy_api) = match (plan.toxiproxy, started, &estate) {
            (_, Some(container), Some(estate)) => {
                let proxy = Arc::new(Mutex::new(Node::Container(container)));
                (Some(proxy), estate.proxy_api()?)
            }
            (Some(address), ..) => (None, address),
            _ => {
                let address = ports.claim()?;
                let command = NodeCommand {
                    arguments: vec![
                        "toxiproxy".into(),
                        "--listen".into(),
                        address.to_string().into(),
                    ],
                    ..NodeCommand::new(
                        executable,
                        format!("{}/{PROXY}", plan.run),
                        plan.folder.join("logs").join("proxy.log"),
                    )
                };
                let proxy = spawn(&spawner, &plan.journal, PROXY, &command)?;
                (Some(proxy), address)
            }
        };
        let target = Self {
            run: plan.run.to_owned(),
            folder: plan.folder.to_owned(),
            executable: executable.to_owned(),
            systems,
            roles,
            nodes: Vec::new(),
            proxy,
            proxy_api,
            workers: Vec::new(),
            http,
            journal: plan.journal,
            estate,
            spawner,
        };
        if let Some(proxy) = &target.proxy {
            let url = format!("http://{proxy_api}/version");
            let answers = || -> Doing<'_, bool> {
                let request = target.http.get(&url).send();
                Box::pin(async {
                    let answer = request.await;
                    answer.is_ok_and(|answer| answer.status().is_success())
                })
            };
            target.until(PROXY, proxy, answers).await?;
        }
        Ok(target)
    }

    /// Starts every node of every system and waits until each serves clients.
    ///
    /// # Errors
    /// When one cannot be started or does not come up in time.
    pub async fn start_systems(&mut self) -> Result<(), HarnessError> {
        for (position, system) in self.systems.iter().enumerate() {
            system.prepare(&self.spawner, &self.journal).await?;
            for (place, Place { name, .. }) in system.places().iter().enumerate() {
                let node = match (system.container(place), &self.estate) {
                    (Some(command), Some(estate)) => {
                        let container = match &command.composed {
                            Some((file, service)) => {
                                let address = command.address;
                                estate.start_composed(name, file, service, address).await?
                            }
                            None => estate.start(&command).await?,
                        };
                        Arc::new(Mutex::new(Node::Container(container)))
                    }
                    _ => match system.command(place) {
                        Some(command) => spawn(&self.spawner, &self.journal, name, &command)?,
                        None => continue,
                    },
                };
                self.nodes.push(RunningNode {
                    system: position,
                    place,
                    name: name.clone(),
                    node,
                });
            }
        }
        for node in 0..self.nodes.len() {
            self.ready(node).await?;
        }
        Ok(())
    }

    /// The run's places in the servers.
    #[must_use]
    pub fn tenancies(&self, suite: &Suite) -> Vec<Tenancy> {
        let tenancy = |service: Service| {
            let places = self.system(service).places().iter();
            // A server of the user's has its address for a name.
            let address = |place: &Place| match suite.target.kind {
                TargetKind::Local | TargetKind::Docker => place.address.to_string(),
                TargetKind::External => place.name.clone(),
            };
            Tenancy::new(suite, service, &self.run, places.map(address).collect())
        };
        Service::ALL.map(tenancy).into()
    }

    /// Every link of the run and its proxies, their ports still to be claimed: first those between nodes, then those of
    /// the workers in turn, and for each of them both services. One proxy for each worker and node: without that no
    /// partition could be asymmetric.
    ///
    /// # Errors
    /// When no port is free.
    pub fn wires(&self, workers: usize, ports: &mut Ports) -> Result<[Vec<Wire>; 2], HarnessError> {
        let between = self.systems.iter().flat_map(|system| {
            system.peer_ways().into_iter().map(|way| {
                let link = format!("{}-{PEERS}", way.node);
                Wire {
                    proxy: wires::proxy_name(&self.run, &link, 0, 1),
                    link,
                    listen: way.advertised,
                    told: way.advertised,
                    upstream: way.listens,
                    greeting: system.greeting(),
                }
            })
        });
        let doors = self.systems.iter().flat_map(|system| {
            let places = system.places().iter().enumerate();
            places.filter_map(|(number, place)| {
                let link = format!("{OURS}-{}", place.name);
                Some(Wire {
                    proxy: wires::proxy_name(&self.run, &link, 0, 1),
                    link,
                    listen: place.address,
                    told: system.side_door(number)?,
                    upstream: system.upstream(number),
                    greeting: system.greeting(),
                })
            })
        });
        let between = between.chain(doors).collect();
        let mut to_clients = Vec::new();
        for worker in 0..workers {
            for service in Service::ALL {
                let (link, system) = (link_of(worker, service), self.system(service));
                let places = system.places();
                for part in 0..places.len() {
                    let (told, listen) = match &self.estate {
                        Some(estate) => estate.claim_link()?,
                        None => {
                            let listen = ports.claim()?;
                            (listen, listen)
                        }
                    };
                    to_clients.push(Wire {
                        proxy: wires::proxy_name(&self.run, &link, part, places.len()),
                        link: link.clone(),
                        listen,
                        told,
                        upstream: system.upstream(part),
                        greeting: system.greeting(),
                    });
                }
            }
        }
        Ok([between, to_clients])
    }

    /// Where workers reach a proxy: those in containers from within the run's network.
    #[must_use]
    pub fn seen_by_workers(&self, wire: &Wire, worker: &Worker) -> SocketAddr {
        match (&self.estate, worker.place) {
            (Some(estate), Whereabouts::Docker) => estate.within(wire.told),
            _ => wire.listen,
        }
    }

    fn system(&self, service: Service) -> &dyn System {
        &*self.systems[self.roles[service as usize]]
    }

    /// Where the fault proxy's API listens.
    #[must_use]
    pub fn proxy_api(&self) -> SocketAddr {
        self.proxy_api
    }

    /// How things are done to the run's nodes, where that is not the same everywhere.
    #[must_use]
    pub fn means(&self) -> BTreeMap<String, String> {
        let means = self.estate.as_ref().map(Estate::means);
        means.unwrap_or_default()
    }

    /// The versions of the systems, by name.
    #[must_use]
    pub fn versions(&self) -> Vec<(String, String)> {
        let versions = self.systems.iter().filter_map(|system| system.version());
        versions.collect()
    }

    /// The nodes that serve as `service`, by their numbers.
    #[must_use]
    pub fn serving(&self, service: Service) -> Vec<usize> {
        let role = self.roles[service as usize];
        let nodes = self.nodes.iter().enumerate();
        nodes
            .filter(|(_, node)| node.system == role)
            .map(|(number, _)| number)
            .collect()
    }

    /// The node that leads the others of its system now.
    pub async fn leader(&self) -> Option<usize> {
        for (position, system) in self.systems.iter().enumerate() {
            if let Some(place) = system.leader(&self.http).await {
                let is_it = |node: &RunningNode| node.system == position && node.place == place;
                return self.nodes.iter().position(is_it);
            }
        }
        None
    }

    /// A node's name.
    ///
    /// # Panics
    /// When there is no such node; so for all that take a number.
    #[must_use]
    pub fn name(&self, node: usize) -> &str {
        &self.nodes[node].name
    }

    /// What a node's system is called: only one node of a system is struck at a time.
    #[must_use]
    pub fn system_of(&self, node: usize) -> &str {
        self.systems[self.nodes[node].system].name()
    }

    /// A node's process.
    #[must_use]
    pub fn node(&self, node: usize) -> SharedNode {
        Arc::clone(&self.nodes[node].node)
    }

    /// The nodes that stand as long as the run, except where a fault kills them: those of the systems, and the proxy.
    #[must_use]
    pub fn standing(&self) -> Vec<(&str, SharedNode)> {
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|node| (node.name.as_str(), Arc::clone(&node.node)));
        let proxy = self.proxy.iter().map(|proxy| ("proxy", Arc::clone(proxy)));
        nodes.chain(proxy).collect()
    }

    /// A worker's process, by its index from 0.
    ///
    /// # Panics
    /// When there is no such worker.
    #[must_use]
    pub fn worker(&self, index: usize) -> SharedNode {
        Arc::clone(&self.workers[index])
    }

    /// Starts worker `w<index + 1>`: the built-in one, or `command`.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub async fn start_worker(&mut self, worker: &Worker) -> Result<SharedNode, HarnessError> {
        let name = format!("w{}", self.workers.len() + 1);
        let node = match (&self.estate, worker.place) {
            (Some(estate), Whereabouts::Docker) => self.contain_worker(estate, &name).await?,
            _ => self.spawn_worker(&name, &worker.command)?,
        };
        self.workers.push(Arc::clone(&node));
        Ok(node)
    }

    /// A worker in a container, behind a process of this machine that has its pipes.
    async fn contain_worker(
        &self,
        estate: &Estate,
        name: &str,
    ) -> Result<SharedNode, HarnessError> {
        let command = ContainerCommand {
            attached: true,
            ..ContainerCommand::new(name, estate.claim_address(), vec!["worker".to_owned()])
        };
        let id = estate.create(&command).await?;
        let container = self.bridge(estate, name, &id).await?;
        Ok(Arc::new(Mutex::new(Node::Container(container))))
    }

    /// Starts a worker's container, through the process that holds its pipes.
    async fn bridge(
        &self,
        estate: &Estate,
        name: &str,
        id: &str,
    ) -> Result<Container, HarnessError> {
        let bridge = NodeCommand {
            arguments: vec!["attach".into(), id.into()],
            piped: true,
            ..NodeCommand::new(
                &self.executable,
                format!("{}/{name}-bridge", self.run),
                self.folder.join("logs").join(format!("{name}-bridge.log")),
            )
        };
        let child = self.spawner.spawn(bridge).map_err(|error| {
            HarnessError::node(
                name,
                format!("what holds its pipes cannot be started: {error}"),
            )
        })?;
        estate.bridged(name, id, child).await
    }

    fn spawn_worker(&self, name: &str, command: &[String]) -> Result<SharedNode, HarnessError> {
        let command = self.worker_node(name, command);
        spawn(&self.spawner, &self.journal, name, &command)
    }

    /// Starts another process in the place of a worker that was killed, or its container again. The text is the evidence.
    ///
    /// # Errors
    /// When it cannot be started.
    ///
    /// # Panics
    /// When there is no such worker.
    pub async fn start_worker_again(
        &self,
        index: usize,
        command: &[String],
    ) -> Result<(ChildStdin, ChildStdout, String), HarnessError> {
        let name = format!("w{}", index + 1);
        let contained = match &*self.workers[index]
            .lock()
            .expect("no holder of a node's lock panics")
        {
            Node::Container(container) => Some(container.id().to_owned()),
            Node::Process(_) => None,
        };
        let mut process = match (&self.estate, contained) {
            (Some(estate), Some(id)) => Node::Container(self.bridge(estate, &name, &id).await?),
            _ => {
                let command = self.worker_node(&name, command);
                let child = self.spawner.spawn(command.clone()).map_err(|error| {
                    HarnessError::node(&name, format!("failed to start again: {error}"))
                })?;
                let process = Node::of(&command, child);
                write_down(&self.journal, &name, &command, &process)?;
                process
            }
        };
        let evidence = match process.pid() {
            Some(pid) => format!("pid {pid} started"),
            None => "another started".to_owned(),
        };
        let (stdin, stdout) = process
            .pipes()
            .ok_or_else(|| HarnessError::node(&name, "has no pipes"))?;
        *self.workers[index]
            .lock()
            .expect("no holder of a node's lock panics") = process;
        Ok((stdin, stdout, evidence))
    }

    fn worker_node(&self, name: &str, command: &[String]) -> NodeCommand {
        let (program, arguments) = match command.split_first() {
            Some((program, arguments)) => (
                Path::new(program),
                arguments.iter().map(Into::into).collect(),
            ),
            None => (self.executable.as_path(), vec!["worker".into()]),
        };
        let marker = format!("{}/{name}", self.run);
        let log = self.folder.join("logs").join(format!("{name}.log"));
        NodeCommand {
            arguments,
            piped: true,
            ..NodeCommand::new(program, marker, log)
        }
    }

    /// Starts a killed node again, on its data and its port, and waits until it answers. The text is the evidence.
    ///
    /// # Errors
    /// When it does not come back.
    pub async fn start_again(&self, node: usize) -> Result<String, HarnessError> {
        let begun = Instant::now();
        let running = &self.nodes[node];
        let again = match &self.estate {
            Some(estate) => Node::Container(estate.start_again(&running.name).await?),
            None => self.spawn_again(running)?,
        };
        let who = match again.pid() {
            Some(pid) => format!("pid {pid}"),
            None => "it".to_owned(),
        };
        *running
            .node
            .lock()
            .expect("no holder of a node's lock panics") = again;
        self.ready(node).await?;
        Ok(format!(
            "{who} answers after {:.0} ms",
            begun.elapsed().as_secs_f64() * 1e3
        ))
    }

    /// Starts a killed service again on an empty volume, under the same address. The text is the evidence.
    ///
    /// # Errors
    /// When it does not come back.
    pub async fn redeploy(&self, node: usize) -> Result<String, HarnessError> {
        let begun = Instant::now();
        let running = &self.nodes[node];
        let command = self.systems[running.system].container(running.place);
        let (Some(command), Some(estate)) = (command, &self.estate) else {
            return Err(HarnessError::node(&running.name, "is no container"));
        };
        estate.remove(&running.name).await?;
        let again = Node::Container(estate.start(&command).await?);
        *running
            .node
            .lock()
            .expect("no holder of a node's lock panics") = again;
        self.ready(node).await?;
        Ok(format!(
            "a container of the same name answers on an empty volume after {:.0} ms",
            begun.elapsed().as_secs_f64() * 1e3
        ))
    }

    /// Starts another lock service beside the first, on a volume of its own; returns where the fault proxy reaches it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn start_second(&self, name: &str) -> Result<SocketAddr, HarnessError> {
        let lock = self.system(Service::Lock);
        let (Some(mut command), Some(estate)) = (lock.container(0), &self.estate) else {
            return Err(HarnessError::node(name, "the lock service is no container"));
        };
        name.clone_into(&mut command.node);
        command.address = estate.claim_address();
        let upstream = SocketAddr::from((command.address, lock.upstream(0).port()));
        estate.start(&command).await?;
        Ok(upstream)
    }

    /// Where a service's node is knocked at, and what with.
    #[must_use]
    pub fn door(&self, node: usize) -> (SocketAddr, Greeting) {
        let running = &self.nodes[node];
        let system = &self.systems[running.system];
        (system.places()[running.place].address, system.greeting())
    }

    /// The run's containers, if it has any.
    #[must_use]
    pub fn estate(&self) -> Option<&Estate> {
        self.estate.as_ref()
    }

    fn spawn_again(&self, running: &RunningNode) -> Result<Node, HarnessError> {
        let command = self.systems[running.system]
            .command(running.place)
            .ok_or_else(|| HarnessError::node(&running.name, "is not ours to start"))?;
        let child = self.spawner.spawn(command.clone()).map_err(|error| {
            HarnessError::node(&running.name, format!("failed to start again: {error}"))
        })?;
        let process = Node::of(&command, child);
        write_down(&self.journal, &running.name, &command, &process)?;
        Ok(process)
    }

    async fn ready(&self, node: usize) -> Result<(), HarnessError> {
        let running = &self.nodes[node];
        let system = &self.systems[running.system];
        let answers = || system.ready(running.place, &self.http);
        self.until(&running.name, &running.node, answers).await
    }

    /// Asks until a node answers.
    async fn until<'a>(
        &self,
        name: &str,
        node: &SharedNode,
        answers: impl Fn() -> Doing<'a, bool>,
    ) -> Result<(), HarnessError> {
        let deadline = Instant::now() + READY_WITHIN;
        while !answers().await {
            let ended = node
                .lock()
                .expect("no holder of a node's lock panics")
                .ended();
            let trouble = match ended {
                Some(status) => Some(format!("ended with {status} before it answered")),
                None => (Instant::now() > deadline).then(|| {
                    let where_it_is = self.estate.as_ref().and_then(Estate::doubtful_place);
                    format!(
                        "does not answer within {READY_WITHIN:?}{}",
                        where_it_is.unwrap_or_default()
                    )
                }),
            };
            if let Some(trouble) = trouble {
                return Err(HarnessError::node(
                    name,
                    format!("{trouble}{}", last_words(&self.log(name))),
                ));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// The last line of a node's log, for an error message; nothing where it is empty.
    #[must_use]
    pub fn last_words(&self, name: &str) -> String {
        let line = last_line(&self.log(name));
        line.map_or_else(String::new, |line| format!("; its last words: {line}"))
    }

    /// What a node has said so far.
    fn log(&self, name: &str) -> Vec<u8> {
        if let Some(estate) = &self.estate {
            // What cannot be read has no last words.
            let _ = estate.save_log(name);
        }
        std::fs::read(self.folder.join("logs").join(format!("{name}.log"))).unwrap_or_default()
    }

    /// Kills every node that is left, and removes the services' data unless it is to be kept. Returns what is left.
    pub fn take_down(&self, keep_data: bool) -> Vec<String> {
        let mut left = self.end_processes(keep_data);
        left.extend(
            self.estate
                .iter()
                .flat_map(|estate| estate.take_down(keep_data)),
        );
        left
    }

    /// Kills what is a process of this machine, and removes the services' data unless it is to be kept.
    fn end_processes(&self, keep_data: bool) -> Vec<String> {
        let services = self.nodes.iter().map(|running| &running.node);
        let nodes = self.workers.iter().chain(services).chain(&self.proxy);
        let killed = nodes.map(|node| {
            let mut node = node
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            match &mut *node {
                Node::Process(process) => process.kill(),
                Node::Container(_) => Ok(String::new()),
            }
        });
        let mut left: Vec<String> = killed.filter_map(Result::err).collect();
        // Every node is dead and waited for: what has this process for its parent was left behind by one.
        left.extend(kill_children(&HashSet::new()));
        left.extend(
            self.systems
                .iter()
                .flat_map(|system| system.clear(keep_data)),
        );
        let data = self.folder.join("data");
        if !keep_data
            && data.exists()
            && let Err(error) = std::fs::remove_dir_all(&data)
        {
            left.push(format!("{}: {error}", data.display()));
        }
        left
    }
}

impl Drop for LocalTarget {
    fn drop(&mut self) {
        // After an orderly end there is nothing left to kill. Otherwise the journal knows what this leaves. Containers
        // go with their estate.
        let _ = self.end_processes(true);
    }
}

fn estate_plan<'a>(plan: &LocalPlan<'a>, executable: &'a Path) -> EstatePlan<'a> {
    // One for each worker and service, and one for us and each service.
    let links = 2 * (plan.suite.run.workers.0 + 1);
    EstatePlan {
        run: plan.run,
        logs: plan.folder.join("logs"),
        executable,
        links: u16::try_from(links).expect("a suite has at most 64 workers"),
        journal: Arc::clone(&plan.journal),
    }
}

fn spawn(
    spawner: &Spawner,
    journal: &Journal,
    name: &str,
    command: &NodeCommand,
) -> Result<SharedNode, HarnessError> {
    let child = spawner.spawn(command.clone()).map_err(|error| {
        let program = command.program.to_string_lossy();
        HarnessError::node(name, format!("failed to start {program}: {error}"))
    })?;
    let node = Node::of(command, child);
    write_down(journal, name, command, &node)?;
    Ok(Arc::new(Mutex::new(node)))
}

/// Nothing is done to a node that the journal does not know.
fn write_down(
    journal: &Journal,
    name: &str,
    command: &NodeCommand,
    node: &Node,
) -> Result<(), HarnessError> {
    let Some(process) = node.pid().and_then(Process::now) else {
        return Ok(());
    };
    journal.write(&Entry::Node {
        node: name.to_owned(),
        process,
        home: command.home.clone(),
    })
}
