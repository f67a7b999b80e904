//! Timing and pace of flushes of MemTables and of merges, and the choice of runs to merge.
//!
//! - Level 0 has flushed MemTables, newest first. At [`LEVEL_0_RUNS`] of them (or the growth
//!   factor, if that is less) all are merged with the run of level 1.
//! - Each level from 1 on has one run. A run that is larger than its level's limit is merged with
//!   the next level's.
//!
//! After each commit a share of work is done that grows with the bytes that it wrote. A flush is
//! copied three times as fast as the new MemTable fills; a merge is over before level 0 is full
//! again. So no writer waits for a whole job, and if a job falls behind, because the disk was full,
//! level 0 grows and the share with it.

use super::job::{Input, Job};
use super::manifest::{Manifest, RunEntry};
use super::run::KIND;
use super::store::{LeveledRun, Store, TableTrees};
use disk::{Directory, File};
use pmem::MemorySource;
use storage::engine::CommitTicket;
use storage::log::checkpoint::is_harmless;
use storage::log::{LogIdentity, LogStart};
use storage::{Result, StorageError};

/// Runs of level 0 that are merged at once.
const LEVEL_0_RUNS: u64 = 4;
/// Most bytes that are written into a MemTable, in times its size: keys that change again and again
/// do not fill it, but the log keeps all their changes.
const LOG_FACTOR: u64 = 3;
/// Bytes of one step, at most.
const STEP_BYTES: u64 = 32 << 10;
/// Ratio of the pace of a flush to the pace at which the MemTable fills.
const FLUSH_RATE: u64 = 3;
/// Steps of one share, at most.
const STEPS_MAX: u64 = 8;
/// Written bytes after which jobs are tried again where the disk was full: a share of a full
/// MemTable.
const PAUSE_SHARE: u64 = 4;

/// Sizes of MemTables and runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunSizes {
    /// Bytes after which a MemTable is full.
    pub(crate) memtable_bytes: u64,
    /// Ratio of a level's size to that of the level above it.
    pub(crate) growth: u64,
}

/// Start of replay, and the state then: the content of a manifest, without the runs.
#[derive(Clone)]
pub(crate) struct Head {
    pub(crate) start: LogStart,
    pub(crate) ticket: CommitTicket,
    pub(crate) tables: Vec<TableTrees>,
    pub(crate) next_tree: u64,
}

/// The jobs of a partition, and the manifest that they change.
pub(crate) struct Compaction<F: File> {
    identity: LogIdentity,
    sizes: RunSizes,
    settings: [u64; 2],
    /// Head of the manifest on disk.
    head: Head,
    /// Head of the next manifest, once the full MemTable is in a run.
    next_head: Option<Head>,
    flush: Option<Job<F>>,
    merge: Option<Job<F>>,
    next_number: u64,
    /// Bytes of the MemTable when the last share was done.
    seen_bytes: u64,
    flush_credit: u64,
    merge_credit: u64,
    /// Written bytes before jobs are tried again.
    pause_bytes: u64,
}

/// Result of a share of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing that concerns the log.
    None,
    /// The full MemTable is in a run: replay starts here now.
    Flushed(LogStart),
}

impl<F: File> Compaction<F> {
    pub(crate) fn new(
        identity: LogIdentity,
        sizes: RunSizes,
        settings: [u64; 2],
        head: Head,
        next_number: u64,
    ) -> Self {
        Self {
            identity,
            sizes,
            settings,
            head,
            next_head: None,
            flush: None,
            merge: None,
            next_number,
            seen_bytes: 0,
            flush_credit: 0,
            merge_credit: 0,
            pause_bytes: 0,
        }
    }

    /// Notes the content that recovery has put into the MemTable: only later changes pay for work.
    pub(crate) fn resume<S: MemorySource>(&mut self, store: &Store<S, F>) {
        self.seen_bytes = store.active.sizes.written_bytes;
    }

    /// Whether the manifest lacks commits up to `newest`.
    pub(crate) fn is_behind(&self, newest: CommitTicket) -> bool {
        self.head.ticket < newest
    }

    /// Whether the active MemTable is full and there is room for it.
    pub(crate) fn wants_freeze<S: MemorySource>(&self, store: &Store<S, F>) -> bool {
        let (sizes, limit) = (store.active.sizes, self.sizes.memtable_bytes);
        let is_full = sizes.held_bytes >= limit || sizes.written_bytes / LOG_FACTOR >= limit;
        store.full.is_none() && is_full
    }

