//! Rows on their way to partitions, and rows that their partition does not take.
//!
//! The values of the keys decide at each level, from the table of the statement down to a table
//! that has rows.

use super::rules::{may_show, named, with_row};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Leaf, Level, Next, Router, Target};
use crate::run::evaluate::evaluate;
use crate::run::{Row, Run};
use crate::types::{Datum, text_io};

/// Whether a table takes a row, as the partition that it is.
pub(super) fn takes(table: &Target, row: &[Datum], run: &mut Run<'_>) -> Result<bool> {
    is_within(&table.within, row, run)
}

/// Fails if a table does not take a row.
pub(super) fn check(table: &Target, row: &[Datum], run: &mut Run<'_>) -> Result<()> {
    if takes(table, row, run)? {
        return Ok(());
    }
    Err(not_taken(table, row, run)?)
}

/// The error of a row that a table does not take.
pub(super) fn not_taken(table: &Target, row: &[Datum], run: &Run<'_>) -> Result<SqlError> {
    let message = format!(
        "new row for relation \"{}\" violates partition constraint",
        table.source.name
    );
    let error = SqlError::new(SqlState::CHECK_VIOLATION, message);
    Ok(named(table, with_row(table, error, row, run)?))
}

fn is_within(within: &[(Level, usize)], row: &[Datum], run: &mut Run<'_>) -> Result<bool> {
    for (level, own) in within {
        if level.arm(&keys(level, row, run)?) != Some(*own) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The table for a row of the table above, whose rules are `table`.
pub(super) fn leaf<'r>(
    router: &'r Router,
    table: &Target,
    row: &[Datum],
    run: &mut Run<'_>,
) -> Result<&'r Leaf> {
    if !is_within(&router.within, row, run)? {
        return Err(not_taken(table, row, run)?);
    }
    let mut at = 0;
    loop {
        let level = &router.levels[at];
        let values = keys(level, row, run)?;
        match level.arm(&values).map(|arm| level.arms[arm].next) {
            Some(Next::Leaf(leaf)) => return Ok(&router.leaves[leaf]),
            Some(Next::Level(next)) => at = next,
            Some(Next::Unknown) | None => return Err(not_found(level, &values, run)?),
        }
    }
}

fn keys(level: &Level, row: &[Datum], run: &mut Run<'_>) -> Result<Row> {
    let keys = level.keys.iter().map(|(key, _)| evaluate(key, row, run));
    keys.collect()
}

fn not_found(level: &Level, values: &[Datum], run: &Run<'_>) -> Result<SqlError> {
    let message = format!("no partition of relation \"{}\" found for row", level.table);
    let error = SqlError::new(SqlState::CHECK_VIOLATION, message);
    if !may_show(level.oid, run.environment) {
        return Ok(error);
    }
    let mut texts = Vec::new();
    for (value, (key, _)) in values.iter().zip(&level.keys) {
        texts.push(match value {
            Datum::Null => "null".to_owned(),
            value => text_io::print(value, key.kind(), &run.environment.context())?,
        });
    }
    let labels: Vec<&str> = level.keys.iter().map(|(_, label)| label.as_str()).collect();
    let detail = format!(
        "Partition key of the failing row contains ({}) = ({}).",
        labels.join(", "),
        texts.join(", ")
    );
    Ok(error.detail(detail))
}
