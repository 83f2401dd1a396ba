//! What a run does to containers, tried on a container of our own that is removed afterwards.
//!
//! What is made is written into a journal as a run's is, so `fencepost heal` removes it where this is killed.

use std::sync::Arc;
use std::time::Instant;

use fencepost_workloads::suite::Direction;

use crate::error::HarnessError;
use crate::journal::{Journal, state_folder};
use crate::machine;
use crate::targets::docker::{Container, Engine, Estate, EstatePlan, Reach, cut};

/// What was tried, and what came of it.
type Tried = (&'static str, Result<String, String>);

/// The node that everything is tried on.
const NODE: &str = "tried";

/// Everything that the docker target needs, as far as there is an engine.
pub(super) async fn containers() -> Vec<Tried> {
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
    match stand(&run, Arc::clone(&journal)).await {
        Ok((seen, estate, container)) => {
            tried.push(("image, network and container", Ok(seen)));
            tried.extend(strike(&estate, container).await);
            let left = estate.take_down(false);
            let gone = match left.is_empty() {
                true => Ok("nothing of it is left".to_owned()),
                false => Err(left.join("; ")),
            };
            tried.push(("take-down", gone));
        }
        Err(error) => tried.push(("image, network and container", Err(error.to_string()))),
    }
    // What could not be removed stays in it, for heal.
    if tried.last().is_some_and(|(_, result)| result.is_ok()) {
        let _ = journal.remove();
    }
    tried
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
    tried
}
