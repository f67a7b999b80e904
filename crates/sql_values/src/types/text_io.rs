//! Values as text, both ways: PostgreSQL's input and output functions.
//!
//! Each type has one form that is printed and several that are read. A text that is none of them is
//! refused with PostgreSQL's message, which quotes it.

use super::array::Array;
use super::array_text;
use super::cast::{CastContext, apply_modifier};
use super::context::{ByteaOutput, Context};
use super::datetime::{parse as moment, print as moment_print};
use super::datum::{Datum, Record};
pub use super::float_io::{append, bad_text, parse_f32, parse_f64, print_general, trimmed};
use super::float_io::{print_f32, print_f64};
use super::geometry;
use super::interval;
use super::json::Json;
use super::kind::{Kind, Type};
use super::numeric::Numeric;
use super::size;
use crate::error::{Result, SqlError, SqlState};
use std::sync::Arc;

/// The most bytes of a `name`.
const NAME_BYTES_MAX: usize = 63;

/// The value of a text.
pub fn parse(kind: Kind, text: &str, context: &Context<'_>) -> Result<Datum> {
    if text.contains('\0') {
        return Err(SqlError::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            "invalid byte sequence for encoding \"UTF8\": 0x00",
        ));
    }
    match kind {
        Kind::Text | Kind::Varchar | Kind::Unknown | Kind::NodeTree | Kind::Refcursor => {
            Ok(Datum::text(text))
        }
        Kind::Bpchar => Ok(Datum::Bpchar(text.into())),
        Kind::Name => Ok(Datum::text(cut_name(text))),
        Kind::Char => Ok(parse_byte(text)),
        Kind::Bool => parse_bool(text).map(Datum::Bool),
        Kind::Int2 | Kind::Int4 | Kind::Int8 => parse_integer(kind, text),
        Kind::Float4 => parse_f32(text).map(Datum::Float4),
        Kind::Float8 => parse_f64(text).map(Datum::Float8),
        Kind::Numeric => Numeric::parse(text).map(Datum::Numeric),
        Kind::Bytea => parse_bytea(text).map(Datum::bytes),
        Kind::Uuid => parse_uuid(text).map(Datum::Uuid),
        Kind::Date | Kind::Time | Kind::Timetz | Kind::Timestamp | Kind::Timestamptz => {
            moment::parse(kind, text, context)
        }
        Kind::Interval => interval::parse(text, context).map(Datum::Interval),
        Kind::Json => {
            Json::check(text)?;
            Ok(Datum::Json(text.into()))
        }
        Kind::Jsonb => Ok(Datum::Jsonb(Arc::new(Json::parse(text)?))),
        Kind::Tid => parse_tid(text),
        _ if kind.is_geometric() => geometry::parse(kind, text).map(Datum::text),
        Kind::Enum(oid) => context
            .names
            .enum_label(oid, text)
            .map(Datum::Enum)
            .ok_or_else(|| {
                let name = context.names.type_name(kind).unwrap_or_else(|| kind.name());
                SqlError::new(
                    SqlState::INVALID_TEXT_REPRESENTATION,
                    format!("invalid input value for enum {name}: \"{text}\""),
                )
            }),
        Kind::Int2Vector | Kind::OidVector => array_text::parse_vector(kind, text, context),
        Kind::Array(_) | Kind::EnumArray(_) | Kind::CompositeArray(_) => {
            let element = kind.element().ok_or_else(|| no_input(kind))?;
            array_text::parse(element, text, context)
        }
        Kind::Composite(oid) => parse_record(oid, text, context),
        Kind::Record => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "input of anonymous composite types is not implemented",
        )),
        _ if kind.is_object_number() => parse_object(kind, text, context),
        _ => Err(no_input(kind)),
    }
}

/// The value of a text as a column of the type holds it; longer texts are cut.
pub fn parse_as(of: Type, text: &str, context: &Context<'_>) -> Result<Datum> {
    // In arrays the fields cut only, as in PostgreSQL.
    let datum = match of.kind {
        Kind::Interval => parse_for(of, text, context)?,
        kind => parse(kind, text, context)?,
    };
    apply_modifier(datum, of, CastContext::Explicit)
}

