//! The records on disk: for each key its high water, and the value with the token that wrote it.
//!
//! Promises: [`Store::transaction`] is all or nothing, and has reached the disk (fsync) when it
//! returns. A reader sees committed transactions only, and sees every one that returned before the
//! read began. The state after SIGKILL at any moment is that of some committed transaction, and
//! holds every one that returned.
//!
//! The records of the latest commits are kept in memory, too, for readers alone ([`Store::recent`]).
//! They are put there once their commit has reached the disk and before the transaction returns, so
//! the copy never runs ahead of the disk and never lags behind an answer. Decisions are made on the
//! disk's own record.
//!
//! Does not decide anything: which record may replace which is up to the caller.
//!
//! After a failed commit the store refuses further work until the process is started anew, because
//! nobody can say what a disk holds whose fsync failed.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};

use redb::{
    Builder, Database, Durability, ReadableDatabase, ReadableTable, ReadableTableMetadata, Table,
    TableDefinition,
};
use thiserror::Error;

/// Key to (high water, token of the value, value).
const RECORDS: TableDefinition<&str, (u64, u64, &str)> = TableDefinition::new("records");

const FILE_NAME: &str = "resource.redb";

/// Memory for cached pages. The default of the engine, 1 GiB, is more than a container may have.
const CACHE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of keys and values that [`Store::recent`] keeps at most; beyond, it starts over.
const RECENT_BYTES: usize = 16 * 1024 * 1024;

/// What one key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The highest token accepted for the key.
    pub(crate) high_water: u64,
    /// The token under which `value` was written. Equal to `high_water` unless a defect is planted.
    pub(crate) token: u64,
    /// The value that was written last.
    pub(crate) value: String,
}

/// A key with its numbers, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) key: String,
    pub(crate) token: u64,
    pub(crate) high_water: u64,
}

/// Why a store could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The data directory could not be made or flushed.
    #[error("open the data directory {}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The database in it could not be opened: damaged, or in use by another process.
    #[error("open the store {}: {source}", path.display())]
    Database {
        /// The database file.
        path: PathBuf,
        /// What the storage engine said.
        source: Box<redb::Error>,
    },
}

/// The records of all keys, in one file.
#[derive(Debug)]
pub(crate) struct Store {
    /// `None` once closed. The lock is held for reading by all work on the database, so that closing
    /// waits for that work and the file is free again when it returns.
    database: RwLock<Option<Database>>,
    recent: RwLock<Recent>,
    /// Held from before a commit until [`Store::recent`] knows it, so that a list never shows what a read
    /// after it does not.
    committing: Mutex<()>,
}

/// The records that were committed last, by key.
#[derive(Debug, Default)]
struct Recent {
    records: HashMap<String, Record>,
    bytes: usize,
}

impl Recent {
    fn add(&mut self, key: String, record: Record) {
        let name = key.len();
        let size = name + record.value.len();
        if self.bytes + size > RECENT_BYTES {
            *self = Recent::default();
        }
        self.bytes += size;
        if let Some(old) = self.records.insert(key, record) {
            self.bytes -= name + old.value.len();
        }
    }
}

impl Store {
    /// Opens the store in `directory`, and makes both if they do not exist. Blocks; after a crash it
    /// reads the whole file to repair it.
    pub(crate) fn open(directory: &Path) -> Result<Store, OpenError> {
        let directory_failed = |source| OpenError::Directory {
            path: directory.to_owned(),
            source,
        };
        fs::create_dir_all(directory).map_err(directory_failed)?;
        let path = directory.join(FILE_NAME);
        let store = Builder::new()
            .set_cache_size(CACHE_BYTES)
            .create(&path)
            .map_err(redb::Error::from)
            .and_then(Store::over)
            .map_err(|source| OpenError::Database {
                path,
                source: Box::new(source),
            })?;
        // A file is durable only when the directory that names it is.
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(directory_failed)?;
        Ok(store)
    }

    /// A store over an open database. The table is made here, so that readers always find it.
    pub(crate) fn over(database: Database) -> Result<Store, redb::Error> {
        let transaction = database.begin_write()?;
        transaction.open_table(RECORDS)?;
        transaction.commit()?;
        Ok(Store {
            database: RwLock::new(Some(database)),
            recent: RwLock::default(),
            committing: Mutex::default(),
        })
    }

