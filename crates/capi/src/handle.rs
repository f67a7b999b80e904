//! Handles: numbers under which databases, connections and statements are open.
//!
//! A table from numbers to objects is all that a handle leads to. Numbers are never used again, so
//! a handle that was closed leads nowhere, and C cannot make the library use memory that is gone.
//! The upper 16 bits of a number say which process gave it: a child of `fork` has a table of its
//! own and never touches its parent's, whose locks may be held by threads that the child has not.
//!
//! Order of locks: the table, a statement, its connection.

use crate::code::INDELIBLE_MISUSE;
use crate::failure::{Failure, Texts};
use crate::statement::Statement;
use client::TypedClient;
use indelible::Interrupt;
use pmem::ProcessStamp;
use sql::{Completion, Sql, SqlState};
use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};

/// A database that is open.
#[allow(non_camel_case_types, reason = "the name in the header")]
pub struct indelible_database(());
/// A client of a database, with a transaction of its own.
#[allow(non_camel_case_types, reason = "the name in the header")]
pub struct indelible_connection(());
/// A prepared statement of a connection.
#[allow(non_camel_case_types, reason = "the name in the header")]
pub struct indelible_statement(());

/// A database with the number of its connections.
pub(crate) struct Database {
    pub(crate) sql: Arc<Sql>,
    pub(crate) connections: AtomicUsize,
}

/// A connection.
pub(crate) struct Connection {
    client: Mutex<TypedClient>,
    pub(crate) interrupt: Interrupt,
    pub(crate) database: Arc<Database>,
    pub(crate) statements: AtomicUsize,
    /// Rows that the last statement changed.
    pub(crate) changes: AtomicU64,
    error: Mutex<Option<Arc<Texts>>>,
}

/// An object with a handle.
#[derive(Clone)]
pub(crate) enum Object {
    Database(Arc<Database>),
    Connection(Arc<Connection>),
    Statement(Arc<Mutex<Statement>>),
}

/// Bits of a handle that name its process, above those of its number: a program that opens a
/// statement each microsecond uses all numbers in nine years.
const PROCESS_BITS: u32 = 16;
const NUMBER_BITS: u32 = 64 - PROCESS_BITS;

struct Table {
    stamp: ProcessStamp,
    /// The upper bits of the numbers of this process.
    process: u16,
    next: AtomicU64,
    objects: RwLock<HashMap<u64, Object>>,
}

/// The table of this process. Tables are never freed: a child leaves its parent's as it is.
static TABLE: AtomicPtr<Table> = AtomicPtr::new(std::ptr::null_mut());

fn table() -> &'static Table {
    let known = TABLE.load(Ordering::Acquire);
    // SAFETY: it is NULL or comes from `Box::leak` below, so it lives for ever.
    let parent = unsafe { known.as_ref() };
    if let Some(own) = parent.filter(|table| table.stamp.is_here()) {
        return own;
    }
    let new: &'static mut Table = Box::leak(Box::new(Table {
        stamp: ProcessStamp::new(),
        process: parent.map_or(1, |parent| parent.process.wrapping_add(1).max(1)),
        next: AtomicU64::new(1),
        objects: RwLock::default(),
    }));
    // Another thread may have been first; then its table is the one.
    let _ = TABLE.compare_exchange(known, new, Ordering::AcqRel, Ordering::Acquire);
    // SAFETY: as above, and it is not NULL any more.
    unsafe { &*TABLE.load(Ordering::Acquire) }
}

/// Gives an object its handle.
pub(crate) fn open<H>(object: Object) -> *mut H {
    let table = table();
    let number = table.next.fetch_add(1, Ordering::Relaxed) & (u64::MAX >> PROCESS_BITS);
    let number = u64::from(table.process) << NUMBER_BITS | number;
    let mut objects = table
        .objects
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    objects.insert(number, object);
    std::ptr::without_provenance_mut(number as usize)
}

/// Takes the handle of an object away.
pub(crate) fn close<H>(handle: *mut H) {
    let mut objects = table()
        .objects
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    let object = objects.remove(&(handle.addr() as u64));
    drop(objects);
    drop(object);
}

fn find<H, T>(
    handle: *mut H,
    what: &str,
    pick: impl FnOnce(&Object) -> Option<T>,
) -> Result<T, Failure> {
    let number = handle.addr() as u64;
    if number == 0 {
        return Err(Failure::misuse(format!("the handle of the {what} is NULL")));
    }
    let table = table();
    if (1..u64::from(table.process)).contains(&(number >> NUMBER_BITS)) {
        return Err(Failure {
            code: INDELIBLE_MISUSE,
            ..indelible::Error::Forked.into()
        });
    }
    let objects = table.objects.read().unwrap_or_else(PoisonError::into_inner);
    objects.get(&number).and_then(pick).ok_or_else(|| {
        Failure::misuse(format!(
            "the handle of the {what} is none: it was closed, or is of another kind"
        ))
    })
}

