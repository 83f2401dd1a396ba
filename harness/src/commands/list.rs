//! `fencepost list`: what there is, one a line, the name first.

use std::fmt::Write as _;

use fencepost_checker::fencing::FINDINGS;
use fencepost_checker::models::MODELS;
use fencepost_workloads::suite::{BUILT_IN, FAULT_KINDS, TARGETS, built_in};
use fencepost_workloads::workload::WORKLOADS;

use crate::cli::{ListArguments, Listing};
use crate::defects::{catalogue, page};
use crate::error::HarnessError;
use crate::terminal::{print, say_json};

/// Lists one kind of thing, or says what can be listed.
///
/// # Errors
/// When there is no suite of the name given.
pub fn list(arguments: &ListArguments) -> Result<u8, HarnessError> {
    let Some(what) = arguments.what else {
        print(&table([
            ("suites", "built-in suites; `list suite NAME` prints one"),
            ("workloads", "what clients can do"),
            ("faults", "what can be done to the system"),
            ("defects", "what can be planted in it"),
            ("targets", "where it can live"),
            ("models", "what histories can be held against"),
            ("findings", "what can be found"),
        ]));
        return Ok(0);
    };
    if what != Listing::Suite
        && let Some(name) = &arguments.name
    {
        return Err(HarnessError::Usage(format!(
            "{name:?} is one word too many: only `list suite NAME` takes a name"
        )));
    }
    if what != Listing::Defects && (arguments.json || arguments.page) {
        return Err(HarnessError::Usage(
            "--json and --page are for `list defects`".to_owned(),
        ));
    }
    match what {
        Listing::Suite => print(suite(arguments.name.as_deref())?),
        Listing::Suites => print(&table(
            BUILT_IN
                .iter()
                .map(|suite| (suite.name, suite.suite().about)),
        )),
        Listing::Workloads => print(&table(
            WORKLOADS.iter().map(|&(_, name, about)| (name, about)),
        )),
        Listing::Faults => print(&table(
            FAULT_KINDS
                .iter()
                .map(|&(kind, about)| (kind.name(), about)),
        )),
        Listing::Defects if arguments.page => print(&page()),
        Listing::Defects if arguments.json => {
            for entry in catalogue() {
                say_json(&serde_json::json!({
                    "defect": entry.name(),
                    "planted_in": entry.place.name(),
                    "about": entry.about,
                    "found_as": entry.found_as(),
                    "suite": entry.suite(),
                    "command": entry.command(),
                }));
            }
        }
        Listing::Defects => print(&table(catalogue().iter().map(|entry| {
            let (place, about) = (entry.place.name(), entry.about);
            (
                entry.name(),
                format!("[{place}] {about} ({})", entry.must_be()),
            )
        }))),
        Listing::Targets => print(&table(TARGETS.iter().copied())),
        Listing::Models => print(&table(MODELS.iter().map(|&(_, name, about)| (name, about)))),
        Listing::Findings => print(&table(
            FINDINGS
                .iter()
                .map(|finding| (finding.name, finding.summary)),
        )),
    }
    Ok(0)
}

fn suite(name: Option<&str>) -> Result<&'static str, HarnessError> {
    let known = || {
        BUILT_IN
            .iter()
            .map(|suite| suite.name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let name =
        name.ok_or_else(|| HarnessError::Usage(format!("list suite needs a name: {}", known())))?;
    built_in(name).map(|suite| suite.text).ok_or_else(|| {
        HarnessError::Usage(format!("no built-in suite {name:?}: there are {}", known()))
    })
}

fn table<A: AsRef<str>, B: AsRef<str>>(rows: impl IntoIterator<Item = (A, B)>) -> String {
    let rows: Vec<(A, B)> = rows.into_iter().collect();
    let width = rows
        .iter()
        .map(|(name, _)| name.as_ref().len())
        .max()
        .unwrap_or(0);
    rows.iter().fold(String::new(), |mut text, (name, about)| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:width$}  {}", name.as_ref(), about.as_ref());
        text
    })
}
