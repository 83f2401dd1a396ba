//! The local target: every node a process of this machine, on loopback, started from the one binary.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Node, NodeCommand, Ports, Spawner, adopt_orphans, kill_children};
use crate::error::HarnessError;
use crate::journal::{Entry, Journal, Process};

/// How long a service may take from its start until it answers.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// One of the two services under test.
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

    /// The node's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Resource => "resource",
        }
    }

    /// The hidden verb of the binary that is this service.
    fn verb(self) -> &'static str {
        match self {
            Self::Lock => "lock-service",
            Self::Resource => "fenced-resource",
        }
    }
}

/// A node behind a lock, because faults stop and restart it from tasks of their own.
pub type SharedNode = Arc<Mutex<Node>>;

/// A service of the run: how to start it, and the process that it is now.
#[derive(Debug)]
struct RunningService {
    command: NodeCommand,
    address: SocketAddr,
    node: SharedNode,
}

/// The nodes of a run.
#[derive(Debug)]
pub struct LocalTarget {
    run: String,
    folder: PathBuf,
    executable: PathBuf,
    services: [RunningService; 2],
    proxy: Option<SharedNode>,
    proxy_api: SocketAddr,
    workers: Vec<SharedNode>,
    http: reqwest::Client,
    journal: Arc<Journal>,
    // Last: when the spawner's thread ends, the kernel kills what is left.
    spawner: Spawner,
}

/// What a local target needs to know.
#[derive(Clone, Debug)]
pub struct LocalPlan<'a> {
    /// The run's id.
    pub run: &'a str,
    /// The run's folder; `logs/` and `data/` are made in it.
    pub folder: &'a Path,
    /// A defect for the lock service.
    pub lock_defect: Option<&'a str>,
    /// A defect for the resource.
    pub resource_defect: Option<&'a str>,
    /// A Toxiproxy of the user's instead of the embedded one.
    pub toxiproxy: Option<SocketAddr>,
    /// Where every node is written down as soon as it runs.
    pub journal: Arc<Journal>,
}

impl LocalTarget {
    /// Starts the services and the fault proxy, and waits until each of them answers.
    ///
    /// # Errors
    /// When a folder cannot be made, no port is free, or a node does not come up in time.
    pub async fn bring_up(plan: LocalPlan<'_>, ports: &mut Ports) -> Result<Self, HarnessError> {
        // What a worker's children leave behind becomes ours, marked or not, and is killed at the take-down.
        adopt_orphans()?;
        let executable = std::env::current_exe().map_err(|source| HarnessError::System {
            what: "find the running program",
            source,
        })?;
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
        let start = |name: &'static str,
                     verb: &'static str,
                     address: SocketAddr,
                     more: Vec<std::ffi::OsString>| {
            let mut arguments = vec![verb.into(), "--listen".into(), address.to_string().into()];
            arguments.extend(more);
            let command = NodeCommand {
                program: executable.clone().into(),
                arguments,
                marker: format!("{}/{name}", plan.run),
                log: plan.folder.join("logs").join(format!("{name}.log")),
                piped: false,
            };
            spawn(&spawner, &plan.journal, name, &command).map(|node| (command, node))
        };
        let mut service = |service: Service, defect: Option<&str>| {
            let address = ports.claim()?;
            let mut more = vec![
                "--data".into(),
                plan.folder.join("data").join(service.name()).into(),
            ];
            if let Some(defect) = defect {
                more.extend(["--defect".into(), defect.into()]);
            }
            let (command, node) = start(service.name(), service.verb(), address, more)?;
            Ok::<_, HarnessError>(RunningService {
                command,
                address,
                node,
            })
        };
        let services = [
            service(Service::Lock, plan.lock_defect)?,
            service(Service::Resource, plan.resource_defect)?,
        ];
        let (proxy, proxy_api) = match plan.toxiproxy {
            Some(address) => (None, address),
            None => {
                let address = ports.claim()?;
                (
                    Some(start("proxy", "toxiproxy", address, Vec::new())?.1),
                    address,
                )
            }
        };
        let target = Self {
            run: plan.run.to_owned(),
            folder: plan.folder.to_owned(),
            executable: executable.clone(),
            services,
            proxy,
            proxy_api,
            workers: Vec::new(),
            http,
            journal: plan.journal,
            spawner,
        };
        for service in Service::ALL {
            target.ready(service).await?;
        }
        if let Some(proxy) = &target.proxy {
            target
                .answers("proxy", &format!("http://{proxy_api}/version"), proxy)
                .await?;
        }
        Ok(target)
    }

    /// Where a service listens.
    #[must_use]
    pub fn address(&self, service: Service) -> SocketAddr {
        self.services[service as usize].address
    }

    /// Where the fault proxy's API listens.
    #[must_use]
    pub fn proxy_api(&self) -> SocketAddr {
        self.proxy_api
    }

