//! harness/docs/defects.md, from the rows of the catalogue.

use std::fmt::Write as _;

use super::alternative::ALTERNATIVES;
use super::{Entry, catalogue};

/// The page. `fencepost list defects --page` prints it; a test holds the committed one against it.
#[must_use]
pub fn page() -> String {
    let mut text = "# Defects\n\nEvery way in which fencing fails that can be planted: what it is in production, what an operator sees, how Fencepost\n\
        shows it, how to fix it. Made from the catalogue by `fencepost list defects --page`; do not edit it by hand.\n\n\
        `fencepost selftest` plants each and holds what is found against this table.\n\n\
        | defect | planted in | must be found as | suite |\n|---|---|---|---|\n"
        .to_owned();
    for entry in catalogue() {
        let _ = writeln!(
            text,
            "| [{0}](#{0}) | {1} | {2} | `{3}` |",
            entry.name(),
            entry.place.name(),
            found(&entry),
            entry.suite()
        );
    }
    for entry in catalogue() {
        let _ = write!(
            text,
            "\n## {}\n\nPlanted in the {}: {}.\n\n```sh\n{}\n```\n\n**In production.** {}\n\n**What an operator sees.** {}\n\n\
             **How it is shown.** Found as {}. {}\n\n**How to fix it.** {}\n",
            entry.name(),
            entry.place.name(),
            entry.about,
            entry.command(),
            entry.row.production,
            entry.row.operator,
            found(&entry) + &explained(&entry),
            entry.row.shown,
            entry.row.fix
        );
    }
    text += "\n## Without a fence\n\nSystems that are safe without comparing tokens, each beside the one that is not.\n\n\
             | suite | what it is | must be |\n|---|---|---|\n";
    for alternative in ALTERNATIVES {
        let defect = alternative
            .defect
            .map(|name| format!(" `--defect {name}`"))
            .unwrap_or_default();
        let must = match alternative.found_as {
            [] => "valid".to_owned(),
            names => quoted(names),
        };
        let _ = writeln!(
            text,
            "| `{}`{defect} | {} | {must} |",
            alternative.suite, alternative.about
        );
    }
    text
}

fn found(entry: &Entry) -> String {
    match entry.found_as() {
        [] => entry.must_be(),
        names => quoted(names),
    }
}

/// What the story of the finding says.
fn explained(entry: &Entry) -> String {
    match entry.says() {
        [] => String::new(),
        words => format!(", with {} in its story", quoted(words)),
    }
}

fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(" or ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_committed_page_is_what_the_catalogue_gives() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/defects.md");
        let committed = std::fs::read_to_string(path).expect("the page is committed");
        assert!(
            committed == super::page(),
            "harness/docs/defects.md is old: fencepost list defects --page > harness/docs/defects.md"
        );
    }
}
