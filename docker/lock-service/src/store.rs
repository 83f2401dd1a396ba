//! The disk: counter and hold of each lock, in one redb file.
//!
//! It promises that what [`Store::commit`] returned from survives a crash at any later moment, and
//! that a crash in the middle of a commit leaves all of it or nothing. It promises nothing about
//! two services that are started on one fresh directory in the same instant; on a directory in
//! use, the second one is refused.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use redb::{
    Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, TableDefinition,
    TableError,
};

use crate::service::ServeError;
use crate::state::{LockName, Record, StoredHold};

/// A hold: client, token, ttl in milliseconds.
type HoldRow = (&'static str, u64, u64);

/// Lock to its newest issued token and its hold.
const LOCKS: TableDefinition<&str, (u64, Option<HoldRow>)> = TableDefinition::new("locks");

/// One entry under [`FORMAT_KEY`]: which layout the file has.
const FORMAT: TableDefinition<&str, u64> = TableDefinition::new("format");
const FORMAT_KEY: &str = "lock-service";
const FORMAT_VERSION: u64 = 1;

const FILE: &str = "locks.redb";

/// An open store. Its file is locked against other processes until it is dropped.
#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
    database: Database,
}

impl Store {
    /// Opens the store in `directory`; makes both where they are missing.
    pub fn open(directory: &Path) -> Result<Self, ServeError> {
        let path = directory.join(FILE);
        prepare(directory, &path).map_err(|source| ServeError::DataDirectory {
            path: directory.into(),
            source,
        })?;
        if !path.exists() {
            create(directory, &path)?;
        }
        let database = Database::open(&path).map_err(|error| not_opened(&path, error))?;
        let store = Self { path, database };
        match store.format() {
            Ok(FORMAT_VERSION) => Ok(store),
            Ok(found) => Err(ServeError::Format {
                path: store.path,
                found,
                known: FORMAT_VERSION,
            }),
            Err(error) => Err(store.failed(error)),
        }
    }

    /// All locks that were ever granted.
    pub fn load(&self) -> Result<Vec<(LockName, Record)>, ServeError> {
        self.read_all().map_err(|error| self.failed(error))
    }

    /// Stores the records, all or none of them, and returns once they are on disk.
    pub fn commit(&self, records: &[(LockName, Record)]) -> Result<(), ServeError> {
        write(&self.database, records).map_err(|error| self.failed(error))
    }

    /// The layout that the file names; 0 where it names none.
    fn format(&self) -> Result<u64, redb::Error> {
        let transaction = self.database.begin_read()?;
        match transaction.open_table(FORMAT) {
            Ok(table) => Ok(table.get(FORMAT_KEY)?.map_or(0, |version| version.value())),
            Err(TableError::TableDoesNotExist(_)) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    fn read_all(&self) -> Result<Vec<(LockName, Record)>, redb::Error> {
        let transaction = self.database.begin_read()?;
        let table = transaction.open_table(LOCKS)?;
        let mut records = Vec::new();
        for entry in table.iter()? {
            let (name, record) = entry?;
            let (issued, hold) = record.value();
            let hold = hold.map(|(client, token, ttl_ms)| StoredHold {
                client: client.into(),
                token,
                ttl: Duration::from_millis(ttl_ms),
            });
            records.push((name.value().into(), Record { issued, hold }));
        }
        Ok(records)
    }

    fn failed(&self, error: redb::Error) -> ServeError {
        ServeError::Store {
            path: self.path.clone(),
            source: Box::new(error),
        }
    }
}

/// Makes the directory, and removes what a crash left of a store that was never finished.
fn prepare(directory: &Path, path: &Path) -> std::io::Result<()> {
    fs::create_dir_all(directory)?;
    match fs::remove_file(unfinished(path)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes an empty store aside and moves it into place when it is whole, so that a crash on the
/// way does not leave a file that no later start can open.
fn create(directory: &Path, path: &Path) -> Result<(), ServeError> {
    let aside = unfinished(path);
    let database = Database::create(&aside).map_err(|error| not_opened(&aside, error))?;
    mark_format(&database).map_err(|error| ServeError::Store {
        path: aside.clone(),
        source: Box::new(error),
    })?;
    drop(database);
    fs::rename(&aside, path)
        .and_then(|()| File::open(directory)?.sync_all())
        .map_err(|source| ServeError::DataDirectory {
            path: directory.into(),
            source,
        })
}

fn mark_format(database: &Database) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    transaction
        .open_table(FORMAT)?
        .insert(FORMAT_KEY, FORMAT_VERSION)?;
    transaction.open_table(LOCKS)?;
    transaction.commit()?;
    Ok(())
}

fn write(database: &Database, records: &[(LockName, Record)]) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    {
        let mut table = transaction.open_table(LOCKS)?;
        for (name, record) in records {
            let hold = record.hold.as_ref().map(|hold| {
                // Leases come from whole milliseconds, far below 2^64 of them.
                let ttl_ms = hold.ttl.as_millis() as u64;
                (hold.client.as_str(), hold.token, ttl_ms)
            });
            table.insert(&**name, (record.issued, hold))?;
        }
    }
    transaction.commit()?;
    Ok(())
}

fn unfinished(path: &Path) -> PathBuf {
    path.with_extension("redb.unfinished")
}

fn not_opened(path: &Path, error: DatabaseError) -> ServeError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => ServeError::InUse { path: path.into() },
        other => ServeError::Store {
            path: path.into(),
            source: Box::new(other.into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<(LockName, Record)> {
        let hold = StoredHold {
            client: "c\u{e9}".into(),
            token: u64::MAX,
            ttl: Duration::from_millis(1000),
        };
        let held = Record {
            issued: u64::MAX,
            hold: Some(hold),
        };
        let free = Record {
            issued: 3,
            hold: None,
        };
        vec![("a".into(), held), ("b".into(), free)]
    }

    #[test]
    fn what_was_committed_is_there_when_the_store_is_opened_again() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let store = Store::open(directory.path()).expect("a fresh store");
        assert_eq!(store.load().expect("readable"), []);
        store.commit(&records()).expect("written");
        drop(store);
        let store = Store::open(directory.path()).expect("the same store");
        assert_eq!(store.load().expect("readable"), records());
    }

    #[test]
    fn store_that_was_never_finished_is_made_anew() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let aside = unfinished(&directory.path().join(FILE));
        fs::write(&aside, b"half a header").expect("written");
        let store = Store::open(directory.path()).expect("a fresh store");
        assert_eq!(store.load().expect("readable"), []);
        assert!(!aside.exists());
    }

    #[test]
    fn other_layout_is_refused_by_its_number() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join(FILE);
        drop(Database::create(&path).expect("a store without a layout"));
        let error = Store::open(directory.path()).expect_err("not our layout");
        let expected = format!(
            "open {}: its layout is version 0, this service reads version 1",
            path.display()
        );
        assert_eq!(error.to_string(), expected);
    }
}
