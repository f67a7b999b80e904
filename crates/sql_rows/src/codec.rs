//! Rows as bytes in temporary files.
//!
//! A row is its number of values and then each of them: a byte for its variant and its content.
//! Counts and lengths are of variable length, seven bits a byte; fixed numbers are little-endian.
//! Nobody but the process that wrote a file reads it, so there is neither a version nor a checksum.

use crate::Row;
use sql_values::error::{Result, SqlError};
use sql_values::types::array::{Array, Dimension};
use sql_values::types::json::Json;
use sql_values::types::{
    Datum, EnumLabel, Interval, Kind, Numeric, Record, RecordShape, Timetz, Type,
};
use std::sync::Arc;

/// Appends a row.
pub(crate) fn write_row(out: &mut Vec<u8>, row: &[Datum]) {
    write_count(out, row.len());
    for value in row {
        write(out, value);
    }
}

/// The row of its bytes.
pub(crate) fn read_row(mut bytes: &[u8]) -> Result<Row> {
    let row = read_values(&mut bytes).filter(|_| bytes.is_empty());
    row.ok_or_else(|| SqlError::internal("a row of a temporary file is damaged"))
}

/// Declares the byte of each variant once, for both directions.
macro_rules! variants {
    ($($name:ident = $byte:literal)*) => {
        mod variant {
            $(pub(super) const $name: u8 = $byte;)*
        }
    };
}

variants! {
    NULL = 0 FALSE = 1 TRUE = 2 INT2 = 3 INT4 = 4 INT8 = 5 FLOAT4 = 6 FLOAT8 = 7 NUMERIC = 8
    LONG_NUMERIC = 9 TEXT = 10 BPCHAR = 11 BYTEA = 12 DATE = 13 TIME = 14 TIMETZ = 15
    TIMESTAMP = 16 TIMESTAMPTZ = 17 INTERVAL = 18 UUID = 19 JSON = 20 JSONB = 21 ARRAY = 22
    RECORD = 23 ENUM = 24 OID = 25 TID = 26
}

fn write(out: &mut Vec<u8>, value: &Datum) {
    let mut fixed = |variant: u8, bytes: &[u8]| {
        out.push(variant);
        out.extend_from_slice(bytes);
    };
    match value {
        Datum::Null => fixed(variant::NULL, &[]),
        Datum::Bool(false) => fixed(variant::FALSE, &[]),
        Datum::Bool(true) => fixed(variant::TRUE, &[]),
        Datum::Int2(number) => fixed(variant::INT2, &number.to_le_bytes()),
        Datum::Int4(number) => fixed(variant::INT4, &number.to_le_bytes()),
        Datum::Int8(number) => fixed(variant::INT8, &number.to_le_bytes()),
        Datum::Float4(number) => fixed(variant::FLOAT4, &number.to_le_bytes()),
        Datum::Float8(number) => fixed(variant::FLOAT8, &number.to_le_bytes()),
        Datum::Date(days) => fixed(variant::DATE, &days.to_le_bytes()),
        Datum::Time(micros) => fixed(variant::TIME, &micros.to_le_bytes()),
        Datum::Timestamp(micros) => fixed(variant::TIMESTAMP, &micros.to_le_bytes()),
        Datum::Timestamptz(micros) => fixed(variant::TIMESTAMPTZ, &micros.to_le_bytes()),
        Datum::Timetz(time) => {
            fixed(variant::TIMETZ, &time.micros.to_le_bytes());
            out.extend_from_slice(&time.zone.to_le_bytes());
        }
        Datum::Interval(interval) => {
            fixed(variant::INTERVAL, &interval.months.to_le_bytes());
            out.extend_from_slice(&interval.days.to_le_bytes());
            out.extend_from_slice(&interval.micros.to_le_bytes());
        }
        Datum::Uuid(bytes) => fixed(variant::UUID, bytes),
        Datum::Oid(number) => fixed(variant::OID, &number.to_le_bytes()),
        Datum::Tid(place) => fixed(variant::TID, &place.to_le_bytes()),
        Datum::Numeric(number) => write_numeric(out, number),
        Datum::Text(text) => write_bytes(out, variant::TEXT, text.as_bytes()),
        Datum::Bpchar(text) => write_bytes(out, variant::BPCHAR, text.as_bytes()),
        Datum::Json(text) => write_bytes(out, variant::JSON, text.as_bytes()),
        Datum::Bytea(bytes) => write_bytes(out, variant::BYTEA, bytes),
        Datum::Jsonb(json) => write_bytes(out, variant::JSONB, &json.to_bytes()),
        Datum::Enum(label) => {
            write_bytes(out, variant::ENUM, label.label.as_bytes());
            out.extend_from_slice(&label.place.to_le_bytes());
        }
        Datum::Array(array) => {
            out.push(variant::ARRAY);
            write_kind(out, array.element);
            write_count(out, array.dimensions.len());
            for dimension in &array.dimensions {
                write_count(out, dimension.length);
                out.extend_from_slice(&dimension.lower.to_le_bytes());
            }
            write_row(out, &array.elements);
        }
        Datum::Record(record) => {
            out.push(variant::RECORD);
            write_count(out, record.shape.names.len());
            for (name, data_type) in record.shape.names.iter().zip(&record.shape.types) {
                write_bytes(out, variant::TEXT, name.as_bytes());
                write_kind(out, data_type.kind);
                out.extend_from_slice(&data_type.modifier.to_le_bytes());
            }
            write_row(out, &record.fields);
        }
    }
}

