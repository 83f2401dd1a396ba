//! What only containers allow, besides the freezer: dropped packets, a network taken away, an empty volume, a second
//! authority, a clock that jumps. Each with evidence, each undone.

use std::sync::Arc;
use std::time::Duration;

use fencepost_workloads::suite::{Direction, Fault, FaultKind, On};

use super::nemesis::{Means, Reserved, event, on_node, worker_name};
use super::probe::{Passage, probe};
use super::service;
use super::zombie::take_and_reserve;
use crate::run_record::PlannedFault;
use crate::runner::conductor::Wish;
use crate::targets::docker::{Estate, cut};
use crate::targets::{Service, SharedNode, link_of, proc};

/// How long a probe waits before it calls a node silent.
const SILENCE: Duration = Duration::from_millis(400);
/// How long a worker may take until it sends something, so that a packet of it is dropped.
const SENDS_WITHIN: Duration = Duration::from_secs(1);
/// How long a node may take until it answers again.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// The second lock service's name.
const SECOND: &str = "lock-2";

/// What is struck, and nothing else done to it meanwhile.
struct Victim<'a> {
    name: String,
    node: SharedNode,
    /// Its number among the services' nodes; none for a worker.
    service: Option<usize>,
    _reserved: Reserved<'a>,
}

pub(super) async fn inject(means: &Means, planned: &PlannedFault, fault: &Fault) {
    let Some(estate) = means.target.estate() else {
        means.skip(
            event(planned, fault.kind, Vec::new()),
            "there are no containers",
        );
        return;
    };
    if fault.kind == FaultKind::SecondIssuer {
        second_issuer(means, planned, estate).await;
        return;
    }
    let victim = match victim(means, planned, fault).await {
        Ok(victim) => victim,
        Err(why) => {
            means.skip(event(planned, fault.kind, Vec::new()), why);
            return;
        }
    };
    let line = event(planned, fault.kind, vec![victim.name.clone()]);
    if !means.announce(&line) {
        return;
    }
    let ends = means.clock.now() + Duration::from_millis(planned.length_ms);
    let installed = install(means, estate, &victim, planned, fault).await;
    let outcome = means.begin_with(&line, installed);
    means.sleep(ends).await;
    let undone = undo(means, estate, &victim, fault).await;
    if let Err(why) = &undone {
        // The receiver is gone only when the run has ended for another reason.
        let _ = means.trouble.send(format!("{}: {why}", victim.name));
    }
    means.end_with(line, outcome, undone);
}

async fn victim<'a>(
    means: &'a Means,
    planned: &PlannedFault,
    fault: &Fault,
) -> Result<Victim<'a>, &'static str> {
    if matches!(fault.on, Some(On::Worker | On::Node(_))) {
        return worker(means, planned, fault)
            .ok_or("something else was being done to every worker that would do");
    }
    if fault.on == Some(On::Holder) {
        let (held, reserved) = take_and_reserve(means, false)
            .await
            .ok_or("no holder with a rival on another worker within 2 s")?;
        // It goes on as if it held the lock: what it sends then is what is cut off.
        means.wish(Wish::LetGo {
            worker: held.worker,
            aim: None,
        });
        return Ok(Victim {
            name: worker_name(held.worker),
            node: means.target.worker(held.worker),
            service: None,
            _reserved: reserved,
        });
    }
    let struck = service::pick(means, planned, fault).await?;
    Ok(Victim {
        name: struck.name,
        node: means.target.node(struck.node),
        service: Some(struck.node),
        _reserved: struck.reserved,
    })
}

/// The worker that was drawn, or the next one that is free with both its links.
fn worker<'a>(means: &'a Means, planned: &PlannedFault, fault: &Fault) -> Option<Victim<'a>> {
    let drawn = planned.worker? as usize;
    let choices = match fault.on {
        Some(On::Node(_)) => 1,
        _ => means.workers,
    };
    (0..choices)
        .map(|step| (drawn + step) % means.workers)
        .find_map(|worker| {
            let name = worker_name(worker);
            let links = Service::ALL.map(|service| link_of(worker, service));
            let reserved = means.reserve(&[&[name.clone()][..], &links].concat())?;
            Some(Victim {
                name,
                node: means.target.worker(worker),
                service: None,
                _reserved: reserved,
            })
        })
}

