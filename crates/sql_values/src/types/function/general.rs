//! Functions of any arguments: joining their texts, counting NULLs, enums, identifiers.
//!
//! They take arguments of any type, so most of them are not strict: a NULL is an argument like any
//! other.

use super::super::array::Array;
use super::super::context::CallContext;
use super::super::datum::{Datum, EnumLabel};
use super::super::kind::Kind::{self, Any, AnyArray, AnyEnum, Int4, Regtype, Text, Uuid};
use super::super::{size, text_io};
use super::Function;
use super::json::kind_of;
use super::moment::clock;
use super::string::{quote_ident, quote_literal};
use crate::error::{Result, SqlError, SqlState};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// The text of an argument, as its output function gives it.
fn text(context: &CallContext<'_>, a: &[Datum], place: usize) -> Result<String> {
    text_io::print(&a[place], kind_of(context, a, place), &context.context)
}

fn concatenate(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    let mut out = String::new();
    for place in 0..a.len() {
        size::push(&mut out, &text(context, a, place)?)?;
    }
    Ok(Datum::text(out))
}

fn concatenate_with(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    if a[0].is_null() {
        return Ok(Datum::Null);
    }
    let separator = a[0].str()?;
    let shown = (1..a.len()).filter(|place| !a[*place].is_null());
    let mut out = String::new();
    for (number, place) in shown.enumerate() {
        size::push(&mut out, if number > 0 { separator } else { "" })?;
        size::push(&mut out, &text(context, a, place)?)?;
    }
    Ok(Datum::text(out))
}

fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// A field of `format`: which argument, how wide, on which side, in which form.
#[derive(Default)]
struct Field {
    argument: Option<usize>,
    width: Width,
    is_left: bool,
}

#[derive(Default)]
enum Width {
    #[default]
    None,
    Fixed(i64),
    /// The next argument, or the one of a number.
    Argument(Option<usize>),
}

/// A number at the front of a text.
fn number(rest: &mut &str) -> Result<Option<i64>> {
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    if digits.is_empty() {
        return Ok(None);
    }
    *rest = after;
    match digits.parse::<i32>() {
        Ok(number) => Ok(Some(i64::from(number))),
        Err(_) => Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "number is out of range",
        )),
    }
}

/// The place of an argument, counted from 1.
fn argument_number(number: i64) -> Result<usize> {
    match usize::try_from(number) {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(bad(
            "format specifies argument 0, but arguments are numbered from 1",
        )),
    }
}

fn field(rest: &mut &str) -> Result<Field> {
    let mut field = Field::default();
    let before = *rest;
    if let Some(found) = number(rest)? {
        match rest.strip_prefix('$') {
            Some(after) => {
                *rest = after;
                field.argument = Some(argument_number(found)?);
            }
            None => *rest = before,
        }
    }
    while let Some(after) = rest.strip_prefix('-') {
        field.is_left = true;
        *rest = after;
    }
    if let Some(after) = rest.strip_prefix('*') {
        *rest = after;
        let place = number(rest)?;
        if place.is_some() {
            *rest = rest
                .strip_prefix('$')
                .ok_or_else(|| bad("width argument position must be ended by \"$\""))?;
        }
        field.width = Width::Argument(place.map(argument_number).transpose()?);
    } else if let Some(width) = number(rest)? {
        field.width = Width::Fixed(width);
    }
    Ok(field)
}

/// The text of an argument in a form: plain, as an identifier or as a literal.
fn shown(context: &CallContext<'_>, a: &[Datum], place: usize, form: char) -> Result<String> {
    Ok(match (form, a[place].is_null()) {
        ('I', true) => {
            return Err(SqlError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                "null values cannot be formatted as an SQL identifier",
            ));
        }
        ('L', true) => "NULL".to_owned(),
        (_, true) => String::new(),
        ('I', _) => quote_ident(&text(context, a, place)?),
        ('L', _) => quote_literal(&text(context, a, place)?),
        _ => text(context, a, place)?,
    })
}

fn format(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    if a[0].is_null() {
        return Ok(Datum::Null);
    }
    let mut rest = a[0].str()?;
    let mut out = String::new();
    let mut next = 1;
    let mut take = |wanted: Option<usize>| -> Result<usize> {
        let place = wanted.unwrap_or(next);
        if place >= a.len() {
            return Err(bad("too few arguments for format()"));
        }
        next = place + 1;
        Ok(place)
    };
    while let Some(at) = rest.find('%') {
        size::push(&mut out, &rest[..at])?;
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let field = field(&mut rest)?;
        let form = rest.chars().next().ok_or_else(|| {
            bad("unterminated format() type specifier").hint("For a single \"%\" use \"%%\".")
        })?;
        rest = &rest[form.len_utf8()..];
        if !matches!(form, 's' | 'I' | 'L') {
            let message = format!("unrecognized format() type specifier \"{form}\"");
            return Err(bad(message).hint("For a single \"%\" use \"%%\"."));
        }
        let (mut is_left, width) = match field.width {
            Width::None => (field.is_left, 0),
            Width::Fixed(width) => (field.is_left, width),
            Width::Argument(place) => {
                let place = take(place)?;
                let width = match &a[place] {
                    Datum::Null => 0,
                    Datum::Int2(_) | Datum::Int4(_) => a[place].int()?,
                    _ => {
                        let written = text(context, a, place)?;
                        text_io::parse(Kind::Int4, &written, &context.context)?.int()?
                    }
                };
                (field.is_left || width < 0, width.abs())
            }
        };
        let place = take(field.argument)?;
        let shown = shown(context, a, place, form)?;
        is_left |= width == 0;
        let width = usize::try_from(width).unwrap_or(0);
        if width > size::BYTES_MAX / 4 {
            return Err(size::too_large());
        }
        let missing = " ".repeat(width.saturating_sub(shown.chars().count()));
        let sides = if is_left {
            [&shown, &missing]
        } else {
            [&missing, &shown]
        };
        for side in sides {
            size::push(&mut out, side)?;
        }
    }
    size::push(&mut out, rest)?;
    Ok(Datum::text(out))
}

