//! The way from async tasks to the one OS thread that may block, and a way out when that thread is stuck.
//!
//! Calls are made one after the other, in the order in which they were handed over. When one runs into its deadline
//! the thread is given up: it ends by itself when its call returns, makes no further call, and another takes over.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use tokio::sync::oneshot;

use super::Cause;
use super::driver::{Driver, Known};

type Job = Box<dyn FnOnce(&mut Driver) + Send>;

/// One thread and the way to it.
#[derive(Clone, Debug)]
struct Worker {
    jobs: mpsc::Sender<Job>,
    given_up: Arc<AtomicBool>,
}

impl Worker {
    fn start(api: SocketAddr, known: Arc<Mutex<Known>>) -> Result<Worker, Cause> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let (ready, started) = mpsc::sync_channel(1);
        let given_up = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&given_up);
        let thread = std::thread::Builder::new().name("toxiproxy".to_owned());
        // The driver owns a runtime, so it is made and dropped here and never inside the caller's.
        let work = move || match Driver::new(api, known) {
            Ok(mut driver) => {
                let _ = ready.send(Ok(()));
                while let Ok(job) = queue.recv() {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    job(&mut driver);
                }
            }
            Err(cause) => {
                let _ = ready.send(Err(cause));
            }
        };
        thread
            .spawn(work)
            .map_err(|error| Cause::Thread(error.to_string()))?;
        started
            .recv()
            .map_err(|error| Cause::Thread(error.to_string()))??;
        Ok(Worker { jobs, given_up })
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Lane {
    api: SocketAddr,
    /// Outlives the threads: what was made, so that it can be made anew.
    known: Arc<Mutex<Known>>,
    worker: Mutex<Worker>,
}

impl Lane {
    /// Starts the thread.
    pub(super) fn new(api: SocketAddr) -> Result<Lane, Cause> {
        let known = Arc::default();
        let worker = Mutex::new(Worker::start(api, Arc::clone(&known))?);
        Ok(Lane { api, known, worker })
    }

    /// Makes one call on the thread and waits for it, at most that long.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        deadline: Duration,
        work: impl FnOnce(&mut Driver) -> Result<T, Cause> + Send + 'static,
    ) -> Result<T, Cause> {
        let (reply, answer) = oneshot::channel();
        let worker = self.worker();
        let job: Job = Box::new(move |driver| {
            // Nobody waits any more: a fault installed now would surprise everybody.
            if !reply.is_closed() {
                let _ = reply.send(work(driver));
            }
        });
        if worker.jobs.send(job).is_err() {
            self.replace(&worker)?;
            return Err(Cause::Thread(
                "it ended; the next call gets another".to_owned(),
            ));
        }
        match tokio::time::timeout(deadline, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Cause::Thread("it was stuck in an earlier call".to_owned())),
            Err(_) => {
                self.replace(&worker)?;
                Err(Cause::Deadline(deadline))
            }
        }
    }

    fn worker(&self) -> Worker {
        self.worker
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Gives a stuck thread up, unless somebody has done so before.
    fn replace(&self, stuck: &Worker) -> Result<(), Cause> {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&worker.given_up, &stuck.given_up) {
            worker.given_up.store(true, Ordering::SeqCst);
            *worker = Worker::start(self.api, Arc::clone(&self.known))?;
        }
        Ok(())
    }
}
