//! Containers as nodes, through the API of a Docker engine.
//!
//! | file | noun |
//! |---|---|
//! | `engine.rs` | the engine: one thread that speaks with it |
//! | `refusal.rs` | one line for each thing that it refuses |
//! | `image.rs` | the image of every role, laid out of the running executable |
//! | `estate.rs` | everything that a run has at an engine: its network, containers and volumes |
//! | `command.rs` | what a container is to be |
//! | `holding.rs` | what is recorded of an estate, and its removal by that record |
//! | `compose.rs` | compose files of the user's |
//! | `cut.rs` | packets of a container dropped, in its own network |
//! | `container.rs` | one container as a node: stopped, let go, killed, with evidence |
//!
//! Everything that is made has a name with the run's id in it and carries the run's id as a label; it is written into the
//! journal before it is made, and only what has both is ever removed.

mod command;
mod compose;
mod container;
pub mod cut;
mod engine;
mod estate;
mod holding;
mod image;
mod refusal;

pub use command::ContainerCommand;
pub use container::{Container, Reach};
pub use engine::{Engine, Kind};
pub use estate::{Estate, EstatePlan};
pub use holding::{Holding, remove_recorded};
pub use image::Recipe;

/// The label that says to which run something belongs.
pub const RUN_LABEL: &str = "fencepost.run";
/// The label that says which node a container is.
pub const NODE_LABEL: &str = "fencepost.node";
