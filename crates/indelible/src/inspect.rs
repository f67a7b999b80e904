//! Inspection of a whole database: statistics, the deep check, checkpoints, and making everything
//! durable.
//!
//! All of these hold every partition while they run, so they see one moment of the database.

use crate::database::Database;
use crate::error::{Error, Result};
use crate::scan::whole_table;
use crate::session::Session;
use disk::DiskCounters;
use pmem::{Counters, Domain};
use std::ops::ControlFlow;
use std::time::Duration;
use storage::StorageError;
use storage::engine::{
    ArchiveRange, AreaCounters, CheckpointCounters, Direction, FenceOrder, Footprint, Method,
    PageWrites, Persisted, Shrunk, VerifyReport,
};
use storage::record::{LayoutKind, Placement};

/// Damages that are listed for one table; more of the same kind tell nothing new.
const MISPLACED_MAX: usize = 10;

/// How the archives of a database's logs have fared since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveState {
    /// Times that an archive has taken records of a log.
    pub taken: u64,
    /// Times that one could not. The log keeps the records then, and takes more of its disk.
    pub failed: u64,
    /// Why the last attempt of a partition failed, if it did.
    pub failure: Option<String>,
}

/// Settings, contents and counters of a database since it was opened.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// The method that stores the data.
    pub method: Method,
    /// The persistence domain in force.
    pub domain: Domain,
    /// The failures that committed data survives.
    pub survives: &'static str,
    /// Number of partitions.
    pub partitions: u32,
    /// Layout of tuples in memory.
    pub layout: LayoutKind,
    /// Bytes of an index node.
    pub node_bytes: u32,
    /// Order of durable steps.
    pub fences: FenceOrder,
    /// Identity, by which copies and other databases are distinguished.
    pub database_id: u128,
    /// Seconds from 1970 to the creation.
    pub created_s: u64,
    /// Number of tables.
    pub tables: usize,
    /// Bytes in use, over all partitions.
    pub footprint: Footprint,
    /// Memory accesses, over all partitions and the commit table.
    pub memory: Counters,
    /// File accesses, over all partitions.
    pub disk: DiskCounters,
    /// Time of the opening, recovery included.
    pub opened_in: Duration,
    /// Transactions that recovery undid when the database was opened.
    pub recovery_undone: u64,
    /// Bytes of DRAM that hints take, over all partitions: see
    /// [`Options::hint_bytes`](crate::Options::hint_bytes).
    pub hint_bytes: u64,
    /// Writes of the most written line of a log since the database was opened, of the partition
    /// with the most, as they will be on average once its writes have come around: see
    /// [`Options::rotation_bytes`](crate::Options::rotation_bytes). 0 in other methods.
    pub log_line_writes: f64,
    /// Transactions that recovery replayed when the database was opened.
    pub recovery_replayed: u64,
    /// Records of logs in durable memory, by who made them durable since the database was opened.
    pub log_persisted: Persisted,
    /// Counters of the areas of page copies since the database was opened, in methods whose pages
    /// stay there.
    pub area: AreaCounters,
    /// Bytes of pages that were written since the database was opened, by destination, in methods
    /// with a file of pages.
    pub pages: PageWrites,
    /// Checkpoints since the database was opened, by who has written them, in page methods.
    pub checkpoints: CheckpointCounters,
}

/// Cost of a partition on its devices since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PartitionWear {
    /// Fences.
    pub fences: u64,
    /// Cache lines flushed.
    pub lines_flushed: u64,
    /// Bytes stored to memory devices.
    pub bytes_stored: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// Writes of the most written line of the log, as [`Statistics::log_line_writes`].
    pub log_line_writes: f64,
}

impl Database {
    /// The cost of each partition since the database was opened. It takes a slot of one after the
    /// other, so the database goes on meanwhile.
    ///
    /// # Errors
    /// [`Error::Conflict`] if one is not free within the wait limit.
    pub fn wear(&self) -> Result<Vec<PartitionWear>> {
        let partitions = 0..self.core.descriptor.partitions;
        let wear = partitions.map(|partition| {
            let mut session = Session::new(&self.core, self.core.lock_policy)?;
            let status = session.idle_engine(partition)?.status();
            let memory = status.memory.total();
            Ok(PartitionWear {
                fences: status.memory.fences,
                lines_flushed: memory.lines_flushed,
                bytes_stored: memory.bytes_stored,
                bytes_written: status.disk.bytes_written,
                syncs: status.disk.syncs,
                log_line_writes: status.log_line_writes,
            })
        });
        wear.collect()
    }

