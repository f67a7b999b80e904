//! Recovery of `log`: open the runs that the manifest names, and replay the later log into a
//! MemTable.
//!
//! Only committed transactions are in runs and only whole records count, so nothing has to be
//! undone. Files that no manifest names are removed, after the manifest is known to be durable.
//! Replay repeats the transactions with the code that first ran them.

use crate::engine::serial::commit_log::{CommitLog, identity, wal_options};
use crate::engine::serial::replay::{Failure, Redo, Replay, read_settings};
use crate::engine::{Decide, EngineOptions};
use crate::error::{Result, StorageError};
use crate::log::redo::{self, Operation};
use crate::lsm::file::compaction::{Compaction, Head, RunSizes, remove_orphans};
use crate::lsm::file::manifest::Manifest;
use crate::lsm::file::run::Run;
use crate::lsm::file::store::{LeveledRun, Store, StoreSettings};
use crate::record::{Changes, KeyBuf, Row, TableId};
use crate::table::Table;
use disk::Directory;
use pmem::{Access, MemorySource};
use std::sync::Arc;

/// The recovered store and its log.
pub(super) struct Recovered<S: MemorySource, D: Directory> {
    pub(super) store: Store<S, D::File>,
    pub(super) journal: CommitLog<D>,
    pub(super) compaction: Compaction<D::File>,
    /// Transactions that were replayed.
    pub(super) replayed: u64,
    /// Prepared transactions that were dropped.
    pub(super) undone: u64,
}

/// Recovers a partition from its files. With [`Access::Read`] nothing is written or removed: the
/// log is replayed into memory only, and content that only the system's cache may have is read as
/// it is, because nothing is built upon it.
pub(super) fn recover<S: MemorySource, D: Directory>(
    directory: D,
    memories: S,
    options: &EngineOptions,
    decide: Decide<'_>,
) -> Result<Recovered<S, D>> {
    let identity = identity(options);
    let (manifest, is_durable) = Manifest::read(&directory, identity)?;
    let store = open_store(&directory, memories, options, &manifest)?;
    if !is_durable && options.access == Access::Write {
        // Files that only the older manifest needs are removed below.
        manifest.write(&directory, identity)?;
    }
    let head = Head {
        start: manifest.start,
        ticket: manifest.ticket,
        tables: store.catalogue(),
        next_tree: manifest.next_tree,
    };
    let target = Target::<S, D> {
        store,
        key: KeyBuf::default(),
    };
    let mut replay = Replay::new(target, manifest.ticket, decide);
    let sizes = wal_options(options.memtable_bytes);
    let (wal, resolved) = replay.open_log(&directory, options, sizes, manifest.start)?;
    let next_number = match options.access {
        Access::Write => remove_orphans(&directory, identity, &manifest)?,
        // No run is made.
        Access::Read => 0,
    };
    let mut compaction = Compaction::new(
        identity,
        run_sizes(options),
        manifest.settings,
        head,
        next_number,
    );
    compaction.resume(&replay.target.store);
    let mut journal = CommitLog::new(directory, options, wal, replay.ticket);
    journal.settle(resolved, options.access)?;
    Ok(Recovered {
        store: replay.target.store,
        journal,
        compaction,
        replayed: replay.replayed,
        undone: replay.undone,
    })
}

/// The store of a manifest, with its runs and empty MemTables.
fn open_store<S: MemorySource, D: Directory>(
    directory: &D,
    memories: S,
    options: &EngineOptions,
    manifest: &Manifest,
) -> Result<Store<S, D::File>> {
    let identity = identity(options);
    let mut store = Store::new(
        memories,
        store_settings(manifest.settings, options)?,
        &manifest.tables,
        manifest.next_tree,
    )?;
    for place in &manifest.runs {
        let (number, bytes) = (place.number, place.bytes);
        let file = identity.file_name("run", number);
        if !directory.exists(&file)? {
            let problem = "is missing, and the manifest that is there names it".to_owned();
            return Err(StorageError::LostFile { file, problem });
        }
        let run = Run::open(directory, &mut store.filters, identity, number, bytes)?;
        store.runs.push(LeveledRun {
            level: place.level,
            run,
        });
    }
    Ok(store)
}

/// Size of the cache of run blocks, in MemTables.
const CACHE_FACTOR: u64 = 4;

/// Sizes of MemTables and runs.
pub(super) fn run_sizes(options: &EngineOptions) -> RunSizes {
    RunSizes {
        memtable_bytes: options.memtable_bytes.max(1),
        growth: u64::from(options.growth_factor.max(2)),
    }
}

pub(super) fn store_settings(settings: [u64; 2], options: &EngineOptions) -> Result<StoreSettings> {
    let (layout, node_bytes) = read_settings(settings)?;
    Ok(StoreSettings {
        layout,
        node_bytes,
        memory_bytes: options.pool_bytes,
        cache_bytes: options.memtable_bytes.saturating_mul(CACHE_FACTOR),
    })
}

/// The runs and MemTables that the log is replayed into.
struct Target<S: MemorySource, D: Directory> {
    store: Store<S, D::File>,
    key: KeyBuf,
}

impl<S: MemorySource, D: Directory> Redo for Target<S, D> {
    fn redo(&mut self, operation: Operation<'_>) -> Result<(), Failure> {
        match operation {
            Operation::Insert(table, image) => {
                let mut row = Row::new(Arc::clone(&self.table(table)?.layout));
                redo::read_row(image, &mut row)?;
                self.store.insert(table, &row)?;
            }
            Operation::Update(table, key, image) => {
                let mut changes = Changes::new(Arc::clone(&self.table(table)?.layout));
                redo::read_changes(image, &mut changes)?;
                key.copy_to(&mut self.key);
                self.must(table)?;
                if !self.store.update(table, &self.key, None, &changes)? {
                    return Err("it updates a row that is not there".into());
                }
            }
            Operation::Delete(table, key) => {
                key.copy_to(&mut self.key);
                self.must(table)?;
                if !self.store.delete(table, &self.key)? {
                    return Err("it deletes a row that is not there".into());
                }
            }
            Operation::CreateTable(def) => self.store.create_table(&def)?,
            Operation::DropTable(table) => self.store.drop_table(table)?,
            Operation::CreateIndex(def, id) => {
                let index = def.index_by_id(id).ok_or_else(|| {
                    Failure::from("it creates an index that its table does not have")
                })?;
                self.store.create_index(def.id, index)?;
            }
            Operation::DropIndex(table, index) => self.store.drop_index(table, index)?,
        }
        Ok(())
    }

    fn commit(&mut self) {
        self.store.commit();
    }
}

impl<S: MemorySource, D: Directory> Target<S, D> {
    /// Fails if the key that was read does not fit the table.
    fn must(&self, id: TableId) -> Result<(), Failure> {
        if self.key.len() == self.table(id)?.primary.shape().words {
            Ok(())
        } else {
            Err("its key has a wrong length".into())
        }
    }

    fn table(&self, id: TableId) -> Result<Arc<Table>, Failure> {
        let table = self.store.table(id)?;
        Ok(Arc::clone(table))
    }
}
