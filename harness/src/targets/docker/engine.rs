//! A Docker engine, reached over its API, locally or where DOCKER_HOST says.
//!
//! All calls are made on one thread of their own, so that they can be waited for from anywhere, a `Drop` included, and
//! so that what an interrupt drops is carried out all the same instead of half. Each has a deadline, and what it refuses
//! is told in one line. What compose made is in `project.rs`.

use std::collections::HashMap;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bollard::errors::Error;
use bollard::exec::StartExecResults;
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, ContainerUpdateBody, EndpointIpamConfig,
    EndpointSettings, ExecConfig, Ipam, IpamConfig, NetworkConnectRequest, NetworkCreateRequest,
    NetworkDisconnectRequest, RestartPolicy, RestartPolicyNameEnum, VolumeCreateRequest,
};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, BuildImageOptionsBuilder, CreateContainerOptionsBuilder,
    CreateImageOptionsBuilder, KillContainerOptionsBuilder, ListContainersOptionsBuilder,
    ListNetworksOptionsBuilder, ListVolumesOptionsBuilder, LogsOptionsBuilder,
    RemoveContainerOptionsBuilder, RemoveVolumeOptionsBuilder, TopOptionsBuilder,
    UploadToContainerOptionsBuilder, WaitContainerOptionsBuilder,
};
use bollard::{ClientVersion, Docker};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::runtime::Runtime;

use super::RUN_LABEL;
use super::refusal::{in_one_line, is_address, is_missing, unreachable, words};
use crate::error::HarnessError;

mod project;

/// Where an engine is if nothing is said.
const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";
/// How long a call may take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);
/// How long an image may take to be built.
const BUILT_WITHIN: Duration = Duration::from_secs(180);
/// What every engine understands that is to be met: Docker 20.10.
const VERSION: ClientVersion = ClientVersion {
    major_version: 1,
    minor_version: 41,
};

/// An engine; clones share its thread.
#[derive(Clone, Debug)]
pub struct Engine {
    docker: Docker,
    host: Arc<str>,
    about: About,
    thread: Arc<Thread>,
}

/// What an engine says of itself.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Its version, e.g. `20.10.24`.
    pub version: String,
    /// The API's version that is spoken.
    pub api: String,
}

/// What carries out the calls. It goes when the last engine goes, without waiting for anything.
#[derive(Debug)]
struct Thread(Option<Runtime>);

impl Drop for Thread {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Something that a run has at an engine.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A container.
    Container,
    /// A network.
    Network,
    /// A volume.
    Volume,
    /// Everything that compose made under one name.
    Project,
}

impl Kind {
    /// What it is called, in the journal and for a person.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Network => "network",
            Self::Volume => "volume",
            Self::Project => "compose project",
        }
    }
}

impl Engine {
    /// Reaches the engine that DOCKER_HOST names, or that of this machine.
    ///
    /// # Errors
    /// When there is none, it lets us not in, or it is too old.
    pub fn reach() -> Result<Self, HarnessError> {
        let host = std::env::var("DOCKER_HOST").unwrap_or_default();
        let host = match host.trim() {
            "" => DEFAULT_HOST,
            host => host,
        };
        Self::reach_at(host)
    }

    /// Reaches the engine at `host`: `unix:///path` or `tcp://host:port`.
    ///
    /// # Errors
    /// As [`Engine::reach`].
    pub fn reach_at(host: &str) -> Result<Self, HarnessError> {
        let refused = |why: String| HarnessError::node("docker", why);
        let shown = in_one_line(host);
        let seconds = BUILT_WITHIN.as_secs();
        let docker = match host.split_once("://") {
            Some(("unix", path)) => {
                // Asked here, because the client tells a missing socket and a closed one alike.
                if let Err(error) = std::fs::metadata(path) {
                    return Err(refused(format!(
                        "no engine at {shown}: {error}; install and start one, or name it in DOCKER_HOST"
                    )));
                }
                Docker::connect_with_unix(path, seconds, &VERSION)
            }
            Some(("tcp" | "http", place)) if is_address(place) => {
                let tls = std::env::var_os("DOCKER_TLS_VERIFY").is_some_and(|set| !set.is_empty());
                if tls {
                    return Err(refused(format!(
                        "DOCKER_HOST={host} with DOCKER_TLS_VERIFY is not spoken here: forward its socket (ssh -L /tmp/docker.sock:/var/run/docker.sock HOST) and set DOCKER_HOST=unix:///tmp/docker.sock"
                    )));
                }
                Docker::connect_with_http(host, seconds, &VERSION)
            }
            _ => {
                return Err(HarnessError::Usage(format!(
                    "DOCKER_HOST={shown} names no engine that can be reached: unix:///var/run/docker.sock or tcp://HOST:2375 is right"
                )));
            }
        };
        let docker = docker.map_err(|error| refused(format!("{shown}: {}", words(&error))))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("docker")
            .enable_all()
            .build()
            .map_err(|source| HarnessError::System {
                what: "start the thread that speaks with the Docker engine",
                source,
            })?;
        let mut engine = Self {
            docker,
            host: host.into(),
            about: About::default(),
            thread: Arc::new(Thread(Some(runtime))),
        };
        let asked = engine.clone();
        let (docker, about) = engine
            .wait_for(async move { asked.introduce().await })
            .map_err(|error| refused(unreachable(host, &error)))?;
        (engine.docker, engine.about) = (docker, about);
        Ok(engine)
    }