/// The database of a handle.
pub(crate) fn database(handle: *mut indelible_database) -> Result<Arc<Database>, Failure> {
    find(handle, "database", |object| match object {
        Object::Database(database) => Some(Arc::clone(database)),
        _ => None,
    })
}

/// The connection of a handle.
pub(crate) fn connection(handle: *mut indelible_connection) -> Result<Arc<Connection>, Failure> {
    find(handle, "connection", |object| match object {
        Object::Connection(connection) => Some(Arc::clone(connection)),
        _ => None,
    })
}

/// The statement of a handle.
pub(crate) fn statement(
    handle: *mut indelible_statement,
) -> Result<Arc<Mutex<Statement>>, Failure> {
    find(handle, "statement", |object| match object {
        Object::Statement(statement) => Some(Arc::clone(statement)),
        _ => None,
    })
}

/// The content of a mutex, if no other thread uses it.
pub(crate) fn alone<'m, T>(mutex: &'m Mutex<T>, what: &str) -> Result<MutexGuard<'m, T>, Failure> {
    match mutex.try_lock() {
        Ok(guard) => Ok(guard),
        Err(TryLockError::WouldBlock) => Err(Failure::misuse(format!(
            "another thread uses the {what}; give each thread a connection of its own"
        ))),
        Err(TryLockError::Poisoned(_)) => Err(Failure::new(
            INDELIBLE_MISUSE,
            SqlState::INTERNAL_ERROR,
            format!("an earlier call of the {what} was stopped; close it and open another one"),
        )),
    }
}

/// Rows that a statement has changed; none if it only reads.
pub(crate) fn changed_rows(completion: &Completion) -> Option<u64> {
    let reads = ["SELECT", "FETCH", "MOVE"].contains(&completion.command);
    completion.rows.filter(|_| !reads)
}

impl Connection {
    pub(crate) fn new(database: Arc<Database>) -> Result<Self, Failure> {
        let mut client = TypedClient::connect(&database.sql)?;
        Ok(Self {
            interrupt: client.session().interrupt(),
            client: Mutex::new(client),
            database,
            statements: AtomicUsize::new(0),
            changes: AtomicU64::new(0),
            error: Mutex::new(None),
        })
    }

