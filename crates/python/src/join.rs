//! Joins of Arrow columns by the joins of the room `join`.
//!
//! The keys of each side become tuples of a key and a row number, the join returns pairs of row
//! numbers, and the other columns are taken by them. Keys are compared as 64-bit numbers: integers
//! by value whatever their types, dates and timestamps of one type as they are. Where the keys of
//! both sides lie within 32 bits, tuples have half the size, which is most of the time of a join.
//!
//! NULL meets NULL, as in pandas; each pair of equal keys is a row of the result, so duplicates
//! multiply. Rows come in no particular order.

use crate::error::{detached, unfit};
use crate::stream::{Stream, reader};
use ::join::{Options, Output, Pair, Relation, Tuple, Tuple8, Tuple16, Word};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, Int64Array, PrimitiveArray, RecordBatch, RecordBatchIterator,
    RecordBatchReader, UInt32Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use pyo3::prelude::*;
use sql::{SqlError, SqlState};
use std::collections::HashSet;
use std::sync::Arc;

/// Rows of a batch of the result.
const BATCH_ROWS: usize = 1 << 20;

/// The row number of a left row without a partner.
const NONE: u32 = u32::MAX;

/// Joins two objects with `__arrow_c_stream__` where the columns `left_on` and `right_on` are
/// equal.
#[pyfunction]
#[pyo3(signature = (left, right, left_on, right_on, how, suffixes, threads=None))]
#[expect(
    clippy::too_many_arguments,
    reason = "they are options with names in Python"
)]
pub(crate) fn join(
    py: Python<'_>,
    left: &Bound<'_, PyAny>,
    right: &Bound<'_, PyAny>,
    left_on: &str,
    right_on: &str,
    how: &str,
    suffixes: (String, String),
    threads: Option<usize>,
) -> PyResult<Stream> {
    let (left, right) = (reader(left)?, reader(right)?);
    let is_left = how == "left";
    detached(py, || {
        if !["inner", "left"].contains(&how) {
            let message = format!("how is \"inner\" or \"left\", not \"{how}\"");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let (left, right) = (Side::read(left, left_on)?, Side::read(right, right_on)?);
        if left.signedness() != right.signedness() {
            return Err(unfit(format!(
                "the keys `{left_on}` and `{right_on}` have the types {} and {}; cast one of them",
                left.key().data_type(),
                right.key().data_type()
            )));
        }
        let pairs = matched(&left, &right, is_left, threads)?;
        joined(&left, &right, &pairs, &suffixes, threads)
    })
}

/// One side of a join.
struct Side {
    batch: RecordBatch,
    key: usize,
    /// Keys as numbers; those of NULLs say nothing. Those of a column of int64 are not copied.
    keys: Int64Array,
}

/// Groups of key types whose numbers mean the same.
#[derive(PartialEq, Eq)]
enum Signedness {
    /// Integers up to 64 bits with a sign.
    Integer,
    /// Above the range of the others, so it joins with itself only.
    Unsigned64,
    Other(DataType),
}

impl Side {
    fn read(reader: impl RecordBatchReader, key: &str) -> Result<Self, SqlError> {
        let schema = reader.schema();
        let batches = reader
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| arrow(&error))?;
        let batch = match <[RecordBatch; 1]>::try_from(batches) {
            Ok([batch]) => batch,
            Err(batches) => arrow_select::concat::concat_batches(&schema, &batches)
                .map_err(|error| arrow(&error))?,
        };
        let at = schema.index_of(key).map_err(|_| {
            let message = format!("there is no column `{key}`; there are {}", names(&schema));
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        if batch.num_rows() >= ::join::TUPLES_MAX {
            let message = format!(
                "{} rows are too many for a side of a join",
                batch.num_rows()
            );
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let column = batch.column(at);
        let keys = keys_of(column).ok_or_else(|| {
            unfit(format!(
                "the key `{key}` is of type {}; keys are integers, dates or timestamps",
                column.data_type()
            ))
        })?;
        Ok(Self {
            keys,
            key: at,
            batch,
        })
    }

    fn key(&self) -> &ArrayRef {
        self.batch.column(self.key)
    }

    fn signedness(&self) -> Signedness {
        match self.key().data_type() {
            DataType::UInt64 => Signedness::Unsigned64,
            kind if kind.is_integer() => Signedness::Integer,
            kind => Signedness::Other(kind.clone()),
        }
    }

    /// The rows whose key is NULL.
    fn nulls(&self) -> Vec<u32> {
        let Some(nulls) = self.key().nulls().filter(|nulls| nulls.null_count() > 0) else {
            return Vec::new();
        };
        (0..self.keys.len() as u32)
            .filter(|row| nulls.is_null(*row as usize))
            .collect()
    }

    /// Tuples of the rows that have a key.
    fn tuples<T: Tuple>(&self, lowest: i64) -> Vec<T> {
        let nulls = self.key().nulls().filter(|nulls| nulls.null_count() > 0);
        let tuple = |(row, key): (usize, &i64)| {
            let key = key.wrapping_sub(lowest).cast_unsigned();
            T::new(T::Word::truncate(key), T::Word::truncate(row as u64))
        };
        let rows = self.keys.values().iter().enumerate();
        match nulls {
            None => rows.map(tuple).collect(),
            Some(nulls) => rows
                .filter(|(row, _)| nulls.is_valid(*row))
                .map(tuple)
                .collect(),
        }
    }
}

fn arrow(error: &ArrowError) -> SqlError {
    unfit(format!("the columns of Arrow cannot be used: {error}"))
}

fn names(schema: &Schema) -> String {
    let names = schema
        .fields()
        .iter()
        .map(|field| format!("`{}`", field.name()));
    names.collect::<Vec<_>>().join(", ")
}

/// Keys as numbers.
fn keys_of(array: &ArrayRef) -> Option<Int64Array> {
    fn of<T: ArrowPrimitiveType>(
        array: &ArrayRef,
        to: impl Fn(T::Native) -> i64,
    ) -> Option<Int64Array> {
        let array: &PrimitiveArray<T> = array.as_primitive_opt()?;
        let keys = array.values().iter().map(|value| to(*value));
        Some(Int64Array::from_iter_values(keys))
    }
    match array.data_type() {
        DataType::Int8 => of::<Int8Type>(array, i64::from),
        DataType::Int16 => of::<Int16Type>(array, i64::from),
        DataType::Int32 => of::<Int32Type>(array, i64::from),
        DataType::Int64 => array.as_primitive_opt::<Int64Type>().cloned(),
        DataType::UInt8 => of::<UInt8Type>(array, i64::from),
        DataType::UInt16 => of::<UInt16Type>(array, i64::from),
        DataType::UInt32 => of::<UInt32Type>(array, i64::from),
        DataType::UInt64 => of::<UInt64Type>(array, u64::cast_signed),
        DataType::Date32 => of::<Date32Type>(array, i64::from),
        DataType::Date64 => of::<Date64Type>(array, |key| key),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => of::<TimestampSecondType>(array, |key| key),
            TimeUnit::Millisecond => of::<TimestampMillisecondType>(array, |key| key),
            TimeUnit::Microsecond => of::<TimestampMicrosecondType>(array, |key| key),
            TimeUnit::Nanosecond => of::<TimestampNanosecondType>(array, |key| key),
        },
        _ => None,
    }
}

/// The lowest and the highest key; of none the highest number comes first.
fn bounds(keys: &[i64]) -> (i64, i64) {
    let none = (i64::MAX, i64::MIN);
    keys.iter().fold(none, |(lowest, highest), key| {
        (lowest.min(*key), highest.max(*key))
    })
}

/// Row numbers of both sides, a pair for each row of the result.
struct Pairs {
    left: Vec<u32>,
    right: Vec<u32>,
}

fn matched(
    left: &Side,
    right: &Side,
    is_left: bool,
    threads: Option<usize>,
) -> Result<Pairs, SqlError> {
    let both = [bounds(left.keys.values()), bounds(right.keys.values())];
    let lowest = both[0].0.min(both[1].0);
    let highest = both[0].1.max(both[1].1);
    let mut pairs = if highest.abs_diff(lowest) < u64::from(u32::MAX) {
        pairs_of::<Tuple8>(left, right, lowest, threads)
    } else {
        pairs_of::<Tuple16>(left, right, lowest, threads)
    }?;
    let nulls = right.nulls();
    for row in left.nulls() {
        pairs.left.extend(std::iter::repeat_n(row, nulls.len()));
        pairs.right.extend(&nulls);
    }
    if is_left {
        let mut has_partner = vec![false; left.keys.len()];
        for row in &pairs.left {
            has_partner[*row as usize] = true;
        }
        let alone = (0..left.keys.len() as u32).filter(|row| !has_partner[*row as usize]);
        pairs.left.extend(alone);
        pairs.right.resize(pairs.left.len(), NONE);
    }
    Ok(pairs)
}

fn pairs_of<T: Tuple>(
    left: &Side,
    right: &Side,
    lowest: i64,
    threads: Option<usize>,
) -> Result<Pairs, SqlError> {
    let (left, right) = std::thread::scope(|scope| {
        let other = scope.spawn(|| right.tuples::<T>(lowest));
        let left = left.tuples::<T>(lowest);
        other.join().map(|right| (left, right))
    })
    .map_err(|_| SqlError::internal("a thread of the join stopped"))?;
    let options = Options {
        threads,
        output: Output::Pairs,
        ..Options::default()
    };
    // The smaller side is built, the larger one probed.
    let is_swapped = left.len() > right.len();
    let (r, s) = if is_swapped {
        (&right, &left)
    } else {
        (&left, &right)
    };
    let found = ::join::join(Relation::new(r), Relation::new(s), &options).map_err(|error| {
        let state = match error {
            ::join::JoinError::NotEnoughMemory { .. } => SqlState::OUT_OF_MEMORY,
            _ => SqlState::INVALID_PARAMETER_VALUE,
        };
        SqlError::new(state, error.to_string())
    })?;
    drop((left, right));
    let count = found.totals.count as usize;
    let mut pairs = Pairs {
        left: Vec::with_capacity(count),
        right: Vec::with_capacity(count),
    };
    for chunk in found.pairs {
        let row = |word: T::Word| Into::<u64>::into(word) as u32;
        let (of_r, of_s) = if is_swapped {
            (&mut pairs.right, &mut pairs.left)
        } else {
            (&mut pairs.left, &mut pairs.right)
        };
        of_r.extend(chunk.iter().map(|Pair { r, .. }| row(*r)));
        of_s.extend(chunk.iter().map(|Pair { s, .. }| row(*s)));
    }
    Ok(pairs)
}

/// The result: all columns of the left side, and those of the right side without a key of the same
/// name.
fn joined(
    left: &Side,
    right: &Side,
    pairs: &Pairs,
    suffixes: &(String, String),
    threads: Option<usize>,
) -> Result<Stream, SqlError> {
    let (left_schema, right_schema) = (left.batch.schema(), right.batch.schema());
    let is_shared = left_schema.field(left.key).name() == right_schema.field(right.key).name();
    let kept: Vec<usize> = (0..right.batch.num_columns())
        .filter(|column| !(is_shared && *column == right.key))
        .collect();
    let left_names = names_of(&left_schema);
    let right_names: HashSet<&str> = kept
        .iter()
        .map(|column| right_schema.field(*column).name().as_str())
        .collect();
    let mut fields = Vec::new();
    for field in left_schema.fields() {
        let is_twice = right_names.contains(field.name().as_str());
        fields.push(named(field, is_twice, &suffixes.0));
    }
    for column in &kept {
        let field = right_schema.field(*column);
        let is_twice = left_names.contains(field.name().as_str());
        fields.push(named(field, is_twice, &suffixes.1).with_nullable(true));
    }
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let part = |start: usize| {
        let end = pairs.left.len().min(start + BATCH_ROWS);
        let rows = &pairs.right[start..end];
        let of_left = UInt32Array::from_iter_values(pairs.left[start..end].iter().copied());
        let of_right: UInt32Array = if rows.contains(&NONE) {
            rows.iter()
                .map(|row| (*row != NONE).then_some(*row))
                .collect()
        } else {
            UInt32Array::from_iter_values(rows.iter().copied())
        };
        let of_left = left.batch.columns().iter().map(|column| (column, &of_left));
        let of_right = kept.iter().map(|at| (right.batch.column(*at), &of_right));
        let columns = of_left.chain(of_right);
        let columns = columns.map(|(column, rows)| arrow_select::take::take(column, rows, None));
        RecordBatch::try_new(Arc::clone(&schema), columns.collect::<Result<_, _>>()?)
    };
    let starts: Vec<usize> = (0..pairs.left.len()).step_by(BATCH_ROWS).collect();
    let batches = in_threads(&starts, threads, part).map_err(|error| arrow(&error))?;
    let batches = batches.into_iter().map(Ok);
    Ok(Stream::new(Box::new(RecordBatchIterator::new(
        batches, schema,
    ))))
}

/// Makes a batch of each start, in their order, by several threads.
fn in_threads(
    starts: &[usize],
    threads: Option<usize>,
    part: impl Fn(usize) -> Result<RecordBatch, ArrowError> + Sync,
) -> Result<Vec<RecordBatch>, ArrowError> {
    let available = || std::thread::available_parallelism().map_or(1, usize::from);
    let share = starts
        .len()
        .div_ceil(threads.unwrap_or_else(available).max(1))
        .max(1);
    let part = &part;
    std::thread::scope(|scope| {
        let shares = starts.chunks(share).map(|starts| {
            let batches = move || starts.iter().map(|start| part(*start)).collect();
            scope.spawn(batches)
        });
        let mut all = Vec::with_capacity(starts.len());
        for thread in shares.collect::<Vec<_>>() {
            let batches: Result<Vec<_>, ArrowError> = thread.join().unwrap_or_else(|_| {
                let message = "a thread of the join stopped".to_owned();
                Err(ArrowError::ComputeError(message))
            });
            all.extend(batches?);
        }
        Ok(all)
    })
}

fn names_of(schema: &Schema) -> HashSet<&str> {
    schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect()
}

fn named(field: &Field, is_twice: bool, suffix: &str) -> Field {
    let name = if is_twice {
        format!("{}{suffix}", field.name())
    } else {
        field.name().clone()
    };
    field.clone().with_name(name)
}
