//! Values of SQL.
//!
//! A [`Datum`] says enough about itself to be printed, compared and hashed without its type, so
//! that records and arrays need no types beside them; only numbers of the catalogue and rows look
//! at more. It is cheap to clone: long contents are shared.
//!
//! Order and equality are those of PostgreSQL's btree operators; NULL equals NULL and comes last,
//! as in ORDER BY and GROUP BY. Equal values have equal hashes across the integer types and across
//! the floating point types.

use super::array::Array;
use super::interval::Interval;
use super::json::Json;
use super::kind::{Kind, Type};
use super::numeric::Numeric;
use crate::error::{Result, SqlError};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A value.
#[derive(Clone, Debug)]
pub enum Datum {
    /// No value.
    Null,
    /// `boolean`.
    Bool(bool),
    /// `smallint`.
    Int2(i16),
    /// `integer`.
    Int4(i32),
    /// `bigint`.
    Int8(i64),
    /// `real`.
    Float4(f32),
    /// `double precision`.
    Float8(f64),
    /// `numeric`.
    Numeric(Numeric),
    /// `text`, `varchar`, `name`, `"char"` and literals without a type.
    Text(Arc<str>),
    /// `character(n)`, with the blanks at its end, which do not count in comparisons.
    Bpchar(Arc<str>),
    /// `bytea`.
    Bytea(Arc<[u8]>),
    /// Days since 2000-01-01; the ends of the range are the infinities.
    Date(i32),
    /// Microseconds since midnight.
    Time(i64),
    /// Microseconds since midnight of a zone.
    Timetz(Timetz),
    /// Microseconds since 2000-01-01; the ends of the range are the infinities.
    Timestamp(i64),
    /// Microseconds since 2000-01-01 UTC; the ends of the range are the infinities.
    Timestamptz(i64),
    /// `interval`.
    Interval(Interval),
    /// `uuid`.
    Uuid([u8; 16]),
    /// `json`, as it was written.
    Json(Arc<str>),
    /// `jsonb`.
    Jsonb(Arc<Json>),
    /// An array.
    Array(Arc<Array>),
    /// A row.
    Record(Arc<Record>),
    /// A label of an enum.
    Enum(EnumLabel),
    /// A number of the catalogue: `oid`, `regclass` and its kin, `xid`, `cid`.
    Oid(u32),
    /// The place of a row.
    Tid(u64),
}

const _: () = assert!(size_of::<Datum>() <= 32);

/// A time of the day in a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timetz {
    /// Microseconds since midnight there.
    pub micros: i64,
    /// Seconds west of Greenwich.
    pub zone: i32,
}

impl Timetz {
    /// By the moment, then by the zone.
    fn key(self) -> (i64, i32) {
        (self.micros + i64::from(self.zone) * 1_000_000, self.zone)
    }
}

/// A label of an enum with its place in the order.
#[derive(Clone, Debug)]
pub struct EnumLabel {
    /// Its place.
    pub place: i32,
    /// Its text.
    pub label: Arc<str>,
}

/// A row as a value.
#[derive(Clone, Debug)]
pub struct Record {
    /// Names and types of the fields.
    pub shape: Arc<RecordShape>,
    /// The fields.
    pub fields: Vec<Datum>,
}

/// Names and types of a row's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordShape {
    /// Names; rows without a table have `f1`, `f2` and so on.
    pub names: Vec<Arc<str>>,
    /// Types.
    pub types: Vec<Type>,
}

impl Datum {
    /// A text.
    pub fn text(content: impl Into<Arc<str>>) -> Self {
        Self::Text(content.into())
    }

    /// Bytes.
    pub fn bytes(content: impl Into<Arc<[u8]>>) -> Self {
        Self::Bytea(content.into())
    }

