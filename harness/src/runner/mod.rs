//! The runner: load from the generator to the workers, and a history of all that was seen.
//!
//! | file | noun |
//! |---|---|
//! | `session.rs` | one run from plan to report: start here |
//! | `conductor.rs` | hands operations to idle clients; lets the nemesis aim |
//! | `worker_link.rs` | the pipes to one worker |
//! | `recorder.rs` | the only writer of the history |
//! | `tally.rs` | running counts, `progress.rs` shows them |
//! | `folder.rs` | where a run is saved |

pub mod conductor;
mod folder;
mod progress;
pub mod recorder;
mod session;
pub mod tally;
mod worker_link;

pub use session::{Order, RunEnd, run};
