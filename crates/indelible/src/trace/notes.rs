//! Notes: operations that a session keeps while the database is recorded, and hands over when its
//! transaction has committed.
//!
//! They are the session's own until then, so a transaction that is undone leaves nothing. They are
//! handed over while its partitions are still held: in each partition the order of the trace is the
//! order of the transactions.
//!
//! While nothing is recorded, a session has no place for notes and each operation costs one look at
//! that.

use super::record::Note;
use super::{TraceAction, TraceSummary};
use crate::database::Database;
use crate::error::Result;
use crate::session::Session;
use crate::table::TableEntry;
use std::path::Path;
use std::sync::Arc;
use storage::record::{Changes, KeyBuf, Row, ValueRef};
use storage::table::Table as Shape;

impl Database {
    /// Starts to record the operations of transactions in a new file at `path`, for
    /// `indelible advise --trace`. Workers and transactions that began before are not recorded. The
    /// recording ends with [`Database::finish_trace`], or when the database closes; without either
    /// of them the file is refused.
    ///
    /// # Errors
    /// If the file exists or cannot be made, or if a recording is running.
    pub fn start_trace(&self, path: impl AsRef<Path>) -> Result<()> {
        self.core.check_process()?;
        self.core.recording.start(path.as_ref())
    }

    /// Ends the recording and returns its totals; `None` if there was none.
    ///
    /// # Errors
    /// If the file could not be written, now or at any time since the start; the transactions
    /// themselves were not affected.
    pub fn finish_trace(&self) -> Result<Option<TraceSummary>> {
        self.core.check_process()?;
        self.core.recording.finish()
    }
}

impl Session<'_> {
    /// Notes a look-up.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_get(&mut self, entry: &TableEntry, key: &KeyBuf, found: Option<&Row>) {
        let row_bytes = found.map(|row| row_bytes(&entry.shape, row));
        self.note(entry, key, TraceAction::Get { row_bytes });
    }

    /// Notes an insertion.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_insert(&mut self, entry: &TableEntry, row: &Row) {
        let mut key = KeyBuf::new();
        if entry.shape.primary.encode_row(row, &mut key).is_ok() {
            let row_bytes = row_bytes(&entry.shape, row);
            // Whether it appends is known when the note is written.
            let appends = false;
            self.note(entry, &key, TraceAction::Insert { row_bytes, appends });
        }
    }

    /// Notes an update; one that found no row is a look-up.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_update(
        &mut self,
        entry: &TableEntry,
        key: &KeyBuf,
        changes: &Changes,
        found: bool,
    ) {
        if !found {
            return self.note_get(entry, key, None);
        }
        let (mut columns, mut bytes) = (0, 0);
        for column in changes.columns() {
            let value = changes.value(column).unwrap_or(ValueRef::Null);
            columns += 1;
            bytes += value_bytes(&entry.shape, column, value);
        }
        self.note(entry, key, TraceAction::Update { columns, bytes });
    }

    /// Notes a deletion; one that found no row is a look-up.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_delete(&mut self, entry: &TableEntry, key: &KeyBuf, found: bool) {
        if found {
            self.note(entry, key, TraceAction::Delete);
        } else {
            self.note_get(entry, key, None);
        }
    }

    /// Notes a scan.
    pub(crate) fn note_scan(&mut self, entry: &TableEntry, seen: &RowsSeen) {
        let rows = seen.rows;
        self.note(entry, &seen.first, TraceAction::Scan { rows });
    }

    fn note(&mut self, entry: &TableEntry, key: &KeyBuf, action: TraceAction) {
        if let Some(notes) = &mut self.notes {
            notes.push(Note {
                shape: Arc::clone(&entry.shape),
                key: key.clone(),
                action,
            });
        }
    }

    /// To be called when the transaction has ended: its operations are recorded if it has
    /// committed.
    #[cold]
    #[inline(never)]
    pub(crate) fn settle_notes(&mut self, committed: bool) {
        if let Some(notes) = &mut self.notes {
            if committed {
                self.core.recording.take(notes);
            }
            notes.clear();
        }
    }
}

/// Rows that a scan has visited.
#[derive(Default)]
pub(crate) struct RowsSeen {
    rows: u32,
    first: KeyBuf,
}

impl RowsSeen {
    /// Counts one more row.
    pub(crate) fn add(&mut self, shape: &Shape, row: &Row) {
        if self.rows == 0 && shape.primary.encode_row(row, &mut self.first).is_err() {
            self.first = KeyBuf::new();
        }
        self.rows = self.rows.saturating_add(1);
    }
}

fn row_bytes(shape: &Shape, row: &Row) -> u32 {
    (0..shape.def.columns.len())
        .map(|column| value_bytes(shape, column, row.get(column)))
        .fold(0, u32::saturating_add)
}

/// Bytes of a value in a tuple.
fn value_bytes(shape: &Shape, column: usize, value: ValueRef<'_>) -> u32 {
    let data_type = shape.def.columns[column].data_type;
    data_type.fixed_bytes().unwrap_or_else(|| {
        let bytes = value.as_str().map(str::as_bytes).or(value.as_bytes());
        bytes.map_or(0, <[u8]>::len) as u32
    })
}
