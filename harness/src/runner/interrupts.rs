//! Ctrl-C and SIGTERM, counted: the first ends the load, the second cuts short what is still being waited for.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

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
        );
        tokio::spawn(async move {
            let (Ok(mut interrupt), Ok(mut terminate)) = registered else {
                // A process that cannot listen for signals is ended by them, and its nodes with it.
                return;
            };
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                sender.send_modify(|count| *count += 1);
            }
        });
        Self { count }
    }

    /// Completes once there have been `times` of them; never, if nobody listens.
    pub async fn reach(&self, times: u32) {
        let mut count = self.count.clone();
        if count.wait_for(|&count| count >= times).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
