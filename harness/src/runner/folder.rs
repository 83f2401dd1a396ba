//! Where a run is saved: `DIR/<suite>-<target>/<UTC time>-<run id>/`, with `DIR/latest` pointing to the newest.

use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use crate::error::HarnessError;

/// The file that keeps room free, and so many bytes of it.
pub const RESERVE: &str = ".reserve";
const RESERVED: usize = 512 << 10;
/// So much of it is kept until nothing but `run.json` and `summary.md` is to be written, which then say what else could
/// not be.
const FOR_THE_LAST_WORD: u64 = 192 << 10;

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

    /// Takes the folder away again, if nothing could be written there.
    pub fn abandon(&self) {
        // What holds something is left for whoever wants to look.
        let _ = std::fs::remove_dir(&self.path);
    }

    /// Where room is kept free for what is written last.
    #[must_use]
    pub fn reserve(&self) -> PathBuf {
        self.path.join(RESERVE)
    }

    /// Takes room that the end of the run finds, whatever fills the disk meanwhile.
    ///
    /// # Errors
    /// When there is not so much room.
    pub fn keep_room(&self) -> Result<(), HarnessError> {
        let path = self.reserve();
        // Some file systems keep no room for what can be written in fewer bytes.
        let mut word = 1_u64;
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            word.to_le_bytes()
        })
        .take(RESERVED / 8)
        .flatten()
        .collect();
        std::fs::write(&path, bytes).map_err(|source| {
            self.give_room_back();
            HarnessError::Output { path, source }
        })
    }

    /// Gives back what the verdict and the report in words need; the rest is for the last word of all.
    pub fn give_most_room_back(&self) {
        // Where there is none, there is nothing to give back.
        if let Ok(file) = std::fs::OpenOptions::new().write(true).open(self.reserve()) {
            let _ = file.set_len(FOR_THE_LAST_WORD);
        }
    }

    /// Gives back all that is left of it.
    pub fn give_room_back(&self) {
        let _ = std::fs::remove_file(self.reserve());
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
            std::fs::write(&partial, bytes)
                .and_then(|()| std::fs::rename(&partial, &path))
                // Best effort: what counts is why the file could not be written.
                .inspect_err(|_| drop(std::fs::remove_file(&partial)))
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
    fn a_file_that_cannot_be_written_leaves_nothing_of_it() {
        let out = tempfile::tempdir().expect("a folder");
        let folder = folder(out.path(), "aaaaaaaa");
        std::fs::create_dir(folder.path().join("run.json")).expect("in its way");
        assert!(folder.write("run.json", b"{}").is_err());
        let left: Vec<_> = std::fs::read_dir(folder.path()).expect("there").collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn room_is_kept_and_given_back_in_two_steps() {
        let out = tempfile::tempdir().expect("a folder");
        let folder = folder(out.path(), "aaaaaaaa");
        let kept = || {
            std::fs::metadata(folder.reserve())
                .map(|file| file.len())
                .ok()
        };
        folder.keep_room().expect("there is room");
        assert_eq!(kept(), Some(RESERVED as u64));
        folder.give_most_room_back();
        assert_eq!(kept(), Some(FOR_THE_LAST_WORD));
        folder.give_room_back();
        folder.give_most_room_back();
        assert_eq!(kept(), None);
        folder.abandon();
        assert!(!folder.path().exists());
    }

    #[test]
    fn a_run_never_writes_into_the_folder_of_another() {
        let out = tempfile::tempdir().expect("a folder");
        folder(out.path(), "aaaaaaaa");
        let started = DateTime::from_timestamp(1_800_000_000, 0).expect("a time");
        assert!(RunFolder::create(out.path(), "default", "local", started, "aaaaaaaa").is_err());
    }
}
