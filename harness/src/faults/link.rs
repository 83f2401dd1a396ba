//! Faults of links, of one worker or of several to a service or of peers to a leader: hole, stall, lost request, lost
//! reply, latency, bandwidth, refuse, reset, through the fault proxy's API.
//!
//! The begin line stands where the API call returned, which is when the toxic is in force. That it answered is no
//! evidence; evidence is a request through the link that fares as the fault says, and the bytes counted meanwhile.

use std::time::Duration;

use fencepost_checker::history::{FaultEvent, FaultOutcome};
use fencepost_workloads::suite::{Fault, FaultKind, Link};

use super::nemesis::{Means, Reserved, event, worker_name};
use super::probe::{Passage, probe};
use super::service;
use super::zombie::take_holder;
use crate::proxies::{ProxyError, Stream, Toxic};
use crate::run_record::PlannedFault;
use crate::runner::conductor::Wish;
use crate::targets::{PEERS, Service, Wire, link_of};

/// How long a probe waits before it calls a link silent.
const SILENCE: Duration = Duration::from_millis(250);
/// How long between two probes.
const BETWEEN_PROBES: Duration = Duration::from_millis(50);
/// How long a healed link may take until it passes a request again.
const PASSES_WITHIN: Duration = Duration::from_secs(2);

/// How long a fault on several links waits until nothing else is done to any of them.
const FREE_WITHIN: Duration = Duration::from_secs(5);
/// What stalls a link holds everything back for so long, in milliseconds: longer than any fault lasts.
const STALLED: u32 = 86_400_000;
/// A probe's request has at least so many bytes.
const REQUEST: f64 = 60.0;

/// The links that are about to be struck: their proxies, and who is kept from them meanwhile.
struct Victim<'a> {
    names: Vec<String>,
    wires: Vec<&'a Wire>,
    /// The node that led when it was struck, if it is a link to a leader.
    led: Option<usize>,
    _reserved: Reserved<'a>,
}

pub(super) async fn inject(means: &Means, planned: &PlannedFault, fault: &Fault) {
    let victim = match fault.link {
        Some(Link::LeaderPeers) => leader_peers(means).await,
        Some(Link::AllLock) => several(means, (0..means.workers).collect()).await,
        Some(Link::HalfLock) => {
            let drawn = planned.worker.unwrap_or(0) as usize;
            let half = (0..means.workers.div_ceil(2)).map(|step| (drawn + step) % means.workers);
            several(means, half.collect()).await
        }
        Some(Link::WorkerResource) => free_links(means, planned, &[Service::Resource]),
        Some(Link::WorkerBoth) => free_links(means, planned, &Service::ALL),
        Some(Link::HolderLock) => holder_link(means, Service::Lock).await,
        Some(Link::HolderResource) => holder_link(means, Service::Resource).await,
        _ => free_links(means, planned, &[Service::Lock]),
    };
    let victim = match victim {
        Ok(victim) => victim,
        Err(why) => {
            means.skip(event(planned, fault.kind, Vec::new()), why);
            return;
        }
    };
    let line = event(planned, fault.kind, victim.names.clone());
    if !means.announce(&line) {
        return;
    }
    let force = Force::of(planned, fault);
    let ends = means.clock.now() + Duration::from_millis(planned.length_ms);
    for wire in &victim.wires {
        let installed = match force.toxic() {
            Some(toxic) => means.proxies.add(&wire.proxy, toxic).await,
            None => means.proxies.set_enabled(&wire.proxy, false).await,
        };
        let Err(error) = installed else { continue };
        // It may be in force all the same: so it is cleared, and its outcome is unknown.
        means.begin(FaultEvent {
            outcome: Some(FaultOutcome::Unknown),
            evidence: Some(error.to_string()),
            ..line.clone()
        });
        let cleared = heal(means, &victim, force).await;
        means.end(FaultEvent {
            outcome: Some(FaultOutcome::Unknown),
            evidence: Some(cleared),
            ..line
        });
        return;
    }
    means.begin(line.clone());
    let evidence = evidence(means, &victim.wires, force, ends).await;
    means.sleep(ends).await;
    let succession = match victim.led {
        Some(led) => format!("; {}", who_leads(means, led).await),
        None => String::new(),
    };
    let healed = heal(means, &victim, force).await;
    let outcome = if evidence.is_ok() {
        FaultOutcome::Installed
    } else {
        FaultOutcome::Unknown
    };
    let evidence = evidence.unwrap_or_else(|why| why);
    means.end(FaultEvent {
        outcome: Some(outcome),
        evidence: Some(format!("{evidence}{succession}; {healed}")),
        ..line
    });
}

