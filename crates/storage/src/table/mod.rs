//! A table as an engine sees it: its definition, the layout of its tuples, and the encoders of its
//! keys.
//!
//! [`space::TableSpace`] holds the tables of a partition that is updated in place, in volatile or
//! in durable memory; [`cow::CowSpace`] those of one that is copied on write, in durable memory or
//! in a file.

pub(crate) mod blocks;
pub mod cow;
pub mod space;
mod tuples;

use crate::error::{Result, StorageError};
use crate::record::{
    Changes, IndexDef, IndexId, KeyBuf, KeyEncoder, LayoutKind, Row, SchemaError, TableDef,
    TableId, TupleLayout,
};
use crate::vocabulary::{ScanRange, VerifyReport};
use pmem::{Arena, Memory};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

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

    /// Forgets the transaction.
    fn end_transaction(&mut self) {}

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

/// The open tables of a partition by their numbers. Numbers are never used again, so they grow far
/// beyond the count of tables.
pub(crate) type Numbered<S> = BTreeMap<TableId, S>;

#[inline]
pub(crate) fn find<S>(tables: &Numbered<S>, id: TableId) -> Result<&S> {
    tables.get(&id).ok_or(StorageError::NoSuchTable(id.0))
}

#[inline]
pub(crate) fn find_mut<S>(tables: &mut Numbered<S>, id: TableId) -> Result<&mut S> {
    tables.get_mut(&id).ok_or(StorageError::NoSuchTable(id.0))
}

/// One table's definition with everything that is derived from it.
#[derive(Debug)]
pub struct Table {
    /// Names, types, keys.
    pub def: TableDef,
    /// Location of each column in a tuple.
    pub layout: Arc<TupleLayout>,
    /// Encodes the primary key.
    pub primary: KeyEncoder,
    /// Encodes the key of each secondary index, in the order of `def.indexes`.
    pub secondary: Vec<KeyEncoder>,
}

impl Table {
    /// Derives everything from a definition, which is checked.
    pub fn new(def: TableDef, kind: LayoutKind) -> Result<Self, SchemaError> {
        def.validate()?;
        let layout = Arc::new(TupleLayout::new(&def, kind));
        let primary = KeyEncoder::primary(&def);
        let secondary = def
            .indexes
            .iter()
            .map(|index| KeyEncoder::secondary(&def, index))
            .collect();
        let table = Self {
            def,
            layout,
            primary,
            secondary,
        };
        debug_assert!(
            table.primary.shape().words > 0,
            "a checked definition has a primary key"
        );
        Ok(table)
    }

    /// The encoder of the secondary index in this place of `def.indexes`, or of the primary key.
    pub fn encoder(&self, number: Option<usize>) -> &KeyEncoder {
        number.map_or(&self.primary, |number| &self.secondary[number])
    }

    /// Whether the changes alter a column that a secondary index has in its key.
    pub fn changes_an_index(&self, changes: &Changes) -> bool {
        !self.secondary.is_empty()
            && changes
                .columns()
                .any(|column| self.secondary.iter().any(|index| index.uses_column(column)))
    }

    /// The place of a secondary index in `def.indexes`.
    pub fn index_number(&self, index: IndexId) -> Result<usize> {
        let mut all = self.def.indexes.iter();
        all.position(|def| def.id == index)
            .ok_or_else(|| StorageError::NoSuchIndex {
                table: self.def.name.as_str().into(),
                index: index.0,
            })
    }

    /// The error for a key of this row that is taken: of the secondary index in this place of
    /// `def.indexes`, or of the primary key.
    #[cold]
    pub fn duplicate(&self, number: Option<usize>, row: &Row) -> StorageError {
        let (index, columns) = match number {
            None => ("primary", &self.def.primary_key),
            Some(number) => {
                let index = &self.def.indexes[number];
                (index.name.as_str(), &index.columns)
            }
        };
        let values: Vec<_> = columns
            .iter()
            .map(|&column| row.get(column).to_string())
            .collect();
        let key = format!("({})", values.join(", "));
        StorageError::duplicate_key(&self.def.name, index, key)
    }
}
