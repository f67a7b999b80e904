//! Functions of bytes, and conversions between bytes and texts.
//!
//! Encodings are hex, escape and base64; texts are UTF-8. Bytes that are no text in the encoding
//! asked for are an error that names the first of them.

use super::super::context::ByteaOutput;
use super::super::datum::Datum;
use super::super::kind::Kind::{Bytea, Int4, Int8, Name, Text};
use super::super::size;
use super::super::text_io::{parse_hex, print_bytea};
use super::{Function, digest};
use crate::error::{Result, SqlError, SqlState};

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Characters of a line of base 64.
const BASE64_LINE: usize = 76;

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// The base64 of bytes, in lines of 76 characters.
pub fn to_base64(bytes: &[u8]) -> String {
    let mut out = String::new();
    let mut line = 0;
    for chunk in bytes.chunks(3) {
        let group = chunk
            .iter()
            .fold(0_u32, |group, byte| (group << 8) | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = BASE64[(group >> (18 - 6 * place)) as usize & 63];
            out.push(if place > chunk.len() {
                '='
            } else {
                char::from(digit)
            });
        }
        line += 4;
        // A line ends as soon as it is full, if its last group is whole.
        if line == BASE64_LINE && chunk.len() == 3 {
            out.push('\n');
            line = 0;
        }
    }
    out
}

pub(crate) fn from_base64(text: &str) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut group = 0_u32;
    let mut count = 0;
    let mut padding = 0;
    for character in text
        .chars()
        .filter(|c| !matches!(c, ' ' | '\t' | '\n' | '\r'))
    {
        let digit = match BASE64
            .iter()
            .position(|digit| char::from(*digit) == character)
        {
            Some(digit) if padding == 0 => digit as u32,
            None if character == '=' && count >= 2 => {
                padding += 1;
                0
            }
            _ if character == '=' || padding > 0 => {
                return Err(invalid("unexpected \"=\" while decoding base64 sequence"));
            }
            _ => {
                return Err(invalid(format!(
                    "invalid symbol \"{character}\" found while decoding base64 sequence"
                )));
            }
        };
        group = (group << 6) | digit;
        count += 1;
        if count == 4 {
            out.extend(&group.to_be_bytes()[1..4 - padding]);
            group = 0;
            count = 0;
        }
    }
    if count != 0 {
        return Err(invalid("invalid base64 end sequence")
            .hint("Input data is missing padding, is truncated, or is otherwise corrupted."));
    }
    Ok(out)
}

fn encode(bytes: &[u8], format: &str) -> Result<Datum> {
    size::text(match format.to_ascii_lowercase().as_str() {
        "hex" => digest::hex(bytes),
        "base64" => to_base64(bytes),
        "escape" => {
            // Here only zeros and bytes beyond ASCII are escaped.
            let mut out = String::new();
            for byte in bytes {
                match byte {
                    0 | 0x80.. => print_bytea(&mut out, &[*byte], ByteaOutput::Escape),
                    b'\\' => out.push_str("\\\\"),
                    byte => out.push(char::from(*byte)),
                }
            }
            out
        }
        _ => return Err(invalid(format!("unrecognized encoding: \"{format}\""))),
    })
}

fn decode(text: &str, format: &str) -> Result<Datum> {
    match format.to_ascii_lowercase().as_str() {
        "hex" => parse_hex(text).map(Datum::bytes),
        "base64" => from_base64(text).map(Datum::bytes),
        "escape" => super::super::text_io::parse_escaped(text).map(Datum::bytes),
        _ => Err(invalid(format!("unrecognized encoding: \"{format}\""))),
    }
}

/// The encodings that texts can be converted from and to.
fn encoding(name: &str) -> Result<bool> {
    let plain: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    match plain.as_str() {
        "utf8" | "unicode" | "sqlascii" => Ok(true),
        "latin1" | "iso88591" => Ok(false),
        _ => Err(SqlError::unsupported(
            format!("encoding \"{name}\""),
            "Use UTF8 or LATIN1.",
        )),
    }
}

fn convert_from(bytes: &[u8], name: &str) -> Result<Datum> {
    if !encoding(name)? {
        if bytes.contains(&0) {
            return Err(SqlError::new(
                SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                "invalid byte sequence for encoding \"LATIN1\": 0x00",
            ));
        }
        return Ok(Datum::text(
            bytes
                .iter()
                .map(|byte| char::from(*byte))
                .collect::<String>(),
        ));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(Datum::text(text)),
        found => {
            let valid = found.map_or_else(|error| error.valid_up_to(), str::len);
            let at = bytes[..valid]
                .iter()
                .position(|byte| *byte == 0)
                .unwrap_or(valid);
            Err(SqlError::new(
                SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                format!(
                    "invalid byte sequence for encoding \"UTF8\": 0x{:02x}",
                    bytes[at]
                ),
            ))
        }
    }
}

