//! Tables in an arena or in pages that are copied on write: tuples and the upkeep of their indexes.
//!
//! [`space::TableSpace`] holds the tables of a partition that is updated in place, in volatile or
//! in durable memory; [`cow::CowSpace`] those of one that is copied on write, in durable memory or
//! in a file.

pub(crate) mod blocks;
pub mod cow;
pub(crate) mod directory;
pub mod space;
mod tuples;

use pmem::{Arena, Memory, Outcome};
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::Result;
use storage::engine::{ScanRange, VerifyReport};
use storage::record::{Changes, IndexDef, IndexId, KeyBuf, Row, TableDef, TableId};
use storage::table::Table;

/// All tables of one partition in an arena, whose published bytes change through the write set `W`.
/// A statement that fails leaves pending changes; the engine rolls them back to where the statement
/// began.
pub trait Tables<M: Memory, W>: Send {
    /// Definitions of all tables, in the order of their numbers.
    fn tables(&self) -> Vec<Arc<Table>>;

    /// Reads everything from the arena again, after changes of it were undone.
    fn reload(&mut self, arena: &Arena<M>) -> Result<()>;

    /// Makes an empty table.
    fn create_table(&mut self, arena: &mut Arena<M>, writes: &mut W, def: &TableDef) -> Result<()>;

    /// Drops a table and frees everything that it holds.
    fn drop_table(&mut self, arena: &mut Arena<M>, writes: &mut W, id: TableId) -> Result<()>;

    /// Builds a secondary index over the rows that are there.
    fn create_index(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        index: &IndexDef,
    ) -> Result<()>;

    /// Drops a secondary index.
    fn drop_index(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        index: IndexId,
    ) -> Result<()>;

    /// Copies the row with this primary key into `row`.
    fn get(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        key: &[u64],
        row: &mut Row,
    ) -> Result<bool>;

    /// Prefetches for a row that will be looked up soon.
    fn announce(&mut self, _arena: &Arena<M>, _id: TableId, _key: &[u64]) {}

