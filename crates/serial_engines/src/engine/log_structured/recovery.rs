//! Recovery of `log`: open the runs that the manifest names, and replay the later log into a
//! MemTable.
//!
//! Only committed transactions are in runs and only whole records count, so nothing has to be
//! undone. Files that no manifest names are removed, after the manifest is known to be durable.
//! Replay repeats the transactions with the code that first ran them.

use super::LogStructured;
use crate::engine::serial::commit_log::{CommitLog, identity, wal_options};
use crate::engine::serial::replay::{Redo, Replay, read_settings};
use crate::lsm::file::compaction::{Compaction, Head, RunSizes, remove_orphans};
use crate::lsm::file::manifest::Manifest;
use crate::lsm::file::run::Run;
use crate::lsm::file::store::{LeveledRun, Store, StoreSettings};
use disk::{Directory, File};
use pmem::{Access, MemorySource};
use storage::engine::{Decide, EngineOptions};
use storage::{Result, StorageError};

/// Recovers a partition from its files. With [`Access::Read`] nothing is written or removed: the
/// log is replayed into memory only, and content that only the system's cache may have is read as
/// it is, because nothing is built upon it.
pub(super) fn recover<S: MemorySource, D: Directory>(
    directory: D,
    memories: S,
    options: &EngineOptions,
    decide: Decide<'_>,
) -> Result<LogStructured<S, D>> {
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
    let mut replay = Replay::new(store, manifest.ticket, decide);
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
    compaction.resume(&replay.target);
    let mut journal = CommitLog::new(directory, options, wal, replay.ticket);
    journal.settle(resolved, options.access)?;
    Ok(LogStructured {
        store: replay.target,
        journal,
        compaction,
        replayed: replay.replayed,
        undone: replay.undone,
        before: None,
        schema: None,
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
            return Err(StorageError::lost_file(file, problem));
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

impl<S: MemorySource, F: File> Redo for Store<S, F> {
    type Space = Self;

    fn space(&mut self) -> &mut Self {
        self
    }

    fn commit(&mut self) {
        Self::commit(self);
    }
}