/// What is done to each proxy of a link.
#[derive(Clone, Copy, Debug)]
struct Force {
    kind: FaultKind,
    /// How much later answers come, at least.
    delay: Duration,
    jitter: Duration,
    /// Kilobytes a second that still pass.
    kilobytes: u32,
}

impl Force {
    fn of(planned: &PlannedFault, fault: &Fault) -> Self {
        Self {
            kind: fault.kind,
            delay: Duration::from_millis(planned.delay_ms.unwrap_or(0)),
            jitter: fault.jitter.map_or(Duration::ZERO, |jitter| jitter.0),
            kilobytes: fault.kilobytes.map_or(1, |kilobytes| kilobytes.0),
        }
    }

    /// What is put on the proxy; nothing where it is closed instead.
    fn toxic(self) -> Option<Toxic> {
        let millis = |duration: Duration| u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
        Some(match self.kind {
            FaultKind::Refuse => return None,
            FaultKind::LostReply => Toxic::hole(Stream::Down),
            FaultKind::LostRequest => Toxic::hole(Stream::Up),
            FaultKind::Stall => Toxic::Latency {
                stream: Stream::Both,
                ms: STALLED,
                jitter_ms: 0,
            },
            FaultKind::Latency => Toxic::Latency {
                stream: Stream::Down,
                ms: millis(self.delay),
                jitter_ms: millis(self.jitter),
            },
            FaultKind::Bandwidth => Toxic::Bandwidth {
                kilobytes_per_second: self.kilobytes,
                stream: Stream::Both,
            },
            FaultKind::Reset => Toxic::ResetPeer {
                stream: Stream::Up,
                ms: 0,
            },
            _ => Toxic::hole(Stream::Both),
        })
    }

    /// How much later than at once an answer to a probe must come, where it must come.
    fn least(self) -> Duration {
        match self.kind {
            FaultKind::Bandwidth => {
                Duration::from_secs_f64(REQUEST / (f64::from(self.kilobytes) * 1e3))
            }
            _ => self.delay.saturating_sub(self.jitter),
        }
    }

    /// How long a probe waits before it calls the link silent.
    fn patience(self) -> Duration {
        match self.kind {
            // Request and answer, each twice as large as they are.
            FaultKind::Bandwidth => SILENCE + 8 * self.least(),
            _ => SILENCE + self.delay + self.jitter,
        }
    }
}

/// The lock links of all of `workers`, once nothing is being done to any of them.
async fn several(means: &Means, workers: Vec<usize>) -> Result<Victim<'_>, &'static str> {
    let names: Vec<String> = workers
        .iter()
        .map(|&worker| link_of(worker, Service::Lock))
        .collect();
    let deadline = means.clock.now() + FREE_WITHIN;
    loop {
        let busy = means.busy_nodes();
        if !workers
            .iter()
            .any(|&worker| busy.contains(&worker_name(worker)))
            && let Some(reserved) = means.reserve(&names)
        {
            return Ok(Victim {
                wires: names.iter().flat_map(|name| wires(means, name)).collect(),
                names,
                led: None,
                _reserved: reserved,
            });
        }
        let next = means.clock.now() + BETWEEN_PROBES;
        if next > deadline || !means.sleep(next).await {
            return Err("something was being done to one of the links, or to its worker, for 5 s");
        }
    }
}

/// The drawn worker's links, or those of the next worker whose links are free and to whom nothing else is being done: a
/// zombie that wakes behind a cut link would prove nothing.
fn free_links<'a>(
    means: &'a Means,
    planned: &PlannedFault,
    services: &[Service],
) -> Result<Victim<'a>, &'static str> {
    let drawn = planned.worker.unwrap_or(0) as usize;
    let busy = means.busy_nodes();
    let free = (0..means.workers).find_map(|step| {
        let worker = (drawn + step) % means.workers;
        if busy.contains(&worker_name(worker)) {
            return None;
        }
        let names: Vec<String> = services
            .iter()
            .map(|&service| link_of(worker, service))
            .collect();
        let reserved = means.reserve(&names)?;
        Some(Victim {
            wires: names.iter().flat_map(|name| wires(means, name)).collect(),
            names,
            led: None,
            _reserved: reserved,
        })
    });
    free.ok_or("something was being done to every such link")
}

