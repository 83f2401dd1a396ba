//! One container as a node: stopped, let go, frozen, thawed, killed, with evidence.
//!
//! Where this machine shows the container's processes and lets us signal them, signals go to them directly, and evidence
//! is read from `/proc`: that is a hundred times quicker and reaches every process. Elsewhere the engine is asked, which
//! signals the first process alone, and tells the states of all.

use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::engine::Engine;
use crate::error::HarnessError;
use crate::targets::crowd::{Crowd, Kin, millis};
use crate::targets::proc;

/// How long an engine may take until it shows what was asked of it.
const SHOWN_WITHIN: Duration = Duration::from_secs(10);
/// How long between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// How processes of containers are reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reach {
    /// By their process ids on this machine.
    Host,
    /// Through the engine's API.
    Engine,
}

/// A container that was started.
#[derive(Debug)]
pub struct Container {
    engine: Engine,
    id: String,
    crowd: Option<Crowd>,
    /// How it ended, once it has.
    ending: Arc<Mutex<Option<String>>>,
    /// The process that holds its standard input and output, if they are pipes of ours.
    bridge: Option<Child>,
}

impl Container {
    /// Takes charge of the container `id`, which runs.
    ///
    /// # Errors
    /// When the engine does not know it, or it has ended already.
    pub(super) async fn of(engine: &Engine, id: &str) -> Result<Self, HarnessError> {
        let found = engine.inspect(id).await?;
        let state = found.and_then(|found| found.state).unwrap_or_default();
        let pid = state
            .pid
            .and_then(|pid| i32::try_from(pid).ok())
            .unwrap_or(0);
        let reached = engine.is_near()
            && pid > 0
            && proc::is_contained(pid, id)
            && nix::sys::signal::kill(Pid::from_raw(pid), None).is_ok();
        let crowd = reached.then(|| Crowd::new(pid, Kin::Contained { id: id.to_owned() }));
        let ending = Arc::new(Mutex::new(None));
        let (waiting, container, cell) = (engine.clone(), id.to_owned(), Arc::clone(&ending));
        engine.spawn(async move {
            let words = match waiting.ended(&container).await {
                Some(status) => format!("exit status: {status}"),
                None => "its engine gone".to_owned(),
            };
            *cell.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
        });
        Ok(Self {
            engine: engine.clone(),
            id: id.to_owned(),
            crowd,
            ending,
            bridge: None,
        })
    }

    /// Its processes, where this machine shows them and lets us signal them.
    #[must_use]
    pub fn crowd(&self) -> Option<&Crowd> {
        self.crowd.as_ref()
    }

    /// How its processes are reached.
    #[must_use]
    pub fn reach(&self) -> Reach {
        match self.crowd {
            Some(_) => Reach::Host,
            None => Reach::Engine,
        }
    }

    /// From now on its processes are reached through the engine alone, as if it were elsewhere.
    pub fn through_engine_only(&mut self) {
        self.crowd = None;
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its standard input and output are those of `bridge` from now on.
    pub(super) fn bridged_by(&mut self, bridge: Child) {
        self.bridge = Some(bridge);
    }

    /// The pipes to a worker; `None` once taken.
    pub fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        let bridge = self.bridge.as_mut()?;
        Some((bridge.stdin.take()?, bridge.stdout.take()?))
    }

