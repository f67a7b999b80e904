//! Statements of a transaction, whichever way it was begun: by a typed closure or on a connection.
//!
//! Histories and the search with connections run the same statements both ways, one written once. A
//! statement that fails has no effect either way.

use indelible::{
    Changes, Connection, Direction, Index, Result, Row, RowLock, StatementSavepoint, Table,
    Transaction, Wait,
};
use indelible::{IntoRow, Savepoint};
use std::ops::{ControlFlow, RangeInclusive};
use std::time::Duration;

/// Statements that both ways have.
pub(crate) trait Access {
    /// A moment to roll back to.
    type Savepoint;

    /// Begins a statement, which may read later rows than the one before.
    fn begin_statement(&mut self) -> Result<()>;
    fn mark(&mut self) -> Result<Self::Savepoint>;
    fn roll_back_to(&mut self, mark: &Self::Savepoint) -> Result<()>;
    fn get(&mut self, table: &Table, key: i64) -> Result<Option<Row>>;
    /// Locks the row against changes by others, and reads the newest one.
    fn get_for_update(&mut self, table: &Table, key: i64) -> Result<Option<Row>>;
    fn find(&mut self, index: &Index, key: i64) -> Result<Vec<Row>>;
    fn collect(&mut self, table: &Table, keys: RangeInclusive<i64>) -> Result<Vec<Row>>;
    fn insert(&mut self, table: &Table, row: impl IntoRow) -> Result<()>;
    fn update(&mut self, table: &Table, key: i64, changes: &Changes) -> Result<bool>;
    fn delete(&mut self, table: &Table, key: i64) -> Result<bool>;
}

impl Access for Transaction<'_> {
    type Savepoint = Savepoint;

    fn begin_statement(&mut self) -> Result<()> {
        Ok(())
    }

    fn mark(&mut self) -> Result<Savepoint> {
        Ok(self.savepoint())
    }

    fn roll_back_to(&mut self, mark: &Savepoint) -> Result<()> {
        self.rollback_to(mark)
    }

    fn get(&mut self, table: &Table, key: i64) -> Result<Option<Row>> {
        Transaction::get(self, table, key)
    }

    fn get_for_update(&mut self, table: &Table, key: i64) -> Result<Option<Row>> {
        Transaction::get_for_update(self, table, key)
    }

    fn find(&mut self, index: &Index, key: i64) -> Result<Vec<Row>> {
        Transaction::find(self, index, key)
    }

    fn collect(&mut self, table: &Table, keys: RangeInclusive<i64>) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        self.scan(table, keys, Direction::Forward, |row| {
            rows.push(row.clone());
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    fn insert(&mut self, table: &Table, row: impl IntoRow) -> Result<()> {
        Transaction::insert(self, table, row)
    }

    fn update(&mut self, table: &Table, key: i64, changes: &Changes) -> Result<bool> {
        Transaction::update(self, table, key, changes)
    }

    fn delete(&mut self, table: &Table, key: i64) -> Result<bool> {
        Transaction::delete(self, table, key)
    }
}

/// Longer than any wait of a test.
const LONG: Wait = Wait::Limit(Duration::from_mins(1));

impl Access for Connection {
    type Savepoint = StatementSavepoint;

    fn begin_statement(&mut self) -> Result<()> {
        self.statement().map(drop)
    }

    fn mark(&mut self) -> Result<StatementSavepoint> {
        self.statement()
    }

    fn roll_back_to(&mut self, mark: &StatementSavepoint) -> Result<()> {
        Connection::roll_back_to(self, *mark)
    }

    fn get(&mut self, table: &Table, key: i64) -> Result<Option<Row>> {
        Connection::get(self, table, key)
    }

    fn get_for_update(&mut self, table: &Table, key: i64) -> Result<Option<Row>> {
        let mut row = table.row();
        let found = self.get_locked(table, key, RowLock::Update, LONG, &mut row)?;
        Ok((found == indelible::Found::Yes).then_some(row))
    }

    fn find(&mut self, index: &Index, key: i64) -> Result<Vec<Row>> {
        Connection::find(self, index, key)
    }

    fn collect(&mut self, table: &Table, keys: RangeInclusive<i64>) -> Result<Vec<Row>> {
        Connection::collect(self, table, keys)
    }

    fn insert(&mut self, table: &Table, row: impl IntoRow) -> Result<()> {
        Connection::insert(self, table, row)
    }

    fn update(&mut self, table: &Table, key: i64, changes: &Changes) -> Result<bool> {
        Connection::update(self, table, key, changes)
    }

    fn delete(&mut self, table: &Table, key: i64) -> Result<bool> {
        Connection::delete(self, table, key)
    }
}