    /// The record of `key` if one of the latest commits wrote it. Never blocks on the disk.
    ///
    /// `None` says nothing: [`Store::record`] knows.
    pub(crate) fn recent(&self, key: &str) -> Option<Record> {
        let recent = self.recent.read().unwrap_or_else(PoisonError::into_inner);
        recent.records.get(key).cloned()
    }

    /// The record of `key`, or `None` if it was never written. Blocks on disk reads.
    pub(crate) fn record(&self, key: &str) -> Result<Option<Record>, redb::Error> {
        self.with(|database| {
            let table = database.begin_read()?.open_table(RECORDS)?;
            let record = table.get(key)?.map(|found| {
                let (high_water, token, value) = found.value();
                Record {
                    high_water,
                    token,
                    value: value.to_owned(),
                }
            });
            Ok(record)
        })
    }

    /// Shows readers a record that is on no disk. Only a planted defect does.
    pub(crate) fn show(&self, key: &str, record: &Record) {
        let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        recent.add(key.to_owned(), record.clone());
    }

    /// Sets every mark to 0 and keeps the values. Only a planted defect does.
    pub(crate) fn forget_marks(&self) -> Result<(), redb::Error> {
        let (marks, _) = self.marks(usize::MAX)?;
        self.transaction(|records| {
            for mark in &marks {
                records.mark_anew(&mark.key, 0)?;
            }
            Ok(())
        })
    }

    /// The first `limit` keys in byte order, and whether there are more. Blocks on disk reads.
    pub(crate) fn marks(&self, limit: usize) -> Result<(Vec<Mark>, bool), redb::Error> {
        let _settled = self
            .committing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.with(|database| {
            let table = database.begin_read()?.open_table(RECORDS)?;
            let mut marks = Vec::new();
            for entry in table.iter()?.take(limit) {
                let (key, record) = entry?;
                let (high_water, token, _) = record.value();
                marks.push(Mark {
                    key: key.value().to_owned(),
                    token,
                    high_water,
                });
            }
            let more = table.len()? > marks.len() as u64;
            Ok((marks, more))
        })
    }

    /// Runs `steps` in one transaction and makes it durable before it returns; blocks for the fsync.
    ///
    /// When `steps` fails, or changes nothing, nothing is written. When the commit fails, nothing
    /// is visible to readers, and what the disk holds is unknown until the store is opened again.
    pub(crate) fn transaction<T>(
        &self,
        steps: impl FnOnce(&mut Records<'_>) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        let _settled = self
            .committing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.with(|database| {
            let mut transaction = database.begin_write()?;
            transaction.set_durability(Durability::Immediate)?;
            let mut records = Records {
                table: transaction.open_table(RECORDS)?,
                changed: Vec::new(),
            };
            let result = steps(&mut records)?;
            let changed = std::mem::take(&mut records.changed);
            drop(records);
            if changed.is_empty() {
                transaction.abort()?;
                return Ok(result);
            }
            transaction.commit()?;
            let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
            for (key, record) in changed {
                recent.add(key, record);
            }
            Ok(result)
        })
    }

    /// Closes the file and frees its lock, after the work in progress. Everything later fails.
    pub(crate) fn close(&self) {
        *self
            .database
            .write()
            .unwrap_or_else(PoisonError::into_inner) = None;
        *self.recent.write().unwrap_or_else(PoisonError::into_inner) = Recent::default();
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        work(database.as_ref().ok_or(redb::Error::DatabaseClosed)?)
    }
}

/// The records inside one open transaction; it sees its own changes.
pub(crate) struct Records<'t> {
    table: Table<'t, &'static str, (u64, u64, &'static str)>,
    /// What was put, in order.
    changed: Vec<(String, Record)>,
}

impl Records<'_> {
    /// The high water of `key`, or `None` if it was never written.
    pub(crate) fn high_water(&self, key: &str) -> Result<Option<u64>, redb::Error> {
        Ok(self.table.get(key)?.map(|record| record.value().0))
    }

    /// The value that was written to `key` last, or `None` if it was never written.
    pub(crate) fn value(&self, key: &str) -> Result<Option<String>, redb::Error> {
        Ok(self
            .table
            .get(key)?
            .map(|record| record.value().2.to_owned()))
    }

    /// How many keys have a record.
    pub(crate) fn count(&self) -> Result<u64, redb::Error> {
        Ok(self.table.len()?)
    }

