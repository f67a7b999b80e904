//! A connection and the model of its transaction.
//!
//! The transaction has to see the committed state of its snapshot with its own changes over it; its
//! changes find the newest committed state instead, also with its own over it. Both are
//! plain maps, and a step on them is the step of the ordinary search.

use super::call::{Read, Way};
use super::claims::{Claims, RowName, Wanted};
use crate::access::Access;
use crate::check::Failure;
use crate::compare::fields;
use crate::model::{
    CODE, CODE_INDEX, CODE_NAME, Fields, GROUP, GROUP_NAME, KEY, MAIN, MAIN_NAME, SIDE_NAME, State,
    Step,
};
use indelible::{
    Connection, Database, Direction, Error, Isolation, Result, RowLock, Scan, StatementSavepoint,
    StorageError, Table, Wait,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use storage::record::{TableId, Value};

/// Rows that a transaction has changed; none where it has deleted one.
pub(crate) type Writes = BTreeMap<RowName, Option<Arc<Fields>>>;

/// A connection, and what the model knows of its transaction.
pub(crate) struct Client {
    pub(crate) connection: Connection,
    pub(crate) isolation: Isolation,
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) own: Writes,
    pub(crate) marks: Vec<(StatementSavepoint, Writes, Claims)>,
    pub(crate) claims: Claims,
    /// Reads of the snapshot, if it is serializable.
    pub(crate) reads: Vec<Read>,
}

/// The committed state that a transaction reads.
pub(crate) struct Snapshot {
    pub(crate) state: State,
    /// Commits before it.
    pub(crate) number: usize,
}

/// How a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Duplicate,
    Busy,
    Serialization,
    Deadlock,
    Interrupted,
}

impl Refusal {
    /// The refusal that an error is; a failure if it is something else.
    pub(crate) fn of(error: &Error) -> Result<Self, Failure> {
        Ok(match error {
            Error::DuplicateKey { .. } => Self::Duplicate,
            Error::Serialization { .. } => Self::Serialization,
            Error::RowLocked { .. } | Error::Storage(StorageError::LockTimeout { .. }) => {
                Self::Busy
            }
            Error::Storage(StorageError::Deadlock { .. }) => Self::Deadlock,
            Error::Storage(StorageError::Interrupted) => Self::Interrupted,
            error => return Err(Failure::new("a call", error)),
        })
    }
}

impl Client {
    pub(crate) fn new(database: &Database) -> Result<Self, Failure> {
        let connection = database.connect();
        let mut connection = connection.map_err(|error| Failure::new("connect", error))?;
        connection.set_wait(Wait::Never);
        Ok(Self {
            connection,
            isolation: Isolation::ReadCommitted,
            snapshot: None,
            own: Writes::new(),
            marks: Vec::new(),
            claims: Claims::default(),
            reads: Vec::new(),
        })
    }

    pub(crate) fn begin(&mut self, isolation: Isolation) -> Result<(), Failure> {
        let begun = self.connection.begin(isolation);
        begun.map_err(|error| Failure::new("begin", error))?;
        self.isolation = isolation;
        Ok(())
    }

    pub(crate) fn abort(&mut self) {
        self.connection.abort();
        self.forget();
    }

    /// The transaction has ended.
    pub(crate) fn forget(&mut self) {
        self.snapshot = None;
        self.own.clear();
        self.marks.clear();
        self.claims = Claims::default();
        self.reads.clear();
    }

    /// Whether a row has changed since the snapshot, among those of each commit.
    pub(crate) fn has_changed(&self, row: &RowName, commits: &[BTreeSet<RowName>]) -> bool {
        let since = self
            .snapshot
            .as_ref()
            .map_or(commits.len(), |snapshot| snapshot.number);
        commits[since..].iter().any(|commit| commit.contains(row))
    }
}

/// A state with the changes of a transaction.
pub(crate) fn with_writes(state: &State, writes: &Writes) -> State {
    let mut state = state.clone();
    for ((table, key), row) in writes {
        let Some(contents) = state.tables.get_mut(table) else {
            continue;
        };
        match row {
            Some(row) => _ = contents.rows.insert(*key, Arc::clone(row)),
            None => _ = contents.rows.remove(key),
        }
    }
    state
}

/// The table of the database that one of the model is.
pub(crate) fn table(database: &Database, id: TableId) -> Result<Table> {
    database.table(if id == MAIN { MAIN_NAME } else { SIDE_NAME })
}

/// Performs a step in a transaction.
pub(crate) fn perform(access: &mut impl Access, database: &Database, step: &Step) -> Result<bool> {
    let table = table(database, table_of(step))?;
    match step {
        Step::Insert(_, values) => access.insert(&table, values).map(|()| true),
        Step::Update(key, list) => {
            let mut changes = table.changes();
            for (column, value) in list {
                changes.set(*column, value)?;
            }
            access.update(&table, *key, &changes)
        }
        Step::Delete(key) => access.delete(&table, *key),
    }
}

pub(crate) fn table_of(step: &Step) -> TableId {
    match step {
        Step::Insert(table, _) => *table,
        Step::Update(..) | Step::Delete(_) => MAIN,
    }
}

