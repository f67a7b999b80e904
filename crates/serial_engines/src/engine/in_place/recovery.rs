//! Recovery of the in-place engine: load the newest checkpoint, replay later commits, drop the
//! rest.
//!
//! Replay keeps no undo: where it fails, the opening fails and the store is thrown away. Most rows
//! come in key order from the checkpoint, so the primary indexes are filled from left to right with
//! full nodes; those that changed while it was written come before.

use super::InPlace;
use super::journal::{Checkpoint, Journal};
use crate::engine::serial::commit_log::{identity, wal_options};
use crate::engine::serial::replay::{Replay, read_settings};
use crate::engine::serial::store::Store;
use crate::table::Space;
use disk::Directory;
use pmem::{Access, Memory};
use storage::engine::{Decide, EngineOptions};
use storage::log::checkpoint::{self, CheckpointEntry, CheckpointReader};
use storage::log::{Keep, redo};
use storage::{Result, StorageError};

/// Recovers a partition from its files. `memory` makes the volatile memory. With [`Access::Read`]
/// nothing is written: recovery decides and drops in memory only.
pub(super) fn recover<M: Memory, D: Directory>(
    directory: D,
    memory: impl FnOnce() -> Result<M>,
    options: &EngineOptions,
    decide: Decide<'_>,
) -> Result<InPlace<M, D>> {
    let identity = identity(options);
    let mut reader = CheckpointReader::open_newest(&directory, identity)?;
    let head = reader.head();
    let (layout, node_bytes) = read_settings(head.settings)?;
    let mut store = Store::new(memory()?, layout, node_bytes, Keep::Nothing)?;
    let plain_bytes = load(&mut reader, &mut store)?;
    let mut replay = Replay::new(store, head.ticket, decide);
    if options.access == Access::Write {
        reader.secure(&directory, replay.target.space.tables().is_empty())?;
    }
    let head = reader.head();
    let sizes = wal_options(options.checkpoint_log_bytes / 4);
    let (wal, resolved) = replay.open_log(&directory, options, sizes, head.start)?;
    if options.access == Access::Write {
        checkpoint::remove_older(&directory, identity, head.number)?;
    }
    let mut store = replay.target;
    store.keep(Keep::BeforeImages);
    let newest = Checkpoint {
        head,
        file_bytes: reader.file_bytes(),
        plain_bytes,
    };
    let mut journal = Journal::new(directory, options, wal, newest, replay.ticket);
    journal.log.settle(resolved, options.access)?;
    if options.access == Access::Write {
        journal.gather(&mut store)?;
    }
    Ok(InPlace {
        store,
        journal,
        replayed: replay.replayed,
        undone: replay.undone,
    })
}

/// Fills the store, and returns the length of the checkpoint before compression.
fn load<M: Memory, F: disk::File>(
    reader: &mut CheckpointReader<F>,
    store: &mut Store<M>,
) -> Result<u64> {
    let mut current = None;
    reader.read(&mut |entry| {
        match entry {
            CheckpointEntry::Table(def) => {
                store.space.create_table(&def)?;
                current = Some((def.id, store.take_row(def.id)?));
            }
            CheckpointEntry::Rows(table) => {
                if let Some((earlier, row)) = current.take() {
                    store.give_row(earlier, row);
                }
                current = Some((table, store.take_row(table)?));
            }
            CheckpointEntry::Row(image) => {
                let Some((table, row)) = &mut current else {
                    let text = "a checkpoint has a row in front of its table";
                    return Err(StorageError::Unsupported(text.to_owned()));
                };
                redo::read_row(image, row)
                    .map_err(|error| StorageError::Unsupported(error.to_string()))?;
                store.space.insert(*table, row)?;
            }
        }
        store.commit();
        Ok(())
    })
}
