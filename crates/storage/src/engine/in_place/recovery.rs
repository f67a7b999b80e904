//! Recovery of the in-place engine: load the newest checkpoint, replay later commits, drop the
//! rest.
//!
//! Replay keeps no undo: where it fails, the opening fails and the store is thrown away. Most rows
//! come in key order from the checkpoint, so the primary indexes are filled from left to right with
//! full nodes; those that changed while it was written come before.

use super::journal::{Checkpoint, Journal};
use super::store::Store;
use crate::engine::serial::commit_log::{identity, wal_options};
use crate::engine::serial::replay::{Failure, Redo, Replay, read_settings};
use crate::engine::{Decide, EngineOptions};
use crate::error::{Result, StorageError};
use crate::log::Keep;
use crate::log::checkpoint::{self, CheckpointEntry, CheckpointReader};
use crate::log::redo::{self, Operation};
use crate::record::{Changes, KeyBuf, TableId};
use crate::table::Tables;
use disk::Directory;
use pmem::{Access, Memory};
use std::collections::BTreeMap;

/// The recovered store and its journal.
pub(super) struct Recovered<M: Memory, D: Directory> {
    pub(super) store: Store<M>,
    pub(super) journal: Journal<D>,
    /// Transactions that were replayed.
    pub(super) replayed: u64,
    /// Prepared transactions that were dropped.
    pub(super) undone: u64,
}

/// Recovers a partition from its files. `memory` makes the volatile memory. With [`Access::Read`]
/// nothing is written: recovery decides and drops in memory only.
pub(super) fn recover<M: Memory, D: Directory>(
    directory: D,
    memory: impl FnOnce() -> Result<M>,
    options: &EngineOptions,
    decide: Decide<'_>,
) -> Result<Recovered<M, D>> {
    let identity = identity(options);
    let mut reader = CheckpointReader::open_newest(&directory, identity)?;
    let head = reader.head();
    let (layout, node_bytes) = read_settings(head.settings)?;
    let target = Target {
        store: Store::new(memory()?, layout, node_bytes, Keep::Nothing)?,
        key: KeyBuf::default(),
        changes: BTreeMap::new(),
    };
    let mut replay = Replay::new(target, head.ticket, decide);
    let plain_bytes = load(&mut reader, &mut replay.target.store)?;
    if options.access == Access::Write {
        reader.secure(&directory, replay.target.store.space.tables().is_empty())?;
    }
    let head = reader.head();
    let sizes = wal_options(options.checkpoint_log_bytes / 4);
    let (wal, resolved) = replay.open_log(&directory, options, sizes, head.start)?;
    if options.access == Access::Write {
        checkpoint::remove_older(&directory, identity, head.number)?;
    }
    let mut store = replay.target.store;
    store.keep(Keep::BeforeImages);
    let newest = Checkpoint {
        head,
        file_bytes: reader.file_bytes(),
        plain_bytes,
    };
    let mut journal = Journal::new(directory, options, wal, newest, replay.ticket);
    journal.log.settle(resolved, options.access)?;
    Ok(Recovered {
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
                check_number(def.id)?;
                let (space, arena, writes) = store.parts();
                space.create_table(arena, writes, &def)?;
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
                let (space, arena, writes) = store.parts();
                space.insert(arena, writes, *table, row)?;
            }
        }
        store.commit();
        Ok(())
    })
}

/// Tables are kept by their numbers, so a number that no catalogue gives is not believed.
fn check_number(table: TableId) -> Result<()> {
    const TABLES_MAX: u32 = 1 << 20;
    if table.0 < TABLES_MAX {
        return Ok(());
    }
    let text = format!("a file has a table of the impossible number {}", table.0);
    Err(StorageError::Unsupported(text))
}

/// The tables that the log is replayed into.
struct Target<M: Memory> {
    store: Store<M>,
    key: KeyBuf,
    /// Changes that are used again, by table.
    changes: BTreeMap<u32, Option<Changes>>,
}

impl<M: Memory> Redo for Target<M> {
    fn redo(&mut self, operation: Operation<'_>) -> Result<(), Failure> {
        match operation {
            Operation::Insert(table, image) => {
                let mut row = self.store.take_row(table)?;
                redo::read_row(image, &mut row)?;
                let (space, arena, writes) = self.store.parts();
                space.insert(arena, writes, table, &row)?;
                self.store.give_row(table, row);
            }
            Operation::Update(table, key, image) => {
                let mut changes = self.take_changes(table)?;
                redo::read_changes(image, &mut changes)?;
                key.copy_to(&mut self.key);
                let (space, arena, writes) = self.store.parts();
                if !space.update(arena, writes, table, &self.key, &changes)? {
                    return Err("it updates a row that is not there".into());
                }
                self.changes.insert(table.0, Some(changes));
            }
            Operation::Delete(table, key) => {
                key.copy_to(&mut self.key);
                let (space, arena, writes) = self.store.parts();
                if !space.delete(arena, writes, table, &self.key)? {
                    return Err("it deletes a row that is not there".into());
                }
            }
            definition => self.definition(definition)?,
        }
        Ok(())
    }

    fn commit(&mut self) {
        self.store.commit();
    }
}

impl<M: Memory> Target<M> {
    fn definition(&mut self, operation: Operation<'_>) -> Result<(), Failure> {
        self.store.forget_rows();
        self.changes.clear();
        let (space, arena, writes) = self.store.parts();
        match operation {
            Operation::CreateTable(def) => {
                check_number(def.id)?;
                space.create_table(arena, writes, &def)?;
            }
            Operation::DropTable(table) => space.drop_table(arena, writes, table)?,
            Operation::CreateIndex(def, id) => {
                let index = def.index_by_id(id).ok_or_else(|| {
                    Failure::from("it creates an index that its table does not have")
                })?;
                space.create_index(arena, writes, def.id, index)?;
            }
            Operation::DropIndex(table, index) => space.drop_index(arena, writes, table, index)?,
            Operation::Insert(..) | Operation::Update(..) | Operation::Delete(..) => {
                unreachable!("the caller has taken the operations on rows")
            }
        }
        Ok(())
    }

    fn take_changes(&mut self, table: TableId) -> Result<Changes> {
        if let Some(changes) = self.changes.get_mut(&table.0).and_then(Option::take) {
            return Ok(changes);
        }
        let row = self.store.take_row(table)?;
        let changes = Changes::new(row.layout().clone());
        self.store.give_row(table, row);
        Ok(changes)
    }
}
