//! The suite: the TOML file that fixes everything about a run.
//!
//! Every table and every key has a default, so that a file says only what it changes; unknown keys are errors.
//! A file without any `[[fault]]` has the faults of the built-in suite `default`; `fault = []` has none.
//! Values are checked while they are read, so that an error can name the line that holds it.

mod built_in;
mod error;
mod fault;
mod kind;
mod length;
mod lock;
mod nodes;
mod resource;
mod server;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use built_in::{BUILT_IN, BuiltIn, built_in};
pub use error::{Misfit, SuiteError};
pub use fault::{Direction, FAULT_KINDS, Fault, FaultKind, Identity, Link, On, THENS, Then};
pub use kind::Kind;
pub use length::{Length, Span};
pub use lock::{FirstToken, Lock};
pub use nodes::{NodeImage, Nodes};
pub use resource::{Mark, Resource};
pub use server::{Access, DatabaseUrl, HostPort};

use crate::protocol::Options;
use crate::systems::Server;

/// Everything about a run except its seed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Names the folder under `results/`: letters, digits, `-`, `_` and `.`.
    #[serde(default = "default_name")]
    pub name: SuiteName,
    /// One line for `fencepost list suites`.
    #[serde(default)]
    pub about: String,
    /// How much, how long, how fast.
    #[serde(default)]
    pub run: Run,
    /// Where the nodes live.
    #[serde(default)]
    pub target: Target,
    /// Images of one's own in the docker target.
    #[serde(default, skip_serializing_if = "Nodes::is_empty")]
    pub nodes: Nodes,
    /// The lock service.
    #[serde(default)]
    pub lock: Lock,
    /// The fenced resource.
    #[serde(default)]
    pub resource: Resource,
    /// The program that runs the clients.
    #[serde(default)]
    pub worker: Worker,
    /// What the clients do.
    #[serde(default)]
    pub workload: Workload,
    /// What is done to them meanwhile.
    #[serde(default = "fault::default_faults")]
    pub fault: Vec<Fault>,
    /// What a valid run must have.
    #[serde(default)]
    pub expect: Expect,
}

/// How long a load may last: 100 ms to 24 h.
pub type TimeLimit = Span<100, 86_400_000>;

/// `[run]`
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    /// How long the load and the faults last; 100 ms to 24 h.
    pub time_limit: TimeLimit,
    /// Worker processes; 1 to 64.
    pub workers: Count<64>,
    /// Clients, spread over the workers; 1 to 1000.
    pub clients: Count<1000>,
    /// Operations a second, all clients together, or `"max"`.
    pub rate: Rate,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            time_limit: Span(Duration::from_secs(20)),
            workers: Count(5),
            clients: Count(10),
            rate: Rate::Hertz(200.0),
        }
    }
}

/// `[target]`
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Target {
    /// What brings the nodes up.
    pub kind: TargetKind,
}

/// Where the nodes live.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    /// Processes of this machine, on loopback.
    #[default]
    Local,
    /// Containers of a Docker engine; the workers are processes of this machine.
    Docker,
    /// Servers that somebody else started; everything else is of this machine.
    External,
}

/// The targets of `fencepost list targets`: name and one line.
pub const TARGETS: &[(&str, &str)] = &[
    (
        "local",
        "processes of this machine, on loopback, every link through the fault proxy",
    ),
    (
        "docker",
        "containers of a Docker engine, from an image that is built of the binary itself; every link through the fault proxy",
    ),
    (
        "external",
        "servers that you started, named by `endpoints` and `url`; every link through the fault proxy",
    ),
];

impl TargetKind {
    /// The name, as written in a suite.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Docker => "docker",
            Self::External => "external",
        }
    }
}

/// `[worker]`
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Worker {
    /// The program and its arguments; empty is the built-in worker.
    pub command: Vec<String>,
    /// Where it runs.
    #[serde(rename = "where", skip_serializing_if = "Whereabouts::is_host")]
    pub place: Whereabouts,
    /// How long a client waits for an answer before it calls the outcome unknown; an acquire waits its queueing time longer. 10 ms to 1 min.
    pub timeout: Span<10, 60_000>,
    /// Whether it can be told to announce a write before it sends it; absent: the built-in one does, another does not.
    pub announces: Option<bool>,
}

impl Worker {
    /// Whether a write can be held between its decision and its sending.
    #[must_use]
    pub fn can_announce(&self) -> bool {
        self.announces.unwrap_or(self.command.is_empty())
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            place: Whereabouts::Host,
            timeout: Span(Duration::from_millis(500)),
            announces: None,
        }
    }
}

/// Where workers run.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Whereabouts {
    /// As processes of this machine.
    #[default]
    Host,
    /// As containers on the run's network, with the docker target.
    Docker,
}

impl Whereabouts {
    fn is_host(&self) -> bool {
        *self == Self::Host
    }
}

/// `[workload]`
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Workload {
    /// Which workload.
    pub kind: WorkloadKind,
    /// Locks; 1 to 1000, and at most one for each client.
    pub locks: Count<1000>,
    /// Keys that each lock guards; 1 to 100.
    pub keys_per_lock: Count<100>,
    /// How long a holder works before it writes each key once and lets go; `None`: it writes again and again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical_section: Option<Length>,
    /// Paths by which a holder writes beside the primary one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<SidePath>,
}

/// A path to the data beside the primary one.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SidePath {
    /// A copy that readers are served from.
    Cache,
    /// A notification to somebody else.
    Webhook,
    /// The record itself, by the hand of an operator.
    Admin,
}

