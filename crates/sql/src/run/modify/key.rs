//! Unique keys that rows may share until a statement or a transaction ends (`DEFERRABLE`): the
//! table below has an index for them that does not look after them.
//!
//! Such a key is locked before another row that has it is looked for, and stays locked until the
//! transaction ends. Of two transactions that give a row the same key the later one therefore looks
//! when the earlier one has ended, and reads what is newest then, whatever its isolation. A check
//! that is put off does not wait for the lock: a key that others have locked counts as violated,
//! and is looked at again when the transaction ends.

use super::rules::duplicate_key;
use crate::error::Result;
use crate::plan::{Target, UniqueKey};
use crate::run::lock::{Newest, lock_row};
use crate::run::storage::{key_value, read_row};
use crate::run::{Row, Run};
use crate::state::{Side, Violation};
use indelible::{Direction, Index, Prefix, RowLock, Value, Wait};

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
    let values = key
        .columns
        .iter()
        .map(|&at| key_value(&row[at], table.source.column_type(at), run));
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
    let new_tables = &run.environment.host.new_tables;
    let is_locked = new_tables.contains(&table.source.table.id())
        || run.connection.lock_key(&index, &values, wait)?;
    if is_locked && is_once(table, (key, &index), (values, &row), wait, run)? {
        return Ok(());
    }
    if !is_put_off {
        return Err(duplicate_key(table, named, &row, run));
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

/// Whether at most one row has a key that is locked.
fn is_once(
    table: &Target,
    index: (&UniqueKey, &Index),
    key: (Vec<Value>, &Row),
    wait: Wait,
    run: &mut Run<'_>,
) -> Result<bool> {
    let moment = run.connection.leave_snapshot()?;
    let found = count_is_one(table, index, key, wait, run);
    run.connection.return_to(moment);
    found
}

fn count_is_one(
    table: &Target,
    (key, index): (&UniqueKey, &Index),
    (values, row): (Vec<Value>, &Row),
    wait: Wait,
    run: &mut Run<'_>,
) -> Result<bool> {
    let source = &table.source;
    // The index may hold beginnings of keys only.
    let has_it = |other: &Row| key.columns.iter().all(|&at| other[at] == row[at]);
    let (mut rows, mut batch) = (Vec::new(), Vec::new());
    let mut scan = run
        .connection
        .scan_index(index, Prefix(values), Direction::Forward)?;
    while scan.next_batch(run.connection, &mut batch)? {
        for stored in &batch {
            let mut found = Row::with_capacity(source.width());
            read_row(source, stored, None, &run.environment.context(), &mut found)?;
            if has_it(&found) {
                rows.push(found);
            }
        }
    }
    if rows.len() < 2 {
        return Ok(true);
    }
    // Others may be about to delete one of them, or to give it another key.
    let mut count = 0;
    for found in &rows {
        match lock_row(source, found, (RowLock::KeyShare, wait), run)? {
            Newest::Row(newest) if has_it(&newest) => count += 1,
            Newest::Busy => return Ok(false),
            Newest::Row(_) | Newest::Gone => {}
        }
    }
    Ok(count < 2)
}
