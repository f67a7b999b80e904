//! A checkpoint that is written a piece at a time, while transactions go on.
//!
//! It holds the committed state at one position of the log, its *start*, exactly: so replay from
//! there needs to know nothing about how it was written. A cursor goes through the tables in the
//! order of their primary keys, and writes some rows after each transaction. Where a transaction
//! changes a row that the cursor has yet to come to, the row's old form is written first and its
//! key is noted; a row that comes there anew is only noted. The cursor passes over noted keys.
//!
//! Why each row of the start is written once and no other is:
//! 1. A snapshot begins, and its cursor moves, only between transactions: what the cursor reads is
//!    committed. While it has not come to a row, the row is as it was at the start, unless its key
//!    is noted.
//! 2. A key is noted by the first change since the start that succeeds, and stays noted. So the
//!    before image of that change is the row as it was at the start, and an insertion shows that
//!    there was none.
//! 3. An abort takes the row back to what the start had, which is written already, or to nothing,
//!    which is noted. It changes nothing here.
//! 4. Rows of one state never violate a constraint, in whatever order they are loaded. Secondary
//!    indexes are not in a checkpoint.
//! 5. Tables, and indexes, of the start are written first of all; the log has every later change of
//!    them. A table that is still needed is not dropped before the snapshot is finished.
//!
//! Pace: the log may grow by half of its limit while the snapshot is written, and each transaction
//! pays for its own share of that. A table that is very large for its log stretches the time
//! instead, so that no single step becomes long.

use crate::engine::serial::store::Store;
use crate::table::Space;
use disk::{Directory, File};
use pmem::Memory;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::engine::{Direction, ScanRange};
use storage::log::LogIdentity;
use storage::log::checkpoint::{CheckpointHead, CheckpointWriter};
use storage::record::{KeyBuf, Row, TableId};
use storage::table::Table;
use storage::{Result, StorageError};

/// Most bytes of tables that are written for one byte of log.
const STEP_RATIO_MAX: u64 = 64;
/// Less than this is put off: a step costs a search in the index.
const STEP_BYTES_MIN: u64 = 512;

/// A checkpoint that is being written.
pub(super) struct Snapshot<F: File> {
    pub(super) writer: CheckpointWriter<F>,
    pub(super) head: CheckpointHead,
    /// The tables of the start, by number.
    tables: Vec<Arc<Table>>,
    /// The table that the cursor is in; all tables before it are done.
    position: usize,
    /// The least key of that table that the cursor has not met.
    next: KeyBuf,
    /// Noted keys that the cursor has yet to come to, by table.
    noted: Vec<BTreeSet<KeyBuf>>,
    key: KeyBuf,
    /// Bytes of the rows that the cursor passed over.
    passed_bytes: u64,
    expected_bytes: u64,
    window_bytes: u64,
    /// Why the snapshot cannot be finished.
    failure: Option<StorageError>,
}

impl<F: File> Snapshot<F> {
    /// Begins a snapshot of the state now. About `expected_bytes` are to be written until the log
    /// has grown by `window_bytes`.
    pub(super) fn begin<D: Directory<File = F>>(
        directory: &D,
        identity: LogIdentity,
        head: CheckpointHead,
        tables: Vec<Arc<Table>>,
        expected_bytes: u64,
        window_bytes: u64,
    ) -> Result<Self> {
        let mut writer = CheckpointWriter::create(directory, identity, head)?;
        for table in &tables {
            writer.table(&table.def)?;
        }
        let mut snapshot = Self {
            writer,
            head,
            position: 0,
            next: KeyBuf::default(),
            noted: tables.iter().map(|_| BTreeSet::new()).collect(),
            key: KeyBuf::default(),
            passed_bytes: 0,
            expected_bytes,
            window_bytes: window_bytes.max(expected_bytes / STEP_RATIO_MAX).max(1),
            failure: None,
            tables,
        };
        snapshot.enter(0);
        Ok(snapshot)
    }

    /// Whether rows of this table are still to be written.
    pub(super) fn needs(&self, table: TableId) -> bool {
        self.find(table).is_some()
    }

    /// Keeps the old form of a row that was changed or deleted.
    pub(super) fn keep(&mut self, table: TableId, key: &[u64], before: &Row) {
        if let Some(position) = self.find(table)
            && self.note(position, key)
            && let Err(error) = self.writer.row(table, before)
        {
            self.failure.get_or_insert(error);
        }
    }

