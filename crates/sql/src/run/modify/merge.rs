//! `MERGE`: the first clause whose condition is true changes a row that a row of the source meets,
//! or inserts one.
//!
//! A row that others have changed meanwhile is looked at again: if the rows still meet, by the
//! clauses for rows that do, else by the others. No row is changed twice.

use super::change::{lock_for, move_row};
use super::insert::insert;
use super::noted::{Noted, stored_key};
use super::route;
use super::row::{Goal, after, remove, store};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Merge, MergeAction, MergeClause, Target};
use crate::run::lock::{Newest, lock_moved_row};
use crate::run::{Row, Run, is_true};
use crate::types::Datum;
use indelible::RowLock;

/// Does what the statement says about a row; whether it has changed something.
pub(super) fn merge(
    table: &Target,
    merge: &Merge,
    input: &[Datum],
    noted: &mut Noted,
    run: &mut Run<'_>,
) -> Result<bool> {
    let Some(on) = &merge.on else {
        return unmatched(merge, input, noted, run);
    };
    let width = table.source.width();
    let mut row = input.to_vec();
    loop {
        let Some(clause) = chosen(&merge.matched, &row, run)? else {
            return Ok(false);
        };
        let (strength, planned) = match &clause.action {
            MergeAction::Nothing | MergeAction::Insert(_) => return Ok(false),
            MergeAction::Update(set) => {
                lock_for(table, (set.as_slice(), merge.moves.as_ref()), &row, run)?
            }
            MergeAction::Delete => (RowLock::Update, None),
        };
        let key = stored_key(table, &row);
        if noted.seen.contains(&key) {
            let message = "MERGE command cannot affect row a second time";
            let hint = "Ensure that not more than one source row matches any one target row.";
            return Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, message).hint(hint));
        }
        let changed = run.state.changed.as_ref();
        if changed.is_some_and(|changed| changed.contains(&key)) {
            return Ok(false);
        }
        let wait = run.environment.wait();
        let newest = match lock_moved_row(&table.source, &row[..width], (strength, wait), run)? {
            Newest::Row(newest) => Some(newest),
            Newest::Gone | Newest::Busy => None,
        };
        let is_same = newest.as_deref() == Some(&row[..width]);
        if !is_same {
            let meets = match newest {
                Some(newest) => {
                    row.splice(..width, newest);
                    is_true(on, &row, run)?
                }
                None => false,
            };
            if meets {
                continue;
            }
            let mut nothing = vec![Datum::Null; merge.root.source.width()];
            nothing.extend(row.drain(width..));
            return unmatched(merge, &nothing, noted, run);
        }
        noted.seen.insert(key.clone());
        if let Some(changed) = &mut run.state.changed {
            changed.insert(key);
        }
        change(table, (merge, &clause.action, planned), &row, noted, run)?;
        return Ok(true);
    }
}

/// Changes a row that is locked, whose new values may be known.
fn change(
    table: &Target,
    (merge, action, planned): (&Merge, &MergeAction, Option<Row>),
    row: &[Datum],
    noted: &mut Noted,
    run: &mut Run<'_>,
) -> Result<()> {
    let existing: Row = row[..table.source.width()].to_vec();
    let MergeAction::Update(set) = action else {
        return remove(table, &existing, Goal::Delete, &mut noted.pending, run);
    };
    let after = match planned {
        Some(after) => after,
        None => after(set, &existing, row, run)?,
    };
    match &merge.moves {
        Some(moves) if !route::takes(table, &after, run)? => {
            move_row(table, moves, (existing, after), noted, run)?;
        }
        _ => {
            let columns = set.iter().map(|(at, _)| *at);
            store(table, columns, (existing, after), &mut noted.pending, run)?;
        }
    }
    Ok(())
}

/// Inserts the row that the clauses want for a row of the source that meets none.
fn unmatched(merge: &Merge, row: &[Datum], noted: &mut Noted, run: &mut Run<'_>) -> Result<bool> {
    let clause = chosen(&merge.unmatched, row, run)?;
    let Some(MergeAction::Insert(new)) = clause.map(|clause| &clause.action) else {
        return Ok(false);
    };
    insert(&merge.root, new, row, noted, run).map(|inserted| inserted.is_some())
}

/// The first clause whose condition is true.
fn chosen<'m>(
    clauses: &'m [MergeClause],
    row: &[Datum],
    run: &mut Run<'_>,
) -> Result<Option<&'m MergeClause>> {
    for clause in clauses {
        let is_it = match &clause.condition {
            Some(condition) => is_true(condition, row, run)?,
            None => true,
        };
        if is_it {
            return Ok(Some(clause));
        }
    }
    Ok(None)
}
