//! New rows of a table that nobody else knows: one that the transaction has made, or emptied.
//!
//! They are collected, and from some number on they go to the table below in transactions of the
//! engine, past the write set: a load takes no memory for its rows then, and no locks. If anything
//! goes wrong the transaction fails as a whole and drops the table below, since it has no savepoint
//! that is younger than the table.

use super::insert::new_row;
use super::rules::{of_row, store_row};
use super::{Pending, reference};
use crate::error::Result;
use crate::plan::{Change, Insert, Modify, Target};
use crate::run::{Row, Run};
use crate::types::Datum;

/// Rows of a transaction of the engine.
const ROWS: usize = 1024;

/// Rows that are collected.
pub(super) struct Fill {
    /// Rows, and the rows below; memory of the latter is used again.
    rows: Vec<Row>,
    stored: Vec<indelible::Row>,
    /// Whether rows have gone past the write set.
    is_direct: bool,
}

impl Fill {
    /// For a statement that inserts into a table that nobody else knows and does not read it; none
    /// for all others.
    pub(super) fn begin(plan: &Modify, run: &Run<'_>) -> Option<Self> {
        Self::is_possible(plan, run).then(|| Self {
            rows: Vec::with_capacity(ROWS),
            stored: Vec::with_capacity(ROWS),
            is_direct: false,
        })
    }

    /// Whether a statement is such a one.
    pub(super) fn is_possible(plan: &Modify, run: &Run<'_>) -> bool {
        let Change::Insert(insert) = &plan.change else {
            return false;
        };
        let id = plan.table.source.table.id();
        run.environment.host.new_tables.contains(&id)
            && insert.conflict.is_none()
            && insert.router.is_none()
            && plan.returning.is_none()
            && !plan.input.reads(id)
    }

    /// Adds the row of an input row.
    pub(super) fn add(
        &mut self,
        (table, insert): (&Target, &Insert),
        input: &[Datum],
        pending: &mut Pending,
        run: &mut Run<'_>,
    ) -> Result<()> {
        let row = new_row(table, insert, input, run)?;
        if self.stored.len() == self.rows.len() {
            self.stored.push(table.source.table.row());
        }
        let stored = &mut self.stored[self.rows.len()];
        store_row(table, &row, &run.environment.context(), stored)?;
        reference::note_parents(table, &row, None, pending);
        self.rows.push(row);
        if self.rows.len() == ROWS {
            self.is_direct = true;
            self.flush(table, run)?;
        }
        Ok(())
    }

    /// Inserts the rows that are left. A statement of few rows goes the usual way, which costs no
    /// transaction of the engine.
    pub(super) fn end(&mut self, table: &Target, run: &mut Run<'_>) -> Result<()> {
        if self.is_direct {
            return self.flush(table, run);
        }
        for (row, stored) in self.rows.iter().zip(&self.stored) {
            let inserted = run.connection.insert(&table.source.table, stored);
            inserted.map_err(|error| of_row(table, error, row, run))?;
        }
        Ok(())
    }

    fn flush(&mut self, table: &Target, run: &mut Run<'_>) -> Result<()> {
        let mut taken = 0;
        let rows = self.stored[..self.rows.len()].iter();
        let rows = rows.inspect(|_| taken += 1);
        if let Err(error) = run.connection.fill(&table.source.table, rows) {
            let row = &self.rows[taken.max(1) - 1];
            return Err(of_row(table, error, row, run));
        }
        self.rows.clear();
        Ok(())
    }
}