    /// A service's process.
    #[must_use]
    pub fn service(&self, service: Service) -> SharedNode {
        Arc::clone(&self.services[service as usize].node)
    }

    /// The nodes that stand as long as the run, except where a fault kills them: the services and the proxy.
    #[must_use]
    pub fn standing(&self) -> Vec<(&'static str, SharedNode)> {
        let services = Service::ALL.map(|service| (service.name(), self.service(service)));
        let proxy = self.proxy.iter().map(|proxy| ("proxy", Arc::clone(proxy)));
        services.into_iter().chain(proxy).collect()
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
    pub fn start_worker(&mut self, command: &[String]) -> Result<SharedNode, HarnessError> {
        let name = format!("w{}", self.workers.len() + 1);
        let (program, arguments) = match command.split_first() {
            Some((program, arguments)) => {
                (program.into(), arguments.iter().map(Into::into).collect())
            }
            None => (self.executable.clone().into(), vec!["worker".into()]),
        };
        let command = NodeCommand {
            program,
            arguments,
            marker: format!("{}/{name}", self.run),
            log: self.folder.join("logs").join(format!("{name}.log")),
            piped: true,
        };
        let node = spawn(&self.spawner, &self.journal, &name, &command)?;
        self.workers.push(Arc::clone(&node));
        Ok(node)
    }

    /// Starts a killed service again, on its data and its port, and waits until it answers. The text is the evidence.
    ///
    /// # Errors
    /// When it does not come back.
    pub async fn start_again(&self, service: Service) -> Result<String, HarnessError> {
        let begun = Instant::now();
        let running = &self.services[service as usize];
        let child = self
            .spawner
            .spawn(running.command.clone())
            .map_err(|error| {
                HarnessError::node(service.name(), format!("failed to start again: {error}"))
            })?;
        let node = Node::new(running.command.marker.clone(), child);
        write_down(&self.journal, service.name(), &node)?;
        let pid = node.pid();
        *running
            .node
            .lock()
            .expect("no holder of a node's lock panics") = node;
        self.ready(service).await?;
        Ok(format!(
            "pid {pid} answers after {:.0} ms",
            begun.elapsed().as_secs_f64() * 1e3
        ))
    }

    async fn ready(&self, service: Service) -> Result<(), HarnessError> {
        let url = format!("http://{}/healthz", self.address(service));
        self.answers(service.name(), &url, &self.services[service as usize].node)
            .await
    }

    /// Polls `url` until it answers 200.
    async fn answers(&self, name: &str, url: &str, node: &SharedNode) -> Result<(), HarnessError> {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            if self
                .http
                .get(url)
                .send()
                .await
                .is_ok_and(|answer| answer.status().is_success())
            {
                return Ok(());
            }
            let ended = node
                .lock()
                .expect("no holder of a node's lock panics")
                .ended();
            let trouble = match ended {
                Some(status) => Some(format!("ended with {status} before it answered")),
                None => (Instant::now() > deadline)
                    .then(|| format!("does not answer at {url} within {READY_WITHIN:?}")),
            };
            if let Some(trouble) = trouble {
                return Err(HarnessError::node(
                    name,
                    format!("{trouble}{}", self.last_words(name)),
                ));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The last line of a node's log, for an error message.
    #[must_use]
    pub fn last_words(&self, name: &str) -> String {
        let log =
            std::fs::read(self.folder.join("logs").join(format!("{name}.log"))).unwrap_or_default();
        let tail = String::from_utf8_lossy(&log[log.len().saturating_sub(4_096)..]).into_owned();
        match tail.lines().rfind(|line| !line.trim().is_empty()) {
            Some(line) => format!("; its last words: {}", line.trim()),
            None => String::new(),
        }
    }

    /// Kills every node that is left, and removes the services' data unless it is to be kept. Returns what is left.
    pub fn take_down(&self, keep_data: bool) -> Vec<String> {
        let services = self.services.iter().map(|service| &service.node);
        let nodes = self.workers.iter().chain(services).chain(&self.proxy);
        let killed = nodes.map(|node| {
            let mut node = node
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            node.kill()
        });
        let mut left: Vec<String> = killed.filter_map(Result::err).collect();
        // Every node is dead and waited for: what has this process for its parent was left behind by one.
        left.extend(kill_children(&HashSet::new()));
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
        // After an orderly end there is nothing left to kill. Otherwise the journal knows what this leaves.
        let _ = self.take_down(true);
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
    let node = Node::new(command.marker.clone(), child);
    write_down(journal, name, &node)?;
    Ok(Arc::new(Mutex::new(node)))
}

/// Nothing is done to a node that the journal does not know.
fn write_down(journal: &Journal, name: &str, node: &Node) -> Result<(), HarnessError> {
    let Some(process) = Process::now(node.pid()) else {
        return Ok(());
    };
    journal.write(&Entry::Node {
        node: name.to_owned(),
        process,
    })
}
