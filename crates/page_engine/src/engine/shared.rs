//! State that the sessions of one partition share: pages, log, groups of commits, checkpoints; and
//! how it is made and opened.
//!
//! Order of locks: the checkpoint's, then those of `buffer`. A commit has no lock of its own: its
//! ticket is the place of its record in the log (`group`), and it becomes durable by a sync that
//! covers its record, its own or another's.

use super::checkpointer::Checkpointer;
use super::group::Group;
use super::logs::{Found, Looker, NewResident, Site, file_options, log_of};
use super::unfinished::{Unfinished, is_for_later};
use crate::buffer::offsets::first_page;
use crate::buffer::{CheckpointNeed, Master, NvPages, NvSlots, PageFile, Pool, Slots};
use crate::page::{PAGE_BYTES, PageId, TxnId, header};
use crate::paged::recovery::Analysis;
use crate::paged::redo::Redo;
use crate::paged::tables::CATALOGUE_KEY_WORDS;
use crate::paged::{Pages, Transaction, Tree, space};
use disk::{Directory, DiskCounters};
use pmem::Access;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use storage::engine::{
    AfterCrash, CommitTicket, Daemon, Decide, Durability, EngineOptions, Guard, Locking, PageAxes,
    PagesKind,
};
use storage::lock::{LockManager, LockOptions};
use storage::log::{Due, GroupCommitOptions, LogStart, Lsn};
use storage::probe::{self, Activity};
use storage::sync::CachePadded;
use storage::{Clock, Platform, Result, StorageError};

/// One partition, for all of its sessions.
///
/// Its checkpoints are in `checkpoints`, its undo after an opening in `unfinished`, and its end of
/// the file in `shrink`.
pub(super) struct Shared<P: Platform> {
    pub(super) pages: Pages<P::Files>,
    /// The directory of the page files, if those of the log are elsewhere.
    apart: Option<Mutex<P::Files>>,
    pub(super) group: Group,
    pub(super) locks: Arc<LockManager>,
    pub(super) unfinished: Unfinished,
    /// Held while a checkpoint is written.
    pub(super) checkpoint: Mutex<()>,
    pub(super) checkpointer: Checkpointer,
    pub(super) next_txn: CachePadded<AtomicU64>,
    sessions: AtomicU32,
    /// Grows with each change of definitions.
    definitions: AtomicU64,
    pub(super) locking: Locking,
    pub(super) catalogue: PageId,
    pub(super) log_bytes_max: u64,
    pub(super) replayed: u64,
    pub(super) undone: u64,
}

/// Directories of a partition's files.
struct Directories<D> {
    log: D,
    /// Of the pages, if it is another place.
    apart: Option<D>,
}

impl<D> Directories<D> {
    fn of<P: Platform<Files = D>>(platform: &P, partition: u32) -> Result<Self> {
        let files = platform.files(partition)?;
        Ok(match platform.log_files(partition)? {
            Some(log) => Self {
                log,
                apart: Some(files),
            },
            None => Self {
                log: files,
                apart: None,
            },
        })
    }

    fn pages(&self) -> &D {
        self.apart.as_ref().unwrap_or(&self.log)
    }
}

/// A commit that is logged.
pub(super) struct Logged {
    pub(super) ticket: CommitTicket,
    pub(super) due: Due,
}

fn group_options(options: &EngineOptions) -> GroupCommitOptions {
    GroupCommitOptions {
        transactions_max: options.group_transactions_max,
        wait_us_max: options.group_wait_us_max,
    }
}

fn lock_options(options: &EngineOptions) -> LockOptions {
    LockOptions {
        graph: options.waits.clone(),
        inherits: options.locking == Locking::Optimised,
        ..LockOptions::default()
    }
}

/// A new file's pages: the first map of space, and the root of an empty catalogue.
fn first_pages(page_bytes: usize) -> (Vec<Vec<u8>>, PageId) {
    let map = first_page(page_bytes);
    let catalogue = PageId(map.0 + 1);
    let tree = Tree {
        root: catalogue,
        key_words: CATALOGUE_KEY_WORDS,
    };
    let mut root = vec![0; page_bytes];
    tree.format_root()
        .apply(&mut root, catalogue)
        .expect("the smallest page has room for an empty tree");
    let mut pages = vec![space::first_map(page_bytes, catalogue.0 + 1), root];
    for page in &mut pages {
        header::seal(page);
    }
    (pages, catalogue)
}