impl SidePath {
    /// The name, as in a history.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Webhook => "webhook",
            Self::Admin => "admin",
        }
    }
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            kind: WorkloadKind::Register,
            locks: Count(4),
            keys_per_lock: Count(1),
            paths: Vec::new(),
            critical_section: None,
        }
    }
}

/// What the clients do.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkloadKind {
    /// Write and read whole values under a lock.
    #[default]
    Register,
    /// Replace values by compare-and-set on what was read, without a lock.
    Cas,
    /// Replace what was read, on a key that each client has alone, without a lock.
    Routed,
    /// Send effects until they are acknowledged, without a lock.
    Effects,
}

impl WorkloadKind {
    /// Whether clients take locks and present tokens.
    #[must_use]
    pub fn has_locks(self) -> bool {
        self == Self::Register
    }
}

/// `[expect]`
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Zombie writes that a valid run must have had; fewer is "unexercised". 1 to 1,000,000.
    pub zombie_writes: Count<1_000_000>,
    /// That no zombie write is to be expected, because the system is safe without a fence: the planned faults alone
    /// show that it was exercised.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_fence: bool,
}

impl Default for Expect {
    fn default() -> Self {
        Self {
            zombie_writes: Count(5),
            no_fence: false,
        }
    }
}

/// A whole number from 1 to `MAX`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Count<const MAX: u32>(pub u32);

impl<'de, const MAX: u32> Deserialize<'de> for Count<MAX> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = i64::deserialize(deserializer).map_err(|_| {
            serde::de::Error::custom(format!("a whole number from 1 to {MAX} is right"))
        })?;
        u32::try_from(value)
            .ok()
            .filter(|value| (1..=MAX).contains(value))
            .map(Self)
            .ok_or_else(|| {
                serde::de::Error::custom(format!(
                    "{value} is out of range: a whole number from 1 to {MAX} is right"
                ))
            })
    }
}

/// Operations a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// So many, all clients together; above 0, at most 1,000,000.
    Hertz(f64),
    /// As many as the clients can carry out.
    Max,
}

impl std::str::FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        text.parse::<f64>()
            .ok()
            .filter(|hertz| *hertz >= 0.1 && *hertz <= 1_000_000.0)
            .map(Self::Hertz)
            .ok_or_else(|| format!("{text} is no rate: operations a second from 0.1 to 1000000, or \"max\", is right"))
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Hertz(hertz) => hertz.fmt(f),
            Self::Max => f.write_str("max"),
        }
    }
}

impl Serialize for Rate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Hertz(hertz) => serializer.serialize_f64(*hertz),
            Self::Max => serializer.serialize_str("max"),
        }
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Whole(i64),
            Number(f64),
            Text(String),
        }
        let written = Written::deserialize(deserializer).map_err(|_| {
            serde::de::Error::custom(
                "no rate: operations a second from 0.1 to 1000000, or \"max\", is right",
            )
        })?;
        let text = match written {
            Written::Whole(number) => number.to_string(),
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text,
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A suite's name, fit for a folder.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct SuiteName(String);

impl SuiteName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for SuiteName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let fit = !name.is_empty()
            && name.len() <= 64
            && !name.starts_with('.')
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        if fit {
            Ok(Self(name))
        } else {
            Err(serde::de::Error::custom(format!(
                "{name:?} is no name: 1 to 64 letters, digits, '-', '_' or '.', not beginning with '.', is right"
            )))
        }
    }
}

fn default_name() -> SuiteName {
    SuiteName("custom".to_owned())
}

impl Suite {
    /// Reads a suite; `origin` names it in errors (a path, or `built-in suite NAME`).
    ///
    /// # Errors
    /// When the text is no TOML, has an unknown key, or holds a value that is out of range.
    pub fn parse(text: &str, origin: &str) -> Result<Self, SuiteError> {
        Self::parse_for(text, origin, None)
    }

    /// The same for another target than the file's.
    ///
    /// # Errors
    /// As [`Suite::parse`].
    pub fn parse_for(
        text: &str,
        origin: &str,
        target: Option<TargetKind>,
    ) -> Result<Self, SuiteError> {
        if let Some(error) = SuiteError::of_shape(text, origin) {
            return Err(error);
        }
        let mut suite: Self = toml::from_str(text).map_err(|error| {
            // A fault whose parts do not fit each other is blamed as a whole; which key it is, the fault says itself.
            match fault::first_misfit(text) {
                Some(misfit) => SuiteError::of_misfit(&misfit, text, origin),
                None => SuiteError::from_toml(&error, text, origin),
            }
        })?;
        suite.target.kind = target.unwrap_or(suite.target.kind);
        // The default faults are those that the target can carry out; a list of the file's own says what it wants.
        if suite.target.kind == TargetKind::External && suite.fault == fault::default_faults() {
            suite.fault.retain(|fault| !fault.strikes_a_server());
        }
        suite
            .consistent()
            .map_err(|misfit| SuiteError::of_misfit(&misfit, text, origin))?;
        Ok(suite)
    }

