//! The progress line, on standard error: redrawn where that is a terminal, absent elsewhere.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use super::tally::{Snapshot, Tally};
use crate::clock::RunClock;

const EVERY: Duration = Duration::from_millis(250);

/// Draws the line until it is dropped, and clears it then.
#[derive(Debug)]
pub struct Progress {
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Progress {
    /// Starts to draw, if standard error is a terminal and `wanted`.
    #[must_use]
    pub fn start(tally: Arc<Tally>, clock: RunClock, time_limit: Duration, wanted: bool) -> Self {
        if !wanted || !std::io::stderr().is_terminal() {
            return Self { task: None };
        }
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let task = tokio::spawn(async move {
            let mut before = (Duration::ZERO, 0);
            let mut ticks = tokio::time::interval(EVERY);
            loop {
                ticks.tick().await;
                let (now, snapshot) = (clock.now(), tally.snapshot());
                let seconds = now.saturating_sub(before.0).as_secs_f64();
                let rate = if seconds > 0.0 {
                    snapshot.invoked.saturating_sub(before.1) as f64 / seconds
                } else {
                    0.0
                };
                before = (now, snapshot.invoked);
                // A progress line that cannot be drawn is no reason to stop.
                let _ = write!(
                    std::io::stderr(),
                    "\r\x1b[2K{}",
                    line(
                        &snapshot,
                        now.min(time_limit),
                        time_limit,
                        rate,
                        width(),
                        colour
                    )
                );
                let _ = std::io::stderr().flush();
            }
        });
        Self { task: Some(task) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
}

/// The terminal's columns; 80 where it does not say.
fn width() -> usize {
    rustix::termios::tcgetwinsize(std::io::stderr())
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|&columns| columns > 0)
        .unwrap_or(80)
}

/// One row, never more: a line that wraps could not be cleared.
fn line(
    snapshot: &Snapshot,
    now: Duration,
    limit: Duration,
    rate: f64,
    width: usize,
    colour: bool,
) -> String {
    let active = if snapshot.active.is_empty() {
        "no fault active".to_owned()
    } else {
        snapshot.active.join(", ")
    };
    let parts = [
        (
            None,
            format!(
                "{} {:.0}/{:.0} s",
                snapshot.phase,
                now.as_secs_f64(),
                limit.as_secs_f64()
            ),
        ),
        (None, format!("{rate:.0}/s")),
        (None, format!("{} ok", snapshot.ok)),
        (Some("33"), format!("{} refused", snapshot.refused)),
        (None, format!("{} failed", snapshot.failed)),
        (Some("35"), format!("{} unknown", snapshot.unknown)),
        (None, active),
    ];
    let mut left = width.saturating_sub(1);
    let mut row = String::new();
    for (code, text) in parts {
        if !row.is_empty() {
            row.push_str(&"  "[..left.min(2)]);
            left = left.saturating_sub(2);
        }
        let shown: String = text.chars().take(left).collect();
        left -= shown.chars().count();
        match code {
            Some(code) if colour => row.push_str(&format!("\x1b[{code}m{shown}\x1b[0m")),
            _ => row.push_str(&shown),
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_rate_counts_and_the_active_fault_and_has_no_colour_where_none_is_wanted() {
        let snapshot = Snapshot {
            ok: 812,
            refused: 9,
            unknown: 4,
            active: vec!["zombie w2".into()],
            phase: "load",
            ..Snapshot::default()
        };
        let plain = line(
            &snapshot,
            Duration::from_secs(7),
            Duration::from_secs(20),
            198.6,
            100,
            false,
        );
        assert_eq!(
            plain,
            "load 7/20 s  199/s  812 ok  9 refused  0 failed  4 unknown  zombie w2"
        );
        let coloured = line(&snapshot, Duration::ZERO, Duration::ZERO, 0.0, 100, true);
        assert!(
            coloured.contains("\x1b[33m9 refused\x1b[0m"),
            "{coloured:?}"
        );
    }

    #[test]
    fn the_line_is_cut_to_the_terminal_and_never_wraps() {
        let active = vec!["zombie w2, hole w3-lock, kill resource, pause w1".to_owned(); 3];
        let snapshot = Snapshot {
            ok: 812,
            phase: "load",
            active,
            ..Snapshot::default()
        };
        for width in [0, 1, 10, 40, 80] {
            let row = line(&snapshot, Duration::ZERO, Duration::ZERO, 0.0, width, false);
            assert!(row.chars().count() < width.max(1), "{width}: {row:?}");
        }
    }
}
