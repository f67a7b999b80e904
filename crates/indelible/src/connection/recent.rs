//! Rows that were committed last, for those who lock them next.
//!
//! A few rows are changed by everybody: branches, counters, heads of queues. Each change looks at
//! the row first, and would take the partition for that look. Here it finds what the last commit
//! has left, in ordinary memory.
//!
//! Invariants:
//! 1. A row here is the newest committed one, or its content is locked by a transaction that is
//!    about to replace or to forget it. So only those who have locked the content look.
//! 2. Nobody changes a row without the lock of its content while there are rows here: typed
//!    transactions lock too while connections are open, and the first connection empties this when
//!    those that do not have ended.
//!
//! A key has one place, which keys win by votes: a commit of the key there is one for it, a commit
//! of another key one against it. Only rows that have some votes are kept, so those that nobody
//! comes back to cost no memory, and do not drive the others out.

use super::change::{Change, Version};
use crate::table::Table;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use storage::record::{KeyBuf, Row, TableId, key_hash};

/// Places of keys; a power of two.
const PLACES: usize = 1024;
/// Largest row that is kept, so that all of them take little memory.
const ROW_BYTES_MAX: usize = 1024;
/// Votes of a key whose row is kept.
const VOTES_KEPT: u8 = 4;
const VOTES_MAX: u8 = 16;

/// The rows, each under a mutex that is held for a look.
#[derive(Default)]
pub(crate) struct Recent(OnceLock<Box<[Entry]>>);

/// Alone on its cache lines: neighbours are rows of other transactions.
#[derive(Default)]
#[repr(align(128))]
struct Entry(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// The table of the key that has the place.
    table: Option<TableId>,
    key: KeyBuf,
    votes: u8,
    row: Option<Arc<Row>>,
}

impl Kept {
    fn is_of(&self, table: TableId, key: &KeyBuf) -> bool {
        self.table == Some(table) && self.key == *key
    }
}

impl Recent {
    /// Forgets all. Nobody changes rows meanwhile without their locks.
    pub(super) fn clear(&self) {
        for place in self.places() {
            place.lock().row = None;
        }
    }

    /// The row, if it is kept. The caller has locked its content.
    pub(super) fn find(&self, table: &Table, key: &KeyBuf) -> Version {
        let kept = self.place(table.id(), key).lock();
        if !kept.is_of(table.id(), key) {
            return None;
        }
        let row = kept.row.as_ref()?;
        // A number may be that of another table by now, and then its rows have another layout.
        let is_same = Arc::ptr_eq(row.layout(), &table.entry.shape.layout);
        is_same.then(|| Arc::clone(row))
    }

    /// Notes a change that was committed, before the lock of its row is given back. Returns a row
    /// that is not kept any more.
    pub(super) fn note(&self, change: &Change) -> Version {
        // A row that was not there is not here; and most new rows are not changed soon.
        change.before.as_ref()?;
        let table = change.table.id();
        let after = change.after.as_ref();
        let Some(after) = after.filter(|row| row.bytes() <= ROW_BYTES_MAX) else {
            return self.forget(table, &change.key);
        };
        let mut kept = self.place(table, &change.key).lock();
        if kept.is_of(table, &change.key) {
            kept.votes = VOTES_MAX.min(kept.votes + 1);
            return if kept.votes < VOTES_KEPT {
                kept.row.take()
            } else {
                kept.row.replace(Arc::clone(after))
            };
        }
        if kept.votes > 1 {
            kept.votes -= 1;
            return None;
        }
        kept.key.assign(&change.key);
        (kept.table, kept.votes) = (Some(table), 1);
        kept.row.take()
    }

    /// Forgets a row that is going to change, or has perhaps.
    pub(super) fn forget(&self, table: TableId, key: &KeyBuf) -> Version {
        let mut kept = self.place(table, key).lock();
        if !kept.is_of(table, key) {
            return None;
        }
        kept.row.take()
    }

    fn place(&self, table: TableId, key: &KeyBuf) -> &Entry {
        let hash = key_hash(key) ^ u64::from(table.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.places()[(hash >> 32) as usize % PLACES]
    }

    /// Made for the first connection.
    fn places(&self) -> &[Entry] {
        self.0
            .get_or_init(|| (0..PLACES).map(|_| Entry::default()).collect())
    }
}

impl Entry {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        // It is whole after each step of its holder.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
