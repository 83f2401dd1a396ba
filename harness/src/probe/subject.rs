//! The resource that is asked.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use fencepost_workloads::client::{Endpoint, Resource};
use fencepost_workloads::protocol::{Options, Settings};
use fencepost_workloads::resources::{self, RESOURCES};
use fencepost_workloads::seed::Seed;
use fencepost_workloads::systems::find;

use super::apart::Apart;
use crate::cli::ProbeArguments;
use crate::error::HarnessError;
use crate::machine;
use crate::targets::{Node, NodeCommand, Ports, Spawner, namespace};

/// How long one answer may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long a resource that was started may take until it answers.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// The reference resource as a process of this probe.
struct Own {
    command: NodeCommand,
    node: Node,
    folder: PathBuf,
    _ports: Ports,
    // Last: when the spawner's thread ends, the kernel kills what is left.
    spawner: Spawner,
}

/// The resource that is asked, and how it is reached.
pub struct Subject {
    kind: String,
    address: String,
    options: Options,
    own: Option<Own>,
}

impl Subject {
    /// Starts the reference resource, or takes the one at the address that was given.
    ///
    /// # Errors
    /// When the kind means nothing without a lock service, an address is missing, or it does not answer.
    pub async fn open(arguments: &ProbeArguments) -> Result<Self, HarnessError> {
        let kind = &arguments.resource;
        let Some(system) = find(RESOURCES, kind) else {
            let known: Vec<&str> = RESOURCES.iter().map(|system| system.name).collect();
            return Err(HarnessError::Usage(format!(
                "--resource: no {kind:?}: {} is right",
                known.join(", ")
            )));
        };
        let fence = arguments.fence.as_deref();
        if let Some(fence) = fence.filter(|fence| !system.variants.contains(fence)) {
            return Err(HarnessError::Usage(format!(
                "--fence: no {fence:?}: {} is right",
                system.variants.join(", ")
            )));
        }
        if kind == "etcd" && fence != Some("none") {
            return Err(HarnessError::Usage(
                "--resource etcd compares a lock's key, and a probe has no lock: fence none, or `fencepost run`, is right"
                    .to_owned(),
            ));
        }
        let own = match &arguments.address {
            Some(_) => None,
            None if kind == "reference" => Some(Own::start(arguments).await?),
            None => {
                return Err(HarnessError::Usage(format!(
                    "--resource {kind} needs an address: --address HOST:PORT is right"
                )));
            }
        };
        let address = match (&arguments.address, &own) {
            (Some(address), _) => address.clone(),
            (None, Some(own)) => own.address(),
            (None, None) => String::new(),
        };
        let options = Options {
            namespace: namespace(&machine::run_id()),
            resource_settings: Settings {
                fence: arguments.fence.clone(),
                user: arguments.user.clone(),
                database: arguments.database.clone(),
                password_env: arguments.password_env.clone(),
                ..Settings::default()
            },
            ..Options::plain("reference", kind, TIMEOUT)
        };
        let subject = Self {
            kind: kind.clone(),
            address,
            options,
            own,
        };
        if let Some(employ) = system.steward {
            let steward = employ(&subject.endpoint("fencepost", &[&subject.address]))
                .map_err(|error| HarnessError::Usage(error.to_string()))?;
            steward
                .prepare()
                .await
                .map_err(|error| HarnessError::node(kind, error.to_string()))?;
        }
        Ok(subject)
    }

    fn endpoint<'a>(&'a self, client: &'a str, addresses: &'a [&'a str]) -> Endpoint<'a> {
        Endpoint {
            client,
            addresses,
            timeout: TIMEOUT,
            options: &self.options,
            namespace: &self.options.namespace,
        }
    }

    /// What it is, for a person.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} at {}", self.kind, self.address)
    }

    /// Where it speaks the reference resource's HTTP, which can be spoken badly on purpose: what a key's URL is before the
    /// key.
    #[must_use]
    pub fn http(&self) -> Option<String> {
        let keys = format!("http://{}/v1/keys/{}", self.address, self.prefix());
        (self.kind == "reference").then_some(keys)
    }

    /// What every key of this probe begins with. No other probe has the same.
    #[must_use]
    pub fn prefix(&self) -> String {
        format!("{}-", self.options.namespace)
    }

