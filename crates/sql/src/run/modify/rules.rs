//! Rules of a table's rows: NOT NULL, domains, checks, generated columns; and errors of the tables
//! below in the words of the table above.
//! Values that break a rule are shown as PostgreSQL shows them.

use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Target, UniqueKey};
use crate::run::storage::column_value;
use crate::run::{Row, Run, evaluate};
use crate::state::quoted;
use crate::types::{Context, Datum, storage, text_io};
use indelible::{Error, RecordError, ValueRef};

/// Computes the generated columns of a row.
pub(in crate::run) fn generate(table: &Target, row: &mut Row, run: &mut Run<'_>) -> Result<()> {
    for (at, value) in &table.generated {
        row[*at] = evaluate(value, row, run)?;
    }
    Ok(())
}

/// Checks a row: of all columns, or of those that were set.
pub(in crate::run) fn check(table: &Target, row: &[Datum], run: &mut Run<'_>) -> Result<()> {
    for (column, value) in table.columns.iter().zip(row) {
        if value.is_null() && column.not_null {
            let message = format!(
                "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                column.name, table.source.name
            );
            let detail = failing_row(table, row, &run.environment.context())?;
            let error = SqlError::new(SqlState::NOT_NULL_VIOLATION, message).detail(detail);
            return Err(named(table, error).named(|names| names.column = Some(column.name.clone())));
        }
        for (domain, name, condition) in &column.domain_checks {
            if evaluate(condition, std::slice::from_ref(value), run)? == Datum::Bool(false) {
                return Err(sql_bind::domain_violation(domain, name));
            }
        }
    }
    for (name, condition) in &table.checks {
        if evaluate(condition, row, run)? == Datum::Bool(false) {
            let message = format!(
                "new row for relation \"{}\" violates check constraint \"{name}\"",
                table.source.name
            );
            let detail = failing_row(table, row, &run.environment.context())?;
            let error = SqlError::new(SqlState::CHECK_VIOLATION, message).detail(detail);
            return Err(named(table, error).named(|names| names.constraint = Some(name.clone())));
        }
    }
    super::route::check(table, row, run)?;
    check_views(table, row, run)
}

/// Checks that a row is one of the views through which it is changed.
pub(super) fn check_views(table: &Target, row: &[Datum], run: &mut Run<'_>) -> Result<()> {
    for (view, condition) in &table.views {
        if evaluate(condition, row, run)? != Datum::Bool(true) {
            let message = format!("new row violates check option for view \"{view}\"");
            let detail = failing_row(table, row, &run.environment.context())?;
            let state = SqlState::WITH_CHECK_OPTION_VIOLATION;
            return Err(SqlError::new(state, message).detail(detail));
        }
    }
    Ok(())
}

/// The error with the names of the table.
pub(in crate::run) fn named(table: &Target, error: SqlError) -> SqlError {
    error.named(|names| {
        names.schema = Some(table.schema.clone());
        names.table = Some(table.source.name.clone());
    })
}

/// The detail that shows a row.
pub(super) fn failing_row(table: &Target, row: &[Datum], context: &Context<'_>) -> Result<String> {
    let width = table.visible.min(row.len());
    Ok(format!(
        "Failing row contains ({}).",
        texts(table, 0..width, row, context)?
    ))
}

/// Values of a row as texts; long ones are cut.
fn texts(
    table: &Target,
    columns: impl IntoIterator<Item = usize>,
    row: &[Datum],
    context: &Context<'_>,
) -> Result<String> {
    let mut texts = Vec::new();
    for at in columns {
        texts.push(match &row[at] {
            Datum::Null => "null".to_owned(),
            value => {
                let text = text_io::print(value, table.source.column_type(at).kind, context)?;
                let end = text.floor_char_boundary(64);
                if end < text.len() {
                    format!("{}...", &text[..end])
                } else {
                    text
                }
            }
        });
    }
    Ok(texts.join(", "))
}

/// `(a, b)=(1, 2)`.
pub(super) fn key_text(
    table: &Target,
    columns: &[usize],
    row: &[Datum],
    context: &Context<'_>,
) -> Result<String> {
    let names = columns.iter().map(|&at| table.columns[at].name.clone());
    keyed_values(table, (names.collect(), columns), row, context)
}

