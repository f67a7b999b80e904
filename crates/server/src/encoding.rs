//! Texts of clients in other encodings than UTF-8.
//!
//! Encodings have a byte a character, so the parts of a COPY are converted one by one, wherever a
//! client cuts them. Values in binary are converted where they are texts. Those that have texts in
//! them, such as arrays, are refused in binary: nothing tells their texts from their numbers.

use sql::types::kind::Category;
use sql::types::{Context, Datum, Kind, binary_io};
use sql::{CopyShape, Encoding, SqlError, SqlState};
use std::borrow::Cow;

/// A text of a client.
pub(crate) fn text_of<'a>(
    bytes: &'a [u8],
    encoding: Option<&Encoding>,
) -> Result<Cow<'a, str>, SqlError> {
    match encoding {
        None => utf8(bytes).map(Cow::Borrowed),
        Some(encoding) => encoding.decode(bytes).map(Cow::Owned),
    }
}

/// Appends a text of a value.
#[inline]
pub(crate) fn print_text(
    out: &mut Vec<u8>,
    text: &str,
    encoding: Option<&Encoding>,
) -> Result<(), SqlError> {
    match encoding {
        None => {
            out.extend_from_slice(text.as_bytes());
            Ok(())
        }
        Some(encoding) => encoding.encode(text, out),
    }
}

/// The parts that a type in binary has.
enum Parts {
    /// Numbers alone.
    Numbers,
    /// A text alone.
    Text,
    /// Texts beside numbers.
    Both,
}

fn parts_of(kind: Kind) -> Parts {
    let has_texts = |kind: Kind| {
        matches!(kind, Kind::Json | Kind::Jsonb | Kind::Refcursor)
            || matches!(kind.category(), Category::String | Category::Enum)
            || matches!(kind, Kind::Char | Kind::Unknown | Kind::NodeTree)
    };
    match (kind, kind.element()) {
        (Kind::Record | Kind::Composite(_), _) => Parts::Both,
        (_, Some(element)) if has_texts(element) => Parts::Both,
        (_, Some(Kind::Record | Kind::Composite(_))) => Parts::Both,
        _ if has_texts(kind) => Parts::Text,
        _ => Parts::Numbers,
    }
}

fn refused(kind: Kind, encoding: &Encoding) -> SqlError {
    let found = format!("type {kind} in binary in the encoding {}", encoding.name);
    SqlError::unsupported(found, "Ask for it as text, or set client_encoding to UTF8.")
}

/// Appends a value in binary.
pub(crate) fn print_binary(
    out: &mut Vec<u8>,
    (value, kind): (&Datum, Kind),
    encoding: &Encoding,
    context: &Context<'_>,
) -> Result<(), SqlError> {
    match parts_of(kind) {
        Parts::Numbers => binary_io::print(out, value, kind, context),
        Parts::Both => Err(refused(kind, encoding)),
        Parts::Text => {
            let mut text = Vec::new();
            binary_io::print(&mut text, value, kind, context)?;
            encoding.encode(utf8(&text)?, out)
        }
    }
}

/// The value of bytes in binary.
pub(crate) fn parse_binary(
    bytes: &[u8],
    kind: Kind,
    encoding: &Encoding,
    context: &Context<'_>,
) -> Result<Datum, SqlError> {
    match parts_of(kind) {
        Parts::Numbers => binary_io::parse(kind, bytes, context),
        Parts::Both => Err(refused(kind, encoding)),
        Parts::Text => binary_io::parse(kind, encoding.decode(bytes)?.as_bytes(), context),
    }
}

/// Fails for a COPY in binary, whose texts nothing tells from its numbers.
pub(crate) fn check_copy(copy: &CopyShape, encoding: Option<&Encoding>) -> Result<(), SqlError> {
    let Some(encoding) = encoding.filter(|_| copy.is_binary) else {
        return Ok(());
    };
    let found = format!("COPY in binary in the encoding {}", encoding.name);
    Err(SqlError::unsupported(found, "Set client_encoding to UTF8."))
}

/// A text in UTF-8.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, SqlError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let wrong = &bytes[error.valid_up_to()..];
        let shown: Vec<String> = wrong
            .iter()
            .take(error.error_len().unwrap_or(wrong.len()))
            .map(|byte| format!("0x{byte:02x}"))
            .collect();
        let message = format!(
            "invalid byte sequence for encoding \"UTF8\": {}",
            shown.join(" ")
        );
        SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
    })
}