    /// Looks several primary keys up at once.
    fn get_many(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()>;

    /// Visits the rows of a range in key order.
    fn scan(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Inserts a row.
    fn insert(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        row: &Row,
    ) -> Result<()>;

    /// Inserts rows of one table. If one fails, some of the others may be there.
    fn insert_many(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        rows: &[&Row],
    ) -> Result<()> {
        rows.iter()
            .try_for_each(|row| self.insert(arena, writes, id, row))
    }

    /// Changes columns of the row with this primary key.
    fn update(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        key: &[u64],
        changes: &Changes,
    ) -> Result<bool>;

    /// Deletes the row with this primary key.
    fn delete(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        key: &[u64],
    ) -> Result<bool>;

    /// Does the compaction that is due for the transaction that is about to commit, inside of it.
    fn maintain(&mut self, _arena: &mut Arena<M>, _writes: &mut W) -> Result<()> {
        Ok(())
    }

    /// Does one step of any compaction that has begun; false if there is none.
    fn settle(&mut self, _arena: &mut Arena<M>, _writes: &mut W) -> Result<bool> {
        Ok(false)
    }

    /// Notes that a statement of the open transaction was undone.
    fn statement_undone(&mut self) {}

    /// Forgets the transaction, which has ended.
    fn end_transaction(&mut self, _arena: &Arena<M>, _outcome: Outcome) {}

    /// Bytes of DRAM that hints take.
    fn hint_bytes(&self) -> u64 {
        0
    }

    /// Checks every table; `block` is called with the offset of each block in use.
    fn check(&mut self, arena: &Arena<M>, block: &mut dyn FnMut(u64), report: &mut VerifyReport);
}

/// All tables of one partition, as an engine calls them.
pub trait Space {
    /// Definitions of all tables, in the order of their numbers.
    fn tables(&self) -> Vec<Arc<Table>>;

    /// Makes an empty table.
    fn create_table(&mut self, def: &TableDef) -> Result<()>;

    /// Drops a table and frees everything that it holds.
    fn drop_table(&mut self, id: TableId) -> Result<()>;

    /// Builds a secondary index over the rows that are there.
    fn create_index(&mut self, id: TableId, index: &IndexDef) -> Result<()>;

    /// Drops a secondary index.
    fn drop_index(&mut self, id: TableId, index: IndexId) -> Result<()>;

    /// Copies the row with this primary key into `row`; false if there is none.
    fn get(&mut self, id: TableId, key: &[u64], row: &mut Row) -> Result<bool>;

    /// Prefetches for a row that will be looked up soon.
    fn announce(&mut self, _id: TableId, _key: &[u64]) {}

    /// Looks several primary keys up at once.
    fn get_many(
        &mut self,
        id: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()>;

    /// Visits the rows of a range in key order.
    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Inserts a row.
    fn insert(&mut self, id: TableId, row: &Row) -> Result<()>;

    /// Inserts rows of one table. If one fails, some of the others may be there.
    fn insert_many(&mut self, id: TableId, rows: &[&Row]) -> Result<()> {
        rows.iter().try_for_each(|row| self.insert(id, row))
    }

    /// Changes columns of the row with this primary key; false if there is none.
    fn update(&mut self, id: TableId, key: &[u64], changes: &Changes) -> Result<bool>;

    /// Deletes the row with this primary key; false if there is none.
    fn delete(&mut self, id: TableId, key: &[u64]) -> Result<bool>;
}

/// Tables in an arena, with the write set of their changes.
pub(crate) struct InArena<M: Memory, W, T> {
    pub(crate) arena: Arena<M>,
    pub(crate) writes: W,
    pub(crate) tables: T,
}

impl<M: Memory, W, T: Tables<M, W>> Space for InArena<M, W, T> {
    fn tables(&self) -> Vec<Arc<Table>> {
        self.tables.tables()
    }

    fn create_table(&mut self, def: &TableDef) -> Result<()> {
        self.tables
            .create_table(&mut self.arena, &mut self.writes, def)
    }

    fn drop_table(&mut self, id: TableId) -> Result<()> {
        self.tables
            .drop_table(&mut self.arena, &mut self.writes, id)
    }

    fn create_index(&mut self, id: TableId, index: &IndexDef) -> Result<()> {
        self.tables
            .create_index(&mut self.arena, &mut self.writes, id, index)
    }

    fn drop_index(&mut self, id: TableId, index: IndexId) -> Result<()> {
        self.tables
            .drop_index(&mut self.arena, &mut self.writes, id, index)
    }

    #[inline]
    fn get(&mut self, id: TableId, key: &[u64], row: &mut Row) -> Result<bool> {
        self.tables
            .get(&mut self.arena, &mut self.writes, id, key, row)
    }

    #[inline]
    fn announce(&mut self, id: TableId, key: &[u64]) {
        self.tables.announce(&self.arena, id, key);
    }

    fn get_many(
        &mut self,
        id: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        self.tables
            .get_many(&mut self.arena, &mut self.writes, id, keys, visit)
    }

    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        self.tables
            .scan(&mut self.arena, &mut self.writes, range, visit)
    }

    #[inline]
    fn insert(&mut self, id: TableId, row: &Row) -> Result<()> {
        self.tables
            .insert(&mut self.arena, &mut self.writes, id, row)
    }

    fn insert_many(&mut self, id: TableId, rows: &[&Row]) -> Result<()> {
        self.tables
            .insert_many(&mut self.arena, &mut self.writes, id, rows)
    }

    #[inline]
    fn update(&mut self, id: TableId, key: &[u64], changes: &Changes) -> Result<bool> {
        self.tables
            .update(&mut self.arena, &mut self.writes, id, key, changes)
    }

    #[inline]
    fn delete(&mut self, id: TableId, key: &[u64]) -> Result<bool> {
        self.tables
            .delete(&mut self.arena, &mut self.writes, id, key)
    }
}
