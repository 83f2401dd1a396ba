//! `[[fault]]`: what is done to the system, how often, for how long.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Count, Length, Misfit, Span};

/// One entry of the fault plan.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, try_from = "Written")]
pub struct Fault {
    /// What is done.
    pub kind: FaultKind,
    /// To which node (`pause`, `kill` and what only containers allow); the zombie finds its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<On>,
    /// To which link (`hole`, `stall`, `lost-request`, `lost-reply`, `latency`, `bandwidth`, `refuse`, `reset`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// Which way a `cut` drops packets, or a `clock` jumps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// How often; jittered by the seed by a fifth either way.
    pub every: Span,
    /// How long it stays; drawn from the seed. A zombie ends when its successor has written, at the latest after this.
    pub length: Length,
    /// How much a `latency` fault adds to each answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Length>,
    /// By how much a `latency` fault's delay varies, more or less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Span<0, 60_000>>,
    /// How much passes a link under a `bandwidth` fault, each way, in kilobytes (of 1000 bytes) a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kilobytes: Option<Count<1_000_000>>,
    /// How far a `clock` fault jumps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Length>,
    /// What a zombie does first once it is let go; absent: what has been done least, and writes before all else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<Then>,
    /// How long the lock's keys are left alone after the successor's write, before a zombie is let go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Length>,
    /// As whom the clients of a killed worker come back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// Whether a holder that is killed is stopped first, until another was granted its lock: it is stale when it dies.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
}

/// A fault as a suite writes it, before its defaults are filled in and its parts are held against its kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    kind: FaultKind,
    on: Option<On>,
    link: Option<Link>,
    direction: Option<Direction>,
    every: Option<Span>,
    length: Option<Length>,
    delay: Option<Length>,
    jitter: Option<Span<0, 60_000>>,
    kilobytes: Option<Count<1_000_000>>,
    by: Option<Length>,
    then: Option<Then>,
    after: Option<Length>,
    identity: Option<Identity>,
    stale: Option<bool>,
}

/// A key of a fault that does not fit its kind, and what would be right.
pub(super) struct Unfit {
    key: &'static str,
    message: String,
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// The first fault of a suite's text whose parts do not fit each other, if every fault can be read by itself.
pub(super) fn first_misfit(text: &str) -> Option<Misfit> {
    #[derive(Deserialize)]
    struct Faults {
        fault: Vec<Written>,
    }
    let faults: Faults = toml::from_str(text).ok()?;
    let mut faults = faults.fault.into_iter().enumerate();
    faults.find_map(|(position, written)| {
        let unfit = Fault::try_from(written).err()?;
        Some(Misfit::in_fault(position, unfit.key, unfit.message))
    })
}

impl TryFrom<Written> for Fault {
    type Error = Unfit;

