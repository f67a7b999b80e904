//! One file a rival: how it is opened, and reading, updating and loading through it.
//!
//! Key-value rivals keep the whole row under its key, so an update reads the row, changes a column
//! and writes the row, in one transaction where the rival has them. [`RowBuffer`] is where they
//! copy a row to.

pub(crate) mod fjall;
pub(crate) mod lmdb;
#[cfg(feature = "pmemobj")]
pub(crate) mod pmemobj;
pub(crate) mod redb;
#[cfg(feature = "rocksdb")]
pub(crate) mod rocks;
pub(crate) mod sqlite;

use anyhow::{Result, bail};
use workload::ycsb::{COLUMN_BYTES, ROW_BYTES};

/// The caller's buffer of one row.
pub(crate) struct RowBuffer(Box<[u8; ROW_BYTES]>);

impl RowBuffer {
    pub(crate) fn new() -> Self {
        Self(Box::new([0; ROW_BYTES]))
    }

    /// Copies a row from where the rival shows it.
    #[inline]
    pub(crate) fn copy(&mut self, row: &[u8]) -> Result<()> {
        if row.len() != ROW_BYTES {
            bail!("a row has {} bytes and must have {ROW_BYTES}", row.len());
        }
        self.0.copy_from_slice(row);
        Ok(())
    }

    pub(crate) fn column(&self, column: usize) -> &[u8] {
        &self.0[column * COLUMN_BYTES..(column + 1) * COLUMN_BYTES]
    }

    pub(crate) fn column_mut(&mut self, column: usize) -> &mut [u8] {
        &mut self.0[column * COLUMN_BYTES..(column + 1) * COLUMN_BYTES]
    }

    pub(crate) fn bytes(&self) -> &[u8; ROW_BYTES] {
        &self.0
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8; ROW_BYTES] {
        &mut self.0
    }
}
