//! Functions of texts. Positions and lengths count characters, from 1.
//!
//! A negative position counts from the start too, and may lie before it. Results longer than a text
//! may be are an error before memory is taken.

use super::super::array::Array;
use super::super::datum::{Datum, without_blanks};
use super::super::hash;
use super::super::kind::Kind::{self, Bool, Bpchar, Char, Int4, Int8, Name, Text};
use super::super::size;
use super::digest;
use super::{Function, Rows};
use crate::error::{Result, SqlError, SqlState};
use std::sync::Arc;

fn count(text: &str) -> i64 {
    if text.is_ascii() {
        text.len() as i64
    } else {
        text.chars().count() as i64
    }
}

fn int(value: i64) -> Result<Datum> {
    super::super::cast::integer(value, Int4)
}

/// The byte at which a character begins, or the end.
fn byte_of(text: &str, index: i64) -> usize {
    let index = usize::try_from(index).unwrap_or(0);
    if text.is_ascii() {
        return index.min(text.len());
    }
    text.char_indices()
        .nth(index)
        .map_or(text.len(), |(at, _)| at)
}

/// The characters from `start`, which may lie before the text, so many of them.
pub fn substring(text: &str, start: i64, length: Option<i64>) -> Result<&str> {
    let end = match length {
        Some(length) if length < 0 => {
            return Err(SqlError::new(
                SqlState::SUBSTRING_ERROR,
                "negative substring length not allowed",
            ));
        }
        Some(length) => start.saturating_add(length),
        None => i64::MAX,
    };
    let from = byte_of(text, start.max(1) - 1);
    let to = byte_of(text, end.max(1) - 1).max(from);
    Ok(&text[from..to])
}

fn lower(text: &str) -> String {
    text.chars().map(|c| simple(c, c.to_lowercase())).collect()
}

fn upper(text: &str) -> String {
    text.chars().map(|c| simple(c, c.to_uppercase())).collect()
}

/// The cases of letters under the collation `C`, which knows those of ASCII only.
pub(super) static OF_C: [Function; 3] = [
    Function::scalar("lower", &[Text], Text, |_, a| {
        Ok(Datum::text(a[0].str()?.to_ascii_lowercase()))
    }),
    Function::scalar("upper", &[Text], Text, |_, a| {
        Ok(Datum::text(a[0].str()?.to_ascii_uppercase()))
    }),
    Function::scalar("initcap", &[Text], Text, |_, a| {
        let mut in_word = false;
        let each = a[0].str()?.chars().map(|c| {
            let is_inside = std::mem::replace(&mut in_word, c.is_ascii_alphanumeric());
            if is_inside {
                c.to_ascii_lowercase()
            } else {
                c.to_ascii_uppercase()
            }
        });
        Ok(Datum::text(each.collect::<String>()))
    }),
];

/// Letters whose other case has several characters stay.
fn simple(character: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(other), None) => other,
        _ => character,
    }
}

fn capitals(text: &str) -> String {
    let mut in_word = false;
    let each = text.chars().map(|c| {
        let mapped = if in_word {
            simple(c, c.to_lowercase())
        } else {
            simple(c, c.to_uppercase())
        };
        in_word = c.is_alphanumeric();
        mapped
    });
    each.collect()
}

/// The end of a text that a trim works on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
    Both,
}

fn trim<'t>(text: &'t str, set: &str, side: Side) -> &'t str {
    let belongs = |c: char| set.contains(c);
    let text = if side == Side::Right {
        text
    } else {
        text.trim_start_matches(belongs)
    };
    if side == Side::Left {
        text
    } else {
        text.trim_end_matches(belongs)
    }
}

fn trimmed(a: &[Datum], side: Side) -> Result<Datum> {
    let set = match a.get(1) {
        Some(set) => set.str()?,
        None => " ",
    };
    Ok(Datum::text(trim(a[0].str()?, set, side)))
}

fn pad(a: &[Datum], side: Side) -> Result<Datum> {
    let (text, wanted) = (a[0].str()?, a[1].int()?.max(0));
    let fill = match a.get(2) {
        Some(fill) => fill.str()?,
        None => " ",
    };
    let missing = wanted - count(text);
    if missing <= 0 {
        return Ok(Datum::text(substring(text, 1, Some(wanted))?));
    }
    if fill.is_empty() {
        return Ok(Datum::text(text));
    }
    if wanted as usize > size::BYTES_MAX / 4 {
        return Err(size::too_large());
    }
    let filling: String = fill.chars().cycle().take(missing as usize).collect();
    Ok(Datum::text(match side {
        Side::Left => filling + text,
        _ => format!("{text}{filling}"),
    }))
}

