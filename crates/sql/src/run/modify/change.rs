//! Updates and deletions: a row is locked, read again, and changed if it is still one of those that
//! the statement means.
//! A row that several rows of other tables meet is changed once.

use super::insert::{Seen, insert_routed, key_datums};
use super::rules::{check, generate, is_key, named, of_row};
use super::{Noted, Pending, reference, route};
use crate::error::Result;
use crate::plan::{Expr, Moves, Target};
use crate::run::evaluate::evaluate;
use crate::run::lock::{Newest, lock_row};
use crate::run::storage::{column_value, key_of};
use crate::run::{Row, Run, is_true};
use crate::types::Datum;
use indelible::{Error, RowLock};

/// Updates the row of an input row; returns it with the others' rows, if it was changed.
pub(super) fn update(
    table: &Target,
    (set, recheck, moves): (&[(usize, Expr)], Option<&Expr>, Option<&Moves>),
    input: &[Datum],
    noted: &mut Noted,
    run: &mut Run<'_>,
) -> Result<Option<Row>> {
    let strength = strength_of(table, set);
    let Some(newest) = newest(table, (strength, recheck), input, &mut noted.seen, run)? else {
        return Ok(None);
    };
    let width = table.source.width();
    let existing = newest[..width].to_vec();
    let after = after(set, &existing, &newest, run)?;
    let (mut changed, place) = match moves {
        Some(moves) if !route::takes(table, &after, run)? => {
            remove(table, &existing, &mut noted.pending, run)?;
            moved(moves, after, noted, run)?
        }
        _ => {
            let columns = set.iter().map(|(at, _)| *at);
            let stored = store(table, columns, (existing, after), &mut noted.pending, run)?;
            (stored, Datum::Oid(table.source.oid))
        }
    };
    changed.extend(newest.into_iter().skip(width));
    if moves.is_some() {
        changed.push(place);
    }
    Ok(Some(changed))
}

/// Inserts a row that its partition does not take any more into the one that does; returns it as
/// a row of the partition that it was in, with the number of the other one.
fn moved(
    moves: &Moves,
    mut row: Row,
    noted: &mut Noted,
    run: &mut Run<'_>,
) -> Result<(Row, Datum)> {
    let table = &moves.table;
    let mut above: Row = moves.columns.iter().map(|&at| row[at].clone()).collect();
    above.resize(table.source.width(), Datum::Null);
    let mut place = Datum::Null;
    if let Some(mut inserted) = insert_routed(&moves.router, table, &above, noted, run)? {
        place = inserted.pop().unwrap_or(Datum::Null);
        for (value, &at) in inserted.into_iter().zip(&moves.columns) {
            row[at] = value;
        }
    }
    Ok((row, place))
}

/// Deletes the row of an input row; returns it with the others' rows, if it was there.
pub(super) fn delete(
    table: &Target,
    recheck: Option<&Expr>,
    input: &[Datum],
    noted: &mut Noted,
    run: &mut Run<'_>,
) -> Result<Option<Row>> {
    let strength = (RowLock::Update, recheck);
    let Some(newest) = newest(table, strength, input, &mut noted.seen, run)? else {
        return Ok(None);
    };
    let row = &newest[..table.source.width()];
    remove(table, row, &mut noted.pending, run)?;
    Ok(Some(newest))
}

/// Deletes a row that is locked.
pub(super) fn remove(
    table: &Target,
    row: &[Datum],
    pending: &mut Pending,
    run: &mut Run<'_>,
) -> Result<()> {
    let key = key_of(&table.source, row, &run.environment.context())?;
    run.connection
        .delete(&table.source.table, key)
        .map_err(|error| named(table, error.into()))?;
    reference::note_children(table, row, None, pending);
    Ok(())
}

/// Locks the row of an input row and reads it again; none if it is no longer meant.
fn newest(
    table: &Target,
    (strength, recheck): (RowLock, Option<&Expr>),
    input: &[Datum],
    seen: &mut Seen,
    run: &mut Run<'_>,
) -> Result<Option<Row>> {
    let width = table.source.width();
    // Several rows of other tables may meet one row, which is changed once.
    if input.len() > width && !seen.insert(key_datums(table, input)) {
        return Ok(None);
    }
    let wait = run.environment.wait();
    let newest = match lock_row(&table.source, &input[..width], (strength, wait), run)? {
        Newest::Gone | Newest::Busy => return Ok(None),
        Newest::Row(newest) => newest,
    };
    let has_changed = newest[..] != input[..width];
    let mut row = newest;
    row.extend(input[width..].iter().cloned());
    if has_changed
        && let Some(condition) = recheck
        && !is_true(condition, &row, run)?
    {
        return Ok(None);
    }
    Ok(Some(row))
}

/// The lock that an update needs: others may refer to a row whose keys stay.
fn strength_of(table: &Target, set: &[(usize, Expr)]) -> RowLock {
    let changes_key = |at: usize| {
        table.source.key.contains(&at)
            || table.keys.iter().any(|(_, key)| key.columns.contains(&at))
    };
    if set.iter().any(|(at, _)| changes_key(*at)) {
        RowLock::Update
    } else {
        RowLock::NoKeyUpdate
    }
}

/// Gives columns of a locked row their values, which read `row`; returns the new row.
pub(super) fn apply(
    table: &Target,
    set: &[(usize, Expr)],
    (existing, row): (Row, &[Datum]),
    pending: &mut Pending,
    run: &mut Run<'_>,
) -> Result<Row> {
    let after = after(set, &existing, row, run)?;
    let columns = set.iter().map(|(at, _)| *at);
    store(table, columns, (existing, after), pending, run)
}

/// A row with new values, which read `row`.
fn after(
    set: &[(usize, Expr)],
    existing: &[Datum],
    row: &[Datum],
    run: &mut Run<'_>,
) -> Result<Row> {
    let mut after = existing.to_vec();
    for (at, value) in set {
        after[*at] = evaluate(value, row, run)?;
    }
    Ok(after)
}

/// Stores the columns of a locked row that have other values.
pub(super) fn store(
    table: &Target,
    columns: impl Iterator<Item = usize>,
    (existing, mut changed): (Row, Row),
    pending: &mut Pending,
    run: &mut Run<'_>,
) -> Result<Row> {
    generate(table, &mut changed, run)?;
    check(table, &changed, run)?;
    let mut stored = table.source.table.changes();
    let generated = table.generated.iter().map(|(at, _)| *at);
    let context = run.environment.context();
    for at in columns.chain(generated) {
        let value = column_value(&table.source, at, &changed[at], is_key(table, at), &context)?;
        stored
            .set(at, &value)
            .map_err(|error| named(table, Error::from(error).into()))?;
    }
    let key = key_of(&table.source, &existing, &context)?;
    run.connection
        .update(&table.source.table, key, &stored)
        .map_err(|error| of_row(table, error, &changed, run))?;
    reference::note_parents(table, &changed, Some(&existing), pending);
    reference::note_children(table, &existing, Some(&changed), pending);
    Ok(changed)
}