    /// The settings, contents and counters of the database since it was opened.
    pub fn statistics(&self) -> Result<Statistics> {
        let core = &*self.core;
        let mut session = self.hold_all_to_look()?;
        let (memory, table_bytes) = core.commits.cost();
        let mut statistics = Statistics {
            method: core.descriptor.method,
            domain: self.domain(),
            survives: self.survives(),
            partitions: core.descriptor.partitions,
            layout: core.descriptor.layout,
            node_bytes: core.descriptor.node_bytes,
            fences: core.descriptor.fences,
            database_id: core.descriptor.database_id,
            created_s: core.descriptor.created_s,
            tables: self.tables().len(),
            footprint: Footprint {
                other: table_bytes,
                ..Footprint::default()
            },
            memory,
            disk: DiskCounters::default(),
            opened_in: core.opened_in,
            recovery_undone: 0,
            recovery_replayed: 0,
            hint_bytes: 0,
            log_line_writes: 0.0,
            log_persisted: Persisted::default(),
            area: AreaCounters::default(),
            pages: PageWrites::default(),
            checkpoints: CheckpointCounters::default(),
        };
        for partition in 0..core.descriptor.partitions {
            let engine = session.idle_engine(partition)?;
            add_footprint(&mut statistics.footprint, &engine.footprint()?);
            let status = engine.status();
            statistics.memory += &status.memory;
            statistics.disk += status.disk;
            statistics.recovery_undone += status.recovery_undone;
            statistics.hint_bytes += status.hint_bytes;
            statistics.log_line_writes = statistics.log_line_writes.max(status.log_line_writes);
            statistics.recovery_replayed += status.recovery_replayed;
            statistics.log_persisted += status.log_persisted;
            statistics.area += status.area;
            statistics.pages += status.pages;
            statistics.checkpoints += status.checkpoints;
        }
        Ok(statistics)
    }

    /// The content of the archive of each partition's log, in the order of partitions; none where
    /// there is no archive. Reads all of it, and fails where it is damaged.
    pub fn archives(&self) -> Result<Vec<Option<ArchiveRange>>> {
        let mut session = self.hold_all_to_look()?;
        let mut archives = Vec::new();
        for partition in 0..self.core.descriptor.partitions {
            archives.push(session.idle_engine(partition)?.archive()?);
        }
        Ok(archives)
    }

    /// How the archives of the partitions' logs have fared since the opening; none where there is
    /// no archive. Waits for nobody.
    pub fn archive_state(&self) -> Option<ArchiveState> {
        let mut state = ArchiveState::default();
        for (partition, watch) in self.core.archives.iter().enumerate() {
            let (taken, failed) = watch.counts();
            state.taken += taken;
            state.failed += failed;
            let failure = watch.failure();
            let failure = failure.map(|failure| format!("partition {partition}: {failure}"));
            state.failure = state.failure.take().or(failure);
        }
        (!self.core.archives.is_empty()).then_some(state)
    }

    /// Gives the space of free pages back to the filesystem: pages move to the front of their file,
    /// whose end is then cut off. All partitions are held meanwhile. A crash at any moment leaves
    /// the database sound, with a longer file at worst.
    ///
    /// # Errors
    /// A method without pages in files, which gives no space back: convert the database into a new
    /// one. A full disk of the log.
    pub fn shrink(&self) -> Result<Shrunk> {
        let mut session = self.hold_all()?;
        let mut sum = Shrunk::default();
        for partition in 0..self.core.descriptor.partitions {
            let engine = session.idle_engine(partition)?.idle()?;
            let file = engine.page_file().ok_or_else(|| {
                let text = "only a page method with pages in a file that is open for writing gives \
                            space back; convert the database into a new one instead";
                StorageError::Unsupported(text.to_owned())
            })?;
            let shrunk = file.shrink()?;
            sum.before_bytes += shrunk.before_bytes;
            sum.after_bytes += shrunk.after_bytes;
        }
        Ok(sum)
    }

