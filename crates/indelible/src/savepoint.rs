//! Savepoints: moments of a transaction to which it can roll back without ending.
//!
//! From its first savepoint on, a transaction notes the undo of each of its changes: the key of
//! each inserted row, and each changed or deleted row as it was. A rollback applies these undos,
//! newest first. They are ordinary changes of the same transaction, under the locks that it holds
//! already; so every method has savepoints, and recovery needs no knowledge of them. A transaction
//! without savepoints notes nothing.

use crate::error::{Error, Result};
use crate::key::IntoKey;
use crate::session::Session;
use crate::table::Table;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::record::{Row, Value};

/// A moment of a transaction; see [`Transaction::savepoint`](crate::Transaction::savepoint).
#[derive(Debug)]
pub struct Savepoint {
    number: u64,
}

/// One change, with the data that undoes it.
enum Step {
    /// The row with this key was inserted.
    Inserted(Table, Vec<Value>),
    /// A row was changed; this is its old state.
    Changed(Table, Row),
    /// This row was deleted.
    Deleted(Table, Row),
}

impl Step {
    /// Bytes of its row or key, approximately and at most.
    fn row_bytes(&self) -> usize {
        match self {
            Self::Inserted(_, key) => key.iter().map(value_bytes).sum(),
            Self::Changed(_, row) | Self::Deleted(_, row) => row.bytes(),
        }
    }
}

fn value_bytes(value: &Value) -> usize {
    let content = match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    size_of::<Value>() + content
}

/// The savepoints of a transaction, and the undo of its changes.
#[derive(Default)]
pub(crate) struct Savepoints {
    /// Numbers, each with the count of steps at that moment.
    marks: Vec<(u64, usize)>,
    steps: Vec<Step>,
    /// Bytes of the rows and keys in them.
    row_bytes: usize,
}

impl Savepoints {
    /// Bytes of memory that the notes take, approximately and at most.
    pub(crate) fn bytes(&self) -> usize {
        self.row_bytes + self.steps.len() * size_of::<Step>()
    }
}

impl Session<'_> {
    /// A moment to roll back to.
    pub(crate) fn savepoint(&mut self) -> Savepoint {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let savepoints = self.savepoints.get_or_insert_default();
        savepoints.marks.push((number, savepoints.steps.len()));
        Savepoint { number }
    }

    /// Undoes the changes of the transaction since the savepoint. If that fails, the transaction
    /// cannot commit.
    pub(crate) fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        // The undo itself is not noted.
        let mut savepoints = self.savepoints.take().ok_or(Error::NoSuchSavepoint)?;
        let marks = &mut savepoints.marks;
        let found = marks.iter().rposition(|mark| mark.0 == savepoint.number);
        let result = match found {
            Some(index) => {
                let (_, steps) = marks[index];
                marks.truncate(index + 1);
                let result = self.without_memory_limit(|session| {
                    session.take_back(&mut savepoints.steps, steps)
                });
                savepoints.row_bytes = savepoints.steps.iter().map(Step::row_bytes).sum();
                result
            }
            None => Err(Error::NoSuchSavepoint),
        };
        self.savepoints = Some(savepoints);
        result
    }

    fn take_back(&mut self, steps: &mut Vec<Step>, down_to: usize) -> Result<()> {
        while steps.len() > down_to {
            let taken = match steps.pop() {
                Some(Step::Inserted(table, key)) => self.delete(&table, &&key),
                Some(Step::Changed(table, row)) => self.upsert(&table, &row),
                Some(Step::Deleted(table, row)) => self.insert(&table, &row).map(|()| true),
                None => break,
            };
            if let Err(error) = taken {
                self.doom();
                return Err(error);
            }
        }
        Ok(())
    }

    /// The row that is about to be changed, if it must be known; none if there is no such row.
    pub(crate) fn row_before(&mut self, table: &Table, key: &impl IntoKey) -> Result<Option<Row>> {
        let mut row = table.row();
        Ok(self.get_to_change(table, key, &mut row)?.then_some(row))
    }

    pub(crate) fn note_inserted(&mut self, table: &Table, row: &Row) {
        let key = &table.entry.shape.def.primary_key;
        let key = key.iter().map(|&column| row.get(column).to_value());
        let step = Step::Inserted(table.clone(), key.collect());
        self.note_step(step);
    }

    pub(crate) fn note_changed(&mut self, table: &Table, before: Row) {
        self.note_step(Step::Changed(table.clone(), before));
    }

    pub(crate) fn note_deleted(&mut self, table: &Table, before: Row) {
        self.note_step(Step::Deleted(table.clone(), before));
    }

    fn note_step(&mut self, step: Step) {
        if let Some(savepoints) = &mut self.savepoints {
            savepoints.row_bytes += step.row_bytes();
            savepoints.steps.push(step);
        }
    }
}
