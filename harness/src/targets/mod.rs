//! Targets bring a run's nodes up, reach into them, and take them down.
//!
//! | file | noun |
//! |---|---|
//! | `local.rs` | processes of this machine, on loopback |
//! | `node.rs` | one node: a process that leads a session of its own |
//! | `spawner.rs` | the one OS thread that starts every node |
//! | `adopted.rs` | what nodes leave behind, adopted and killed |
//! | `logs.rs` | what nodes say on standard error, kept small |
//! | `ports.rs` | loopback ports claimed for a run |
//! | `proc.rs` | what `/proc` says of a process |

mod adopted;
mod local;
mod logs;
mod node;
mod ports;
pub mod proc;
mod spawner;

pub use adopted::{adopt_orphans, kill_children};
pub use local::{LocalPlan, LocalTarget, Service, SharedNode};
pub use logs::LogKeeper;
pub use node::Node;
pub use ports::Ports;
pub use spawner::{NodeCommand, Spawner, start_nothing_more};