/// The place of a text in another, from 1; 0 if it is not there.
fn position(text: &str, part: &str) -> i64 {
    text.find(part).map_or(0, |at| count(&text[..at]) + 1)
}

/// The position after a part, which is an integer too.
pub(super) fn after_of(start: i64, length: i64) -> Result<i64> {
    let after = start
        .checked_add(length)
        .filter(|after| i32::try_from(*after).is_ok());
    after.ok_or_else(|| super::super::cast::out_of_range("integer"))
}

fn overlay(text: &str, new: &str, start: i64, length: i64) -> Result<Datum> {
    if start <= 0 {
        return Err(SqlError::new(
            SqlState::SUBSTRING_ERROR,
            "negative substring length not allowed",
        ));
    }
    let after = after_of(start, length)?;
    let head = substring(text, 1, Some(start - 1))?;
    let tail = substring(text, after, None)?;
    size::check(head.len() + new.len() + tail.len())?;
    Ok(Datum::text([head, new, tail].concat()))
}

fn repeat(text: &str, times: i64) -> Result<Datum> {
    let times = usize::try_from(times).unwrap_or(0);
    size::check(text.len().saturating_mul(times))?;
    Ok(Datum::text(text.repeat(times)))
}

fn replace(text: &str, from: &str, to: &str) -> Result<Datum> {
    if from.is_empty() {
        return Ok(Datum::text(text));
    }
    if to.len() > from.len() {
        let count = text.matches(from).count();
        size::check(text.len() + count.saturating_mul(to.len() - from.len()))?;
    }
    Ok(Datum::text(text.replace(from, to)))
}

/// The first `n` characters, or all but the last `-n`.
fn left(text: &str, n: i64) -> Result<Datum> {
    let length = if n < 0 { (count(text) + n).max(0) } else { n };
    substring(text, 1, Some(length)).map(Datum::text)
}

/// The last `n` characters, or all but the first `-n`.
fn right(text: &str, n: i64) -> Result<Datum> {
    let skipped = if n < 0 { -n } else { (count(text) - n).max(0) };
    substring(text, skipped + 1, None).map(Datum::text)
}

fn split_part(text: &str, delimiter: &str, n: i64) -> Result<Datum> {
    if n == 0 {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "field position must not be zero",
        ));
    }
    if delimiter.is_empty() || text.is_empty() {
        let is_whole = !text.is_empty() && (n == 1 || n == -1);
        return Ok(Datum::text(if is_whole { text } else { "" }));
    }
    let place = (n.unsigned_abs() - 1) as usize;
    let found = if n > 0 {
        text.split(delimiter).nth(place)
    } else {
        let fields: Vec<&str> = text.split(delimiter).collect();
        fields
            .len()
            .checked_sub(place + 1)
            .map(|place| fields[place])
    };
    Ok(Datum::text(found.unwrap_or("")))
}

/// The fields of a text; without a delimiter its characters.
fn fields(a: &[Datum]) -> Result<Vec<Datum>> {
    let text = a[0].str()?;
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let null = match a.get(2) {
        Some(Datum::Null) | None => None,
        Some(null) => Some(null.str()?),
    };
    let field = |field: &str| {
        if Some(field) == null {
            Datum::Null
        } else {
            Datum::text(field)
        }
    };
    Ok(match &a[1] {
        Datum::Null => text
            .split("")
            .filter(|one| !one.is_empty())
            .map(field)
            .collect(),
        delimiter => match delimiter.str()? {
            "" => vec![field(text)],
            delimiter => text.split(delimiter).map(field).collect(),
        },
    })
}

fn to_array(a: &[Datum]) -> Result<Datum> {
    if a[0].is_null() {
        return Ok(Datum::Null);
    }
    Ok(Datum::Array(Arc::new(Array::new(Text, fields(a)?))))
}

fn to_table(a: &[Datum]) -> Result<Rows> {
    let rows = if a[0].is_null() {
        Vec::new()
    } else {
        fields(a)?
    };
    Ok(Box::new(rows.into_iter().map(Ok)))
}

fn translate(text: &str, from: &str, to: &str) -> Result<Datum> {
    let to: Vec<char> = to.chars().collect();
    let each = text
        .chars()
        .filter_map(|c| match from.chars().position(|one| one == c) {
            Some(place) => to.get(place).copied(),
            None => Some(c),
        });
    size::text(each.collect())
}

