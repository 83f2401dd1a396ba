//! What a run does to containers, tried on a container of our own that is removed afterwards.
//!
//! What is made is written into a journal as a run's is, so `fencepost heal` removes it where this is killed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_workloads::suite::Direction;

use crate::error::HarnessError;
use crate::journal::{Journal, state_folder};
use crate::machine;
use crate::runner::Interrupts;
use crate::targets::docker::{
    Container, ContainerCommand, Engine, Estate, EstatePlan, Reach, cut, remove_recorded,
};

/// What was tried, and what came of it.
type Tried = (&'static str, Result<String, String>);

/// So long nothing more of what was given up must have turned up, and how often is looked.
const QUIET_FOR: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// The node that everything is tried on.
const NODE: &str = "tried";

/// Another, that is made anew in the middle of it.
const BESIDE: &str = "beside";

/// Everything that the docker target needs, as far as there is an engine and no signal comes. Whatever comes, what was
/// made is removed.
pub(super) async fn containers(interrupts: &Interrupts) -> Vec<Tried> {
    let engine = match Engine::reach() {
        Ok(engine) => engine,
        Err(error) => return vec![("engine", Err(error.to_string()))],
    };
    let about = engine.about();
    let found = format!(
        "Docker {} (API {}) at {}",
        about.version,
        about.api,
        engine.host()
    );
    let mut tried = vec![("engine", Ok(found))];
    let run = machine::run_id();
    let journal = match Journal::create(&state_folder(), &run, None) {
        Ok(journal) => Arc::new(journal),
        Err(error) => {
            tried.push(("journal for heal", Err(error.to_string())));
            return tried;
        }
    };
    let stood = tokio::select! {
        stood = stand(&run, Arc::clone(&journal)) => Some(stood),
        () = interrupts.reach(1) => None,
    };
    match stood {
        None => tried.push(("take-down", clear(&run, &journal))),
        Some(Ok((seen, estate, container))) => {
            tried.push(("image, network and container", Ok(seen)));
            tokio::select! {
                struck = strike(&estate, container) => tried.extend(struck),
                () = interrupts.reach(1) => {}
            }
            let left = estate.take_down(false);
            let gone = match left.is_empty() {
                true => Ok("nothing of it is left".to_owned()),
                false => Err(left.join("; ")),
            };
            tried.push(("take-down", gone));
        }
        Some(Err(error)) => {
            tried.push(("image, network and container", Err(error.to_string())));
            // Where nothing could be made, nothing is to be told of it.
            if !journal.outside().docker.is_empty() {
                tried.push(("take-down", clear(&run, &journal)));
            }
        }
    }
    // What could not be removed stays in it, for heal.
    if tried.last().is_some_and(|(_, result)| result.is_ok()) {
        let _ = journal.remove();
    }
    tried
}

/// Removes what was being made. The engine carries out what it was asked for before that was given up, so it is looked for
/// until nothing more turns up.
fn clear(run: &str, journal: &Journal) -> Result<String, String> {
    let mut last = Instant::now();
    loop {
        let (removed, left) = remove_recorded(run, &journal.outside().docker);
        if !left.is_empty() {
            return Err(format!(
                "{}; `fencepost heal {run}` removes it",
                left.join("; ")
            ));
        }
        if !removed.is_empty() {
            last = Instant::now();
        } else if last.elapsed() >= QUIET_FOR {
            return Ok("nothing of it is left".to_owned());
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

async fn stand(
    run: &str,
    journal: Arc<Journal>,
) -> Result<(String, Estate, Container), HarnessError> {
    let begun = Instant::now();
    let executable = std::env::current_exe().map_err(|source| HarnessError::System {
        what: "find the running program",
        source,
    })?;
    let plan = EstatePlan {
        run,
        logs: std::env::temp_dir(),
        executable: &executable,
        links: 1,
        journal,
    };
    let estate = Estate::open(plan).await?;
    let container = estate.start_proxy(NODE, None).await?;
    let seen = format!(
        "{} up after {:.1} s, reached at {}",
        estate.image().tag,
        begun.elapsed().as_secs_f64(),
        estate.proxy_api()?
    );
    Ok((seen, estate, container))
}

async fn strike(estate: &Estate, mut container: Container) -> Vec<Tried> {
    let pid = container.crowd().map(crate::targets::Crowd::leader);
    let signals = match container.reach() {
        Reach::Host => "pause and zombie (SIGSTOP by host pid)",
        Reach::Engine => "pause and zombie (SIGSTOP through the engine)",
    };
    let both = |done: Result<String, String>, undone: Result<String, String>| {
        Ok(format!("{}; {}", done?, undone?))
    };
    let stopped = container.stop();
    let mut tried = vec![(signals, both(stopped, container.resume()))];
    let frozen = container.freeze();
    tried.push(("freeze", both(frozen, container.thaw())));
    let dropped = match pid {
        Some(pid) => cut::install(pid, Direction::Both)
            .and_then(|done| cut::remove(pid, Direction::Both).map(|_| done)),
        None => Err("the engine is not of this machine; disconnect is there instead".to_owned()),
    };
    tried.push(("cut (packet drop)", dropped));
    let off = estate
        .disconnect(NODE)
        .await
        .map(|()| "off its network".to_owned());
    let on = estate
        .reconnect(NODE)
        .await
        .map(|()| "back on it".to_owned());
    let told = |error: HarnessError| error.to_string();
    tried.push(("disconnect", both(off.map_err(told), on.map_err(told))));
    let clock = match estate.image().faketime {
        true => Ok("a clock to preload is in the image".to_owned()),
        false => Err(
            "no clock to preload: apt-get install faketime, and the next image has it".to_owned(),
        ),
    };
    tried.push(("clock", clock));
    let killed = container.kill();
    let again = estate
        .start_again(NODE)
        .await
        .map(|_| "started again".to_owned());
    tried.push(("kill", both(killed, again.map_err(told))));
    let (another, anew) = beside(estate).await;
    tried.push(("second-issuer", another));
    tried.push(("redeploy", anew));
    tried
}

/// Starts another container beside the first, and then once more on an empty volume.
async fn beside(estate: &Estate) -> (Result<String, String>, Result<String, String>) {
    let mut command = ContainerCommand::new(
        BESIDE,
        estate.claim_address(),
        ["toxiproxy", "--listen", "127.0.0.1:8474"]
            .map(str::to_owned)
            .into(),
    );
    command.data = Some("/data".to_owned());
    let told = |error: HarnessError| error.to_string();
    let mut container = match estate.start(&command).await {
        Ok(container) => container,
        Err(error) => {
            let why = error.to_string();
            return (
                Err(why),
                Err("nothing was there to be started anew".to_owned()),
            );
        }
    };
    let again = async {
        let killed = container.kill()?;
        estate.remove(BESIDE).await.map_err(told)?;
        estate.start(&command).await.map_err(told)?;
        Ok(format!("{killed}; started anew on an empty volume"))
    };
    let anew = again.await;
    let another = "another container beside the first, on a volume of its own";
    (Ok(another.to_owned()), anew)
}