    /// The client, if no other thread uses it.
    pub(crate) fn client(&self) -> Result<MutexGuard<'_, TypedClient>, Failure> {
        alone(&self.client, "connection")
    }

    /// Whether a panic has stopped a call, so that only the end of the connection is left.
    pub(crate) fn is_stopped(&self) -> bool {
        self.client.is_poisoned()
    }

    /// A connection that another thread uses stays open; one that a panic has stopped is closed.
    pub(crate) fn check_unused(&self) -> Result<(), Failure> {
        match self.client.try_lock() {
            Err(TryLockError::WouldBlock) => self.client().map(drop),
            _ => Ok(()),
        }
    }

    /// Keeps the number of rows that a statement has changed.
    pub(crate) fn keep_changes(&self, completion: &Completion) {
        if let Some(rows) = changed_rows(completion) {
            self.changes.store(rows, Ordering::Relaxed);
        }
    }

    pub(crate) fn keep_error(&self, texts: &Arc<Texts>) {
        let mut error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        *error = Some(Arc::clone(texts));
    }

    pub(crate) fn last_error(&self) -> Option<Arc<Texts>> {
        self.error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{
        INDELIBLE_ERROR, INDELIBLE_MISMATCH, INDELIBLE_MISUSE, INDELIBLE_OK, INDELIBLE_ROW,
    };
    use crate::column::indelible_column_text;
    use crate::database::{
        indelible_close, indelible_connect, indelible_disconnect, indelible_exec, indelible_open,
    };
    use crate::statement::{indelible_finalize, indelible_prepare, indelible_step};
    use std::ffi::{CString, c_char, c_int, c_void};
    use std::ptr::{null, null_mut};

    /// Numbers of handles began anew after 2^32 of them, and a handle that was closed led to
    /// another object.
    #[test]
    fn handles_do_not_come_again() {
        let scratch = Scratch::new("handles");
        let first = scratch.open();
        let (mut one, mut other) = (null_mut(), null_mut());
        assert_eq!(indelible_connect(first, &raw mut one), INDELIBLE_OK);
        let number = one.addr() as u64;
        let next = (number & (u64::MAX >> PROCESS_BITS)) + (1 << 32);
        table().next.fetch_max(next, Ordering::Relaxed);
        assert_eq!(indelible_disconnect(one), INDELIBLE_OK);
        assert_eq!(indelible_connect(first, &raw mut other), INDELIBLE_OK);
        assert_ne!(one, other);
        assert_eq!(other.addr() as u64 >> NUMBER_BITS, number >> NUMBER_BITS);
        assert_eq!(indelible_disconnect(one), INDELIBLE_MISUSE);
        assert_eq!(indelible_disconnect(other), INDELIBLE_OK);
        assert_eq!(indelible_close(first), INDELIBLE_OK);
    }

    /// A statement that ran when a panic stopped its connection could not be finalized, so that
    /// neither the connection nor the database could be closed.
    #[test]
    fn handles_can_be_closed_after_a_panic() {
        let scratch = Scratch::new("stopped");
        let database = scratch.open();
        let (mut opened, mut statement) = (null_mut(), null_mut());
        assert_eq!(indelible_connect(database, &raw mut opened), INDELIBLE_OK);
        let text = c"SELECT g FROM generate_series(1, 9000) g";
        let prepared = indelible_prepare(opened, text.as_ptr(), -1, &raw mut statement, null_mut());
        assert_eq!(prepared, INDELIBLE_OK);
        assert_eq!(indelible_step(statement), INDELIBLE_ROW);
        let stopped = connection(opened).ok().unwrap();
        let panicked = std::thread::spawn(move || {
            let _client = stopped.client();
            panic!("as a broken invariant would");
        });
        assert!(panicked.join().is_err());
        assert_eq!(
            indelible_exec(opened, c"SELECT 1".as_ptr(), None, null_mut()),
            INDELIBLE_MISUSE
        );
        assert_eq!(indelible_finalize(statement), INDELIBLE_OK);
        assert_eq!(indelible_disconnect(opened), INDELIBLE_OK);
        assert_eq!(indelible_close(database), INDELIBLE_OK);
    }

    /// Such a text was NULL when it was read, and empty for a callback.
    #[test]
    fn texts_with_zero_bytes_are_whole_or_refused() {
        let scratch = Scratch::new("zero");
        let made = indelible::Database::create(&scratch.0, &indelible::Options::new()).unwrap();
        let table = made
            .create_table("t")
            .column("id", indelible::DataType::Int64)
            .column("name", indelible::DataType::Text)
            .primary_key(["id"])
            .create()
            .unwrap();
        made.transaction(|t| t.insert(&table, (1_i64, "a\0b")))
            .unwrap();
        drop((table, made));
        let database = scratch.open();
        let (mut opened, mut statement) = (null_mut(), null_mut());
        assert_eq!(indelible_connect(database, &raw mut opened), INDELIBLE_OK);
        let query = c"SELECT name FROM t".as_ptr();
        let prepared = indelible_prepare(opened, query, -1, &raw mut statement, null_mut());
        assert_eq!(prepared, INDELIBLE_OK);
        assert_eq!(indelible_step(statement), INDELIBLE_ROW);
        let (mut text, mut bytes) = (null(), 0);
        let read = indelible_column_text(statement, 0, &raw mut text, null_mut());
        assert_eq!(read, INDELIBLE_MISMATCH);
        let read = indelible_column_text(statement, 0, &raw mut text, &raw mut bytes);
        assert_eq!((read, bytes, text.is_null()), (INDELIBLE_OK, 3, false));
        assert_eq!(indelible_finalize(statement), INDELIBLE_OK);
        let ran = indelible_exec(opened, query, Some(ends_at_once), null_mut());
        assert_eq!(ran, INDELIBLE_ERROR);
        assert_eq!(indelible_disconnect(opened), INDELIBLE_OK);
        assert_eq!(indelible_close(database), INDELIBLE_OK);
    }

    extern "C" fn ends_at_once(
        _: *mut c_void,
        _: c_int,
        _: *const *const c_char,
        _: *const *const c_char,
    ) -> c_int {
        1
    }

    /// The directory of a database, which is removed at the end.
    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("indelible-capi-{name}-{}", std::process::id());
            let directory = std::env::temp_dir().join(name);
            let _ = std::fs::remove_dir_all(&directory);
            Self(directory)
        }

        fn open(&self) -> *mut indelible_database {
            let path = CString::new(self.0.to_str().unwrap()).unwrap();
            let mut database = null_mut();
            let code = indelible_open(path.as_ptr(), null(), &raw mut database);
            assert_eq!(code, INDELIBLE_OK);
            database
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
