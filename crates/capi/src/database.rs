//! Databases and connections: opening, closing, whole texts of statements, `COPY`.
//!
//! A database closes when its last connection has: both calls that close refuse while something
//! depends on the handle, so nothing is closed beneath a statement that runs.

use crate::code::{INDELIBLE_BUSY, INDELIBLE_ERROR, INDELIBLE_OK};
use crate::edge::{bytes, call, check_size, out, text};
use crate::failure::Failure;
use crate::handle::{
    self, Connection, Database, Object, changed_rows, indelible_connection, indelible_database,
};
use crate::statement::released;
use indelible::{Choice, Mode, Options as DatabaseOptions};
use sql::types::{Context, Kind, text_io};
use sql::{
    Batch, Completion, CopyShape, Flow, OutputColumn, RowSink, Sql, SqlError, SqlState,
    TransactionStatus,
};
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The version of the interface, as in the name of the shared library.
pub const INDELIBLE_ABI_VERSION: u32 = 1;
/// Flag of indelible_options: nothing is changed, and many processes may open the database so.
pub const INDELIBLE_READ_ONLY: u32 = 1;
/// Flag of indelible_options: it is an error if the database does not exist.
pub const INDELIBLE_EXISTING: u32 = 2;

/// Options of a database. Set size to sizeof(indelible_options) and all else to 0 first.
#[repr(C)]
pub struct Options {
    /// Bytes of the structure.
    pub size: usize,
    /// INDELIBLE_READ_ONLY, INDELIBLE_EXISTING, or both.
    pub flags: u32,
    /// The storage method of a new database by name, or NULL for the best one of the medium.
    pub method: *const c_char,
    /// A directory for the log of a new database, or NULL.
    pub log_directory: *const c_char,
}

/// Called by indelible_exec for each row, with texts that are valid during the call; NULL is NULL.
/// A result that is not 0 ends the statement with INDELIBLE_INTERRUPT.
pub type Callback = Option<
    unsafe extern "C" fn(
        argument: *mut c_void,
        columns: c_int,
        values: *const *const c_char,
        names: *const *const c_char,
    ) -> c_int,
>;

/// The version of the interface: INDELIBLE_ABI_VERSION of the header that the library was built
/// with.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_abi_version() -> u32 {
    INDELIBLE_ABI_VERSION
}

/// The version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn indelible_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Opens the database in the directory path, or creates it there. options may be NULL. A process
/// opens a database once, and connects to it as often as it likes. On an error *database is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_open(
    path: *const c_char,
    options: *const Options,
    database: *mut *mut indelible_database,
) -> c_int {
    call(None, || {
        let opened = out(database, "database")?;
        let open = || {
            let path = text(path, "path")?;
            let (settings, is_existing) = settings(options)?;
            let database = if is_existing {
                indelible::Database::open_with(path, &settings)
            } else {
                indelible::Database::open_or_create(path, &settings)
            };
            Ok(Database {
                sql: Sql::open(database?)?,
                connections: AtomicUsize::new(0),
            })
        };
        match open() {
            Ok(database) => opened.set(handle::open(Object::Database(Arc::new(database)))),
            Err(failure) => {
                opened.set(ptr::null_mut());
                return Err(failure);
            }
        }
        Ok(INDELIBLE_OK)
    })
}

/// The options of a database, and whether it must exist.
fn settings(options: *const Options) -> Result<(DatabaseOptions, bool), Failure> {
    let mut settings = DatabaseOptions::new();
    if options.is_null() {
        return Ok((settings, false));
    }
    check_size(options, "indelible_options")?;
    // SAFETY: the structure is as large as this version knows it, and stays during the call.
    let options = unsafe { &*options };
    if options.flags & !(INDELIBLE_READ_ONLY | INDELIBLE_EXISTING) != 0 {
        let message = format!(
            "`flags` of indelible_options has unknown bits: {:#x}",
            options.flags
        );
        return Err(Failure::misuse(message));
    }
    let is_read_only = options.flags & INDELIBLE_READ_ONLY != 0;
    if is_read_only {
        settings = settings.mode(Mode::ReadOnly);
    }
    if !options.method.is_null() {
        settings = settings.method(text(options.method, "method")?.parse::<Choice>()?);
    }
    if !options.log_directory.is_null() {
        settings = settings.log_directory(text(options.log_directory, "log_directory")?);
    }
    Ok((
        settings,
        is_read_only || options.flags & INDELIBLE_EXISTING != 0,
    ))
}