async fn install(
    means: &Means,
    estate: &Estate,
    victim: &Victim<'_>,
    planned: &PlannedFault,
    fault: &Fault,
) -> Result<String, String> {
    match fault.kind {
        FaultKind::Cut => {
            let direction = fault.direction.unwrap_or(Direction::Both);
            let pid = pid_of(victim)?;
            let done = off_the_loop(move || cut::install(pid, direction)).await?;
            let seen = silent(means, victim).await?;
            // A service was knocked at; a worker sends when it has something to say.
            let deadline = means.clock.now() + SENDS_WITHIN;
            loop {
                match off_the_loop(move || cut::dropped(pid)).await? {
                    0 if victim.service.is_none() && means.clock.now() < deadline => {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    0 => return Err(format!("{done}; {seen}, and yet no packet was dropped")),
                    dropped => {
                        return Ok(format!("{done}; {seen}; {dropped} packets dropped so far"));
                    }
                }
            }
        }
        FaultKind::Disconnect => {
            estate
                .disconnect(&victim.name)
                .await
                .map_err(|error| error.to_string())?;
            let seen = silent(means, victim).await?;
            Ok(format!(
                "{}; {seen}",
                on_network(estate, victim, false).await?
            ))
        }
        FaultKind::Redeploy => on_node(Arc::clone(&victim.node), |node| node.kill()).await,
        FaultKind::Clock => {
            let by = Duration::from_millis(planned.by_ms.unwrap_or(0));
            let back = fault.direction == Some(Direction::Back);
            let before = clock_of(estate, victim).await?;
            estate
                .set_clock(&victim.name, by, back)
                .await
                .map_err(|error| error.to_string())?;
            jumped(before, clock_of(estate, victim).await?, by, back)
        }
        kind => Err(format!("{} is not done to a container", kind.name())),
    }
}

async fn undo(
    means: &Means,
    estate: &Estate,
    victim: &Victim<'_>,
    fault: &Fault,
) -> Result<String, String> {
    match fault.kind {
        FaultKind::Cut => {
            let direction = fault.direction.unwrap_or(Direction::Both);
            let pid = pid_of(victim)?;
            let dropped = off_the_loop(move || cut::remove(pid, direction)).await?;
            let seen = answers(means, victim).await?;
            Ok(format!("healed after {dropped} dropped packets; {seen}"))
        }
        FaultKind::Disconnect => {
            estate
                .reconnect(&victim.name)
                .await
                .map_err(|error| error.to_string())?;
            let seen = answers(means, victim).await?;
            Ok(format!(
                "{}; {seen}",
                on_network(estate, victim, true).await?
            ))
        }
        FaultKind::Redeploy => {
            let node = victim.service.ok_or("only services are deployed anew")?;
            let again = means.target.redeploy(node).await;
            again.map_err(|error| error.to_string())
        }
        FaultKind::Clock => {
            estate
                .set_clock(&victim.name, Duration::ZERO, false)
                .await
                .map_err(|error| error.to_string())?;
            match clock_of(estate, victim).await? {
                off if off.abs() <= 2 => Ok("its clock is right again".to_owned()),
                off => Err(format!("its clock is still {off} s off")),
            }
        }
        kind => Err(format!("{} is not done to a container", kind.name())),
    }
}

fn pid_of(victim: &Victim<'_>) -> Result<i32, String> {
    let node = victim
        .node
        .lock()
        .expect("no holder of a node's lock panics");
    node.pid().ok_or_else(|| {
        "its processes are not of this machine: only its engine can cut it off (disconnect)"
            .to_owned()
    })
}

async fn off_the_loop<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work)
        .await
        .expect("programs that are run do not panic")
}

/// The door of a service, and what it answers; none for a worker, who has no door.
fn door(means: &Means, victim: &Victim<'_>) -> Option<(String, super::Greeting)> {
    let (address, greeting) = means.target.door(victim.service?);
    Some((address.to_string(), greeting))
}

/// That a node is on the run's network, or off it, as its own network shows where it can be seen from here.
async fn on_network(estate: &Estate, victim: &Victim<'_>, wanted: bool) -> Result<String, String> {
    let (there, who) = match pid_of(victim).ok().and_then(proc::interfaces) {
        Some(names) => (!names.is_empty(), "it has"),
        None => {
            let there = estate.is_connected(&victim.name).await;
            (
                there.map_err(|error| error.to_string())?,
                "the engine knows of",
            )
        }
    };
    let words = match there {
        true => format!("{who} a way out of its container"),
        false => format!("{who} no way out of its container"),
    };
    if there == wanted {
        Ok(words)
    } else {
        Err(words)
    }
}

/// A service that is cut off answers nobody: not even a SYN, or at least no request. A worker has no door to knock at.
async fn silent(means: &Means, victim: &Victim<'_>) -> Result<String, String> {
    let Some((address, greeting)) = door(means, victim) else {
        return Ok("it is a worker, and asked nothing".to_owned());
    };
    match probe(&address, greeting, SILENCE).await {
        Passage::Answered(after) => Err(format!("a probe was answered after {after:?}")),
        _ => Ok(format!("a probe got no answer in {SILENCE:?}")),
    }
}

