//! A table as an engine sees it: its definition, the layout of its tuples, and the encoders of its
//! keys.
//!
//! Every engine has its tables as [`Table`]s, and finds them by their numbers ([`find`]). Rows are
//! kept in the rooms of the engines: in arenas and runs, or in pages.

use crate::error::{Result, StorageError};
use crate::record::{
    Changes, IndexId, KeyEncoder, LayoutKind, Row, SchemaError, TableDef, TableId, TupleLayout,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The open tables of a partition by their numbers. Numbers are never used again, so they grow far
/// beyond the count of tables.
pub type Numbered<S> = BTreeMap<TableId, S>;

/// The open table with this number.
#[inline]
pub fn find<S>(tables: &Numbered<S>, id: TableId) -> Result<&S> {
    tables.get(&id).ok_or(StorageError::NoSuchTable(id.0))
}

/// The same, to change it.
#[inline]
pub fn find_mut<S>(tables: &mut Numbered<S>, id: TableId) -> Result<&mut S> {
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