/// The link of a holder of a newest token. It goes on working: what it asks for next is what the fault strikes.
async fn holder_link(means: &Means, service: Service) -> Result<Victim<'_>, &'static str> {
    let taken = take_holder(means, false).await;
    let held = taken.ok_or("no holder with a rival on another worker within 2 s")?;
    let name = link_of(held.worker, service);
    let reserved = means.reserve(std::slice::from_ref(&name));
    means.wish(Wish::LetGo {
        worker: held.worker,
        aim: None,
    });
    Ok(Victim {
        wires: wires(means, &name),
        names: vec![name],
        led: None,
        _reserved: reserved.ok_or("something was begun on the holder's link just then")?,
    })
}

/// The link on which its peers reach the node that leads now.
async fn leader_peers(means: &Means) -> Result<Victim<'_>, &'static str> {
    let struck = service::leader(means).await?;
    let name = format!("{}-{PEERS}", struck.name);
    Ok(Victim {
        wires: wires(means, &name),
        names: vec![name],
        led: Some(struck.node),
        _reserved: struck.reserved,
    })
}

fn wires<'a>(means: &'a Means, link: &str) -> Vec<&'a Wire> {
    means
        .wires
        .iter()
        .filter(|wire| wire.link == link)
        .collect()
}

/// Whether the others found another leader meanwhile.
async fn who_leads(means: &Means, led: usize) -> String {
    let before = means.target.name(led);
    match means.target.leader().await {
        Some(now) if now == led => format!("{before} still led at its end"),
        Some(now) => format!("{} led at its end, {before} before", means.target.name(now)),
        None => format!("nobody was known to lead at its end, {before} did before"),
    }
}

/// Probes the link until it fares as the fault says, or the fault's time is over, or the run's.
async fn evidence(
    means: &Means,
    wires: &[&Wire],
    force: Force,
    ends: Duration,
) -> Result<String, String> {
    let probing = async {
        loop {
            let otherwise = match look(means, wires, force).await {
                Ok(Ok(evidence)) => return Ok(evidence),
                Ok(Err(otherwise)) => otherwise,
                Err(error) => error.to_string(),
            };
            let next = means.clock.now() + BETWEEN_PROBES;
            if next > ends || !means.sleep(next).await {
                return Err(format!("no evidence: {otherwise}"));
            }
        }
    };
    tokio::select! {
        found = probing => found,
        _ = means.sleep(ends) => Err("no evidence: the fault ended before a probe did".to_owned()),
    }
}

/// One probe of each proxy, all at once; the inner result says whether they fared as the fault says.
async fn look(
    means: &Means,
    wires: &[&Wire],
    force: Force,
) -> Result<Result<String, String>, ProxyError> {
    let mut before = Vec::new();
    for wire in wires {
        before.push(means.proxies.bytes(&wire.proxy).await?);
    }
    let mut probes = tokio::task::JoinSet::new();
    for (part, wire) in wires.iter().enumerate() {
        let (listen, greeting) = (wire.listen.to_string(), wire.greeting);
        probes.spawn(async move { (part, probe(&listen, greeting, force.patience()).await) });
    }
    let mut passages = probes.join_all().await;
    passages.sort_by_key(|(part, _)| *part);
    let mut seen = Vec::new();
    for ((wire, before), (_, passage)) in wires.iter().zip(before).zip(passages) {
        let during = means.proxies.bytes(&wire.proxy).await?;
        // `None` where the proxy counts nothing: then the probe alone speaks, and the evidence says so.
        let counted = before.zip(during).map(|(before, during)| Counted {
            up: during.up.saturating_sub(before.up),
            down: during.down.saturating_sub(before.down),
            answered: during.down_received.saturating_sub(before.down_received),
        });
        seen.push((passage, counted));
    }
    Ok(judge(force, &seen))
}

/// Bytes counted by the proxy while a probe was under way.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counted {
    /// Handed on to the service.
    up: u64,
    /// Handed on to the worker.
    down: u64,
    /// Sent by the service, handed on or not.
    answered: u64,
}

