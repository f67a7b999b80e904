//! Recording: sessions note their operations, and hand them over when their transaction has committed.
//!
//! Notes are a session's own until then, so a transaction that is undone leaves nothing. They are handed over while its partitions are
//! still held: in each partition the order of the trace is the order of the transactions. A recording that cannot be
//! written stops and says so when it is ended; it never fails a transaction.
//!
//! While nothing is recorded, a session has no place for notes and each operation costs one look at that.

use super::format::{
    BLOCK_BYTES, BLOCK_BYTES_MAX, HEADER_BYTES, Header, TABLES_MAX, block_header, encode_operation,
    encode_tables,
};
use super::{TraceAction, TraceOperation, TraceSummary, TraceTable};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::session::Session;
use crate::table::TableEntry;
use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use storage::record::{Changes, KeyBuf, Row, TableId, ValueRef};
use storage::table::Table as Shape;

/// Bytes that a value of a column without a fixed size is taken to have until rows say more.
const VARIABLE_BYTES: u32 = 64;

/// One operation, as a session keeps it until its transaction ends.
pub(crate) struct Note {
    shape: Arc<Shape>,
    key: KeyBuf,
    action: TraceAction,
}

/// The recording of a database: none, or one.
#[derive(Default)]
pub(crate) struct Recording {
    is_on: AtomicBool,
    recorder: Mutex<Option<Recorder>>,
}

impl Recording {
    /// Whether new sessions note what they do.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Starts a recording into a new file.
    pub(crate) fn start(&self, path: &Path) -> Result<()> {
        let mut slot = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(recorder) = &*slot {
            return Err(Error::option(
                "record_trace",
                format!("{} is being recorded already", recorder.path.display()),
                "end that recording first",
            ));
        }
        *slot = Some(Recorder::create(path)?);
        self.is_on.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the recording, if there is one.
    pub(crate) fn finish(&self) -> Result<Option<TraceSummary>> {
        self.is_on.store(false, Ordering::Relaxed);
        let recorder = self
            .recorder
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        recorder.map(Recorder::finish).transpose()
    }

    /// Takes over the notes of a transaction that has committed.
    fn take(&self, notes: &mut Vec<Note>) {
        let mut slot = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(recorder) = &mut *slot {
            recorder.take(notes);
        }
        notes.clear();
    }
}

impl Database {
    /// Starts to record what transactions do into a new file at `path`, for `indelible advise --trace`. Workers and transactions
    /// that began before are not recorded. The recording ends with [`Database::finish_trace`], or when the database closes; without
    /// either of them the file is refused.
    ///
    /// # Errors
    /// If the file exists or cannot be made, or if a recording is running.
    pub fn start_trace(&self, path: impl AsRef<Path>) -> Result<()> {
        self.core.check_process()?;
        self.core.recording.start(path.as_ref())
    }

    /// Ends the recording and says how much it has; `None` if there was none.
    ///
    /// # Errors
    /// If the file could not be written, now or at any time since the start; the transactions themselves were not affected.
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
            // Whether it appends is known when it is written.
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

    /// The transaction has ended: what it did is recorded if it has committed.
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

/// What a scan has visited.
#[derive(Default)]
pub(crate) struct RowsSeen {
    rows: u32,
    first: KeyBuf,
}

impl RowsSeen {
    /// Counts one row more.
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

/// Bytes of a value as a tuple has them.
fn value_bytes(shape: &Shape, column: usize, value: ValueRef<'_>) -> u32 {
    let data_type = shape.def.columns[column].data_type;
    data_type.fixed_bytes().unwrap_or_else(|| {
        let bytes = value.as_str().map(str::as_bytes).or(value.as_bytes());
        bytes.map_or(0, <[u8]>::len) as u32
    })
}

/// A file under construction.
struct Recorder {
    path: PathBuf,
    file: File,
    /// Salt of the hash of keys; in no file.
    keys: RandomState,
    header: Header,
    tables: Vec<TraceTable>,
    numbers: HashMap<TableId, u32>,
    /// The greatest key inserted into each table.
    greatest: Vec<Option<KeyBuf>>,
    block: Vec<u8>,
    /// What stopped the recording.
    failure: Option<Error>,
}

impl Recorder {
    fn create(path: &Path) -> Result<Self> {
        let refused = |source| Error::Io {
            action: "create the trace",
            path: path.to_owned(),
            source,
        };
        let mut file = File::create_new(path).map_err(refused)?;
        let header = Header::default();
        file.write_all(&header.encode()).map_err(refused)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            keys: RandomState::new(),
            header,
            tables: Vec::new(),
            numbers: HashMap::new(),
            greatest: Vec::new(),
            block: Vec::with_capacity(BLOCK_BYTES_MAX),
            failure: None,
        })
    }

