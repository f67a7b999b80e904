//! Recovery of the in-place engine: load the newest checkpoint, replay what was committed after it,
//! drop the rest.
//!
//! Replay keeps no undo: where it fails, the opening fails and the store is thrown away. Most rows
//! come in key order from the checkpoint, so the primary indexes are filled from left to right with
//! full nodes; those that changed while it was written come before.

use super::journal::{Checkpoint, Journal, identity, wal_options};
use super::store::Store;
use crate::engine::{CommitTicket, Decide, EngineOptions, GlobalTxnId};
use crate::error::{Result, StorageError};
use crate::log::checkpoint::{self, CheckpointEntry, CheckpointReader, NUMBER_MAX};
use crate::log::numbered::InFront;
use crate::log::redo::{self, Fate, Operation, Outcome, Record};
use crate::log::{Keep, Lsn, Wal};
use crate::record::{Changes, KeyBuf, LayoutKind, TableId};
use crate::table::Tables;
use disk::Directory;
use pmem::{Access, Memory};
use std::collections::BTreeMap;

/// What recovery made of the files.
pub(super) struct Recovered<M: Memory, D: Directory> {
    pub(super) store: Store<M>,
    pub(super) journal: Journal<D>,
    /// Transactions that were replayed.
    pub(super) replayed: u64,
    /// Prepared transactions that were dropped.
    pub(super) undone: u64,
}

/// Recovers a partition from its files. `memory` makes the volatile memory. With [`Access::Read`]
/// nothing is written: what recovery decides and drops, it decides and drops in memory only.
pub(super) fn recover<M: Memory, D: Directory>(
    directory: D,
    memory: impl FnOnce() -> Result<M>,
    options: &EngineOptions,
    decide: Decide<'_>,
) -> Result<Recovered<M, D>> {
    let identity = identity(options);
    let mut reader = CheckpointReader::open_newest(&directory, identity)?;
    let head = reader.head();
    let (layout, node_bytes) = read_settings(head.settings)?;
    let mut replay = Replay {
        store: Store::new(memory()?, layout, node_bytes, Keep::Nothing)?,
        decide,
        key: KeyBuf::default(),
        changes: BTreeMap::new(),
        in_doubt: None,
        ticket: head.ticket,
        replayed: 0,
        undone: 0,
    };
    let plain_bytes = load(&mut reader, &mut replay.store)?;
    if options.access == Access::Write {
        reader.secure(&directory, replay.store.space.tables().is_empty())?;
    }
    let head = reader.head();
    let log_name = format!("p{}.wal", options.partition);
    let wal = Wal::open_for(
        (options.access, InFront::GivenUp),
        &directory,
        identity,
        wal_options(options),
        head.start,
        &mut |lsn, bytes| {
            replay
                .record(bytes)
                .map_err(|failure| failure.at(&log_name, lsn))
        },
    )?;
    let resolved = replay
        .resolve_last()
        .map_err(|failure| failure.at(&log_name, wal.end()))?;
    if options.access == Access::Write {
        checkpoint::remove_older(&directory, identity, head.number)?;
    }
    let Replay {
        mut store,
        ticket,
        replayed,
        undone,
        ..
    } = replay;
    store.keep(Keep::BeforeImages);
    let newest = Checkpoint {
        head,
        file_bytes: reader.file_bytes(),
        plain_bytes,
    };
    let mut journal = Journal::new(directory, options, wal, newest, ticket);
    if let (Some((global, outcome)), Access::Write) = (resolved, options.access) {
        journal.resolve(global, outcome)?;
        journal.force()?;
    }
    Ok(Recovered {
        store,
        journal,
        replayed,
        undone,
    })
}

/// The layout and the node size as words of a checkpoint.
pub(super) fn settings(options: &EngineOptions) -> [u64; 2] {
    let layout = match options.layout {
        LayoutKind::Together => 0,
        LayoutKind::Separate => 1,
    };
    [layout, u64::from(options.node_bytes)]
}

