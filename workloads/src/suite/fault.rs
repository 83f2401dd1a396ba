//! `[[fault]]`: what is done to the system, how often, for how long.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Length, Misfit, Span};

/// One entry of the fault plan.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, try_from = "Written")]
pub struct Fault {
    /// What is done.
    pub kind: FaultKind,
    /// To which node (`pause`, `kill`); the zombie finds its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<On>,
    /// To which link (`hole`, `lost-reply`, `latency`, `reset`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// How often; jittered by the seed by a fifth either way.
    pub every: Span,
    /// How long it stays; drawn from the seed. A zombie ends when its successor has written, at the latest after this.
    pub length: Length,
    /// How much a `latency` fault adds to each answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Length>,
}

/// A fault as a suite writes it, before its defaults are filled in and its parts are held against its kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    kind: FaultKind,
    on: Option<On>,
    link: Option<Link>,
    every: Option<Span>,
    length: Option<Length>,
    delay: Option<Length>,
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
            every,
            length,
            delay,
        } = written;
        let name = kind.name();
        let (takes_on, takes_link) = match kind {
            FaultKind::Zombie => (false, false),
            FaultKind::Pause | FaultKind::Kill => (true, false),
            FaultKind::Hole | FaultKind::LostReply | FaultKind::Latency | FaultKind::Reset => {
                (false, true)
            }
        };
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
        let on = match (kind, on) {
            (FaultKind::Pause, on) => Some(on.unwrap_or(On::Worker)),
            (FaultKind::Kill, on @ (None | Some(On::Lock | On::Resource | On::Leader))) => {
                Some(on.unwrap_or(On::Resource))
            }
            (FaultKind::Kill, Some(other)) => {
                return unfit(
                    "on",
                    format!(
                        "a kill fault on {:?} cannot be done: \"lock\", \"resource\" or \"leader\" is right",
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
            every: every.unwrap_or(Span(Duration::from_secs(5))),
            length: length.unwrap_or(match kind {
                FaultKind::Zombie => Length::millis(6_000, 6_000),
                FaultKind::Kill => Length::millis(50, 300),
                _ => Length::millis(500, 2_000),
            }),
            delay: if kind == FaultKind::Latency {
                Some(delay.unwrap_or(Length::millis(20, 100)))
            } else {
                None
            },
        })
    }
}

impl Fault {
    /// The name under which plan, history and verdict count it: the kind, and where it strikes (`kill:lock`, `hole:worker-lock`).
    #[must_use]
    pub fn label(&self) -> String {
        match (&self.on, &self.link) {
            (Some(on), _) => format!("{}:{}", self.kind.name(), on.name()),
            (None, Some(link)) => format!("{}:{}", self.kind.name(), link.name()),
            (None, None) => self.kind.name().to_owned(),
        }
    }
}

impl Fault {
    /// Whether it is done to a server or to what stands between servers, and not to a worker or one of its links.
    #[must_use]
    pub fn strikes_a_server(&self) -> bool {
        matches!(self.on, Some(On::Lock | On::Resource | On::Leader))
            || self.link == Some(Link::LeaderPeers)
    }
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
    /// SIGKILL, then a restart on the same data.
    Kill,
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
        "SIGKILL a service, restart it on the same data after `length`",
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
            "leader" => Ok(Self::Leader),
            other => other
                .strip_prefix('w')
                .and_then(|number| number.parse().ok())
                .filter(|number| *number > 0)
                .map(Self::Node)
                .ok_or_else(|| serde::de::Error::custom(format!("{text:?} is no node: worker, holder, lock, resource, leader or a worker's name (w1) is right"))),
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
            Self::LeaderPeers => "leader-peers",
        }
    }
}

/// The faults of a suite that names none: those of the built-in suite `default`, which names its own.
pub(super) fn default_faults() -> Vec<Fault> {
    super::BUILT_IN[0].suite().fault
}