    fn try_from(written: Written) -> Result<Self, Unfit> {
        let unfit = |key, message| Err(Unfit { key, message });
        let Written {
            kind,
            on,
            link,
            direction,
            every,
            length,
            delay,
            jitter,
            kilobytes,
            by,
            then,
            after,
            identity,
            stale,
        } = written;
        let name = kind.name();
        let takes_link = kind.is_of_links();
        let takes_on = !takes_link
            && !matches!(
                kind,
                FaultKind::Zombie | FaultKind::Between | FaultKind::SecondIssuer
            );
        if on.is_some() && !takes_on {
            return unfit("on", format!("a {name} fault takes no `on`"));
        }
        if link.is_some() && !takes_link {
            return unfit("link", format!("a {name} fault takes no `link`"));
        }
        if delay.is_some() && kind != FaultKind::Latency {
            return unfit(
                "delay",
                format!("a {name} fault takes no `delay`: only latency does"),
            );
        }
        for (key, given, of) in [
            ("jitter", jitter.is_some(), FaultKind::Latency),
            ("kilobytes", kilobytes.is_some(), FaultKind::Bandwidth),
            ("by", by.is_some(), FaultKind::Clock),
        ] {
            if given && kind != of {
                let of = of.name();
                return unfit(
                    key,
                    format!("a {name} fault takes no `{key}`: only {of} does"),
                );
            }
        }
        let direction = match (kind, direction) {
            (FaultKind::Cut, None) => Some(Direction::Both),
            (FaultKind::Cut, Some(Direction::Both | Direction::In | Direction::Out))
            | (FaultKind::Clock, Some(Direction::Forward | Direction::Back)) => direction,
            (FaultKind::Clock, None) => Some(Direction::Forward),
            (FaultKind::Cut, Some(_)) => {
                return unfit(
                    "direction",
                    "a cut is \"both\", \"in\" or \"out\"".to_owned(),
                );
            }
            (FaultKind::Clock, Some(_)) => {
                return unfit(
                    "direction",
                    "a clock jumps \"forward\" or \"back\"".to_owned(),
                );
            }
            (_, Some(_)) => {
                return unfit(
                    "direction",
                    format!("a {name} fault takes no `direction`: only cut and clock do"),
                );
            }
            (_, None) => None,
        };
        if (then.is_some() || after.is_some()) && kind != FaultKind::Zombie {
            let key = if then.is_some() { "then" } else { "after" };
            return unfit(
                key,
                format!("a {name} fault takes no `{key}`: only zombie does"),
            );
        }
        let kills_worker =
            kind == FaultKind::Kill && matches!(on, Some(On::Worker | On::Holder | On::Node(_)));
        if identity.is_some() && !kills_worker {
            return unfit(
                "identity",
                format!(
                    "a {name} fault takes no `identity`: only kill on a worker or the holder does"
                ),
            );
        }
        if stale.is_some() && !(kind == FaultKind::Kill && on == Some(On::Holder)) {
            return unfit(
                "stale",
                format!("a {name} fault takes no `stale`: only kill on the holder does"),
            );
        }
        let on = match (kind, on) {
            (FaultKind::Kill, on) if kills_worker => on,
            (FaultKind::Pause, on) => Some(on.unwrap_or(On::Worker)),
            (kind, on @ (None | Some(On::Lock | On::Resource)))
                if kind.is_of_containers() && takes_on =>
            {
                Some(on.unwrap_or(On::Resource))
            }
            (
                FaultKind::Freeze | FaultKind::Cut | FaultKind::Disconnect,
                Some(on @ (On::Worker | On::Node(_))),
            ) => Some(on),
            (kind, Some(other)) if kind.is_of_containers() => {
                return unfit(
                    "on",
                    format!(
                        "a {name} fault on {:?} cannot be done: \"lock\" or \"resource\" is right",
                        other.name()
                    ),
                );
            }
            (FaultKind::Kill, on @ (None | Some(On::Lock | On::Resource | On::Leader))) => {
                Some(on.unwrap_or(On::Resource))
            }
            (FaultKind::Kill, Some(other)) => {
                return unfit(
                    "on",
                    format!(
                        "a kill fault on {:?} cannot be done: \"lock\", \"resource\", \"leader\", \"worker\" or \"holder\" is right",
                        other.name()
                    ),
                );
            }
            (_, on) => on,
        };
        Ok(Self {
            kind,
            on,
            link: if takes_link {
                Some(link.unwrap_or(Link::WorkerLock))
            } else {
                None
            },
            direction,
            every: every.unwrap_or(Span(Duration::from_secs(5))),
            length: length.unwrap_or(match kind {
                FaultKind::Zombie | FaultKind::Between => Length::millis(6_000, 6_000),
                FaultKind::Kill | FaultKind::Redeploy => Length::millis(50, 300),
                _ => Length::millis(500, 2_000),
            }),
            delay: if kind == FaultKind::Latency {
                Some(delay.unwrap_or(Length::millis(20, 100)))
            } else {
                None
            },
            jitter,
            kilobytes: (kind == FaultKind::Bandwidth).then(|| kilobytes.unwrap_or(Count(1))),
            by: (kind == FaultKind::Clock)
                .then(|| by.unwrap_or(Length::millis(3_600_000, 3_600_000))),
            then,
            after,
            identity: kills_worker.then(|| identity.unwrap_or_default()),
            stale: stale.unwrap_or_default(),
        })
    }
}

impl Fault {
    /// The name under which plan, history and verdict count it: the kind, and where it strikes (`kill:lock`, `hole:worker-lock`).
    #[must_use]
    pub fn label(&self) -> String {
        let place = match (&self.on, &self.link, self.then) {
            (Some(on), _, _) => format!("{}:{}", self.kind.name(), on.name()),
            (None, Some(link), _) => format!("{}:{}", self.kind.name(), link.name()),
            (None, None, Some(then)) => format!("{}:{}", self.kind.name(), then.name()),
            (None, None, None) => self.kind.name().to_owned(),
        };
        match self.direction {
            None | Some(Direction::Both | Direction::Forward) => place,
            Some(direction) => format!("{place}:{}", direction.name()),
        }
    }
}

impl Fault {
    /// Whether it is done to a server or to what stands between servers, and not to a worker or one of its links.
    #[must_use]
    pub fn strikes_a_server(&self) -> bool {
        matches!(self.on, Some(On::Lock | On::Resource | On::Leader))
            || self.link == Some(Link::LeaderPeers)
            || self.kind == FaultKind::SecondIssuer
            || self.then == Some(Then::Restart)
    }
}

/// What a zombie does first once it is let go.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Then {
    /// It writes under the token that it still believes in.
    Write,
    /// It renews the lease that it lost.
    Renew,
    /// It gives back the lock that is another's now.
    Release,
    /// It asks for the lock again.
    Acquire,
    /// It is let go when its successor's first write is sent, so that both are under way at once.
    Race,
    /// The resource is killed and started again after the successor's write was read; then it writes.
    Restart,
}

