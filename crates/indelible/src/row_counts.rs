//! Numbers of rows, counted as transactions commit.
//!
//! A table's count is in DRAM. Once the database has [`HiddenTable::Statistics`], `checkpoint` and
//! the orderly end save it there, and the next opening loads it: exact after an orderly end, else
//! an estimate, because commits since then are not in it. Tables that were never counted have none.

use crate::core::Core;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::hidden::HiddenTable;
use crate::key::Prefix;
use crate::lock_policy::LockPolicy;
use crate::options::TransactionOptions;
use crate::partition::thread_number;
use crate::session::Session;
use crate::table::Table;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use storage::engine::{Direction, Durability};
use storage::record::{Reader, TableId};

/// Version of the stored form.
const VERSION: u8 = 1;
/// The place of the count among the statistics of columns.
const COLUMN: i32 = -1;

/// The number of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCount {
    /// Rows of the transactions that have committed.
    pub rows: u64,
    /// Whether it is exact; otherwise an estimate, because the process was killed since rows were
    /// counted.
    pub is_exact: bool,
}

const UNKNOWN: u8 = 0;
const ESTIMATE: u8 = 1;
const EXACT: u8 = 2;

/// The shares of a count. Threads with as many numbers between them have the same one.
const SHARES: usize = 8;

/// The count of one table.
pub(crate) struct Counter {
    shares: [Arc<Share>; SHARES],
    state: AtomicU8,
    /// The count that the table of statistics has.
    saved: Mutex<Option<RowCount>>,
}

/// A part of a count, alone on its cache lines: each transaction that inserts takes a reference and
/// adds to it, and must not wait for the lines of another thread.
#[derive(Default)]
#[repr(align(128))]
struct Share {
    rows: AtomicI64,
    /// Whether a commit of its threads may have happened or not.
    is_doubtful: AtomicBool,
}

impl Counter {
    /// The count of a table about which nothing is known.
    pub(crate) fn unknown() -> Self {
        Self {
            shares: std::array::from_fn(|_| Arc::default()),
            state: AtomicU8::new(UNKNOWN),
            saved: Mutex::new(None),
        }
    }

    /// Begins to count an empty table.
    pub(crate) fn begin(&self) {
        self.set(0, EXACT);
    }

    /// The share of this thread.
    #[inline]
    fn share(&self) -> &Arc<Share> {
        &self.shares[thread_number() % SHARES]
    }

    /// Notes a number that was counted while others may have changed it.
    pub(crate) fn estimate(&self, rows: u64) {
        if !self.get().is_some_and(|count| count.is_exact) {
            self.set(rows, ESTIMATE);
        }
    }

    fn set(&self, rows: u64, state: u8) {
        let mut rows = rows.cast_signed();
        for share in &self.shares {
            share
                .rows
                .store(std::mem::take(&mut rows), Ordering::Relaxed);
            share.is_doubtful.store(false, Ordering::Relaxed);
        }
        self.state.store(state, Ordering::Release);
    }

    fn get(&self) -> Option<RowCount> {
        let state = self.state.load(Ordering::Acquire);
        let (mut rows, mut is_exact) = (0, state == EXACT);
        for share in &self.shares {
            rows += share.rows.load(Ordering::Relaxed);
            is_exact &= !share.is_doubtful.load(Ordering::Relaxed);
        }
        let rows = rows.max(0).cast_unsigned();
        (state != UNKNOWN).then_some(RowCount { rows, is_exact })
    }
}

/// Rows that the open transaction has inserted, less those that it has deleted, by table.
#[derive(Default)]
pub(crate) struct RowChanges {
    /// Stays with a count of zero when the transaction has ended: a worker's next one is likely to
    /// change the same table, and taking a reference anew costs two locked instructions.
    first: Option<(Arc<Share>, i64)>,
    more: Vec<(Arc<Share>, i64)>,
}

impl RowChanges {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.more.is_empty() && self.first.as_ref().is_none_or(|(_, rows)| *rows == 0)
    }

    #[inline]
    pub(crate) fn add(&mut self, table: &Table, rows: i64) {
        let share = table.entry.count.share();
        match &mut self.first {
            Some((first, count)) if Arc::ptr_eq(first, share) => *count += rows,
            None | Some((_, 0)) => self.first = Some((Arc::clone(share), rows)),
            Some(_) => self.add_further(share, rows),
        }
    }

    #[cold]
    fn add_further(&mut self, share: &Arc<Share>, rows: i64) {
        let mut more = self.more.iter_mut();
        match more.find(|(other, _)| Arc::ptr_eq(other, share)) {
            Some((_, count)) => *count += rows,
            None => self.more.push((Arc::clone(share), rows)),
        }
    }

    /// Counts the rows of a transaction that has ended.
    pub(crate) fn settle<R>(&mut self, committed: &Result<R>) {
        for (share, rows) in self.first.iter().chain(&self.more) {
            match committed {
                Ok(_) => _ = share.rows.fetch_add(*rows, Ordering::Relaxed),
                Err(Error::InDoubt { .. }) => share.is_doubtful.store(true, Ordering::Relaxed),
                Err(_) => {}
            }
        }
        self.clear();
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        if let Some((_, rows)) = &mut self.first {
            *rows = 0;
        }
        self.more.clear();
    }
}

