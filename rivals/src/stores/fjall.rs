//! fjall: a log-structured merge tree in pure Rust.
//!
//! An update appends to the journal and persists it with `PersistMode::SyncAll`. Neither the plain
//! keyspace nor RocksDB's plain database isolates a read from the write that follows it; here each
//! key has one writing thread, so nothing more is needed. The block cache holds the whole table.

use super::RowBuffer;
use crate::kind::{Rival, RivalStore};
use anyhow::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;
use workload::ycsb::{Change, Contents, Store};

/// How it is set.
pub(crate) const SETTING: &str = "fjall, PersistMode::SyncAll after each update, memtable of 64 MiB, block cache of 4 GiB, \
     no compression, point reads expected to hit";

const CACHE_BYTES: u64 = 4 << 30;
const MEMTABLE_BYTES: u64 = 64 << 20;
/// Between two looks at background work.
const LOOK: Duration = Duration::from_millis(5);
/// Looks without background work after which there is none.
const QUIET_LOOKS: u32 = 6;

/// A database with one keyspace.
pub(crate) struct Fjall {
    database: Database,
    rows: Keyspace,
}

impl Fjall {
    pub(crate) fn create(directory: &Path) -> Result<Self> {
        let database = Database::builder(directory.join("fjall"))
            .cache_size(CACHE_BYTES)
            .manual_journal_persist(true)
            .open()?;
        let rows = database.keyspace("rows", || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(MEMTABLE_BYTES)
                .manual_journal_persist(true)
                .expect_point_read_hits(true)
        })?;
        Ok(Self { database, rows })
    }
}

impl Rival for Fjall {
    fn store(&self) -> Result<RivalStore<'_>> {
        Ok(Box::new(Session {
            fjall: self,
            buffer: RowBuffer::new(),
        }))
    }

    fn settle(&self) -> Result<()> {
        self.rows.rotate_memtable_and_wait()?;
        let mut quiet = 0;
        while quiet < QUIET_LOOKS {
            let busy = self.database.outstanding_flushes() + self.database.active_compactions();
            quiet = if busy == 0 { quiet + 1 } else { 0 };
            sleep(LOOK);
        }
        Ok(())
    }
}

struct Session<'f> {
    fjall: &'f Fjall,
    buffer: RowBuffer,
}

impl Store for Session<'_> {
    type Error = anyhow::Error;

    fn load(&mut self, keys: &mut dyn Iterator<Item = u32>, contents: &Contents) -> Result<()> {
        for key in keys {
            contents.fill(key, self.buffer.bytes_mut());
            let row = &self.buffer.bytes()[..];
            self.fjall.rows.insert(key.to_be_bytes(), row)?;
        }
        Ok(self.fjall.database.persist(PersistMode::SyncAll)?)
    }

    fn read(&mut self, key: u32) -> Result<bool> {
        let Some(row) = self.fjall.rows.get(key.to_be_bytes())? else {
            return Ok(false);
        };
        self.buffer.copy(&row)?;
        Ok(true)
    }

    fn column(&self, column: usize) -> &[u8] {
        self.buffer.column(column)
    }

    fn update(&mut self, key: u32, change: Change<'_>) -> Result<bool> {
        if !self.read(key)? {
            return Ok(false);
        }
        change.apply(self.buffer.bytes_mut());
        let row = &self.buffer.bytes()[..];
        self.fjall.rows.insert(key.to_be_bytes(), row)?;
        // commit point: the journal, which has the row, is synced on return.
        self.fjall.database.persist(PersistMode::SyncAll)?;
        Ok(true)
    }
}
