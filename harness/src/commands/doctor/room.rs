//! Where a run writes, and which ports it can have.

use std::path::Path;

use crate::limits;
use crate::targets::Ports;

/// A default run takes 13 ports; several runs, and room to draw from, should be there.
const PORTS_NEEDED: usize = 500;
/// What a default run with its report takes, generously, in bytes.
const RESULTS_NEED: u64 = 64 << 20;
/// What a journal takes, generously, in bytes.
const JOURNAL_NEEDS: u64 = 1 << 20;

pub(super) fn ports() -> Result<String, String> {
    let (all, free) = Ports::free();
    let shown = format!("{free} of {all} loopback ports can be claimed");
    if free >= PORTS_NEEDED {
        Ok(shown)
    } else {
        Err(format!(
            "{shown}; end what listens there (`ss -ltn` shows it): {PORTS_NEEDED} should be free"
        ))
    }
}

/// Files and sockets that one process may have open at once.
pub(super) fn open_files() -> Result<String, String> {
    limits::open_files().map(|room| format!("a process may have {room} files open"))
}

/// Made if it is not there, as a run would.
pub(super) fn journal(folder: &Path) -> Result<String, String> {
    let hint = "set XDG_STATE_HOME to a folder that can be written";
    let told = |error: std::io::Error| format!("{}: {error}; {hint}", folder.display());
    std::fs::create_dir_all(folder).map_err(told)?;
    written(folder, JOURNAL_NEEDS, hint)
}

/// The folder need not be there yet: then it is the one that it would be made in that counts.
pub(super) fn results(out: &Path) -> Result<String, String> {
    let out = std::path::absolute(out).map_err(|error| format!("{}: {error}", out.display()))?;
    let there = out.ancestors().find(|folder| folder.exists());
    written(
        there.unwrap_or(&out),
        RESULTS_NEED,
        "name another folder with --out",
    )
}

/// Writes there, for as long as it takes to see that it can be done.
fn written(folder: &Path, needed: u64, hint: &str) -> Result<String, String> {
    let told = |error: std::io::Error| format!("{}: {error}; {hint}", folder.display());
    let probe = folder.join(format!(".doctor-{}", std::process::id()));
    let tried = std::fs::write(&probe, [b'x'; 4096]);
    let removed = std::fs::remove_file(&probe);
    tried.and(removed).map_err(told)?;
    let stats = nix::sys::statvfs::statvfs(folder).map_err(|error| told(error.into()))?;
    let free = stats
        .blocks_available()
        .saturating_mul(stats.fragment_size());
    let shown = format!(
        "{} can be written, {} MB are free there",
        folder.display(),
        free >> 20
    );
    if free >= needed {
        Ok(shown)
    } else {
        Err(format!("{shown}: {} MB are needed; {hint}", needed >> 20))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_yet_is_tried_where_it_would_be_made_and_left_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let seen = results(&folder.path().join("deep/results")).expect("it can be made");
        assert!(
            seen.starts_with(folder.path().to_str().expect("UTF-8")),
            "{seen}"
        );
        assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 0);
    }

    #[test]
    fn what_is_no_folder_is_refused_with_what_would_be_right() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let why = results(file.path()).expect_err("a file");
        assert!(
            why.contains("Not a directory") && why.ends_with("name another folder with --out"),
            "{why}"
        );
        let why = journal(&file.path().join("fencepost")).expect_err("below a file");
        assert!(
            why.ends_with("set XDG_STATE_HOME to a folder that can be written"),
            "{why}"
        );
    }
}
