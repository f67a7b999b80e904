//! LMDB, through heed: a B+tree of pages that are copied on write, one writer at a time, readers
//! straight from the map.
//!
//! Its default commits are the honest ones: they sync data, then the meta page. With WRITEMAP pages
//! are changed in the shared map and synced with msync; without, they are written with pwrite. Rows
//! go to the unnamed database, which saves the page that a named one's root costs at each commit,
//! under 4-byte integer keys; loading appends. Without any sync a commit survives the death of the
//! process and nothing else, so that setting is for shared memory, where nothing survives more.

use super::RowBuffer;
use crate::failure::Usage;
use crate::foreign::open_lmdb;
use crate::kind::{Plan, Rival, RivalStore};
use crate::machine;
use anyhow::{Context, Result};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, IntegerComparator, PutFlags};
use std::path::Path;
use workload::ycsb::{Change, Contents, Store};

/// Without WRITEMAP.
pub(crate) const SETTING: &str = "LMDB, default (full) sync: fdatasync and synced meta page at each commit; NOMEMINIT, integer \
     keys in the unnamed database";
/// With WRITEMAP.
pub(crate) const SETTING_WRITEMAP: &str = "LMDB, WRITEMAP, default (full) sync: msync of the map and of the meta page at each \
     commit; integer keys in the unnamed database";
/// With WRITEMAP and without sync.
pub(crate) const SETTING_NOSYNC: &str = "LMDB, WRITEMAP, NOSYNC: no sync at all, so a commit survives process death only; integer keys \
     in the unnamed database";

/// Room for a row in the map: three times its bytes, as pages are copied before they are freed.
const MAP_BYTES_PER_ROW: u64 = 3 << 10;
/// Room for everything else.
const MAP_BYTES_MIN: u64 = 256 << 20;

type Rows<'e> = Database<'e, Bytes, Bytes, IntegerComparator>;

/// An environment.
pub(crate) struct Lmdb {
    env: Env,
}

impl Lmdb {
    /// Pages are written with pwrite and synced.
    pub(crate) const PWRITE: EnvFlags = EnvFlags::NO_MEM_INIT;
    /// Pages are changed in the shared map and synced.
    pub(crate) const WRITEMAP: EnvFlags = EnvFlags::WRITE_MAP;
    /// Pages are changed in the shared map and not synced.
    pub(crate) const NOSYNC: EnvFlags = EnvFlags::WRITE_MAP.union(EnvFlags::NO_SYNC);

    /// Creates an environment; what never syncs is refused where more than the process could die.
    pub(crate) fn create(directory: &Path, plan: Plan, flags: EnvFlags) -> Result<Self> {
        if flags.contains(EnvFlags::NO_SYNC) && machine::here(directory).filesystem != "tmpfs" {
            return Err(Usage::error(
                "lmdb-nosync never syncs, so it is durable in shared memory only; leave --path out, or use lmdb-writemap",
            ));
        }
        let bytes = MAP_BYTES_MIN + plan.rows * MAP_BYTES_PER_ROW;
        let env = open_lmdb(directory, bytes.next_multiple_of(1 << 20) as usize, flags)?;
        let create = env.write_txn()?;
        let created = env.create_databases_and_commit(create, |opener, transaction| {
            let options = opener.database_options().types::<Bytes, Bytes>();
            let options = options.key_comparator::<IntegerComparator>();
            let rows: Rows<'_> = options.create(transaction)?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(rows))
        });
        created.map(drop)?;
        Ok(Self { env })
    }
}

impl Rival for Lmdb {
    fn store(&self) -> Result<RivalStore<'_>> {
        let open = self.env.read_txn()?;
        let opened = self
            .env
            .open_databases_and_commit(open, |opener, transaction| {
                let options = opener.database_options().types::<Bytes, Bytes>();
                let options = options.key_comparator::<IntegerComparator>();
                let rows: Option<Rows<'_>> = options.open(transaction)?;
                Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(rows))
            })?;
        let CommitOrAbort::Commit(Some(rows)) = opened else {
            anyhow::bail!("LMDB has lost its unnamed database");
        };
        Ok(Box::new(Session {
            env: &self.env,
            rows,
            buffer: RowBuffer::new(),
        }))
    }
}

struct Session<'e> {
    env: &'e Env,
    rows: Rows<'e>,
    buffer: RowBuffer,
}

impl Store for Session<'_> {
    type Error = anyhow::Error;

    fn load(&mut self, keys: &mut dyn Iterator<Item = u32>, contents: &Contents) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for key in keys {
            contents.fill(key, self.buffer.bytes_mut());
            let (key, row) = (key.to_ne_bytes(), &self.buffer.bytes()[..]);
            let append = PutFlags::APPEND;
            self.rows
                .put_with_flags(&mut transaction, append, &key, row)?;
        }
        transaction.commit().context("commit of a batch of rows")
    }

    fn read(&mut self, key: u32) -> Result<bool> {
        let transaction = self.env.read_txn()?;
        let Some(row) = self.rows.get(&transaction, &key.to_ne_bytes())? else {
            return Ok(false);
        };
        self.buffer.copy(row)?;
        Ok(true)
    }

    fn column(&self, column: usize) -> &[u8] {
        self.buffer.column(column)
    }

    fn update(&mut self, key: u32, change: Change<'_>) -> Result<bool> {
        let mut transaction = self.env.write_txn()?;
        let key = key.to_ne_bytes();
        let Some(row) = self.rows.get(&transaction, &key)? else {
            return Ok(false);
        };
        self.buffer.copy(row)?;
        change.apply(self.buffer.bytes_mut());
        self.rows.put(&mut transaction, &key, self.buffer.bytes())?;
        // commit point: LMDB's commit returns when the meta page is synced.
        transaction.commit()?;
        Ok(true)
    }
}