fn character(code: i64) -> Result<Datum> {
    let bad = |message: String| Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    if code == 0 {
        return bad("null character not permitted".to_owned());
    }
    if code < 0 {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "character number must be positive",
        ));
    }
    match u32::try_from(code).ok().and_then(char::from_u32) {
        Some(character) => Ok(Datum::text(character.to_string())),
        None if code > 0x0010_ffff => bad(format!(
            "requested character too large for encoding: {code}"
        )),
        None => bad(format!(
            "requested character not valid for encoding: {code}"
        )),
    }
}

/// A name in quotes, where it needs them.
pub fn quote_ident(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !super::keyword::is_reserved(name);
    if is_plain {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// A literal of a text.
pub fn quote_literal(text: &str) -> String {
    let escape = if text.contains('\\') { "E" } else { "" };
    format!(
        "{escape}'{}'",
        text.replace('\\', "\\\\").replace('\'', "''")
    )
}

/// `U&'...'`: codes after a backslash.
fn unistr(text: &str) -> Result<Datum> {
    let bad = || {
        SqlError::new(SqlState::SYNTAX_ERROR, "invalid Unicode escape")
            .hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
    };
    let pair = || SqlError::new(SqlState::SYNTAX_ERROR, "invalid Unicode surrogate pair");
    let mut out = String::new();
    let mut rest = text;
    // The first half of a pair, after which the second one must follow.
    let mut high: Option<u32> = None;
    while let Some(character) = rest.chars().next() {
        let after = rest.strip_prefix("\\\\");
        if character != '\\' || after.is_some() {
            if high.is_some() {
                return Err(pair());
            }
            out.push(character);
            rest = after.unwrap_or(&rest[character.len_utf8()..]);
            continue;
        }
        rest = &rest[1..];
        let (skip, digits) = match rest.chars().next() {
            Some('+') => (1, 6),
            Some('u') => (1, 4),
            Some('U') => (1, 8),
            _ => (0, 4),
        };
        let code = rest.get(skip..skip + digits).ok_or_else(bad)?;
        if !code.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let code = u32::from_str_radix(code, 16).map_err(|_| bad())?;
        rest = &rest[skip + digits..];
        match (high.take(), code) {
            (None, 0xd800..0xdc00) => high = Some(code),
            (Some(first), 0xdc00..0xe000) => {
                let code = 0x10000 + ((first - 0xd800) << 10) + (code - 0xdc00);
                out.push(char::from_u32(code).ok_or_else(bad)?);
            }
            (None, 0xdc00..0xe000) | (Some(_), _) => return Err(pair()),
            (None, code) => {
                let character = char::from_u32(code).filter(|character| *character != '\0');
                let message = format!("invalid Unicode code point: {code:04X}");
                out.push(
                    character
                        .ok_or_else(|| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))?,
                );
            }
        }
    }
    if high.is_some() {
        return Err(pair());
    }
    Ok(Datum::text(out))
}

/// The parts of a name with points, without their quotes.
pub fn parse_ident(text: &str, is_strict: bool) -> Result<Vec<String>> {
    let bad = |detail: &str| {
        let error = SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("string is not a valid identifier: \"{text}\""),
        );
        if detail.is_empty() {
            error
        } else {
            error.detail(detail)
        }
    };
    let mut parts = Vec::new();
    let mut rest = text.trim_start();
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut name = String::new();
            let mut characters = quoted.char_indices().peekable();
            let end = loop {
                match characters.next() {
                    Some((_, '"')) if characters.peek().is_some_and(|(_, c)| *c == '"') => {
                        characters.next();
                        name.push('"');
                    }
                    Some((at, '"')) => break at,
                    Some((_, other)) => name.push(other),
                    None => return Err(bad("String has unclosed double quotes.")),
                }
            };
            if name.is_empty() {
                return Err(bad("Quoted identifier must not be empty."));
            }
            parts.push(name);
            rest = &quoted[end + 1..];
        } else {
            let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            if end == 0 || rest.starts_with(|c: char| c.is_ascii_digit() || c == '$') {
                return Err(match rest.chars().next() {
                    Some('.') => bad("No valid identifier before \".\"."),
                    _ if text.trim_end().ends_with('.') => bad("No valid identifier after \".\"."),
                    _ => bad(""),
                });
            }
            parts.push(rest[..end].to_lowercase());
            rest = &rest[end..];
        }
        rest = rest.trim_start();
        match rest.strip_prefix('.') {
            Some(after) => rest = after.trim_start(),
            None if rest.is_empty() || !is_strict => return Ok(parts),
            None => return Err(bad("")),
        }
    }
}

