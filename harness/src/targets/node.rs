//! One node of a run: a process of this machine, or a container.

use std::process::{Child, ChildStdin, ChildStdout};

use super::docker::Container;
use super::process_node::ProcessNode;
use super::{Crowd, NodeCommand};

const NO_CONTAINER: &str = "a process of this machine is in no control group of its own";

/// A node that was started.
#[derive(Debug)]
pub enum Node {
    /// A process. Dropping it kills it.
    Process(ProcessNode),
    /// A container, which those remove who made it.
    Container(Container),
}

impl Node {
    /// Takes charge of a child that was started by `command`.
    #[must_use]
    pub fn of(command: &NodeCommand, child: Child) -> Self {
        Self::Process(ProcessNode::of(command, child))
    }

    /// Its processes, where this machine shows them.
    #[must_use]
    pub fn crowd(&self) -> Option<&Crowd> {
        match self {
            Self::Process(node) => Some(node.crowd()),
            Self::Container(node) => node.crowd(),
        }
    }

    /// The leader's process id, where this machine shows it.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        Some(self.crowd()?.leader())
    }

    /// Every process of the node that lives, where this machine shows them.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        self.crowd().map(Crowd::processes).unwrap_or_default()
    }

    /// The pipes to a worker; `None` once taken.
    pub fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        match self {
            Self::Process(node) => node.pipes(),
            Self::Container(node) => node.pipes(),
        }
    }

    /// How it ended, if it has: `signal: 9 (SIGKILL)`, `exit status: 1`.
    #[must_use]
    pub fn ended(&mut self) -> Option<String> {
        match self {
            Self::Process(node) => node.ended().map(|status| status.to_string()),
            Self::Container(node) => node.ended(),
        }
    }

    /// Stops every process of the node. `Ok` is the evidence, `Err` why there is none.
    ///
    /// # Errors
    /// When the node is gone, or there was no evidence in time.
    pub fn stop(&self) -> Result<String, String> {
        match self {
            Self::Process(node) => node.crowd().stop(),
            Self::Container(node) => node.stop(),
        }
    }

    /// Lets the node go on. `Ok` is the evidence, `Err` why there is none.
    ///
    /// # Errors
    /// When the node is gone, or it stayed stopped.
    pub fn resume(&self) -> Result<String, String> {
        match self {
            Self::Process(node) => node.crowd().resume(),
            Self::Container(node) => node.resume(),
        }
    }

    /// Freezes the node's control group. `Ok` is the evidence.
    ///
    /// # Errors
    /// When it is no container, or does not freeze.
    pub fn freeze(&self) -> Result<String, String> {
        match self {
            Self::Process(_) => Err(NO_CONTAINER.to_owned()),
            Self::Container(node) => node.freeze(),
        }
    }

    /// Thaws it again. `Ok` is the evidence.
    ///
    /// # Errors
    /// When it is no container, or stays frozen.
    pub fn thaw(&self) -> Result<String, String> {
        match self {
            Self::Process(_) => Err(NO_CONTAINER.to_owned()),
            Self::Container(node) => node.thaw(),
        }
    }

    /// Kills every process of the node and waits for its end. `Ok` is the evidence.
    ///
    /// # Errors
    /// When a process outlived SIGKILL for longer than evidence may take.
    pub fn kill(&mut self) -> Result<String, String> {
        match self {
            Self::Process(node) => node.kill(),
            Self::Container(node) => node.kill(),
        }
    }
}
