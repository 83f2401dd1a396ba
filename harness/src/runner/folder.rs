//! Where a run is saved: `DIR/<suite>-<target>/<UTC time>-<run id>/`, with `DIR/latest` pointing to the newest.

use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use crate::error::HarnessError;

/// The folder of one run.
#[derive(Clone, Debug)]
pub struct RunFolder {
    out: PathBuf,
    path: PathBuf,
}

impl RunFolder {
    /// Makes the folder; it did not exist before.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(
        out: &Path,
        suite: &str,
        target: &str,
        started: DateTime<Utc>,
        run: &str,
    ) -> Result<Self, HarnessError> {
        let path = out
            .join(format!("{suite}-{target}"))
            .join(format!("{}-{run}", started.format("%Y%m%dT%H%M%SZ")));
        let made = path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::create_dir(&path));
        match made {
            Ok(()) => Ok(Self {
                out: out.to_owned(),
                path,
            }),
            Err(source) => Err(HarnessError::Output { path, source }),
        }
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The history's file.
    #[must_use]
    pub fn history(&self) -> PathBuf {
        self.path.join("history.jsonl")
    }

    /// Writes a file of the run, with the folders it needs, whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), HarnessError> {
        let path = self.path.join(name);
        let write = || -> io::Result<()> {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            let partial = path.with_file_name(format!(
                ".{}.partial",
                path.file_name().unwrap_or_default().to_string_lossy()
            ));
            std::fs::write(&partial, bytes)?;
            std::fs::rename(&partial, &path)
        };
        write().map_err(|source| HarnessError::Output {
            path: path.clone(),
            source,
        })
    }

    /// Points `latest` to this run. Runs that end at the same moment may both do so; one of them wins.
    ///
    /// # Errors
    /// When the link cannot be made, e.g. because something else of that name is there.
    pub fn point_latest(&self) -> Result<(), HarnessError> {
        let link = self.out.join("latest");
        let to = self.path.strip_prefix(&self.out).unwrap_or(&self.path);
        let fresh = self.out.join(format!(".latest-{}", std::process::id()));
        std::os::unix::fs::symlink(to, &fresh)
            .and_then(|()| {
                let movable = link
                    .symlink_metadata()
                    .map_or(true, |there| there.is_symlink());
                if movable {
                    std::fs::rename(&fresh, &link)
                } else {
                    Err(io::Error::other("something that is no link is there"))
                }
            })
            .map_err(|source| {
                let _ = std::fs::remove_file(&fresh);
                HarnessError::Output {
                    path: link.clone(),
                    source,
                }
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(out: &Path, run: &str) -> RunFolder {
        let started = DateTime::from_timestamp(1_800_000_000, 0).expect("a time");
        RunFolder::create(out, "default", "local", started, run).expect("made")
    }

    #[test]
    fn latest_points_to_the_newest_run_and_never_replaces_a_file() {
        let out = tempfile::tempdir().expect("a folder");
        folder(out.path(), "aaaaaaaa")
            .point_latest()
            .expect("linked");
        let second = folder(out.path(), "bbbbbbbb");
        second.write("logs/w1.log", b"hello").expect("written");
        second.point_latest().expect("linked again");
        assert_eq!(
            std::fs::read(out.path().join("latest/logs/w1.log")).expect("through the link"),
            b"hello"
        );
        assert!(
            second
                .path()
                .ends_with("default-local/20270115T080000Z-bbbbbbbb")
        );

        std::fs::remove_file(out.path().join("latest")).expect("the link is ours");
        std::fs::write(out.path().join("latest"), b"a user's file").expect("written");
        assert!(second.point_latest().is_err());
        assert_eq!(
            std::fs::read(out.path().join("latest")).expect("still there"),
            b"a user's file"
        );
    }

    #[test]
    fn a_run_never_writes_into_the_folder_of_another() {
        let out = tempfile::tempdir().expect("a folder");
        folder(out.path(), "aaaaaaaa");
        let started = DateTime::from_timestamp(1_800_000_000, 0).expect("a time");
        assert!(RunFolder::create(out.path(), "default", "local", started, "aaaaaaaa").is_err());
    }
}