/// The value of a text for a column of the type, which must be fitted to its length then. An
/// interval's fields say what a number without a unit counts.
pub fn parse_for(of: Type, text: &str, context: &Context<'_>) -> Result<Datum> {
    match of.interval_fields() {
        Some(fields) if of.kind == Kind::Interval => {
            interval::parse_with_fields(text, fields, context).map(Datum::Interval)
        }
        Some(_) if of.kind.element() == Some(Kind::Interval) => {
            let array = array_text::parse(Kind::Text, text, context)?;
            let elements = array.array()?.elements.iter();
            let element = Type {
                kind: Kind::Interval,
                ..of
            };
            let elements = elements.map(|one| match one {
                Datum::Null => Ok(Datum::Null),
                one => parse_for(element, one.str()?, context),
            });
            Ok(Datum::Array(Arc::new(Array {
                element: Kind::Interval,
                dimensions: array.array()?.dimensions.clone(),
                elements: elements.collect::<Result<_>>()?,
            })))
        }
        _ => parse(of.kind, text, context),
    }
}

fn no_input(kind: Kind) -> SqlError {
    SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("cannot accept a value of type {kind}"),
    )
}

/// The text of a value. The kind matters for numbers of the catalogue only: NULL has no text, and
/// prints as nothing.
pub fn print(datum: &Datum, kind: Kind, context: &Context<'_>) -> Result<String> {
    let mut out = String::new();
    print_into(&mut out, datum, kind, context)?;
    Ok(out)
}

/// Appends the text of a value.
pub fn print_into(
    out: &mut String,
    datum: &Datum,
    kind: Kind,
    context: &Context<'_>,
) -> Result<()> {
    match datum {
        Datum::Null => {}
        Datum::Bool(value) => out.push(if *value { 't' } else { 'f' }),
        Datum::Int2(value) => append(out, value),
        Datum::Int4(value) => append(out, value),
        Datum::Int8(value) => append(out, value),
        Datum::Float4(value) => print_f32(out, *value, context.settings.extra_float_digits),
        Datum::Float8(value) => print_f64(out, *value, context.settings.extra_float_digits),
        Datum::Numeric(number) => append(out, number),
        Datum::Text(text) if kind == Kind::Char => print_byte(out, text),
        Datum::Text(text) | Datum::Bpchar(text) | Datum::Json(text) => {
            out.push_str(text);
        }
        Datum::Bytea(text) => print_bytea(out, text, context.settings.bytea_output),
        Datum::Date(_)
        | Datum::Time(_)
        | Datum::Timetz(_)
        | Datum::Timestamp(_)
        | Datum::Timestamptz(_) => moment_print::print(out, datum, context)?,
        Datum::Interval(value) => {
            interval::print(out, *value, context.settings.interval_style);
        }
        Datum::Uuid(bytes) => print_uuid(out, bytes),
        Datum::Jsonb(json) => append(out, json),
        Datum::Array(value) if matches!(kind, Kind::Int2Vector | Kind::OidVector) => {
            for (place, element) in value.elements.iter().enumerate() {
                if place > 0 {
                    out.push(' ');
                }
                print_into(out, element, value.element, context)?;
            }
        }
        Datum::Array(value) => array_text::print(out, value, context)?,
        Datum::Record(record) => print_record(out, record, context)?,
        Datum::Enum(label) => out.push_str(&label.label),
        Datum::Oid(number) => print_object(out, *number, kind, context),
        Datum::Tid(place) => {
            append(out, format_args!("({},{})", place >> 16, place & 0xffff));
        }
    }
    Ok(())
}

/// The first byte of a text, or the one whose number stands there in octal. A byte beyond 127 is
/// held as the character of its number, and zero as the empty text.
pub(super) fn parse_byte(text: &str) -> Datum {
    let bytes = text.as_bytes();
    let octal = match bytes {
        [b'\\', digits @ ..] if digits.len() == 3 => std::str::from_utf8(digits).ok(),
        _ => None,
    };
    let octal = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
    match octal.or(bytes.first().copied()) {
        None | Some(0) => Datum::text(""),
        Some(byte) => Datum::text(char::from(byte).to_string()),
    }
}

fn print_byte(out: &mut String, text: &str) {
    match text.chars().next() {
        Some(byte) if !byte.is_ascii() => append(out, format_args!("\\{:03o}", byte as u32)),
        _ => out.push_str(text),
    }
}

/// A text of at most 63 bytes, as a name holds it.
pub fn cut_name(text: &str) -> &str {
    &text[..text.floor_char_boundary(NAME_BYTES_MAX)]
}

fn parse_bool(text: &str) -> Result<bool> {
    switch(trimmed(text)).ok_or_else(|| bad_text("boolean", text))
}