fn convert_to(text: &str, name: &str) -> Result<Datum> {
    if encoding(name)? {
        return Ok(Datum::bytes(text.as_bytes()));
    }
    let bytes = text.chars().map(|c| {
        u8::try_from(u32::from(c)).map_err(|_| {
            SqlError::new(
                SqlState::UNTRANSLATABLE_CHARACTER,
                format!("character \"{c}\" of encoding \"UTF8\" has no equivalent in encoding \"LATIN1\""),
            )
        })
    });
    bytes.collect::<Result<Vec<u8>>>().map(Datum::bytes)
}

/// A place in bytes or bits.
fn place(index: i64, count: usize) -> Result<usize> {
    usize::try_from(index)
        .ok()
        .filter(|index| *index < count)
        .ok_or_else(|| {
            SqlError::new(
                SqlState::ARRAY_SUBSCRIPT_ERROR,
                format!("index {index} out of valid range, 0..{}", count as i64 - 1),
            )
        })
}

fn get_bit(a: &[Datum]) -> Result<Datum> {
    let bytes = a[0].bytea()?;
    let at = place(a[1].int()?, bytes.len() * 8)?;
    Ok(Datum::Int4(i32::from(bytes[at / 8] >> (at % 8) & 1)))
}

fn set_bit(a: &[Datum]) -> Result<Datum> {
    let mut bytes = a[0].bytea()?.to_vec();
    let at = place(a[1].int()?, bytes.len() * 8)?;
    match a[2].int()? {
        0 => bytes[at / 8] &= !(1 << (at % 8)),
        1 => bytes[at / 8] |= 1 << (at % 8),
        _ => return Err(invalid("new bit must be 0 or 1")),
    }
    Ok(Datum::bytes(bytes))
}

fn get_byte(a: &[Datum]) -> Result<Datum> {
    let bytes = a[0].bytea()?;
    Ok(Datum::Int4(i32::from(
        bytes[place(a[1].int()?, bytes.len())?],
    )))
}

fn set_byte(a: &[Datum]) -> Result<Datum> {
    let mut bytes = a[0].bytea()?.to_vec();
    let at = place(a[1].int()?, bytes.len())?;
    bytes[at] = a[2].int()? as u8;
    Ok(Datum::bytes(bytes))
}

/// The bytes from `start`, which may lie before them, so many of them.
fn substring(bytes: &[u8], start: i64, length: Option<i64>) -> Result<&[u8]> {
    if length.is_some_and(|length| length < 0) {
        return Err(SqlError::new(
            SqlState::SUBSTRING_ERROR,
            "negative substring length not allowed",
        ));
    }
    let end = length.map_or(i64::MAX, |length| start.saturating_add(length));
    let limit = bytes.len() as i64;
    let from = (start.max(1) - 1).min(limit) as usize;
    let to = (end.max(1) - 1).min(limit) as usize;
    Ok(&bytes[from..to.max(from)])
}

fn position(bytes: &[u8], part: &[u8]) -> i32 {
    if part.is_empty() {
        return 1;
    }
    let found = bytes.windows(part.len()).position(|window| window == part);
    found.map_or(0, |at| at as i32 + 1)
}

fn overlay(a: &[Datum]) -> Result<Datum> {
    let (bytes, new, start) = (a[0].bytea()?, a[1].bytea()?, a[2].int()?);
    let length = a.get(3).map_or(Ok(new.len() as i64), Datum::int)?;
    if start <= 0 {
        return Err(SqlError::new(
            SqlState::SUBSTRING_ERROR,
            "negative substring length not allowed",
        ));
    }
    let head = substring(bytes, 1, Some(start - 1))?;
    let tail = substring(bytes, super::string::after_of(start, length)?, None)?;
    size::check(head.len() + new.len() + tail.len())?;
    Ok(Datum::bytes([head, new, tail].concat()))
}

