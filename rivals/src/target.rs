//! Target of a measurement: a rival, in one database or in one a partition, or a database of ours.
//! Both are loaded, then asked for the lists of several mixes one after the other, and checked
//! after each.
//!
//! Both go through the same loop (`measure::measure_stores`): one thread a partition, each
//! transaction durable when it returns, each clocked. Ours have no commit groups here, as the
//! rivals have none.

use crate::args::{YcsbArgs, primitive_name};
use crate::kind::{Kind, Plan, Rival, RivalStore};
use crate::machine;
use crate::report::{FootprintBytes, PerTxn};
use anyhow::{Context, Result};
use indelible::{
    Database, Durability, LayoutKind, Method, Options, PartCounters, Statistics, Table,
};
use measure::{Limit, Measured, measure_stores};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use workload::ycsb::{Expected, Store, WorkerStore, Ycsb};

/// Rows that are loaded in one transaction.
const LOAD_BATCH: usize = 10_000;
/// Bytes of a block in the answer of `stat`.
const STAT_BLOCK_BYTES: u64 = 512;

/// Something loaded that runs lists.
pub(crate) trait Target {
    /// Runs a list; also says what each transaction cost on its devices, if that is counted.
    fn measure(&self, workload: &Ycsb, limit: Limit) -> Result<(Measured, PerTxn)>;

    /// Ends what it has put off.
    fn settle(&self) -> Result<()>;

    /// Compares every row with what it must hold.
    fn check(&self, workload: &Ycsb, expected: &[Expected]) -> Result<()>;

    /// Labels of its rows, beside the numbers.
    fn describe(&self) -> Result<Description>;
}

/// Labels of a target in a row.
pub(crate) struct Description {
    pub(crate) name: String,
    /// How it is set, in words.
    pub(crate) settings: String,
    pub(crate) databases: u32,
    pub(crate) layout: &'static str,
    pub(crate) domain: &'static str,
    pub(crate) primitives: &'static str,
    pub(crate) survives: &'static str,
    pub(crate) footprint_bytes: FootprintBytes,
}

/// Reads all partitions at the same time.
fn check_all<S: Store>(
    workload: &Ycsb,
    expected: &[Expected],
    open: impl Fn(u32) -> Result<S> + Sync,
) -> Result<()>
where
    S::Error: Into<anyhow::Error>,
{
    std::thread::scope(|threads| {
        let open = &open;
        let checkers: Vec<_> = (0_u32..)
            .zip(expected)
            .map(|(partition, expected)| {
                threads.spawn(move || {
                    let checked = workload.check_store(&mut open(partition)?, expected);
                    checked.map_err(Into::into)
                })
            })
            .collect();
        let mut joined = checkers
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join);
        joined.try_for_each(|checked| checked.unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// A rival's databases, with partition `p` in number `p` modulo their number.
pub(crate) struct Rivals {
    kind: Kind,
    directory: PathBuf,
    databases: Vec<Box<dyn Rival>>,
}

impl Rivals {
    /// Creates the databases under a directory and loads them, one thread a database.
    pub(crate) fn load(
        kind: Kind,
        databases: u32,
        workload: &Ycsb,
        directory: &Path,
    ) -> Result<Self> {
        let options = workload.options();
        let plan = Plan {
            rows: u64::from(options.rows.div_ceil(databases)),
            threads: options.partitions.div_ceil(databases),
            databases,
        };
        let create = |number| {
            let directory = directory.join(format!("database-{number}"));
            fs::create_dir(&directory)?;
            kind.create(&directory, plan)
        };
        let rivals = Self {
            kind,
            directory: directory.to_owned(),
            databases: (0..databases).map(create).collect::<Result<_>>()?,
        };
        std::thread::scope(|threads| {
            let rivals = &rivals;
            let loaders: Vec<_> = (0..databases)
                .map(|number| threads.spawn(move || rivals.load_one(number, workload)))
                .collect();
            let mut joined = loaders.into_iter().map(std::thread::ScopedJoinHandle::join);
            joined.try_for_each(|loaded| loaded.unwrap_or_else(|panic| resume_unwind(panic)))
        })
        .context("loading")?;
        rivals.settle()?;
        Ok(rivals)
    }

    fn load_one(&self, number: u32, workload: &Ycsb) -> Result<()> {
        let options = workload.options();
        let databases = self.databases.len() as u32;
        let is_here = |key: &u32| key % options.partitions % databases == number;
        let mut keys = (0..options.rows).filter(is_here).peekable();
        let mut store = self.databases[number as usize].store()?;
        while keys.peek().is_some() {
            store.load(&mut keys.by_ref().take(LOAD_BATCH), workload.contents())?;
        }
        Ok(())
    }

    fn store(&self, partition: u32) -> Result<RivalStore<'_>> {
        self.databases[partition as usize % self.databases.len()].store()
    }
}

impl Target for Rivals {
    fn measure(&self, workload: &Ycsb, limit: Limit) -> Result<(Measured, PerTxn)> {
        let measured = measure_stores(workload, limit, |partition| self.store(partition))?;
        Ok((measured, PerTxn::default()))
    }

    fn settle(&self) -> Result<()> {
        self.databases.iter().try_for_each(|one| one.settle())
    }

    fn check(&self, workload: &Ycsb, expected: &[Expected]) -> Result<()> {
        check_all(workload, expected, |partition| self.store(partition))
    }

    fn describe(&self) -> Result<Description> {
        let databases = self.databases.len() as u32;
        let in_shared_memory = machine::here(&self.directory).filesystem == "tmpfs";
        let (domain, survives) = if in_shared_memory {
            (indelible::Domain::Process, "process death")
        } else {
            (indelible::Domain::File, "power loss")
        };
        let settings = match databases {
            1 => format!("{}; one database", self.kind.setting()),
            _ => format!(
                "{}; {databases} databases, one a partition",
                self.kind.setting()
            ),
        };
        Ok(Description {
            name: self.kind.name().into(),
            settings,
            databases,
            layout: "rows",
            domain: domain.name(),
            primitives: "file",
            survives,
            footprint_bytes: FootprintBytes {
                other: bytes_under(&self.directory)?,
                ..FootprintBytes::default()
            },
        })
    }
}

/// Bytes that the files under a directory occupy, holes left out.
fn bytes_under(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() {
            bytes_under(&entry.path())?
        } else {
            entry.metadata()?.blocks() * STAT_BLOCK_BYTES
        };
    }
    Ok(bytes)
}

/// A database of ours.
pub(crate) struct Ours {
    database: Database,
    table: Table,
    primitives: &'static str,
}

impl Ours {
    /// Creates the database in a directory and loads it.
    pub(crate) fn load(
        args: &YcsbArgs,
        method: Method,
        workload: &Ycsb,
        directory: &Path,
    ) -> Result<Self> {
        let mut options = Options::new().method(method).partitions(args.partitions);
        if let Some(primitives) = args.primitives {
            options = options.primitives(primitives);
        }
        let database = Database::create(directory, &options)?;
        let table = workload.load(&database, |_| ())?;
        database.force()?;
        let domain = database.statistics()?.domain;
        Ok(Self {
            database,
            table,
            primitives: args.primitives.map_or(domain.name(), primitive_name),
        })
    }

    fn store(&self, partition: u32) -> Result<WorkerStore<'_>> {
        let worker = self.database.worker(&[partition], Durability::Immediate)?;
        Ok(WorkerStore::new(worker, &self.table))
    }
}

