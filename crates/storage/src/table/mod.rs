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

use crate::error::Result;
use crate::record::{
    Changes, IndexDef, IndexId, KeyBuf, KeyEncoder, LayoutKind, Row, SchemaError, TableDef,
    TableId, TupleLayout,
};
use crate::vocabulary::{ScanRange, VerifyReport};
use pmem::{Arena, Memory};
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
        Ok(Self {
            def,
            layout,
            primary,
            secondary,
        })
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

    /// The values of some columns of a row, for a message.
    fn key_text(row: &Row, columns: &[usize]) -> String {
        let values: Vec<_> = columns
            .iter()
            .map(|&column| row.get(column).to_string())
            .collect();
        format!("({})", values.join(", "))
    }
}
