//! The volatile part of engines that update in place: one arena with all tables and indexes, and
//! the undo of the open transaction.
//!
//! It is the whole of the method `volatile`. Nothing in it survives a restart: the arena is
//! anonymous memory, made anew at each opening and filled by recovery.

use super::replay::Redo;
use crate::index::Bptree;
use crate::index::hints::HintBudget;
use crate::table::blocks::BlocksInUse;
use crate::table::space::TableSpace;
use crate::table::{InArena, Space as _, Tables as _};
use pmem::{
    Arena, HeapSavepoint, Memory, MemorySource, Outcome, Owner, POOL_BYTES_MIN, Part, PoolIdentity,
    PoolKind,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use storage::engine::{EngineOptions, Footprint, VerifyReport};
use storage::log::{Keep, VolatileSavepoint, VolatileUndo, WriteSet};
use storage::record::{LayoutKind, Row, TableId};
use storage::table::Table;
use storage::{DeviceOf, Platform, Result, StorageError};

/// Kind of the arenas of this engine.
const POOL_KIND: PoolKind = PoolKind(0x696e_7020);

/// Its tables.
pub(in crate::engine) type Space<M> = InArena<M, VolatileUndo, TableSpace<M, VolatileUndo, Bptree>>;

/// Tables, indexes and undo of one partition.
pub(in crate::engine) struct Store<M: Memory> {
    pub(in crate::engine) space: Space<M>,
    directory: u64,
    /// Lent rows that came back, by table.
    rows: BTreeMap<u32, Option<Row>>,
}

/// Position of a transaction, to roll back to.
#[derive(Clone, Copy)]
pub(in crate::engine) struct StoreSavepoint {
    undo: VolatileSavepoint,
    heap: HeapSavepoint,
}

impl<M: Memory> Store<M> {
    /// An empty store in `memory`.
    pub(in crate::engine) fn new(
        memory: M,
        layout: LayoutKind,
        node_bytes: usize,
        keep: Keep,
    ) -> Result<Self> {
        let identity = PoolIdentity::unnamed(POOL_KIND);
        let mut arena = Arena::create(memory, &identity)?;
        let mut writes = VolatileUndo::new(keep);
        let directory = arena.reserve(
            8,
            Owner {
                part: Part::Other,
                tag: 0,
            },
        )?;
        let change = arena.activate(directory)?;
        writes.change(&mut arena, change)?;
        arena.store_word(directory, 0)?;
        writes.commit();
        arena.settle(Outcome::Committed);
        let tables = TableSpace::open(&arena, directory, layout, node_bytes, HintBudget::new(0))?;
        Ok(Self {
            space: InArena {
                arena,
                writes,
                tables,
            },
            directory,
            rows: BTreeMap::new(),
        })
    }

    /// From now on transactions can be aborted or not.
    pub(in crate::engine) fn keep(&mut self, keep: Keep) {
        self.space.writes = VolatileUndo::new(keep);
    }

    pub(in crate::engine) fn savepoint(&self) -> StoreSavepoint {
        StoreSavepoint {
            undo: self.space.writes.savepoint(),
            heap: self.space.arena.heap_savepoint(),
        }
    }

    /// Undoes all changes since `savepoint`.
    pub(in crate::engine) fn rollback_to(&mut self, savepoint: StoreSavepoint) -> Result<()> {
        self.space
            .writes
            .rollback_to(&mut self.space.arena, savepoint.undo)?;
        self.space.arena.heap_rollback(savepoint.heap);
        Ok(())
    }

    /// Bytes that the open transaction holds, without tables and indexes.
    pub(in crate::engine) fn transaction_bytes(&self) -> usize {
        self.space.writes.bytes() + self.space.arena.transaction_bytes()
    }

    pub(in crate::engine) fn commit(&mut self) {
        self.space.writes.commit();
        self.space.arena.settle(Outcome::Committed);
    }

    pub(in crate::engine) fn abort(&mut self) -> Result<()> {
        self.space.writes.abort(&mut self.space.arena)?;
        self.space.arena.settle(Outcome::Aborted);
        Ok(())
    }

    /// Reads the definitions again, after a change of them was undone.
    pub(in crate::engine) fn reopen(&mut self) -> Result<()> {
        self.forget_rows();
        self.space.tables.reload(&self.space.arena)
    }

    /// Lends a row of the table's format; [`Store::give_row`] takes it back.
    pub(in crate::engine) fn take_row(&mut self, id: TableId) -> Result<Row> {
        if let Some(row) = self.rows.get_mut(&id.0).and_then(Option::take) {
            return Ok(row);
        }
        Ok(Row::new(Arc::clone(&self.table(id)?.layout)))
    }

    /// A table by its number.
    pub(in crate::engine) fn table(&self, id: TableId) -> Result<Arc<Table>> {
        let mut tables = self.space.tables().into_iter();
        let table = tables.find(|table| table.def.id == id);
        table.ok_or(StorageError::NoSuchTable(id.0))
    }

    pub(in crate::engine) fn give_row(&mut self, id: TableId, row: Row) {
        self.rows.insert(id.0, Some(row));
    }

    /// The row with this key, lent, as it is now.
    pub(in crate::engine) fn before_image(
        &mut self,
        table: TableId,
        key: &[u64],
    ) -> Result<Option<Row>> {
        let mut row = self.take_row(table)?;
        if self.space.get(table, key, &mut row)? {
            return Ok(Some(row));
        }
        self.give_row(table, row);
        Ok(None)
    }

    /// Drops all lent rows. To be called when definitions change.
    pub(in crate::engine) fn forget_rows(&mut self) {
        self.rows.clear();
    }

    /// Bytes in use.
    pub(in crate::engine) fn footprint(&self) -> Result<Footprint> {
        let heap = self.space.arena.footprint()?;
        let held = |part: Part| heap.held_bytes[part as usize];
        Ok(Footprint {
            table: held(Part::Table),
            index: held(Part::Index),
            other: held(Part::Other) + heap.metadata_bytes,
            ..Footprint::default()
        })
    }

    /// Checks tables and indexes, and that the allocated blocks are the reachable ones.
    pub(in crate::engine) fn verify(&mut self) -> VerifyReport {
        let mut report = VerifyReport::default();
        let mut blocks = BlocksInUse::default();
        blocks.meet(self.directory);
        self.space
            .tables
            .check(&self.space.arena, &mut |at| blocks.meet(at), &mut report);
        blocks.compare(&self.space.arena, &mut report);
        report
    }
}

impl<M: Memory> Redo for Store<M> {
    type Space = Space<M>;

    fn space(&mut self) -> &mut Space<M> {
        &mut self.space
    }

    fn commit(&mut self) {
        Self::commit(self);
    }
}

/// An empty store for a partition.
pub(in crate::engine) fn new_store<P: Platform>(
    platform: &P,
    options: &EngineOptions,
) -> Result<Store<DeviceOf<P>>> {
    let (layout, node_bytes) = (options.layout, options.node_bytes as usize);
    Store::new(
        new_memory(platform, options)?,
        layout,
        node_bytes,
        Keep::BeforeImages,
    )
}

/// The memory of a store.
pub(in crate::engine) fn new_memory<P: Platform>(
    platform: &P,
    options: &EngineOptions,
) -> Result<DeviceOf<P>> {
    let bytes = options.pool_bytes.max(POOL_BYTES_MIN);
    Ok(platform.memories(options.partition).volatile(bytes)?)
}