    /// Whether there is no value.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The kind that the value shows; texts are `text`, numbers of the catalogue `oid`.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Null => Kind::Unknown,
            Self::Bool(_) => Kind::Bool,
            Self::Int2(_) => Kind::Int2,
            Self::Int4(_) => Kind::Int4,
            Self::Int8(_) => Kind::Int8,
            Self::Float4(_) => Kind::Float4,
            Self::Float8(_) => Kind::Float8,
            Self::Numeric(_) => Kind::Numeric,
            Self::Text(_) => Kind::Text,
            Self::Bpchar(_) => Kind::Bpchar,
            Self::Bytea(_) => Kind::Bytea,
            Self::Date(_) => Kind::Date,
            Self::Time(_) => Kind::Time,
            Self::Timetz(_) => Kind::Timetz,
            Self::Timestamp(_) => Kind::Timestamp,
            Self::Timestamptz(_) => Kind::Timestamptz,
            Self::Interval(_) => Kind::Interval,
            Self::Uuid(_) => Kind::Uuid,
            Self::Json(_) => Kind::Json,
            Self::Jsonb(_) => Kind::Jsonb,
            Self::Array(array) => array.element.array().unwrap_or(Kind::AnyArray),
            Self::Record(_) => Kind::Record,
            Self::Enum(_) => Kind::AnyEnum,
            Self::Oid(_) => Kind::Oid,
            Self::Tid(_) => Kind::Tid,
        }
    }

    /// The order of two values of one type, or of types that PostgreSQL compares directly.
    pub fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Null, Self::Null) => Ordering::Equal,
            (Self::Null, _) => Ordering::Greater,
            (_, Self::Null) => Ordering::Less,
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Float4(_) | Self::Float8(_), _) | (_, Self::Float4(_) | Self::Float8(_)) => {
                compare_floats(self.as_f64(), other.as_f64())
            }
            (Self::Numeric(a), Self::Numeric(b)) => a.cmp(b),
            (Self::Text(a), Self::Text(b)) | (Self::Json(a), Self::Json(b)) => a.cmp(b),
            (Self::Bpchar(a), Self::Bpchar(b)) => without_blanks(a).cmp(without_blanks(b)),
            (Self::Bytea(a), Self::Bytea(b)) => a.cmp(b),
            (Self::Date(a), Self::Date(b)) => a.cmp(b),
            (Self::Time(a), Self::Time(b))
            | (Self::Timestamp(a), Self::Timestamp(b))
            | (Self::Timestamptz(a), Self::Timestamptz(b)) => a.cmp(b),
            (Self::Timetz(a), Self::Timetz(b)) => a.key().cmp(&b.key()),
            (Self::Interval(a), Self::Interval(b)) => a.cmp(b),
            (Self::Uuid(a), Self::Uuid(b)) => a.cmp(b),
            (Self::Jsonb(a), Self::Jsonb(b)) => a.cmp(b),
            (Self::Array(a), Self::Array(b)) => a.cmp(b),
            (Self::Record(a), Self::Record(b)) => a.fields.cmp(&b.fields),
            (Self::Enum(a), Self::Enum(b)) => a.place.cmp(&b.place),
            (Self::Oid(a), Self::Oid(b)) => a.cmp(b),
            (Self::Tid(a), Self::Tid(b)) => a.cmp(b),
            _ => match (self.as_i64(), other.as_i64()) {
                (Some(a), Some(b)) => a.cmp(&b),
                // No operator compares such values; the order only has to be one.
                _ => self.rank().cmp(&other.rank()),
            },
        }
    }

    /// The place of its variant, for the order of values that nothing compares.
    fn rank(&self) -> u32 {
        self.kind().oid()
    }

    fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int2(value) => Some(i64::from(*value)),
            Self::Int4(value) => Some(i64::from(*value)),
            Self::Int8(value) => Some(*value),
            Self::Oid(value) => Some(i64::from(*value)),
            _ => None,
        }
    }

    /// A floating point number; others are converted only so that comparisons are total.
    fn as_f64(&self) -> f64 {
        match self {
            Self::Float4(value) => f64::from(*value),
            Self::Float8(value) => *value,
            other => other.as_i64().map_or(0.0, |value| value as f64),
        }
    }
}

/// NaN equals NaN and comes last; -0 equals 0.
pub fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The content of `char(n)` that counts.
pub fn without_blanks(content: &str) -> &str {
    content.trim_end_matches(' ')
}

impl Datum {
    /// Whether another value is equal to this one and written alike: `1.50` is not as `1.5`.
    pub fn is_alike(&self, other: &Self) -> bool {
        let is_written_alike = match (self, other) {
            (Self::Numeric(one), Self::Numeric(other)) => one.scale() == other.scale(),
            (Self::Interval(one), Self::Interval(other)) => {
                (one.months, one.days) == (other.months, other.days)
            }
            _ => true,
        };
        is_written_alike && self == other
    }

    /// Whether as many values of another row are [identical](Datum::is_identical) to those of one.
    pub fn are_identical(ones: &[Self], others: &[Self]) -> bool {
        let mut pairs = ones.iter().zip(others);
        pairs.all(|(one, other)| one.is_identical(other))
    }

    /// Whether another value is the same for all functions, some of which tell equal values apart.
    pub fn is_identical(&self, other: &Self) -> bool {
        let all = Self::are_identical;
        let is_written_alike = match (self, other) {
            (Self::Float4(one), Self::Float4(other)) => one.to_bits() == other.to_bits(),
            (Self::Float8(one), Self::Float8(other)) => one.to_bits() == other.to_bits(),
            (Self::Bpchar(one), Self::Bpchar(other)) => one == other,
            (Self::Array(one), Self::Array(other)) => all(&one.elements, &other.elements),
            (Self::Record(one), Self::Record(other)) => all(&one.fields, &other.fields),
            (Self::Jsonb(one), Self::Jsonb(other)) => format!("{one:?}") == format!("{other:?}"),
            (one, other) => one.is_alike(other),
        };
        is_written_alike && self == other
    }
}

