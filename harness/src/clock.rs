//! The run's one clock: monotonic nanoseconds since the run began, the same origin for everything.

use std::time::{Duration, Instant};

/// Shared by all who stamp or schedule; copying it copies the origin.
#[derive(Clone, Copy, Debug)]
pub struct RunClock {
    origin: Instant,
}

impl RunClock {
    /// A clock that stands at 0 now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    /// Time since the run began.
    #[must_use]
    pub fn now(self) -> Duration {
        self.origin.elapsed()
    }

    /// The instant at which the clock shows `at`, for timers.
    #[must_use]
    pub fn instant(self, at: Duration) -> tokio::time::Instant {
        (self.origin + at).into()
    }
}