    /// How it ended, if the engine has said so.
    #[must_use]
    pub fn ended(&self) -> Option<String> {
        self.ending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// SIGSTOP to its processes. `Ok` is the evidence.
    ///
    /// # Errors
    /// When it is gone, or nobody shows it stopped in time.
    pub fn stop(&self) -> Result<String, String> {
        match &self.crowd {
            Some(crowd) => crowd.stop(),
            None => self.signal_through_engine("SIGSTOP", |state| state.starts_with('T')),
        }
    }

    /// SIGCONT to its processes. `Ok` is the evidence.
    ///
    /// # Errors
    /// When it is gone, or stays stopped.
    pub fn resume(&self) -> Result<String, String> {
        match &self.crowd {
            Some(crowd) => crowd.resume(),
            None => self.signal_through_engine("SIGCONT", |state| !state.starts_with('T')),
        }
    }

    /// SIGKILL to its processes, until the engine knows that it has ended. `Ok` is the evidence.
    ///
    /// # Errors
    /// When it outlives that.
    pub fn kill(&mut self) -> Result<String, String> {
        let begun = Instant::now();
        let gone = match &self.crowd {
            Some(crowd) => {
                crowd.kill()?;
                format!("pid {} gone after {}", crowd.leader(), millis(begun))
            }
            None => {
                let (engine, id) = (self.engine.clone(), self.id.clone());
                self.engine
                    .wait_for(async move { engine.kill(&id, "SIGKILL").await })
                    .map_err(|error| error.to_string())?;
                "SIGKILL through the engine".to_owned()
            }
        };
        let deadline = Instant::now() + SHOWN_WITHIN;
        loop {
            if let Some(how) = self.ended() {
                return Ok(format!(
                    "{gone}; the engine knew ({how}) after {}",
                    millis(begun)
                ));
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "{gone}, and the engine says nothing of it within {SHOWN_WITHIN:?}"
                ));
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Stops it by the freezer of its control group. `Ok` is the evidence.
    ///
    /// # Errors
    /// When the engine refuses, or it does not show.
    pub fn freeze(&self) -> Result<String, String> {
        let begun = Instant::now();
        let (engine, id) = (self.engine.clone(), self.id.clone());
        self.engine
            .wait_for(async move { engine.pause(&id).await })
            .map_err(|error| error.to_string())?;
        let shown = self.frozen()?;
        match shown {
            (true, where_from) => Ok(format!("{where_from} after {}", millis(begun))),
            (false, where_from) => Err(format!("the engine said yes, and {where_from}")),
        }
    }

    /// Lets it go again after [`Container::freeze`]. `Ok` is the evidence.
    ///
    /// # Errors
    /// When the engine refuses, or it stays frozen.
    pub fn thaw(&self) -> Result<String, String> {
        let begun = Instant::now();
        let (engine, id) = (self.engine.clone(), self.id.clone());
        self.engine
            .wait_for(async move { engine.unpause(&id).await })
            .map_err(|error| error.to_string())?;
        match self.frozen()? {
            (false, where_from) => Ok(format!("{where_from} after {}", millis(begun))),
            (true, where_from) => Err(format!("the engine said yes, and {where_from}")),
        }
    }

    /// Whether it is frozen, and who says so.
    fn frozen(&self) -> Result<(bool, String), String> {
        if let Some(crowd) = &self.crowd
            && let Some((frozen, file)) = proc::freezer(crowd.leader())
        {
            let state = if frozen { "FROZEN" } else { "THAWED" };
            return Ok((frozen, format!("{state} in {}", file.display())));
        }
        let (engine, id) = (self.engine.clone(), self.id.clone());
        let found = self
            .engine
            .wait_for(async move { engine.inspect(&id).await })
            .map_err(|error| error.to_string())?;
        let state = found.and_then(|found| found.state).unwrap_or_default();
        let frozen = state.paused.unwrap_or(false);
        Ok((
            frozen,
            format!(
                "the engine shows it {}",
                if frozen { "paused" } else { "running" }
            ),
        ))
    }

    /// Signals the first process and asks for the states of all until each is as wanted.
    fn signal_through_engine(
        &self,
        signal: &'static str,
        wanted: fn(&str) -> bool,
    ) -> Result<String, String> {
        let begun = Instant::now();
        let (engine, id) = (self.engine.clone(), self.id.clone());
        self.engine.wait_for(async move {
            let told = |error: HarnessError| error.to_string();
            engine.kill(&id, signal).await.map_err(told)?;
            loop {
                let states = engine.states(&id).await.map_err(told)?;
                if !states.is_empty() && states.iter().all(|state| wanted(state)) {
                    return Ok(format!(
                        "{signal} through the engine; its ps shows {} after {}",
                        states.join(" "),
                        millis(begun)
                    ));
                }
                if begun.elapsed() > SHOWN_WITHIN {
                    return Err(format!(
                        "{signal} through the engine; its ps still shows {} after {SHOWN_WITHIN:?}",
                        states.join(" ")
                    ));
                }
                tokio::time::sleep(BETWEEN_LOOKS).await;
            }
        })
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // The container is for those to remove who made it; the bridge is a child of ours.
        if let Some(mut bridge) = self.bridge.take() {
            let _ = bridge.kill();
            let _ = bridge.wait();
        }
    }
}
