//! Conversions between types: which there are, when they apply, and how they run.
//!
//! The table is PostgreSQL's `pg_cast`, with its rules for what is not in it: a literal without a
//! type is read as text of the wanted type, any type assigns to the text types by its text, any
//! text type converts explicitly by its text, and arrays convert as their elements do.

use super::array::Array;
use super::context::Context;
use super::datetime::convert;
use super::datum::{Datum, Record, without_blanks};
use super::json::Json;
use super::kind::{Category, Kind, Type};
use super::numeric::Numeric;
use super::text_io;
use crate::error::{Result, SqlError, SqlState};
use std::sync::Arc;

/// When a conversion may happen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CastContext {
    /// Anywhere.
    Implicit,
    /// Where a value goes into a column.
    Assignment,
    /// Where the statement says so.
    Explicit,
}

/// Whether values of one kind convert to another in the context.
pub fn can_coerce(from: Kind, to: Kind, context: CastContext) -> bool {
    match (from, to) {
        _ if from == to => true,
        (Kind::Unknown, _) | (_, Kind::Any | Kind::AnyElement | Kind::AnyCompatible) => true,
        (_, Kind::AnyArray | Kind::AnyCompatibleArray) => from.is_array() || from.is_vector(),
        (_, Kind::AnyNonArray | Kind::AnyCompatibleNonArray) => {
            !from.is_array() && !from.is_vector()
        }
        (_, Kind::AnyEnum) => matches!(from, Kind::Enum(_)),
        (Kind::Composite(_), Kind::Record) => true,
        (Kind::Record, Kind::Composite(_)) => true,
        _ => least_context(from, to).is_some_and(|least| least <= context),
    }
}

/// The least context in which the conversion happens, if there is one.
pub fn least_context(from: Kind, to: Kind) -> Option<CastContext> {
    if from == to {
        return Some(CastContext::Implicit);
    }
    if (from.is_array() || from.is_vector()) && to.is_array() {
        return least_context(from.element()?, to.element()?);
    }
    table_context(from, to).or_else(|| {
        if to.category() == Category::String {
            Some(CastContext::Assignment)
        } else if from.category() == Category::String {
            Some(CastContext::Explicit)
        } else {
            None
        }
    })
}

/// The context in `pg_cast`; none if it has no such conversion.
pub fn table_context(from: Kind, to: Kind) -> Option<CastContext> {
    use CastContext::{Assignment, Explicit, Implicit};
    use Kind::{
        Bool, Bpchar, Char, Date, Float4, Float8, Int2, Int2Vector, Int4, Int8, Interval, Json,
        Jsonb, Name, NodeTree, Oid, OidVector, Regclass, Regproc, Regprocedure, Text, Time,
        Timestamp, Timestamptz, Timetz, Varchar,
    };
    let is_alias =
        |kind: Kind| kind.is_object_number() && !matches!(kind, Oid | Kind::Xid | Kind::Cid);
    Some(match (from, to) {
        (Bool | Char, Int4) | (Int4, Bool | Char) => Explicit,
        (Bool, Text | Bpchar | Varchar) | (Char, Bpchar | Varchar) => Assignment,
        (Char | Name | NodeTree, Text) => Implicit,
        (Name, Bpchar | Varchar) => Assignment,
        (Int2, Int4 | Int8 | Float4 | Float8 | Kind::Numeric) => Implicit,
        (Int4, Int8 | Float4 | Float8 | Kind::Numeric) => Implicit,
        (Int8, Float4 | Float8 | Kind::Numeric) => Implicit,
        (Int4 | Int8, Int2) | (Int8, Int4) => Assignment,
        (Int2 | Int4 | Int8, Oid) => Implicit,
        (Int2 | Int4 | Int8, alias) if is_alias(alias) => Implicit,
        (Oid, Int8 | Int4) => Assignment,
        (alias, Int8 | Int4) if is_alias(alias) => Assignment,
        (Oid, alias) | (alias, Oid) if is_alias(alias) => Implicit,
        (Regproc, Regprocedure) | (Regprocedure, Regproc) => Implicit,
        (Kind::Numeric, Float4 | Float8) => Implicit,
        (Kind::Numeric, Int2 | Int4 | Int8) => Assignment,
        (Float4, Float8) => Implicit,
        (Float4, Int2 | Int4 | Int8 | Kind::Numeric) => Assignment,
        (Float8, Int2 | Int4 | Int8 | Float4 | Kind::Numeric) => Assignment,
        (Text | Varchar, Regclass) => Implicit,
        (Text | Bpchar | Varchar, Char) => Assignment,
        (Text | Bpchar | Varchar, Text | Bpchar | Varchar | Name) => Implicit,
        (Json, Jsonb) | (Jsonb, Json) => Assignment,
        (Jsonb, Bool | Int2 | Int4 | Int8 | Float4 | Float8 | Kind::Numeric) => Explicit,
        (Date, Timestamp | Timestamptz) | (Timestamp, Timestamptz) => Implicit,
        (Time, Interval | Timetz) => Implicit,
        (Timestamp | Timestamptz, Date | Time) | (Timestamptz, Timestamp | Timetz) => Assignment,
        (Interval | Timetz, Time) => Assignment,
        (Int2Vector, Kind::Array(Int2)) | (OidVector, Kind::Array(Oid)) => Implicit,
        _ => return None,
    })
}

