//! The state that all sessions of a database share.
//!
//! The catalogue is swapped whole, under its lock, by the transaction that commits a definition:
//! its locks are given back while that lock is held, so a session that gets one of them afterwards
//! sees the new catalogue. Sessions compare the address of theirs with that of the newest, which is
//! none while it is swapped, so a statement takes the lock after a definition alone.

use crate::catalog::{Body, Catalog, Oid, store};
use crate::error::Result;
use crate::plan::PlanCache;
use crate::state::{Exclusions, Registry, Sequences, Statements};
use indelible::{Database, Direction, Row, Table, TableId, TransactionOptions};
use std::collections::{BTreeMap, HashMap};
use std::ops::{ControlFlow, Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard};
use std::time::Duration;

/// SQL in a database. One for each open database: it keeps the catalogue in memory.
pub struct Sql {
    database: Database,
    catalog: RwLock<Arc<Catalog>>,
    /// The address of `catalog`; null while it is replaced.
    newest: AtomicPtr<Catalog>,
    /// The next number for an object, and the newest of a catalogue.
    next_oid: AtomicU32,
    version: AtomicU64,
    /// Sessions that have tables for themselves, or wait for them.
    pub(crate) exclusions: Exclusions,
    /// Hidden numbers of rows, by table below.
    row_numbers: Mutex<HashMap<TableId, Arc<AtomicI64>>>,
    pub(crate) sequences: Sequences,
    pub(crate) plans: PlanCache,
    /// Counts statistics that were made: plans that were made before are made again.
    analyzed: AtomicU64,
    sessions: AtomicI32,
    /// Settings that are facts about the server, as sessions show them.
    facts: Mutex<Arc<[(&'static str, String)]>>,
    pub(crate) registry: Registry,
    pub(crate) statements: Statements,
    /// Names of tables below that definitions which did not commit have left.
    orphans: Mutex<Vec<String>>,
    /// Counts transactions from the moment of the opening, so that numbers grow across openings.
    transactions: AtomicI64,
    /// The moment of its opening, in microseconds since 2000-01-01 UTC.
    opened_at: i64,
}

/// A session that waits for locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockWait {
    /// Its number.
    pub session: i32,
    /// The numbers of the sessions that it waits for.
    pub waits_for: Vec<i32>,
    /// Its statement: at most the first KiB.
    pub statement: String,
    /// The begin of its statement, in microseconds since 2000-01-01 UTC.
    pub statement_begun_at: i64,
}

/// Gives the numbers of sequences back that nobody has taken. Nobody would get an error, nor wait
/// for a partition that another handle of the database holds: it is a gap then.
impl Drop for Sql {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let at_once = TransactionOptions::new().wait_limit(Duration::ZERO);
            let _ = self.sequences.give_back(&self.database, &at_once);
        }
    }
}

/// Rows that come or go before statistics are out of date, and their share of those that were
/// there.
const CHANGED_ROWS: u64 = 50;
const CHANGED_PART: u64 = 10;

/// Whether a table has so many rows more or less than when its statistics were made that they are
/// out of date.
fn has_changed(table: &Table) -> bool {
    let now = table.row_count().map_or(0, |count| count.rows);
    let then = table.known_statistics().map_or(0, |known| known.rows);
    now.abs_diff(then) > CHANGED_ROWS + then / CHANGED_PART
}

impl Sql {
    /// Reads the catalogue of a database, and drops what definitions that did not commit have left
    /// behind.
    ///
    /// # Errors
    ///
    /// Errors of the database; a catalogue that is damaged.
    pub fn open(database: Database) -> Result<Arc<Self>> {
        let sql = Self::open_at_once(database)?;
        sql.each_orphan(|name| sql.database.drop_table(name).map(|()| true))?;
        Ok(sql)
    }

    /// As [`Sql::open`], without the time that large tables take to be dropped:
    /// [`Sql::drop_orphans`] does that later, beside sessions.
    ///
    /// # Errors
    ///
    /// As [`Sql::open`].
    pub fn open_at_once(database: Database) -> Result<Arc<Self>> {
        let store::Loaded {
            catalog,
            next_oid,
            orphans,
        } = store::load(&database)?;
        crate::state::delete_loose_sequences(&database, &catalog)?;
        let catalog = Arc::new(catalog);
        Ok(Arc::new(Self {
            orphans: Mutex::new(orphans),
            database,
            newest: AtomicPtr::new(Arc::as_ptr(&catalog).cast_mut()),
            catalog: RwLock::new(catalog),
            next_oid: AtomicU32::new(next_oid),
            version: AtomicU64::new(0),
            exclusions: Exclusions::default(),
            row_numbers: Mutex::default(),
            sequences: Sequences::default(),
            plans: PlanCache::default(),
            analyzed: AtomicU64::new(0),
            sessions: AtomicI32::new(0),
            facts: Mutex::default(),
            registry: Registry::default(),
            statements: Statements::default(),
            transactions: AtomicI64::new(crate::state::now()),
            opened_at: crate::state::now(),
        }))
    }

