//! Columns of a result, and the values of the row that a statement stands at.
//!
//! Columns count from 0. A value is returned by the call of its type; any value is returned as the
//! text that SQL prints. NULL has a type of its own: numbers are 0 then, and texts NULL.

use crate::code::{
    INDELIBLE_BOOLEAN, INDELIBLE_BYTES, INDELIBLE_DECIMAL, INDELIBLE_FLOAT, INDELIBLE_INTEGER,
    INDELIBLE_MISMATCH, INDELIBLE_NULL, INDELIBLE_OK, INDELIBLE_TEXT, INDELIBLE_TIMESTAMP,
    INDELIBLE_UUID,
};
use crate::edge::out;
use crate::failure::Failure;
use crate::handle::indelible_statement;
use crate::statement::{EPOCH_MICROS, Statement, with};
use sql::SqlState;
use sql::types::datetime::calendar::is_finite;
use sql::types::{Datum, text_io};
use std::ffi::{c_char, c_int};
use std::ptr;

/// The number of columns of the result; 0 if there is none, or if only a step tells (SHOW, FETCH).
#[unsafe(no_mangle)]
pub extern "C" fn indelible_column_count(
    statement: *mut indelible_statement,
    count: *mut c_int,
) -> c_int {
    with(statement, |statement| {
        out(count, "count")?.set(statement.column_count());
        Ok(INDELIBLE_OK)
    })
}

/// The name of a column; valid until the statement is stepped or finalized.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_column_name(
    statement: *mut indelible_statement,
    column: c_int,
    name: *mut *const c_char,
) -> c_int {
    with(statement, |statement| {
        out(name, "name")?.set(statement.column(column)?.1.as_ptr());
        Ok(INDELIBLE_OK)
    })
}

/// The number that PostgreSQL gives the type of a column: 20 is bigint, 25 is text.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_column_oid(
    statement: *mut indelible_statement,
    column: c_int,
    oid: *mut u32,
) -> c_int {
    with(statement, |statement| {
        out(oid, "oid")?.set(statement.column(column)?.0.data_type.kind.oid());
        Ok(INDELIBLE_OK)
    })
}

/// The type of the value of a column in this row: INDELIBLE_NULL, INDELIBLE_INTEGER and so on.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_column_type(
    statement: *mut indelible_statement,
    column: c_int,
    value_type: *mut c_int,
) -> c_int {
    with(statement, |statement| {
        out(value_type, "value_type")?.set(type_of(statement.value(column)?));
        Ok(INDELIBLE_OK)
    })
}

fn type_of(value: &Datum) -> c_int {
    match value {
        Datum::Null => INDELIBLE_NULL,
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) | Datum::Oid(_) => INDELIBLE_INTEGER,
        Datum::Float4(_) | Datum::Float8(_) => INDELIBLE_FLOAT,
        Datum::Bytea(_) => INDELIBLE_BYTES,
        Datum::Bool(_) => INDELIBLE_BOOLEAN,
        Datum::Numeric(_) => INDELIBLE_DECIMAL,
        Datum::Timestamp(_) | Datum::Timestamptz(_) => INDELIBLE_TIMESTAMP,
        Datum::Uuid(_) => INDELIBLE_UUID,
        _ => INDELIBLE_TEXT,
    }
}

/// An integer or a boolean.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_column_i64(
    statement: *mut indelible_statement,
    column: c_int,
    value: *mut i64,
) -> c_int {
    with(statement, |statement| {
        let place = out(value, "value")?;
        place.set(match statement.value(column)? {
            Datum::Null => 0,
            Datum::Bool(value) => i64::from(*value),
            other => other
                .int()
                .map_err(|_| mismatch(statement, column, "an integer"))?,
        });
        Ok(INDELIBLE_OK)
    })
}

/// A floating point number. Integers and decimal numbers are converted to the nearest one.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_column_f64(
    statement: *mut indelible_statement,
    column: c_int,
    value: *mut f64,
) -> c_int {
    with(statement, |statement| {
        let place = out(value, "value")?;
        place.set(match statement.value(column)? {
            Datum::Null => 0.0,
            Datum::Float4(value) => f64::from(*value),
            Datum::Float8(value) => *value,
            Datum::Numeric(value) => value.to_f64(),
            #[expect(clippy::cast_precision_loss, reason = "the nearest one is promised")]
            other => other
                .int()
                .map_err(|_| mismatch(statement, column, "a number"))? as f64,
        });
        Ok(INDELIBLE_OK)
    })
}

