//! Replay of the log of a serial engine: committed transactions are done again, in their order.
//!
//! Only whole records count, and a record is a whole transaction, so nothing is undone. A prepared
//! transaction waits for the record of its outcome; one that has none is decided by the commit
//! table.

use super::commit_log::{Resolution, identity};
use crate::table::Space;
use disk::Directory;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use storage::engine::{CommitTicket, Decide, EngineOptions, GlobalTxnId};
use storage::log::NUMBER_MAX;
use storage::log::numbered::InFront;
use storage::log::redo::{self, Fate, ImageError, KeyBytes, Operation, Outcome, Record};
use storage::log::{LogStart, Lsn, Wal, WalOptions};
use storage::record::{Changes, DecodeError, KeyBuf, LayoutKind, Row, TableId};
use storage::{Result, StorageError};

/// The state that transactions are done again on.
pub(in crate::engine) trait Redo {
    /// Its tables.
    type Space: Space;

    fn space(&mut self) -> &mut Self::Space;

    /// Ends a transaction.
    fn commit(&mut self);
}

/// A replay, with its counts.
pub(in crate::engine) struct Replay<'d, T> {
    pub(in crate::engine) target: T,
    buffers: BTreeMap<TableId, Buffers>,
    decide: Decide<'d>,
    /// The prepared transaction of which no outcome was read yet.
    in_doubt: Option<(GlobalTxnId, Vec<u8>)>,
    pub(in crate::engine) ticket: CommitTicket,
    /// Transactions that were replayed.
    pub(in crate::engine) replayed: u64,
    /// Prepared transactions that were dropped.
    pub(in crate::engine) undone: u64,
}

impl<'d, T: Redo> Replay<'d, T> {
    /// A replay over the state that `ticket` has left.
    pub(in crate::engine) fn new(target: T, ticket: CommitTicket, decide: Decide<'d>) -> Self {
        Self {
            target,
            buffers: BTreeMap::new(),
            decide,
            in_doubt: None,
            ticket,
            replayed: 0,
            undone: 0,
        }
    }

    /// Opens the log and replays it from `start`. Returns it with the transaction that was in doubt
    /// at its end.
    pub(in crate::engine) fn open_log<D: Directory>(
        &mut self,
        directory: &D,
        options: &EngineOptions,
        sizes: WalOptions,
        start: LogStart,
    ) -> Result<(Wal<D>, Resolution)> {
        let log_name = format!("p{}.wal", options.partition);
        let wal = Wal::open_for(
            (options.access, InFront::GivenUp),
            directory,
            identity(options),
            sizes,
            start,
            &mut |lsn, bytes| {
                let result = self.record(bytes);
                result.map_err(|failure| failure.at(&log_name, lsn))
            },
        )?;
        let resolved = self.end_doubt(None);
        let resolved = resolved.map_err(|failure| failure.at(&log_name, wal.end()))?;
        Ok((wal, resolved))
    }

    fn record(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let record = Record::read(bytes)?;
        if let Fate::Resolved(global, outcome) = record.fate {
            return self.end_doubt(Some((global, outcome))).map(|_| ());
        }
        self.end_doubt(None)?;
        if let Fate::Prepared(global) = record.fate {
            self.in_doubt = Some((global, bytes.to_vec()));
            return Ok(());
        }
        self.apply(record)
    }

    /// Applies or drops the transaction in doubt: as its resolution says, or else as the commit
    /// table does.
    fn end_doubt(&mut self, resolution: Resolution) -> Result<Resolution, Failure> {
        let Some((global, bytes)) = self.in_doubt.take() else {
            return Ok(None);
        };
        let outcome = match resolution {
            Some((resolved, outcome)) if resolved == global => outcome,
            _ if (self.decide)(global) => Outcome::Committed,
            _ => Outcome::Aborted,
        };
        match outcome {
            Outcome::Committed => self.apply(Record::read(&bytes)?)?,
            Outcome::Aborted => self.undone += 1,
        }
        Ok(Some((global, outcome)))
    }

    fn apply(&mut self, mut record: Record<'_>) -> Result<(), Failure> {
        if record.ticket.0 > NUMBER_MAX {
            return Err("its ticket is impossibly large".into());
        }
        while let Some(operation) = record.next_operation()? {
            self.redo(operation)?;
        }
        self.target.commit();
        self.ticket = record.ticket;
        self.replayed += 1;
        Ok(())
    }
}