    /// Sets the mark of `key` and keeps its value, if it has a record.
    pub(crate) fn mark_anew(&mut self, key: &str, mark: u64) -> Result<(), redb::Error> {
        let kept = self.table.get(key)?.map(|record| {
            let (_, token, value) = record.value();
            (token, value.to_owned())
        });
        match kept {
            Some((token, value)) => self.put(key, mark, token, &value),
            None => Ok(()),
        }
    }

    /// Replaces the record of `key`.
    pub(crate) fn put(
        &mut self,
        key: &str,
        high_water: u64,
        token: u64,
        value: &str,
    ) -> Result<(), redb::Error> {
        self.table.insert(key, (high_water, token, value))?;
        let record = Record {
            high_water,
            token,
            value: value.to_owned(),
        };
        self.changed.push((key.to_owned(), record));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{OpenError, Record, Store};

    #[test]
    fn a_failed_step_undoes_the_whole_transaction() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let store = Store::open(directory.path()).expect("a new store");
        let failed = store.transaction(|records| {
            records.put("a", 7, 7, "first")?;
            assert_eq!(records.high_water("a")?, Some(7));
            Err::<(), _>(redb::Error::Corrupted("made up by the test".to_owned()))
        });
        assert!(matches!(failed, Err(redb::Error::Corrupted(_))));
        assert_eq!(store.record("a").expect("a readable store"), None);
        assert_eq!(store.recent("a"), None);
    }

    #[test]
    fn what_was_committed_is_at_hand_until_it_is_too_much_and_never_after_the_end() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let store = Store::open(directory.path()).expect("a new store");
        let put = |key: &str, token, value: &str| {
            store
                .transaction(|records| records.put(key, token, token, value))
                .expect("a commit");
        };
        put("a", 1, "old");
        put("a", 2, "new");
        assert_eq!(store.recent("a"), store.record("a").expect("readable"));
        assert_eq!(store.recent("a").expect("at hand").value, "new");

        let long = "x".repeat(super::RECENT_BYTES / 4);
        for key in ["b", "c", "d", "e"] {
            put(key, 1, &long);
        }
        assert_eq!(store.recent("a"), None, "made room");
        assert_eq!(store.recent("e").expect("the last").value.len(), long.len());
        assert_eq!(store.record("a").expect("readable").expect("kept").token, 2);

        store.close();
        assert_eq!(store.recent("e"), None);
    }

    #[test]
    fn a_record_outlives_the_store_that_wrote_it() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let store = Store::open(directory.path()).expect("a new store");
        store
            .transaction(|records| records.put("a", u64::MAX, 3, "v"))
            .expect("a commit");
        store.close();
        assert!(matches!(
            store.record("a"),
            Err(redb::Error::DatabaseClosed)
        ));

        let reopened = Store::open(directory.path()).expect("the same store");
        let expected = Record {
            high_water: u64::MAX,
            token: 3,
            value: "v".to_owned(),
        };
        assert_eq!(
            reopened.record("a").expect("a readable store"),
            Some(expected)
        );
    }

    #[test]
    fn forgotten_marks_leave_their_values() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let store = Store::open(directory.path()).expect("a new store");
        store
            .transaction(|records| records.put("a", 9, 9, "v"))
            .expect("a commit");
        store.forget_marks().expect("a commit");
        let record = store.record("a").expect("readable").expect("kept");
        assert_eq!((record.high_water, record.value.as_str()), (0, "v"));
    }

    #[test]
    fn a_store_in_use_is_not_opened_twice_and_the_error_names_it() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let _store = Store::open(directory.path()).expect("a new store");
        let error = Store::open(directory.path()).expect_err("it is in use");
        assert!(matches!(error, OpenError::Database { .. }));
        let path = directory.path().join("resource.redb");
        assert!(error.to_string().contains(&path.display().to_string()));
    }

    #[test]
    fn the_list_of_marks_says_when_it_is_cut() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let store = Store::open(directory.path()).expect("a new store");
        store
            .transaction(|records| {
                records.put("b", 2, 2, "")?;
                records.put("a", 1, 1, "")
            })
            .expect("a commit");
        let keys = |limit| {
            let (marks, more) = store.marks(limit).expect("a readable store");
            let keys: Vec<String> = marks.into_iter().map(|mark| mark.key).collect();
            (keys, more)
        };
        assert_eq!(keys(1), (vec!["a".to_owned()], true));
        assert_eq!(keys(2), (vec!["a".to_owned(), "b".to_owned()], false));
    }
}
