//! What containers cost: the image, bringing a run up and taking it down, and how exactly one is stopped, by the ids of
//! its processes and over the engine's API.

use std::process::{Command, Stdio};
use std::time::Instant;

use fencepost::targets::docker::Engine;
use serde_json::Value;

use crate::pauses::{quantile, stops};
use crate::relay::relay;
use crate::support::{BINARY, Row, folder, row};

/// Stops that the engine's API has time for.
const PAUSES: &str = r#"
name = "pauses"
[run]
time_limit = "34s"
[[fault]]
kind = "pause"
on = "resource"
every = "150ms"
length = "10ms..20ms"
"#;

/// Nothing where there is no engine, which is said.
pub fn docker() -> Vec<Row> {
    if let Err(error) = Engine::reach() {
        eprintln!("SKIPPED: no Docker engine: {error}");
        return Vec::new();
    }
    let mut rows = image();
    rows.extend(up_and_down());
    rows.extend(pauses());
    rows
}

/// The image built anew, and found.
fn image() -> Vec<Row> {
    let build = || {
        let begun = Instant::now();
        let output = Command::new(BINARY).arg("image").output().expect("it runs");
        assert!(output.status.success());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let name = text.split(' ').next().unwrap_or_default().to_owned();
        (name, begun.elapsed().as_secs_f64())
    };
    let (name, _) = build();
    let mut remove = Command::new("docker");
    remove.args(["image", "rm", "--force", &name, "fencepost:latest"]);
    let removed = remove.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let (_, built) = build();
    let (_, found) = build();
    let how = match removed {
        Ok(status) if status.success() => format!("{built:.1} s"),
        _ => "(it could not be removed before)".to_owned(),
    };
    vec![
        row(
            "docker: the image of every role, built of the binary",
            how,
            "",
        ),
        row(
            "the same where it is there already",
            format!("{found:.1} s"),
            "",
        ),
    ]
}

/// A run of a second: how long its set-up and its take-down take.
fn up_and_down() -> Vec<Row> {
    let out = folder();
    let mut command = Command::new(BINARY);
    command.args([
        "run",
        "default",
        "--target",
        "docker",
        "--time-limit",
        "1s",
        "--json",
        "--out",
    ]);
    let output = command
        .arg(out.path())
        .stderr(Stdio::null())
        .output()
        .expect("it runs");
    let end: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let saved = std::path::Path::new(end["folder"].as_str().expect("a path"));
    let record = std::fs::read_to_string(saved.join("run.json")).expect("saved");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    let took = |name: &str| {
        let phases = record["phases"].as_array().expect("phases");
        let phase = phases.iter().find(|phase| phase["name"] == name);
        format!(
            "{:.1} s",
            phase.expect("it was gone through")["took_ms"]
                .as_f64()
                .expect("a time")
                / 1e3
        )
    };
    vec![
        row(
            "docker: a run brought up (network, 3 containers, 5 workers)",
            took("set-up"),
            "",
        ),
        row(
            "docker: the same taken down, with its logs",
            took("take-down"),
            "",
        ),
    ]
}

/// From the moment at which the plan wants the resource's container stopped until it was seen to be, through the nemesis
/// of a real run: by the ids of its processes, and as an engine on another machine has it done, behind a relay.
fn pauses() -> Vec<Row> {
    let ways = [
        (
            None,
            "docker: from the planned moment to the evidenced stop of the working resource by host pid, median of 200 pauses and more",
        ),
        (
            Some(relay()),
            "docker: the same over the engine's API, median",
        ),
    ];
    let mut rows = Vec::new();
    for (engine, figure) in ways {
        let late = stops(PAUSES, &["--target", "docker"], engine.as_deref());
        rows.push(row(figure, format!("{:.2} ms", quantile(&late, 0.5)), ""));
        rows.push(row(
            "the same, p99",
            format!("{:.2} ms", quantile(&late, 0.99)),
            "",
        ));
    }
    rows
}
