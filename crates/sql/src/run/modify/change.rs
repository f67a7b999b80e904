//! Updates and deletions: a row is locked, read again, and changed if it is still one of those that
//! the statement means.
//! A row that several rows of other tables meet is changed once, and so is one that a query of WITH
//! has changed.

use super::insert::insert_routed;
use super::noted::{Noted, Seen, note_moved, stored_key};
use super::route;
use super::row::{Goal, after, remove, store};
use super::rules::generate;
use crate::error::Result;
use crate::plan::{Expr, Moves, Target};
use crate::run::lock::{Newest, lock_moved_row};
use crate::run::{Row, Run, is_true};
use crate::types::Datum;
use indelible::RowLock;

/// Updates the row of an input row; returns it with the others' rows, if it was changed.
pub(super) fn update(
    table: &Target,
    (set, recheck, moves): (&[(usize, Expr)], Option<&Expr>, Option<&Moves>),
    input: &[Datum],
    noted: &mut Noted,
    run: &mut Run<'_>,
) -> Result<Option<Row>> {
    let (strength, planned) = lock_for(table, (set, moves), input, run)?;
    let Some(newest) = newest(table, (strength, recheck), input, &mut noted.seen, run)? else {
        return Ok(None);
    };
    let width = table.source.width();
    let existing = newest[..width].to_vec();
    let after = match planned {
        Some(after) if Datum::are_identical(&existing, &input[..width]) => after,
        _ => after(set, &existing, &newest, run)?,
    };
    let (mut changed, place) = match moves {
        Some(moves) if !route::takes(table, &after, run)? => {
            move_row(table, moves, (existing, after), noted, run)?
        }
        _ => {
            let columns = set.iter().filter(|set| !is_kept(set)).map(|(at, _)| *at);
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

/// Moves a row that its partition does not take any more into the one that does; returns it as a
/// row of the partition that it was in, with the number of the other one.
pub(super) fn move_row(
    table: &Target,
    moves: &Moves,
    (existing, mut row): (Row, Row),
    noted: &mut Noted,
    run: &mut Run<'_>,
) -> Result<(Row, Datum)> {
    remove(table, &existing, Goal::Move, &mut noted.pending, run)?;
    let root = &moves.table;
    let mut above: Row = moves.columns.iter().map(|&at| row[at].clone()).collect();
    above.resize(root.source.width(), Datum::Null);
    let mut place = Datum::Null;
    if let Some(mut inserted) = insert_routed(&moves.router, root, &above, noted, run)? {
        place = inserted.pop().unwrap_or(Datum::Null);
        for (value, &at) in inserted.into_iter().zip(&moves.columns) {
            row[at] = value;
        }
    }
    note_moved(table, moves, (&existing, &row), &mut noted.pending)?;
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
    remove(table, row, Goal::Delete, &mut noted.pending, run)?;
    Ok(Some(newest))
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
    let is_met = input.len() > width;
    let key = || stored_key(table, input);
    let changed = run.state.changed.as_ref();
    if is_met && seen.contains(&key()) || changed.is_some_and(|changed| changed.contains(&key())) {
        return Ok(None);
    }
    let wait = run.environment.wait();
    let lock = (strength, wait);
    let newest = match lock_moved_row(&table.source, &input[..width], lock, run)? {
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
    if is_met {
        seen.insert(key());
    }
    if let Some(changed) = &mut run.state.changed {
        changed.insert(key());
    }
    Ok(Some(row))
}

/// The lock that an update needs of a row as it is seen, and the row's new values where they decide
/// that: others may refer to a row whose keys stay.
pub(super) fn lock_for(
    table: &Target,
    (set, moves): (&[(usize, Expr)], Option<&Moves>),
    seen: &[Datum],
    run: &mut Run<'_>,
) -> Result<(RowLock, Option<Row>)> {
    let changed = set.iter().filter(|set| !is_kept(set)).map(|(at, _)| *at);
    if !table.may_change_key(changed, moves) {
        return Ok((RowLock::NoKeyUpdate, None));
    }
    let existing = &seen[..table.source.width()];
    let mut after = after(set, existing, seen, run)?;
    generate(table, &mut after, run)?;
    let goes = moves.is_some() && !route::takes(table, &after, run)?;
    let strength = match goes || table.changes_key(existing, &after) {
        true => RowLock::Update,
        false => RowLock::NoKeyUpdate,
    };
    Ok((strength, Some(after)))
}

/// Whether a column is set to the value that it has.
fn is_kept((at, value): &(usize, Expr)) -> bool {
    matches!(value, Expr::Column(own, _) if own == at)
}
