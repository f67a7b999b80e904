//! Handles: numbers under which databases, connections and statements are open.
//!
//! A table from numbers to objects is all that a handle leads to. Numbers are never used again, so
//! a handle that was closed leads nowhere, and C cannot make the library use memory that is gone.
//! The upper half of a number says which process gave it: a child of `fork` has a table of its own
//! and never touches its parent's, whose locks may be held by threads that the child has not.
//!
//! Order of locks: the table, a statement, its connection.

use crate::code::INDELIBLE_MISUSE;
use crate::failure::{Failure, Texts};
use crate::statement::Statement;
use client::TypedClient;
use indelible::Interrupt;
use pmem::ProcessStamp;
use sql::{Sql, SqlState};
use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
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

struct Table {
    stamp: ProcessStamp,
    /// The upper half of the numbers of this process.
    process: u32,
    next: AtomicU32,
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
        process: parent.map_or(1, |parent| parent.process + 1),
        next: AtomicU32::new(1),
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
    let number = u64::from(table.next.fetch_add(1, Ordering::Relaxed));
    let number = u64::from(table.process) << 32 | number;
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
    if (1..u64::from(table.process)).contains(&(number >> 32)) {
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

    /// A connection that another thread uses stays open; one that a panic has stopped is closed.
    pub(crate) fn check_unused(&self) -> Result<(), Failure> {
        match self.client.try_lock() {
            Err(TryLockError::WouldBlock) => self.client().map(drop),
            _ => Ok(()),
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
