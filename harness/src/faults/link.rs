//! Faults of one worker's link to one service: hole, lost reply, latency, through the fault proxy's API.
//!
//! The begin line stands where the API call returned, which is when the toxic is in force. That it answered is no
//! evidence; evidence is a request through the link that fares as the fault says, and the bytes counted meanwhile.

use std::time::Duration;

use fencepost_checker::history::{FaultEvent, FaultOutcome};
use fencepost_workloads::suite::{Fault, FaultKind, Link};

use super::nemesis::{Means, Reserved, event, worker_name};
use super::probe::{Passage, probe};
use crate::proxies::{ProxyError, Stream, Toxic};
use crate::run_record::PlannedFault;

/// How long a probe waits before it calls a link silent.
const SILENCE: Duration = Duration::from_millis(250);
/// How long between two probes.
const BETWEEN_PROBES: Duration = Duration::from_millis(50);
/// How long a healed link may take until it passes a request again.
const PASSES_WITHIN: Duration = Duration::from_secs(2);

pub(super) async fn inject(means: &Means, planned: &PlannedFault, fault: &Fault) {
    let service = if fault.link == Some(Link::WorkerResource) {
        "resource"
    } else {
        "lock"
    };
    let Some((name, _reserved)) = free_link(means, planned, service) else {
        means.skip(
            event(planned, fault.kind, Vec::new()),
            "something was being done to every such link",
        );
        return;
    };
    let line = event(planned, fault.kind, vec![name.clone()]);
    if !means.announce(&line) {
        return;
    }
    let proxy = format!("fp-{}-{name}", means.run);
    let delay = Duration::from_millis(planned.delay_ms.unwrap_or(0));
    let ends = means.clock.now() + Duration::from_millis(planned.length_ms);
    if let Err(error) = means.proxies.add(&proxy, toxic(fault.kind, delay)).await {
        // It may be in force all the same: so it is cleared, and its outcome is unknown.
        means.begin(FaultEvent {
            outcome: Some(FaultOutcome::Unknown),
            evidence: Some(error.to_string()),
            ..line.clone()
        });
        let cleared = heal(means, &proxy).await;
        means.end(FaultEvent {
            outcome: Some(FaultOutcome::Unknown),
            evidence: Some(cleared),
            ..line
        });
        return;
    }
    means.begin(line.clone());
    let evidence = evidence(means, &proxy, fault.kind, delay, ends).await;
    means.sleep(ends).await;
    let healed = heal(means, &proxy).await;
    let outcome = if evidence.is_ok() {
        FaultOutcome::Installed
    } else {
        FaultOutcome::Unknown
    };
    let evidence = evidence.unwrap_or_else(|why| why);
    means.end(FaultEvent {
        outcome: Some(outcome),
        evidence: Some(format!("{evidence}; {healed}")),
        ..line
    });
}

/// The drawn worker's link, or that of the next worker whose link is free and to whom nothing else is being done: a
/// zombie that wakes behind a cut link would prove nothing.
fn free_link<'a>(
    means: &'a Means,
    planned: &PlannedFault,
    service: &str,
) -> Option<(String, Reserved<'a>)> {
    let drawn = planned.worker? as usize;
    let busy = means.busy_nodes();
    (0..means.workers).find_map(|step| {
        let worker = worker_name((drawn + step) % means.workers);
        if busy.contains(&worker) {
            return None;
        }
        let name = format!("{worker}-{service}");
        let reserved = means.reserve(std::slice::from_ref(&name))?;
        Some((name, reserved))
    })
}

fn toxic(kind: FaultKind, delay: Duration) -> Toxic {
    match kind {
        FaultKind::LostReply => Toxic::Hole {
            stream: Stream::Down,
        },
        FaultKind::Latency => Toxic::Latency {
            stream: Stream::Down,
            ms: u32::try_from(delay.as_millis()).unwrap_or(u32::MAX),
            jitter_ms: 0,
        },
        _ => Toxic::Hole {
            stream: Stream::Both,
        },
    }
}

