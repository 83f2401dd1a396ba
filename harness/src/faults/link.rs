//! Faults of one worker's link to one service: hole, lost reply, latency, through the fault proxy's API.
//!
//! The begin line stands where the API call returned, which is when the toxic is in force. That it answered is no
//! evidence; evidence is a request through the link that fares as the fault says, and the bytes counted meanwhile.

use std::time::Duration;

use fencepost_checker::history::{FaultEvent, FaultOutcome};
use fencepost_workloads::suite::{Fault, FaultKind, Link};

use super::nemesis::{Means, Reserved, event, worker_name};
use super::probe::{Passage, probe};
use crate::proxies::{Bytes, ProxyError, Stream, Toxic};
use crate::run_record::PlannedFault;

/// How long a probe waits before it calls a link silent.
const SILENCE: Duration = Duration::from_millis(250);
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

/// The drawn worker's link, or that of the next worker whose link is free.
fn free_link<'a>(
    means: &'a Means,
    planned: &PlannedFault,
    service: &str,
) -> Option<(String, Reserved<'a>)> {
    let drawn = planned.worker? as usize;
    (0..means.workers).find_map(|step| {
        let name = format!("{}-{service}", worker_name((drawn + step) % means.workers));
        means
            .reserve(std::slice::from_ref(&name))
            .map(|reserved| (name, reserved))
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

/// Probes the link until it fares as the fault says, or the fault's time is over.
async fn evidence(
    means: &Means,
    proxy: &str,
    kind: FaultKind,
    delay: Duration,
    ends: Duration,
) -> Result<String, String> {
    let mut last = "there was no time to probe".to_owned();
    while means.clock.now() < ends && !*means.stop.borrow() {
        match look(means, proxy, kind, delay).await {
            Ok(Ok(evidence)) => return Ok(evidence),
            Ok(Err(otherwise)) => last = otherwise,
            Err(error) => last = error.to_string(),
        }
        means
            .sleep(means.clock.now() + Duration::from_millis(50))
            .await;
    }
    Err(format!("no evidence: {last}"))
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
    let (up, down) = match (before, during) {
        (Some(before), Some(during)) => passed(before, during),
        // A proxy that counts nothing leaves the probe alone to speak.
        _ => (u64::from(kind == FaultKind::LostReply), 0),
    };
    let counted = format!("{up} bytes up and {down} down meanwhile");
    Ok(match (kind, passage) {
        (FaultKind::Hole, Passage::Silent) if up == 0 && down == 0 => {
            Ok(format!("a probe got no answer in {SILENCE:?}, {counted}"))
        }
        (FaultKind::LostReply, Passage::Silent) if up > 0 && down == 0 => Ok(format!(
            "a probe's request passed and got no answer in {SILENCE:?}, {counted}"
        )),
        (FaultKind::Latency, Passage::Answered(after)) if after >= delay => Ok(format!(
            "a probe was answered after {:.1} ms with {} ms added",
            after.as_secs_f64() * 1e3,
            delay.as_millis()
        )),
        (_, other) => Err(format!("a probe saw {other:?}, {counted}")),
    })
}

/// Bytes sent on towards the service and towards the worker between two counts.
fn passed(before: Bytes, during: Bytes) -> (u64, u64) {
    (
        during.up.saturating_sub(before.up),
        during.down.saturating_sub(before.down),
    )
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
