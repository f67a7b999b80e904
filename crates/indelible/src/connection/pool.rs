//! Memory that the transactions of a connection use one after the other: rows, handles of tables,
//! sets of changes.
//!
//! It saves allocations, and more than that it keeps reference counts of tables and tuple formats
//! out of the transactions: all connections share these counts, so each step of one would move its
//! cache line between processors.

use super::change::Change;
use crate::table::Table;
use std::sync::Arc;
use storage::record::{Changes, Row};

/// Most of each kind that are kept.
const KEPT_MAX: usize = 64;
/// Largest row that is kept.
const ROW_BYTES_MAX: usize = 16 << 10;

/// The content of a row that comes from a pool, and that nobody else has yet.
pub(super) fn content_of(row: &mut Arc<Row>) -> &mut Row {
    Arc::get_mut(row).expect("only rows without another user are kept")
}

/// Things that nobody uses at the moment.
#[derive(Default)]
pub(super) struct Pool {
    rows: Vec<Arc<Row>>,
    tables: Vec<Table>,
    changes: Vec<Changes>,
}

impl Pool {
    /// A row of the table that `fill` fills. Before that it has any content.
    pub(super) fn row<R>(
        &mut self,
        table: &Table,
        fill: impl FnOnce(&mut Row) -> R,
    ) -> (Arc<Row>, R) {
        let mut row = self.any_row(table);
        let filled = fill(content_of(&mut row));
        (row, filled)
    }

    /// A row of the table with any content, for [`content_of`].
    pub(super) fn any_row(&mut self, table: &Table) -> Arc<Row> {
        let layout = &table.entry.shape.layout;
        let mut kept = self.rows.iter();
        match kept.rposition(|row| Arc::ptr_eq(row.layout(), layout)) {
            Some(at) => self.rows.swap_remove(at),
            None => Arc::new(table.row()),
        }
    }

    /// A handle of the table.
    pub(super) fn table(&mut self, table: &Table) -> Table {
        let mut kept = self.tables.iter();
        match kept.rposition(|kept| Arc::ptr_eq(&kept.entry, &table.entry)) {
            Some(at) => self.tables.swap_remove(at),
            None => table.clone(),
        }
    }

    /// No changes of rows of the table.
    pub(super) fn changes(&mut self, table: &Table) -> Changes {
        let layout = &table.entry.shape.layout;
        let mut kept = self.changes.iter();
        match kept.rposition(|changes| Arc::ptr_eq(changes.layout(), layout)) {
            Some(at) => self.changes.swap_remove(at),
            None => table.changes(),
        }
    }

    fn keep_changes(&mut self, mut changes: Changes) {
        if self.changes.len() < KEPT_MAX {
            changes.clear();
            self.changes.push(changes);
        }
    }

    /// Keeps a row if nobody else uses it.
    pub(super) fn keep_row(&mut self, row: Arc<Row>) {
        if self.rows.len() < KEPT_MAX
            && row.bytes() <= ROW_BYTES_MAX
            && Arc::strong_count(&row) == 1
        {
            self.rows.push(row);
        }
    }

    /// Keeps the parts of a change that has ended.
    pub(super) fn keep(&mut self, change: Change) {
        let Change {
            table,
            before,
            after,
            update,
            key: _,
            moved: _,
        } = change;
        before
            .into_iter()
            .chain(after)
            .for_each(|row| self.keep_row(row));
        if let Some(changes) = update {
            self.keep_changes(changes);
        }
        if self.tables.len() < KEPT_MAX {
            self.tables.push(table);
        }
    }
}
