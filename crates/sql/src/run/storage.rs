//! Rows of tables below as values, and values as keys and rows there.
//!
//! Columns of keys hold one form of equal values, because an index compares bytes; where that
//! matters, a hidden column has them as they were written.

use super::{Row, Run};
use crate::error::Result;
use crate::plan::Source;
use crate::types::{Context, Datum, Type, storage};
use indelible::Value;

/// Adds the values of a row; columns that are not needed come as NULL.
pub(crate) fn read_row(
    source: &Source,
    row: &indelible::Row,
    needed: Option<&[bool]>,
    context: &Context<'_>,
    values: &mut Row,
) -> Result<()> {
    for at in 0..source.width() {
        let is_needed = needed.is_none_or(|needed| needed[at]);
        values.push(if is_needed {
            storage::load(
                row.get(source.place_of(at)),
                source.column_type(at),
                context,
            )?
        } else {
            Datum::Null
        });
    }
    Ok(())
}

/// Reads some columns of a row into their places.
pub(super) fn read_columns(
    source: &Source,
    row: &indelible::Row,
    columns: &[usize],
    values: &mut [Datum],
    run: &Run<'_>,
) -> Result<()> {
    let context = run.environment.context();
    for &at in columns {
        values[at] = storage::load(
            row.get(source.place_of(at)),
            source.column_type(at),
            &context,
        )?;
    }
    Ok(())
}

/// The key with these values; none if no row can have it.
pub(super) fn key_values(values: &[Datum], types: &[Type], run: &Run<'_>) -> Option<Vec<Value>> {
    let values = values.iter().zip(types);
    values
        .map(|(value, data_type)| key_value(value, *data_type, run))
        .collect()
}

/// A value of a key; none if it is NULL, or one that the column cannot hold.
pub(super) fn key_value(value: &Datum, data_type: Type, run: &Run<'_>) -> Option<Value> {
    if value.is_null() {
        return None;
    }
    if !storage::holds(value, data_type) {
        return None;
    }
    let value = storage::canonical(value);
    let stored = storage::store(&value, data_type, &run.environment.context());
    debug_assert!(stored.is_ok(), "a value that a column holds: {value:?}");
    stored.ok()
}

/// The key of a row.
pub(super) fn key_of(source: &Source, row: &[Datum], context: &Context<'_>) -> Result<Vec<Value>> {
    let values = source.key.iter().map(|&at| {
        let data_type = source.column_type(at);
        let value = row.get(at).cloned().unwrap_or(Datum::Null);
        storage::store(&storage::canonical(&value), data_type, context)
    });
    values.collect()
}

/// The value for a column of a table. Columns of keys hold one form of equal values.
pub(super) fn column_value(
    source: &Source,
    at: usize,
    value: &Datum,
    is_key: bool,
    context: &Context<'_>,
) -> Result<Value> {
    let data_type = source.column_type(at);
    if is_key && !storage::has_exact_keys(data_type) {
        return storage::store(&storage::canonical(value), data_type, context);
    }
    storage::store(value, data_type, context)
}