/// Whether what was seen on all proxies of a link is what the fault does, in words either way. One at least must show
/// it; of the others, those that lead to a node that is down or stopped show nothing, and none may show the contrary.
fn judge(force: Force, seen: &[(Passage, Option<Counted>)]) -> Result<String, String> {
    let judged: Vec<_> = seen
        .iter()
        .map(|&(passage, counted)| judge_one(force, passage, counted))
        .collect();
    let words = |wanted: fn(&Sight) -> bool| {
        let words: Vec<&str> = judged
            .iter()
            .filter(|(sight, _)| wanted(sight))
            .map(|(_, words)| words.as_str())
            .collect();
        words.join(", and ")
    };
    let shows = |wanted: Sight| judged.iter().any(|(sight, _)| *sight == wanted);
    if shows(Sight::Proof) && !shows(Sight::Contrary) {
        Ok(words(|sight| *sight == Sight::Proof))
    } else {
        Err(words(|sight| *sight != Sight::Proof))
    }
}

/// What one proxy showed of a fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sight {
    /// It does what it says.
    Proof,
    /// Nothing either way.
    Nothing,
    /// It does not.
    Contrary,
}

fn judge_one(force: Force, passage: Passage, counted: Option<Counted>) -> (Sight, String) {
    let bytes = counted.map_or("the proxy counts no bytes".to_owned(), |counted| {
        let Counted { up, down, answered } = counted;
        format!("meanwhile {up} bytes reached the service, it sent {answered}, {down} came back")
    });
    let counts = |fits: fn(Counted) -> bool| counted.is_none_or(fits);
    let silent = format!("a probe got no answer in {SILENCE:?}; {bytes}");
    let saw = format!("a probe saw {passage:?}; {bytes}");
    match (force.kind, passage) {
        (FaultKind::Hole | FaultKind::Stall, Passage::Silent)
            if counts(|c| c.up == 0 && c.down == 0) =>
        {
            (Sight::Proof, silent)
        }
        (FaultKind::LostRequest, Passage::Silent) if counts(|c| c.up == 0) => {
            (Sight::Proof, silent)
        }
        (FaultKind::Bandwidth, Passage::Answered(after)) if after >= force.least() => (
            Sight::Proof,
            format!(
                "a probe was answered after {:.1} ms at {} kilobytes a second",
                after.as_secs_f64() * 1e3,
                force.kilobytes
            ),
        ),
        // Ports that an engine publishes take a connection before they see that nobody is behind.
        (FaultKind::Refuse, Passage::Refused | Passage::Closed) if counts(|c| c.down == 0) => {
            (Sight::Proof, format!("a probe was refused; {bytes}"))
        }
        // That the service did answer tells a lost reply from a service that is stopped.
        (FaultKind::LostReply, Passage::Silent)
            if counts(|c| c.up > 0 && c.answered > 0 && c.down == 0) =>
        {
            (Sight::Proof, silent)
        }
        (FaultKind::Latency, Passage::Answered(after)) if after >= force.least() => (
            Sight::Proof,
            format!(
                "a probe was answered after {:.1} ms with {} ms added",
                after.as_secs_f64() * 1e3,
                force.delay.as_millis()
            ),
        ),
        (FaultKind::Reset, Passage::Closed) if counts(|c| c.down == 0) => (
            Sight::Proof,
            format!("a probe's connection was closed without an answer; {bytes}"),
        ),
        (_, Passage::Answered(_)) => (Sight::Contrary, saw),
        (FaultKind::Hole | FaultKind::Stall, _) if !counts(|c| c.up == 0 && c.down == 0) => {
            (Sight::Contrary, saw)
        }
        (FaultKind::LostRequest, _) if !counts(|c| c.up == 0) => (Sight::Contrary, saw),
        (FaultKind::LostReply, _) if !counts(|c| c.down == 0) => (Sight::Contrary, saw),
        _ => (Sight::Nothing, saw),
    }
}

