//! What containers cost: the image, bringing a run up and taking it down, and how exactly one is stopped, by the ids of
//! its processes and over the engine's API.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use fencepost::journal::Journal;
use fencepost::machine::run_id;
use fencepost::targets::docker::{Container, Engine, Estate, EstatePlan, Reach};
use serde_json::Value;

use crate::support::{BINARY, Row, folder, row};

/// How many pauses are measured each way.
const PAUSES: usize = 200;

/// Nothing where there is no engine, which is said.
pub fn docker() -> Vec<Row> {
    if let Err(error) = Engine::reach() {
        eprintln!("SKIPPED: no Docker engine: {error}");
        return Vec::new();
    }
    let mut rows = image();
    rows.extend(up_and_down());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    rows.extend(runtime.block_on(pauses()));
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

async fn pauses() -> Vec<Row> {
    let (run, state) = (run_id(), folder());
    let journal = Arc::new(Journal::create(state.path(), &run, None).expect("made"));
    let plan = EstatePlan {
        run: &run,
        logs: state.path().to_owned(),
        executable: BINARY.as_ref(),
        links: 1,
        journal,
    };
    let estate = Estate::open(plan).await.expect("a network");
    let mut container = estate
        .start_proxy("tried", None)
        .await
        .expect("a container");
    let mut rows = Vec::new();
    if container.reach() == Reach::Host {
        rows.extend(measured(
            "docker: from the decision to the evidenced stop by host pid, median of 200",
            &container,
        ));
    }
    container.through_engine_only();
    rows.extend(measured(
        "docker: from the decision to the evidenced stop over the engine's API, median of 200",
        &container,
    ));
    assert_eq!(estate.take_down(false), Vec::<String>::new());
    rows
}

/// From the decision until every thread was seen in state T.
fn measured(figure: &'static str, container: &Container) -> [Row; 2] {
    let mut took: Vec<f64> = (0..PAUSES)
        .map(|_| {
            let begun = Instant::now();
            container.stop().expect("it stops");
            let took = begun.elapsed().as_secs_f64() * 1e3;
            container.resume().expect("it goes on");
            took
        })
        .collect();
    took.sort_by(f64::total_cmp);
    let quantile = |share: f64| format!("{:.2} ms", took[((PAUSES - 1) as f64 * share) as usize]);
    [
        row(figure, quantile(0.5), ""),
        row("the same, p99", quantile(0.99), ""),
    ]
}