async fn answers(means: &Means, victim: &Victim<'_>) -> Result<String, String> {
    let Some((address, greeting)) = door(means, victim) else {
        return Ok("it is a worker, and asked nothing".to_owned());
    };
    let deadline = means.clock.now() + ANSWERS_WITHIN;
    loop {
        if let Passage::Answered(after) = probe(&address, greeting, SILENCE).await {
            return Ok(format!(
                "a probe was answered after {:.1} ms",
                after.as_secs_f64() * 1e3
            ));
        }
        if means.clock.now() > deadline {
            return Err(format!("no probe was answered within {ANSWERS_WITHIN:?}"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How far the wall clock inside is from ours, in seconds. A service's own `Date` would not do: it is kept until the
/// clock has passed it, and one that jumps back has not.
async fn clock_of(estate: &Estate, victim: &Victim<'_>) -> Result<i64, String> {
    let told = estate
        .ask_inside(&victim.name, &["/fencepost", "clock"])
        .await
        .map_err(|error| error.to_string())?;
    let seconds: i64 = told
        .trim()
        .parse()
        .map_err(|_| format!("it tells no time, but {:?}", told.trim()))?;
    Ok(seconds - chrono::Utc::now().timestamp())
}

fn jumped(before: i64, after: i64, by: Duration, back: bool) -> Result<String, String> {
    let seconds = i64::try_from(by.as_secs()).unwrap_or(i64::MAX);
    let wanted = if back { -seconds } else { seconds };
    let words = format!("the clock inside was {before} s from ours, and is {after} s from it");
    if (after - before - wanted).abs() <= 2 {
        Ok(words)
    } else {
        Err(format!("it should have jumped {wanted} s: {words}"))
    }
}

/// Another lock service on an empty volume, and every second worker led to it.
async fn second_issuer(means: &Means, planned: &PlannedFault, estate: &Estate) {
    let skipped = |why: &str| means.skip(event(planned, FaultKind::SecondIssuer, Vec::new()), why);
    let led: Vec<String> = (0..means.workers)
        .filter(|worker| worker % 2 == 0)
        .map(|worker| link_of(worker, Service::Lock))
        .collect();
    let Some(_reserved) = means.reserve_within(&led, ANSWERS_WITHIN).await else {
        skipped("something was being done to a link that was to be led elsewhere, for 5 s");
        return;
    };
    let line = event(planned, FaultKind::SecondIssuer, led.clone());
    if !means.announce(&line) {
        return;
    }
    let begun = start_second(means, estate, &led).await;
    let outcome = means.begin_with(&line, begun);
    means
        .sleep(means.clock.now() + Duration::from_millis(planned.length_ms))
        .await;
    let mut evidence = Vec::new();
    for wire in means.wires.iter().filter(|wire| led.contains(&wire.link)) {
        let back = means
            .proxies
            .create(&wire.proxy, wire.told, wire.upstream)
            .await;
        evidence.extend(back.err().map(|error| error.to_string()));
    }
    evidence.extend(
        estate
            .remove(SECOND)
            .await
            .err()
            .map(|error| error.to_string()),
    );
    for trouble in &evidence {
        // The receiver is gone only when the run has ended for another reason.
        let _ = means.trouble.send(format!("{SECOND}: {trouble}"));
    }
    let undone = if evidence.is_empty() {
        Ok("every worker is led to the first lock service again, the second is gone".to_owned())
    } else {
        Err(evidence.join("; "))
    };
    means.end_with(line, outcome, undone);
}

async fn start_second(means: &Means, estate: &Estate, led: &[String]) -> Result<String, String> {
    let upstream = means
        .target
        .start_second(SECOND)
        .await
        .map_err(|error| error.to_string())?;
    let mut answered = 0;
    for wire in means.wires.iter().filter(|wire| led.contains(&wire.link)) {
        means
            .proxies
            .create(&wire.proxy, wire.told, upstream)
            .await
            .map_err(|error| error.to_string())?;
        let listen = wire.listen.to_string();
        let deadline = means.clock.now() + ANSWERS_WITHIN;
        loop {
            match probe(&listen, wire.greeting, SILENCE).await {
                Passage::Answered(_) => break answered += 1,
                _ if means.clock.now() > deadline => {
                    return Err(format!(
                        "{}: no probe reached the second lock service",
                        wire.link
                    ));
                }
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }
    let name = estate.name_of(SECOND);
    Ok(format!(
        "{name} serves at {upstream}; a probe was answered on each of {answered} links that lead there now"
    ))
}