impl PartialEq for Datum {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            // Lengths differ more often than contents.
            (Self::Text(a), Self::Text(b)) => a == b,
            _ => self.compare(other) == Ordering::Equal,
        }
    }
}

impl Eq for Datum {}

impl PartialOrd for Datum {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Datum {
    fn cmp(&self, other: &Self) -> Ordering {
        self.compare(other)
    }
}

impl Hash for Datum {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Null => state.write_u8(0),
            Self::Bool(value) => state.write_u8(1 + u8::from(*value)),
            Self::Int2(_) | Self::Int4(_) | Self::Int8(_) | Self::Oid(_) => {
                state.write_i64(self.as_i64().unwrap_or(0));
            }
            Self::Float4(_) | Self::Float8(_) => state.write_u64(float_bits(self.as_f64())),
            Self::Numeric(value) => value.hash(state),
            Self::Text(content) | Self::Json(content) => content.hash(state),
            Self::Bpchar(content) => without_blanks(content).hash(state),
            Self::Bytea(content) => content.hash(state),
            Self::Date(days) => state.write_i32(*days),
            Self::Time(micros) | Self::Timestamp(micros) | Self::Timestamptz(micros) => {
                state.write_i64(*micros);
            }
            Self::Timetz(time) => time.key().hash(state),
            Self::Interval(interval) => interval.hash(state),
            Self::Uuid(bytes) => state.write(bytes),
            Self::Jsonb(json) => json.hash(state),
            Self::Array(array) => array.hash(state),
            Self::Record(record) => record.fields.hash(state),
            Self::Enum(label) => state.write_i32(label.place),
            Self::Tid(place) => state.write_u64(*place),
        }
    }
}

/// One pattern of bits for all numbers that are equal.
fn float_bits(value: f64) -> u64 {
    match value {
        _ if value.is_nan() => f64::NAN.to_bits(),
        0.0 => 0,
        _ => value.to_bits(),
    }
}

/// Access to the content of a value whose type the binder has checked.
macro_rules! accessors {
    ($($(#[$doc:meta])* $name:ident: $pattern:pat => $result:ty, $value:expr;)*) => {
        impl Datum {
            $($(#[$doc])* /// The content, if the value is of this type.
            pub fn $name(&self) -> Result<$result> {
                match self {
                    $pattern => Ok($value),
                    other => Err(other.unexpected(stringify!($name))),
                }
            })*
        }
    };
}

accessors! {
    bool: Self::Bool(value) => bool, *value;
    int4: Self::Int4(value) => i32, *value;
    float4: Self::Float4(value) => f32, *value;
    float8: Self::Float8(value) => f64, *value;
    numeric: Self::Numeric(value) => &Numeric, value;
    str: Self::Text(content) | Self::Bpchar(content) | Self::Json(content) => &str, content;
    bytea: Self::Bytea(content) => &[u8], content;
    date: Self::Date(days) => i32, *days;
    time: Self::Time(micros) => i64, *micros;
    timetz: Self::Timetz(time) => Timetz, *time;
    /// Of both types of timestamps.
    timestamp: Self::Timestamp(micros) | Self::Timestamptz(micros) => i64, *micros;
    interval: Self::Interval(interval) => Interval, *interval;
    jsonb: Self::Jsonb(json) => &Arc<Json>, json;
    array: Self::Array(array) => &Arc<Array>, array;
    record: Self::Record(record) => &Record, record;
}

impl Datum {
    /// An integer of any width.
    pub fn int(&self) -> Result<i64> {
        self.as_i64().ok_or_else(|| self.unexpected("integer"))
    }

    fn unexpected(&self, wanted: &str) -> SqlError {
        SqlError::internal(format!("a value of type {} is no {wanted}", self.kind()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::DefaultHasher;

    fn hash(datum: &Datum) -> u64 {
        let mut state = DefaultHasher::new();
        datum.hash(&mut state);
        state.finish()
    }

    #[test]
    fn equal_values_have_equal_hashes() {
        let pairs = [
            (Datum::Int2(7), Datum::Int8(7)),
            (Datum::Float4(0.5), Datum::Float8(0.5)),
            (Datum::Float8(0.0), Datum::Float8(-0.0)),
            (Datum::Float8(f64::NAN), Datum::Float8(-f64::NAN)),
            (Datum::Bpchar("ab ".into()), Datum::Bpchar("ab".into())),
        ];
        for (a, b) in pairs {
            assert_eq!(a, b);
            assert_eq!(hash(&a), hash(&b));
        }
    }

    #[test]
    fn null_and_nan_come_last() {
        assert!(Datum::Null > Datum::Float8(f64::NAN));
        assert!(Datum::Float8(f64::NAN) > Datum::Float8(f64::INFINITY));
    }
}
