//! Recovery of `log`: open the runs that the manifest names, and replay the log behind them into a MemTable.
//!
//! Only committed transactions are in runs and only whole records count, so nothing is undone; what was not committed is not
//! there. Files that no manifest names are removed, after the manifest is known to be durable. Replay does what the transactions did,
//! with the same code.

use super::journal::{Journal, identity, wal_options};
use crate::engine::{CommitTicket, Decide, EngineOptions, GlobalTxnId};
use crate::error::{Result, StorageError};
use crate::log::numbered::InFront;
use crate::log::redo::{self, Fate, ImageError, Operation, Outcome, Record};
use crate::log::{Lsn, Wal};
use crate::lsm::file::compaction::{Compaction, Head, RunSizes, remove_orphans};
use crate::lsm::file::manifest::Manifest;
use crate::lsm::file::run::Run;
use crate::lsm::file::store::{LeveledRun, Store, StoreSettings};
use crate::record::{Changes, DecodeError, KeyBuf, LayoutKind, Row, TableId};
use crate::table::Table;
use disk::Directory;
use pmem::{Access, MemorySource};
use std::sync::Arc;

/// What recovery made of the files.
pub(super) struct Recovered<S: MemorySource, D: Directory> {
    pub(super) store: Store<S, D::File>,
    pub(super) journal: Journal<D>,
    pub(super) compaction: Compaction<D::File>,
    /// Transactions that were replayed.
    pub(super) replayed: u64,
    /// Prepared transactions that were dropped.
    pub(super) undone: u64,
}

/// Recovers a partition from its files. With [`Access::Read`] nothing is written or removed: the log is replayed into memory only, and
/// what the system's cache alone may have is read as it is, because nothing is built upon it.
pub(super) fn recover<S: MemorySource, D: Directory>(
    directory: D,
    memories: S,
    options: &EngineOptions,
    decide: Decide<'_>,
) -> Result<Recovered<S, D>> {
    let identity = identity(options);
    let (manifest, is_durable) = Manifest::read(&directory, identity)?;
    let store = open_store(&directory, memories, options, &manifest)?;
    if !is_durable && options.access == Access::Write {
        // What only the manifest before this one needs is removed below.
        manifest.write(&directory, identity)?;
    }
    let head = Head {
        start: manifest.start,
        ticket: manifest.ticket,
        tables: store.catalogue(),
        next_tree: manifest.next_tree,
    };
    let mut replay = Replay::<S, D> {
        store,
        decide,
        key: KeyBuf::default(),
        in_doubt: None,
        ticket: manifest.ticket,
        replayed: 0,
        undone: 0,
    };
    let log_name = format!("p{}.wal", options.partition);
    let sizes = wal_options(options);
    let wal = Wal::open_for(
        (options.access, InFront::GivenUp),
        &directory,
        identity,
        sizes,
        manifest.start,
        &mut |lsn, bytes| {
            let result = replay.record(bytes);
            result.map_err(|failure| failure.at(&log_name, lsn))
        },
    )?;
    let resolved = replay
        .end_doubt(None)
        .map_err(|failure| failure.at(&log_name, wal.end()))?;
    let next_number = match options.access {
        Access::Write => remove_orphans(&directory, identity, &manifest)?,
        // No run is made.
        Access::Read => 0,
    };
    let mut compaction = Compaction::new(
        identity,
        run_sizes(options),
        manifest.settings,
        head,
        next_number,
    );
    compaction.resume(&replay.store);
    let mut journal = Journal::new(directory, options, wal, replay.ticket);
    if let (Some((global, outcome)), Access::Write) = (resolved, options.access) {
        journal.resolve(global, outcome)?;
        journal.force()?;
    }
    Ok(Recovered {
        store: replay.store,
        journal,
        compaction,
        replayed: replay.replayed,
        undone: replay.undone,
    })
}

