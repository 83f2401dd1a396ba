//! The runner: load from the generator to the workers, and a history of all that was seen.
//!
//! | file | noun |
//! |---|---|
//! | `session.rs` | one run from plan to report: start here |
//! | `stage.rs` | what a run stands on, from set-up to take-down |
//! | `interrupts.rs` | Ctrl-C and SIGTERM, counted |
//! | `conductor.rs` | hands operations to idle clients; lets the nemesis aim |
//! | `worker_link.rs` | the pipes to one worker |
//! | `recorder.rs` | the only writer of the history |
//! | `watch.rs` | judges what is recorded while the run goes on, for `--fail-fast` |
//! | `exercise.rs` | what the fence was made to do: steers the nemesis |
//! | `tally.rs` | running counts, `progress.rs` shows them |
//! | `folder.rs` | where a run is saved |

pub mod conductor;
pub mod exercise;
mod folder;
mod interrupts;
mod progress;
pub mod recorder;
mod session;
mod stage;
pub mod tally;
mod watch;
pub mod worker_link;

pub use folder::RESERVE;
pub use interrupts::Interrupts;
pub use session::{Order, RunEnd, run, save_teeth, save_without_teeth};
