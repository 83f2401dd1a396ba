//! Everything that a run has at an engine: one network, its containers, their volumes.
//!
//! Each is written into the journal before it is made. What is under way when the run is given up is waited for and then
//! removed with the rest, so nothing comes into being behind a take-down. What compose makes is in `composed.rs`.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bollard::models::{
    ContainerCreateBody, EndpointIpamConfig, EndpointSettings, HostConfig, HostConfigLogConfig,
    Mount, MountType, NetworkingConfig, PortBinding,
};
use fencepost_workloads::suite::{Fault, FaultKind, NodeImage};
use tokio::sync::RwLock;

use super::command::{CLOCK_IN_IMAGE, ContainerCommand};
use super::container::{Container, Reach};
use super::cut::Filter;
use super::engine::{Engine, Kind};
use super::holding::{Holding, remove};
use super::image::Recipe;
use super::{NODE_LABEL, RUN_LABEL};
use crate::error::HarnessError;
use crate::journal::{Entry, Journal};
use crate::targets::proc::MARKER;
use crate::terminal::complain;

mod composed;

/// The first port that the fault proxy listens on for a link, outside the ephemeral ones.
const FIRST_LINK: u16 = 21_000;
/// Where the fault proxy's API listens.
pub const PROXY_API: u16 = 8_474;
/// How long a container on this machine may take until it can be connected to by its own address.
const ROUTED_WITHIN: Duration = Duration::from_secs(3);
/// The file of a service's volume that its clock reads, where it has one of ours.
const CLOCK_FILE: &str = "clock";
/// What helps where a clock is to jump and cannot.
const NO_CLOCK: &str = "apt-get install faketime, and the next image has it";
/// How long a container may take to be started by another process.
const STARTED_WITHIN: Duration = Duration::from_secs(20);
/// A container's log is kept so large by the engine.
const LARGEST_LOG: &str = "8m";

/// What is asked of an estate.
#[derive(Clone, Debug)]
pub struct EstatePlan<'a> {
    /// The run's id.
    pub run: &'a str,
    /// Where logs are saved.
    pub logs: PathBuf,
    /// The one binary.
    pub executable: &'a Path,
    /// How many links the fault proxy may be asked for.
    pub links: u16,
    /// Where everything is written down first.
    pub journal: Arc<Journal>,
}

/// See the module.
#[derive(Debug)]
pub struct Estate {
    engine: Engine,
    run: String,
    logs: PathBuf,
    image: Recipe,
    journal: Arc<Journal>,
    network: String,
    /// The first address of the network's range.
    range: [u8; 4],
    /// The fault proxy's address in it.
    proxy: Ipv4Addr,
    next_address: AtomicU8,
    next_link: AtomicU16,
    links: u16,
    /// Each node's container, in the order of their names.
    containers: Mutex<BTreeMap<String, Made>>,
    /// Closed for good once everything is taken down; held open by what is being made.
    gate: Arc<RwLock<bool>>,
    done: AtomicBool,
    /// How the fault proxy's ports are reached from here; none until it was started.
    doors: Mutex<Option<Doors>>,
    /// Whether nodes' processes are reached by their ids; told by the fault proxy's.
    reach: Mutex<Reach>,
    /// The compose files that are up, each with its project's name.
    projects: Mutex<Vec<(String, String)>>,
    /// Which fault proxy it is, where an image of one's own was asked for.
    own_proxy: Mutex<Option<String>>,
}

/// A container that was made.
#[derive(Clone, Debug)]
struct Made {
    name: String,
    address: Ipv4Addr,
    /// Whether its standard output is a pipe of ours, and no log.
    attached: bool,
}

/// How the ports of the fault proxy are reached.
#[derive(Clone, Debug)]
enum Doors {
    /// At its own address.
    Direct(Ipv4Addr),
    /// At ports that the engine published on its machine.
    Published(IpAddr, HashMap<u16, u16>),
}

