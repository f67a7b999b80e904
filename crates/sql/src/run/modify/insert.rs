//! New rows, and what happens if their keys are there already.
//!
//! A row in the way may have been committed after the statement began: it is looked for in the
//! newest state, locked, and changed as an update changes it.

use super::noted::{
    Noted, Pending, Seen, has_same_key, key_datums, note_keys, note_parents, stored_key,
};
use super::route;
use super::row::apply;
use super::rules::{check, check_views, duplicate, generate, of_row, stored_row};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Conflict, Insert, Router, Target, UniqueKey};
use crate::run::evaluate::all;
use crate::run::lock::{Newest, lock_row};
use crate::run::storage::{key_value, key_values, read_row};
use crate::run::{Row, Run, is_true};
use crate::types::{Datum, Type};
use indelible::{Prefix, RowLock};

/// Tries of a row that meets another one, which is gone each time that it is looked for.
const TRIES_MAX: u32 = 100;

/// Inserts the row of an input row; returns it, or the one that was changed in its place.
pub(super) fn insert(
    table: &Target,
    insert: &Insert,
    input: &[Datum],
    noted: &mut Noted,
    run: &mut Run<'_>,
) -> Result<Option<Row>> {
    let Some(router) = &insert.router else {
        let row = all(&insert.values, input, run)?;
        let conflict = insert.conflict.as_ref();
        return insert_row(
            table,
            conflict,
            row,
            (&mut noted.pending, &mut noted.seen),
            run,
        );
    };
    let row = all(&insert.values, input, run)?;
    insert_routed(router, table, &row, noted, run)
}

/// Inserts a row into the partition that takes it; returns it as a row of the table above.
pub(super) fn insert_routed(
    router: &Router,
    table: &Target,
    row: &[Datum],
    noted: &mut Noted,
    run: &mut Run<'_>,
) -> Result<Option<Row>> {
    let leaf = route::leaf(router, table, row, run)?;
    let at = noted.routed_to(&leaf.target);
    let (_, pending) = &mut noted.routed[at];
    let own = leaf.row_of(row);
    let conflict = leaf.conflict.as_ref();
    let inserted = insert_row(&leaf.target, conflict, own, (pending, &mut noted.seen), run)?;
    let inserted = inserted.map(|own| leaf.row_above(&own, table.source.width()));
    if let Some(row) = &inserted {
        check_views(table, row, run)?;
    }
    Ok(inserted)
}

/// Inserts a row whose columns have their values; returns it, or the one that was changed in its
/// place. Where that could have been, a number follows the row that says so: `xmax`.
fn insert_row(
    table: &Target,
    conflict: Option<&Conflict>,
    row: Row,
    (pending, seen): (&mut Pending, &mut Seen),
    run: &mut Run<'_>,
) -> Result<Option<Row>> {
    let mut row = finished(table, row, run)?;
    let stored = stored_row(table, &row, &run.environment.context())?;
    let mut tries = 0;
    loop {
        let error = match run.connection.insert(&table.source.table, &stored) {
            Ok(()) => break,
            Err(error) => error,
        };
        let (Some(conflict), Some((_, key))) = (conflict, duplicate(table, &error)) else {
            return Err(of_row(table, error, &row, run));
        };
        // The key that the table below has found is the first in the way. Those that the clause
        // names count before it.
        let is_named = conflict.keys().iter().any(|own| own.index == key.index);
        match conflict {
            Conflict::Nothing(keys) => {
                let found = match keys.is_empty() || is_named {
                    true => Some(key),
                    false => first_there(table, keys, &row, run)?,
                };
                let Some(key) = found else {
                    return Err(of_row(table, error, &row, run));
                };
                check_seen(table, key, &row, run)?;
                return Ok(None);
            }
            Conflict::Update { .. } => match update(table, conflict, &row, (pending, seen), run)? {
                InTheWay::Changed(mut updated) => {
                    // Transactions have such numbers, and none has 0.
                    let transaction = run.environment.host.transaction as u32;
                    updated.push(Datum::Oid(transaction.max(1)));
                    return Ok(Some(updated));
                }
                InTheWay::Left => return Ok(None),
                // The row has gone meanwhile.
                InTheWay::Gone if is_named && tries < TRIES_MAX => tries += 1,
                InTheWay::Gone => return Err(of_row(table, error, &row, run)),
            },
        }
    }
    note_parents(table, &row, None, pending);
    note_keys(table, &row, None, pending);
    if matches!(conflict, Some(Conflict::Update { .. })) {
        seen.insert(stored_key(table, &row));
        row.push(Datum::Oid(0));
    }
    Ok(Some(row))
}

/// The row of an input row, computed and checked; with its number, if the table below has one.
pub(super) fn new_row(
    table: &Target,
    insert: &Insert,
    input: &[Datum],
    run: &mut Run<'_>,
) -> Result<Row> {
    let row = all(&insert.values, input, run)?;
    finished(table, row, run)
}