impl<P: Platform> Shared<P> {
    /// Makes the files of a partition.
    pub(super) fn create(platform: &P, options: &EngineOptions, axes: PageAxes) -> Result<Self> {
        let page_bytes = options.page_bytes;
        if !PAGE_BYTES.contains(&page_bytes) || !page_bytes.is_power_of_two() {
            let (least, most) = (PAGE_BYTES.start(), PAGE_BYTES.end());
            return Err(StorageError::Unsupported(format!(
                "pages of {page_bytes} bytes: a page has a power of two from {least} to {most}"
            )));
        }
        let (pages, catalogue) = first_pages(page_bytes as usize);
        let mut master = Master {
            generation: 0,
            page_bytes,
            guard: axes.guard.code(),
            start: LogStart::NEW,
            redo: LogStart::NEW.lsn,
            next_txn: 1,
            catalogue,
            pages: 0,
        };
        let site = Site {
            platform,
            options,
            axes,
        };
        log_of::<P>(axes.log).create(&site)?;
        let (memories, bytes) = (site.memories(), page_bytes as usize);
        let resident = match axes.pages {
            PagesKind::Ssd => None,
            PagesKind::Nvm => Some(NvPages::create(&memories, site.identity(), bytes, &pages)?),
        };
        if let Some((source, pages)) = &resident {
            master.pages = source.first().0 + pages.len() as u32;
        }
        let pages_in_file = if resident.is_none() { &*pages } else { &[] };
        let directories = Directories::of(platform, options.partition)?;
        let options_file = file_options(options, axes.guard);
        let mut slots: Option<Box<dyn Slots>> = None;
        if axes.guard.has_slots() {
            let made = NvSlots::create(&memories, site.identity(), bytes, options.area_bytes)?;
            slots = Some(Box::new(made));
        }
        let file = PageFile::create(
            directories.pages(),
            &options_file,
            master,
            pages_in_file,
            slots,
        )?;
        Self::start(&site, directories, (file, resident), &|_| false)
    }

    /// Opens a partition and recovers it.
    pub(super) fn open(
        platform: &P,
        options: &EngineOptions,
        axes: PageAxes,
        decide: Decide<'_>,
    ) -> Result<Self> {
        let site = Site {
            platform,
            options,
            axes,
        };
        let directories = Directories::of(platform, options.partition)?;
        let mut file = Self::open_file(&site, directories.pages())?;
        if options.access == Access::Write {
            log_of::<P>(axes.log).secure_master(&site, &mut file)?;
        }
        file.repair(options.access)?;
        let resident = match axes.pages {
            PagesKind::Ssd => None,
            PagesKind::Nvm => {
                let sizes = (file.page_bytes(), file.pages());
                let memories = site.memories();
                let opened = NvPages::open(&memories, site.identity(), options.access, sizes)?;
                // The log tells which pages may be in use.
                Some((opened, Vec::new()))
            }
        };
        Self::start(&site, directories, (file, resident), decide)
    }

    fn open_file(site: &Site<'_, P>, directory: &P::Files) -> Result<PageFile<P::Files>> {
        let guard = site.axes.guard;
        let slots = &mut |page_bytes| -> Result<Option<Box<dyn Slots>>> {
            if !guard.has_slots() {
                return Ok(None);
            }
            let (memories, access) = (site.memories(), site.options.access);
            let slots = NvSlots::open(&memories, site.identity(), access, page_bytes)?;
            Ok(Some(Box::new(slots)))
        };
        PageFile::open(directory, &file_options(site.options, guard), slots)
    }

    fn start(
        site: &Site<'_, P>,
        directories: Directories<P::Files>,
        (file, resident): (PageFile<P::Files>, NewResident<P>),
        decide: Decide<'_>,
    ) -> Result<Self> {
        let (options, master) = (site.options, file.master());
        let (pages, analysis) = Self::redo(site, directories.log, file, resident)?;
        let is_found = analysis.records > 0;
        let (replayed, next_txn) = (analysis.commits, analysis.next_txn);
        let is_later = |txn: &Transaction| is_for_later(txn, options.undoing, master.catalogue);
        let (undone, later) = pages.finish(analysis, decide, &is_later)?;
        let locks = LockManager::new(lock_options(options));
        let undone = undone + later.len() as u64;
        let unfinished = Unfinished::take(&pages, (&locks, master.catalogue), later)?;
        let shared = Self {
            sessions: AtomicU32::new(pages.pool.log().first_session()),
            pages,
            apart: directories.apart.map(Mutex::new),
            group: Group::new(group_options(options)),
            locks,
            unfinished,
            checkpoint: Mutex::new(()),
            checkpointer: Checkpointer::default(),
            next_txn: CachePadded(AtomicU64::new(next_txn)),
            definitions: AtomicU64::new(0),
            locking: options.locking,
            catalogue: master.catalogue,
            log_bytes_max: options.checkpoint_log_bytes,
            replayed,
            undone,
        };
        // The log is needed until no redo is deferred.
        let can_wait = shared.pages.pool.has_pending_redo()
            && shared.checkpoint_need() == CheckpointNeed::None;
        if is_found && !can_wait {
            shared.write_checkpoint()?;
        }
        if options.access == Access::Write {
            if options.daemon == Daemon::BySteps {
                // Records that are left for the archive. Where threads may run, one does it while
                // the sessions work.
                shared.move_cold()?;
            }
            shared.pages.pool.file().clear_area()?;
        }
        Ok(shared)
    }

