//! The binary as one of a run's nodes: lock service, fenced resource, fault proxy, worker.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::cli::{LockServiceArguments, ServeArguments, ServiceArguments};
use crate::error::HarnessError;
use crate::runtime;

/// `fencepost toxiproxy`
///
/// # Errors
/// When the address cannot be listened on, or the server fails.
pub fn toxiproxy(arguments: &ServeArguments) -> Result<u8, HarnessError> {
    serving("toxiproxy", arguments.listen, async |listener| {
        fencepost_fault_proxy::serve(listener, terminated())
            .await
            .map_err(|error| HarnessError::node("toxiproxy", error.to_string()))
    })
}

/// `fencepost lock-service`
///
/// # Errors
/// When the address cannot be listened on, the data cannot be opened, or there is no such defect.
pub fn lock_service(arguments: &LockServiceArguments) -> Result<u8, HarnessError> {
    let first_token = arguments.first_token;
    let arguments = &arguments.service;
    let mut config = fencepost_lock_service::Config::new(arguments.data.clone());
    config.first_token = first_token;
    config.defect = arguments
        .defect
        .as_deref()
        .map(|name| name.parse().map_err(|_| unknown_defect(name)))
        .transpose()?;
    serving("lock-service", arguments.listen, async move |listener| {
        fencepost_lock_service::serve(listener, config, terminated())
            .await
            .map_err(|error| HarnessError::node("lock-service", error.to_string()))
    })
}

/// `fencepost fenced-resource`
///
/// # Errors
/// When the address cannot be listened on, the data cannot be opened, or there is no such defect.
pub fn fenced_resource(arguments: &ServiceArguments) -> Result<u8, HarnessError> {
    let mut config = fencepost_fenced_resource::Config::new(arguments.data.clone());
    config.defect = arguments
        .defect
        .as_deref()
        .map(|name| name.parse().map_err(|_| unknown_defect(name)))
        .transpose()?;
    serving("fenced-resource", arguments.listen, async move |listener| {
        fencepost_fenced_resource::serve(listener, config, terminated())
            .await
            .map_err(|error| HarnessError::node("fenced-resource", error.to_string()))
    })
}

/// `fencepost worker`
///
/// # Errors
/// When a line is not of the worker protocol.
pub fn worker() -> Result<u8, HarnessError> {
    fencepost_workloads::worker::run_stdio()
        .map_err(|error| HarnessError::Usage(error.to_string()))?;
    Ok(0)
}

fn unknown_defect(name: &str) -> HarnessError {
    HarnessError::Usage(format!(
        "no defect {name:?} here; see `fencepost list defects`"
    ))
}

fn serving<F>(what: &'static str, listen: SocketAddr, serve: F) -> Result<u8, HarnessError>
where
    F: AsyncFnOnce(TcpListener) -> Result<(), HarnessError>,
{
    runtime::on_two_threads()?.block_on(async {
        let listener = TcpListener::bind(listen).await.map_err(|error| {
            HarnessError::node(
                what,
                format!(
                    "failed to listen on {listen}: {error}; a free address of this machine is right"
                ),
            )
        })?;
        serve(listener).await
    })?;
    Ok(0)
}

/// Completes at SIGTERM or Ctrl-C.
async fn terminated() {
    let Ok(mut terminate) =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
    else {
        // Without SIGTERM there is still Ctrl-C, and SIGKILL is safe at any moment.
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