/// Closes a database, all of whose connections have to be closed. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_close(database: *mut indelible_database) -> c_int {
    call(None, || {
        if database.is_null() {
            return Ok(INDELIBLE_OK);
        }
        let found = handle::database(database)?;
        in_use(&found.connections, "database", "connections")?;
        handle::close(database);
        Ok(INDELIBLE_OK)
    })
}

fn in_use(count: &AtomicUsize, what: &str, users: &str) -> Result<(), Failure> {
    match count.load(Ordering::Acquire) {
        0 => Ok(()),
        count => Err(Failure::new(
            INDELIBLE_BUSY,
            SqlState::OBJECT_IN_USE,
            format!("the {what} has {count} open {users}; close them first"),
        )),
    }
}

/// Opens a connection to a database. On an error *connection is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_connect(
    database: *mut indelible_database,
    connection: *mut *mut indelible_connection,
) -> c_int {
    call(None, || {
        let connected = out(connection, "connection")?;
        let connect = || Connection::new(handle::database(database)?);
        match connect() {
            Ok(connection) => {
                connection
                    .database
                    .connections
                    .fetch_add(1, Ordering::AcqRel);
                connected.set(handle::open(Object::Connection(Arc::new(connection))));
                Ok(INDELIBLE_OK)
            }
            Err(failure) => {
                connected.set(ptr::null_mut());
                Err(failure)
            }
        }
    })
}

/// Closes a connection, all of whose statements have to be finalized. An open transaction is rolled
/// back. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_disconnect(connection: *mut indelible_connection) -> c_int {
    if connection.is_null() {
        return INDELIBLE_OK;
    }
    with(connection, |found| {
        in_use(&found.statements, "connection", "statements")?;
        found.check_unused()?;
        handle::close(connection);
        found.database.connections.fetch_sub(1, Ordering::AcqRel);
        Ok(INDELIBLE_OK)
    })
}

/// Runs the body of a call with a connection, which keeps its error.
fn with(
    connection: *mut indelible_connection,
    body: impl FnOnce(&Arc<Connection>) -> Result<c_int, Failure>,
) -> c_int {
    match handle::connection(connection) {
        Ok(found) => {
            let code = call(Some(&found), || body(&found));
            released(found);
            code
        }
        Err(failure) => call(None, || Err(failure)),
    }
}

/// Runs all statements of a text. Together they are one transaction, unless one of them begins or
/// ends one. callback may be NULL; otherwise it is called with argument for each row.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_exec(
    connection: *mut indelible_connection,
    sql: *const c_char,
    callback: Callback,
    argument: *mut c_void,
) -> c_int {
    with(connection, |connection| {
        let sql = text(sql, "sql")?;
        let mut client = connection.client()?;
        let mut sink = Texts {
            callback,
            argument,
            columns: Vec::new(),
            changed: None,
            is_output: false,
            input: None,
        };
        client.run(sql, &mut sink)?;
        sink.keep_changes(connection);
        Ok(INDELIBLE_OK)
    })
}

/// Runs one COPY ... FROM STDIN with its data, as they would come in a file.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_copy_in(
    connection: *mut indelible_connection,
    sql: *const c_char,
    data: *const c_char,
    data_bytes: i64,
) -> c_int {
    with(connection, |connection| {
        let sql = text(sql, "sql")?;
        let data = bytes(data, data_bytes, "data")?;
        let mut client = connection.client()?;
        let mut sink = Texts {
            callback: None,
            argument: ptr::null_mut(),
            columns: Vec::new(),
            changed: None,
            is_output: false,
            input: Some(data),
        };
        client.run(sql, &mut sink)?;
        sink.keep_changes(connection);
        if sink.input.is_some() {
            let message = "the statement took no data; give COPY table FROM STDIN";
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).into());
        }
        Ok(INDELIBLE_OK)
    })
}

/// Rows that the last statement of the connection inserted, updated, deleted or copied.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_changes(
    connection: *mut indelible_connection,
    rows: *mut u64,
) -> c_int {
    with(connection, |connection| {
        out(rows, "rows")?.set(connection.changes.load(Ordering::Relaxed));
        Ok(INDELIBLE_OK)
    })
}

/// Whether a transaction block is open: 'I' none, 'T' open, 'E' open and failed, so that only its
/// end is possible.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_status(
    connection: *mut indelible_connection,
    status: *mut c_int,
) -> c_int {
    with(connection, |connection| {
        let status = out(status, "status")?;
        let letter = match connection.client()?.session().status() {
            TransactionStatus::Idle => b'I',
            TransactionStatus::Open => b'T',
            TransactionStatus::Failed => b'E',
        };
        status.set(c_int::from(letter));
        Ok(INDELIBLE_OK)
    })
}

