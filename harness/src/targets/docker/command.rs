//! What a container is to be.

use std::net::Ipv4Addr;

use super::image::FAKETIME_IN_IMAGE;

/// The file that a preloaded clock reads, as its node sees it.
pub(super) const CLOCK_IN_IMAGE: &str = "/data/clock";

/// What a container is to be.
#[derive(Clone, Debug)]
pub struct ContainerCommand {
    /// The node's name.
    pub node: String,
    /// Its image; none is the one of all roles, whose arguments begin with a verb.
    pub image: Option<String>,
    /// The compose file and its service that it is instead.
    pub composed: Option<(String, String)>,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables that it is given.
    pub environment: Vec<(String, String)>,
    /// Its address in the run's network.
    pub address: Ipv4Addr,
    /// The folder inside that is a volume of its own.
    pub data: Option<String>,
    /// Ports that are published, each on a port of the engine's choice.
    pub published: Vec<u16>,
    /// Whether its standard input is open, for one that attaches before it is started.
    pub attached: bool,
}

impl ContainerCommand {
    /// Lets its wall clock be set: the clock of the image is preloaded, and reads a file of the node's volume.
    pub fn with_a_clock(&mut self) {
        for (name, value) in [
            ("LD_PRELOAD", FAKETIME_IN_IMAGE),
            ("FAKETIME_TIMESTAMP_FILE", CLOCK_IN_IMAGE),
            ("FAKETIME_NO_CACHE", "1"),
            // Else everything that waits would wait for the time that jumped.
            ("DONT_FAKE_MONOTONIC", "1"),
        ] {
            self.environment.push((name.to_owned(), value.to_owned()));
        }
    }

    /// A node of the one image.
    #[must_use]
    pub fn new(node: &str, address: Ipv4Addr, arguments: Vec<String>) -> Self {
        Self {
            node: node.to_owned(),
            image: None,
            composed: None,
            arguments,
            environment: Vec::new(),
            address,
            data: None,
            published: Vec::new(),
            attached: false,
        }
    }
}