    /// Keeps a row that was inserted out of the snapshot.
    pub(super) fn leave_out(&mut self, table: TableId, row: &Row) {
        let Some(position) = self.find(table) else {
            return;
        };
        let mut key = std::mem::take(&mut self.key);
        match self.tables[position].primary.encode_row(row, &mut key) {
            Ok(()) => drop(self.note(position, &key)),
            Err(error) => drop(self.failure.get_or_insert(error.into())),
        }
        self.key = key;
    }

    /// Writes the rows that are due when the log has grown by `grown_bytes` since the start. True
    /// when all rows are written.
    pub(super) fn advance<M: Memory>(
        &mut self,
        store: &mut Store<M>,
        grown_bytes: u64,
    ) -> Result<bool> {
        let due = u128::from(grown_bytes) * u128::from(self.expected_bytes)
            / u128::from(self.window_bytes);
        let due = u64::try_from(due).unwrap_or(u64::MAX);
        if due.saturating_sub(self.work_bytes()) < STEP_BYTES_MIN && self.failure.is_none() {
            return Ok(false);
        }
        self.advance_to(store, due)
    }

    /// Writes all rows that are left.
    pub(super) fn complete<M: Memory>(&mut self, store: &mut Store<M>) -> Result<()> {
        self.advance_to(store, u64::MAX).map(|_| ())
    }

    fn advance_to<M: Memory>(&mut self, store: &mut Store<M>, due: u64) -> Result<bool> {
        while self.failure.is_none() && self.position < self.tables.len() {
            if self.work_bytes() >= due {
                return Ok(false);
            }
            self.advance_in_table(store, due)?;
        }
        self.failure.take().map_or(Ok(true), Err)
    }

    /// Goes on in the current table until it ends or enough is done.
    fn advance_in_table<M: Memory>(&mut self, store: &mut Store<M>, due: u64) -> Result<()> {
        let table = Arc::clone(&self.tables[self.position]);
        let mut high = KeyBuf::default();
        high.resized(table.primary.shape().words).fill(u64::MAX);
        let range = ScanRange {
            table: table.def.id,
            index: None,
            low: self.next.clone(),
            high,
            direction: Direction::Forward,
        };
        let mut result = Ok(());
        let mut has_ended = true;
        store.space.scan(&range, &mut |row| {
            result = self.visit(&table, row);
            if result.is_ok() && self.work_bytes() < due {
                return ControlFlow::Continue(());
            }
            has_ended = false;
            ControlFlow::Break(())
        })?;
        result?;
        if has_ended || !count_up(&mut self.next) {
            self.enter(self.position + 1);
        }
        Ok(())
    }

    /// Writes the row that the cursor has come to, unless its key is noted. Leaves its key in
    /// `next`.
    fn visit(&mut self, table: &Table, row: &Row) -> Result<()> {
        table.primary.encode_row(row, &mut self.next)?;
        let noted = &mut self.noted[self.position];
        while noted.first().is_some_and(|first| *first < self.next) {
            noted.pop_first();
        }
        if noted.first() == Some(&self.next) {
            noted.pop_first();
            self.passed_bytes += row.tuple_bytes().len() as u64;
            return Ok(());
        }
        self.writer.row(table.def.id, row)
    }

    /// Goes to the beginning of a table.
    fn enter(&mut self, position: usize) {
        if let Some(noted) = self.noted.get_mut(self.position) {
            noted.clear();
        }
        self.position = position;
        if let Some(table) = self.tables.get(position) {
            self.next.resized(table.primary.shape().words).fill(0);
        }
    }

    /// The place of a table that is not done.
    fn find(&self, table: TableId) -> Option<usize> {
        let left = &self.tables[self.position..];
        let found = left.binary_search_by_key(&table.0, |table| table.def.id.0);
        found.ok().map(|place| place + self.position)
    }

    /// Notes a key that the cursor has yet to come to; false if it has passed, or the key is noted
    /// already.
    fn note(&mut self, position: usize, key: &[u64]) -> bool {
        let is_passed = position == self.position && key < &*self.next;
        !is_passed && self.noted[position].insert(KeyBuf::from_words(key))
    }

    fn work_bytes(&self) -> u64 {
        self.writer.plain_bytes() + self.passed_bytes
    }
}

/// The next key; false if there is none.
fn count_up(key: &mut KeyBuf) -> bool {
    let words = key.len();
    let key = key.resized(words);
    for word in key.iter_mut().rev() {
        *word = word.wrapping_add(1);
        if *word != 0 {
            return true;
        }
    }
    false
}
