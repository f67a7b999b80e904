//! Creation and opening of databases: from files to a database that is ready.
//!
//! Creation: commit table → partitions → descriptor → a mark in the commit table that all is there.
//! A crash before the descriptor leaves files of which the commit table says that they hold no
//! data: [`Database::open`] reports an interrupted creation, and the next one replaces them.
//!
//! Opening: descriptor, whose roster tells whether a file is missing or an older copy → the next
//! generation → commit table → each partition recovers and asks the commit table for the fate of
//! its prepared transactions → tables and indexes that partition 0 does not have are dropped from
//! the others. A second opening stores nothing but the generation. Opening for reading stores
//! nothing in any case, and fails if something is unfinished.

use crate::commit_pool::PoolWords;
use crate::commit_table::{CommitTable, VolatileWords, Words};
use crate::connection::Shared;
use crate::core::Core;
use crate::database::Database;
use crate::descriptor::{self, Descriptor};
use crate::error::{Error, Result};
use crate::hidden;
use crate::limits::{self, Purpose};
use crate::lock_policy::LockPolicy;
use crate::options::{Options, TRANSACTION_MEMORY_MAX};
use crate::partition::Partition;
use crate::platform::{self, NativePlatform, native_options};
use crate::retry::Turns;
use crate::roster::{Keeper, Kept, Roster};
use crate::sync::Mutex;
use crate::table::{Table, TableEntry};
use crate::thread_flags::FlagBit;
use crate::trace::Recording;
use disk::{Directory, DiskError};
use pmem::device::{Medium, NativeOptions};
use pmem::{Access, ProcessStamp};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};
use storage::engine::{ArchiveWatch, Engine, EngineOptions, GlobalTxnId, Method, Precedence};
use storage::record::{KeyRule, TableDef, TableId};
use storage::table::Table as Shape;
use storage::{EngineSource, Platform, StorageError};

const WAIT_LIMIT: Duration = Duration::from_secs(10);
const RETRIES_MAX: u32 = 100;

static SERIAL: AtomicU64 = AtomicU64::new(1);

impl Database {
    /// Creates a database in a new or empty directory and opens it. Files of a creation that was
    /// interrupted are replaced.
    pub fn create(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let path = path.as_ref();
        options.check()?;
        let existed = path.exists();
        let mut native = NativePlatform::prepare(path, options)?;
        native.share_addresses(options.partitions.unwrap_or(1));
        let mut options = options.clone();
        if options.explicit_method().is_none() {
            options.method = Some(best_method(native.medium()?, native.has_log()).into());
        }
        if let Err(error) = options.check() {
            let _ = platform::remove_files(path, existed);
            return Err(error);
        }
        let created = Self::create_on(native, &options);
        if created.is_err() {
            // The unfinished files are of no use; the first error is the one to report.
            let _ = platform::remove_files(path, existed);
        }
        Ok(created?.with_marking(&options))
    }

