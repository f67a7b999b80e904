//! The keys of a row in the unique secondary indexes of its table.
//!
//! A change locks those that it takes or frees, whether a connection or a typed transaction makes
//! it, so both make them here.

use crate::error::Result;
use storage::record::{IndexId, KeyBuf, Row, Value};
use storage::table::Table as Shape;

/// A key of a row in a unique index; rows with a NULL in it have none.
#[derive(Clone)]
pub(super) struct UniqueKey {
    /// Position of the index in the definition.
    pub(super) number: usize,
    pub(super) index: IndexId,
    pub(super) key: KeyBuf,
    /// The first column of the primary key, which decides the partition.
    pub(super) first: Value,
}

pub(super) fn unique_keys(shape: &Shape, row: &Row) -> Result<Vec<UniqueKey>> {
    let mut keys = Vec::new();
    for (number, (index, encoder)) in shape.def.indexes.iter().zip(&shape.secondary).enumerate() {
        let has_null = || {
            index
                .columns
                .iter()
                .any(|&column| row.get(column).is_null())
        };
        if !index.unique || has_null() {
            continue;
        }
        let mut key = KeyBuf::new();
        encoder.encode_row(row, &mut key)?;
        keys.push(UniqueKey {
            number,
            index: index.id,
            key,
            first: row.get(shape.def.primary_key[0]).to_value(),
        });
    }
    Ok(keys)
}