/// The store of a manifest, with its runs and empty MemTables.
fn open_store<S: MemorySource, D: Directory>(
    directory: &D,
    memories: S,
    options: &EngineOptions,
    manifest: &Manifest,
) -> Result<Store<S, D::File>> {
    let identity = identity(options);
    let mut store = Store::new(
        memories,
        read_settings(manifest.settings, options)?,
        &manifest.tables,
        manifest.next_tree,
    )?;
    for place in &manifest.runs {
        let (number, bytes) = (place.number, place.bytes);
        let file = identity.file_name("run", number);
        if !directory.exists(&file)? {
            let problem = "is missing, and the manifest that is there names it".to_owned();
            return Err(StorageError::LostFile { file, problem });
        }
        let run = Run::open(directory, &mut store.filters, identity, number, bytes)?;
        store.runs.push(LeveledRun {
            level: place.level,
            run,
        });
    }
    Ok(store)
}

/// How many times larger than a MemTable the cache of blocks of runs becomes.
const CACHE_FACTOR: u64 = 4;

/// How large MemTables and runs become.
pub(super) fn run_sizes(options: &EngineOptions) -> RunSizes {
    RunSizes {
        memtable_bytes: options.memtable_bytes.max(1),
        growth: u64::from(options.growth_factor.max(2)),
    }
}

/// The layout and the node size as words of a manifest.
pub(super) fn settings(options: &EngineOptions) -> [u64; 2] {
    let layout = match options.layout {
        LayoutKind::Together => 0,
        LayoutKind::Separate => 1,
    };
    [layout, u64::from(options.node_bytes)]
}

pub(super) fn read_settings(
    [layout, node_bytes]: [u64; 2],
    options: &EngineOptions,
) -> Result<StoreSettings> {
    let layout = match layout {
        0 => LayoutKind::Together,
        1 => LayoutKind::Separate,
        other => {
            return Err(StorageError::Unsupported(format!(
                "the tuple layout {other} is unknown"
            )));
        }
    };
    Ok(StoreSettings {
        layout,
        node_bytes: node_bytes as usize,
        memory_bytes: options.pool_bytes,
        cache_bytes: options.memtable_bytes.saturating_mul(CACHE_FACTOR),
    })
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

struct Replay<'d, S: MemorySource, D: Directory> {
    store: Store<S, D::File>,
    decide: Decide<'d>,
    key: KeyBuf,
    /// The prepared transaction of which no outcome was read yet.
    in_doubt: Option<(GlobalTxnId, Vec<u8>)>,
    ticket: CommitTicket,
    replayed: u64,
    undone: u64,
}

impl<S: MemorySource, D: Directory> Replay<'_, S, D> {
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

    /// Applies or drops the transaction in doubt: as its resolution says, or else as the commit table does.
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
                let mut row = Row::new(Arc::clone(&self.table(table)?.layout));
                redo::read_row(image, &mut row)?;
                self.store.insert(table, &row)?;
            }
            Operation::Update(table, key, image) => {
                let mut changes = Changes::new(Arc::clone(&self.table(table)?.layout));
                redo::read_changes(image, &mut changes)?;
                key.copy_to(&mut self.key);
                self.must(table)?;
                if !self.store.update(table, &self.key, None, &changes)? {
                    let text = "it updates a row that is not there".to_owned();
                    return Err(Failure::Record(text));
                }
            }
            Operation::Delete(table, key) => {
                key.copy_to(&mut self.key);
                self.must(table)?;
                if !self.store.delete(table, &self.key)? {
                    let text = "it deletes a row that is not there".to_owned();
                    return Err(Failure::Record(text));
                }
            }
            Operation::CreateTable(def) => self.store.create_table(&def)?,
            Operation::DropTable(table) => self.store.drop_table(table)?,
            Operation::CreateIndex(def, id) => {
                let index = def.index_by_id(id).ok_or_else(|| {
                    Failure::Record("it creates an index that its table does not have".to_owned())
                })?;
                self.store.create_index(def.id, index)?;
            }
            Operation::DropIndex(table, index) => self.store.drop_index(table, index)?,
        }
        Ok(())
    }

    /// Fails if the key that was read does not fit the table.
    fn must(&self, id: TableId) -> Result<(), Failure> {
        if self.key.len() == self.table(id)?.primary.shape().words {
            Ok(())
        } else {
            Err(Failure::Record("its key has a wrong length".to_owned()))
        }
    }

    fn table(&self, id: TableId) -> Result<Arc<Table>, Failure> {
        let table = self.store.table(id)?;
        Ok(Arc::clone(table))
    }
}