    /// Checks all that can be checked: checksums, order, every index against its table, that the
    /// allocated blocks are exactly the reachable ones, and that each row is in its partition.
    /// Damage is in the report.
    pub fn verify(&self) -> Result<VerifyReport> {
        let mut session = self.hold_all_to_look()?;
        let mut report = VerifyReport::default();
        for partition in 0..self.core.descriptor.partitions {
            let found = session.idle_engine(partition)?.verify()?;
            report.rows += found.rows;
            report.index_entries += found.index_entries;
            report.blocks += found.blocks;
            let named = found
                .damage
                .into_iter()
                .map(|text| format!("partition {partition}: {text}"));
            report.damage.extend(named);
        }
        drop(session);
        report.damage.extend(self.core.shared.prepared.problems());
        if report.damage.is_empty() {
            self.verify_placement(&mut report)?;
            self.count_truncated(&mut report)?;
        }
        Ok(report)
    }

    /// Counts the contents that keys have only the beginning and the hash of.
    fn count_truncated(&self, report: &mut VerifyReport) -> Result<()> {
        for table in self.all_tables() {
            let shape = table.entry.current();
            let encoders = std::iter::once(&shape.primary).chain(&shape.secondary);
            let encoders: Vec<_> = encoders.filter(|keys| !keys.is_all_exact()).collect();
            if encoders.is_empty() {
                continue;
            }
            report.truncated_keys += self.read(|reader| {
                let mut cut = 0;
                reader.scan(&table, .., Direction::Forward, |row| {
                    cut += encoders
                        .iter()
                        .map(|keys| keys.cut_contents(row))
                        .sum::<usize>();
                    ControlFlow::Continue(())
                })?;
                Ok(cut as u64)
            })?;
        }
        Ok(())
    }

    /// Checks that each row is in the partition of its key, and that replicas are equal in number.
    fn verify_placement(&self, report: &mut VerifyReport) -> Result<()> {
        if self.core.descriptor.partitions == 1 {
            return Ok(());
        }
        let mut session = self.hold_all_to_look()?;
        for table in self.all_tables() {
            let entry = &table.entry;
            let range = whole_table(entry)?;
            let first = entry.shape.def.primary_key[0];
            let mut rows = Vec::new();
            for partition in 0..self.core.descriptor.partitions {
                let mut count = 0_u64;
                let mut misplaced = 0;
                session.engine(partition)?.scan(&range, &mut |row| {
                    count += 1;
                    let place = entry.place(row.get(first));
                    let fits = match place {
                        Ok(Placement::One(expected)) => expected == partition,
                        Ok(Placement::All) => true,
                        Err(_) => false,
                    };
                    misplaced += usize::from(!fits);
                    if misplaced < MISPLACED_MAX {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                })?;
                rows.push(count);
                if misplaced > 0 {
                    let name = table.name();
                    report.damage.push(format!(
                        "partition {partition}: table `{name}` has rows of other partitions"
                    ));
                }
            }
            if entry.replicated && rows.iter().any(|&count| count != rows[0]) {
                let name = table.name();
                report
                    .damage
                    .push(format!("replicas of table `{name}` have {rows:?} rows"));
            }
        }
        Ok(())
    }

    /// Bounds recovery time: writes a checkpoint in every partition, where the method has one. Logs
    /// with archives get a mark, and row counts are saved.
    ///
    /// # Errors
    /// [`Error::Unmarked`] if everything but the mark succeeded.
    pub fn checkpoint(&self) -> Result<()> {
        self.core.save_counts(self.core.lock_policy.wait_limit)?;
        let mut session = self.hold_all()?;
        let marked = session.mark();
        if !matches!(marked, Err(Error::Unmarked { .. })) {
            marked?;
        }
        for partition in 0..self.core.descriptor.partitions {
            session.define(partition, |engine| engine.checkpoint())?;
        }
        // If a log had no room for the mark, there is some now.
        session.mark()
    }

    /// Makes every commit durable, in all partitions.
    pub fn force(&self) -> Result<()> {
        // One session of a partition makes all its commits durable. If others were kept out, two
        // threads that force would wait for each other's slots.
        self.hold_each()?.force()
    }
}

fn add_footprint(sum: &mut Footprint, part: &Footprint) {
    sum.table += part.table;
    sum.index += part.index;
    sum.log += part.log;
    sum.checkpoint += part.checkpoint;
    sum.other += part.other;
}
