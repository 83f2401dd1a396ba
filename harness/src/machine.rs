//! The machine, the versions and the run's id: what a report names so that a figure means something.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};

/// The commit that the program was built from: 12 digits and "-dirty" where there were changes, or "unknown".
pub const COMMIT: &str = env!("FENCEPOST_COMMIT");

/// Fencepost's own version and commit; what a run meets adds its own.
#[must_use]
pub fn versions() -> BTreeMap<String, String> {
    [("fencepost", env!("CARGO_PKG_VERSION")), ("commit", COMMIT)]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

/// Operating system, kernel, model and number of the cores, and memory, as far as they can be read.
#[must_use]
pub fn describe() -> BTreeMap<String, String> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let os = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map(|name| name.trim_matches('"').to_owned());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")
        .ok()
        .map(|text| text.trim().to_owned());
    let memory = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let kilobytes: u64 = text
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))?
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .ok()?;
        Some((kilobytes / 1024).to_string())
    });
    let cores = std::thread::available_parallelism()
        .ok()
        .map(|cores| cores.to_string());
    let cpu = fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| cpu_model(&text));
    [
        ("os", os),
        ("kernel", kernel),
        ("cpu", cpu),
        ("cores", cores),
        ("memory_mb", memory),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect()
}

/// The model that `/proc/cpuinfo` names first; some architectures name none.
fn cpu_model(text: &str) -> Option<String> {
    let named = |line: &str| {
        let (field, value) = line.split_once(':')?;
        let fits = matches!(field.trim(), "model name" | "Model" | "cpu model" | "uarch");
        (fits && !value.trim().is_empty()).then(|| value.trim().to_owned())
    };
    text.lines().find_map(named)
}

/// A new run's id: 8 lower-case hexadecimal digits.
#[must_use]
pub fn run_id() -> String {
    format!("{:08x}", entropy() as u32)
}

/// A number that nobody can foresee: a seed for a run that was given none.
#[must_use]
pub fn entropy() -> u64 {
    // The standard library seeds its hashers from the operating system.
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_is_that_of_the_tree_where_there_is_one() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let versions = versions();
        let commit = versions["commit"].trim_end_matches("-dirty");
        let git = std::process::Command::new("git")
            .args(["-C", root, "rev-parse", "HEAD"])
            .output();
        let head = git.ok().filter(|output| output.status.success());
        match head {
            Some(head) if fs::exists(format!("{root}/.git")).unwrap_or(false) => {
                let head = String::from_utf8_lossy(&head.stdout).into_owned();
                assert!(
                    commit.len() >= 12 && head.starts_with(commit)
                        || std::env::var("FENCEPOST_COMMIT").is_ok(),
                    "{commit} is not of {head}"
                );
            }
            _ => assert!(!commit.is_empty()),
        }
    }

    #[test]
    fn the_first_model_of_a_processor_is_named() {
        let text =
            "processor\t: 0\nmodel\t\t: 85\nmodel name\t: A Processor @ 2.70GHz\nflags\t\t: fpu\n";
        assert_eq!(cpu_model(text).as_deref(), Some("A Processor @ 2.70GHz"));
        assert_eq!(cpu_model("processor\t: 0\nBogoMIPS\t: 50.00\n"), None);
    }
}
