//! Any value as JSON: the text of `to_json` and the tree of `to_jsonb`.
//!
//! Numbers and booleans are themselves, arrays and rows are nested, dates and times are ISO 8601,
//! and all others are strings of their texts.

use super::super::array::Array;
use super::super::context::{Context, DateStyle, Settings};
use super::super::datum::{Datum, Record};
use super::super::kind::Kind;
use super::super::numeric::Numeric;
use super::super::{size, text_io};
use super::text::quote;
use super::value::Json;
use crate::error::{Result, SqlError, SqlState};

/// The text of a date or time by ISO 8601.
fn iso(datum: &Datum, context: &Context<'_>) -> Result<String> {
    let settings = Settings {
        date_style: DateStyle::Iso,
        ..context.settings.clone()
    };
    let context = Context {
        settings: &settings,
        ..*context
    };
    let mut text = text_io::print(datum, datum.kind(), &context)?;
    if text.ends_with("infinity") || matches!(datum, Datum::Date(_)) {
        return Ok(text);
    }
    if let Some(at) = text.find(' ') {
        text.replace_range(at..=at, "T");
    }
    // Zones have minutes here.
    if matches!(datum, Datum::Timestamptz(_)) {
        let body = text.trim_end_matches(" BC");
        if body.len() >= 3 && matches!(body.as_bytes()[body.len() - 3], b'+' | b'-') {
            let place = body.len();
            text.insert_str(place, ":00");
        }
    }
    Ok(text)
}

/// Appends the JSON text of a value.
pub fn print(out: &mut String, datum: &Datum, kind: Kind, context: &Context<'_>) -> Result<()> {
    match datum {
        Datum::Null => out.push_str("null"),
        Datum::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => {
            text_io::print_into(out, datum, kind, context)?;
        }
        Datum::Float4(_) | Datum::Float8(_) | Datum::Numeric(_) => {
            let text = text_io::print(datum, kind, context)?;
            // NaN and the infinities are no numbers of JSON.
            if text.ends_with(|c: char| c.is_ascii_digit()) {
                out.push_str(&text);
            } else {
                quote(out, &text);
            }
        }
        Datum::Json(text) => out.push_str(text),
        Datum::Jsonb(json) => json.print(out),
        Datum::Date(_) | Datum::Timestamp(_) | Datum::Timestamptz(_) => {
            quote(out, &iso(datum, context)?);
        }
        Datum::Array(array) => print_array(out, array, false, context)?,
        Datum::Record(record) => print_record(out, record, false, context)?,
        other => quote(out, &text_io::print(other, kind, context)?),
    }
    Ok(())
}

/// Appends the JSON text of an array, with line feeds between its elements if wanted.
pub fn print_array(
    out: &mut String,
    array: &Array,
    has_lines: bool,
    context: &Context<'_>,
) -> Result<()> {
    if array.elements.is_empty() {
        out.push_str("[]");
        return Ok(());
    }
    let mut elements = array.elements.iter();
    print_level(out, array, 0, &mut elements, has_lines, context)
}

fn print_level<'a>(
    out: &mut String,
    array: &Array,
    level: usize,
    elements: &mut impl Iterator<Item = &'a Datum>,
    has_lines: bool,
    context: &Context<'_>,
) -> Result<()> {
    out.push('[');
    for place in 0..array.dimensions[level].length {
        if place > 0 {
            out.push_str(if has_lines && level == 0 { ",\n " } else { "," });
        }
        if level + 1 < array.dimensions.len() {
            print_level(out, array, level + 1, elements, has_lines, context)?;
        } else if let Some(element) = elements.next() {
            print(out, element, array.element, context)?;
            size::check(out.len())?;
        }
    }
    out.push(']');
    Ok(())
}