/// Converts a value. The binder has checked by [`can_coerce`] that the conversion exists in the
/// context, which decides here only whether a text that is too long is cut or an error.
pub fn cast(
    datum: Datum,
    from: Kind,
    to: Type,
    cast_context: CastContext,
    context: &Context<'_>,
) -> Result<Datum> {
    if datum.is_null() {
        return Ok(datum);
    }
    let converted = if from == to.kind {
        datum
    } else {
        convert_kind(datum, from, to.kind, context)?
    };
    apply_modifier(converted, to, cast_context)
}

/// The error of a conversion that does not exist.
pub fn no_cast(from: Kind, to: Type) -> SqlError {
    SqlError::new(
        SqlState::CANNOT_COERCE,
        format!("cannot cast type {from} to {}", to.kind),
    )
}

fn convert_kind(datum: Datum, from: Kind, to: Kind, context: &Context<'_>) -> Result<Datum> {
    if let (Datum::Array(array), Some(element)) = (&datum, to.element()) {
        let source = array.element;
        let elements = array.elements.iter();
        let converted = elements.map(|one| {
            if one.is_null() || source == element {
                Ok(one.clone())
            } else {
                convert_kind(one.clone(), source, element, context)
            }
        });
        return Ok(Datum::Array(Arc::new(Array {
            element,
            dimensions: array.dimensions.clone(),
            elements: converted.collect::<Result<_>>()?,
        })));
    }
    match to {
        Kind::Int2 | Kind::Int4 | Kind::Int8 => {
            if let Some(value) = whole(&datum, from, to)? {
                return integer(value, to);
            }
        }
        Kind::Float4 | Kind::Float8 | Kind::Numeric => {
            if let Some(number) = number(&datum, to)? {
                return Ok(number);
            }
        }
        _ => {}
    }
    match (&datum, to) {
        (Datum::Int4(value), Kind::Bool) => return Ok(Datum::Bool(*value != 0)),
        (Datum::Int4(value), Kind::Char) => return character(*value),
        (Datum::Jsonb(json), Kind::Bool) => {
            return match &**json {
                Json::Bool(value) => Ok(Datum::Bool(*value)),
                other => Err(no_json_cast(other, to)),
            };
        }
        (Datum::Bool(value), Kind::Text | Kind::Varchar) => {
            return Ok(Datum::text(if *value { "true" } else { "false" }));
        }
        (Datum::Bool(value), Kind::Bpchar) => {
            return Ok(Datum::Bpchar(if *value { "true" } else { "false" }.into()));
        }
        (Datum::Oid(_), _) if to.is_object_number() => return Ok(datum),
        (Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_), _) if to.is_object_number() => {
            return object_number(datum.int()?, from);
        }
        (Datum::Bpchar(text), Kind::Text | Kind::Varchar | Kind::Name) => {
            return Ok(text_of_kind(without_blanks(text), to));
        }
        (Datum::Text(_), Kind::Text | Kind::Varchar) if from != Kind::Char => return Ok(datum),
        (Datum::Text(text), Kind::Bpchar) if from != Kind::Char => {
            return Ok(Datum::Bpchar(text.clone()));
        }
        (Datum::Text(text), Kind::Name | Kind::Char) => return Ok(text_of_kind(text, to)),
        (Datum::Record(record), Kind::Composite(oid)) => return reshaped(record, oid, context),
        (Datum::Record(_), Kind::Record) => return Ok(datum),
        _ => {}
    }
    if let Some(converted) = convert::moments(&datum, to, context)? {
        return Ok(converted);
    }
    let text = text_io::print(&datum, from, context)?;
    text_io::parse(to, &text, context)
}

