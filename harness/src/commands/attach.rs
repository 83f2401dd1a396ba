//! `fencepost attach`: the process whose pipes are those of a worker in a container.
//!
//! It attaches before it starts the container, so that nothing said is lost, and ends when the container does. When it
//! dies the container's standard input closes, and a worker without input ends.

use crate::cli::AttachArguments;
use crate::error::{EXIT_FAILURE, HarnessError};
use crate::targets::docker::Engine;

/// Starts a container and copies between it and our own standard input and output until it ends; its exit status.
///
/// # Errors
/// When there is no engine, or no such container.
pub fn attach(arguments: &AttachArguments) -> Result<u8, HarnessError> {
    let engine = Engine::reach()?;
    let (attached, container) = (engine.clone(), arguments.container.clone());
    let status = engine.wait_for(async move { attached.lend_pipes(&container).await })?;
    Ok(status
        .and_then(|status| u8::try_from(status).ok())
        .unwrap_or(EXIT_FAILURE))
}