    /// Opens the log, and redoes its records on pages that lack them.
    fn redo(
        site: &Site<'_, P>,
        files: P::Files,
        mut file: PageFile<P::Files>,
        resident: NewResident<P>,
    ) -> Result<(Pages<P::Files>, Analysis)> {
        let Site {
            platform,
            options,
            axes,
        } = *site;
        let master = file.master();
        let name = file.name().to_owned();
        let mut analysis = Analysis {
            next_txn: master.next_txn,
            ..Analysis::default()
        };
        let found = Found {
            files,
            start: master.start,
            pages: file.pages(),
            resident,
        };
        let looker = &mut Looker {
            analysis: &mut analysis,
            partition: options.partition,
        };
        let (log, resident) = log_of::<P>(axes.log).open(site, found, looker)?;
        let is_found = analysis.records > 0;
        if is_found && options.access == Access::Read {
            return Err(StorageError::NeedsRecovery(name));
        }
        let images = file.guard() == Guard::FullPageWrites;
        let pool = match resident {
            None => Pool::new(file, log, options.buffer_bytes)?,
            Some((resident, pages)) => {
                file.set_pages(pages);
                Pool::in_memory(file, log, resident)?
            }
        };
        let mut pages = Pages::new(pool, options.page_cells_max);
        pages.set_clock(Self::clock(platform, options)?);
        if is_found {
            Self::repeat(&pages, axes, master.redo, options)?;
        }
        if images {
            pages.pool.log_images(master.redo, is_found);
        }
        Ok((pages, analysis))
    }

    /// The clock for the times of commits: only a log with an archive needs them.
    fn clock(platform: &P, options: &EngineOptions) -> Result<Clock> {
        let archive = platform.archive_files(options.partition)?;
        Ok(archive.map_or(Clock::None, |_| options.clock.clone()))
    }

    /// Redoes the log's records on pages that lack them.
    fn repeat(
        pages: &Pages<P::Files>,
        axes: PageAxes,
        from: Lsn,
        options: &EngineOptions,
    ) -> Result<()> {
        let log = pages.pool.log();
        // For the room that recovery takes.
        log.move_cold()?;
        let has_threads = options.daemon == Daemon::Thread;
        let mut redo = Redo::new(pages, from, options.buffer_bytes, has_threads);
        log.replay(&mut |lsn, bytes| match axes.pages {
            PagesKind::Ssd => redo.record(lsn, bytes),
            PagesKind::Nvm => Ok(()),
        })?;
        // With an area that pages stay in, writing them all now would first push as many others out
        // to their homes.
        if options.redoing != AfterCrash::AtOpening && axes.guard == Guard::NvPageCache {
            redo.leave()
        } else {
            redo.repeat()
        }
    }

    /// The number of a new session.
    pub(super) fn next_session(&self) -> Result<u32> {
        let session = self.sessions.fetch_add(1, Ordering::Relaxed);
        self.pages.pool.log().add_session(session)?;
        Ok(session)
    }

    /// The number of a new transaction.
    pub(super) fn next_txn(&self) -> TxnId {
        TxnId(self.next_txn.fetch_add(1, Ordering::Relaxed))
    }

    /// Number of changes of definitions.
    pub(super) fn definitions(&self) -> u64 {
        self.definitions.load(Ordering::Acquire)
    }

    /// Counts a change of definitions, and returns the count.
    pub(super) fn redefined(&self) -> u64 {
        self.definitions.fetch_add(1, Ordering::Release) + 1
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.pages.pool.failure().is_noted()
    }

    /// Stops all sessions because of an error.
    pub(super) fn stop(&self, error: &StorageError) {
        self.pages.pool.failure().note_of(error);
        self.locks.stop();
    }

    /// The reason why sessions are stopped, as an error.
    #[cold]
    pub(super) fn refusal(&self) -> StorageError {
        self.pages.pool.failure().refusal()
    }

    /// Stops all sessions if the log has failed: a session that logs nothing would not notice.
    #[cold]
    pub(super) fn stop_with_log(&self) {
        if let Err(error) = self.pages.pool.log().require_sound() {
            self.stop(&error);
        }
    }