    /// Drops the tables that definitions which did not commit have left, in short steps, as long as
    /// `goes_on` says so; the next opening finds those that are left. A step frees rows one by one,
    /// which takes several times as long as a drop, and delays nobody.
    ///
    /// # Errors
    ///
    /// Errors of the database.
    pub fn drop_orphans(&self, mut goes_on: impl FnMut() -> bool) -> Result<()> {
        let database = &self.database;
        self.each_orphan(|name| database.drop_table_in_steps(name, &mut goes_on))
    }

    /// Drops each orphan, until one is not to be dropped now.
    fn each_orphan(&self, mut drop: impl FnMut(&str) -> indelible::Result<bool>) -> Result<()> {
        let orphans = self.orphans.lock();
        let orphans = std::mem::take(&mut *orphans.unwrap_or_else(PoisonError::into_inner));
        for name in orphans {
            match drop(&name) {
                Ok(true) => {}
                // Nothing names them, so a reader can leave them where they are.
                Ok(false) | Err(indelible::Error::ReadOnly) => return Ok(()),
                // A later opening finds it again.
                Err(error) if error.is_out_of_space() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Makes statistics of the tables of which so many rows have come or gone since theirs were
    /// made: 50, and a tenth of those that there were. Changed rows are not counted.
    ///
    /// # Errors
    ///
    /// Errors of the database. The other tables have their statistics nevertheless.
    pub fn analyze_changed(&self, mut goes_on: impl FnMut() -> bool) -> Result<()> {
        let catalog = self.catalog();
        let mut outcome = Ok(());
        for object in catalog.objects() {
            let handle = catalog.handle(object.oid);
            let Some(handle) = handle.filter(|handle| has_changed(handle)) else {
                continue;
            };
            match self.analyze(handle, &mut goes_on) {
                Ok(()) => {}
                Err(_) if self.catalog().handle(object.oid).is_none() => {}
                Err(error) => outcome = Err(error),
            }
            if !goes_on() {
                break;
            }
        }
        outcome
    }

    /// Makes statistics of a table, as long as `goes_on` says so.
    pub(crate) fn analyze(&self, table: &Table, goes_on: impl FnMut() -> bool) -> Result<()> {
        if self.database.analyze_while(table, goes_on)?.is_some() {
            self.analyzed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The number of statistics that were made since the opening.
    pub(crate) fn analyzed(&self) -> u64 {
        self.analyzed.load(Ordering::Relaxed)
    }

    /// Statements that found their plan in the cache, since the opening.
    pub fn plan_cache_hits(&self) -> u64 {
        self.plans.hits()
    }

    /// Sets what sessions that begin from now on show of their server: values of settings that
    /// nobody can change. Others keep the values that they have.
    pub fn show_facts(&self, facts: impl IntoIterator<Item = (&'static str, String)>) {
        let mut shown = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: BTreeMap<&'static str, String> = shown.iter().cloned().collect();
        all.extend(facts);
        *shown = all.into_iter().collect();
    }

    pub(crate) fn facts(&self) -> Arc<[(&'static str, String)]> {
        let shown = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&shown)
    }

    /// The database below.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Whether there is a role of this name.
    pub fn has_role(&self, role: &str) -> bool {
        self.catalog().role_named(role).is_some()
    }

    /// Whether any role has a password.
    pub fn has_passwords(&self) -> bool {
        let catalog = self.catalog();
        let mut objects = catalog.objects();
        objects.any(|object| matches!(&object.body, Body::Role(role) if role.verifier.is_some()))
    }

    /// The verifier of a role's password, as PostgreSQL stores it; none if the role has no valid
    /// password, or does not exist.
    pub fn password_verifier(&self, role: &str) -> Option<String> {
        let catalog = self.catalog();
        let body = catalog.role(catalog.role_named(role)?)?;
        let is_valid = body.valid_until.is_none_or(|end| crate::state::now() < end);
        body.verifier.clone().filter(|_| is_valid)
    }

    /// The moment of its opening, in microseconds since 2000-01-01 UTC.
    pub(crate) fn opened_at(&self) -> i64 {
        self.opened_at
    }

    /// Closes the database, if no session is left. Sequences go on without a gap at the next
    /// opening.
    ///
    /// # Errors
    ///
    /// As [`Database::close`].
    pub fn close(self: Arc<Self>) -> Result<()> {
        let Some(sql) = Arc::into_inner(self) else {
            return Ok(());
        };
        let database = sql.database.clone();
        let given_back = sql
            .sequences
            .give_back(&database, &TransactionOptions::new());
        drop(sql);
        database.close()?;
        given_back
    }

    /// Ends the statement that a session runs, if it runs one: neither the one before nor the one
    /// after. False if there is no such session.
    pub fn cancel(&self, session: i32) -> bool {
        let peer = self.registry.peer(session);
        peer.map(|peer| peer.cancel()).is_some()
    }

    /// Ends a session: its statement at once, and its next one before it begins. The function that
    /// was given to [`Session::on_wake`](crate::Session::on_wake) is called. False if there is no
    /// such session.
    pub fn terminate(&self, session: i32) -> bool {
        let peer = self.registry.peer(session);
        peer.map(|peer| peer.terminate()).is_some()
    }

    /// The sessions that wait for locks of others now.
    pub fn lock_waits(&self) -> Vec<LockWait> {
        let waits = self.registry.waits(&self.database).into_iter();
        let named = waits.filter_map(|(session, (_, waits_for))| {
            let shown = self.registry.peer(session)?.shown();
            Some(LockWait {
                session,
                waits_for,
                statement: shown.text,
                statement_begun_at: shown.text_begun_at,
            })
        });
        named.collect()
    }

    /// The catalogue of all transactions that have committed.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces a session's catalogue by that of all transactions that have committed.
    #[inline]
    pub(crate) fn refresh(&self, catalog: &mut Arc<Catalog>) {
        // The session has its catalogue, so no other one can be at that address.
        if !ptr::eq(self.newest.load(Ordering::Acquire), Arc::as_ptr(catalog)) {
            *catalog = self.catalog();
        }
    }

    /// The catalogue, to be replaced while a transaction commits.
    pub(crate) fn catalog_to_replace(&self) -> Replaced<'_> {
        let catalog = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
        self.newest.store(ptr::null_mut(), Ordering::Release);
        Replaced {
            catalog,
            newest: &self.newest,
        }
    }

    /// A number for a new object; `count` numbers that follow each other.
    pub(crate) fn next_oid(&self, count: u32) -> Oid {
        self.next_oid.fetch_add(count, Ordering::Relaxed)
    }

    /// A number for a session.
    pub(crate) fn next_session(&self) -> i32 {
        self.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A number for a transaction.
    pub(crate) fn next_transaction(&self) -> i64 {
        self.transactions.fetch_add(1, Ordering::Relaxed)
    }

    /// A number for another catalogue.
    pub(crate) fn next_version(&self) -> u64 {
        self.version.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A number for a new row of a table without a primary key: higher than those that are there.
    pub(crate) fn next_row_number(&self, table: &Table) -> Result<i64> {
        let mut numbers = self
            .row_numbers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let number = match numbers.get(&table.id()) {
            Some(number) => Arc::clone(number),
            None => {
                // All later numbers come from the counter, so rows that are not committed have
                // theirs from it too.
                let highest = highest_number(&self.database, table)?;
                let number = Arc::new(AtomicI64::new(highest + 1));
                numbers.insert(table.id(), Arc::clone(&number));
                number
            }
        };
        drop(numbers);
        Ok(number.fetch_add(1, Ordering::Relaxed))
    }

    /// Forgets the numbers of a table below that is gone.
    pub(crate) fn forget_numbers(&self, table: TableId) {
        let mut numbers = self
            .row_numbers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        numbers.remove(&table);
    }
}

/// The catalogue, which nobody else reads until this is dropped.
pub(crate) struct Replaced<'s> {
    catalog: RwLockWriteGuard<'s, Arc<Catalog>>,
    newest: &'s AtomicPtr<Catalog>,
}

impl Deref for Replaced<'_> {
    type Target = Arc<Catalog>;

    fn deref(&self) -> &Self::Target {
        &self.catalog
    }
}

impl DerefMut for Replaced<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.catalog
    }
}

impl Drop for Replaced<'_> {
    fn drop(&mut self) {
        let address = Arc::as_ptr(&self.catalog).cast_mut();
        self.newest.store(address, Ordering::Release);
    }
}

/// The highest hidden number of a table's rows, or 0.
fn highest_number(database: &Database, table: &Table) -> Result<i64> {
    let column = table.definition().primary_key.first().copied();
    let number = |row: &Row| column.and_then(|column| row.get(column).as_i64());
    // Transactions that have been committed since are found among the rows.
    let mut prepared = 0;
    database.visit_prepared(table, &mut |row| {
        prepared = prepared.max(number(row).unwrap_or(0));
    });
    let mut highest = 0;
    database.read(|reader| {
        reader.scan(table, .., Direction::Backward, |row| {
            highest = number(row).unwrap_or(0);
            ControlFlow::Break(())
        })
    })?;
    Ok(highest.max(prepared))
}