    /// Whether keys of the probe stay behind: in a resource of somebody's of which nothing can be removed.
    #[must_use]
    pub fn keeps_keys(&self) -> bool {
        let steward = find(RESOURCES, &self.kind).and_then(|system| system.steward);
        self.own.is_none() && steward.is_none()
    }

    /// A client of it.
    ///
    /// # Errors
    /// When none can be made.
    pub fn client(&self, name: &str) -> Result<Box<dyn Resource>, HarnessError> {
        let inner = resources::connect(&self.kind, &self.endpoint(name, &[&self.address]))
            .map_err(|error| HarnessError::Usage(error.to_string()))?;
        Ok(Box::new(Apart {
            inner,
            prefix: self.prefix(),
        }))
    }

    /// Kills it and starts it again, if it is this probe's own. False where it is not.
    ///
    /// # Errors
    /// When it does not come back.
    pub async fn restart(&mut self) -> Result<bool, HarnessError> {
        match &mut self.own {
            Some(own) => own.restart().await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Removes what the probe left: its keys and tables, or the whole of its own resource.
    pub async fn close(mut self) {
        if let Some(own) = &mut self.own {
            // What is left of either lies in a folder for temporary files, or dies with the spawner.
            let _ = own.node.kill();
            let _ = std::fs::remove_dir_all(&own.folder);
            return;
        }
        let steward = find(RESOURCES, &self.kind).and_then(|system| system.steward);
        if let Some(Ok(steward)) =
            steward.map(|employ| employ(&self.endpoint("fencepost", &[&self.address])))
        {
            let _ = steward.clear().await;
        }
    }
}

impl Own {
    async fn start(arguments: &ProbeArguments) -> Result<Self, HarnessError> {
        let executable = std::env::current_exe().map_err(|source| HarnessError::System {
            what: "find the running program",
            source,
        })?;
        let run = machine::run_id();
        let folder = std::env::temp_dir().join(format!("fencepost-probe-{run}"));
        std::fs::create_dir_all(&folder).map_err(|source| HarnessError::Output {
            path: folder.clone(),
            source,
        })?;
        let mut ports = Ports::new(Seed(u64::from(std::process::id())).stream(&run));
        let address = ports.claim()?.to_string();
        let mut words: Vec<std::ffi::OsString> =
            ["fenced-resource", "--listen", &address, "--data"]
                .map(Into::into)
                .into();
        words.push(folder.join("data").into());
        let open = (arguments.fence.as_deref() == Some("none")).then_some("unfenced");
        if let Some(defect) = arguments.defect.as_deref().or(open) {
            words.extend(["--defect".into(), defect.into()]);
        }
        let command = NodeCommand {
            arguments: words,
            ..NodeCommand::new(&executable, format!("{run}/resource"), folder.join("log"))
        };
        let spawner = Spawner::start()?;
        let child = spawner
            .spawn(command.clone())
            .map_err(|error| HarnessError::node("resource", format!("failed to start: {error}")))?;
        let mut own = Self {
            node: Node::of(&command, child),
            command,
            folder,
            _ports: ports,
            spawner,
        };
        own.ready().await?;
        Ok(own)
    }

    fn address(&self) -> String {
        self.command.arguments[2].to_string_lossy().into_owned()
    }

    async fn restart(&mut self) -> Result<(), HarnessError> {
        let killed = self.node.kill();
        killed.map_err(|why| HarnessError::node("resource", why))?;
        let child = self.spawner.spawn(self.command.clone()).map_err(|error| {
            HarnessError::node("resource", format!("failed to start again: {error}"))
        })?;
        self.node = Node::of(&self.command, child);
        self.ready().await
    }

    async fn ready(&mut self) -> Result<(), HarnessError> {
        let url = format!("http://{}/healthz", self.address());
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(TIMEOUT)
            .build()
            .map_err(|error| HarnessError::Internal(format!("no HTTP client: {error}")))?;
        let deadline = Instant::now() + READY_WITHIN;
        while !http
            .get(&url)
            .send()
            .await
            .is_ok_and(|answer| answer.status().is_success())
        {
            let ended = self.node.ended().is_some();
            if ended || Instant::now() > deadline {
                let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                let words = log.lines().last().unwrap_or("nothing").to_owned();
                return Err(HarnessError::node(
                    "resource",
                    format!("it does not serve; its last words: {words}"),
                ));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}
