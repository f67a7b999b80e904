//! Rows as Arrow arrays.
//!
//! | SQL | Arrow |
//! |---|---|
//! | boolean, integers, floating point numbers | the same; numbers of the catalogue `uint32` |
//! | numeric(p, s) up to 38 digits | `decimal128(p, s)`; any other numeric is `utf8`, and exact |
//! | date, time | `date32`, `time64[us]` |
//! | timestamp, timestamptz | `timestamp[us]`, `timestamp[us, UTC]`; the infinities are NULL |
//! | interval | `month_day_nano_interval` |
//! | bytea, uuid | `binary`, `fixed_size_binary(16)` |
//! | texts, and all types without one of their own | `utf8`, as SQL prints them |
//!
//! Values go from a batch straight into the buffers of the arrays.

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Decimal128Builder, FixedSizeBinaryBuilder, PrimitiveBuilder,
    StringBuilder,
};
use arrow_array::types::{
    Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType, UInt32Type,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use sql::types::datetime::calendar::{DAY, UNIX_EPOCH_DAYS, is_finite, is_finite_date};
use sql::types::{Context, Datum, Interval, Kind, Numeric, Type, text_io};
use sql::{Batch, ColumnValues, Columns, Flow, OutputColumn, RowSink, SqlError, SqlState};
use std::sync::Arc;

/// Bytes of texts in one batch, at most about: offsets have 31 bits.
const TEXT_BYTES_MAX: usize = 1 << 28;
const EPOCH_MICROS: i64 = UNIX_EPOCH_DAYS * DAY;
const EPOCH_DAYS: i32 = UNIX_EPOCH_DAYS as i32;

/// The schema of a result.
pub(crate) fn schema(columns: &[OutputColumn]) -> SchemaRef {
    let fields = columns
        .iter()
        .map(|column| Field::new(&column.name, arrow_type(column.data_type), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn arrow_type(of: Type) -> DataType {
    match of.kind {
        Kind::Bool => DataType::Boolean,
        Kind::Int2 => DataType::Int16,
        Kind::Int4 => DataType::Int32,
        Kind::Int8 => DataType::Int64,
        Kind::Oid => DataType::UInt32,
        Kind::Float4 => DataType::Float32,
        Kind::Float8 => DataType::Float64,
        Kind::Numeric => match decimal(of) {
            Some((precision, scale)) => DataType::Decimal128(precision, scale),
            None => DataType::Utf8,
        },
        Kind::Date => DataType::Date32,
        Kind::Time => DataType::Time64(TimeUnit::Microsecond),
        Kind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        Kind::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Kind::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
        Kind::Bytea => DataType::Binary,
        Kind::Uuid => DataType::FixedSizeBinary(16),
        _ => DataType::Utf8,
    }
}

/// Precision and scale of numbers that fit into 128 bits.
fn decimal(of: Type) -> Option<(u8, i8)> {
    let (precision, scale) = of.precision()?;
    let precision = u8::try_from(precision)
        .ok()
        .filter(|digits| (1..=38).contains(digits))?;
    let scale = i8::try_from(scale).ok()?;
    (0..=precision as i8)
        .contains(&scale)
        .then_some((precision, scale))
}

/// The growing array of a column.
enum Column {
    Bool(BooleanBuilder),
    Int2(PrimitiveBuilder<Int16Type>),
    Int4(PrimitiveBuilder<Int32Type>),
    Int8(PrimitiveBuilder<Int64Type>),
    Oid(PrimitiveBuilder<UInt32Type>),
    Float4(PrimitiveBuilder<Float32Type>),
    Float8(PrimitiveBuilder<Float64Type>),
    Decimal(Decimal128Builder, u16),
    Date(PrimitiveBuilder<Date32Type>),
    Time(PrimitiveBuilder<Time64MicrosecondType>),
    Timestamp(PrimitiveBuilder<TimestampMicrosecondType>),
    Interval(PrimitiveBuilder<IntervalMonthDayNanoType>),
    Bytes(BinaryBuilder),
    Uuid(FixedSizeBinaryBuilder),
    Text(StringBuilder, Kind),
}

impl Column {
    fn new(of: Type) -> Self {
        match of.kind {
            Kind::Bool => Self::Bool(BooleanBuilder::new()),
            Kind::Int2 => Self::Int2(PrimitiveBuilder::new()),
            Kind::Int4 => Self::Int4(PrimitiveBuilder::new()),
            Kind::Int8 => Self::Int8(PrimitiveBuilder::new()),
            Kind::Oid => Self::Oid(PrimitiveBuilder::new()),
            Kind::Float4 => Self::Float4(PrimitiveBuilder::new()),
            Kind::Float8 => Self::Float8(PrimitiveBuilder::new()),
            Kind::Numeric if decimal(of).is_some() => {
                let scale = decimal(of).map_or(0, |(_, scale)| scale);
                let builder = Decimal128Builder::new().with_data_type(arrow_type(of));
                Self::Decimal(builder, u16::from(scale.unsigned_abs()))
            }
            Kind::Date => Self::Date(PrimitiveBuilder::new()),
            Kind::Time => Self::Time(PrimitiveBuilder::new()),
            Kind::Timestamp | Kind::Timestamptz => {
                Self::Timestamp(PrimitiveBuilder::new().with_data_type(arrow_type(of)))
            }
            Kind::Interval => Self::Interval(PrimitiveBuilder::new()),
            Kind::Bytea => Self::Bytes(BinaryBuilder::new()),
            Kind::Uuid => Self::Uuid(FixedSizeBinaryBuilder::new(16)),
            kind => Self::Text(StringBuilder::new(), kind),
        }
    }

    /// Appends values; the bytes that they have besides their places.
    fn extend<'v>(
        &mut self,
        values: impl Iterator<Item = &'v Datum>,
        context: &Context<'_>,
    ) -> Result<usize, SqlError> {
        match self {
            Self::Int8(column) => column.extend(values.map(|value| match value {
                Datum::Int8(value) => Some(*value),
                Datum::Null => None,
                value => value.int().ok(),
            })),
            Self::Float8(column) => column.extend(values.map(|value| match value {
                Datum::Float8(value) => Some(*value),
                _ => None,
            })),
            column => {
                let mut bytes = 0;
                for value in values {
                    bytes += column.push(value, context)?;
                }
                return Ok(bytes);
            }
        }
        Ok(0)
    }

    /// Bytes that a value may have besides its place; those of a whole batch where they are known
    /// only when it is printed.
    fn weight(&self, value: &Datum) -> usize {
        match (self, value) {
            (Self::Text(..) | Self::Bytes(_), value) => match value {
                Datum::Text(text) | Datum::Bpchar(text) | Datum::Json(text) => text.len(),
                Datum::Bytea(bytes) => bytes.len(),
                Datum::Array(_) | Datum::Record(_) | Datum::Jsonb(_) => TEXT_BYTES_MAX,
                Datum::Numeric(number) if number.small().is_none() => TEXT_BYTES_MAX,
                _ => 0,
            },
            _ => 0,
        }
    }

    /// Appends the values of a column; the bytes that they have besides their places.
    fn extend_columns(
        &mut self,
        values: &ColumnValues,
        context: &Context<'_>,
    ) -> Result<usize, SqlError> {
        match (&mut *self, values) {
            (Self::Int4(column), ColumnValues::Int4(values)) => column.append_slice(values),
            (Self::Int8(column), ColumnValues::Int8(values)) => column.append_slice(values),
            (Self::Float8(column), ColumnValues::Float8(values)) => column.append_slice(values),
            (_, ColumnValues::Other(values)) => return self.extend(values.iter(), context),
            (_, values) => {
                let mut bytes = 0;
                for at in 0..values.len() {
                    bytes += self.push(&values.get(at), context)?;
                }
                return Ok(bytes);
            }
        }
        Ok(0)
    }

    /// Appends a value; the bytes that it has besides its place.
    fn push(&mut self, value: &Datum, context: &Context<'_>) -> Result<usize, SqlError> {
        match (self, value) {
            (Self::Int8(column), Datum::Int8(value)) => column.append_value(*value),
            (Self::Int4(column), Datum::Int4(value)) => column.append_value(*value),
            (Self::Float8(column), Datum::Float8(value)) => column.append_value(*value),
            (Self::Text(column, _), Datum::Text(text)) => {
                return append_text(column, text);
            }
            (Self::Text(column, _), Datum::Null) => column.append_null(),
            (Self::Text(column, kind), _) => {
                return append_text(column, &text_io::print(value, *kind, context)?);
            }
            (Self::Bytes(column), _) => {
                let bytes = value.bytea().ok();
                let length = bytes.map_or(0, <[u8]>::len);
                check_room(column.values_slice().len(), length)?;
                column.append_option(bytes);
                return Ok(length);
            }
            (Self::Bool(column), _) => column.append_option(value.bool().ok()),
            (Self::Int2(column), Datum::Int2(value)) => column.append_value(*value),
            (Self::Oid(column), Datum::Oid(value)) => column.append_value(*value),
            (Self::Float4(column), _) => column.append_option(value.float4().ok()),
            (Self::Decimal(column, scale), _) => {
                let number = value.numeric().ok().map(|number| units(number, *scale));
                column.append_option(number.transpose()?);
            }
            (Self::Date(column), _) => {
                let days = value.date().ok().filter(|days| is_finite_date(*days));
                column.append_option(days.and_then(|days| days.checked_add(EPOCH_DAYS)));
            }
            (Self::Time(column), _) => column.append_option(value.time().ok()),
            (Self::Timestamp(column), _) => {
                let micros = value.timestamp().ok().filter(|micros| is_finite(*micros));
                column.append_option(micros.and_then(|micros| micros.checked_add(EPOCH_MICROS)));
            }
            (Self::Interval(column), _) => {
                column.append_option(value.interval().ok().map(span).transpose()?);
            }
            (Self::Uuid(column), Datum::Uuid(bytes)) => {
                column
                    .append_value(bytes)
                    .map_err(|error| SqlError::internal(error.to_string()))?;
            }
            (Self::Uuid(column), _) => column.append_null(),
            (Self::Int8(column), _) => column.append_option(value.int().ok()),
            (Self::Int4(column), _) => column.append_null(),
            (Self::Int2(column), _) => column.append_null(),
            (Self::Oid(column), _) => column.append_null(),
            (Self::Float8(column), _) => column.append_null(),
        }
        Ok(0)
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Bool(column) => Arc::new(column.finish()),
            Self::Int2(column) => Arc::new(column.finish()),
            Self::Int4(column) => Arc::new(column.finish()),
            Self::Int8(column) => Arc::new(column.finish()),
            Self::Oid(column) => Arc::new(column.finish()),
            Self::Float4(column) => Arc::new(column.finish()),
            Self::Float8(column) => Arc::new(column.finish()),
            Self::Decimal(column, _) => Arc::new(column.finish()),
            Self::Date(column) => Arc::new(column.finish()),
            Self::Time(column) => Arc::new(column.finish()),
            Self::Timestamp(column) => Arc::new(column.finish()),
            Self::Interval(column) => Arc::new(column.finish()),
            Self::Bytes(column) => Arc::new(column.finish()),
            Self::Uuid(column) => Arc::new(column.finish()),
            Self::Text(column, _) => Arc::new(column.finish()),
        }
    }
}

/// Appends a text; its bytes.
fn append_text(column: &mut StringBuilder, text: &str) -> Result<usize, SqlError> {
    check_room(column.values_slice().len(), text.len())?;
    column.append_value(text);
    Ok(text.len())
}

/// Fails if the offsets of a column cannot count its bytes with those of another value.
fn check_room(bytes: usize, added: usize) -> Result<(), SqlError> {
    if i32::try_from(bytes + added).is_err() {
        let message = "a batch has more than 2 GiB of texts; select fewer or shorter ones";
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    Ok(())
}

/// An interval, whose time Arrow counts in nanoseconds.
fn span(of: Interval) -> Result<IntervalMonthDayNano, SqlError> {
    let nanos = of.micros.checked_mul(1000).ok_or_else(|| {
        let message = "an interval is outside of the range of Arrow's type; select it as text";
        SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
    });
    Ok(IntervalMonthDayNano::new(of.months, of.days, nanos?))
}

/// A number in units of the scale.
fn units(number: &Numeric, scale: u16) -> Result<i128, SqlError> {
    let units = number
        .small()
        .and_then(|(units, own)| match own.cmp(&scale) {
            std::cmp::Ordering::Greater => None,
            _ => units.checked_mul(10_i128.checked_pow(u32::from(scale - own))?),
        });
    units.ok_or_else(|| {
        let message =
            format!("the number {number} is none of its column's type in Arrow; select it as text");
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
    })
}

/// Gathers rows until there are enough for a batch.
pub(crate) struct Gather {
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
    rows_max: usize,
    text_bytes: usize,
    /// Rows that have come and are for the next batch.
    later: Batch,
}

impl Gather {
    pub(crate) fn new(schema: &SchemaRef, columns: &[OutputColumn], rows_max: usize) -> Self {
        Self {
            schema: Arc::clone(schema),
            columns: columns
                .iter()
                .map(|column| Column::new(column.data_type))
                .collect(),
            rows: 0,
            rows_max,
            text_bytes: 0,
            later: Batch::default(),
        }
    }

    /// Whether rows have come that are for the next batch.
    pub(crate) fn has_later(&self) -> bool {
        !self.later.is_empty()
    }

    /// Adds the rows that were for the next batch, which is this one.
    pub(crate) fn add_later(&mut self, context: &Context<'_>) -> Result<(), SqlError> {
        let later = std::mem::take(&mut self.later);
        self.rows(&later, context).map(drop)
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        for column in &mut self.columns {
            column.finish();
        }
        self.rows = 0;
        self.text_bytes = 0;
        self.later = Batch::default();
    }

    /// Whether the batch may have so many bytes more.
    fn has_room(&self, bytes: usize) -> bool {
        self.text_bytes.saturating_add(bytes) <= TEXT_BYTES_MAX
    }

    /// Adds rows one by one, until the batch has enough of them; the others are for the next one.
    fn add_some(&mut self, batch: &Batch, context: &Context<'_>) -> Result<(), SqlError> {
        for row in batch.rows() {
            if self.is_full() {
                if self.later.is_empty() {
                    self.later.reset(batch.width());
                }
                self.later.push(row.iter().cloned());
                continue;
            }
            for (column, value) in self.columns.iter_mut().zip(row) {
                self.text_bytes += column.push(value, context)?;
            }
            self.rows += 1;
        }
        Ok(())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.rows >= self.rows_max || self.text_bytes >= TEXT_BYTES_MAX
    }

    fn flow(&self) -> Flow {
        if self.is_full() {
            Flow::Full
        } else {
            Flow::More
        }
    }

    /// The batch, if it has rows.
    pub(crate) fn finish(&mut self) -> Result<Option<RecordBatch>, arrow_schema::ArrowError> {
        if self.rows == 0 {
            return Ok(None);
        }
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        self.text_bytes = 0;
        let arrays = self.columns.iter_mut().map(Column::finish).collect();
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options).map(Some)
    }
}

impl RowSink for Gather {
    fn describe(&mut self, _: &[OutputColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, context: &Context<'_>) -> Result<Flow, SqlError> {
        let columns = self.columns.iter().enumerate();
        let weights = columns.map(|(at, column)| {
            let values = batch.rows().map(|row| &row[at]);
            values.map(|value| column.weight(value)).sum::<usize>()
        });
        if !self.has_room(weights.sum()) {
            self.add_some(batch, context)?;
            return Ok(self.flow());
        }
        for (at, column) in self.columns.iter_mut().enumerate() {
            let values = batch.rows().map(|row| &row[at]);
            self.text_bytes += column.extend(values, context)?;
        }
        self.rows += batch.len();
        Ok(self.flow())
    }

    fn takes_columns(&self) -> bool {
        true
    }

    fn columns(&mut self, columns: &Columns, context: &Context<'_>) -> Result<Flow, SqlError> {
        let weights = self.columns.iter().zip(columns.columns());
        let weights = weights.map(|(column, values)| match values {
            ColumnValues::Other(values) => values.iter().map(|value| column.weight(value)).sum(),
            _ => 0,
        });
        if !self.has_room(weights.sum()) {
            let mut batch = Batch::new(self.columns.len());
            for at in 0..columns.len() {
                batch.push(columns.columns().iter().map(|values| values.get(at)));
            }
            self.add_some(&batch, context)?;
            return Ok(self.flow());
        }
        for (column, values) in self.columns.iter_mut().zip(columns.columns()) {
            self.text_bytes += column.extend_columns(values, context)?;
        }
        self.rows += columns.len();
        Ok(self.flow())
    }
}