    /// Notes that the MemTable is full; the log was cut after its changes.
    pub(crate) fn freeze<S: MemorySource>(
        &mut self,
        store: &mut Store<S, F>,
        start: LogStart,
        ticket: CommitTicket,
    ) -> Result<()> {
        let (tables, next_tree) = (store.catalogue(), store.next_tree);
        store.freeze()?;
        self.seen_bytes = 0;
        self.flush_credit = 0;
        self.next_head = Some(Head {
            start,
            ticket,
            tables,
            next_tree,
        });
        Ok(())
    }

    /// Does the share of work for the bytes written since the last call. A full disk puts jobs off.
    pub(crate) fn maintain<S: MemorySource, D: Directory<File = F>>(
        &mut self,
        store: &mut Store<S, F>,
        directory: &D,
    ) -> Result<Progress> {
        let all = store.active.sizes.written_bytes;
        let written = all.saturating_sub(self.seen_bytes);
        self.seen_bytes = all;
        if written == 0 {
            return Ok(Progress::None);
        }
        if self.pause_bytes > 0 {
            self.pause_bytes = self.pause_bytes.saturating_sub(written);
            return Ok(Progress::None);
        }
        let step = (self.sizes.memtable_bytes / 8).clamp(256, STEP_BYTES);
        let result = self.share(store, directory, written, step);
        match result {
            Err(error) if is_harmless(&error) || is_full_memory(&error) => {
                self.give_up(store, directory)?;
                self.pause_bytes = self.sizes.memtable_bytes / PAUSE_SHARE;
                Ok(Progress::None)
            }
            result => result,
        }
    }

    fn share<S: MemorySource, D: Directory<File = F>>(
        &mut self,
        store: &mut Store<S, F>,
        directory: &D,
        written: u64,
        step: u64,
    ) -> Result<Progress> {
        let mut progress = Progress::None;
        self.begin_jobs(store, directory)?;
        if self.flush.is_some() {
            self.flush_credit += written * FLUSH_RATE;
            let bytes = take_steps(&mut self.flush_credit, step, written);
            if bytes > 0 {
                progress = self.step_flush(store, directory, bytes)?;
            }
        }
        if let Some(merge) = &self.merge {
            let due = self.level_0_runs() * self.sizes.memtable_bytes;
            let rate = merge.total_bytes * 4 / (3 * due.max(1)) + 2;
            self.merge_credit += written * rate;
            let bytes = take_steps(&mut self.merge_credit, step, written * rate);
            if bytes > 0 {
                self.step_merge(store, directory, bytes)?;
            }
        }
        Ok(progress)
    }

    /// Writes the full MemTable to a run, all of it, now.
    pub(crate) fn flush_now<S: MemorySource, D: Directory<File = F>>(
        &mut self,
        store: &mut Store<S, F>,
        directory: &D,
    ) -> Result<Progress> {
        let result = self
            .begin_jobs(store, directory)
            .and_then(|()| self.step_flush(store, directory, u64::MAX / 2));
        if result
            .as_ref()
            .is_err_and(|error| is_harmless(error) || is_full_memory(error))
        {
            self.give_up(store, directory)?;
        }
        result
    }

    /// Brings the merges that are due to their ends, now.
    pub(crate) fn merge_now<S: MemorySource, D: Directory<File = F>>(
        &mut self,
        store: &mut Store<S, F>,
        directory: &D,
    ) -> Result<()> {
        loop {
            let result = self.begin_jobs(store, directory);
            let result = result.and_then(|()| self.step_merge(store, directory, u64::MAX / 2));
            if let Err(error) = result {
                if is_harmless(&error) || is_full_memory(&error) {
                    self.give_up(store, directory)?;
                }
                return Err(error);
            }
            if self.merge.is_none() && self.pick(store, directory)?.is_none() {
                return Ok(());
            }
        }
    }

    fn level_0_runs(&self) -> u64 {
        LEVEL_0_RUNS.min(self.sizes.growth)
    }

    fn begin_jobs<S: MemorySource, D: Directory<File = F>>(
        &mut self,
        store: &mut Store<S, F>,
        directory: &D,
    ) -> Result<()> {
        if self.flush.is_none()
            && let Some(head) = &self.next_head
        {
            let tables = head.tables.clone();
            self.flush = Some(self.begin(store, directory, Input::Full, tables)?);
        }
        if self.merge.is_none()
            && let Some(input) = self.pick(store, directory)?
        {
            let tables = self.head.tables.clone();
            self.merge_credit = 0;
            self.merge = Some(self.begin(store, directory, input, tables)?);
        }
        Ok(())
    }