/// Ends the statement that the connection runs with INDELIBLE_INTERRUPT. Any thread may call it at
/// any time. A commit is not interrupted.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_interrupt(connection: *mut indelible_connection) -> c_int {
    // The error belongs to this thread: another one uses the connection.
    call(None, || {
        handle::connection(connection)?.interrupt.raise();
        Ok(INDELIBLE_OK)
    })
}

/// Checks all of a database: its pages, rows, indexes and catalogue. INDELIBLE_ERROR names the
/// first damage.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_verify(database: *mut indelible_database) -> c_int {
    call(None, || {
        let report = handle::database(database)?.sql.database().verify()?;
        match report.damage.first() {
            None => Ok(INDELIBLE_OK),
            Some(damage) => {
                let message = format!("the database is damaged: {damage}; restore a backup");
                let state = SqlState::DATA_CORRUPTED;
                Err(Failure::new(INDELIBLE_ERROR, state, message))
            }
        }
    })
}

/// Writes a backup of a database to a new file while it is in use.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_backup(
    database: *mut indelible_database,
    file: *const c_char,
) -> c_int {
    call(None, || {
        let database = handle::database(database)?;
        database.sql.database().backup(text(file, "file")?)?;
        Ok(INDELIBLE_OK)
    })
}

/// Hands rows as texts to a callback, and data to `COPY`.
struct Texts<'d> {
    callback: Callback,
    argument: *mut c_void,
    columns: Vec<(Kind, CString)>,
    changed: Option<u64>,
    /// Whether a COPY TO runs, whose command is that of COPY FROM.
    is_output: bool,
    input: Option<&'d [u8]>,
}

impl Texts<'_> {
    fn keep_changes(&self, connection: &Connection) {
        if let Some(rows) = self.changed {
            connection.changes.store(rows, Ordering::Relaxed);
        }
    }
}

/// A text for a callback, which gets no lengths.
fn c_text(text: String) -> Result<CString, SqlError> {
    CString::new(text).map_err(|_| {
        let message =
            "a text has a zero byte in it; step through the rows, with `value_bytes` of each text";
        SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
    })
}

impl RowSink for Texts<'_> {
    fn describe(&mut self, columns: &[OutputColumn]) -> Result<(), SqlError> {
        let named = columns.iter().map(|column| {
            let name = CString::new(column.name.as_str()).unwrap_or_default();
            (column.data_type.kind, name)
        });
        self.columns = named.collect();
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, context: &Context<'_>) -> Result<Flow, SqlError> {
        let Some(callback) = self.callback else {
            return Ok(Flow::More);
        };
        let names: Vec<_> = self.columns.iter().map(|(_, name)| name.as_ptr()).collect();
        for row in batch.rows() {
            let texts = row.iter().zip(&self.columns).map(|(value, (kind, _))| {
                let text = (!value.is_null()).then(|| text_io::print(value, *kind, context));
                text.transpose()?.map(c_text).transpose()
            });
            let texts = texts.collect::<Result<Vec<_>, SqlError>>()?;
            let pointer =
                |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |t| t.as_ptr());
            let values: Vec<_> = texts.iter().map(pointer).collect();
            let columns = c_int::try_from(values.len()).unwrap_or(c_int::MAX);
            // SAFETY: both arrays have so many pointers, to texts that live until after the call;
            // the caller promises that its function neither throws nor keeps them.
            let ends = unsafe { callback(self.argument, columns, values.as_ptr(), names.as_ptr()) };
            if ends != 0 {
                let message = "the callback ended the statement";
                return Err(SqlError::new(SqlState::QUERY_CANCELED, message));
            }
        }
        Ok(Flow::More)
    }

    fn complete(&mut self, completion: &Completion) -> Result<(), SqlError> {
        let rows = changed_rows(completion);
        self.changed = rows.filter(|_| !self.is_output).or(self.changed);
        self.is_output = false;
        Ok(())
    }

    fn copy_begins(&mut self, copy: &CopyShape) -> Result<(), SqlError> {
        self.is_output = !copy.is_from_client;
        Ok(())
    }

    fn copy_in(&mut self, data: &mut Vec<u8>) -> Result<bool, SqlError> {
        let given = self.input.take();
        data.extend_from_slice(given.unwrap_or_default());
        Ok(given.is_some())
    }
}
