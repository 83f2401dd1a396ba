//! The fenced write against the unfenced one.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fencepost_checker::history::Token;
use fencepost_workloads::client::Endpoint;
use fencepost_workloads::protocol::Options;
use fencepost_workloads::resources;

use crate::support::{LOAD, PAIRS, Row, folder, median, row, runtime, serve, text};

/// The fenced write against the unfenced one, at the reference resource, 16 writers.
pub fn fence() -> Vec<Row> {
    let (fenced_data, unfenced_data) = (folder(), folder());
    let (_fenced, fenced) = serve(&["fenced-resource", "--data", text(fenced_data.path())]);
    let (_unfenced, unfenced) = serve(&[
        "fenced-resource",
        "--data",
        text(unfenced_data.path()),
        "--defect",
        "unfenced",
    ]);
    let runtime = runtime();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..PAIRS as u64 {
        with.push(runtime.block_on(writes(fenced, round)));
        without.push(runtime.block_on(writes(unfenced, round)));
    }
    let ratio = median(
        with.iter()
            .zip(&without)
            .map(|(with, without)| with / without)
            .collect(),
    );
    vec![
        row(
            "fenced writes a second at the reference resource, 16 writers",
            format!("{:.0}", median(with)),
            "",
        ),
        row(
            "of the unfenced writes a second",
            format!("{:.0} %", 100.0 * ratio),
            "",
        ),
    ]
}

/// Writes a second, each writer on a key of its own, under tokens that rise from `round` billions.
async fn writes(resource: SocketAddr, round: u64) -> f64 {
    let until = Instant::now() + LOAD / 2;
    let address = resource.to_string();
    let writers: Vec<_> = (0..16)
        .map(|writer| {
            let name = format!("w{writer}");
            let timeout = Duration::from_secs(2);
            let options = Options::plain("reference", "reference", timeout);
            let endpoint = Endpoint {
                client: &name,
                addresses: &[&address],
                timeout,
                options: &options,
                namespace: &options.namespace,
            };
            let client = resources::connect("reference", &endpoint).expect("a client");
            tokio::spawn(async move {
                let mut done = 0_u64;
                while Instant::now() < until {
                    done += u64::from(
                        client
                            .write(&name, Token::from(round * 1_000_000_000 + done), "value")
                            .await
                            .is_ok(),
                    );
                }
                done
            })
        })
        .collect();
    let mut sum = 0;
    for writer in writers {
        sum += writer.await.expect("no panic");
    }
    sum as f64 / (LOAD / 2).as_secs_f64()
}
