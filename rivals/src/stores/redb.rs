//! redb: a copy-on-write B+tree in pure Rust, one writer at a time, with a page cache in user
//! space.
//!
//! `Durability::Immediate` syncs once a commit, since its commit is one checksummed phase. Rows are
//! values of a fixed width under 4-byte keys, and the cache holds the whole table.

use super::RowBuffer;
use crate::kind::{Rival, RivalStore};
use anyhow::{Context, Result};
use redb::{Database, Durability, ReadableDatabase, TableDefinition};
use std::path::Path;
use workload::ycsb::{Change, Contents, ROW_BYTES, Store};

/// How it is set.
pub(crate) const SETTING: &str =
    "redb, Durability::Immediate (one-phase commit with checksums, one sync), cache of 4 GiB";

const CACHE_BYTES: usize = 4 << 30;
const ROWS: TableDefinition<'_, u32, &[u8; ROW_BYTES]> = TableDefinition::new("rows");

/// A database file.
pub(crate) struct Redb {
    database: Database,
}

impl Redb {
    pub(crate) fn create(directory: &Path) -> Result<Self> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let database = builder.create(directory.join("rows.redb"))?;
        let transaction = database.begin_write()?;
        transaction.open_table(ROWS)?;
        transaction.commit()?;
        Ok(Self { database })
    }
}

impl Rival for Redb {
    fn store(&self) -> Result<RivalStore<'_>> {
        Ok(Box::new(Session {
            database: &self.database,
            buffer: RowBuffer::new(),
        }))
    }
}

struct Session<'d> {
    database: &'d Database,
    buffer: RowBuffer,
}

impl Store for Session<'_> {
    type Error = anyhow::Error;

    fn load(&mut self, keys: &mut dyn Iterator<Item = u32>, contents: &Contents) -> Result<()> {
        let transaction = self.database.begin_write()?;
        {
            let mut rows = transaction.open_table(ROWS)?;
            for key in keys {
                contents.fill(key, self.buffer.bytes_mut());
                rows.insert(key, self.buffer.bytes())?;
            }
        }
        transaction.commit().context("commit of a batch of rows")
    }

    fn read(&mut self, key: u32) -> Result<bool> {
        let transaction = self.database.begin_read()?;
        let rows = transaction.open_table(ROWS)?;
        let Some(row) = rows.get(key)? else {
            return Ok(false);
        };
        self.buffer.copy(row.value())?;
        Ok(true)
    }

    fn column(&self, column: usize) -> &[u8] {
        self.buffer.column(column)
    }

    fn update(&mut self, key: u32, change: Change<'_>) -> Result<bool> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        {
            let mut rows = transaction.open_table(ROWS)?;
            let Some(mut row) = rows.get_mut(key)? else {
                return Ok(false);
            };
            self.buffer.copy(row.value())?;
            change.apply(self.buffer.bytes_mut());
            row.insert(self.buffer.bytes())?;
        }
        // commit point: with this durability the commit returns when the file is synced.
        transaction.commit()?;
        Ok(true)
    }
}