/// A truth value by its name, or the beginning of one, in any case.
pub fn switch(word: &str) -> Option<bool> {
    let word = word.to_ascii_lowercase();
    let is = |full: &str, least: usize| word.len() >= least && full.starts_with(&word);
    match () {
        () if is("true", 1) || is("yes", 1) || word == "on" || word == "1" => Some(true),
        () if is("false", 1) || is("no", 1) || is("off", 2) || word == "0" => Some(false),
        () => None,
    }
}

fn parse_integer(kind: Kind, text: &str) -> Result<Datum> {
    let body = trimmed(text);
    let digits = body.strip_prefix(['+', '-']).unwrap_or(body);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad_text(&kind.name(), text));
    }
    let value = match kind {
        Kind::Int2 => body.parse().ok().map(Datum::Int2),
        Kind::Int4 => body.parse().ok().map(Datum::Int4),
        _ => body.parse().ok().map(Datum::Int8),
    };
    value.ok_or_else(|| {
        SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("value \"{text}\" is out of range for type {kind}"),
        )
    })
}

fn parse_bytea(text: &str) -> Result<Vec<u8>> {
    if let Some(hex) = text.strip_prefix("\\x") {
        return parse_hex(hex);
    }
    parse_escaped(text)
}

/// Characters, and bytes as three octal digits after a backslash.
pub fn parse_escaped(text: &str) -> Result<Vec<u8>> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        rest = match (*first, tail) {
            (b'\\', [b'\\', tail @ ..]) => {
                out.push(b'\\');
                tail
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) => {
                out.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                tail
            }
            (b'\\', _) => {
                return Err(SqlError::new(
                    SqlState::INVALID_TEXT_REPRESENTATION,
                    "invalid input syntax for type bytea",
                ));
            }
            (byte, tail) => {
                out.push(byte);
                tail
            }
        };
    }
    Ok(out)
}

/// Pairs of hexadecimal digits, with blanks between them.
pub fn parse_hex(text: &str) -> Result<Vec<u8>> {
    let bad = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut out = Vec::with_capacity(text.len() / 2);
    let mut characters = text
        .chars()
        .filter(|c| !matches!(c, ' ' | '\n' | '\t' | '\r'));
    let digit = |c: char| {
        let value = c.to_digit(16).map(|value| value as u8);
        value.ok_or_else(|| bad(format!("invalid hexadecimal digit: \"{c}\"")))
    };
    while let Some(high) = characters.next() {
        let high = digit(high)?;
        let low = characters
            .next()
            .ok_or_else(|| bad("invalid hexadecimal data: odd number of digits".to_owned()))?;
        out.push((high << 4) | digit(low)?);
    }
    Ok(out)
}

/// Prints bytes in the form that the session has chosen.
pub fn print_bytea(out: &mut String, content: &[u8], output: ByteaOutput) {
    match output {
        ByteaOutput::Hex => {
            out.push_str("\\x");
            for byte in content {
                append(out, format_args!("{byte:02x}"));
            }
        }
        ByteaOutput::Escape => {
            for byte in content {
                match byte {
                    b'\\' => out.push_str("\\\\"),
                    0x20..=0x7e => out.push(char::from(*byte)),
                    _ => append(out, format_args!("\\{byte:03o}")),
                }
            }
        }
    }
}

fn parse_uuid(text: &str) -> Result<[u8; 16]> {
    let bad = || bad_text("uuid", text);
    let body = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or_else(bad)?,
        None => text,
    };
    let mut bytes = [0_u8; 16];
    let mut digits = 0_usize;
    let mut after_hyphen = true;
    for character in body.chars() {
        match character.to_digit(16) {
            Some(digit) if digits < 32 => {
                bytes[digits / 2] = (bytes[digits / 2] << 4) | digit as u8;
                digits += 1;
                after_hyphen = false;
            }
            // A hyphen may stand after each four digits.
            None if character == '-'
                && digits.is_multiple_of(4)
                && digits < 32
                && !after_hyphen =>
            {
                after_hyphen = true;
            }
            _ => return Err(bad()),
        }
    }
    if digits == 32 { Ok(bytes) } else { Err(bad()) }
}

fn print_uuid(out: &mut String, bytes: &[u8; 16]) {
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        append(out, format_args!("{byte:02x}"));
    }
}

fn parse_tid(text: &str) -> Result<Datum> {
    let inner = text
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'));
    let parts = inner.and_then(|inner| inner.split_once(','));
    let place = parts.and_then(|(block, offset)| {
        let block: u32 = block.trim().parse().ok()?;
        let offset: u16 = offset.trim().parse().ok()?;
        Some((u64::from(block) << 16) | u64::from(offset))
    });
    place.map(Datum::Tid).ok_or_else(|| bad_text("tid", text))
}