    async fn introduce(&self) -> Result<(Docker, About), Error> {
        let docker = self.docker.clone();
        let asked = async {
            let docker = docker.negotiate_version().await?;
            let version = docker.version().await?;
            let about = About {
                version: version.version.unwrap_or_default(),
                api: docker.client_version().to_string(),
            };
            Ok((docker, about))
        };
        tokio::time::timeout(ANSWERS_WITHIN, asked)
            .await
            .unwrap_or(Err(Error::RequestTimeoutError))
    }

    /// Where it is, as DOCKER_HOST would say it.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The address of the machine that it is on, where it is reached over a network.
    #[must_use]
    pub fn machine(&self) -> Option<&str> {
        let (_, rest) = self
            .host
            .strip_prefix("tcp://")
            .map(|rest| ("", rest))
            .or_else(|| self.host.strip_prefix("http://").map(|rest| ("", rest)))?;
        let address = rest.trim_end_matches('/');
        Some(address.rsplit_once(':').map_or(address, |(host, _)| host))
    }

    /// Whether it is reached through a socket of this machine. That it is on this machine is for its containers to show.
    #[must_use]
    pub fn is_near(&self) -> bool {
        self.host.starts_with("unix://")
    }

    /// What it says of itself.
    #[must_use]
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Carries out `work` on the engine's thread; what is dropped meanwhile is carried out all the same.
    pub async fn on_thread<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let runtime = self.thread.0.as_ref().expect("it is taken at the end only");
        runtime.spawn(work).await.expect("calls do not panic")
    }

    /// The same, waited for by whoever may wait, also inside another runtime.
    pub fn wait_for<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let (sender, answer) = mpsc::sync_channel(1);
        self.spawn(async move {
            // The receiver waits below.
            let _ = sender.send(work.await);
        });
        answer.recv().expect("calls do not panic")
    }

    /// Leaves `work` to the engine's thread.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let runtime = self.thread.0.as_ref().expect("it is taken at the end only");
        drop(runtime.spawn(work));
    }

    async fn within<T>(
        &self,
        attempt: &str,
        within: Duration,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, HarnessError> {
        let failed =
            |why: String| HarnessError::node("docker", format!("failed to {attempt}: {why}"));
        match tokio::time::timeout(within, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(failed(words(&error))),
            Err(_) => Err(failed(format!("no answer within {within:?}"))),
        }
    }

    async fn call<T>(
        &self,
        attempt: &str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, HarnessError> {
        self.within(attempt, ANSWERS_WITHIN, call).await
    }

    /// Whether there is an image of that name.
    ///
    /// # Errors
    /// As the engine says; so for all that follows.
    pub async fn has_image(&self, tag: &str) -> Result<bool, HarnessError> {
        let (engine, tag) = (self.clone(), tag.to_owned());
        self.on_thread(async move {
            let found = engine.docker.inspect_image(&tag).await;
            match found {
                Err(error) if is_missing(&error) => Ok(false),
                found => engine
                    .call(&format!("look for image {tag}"), async { found })
                    .await
                    .map(|_| true),
            }
        })
        .await
    }

    /// Builds an image from a context.
    pub async fn build(&self, tag: &str, context: Vec<u8>) -> Result<(), HarnessError> {
        let (engine, tag) = (self.clone(), tag.to_owned());
        self.on_thread(async move {
            let options = BuildImageOptionsBuilder::default()
                .t(&tag)
                .rm(true)
                .forcerm(true)
                .labels(&HashMap::from([("fencepost.image", tag.as_str())]))
                .build();
            let attempt = format!("build image {tag}");
            let built = async {
                let body = bollard::body_full(context.into());
                let mut lines = engine.docker.build_image(options, None, Some(body));
                while let Some(line) = lines.next().await {
                    line?;
                }
                Ok(())
            };
            engine.within(&attempt, BUILT_WITHIN, built).await
        })
        .await
    }

    /// Gives an image another name.
    pub async fn tag(&self, tag: &str, name: &str) -> Result<(), HarnessError> {
        let (engine, tag, name) = (self.clone(), tag.to_owned(), name.to_owned());
        self.on_thread(async move {
            let (repository, version) = name.rsplit_once(':').unwrap_or((&name, "latest"));
            let options = bollard::query_parameters::TagImageOptionsBuilder::default()
                .repo(repository)
                .tag(version)
                .build();
            let tagged = engine.docker.tag_image(&tag, Some(options));
            engine.call(&format!("tag {tag} as {name}"), tagged).await
        })
        .await
    }

    /// Makes a network of its own with a range of addresses that the engine has free, so that addresses in it can be
    /// given out; returns the first three numbers of the range's addresses and the gateway's last.
    pub async fn create_network(
        &self,
        name: &str,
        labels: HashMap<String, String>,
    ) -> Result<[u8; 4], HarnessError> {
        let attempt = format!("make network {name}");
        // The engine lets addresses be given out only in a range that it was told. So it is asked for one that is free,
        // and told that. Somebody else may have taken it in between: then once more.
        for _ in 0..20 {
            let request = |ipam| NetworkCreateRequest {
                name: name.to_owned(),
                driver: Some("bridge".to_owned()),
                labels: Some(labels.clone()),
                ipam,
                ..NetworkCreateRequest::default()
            };
            self.call(&attempt, self.docker.create_network(request(None)))
                .await?;
            let found = self
                .call(
                    &attempt,
                    self.docker.inspect_network(
                        name,
                        None::<bollard::query_parameters::InspectNetworkOptions>,
                    ),
                )
                .await;
            self.call(&attempt, self.docker.remove_network(name))
                .await?;
            let config = found?.ipam.and_then(|ipam| ipam.config).unwrap_or_default();
            let config = config.into_iter().find(|config| {
                config
                    .subnet
                    .as_ref()
                    .is_some_and(|subnet| subnet.contains('.'))
            });
            let Some(config) = config else {
                return Err(HarnessError::node(
                    "docker",
                    format!("failed to {attempt}: the engine gave it no addresses"),
                ));
            };
            let subnet = config.subnet.clone().unwrap_or_default();
            let told = Ipam {
                config: Some(vec![IpamConfig {
                    subnet: Some(subnet.clone()),
                    gateway: config.gateway.clone(),
                    ..IpamConfig::default()
                }]),
                ..Ipam::default()
            };
            match self.docker.create_network(request(Some(told))).await {
                Ok(_) => {
                    let first = subnet.split('/').next().unwrap_or_default();
                    let address: std::net::Ipv4Addr = first.parse().map_err(|_| {
                        HarnessError::node(
                            "docker",
                            format!("failed to {attempt}: {subnet} is no range of addresses"),
                        )
                    })?;
                    return Ok(address.octets());
                }
                Err(error) if words(&error).contains("overlap") => {}
                Err(error) => return self.call(&attempt, async { Err(error) }).await,
            }
        }
        Err(HarnessError::node(
            "docker",
            format!("failed to {attempt}: others took 20 ranges of addresses in a row"),
        ))
    }

    /// Makes a volume.
    pub async fn create_volume(
        &self,
        name: &str,
        labels: HashMap<String, String>,
    ) -> Result<(), HarnessError> {
        let options = VolumeCreateRequest {
            name: Some(name.to_owned()),
            labels: Some(labels),
            ..VolumeCreateRequest::default()
        };
        let made = self.docker.create_volume(options);
        self.call(&format!("make volume {name}"), made)
            .await
            .map(drop)
    }

    /// Makes a container; returns its id.
    pub async fn create_container(
        &self,
        name: &str,
        body: ContainerCreateBody,
    ) -> Result<String, HarnessError> {
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        let made = self.docker.create_container(Some(options), body);
        self.call(&format!("make container {name}"), made)
            .await
            .map(|made| made.id)
    }

    /// Starts a container.
    pub async fn start(&self, container: &str) -> Result<(), HarnessError> {
        let started = self.docker.start_container(
            container,
            None::<bollard::query_parameters::StartContainerOptions>,
        );
        self.call(&format!("start {container}"), started).await
    }

    /// What a container is like now; `None` where there is none.
    pub async fn inspect(
        &self,
        container: &str,
    ) -> Result<Option<ContainerInspectResponse>, HarnessError> {
        let found = self
            .docker
            .inspect_container(
                container,
                None::<bollard::query_parameters::InspectContainerOptions>,
            )
            .await;
        match found {
            Err(error) if is_missing(&error) => Ok(None),
            found => self
                .call(&format!("look at {container}"), async { found })
                .await
                .map(Some),
        }
    }

    /// Waits, for however long, until a container does not run; its exit status.
    pub async fn ended(&self, container: &str) -> Option<i64> {
        let options = WaitContainerOptionsBuilder::default()
            .condition("not-running")
            .build();
        match self
            .docker
            .wait_container(container, Some(options))
            .next()
            .await
        {
            Some(Ok(ended)) => Some(ended.status_code),
            // A status other than 0 is an error to the client.
            Some(Err(Error::DockerContainerWaitError { code, .. })) => Some(code),
            _ => None,
        }
    }

    /// Sends a signal to a container's first process.
    pub async fn kill(&self, container: &str, signal: &str) -> Result<(), HarnessError> {
        let options = KillContainerOptionsBuilder::default()
            .signal(signal)
            .build();
        let killed = self.docker.kill_container(container, Some(options));
        self.call(&format!("send {signal} to {container}"), killed)
            .await
    }

    /// Freezes a container.
    pub async fn pause(&self, container: &str) -> Result<(), HarnessError> {
        let paused = self.docker.pause_container(container);
        self.call(&format!("pause {container}"), paused).await
    }

    /// Thaws a container.
    pub async fn unpause(&self, container: &str) -> Result<(), HarnessError> {
        let unpaused = self.docker.unpause_container(container);
        self.call(&format!("unpause {container}"), unpaused).await
    }

    /// The state letters of a container's processes, as `ps` on the engine's machine tells them.
    pub async fn states(&self, container: &str) -> Result<Vec<String>, HarnessError> {
        let options = TopOptionsBuilder::default().ps_args("-eo pid,stat").build();
        let top = self.docker.top_processes(container, Some(options));
        let top = self
            .call(&format!("list the processes of {container}"), top)
            .await?;
        let titles = top.titles.unwrap_or_default();
        let column = titles.iter().position(|title| title.starts_with("STAT"));
        let Some(column) = column else {
            return Err(HarnessError::node(
                "docker",
                format!("no states in the list of processes of {container}"),
            ));
        };
        let rows = top.processes.unwrap_or_default().into_iter();
        Ok(rows.filter_map(|row| row.get(column).cloned()).collect())
    }

    /// What a container has said on standard error, and on standard output where that is no pipe of ours.
    pub async fn logs(
        &self,
        container: &str,
        standard_output: bool,
    ) -> Result<Vec<u8>, HarnessError> {
        let options = LogsOptionsBuilder::default()
            .stdout(standard_output)
            .stderr(true)
            .build();
        let read = async {
            let mut lines = self.docker.logs(container, Some(options));
            let mut text = Vec::new();
            while let Some(line) = lines.next().await {
                text.extend(line?.into_bytes());
            }
            Ok(text)
        };
        self.call(&format!("read the log of {container}"), read)
            .await
    }

    /// Takes a container off a network.
    pub async fn disconnect(&self, network: &str, container: &str) -> Result<(), HarnessError> {
        let request = NetworkDisconnectRequest {
            container: container.to_owned(),
            force: Some(true),
        };
        let cut = self.docker.disconnect_network(network, request);
        self.call(&format!("take {container} off its network"), cut)
            .await
    }

    /// Lets a container that ends stay ended, whatever its policy was.
    pub async fn never_restart(&self, container: &str) -> Result<(), HarnessError> {
        let policy = RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        };
        let wanted = ContainerUpdateBody {
            restart_policy: Some(policy),
            ..ContainerUpdateBody::default()
        };
        let updated = self.docker.update_container(container, wanted);
        let attempt = format!("take the restart policy of {container} away");
        self.call(&attempt, updated).await
    }

    /// Puts a container on a network under an address, where it is known by `alias` too.
    pub async fn connect(
        &self,
        network: &str,
        container: &str,
        address: &str,
        alias: &str,
    ) -> Result<(), HarnessError> {
        let request = NetworkConnectRequest {
            container: container.to_owned(),
            endpoint_config: Some(EndpointSettings {
                ipam_config: Some(EndpointIpamConfig {
                    ipv4_address: Some(address.to_owned()),
                    ..EndpointIpamConfig::default()
                }),
                aliases: Some(vec![alias.to_owned()]),
                ..EndpointSettings::default()
            }),
        };
        let connected = self.docker.connect_network(network, request);
        self.call(&format!("put {container} on its network"), connected)
            .await
    }

    /// Puts a file into a folder of a container, which may run.
    pub async fn put(
        &self,
        container: &str,
        folder: &str,
        name: &str,
        bytes: &[u8],
    ) -> Result<(), HarnessError> {
        let attempt = format!("put {name} into {container}");
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(bytes.len() as u64);
        header.set_mtime(0);
        let mut archive = tar::Builder::new(Vec::new());
        let archive = archive
            .append_data(&mut header, name, bytes)
            .and_then(|()| archive.into_inner())
            .map_err(|error| {
                HarnessError::node("docker", format!("failed to {attempt}: {error}"))
            })?;
        let options = UploadToContainerOptionsBuilder::default()
            .path(folder)
            .build();
        let body = bollard::body_full(archive.into());
        let put = self
            .docker
            .upload_to_container(container, Some(options), body);
        self.call(&attempt, put).await
    }

    /// Runs a program in a container; what it printed.
    pub async fn run_inside(
        &self,
        container: &str,
        words: Vec<String>,
    ) -> Result<String, HarnessError> {
        let attempt = format!("run {} in {container}", words.join(" "));
        let config = ExecConfig {
            cmd: Some(words),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            ..ExecConfig::default()
        };
        let run = async {
            let exec = self.docker.create_exec(container, config).await?;
            let started = self.docker.start_exec(&exec.id, None).await?;
            let mut text = String::new();
            if let StartExecResults::Attached { mut output, .. } = started {
                while let Some(chunk) = output.next().await {
                    text += &String::from_utf8_lossy(&chunk?.into_bytes());
                }
            }
            Ok(text)
        };
        self.call(&attempt, run).await
    }

    /// Attaches to a container that was made for it, starts it, and copies between it and this process's standard input
    /// and output until it ends; its exit status, where the engine knows.
    pub async fn lend_pipes(&self, container: &str) -> Result<Option<i64>, HarnessError> {
        let options = AttachContainerOptionsBuilder::default()
            .stdin(true)
            .stdout(true)
            .stream(true)
            .build();
        let attached = self.docker.attach_container(container, Some(options));
        let attached = self
            .call(&format!("attach to {container}"), attached)
            .await?;
        let (mut output, mut input) = (attached.output, attached.input);
        self.start(container).await?;
        tokio::spawn(async move {
            // Either end may go first; then the other notices.
            let _ = tokio::io::copy(&mut tokio::io::stdin(), &mut input).await;
            let _ = input.shutdown().await;
        });
        let mut stdout = tokio::io::stdout();
        while let Some(Ok(chunk)) = output.next().await {
            let written = stdout.write_all(&chunk.into_bytes()).await;
            if written.is_err() || stdout.flush().await.is_err() {
                break;
            }
        }
        Ok(self.ended(container).await)
    }

    /// The run of which something is, as its label says; `None` where there is no such thing.
    pub async fn owner(&self, kind: Kind, name: &str) -> Result<Option<String>, HarnessError> {
        let attempt = format!("look at {} {name}", kind.name());
        let labels = match kind {
            Kind::Container => {
                let Some(found) = self.inspect(name).await? else {
                    return Ok(None);
                };
                found.config.and_then(|config| config.labels)
            }
            Kind::Network => match self
                .docker
                .inspect_network(
                    name,
                    None::<bollard::query_parameters::InspectNetworkOptions>,
                )
                .await
            {
                Err(error) if is_missing(&error) => return Ok(None),
                found => self.call(&attempt, async { found }).await?.labels,
            },
            // Known by its name alone.
            Kind::Project => None,
            Kind::Volume => match self.docker.inspect_volume(name).await {
                Err(error) if is_missing(&error) => return Ok(None),
                found => Some(self.call(&attempt, async { found }).await?.labels),
            },
        };
        Ok(Some(
            labels
                .unwrap_or_default()
                .remove(RUN_LABEL)
                .unwrap_or_default(),
        ))
    }

    /// Waits until there is no such container any more.
    async fn until_gone(&self, container: &str) -> Result<(), HarnessError> {
        let deadline = tokio::time::Instant::now() + ANSWERS_WITHIN;
        while self.inspect(container).await?.is_some() {
            if tokio::time::Instant::now() > deadline {
                let why =
                    format!("{container} is being removed for longer than {ANSWERS_WITHIN:?}");
                return Err(HarnessError::node("docker", why));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// Removes something, whatever state it is in; one that is not there is no error.
    pub async fn remove(&self, kind: Kind, name: &str) -> Result<(), HarnessError> {
        let attempt = format!("remove {} {name}", kind.name());
        let removed = match kind {
            Kind::Container => {
                // One that is frozen dies only when it thaws, on older engines. That it was not frozen is no error.
                let _ = self.docker.unpause_container(name).await;
                let options = RemoveContainerOptionsBuilder::default()
                    .force(true)
                    .v(true)
                    .build();
                match self.docker.remove_container(name, Some(options)).await {
                    // Somebody else has asked for it: then it is waited for.
                    Err(Error::DockerResponseServerError {
                        status_code: 409,
                        message,
                    }) if message.contains("in progress") => return self.until_gone(name).await,
                    removed => removed,
                }
            }
            Kind::Network => self.docker.remove_network(name).await,
            Kind::Project => return self.remove_project(name).await.map(drop),
            Kind::Volume => {
                let options = RemoveVolumeOptionsBuilder::default().force(true).build();
                self.docker.remove_volume(name, Some(options)).await
            }
        };
        match removed {
            Err(error) if is_missing(&error) => Ok(()),
            removed => self.call(&attempt, async { removed }).await,
        }
    }

    /// The names of everything that carries the label of `run`.
    pub async fn of_run(&self, run: &str) -> Result<Vec<(Kind, String)>, HarnessError> {
        self.labelled(&format!("{RUN_LABEL}={run}")).await
    }

    /// Pulls an image.
    pub async fn pull(&self, image: &str) -> Result<(), HarnessError> {
        let options = CreateImageOptionsBuilder::default()
            .from_image(image)
            .build();
        let pulled = async {
            let mut lines = self.docker.create_image(Some(options), None, None);
            while let Some(line) = lines.next().await {
                line?;
            }
            Ok(())
        };
        let attempt = format!("pull {image}, which is not there");
        self.within(&attempt, BUILT_WITHIN, pulled).await
    }

    /// The names of everything that carries `label`.
    async fn labelled(&self, label: &str) -> Result<Vec<(Kind, String)>, HarnessError> {
        let filters = HashMap::from([("label", vec![label])]);
        let attempt = format!("list what is labelled {label}");
        let options = ListContainersOptionsBuilder::default()
            .all(true)
            .filters(&filters)
            .build();
        let containers = self
            .call(&attempt, self.docker.list_containers(Some(options)))
            .await?;
        let options = ListNetworksOptionsBuilder::default()
            .filters(&filters)
            .build();
        let networks = self
            .call(&attempt, self.docker.list_networks(Some(options)))
            .await?;
        let options = ListVolumesOptionsBuilder::default()
            .filters(&filters)
            .build();
        let volumes = self
            .call(&attempt, self.docker.list_volumes(Some(options)))
            .await?;
        let named = |name: String| name.trim_start_matches('/').to_owned();
        let containers = containers.into_iter().filter_map(|container| {
            Some((Kind::Container, named(container.names?.into_iter().next()?)))
        });
        let networks = networks
            .into_iter()
            .filter_map(|network| Some((Kind::Network, network.name?)));
        let volumes = volumes.volumes.unwrap_or_default().into_iter();
        let volumes = volumes.map(|volume| (Kind::Volume, volume.name));
        Ok(containers.chain(networks).chain(volumes).collect())
    }
}
