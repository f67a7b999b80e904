//! Locks of a connection, as far as its calls tell: those that it certainly holds, and those that
//! it may hold because a call failed half-way.
//!
//! A call that passes a certain lock of another connection is wrong, and so is one that is refused
//! where nobody may hold a lock. A rollback to a mark returns none.

use crate::model::MAIN;
use indelible::{RowLock, TableLock};
use std::collections::BTreeSet;

/// A row of the model: table and key.
pub(crate) type RowName = (u32, i64);

/// Locks of one transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    rows: Vec<Held>,
    /// Codes of the main table that it takes or frees.
    codes: BTreeSet<i64>,
    tables: Vec<(u32, TableLock)>,
    maybe_rows: BTreeSet<RowName>,
    maybe_codes: BTreeSet<i64>,
    maybe_tables: BTreeSet<u32>,
}

/// The lock of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    row: RowName,
    strength: RowLock,
    changes: bool,
}

/// Locks that a call wants.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) row: RowName,
    pub(crate) strength: RowLock,
    /// Whether it changes the row: one that is locked only goes with a shared lock of its table.
    pub(crate) changes: bool,
    pub(crate) codes: BTreeSet<i64>,
}

impl Claims {
    /// The transaction has rolled back to a moment at which it had the locks of `mark`. Those of
    /// rows and codes since then are given back, except of rows that were inserted in a batch;
    /// those of tables stay.
    pub(crate) fn roll_back_to(&mut self, mark: Self) {
        let since = self.rows.iter().filter(|lock| !mark.rows.contains(lock));
        self.maybe_rows.extend(since.map(|lock| lock.row));
        self.maybe_codes.extend(self.codes.difference(&mark.codes));
        self.rows = mark.rows;
        self.codes = mark.codes;
    }

    /// A call has failed, and has some of these locks.
    pub(crate) fn may_have(&mut self, wanted: &Wanted) {
        self.maybe_rows.insert(wanted.row);
        self.maybe_codes.extend(&wanted.codes);
    }

    /// A call has these locks.
    pub(crate) fn has(&mut self, wanted: &Wanted) {
        self.has_row(wanted);
        self.codes.extend(&wanted.codes);
    }

    pub(crate) fn has_row(&mut self, wanted: &Wanted) {
        self.may_have(wanted);
        self.rows.push(Held {
            row: wanted.row,
            strength: wanted.strength,
            changes: wanted.changes,
        });
    }

    pub(crate) fn has_table(&mut self, table: u32, mode: TableLock) {
        self.maybe_tables.insert(table);
        self.tables.push((table, mode));
    }

    pub(crate) fn may_have_table(&mut self, table: u32) {
        self.maybe_tables.insert(table);
    }

    /// Whether another transaction certainly cannot have these locks.
    pub(crate) fn forbid(&self, wanted: &Wanted) -> bool {
        let by_row = self
            .rows
            .iter()
            .any(|held| held.row == wanted.row && are_in_conflict(held.strength, wanted.strength));
        let by_table = self.tables.iter().any(|&(table, mode)| {
            table == wanted.row.0
                && (mode == TableLock::Exclusive || (mode == TableLock::Shared && wanted.changes))
        });
        by_row || by_table || !self.codes.is_disjoint(&wanted.codes)
    }

    /// Whether another transaction may fail to get these locks.
    pub(crate) fn may_forbid(&self, wanted: &Wanted) -> bool {
        self.maybe_rows.contains(&wanted.row)
            || self.maybe_tables.contains(&wanted.row.0)
            || !self.maybe_codes.is_disjoint(&wanted.codes)
    }

    /// Whether another transaction certainly cannot have a lock of the table.
    pub(crate) fn forbid_table(&self, table: u32, mode: TableLock) -> bool {
        let by_table = self.tables.iter().any(|&(other, held)| {
            other == table && (held == TableLock::Exclusive || mode == TableLock::Exclusive)
        });
        let by_row = self.rows.iter().any(|held| {
            held.row.0 == table
                && (mode == TableLock::Exclusive || (mode == TableLock::Shared && held.changes))
        });
        by_table || by_row
    }

    /// Whether another transaction may fail to get a lock of the table.
    pub(crate) fn may_forbid_table(&self, table: u32) -> bool {
        self.maybe_tables.contains(&table)
            || self.maybe_rows.iter().any(|(of, _)| *of == table)
            || (table == MAIN.0 && !self.maybe_codes.is_empty())
    }
}

/// Whether two transactions cannot have these locks of one row.
fn are_in_conflict(one: RowLock, other: RowLock) -> bool {
    match one.max(other) {
        RowLock::KeyShare | RowLock::Share => false,
        RowLock::NoKeyUpdate => one.min(other) >= RowLock::Share,
        RowLock::Update => true,
    }
}