fn parse_object(kind: Kind, text: &str, context: &Context<'_>) -> Result<Datum> {
    let body = trimmed(text);
    let is_plain = matches!(kind, Kind::Oid | Kind::Xid | Kind::Cid);
    // The number 0 is printed so; an operator may have this name.
    if body == "-" && !is_plain && kind != Kind::Regoper {
        return Ok(Datum::Oid(0));
    }
    let is_number = body.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+');
    if is_number || is_plain {
        let number: i64 = body.parse().map_err(|_| bad_text(&kind.name(), text))?;
        // Negative numbers of 32 bits are the same bits.
        return u32::try_from(number)
            .or_else(|_| i32::try_from(number).map(|number| number as u32))
            .map(Datum::Oid)
            .map_err(|_| {
                SqlError::new(
                    SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                    format!("value \"{text}\" is out of range for type {kind}"),
                )
            });
    }
    context.names.object_oid(kind, body).map(Datum::Oid)
}

fn print_object(out: &mut String, number: u32, kind: Kind, context: &Context<'_>) {
    let is_plain = matches!(kind, Kind::Oid | Kind::Xid | Kind::Cid);
    match context.names.object_name(kind, number) {
        Some(name) if !is_plain => out.push_str(&name),
        _ if number == 0 && !is_plain && kind.is_object_number() => out.push('-'),
        _ => append(out, number),
    }
}

fn print_record(out: &mut String, record: &Record, context: &Context<'_>) -> Result<()> {
    out.push('(');
    for (place, field) in record.fields.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        if field.is_null() {
            continue;
        }
        let kind = record
            .shape
            .types
            .get(place)
            .map_or(field.kind(), |one| one.kind);
        let text = print(field, kind, context)?;
        let is_quoted = text.is_empty()
            || text.contains(|c: char| matches!(c, '"' | '\\' | '(' | ')' | ',') || is_space(c));
        if is_quoted {
            append(
                out,
                format_args!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\"\"")),
            );
        } else {
            out.push_str(&text);
        }
        size::check(out.len())?;
    }
    out.push(')');
    Ok(())
}

/// A blank as C's `isspace` has it.
pub fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}

fn parse_record(oid: u32, text: &str, context: &Context<'_>) -> Result<Datum> {
    let malformed = |detail: &str| {
        SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("malformed record literal: \"{text}\""),
        )
        .detail(detail)
    };
    let shape = context
        .names
        .row_shape(oid)
        .ok_or_else(|| no_input(Kind::Composite(oid)))?;
    let body = trimmed(text)
        .strip_prefix('(')
        .ok_or_else(|| malformed("Missing left parenthesis."))?;
    let texts = split_record(body).map_err(malformed)?;
    if texts.len() < shape.types.len() {
        return Err(malformed("Too few columns."));
    }
    if texts.len() > shape.types.len() {
        return Err(malformed("Too many columns."));
    }
    let pairs = texts.iter().zip(&shape.types);
    let fields = pairs.map(|(text, of)| match text {
        Some(text) => {
            let datum = parse_for(*of, text, context)?;
            apply_modifier(datum, *of, CastContext::Assignment)
        }
        None => Ok(Datum::Null),
    });
    let fields = fields.collect::<Result<_>>()?;
    Ok(Datum::Record(Arc::new(Record { shape, fields })))
}

/// The texts between the parentheses of a row; nothing at all is NULL.
fn split_record(body: &str) -> Result<Vec<Option<String>>, &'static str> {
    let mut fields = Vec::new();
    let mut current: Option<String> = None;
    let mut characters = body.chars().peekable();
    let mut in_quotes = false;
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                let escaped = characters.next().ok_or("Unexpected end of input.")?;
                current.get_or_insert_default().push(escaped);
            }
            '"' if in_quotes && characters.peek() == Some(&'"') => {
                characters.next();
                current.get_or_insert_default().push('"');
            }
            '"' => {
                in_quotes = !in_quotes;
                current.get_or_insert_default();
            }
            ',' if !in_quotes => fields.push(current.take()),
            ')' if !in_quotes => {
                if characters.any(|rest| !is_space(rest)) {
                    return Err("Junk after right parenthesis.");
                }
                fields.push(current);
                return Ok(fields);
            }
            other => current.get_or_insert_default().push(other),
        }
    }
    Err("Unexpected end of input.")
}