fn ident_array(a: &[Datum]) -> Result<Datum> {
    let is_strict = match a.get(1) {
        Some(strict) => strict.bool()?,
        None => true,
    };
    let parts = parse_ident(a[0].str()?, is_strict)?;
    let parts = parts.into_iter().map(Datum::text).collect();
    Ok(Datum::Array(Arc::new(Array::new(Text, parts))))
}

/// Hexadecimal digits of the bits of a number.
fn to_hex(a: &[Datum]) -> Result<Datum> {
    Ok(Datum::text(match &a[0] {
        Datum::Int4(value) => format!("{value:x}"),
        other => format!("{:x}", other.int()?),
    }))
}

/// The table.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::scalar("length", &[Text], Int4, |_, a| int(count(a[0].str()?))),
    Function::scalar("length", &[Bpchar], Int4, |_, a| {
        int(count(without_blanks(a[0].str()?)))
    }),
    Function::scalar("char_length", &[Text], Int4, |_, a| int(count(a[0].str()?))),
    Function::scalar("char_length", &[Bpchar], Int4, |_, a| {
        int(count(without_blanks(a[0].str()?)))
    }),
    Function::scalar("character_length", &[Text], Int4, |_, a| {
        int(count(a[0].str()?))
    }),
    Function::scalar("character_length", &[Bpchar], Int4, |_, a| {
        int(count(without_blanks(a[0].str()?)))
    }),
    Function::scalar("octet_length", &[Text], Int4, |_, a| {
        int(a[0].str()?.len() as i64)
    }),
    Function::scalar("octet_length", &[Bpchar], Int4, |_, a| {
        int(a[0].str()?.len() as i64)
    }),
    Function::scalar("bit_length", &[Text], Int4, |_, a| {
        int(a[0].str()?.len() as i64 * 8)
    }),
    Function::scalar("lower", &[Text], Text, |_, a| {
        Ok(Datum::text(lower(a[0].str()?)))
    }),
    Function::scalar("upper", &[Text], Text, |_, a| {
        Ok(Datum::text(upper(a[0].str()?)))
    }),
    Function::scalar("initcap", &[Text], Text, |_, a| {
        Ok(Datum::text(capitals(a[0].str()?)))
    }),
    Function::scalar("btrim", &[Text, Text], Text, |_, a| trimmed(a, Side::Both)).defaults(1),
    Function::scalar("ltrim", &[Text, Text], Text, |_, a| trimmed(a, Side::Left)).defaults(1),
    Function::scalar("rtrim", &[Text, Text], Text, |_, a| trimmed(a, Side::Right)).defaults(1),
    Function::scalar("lpad", &[Text, Int4, Text], Text, |_, a| pad(a, Side::Left)).defaults(1),
    Function::scalar("rpad", &[Text, Int4, Text], Text, |_, a| {
        pad(a, Side::Right)
    })
    .defaults(1),
    Function::scalar("substring", &[Text, Int4], Text, |_, a| {
        substring(a[0].str()?, a[1].int()?, None).map(Datum::text)
    }),
    Function::scalar("substring", &[Text, Int4, Int4], Text, |_, a| {
        substring(a[0].str()?, a[1].int()?, Some(a[2].int()?)).map(Datum::text)
    }),
    Function::scalar("substr", &[Text, Int4], Text, |_, a| {
        substring(a[0].str()?, a[1].int()?, None).map(Datum::text)
    }),
    Function::scalar("substr", &[Text, Int4, Int4], Text, |_, a| {
        substring(a[0].str()?, a[1].int()?, Some(a[2].int()?)).map(Datum::text)
    }),
    Function::scalar("position", &[Text, Text], Int4, |_, a| {
        int(position(a[0].str()?, a[1].str()?))
    }),
    Function::scalar("strpos", &[Text, Text], Int4, |_, a| {
        int(position(a[0].str()?, a[1].str()?))
    }),
    Function::scalar("overlay", &[Text, Text, Int4], Text, |_, a| {
        overlay(a[0].str()?, a[1].str()?, a[2].int()?, count(a[1].str()?))
    }),
    Function::scalar("overlay", &[Text, Text, Int4, Int4], Text, |_, a| {
        overlay(a[0].str()?, a[1].str()?, a[2].int()?, a[3].int()?)
    }),
    Function::scalar("replace", &[Text, Text, Text], Text, |_, a| {
        replace(a[0].str()?, a[1].str()?, a[2].str()?)
    }),
    Function::scalar("repeat", &[Text, Int4], Text, |_, a| {
        repeat(a[0].str()?, a[1].int()?)
    }),
    Function::scalar("reverse", &[Text], Text, |_, a| {
        Ok(Datum::text(a[0].str()?.chars().rev().collect::<String>()))
    }),
    Function::scalar("left", &[Text, Int4], Text, |_, a| {
        left(a[0].str()?, a[1].int()?)
    }),
    Function::scalar("right", &[Text, Int4], Text, |_, a| {
        right(a[0].str()?, a[1].int()?)
    }),
    Function::scalar("split_part", &[Text, Text, Int4], Text, |_, a| {
        split_part(a[0].str()?, a[1].str()?, a[2].int()?)
    }),
    Function::scalar(
        "string_to_array",
        &[Text, Text],
        Kind::Array(&Text),
        |_, a| to_array(a),
    )
    .nullable(),
    Function::scalar(
        "string_to_array",
        &[Text, Text, Text],
        Kind::Array(&Text),
        |_, a| to_array(a),
    )
    .nullable(),
    Function::set("string_to_table", &[Text, Text, Text], Text, |_, a| {
        to_table(a)
    })
    .nullable()
    .defaults(1),
    Function::scalar("translate", &[Text, Text, Text], Text, |_, a| {
        translate(a[0].str()?, a[1].str()?, a[2].str()?)
    }),
    Function::scalar("starts_with", &[Text, Text], Bool, |_, a| {
        Ok(Datum::Bool(a[0].str()?.starts_with(a[1].str()?)))
    }),
    Function::scalar("array_subscript", &[Name, Int4], Char, |_, a| {
        let at = usize::try_from(a[1].int()?).ok();
        let one = at.and_then(|at| a[0].str().ok()?.get(at..=at));
        Ok(one.map_or(Datum::Null, Datum::text))
    }),
    Function::scalar("ascii", &[Text], Int4, |_, a| {
        int(a[0]
            .str()?
            .chars()
            .next()
            .map_or(0, |c| i64::from(u32::from(c))))
    }),
    Function::scalar("chr", &[Int4], Text, |_, a| character(a[0].int()?)),
    Function::scalar("to_hex", &[Int4], Text, |_, a| to_hex(a)),
    Function::scalar("to_hex", &[Int8], Text, |_, a| to_hex(a)),
    Function::scalar("md5", &[Text], Text, |_, a| {
        Ok(Datum::text(digest::hex(&digest::md5(
            a[0].str()?.as_bytes(),
        ))))
    }),
    // Programs lock names by them: `pg_advisory_lock(hashtext('name'))`.
    Function::scalar("hashtext", &[Text], Int4, |_, a| {
        let hash = hash::of_bytes(a[0].str()?.as_bytes(), 0);
        Ok(Datum::Int4((hash as u32).cast_signed()))
    }),
    Function::scalar("hashtextextended", &[Text, Int8], Int8, |_, a| {
        let seed = a[1].int()?.cast_unsigned();
        let hash = hash::of_bytes(a[0].str()?.as_bytes(), seed);
        Ok(Datum::Int8(hash.cast_signed()))
    }),
    Function::scalar("hashint4", &[Int4], Int4, |_, a| {
        let hash = hash::of_word((a[0].int()? as i32).cast_unsigned(), 0);
        Ok(Datum::Int4((hash as u32).cast_signed()))
    }),
    Function::scalar("quote_ident", &[Text], Text, |_, a| {
        size::text(quote_ident(a[0].str()?))
    }),
    Function::scalar("quote_literal", &[Text], Text, |_, a| {
        size::text(quote_literal(a[0].str()?))
    }),
    Function::scalar("quote_literal", &[Kind::AnyElement], Text, |context, a| {
        let text = super::super::operator::text::as_text(context, a, 0)?;
        size::text(quote_literal(text.str()?))
    })
    .stable(),
    Function::scalar("quote_nullable", &[Text], Text, |_, a| {
        size::text(match &a[0] {
            Datum::Null => "NULL".to_owned(),
            text => quote_literal(text.str()?),
        })
    })
    .nullable(),
    Function::scalar("quote_nullable", &[Kind::AnyElement], Text, |context, a| {
        if a[0].is_null() {
            return Ok(Datum::text("NULL"));
        }
        let text = super::super::operator::text::as_text(context, a, 0)?;
        size::text(quote_literal(text.str()?))
    })
    .nullable()
    .stable(),
    Function::scalar("unistr", &[Text], Text, |_, a| unistr(a[0].str()?)),
    Function::scalar("parse_ident", &[Text, Bool], Kind::Array(&Text), |_, a| {
        ident_array(a)
    })
    .defaults(1),
    Function::scalar("textcat", &[Text, Text], Text, |_, a| {
        super::super::operator::text::joined(a[0].str()?, a[1].str()?)
    }),
];
