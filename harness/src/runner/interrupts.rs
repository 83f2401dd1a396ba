//! Ctrl-C, SIGTERM and a terminal that hung up, counted: the first ends the load, the second cuts short what is still
//! being waited for.

use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::guardian::let_signals_in;
use crate::targets::proc;

/// How often the user has asked the run to end.
#[derive(Clone, Debug)]
pub struct Interrupts {
    count: watch::Receiver<u32>,
}

impl Interrupts {
    /// Counts the signals of this process from now on. Must be called inside a runtime.
    #[must_use]
    pub fn listen() -> Self {
        let (sender, count) = watch::channel(0);
        // Registered before this returns: from here on no signal ends the process by itself.
        let registered = (
            signal(SignalKind::interrupt()),
            signal(SignalKind::terminate()),
            // Under `nohup` a run is meant to outlive its terminal.
            (!proc::ignores(Signal::SIGHUP)).then(|| signal(SignalKind::hangup())),
        );
        let_signals_in();
        tokio::spawn(async move {
            let (Ok(mut interrupt), Ok(mut terminate), hangup) = registered else {
                // A process that cannot listen for signals is ended by them, and its nodes with it.
                return;
            };
            let mut hangup = hangup.and_then(Result::ok);
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    Some(_) = async { hangup.as_mut()?.recv().await } => {}
                }
                sender.send_modify(|count| *count += 1);
            }
        });
        Self { count }
    }

    /// Whether there has been one.
    pub async fn has_come(&self) -> bool {
        // What has come meanwhile is counted by a task, which has its turn first.
        tokio::task::yield_now().await;
        *self.count.borrow() > 0
    }

    /// Completes once there have been `times` of them; never, if nobody listens.
    pub async fn reach(&self, times: u32) {
        let mut count = self.count.clone();
        if count.wait_for(|&count| count >= times).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