/// The hash of some bytes by a function that is named, as `pgcrypto` has it.
fn digested(bytes: &[u8], name: &str) -> Result<Datum> {
    Ok(Datum::bytes(match name.to_lowercase().as_str() {
        "md5" => digest::md5(bytes).to_vec(),
        "sha224" => digest::sha224(bytes),
        "sha256" => digest::sha256(bytes),
        "sha384" => digest::sha384(bytes),
        "sha512" => digest::sha512(bytes),
        _ => {
            let message = format!("Cannot use \"{name}\": No such hash algorithm");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    }))
}

fn trim(a: &[Datum], at_start: bool, at_end: bool) -> Result<Datum> {
    let (mut bytes, set) = (a[0].bytea()?, a[1].bytea()?);
    while let [first, rest @ ..] = bytes
        && at_start
        && set.contains(first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && at_end
        && set.contains(last)
    {
        bytes = rest;
    }
    Ok(Datum::bytes(bytes))
}

fn int(value: usize) -> Result<Datum> {
    super::super::cast::integer(value as i64, Int4)
}

/// The table.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::scalar("length", &[Bytea], Int4, |_, a| int(a[0].bytea()?.len())),
    Function::scalar("octet_length", &[Bytea], Int4, |_, a| {
        int(a[0].bytea()?.len())
    }),
    Function::scalar("bit_length", &[Bytea], Int4, |_, a| {
        int(a[0].bytea()?.len() * 8)
    }),
    Function::scalar("length", &[Bytea, Name], Int4, |_, a| {
        let text = convert_from(a[0].bytea()?, a[1].str()?)?;
        int(text.str()?.chars().count())
    }),
    Function::scalar("bit_count", &[Bytea], Int8, |_, a| {
        let ones = a[0]
            .bytea()?
            .iter()
            .map(|byte| i64::from(byte.count_ones()));
        Ok(Datum::Int8(ones.sum()))
    }),
    Function::scalar("encode", &[Bytea, Text], Text, |_, a| {
        encode(a[0].bytea()?, a[1].str()?)
    }),
    Function::scalar("decode", &[Text, Text], Bytea, |_, a| {
        decode(a[0].str()?, a[1].str()?)
    }),
    Function::scalar("convert_from", &[Bytea, Name], Text, |_, a| {
        convert_from(a[0].bytea()?, a[1].str()?)
    }),
    Function::scalar("convert_to", &[Text, Name], Bytea, |_, a| {
        convert_to(a[0].str()?, a[1].str()?)
    }),
    Function::scalar("get_bit", &[Bytea, Int8], Int4, |_, a| get_bit(a)),
    Function::scalar("set_bit", &[Bytea, Int8, Int4], Bytea, |_, a| set_bit(a)),
    Function::scalar("get_byte", &[Bytea, Int4], Int4, |_, a| get_byte(a)),
    Function::scalar("set_byte", &[Bytea, Int4, Int4], Bytea, |_, a| set_byte(a)),
    Function::scalar("substring", &[Bytea, Int4], Bytea, |_, a| {
        substring(a[0].bytea()?, a[1].int()?, None).map(Datum::bytes)
    }),
    Function::scalar("substring", &[Bytea, Int4, Int4], Bytea, |_, a| {
        substring(a[0].bytea()?, a[1].int()?, Some(a[2].int()?)).map(Datum::bytes)
    }),
    Function::scalar("substr", &[Bytea, Int4], Bytea, |_, a| {
        substring(a[0].bytea()?, a[1].int()?, None).map(Datum::bytes)
    }),
    Function::scalar("substr", &[Bytea, Int4, Int4], Bytea, |_, a| {
        substring(a[0].bytea()?, a[1].int()?, Some(a[2].int()?)).map(Datum::bytes)
    }),
    Function::scalar("position", &[Bytea, Bytea], Int4, |_, a| {
        Ok(Datum::Int4(position(a[0].bytea()?, a[1].bytea()?)))
    }),
    Function::scalar("overlay", &[Bytea, Bytea, Int4], Bytea, |_, a| overlay(a)),
    Function::scalar("overlay", &[Bytea, Bytea, Int4, Int4], Bytea, |_, a| {
        overlay(a)
    }),
    Function::scalar("btrim", &[Bytea, Bytea], Bytea, |_, a| trim(a, true, true)),
    Function::scalar("ltrim", &[Bytea, Bytea], Bytea, |_, a| trim(a, true, false)),
    Function::scalar("rtrim", &[Bytea, Bytea], Bytea, |_, a| trim(a, false, true)),
    Function::scalar("md5", &[Bytea], Text, |_, a| {
        Ok(Datum::text(digest::hex(&digest::md5(a[0].bytea()?))))
    }),
    Function::scalar("digest", &[Bytea, Text], Bytea, |_, a| {
        digested(a[0].bytea()?, a[1].str()?)
    }),
    Function::scalar("digest", &[Text, Text], Bytea, |_, a| {
        digested(a[0].str()?.as_bytes(), a[1].str()?)
    }),
    Function::scalar("sha224", &[Bytea], Bytea, |_, a| {
        Ok(Datum::bytes(digest::sha224(a[0].bytea()?)))
    }),
    Function::scalar("sha256", &[Bytea], Bytea, |_, a| {
        Ok(Datum::bytes(digest::sha256(a[0].bytea()?)))
    }),
    Function::scalar("sha384", &[Bytea], Bytea, |_, a| {
        Ok(Datum::bytes(digest::sha384(a[0].bytea()?)))
    }),
    Function::scalar("sha512", &[Bytea], Bytea, |_, a| {
        Ok(Datum::bytes(digest::sha512(a[0].bytea()?)))
    }),
];