impl Target for Ours {
    fn measure(&self, workload: &Ycsb, limit: Limit) -> Result<(Measured, PerTxn)> {
        let before = self.database.statistics()?;
        let measured = measure_stores(workload, limit, |partition| self.store(partition))?;
        let after = self.database.statistics()?;
        let per_txn = per_txn(&before, &after, measured.txns);
        Ok((measured, per_txn))
    }

    fn settle(&self) -> Result<()> {
        Ok(self.database.force()?)
    }

    fn check(&self, workload: &Ycsb, expected: &[Expected]) -> Result<()> {
        check_all(workload, expected, |partition| self.store(partition))
    }

    fn describe(&self) -> Result<Description> {
        let statistics = self.database.statistics()?;
        let footprint = statistics.footprint;
        Ok(Description {
            name: statistics.method.name().into(),
            settings: "each transaction durable on its own, no commit groups; one pool a partition"
                .into(),
            databases: 1,
            layout: match statistics.layout {
                LayoutKind::Together => "together",
                LayoutKind::Separate => "separate",
            },
            domain: statistics.domain.name(),
            primitives: self.primitives,
            survives: statistics.survives,
            footprint_bytes: FootprintBytes {
                table: footprint.table,
                index: footprint.index,
                log: footprint.log,
                checkpoint: footprint.checkpoint,
                other: footprint.other,
            },
        })
    }
}

fn per_txn(before: &Statistics, after: &Statistics, txns: u64) -> PerTxn {
    let (memory_before, memory_after) = (before.memory.total(), after.memory.total());
    let each = |after: u64, before: u64| (after - before) as f64 / txns.max(1) as f64;
    let stored = |total: &PartCounters| total.bytes_stored + total.bytes_streamed;
    PerTxn {
        loads: each(memory_after.loads, memory_before.loads),
        stores: each(memory_after.stores, memory_before.stores),
        lines_flushed: each(memory_after.lines_flushed, memory_before.lines_flushed),
        fences: each(after.memory.fences, before.memory.fences),
        bytes_written: each(stored(&memory_after), stored(&memory_before))
            + each(after.disk.bytes_written, before.disk.bytes_written),
        syncs: each(after.disk.syncs, before.disk.syncs),
        ..PerTxn::default()
    }
}