fn count_nulls(a: &[Datum], wants_nulls: bool) -> Datum {
    let found = a.iter().filter(|one| one.is_null() == wants_nulls).count();
    Datum::Int4(found as i32)
}

/// The labels of the enum of a call, which its argument's type tells, even where that is NULL.
fn labels(context: &CallContext<'_>) -> Result<Vec<EnumLabel>> {
    let kinds = context.argument_types.iter().map(|one| one.kind);
    let oid = kinds.clone().find_map(|kind| match kind {
        Kind::Enum(oid) => Some(oid),
        _ => None,
    });
    let oid = oid.ok_or_else(|| {
        SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "could not determine actual enum type",
        )
    })?;
    Ok(context.context.names.enum_labels(oid))
}

fn end_label(context: &CallContext<'_>, is_first: bool) -> Result<Datum> {
    let labels = labels(context)?;
    let found = if is_first {
        labels.into_iter().next()
    } else {
        labels.into_iter().next_back()
    };
    found.map(Datum::Enum).ok_or_else(|| {
        SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            "enum contains no values",
        )
    })
}

fn label_range(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    let (low, high) = match a {
        [low, high] => (low, high),
        _ => (&Datum::Null, &Datum::Null),
    };
    let element = context.result_type.kind.element().unwrap_or(AnyEnum);
    let labels = labels(context)?.into_iter().map(Datum::Enum);
    let kept =
        labels.filter(|label| (low.is_null() || label >= low) && (high.is_null() || label <= high));
    Ok(Datum::Array(Arc::new(Array::new(element, kept.collect()))))
}

/// Bits that nobody can guess: keys of the operating system's, hashed. `setseed` has no say.
fn unguessable() -> [u8; 16] {
    let mut bytes = [0; 16];
    for half in bytes.chunks_exact_mut(8) {
        half.copy_from_slice(&RandomState::new().hash_one(clock()).to_le_bytes());
    }
    bytes
}

/// Random bits with the version and variant of RFC 9562.
fn uuid(mut bytes: [u8; 16], version: u8) -> Datum {
    bytes[6] = (bytes[6] & 0x0f) | (version << 4);
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    Datum::Uuid(bytes)
}

/// Milliseconds since 1970 before the random bits, so that later ones are greater.
fn timed_uuid() -> Datum {
    let mut bytes = unguessable();
    let millis = clock() / 1000 + 946_684_800_000;
    bytes[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
    uuid(bytes, 7)
}

/// The table.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::scalar("concat", &[Any], Text, |context, a| concatenate(context, a))
        .variadic()
        .nullable()
        .stable(),
    Function::scalar("concat_ws", &[Text, Any], Text, |context, a| {
        concatenate_with(context, a)
    })
    .variadic()
    .nullable()
    .stable(),
    Function::scalar("format", &[Text], Text, |context, a| format(context, a))
        .nullable()
        .stable(),
    Function::scalar("format", &[Text, Any], Text, |context, a| {
        format(context, a)
    })
    .variadic()
    .nullable()
    .stable(),
    Function::scalar("num_nulls", &[Any], Int4, |_, a| Ok(count_nulls(a, true)))
        .variadic()
        .nullable(),
    Function::scalar("num_nonnulls", &[Any], Int4, |_, a| {
        Ok(count_nulls(a, false))
    })
    .variadic()
    .nullable(),
    Function::scalar("pg_typeof", &[Any], Regtype, |context, a| {
        Ok(Datum::Oid(kind_of(context, a, 0).oid()))
    })
    .nullable()
    .stable(),
    Function::scalar("enum_first", &[AnyEnum], AnyEnum, |context, _| {
        end_label(context, true)
    })
    .nullable()
    .stable(),
    Function::scalar("enum_last", &[AnyEnum], AnyEnum, |context, _| {
        end_label(context, false)
    })
    .nullable()
    .stable(),
    Function::scalar("enum_range", &[AnyEnum], AnyArray, |context, a| {
        label_range(context, a)
    })
    .nullable()
    .stable(),
    Function::scalar("enum_range", &[AnyEnum, AnyEnum], AnyArray, |context, a| {
        label_range(context, a)
    })
    .nullable()
    .stable(),
    Function::scalar("gen_random_uuid", &[], Uuid, |_, _| {
        Ok(uuid(unguessable(), 4))
    })
    .volatile(),
    Function::scalar("uuid_generate_v4", &[], Uuid, |_, _| {
        Ok(uuid(unguessable(), 4))
    })
    .volatile(),
    Function::scalar("uuidv7", &[], Uuid, |_, _| Ok(timed_uuid())).volatile(),
];