    /// Opens a database with the options recorded in it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &Options::new())
    }

    /// Opens a database. Options that are recorded in it must agree if they are given.
    pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let path = path.as_ref();
        options.check()?;
        platform::find_directory(path)?;
        let access = options.mode.access();
        let mut native =
            NativePlatform::new(path, access, native_options(options, options.domain))?;
        native.check_log(options.log_path())?;
        let recorded = native.descriptor().map_err(|error| at(path, error))?;
        options.check_against(&recorded)?;
        native.devices.pages = options.io_mode();
        native.begin_archive(options.archive_path())?;
        if access == Access::Write {
            native.take_links()?;
        }
        if options.domain.is_none() {
            native.devices.options = native_options(options, recorded.domain);
        }
        native.share_addresses(recorded.partitions);
        let opened = Self::open_on(native, options).map_err(|error| at(path, error));
        Ok(opened?.with_marking(options))
    }

    /// Opens the database in a directory, or creates it if there is none.
    pub fn open_or_create(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let path = path.as_ref();
        match Self::open_with(path, options) {
            Err(Error::Missing { .. } | Error::Incomplete { .. }) => Self::create(path, options),
            Err(Error::NotADatabase { .. }) if platform::is_empty_directory(path) => {
                Self::create(path, options)
            }
            opened => opened,
        }
    }

    /// Removes a database that nobody has open, with everything in its directory; of its log's
    /// directory, if there is one, only the files of the database. If there is no database or the
    /// beginning of one, nothing is touched.
    pub fn remove(path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        platform::find_directory(path)?;
        let native = NativePlatform::new(path, Access::Write, NativeOptions::default())?;
        if let Err(error @ Error::NotADatabase { .. }) = Descriptor::read(&native.files(0)?) {
            return Err(at(path, error));
        }
        platform::remove_files(path, false).map_err(|source| Error::Io {
            action: "remove",
            path: path.to_owned(),
            source,
        })
    }

    /// Creates a database on a platform, such as an emulated or simulated device, which must be
    /// empty. `auto` means `nvm-inp`.
    pub fn create_on<P: EngineSource>(platform: P, options: &Options) -> Result<Self> {
        options.check()?;
        let start = Instant::now();
        let files = platform.files(0)?;
        if files.exists(descriptor::DESCRIPTOR)? {
            return Err(Error::Occupied {
                path: descriptor::DESCRIPTOR.into(),
            });
        }
        let recorded = options.descriptor();
        let memories = platform.memories(0);
        let durable = recorded.method.is_durable();
        let pool = durable.then(|| PoolWords::create(&memories, &recorded));
        let mut pool = pool.transpose()?;
        let engine_options = options.engine(&recorded);
        let engines =
            limits::for_each_partition(recorded.partitions, Purpose::Create, |partition| {
                let options = EngineOptions {
                    partition,
                    ..engine_options.clone()
                };
                Ok(platform.create_engine(recorded.method, &options)?)
            })?;
        let roster = Roster::first(&platform, &recorded)?;
        recorded.write(&files, &roster)?;
        if let Some(pool) = &mut pool {
            pool.end_creation()?;
        }
        let words: Box<dyn Words> = match pool {
            Some(pool) => Box::new(pool),
            None => Box::new(VolatileWords::new()),
        };
        let commits = CommitTable::new(words);
        let parts = Components {
            engines,
            commits,
            descriptor: recorded,
            generation: recorded.method.is_durable().then_some(roster.generation),
        };
        Self::assemble(parts, options, start, Box::new(Kept(platform)))
    }

    /// Opens the database on a platform.
    pub fn open_on<P: EngineSource>(platform: P, options: &Options) -> Result<Self> {
        options.check()?;
        let start = Instant::now();
        let (recorded, roster) = Descriptor::read_whole(&platform.files(0)?)?;
        options.check_against(&recorded)?;
        let access = options.mode.access();
        let next = next_generation(&platform, &recorded, roster.as_ref(), access)?;
        let words: Box<dyn Words> = if recorded.method.is_durable() {
            Box::new(PoolWords::open(
                &platform.memories(0),
                recorded.database_id,
                options.mode.access(),
            )?)
        } else {
            Box::new(VolatileWords::new())
        };
        let commits = CommitTable::new(words);
        let committed = commits.committed()?;
        let decide = |transaction: GlobalTxnId| committed.contains(&transaction.0);
        let engine_options = options.engine(&recorded);
        let mut engines =
            limits::for_each_partition(recorded.partitions, Purpose::Open, |partition| {
                let options = EngineOptions {
                    partition,
                    ..engine_options.clone()
                };
                Ok(platform.open_engine(recorded.method, &options, &decide)?)
            })?;
        reconcile(&mut engines, options.mode.access())?;
        let generation = match next {
            Some(next) => take_generation(&platform, &recorded, (roster.as_ref(), &next))?,
            None => None,
        };
        let parts = Components {
            engines,
            commits,
            descriptor: recorded,
            generation,
        };
        let database = Self::assemble(parts, options, start, Box::new(Kept(platform)))?;
        database.load_counts(roster.is_some_and(|roster| roster.is_closed()))?;
        // Before anybody else comes to the rows that they have locked.
        database.find_prepared()?;
        Ok(database)
    }

    /// Assembles an open database.
    pub(crate) fn assemble(
        parts: Components,
        options: &Options,
        start: Instant,
        platform: Box<dyn Keeper>,
    ) -> Result<Self> {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        Self::assemble_as(serial, parts, options, start, platform)
    }

    /// As [`Database::assemble`], for handles of the open database with this serial number.
    pub(crate) fn assemble_as(
        serial: u64,
        parts: Components,
        options: &Options,
        start: Instant,
        platform: Box<dyn Keeper>,
    ) -> Result<Self> {
        let Components {
            mut engines,
            commits,
            descriptor,
            generation,
        } = parts;
        let first = engines.first_mut().map(|first| first.idle()).transpose()?;
        let has_archive = first.is_some_and(|first| first.marks().is_some());
        let archives = archives_of(&engines);
        let shapes = engines.first().map(|engine| engine.tables());
        let (catalogue, hidden) =
            tables_of(shapes.unwrap_or_default(), serial, descriptor.partitions)?;
        let count = engines.len() as u32;
        let mut engines = engines.into_iter();
        let partitions = limits::for_each_partition(count, Purpose::Open, move |at| {
            let engine = engines.next().expect("a partition has an engine");
            let sessions = with_sessions(engine, options.session_count())?;
            Ok(Partition::new(at, sessions))
        })?;
        let recording = Recording::default();
        if let Some(path) = &options.record_trace {
            recording.start(path)?;
        }
        let flag = FlagBit::new();
        let engine_options = options.engine(&descriptor);
        let core = Core {
            process: ProcessStamp::new(),
            serial,
            flag_bit: flag.0,
            partitions,
            commits,
            shared: Shared::new(options),
            catalogue: RwLock::new(catalogue),
            hidden: RwLock::new(hidden),
            descriptor,
            mode: options.mode,
            durability: options.durability,
            lock_policy: LockPolicy {
                wait_limit: options.wait_limit.unwrap_or(WAIT_LIMIT),
                isolation: options.isolation,
                precedence: Precedence::Usual,
            },
            memory_max: options
                .transaction_memory_max
                .unwrap_or(TRANSACTION_MEMORY_MAX),
            retries_max: options.retries_max.unwrap_or(RETRIES_MAX),
            keys: if options.exact_keys {
                KeyRule::Exact
            } else {
                KeyRule::Truncated { hash_key: 0 }
            },
            group_wait: Duration::from_micros(engine_options.group_wait_us_max),
            leads_at_once: engine_options.group_transactions_max > 1,
            opened_in: start.elapsed(),
            recording,
            has_marks: has_archive
                && descriptor.partitions > 1
                && options.mode.access() == Access::Write,
            archives,
            alone: Mutex::new(()),
            turns: Turns::default(),
            is_closed: false,
            generation,
            _flag: flag,
            platform,
        };
        Ok(Self {
            marking: None,
            core: core.into(),
        })
    }
}