/// A row as one of a type: with its names, and each field as one of its type.
fn reshaped(record: &Record, oid: u32, context: &Context<'_>) -> Result<Datum> {
    let shape = context
        .names
        .row_shape(oid)
        .unwrap_or_else(|| Arc::clone(&record.shape));
    if shape.types.len() != record.fields.len() {
        let name = context.names.type_name(Kind::Composite(oid));
        let name = name.unwrap_or_else(|| "record".to_owned());
        return Err(wrong_width(&name, record.fields.len(), shape.types.len()));
    }
    let mut fields = Vec::with_capacity(record.fields.len());
    let types = record.shape.types.iter().zip(&shape.types);
    for (field, (from, to)) in record.fields.iter().zip(types) {
        fields.push(match field {
            Datum::Null => Datum::Null,
            field if from.kind == to.kind => field.clone(),
            field => cast(
                field.clone(),
                from.kind,
                *to,
                CastContext::Explicit,
                context,
            )?,
        });
    }
    Ok(Datum::Record(Arc::new(Record { shape, fields })))
}

/// The error of a row that has not as many fields as its type.
pub fn wrong_width(name: &str, count: usize, wanted: usize) -> SqlError {
    let words = if count < wanted { "few" } else { "many" };
    let message = format!("cannot cast type record to {name}");
    SqlError::new(SqlState::CANNOT_COERCE, message)
        .detail(format!("Input has too {words} columns."))
}

/// A text as `name` and `"char"` hold it.
fn text_of_kind(text: &str, kind: Kind) -> Datum {
    match kind {
        Kind::Name => Datum::text(text_io::cut_name(text)),
        Kind::Char => text_io::parse_byte(text),
        _ => Datum::text(text),
    }
}

fn character(value: i32) -> Result<Datum> {
    match u8::try_from(value) {
        Ok(0) => Ok(Datum::text("")),
        Ok(byte) if byte < 128 => Ok(Datum::text(char::from(byte).to_string())),
        _ => Err(out_of_range("\"char\"")),
    }
}

fn object_number(value: i64, from: Kind) -> Result<Datum> {
    // Negative numbers of 32 bits are the same bits, as in PostgreSQL.
    match (from, i32::try_from(value), u32::try_from(value)) {
        (Kind::Int2 | Kind::Int4, Ok(value), _) => Ok(Datum::Oid(value as u32)),
        (_, _, Ok(value)) => Ok(Datum::Oid(value)),
        _ => Err(out_of_range("OID")),
    }
}

/// The message of a value that its type cannot hold.
pub fn out_of_range(name: &str) -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("{name} out of range"),
    )
}

/// An integer of the given kind.
pub fn integer(value: i64, kind: Kind) -> Result<Datum> {
    let datum = match kind {
        Kind::Int2 => i16::try_from(value).ok().map(Datum::Int2),
        Kind::Int4 => i32::try_from(value).ok().map(Datum::Int4),
        _ => Some(Datum::Int8(value)),
    };
    datum.ok_or_else(|| out_of_range(&kind.name()))
}

/// The value as an integer, where it is a number of some kind.
fn whole(datum: &Datum, from: Kind, to: Kind) -> Result<Option<i64>> {
    Ok(Some(match datum {
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => datum.int()?,
        Datum::Bool(value) => i64::from(*value),
        Datum::Oid(value) if to == Kind::Int8 => i64::from(*value),
        Datum::Oid(value) => i64::from(*value as i32),
        Datum::Text(text) if from == Kind::Char && to == Kind::Int4 => {
            text.bytes().next().map_or(0, i64::from)
        }
        Datum::Float4(value) => float_to_integer(f64::from(*value), to)?,
        Datum::Float8(value) => float_to_integer(*value, to)?,
        Datum::Numeric(number) => numeric_to_integer(number, to)?,
        Datum::Jsonb(json) => match &**json {
            Json::Number(number) => numeric_to_integer(number, to)?,
            other => return Err(no_json_cast(other, to)),
        },
        _ => return Ok(None),
    }))
}

fn float_to_integer(value: f64, to: Kind) -> Result<i64> {
    let rounded = value.round_ties_even();
    // The least i64 is a power of two, and so is the number after the greatest one.
    let limit = 9_223_372_036_854_775_808.0;
    if rounded >= -limit && rounded < limit {
        Ok(rounded as i64)
    } else {
        Err(out_of_range(&to.name()))
    }
}

fn numeric_to_integer(number: &Numeric, to: Kind) -> Result<i64> {
    let special = |what: &str| {
        let message = format!("cannot convert {what} to {to}");
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    };
    if number.is_nan() {
        return special("NaN");
    }
    if number.is_infinite() {
        return special("infinity");
    }
    number.to_i64().ok_or_else(|| out_of_range(&to.name()))
}