impl<T: Redo> Replay<'_, T> {
    fn redo(&mut self, operation: Operation<'_>) -> Result<(), Failure> {
        let space = self.target.space();
        match operation {
            Operation::Insert(id, image) => {
                let buffers = Buffers::of(&mut self.buffers, space, id)?;
                redo::read_row(image, &mut buffers.row)?;
                space.insert(id, &buffers.row)?;
                return Ok(());
            }
            Operation::Update(id, key, image) => {
                let buffers = Buffers::of(&mut self.buffers, space, id)?;
                redo::read_changes(image, &mut buffers.changes)?;
                buffers.read_key(key)?;
                if !space.update(id, &buffers.key, &buffers.changes)? {
                    return Err("it updates a row that is not there".into());
                }
                return Ok(());
            }
            Operation::Delete(id, key) => {
                let buffers = Buffers::of(&mut self.buffers, space, id)?;
                buffers.read_key(key)?;
                if !space.delete(id, &buffers.key)? {
                    return Err("it deletes a row that is not there".into());
                }
                return Ok(());
            }
            Operation::CreateTable(def) => space.create_table(&def)?,
            Operation::DropTable(table) => space.drop_table(table)?,
            Operation::CreateIndex(def, id) => {
                let index = def.index_by_id(id).ok_or_else(|| {
                    Failure::from("it creates an index that its table does not have")
                })?;
                space.create_index(def.id, index)?;
            }
            Operation::DropIndex(table, index) => space.drop_index(table, index)?,
        }
        self.buffers.clear();
        Ok(())
    }
}

/// The operands of a table's operations, which are used again.
struct Buffers {
    row: Row,
    changes: Changes,
    key: KeyBuf,
    key_words: usize,
}

impl Buffers {
    fn of<'b>(
        all: &'b mut BTreeMap<TableId, Self>,
        space: &impl Space,
        id: TableId,
    ) -> Result<&'b mut Self> {
        let entry = match all.entry(id) {
            Entry::Occupied(entry) => return Ok(entry.into_mut()),
            Entry::Vacant(entry) => entry,
        };
        let tables = space.tables();
        let table = tables.iter().find(|table| table.def.id == id);
        let table = table.ok_or(StorageError::NoSuchTable(id.0))?;
        Ok(entry.insert(Self {
            row: Row::new(Arc::clone(&table.layout)),
            changes: Changes::new(Arc::clone(&table.layout)),
            key: KeyBuf::default(),
            key_words: table.primary.shape().words,
        }))
    }

    fn read_key(&mut self, key: KeyBytes<'_>) -> Result<(), Failure> {
        key.copy_to(&mut self.key);
        if self.key.len() == self.key_words {
            return Ok(());
        }
        Err("its key has a wrong length".into())
    }
}

/// Why a record could not be replayed.
pub(in crate::engine) enum Failure {
    /// The record does not fit the state before it.
    Record(String),
    /// Something else failed.
    Other(StorageError),
}

impl Failure {
    fn at(self, log_name: &str, lsn: Lsn) -> StorageError {
        match self {
            Self::Record(detail) => StorageError::damaged_file(log_name, lsn.0, detail),
            Self::Other(error) => error,
        }
    }
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        Self::Record(error.to_string())
    }
}

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Self {
        Self::Record(error.to_string())
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::DuplicateKey { .. }
            | StorageError::NoSuchTable(_)
            | StorageError::NoSuchIndex { .. }
            | StorageError::Schema(_)
            | StorageError::Record(_) => Self::Record(error.to_string()),
            error => Self::Other(error),
        }
    }
}

impl From<&str> for Failure {
    fn from(detail: &str) -> Self {
        Self::Record(detail.to_owned())
    }
}

/// The layout and the node size as words of a file.
pub(in crate::engine) fn settings(options: &EngineOptions) -> [u64; 2] {
    let layout = match options.layout {
        LayoutKind::Together => 0,
        LayoutKind::Separate => 1,
    };
    [layout, u64::from(options.node_bytes)]
}

pub(in crate::engine) fn read_settings(
    [layout, node_bytes]: [u64; 2],
) -> Result<(LayoutKind, usize)> {
    let layout = match layout {
        0 => LayoutKind::Together,
        1 => LayoutKind::Separate,
        other => {
            return Err(StorageError::Unsupported(format!(
                "the tuple layout {other} is unknown"
            )));
        }
    };
    Ok((layout, node_bytes as usize))
}
