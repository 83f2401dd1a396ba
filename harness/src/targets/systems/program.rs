//! An installed program: where it is, and which version it says it is.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The first executable file called `name` on the PATH, then in `folders`.
#[must_use]
pub(super) fn find_program(name: &str, folders: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(folders.iter().map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|program| is_executable(program))
}

/// Whether there is a file that can be executed.
#[must_use]
pub(super) fn is_executable(program: &Path) -> bool {
    std::fs::metadata(program)
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The first line that the program prints of its version.
#[must_use]
pub(super) fn version_of(program: &Path) -> Option<String> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null());
    let output = command.output().ok().filter(|out| out.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(|line| line.trim().to_owned())
}