/// Every [`Then`] with its name.
pub const THENS: &[(Then, &str)] = &[
    (Then::Write, "write"),
    (Then::Renew, "renew"),
    (Then::Release, "release"),
    (Then::Acquire, "acquire"),
    (Then::Race, "race"),
    (Then::Restart, "restart"),
];

impl Then {
    /// The name, as written in a suite.
    #[must_use]
    pub fn name(self) -> &'static str {
        let row = THENS.iter().find(|(then, _)| *then == self);
        row.map_or("", |(_, name)| name)
    }
}

/// As whom the clients of a killed worker come back.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Identity {
    /// As others: a new pod under a new name.
    #[default]
    New,
    /// As before: a fixed node id, a stateful set.
    Same,
}

/// What is done.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// Stop the holder of the newest token, wait until a successor on another worker has written, let it go.
    Zombie,
    /// SIGSTOP, later SIGCONT.
    Pause,
    /// Nothing passes a link, either way; connections stay open.
    Hole,
    /// Requests pass a link, answers do not.
    LostReply,
    /// Every answer on a link comes later.
    Latency,
    /// Connections on a link are reset as soon as bytes flow on them; new ones too.
    Reset,
    /// SIGKILL, then a restart: a service on the same data, a worker with new clients.
    Kill,
    /// Nothing passes a link, either way; what was held is delivered afterwards.
    Stall,
    /// Requests are dropped on a link; answers pass.
    LostRequest,
    /// Little passes a link, both ways.
    Bandwidth,
    /// A link refuses connections, and ends those that there are.
    Refuse,
    /// A container's control group is frozen, later thawed.
    Freeze,
    /// Packets to or from a container are dropped.
    Cut,
    /// A container is taken off its network, later put back under its address.
    Disconnect,
    /// A service is killed and started on an empty volume.
    Redeploy,
    /// Another lock service beside the first, and half of the workers are led to it.
    SecondIssuer,
    /// A service's wall clock jumps, and later jumps back.
    Clock,
    /// Stop a holder after it decided to write and before its request leaves, until a successor has written.
    Between,
}

/// The faults of `fencepost list faults`: name and one line.
pub const FAULT_KINDS: &[(FaultKind, &str)] = &[
    (
        FaultKind::Zombie,
        "stop the holder of the newest token, wait for its successor's first acknowledged write, let it go",
    ),
    (
        FaultKind::Pause,
        "SIGSTOP a worker, the current holder's worker, or a service; SIGCONT after `length`",
    ),
    (
        FaultKind::Hole,
        "a worker's link to a service swallows everything, both ways; connections stay open",
    ),
    (
        FaultKind::LostReply,
        "a worker's requests reach a service, the answers are dropped",
    ),
    (
        FaultKind::Latency,
        "every answer on a worker's link to a service comes later by `delay`",
    ),
    (
        FaultKind::Reset,
        "connections on a worker's link to a service are reset as soon as bytes flow on them",
    ),
    (
        FaultKind::Kill,
        "SIGKILL a service or a worker, restart it after `length`: a service on its data, a worker's clients as new ones",
    ),
    (
        FaultKind::Between,
        "stop a holder that has decided to write before its request leaves, until its successor has written",
    ),
    (
        FaultKind::Stall,
        "a worker's link to a service holds everything back, both ways, and delivers it afterwards",
    ),
    (
        FaultKind::LostRequest,
        "a worker's requests to a service are dropped; answers under way pass",
    ),
    (
        FaultKind::Bandwidth,
        "a worker's link to a service passes `kilobytes` a second, each way",
    ),
    (
        FaultKind::Refuse,
        "a worker's link to a service refuses connections and ends those that there are",
    ),
    (
        FaultKind::Freeze,
        "[docker] freeze a container by its control group; thaw it after `length`",
    ),
    (
        FaultKind::Cut,
        "[docker] drop the packets of a container both ways, or one (`direction`): SYNs vanish, peers are half open",
    ),
    (
        FaultKind::Disconnect,
        "[docker] take a container off its network; put it back under its address after `length`",
    ),
    (
        FaultKind::Redeploy,
        "[docker] SIGKILL a service, start it on an empty volume after `length`: destructive by design",
    ),
    (
        FaultKind::SecondIssuer,
        "[docker] another lock service beside the first, and half of the workers led to it: destructive by design",
    ),
    (
        FaultKind::Clock,
        "[docker] a service's wall clock jumps `by` so much forward or back (`direction`); back again after `length`",
    ),
];