/// The components of a database that were opened one by one.
pub(crate) struct Components {
    pub(crate) engines: Vec<Box<dyn Engine>>,
    pub(crate) commits: CommitTable,
    pub(crate) descriptor: Descriptor,
    /// The generation of this opening; none if its end is not to be noted.
    pub(crate) generation: Option<u64>,
}

type Hidden = BTreeMap<TableId, Table>;

/// The tables by name, and those of the database's own.
fn tables_of(
    shapes: Vec<Arc<Shape>>,
    serial: u64,
    partitions: u32,
) -> Result<(BTreeMap<String, Table>, Hidden)> {
    let (mut catalogue, mut hidden) = (BTreeMap::new(), Hidden::new());
    let unfinished = unfinished(&shapes);
    for shape in shapes {
        if unfinished.contains(&shape.def.id) {
            continue;
        }
        let entry = TableEntry::new(serial, shape, partitions)?;
        if hidden::is_hidden(entry.id) {
            hidden.insert(entry.id, Table { entry });
        } else {
            catalogue.insert(entry.shape.def.name.clone(), Table { entry });
        }
    }
    Ok((catalogue, hidden))
}

/// Checks that all files are there and as new as the database, and begins the next generation if
/// the database may change.
fn next_generation<P: Platform>(
    platform: &P,
    recorded: &Descriptor,
    roster: Option<&Roster>,
    access: Access,
) -> Result<Option<Roster>> {
    if !recorded.method.is_durable() {
        return Ok(None);
    }
    if let Some(roster) = roster {
        roster.check(platform, recorded)?;
    }
    if access == Access::Read {
        return Ok(None);
    }
    let newest = match roster {
        Some(roster) => {
            recorded.secure_roster(&platform.files(0)?, roster)?;
            roster.generation
        }
        None => Roster::found(platform, recorded)?,
    };
    Roster::begin(platform, recorded, newest).map(Some)
}

/// Takes the next generation, now that all partitions are open. This makes a database of format 1
/// one of format 2; if there is no space for that, it stays as it is.
fn take_generation<P: Platform>(
    platform: &P,
    recorded: &Descriptor,
    (roster, next): (Option<&Roster>, &Roster),
) -> Result<Option<u64>> {
    // commit point: files of an earlier generation are refused from here on
    match recorded.write_roster(&platform.files(0)?, next) {
        Err(Error::Disk(DiskError::OutOfSpace { .. })) if roster.is_none() => Ok(None),
        written => written.map(|()| Some(next.generation)),
    }
}

/// The sessions of an engine: this many if it can have several.
fn with_sessions(first: Box<dyn Engine>, sessions: usize) -> Result<Vec<Box<dyn Engine>>> {
    let mut all = vec![first];
    while all.len() < sessions
        && let Some(first) = all[0].sessions()
    {
        let next = first.session()?;
        all.push(next);
    }
    Ok(all)
}

fn archives_of(engines: &[Box<dyn Engine>]) -> Vec<Arc<ArchiveWatch>> {
    let archives = engines.iter().map(|engine| engine.archive_watch());
    archives.flatten().collect()
}

