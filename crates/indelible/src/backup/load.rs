//! A new database as a sink.
//!
//! Rows are inserted by transactions of bounded size, which do not wait for durability: a new
//! database may be lost as a whole until it is complete. The indexes of a table are built together
//! after its last row, which also checks the unique ones.

use super::copy::{CopyStage, CopyWatch, Place, Sink};
use crate::database::Database;
use crate::definitions::Uniqueness;
use crate::error::Result;
use crate::hidden;
use crate::options::TransactionOptions;
use crate::table::Table;
use crate::transaction::Transaction;
use storage::engine::Durability;
use storage::log::redo::{ImageError, read_row};
use storage::record::{Column, IndexDef, Partitioning, Row, TableDef};

/// Rows, and bytes of rows, after which a transaction ends.
const BATCH_ROWS: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;

/// Fills a database.
pub(super) struct Loader<'db> {
    database: &'db Database,
    table: Option<Filling>,
    transaction: Option<Transaction<'db>>,
    batch_rows: usize,
    batch_bytes: usize,
    rows: u64,
    /// The tables that were made.
    made: Vec<Table>,
}

/// The table whose rows are being inserted.
struct Filling {
    table: Table,
    columns: Vec<Column>,
    indexes: Vec<IndexDef>,
    row: Row,
}

impl<'db> Loader<'db> {
    /// `database` must not have any of the tables yet.
    pub(super) fn new(database: &'db Database) -> Self {
        Self {
            database,
            table: None,
            transaction: None,
            batch_rows: 0,
            batch_bytes: 0,
            rows: 0,
            made: Vec::new(),
        }
    }

    /// Drops the tables that were made, after a failure. Tables of others, who use the database
    /// meanwhile, stay.
    pub(super) fn take_back(self) {
        let Self {
            database,
            table,
            transaction,
            made,
            ..
        } = self;
        drop((table, transaction));
        for table in made {
            // The first error is the one to report.
            let _ = if hidden::is_hidden(table.id()) {
                database.drop_hidden(&table)
            } else {
                database.drop_this(&table)
            };
        }
    }

    /// Ends the open transaction, if there is one.
    fn end_batch(&mut self) -> Result<()> {
        (self.batch_rows, self.batch_bytes) = (0, 0);
        self.transaction.take().map_or(Ok(()), Transaction::commit)
    }
}

impl Sink for Loader<'_> {
    fn table(&mut self, def: &TableDef) -> Result<()> {
        let mut def = def.clone();
        let indexes = std::mem::take(&mut def.indexes);
        fit(&mut def.partitioning, self.database.partitions());
        let columns = def.columns.clone();
        let is_there = self.database.core.has_hidden(def.id);
        let table = if hidden::is_hidden(def.id) {
            self.database.create_hidden(&def)?
        } else {
            self.database.create_table_from(def)?
        };
        if !is_there {
            self.made.push(table.clone());
        }
        let row = table.row();
        self.table = Some(Filling {
            table,
            columns,
            indexes,
            row,
        });
        Ok(())
    }

    fn row(&mut self, image: &[u8]) -> Result<()> {
        let filling = (self.table.as_mut()).expect("a source hands out a table before its rows");
        read_row(image, &mut filling.row).map_err(|error| match error {
            ImageError::Record(error) => error.into(),
            ImageError::Decode(error) => super::format::damaged(format!("a row ({error})")),
        })?;
        let transaction = match &mut self.transaction {
            Some(transaction) => transaction,
            none => {
                let options = TransactionOptions::new().durability(Durability::None);
                let options = options.unchecked(true);
                none.insert(self.database.begin_with(&options)?)
            }
        };
        transaction.insert(&filling.table, &filling.row)?;
        self.rows += 1;
        self.batch_rows += 1;
        self.batch_bytes += image.len();
        if self.batch_rows >= BATCH_ROWS || self.batch_bytes >= BATCH_BYTES {
            self.end_batch()?;
        }
        Ok(())
    }

    fn end_table(&mut self, watch: CopyWatch<'_>) -> Result<()> {
        self.end_batch()?;
        let Some(filling) = self.table.take() else {
            return Ok(());
        };
        for index in filling.indexes {
            let place = Place {
                stage: CopyStage::Indexes,
                table: filling.table.name(),
                rows: self.rows,
                file_bytes: 0,
            };
            place.tell(watch)?;
            let columns = index.columns.iter();
            let columns = columns.map(|&at| filling.columns[at].name.as_str());
            let uniqueness = if index.unique {
                Uniqueness::Unique
            } else {
                Uniqueness::Repeating
            };
            let database = self.database;
            database.create_index(&filling.table, &index.name, columns, uniqueness)?;
        }
        Ok(())
    }
}

/// Ranges keep their starts; fewer partitions than before take the ranges in turn.
fn fit(partitioning: &mut Partitioning, partitions: u32) {
    if let Partitioning::Ranges(starts) = partitioning {
        for start in starts {
            start.partition %= partitions;
        }
    }
}