/// As [`key_text`], with names as statements have them.
fn quoted_key_text(
    table: &Target,
    columns: &[usize],
    row: &[Datum],
    context: &Context<'_>,
) -> Result<String> {
    let names = columns.iter().map(|&at| match &table.columns[at].name {
        // A hidden column has an expression for a name.
        name if at < table.visible => quoted(name),
        name => name.clone(),
    });
    keyed_values(table, (names.collect(), columns), row, context)
}

fn keyed_values(
    table: &Target,
    (names, columns): (Vec<String>, &[usize]),
    row: &[Datum],
    context: &Context<'_>,
) -> Result<String> {
    let values = texts(table, columns.iter().copied(), row, context)?;
    Ok(format!("({})=({values})", names.join(", ")))
}

/// The key that an error of a duplicate is about, with the name of its constraint.
pub(super) fn duplicate<'t>(table: &'t Target, error: &Error) -> Option<&'t (String, UniqueKey)> {
    let Error::DuplicateKey(duplicate) = error else {
        return None;
    };
    table.keys.iter().find(|(_, key)| match &key.index {
        None => duplicate.index == "primary",
        Some(own) => *own == duplicate.index,
    })
}

/// An error of the table below, about a row.
pub(in crate::run) fn of_row(
    table: &Target,
    error: Error,
    row: &[Datum],
    run: &Run<'_>,
) -> SqlError {
    match duplicate(table, &error) {
        Some(key) => duplicate_key(table, key, row, &run.environment.context()),
        None => named(table, error.into()),
    }
}

/// The error of a row whose primary key another row has.
pub(in crate::run) fn duplicate_primary(
    table: &Target,
    row: &[Datum],
    context: &Context<'_>,
) -> Option<SqlError> {
    let mut keys = table.keys.iter();
    let primary = keys.find(|(_, key)| key.index.is_none());
    primary.map(|key| duplicate_key(table, key, row, context))
}

/// The error of a row whose key another row has.
pub(super) fn duplicate_key(
    table: &Target,
    (constraint, key): &(String, UniqueKey),
    row: &[Datum],
    context: &Context<'_>,
) -> SqlError {
    let message = format!("duplicate key value violates unique constraint \"{constraint}\"");
    let mut found = SqlError::new(SqlState::UNIQUE_VIOLATION, message);
    if let Ok(text) = quoted_key_text(table, &key.columns, row, context) {
        found = found.detail(format!("Key {text} already exists."));
    }
    named(table, found).named(|names| names.constraint = Some(constraint.clone()))
}

/// Whether a column is part of a key.
pub(in crate::run) fn is_key(table: &Target, at: usize) -> bool {
    table.source.key.contains(&at)
        || table.keys.iter().any(|(_, key)| key.columns.contains(&at))
        || table.indexed.contains(&at)
}

/// Gives a column the value that it has below.
pub(in crate::run) fn store(
    table: &Target,
    (at, value): (usize, &Datum),
    run: &Run<'_>,
    set: impl FnOnce(ValueRef<'_>) -> Result<(), RecordError>,
) -> Result<()> {
    let source = &table.source;
    let stored = match storage::lend(value, source.column_type(at))? {
        Some(lent) => set(lent),
        None => {
            let context = run.environment.context();
            let is_key = is_key(table, at);
            set(column_value(source, at, value, is_key, &context)?.as_ref())
        }
    };
    stored.map_err(|error| named(table, Error::from(error).into()))
}

/// The row below of a row.
pub(super) fn stored_row(
    table: &Target,
    row: &[Datum],
    context: &Context<'_>,
) -> Result<indelible::Row> {
    let mut stored = table.source.table.row();
    store_row(table, row, context, &mut stored)?;
    Ok(stored)
}

/// Makes a row below that of another row: all columns are set.
pub(super) fn store_row(
    table: &Target,
    row: &[Datum],
    context: &Context<'_>,
    stored: &mut indelible::Row,
) -> Result<()> {
    for (at, value) in row.iter().enumerate() {
        let value = column_value(&table.source, at, value, is_key(table, at), context)?;
        stored
            .set(at, &value)
            .map_err(|error| named(table, Error::from(error).into()))?;
    }
    Ok(())
}