impl Estate {
    /// Reaches the engine, builds the image if it is not there, and makes the run's network.
    ///
    /// # Errors
    /// When there is no engine, it lets us not in, or it cannot make them.
    pub async fn open(plan: EstatePlan<'_>) -> Result<Self, HarnessError> {
        let engine = Engine::reach()?;
        let image = Recipe::of(plan.executable)?;
        image.ensure(&engine).await?;
        let network = format!("fencepost-{}", plan.run);
        let mut estate = Self {
            engine,
            run: plan.run.to_owned(),
            logs: plan.logs,
            image,
            journal: plan.journal,
            network: network.clone(),
            range: [0; 4],
            proxy: Ipv4Addr::UNSPECIFIED,
            next_address: AtomicU8::new(2),
            next_link: AtomicU16::new(FIRST_LINK),
            links: plan.links,
            containers: Mutex::default(),
            gate: Arc::default(),
            done: AtomicBool::new(false),
            doors: Mutex::default(),
            reach: Mutex::new(Reach::Engine),
            projects: Mutex::default(),
            own_proxy: Mutex::default(),
        };
        estate.announce(Kind::Network, &network)?;
        let (engine, labels) = (estate.engine.clone(), estate.labels(None));
        let made = estate
            .make(async move { engine.create_network(&network, labels).await })
            .await;
        estate.range = made?;
        estate.proxy = estate.claim_address();
        Ok(estate)
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The image of every role.
    #[must_use]
    pub fn image(&self) -> &Recipe {
        &self.image
    }

    /// The run's network.
    #[must_use]
    pub fn network(&self) -> &str {
        &self.network
    }

    /// How nodes' processes are reached.
    #[must_use]
    pub fn reach(&self) -> Reach {
        *self.reach.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How each thing is done to containers here, for the run's record.
    #[must_use]
    pub fn means(&self) -> BTreeMap<String, String> {
        let about = self.engine.about();
        let (signals, dropped) = match self.reach() {
            Reach::Host => (
                "by host pid; evidence from /proc",
                match Filter::here() {
                    Ok(filter) => format!("{}, through nsenter", filter.name()),
                    Err(why) => format!("no: {why}"),
                },
            ),
            Reach::Engine => (
                "through the engine; evidence from its ps",
                "no: the engine is not of this machine".to_owned(),
            ),
        };
        let doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        let addresses = match *doors {
            Some(Doors::Published(..)) => "through published ports",
            _ => "at the containers' own addresses",
        };
        drop(doors);
        let freezer = match self.reach() {
            Reach::Host => "docker pause; evidence from the control group",
            Reach::Engine => "docker pause; evidence from the engine",
        };
        [
            (
                "engine",
                format!(
                    "Docker {} (API {}) at {}",
                    about.version,
                    about.api,
                    self.engine.host()
                ),
            ),
            ("image", self.image.tag.clone()),
            ("signals", signals.to_owned()),
            ("freezer", freezer.to_owned()),
            ("links", format!("Toxiproxy's API, {addresses}")),
            ("packet drop", dropped),
            ("toxiproxy", self.toxiproxy()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Which fault proxy it is.
    fn toxiproxy(&self) -> String {
        let own = self
            .own_proxy
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        own.clone().unwrap_or_else(|| "the embedded one".to_owned())
    }

    /// An address in the run's network that nobody has.
    pub fn claim_address(&self) -> Ipv4Addr {
        let number = self.next_address.fetch_add(1, Ordering::Relaxed);
        let [a, b, c, d] = self.range;
        Ipv4Addr::new(a, b, c, d.wrapping_add(number))
    }

    /// Starts the fault proxy, and finds out how its ports and its process are reached.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn start_proxy(
        &self,
        node: &str,
        own: Option<&NodeImage>,
    ) -> Result<Container, HarnessError> {
        let address = self.proxy;
        let listen = format!("0.0.0.0:{PROXY_API}");
        let arguments = ["toxiproxy", "--listen", &listen].map(str::to_owned).into();
        let mut command = ContainerCommand::new(node, address, arguments);
        if let Some(own) = own
            && let Some(image) = &own.image
        {
            let which = match self.provide(node, image).await {
                Ok(()) => {
                    command.image = Some(image.clone());
                    command.environment = own.environment.clone().into_iter().collect();
                    command.arguments = match own.command.is_empty() {
                        true => vec!["-host=0.0.0.0".to_owned()],
                        false => own.command.clone(),
                    };
                    image.clone()
                }
                // The embedded one speaks the same language; the record says which it was.
                Err(error) => {
                    let which = format!("the embedded one instead of {image} ({error})");
                    complain(format_args!("the fault proxy is {which}"));
                    which
                }
            };
            *self
                .own_proxy
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(which);
        }
        if self.engine.is_near() {
            let container = self.start(&command).await?;
            if routed(SocketAddr::from((address, PROXY_API)), &container).await {
                self.settle(&container, Doors::Direct(address));
                return Ok(container);
            }
            // The engine is in a machine or a network of its own: once more, with doors to the outside.
            let (engine, name) = (self.engine.clone(), self.name_of(node));
            self.engine
                .on_thread(async move { engine.remove(Kind::Container, &name).await })
                .await?;
        }
        let last = FIRST_LINK + self.links;
        command.published = [PROXY_API].into_iter().chain(FIRST_LINK..last).collect();
        let container = self.start(&command).await?;
        let (engine, id) = (self.engine.clone(), container.id().to_owned());
        let found = self
            .engine
            .on_thread(async move { engine.inspect(&id).await })
            .await?;
        let ports = found
            .and_then(|found| found.network_settings?.ports)
            .unwrap_or_default();
        let published = ports.into_iter().filter_map(|(inside, bindings)| {
            let inside = inside.split('/').next()?.parse().ok()?;
            let outside = bindings?
                .into_iter()
                .find_map(|binding| binding.host_port?.parse().ok());
            Some((inside, outside?))
        });
        let machine = self.engine.machine().unwrap_or("127.0.0.1").to_owned();
        let resolved = (machine.as_str(), PROXY_API).to_socket_addrs().ok();
        let resolved = resolved.and_then(|mut addresses| addresses.next());
        let Some(resolved) = resolved else {
            return Err(HarnessError::node(
                "docker",
                format!("{machine} has no address"),
            ));
        };
        self.settle(
            &container,
            Doors::Published(resolved.ip(), published.collect()),
        );
        Ok(container)
    }

    /// That what is planned can be done to containers here, as far as the fault proxy's has shown: told before the attack
    /// instead of in the middle of it.
    ///
    /// # Errors
    /// The first fault that cannot be done, and what is missing.
    pub fn can(&self, faults: &[Fault]) -> Result<(), HarnessError> {
        let planned = |kind| faults.iter().find(|fault| fault.kind == kind);
        if let Some(cut) = planned(FaultKind::Cut)
            && self.reach() == Reach::Engine
        {
            return Err(HarnessError::node(
                "docker",
                format!(
                    "{} drops packets, and the engine's containers are not of this machine: disconnect is right instead, or other --faults",
                    cut.label()
                ),
            ));
        }
        if let Some(clock) = planned(FaultKind::Clock)
            && !self.image.faketime
        {
            return Err(HarnessError::node(
                "image",
                format!("{} needs a clock to preload: {NO_CLOCK}", clock.label()),
            ));
        }
        Ok(())
    }

    fn settle(&self, proxy: &Container, doors: Doors) {
        *self.doors.lock().unwrap_or_else(PoisonError::into_inner) = Some(doors);
        *self.reach.lock().unwrap_or_else(PoisonError::into_inner) = proxy.reach();
    }

    /// Where the fault proxy's API is reached from here.
    ///
    /// # Errors
    /// When it was not started, or the engine did not publish it.
    pub fn proxy_api(&self) -> Result<SocketAddr, HarnessError> {
        self.door(PROXY_API)
    }

    /// A place for a proxy: where it is told to listen, and where that is reached from here.
    ///
    /// # Errors
    /// When there are no more.
    pub fn claim_link(&self) -> Result<(SocketAddr, SocketAddr), HarnessError> {
        let port = self.next_link.fetch_add(1, Ordering::Relaxed);
        let reached = self.door(port)?;
        let doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        let told = match *doors {
            Some(Doors::Published(..)) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
            _ => reached,
        };
        Ok((told, reached))
    }

    /// Where a proxy that was told to listen there is reached from within the run's network.
    #[must_use]
    pub fn within(&self, told: SocketAddr) -> SocketAddr {
        SocketAddr::from((self.proxy, told.port()))
    }

    /// Whether the containers' own addresses lead nowhere from here.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        let doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(*doors, Some(Doors::Published(..)))
    }

    /// Where ports of the engine's machine are looked for on this one because its socket does not say where it is.
    #[must_use]
    pub fn doubtful_place(&self) -> Option<String> {
        (self.is_remote() && self.engine.is_near()).then(|| {
            format!(
                ", though {} does, and its containers' ports should be ports of this machine: if the engine is on another one, DOCKER_HOST=tcp://HOST:PORT is right",
                self.engine.host()
            )
        })
    }

    fn door(&self, port: u16) -> Result<SocketAddr, HarnessError> {
        let doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        let door = match &*doors {
            Some(Doors::Direct(address)) => Some(SocketAddr::from((*address, port))),
            Some(Doors::Published(machine, ports)) => ports
                .get(&port)
                .map(|&outside| SocketAddr::from((*machine, outside))),
            None => None,
        };
        door.ok_or_else(|| {
            HarnessError::node(
                "docker",
                format!("port {port} of the fault proxy was not published"),
            )
        })
    }

    /// The container that is a node now: one of a compose file has a name that compose gave it.
    fn container_of(&self, node: &str) -> String {
        self.containers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(node)
            .map_or_else(|| self.name_of(node), |made| made.name.clone())
    }

    /// The name of a node's container.
    #[must_use]
    pub fn name_of(&self, node: &str) -> String {
        format!("fencepost-{}-{node}", self.run)
    }

    /// Makes a container with its volume, and starts it.
    ///
    /// # Errors
    /// When the engine refuses.
    pub async fn start(&self, command: &ContainerCommand) -> Result<Container, HarnessError> {
        let id = self.create(command).await?;
        let engine = self.engine.clone();
        self.make(async move {
            engine.start(&id).await?;
            Container::of(&engine, &id).await
        })
        .await
        .map_err(|error| self.of_node(&command.node, error))
    }

    /// Makes sure that an image is there, pulling it where it is not.
    ///
    /// # Errors
    /// When it is not there and cannot be pulled.
    pub async fn provide(&self, node: &str, image: &str) -> Result<(), HarnessError> {
        if self.engine.has_image(image).await? {
            return Ok(());
        }
        let (engine, wanted) = (self.engine.clone(), image.to_owned());
        self.engine
            .on_thread(async move { engine.pull(&wanted).await })
            .await
            .map_err(|error| self.of_node(node, error))
    }

    /// Makes a container with its volume, and does not start it; returns its id.
    ///
    /// # Errors
    /// When the engine refuses.
    pub async fn create(&self, command: &ContainerCommand) -> Result<String, HarnessError> {
        if let Some(image) = &command.image {
            self.provide(&command.node, image).await?;
        }
        let name = self.name_of(&command.node);
        let volume = command.data.as_ref().map(|_| name.clone());
        if let Some(volume) = &volume {
            self.announce(Kind::Volume, volume)?;
        }
        self.announce(Kind::Container, &name)?;
        let (engine, body) = (self.engine.clone(), self.body(command));
        let labels = self.labels(Some(&command.node));
        let made = name.clone();
        let id = self
            .make(async move {
                if let Some(volume) = volume {
                    engine.create_volume(&volume, labels).await?;
                }
                engine.create_container(&made, body).await
            })
            .await
            .map_err(|error| self.of_node(&command.node, error))?;
        let made = Made {
            name,
            address: command.address,
            attached: command.attached,
        };
        self.containers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(command.node.clone(), made);
        Ok(id)
    }

    /// Starts a container again that has ended, on its volume and under its address.
    ///
    /// # Errors
    /// When the engine refuses.
    pub async fn start_again(&self, node: &str) -> Result<Container, HarnessError> {
        let (engine, name) = (self.engine.clone(), self.container_of(node));
        self.make(async move {
            engine.start(&name).await?;
            let found = engine.inspect(&name).await?;
            let id = found.and_then(|found| found.id).unwrap_or(name);
            Container::of(&engine, &id).await
        })
        .await
        .map_err(|error| self.of_node(node, error))
    }

    /// Removes a container and its volume in the middle of a run.
    ///
    /// # Errors
    /// When the engine refuses.
    pub async fn remove(&self, node: &str) -> Result<(), HarnessError> {
        // What it has said so far is lost with it otherwise, and overwritten by what comes in its place.
        let _ = self.save_log(node);
        self.set_log_aside(node);
        let (engine, name) = (self.engine.clone(), self.name_of(node));
        self.containers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(node);
        self.engine
            .on_thread(async move {
                engine.remove(Kind::Container, &name).await?;
                engine.remove(Kind::Volume, &name).await
            })
            .await
            .map_err(|error| self.of_node(node, error))
    }

    /// Takes a node's container off the run's network.
    ///
    /// # Errors
    /// When the engine refuses.
    pub async fn disconnect(&self, node: &str) -> Result<(), HarnessError> {
        let (engine, network, name) = (
            self.engine.clone(),
            self.network.clone(),
            self.container_of(node),
        );
        self.make(async move { engine.disconnect(&network, &name).await })
            .await
            .map_err(|error| self.of_node(node, error))
    }

    /// Puts it back, under the address that it had.
    ///
    /// # Errors
    /// When the engine refuses.
    pub async fn reconnect(&self, node: &str) -> Result<(), HarnessError> {
        let address = self
            .containers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(node)
            .map(|made| made.address.to_string())
            .unwrap_or_default();
        let (engine, network, name) = (
            self.engine.clone(),
            self.network.clone(),
            self.container_of(node),
        );
        let alias = node.to_owned();
        self.make(async move { engine.connect(&network, &name, &address, &alias).await })
            .await
            .map_err(|error| self.of_node(node, error))
    }

    /// Whether a node's container is on the run's network, as the engine knows it.
    ///
    /// # Errors
    /// When the engine does not tell.
    pub async fn is_connected(&self, node: &str) -> Result<bool, HarnessError> {
        let (engine, name) = (self.engine.clone(), self.container_of(node));
        let found = self
            .make(async move { engine.inspect(&name).await })
            .await
            .map_err(|error| self.of_node(node, error))?;
        let networks = found.and_then(|found| found.network_settings?.networks);
        Ok(networks.is_some_and(|networks| networks.contains_key(&self.network)))
    }

    /// Sets the clock of a node that runs under a clock of ours, so far from the right time.
    ///
    /// # Errors
    /// When there is no such clock in the image, or the engine refuses.
    pub async fn set_clock(
        &self,
        node: &str,
        by: Duration,
        back: bool,
    ) -> Result<(), HarnessError> {
        if !self.image.faketime {
            return Err(HarnessError::node(
                node,
                format!("there is no clock to preload in the image: {NO_CLOCK}"),
            ));
        }
        let sign = if back { '-' } else { '+' };
        let seconds = format!("{sign}{}", by.as_secs());
        let set = ["/fencepost", "clock", "--set", CLOCK_IN_IMAGE, &seconds];
        if self.ask_inside(node, &set).await.is_ok() {
            return Ok(());
        }
        // It is down, so nobody reads the file while it is written.
        let text = format!("{seconds}\n");
        let (engine, name) = (self.engine.clone(), self.name_of(node));
        self.make(async move {
            engine
                .put(&name, "/data", CLOCK_FILE, text.as_bytes())
                .await
        })
        .await
        .map_err(|error| self.of_node(node, error))
    }

    /// What a program in a node's container prints, run there beside the node.
    ///
    /// # Errors
    /// When the engine refuses.
    pub async fn ask_inside(&self, node: &str, words: &[&str]) -> Result<String, HarnessError> {
        let (engine, name) = (self.engine.clone(), self.container_of(node));
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        self.make(async move { engine.run_inside(&name, words).await })
            .await
            .map_err(|error| self.of_node(node, error))
    }

    /// Takes charge of the container `id`, which `bridge` is about to start.
    ///
    /// # Errors
    /// When it does not run in time.
    pub async fn bridged(
        &self,
        node: &str,
        id: &str,
        mut bridge: Child,
    ) -> Result<Container, HarnessError> {
        let (engine, asked) = (self.engine.clone(), id.to_owned());
        let started = self.make(async move {
            let deadline = tokio::time::Instant::now() + STARTED_WITHIN;
            loop {
                let found = engine.inspect(&asked).await?;
                let state = found.and_then(|found| found.state).unwrap_or_default();
                if state.running == Some(true) {
                    let mut container = Container::of(&engine, &asked).await?;
                    container.bridged_by(bridge);
                    return Ok(container);
                }
                let ended = bridge.try_wait().ok().flatten();
                if ended.is_some() || tokio::time::Instant::now() > deadline {
                    let how = ended.map_or("is still waiting".to_owned(), |how| how.to_string());
                    return Err(HarnessError::node(
                        "docker",
                        format!("its container does not run; what was to start it: {how}"),
                    ));
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        started.await.map_err(|error| self.of_node(node, error))
    }

    /// Saves what a container has said; returns why not. One that was never made has said nothing.
    pub fn save_log(&self, node: &str) -> Result<(), String> {
        let known = self
            .containers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(node)
            .cloned();
        let Some(Made { name, attached, .. }) = known else {
            return Ok(());
        };
        let engine = self.engine.clone();
        let text = self
            .engine
            .wait_for(async move { engine.logs(&name, !attached).await })
            .map_err(|error| error.to_string())?;
        let path = self.logs.join(format!("{node}.log"));
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Gives the saved log of a container that is replaced a name of its own: `lock-1.log`, `lock-2.log` ...
    fn set_log_aside(&self, node: &str) {
        let named = |number: u32| self.logs.join(format!("{node}-{number}.log"));
        let free = (1..).map(named).find(|path| !path.exists());
        if let Some(free) = free {
            // There is none of one that has said nothing.
            let _ = std::fs::rename(self.logs.join(format!("{node}.log")), free);
        }
    }

    /// Saves all logs and removes everything, or keeps everything where that is asked for. Returns what is left.
    pub fn take_down(&self, keep: bool) -> Vec<String> {
        if self.done.swap(true, Ordering::SeqCst) {
            return Vec::new();
        }
        let gate = Arc::clone(&self.gate);
        // What is being made is there or refused afterwards, and nothing is begun any more.
        self.engine
            .wait_for(async move { *gate.write().await = true });
        let nodes: Vec<String> = self
            .containers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .keys()
            .cloned()
            .collect();
        for node in nodes {
            // A log that cannot be saved is no reason to leave the container.
            let _ = self.save_log(&node);
        }
        self.save_logs_of_others();
        if keep {
            return Vec::new();
        }
        let holdings = self.journal.outside().docker;
        let (engine, run) = (self.engine.clone(), self.run.clone());
        let removed = self
            .engine
            .wait_for(async move { remove(&engine, &run, &holdings).await });
        removed.1
    }

    /// Does what makes something, unless everything is being taken down.
    async fn make<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, HarnessError>> + Send + 'static,
    ) -> Result<T, HarnessError> {
        let gate = Arc::clone(&self.gate);
        self.engine
            .on_thread(async move {
                let closed = gate.read().await;
                if *closed {
                    return Err(HarnessError::node("docker", "the run is being taken down"));
                }
                work.await
            })
            .await
    }

    fn announce(&self, kind: Kind, name: &str) -> Result<(), HarnessError> {
        self.journal.write(&Entry::Docker {
            holding: Holding {
                host: self.engine.host().to_owned(),
                kind,
                name: name.to_owned(),
            },
        })
    }

    fn labels(&self, node: Option<&str>) -> HashMap<String, String> {
        let node = node.map(|node| (NODE_LABEL.to_owned(), node.to_owned()));
        let run = (RUN_LABEL.to_owned(), self.run.clone());
        [run].into_iter().chain(node).collect()
    }

    /// An error of the engine as one of the node that it is about.
    fn of_node(&self, node: &str, error: HarnessError) -> HarnessError {
        match error {
            HarnessError::Node { message, .. } => HarnessError::node(node, message),
            other => other,
        }
    }

    fn body(&self, command: &ContainerCommand) -> ContainerCreateBody {
        let ours = command.image.is_none();
        let marker = (MARKER.to_owned(), format!("{}/{}", self.run, command.node));
        let variables = [marker]
            .into_iter()
            .chain(command.environment.iter().cloned());
        let mounts = command.data.as_ref().map(|folder| {
            vec![Mount {
                target: Some(folder.clone()),
                source: Some(self.name_of(&command.node)),
                typ: Some(MountType::VOLUME),
                ..Mount::default()
            }]
        });
        // On loopback where that is where we are; whoever names an engine elsewhere wants its machine's doors open.
        let loopback = match self.engine.machine() {
            Some(machine) => machine == "localhost" || machine.starts_with("127."),
            None => true,
        };
        let binding = PortBinding {
            host_ip: Some(if loopback { "127.0.0.1" } else { "0.0.0.0" }.to_owned()),
            host_port: Some(String::new()),
        };
        let inside = |port: &u16| format!("{port}/tcp");
        let bindings: HashMap<String, Option<Vec<PortBinding>>> = command
            .published
            .iter()
            .map(|port| (inside(port), Some(vec![binding.clone()])))
            .collect();
        let host_config = HostConfig {
            network_mode: Some(self.network.clone()),
            mounts,
            port_bindings: Some(bindings),
            cap_drop: ours.then(|| vec!["ALL".to_owned()]),
            security_opt: ours.then(|| vec!["no-new-privileges".to_owned()]),
            log_config: Some(HostConfigLogConfig {
                typ: Some("json-file".to_owned()),
                config: Some(HashMap::from([
                    ("max-size".to_owned(), LARGEST_LOG.to_owned()),
                    ("max-file".to_owned(), "1".to_owned()),
                ])),
            }),
            ..HostConfig::default()
        };
        let endpoint = EndpointSettings {
            ipam_config: Some(EndpointIpamConfig {
                ipv4_address: Some(command.address.to_string()),
                ..EndpointIpamConfig::default()
            }),
            aliases: Some(vec![command.node.clone()]),
            ..EndpointSettings::default()
        };
        ContainerCreateBody {
            image: Some(
                command
                    .image
                    .clone()
                    .unwrap_or_else(|| self.image.tag.clone()),
            ),
            cmd: (ours || !command.arguments.is_empty()).then(|| command.arguments.clone()),
            env: Some(
                variables
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect(),
            ),
            labels: Some(self.labels(Some(&command.node))),
            // As us, so that its processes are ours to signal.
            user: ours.then(|| format!("{}:{}", nix::unistd::getuid(), nix::unistd::getgid())),
            exposed_ports: Some(command.published.iter().map(inside).collect()),
            open_stdin: Some(command.attached),
            stdin_once: Some(command.attached),
            attach_stdin: Some(command.attached),
            attach_stdout: Some(command.attached),
            attach_stderr: Some(command.attached),
            host_config: Some(host_config),
            networking_config: Some(NetworkingConfig {
                endpoints_config: Some(HashMap::from([(self.network.clone(), endpoint)])),
            }),
            ..ContainerCreateBody::default()
        }
    }
}

impl Drop for Estate {
    fn drop(&mut self) {
        // After an orderly end there is nothing left to remove. Otherwise the journal knows what this leaves.
        let _ = self.take_down(false);
    }
}

/// Whether a container on this machine is reached at its own address, once it listens.
async fn routed(address: SocketAddr, container: &Container) -> bool {
    if container.reach() == Reach::Engine {
        return false;
    }
    let deadline = tokio::time::Instant::now() + ROUTED_WITHIN;
    while tokio::time::Instant::now() < deadline && container.ended().is_none() {
        let connected = tokio::task::spawn_blocking(move || {
            TcpStream::connect_timeout(&address, Duration::from_millis(500)).is_ok()
        });
        if connected.await.unwrap_or(false) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // One that has ended is told as that, by whoever waits for its answer.
    container.ended().is_some()
}
