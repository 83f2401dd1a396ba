//! The recording of a run, and what it means.
//!
//! A history is a list of *events*: invocations, their completions, and what was done to the system in between.
//! Here events are read ([`jsonl`]), joined into *operations* over a closed interval ([`Operation`]), and faults
//! into windows ([`FaultWindow`]). Nothing here judges; see [`crate::fencing`].
//!
//! | file | noun |
//! |---|---|
//! | `event.rs` | one line of `history.jsonl` |
//! | `header.rs` | the optional first line: what the run was, and what it had planned |
//! | `operation.rs` | an invocation joined to its completion |
//! | `fault_window.rs` | one fault, from its begin to its end |
//! | `names.rs` | interned client, lock, key and path names |
//! | `recording.rs` | [`History`]: a whole recording; why a file is none |
//! | `value.rs` | when two values are one |
//! | `pairing.rs` | events in, [`History`] out |
//! | `jsonl.rs` | byte block in, events out |

mod event;
mod fault_window;
mod header;
pub mod jsonl;
mod names;
mod operation;
mod pairing;
mod recording;
mod value;

pub use event::{Event, FaultEvent, FaultOutcome, FaultPhase, Line, NO_INDEX, Type};
pub use fault_window::FaultWindow;
pub use header::{Expectations, Header, LockHeader, MarkScope, Plan};
pub use names::{Name, Names};
pub(crate) use operation::UNNAMED;
pub use operation::{Function, Instant, Operation, Outcome, Token};
pub use pairing::{MAX_OPEN, Pairing, pair};
pub use recording::{History, HistoryError};
pub(crate) use value::plain;