    fn begin<S: MemorySource, D: Directory<File = F>>(
        &mut self,
        store: &mut Store<S, F>,
        directory: &D,
        input: Input,
        tables: Vec<TableTrees>,
    ) -> Result<Job<F>> {
        let number = self.next_number;
        let begun = Job::begin(store, directory, self.identity, number, input, tables);
        self.next_number += 1;
        if begun.is_err() {
            remove_run(directory, self.identity, number)?;
        }
        begun
    }

    /// The runs that should be merged next.
    fn pick<S: MemorySource, D: Directory<File = F>>(
        &mut self,
        store: &mut Store<S, F>,
        directory: &D,
    ) -> Result<Option<Input>> {
        let on_level = |level: u32| {
            let runs = store.runs.iter();
            runs.filter(move |leveled| leveled.level == level)
        };
        if on_level(0).count() as u64 >= self.level_0_runs() {
            let runs = on_level(0).chain(on_level(1));
            let numbers = runs.map(|leveled| leveled.run.number).collect();
            return Ok(Some(Input::Runs { numbers, level: 1 }));
        }
        let mut moves = None;
        let mut limit = self.sizes.memtable_bytes.saturating_mul(self.sizes.growth);
        let deepest = store.runs.iter().map(|run| run.level).max().unwrap_or(0);
        for level in 1..=deepest {
            let Some(run) = on_level(level).next() else {
                continue;
            };
            if run.run.bytes > limit {
                let upper = run.run.number;
                if let Some(lower) = on_level(level + 1).next() {
                    let numbers = vec![upper, lower.run.number];
                    let level = level + 1;
                    return Ok(Some(Input::Runs { numbers, level }));
                }
                moves = moves.or(Some(upper));
            }
            limit = limit.saturating_mul(self.sizes.growth);
        }
        if let Some(number) = moves {
            // The next level is empty: the run moves as it is.
            self.relabel(store, directory, number)?;
        }
        Ok(None)
    }

    /// Moves a run one level down without copying it.
    fn relabel<S: MemorySource, D: Directory<File = F>>(
        &mut self,
        store: &mut Store<S, F>,
        directory: &D,
        number: u64,
    ) -> Result<()> {
        let mut places: Vec<_> = store.runs.iter().map(LeveledRun::place).collect();
        for place in places.iter_mut().filter(|place| place.number == number) {
            place.level += 1;
        }
        self.publish(directory, &self.head.clone(), places)?;
        let runs = store.runs.iter_mut();
        for leveled in runs.filter(|leveled| leveled.run.number == number) {
            leveled.level += 1;
        }
        Ok(())
    }

    fn step_flush<S: MemorySource, D: Directory<File = F>>(
        &mut self,
        store: &mut Store<S, F>,
        directory: &D,
        bytes: u64,
    ) -> Result<Progress> {
        let (Some(job), Some(head)) = (&mut self.flush, &self.next_head) else {
            return Ok(Progress::None);
        };
        if !job.step(store, bytes)? {
            return Ok(Progress::None);
        }
        let head = head.clone();
        let Some(job) = self.flush.take() else {
            return Ok(Progress::None);
        };
        self.publish_job(store, directory, job, &head)?;
        let start = head.start;
        self.head = head;
        self.next_head = None;
        store.drop_full();
        Ok(Progress::Flushed(start))
    }

    fn step_merge<S: MemorySource, D: Directory<File = F>>(
        &mut self,
        store: &mut Store<S, F>,
        directory: &D,
        bytes: u64,
    ) -> Result<()> {
        let Some(job) = &mut self.merge else {
            return Ok(());
        };
        if !job.step(store, bytes)? {
            return Ok(());
        }
        let Some(job) = self.merge.take() else {
            return Ok(());
        };
        let head = self.head.clone();
        self.publish_job(store, directory, job, &head)
    }

