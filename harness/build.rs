//! Names the commit that the program is built from, for its reports: FENCEPOST_COMMIT, else what git says, else
//! "unknown". The same tree gives the same name, and no git, no repository and no network are needed.

use std::path::Path;
use std::process::Command;

/// What goes into the program. A change there that is not committed makes the name end in "-dirty".
const SOURCES: [&str; 6] = [
    "Cargo.toml",
    "Cargo.lock",
    "checker",
    "workloads",
    "harness",
    "docker",
];

fn main() {
    println!("cargo::rerun-if-env-changed=FENCEPOST_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let given = std::env::var("FENCEPOST_COMMIT").unwrap_or_default();
    let commit = if is_name(&given) {
        given
    } else {
        commit().unwrap_or_else(|| "unknown".to_owned())
    };
    println!("cargo::rustc-env=FENCEPOST_COMMIT={commit}");
}

fn commit() -> Option<String> {
    let top = git(&["rev-parse", "--show-toplevel"])?;
    // A tree that was unpacked inside of another repository is no part of it.
    let root = Path::new("..").canonicalize().ok()?;
    if Path::new(&top).canonicalize().ok()? != root {
        return None;
    }
    let mut watched = vec!["HEAD".to_owned(), "packed-refs".to_owned()];
    watched.extend(git(&["symbolic-ref", "--quiet", "HEAD"]));
    for name in watched {
        if let Some(path) = git(&["rev-parse", "--git-path", &name]) {
            watch(Path::new(&path));
        }
    }
    for name in [
        "../Cargo.toml",
        "../Cargo.lock",
        "src",
        "../checker/src",
        "../workloads/src",
        "../docker",
    ] {
        watch(Path::new(name));
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).filter(|name| is_name(name))?;
    let mut status = vec![
        "-C",
        "..",
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
    ];
    status.extend(SOURCES);
    let changed = git(&status).is_some_and(|changes| !changes.is_empty());
    Some(if changed {
        format!("{commit}-dirty")
    } else {
        commit
    })
}

/// A file that is not there would make every build run this anew.
fn watch(path: &Path) {
    if path.exists() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

fn is_name(text: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    !text.is_empty() && text.len() <= 64 && text.chars().all(fine)
}

/// What git prints, if there is a git and it has something to say.
fn git(words: &[&str]) -> Option<String> {
    // Looking must change nothing: other programs may be at work in the repository.
    let output = Command::new("git")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .args(words)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