fn write_numeric(out: &mut Vec<u8>, number: &Numeric) {
    match number.small() {
        Some((units, scale)) => {
            out.push(variant::NUMERIC);
            out.extend_from_slice(&scale.to_le_bytes());
            out.extend_from_slice(&units.to_le_bytes());
        }
        None => write_bytes(out, variant::LONG_NUMERIC, number.to_string().as_bytes()),
    }
}

fn write_bytes(out: &mut Vec<u8>, variant: u8, bytes: &[u8]) {
    out.push(variant);
    write_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// The byte before the number of a kind; those of the catalogue are not found by numbers alone.
mod class {
    pub(super) const OWN: u8 = 0;
    pub(super) const ENUM: u8 = 1;
    pub(super) const ENUM_ARRAY: u8 = 2;
    pub(super) const COMPOSITE: u8 = 3;
    pub(super) const COMPOSITE_ARRAY: u8 = 4;
}

fn write_kind(out: &mut Vec<u8>, kind: Kind) {
    let (class, oid) = match kind {
        Kind::Enum(oid) => (class::ENUM, oid),
        Kind::EnumArray(oid) => (class::ENUM_ARRAY, oid),
        Kind::Composite(oid) => (class::COMPOSITE, oid),
        Kind::CompositeArray(oid) => (class::COMPOSITE_ARRAY, oid),
        kind => (class::OWN, kind.oid()),
    };
    out.push(class);
    write_count(out, oid as usize);
}

fn write_count(out: &mut Vec<u8>, mut count: usize) {
    while count >= 0x80 {
        out.push(count as u8 | 0x80);
        count >>= 7;
    }
    out.push(count as u8);
}

fn read_values(bytes: &mut &[u8]) -> Option<Row> {
    let count = read_count(bytes)?;
    let mut row = Row::with_capacity(count);
    for _ in 0..count {
        row.push(read(bytes)?);
    }
    Some(row)
}

/// Reads a number of the bytes that its type has.
macro_rules! number {
    ($bytes:ident as $type:ty) => {
        <$type>::from_le_bytes(fixed($bytes)?)
    };
}

fn read(bytes: &mut &[u8]) -> Option<Datum> {
    let [variant] = fixed(bytes)?;
    Some(match variant {
        variant::NULL => Datum::Null,
        variant::FALSE => Datum::Bool(false),
        variant::TRUE => Datum::Bool(true),
        variant::INT2 => Datum::Int2(number!(bytes as i16)),
        variant::INT4 => Datum::Int4(number!(bytes as i32)),
        variant::INT8 => Datum::Int8(number!(bytes as i64)),
        variant::FLOAT4 => Datum::Float4(number!(bytes as f32)),
        variant::FLOAT8 => Datum::Float8(number!(bytes as f64)),
        variant::NUMERIC => {
            let scale = number!(bytes as u16);
            Datum::Numeric(Numeric::new(number!(bytes as i128), scale))
        }
        variant::LONG_NUMERIC => Datum::Numeric(Numeric::parse(text(bytes)?).ok()?),
        variant::TEXT => Datum::Text(text(bytes)?.into()),
        variant::BPCHAR => Datum::Bpchar(text(bytes)?.into()),
        variant::JSON => Datum::Json(text(bytes)?.into()),
        variant::BYTEA => Datum::Bytea(counted(bytes)?.into()),
        variant::JSONB => Datum::Jsonb(Arc::new(Json::from_bytes(counted(bytes)?)?)),
        variant::DATE => Datum::Date(number!(bytes as i32)),
        variant::TIME => Datum::Time(number!(bytes as i64)),
        variant::TIMESTAMP => Datum::Timestamp(number!(bytes as i64)),
        variant::TIMESTAMPTZ => Datum::Timestamptz(number!(bytes as i64)),
        variant::TIMETZ => Datum::Timetz(Timetz {
            micros: number!(bytes as i64),
            zone: number!(bytes as i32),
        }),
        variant::INTERVAL => Datum::Interval(Interval {
            months: number!(bytes as i32),
            days: number!(bytes as i32),
            micros: number!(bytes as i64),
        }),
        variant::UUID => Datum::Uuid(fixed(bytes)?),
        variant::OID => Datum::Oid(number!(bytes as u32)),
        variant::TID => Datum::Tid(number!(bytes as u64)),
        variant::ENUM => Datum::Enum(EnumLabel {
            label: text(bytes)?.into(),
            place: number!(bytes as i32),
        }),
        variant::ARRAY => Datum::Array(Arc::new(read_array(bytes)?)),
        variant::RECORD => Datum::Record(Arc::new(read_record(bytes)?)),
        _ => return None,
    })
}

fn read_array(bytes: &mut &[u8]) -> Option<Array> {
    let element = read_kind(bytes)?;
    let mut dimensions = Vec::new();
    for _ in 0..read_count(bytes)? {
        dimensions.push(Dimension {
            length: read_count(bytes)?,
            lower: number!(bytes as i32),
        });
    }
    Some(Array {
        element,
        dimensions,
        elements: read_values(bytes)?,
    })
}

fn read_record(bytes: &mut &[u8]) -> Option<Record> {
    let mut shape = RecordShape::default();
    for _ in 0..read_count(bytes)? {
        let [_] = fixed(bytes)?;
        shape.names.push(text(bytes)?.into());
        shape.types.push(Type {
            kind: read_kind(bytes)?,
            modifier: number!(bytes as i32),
        });
    }
    Some(Record {
        shape: Arc::new(shape),
        fields: read_values(bytes)?,
    })
}

fn read_kind(bytes: &mut &[u8]) -> Option<Kind> {
    let [class] = fixed(bytes)?;
    let oid = u32::try_from(read_count(bytes)?).ok()?;
    match class {
        class::OWN => Kind::from_oid(oid),
        class::ENUM => Some(Kind::Enum(oid)),
        class::ENUM_ARRAY => Some(Kind::EnumArray(oid)),
        class::COMPOSITE => Some(Kind::Composite(oid)),
        class::COMPOSITE_ARRAY => Some(Kind::CompositeArray(oid)),
        _ => None,
    }
}

fn read_count(bytes: &mut &[u8]) -> Option<usize> {
    let (mut count, mut shift) = (0_usize, 0);
    loop {
        let [byte] = fixed(bytes)?;
        count |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(count);
        }
        shift += 7;
    }
}

