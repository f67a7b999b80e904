//! Unique keys that rows may share until a statement or a transaction ends (`DEFERRABLE`), and
//! those with a NULL that is like another: the index below does not look after them.
//!
//! Such a key is locked before another row that has it is looked for, and stays locked until the
//! transaction ends. Of two transactions that give a row the same key the later one therefore looks
//! when the earlier one has ended, and reads what is newest then, whatever its isolation. A check
//! that is put off does not wait for the lock: a key that others have locked counts as violated,
//! and is looked at again when the transaction ends.

use super::noted::{has_same_key, key_datums};
use super::rules::duplicate_key;
use crate::error::Result;
use crate::plan::{Target, UniqueKey};
use crate::run::lock::{Newest, lock_row};
use crate::run::storage::{key_value, read_row};
use crate::run::{Row, Run};
use crate::state::{Side, Violation};
use crate::types::Datum;
use indelible::{Direction, Index, KeyLock, Prefix, RowLock, Value, Wait};

/// Looks at keys of rows that were noted.
pub(super) fn settle(table: &Target, keys: Vec<(usize, Row)>, run: &mut Run<'_>) -> Result<()> {
    for (at, row) in keys {
        run.check()?;
        require(table, &table.keys[at], row, run)?;
    }
    Ok(())
}

/// Fails if another row has a key of a row, or keeps it for later if its check is put off.
fn require(table: &Target, named: &(String, UniqueKey), row: Row, run: &mut Run<'_>) -> Result<()> {
    let (_, key) = named;
    let values = key.columns.iter().map(|&at| match &row[at] {
        Datum::Null if key.nulls_alike => Some(Value::Null),
        value => key_value(value, table.source.column_type(at), run),
    });
    let (Some(index), Some(values)) = (&key.index, values.collect::<Option<Vec<_>>>()) else {
        return Ok(());
    };
    let index = table.source.table.index(index)?;
    let deferred = &run.environment.host.deferred;
    let is_put_off = deferred.has(key.constraint, key.deferral);
    let wait = if is_put_off {
        Wait::Never
    } else {
        run.environment.wait()
    };
    // Nobody else can have rows of a table that the transaction has made.
    let own_tables = &run.environment.host.own_tables;
    let lock = if own_tables.contains(&table.source.table.id()) {
        KeyLock::Again
    } else {
        run.connection.lock_key(&index, &values, wait)?
    };
    let probe = Probe {
        table,
        key,
        index: &index,
        values: &values,
        row: &row,
        wait,
    };
    let is_once = match lock {
        KeyLock::Busy => false,
        // No row of the transaction has had the key before, so those that have committed decide;
        // another one of this statement is looked at after this one.
        KeyLock::First => probe.is_once(Rows::Committed, run)? || probe.is_once(Rows::All, run)?,
        KeyLock::Again => probe.is_once(Rows::All, run)?,
    };
    if is_once {
        return Ok(());
    }
    if !is_put_off {
        return Err(duplicate_key(table, named, &row, run.environment));
    }
    let violation = Violation {
        table: table.source.oid,
        constraint: key.constraint,
        row,
        side: Side::Key,
    };
    let host = &mut run.environment.host;
    let bytes_max = host.variables.modes().work_mem;
    host.deferred.keep(violation, bytes_max)
}

/// The rows among which a key is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// Those that have committed, but the row itself: none must have the key. This costs nothing
    /// for the changes of the transaction.
    Committed,
    /// All, the transaction's own included: one may have the key.
    All,
}

/// A key that is looked for.
struct Probe<'p> {
    table: &'p Target,
    key: &'p UniqueKey,
    index: &'p Index,
    values: &'p Vec<Value>,
    row: &'p Row,
    wait: Wait,
}

impl Probe<'_> {
    /// Whether a key that is locked is that of one row. Of committed rows the answer can be wrong
    /// where it is no: the row itself may have gone.
    fn is_once(&self, rows: Rows, run: &mut Run<'_>) -> Result<bool> {
        let moment = run.connection.leave_snapshot()?;
        let found = self.find(rows, run);
        let others = match rows {
            Rows::Committed => 0,
            Rows::All => 1,
        };
        let is_once = match found {
            Ok(found) if found.len() <= others => Ok(true),
            Ok(found) => self.has_at_most(others, &found, run),
            Err(error) => Err(error),
        };
        run.connection.return_to(moment);
        is_once
    }

    fn find(&self, rows: Rows, run: &mut Run<'_>) -> Result<Vec<Row>> {
        let source = &self.table.source;
        let range = Prefix(self.values);
        let mut scan = run
            .connection
            .scan_index(self.index, range, Direction::Forward)?;
        let itself = match rows {
            Rows::Committed => {
                scan = scan.committed();
                Some(key_datums(self.table, self.row))
            }
            Rows::All => None,
        };
        let (mut found, mut batch) = (Vec::new(), Vec::new());
        while scan.next_batch(run.connection, &mut batch)? {
            for stored in &batch {
                let mut row = Row::with_capacity(source.width());
                read_row(source, stored, None, &run.environment.context(), &mut row)?;
                let is_itself = |own: &Row| *own == key_datums(self.table, &row);
                // The index may hold beginnings of keys only.
                if has_same_key(self.key, &row, self.row) && !itself.as_ref().is_some_and(is_itself)
                {
                    found.push(row);
                }
            }
        }
        Ok(found)
    }

    /// Whether so many of these rows at most have the key: others may be about to delete one of
    /// them, or to give it another key, and the transaction may have done so.
    fn has_at_most(&self, most: usize, rows: &[Row], run: &mut Run<'_>) -> Result<bool> {
        let lock = (RowLock::KeyShare, self.wait);
        let mut count = 0;
        for row in rows {
            match lock_row(&self.table.source, row, lock, run)? {
                Newest::Row(newest) if has_same_key(self.key, &newest, self.row) => count += 1,
                Newest::Busy => return Ok(false),
                Newest::Row(_) | Newest::Gone => {}
            }
        }
        Ok(count <= most)
    }
}