    /// Replaces the input of a job by its output.
    fn publish_job<S: MemorySource, D: Directory<File = F>>(
        &mut self,
        store: &mut Store<S, F>,
        directory: &D,
        job: Job<F>,
        head: &Head,
    ) -> Result<()> {
        let input = job.input.clone();
        let number = job.number();
        let run = match job.finish(store) {
            Ok(run) => run,
            Err(error) => {
                remove_run(directory, self.identity, number)?;
                return Err(error);
            }
        };
        let (at, level, replaced) = match &input {
            Input::Full => (0, 0, Vec::new()),
            Input::Runs { numbers, level } => {
                let mut runs = store.runs.iter();
                let at = runs.position(|leveled| numbers.contains(&leveled.run.number));
                (at.unwrap_or(0), *level, numbers.clone())
            }
        };
        let is_empty = run.entries == 0;
        let fresh = LeveledRun { level, run };
        let mut places: Vec<RunEntry> = store.runs.iter().map(LeveledRun::place).collect();
        if !is_empty {
            places.insert(at, fresh.place());
        }
        places.retain(|place| !replaced.contains(&place.number));
        if let Err(error) = self.publish(directory, head, places) {
            store.filters.free(fresh.run.filter)?;
            drop(fresh);
            if is_harmless(&error) {
                remove_run(directory, self.identity, number)?;
            }
            return Err(error);
        }
        if is_empty {
            store.filters.free(fresh.run.filter)?;
            drop(fresh);
            remove_run(directory, self.identity, number)?;
        } else {
            store.runs.insert(at, fresh);
        }
        let (dead, live) = std::mem::take(&mut store.runs)
            .into_iter()
            .partition(|leveled| replaced.contains(&leveled.run.number));
        store.runs = live;
        for leveled in Vec::<LeveledRun<F>>::from_iter::<Vec<_>>(dead) {
            store.filters.free(leveled.run.filter)?;
            let number = leveled.run.number;
            drop(leveled);
            remove_run(directory, self.identity, number)?;
        }
        Ok(())
    }

    fn publish<D: Directory>(&self, directory: &D, head: &Head, runs: Vec<RunEntry>) -> Result<()> {
        let tables = head.tables.iter().map(|entry| {
            let trees = entry.trees.iter().map(|tree| tree.0).collect();
            (entry.table.def.clone(), trees)
        });
        let manifest = Manifest {
            start: head.start,
            ticket: head.ticket,
            settings: self.settings,
            runs,
            tables: tables.collect(),
            next_tree: head.next_tree,
        };
        manifest.write(directory, self.identity)
    }

    /// Forgets the jobs and removes their files: they begin anew later.
    fn give_up<S: MemorySource, D: Directory<File = F>>(
        &mut self,
        store: &mut Store<S, F>,
        directory: &D,
    ) -> Result<()> {
        for job in [self.flush.take(), self.merge.take()].into_iter().flatten() {
            let number = job.abandon(store)?;
            remove_run(directory, self.identity, number)?;
        }
        Ok(())
    }
}

/// Takes whole steps out of a credit, but only a bounded number more than were earned by writes.
fn take_steps(credit: &mut u64, step: u64, earned: u64) -> u64 {
    if *credit < step {
        return 0;
    }
    let bytes = (*credit).min(STEPS_MAX * step + 2 * earned);
    *credit -= bytes;
    bytes
}

fn remove_run<D: Directory>(directory: &D, identity: LogIdentity, number: u64) -> Result<()> {
    let name = identity.file_name(KIND, number);
    if directory.exists(&name)? {
        directory.remove(&name)?;
    }
    Ok(())
}

fn is_full_memory(error: &StorageError) -> bool {
    matches!(error, StorageError::Memory(_)) && error.is_out_of_space()
}

/// Removes the files of runs that the manifest does not name, and returns a number that no run has
/// had.
pub(crate) fn remove_orphans<D: Directory>(
    directory: &D,
    identity: LogIdentity,
    manifest: &Manifest,
) -> Result<u64> {
    let prefix = format!("p{}.{KIND}.", identity.partition);
    let mut next = 1;
    for name in directory.list()? {
        let Some(digits) = name.strip_prefix(&prefix) else {
            continue;
        };
        let Ok(number) = digits.parse::<u64>() else {
            continue;
        };
        if identity.file_name(KIND, number) != name {
            continue;
        }
        next = next.max(number.saturating_add(1));
        if manifest.runs.iter().all(|run| run.number != number) {
            directory.remove(&name)?;
        }
    }
    let unpublished = format!("p{}.manifest.tmp", identity.partition);
    if directory.exists(&unpublished)? {
        directory.remove(&unpublished)?;
    }
    Ok(next)
}
