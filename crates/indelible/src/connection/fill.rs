//! Bulk loads: rows of a table that nobody else knows, past the write set.
//!
//! SQL makes a table below and only then lets its catalogue name it, in the transaction that made
//! it. Until that commits nobody finds the table, and if it never does, the table is dropped. So
//! its rows need no locks and no images, and may be durable before the transaction is: they go to
//! the engine at once, in transactions of their own, and take no memory until the commit.

use super::client::Connection;
use crate::error::Result;
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
    /// [`Error::DuplicateKey`](crate::Error::DuplicateKey); the row is the last one that was taken
    /// from the iterator.
    pub fn fill<'r>(
        &mut self,
        table: &Table,
        rows: impl IntoIterator<Item = &'r Row>,
    ) -> Result<()> {
        self.begin_change(table)?;
        let mut rows = rows.into_iter();
        let has_own = !self.open()?.writes.is_empty_in(table.id());
        if has_own || table.entry.unique_elsewhere.load(Ordering::Acquire) {
            return rows.try_for_each(|row| self.insert(table, row));
        }
        let mut session = Session::of_connection(self.core(), self.policy())?;
        session.declare_all()?;
        session
            .without_memory_limit(|session| rows.try_for_each(|row| session.insert(table, row)))?;
        session.finish(Durability::Immediate)
    }
}