fn read_settings([layout, node_bytes]: [u64; 2]) -> Result<(LayoutKind, usize)> {
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

/// Fills the store, and returns the length of the checkpoint before compression.
fn load<M: Memory, F: disk::File>(
    reader: &mut CheckpointReader<F>,
    store: &mut Store<M>,
) -> Result<u64> {
    let mut current = None;
    reader.read(&mut |entry| {
        match entry {
            CheckpointEntry::Table(def) => {
                check_number(def.id)?;
                let (space, arena, writes) = store.parts();
                space.create_table(arena, writes, &def)?;
                current = Some((def.id, store.take_row(def.id)?));
            }
            CheckpointEntry::Rows(table) => {
                if let Some((earlier, row)) = current.take() {
                    store.give_row(earlier, row);
                }
                current = Some((table, store.take_row(table)?));
            }
            CheckpointEntry::Row(image) => {
                let Some((table, row)) = &mut current else {
                    let text = "a checkpoint has a row in front of its table";
                    return Err(StorageError::Unsupported(text.to_owned()));
                };
                redo::read_row(image, row)
                    .map_err(|error| StorageError::Unsupported(error.to_string()))?;
                let (space, arena, writes) = store.parts();
                space.insert(arena, writes, *table, row)?;
            }
        }
        store.commit();
        Ok(())
    })
}

/// Tables are kept by their numbers, so a number that no catalogue gives is not believed.
fn check_number(table: TableId) -> Result<()> {
    const TABLES_MAX: u32 = 1 << 20;
    if table.0 < TABLES_MAX {
        return Ok(());
    }
    let text = format!("a file has a table of the impossible number {}", table.0);
    Err(StorageError::Unsupported(text))
}

/// Why a record could not be replayed.
enum Failure {
    /// The record does not fit the state before it.
    Record(String),
    /// Something else failed.
    Other(StorageError),
}

impl Failure {
    fn at(self, log_name: &str, lsn: Lsn) -> StorageError {
        match self {
            Self::Record(detail) => StorageError::DamagedFile {
                file: log_name.to_owned(),
                offset: lsn.0,
                detail,
            },
            Self::Other(error) => error,
        }
    }
}

impl From<crate::record::DecodeError> for Failure {
    fn from(error: crate::record::DecodeError) -> Self {
        Self::Record(error.to_string())
    }
}

impl From<redo::ImageError> for Failure {
    fn from(error: redo::ImageError) -> Self {
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

struct Replay<'d, M: Memory> {
    store: Store<M>,
    decide: Decide<'d>,
    key: KeyBuf,
    /// Changes that are used again, by table.
    changes: BTreeMap<u32, Option<Changes>>,
    /// The prepared transaction of which no outcome was read yet.
    in_doubt: Option<(GlobalTxnId, Vec<u8>)>,
    ticket: CommitTicket,
    replayed: u64,
    undone: u64,
}

impl<M: Memory> Replay<'_, M> {
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

    /// Decides about the transaction that was prepared when the crash came, and says how.
    fn resolve_last(&mut self) -> Result<Option<(GlobalTxnId, Outcome)>, Failure> {
        self.end_doubt(None)
    }

    /// Applies or drops the transaction in doubt: as its resolution says, or else as the commit
    /// table does.
    fn end_doubt(
        &mut self,
        resolution: Option<(GlobalTxnId, Outcome)>,
    ) -> Result<Option<(GlobalTxnId, Outcome)>, Failure> {
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
            let text = "its ticket is impossibly large";
            return Err(Failure::Record(text.to_owned()));
        }
        while let Some(operation) = record.next_operation()? {
            self.operation(operation)?;
        }
        self.store.commit();
        self.ticket = record.ticket;
        self.replayed += 1;
        Ok(())
    }

    fn operation(&mut self, operation: Operation<'_>) -> Result<(), Failure> {
        match operation {
            Operation::Insert(table, image) => {
                let mut row = self.store.take_row(table)?;
                redo::read_row(image, &mut row)?;
                let (space, arena, writes) = self.store.parts();
                space.insert(arena, writes, table, &row)?;
                self.store.give_row(table, row);
            }
            Operation::Update(table, key, image) => {
                let mut changes = self.take_changes(table)?;
                redo::read_changes(image, &mut changes)?;
                key.copy_to(&mut self.key);
                let (space, arena, writes) = self.store.parts();
                if !space.update(arena, writes, table, &self.key, &changes)? {
                    return Err(Failure::Record(
                        "it updates a row that is not there".to_owned(),
                    ));
                }
                self.changes.insert(table.0, Some(changes));
            }
            Operation::Delete(table, key) => {
                key.copy_to(&mut self.key);
                let (space, arena, writes) = self.store.parts();
                if !space.delete(arena, writes, table, &self.key)? {
                    return Err(Failure::Record(
                        "it deletes a row that is not there".to_owned(),
                    ));
                }
            }
            definition => self.definition(definition)?,
        }
        Ok(())
    }

    fn definition(&mut self, operation: Operation<'_>) -> Result<(), Failure> {
        self.store.forget_rows();
        self.changes.clear();
        let (space, arena, writes) = self.store.parts();
        match operation {
            Operation::CreateTable(def) => {
                check_number(def.id)?;
                space.create_table(arena, writes, &def)?;
            }
            Operation::DropTable(table) => space.drop_table(arena, writes, table)?,
            Operation::CreateIndex(def, id) => {
                let index = def.index_by_id(id).ok_or_else(|| {
                    Failure::Record("it creates an index that its table does not have".to_owned())
                })?;
                space.create_index(arena, writes, def.id, index)?;
            }
            Operation::DropIndex(table, index) => space.drop_index(arena, writes, table, index)?,
            Operation::Insert(..) | Operation::Update(..) | Operation::Delete(..) => {
                unreachable!("the caller has taken the operations on rows")
            }
        }
        Ok(())
    }

    fn take_changes(&mut self, table: TableId) -> Result<Changes> {
        if let Some(changes) = self.changes.get_mut(&table.0).and_then(Option::take) {
            return Ok(changes);
        }
        let row = self.store.take_row(table)?;
        let changes = Changes::new(row.layout().clone());
        self.store.give_row(table, row);
        Ok(changes)
    }
}
