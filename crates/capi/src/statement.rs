//! Prepared statements: preparing, binding, stepping.
//!
//! ```text
//! prepare -> bind -> step -> ROW -> column -> step ... -> DONE -> step begins anew
//!                                                     \-> reset -> bind ...
//! ```
//!
//! A statement keeps a copy of its bound values and the batch of rows that it stands in. Its lock
//! is taken before that of its connection, and both only if they are free.

use crate::code::{INDELIBLE_DONE, INDELIBLE_OK, INDELIBLE_ROW};
use crate::edge::{bytes, call, out, text, utf8};
use crate::failure::Failure;
use crate::handle::{self, Connection, Object, alone, indelible_connection, indelible_statement};
use client::{Executed, Placeholders, ResultId, TypedClient, Value};
use sql::types::datetime::calendar::{
    DAY, INFINITY, NEGATIVE_INFINITY, UNIX_EPOCH_DAYS, is_valid, timestamp_out_of_range,
};
use sql::types::{Datum, Numeric};
use sql::{Batch, OutputColumn};
use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Microseconds from 1970, where C counts from, to 2000, where SQL does.
pub(crate) const EPOCH_MICROS: i64 = UNIX_EPOCH_DAYS * DAY;

/// A prepared statement.
pub(crate) struct Statement {
    connection: Arc<Connection>,
    placeholders: Placeholders,
    values: Vec<Value>,
    columns: Vec<(OutputColumn, CString)>,
    running: Option<Running>,
    /// Texts of the row's columns that were asked for, each with a zero byte after it.
    pub(crate) texts: Vec<Option<Box<[u8]>>>,
}

/// A statement between its first step and its end.
struct Running {
    result: Option<ResultId>,
    batch: Batch,
    /// Rows of the batch that were handed out.
    taken: usize,
}

impl Statement {
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The number of columns, as far as it is known.
    pub(crate) fn column_count(&self) -> c_int {
        c_int::try_from(self.columns.len()).unwrap_or(c_int::MAX)
    }

    /// The value of a column of the row.
    pub(crate) fn value(&self, column: c_int) -> Result<&Datum, Failure> {
        let row = self.running.as_ref().filter(|running| running.taken > 0);
        let row = row.ok_or_else(|| {
            Failure::misuse("the statement has no row: its last step did not return INDELIBLE_ROW")
        })?;
        let at = self.column_at(column)?;
        Ok(&row.batch.row(row.taken - 1)[at])
    }

    /// A column of the result.
    pub(crate) fn column(&self, column: c_int) -> Result<&(OutputColumn, CString), Failure> {
        Ok(&self.columns[self.column_at(column)?])
    }

    fn column_at(&self, column: c_int) -> Result<usize, Failure> {
        let count = self.columns.len();
        let at = usize::try_from(column).ok().filter(|at| *at < count);
        at.ok_or_else(|| {
            Failure::range(format!(
                "there is no column {column}; the result has {count}, from 0"
            ))
        })
    }

    fn bind(&mut self, parameter: c_int, value: Datum) -> Result<c_int, Failure> {
        if self.running.is_some() {
            let message = "the statement is running; reset it before values are bound";
            return Err(Failure::misuse(message));
        }
        let count = self.values.len();
        let at = usize::try_from(parameter)
            .ok()
            .filter(|at| (1..=count).contains(at));
        let at = at.ok_or_else(|| {
            let message =
                format!("there is no parameter {parameter}; the statement has {count}, from 1");
            Failure::range(message)
        })?;
        self.values[at - 1] = Value::One(value);
        Ok(INDELIBLE_OK)
    }

    fn step(&mut self) -> Result<c_int, Failure> {
        let connection = Arc::clone(&self.connection);
        let mut client = connection.client()?;
        let stepped = self.step_with(&mut client);
        if !matches!(stepped, Ok(INDELIBLE_ROW)) {
            self.end(&mut client)?;
        }
        stepped
    }

    fn step_with(&mut self, client: &mut TypedClient) -> Result<c_int, Failure> {
        self.texts.clear();
        if self.running.is_none() {
            let done = client.execute(&self.placeholders.text, self.values.clone())?;
            self.connection.keep_changes(&done.completion);
            let columns = done.columns.as_deref().unwrap_or_default();
            if !self.columns.iter().map(|(column, _)| column).eq(columns) {
                self.columns = named(columns);
            }
            self.running = Some(Running {
                result: done.result,
                batch: done.rows,
                taken: 0,
            });
        }
        let Some(running) = &mut self.running else {
            return Ok(INDELIBLE_DONE);
        };
        if running.taken == running.batch.len() {
            let next = running.result.map(|result| client.next_batch(result));
            match next.transpose()?.flatten() {
                Some(batch) => running.batch = batch,
                None => return Ok(INDELIBLE_DONE),
            }
            running.taken = 0;
        }
        running.taken += 1;
        self.texts.resize(self.columns.len(), None);
        Ok(INDELIBLE_ROW)
    }