/// Clears the link and waits until it passes a request, as far as its service is up.
async fn heal(means: &Means, victim: &Victim<'_>, force: Force) -> String {
    for wire in &victim.wires {
        let healed = match force.toxic() {
            Some(_) => means.proxies.clear(&wire.proxy).await.map(drop),
            None => means.proxies.set_enabled(&wire.proxy, true).await,
        };
        if let Err(error) = healed {
            let (proxy, trouble) = (&wire.proxy, &means.trouble);
            let _ = trouble.send(format!("{proxy} could not be healed: {error}"));
            return error.to_string();
        }
    }
    let deadline = means.clock.now() + PASSES_WITHIN;
    while means.clock.now() < deadline {
        for wire in &victim.wires {
            // Made anew, it may listen elsewhere only where the server chose the port; ours are chosen by us.
            let listen = wire.listen.to_string();
            if let Passage::Answered(after) = probe(&listen, wire.greeting, SILENCE).await {
                return format!(
                    "healed: a probe was answered after {:.1} ms",
                    after.as_secs_f64() * 1e3
                );
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    "healed, but no probe was answered: its service is down or stopped".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(50);

    fn force(kind: FaultKind) -> Force {
        Force {
            kind,
            delay: DELAY,
            jitter: Duration::ZERO,
            kilobytes: 1,
        }
    }

    fn counted(up: u64, answered: u64, down: u64) -> Option<Counted> {
        Some(Counted { up, down, answered })
    }

    #[test]
    fn only_what_the_fault_does_is_evidence_of_it() {
        let late = Passage::Answered(DELAY);
        let early = Passage::Answered(Duration::from_millis(1));
        for (kind, passage, bytes, proves) in [
            (FaultKind::Hole, Passage::Silent, counted(0, 0, 0), true),
            (FaultKind::Hole, Passage::Silent, counted(90, 0, 0), false),
            (FaultKind::Hole, Passage::Closed, counted(0, 0, 0), false),
            (FaultKind::Hole, early, counted(90, 200, 200), false),
            (
                FaultKind::LostReply,
                Passage::Silent,
                counted(90, 200, 0),
                true,
            ),
            // The service is stopped: the request passed, and there was no answer to lose.
            (
                FaultKind::LostReply,
                Passage::Silent,
                counted(90, 0, 0),
                false,
            ),
            (
                FaultKind::LostReply,
                Passage::Silent,
                counted(0, 0, 0),
                false,
            ),
            (FaultKind::LostReply, early, counted(90, 200, 200), false),
            (FaultKind::Reset, Passage::Closed, counted(0, 0, 0), true),
            (FaultKind::Reset, Passage::Closed, counted(9, 9, 9), false),
            (FaultKind::Reset, Passage::Silent, counted(0, 0, 0), false),
            (FaultKind::Reset, early, counted(90, 200, 200), false),
            (FaultKind::Stall, Passage::Silent, counted(0, 0, 0), true),
            (FaultKind::Stall, early, counted(90, 200, 200), false),
            (
                FaultKind::LostRequest,
                Passage::Silent,
                counted(0, 9, 9),
                true,
            ),
            (
                FaultKind::LostRequest,
                Passage::Silent,
                counted(90, 0, 0),
                false,
            ),
            (FaultKind::Refuse, Passage::Refused, counted(0, 0, 0), true),
            (FaultKind::Refuse, early, counted(90, 200, 200), false),
            (
                FaultKind::Bandwidth,
                Passage::Answered(Duration::from_millis(61)),
                counted(90, 200, 200),
                true,
            ),
            (FaultKind::Bandwidth, early, counted(90, 200, 200), false),
            (FaultKind::Latency, late, counted(90, 200, 200), true),
            (FaultKind::Latency, early, counted(90, 200, 200), false),
            (
                FaultKind::Latency,
                Passage::Silent,
                counted(90, 200, 0),
                false,
            ),
        ] {
            let judged = judge(force(kind), &[(passage, bytes)]);
            assert_eq!(
                judged.is_ok(),
                proves,
                "{kind:?} {passage:?} {bytes:?}: {judged:?}"
            );
        }
    }

    #[test]
    fn of_several_proxies_one_must_show_the_fault_and_none_the_contrary() {
        let cut = (Passage::Silent, counted(0, 0, 0));
        let down = (Passage::Closed, counted(0, 0, 0));
        let whole = (
            Passage::Answered(Duration::from_millis(1)),
            counted(90, 200, 200),
        );
        let leaks = (Passage::Closed, counted(0, 0, 40));
        for (seen, proves) in [
            ([cut, cut, cut], true),
            ([cut, down, cut], true),
            ([down, down, down], false),
            ([cut, cut, whole], false),
            ([cut, cut, leaks], false),
        ] {
            let judged = judge(force(FaultKind::Hole), &seen);
            assert_eq!(judged.is_ok(), proves, "{seen:?}: {judged:?}");
        }
    }

    #[test]
    fn a_proxy_that_counts_nothing_is_said_to_count_nothing() {
        let evidence = judge(force(FaultKind::Hole), &[(Passage::Silent, None)]).expect("silence");
        assert!(evidence.contains("counts no bytes"), "{evidence}");
    }
}