impl Table {
    /// The number of rows of committed transactions, without reading them; none if they were never
    /// counted, or if the table is a snapshot's. Over openings it lasts once the database has
    /// statistics ([`Database::analyze`]).
    pub fn row_count(&self) -> Option<RowCount> {
        self.entry.count.get()
    }
}

fn encode(table: TableId, count: RowCount) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&table.0.to_le_bytes());
    bytes.extend_from_slice(&count.rows.to_le_bytes());
    bytes.push(u8::from(count.is_exact));
    bytes
}

/// The count, if it is this table's.
fn decode(bytes: &[u8], table: TableId) -> Option<RowCount> {
    const WHAT: &str = "a row count";
    let mut reader = Reader::new(bytes);
    let is_its = reader.byte(WHAT).ok()? == VERSION && reader.number(WHAT).ok()? == table.0;
    let rows = reader.array(WHAT).map(u64::from_le_bytes).ok()?;
    let is_exact = reader.flag(WHAT).ok()?;
    is_its.then_some(RowCount { rows, is_exact })
}

impl Core {
    /// Saves the counts that have changed, if the database has a table for them.
    pub(crate) fn save_counts(&self, wait_limit: Duration) -> Result<()> {
        let Some(kept) = self.hidden_table(HiddenTable::Statistics) else {
            return Ok(());
        };
        let tables: Vec<Table> = self.tables().values().cloned().collect();
        let mut session = None;
        let mut written = Vec::new();
        for table in &tables {
            let count = table.entry.count.get();
            let saved = table.entry.count.saved.lock();
            let saved = *saved.unwrap_or_else(PoisonError::into_inner);
            let Some(count) = count.filter(|_| count != saved) else {
                continue;
            };
            let session = match &mut session {
                Some(session) => session,
                none => {
                    let policy = LockPolicy {
                        wait_limit,
                        ..self.lock_policy
                    };
                    let new = none.insert(Session::new(self, policy)?);
                    new.unchecked = true;
                    new
                }
            };
            let body = encode(table.id(), count);
            let mut row = kept.row();
            row.set(0, table.name())?;
            row.set(1, COLUMN)?;
            row.set(2, body.as_slice())?;
            session.upsert(&kept, &row)?;
            written.push((table, count));
        }
        if let Some(mut session) = session {
            session.finish(Durability::Immediate)?;
        }
        for (table, count) in written {
            let saved = table.entry.count.saved.lock();
            *saved.unwrap_or_else(PoisonError::into_inner) = Some(count);
        }
        Ok(())
    }
}

impl Database {
    /// Loads the counts of all tables. They are exact if the last user has closed the database in
    /// order.
    pub(crate) fn load_counts(&self, was_closed: bool) -> Result<()> {
        let Some(kept) = self.core.hidden_table(HiddenTable::Statistics) else {
            return Ok(());
        };
        self.read(|reader| {
            for table in self.tables() {
                let Some(row) = reader.get(&kept, (table.name(), COLUMN))? else {
                    continue;
                };
                let body = row.get(2).as_bytes();
                let Some(saved) = body.and_then(|body| decode(body, table.id())) else {
                    continue;
                };
                let is_exact = was_closed && saved.is_exact;
                let state = if is_exact { EXACT } else { ESTIMATE };
                table.entry.count.set(saved.rows, state);
                let place = table.entry.count.saved.lock();
                *place.unwrap_or_else(PoisonError::into_inner) = Some(saved);
            }
            Ok(())
        })
    }

    /// Forgets the count and the statistics of a table that is gone.
    pub(crate) fn forget_statistics(&self, name: &str) -> Result<()> {
        let Some(kept) = self.core.hidden_table(HiddenTable::Statistics) else {
            return Ok(());
        };
        let options = TransactionOptions::new().unchecked(true);
        self.transaction_with(&options, |t| {
            let mut columns = Vec::new();
            t.scan(&kept, Prefix(name), Direction::Forward, |row| {
                columns.push(row.get(1).to_value());
                ControlFlow::Continue(())
            })?;
            for column in &columns {
                t.delete(&kept, (name, column))?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_read_back_for_their_own_table_only() {
        let count = RowCount {
            rows: 7,
            is_exact: true,
        };
        let bytes = encode(TableId(20), count);
        assert_eq!(decode(&bytes, TableId(20)), Some(count));
        assert_eq!(decode(&bytes, TableId(21)), None);
        assert_eq!(decode(&bytes[..9], TableId(20)), None);
    }

    #[test]
    fn a_doubtful_commit_makes_an_estimate() {
        let counter = Counter::unknown();
        assert_eq!(counter.get(), None);
        counter.share().is_doubtful.store(true, Ordering::Relaxed);
        assert_eq!(counter.get(), None);
        counter.begin();
        counter.share().is_doubtful.store(true, Ordering::Relaxed);
        let is_exact = false;
        assert_eq!(counter.get(), Some(RowCount { rows: 0, is_exact }));
        counter.estimate(9);
        assert_eq!(counter.get(), Some(RowCount { rows: 9, is_exact }));
    }
}