    /// What no single value shows: values that do not go together. Also for a suite that flags have changed.
    ///
    /// # Errors
    /// The field and what would be right.
    pub fn consistent(&self) -> Result<(), Misfit> {
        let (clients, locks) = (self.run.clients.0, self.workload.locks.0);
        if locks > clients {
            // Where the suite does not say how many locks there are, its clients are what it said too few of.
            return Err(Misfit::between(
                &["workload.locks", "run.clients"],
                format!(
                    "{locks} locks for {clients} clients: at most one lock for each client is right"
                ),
            ));
        }
        let workers = self.run.workers.0;
        let stranger = self
            .fault
            .iter()
            .position(|fault| matches!(fault.on, Some(On::Node(number)) if number > workers));
        if let Some(position) = stranger
            && let Some(on) = &self.fault[position].on
        {
            let on = on.name();
            return Err(Misfit::in_fault(
                position,
                "on",
                format!("there is no {on} among {workers} workers: w1 to w{workers} is right"),
            ));
        }
        if !self.nodes.is_empty() && self.target.kind != TargetKind::Docker {
            return Err(Misfit::between(
                &["nodes.lock", "nodes.resource", "nodes.toxiproxy"],
                "[nodes] needs the docker target: [target] kind = \"docker\" is right".to_owned(),
            ));
        }
        self.nodes.fit()?;
        self.servers_fit()?;
        self.workload_fits()?;
        self.faults_fit()?;
        self.nodes_take()?;
        if self.worker.place == Whereabouts::Docker {
            let why = match (self.target.kind, self.worker.command.is_empty()) {
                (TargetKind::Docker, true) => None,
                (TargetKind::Docker, false) => Some(
                    "a program of this machine is not in the image: [worker] where = \"host\", or no command, is right",
                ),
                _ => Some(
                    "workers in containers need the docker target: [target] kind = \"docker\" is right",
                ),
            };
            if let Some(why) = why {
                return Err(Misfit::between(&["worker.where"], why.to_owned()));
            }
        }
        if self.worker.command.first().is_some_and(String::is_empty) {
            return Err(Misfit::between(
                &["worker.command"],
                "the program's name is empty: [\"python3\", \"my_worker.py\"] is an example"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// That the resource knows what the workload asks of it.
    fn workload_fits(&self) -> Result<(), Misfit> {
        let reference = self.resource.kind.system().server == Server::Reference;
        if !reference && !self.workload.paths.is_empty() {
            return Err(Misfit::between(
                &["workload.paths"],
                "only the reference resource has paths beside the primary one".to_owned(),
            ));
        }
        if !reference && !self.workload.kind.has_locks() {
            return Err(Misfit::between(
                &["workload.kind"],
                "only the reference resource is written without tokens: register is right"
                    .to_owned(),
            ));
        }
        let effects = matches!(self.fence(), "idempotency-key" | "no-key");
        if effects != (self.workload.kind == WorkloadKind::Effects) {
            return Err(Misfit::between(
                &["resource.fence", "workload.kind"],
                "effects and a fence of \"idempotency-key\" or \"no-key\" go together".to_owned(),
            ));
        }
        if !self.workload.kind.has_locks() && !self.expect.no_fence {
            return Err(Misfit::between(
                &["workload.kind", "expect.no_fence"],
                "a workload without tokens has no zombie writes: no_fence = true under [expect] is right"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// That there is, and may be touched, what the faults strike.
    fn faults_fit(&self) -> Result<(), Misfit> {
        let external = self.target.kind == TargetKind::External;
        let strikes = |fault: &Fault| fault.strikes_a_server() && external;
        if let Some(position) = self.fault.iter().position(strikes) {
            return Err(Misfit::in_fault(
                position,
                "kind",
                format!(
                    "{} strikes a server, and the external target touches none: faults on workers and on links from them are right",
                    self.fault[position].label()
                ),
            ));
        }
        let contained = self.target.kind == TargetKind::Docker;
        let needs_containers = |fault: &Fault| fault.kind.is_of_containers() && !contained;
        if let Some(position) = self.fault.iter().position(needs_containers) {
            return Err(Misfit::in_fault(
                position,
                "kind",
                format!(
                    "{} needs containers: [target] kind = \"docker\" is right",
                    self.fault[position].label()
                ),
            ));
        }
        let strikes_a_container = |fault: &Fault| {
            fault.kind.is_of_containers() && matches!(fault.on, Some(On::Worker | On::Node(_)))
        };
        if let Some(position) = self.fault.iter().position(strikes_a_container)
            && self.worker.place == Whereabouts::Host
        {
            return Err(Misfit::in_fault(
                position,
                "on",
                format!(
                    "{} needs workers in containers: [worker] where = \"docker\" is right",
                    self.fault[position].label()
                ),
            ));
        }
        let reborn = |fault: &Fault| fault.identity.is_some();
        if let Some(position) = self.fault.iter().position(reborn)
            && self.worker.place == Whereabouts::Docker
        {
            return Err(Misfit::in_fault(
                position,
                "on",
                "a worker in a container is not killed and replaced: [worker] where = \"host\" is right"
                    .to_owned(),
            ));
        }
        let between = |fault: &Fault| fault.kind == FaultKind::Between;
        if let Some(position) = self
            .fault
            .iter()
            .position(between)
            .filter(|_| !self.worker.can_announce())
        {
            return Err(Misfit::in_fault(
                position,
                "kind",
                "a between fault needs a worker that announces its writes: announces = true under [worker] is right for one that does"
                    .to_owned(),
            ));
        }
        let leads = [
            self.lock.kind.system().server,
            self.resource.kind.system().server,
        ]
        .contains(&Server::Etcd);
        let of_leader =
            |fault: &Fault| fault.on == Some(On::Leader) || fault.link == Some(Link::LeaderPeers);
        if let Some(position) = self.fault.iter().position(of_leader).filter(|_| !leads) {
            let fault = &self.fault[position];
            let key = if fault.on.is_some() { "on" } else { "link" };
            return Err(Misfit::in_fault(
                position,
                key,
                format!(
                    "{} needs servers of which one leads: a lock or a resource of kind \"etcd\" is right",
                    fault.label()
                ),
            ));
        }
        Ok(())
    }

    /// That nothing is asked of an image of one's own that only the reference service can be told or have done to it.
    fn nodes_take(&self) -> Result<(), Misfit> {
        let [lock, resource] = [&self.nodes.lock, &self.nodes.resource];
        let reference = self.resource.kind.system().server == Server::Reference;
        if resource.is_some() && reference && self.fence() == "none" {
            return Err(Misfit::between(
                &["resource.fence"],
                "only the reference resource can be told to be without its fence, and [nodes.resource] is another: leave one of the two out"
                    .to_owned(),
            ));
        }
        if lock.is_some() && self.lock.first_token.is_some() {
            return Err(Misfit::between(
                &["lock.first_token"],
                "only the reference lock service can be told its first token, and [nodes.lock] is another: leave one of the two out"
                    .to_owned(),
            ));
        }
        let unfit = |fault: &Fault| {
            let (own, table) = match (fault.kind, &fault.on) {
                (FaultKind::SecondIssuer, _) | (_, Some(On::Lock)) => (lock, "nodes.lock"),
                (_, Some(On::Resource)) => (resource, "nodes.resource"),
                _ => return None,
            };
            let own = own.as_ref()?;
            let why = match fault.kind {
                FaultKind::Redeploy | FaultKind::SecondIssuer if own.compose.is_some() => {
                    format!(
                        "makes a container of its own, and compose makes those of [{table}]: an image = \"...\" there is right"
                    )
                }
                FaultKind::Clock => format!(
                    "sets the clock that is preloaded in the reference services, and [{table}] is another: leave one of the two out"
                ),
                _ => return None,
            };
            Some(format!("{} {why}", fault.label()))
        };
        let mut faults = self.fault.iter().enumerate();
        match faults.find_map(|(position, fault)| Some((position, unfit(fault)?))) {
            Some((position, why)) => Err(Misfit::in_fault(position, "kind", why)),
            None => Ok(()),
        }
    }

    /// Lock, resource and target, as far as they have to go together.
    fn servers_fit(&self) -> Result<(), Misfit> {
        let (lock, resource) = (self.lock.kind.system(), self.resource.kind.system());
        let by_lock_key = resource.server == Server::Etcd && self.fence() != "none";
        if by_lock_key && (lock.server != Server::Etcd || self.token() != "create-revision") {
            return Err(Misfit::between(
                &["resource.kind"],
                "etcd compares the lock key's create_revision: a lock of kind \"etcd\" with token \"create-revision\", or fence = \"none\", is right"
                    .to_owned(),
            ));
        }
        let (of_lock, of_resource) = self.access();
        #[rustfmt::skip]
        let whereabouts: [&[&'static str]; 2] = [
            &["lock.endpoints", "lock.url", "lock.user", "lock.password_env", "lock.password_file"],
            &["resource.endpoints", "resource.url", "resource.user", "resource.password_env", "resource.password_file"],
        ];
        let kinds: [&[&'static str]; 2] = [
            &["lock.kind", "target.kind"],
            &["resource.kind", "target.kind"],
        ];
        for (at, name, server, access) in [
            (0, lock.name, lock.server, &of_lock),
            (1, resource.name, resource.server, &of_resource),
        ] {
            let given = !access.addresses().is_empty();
            match (self.target.kind, server) {
                (TargetKind::Local | TargetKind::Docker, _)
                    if given || *access != Access::default() =>
                {
                    return Err(Misfit::between(
                        whereabouts[at],
                        format!(
                            "the {} target starts its own servers: [target] kind = \"external\" is right for others",
                            self.target.kind.name()
                        ),
                    ));
                }
                (TargetKind::Docker, Server::Etcd | Server::Postgres)
                    if [&self.nodes.lock, &self.nodes.resource][at].is_none() =>
                {
                    return Err(Misfit::between(
                        kinds[at],
                        format!(
                            "kind {name:?} has no image of its own in the docker target: [nodes.lock] or [nodes.resource] with an image is right"
                        ),
                    ));
                }
                (TargetKind::External, Server::Reference) => {
                    return Err(Misfit::between(
                        kinds[at],
                        format!(
                            "kind {name:?} is never external: a kind of etcd or PostgreSQL is right"
                        ),
                    ));
                }
                (TargetKind::External, Server::Etcd) if !given => {
                    return Err(Misfit::between(
                        kinds[at],
                        "the external target needs endpoints = [\"host:port\"]".to_owned(),
                    ));
                }
                (TargetKind::External, Server::Postgres) if !given => {
                    return Err(Misfit::between(
                        kinds[at],
                        "the external target needs url = \"postgres://user@host:port/database\""
                            .to_owned(),
                    ));
                }
                _ => {}
            }
        }
        let one_etcd = of_lock.endpoints == of_resource.endpoints;
        if by_lock_key && !one_etcd {
            return Err(Misfit::between(
                &["resource.endpoints"],
                "a lock's key can be compared in its own etcd only: those of [lock], or none, are right"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// How the lock service and the resource are reached. Where both stand in one kind of server and only one says
    /// how, it says it for both.
    #[must_use]
    pub fn access(&self) -> (Access, Access) {
        let (lock, resource) = (&self.lock.access, &self.resource.access);
        let together = self.lock.kind.system().server == self.resource.kind.system().server;
        let either = |own: &Access, other: &Access| match together && *own == Access::default() {
            true => other.clone(),
            false => own.clone(),
        };
        (either(lock, resource), either(resource, lock))
    }

    /// What is taken for the token; empty where the lock service leaves no choice.
    #[must_use]
    pub fn token(&self) -> &str {
        let default = self.lock.kind.system().variants.first();
        self.lock
            .token
            .as_deref()
            .or(default.copied())
            .unwrap_or_default()
    }

    /// How a write is fenced; empty where the resource leaves no choice.
    #[must_use]
    pub fn fence(&self) -> &str {
        let default = self.resource.kind.system().variants.first();
        self.resource
            .fence
            .as_deref()
            .or(default.copied())
            .unwrap_or_default()
    }

    /// What the workers of a run are told, whose keys and tables lie under `namespace`.
    #[must_use]
    pub fn options(&self, namespace: &str) -> Options {
        let (lock, resource) = self.access();
        Options {
            namespace: namespace.to_owned(),
            lock_settings: self.lock.settings(&lock),
            resource_settings: self.resource.settings(&resource),
            ..Options::plain(
                self.lock.kind.name(),
                self.resource.kind.name(),
                self.worker.timeout.0,
            )
        }
    }

    /// The cargo features that this build lacks for it, each once; empty where it can be run.
    #[must_use]
    pub fn missing_features(&self) -> Vec<&'static str> {
        let (lock, resource) = (self.lock.kind.system(), self.resource.kind.system());
        let lacks = [
            lock.feature.filter(|_| lock.connect.is_none()),
            resource.feature.filter(|_| resource.connect.is_none()),
        ];
        let mut missing: Vec<_> = lacks.into_iter().flatten().collect();
        missing.dedup();
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Suite::parse(text, "my.toml")
            .expect_err("a wrong suite")
            .to_string()
    }

    #[test]
    fn every_built_in_suite_reads_and_is_named_as_listed() {
        for built_in in BUILT_IN {
            assert_eq!(built_in.suite().name.as_str(), built_in.name);
        }
    }

    #[test]
    fn an_empty_file_is_the_default_attack_under_another_name() {
        let default = BUILT_IN[0].suite();
        let empty = Suite::parse("", "my.toml").expect("an empty file has every default");
        assert_eq!(
            empty,
            Suite {
                name: empty.name.clone(),
                about: String::new(),
                ..default
            }
        );
        assert_eq!(
            Suite::parse("fault = []", "my.toml")
                .expect("no faults")
                .fault,
            []
        );
    }

    #[test]
    fn a_wrong_value_is_refused_with_its_line_and_what_would_be_right() {
        let cases = [
            (
                "[run]\nrate = 0\n",
                "my.toml, line 2: `rate = 0`: 0 is no rate: operations a second from 0.1 to 1000000, or \"max\", is right",
            ),
            (
                "[run]\nrate = true\n",
                "my.toml, line 2: `rate = true`: no rate: operations a second from 0.1 to 1000000, or \"max\", is right",
            ),
            (
                "[run]\nworkers = 2.5\n",
                "my.toml, line 2: `workers = 2.5`: a whole number from 1 to 64 is right",
            ),
            (
                "run = [\"1s\", 5, 10, 200]\n",
                "my.toml, line 1: `run = [\"1s\", 5, 10, 200]`: run is a table: [run], and a key a line under it, is right",
            ),
            (
                "fault = 3\n",
                "my.toml, line 1: `fault = 3`: fault is a list of tables: [[fault]], and a key a line under it, is right",
            ),
            (
                "fault = [3]\n",
                "my.toml, line 1: `fault = [3]`: fault is a list of tables: [[fault]], and a key a line under it, is right",
            ),
            (
                "[[fault]]\nevery = \"1s\"\n",
                "my.toml, line 1: `[[fault]]`: missing field `kind`, as in kind = \"pause\": `fencepost list faults` names every one",
            ),
            (
                "[run]\ntime_limit = 20\n",
                "my.toml, line 2: `time_limit = 20`: a duration in quotes, like \"250ms\", \"2s\" or \"5m\", is right",
            ),
            (
                "[run]\nworkers = 65\n",
                "my.toml, line 2: `workers = 65`: 65 is out of range: a whole number from 1 to 64 is right",
            ),
            (
                "[run]\ntime_limit = \"20\"\n",
                "my.toml, line 2: `time_limit = \"20\"`: \"20\" is no such duration: one like \"250ms\", \"2s\" or \"5m\", from 100ms to 1day, is right",
            ),
            (
                "[[fault]]\nkind = \"pause\"\nlength = \"3s..1s\"\n",
                "my.toml, line 3: `length = \"3s..1s\"`: \"3s..1s\" is upside down: the shorter duration first, \"1s..3s\", is right",
            ),
            (
                "[workload]\nlocks = 11\n",
                "my.toml, line 2: `locks = 11`: workload.locks: 11 locks for 10 clients: at most one lock for each client is right",
            ),
            (
                "name = \"few\"\n[run]\nworkers = 2\nclients = 3\n",
                "my.toml, line 4: `clients = 3`: run.clients: 4 locks for 3 clients: at most one lock for each client is right",
            ),
            (
                "[run]\nworkers = 2\n[[fault]]\nkind = \"zombie\"\n[[fault]]\nkind = \"pause\"\nevery = \"2s\"\non = \"w3\"\n",
                "my.toml, line 8: `on = \"w3\"`: fault.on: there is no w3 among 2 workers: w1 to w2 is right",
            ),
            (
                "[worker]\ntimeout = \"1s\"\ncommand = [\n  \"\",\n]\n",
                "my.toml, line 3: `command = [`: worker.command: the program's name is empty: [\"python3\", \"my_worker.py\"] is an example",
            ),
            (
                "[[fault]]\nkind = \"zombie\"\non = \"worker\"\n",
                "my.toml, line 3: `on = \"worker\"`: fault.on: a zombie fault takes no `on`",
            ),
            (
                "fault = [{ kind = \"zombie\" },\n  { kind = \"hole\", delay = \"1s\" }]\n",
                "my.toml, line 2: `{ kind = \"hole\", delay = \"1s\" }]`: fault.delay: a hole fault takes no `delay`: only latency does",
            ),
            (
                "[[fault]]\nkind = \"kill\"\nevery = \"3s\"\non = \"waiter\"\n",
                "my.toml, line 4: `on = \"waiter\"`: fault.on: a kill fault on \"waiter\" cannot be done: \"lock\", \"resource\", \"leader\", \"worker\" or \"holder\" is right",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(refused(text), message);
        }
    }

    #[test]
    fn a_duration_out_of_its_range_and_a_worker_that_is_not_there_are_refused() {
        for (text, expected) in [
            ("[lock]\nlease = \"2h\"\n", "from 50ms to 1h"),
            ("[worker]\ntimeout = \"5ms\"\n", "from 10ms to 1m"),
            ("[run]\ntime_limit = \"50ms\"\n", "from 100ms to 1day"),
            (
                "[[fault]]\nkind = \"pause\"\non = \"w6\"\n",
                "there is no w6 among 5 workers: w1 to w5 is right",
            ),
        ] {
            let message = refused(text);
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn a_leader_is_struck_only_where_there_is_one() {
        let fault = "[[fault]]\nkind = \"hole\"\nlink = \"leader-peers\"\n[[fault]]\nkind = \"kill\"\non = \"leader\"\n";
        assert_eq!(
            refused(fault),
            "my.toml, line 3: `link = \"leader-peers\"`: fault.link: hole:leader-peers needs servers of which one leads: a lock or a resource of kind \"etcd\" is right"
        );
        let etcd = format!("[lock]\nkind = \"etcd\"\nlease = \"2s\"\n{fault}");
        let suite = Suite::parse(&etcd, "my.toml").expect("a fine suite");
        let labels: Vec<String> = suite.fault.iter().map(Fault::label).collect();
        assert_eq!(labels, ["hole:leader-peers", "kill:leader"]);
    }

    #[test]
    fn servers_of_others_are_never_struck() {
        let external = "[target]\nkind = \"external\"\n[lock]\nkind = \"etcd\"\nendpoints = [\"h:1\"]\n\
                        [resource]\nkind = \"postgres\"\nurl = \"postgres://me@h/db\"\n";
        let suite = Suite::parse(external, "my.toml").expect("a fine suite");
        assert!(
            suite.fault.len() >= 4,
            "the faults on workers and links are left"
        );
        assert!(!suite.fault.iter().any(Fault::strikes_a_server));
        for fault in [
            "kind = \"kill\"\non = \"lock\"\n",
            "kind = \"pause\"\non = \"leader\"\n",
            "kind = \"hole\"\nlink = \"leader-peers\"\n",
        ] {
            let message = refused(&format!("{external}[[fault]]\n{fault}"));
            assert!(
                message.contains("strikes a server, and the external target touches none"),
                "{message}"
            );
        }
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_known_ones() {
        let message = refused("[run]\nworker = 3\n");
        assert!(message.starts_with("my.toml, line 2: `worker = 3`: unknown field `worker`, expected one of `time_limit`, `workers`"), "{message}");
        assert!(!message.contains('\n'), "one line");
    }

    #[test]
    fn a_fault_is_held_against_its_kind() {
        assert!(
            refused("[[fault]]\nkind = \"zombie\"\non = \"worker\"\n")
                .contains("a zombie fault takes no `on`")
        );
        assert!(
            refused("[[fault]]\nkind = \"kill\"\non = \"waiter\"\n")
                .contains("\"leader\", \"worker\" or \"holder\" is right")
        );
        assert!(
            refused("[[fault]]\nkind = \"hole\"\ndelay = \"1s\"\n").contains("only latency does")
        );
        assert!(
            refused("[[fault]]\nkind = \"kill\"\non = \"worker\"\nstale = true\n")
                .contains("a kill fault takes no `stale`: only kill on the holder does")
        );
        let stale = "[[fault]]\nkind = \"kill\"\non = \"holder\"\nstale = true\n";
        let suite = Suite::parse(stale, "my.toml").expect("a holder can be stale");
        assert!(suite.fault[0].stale);
    }

    #[test]
    fn a_suite_survives_being_written_and_read_again() {
        let external = "[target]\nkind = \"external\"\n[lock]\nkind = \"etcd\"\nendpoints = [\"10.0.0.7:2379\", \"[::1]:2379\"]\nuser = \"u\"\npassword_file = \"/run/secret\"\n[resource]\nkind = \"postgres\"\nfence = \"none\"\nurl = \"postgres://u@db/d\"\npassword_env = \"PW\"\n";
        let external = Suite::parse(external, "my.toml").expect("a fine suite");
        assert_eq!(external.resource.access.addresses(), ["db:5432"]);
        for suite in BUILT_IN
            .iter()
            .map(|built_in| built_in.suite())
            .chain([external])
        {
            let written = serde_json::to_string(&suite).expect("a suite is plain data");
            assert_eq!(
                serde_json::from_str::<Suite>(&written).expect("its own words"),
                suite
            );
        }
    }

    #[test]
    fn keys_are_held_against_the_kind_of_lock_and_resource() {
        #[rustfmt::skip]
        let cases = [
            ("[lock]\nkind = \"redis\"\n", "line 2: `kind = \"redis\"`: \"redis\" is no known lock service: reference, etcd, postgres, postgres-advisory is right"),
            ("[resource]\nkind = \"s3\"\n", "\"s3\" is no known resource: reference, etcd, postgres is right"),
            ("[lock]\ntoken = \"lease-id\"\n", "line 1: `[lock]`: kind \"reference\" takes no `token`"),
            ("[lock]\nkind = \"etcd\"\ntoken = \"lease-id\"\n", "\"lease-id\" is no token of kind \"etcd\": \"create-revision\" or \"header-revision\" is right"),
            ("[resource]\nkind = \"postgres\"\nfence = \"maybe\"\n", "\"maybe\" is no fence of kind \"postgres\": \"conditional\" or \"none\" or \"select-then-update\" is right"),
            ("[lock]\nkind = \"etcd\"\nurl = \"postgres://u@h/d\"\n", "kind \"etcd\" takes no `url`: endpoints = [\"host:port\"] is right"),
            ("[resource]\nkind = \"postgres\"\nuser = \"u\"\n", "kind \"postgres\" takes no `user`: its url names the user"),
            ("[lock]\npassword_env = \"PW\"\n", "kind \"reference\" takes no `password_env`"),
            ("[lock]\nkind = \"etcd\"\nendpoints = [\"nowhere\"]\n", "\"nowhere\" is no address: host:port, \"10.0.0.7:2379\", is right"),
            ("[lock]\nkind = \"etcd\"\nendpoints = [\"h:1\"]\n", "line 3: `endpoints = [\"h:1\"]`: lock.endpoints: the local target starts its own servers"),
            ("[target]\nkind = \"external\"\n", "line 2: `kind = \"external\"`: target.kind: kind \"reference\" is never external"),
            ("[target]\nkind = \"external\"\n[lock]\nkind = \"etcd\"\n", "line 4: `kind = \"etcd\"`: lock.kind: the external target needs endpoints"),
            ("[target]\nkind = \"external\"\n[lock]\nkind = \"etcd\"\nendpoints = [\"h:1\"]\n[resource]\nkind = \"postgres\"\n", "line 7: `kind = \"postgres\"`: resource.kind: the external target needs url"),
            ("[resource]\nkind = \"etcd\"\n", "resource.kind: etcd compares the lock key's create_revision"),
            ("[lock]\nkind = \"etcd\"\ntoken = \"header-revision\"\n[resource]\nkind = \"etcd\"\n", "resource.kind: etcd compares"),
            ("[target]\nkind = \"external\"\n[lock]\nkind = \"etcd\"\nendpoints = [\"h:1\"]\n[resource]\nkind = \"etcd\"\nendpoints = [\"h:2\"]\n", "resource.endpoints: a lock's key can be compared in its own etcd only"),
        ];
        for (text, expected) in cases {
            let message = refused(text);
            assert!(message.contains(expected), "{text}: {message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn a_password_in_a_url_is_refused_without_being_repeated() {
        let message =
            refused("[resource]\nkind = \"postgres\"\nurl = \"postgres://u:sesame@h/d\"\n");
        assert!(
            message.contains("password_env = \"NAME\" or password_file = \"PATH\" is right"),
            "{message}"
        );
        for text in [
            "[resource]\nkind = \"postgres\"\nurl = \"postgres://u:sesame@h/d\"\n",
            "[resource]\nkind = \"postgres\"\nurl = \"mysql://u:sesame@h/d\"\n",
            "[resource]\nkind = \"postgres\"\nurl = \"postgres://u:sesame\"\n",
            "[resource]\nurls = \"postgres://u:sesame@h/d\"\n",
            "[lock]\nkind = \"etcd\"\nendpoints = [\"http://u:sesame@h:1\"]\n",
            "[lock]\nkind = \"etcd\"\nendpoints = [\"u:sesame@h:1\"]\n",
        ] {
            let message = refused(text);
            assert!(!message.contains("sesame"), "{message}");
        }
    }

    #[test]
    fn an_image_of_ones_own_is_not_asked_for_what_only_the_reference_service_does() {
        let docker = "[target]\nkind = \"docker\"\n";
        let image = |role: &str| format!("[nodes.{role}]\nimage = \"mine:1\"\nport = 1\n");
        let composed = |role: &str| {
            format!("[nodes.{role}]\ncompose = \"c.yaml\"\nservice = \"s\"\nport = 1\n")
        };
        let fault = |text: &str| format!("[[fault]]\n{text}\n");
        for (nodes, more, expected) in [
            (
                image("resource"),
                "[resource]\nfence = \"none\"\n".to_owned(),
                "line 7: `fence = \"none\"`: resource.fence: only the reference resource can be told to be without its fence, and [nodes.resource] is another: leave one of the two out",
            ),
            (
                composed("lock"),
                "[lock]\nfirst_token = 5\n".to_owned(),
                "line 8: `first_token = 5`: lock.first_token: only the reference lock service can be told its first token, and [nodes.lock] is another: leave one of the two out",
            ),
            (
                composed("resource"),
                fault("kind = \"redeploy\""),
                "line 8: `kind = \"redeploy\"`: fault.kind: redeploy:resource makes a container of its own, and compose makes those of [nodes.resource]: an image = \"...\" there is right",
            ),
            (
                composed("lock"),
                fault("kind = \"second-issuer\""),
                "fault.kind: second-issuer makes a container of its own, and compose makes those of [nodes.lock]: an image",
            ),
            (
                image("lock"),
                fault("kind = \"clock\"\non = \"lock\""),
                "fault.kind: clock:lock sets the clock that is preloaded in the reference services, and [nodes.lock] is another: leave one of the two out",
            ),
        ] {
            let message = refused(&format!("{docker}{nodes}{more}"));
            assert!(message.contains(expected), "{message}");
            assert_eq!(message.lines().count(), 1);
        }
        // The other role's are nobody's concern, and an image can be deployed anew and started twice.
        for (nodes, more) in [
            (image("lock"), "[resource]\nfence = \"none\"\n".to_owned()),
            (image("resource"), "[lock]\nfirst_token = 5\n".to_owned()),
            (image("resource"), fault("kind = \"clock\"\non = \"lock\"")),
            (composed("resource"), fault("kind = \"second-issuer\"")),
            (
                image("lock"),
                fault("kind = \"second-issuer\"") + &fault("kind = \"redeploy\"\non = \"lock\""),
            ),
        ] {
            let text = format!("{docker}{nodes}{more}");
            assert_eq!(
                Suite::parse(&text, "my.toml")
                    .map(drop)
                    .map_err(|error| error.to_string()),
                Ok(())
            );
        }
    }

    #[test]
    fn an_image_that_no_engine_would_take_is_refused_at_once() {
        let node = |line: &str| {
            let image = if line.starts_with("image") {
                ""
            } else {
                "image = \"mine:1\"\n"
            };
            format!("[target]\nkind = \"docker\"\n[nodes.resource]\nport = 1\n{image}{line}\n")
        };
        for (line, expected) in [
            (
                "image = \"\"",
                "\"\" is no image: a name as in \"registry.example:5000/fenced-store:1.4\", in small letters, is right",
            ),
            ("image = \"a b\"", "\"a b\" is no image"),
            ("image = \"UPPER/Case:1\"", "\"UPPER/Case:1\" is no image"),
            ("image = \"a/:1\"", "\"a/:1\" is no image"),
            ("image = \"a:\"", "\"a:\" is no image"),
            ("image = \"a@sha256:zz\"", "is no image"),
            ("image = \"host:99999999/\"", "is no image"),
            (
                "data = \"rel\"",
                "data = \"rel\" is no folder inside: an absolute path, \"/data\", is right",
            ),
            ("data = \"/\"", "data = \"/\" is no folder inside"),
            (
                "environment = { \"A=B\" = \"x\" }",
                "\"A=B\" is no name of a variable: one without \"=\" is right",
            ),
            (
                "environment = { \"\" = \"x\" }",
                "\"\" is no name of a variable",
            ),
            (
                "environment = { A = \"x\\u0000\" }",
                "no program can be given a NUL byte",
            ),
            (
                "command = [\"\\u0000\"]",
                "no program can be given a NUL byte",
            ),
        ] {
            let message = refused(&node(line));
            assert!(
                message.contains("nodes.resource: ") && message.contains(expected),
                "{line}: {message}"
            );
            assert_eq!(message.lines().count(), 1);
        }
        for line in [
            "image = \"fencepost:latest\"",
            "image = \"localhost:1/nobody/nothing:1\"",
            "image = \"ghcr.io/shopify/toxiproxy:2.12.0\"",
            "image = \"UPPER/case:V1_x.y-z\"",
            "image = \"[::1]:5000/a__b/c--d\"",
            "image = \"a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"",
            "data = \"/var/lib/store\"",
            "environment = { STORE_FSYNC = \"a=b\" }",
        ] {
            assert_eq!(
                Suite::parse(&node(line), "my.toml")
                    .map(drop)
                    .map_err(|error| error.to_string()),
                Ok(())
            );
        }
        let proxy =
            "[target]\nkind = \"docker\"\n[nodes.toxiproxy]\nimage = \"tox:1\"\nport = 8474\n";
        assert!(refused(proxy).contains(
            "nodes.toxiproxy: takes an image, and perhaps a command and environment, alone"
        ));
    }

    #[test]
    fn one_server_for_both_needs_to_be_named_once() {
        let text = "[target]\nkind = \"external\"\n[lock]\nkind = \"postgres\"\n[resource]\nkind = \"postgres\"\nurl = \"postgres://u@h:1/d\"\npassword_env = \"PW\"\n";
        let suite = Suite::parse(text, "my.toml").expect("a fine suite");
        assert_eq!(suite.access().0.addresses(), ["h:1"]);
        let options = suite.options("fp_ab12");
        assert_eq!(options.lock_settings.password_env.as_deref(), Some("PW"));
        assert_eq!(options.resource_settings.database.as_deref(), Some("d"));
        assert_eq!(options.namespace, "fp_ab12");
    }

    #[test]
    fn a_suite_tells_what_this_build_lacks_for_it() {
        for built_in in BUILT_IN {
            let suite = built_in.suite();
            let lacks = |feature: &str, built: bool| built_in.name.contains(feature) && !built;
            let mut expected = Vec::new();
            if lacks("etcd", cfg!(feature = "etcd")) {
                expected.push("etcd");
            }
            let postgres = suite.lock.kind.name().starts_with("postgres")
                || suite.resource.kind.name() == "postgres";
            if postgres && !cfg!(feature = "postgres") {
                expected.push("postgres");
            }
            assert_eq!(suite.missing_features(), expected, "{}", built_in.name);
        }
    }
}
