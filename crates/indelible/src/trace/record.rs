//! Recording: the file under construction, and the notes of committed transactions on their way
//! into it.
//!
//! Sessions hand their notes over (`notes`), a transaction at a time. A recording that cannot be
//! written stops and says so when it is ended; it never fails a transaction.

use super::format::{
    BLOCK_BYTES, BLOCK_BYTES_MAX, HEADER_BYTES, Header, TABLES_MAX, block_header, encode_operation,
    encode_tables,
};
use super::{TraceAction, TraceOperation, TraceSummary, TraceTable};
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use storage::record::{KeyBuf, TableId};
use storage::table::Table as Shape;

/// Assumed bytes of a value of a column without a fixed size, until rows show their sizes.
const VARIABLE_BYTES: u32 = 64;

/// One operation, as a session keeps it until its transaction ends.
pub(crate) struct Note {
    pub(super) shape: Arc<Shape>,
    pub(super) key: KeyBuf,
    pub(super) action: TraceAction,
}

/// The recording of a database: none, or one.
#[derive(Default)]
pub(crate) struct Recording {
    is_on: AtomicBool,
    recorder: Mutex<Option<Recorder>>,
}

impl Recording {
    /// Whether new sessions note their operations.
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
    pub(super) fn take(&self, notes: &mut Vec<Note>) {
        let mut slot = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(recorder) = &mut *slot {
            recorder.take(notes);
        }
        notes.clear();
    }
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
    /// The error that stopped the recording.
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

    /// Completes the file: everything else in it is durable before its header says that it has
    /// ended.
    fn write_header(&mut self) -> std::io::Result<()> {
        self.header.file_bytes = self.file.stream_position()?;
        debug_assert!(self.header.file_bytes >= HEADER_BYTES as u64);
        self.file.sync_data()?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&self.header.encode())?;
        // commit point: the header counts what is durable before it; a reader refuses the file
        // without it.
        self.file.sync_data()
    }
}
