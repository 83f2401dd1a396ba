//! House rules, run as code: the crate graph, the top level, and the paths that the documents name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace")
        .to_owned()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The crates of the workspace that a manifest names under `[dependencies]`.
fn own_dependencies(folder: &str) -> BTreeSet<String> {
    let manifest = read(&root().join(folder).join("Cargo.toml"));
    let section = manifest
        .split("[dependencies]")
        .nth(1)
        .unwrap_or_default()
        .split("\n[")
        .next()
        .unwrap_or_default();
    section
        .lines()
        .filter_map(|line| line.strip_prefix("fencepost-"))
        .filter_map(|line| line.split(['.', ' ']).next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_judge_shares_no_code_with_the_accused_and_data_walks_one_way() {
    let none: &[&str] = &[];
    for (folder, dependencies) in [
        ("checker", none),
        ("workloads", &["checker"]),
        (
            "harness",
            &[
                "checker",
                "fault-proxy",
                "fenced-resource",
                "lock-service",
                "workloads",
            ],
        ),
        ("docker/lock-service", none),
        ("docker/fenced-resource", none),
        ("docker/fault-proxy", none),
    ] {
        let expected: BTreeSet<String> =
            dependencies.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(own_dependencies(folder), expected, "{folder}");
    }
}

#[test]
fn the_workspace_has_one_binary_and_no_default_members() {
    let manifest = read(&root().join("Cargo.toml"));
    assert!(!manifest.contains("default-members"));
    let mains: Vec<&str> = [
        "checker",
        "workloads",
        "harness",
        "docker/lock-service",
        "docker/fenced-resource",
        "docker/fault-proxy",
    ]
    .into_iter()
    .filter(|folder| {
        root().join(folder).join("src/main.rs").exists()
            || root().join(folder).join("src/bin").exists()
    })
    .collect();
    assert_eq!(mains, ["harness"]);
}

/// README and everything under harness/docs.
fn documents() -> Vec<PathBuf> {
    let mut documents = vec![
        root().join("README.md"),
        root().join("docker/README.md"),
        root().join("results/README.md"),
    ];
    let docs = std::fs::read_dir(root().join("harness/docs")).expect("there are docs");
    documents.extend(
        docs.filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|ending| ending == "md")),
    );
    documents
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut broken = Vec::new();
    for document in documents() {
        let text = read(&document);
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            if !document.parent().expect("a folder").join(file).exists() {
                broken.push(format!("{}: {target}", document.display()));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn every_path_that_a_document_names_in_backticks_exists() {
    let rooms = ["checker/", "workloads/", "harness/", "docker/", ".ci/"];
    let mut missing = Vec::new();
    for document in documents() {
        let text = read(&document);
        for named in text.split('`').skip(1).step_by(2) {
            let is_path = rooms.iter().any(|room| named.starts_with(room))
                && !named.contains([' ', '*', '<', '\n', ':']);
            if is_path && !root().join(named).exists() {
                missing.push(format!("{}: {named}", document.display()));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}
