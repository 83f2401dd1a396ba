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
//! | `texts.rs` | texts, each kept once: what names and values stand on |
//! | `value.rs` | the values that were written and read; when two are one |
//! | `large.rs` | integers that no 64 bits hold |
//! | `pairing.rs` | events in, [`History`] out |
//! | `simultaneous.rs` | the order of lines that stand at one time |
//! | `jsonl.rs` | one line of `history.jsonl` in, event out, or what is wrong with it; and back |
//! | `format.rs` | which formats there are, and which one a file is in |
//! | `intake.rs` | bytes in as they come, events or a [`History`] out |
//! | `edn.rs`, `forms.rs` | EDN: one form; the maps of a file |
//! | `jepsen.rs` | Jepsen's operations, from its history.edn or its log |
//! | `shape.rs`, `cursor.rs` | the shape that nearly every such line has, read fast; a place in such a line |
//! | `words.rs` | the words of such lines as numbers |
//! | `chunk.rs` | some whole lines, read by any thread and joined by one |
//! | `stream.rs` | a file in, block by block, read by many threads |

mod chunk;
mod cursor;
mod edn;
mod event;
mod fault_window;
mod format;
mod forms;
mod header;
mod intake;
mod jepsen;
pub mod jsonl;
mod large;
mod names;
mod operation;
mod pairing;
mod recording;
mod shape;
mod simultaneous;
mod stream;
mod texts;
mod value;
mod words;

pub use event::{Event, FaultEvent, FaultOutcome, FaultPhase, Line, NO_INDEX, Type};
pub use fault_window::FaultWindow;
pub use format::Format;
pub use header::{Expectations, Header, LockHeader, MarkScope, Plan};
pub use intake::{Intake, Lines, Sink};
pub(crate) use large::digits;
pub use names::{Name, Names};
pub(crate) use operation::UNNAMED;
pub use operation::{Function, Instant, Operation, Outcome, Token};
pub(crate) use pairing::Told;
pub use pairing::{MAX_OPEN, Pairing, pair};
pub use recording::{History, HistoryError, ReadError};
pub(crate) use simultaneous::{Simultaneous, in_order};
pub(crate) use value::plain;
pub use value::{Datum, Values};