/// A value of any type as a text in UTF-8 with a zero byte, and its bytes without it; NULL is NULL.
/// value_bytes may be NULL, but not for a text that has a zero byte in it, which tables of the Rust
/// API may have. The text is valid until the statement is stepped, reset or finalized.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_column_text(
    statement: *mut indelible_statement,
    column: c_int,
    value: *mut *const c_char,
    value_bytes: *mut usize,
) -> c_int {
    with(statement, |statement| {
        let place = out(value, "value")?;
        let text = statement.text(column)?;
        if value_bytes.is_null() && text.is_some_and(|text| text.contains(&0)) {
            let message = "the text has a zero byte in it; ask for `value_bytes` as well";
            let state = SqlState::CHARACTER_NOT_IN_REPERTOIRE;
            return Err(Failure::new(INDELIBLE_MISMATCH, state, message));
        }
        place.set(text.map_or(ptr::null(), |text| text.as_ptr().cast()));
        if !value_bytes.is_null() {
            out(value_bytes, "value_bytes")?.set(text.map_or(0, <[u8]>::len));
        }
        Ok(INDELIBLE_OK)
    })
}

/// Bytes of a bytea, or those of a text; NULL is NULL. They are valid until the statement is
/// stepped, reset or finalized.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_column_bytes(
    statement: *mut indelible_statement,
    column: c_int,
    value: *mut *const u8,
    value_bytes: *mut usize,
) -> c_int {
    with(statement, |statement| {
        let (place, length) = (out(value, "value")?, out(value_bytes, "value_bytes")?);
        let (pointer, bytes) = match statement.value(column)? {
            Datum::Null => (ptr::null(), 0),
            Datum::Bytea(content) => (content.as_ptr(), content.len()),
            Datum::Text(content) => (content.as_ptr(), content.len()),
            _ => return Err(mismatch(statement, column, "bytes")),
        };
        place.set(pointer);
        length.set(bytes);
        Ok(INDELIBLE_OK)
    })
}

/// A moment in microseconds since 1970-01-01: UTC, or the clock of a timestamp without a zone. The
/// infinities are INT64_MIN and INT64_MAX.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_column_timestamp(
    statement: *mut indelible_statement,
    column: c_int,
    micros: *mut i64,
) -> c_int {
    with(statement, |statement| {
        let place = out(micros, "micros")?;
        place.set(match statement.value(column)? {
            Datum::Null => 0,
            Datum::Timestamp(micros) | Datum::Timestamptz(micros) if is_finite(*micros) => {
                micros.saturating_add(EPOCH_MICROS)
            }
            Datum::Timestamp(infinity) | Datum::Timestamptz(infinity) => *infinity,
            _ => return Err(mismatch(statement, column, "a timestamp")),
        });
        Ok(INDELIBLE_OK)
    })
}

/// A UUID, as 16 bytes that are written to value. NULL is 16 zeros.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_column_uuid(
    statement: *mut indelible_statement,
    column: c_int,
    value: *mut u8,
) -> c_int {
    with(statement, |statement| {
        let place = out(value.cast::<[u8; 16]>(), "value")?;
        place.set(match statement.value(column)? {
            Datum::Null => [0; 16],
            Datum::Uuid(bytes) => *bytes,
            _ => return Err(mismatch(statement, column, "a UUID")),
        });
        Ok(INDELIBLE_OK)
    })
}

fn mismatch(statement: &Statement, column: c_int, wanted: &str) -> Failure {
    let found = statement.column(column).map_or_else(
        |_| String::new(),
        |(column, _)| format!("`{}` is of type {}", column.name, column.data_type.kind),
    );
    Failure::new(
        INDELIBLE_MISMATCH,
        SqlState::DATATYPE_MISMATCH,
        format!("column {found}, which is not {wanted}; ask for its text"),
    )
}

impl Statement {
    /// A value of the row as a text that lives as long as the row, without the zero byte after it.
    fn text(&mut self, column: c_int) -> Result<Option<&[u8]>, Failure> {
        let value = self.value(column)?.clone();
        if value.is_null() {
            return Ok(None);
        }
        let kind = self.column(column)?.0.data_type.kind;
        let at = usize::try_from(column).unwrap_or_default();
        if self.texts[at].is_none() {
            let mut text = match &value {
                Datum::Text(content) => content.to_string(),
                _ => self.printed(&value, kind)?,
            };
            text.push('\0');
            self.texts[at] = Some(text.into_bytes().into());
        }
        let text = self.texts[at].as_deref();
        Ok(text.map(|text| &text[..text.len() - 1]))
    }

    fn printed(&self, value: &Datum, kind: sql::types::Kind) -> Result<String, Failure> {
        let connection = self.connection();
        let mut client = connection.client()?;
        let context = client.session().context();
        Ok(text_io::print(value, kind, &context)?)
    }
}
