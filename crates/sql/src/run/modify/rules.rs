//! Rules of a table's rows: NOT NULL, domains, checks, generated columns; and errors of the tables
//! below in the words of the table above.
//! Values that break a rule are shown as PostgreSQL shows them, to roles that may read them.

use crate::catalog::{Oid, Privilege};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Target, UniqueKey};
use crate::run::storage::column_value;
use crate::run::{Row, Run, evaluate};
use crate::state::{Environment, quoted};
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
            let error = SqlError::new(SqlState::NOT_NULL_VIOLATION, message);
            let error = with_row(table, error, row, run)?;
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
            let error = SqlError::new(SqlState::CHECK_VIOLATION, message);
            let error = with_row(table, error, row, run)?;
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
            let error = SqlError::new(SqlState::WITH_CHECK_OPTION_VIOLATION, message);
            return Err(with_row(table, error, row, run)?);
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

/// Whether errors may show values of a table to the session's role.
pub(super) fn may_show(table: Oid, environment: &Environment) -> bool {
    let names = &environment.names;
    let select = Privilege::Select.bit();
    names.catalog.may(names.role, table, select)
}

/// The error with a row, or with those of its values that the role may read or has given.
pub(super) fn with_row(
    table: &Target,
    error: SqlError,
    row: &[Datum],
    run: &Run<'_>,
) -> Result<SqlError> {
    let (shown, context) = (&table.shown, run.environment.context());
    let columns = shown.columns.iter().copied().filter(|at| *at < row.len());
    if may_show(shown.table, run.environment) {
        let values = texts(table, columns, row, &context)?;
        return Ok(error.detail(format!("Failing row contains ({values}).")));
    }
    let given: Vec<usize> = columns.filter(|at| shown.given.contains(at)).collect();
    if given.is_empty() {
        return Ok(error);
    }
    let names: Vec<&str> = given.iter().map(|&at| &*table.columns[at].name).collect();
    let (names, values) = (names.join(", "), texts(table, given, row, &context)?);
    Ok(error.detail(format!("Failing row contains ({names}) = ({values}).")))
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

/// `Key (a, b)=(1, 2)`, or `Key` for a role that may not read the table.
pub(super) fn key_text(
    table: &Target,
    columns: &[usize],
    row: &[Datum],
    environment: &Environment,
) -> Result<String> {
    if !may_show(table.source.oid, environment) {
        return Ok("Key".to_owned());
    }
    let names = columns.iter().map(|&at| table.columns[at].name.clone());
    let values = (names.collect(), columns);
    let values = keyed_values(table, values, row, &environment.context())?;
    Ok(format!("Key {values}"))
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
        Some(key) => duplicate_key(table, key, row, run.environment),
        None => named(table, error.into()),
    }
}

/// The error of a row whose primary key another row has.
pub(in crate::run) fn duplicate_primary(
    table: &Target,
    row: &[Datum],
    environment: &Environment,
) -> Option<SqlError> {
    let mut keys = table.keys.iter();
    let primary = keys.find(|(_, key)| key.index.is_none());
    primary.map(|key| duplicate_key(table, key, row, environment))
}

/// The error of a row whose key another row has.
pub(super) fn duplicate_key(
    table: &Target,
    (constraint, key): &(String, UniqueKey),
    row: &[Datum],
    environment: &Environment,
) -> SqlError {
    let message = format!("duplicate key value violates unique constraint \"{constraint}\"");
    let mut found = SqlError::new(SqlState::UNIQUE_VIOLATION, message);
    let may_show = may_show(table.source.oid, environment);
    let text = may_show.then(|| quoted_key_text(table, &key.columns, row, &environment.context()));
    if let Some(Ok(text)) = text {
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
