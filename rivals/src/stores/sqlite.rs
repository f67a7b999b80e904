//! SQLite, compiled in: one table with the ten columns, write-ahead log, statements prepared once.
//!
//! `synchronous=FULL` syncs the log at each commit. The page cache keeps its small default, which
//! inserts want, since reading goes through the map (which SQLite limits to 2 GiB; pages beyond are
//! read). Threads of one database take a lock before they write, because SQLite's own way to wait
//! for another writer is to sleep. A database with one connection holds its file lock throughout,
//! which saves the locking at each transaction.

use super::RowBuffer;
use crate::foreign::without_sqlite_memory_statistics;
use crate::kind::{Plan, Rival, RivalStore};
use anyhow::{Result, ensure};
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use workload::ycsb::{COLUMNS, Change, Contents, Store};

/// How it is set.
pub(crate) const SETTING: &str = "SQLite, WAL, synchronous=FULL, mmap on, memory statistics off, default page cache of 2 MB, cached \
     prepared statements, UPDATE of the column; exclusive locking where a database has one connection";

/// More than SQLite allows, so it takes what it allows.
const MAP_BYTES: i64 = 1 << 40;
/// Statements that a connection keeps prepared: an insert, a select, and an update for each first
/// column.
const STATEMENTS: usize = 32;

/// A database file.
pub(crate) struct Sqlite {
    path: PathBuf,
    has_one_connection: bool,
    /// Held while writing.
    writer: Mutex<()>,
}

impl Sqlite {
    pub(crate) fn create(directory: &Path, plan: Plan) -> Result<Self> {
        without_sqlite_memory_statistics()?;
        let sqlite = Self {
            path: directory.join("rows.sqlite"),
            has_one_connection: plan.threads == 1,
            writer: Mutex::new(()),
        };
        let columns: Vec<String> = (0..COLUMNS)
            .map(|column| format!(", field{column} TEXT NOT NULL"))
            .collect();
        let columns = columns.concat();
        let create = format!("CREATE TABLE usertable (key INTEGER PRIMARY KEY{columns})");
        sqlite.connect()?.execute_batch(&create)?;
        Ok(sqlite)
    }

    fn connect(&self) -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        if self.has_one_connection {
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        }
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "mmap_size", MAP_BYTES)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        // A setting that SQLite does not take is not an error for it, and would be one here.
        let setting = |name: &str| connection.pragma_query_value(None, name, |row| row.get(0));
        let mode: String = setting("journal_mode")?;
        ensure!(
            mode == "wal",
            "SQLite's journal mode is {mode} and must be wal"
        );
        let synchronous: i64 =
            connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
        ensure!(synchronous == 2, "SQLite does not sync each commit");
        Ok(connection)
    }
}

impl Rival for Sqlite {
    fn store(&self) -> Result<RivalStore<'_>> {
        let names: Vec<String> = (0..COLUMNS)
            .map(|column| format!("field{column}"))
            .collect();
        Ok(Box::new(Session {
            sqlite: self,
            connection: self.connect()?,
            select: format!("SELECT {} FROM usertable WHERE key = ?1", names.join(", ")),
            updates: vec![String::new(); COLUMNS],
            buffer: RowBuffer::new(),
        }))
    }

    fn settle(&self) -> Result<()> {
        let connection = self.connect()?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }
}

struct Session<'s> {
    sqlite: &'s Sqlite,
    connection: Connection,
    select: String,
    /// By first column; empty until it is used.
    updates: Vec<String>,
    buffer: RowBuffer,
}

impl Store for Session<'_> {
    type Error = anyhow::Error;

    fn load(&mut self, keys: &mut dyn Iterator<Item = u32>, contents: &Contents) -> Result<()> {
        let places = ", ?".repeat(COLUMNS);
        let insert = format!("INSERT INTO usertable VALUES (?{places})");
        let transaction = self.connection.unchecked_transaction()?;
        {
            let mut statement = transaction.prepare_cached(&insert)?;
            for key in keys {
                statement.raw_bind_parameter(1, key)?;
                for column in 0..COLUMNS {
                    statement.raw_bind_parameter(column + 2, contents.initial(key, column))?;
                }
                statement.raw_execute()?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn read(&mut self, key: u32) -> Result<bool> {
        let mut statement = self.connection.prepare_cached(&self.select)?;
        let mut rows = statement.query([key])?;
        let Some(row) = rows.next()? else {
            return Ok(false);
        };
        for column in 0..COLUMNS {
            let text = row.get_ref(column)?.as_bytes()?;
            let place = self.buffer.column_mut(column);
            ensure!(
                text.len() == place.len(),
                "a column has {} bytes",
                text.len()
            );
            place.copy_from_slice(text);
        }
        Ok(true)
    }

    fn column(&self, column: usize) -> &[u8] {
        self.buffer.column(column)
    }

    fn update(&mut self, key: u32, change: Change<'_>) -> Result<bool> {
        let Some((first, _)) = change.columns().next() else {
            return self.read(key);
        };
        let update = &mut self.updates[first];
        if update.is_empty() {
            let sets: Vec<String> = (1..)
                .zip(change.columns())
                .map(|(place, (column, _))| format!("field{column} = ?{place}"))
                .collect();
            let key_place = sets.len() + 1;
            *update = format!(
                "UPDATE usertable SET {} WHERE key = ?{key_place}",
                sets.join(", ")
            );
        }
        let mut statement = self.connection.prepare_cached(update)?;
        let mut places = 1;
        for (_, value) in change.columns() {
            statement.raw_bind_parameter(places, value)?;
            places += 1;
        }
        statement.raw_bind_parameter(places, key)?;
        let _writer = (self.sqlite.writer.lock()).unwrap_or_else(PoisonError::into_inner);
        // commit point: a statement outside of a transaction is one; it returns when the log is
        // synced.
        Ok(statement.raw_execute()? == 1)
    }
}