impl FaultKind {
    /// The name, as written in a suite.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Zombie => "zombie",
            Self::Pause => "pause",
            Self::Hole => "hole",
            Self::LostReply => "lost-reply",
            Self::Latency => "latency",
            Self::Reset => "reset",
            Self::Kill => "kill",
            Self::Stall => "stall",
            Self::LostRequest => "lost-request",
            Self::Bandwidth => "bandwidth",
            Self::Refuse => "refuse",
            Self::Freeze => "freeze",
            Self::Cut => "cut",
            Self::Disconnect => "disconnect",
            Self::Redeploy => "redeploy",
            Self::SecondIssuer => "second-issuer",
            Self::Clock => "clock",
            Self::Between => "between",
        }
    }

    /// Whether it is done to links, through the fault proxy.
    #[must_use]
    pub fn is_of_links(self) -> bool {
        matches!(
            self,
            Self::Hole
                | Self::Stall
                | Self::LostRequest
                | Self::LostReply
                | Self::Latency
                | Self::Bandwidth
                | Self::Refuse
                | Self::Reset
        )
    }

    /// Whether only containers allow it.
    #[must_use]
    pub fn is_of_containers(self) -> bool {
        matches!(
            self,
            Self::Freeze
                | Self::Cut
                | Self::Disconnect
                | Self::Redeploy
                | Self::SecondIssuer
                | Self::Clock
        )
    }
}

/// Which way something is done.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Packets to the node and from it.
    Both,
    /// Packets to the node.
    In,
    /// Packets from the node.
    Out,
    /// Later.
    Forward,
    /// Earlier.
    Back,
}

impl Direction {
    /// The name, as written in a suite.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::In => "in",
            Self::Out => "out",
            Self::Forward => "forward",
            Self::Back => "back",
        }
    }
}

/// The node that a fault strikes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum On {
    /// A worker, drawn from the seed.
    Worker,
    /// The worker of whoever holds the newest token then.
    Holder,
    /// The lock service.
    Lock,
    /// The fenced resource.
    Resource,
    /// The worker of a client that queues for a lock then.
    Waiter,
    /// The node that leads its system then, where there is such a thing.
    Leader,
    /// One worker by its name, `w1` and up.
    Node(u32),
}

impl On {
    /// The name, as written in a suite.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Worker => "worker".to_owned(),
            Self::Holder => "holder".to_owned(),
            Self::Lock => "lock".to_owned(),
            Self::Resource => "resource".to_owned(),
            Self::Waiter => "waiter".to_owned(),
            Self::Leader => "leader".to_owned(),
            Self::Node(number) => format!("w{number}"),
        }
    }
}

impl Serialize for On {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

impl<'de> Deserialize<'de> for On {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.as_str() {
            "worker" => Ok(Self::Worker),
            "holder" => Ok(Self::Holder),
            "lock" => Ok(Self::Lock),
            "resource" => Ok(Self::Resource),
            "waiter" => Ok(Self::Waiter),
            "leader" => Ok(Self::Leader),
            other => other
                .strip_prefix('w')
                .and_then(|number| number.parse().ok())
                .filter(|number| *number > 0)
                .map(Self::Node)
                .ok_or_else(|| serde::de::Error::custom(format!("{text:?} is no node: worker, holder, waiter, lock, resource, leader or a worker's name (w1) is right"))),
        }
    }
}

/// The link that a fault strikes: one worker's, drawn from the seed, or the one on which a leader is reached by its peers.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// From a worker to the lock service.
    WorkerLock,
    /// From a worker to the resource.
    WorkerResource,
    /// From a worker to both.
    WorkerBoth,
    /// From every worker to the lock service.
    AllLock,
    /// From half of the workers to the lock service.
    HalfLock,
    /// From the worker of a holder of a newest token to the lock service.
    HolderLock,
    /// From the worker of a holder of a newest token to the resource.
    HolderResource,
    /// From the peers of the node that leads then to it.
    LeaderPeers,
}

impl Link {
    /// The name, as written in a suite.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::WorkerLock => "worker-lock",
            Self::WorkerResource => "worker-resource",
            Self::WorkerBoth => "worker-both",
            Self::AllLock => "all-lock",
            Self::HalfLock => "half-lock",
            Self::HolderLock => "holder-lock",
            Self::HolderResource => "holder-resource",
            Self::LeaderPeers => "leader-peers",
        }
    }
}

/// The faults of a suite that names none: those of the built-in suite `default`, which names its own.
pub(super) fn default_faults() -> Vec<Fault> {
    super::BUILT_IN[0].suite().fault
}
