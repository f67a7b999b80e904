//! The prepared transactions of a database: names, and who holds their changes and locks.
//!
//! Nobody's session has them any more. Until one is ended its changes wait in memory, as they did
//! in its connection, and its locks are held by a lock session that does nothing else. What a
//! restart needs is stored (`prepared_body`).
//!
//! | state | by | next states |
//! |---|---|---|
//! | busy | `reserve`, `take` | ready, unusable, gone |
//! | ready | `put` | busy |
//! | unusable | `put` | busy: it can be undone, and not committed |

use super::writes::WriteSet;
use crate::error::{Error, Result};
use crate::table::Table;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use storage::lock::LockSession;
use storage::record::{Row, TableId};

/// A transaction that is prepared: durable with its locks, and neither committed nor undone until
/// somebody says which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedTransaction {
    /// Its name, of at most 199 bytes.
    pub name: String,
    /// The number of its owner among the caller's roles.
    pub owner: i64,
    /// The caller's name of the database.
    pub database: String,
    /// When it was prepared, by the caller's clock.
    pub prepared_at: i64,
    /// The caller's number of the transaction.
    pub transaction: i64,
}

/// The changes and the locks of a prepared transaction.
pub(super) struct Holder {
    pub(super) writes: Arc<WriteSet>,
    /// None while it cannot be had: in a database that is open for reading.
    pub(super) locks: Option<LockSession>,
    /// Rows of the record that is stored.
    pub(super) parts: i32,
    /// Why it cannot be committed.
    pub(super) problem: Option<String>,
}

struct Entry {
    facts: PreparedTransaction,
    /// The tables that it has changed or locked.
    tables: BTreeSet<TableId>,
    /// Its changes, once it is prepared.
    writes: Arc<WriteSet>,
    /// None while somebody is busy with it.
    holder: Option<Box<Holder>>,
}

/// All prepared transactions, by their names.
pub(crate) struct PreparedSet {
    prepared_max: u32,
    entries: Mutex<BTreeMap<String, Entry>>,
}

impl PreparedSet {
    pub(super) fn new(prepared_max: u32) -> Self {
        Self {
            prepared_max,
            entries: Mutex::default(),
        }
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        // Its holder does not panic between changes that belong together.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn prepared_max(&self) -> u32 {
        self.prepared_max
    }

    /// Takes a name for a transaction that is going to be prepared.
    pub(super) fn reserve(
        &self,
        facts: PreparedTransaction,
        tables: BTreeSet<TableId>,
    ) -> Result<()> {
        let mut entries = self.entries();
        let prepared_max = self.prepared_max;
        if prepared_max == 0 {
            return Err(Error::TooManyPrepared { prepared_max });
        }
        if entries.contains_key(&facts.name) {
            return Err(Error::PreparedExists { name: facts.name });
        }
        if entries.len() >= prepared_max as usize {
            return Err(Error::TooManyPrepared { prepared_max });
        }
        let entry = Entry {
            tables,
            writes: Arc::default(),
            holder: None,
            facts,
        };
        entries.insert(entry.facts.name.clone(), entry);
        Ok(())
    }

    /// Adds one that the opening has found.
    pub(super) fn add(
        &self,
        facts: PreparedTransaction,
        tables: BTreeSet<TableId>,
        holder: Box<Holder>,
    ) {
        let entry = Entry {
            tables,
            writes: Arc::clone(&holder.writes),
            holder: Some(holder),
            facts,
        };
        self.entries().insert(entry.facts.name.clone(), entry);
    }

    /// Puts one back that somebody was busy with.
    pub(super) fn put(&self, name: &str, holder: Box<Holder>) {
        if let Some(entry) = self.entries().get_mut(name) {
            entry.writes = Arc::clone(&holder.writes);
            entry.holder = Some(holder);
        }
    }

    /// Takes one to end it; none if another one has its name by now.
    pub(super) fn take(&self, facts: &PreparedTransaction) -> Result<Box<Holder>> {
        let mut entries = self.entries();
        let found = entries.get_mut(&facts.name);
        let entry = found.filter(|entry| entry.facts == *facts);
        let entry = entry.ok_or_else(|| unknown(&facts.name))?;
        entry.holder.take().ok_or_else(|| busy(&facts.name))
    }

    /// The one with a name.
    pub(super) fn find(&self, name: &str) -> Result<PreparedTransaction> {
        let entries = self.entries();
        match entries.get(name) {
            None => Err(unknown(name)),
            Some(Entry { holder: None, .. }) => Err(busy(name)),
            Some(entry) => Ok(entry.facts.clone()),
        }
    }

    /// Forgets one that has ended, or was not prepared after all.
    pub(super) fn remove(&self, name: &str) {
        self.entries().remove(name);
    }

    pub(super) fn list(&self) -> Vec<PreparedTransaction> {
        // One without a holder may not be durable yet, or not there any more.
        let entries = self.entries();
        let ready = entries.values().filter(|entry| entry.holder.is_some());
        ready.map(|entry| entry.facts.clone()).collect()
    }

    /// Visits the rows that they leave in a table.
    pub(super) fn visit(&self, table: TableId, visit: &mut dyn FnMut(&Row)) {
        for entry in self.entries().values() {
            let changes = entry.writes.changes();
            let here = changes.filter(|change| change.table.id() == table);
            here.filter_map(|change| change.after.as_deref())
                .for_each(&mut *visit);
        }
    }

    /// Those that cannot be committed, and why.
    pub(crate) fn problems(&self) -> Vec<String> {
        let entries = self.entries();
        let problems = entries.iter().filter_map(|(name, entry)| {
            let problem = entry.holder.as_ref()?.problem.as_ref()?;
            Some(format!("prepared transaction `{name}`: {problem}"))
        });
        problems.collect()
    }

    /// Fails if one has changed or locked a table, whose definition must stay as it is.
    pub(crate) fn check_unused(&self, table: &Table) -> Result<()> {
        let entries = self.entries();
        let mut users = entries.iter();
        match users.find(|(_, entry)| entry.tables.contains(&table.id())) {
            None => Ok(()),
            Some((name, _)) => Err(Error::PreparedInTheWay {
                name: name.clone(),
                table: table.name().to_owned(),
            }),
        }
    }

    /// In a forked child the locks belong to the parent.
    pub(crate) fn forget(&mut self) {
        let entries = self.entries.get_mut();
        let entries = entries.unwrap_or_else(PoisonError::into_inner);
        std::mem::forget(std::mem::take(entries));
    }
}

fn unknown(name: &str) -> Error {
    let name = name.to_owned();
    Error::NoSuchPrepared { name }
}

fn busy(name: &str) -> Error {
    let name = name.to_owned();
    Error::PreparedBusy { name }
}