    /// Runs the statement as far as its first rows, for a reader of its own.
    pub(crate) fn run_whole(&mut self) -> Result<(Arc<Connection>, Executed), Failure> {
        if self.running.is_some() {
            let message = "the statement is running; reset it before its rows become a stream";
            return Err(Failure::misuse(message));
        }
        let connection = Arc::clone(&self.connection);
        let done = connection
            .client()?
            .execute(&self.placeholders.text, self.values.clone())?;
        Ok((connection, done))
    }

    /// Ends what runs; bound values stay.
    fn end(&mut self, client: &mut TypedClient) -> Result<(), Failure> {
        self.texts.clear();
        let result = self.running.take().and_then(|running| running.result);
        Ok(result.map_or(Ok(()), |result| client.close(result))?)
    }
}

fn named(columns: &[OutputColumn]) -> Vec<(OutputColumn, CString)> {
    let named = columns.iter().map(|column| {
        let name = CString::new(column.name.as_str()).unwrap_or_default();
        (column.clone(), name)
    });
    named.collect()
}

/// Runs the body of a call with a statement, whose connection keeps the error.
pub(crate) fn with(
    statement: *mut indelible_statement,
    body: impl FnOnce(&mut Statement) -> Result<c_int, Failure>,
) -> c_int {
    let found = match handle::statement(statement) {
        Ok(found) => found,
        Err(failure) => return call(None, || Err(failure)),
    };
    let mut alone = match alone(&found, "statement") {
        Ok(alone) => alone,
        Err(failure) => return call(None, || Err(failure)),
    };
    let connection = Arc::clone(&alone.connection);
    let code = call(Some(&connection), || body(&mut alone));
    drop(alone);
    released((found, connection));
    code
}

/// Drops objects whose handle may be closed, and which may be the last to hold them: nothing may
/// unwind into C. The failure of an end that nobody waits for is nobody's.
pub(crate) fn released<T>(objects: T) {
    let _ = call(None, || {
        drop(objects);
        Ok(INDELIBLE_OK)
    });
}

/// Prepares the first statement of a text of sql_bytes bytes, or up to its zero byte if sql_bytes
/// is negative. Parameters are written $1, ? or :name. *tail, if tail is not NULL, is the rest of
/// the text. *statement is NULL if there is no statement but blanks and comments, and on an error.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_prepare(
    connection: *mut indelible_connection,
    sql: *const c_char,
    sql_bytes: i64,
    statement: *mut *mut indelible_statement,
    tail: *mut *const c_char,
) -> c_int {
    let found = match handle::connection(connection) {
        Ok(found) => found,
        Err(failure) => return call(None, || Err(failure)),
    };
    let code = call(Some(&found), || {
        let prepared = out(statement, "statement")?;
        let prepare = || {
            let text = utf8(bytes(sql, sql_bytes, "sql")?, "sql")?;
            let placeholders = Placeholders::read(text)?;
            let end = placeholders.end;
            if placeholders.is_empty() {
                return Ok((None, end));
            }
            let mut client = found.client()?;
            let described = client.describe(&placeholders.text)?;
            let parameters = placeholders.names.len();
            let prepared = Statement {
                connection: Arc::clone(&found),
                placeholders,
                values: vec![Value::One(Datum::Null); parameters],
                columns: named(&described.columns.unwrap_or_default()),
                running: None,
                texts: Vec::new(),
            };
            Ok((Some(prepared), end))
        };
        match prepare() {
            Ok((new, end)) => {
                let new = new.map(|new| {
                    found.statements.fetch_add(1, Ordering::AcqRel);
                    handle::open(Object::Statement(Arc::new(Mutex::new(new))))
                });
                prepared.set(new.unwrap_or(ptr::null_mut()));
                if !tail.is_null() {
                    out(tail, "tail")?.set(sql.wrapping_add(end));
                }
                Ok(INDELIBLE_OK)
            }
            Err(failure) => {
                prepared.set(ptr::null_mut());
                Err(failure)
            }
        }
    });
    released(found);
    code
}

/// Runs a statement to its next row: INDELIBLE_ROW, INDELIBLE_DONE, or an error. A statement that
/// is done, or has failed, begins anew with the next step. Outside of a transaction block a
/// statement is committed when it is done.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_step(statement: *mut indelible_statement) -> c_int {
    with(statement, Statement::step)
}

/// Ends a statement before its last row, so that it can be bound and stepped again. Bound values
/// stay.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_reset(statement: *mut indelible_statement) -> c_int {
    with(statement, |statement| {
        let connection = Arc::clone(&statement.connection);
        if statement.running.is_some() {
            statement.end(&mut *connection.client()?)?;
        }
        Ok(INDELIBLE_OK)
    })
}

/// Closes a statement. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_finalize(statement: *mut indelible_statement) -> c_int {
    if statement.is_null() {
        return INDELIBLE_OK;
    }
    with(statement, |found| {
        let connection = Arc::clone(&found.connection);
        // After a panic nothing of the connection is used any more, only closed.
        let ended = if found.running.is_some() && !connection.is_stopped() {
            found.end(&mut *connection.client()?)
        } else {
            Ok(())
        };
        handle::close(statement);
        connection.statements.fetch_sub(1, Ordering::AcqRel);
        ended.map(|()| INDELIBLE_OK)
    })
}

