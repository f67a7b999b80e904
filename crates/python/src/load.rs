//! Arrow arrays as rows for a statement.
//!
//! Each type has the value of SQL that it stands for; a type that has none is an error that names
//! the column. A batch is one call of the statement's session, a row after the other.

use crate::error::unfit;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time64MicrosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatchReader};
use arrow_schema::{DataType, TimeUnit};
use client::{TypedClient, Value};
use sql::types::datetime::calendar::{DAY, UNIX_EPOCH_DAYS};
use sql::types::{Datum, Numeric};
use sql::{SqlError, SqlState};

/// Rows whose values are in memory at a time.
const CHUNK_ROWS: usize = 1024;
const EPOCH_MICROS: i64 = UNIX_EPOCH_DAYS * DAY;

/// Runs a statement for each row of a stream; the sum of its counts.
pub(crate) fn insert(
    client: &mut TypedClient,
    text: &str,
    reader: impl RecordBatchReader,
) -> Result<u64, SqlError> {
    let (mut count, mut values) = (0, Vec::new());
    for batch in reader {
        let batch = batch.map_err(|error| unfit(format!("the stream of Arrow failed: {error}")))?;
        let schema = batch.schema();
        for start in (0..batch.num_rows()).step_by(CHUNK_ROWS) {
            let end = batch.num_rows().min(start + CHUNK_ROWS);
            for at in start..end {
                for (field, column) in schema.fields().iter().zip(batch.columns()) {
                    let value = datum(column, at).ok_or_else(|| refused(field.name(), column))?;
                    values.push(Value::One(value));
                }
            }
            count += client.execute_all(text, end - start, &mut values)?;
        }
    }
    Ok(count)
}

fn refused(name: &str, column: &dyn Array) -> SqlError {
    let message = format!(
        "column `{name}` of Arrow's type {} has no type of SQL; cast it first",
        column.data_type()
    );
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

/// The value at a place of an array.
fn datum(array: &dyn Array, at: usize) -> Option<Datum> {
    if array.is_null(at) {
        return Some(Datum::Null);
    }
    Some(match array.data_type() {
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
            Datum::Numeric(Numeric::new(units, u16::try_from(*scale).ok()?))
        }
        DataType::Utf8 => Datum::text(array.as_string::<i32>().value(at)),
        DataType::LargeUtf8 => Datum::text(array.as_string::<i64>().value(at)),
        DataType::Utf8View => Datum::text(array.as_string_view().value(at)),
        DataType::Binary => Datum::bytes(array.as_binary::<i32>().value(at)),
        DataType::LargeBinary => Datum::bytes(array.as_binary::<i64>().value(at)),
        DataType::BinaryView => Datum::bytes(array.as_binary_view().value(at)),
        DataType::FixedSizeBinary(16) => {
            let bytes = array.as_fixed_size_binary().value(at);
            Datum::Uuid(bytes.try_into().ok()?)
        }
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>().value(at);
            Datum::Date(days.checked_sub(i32::try_from(UNIX_EPOCH_DAYS).ok()?)?)
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            Datum::Time(array.as_primitive::<Time64MicrosecondType>().value(at))
        }
        DataType::Timestamp(unit, zone) => {
            let micros = micros(array, *unit, at)?.checked_sub(EPOCH_MICROS)?;
            match zone {
                Some(_) => Datum::Timestamptz(micros),
                None => Datum::Timestamp(micros),
            }
        }
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let key = *dictionary.normalized_keys().get(at)?;
            return datum(dictionary.values(), key);
        }
        _ => return None,
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