/// The value as a number with a fraction, where it is a number of some kind.
fn number(datum: &Datum, to: Kind) -> Result<Option<Datum>> {
    let number = match datum {
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => {
            let value = datum.int()?;
            return Ok(Some(match to {
                Kind::Float4 => Datum::Float4(value as f32),
                Kind::Float8 => Datum::Float8(value as f64),
                _ => Datum::Numeric(Numeric::from(value)),
            }));
        }
        Datum::Float4(value) => {
            return Ok(Some(match to {
                Kind::Float8 => Datum::Float8(f64::from(*value)),
                _ => Datum::Numeric(Numeric::from_f64(f64::from(*value), 6)),
            }));
        }
        Datum::Float8(value) => {
            return Ok(Some(match to {
                Kind::Float4 => Datum::Float4(narrow(*value)?),
                _ => Datum::Numeric(Numeric::from_f64(*value, 15)),
            }));
        }
        Datum::Numeric(number) => number,
        Datum::Jsonb(json) => match &**json {
            Json::Number(number) => number,
            other => return Err(no_json_cast(other, to)),
        },
        _ => return Ok(None),
    };
    Ok(Some(match to {
        Kind::Float4 => Datum::Float4(text_io::parse_f32(&number.to_string())?),
        Kind::Float8 => Datum::Float8(text_io::parse_f64(&number.to_string())?),
        _ => Datum::Numeric(number.clone()),
    }))
}

/// The nearest `real`; numbers that become infinite or 0 are errors.
pub fn narrow(value: f64) -> Result<f32> {
    let narrowed = value as f32;
    let problem = match () {
        () if narrowed.is_infinite() && !value.is_infinite() => "overflow",
        () if narrowed == 0.0 && value != 0.0 => "underflow",
        () => return Ok(narrowed),
    };
    Err(SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("value out of range: {problem}"),
    ))
}

fn no_json_cast(json: &Json, to: Kind) -> SqlError {
    let what = match json {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "numeric",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    };
    SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("cannot cast jsonb {what} to type {to}"),
    )
}

/// The value as a column of the type holds it: rounded, padded, cut or refused.
pub fn apply_modifier(datum: Datum, to: Type, cast_context: CastContext) -> Result<Datum> {
    if to.modifier < 0 {
        return Ok(datum);
    }
    if let Datum::Array(array) = &datum
        && let Some(element) = to.kind.element()
    {
        let element = Type {
            kind: element,
            modifier: to.modifier,
        };
        let elements = array.elements.iter();
        let applied = elements.map(|one| apply_modifier(one.clone(), element, cast_context));
        return Ok(Datum::Array(Arc::new(Array {
            element: array.element,
            dimensions: array.dimensions.clone(),
            elements: applied.collect::<Result<_>>()?,
        })));
    }
    match (&datum, to.kind) {
        (Datum::Text(text), Kind::Varchar) => {
            fit_text(text, to, cast_context).map(|fitted| fitted.map_or(datum.clone(), Datum::text))
        }
        (Datum::Text(text) | Datum::Bpchar(text), Kind::Bpchar) => {
            let fitted = fit_text(text, to, cast_context)?;
            Ok(Datum::Bpchar(
                fitted.map_or_else(|| text.clone(), Arc::from),
            ))
        }
        (Datum::Numeric(number), Kind::Numeric) => match to.precision() {
            Some((precision, scale)) => number.fitted(precision, scale).map(Datum::Numeric),
            None => Ok(datum),
        },
        _ => convert::fit_time(datum, to),
    }
}

/// The text with as many characters as the type has, or none if it has them already.
fn fit_text(text: &str, to: Type, cast_context: CastContext) -> Result<Option<String>> {
    let Some(length) = to.length() else {
        return Ok(None);
    };
    // A text has no more characters than bytes.
    let count = if text.len() <= length && to.kind == Kind::Varchar {
        return Ok(None);
    } else {
        text.chars().count()
    };
    if count <= length {
        let padding = length - count;
        return Ok((to.kind == Kind::Bpchar && padding > 0)
            .then(|| format!("{text}{}", " ".repeat(padding))));
    }
    let end = text
        .char_indices()
        .nth(length)
        .map_or(text.len(), |(at, _)| at);
    let (kept, rest) = text.split_at(end);
    if cast_context != CastContext::Explicit && !without_blanks(rest).is_empty() {
        return Err(SqlError::new(
            SqlState::STRING_DATA_RIGHT_TRUNCATION,
            format!("value too long for type {to}"),
        ));
    }
    Ok(Some(kept.to_owned()))
}