/// A row with what is computed from its columns, checked.
fn finished(table: &Target, mut row: Row, run: &mut Run<'_>) -> Result<Row> {
    generate(table, &mut row, run)?;
    check(table, &row, run)?;
    if table.source.has_row_number() {
        let numbers = &run.environment.host.sql;
        row.push(Datum::Int8(numbers.next_row_number(&table.source.table)?));
    }
    Ok(row)
}

/// The first of these keys of a row that another row has. A primary key is none of them: the table
/// below looks for it first.
fn first_there<'k>(
    table: &Target,
    keys: &'k [UniqueKey],
    row: &[Datum],
    run: &mut Run<'_>,
) -> Result<Option<&'k UniqueKey>> {
    for key in keys.iter().filter(|key| key.index.is_some()) {
        if find_newest(table, key, row, run)?.is_some() {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// Fails if the row in the way was committed after the snapshot of the transaction, which would
/// leave its own row out for one that it cannot see.
fn check_seen(table: &Target, key: &UniqueKey, row: &[Datum], run: &mut Run<'_>) -> Result<()> {
    if !run.state.is_of_snapshot {
        return Ok(());
    }
    let is_seen = match &key.index {
        Some(_) => find(table, key, row, run)?.is_some(),
        None => {
            let values = key_datums(table, row);
            let types = table.source.key.iter();
            let types: Vec<Type> = types.map(|&at| table.source.column_type(at)).collect();
            match key_values(&values, &types, run) {
                Some(key) => run.connection.get(&table.source.table, key)?.is_some(),
                None => false,
            }
        }
    };
    if is_seen {
        return Ok(());
    }
    let message = "could not serialize access due to concurrent update";
    Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, message))
}

/// The fate of the row that is in the way.
enum InTheWay {
    /// There is none.
    Gone,
    /// The condition does not hold for it.
    Left,
    Changed(Row),
}

/// Changes the row that is in the way.
fn update(
    table: &Target,
    conflict: &Conflict,
    row: &[Datum],
    (pending, seen): (&mut Pending, &mut Seen),
    run: &mut Run<'_>,
) -> Result<InTheWay> {
    let Conflict::Update {
        key,
        shown,
        set,
        condition,
    } = conflict
    else {
        return Ok(InTheWay::Gone);
    };
    let Some(found) = find_newest(table, key, row, run)? else {
        return Ok(InTheWay::Gone);
    };
    // A change of the key makes the lock stronger when the new values are known.
    let lock = (RowLock::NoKeyUpdate, run.environment.wait());
    let existing = match lock_row(&table.source, &found, lock, run)? {
        // Others may have given it another key before it was locked.
        Newest::Row(existing) if key.index.is_none() || has_same_key(key, &found, &existing) => {
            existing
        }
        Newest::Row(_) | Newest::Gone | Newest::Busy => return Ok(InTheWay::Gone),
    };
    if seen.contains(&stored_key(table, &existing)) {
        let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
        let hint = "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.";
        return Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, message).hint(hint));
    }
    for (view, condition) in shown {
        if !is_true(condition, &existing, run)? {
            let message = format!("conflicting row is not visible through view \"{view}\"");
            let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
            return Err(SqlError::new(state, message));
        }
    }
    let mut pair = existing.clone();
    pair.extend(row.iter().cloned());
    if let Some(condition) = condition
        && !is_true(condition, &pair, run)?
    {
        return Ok(InTheWay::Left);
    }
    let updated = apply(table, set, (existing, &pair), pending, run)?;
    seen.insert(stored_key(table, &updated));
    Ok(InTheWay::Changed(updated))
}

/// As [`find`], in the newest state: the row may have been committed after the statement began, or
/// after the snapshot of the transaction.
fn find_newest(
    table: &Target,
    key: &UniqueKey,
    row: &[Datum],
    run: &mut Run<'_>,
) -> Result<Option<Row>> {
    let moment = run.connection.leave_snapshot()?;
    let found = find(table, key, row, run);
    run.connection.return_to(moment);
    found
}

/// The row that has a key of a row.
fn find(table: &Target, key: &UniqueKey, row: &[Datum], run: &mut Run<'_>) -> Result<Option<Row>> {
    let Some(name) = &key.index else {
        // The primary key is that of the new row.
        return Ok(Some(row.to_vec()));
    };
    let index = table.source.table.index(name)?;
    let values = key
        .columns
        .iter()
        .map(|&at| key_value(&row[at], table.source.column_type(at), run));
    let Some(values) = values.collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let scan = run
        .connection
        .scan_index(&index, Prefix(values), indelible::Direction::Forward);
    let mut rows = Vec::new();
    let is_there = scan?.next_batch(run.connection, &mut rows)?;
    let Some(stored) = rows.first().filter(|_| is_there) else {
        return Ok(None);
    };
    let mut found = Row::new();
    read_row(
        &table.source,
        stored,
        None,
        &run.environment.context(),
        &mut found,
    )?;
    Ok(Some(found))
}
