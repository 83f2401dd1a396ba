//! How exactly a worker is stopped, through the nemesis of a real run.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{BINARY, Row, folder, row};

const SUITE: &str = r#"
name = "pauses"
[run]
time_limit = "24s"
[[fault]]
kind = "pause"
on = "worker"
every = "100ms"
length = "10ms..20ms"
"#;

/// From the moment at which the plan wants a worker stopped until every thread of it was seen in state T: the timer,
/// the choice of a worker that is free, holding it back, the journal's line, SIGSTOP to its processes and the look at
/// /proc. Times are the run's own, from its history; the load begins with its first operation.
pub fn pauses() -> Vec<Row> {
    let late = stops(SUITE, &[], None);
    vec![
        row(
            "from the planned moment to the evidenced stop of a working worker, median of 200 pauses and more",
            format!("{:.2} ms", quantile(&late, 0.5)),
            "",
        ),
        row(
            "the same, p99",
            format!("{:.2} ms", quantile(&late, 0.99)),
            "under 5 ms",
        ),
        row(
            "the same, greatest",
            format!("{:.2} ms", quantile(&late, 1.0)),
            "",
        ),
    ]
}

/// That of `late`, which rise, below which so great a share of them lies.
pub fn quantile(late: &[f64], share: f64) -> f64 {
    late[((late.len() - 1) as f64 * share) as usize]
}

/// How many milliseconds after its planned moment each stop of a run was evidenced, rising. Those without evidence, and
/// those that were skipped because the last one still lasted, are none.
pub fn stops(suite_text: &str, flags: &[&str], engine: Option<&str>) -> Vec<f64> {
    let out = folder();
    let suite = out.path().join("pauses.toml");
    std::fs::write(&suite, suite_text).expect("written");
    let mut command = Command::new(BINARY);
    command.arg("run").arg(&suite).args(flags);
    if let Some(host) = engine {
        command.env("DOCKER_HOST", host);
    }
    let run = command
        .args(["--json", "--out"])
        .arg(out.path())
        .stderr(Stdio::null())
        .output()
        .expect("it runs");
    let end: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let saved = std::path::Path::new(end["folder"].as_str().expect("a path"));
    let read = |name: &str| std::fs::read_to_string(saved.join(name)).expect("saved");
    let record: Value = serde_json::from_str(&read("run.json")).expect("JSON");
    let history = read("history.jsonl");
    let events: Vec<Value> = history
        .lines()
        .map(|line| serde_json::from_str(line).expect("an event"))
        .collect();
    let millis = |event: &Value| event["time"].as_f64().expect("a time") / 1e6;
    let first = events
        .iter()
        .find(|event| event["type"] == "invoke")
        .expect("operations");
    let mut late: Vec<f64> = events
        .iter()
        .filter(|event| event["type"] == "fault" && event["phase"] == "begin")
        .filter(|event| event["outcome"] == "installed")
        .map(|event| {
            let plan = record["plan"].as_array().expect("a plan");
            let planned = plan
                .iter()
                .find(|planned| planned["id"] == event["id"])
                .expect("it was planned");
            millis(event) - millis(first) - planned["at_ms"].as_f64().expect("a time")
        })
        .collect();
    late.sort_by(f64::total_cmp);
    assert!(late.len() >= 200, "only {} pauses", late.len());
    late
}