    /// Writes a transaction.
    fn take(&mut self, notes: &[Note]) {
        if self.failure.is_some() {
            return;
        }
        for (at, note) in notes.iter().enumerate() {
            if let Err(error) = self.write(note, at + 1 == notes.len()) {
                self.failure = Some(error);
                return;
            }
        }
        self.header.transactions += u64::from(!notes.is_empty());
        self.header.operations += notes.len() as u64;
    }

    fn write(&mut self, note: &Note, ends_transaction: bool) -> Result<()> {
        let table = self.table(&note.shape)?;
        let mut action = note.action;
        if let TraceAction::Insert { appends, .. } = &mut action {
            let greatest = &mut self.greatest[table as usize];
            *appends = greatest
                .as_ref()
                .is_some_and(|greatest| note.key > *greatest);
            if *appends || greatest.is_none() {
                *greatest = Some(note.key.clone());
            }
        }
        let mut hasher = self.keys.build_hasher();
        hasher.write_u32(table);
        note.key.iter().for_each(|word| hasher.write_u64(*word));
        let operation = TraceOperation {
            table,
            key: hasher.finish(),
            action,
            ends_transaction,
        };
        encode_operation(&operation, &mut self.block);
        if self.block.len() >= BLOCK_BYTES {
            self.write_block()?;
            self.header.blocks += 1;
        }
        Ok(())
    }

    /// The number of a table, which is described when it is first seen.
    fn table(&mut self, shape: &Shape) -> Result<u32> {
        let id = shape.def.id;
        if let Some(&number) = self.numbers.get(&id) {
            return Ok(number);
        }
        if self.tables.len() == TABLES_MAX {
            return Err(Error::option(
                "record_trace",
                format!("more than {TABLES_MAX} tables were used"),
                "record for a shorter time",
            ));
        }
        let number = self.tables.len() as u32;
        let columns = &shape.def.columns;
        let declared = columns.iter().map(|column| {
            let data_type = column.data_type;
            let bytes = data_type.fixed_bytes();
            u64::from(bytes.unwrap_or_else(|| data_type.bytes_max().min(VARIABLE_BYTES)))
        });
        self.tables.push(TraceTable {
            columns: columns.len() as u32,
            declared_bytes: declared.sum(),
            indexes: shape.def.indexes.len() as u32,
        });
        self.numbers.insert(id, number);
        self.greatest.push(None);
        Ok(number)
    }

    fn write_block(&mut self) -> Result<()> {
        let head = block_header(self.header.blocks, &self.block);
        let written = self
            .file
            .write_all(&head)
            .and_then(|()| self.file.write_all(&self.block));
        self.block.clear();
        written.map_err(|source| self.refused(source))
    }

    fn refused(&self, source: std::io::Error) -> Error {
        Error::Io {
            action: "write the trace",
            path: self.path.clone(),
            source,
        }
    }

    fn finish(mut self) -> Result<TraceSummary> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if !self.block.is_empty() {
            self.write_block()?;
            self.header.blocks += 1;
        }
        self.block = encode_tables(&self.tables);
        self.write_block()?;
        self.header.tables = self.tables.len() as u32;
        self.header.is_finished = true;
        let written = self.write_header();
        written.map_err(|source| self.refused(source))?;
        Ok(TraceSummary {
            transactions: self.header.transactions,
            operations: self.header.operations,
        })
    }

    /// Makes the file whole: everything else in it is durable before its header says that it has ended.
    fn write_header(&mut self) -> std::io::Result<()> {
        self.header.file_bytes = self.file.stream_position()?;
        debug_assert!(self.header.file_bytes >= HEADER_BYTES as u64);
        self.file.sync_data()?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&self.header.encode())?;
        // commit point: the header counts what is durable before it; a reader refuses the file without it.
        self.file.sync_data()
    }
}