/// Probes the link until it fares as the fault says, or the fault's time is over, or the run's.
async fn evidence(
    means: &Means,
    proxy: &str,
    kind: FaultKind,
    delay: Duration,
    ends: Duration,
) -> Result<String, String> {
    let probing = async {
        loop {
            let otherwise = match look(means, proxy, kind, delay).await {
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

/// One probe; the inner result says whether it fared as the fault says.
async fn look(
    means: &Means,
    proxy: &str,
    kind: FaultKind,
    delay: Duration,
) -> Result<Result<String, String>, ProxyError> {
    let link = means.proxies.state(proxy).await?.listen;
    let before = means.proxies.bytes(proxy).await?;
    let passage = probe(&link, SILENCE + delay).await;
    let during = means.proxies.bytes(proxy).await?;
    // `None` where the proxy counts nothing: then the probe alone speaks, and the evidence says so.
    let counted = before.zip(during).map(|(before, during)| Counted {
        up: during.up.saturating_sub(before.up),
        down: during.down.saturating_sub(before.down),
        answered: during.down_received.saturating_sub(before.down_received),
    });
    Ok(judge(kind, delay, passage, counted))
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

/// Whether what was seen is what the fault does, in words either way.
fn judge(
    kind: FaultKind,
    delay: Duration,
    passage: Passage,
    counted: Option<Counted>,
) -> Result<String, String> {
    let bytes = counted.map_or("the proxy counts no bytes".to_owned(), |counted| {
        let Counted { up, down, answered } = counted;
        format!("meanwhile {up} bytes reached the service, it sent {answered}, {down} came back")
    });
    let counts = |fits: fn(Counted) -> bool| counted.is_none_or(fits);
    match (kind, passage) {
        (FaultKind::Hole, Passage::Silent) if counts(|c| c.up == 0 && c.down == 0) => {
            Ok(format!("a probe got no answer in {SILENCE:?}; {bytes}"))
        }
        // That the service did answer tells a lost reply from a service that is stopped.
        (FaultKind::LostReply, Passage::Silent)
            if counts(|c| c.up > 0 && c.answered > 0 && c.down == 0) =>
        {
            Ok(format!("a probe got no answer in {SILENCE:?}; {bytes}"))
        }
        (FaultKind::Latency, Passage::Answered(after)) if after >= delay => Ok(format!(
            "a probe was answered after {:.1} ms with {} ms added",
            after.as_secs_f64() * 1e3,
            delay.as_millis()
        )),
        (_, other) => Err(format!("a probe saw {other:?}; {bytes}")),
    }
}

/// Clears the link and waits until it passes a request, as far as its service is up.
async fn heal(means: &Means, proxy: &str) -> String {
    let link = match means.proxies.clear(proxy).await {
        Ok(_) => means.proxies.state(proxy).await.map(|state| state.listen),
        Err(error) => Err(error),
    };
    let link = match link {
        Ok(link) => link,
        Err(error) => {
            let _ = means
                .trouble
                .send(format!("{proxy} could not be healed: {error}"));
            return error.to_string();
        }
    };
    let deadline = means.clock.now() + PASSES_WITHIN;
    while means.clock.now() < deadline {
        if let Passage::Answered(after) = probe(&link, SILENCE).await {
            return format!(
                "healed: a probe was answered after {:.1} ms",
                after.as_secs_f64() * 1e3
            );
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    "healed, but no probe was answered: its service is down or stopped".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(50);

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
            (FaultKind::Latency, late, counted(90, 200, 200), true),
            (FaultKind::Latency, early, counted(90, 200, 200), false),
            (
                FaultKind::Latency,
                Passage::Silent,
                counted(90, 200, 0),
                false,
            ),
        ] {
            let judged = judge(kind, DELAY, passage, bytes);
            assert_eq!(
                judged.is_ok(),
                proves,
                "{kind:?} {passage:?} {bytes:?}: {judged:?}"
            );
        }
    }

    #[test]
    fn a_proxy_that_counts_nothing_is_said_to_count_nothing() {
        let evidence = judge(FaultKind::Hole, DELAY, Passage::Silent, None).expect("silence");
        assert!(evidence.contains("counts no bytes"), "{evidence}");
    }
}
