//! Changes of a row that is locked: new values, and its end.
//!
//! A changed row keeps the rules of its table, and its references are noted.

use super::noted::{Pending, note_children, note_keys, note_parents};
use super::rules::{check, generate, is_key, named, of_row};
use crate::error::Result;
use crate::plan::{Expr, Target};
use crate::run::evaluate::evaluate;
use crate::run::storage::{column_value, key_of};
use crate::run::{Row, Run};
use crate::types::Datum;
use indelible::Error;

/// The reason for which a row is removed.
#[derive(Clone, Copy)]
pub(super) enum Goal {
    Delete,
    /// Another partition gets it, which others are told that wait for it.
    Move,
}

/// Removes a row that is locked. References to one that moves are noted when its new place is
/// known.
pub(super) fn remove(
    table: &Target,
    row: &[Datum],
    goal: Goal,
    pending: &mut Pending,
    run: &mut Run<'_>,
) -> Result<()> {
    let key = key_of(&table.source, row, &run.environment.context())?;
    let below = &table.source.table;
    let removed = match goal {
        Goal::Delete => run.connection.delete(below, key),
        Goal::Move => run.connection.delete_to_move(below, key),
    };
    removed.map_err(|error| named(table, error.into()))?;
    if let Goal::Delete = goal {
        note_children(table, row, None, pending);
    }
    Ok(())
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
pub(super) fn after(
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

/// Stores the columns of a locked row that have other values. A unique column that keeps its value
/// is none of them: its row may be referred to meanwhile.
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
    let set = columns.chain(generated);
    for at in set.filter(|&at| !is_kept(&existing[at], &changed[at])) {
        let value = column_value(&table.source, at, &changed[at], is_key(table, at), &context)?;
        stored
            .set(at, &value)
            .map_err(|error| named(table, Error::from(error).into()))?;
    }
    let key = key_of(&table.source, &existing, &context)?;
    run.connection
        .update(&table.source.table, key, &stored)
        .map_err(|error| of_row(table, error, &changed, run))?;
    note_parents(table, &changed, Some(&existing), pending);
    note_keys(table, &changed, Some(&existing), pending);
    note_children(table, &existing, Some(&changed), pending);
    Ok(changed)
}

/// Whether a value is stored as the one before it. Those with parts are not compared.
fn is_kept(before: &Datum, value: &Datum) -> bool {
    match value {
        Datum::Array(_) | Datum::Record(_) | Datum::Json(_) | Datum::Jsonb(_) => false,
        value => value == before && value.is_identical(before),
    }
}