fn text<'b>(bytes: &mut &'b [u8]) -> Option<&'b str> {
    std::str::from_utf8(counted(bytes)?).ok()
}

/// As many bytes as the count before them says.
fn counted<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let count = read_count(bytes)?;
    let (content, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(content)
}

fn fixed<const COUNT: usize>(bytes: &mut &[u8]) -> Option<[u8; COUNT]> {
    let (content, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*content)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value of each variant.
    pub(crate) fn every_value() -> Row {
        let json = Json::object(vec![("a".to_owned(), Json::Array(vec![Json::Null]))]);
        let mut array = Array::new(Kind::Int4, vec![Datum::Int4(1), Datum::Null]);
        array.dimensions[0].lower = -3;
        let shape = RecordShape {
            names: vec!["f1".into(), "f2".into()],
            types: vec![Kind::Enum(70_000).plain(), Type::numeric(5, 2)],
        };
        let long = Numeric::parse(&format!("-{}.50", "7".repeat(60))).unwrap();
        vec![
            Datum::Null,
            Datum::Bool(true),
            Datum::Bool(false),
            Datum::Int2(-2),
            Datum::Int4(1 << 20),
            Datum::Int8(i64::MIN),
            Datum::Float4(-0.0),
            Datum::Float8(f64::NAN),
            Datum::Numeric(Numeric::new(-12_340, 4)),
            Datum::Numeric(long),
            Datum::Numeric(Numeric::NAN),
            Datum::Numeric(Numeric::NEGATIVE_INFINITY),
            Datum::text("zwölf"),
            Datum::Bpchar("ab ".into()),
            Datum::bytes([0, 255, 3]),
            Datum::Date(-1),
            Datum::Time(1),
            Datum::Timetz(Timetz {
                micros: 5,
                zone: -3600,
            }),
            Datum::Timestamp(i64::MAX),
            Datum::Timestamptz(3),
            Datum::Interval(Interval::new(1, -2, 3)),
            Datum::Uuid([9; 16]),
            Datum::Json("{ }".into()),
            Datum::Jsonb(Arc::new(json)),
            Datum::Array(Arc::new(array)),
            Datum::Record(Arc::new(Record {
                shape: Arc::new(shape),
                fields: vec![Datum::text("x"), Datum::Null],
            })),
            Datum::Enum(EnumLabel {
                place: 2,
                label: "red".into(),
            }),
            Datum::Oid(7),
            Datum::Tid(u64::MAX),
        ]
    }

    #[test]
    fn every_value_comes_back_as_it_was() {
        let row = every_value();
        let mut bytes = Vec::new();
        write_row(&mut bytes, &row);
        let read = read_row(&bytes).unwrap();
        // The texts show what equality overlooks: scales, blanks and signs of zero.
        assert_eq!(format!("{read:?}"), format!("{row:?}"));
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let mut bytes = Vec::new();
        write_row(&mut bytes, &every_value());
        for end in 0..bytes.len() {
            assert!(read_row(&bytes[..end]).is_err(), "{end}");
        }
        assert!(read_row(&[1, 99]).is_err());
        assert!(read_row(&[0x80; 12]).is_err());
    }
}