pub(crate) fn row_of(step: &Step) -> RowName {
    let key = match step {
        Step::Insert(_, values) => number(&values[KEY]).unwrap_or_default(),
        Step::Update(key, _) | Step::Delete(key) => *key,
    };
    (table_of(step).0, key)
}

pub(crate) fn row_in<'s>(state: &'s State, row: &RowName) -> Option<&'s Arc<Fields>> {
    state.rows(TableId(row.0))?.get(&row.1)
}

/// The locks that a step on a connection takes.
pub(crate) fn wanted(step: &Step, newest: &State) -> Wanted {
    let row = row_of(step);
    let has_codes = has_index(newest, CODE_INDEX.0);
    let old = row_in(newest, &row).and_then(|row| number(row.0.get(CODE)?));
    let new = match step {
        Step::Insert(_, values) => values.get(CODE).and_then(number),
        Step::Update(_, changes) => {
            let mut changes = changes.iter();
            let change = changes.find(|(column, _)| *column == CODE);
            change.and_then(|(_, value)| number(value))
        }
        Step::Delete(_) => None,
    };
    let mut codes = BTreeSet::new();
    let strength = match step {
        Step::Update(..) if new.is_none() || !has_codes || old == new => RowLock::NoKeyUpdate,
        _ => RowLock::Update,
    };
    if has_codes && strength == RowLock::Update {
        codes.extend([old, new].into_iter().flatten());
    }
    Wanted {
        row,
        strength,
        changes: true,
        codes,
    }
}

/// The locks that a step of a typed transaction takes: all unique keys of the row. None if there is
/// no such row.
pub(crate) fn wanted_by_closure(step: &Step, newest: &State) -> Option<Wanted> {
    let wanted = wanted(step, newest);
    let old = row_in(newest, &wanted.row);
    if old.is_none() && !matches!(step, Step::Insert(..)) {
        return None;
    }
    if !has_index(newest, CODE_INDEX.0) || wanted.row.0 != MAIN.0 {
        return Some(wanted);
    }
    let kept = old.filter(|_| !matches!(step, Step::Insert(..)));
    let kept = kept.and_then(|row| number(row.0.get(CODE)?));
    Some(Wanted {
        strength: RowLock::Update,
        codes: wanted.codes.into_iter().chain(kept).collect(),
        ..wanted
    })
}

pub(crate) fn has_index(state: &State, index: u32) -> bool {
    let main = state.tables.get(&MAIN.0);
    main.is_some_and(|main| main.indexes.contains(&index))
}

fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int64(number) => Some(*number),
        Value::Int32(number) => Some(i64::from(*number)),
        _ => None,
    }
}

impl Read {
    /// Whether its table and index are there.
    pub(crate) fn is_possible(&self, state: &State) -> bool {
        match self.way {
            Way::Key | Way::Range => state.rows(self.table).is_some(),
            Way::Group => has_index(state, crate::model::GROUP_INDEX.0),
            Way::Code => has_index(state, CODE_INDEX.0),
        }
    }

    /// The rows that it has to show.
    pub(crate) fn rows_of(&self, state: &State) -> Vec<Arc<Fields>> {
        let high = if self.way == Way::Key {
            self.low
        } else {
            self.high
        };
        let rows = state.rows(self.table).into_iter().flatten();
        let mut found: Vec<_> = rows
            .filter_map(|(key, row)| {
                let value = match self.way {
                    Way::Key | Way::Range => Some(*key),
                    Way::Group => number(&row.0[GROUP]),
                    Way::Code => number(&row.0[CODE]),
                };
                let value = value.filter(|value| (self.low..=high).contains(value))?;
                Some((value, *key, Arc::clone(row)))
            })
            .collect();
        found.sort_unstable_by_key(|(value, key, _)| (*value, *key));
        if self.direction == Direction::Backward {
            found.reverse();
        }
        found.into_iter().map(|(_, _, row)| row).collect()
    }

    pub(crate) fn perform(
        &self,
        connection: &mut Connection,
        database: &Database,
    ) -> Result<Vec<Arc<Fields>>> {
        let table = table(database, self.table)?;
        let (low, high) = (self.low, self.high);
        let scan = match self.way {
            Way::Key => {
                let row = connection.get(&table, low)?;
                return Ok(row.iter().map(fields).collect());
            }
            Way::Range => connection.scan(&table, low..=high, self.direction)?,
            Way::Group => {
                let index = table.index(GROUP_NAME)?;
                connection.scan_index(&index, low as i32..=high as i32, self.direction)?
            }
            Way::Code => {
                let index = table.index(CODE_NAME)?;
                connection.scan_index(&index, low..=high, self.direction)?
            }
        };
        drain(connection, scan)
    }
}

fn drain(connection: &mut Connection, mut scan: Scan) -> Result<Vec<Arc<Fields>>> {
    let (mut batch, mut rows) = (Vec::new(), Vec::new());
    while scan.next_batch(connection, &mut batch)? {
        rows.extend(batch.iter().map(fields));
    }
    Ok(rows)
}