/// Drops tables whose rewrite was interrupted: they replace a table that is still there. Then drops
/// tables and indexes that partition 0 does not have: their creation or drop was interrupted. A
/// table that partition 0 has is in every other partition, because partition 0 creates it last and
/// drops it first. With [`Access::Read`] it is an error if there is something to drop.
fn reconcile(engines: &mut [Box<dyn Engine>], access: Access) -> Result<()> {
    let Some((first, others)) = engines.split_first_mut() else {
        return Ok(());
    };
    drop_unfinished(first.as_mut(), access)?;
    let known = first.tables();
    let find = |id: TableId| known.iter().find(|table| table.def.id == id);
    for (partition, engine) in (1_u32..).zip(others) {
        for table in engine.tables() {
            let Some(truth) = find(table.def.id) else {
                writable(access, partition)?;
                drop_if_room(engine.as_mut(), table.def.id)?;
                continue;
            };
            for index in &table.def.indexes {
                if truth.def.index_by_id(index.id).is_none() {
                    writable(access, partition)?;
                    engine.idle()?.drop_index(table.def.id, index.id)?;
                }
            }
        }
        let here = engine.tables();
        let lacks = known.iter().find(|truth| {
            here.iter().all(|table| {
                table.def.id != truth.def.id || table.def.indexes.len() != truth.def.indexes.len()
            })
        });
        if let Some(table) = lacks {
            return Err(Error::Definition {
                name: table.def.name.clone(),
                problem: format!(
                    "partition {partition} does not have it whole, though partition 0 does; \
                     restore the database from a backup"
                ),
            });
        }
    }
    Ok(())
}

/// Drops the tables of partition 0 that replace a table which is still there. A table replaces only
/// one that was made before it: copies that earlier versions have made may name the number of
/// another, later one.
fn drop_unfinished(first: &mut dyn Engine, access: Access) -> Result<()> {
    for id in unfinished(&first.tables()) {
        writable(access, 0)?;
        drop_if_room(first, id)?;
    }
    Ok(())
}

/// The tables that replace a table which is still there.
fn unfinished(tables: &[Arc<Shape>]) -> Vec<TableId> {
    let is_there = |id: TableId| tables.iter().any(|table| table.def.id == id);
    let replaced = |def: &TableDef| def.replaces.filter(|old| *old < def.id);
    let copies = tables.iter().map(|table| &table.def);
    let copies = copies.filter(|def| replaced(def).is_some_and(is_there));
    copies.map(|def| def.id).collect()
}

/// Drops a table that is in no catalogue. If there is no room for that, a later opening does it.
fn drop_if_room(engine: &mut dyn Engine, id: TableId) -> Result<()> {
    match engine.idle()?.drop_table(id) {
        Err(error) if error.is_out_of_space() => Ok(()),
        dropped => Ok(dropped?),
    }
}

/// Fails if recovery has to change a partition that is open for reading only.
fn writable(access: Access, partition: u32) -> Result<()> {
    match access {
        Access::Write => Ok(()),
        Access::Read => Err(StorageError::NeedsRecovery(format!("partition {partition}")).into()),
    }
}

/// The best method for the medium: that of the database, or that of its log if the log `is_apart`.
fn best_method(medium: Medium, is_apart: bool) -> Method {
    match medium {
        Medium::PersistentMemory | Medium::SharedMemory if is_apart => Method::NvLogging,
        Medium::PersistentMemory | Medium::SharedMemory => Method::NvmInp,
        Medium::OrdinaryFile | Medium::Anonymous => Method::FullPageWrites,
    }
}

/// Adds the directory to an error that names only the file.
fn at(path: &Path, error: Error) -> Error {
    match error {
        Error::NotADatabase { path: name, reason } if name.is_relative() => Error::NotADatabase {
            path: path.join(name),
            reason,
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions::{make, number};
    use storage::record::{Column, DataType};

    /// Copies that earlier versions have made keep the number of the table that was replaced in
    /// their source. Another table got that number here, and the next opening dropped the copied
    /// one.
    #[test]
    fn a_table_replaces_no_later_one() {
        let path = std::env::temp_dir().join(format!("indelible-replaces-{}", std::process::id()));
        let options = Options::new().method(Method::NvmInp);
        let database = Database::create(&path, &options).unwrap();
        let columns = vec![Column::new("id", DataType::Int64)];
        let mut def = TableDef::new(TableId(0), "copied", columns, vec![0]);
        number(&mut def, &database.core).unwrap();
        def.replaces = Some(TableId(def.id.0 + 1));
        let mut session = database.hold_all().unwrap();
        drop(make(&mut session, &def).unwrap());
        drop(session);
        let later = database.create_table("later");
        let later = later.column("id", DataType::Int64).create().unwrap();
        assert_eq!(Some(later.id()), def.replaces);
        drop((later, database));
        let database = Database::open(&path).unwrap();
        let tables = database.tables();
        let names: Vec<&str> = tables.iter().map(Table::name).collect();
        assert_eq!(names, ["copied", "later"]);
        drop((tables, database));
        std::fs::remove_dir_all(&path).unwrap();
    }
}
