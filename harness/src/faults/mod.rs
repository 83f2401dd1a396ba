//! Faults: what is done to nodes and links, on a plan that the seed fixes, with evidence, and undone.
//!
//! | file | noun |
//! |---|---|
//! | `plan.rs` | which fault when, for how long, to whom: pure |
//! | `nemesis.rs` | carries the plan out; what each fault needs to do so |
//! | `zombie.rs` | the adversary's own: stop the holder, let its successor write, let it go |
//! | `pause.rs` | SIGSTOP and SIGCONT, freezer and thaw |
//! | `link.rs` | hole, stall, lost request, lost reply, latency, bandwidth, refuse, reset; of one link or of several |
//! | `kill.rs` | SIGKILL to a service and a restart on the same data |
//! | `rebirth.rs` | SIGKILL to a worker, and another in its place |
//! | `container.rs` | what only containers allow: dropped packets, another network, an empty volume, a second authority, a clock |
//! | `service.rs` | which node of a service is struck |
//! | `probe.rs` | a request through a link, as evidence |
//!
//! Every fault that begins writes two lines into the history; one that is skipped writes one. The begin line stands where the fault is in force; the outcome
//! (`installed` with evidence, `skipped`, `unknown`) is on the last line that knows it.

mod container;
mod kill;
mod link;
mod nemesis;
mod pause;
mod plan;
mod probe;
mod rebirth;
mod service;
mod zombie;

pub use nemesis::{Means, Nemesis};
pub use plan::{labels, plan};
pub use probe::{Greeting, Passage, probe};