/// Appends the JSON text of a row, with line feeds between its fields if wanted.
pub fn print_record(
    out: &mut String,
    record: &Record,
    has_lines: bool,
    context: &Context<'_>,
) -> Result<()> {
    out.push('{');
    for (place, field) in record.fields.iter().enumerate() {
        if place > 0 {
            out.push_str(if has_lines { ",\n " } else { "," });
        }
        let (name, kind) = field_of(record, place, field);
        quote(out, &name);
        out.push(':');
        print(out, field, kind, context)?;
        size::check(out.len())?;
    }
    out.push('}');
    Ok(())
}

fn field_of(record: &Record, place: usize, field: &Datum) -> (String, Kind) {
    let name = record.shape.names.get(place);
    let name = name.map_or_else(|| format!("f{}", place + 1), ToString::to_string);
    let kind = record
        .shape
        .types
        .get(place)
        .map_or(field.kind(), |one| one.kind);
    (name, kind)
}

/// The text of an object's key.
pub fn key(datum: &Datum, kind: Kind, context: &Context<'_>) -> Result<String> {
    match datum {
        Datum::Array(_) | Datum::Record(_) | Datum::Json(_) | Datum::Jsonb(_) => {
            Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "key value must be scalar, not array, composite, or json",
            ))
        }
        Datum::Bool(value) => Ok(value.to_string()),
        Datum::Date(_) | Datum::Timestamp(_) | Datum::Timestamptz(_) => iso(datum, context),
        other => text_io::print(other, kind, context),
    }
}

/// The tree of a value, whose bytes are added to those of the tree around it.
///
/// # Errors
///
/// 54000 if these are too many, and those of texts and numbers.
pub fn tree(datum: &Datum, kind: Kind, context: &Context<'_>, bytes: &mut usize) -> Result<Json> {
    let made = match datum {
        Datum::Null => Json::Null,
        Datum::Bool(value) => Json::Bool(*value),
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => {
            Json::Number(Numeric::from(datum.int()?))
        }
        Datum::Float4(_) | Datum::Float8(_) | Datum::Numeric(_) => {
            let text = text_io::print(datum, kind, context)?;
            if text.ends_with(|c: char| c.is_ascii_digit()) {
                Json::Number(Numeric::parse(&text)?)
            } else {
                Json::String(text)
            }
        }
        Datum::Json(text) => {
            size::add(bytes, text.len())?;
            return Json::parse(text);
        }
        Datum::Jsonb(json) => {
            size::add(bytes, json.bytes())?;
            return Ok((**json).clone());
        }
        Datum::Date(_) | Datum::Timestamp(_) | Datum::Timestamptz(_) => {
            Json::String(iso(datum, context)?)
        }
        Datum::Array(array) => {
            let mut elements = array.elements.iter();
            tree_level(array, 0, &mut elements, (context, &mut *bytes))?
        }
        Datum::Record(record) => {
            let fields = record.fields.iter().enumerate();
            let pairs = fields.map(|(place, field)| {
                let (name, kind) = field_of(record, place, field);
                size::add(bytes, name.len())?;
                Ok((name, tree(field, kind, context, bytes)?))
            });
            Json::object(pairs.collect::<Result<_>>()?)
        }
        other => Json::String(text_io::print(other, kind, context)?),
    };
    let text = match &made {
        Json::String(text) => text.len(),
        _ => 0,
    };
    size::add(bytes, size_of::<Json>() + text)?;
    Ok(made)
}

fn tree_level<'a>(
    array: &Array,
    level: usize,
    elements: &mut impl Iterator<Item = &'a Datum>,
    (context, bytes): (&Context<'_>, &mut usize),
) -> Result<Json> {
    let mut out = Vec::new();
    let length = array.dimensions.get(level).map_or(0, |one| one.length);
    for _ in 0..length {
        if level + 1 < array.dimensions.len() {
            let around = (context, &mut *bytes);
            out.push(tree_level(array, level + 1, elements, around)?);
        } else if let Some(element) = elements.next() {
            out.push(tree(element, array.element, context, bytes)?);
        }
    }
    Ok(Json::Array(out))
}