    /// The error that a session reports. While the partition is stopped nothing is worth another
    /// try: a lock that was waited for in vain belongs to a transaction that never ends.
    #[cold]
    pub(super) fn reported(&self, error: StorageError) -> StorageError {
        let is_vague = matches!(
            error,
            StorageError::Poisoned
                | StorageError::Deadlock { .. }
                | StorageError::LockTimeout { .. }
        );
        if is_vague && self.is_poisoned() {
            return self.refusal();
        }
        error
    }

    /// Remembers that a durable step failed, after which memory and files may differ. An error that
    /// elsewhere fails only one statement stops the partition here: the transaction may be
    /// committed.
    pub(super) fn durable_step<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            let error = self.pages.pool.failure().note(error);
            self.locks.stop();
            if error.is_statement_error() {
                return self.refusal();
            }
            error
        })
    }

    /// Logs a commit. Says which pages are to be freed now.
    pub(super) fn commit(
        &self,
        txn: &Transaction,
        durability: Durability,
    ) -> Result<(Logged, Vec<PageId>)> {
        let (lsn, frees) = self.pages.commit(txn)?;
        let ticket = self.group.note(lsn, durability);
        let due = self.due(durability);
        Ok((Logged { ticket, due }, frees))
    }

    /// Whether a commit is to be made durable before it returns.
    fn due(&self, durability: Durability) -> Due {
        let log = self.pages.pool.log();
        if log.is_full() || durability != Durability::None && !log.groups_commits() {
            return Due::Now;
        }
        self.group.due(durability)
    }

    /// Lets a transaction without effects wait for those that it may have read.
    pub(super) fn wait(&self, durability: Durability) -> Logged {
        let ticket = self.newest();
        let due = if ticket <= self.durable() {
            Due::Later
        } else {
            self.due(durability)
        };
        Logged { ticket, due }
    }

    /// The newest ticket.
    pub(super) fn newest(&self) -> CommitTicket {
        self.group.newest()
    }

    /// The newest ticket that somebody waits for.
    pub(super) fn promised(&self) -> CommitTicket {
        self.group.promised()
    }

    /// Up to this ticket every commit is durable.
    #[inline]
    pub(super) fn durable(&self) -> CommitTicket {
        CommitTicket(self.pages.pool.log().synced().0.saturating_sub(1))
    }

    /// Makes every commit durable that is logged.
    pub(super) fn sync_log(&self) -> Result<()> {
        self.sync_group(self.newest())
    }

    /// Makes a session's commit durable, with all records before it unless it is told to wait for
    /// no others.
    pub(super) fn sync_commit(&self, session: u32, ticket: CommitTicket) -> Result<()> {
        let alone = self.pages.pool.log().flush_alone(session, Lsn(ticket.0));
        if self.durable_step(alone)? {
            return Ok(());
        }
        self.sync_group(ticket)
    }

    /// Makes a commit durable, with all records before it.
    fn sync_group(&self, ticket: CommitTicket) -> Result<()> {
        debug_assert!(
            ticket <= self.newest(),
            "a commit is made durable before it is noted"
        );
        let record = Lsn(ticket.0);
        if !self.pages.pool.log().groups_commits() {
            return self.sync_record(record);
        }
        let joined = self.group.begin_sync();
        self.sync_record(record)?;
        // If this thread has led the sync, commits that others have logged by then are durable as
        // well.
        if joined.newest <= self.durable() {
            self.group.end_sync(joined);
        }
        Ok(())
    }

    /// Makes a record durable, with all records before it.
    pub(super) fn sync_record(&self, lsn: Lsn) -> Result<()> {
        let _log = probe::begin(Activity::Log);
        self.durable_step(self.pages.pool.log().flush_to(lsn))
    }

    /// Counts of the directories of the partition.
    pub(super) fn disk(&self) -> DiskCounters {
        let mut disk = self.pages.pool.log().disk();
        if let Some(apart) = &self.apart {
            disk += apart
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .counters();
        }
        disk
    }

    /// Moves records that recovery needs no more to the archive, if there is one, and waits for a
    /// move that is under way.
    pub(super) fn move_cold(&self) -> Result<()> {
        self.durable_step(self.pages.pool.log().move_cold())
            .map(|_| ())
    }
}

impl<P: Platform> Drop for Shared<P> {
    /// Ends the last group in order. Commits that cannot be written are not acknowledged either, so
    /// a failure here loses nothing.
    fn drop(&mut self) {
        let log = self.pages.pool.log();
        if !std::thread::panicking() && !self.is_poisoned() && !log.is_poisoned() {
            let _ = log.close();
        }
    }
}
