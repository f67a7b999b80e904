//! Arrow arrays as rows for a statement.
//!
//! Each type has the value of SQL that it stands for; a type that has none is an error that names
//! the column, and so is a date or time outside of the range of SQL's types. A batch is one call of
//! the statement's session, a row after the other.

use crate::error::unfit;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time64MicrosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::Schema;
use arrow_schema::{ArrowError, DataType, TimeUnit};
use client::{TypedClient, Value};
use sql::types::datetime::calendar::{DAY, UNIX_EPOCH_DAYS, checked_date, is_valid};
use sql::types::{Datum, Numeric};
use sql::{SqlError, SqlState};

/// Rows whose values are in memory at a time.
const CHUNK_ROWS: usize = 1024;
const EPOCH_MICROS: i64 = UNIX_EPOCH_DAYS * DAY;

/// The statement that inserts rows of a schema into a table, whose name is quoted.
pub(crate) fn statement(table: &str, schema: &Schema) -> Result<String, SqlError> {
    if schema.fields().is_empty() {
        return Err(unfit("the data has no columns"));
    }
    let names = schema.fields().iter().map(|field| field.name());
    let names = names.map(|name| format!("\"{}\"", name.replace('"', "\"\"")));
    let places = (1..=schema.fields().len()).map(|number| format!("${number}"));
    Ok(format!(
        "INSERT INTO {table} ({}) VALUES ({})",
        names.collect::<Vec<_>>().join(", "),
        places.collect::<Vec<_>>().join(", ")
    ))
}

/// The next batch of a stream; none at its end.
pub(crate) fn next(
    reader: &mut impl Iterator<Item = Result<RecordBatch, ArrowError>>,
) -> Result<Option<RecordBatch>, SqlError> {
    let next = reader.next().transpose();
    next.map_err(|error| unfit(format!("the stream of Arrow failed: {error}")))
}

/// Runs a statement for each row of a batch; the sum of its counts.
pub(crate) fn insert(
    client: &mut TypedClient,
    text: &str,
    batch: &RecordBatch,
) -> Result<u64, SqlError> {
    let (mut count, mut values) = (0, Vec::new());
    let schema = batch.schema();
    for start in (0..batch.num_rows()).step_by(CHUNK_ROWS) {
        let end = batch.num_rows().min(start + CHUNK_ROWS);
        for at in start..end {
            for (field, column) in schema.fields().iter().zip(batch.columns()) {
                let value = datum(column, at).map_err(|refusal| refusal.told(field.name(), column));
                values.push(Value::One(value?));
            }
        }
        count += client.execute_all(text, end - start, &mut values)?;
    }
    Ok(count)
}

/// Reasons for which a value is none of SQL.
enum Refusal {
    /// Nor is any other of its type.
    Type,
    /// It is outside of the range of SQL's type.
    Range,
}

impl Refusal {
    fn told(&self, name: &str, column: &ArrayRef) -> SqlError {
        let of = column.data_type();
        match self {
            Self::Type => SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("column `{name}` of Arrow's type {of} has no type of SQL; cast it first"),
            ),
            Self::Range => SqlError::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                format!(
                    "a value of column `{name}` is outside of the range of SQL's dates and times"
                ),
            ),
        }
    }
}

/// The value at a place of an array.
fn datum(array: &dyn Array, at: usize) -> Result<Datum, Refusal> {
    if array.is_null(at) {
        return Ok(Datum::Null);
    }
    Ok(match array.data_type() {
        DataType::Null => Datum::Null,
        DataType::Boolean => Datum::Bool(array.as_boolean().value(at)),
        DataType::Int8 => Datum::Int8(array.as_primitive::<Int8Type>().value(at).into()),
        DataType::Int16 => Datum::Int8(array.as_primitive::<Int16Type>().value(at).into()),
        DataType::Int32 => Datum::Int8(array.as_primitive::<Int32Type>().value(at).into()),
        DataType::Int64 => Datum::Int8(array.as_primitive::<Int64Type>().value(at)),
        DataType::UInt8 => Datum::Int8(array.as_primitive::<UInt8Type>().value(at).into()),
        DataType::UInt16 => Datum::Int8(array.as_primitive::<UInt16Type>().value(at).into()),
        DataType::UInt32 => Datum::Int8(array.as_primitive::<UInt32Type>().value(at).into()),
        DataType::UInt64 => {
            let value = array.as_primitive::<UInt64Type>().value(at);
            let wide = || Datum::Numeric(Numeric::new(value.into(), 0));
            i64::try_from(value).map_or_else(|_| wide(), Datum::Int8)
        }
        DataType::Float32 => Datum::Float8(array.as_primitive::<Float32Type>().value(at).into()),
        DataType::Float64 => Datum::Float8(array.as_primitive::<Float64Type>().value(at)),
        DataType::Decimal128(_, scale) => {
            let units = array.as_primitive::<Decimal128Type>().value(at);
            Datum::Numeric(Numeric::new(
                units,
                u16::try_from(*scale).map_err(|_| Refusal::Type)?,
            ))
        }
        DataType::Utf8 => Datum::text(array.as_string::<i32>().value(at)),
        DataType::LargeUtf8 => Datum::text(array.as_string::<i64>().value(at)),
        DataType::Utf8View => Datum::text(array.as_string_view().value(at)),
        DataType::Binary => Datum::bytes(array.as_binary::<i32>().value(at)),
        DataType::LargeBinary => Datum::bytes(array.as_binary::<i64>().value(at)),
        DataType::BinaryView => Datum::bytes(array.as_binary_view().value(at)),
        DataType::FixedSizeBinary(16) => {
            let bytes = array.as_fixed_size_binary().value(at);
            Datum::Uuid(bytes.try_into().map_err(|_| Refusal::Type)?)
        }
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>().value(at);
            let days = checked_date(i64::from(days) - UNIX_EPOCH_DAYS);
            Datum::Date(days.map_err(|_| Refusal::Range)?)
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            let micros = array.as_primitive::<Time64MicrosecondType>().value(at);
            if !(0..=DAY).contains(&micros) {
                return Err(Refusal::Range);
            }
            Datum::Time(micros)
        }
        DataType::Timestamp(unit, zone) => {
            let micros = micros(array, *unit, at);
            let micros = micros.and_then(|micros| micros.checked_sub(EPOCH_MICROS));
            let micros = micros.filter(|micros| is_valid(*micros));
            let micros = micros.ok_or(Refusal::Range)?;
            match zone {
                Some(_) => Datum::Timestamptz(micros),
                None => Datum::Timestamp(micros),
            }
        }
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let Datum::Int8(key) = datum(dictionary.keys(), at)? else {
                return Err(Refusal::Type);
            };
            let key = usize::try_from(key).map_err(|_| Refusal::Type)?;
            return datum(dictionary.values(), key);
        }
        _ => return Err(Refusal::Type),
    })
}

fn micros(array: &dyn Array, unit: TimeUnit, at: usize) -> Option<i64> {
    match unit {
        TimeUnit::Second => array
            .as_primitive::<TimestampSecondType>()
            .value(at)
            .checked_mul(1_000_000),
        TimeUnit::Millisecond => array
            .as_primitive::<TimestampMillisecondType>()
            .value(at)
            .checked_mul(1000),
        TimeUnit::Microsecond => Some(array.as_primitive::<TimestampMicrosecondType>().value(at)),
        TimeUnit::Nanosecond => Some(
            array
                .as_primitive::<TimestampNanosecondType>()
                .value(at)
                .div_euclid(1000),
        ),
    }
}
