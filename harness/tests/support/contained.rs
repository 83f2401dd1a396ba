//! What the tests of runs in containers share.

use std::io::Write;
use std::path::{Path, PathBuf};

use fencepost::targets::docker::Engine;
use serde_json::Value;

use super::{fencepost, only_json, outcome};

/// A resource of somebody's own, which is the reference resource under its common name.
pub const OWN_RESOURCE: &str = "[nodes.resource]\nimage = \"fencepost:latest\"\nport = 9000\ndata = \"/data\"\n\
    command = [\"fenced-resource\", \"--listen\", \"0.0.0.0:9000\", \"--data\", \"/data\"]\n";

/// The engine; `None`, loudly, where there is none.
pub fn engine() -> Option<Engine> {
    match Engine::reach() {
        Ok(engine) => Some(engine),
        Err(error) => {
            let skipped =
                format!("SKIPPED: no Docker engine, so nothing was tried on containers: {error}\n");
            // Past the capture of the test runner.
            let _ = std::io::stderr().write_all(skipped.as_bytes());
            None
        }
    }
}

/// Everything of a run that an engine still has.
pub fn left_at(engine: &Engine, run: &str) -> Vec<String> {
    let (asked, id) = (engine.clone(), run.to_owned());
    let found = engine.wait_for(async move { asked.of_run(&id).await });
    let found = found.expect("the engine answers").into_iter();
    let ours = found.map(|(kind, name)| format!("{} {name}", kind.name()));
    ours.chain(composed_at(engine, run)).collect()
}

/// What compose made for a run and an engine still has; it carries compose's labels and none of ours.
fn composed_at(engine: &Engine, run: &str) -> Vec<String> {
    let projects = ["fencepost-", "fencepost-lock-", "fencepost-resource-"];
    let mut left = Vec::new();
    for project in projects.map(|project| format!("{project}{run}")) {
        let asked = engine.clone();
        let found = engine.wait_for(async move { asked.of_project(&project).await });
        let found = found.expect("the engine answers").into_iter();
        left.extend(found.map(|(service, name)| format!("{name} of service {service}")));
    }
    left
}

pub fn suite(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(format!("{name}.toml"));
    std::fs::write(&path, format!("name = \"{name}\"\n{text}")).expect("written");
    path
}

/// Runs a suite in Docker; the exit status, and the JSON that it printed.
pub fn run(suite: &Path, out: &Path, flags: &[&str], engine: Option<&str>) -> (i32, Value) {
    let mut command = fencepost();
    command
        .arg("run")
        .arg(suite)
        .args(["--target", "docker", "--json", "--out"]);
    command.arg(out).args(flags);
    if let Some(host) = engine {
        command.env("DOCKER_HOST", host);
    }
    let output = command.output().expect("it runs");
    let (code, stdout, stderr) = outcome(&output);
    assert!(!stdout.is_empty(), "nothing on stdout; stderr: {stderr}");
    (code, only_json(&stdout))
}

pub fn folder(end: &Value) -> PathBuf {
    end["folder"].as_str().expect("a path").into()
}

pub fn id(end: &Value) -> &str {
    end["run"].as_str().expect("an id")
}

/// Each of these was in force at least once.
pub fn installed(end: &Value, labels: &[&str]) {
    for label in labels {
        let seen = &end["coverage"]["faults"][label];
        assert!(
            seen["installed"].as_u64() >= Some(1),
            "{label}: {seen} in {end}"
        );
    }
}
