//! A table as an engine sees it: its definition, the layout of its tuples, and the encoders of its keys.
//!
//! [`space::TableSpace`] holds the tables of a partition that is updated in place, in volatile or in durable memory;
//! [`cow::CowSpace`] those of one that is copied on write, in durable memory or in a file.

pub(crate) mod blocks;
pub mod cow;
pub mod space;
mod tuples;

use crate::record::{Changes, KeyEncoder, LayoutKind, Row, SchemaError, TableDef, TupleLayout};
use std::sync::Arc;

/// One table's definition with everything that is derived from it.
#[derive(Debug)]
pub struct Table {
    /// Names, types, keys.
    pub def: TableDef,
    /// Where each column lies in a tuple.
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
