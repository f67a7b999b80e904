//! Bulk loads: rows of a table that nobody else knows, past the write set.
//!
//! SQL makes a table below and only then lets its catalogue name it, in the transaction that made
//! it. Until that commits nobody finds the table, and if it never does, the table is dropped. So
//! its rows need no locks and no images, and may be durable before the transaction is: they go to
//! the engine at once, in transactions of their own, and take no memory until the commit.

use super::client::Connection;
use crate::error::{Error, Result};
use crate::operations::check_layout;
use crate::session::Session;
use crate::table::Table;
use std::sync::atomic::Ordering;
use storage::engine::Durability;
use storage::record::Row;

impl Connection {
    /// Inserts rows, all of them or none, durably and at once, into a table that no other
    /// connection and no closure uses. The open transaction sees them; its end does not undo them,
    /// so the caller drops the table then. A call is one transaction of the engine, so thousands of
    /// rows a call are better than few.
    ///
    /// If the transaction has changed the table by other calls, this inserts as
    /// [`Connection::insert`] does; also if the table has a unique index that its partitions do not
    /// check alone.
    ///
    /// # Errors
    ///
    /// That of the first row that fails, and the number of the rows before it.
    pub fn fill(&mut self, table: &Table, rows: &[Row]) -> Result<(), (usize, Error)> {
        let begun = self.begin_fill(table).map_err(|error| (0, error))?;
        if !begun {
            return one_by_one(rows, |row| self.insert(table, row));
        }
        one_by_one(rows, |row| check_whole(table, row))?;
        let filled = self.fill_with(|session| {
            let rows: Vec<&Row> = rows.iter().collect();
            session.insert_many_checked(table, &rows)
        });
        match filled {
            // Nothing of that is there. The row that was in the way is found by another try.
            Err(Error::DuplicateKey(_)) => {}
            filled => return filled.map_err(|error| (0, error)),
        }
        let mut count = 0;
        let filled = self.fill_with(|session| {
            rows.iter().try_for_each(|row| {
                session.insert(table, row)?;
                count += 1;
                Ok(())
            })
        });
        filled.map_err(|error| (count, error))
    }

    /// Whether rows of a table may go past the write set.
    fn begin_fill(&mut self, table: &Table) -> Result<bool> {
        self.begin_change(table)?;
        let has_own = !self.open()?.writes.is_empty_in(table.id());
        Ok(!has_own && !table.entry.unique_elsewhere.load(Ordering::Acquire))
    }

    /// Runs a transaction of the engine.
    fn fill_with(&self, run: impl FnOnce(&mut Session<'_>) -> Result<()>) -> Result<()> {
        let mut session = Session::of_connection(self.core(), self.policy())?;
        session.interrupt = Some(&self.interrupt);
        session.declare_all()?;
        session.without_memory_limit(run)?;
        session.finish(Durability::Immediate)
    }
}

/// Fails unless a row is of the table and has all values that it must have.
pub(super) fn check_whole(table: &Table, row: &Row) -> Result<()> {
    check_layout(&table.entry, row.layout())?;
    Ok(row.check_complete()?)
}

/// Does a step for one row after the other; an error comes with the number of rows before.
pub(super) fn one_by_one(
    rows: &[Row],
    mut step: impl FnMut(&Row) -> Result<()>,
) -> Result<(), (usize, Error)> {
    let mut rows = rows.iter().enumerate();
    rows.try_for_each(|(at, row)| step(row).map_err(|error| (at, error)))
}