/// The number of parameters of a statement.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_parameter_count(
    statement: *mut indelible_statement,
    count: *mut c_int,
) -> c_int {
    with(statement, |statement| {
        let parameters = c_int::try_from(statement.values.len()).unwrap_or(c_int::MAX);
        out(count, "count")?.set(parameters);
        Ok(INDELIBLE_OK)
    })
}

/// The number of a parameter :name, from 1.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_parameter_index(
    statement: *mut indelible_statement,
    name: *const c_char,
    index: *mut c_int,
) -> c_int {
    with(statement, |statement| {
        let index = out(index, "index")?;
        let name = text(name, "name")?;
        let at = statement
            .placeholders
            .position(name)
            .ok_or_else(|| Failure::range(format!("the statement has no parameter `{name}`")))?;
        index.set(c_int::try_from(at + 1).unwrap_or(c_int::MAX));
        Ok(INDELIBLE_OK)
    })
}

/// Makes all parameters NULL.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_clear_bindings(statement: *mut indelible_statement) -> c_int {
    with(statement, |statement| {
        for at in 0..statement.values.len() {
            statement.bind(c_int::try_from(at + 1).unwrap_or(c_int::MAX), Datum::Null)?;
        }
        Ok(INDELIBLE_OK)
    })
}

/// Binds NULL. Parameters count from 1, in all calls that bind.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_bind_null(
    statement: *mut indelible_statement,
    parameter: c_int,
) -> c_int {
    with(statement, |statement| {
        statement.bind(parameter, Datum::Null)
    })
}

/// Binds a boolean: 0 is false, all else true.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_bind_bool(
    statement: *mut indelible_statement,
    parameter: c_int,
    value: c_int,
) -> c_int {
    with(statement, |statement| {
        statement.bind(parameter, Datum::Bool(value != 0))
    })
}

/// Binds an integer.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_bind_i64(
    statement: *mut indelible_statement,
    parameter: c_int,
    value: i64,
) -> c_int {
    with(statement, |statement| {
        statement.bind(parameter, Datum::Int8(value))
    })
}

/// Binds a floating point number.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_bind_f64(
    statement: *mut indelible_statement,
    parameter: c_int,
    value: f64,
) -> c_int {
    with(statement, |statement| {
        statement.bind(parameter, Datum::Float8(value))
    })
}

/// Binds a text in UTF-8 of value_bytes bytes, or up to its zero byte if value_bytes is negative. A
/// parameter of another type reads it as a literal: '2024-02-29', '{1,2}'.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_bind_text(
    statement: *mut indelible_statement,
    parameter: c_int,
    value: *const c_char,
    value_bytes: i64,
) -> c_int {
    with(statement, |statement| {
        let text = utf8(bytes(value, value_bytes, "value")?, "value")?;
        statement.bind(parameter, Datum::text(text))
    })
}

/// Binds bytes.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_bind_bytes(
    statement: *mut indelible_statement,
    parameter: c_int,
    value: *const c_char,
    value_bytes: i64,
) -> c_int {
    with(statement, |statement| {
        let count = value_bytes.max(0);
        if count != value_bytes {
            return Err(Failure::range(
                "`value_bytes` is negative; bytes need their number",
            ));
        }
        statement.bind(parameter, Datum::bytes(bytes(value, count, "value")?))
    })
}

/// Binds an exact decimal number, written as a text: "12.50".
#[unsafe(no_mangle)]
pub extern "C" fn indelible_bind_decimal_text(
    statement: *mut indelible_statement,
    parameter: c_int,
    value: *const c_char,
) -> c_int {
    with(statement, |statement| {
        let number = Numeric::parse(text(value, "value")?)?;
        statement.bind(parameter, Datum::Numeric(number))
    })
}

/// Binds a moment: microseconds since 1970-01-01 UTC. INT64_MIN and INT64_MAX are the infinities.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_bind_timestamp(
    statement: *mut indelible_statement,
    parameter: c_int,
    micros: i64,
) -> c_int {
    with(statement, |statement| {
        let micros = match micros {
            // The ends are those of SQL too.
            INFINITY | NEGATIVE_INFINITY => micros,
            _ => micros
                .checked_sub(EPOCH_MICROS)
                .filter(|micros| is_valid(*micros))
                .ok_or_else(timestamp_out_of_range)?,
        };
        statement.bind(parameter, Datum::Timestamptz(micros))
    })
}

/// Binds a UUID of 16 bytes.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_bind_uuid(
    statement: *mut indelible_statement,
    parameter: c_int,
    value: *const u8,
) -> c_int {
    with(statement, |statement| {
        let given = bytes(value.cast(), 16, "value")?;
        let uuid = <[u8; 16]>::try_from(given).unwrap_or_default();
        statement.bind(parameter, Datum::Uuid(uuid))
    })
}
