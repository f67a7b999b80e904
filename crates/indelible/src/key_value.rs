//! Key-value tables: bytes to bytes, with a thinner interface.
//!
//! A key-value table is an ordinary table of two columns, so it takes part in transactions with
//! others: its operations take the transaction. Keys have at most [`KEY_BYTES_MAX`] bytes, because
//! they are in index nodes; values have as many as a row may have.

use crate::database::Database;
use crate::error::{Error, Result};
use crate::key::IntoKeyRange;
use crate::table::Table;
use crate::transaction::{Reader, Transaction};
use std::ops::ControlFlow;
use storage::engine::Direction;
use storage::record::{DataType, Row};

/// Most bytes of a key.
pub const KEY_BYTES_MAX: u32 = 64;

const KEY: usize = 0;
const VALUE: usize = 1;

/// A key-value table.
#[derive(Clone, Debug)]
pub struct KeyValue {
    table: Table,
}

impl Database {
    /// The key-value table of that name; created if there is none.
    pub fn key_value(&self, name: &str) -> Result<KeyValue> {
        let table = match self.table(name) {
            Ok(table) => table,
            Err(Error::NoSuchTable { .. }) => {
                let made = self
                    .create_table(name)
                    .column(
                        "key",
                        DataType::Bytes {
                            max: Some(KEY_BYTES_MAX),
                        },
                    )
                    .column("value", DataType::Bytes { max: None })
                    // All keys are in their order, and short enough for that.
                    .exact_keys()
                    .create();
                match made {
                    // Another thread was faster.
                    Err(Error::TableExists { .. }) => self.table(name)?,
                    made => made?,
                }
            }
            Err(error) => return Err(error),
        };
        let columns = &table.entry.shape.def.columns;
        let types: Vec<DataType> = columns.iter().map(|column| column.data_type).collect();
        match types[..] {
            [DataType::Bytes { .. }, DataType::Bytes { max: None }] => Ok(KeyValue { table }),
            _ => Err(Error::Definition {
                name: name.to_owned(),
                problem: "it is a table of other columns; choose another name".into(),
            }),
        }
    }
}

impl KeyValue {
    /// The underlying table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The value of a key.
    pub fn get(&self, transaction: &mut Transaction<'_>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(transaction.get(&self.table, key)?.as_ref().map(value_of))
    }

    /// The value of a key, in a transaction that only reads.
    pub fn read(&self, reader: &mut Reader<'_>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(reader.get(&self.table, key)?.as_ref().map(value_of))
    }

    /// Sets the value of a key; true if the key is new.
    pub fn put(&self, transaction: &mut Transaction<'_>, key: &[u8], value: &[u8]) -> Result<bool> {
        let mut changes = self.table.changes();
        changes.set(VALUE, value)?;
        if transaction.update(&self.table, key, &changes)? {
            return Ok(false);
        }
        transaction.insert(&self.table, (key, value))?;
        Ok(true)
    }

    /// Deletes a key; false if it is not there.
    pub fn delete(&self, transaction: &mut Transaction<'_>, key: &[u8]) -> Result<bool> {
        transaction.delete(&self.table, key)
    }

    /// Visits the pairs of a range in the order of the keys, until `visit` breaks.
    pub fn scan(
        &self,
        reader: &mut Reader<'_>,
        range: impl IntoKeyRange,
        direction: Direction,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        reader.scan(&self.table, range, direction, |row| {
            let (key, value) = (row.get(KEY), row.get(VALUE));
            visit(
                key.as_bytes().unwrap_or_default(),
                value.as_bytes().unwrap_or_default(),
            )
        })
    }
}

fn value_of(row: &Row) -> Vec<u8> {
    row.get(VALUE).as_bytes().unwrap_or_default().to_vec()
}
