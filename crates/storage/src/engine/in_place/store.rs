//! The volatile part of the in-place engine: one arena with all tables and indexes, and the undo of
//! the open transaction.
//!
//! It is the whole of the method `volatile`. Nothing in it survives a restart: the arena is
//! anonymous memory, made anew at each opening and filled by recovery.

use crate::engine::VerifyReport;
use crate::error::Result;
use crate::index::Bptree;
use crate::log::{Keep, VolatileMark, VolatileUndo, WriteSet};
use crate::record::{LayoutKind, Row, TableId};
use crate::table::Tables;
use crate::table::blocks::BlocksInUse;
use crate::table::space::TableSpace;
use pmem::{Arena, HeapMark, Memory, Outcome, Owner, Part, PoolIdentity};
use pmem::{POOL_BYTES_MIN, PoolKind};
use std::collections::BTreeMap;

/// Kind of the arenas of this engine.
const POOL_KIND: PoolKind = PoolKind(0x696e_7020);

type Space<M> = TableSpace<M, VolatileUndo, Bptree>;

/// Tables, indexes and undo of one partition.
pub(super) struct Store<M: Memory> {
    pub(super) arena: Arena<M>,
    pub(super) writes: VolatileUndo,
    pub(super) space: Space<M>,
    directory: u64,
    /// Lent rows that came back, by table.
    rows: BTreeMap<u32, Option<Row>>,
}

/// Position of a transaction, to roll back to.
#[derive(Clone, Copy)]
pub(super) struct StoreMark {
    undo: VolatileMark,
    heap: HeapMark,
}

impl<M: Memory> Store<M> {
    /// An empty store in `memory`.
    pub(super) fn new(
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
        let space = TableSpace::open(&arena, directory, layout, node_bytes)?;
        Ok(Self {
            arena,
            writes,
            space,
            directory,
            rows: BTreeMap::new(),
        })
    }

    /// Smallest first size of the memory.
    pub(super) fn bytes_min() -> u64 {
        POOL_BYTES_MIN
    }

    /// From now on transactions can be aborted or not.
    pub(super) fn keep(&mut self, keep: Keep) {
        self.writes = VolatileUndo::new(keep);
    }

    /// The parts that every operation on tables takes.
    #[inline]
    pub(super) fn parts(&mut self) -> (&mut Space<M>, &mut Arena<M>, &mut VolatileUndo) {
        (&mut self.space, &mut self.arena, &mut self.writes)
    }

    pub(super) fn mark(&self) -> StoreMark {
        StoreMark {
            undo: self.writes.mark(),
            heap: self.arena.heap_mark(),
        }
    }

    /// Undoes all changes since `mark`.
    pub(super) fn rollback_to(&mut self, mark: StoreMark) -> Result<()> {
        self.writes.rollback_to(&mut self.arena, mark.undo)?;
        self.arena.heap_rollback(mark.heap);
        Ok(())
    }

    /// Bytes that the open transaction holds, without tables and indexes.
    pub(super) fn transaction_bytes(&self) -> usize {
        self.writes.bytes() + self.arena.transaction_bytes()
    }

    pub(super) fn commit(&mut self) {
        self.writes.commit();
        self.arena.settle(Outcome::Committed);
    }

    pub(super) fn abort(&mut self) -> Result<()> {
        self.writes.abort(&mut self.arena)?;
        self.arena.settle(Outcome::Aborted);
        Ok(())
    }

    /// Reads the definitions again, after a change of them was undone.
    pub(super) fn reopen(&mut self) -> Result<()> {
        self.forget_rows();
        self.space.reload(&self.arena)
    }

    /// Lends a row of the table's format; [`Store::give_row`] takes it back.
    pub(super) fn take_row(&mut self, id: TableId) -> Result<Row> {
        if let Some(row) = self.rows.get_mut(&id.0).and_then(Option::take) {
            return Ok(row);
        }
        let tables = self.space.tables();
        let table = tables.iter().find(|table| table.def.id == id);
        let table = table.ok_or(crate::StorageError::NoSuchTable(id.0))?;
        Ok(Row::new(table.layout.clone()))
    }

    pub(super) fn give_row(&mut self, id: TableId, row: Row) {
        self.rows.insert(id.0, Some(row));
    }

    /// The row with this key, lent, as it is now.
    pub(super) fn before_image(&mut self, table: TableId, key: &[u64]) -> Result<Option<Row>> {
        let mut row = self.take_row(table)?;
        let (space, arena, writes) = self.parts();
        if space.get(arena, writes, table, key, &mut row)? {
            return Ok(Some(row));
        }
        self.give_row(table, row);
        Ok(None)
    }

    /// Drops all lent rows. To be called when definitions change.
    pub(super) fn forget_rows(&mut self) {
        self.rows.clear();
    }

    /// Checks tables and indexes, and that the allocated blocks are the reachable ones.
    pub(super) fn verify(&mut self) -> VerifyReport {
        let mut report = VerifyReport::default();
        let mut blocks = BlocksInUse::default();
        blocks.meet(self.directory);
        self.space
            .check(&self.arena, &mut |at| blocks.meet(at), &mut report);
        blocks.compare(&self.arena, &mut report);
        report
    }
}
