//! The machine, the versions and the run's id: what a report names so that a figure means something.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Fencepost's own version; what a run meets adds its own.
#[must_use]
pub fn versions() -> BTreeMap<String, String> {
    BTreeMap::from([("fencepost".to_owned(), env!("CARGO_PKG_VERSION").to_owned())])
}

/// Operating system, kernel, cores and memory, as far as they can be read.
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
    [
        ("os", os),
        ("kernel", kernel),
        ("cores", cores),
        ("memory_mb", memory),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect()
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
