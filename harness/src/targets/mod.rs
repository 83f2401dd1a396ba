//! Targets bring a run's nodes up, reach into them, and take them down.
//!
//! | file | noun |
//! |---|---|
//! | `local.rs` | the nodes of a run: processes of this machine, containers, or servers of the user's |
//! | `docker/` | containers, through the API of a Docker engine |
//! | `systems/` | the systems under test that it starts, one file a system |
//! | `wires.rs` | every link of a run and the proxies that it is made of |
//! | `tenancy.rs` | a run's keys and tables in a server, made before it and removed after it |
//! | `node.rs` | one node: a process or a container |
//! | `process_node.rs` | a process that leads a session of its own |
//! | `crowd.rs` | all processes of a node, signalled together, with evidence |
//! | `spawner.rs` | the one OS thread that starts every node |
//! | `adopted.rs` | what nodes leave behind, adopted and killed |
//! | `logs.rs` | what nodes say on standard error, kept small |
//! | `ports.rs` | loopback ports claimed for a run |
//! | `proc.rs` | what `/proc` says of a process |

mod adopted;
mod crowd;
pub mod docker;
mod local;
mod logs;
mod node;
mod ports;
pub mod proc;
mod process_node;
mod spawner;
pub mod systems;
mod tenancy;
mod wires;

pub use adopted::{adopt_orphans, kill_children};
pub use crowd::Crowd;
pub use local::{LocalPlan, LocalTarget, Service, SharedNode};
pub use logs::LogKeeper;
pub use node::Node;
pub use ports::Ports;
pub use process_node::ProcessNode;
pub use spawner::{NodeCommand, Owner, Spawner, start_nothing_more};
pub use tenancy::{Tenancy, move_out, namespace};
pub use wires::{PEERS, Wire, link_of};
