//! State that the sessions of one partition share: pages, log, groups of commits, checkpoints; and
//! how it is made and opened.
//!
//! Order of locks: the checkpoint's, then those of `buffer`. A commit has no lock of its own: its
//! ticket is the place of its record in the log (`group`), and it becomes durable by a sync that
//! covers its record, its own or another's.

use super::batches::{Batches, Known, OpenLog, in_frames};
use super::checkpointer::Checkpointer;
use super::group::Group;
use super::unfinished::{Unfinished, is_for_later};
use crate::buffer::file::first_page;
use crate::buffer::horizon::{self, PartitionedLog, VisitRecord};
use crate::buffer::{
    BatchStore, CentralLog, CheckpointNeed, ColdSegments, ColdStore, Content, Daemon, FilesLog,
    Guard, Master, NvLog, NvLogOptions, NvPages, NvSlots, PageFile, PageFileOptions, PageLog,
    Persist, Pool, Rings, SessionFilesOptions, Slots, open_store,
};
use crate::clock::Clock;
use crate::engine::{
    AfterCrash, CommitTicket, Decide, Durability, EngineOptions, LogKind, PageAxes, PagesKind,
};
use crate::error::{Result, StorageError};
use crate::lock::{LockManager, LockOptions};
use crate::log::numbered::InFront;
use crate::log::{Due, GroupCommitOptions, LogIdentity, LogStart, Lsn, WalOptions, has_needless};
use crate::page::{PAGE_BYTES, PageId, TxnId, header};
use crate::paged::in_place::undo_unfinished;
use crate::paged::recovery::Analysis;
use crate::paged::redo::Redo;
use crate::paged::tables::CATALOGUE_KEY_WORDS;
use crate::paged::{Pages, Transaction, Tree, space};
use crate::platform::Platform;
use crate::probe::{self, Activity};
use crate::sync::CachePadded;
use disk::{Directory, DiskCounters};
use pmem::{Access, Page};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Segments are a fraction of the log's limit, so that a small limit has small files. The room that
/// a rollback may need in a segment is kept free, and is a fraction of this many pages.
const SEGMENT_PAGES_MIN: u64 = 128;

/// One partition, for all of its sessions.
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
    pub(super) catalogue: PageId,
    pub(super) log_bytes_max: u64,
    pub(super) replayed: u64,
    pub(super) undone: u64,
}

/// Pages in durable memory without frames, if the pages are there. The vector is empty if the log
/// tells which pages may be in use.
type NewHome<P> = Option<(NvPages<<P as Platform>::Memories>, Vec<Page>)>;

/// The parts that a partition is made of.
struct Parts<P: Platform> {
    axes: PageAxes,
    file: PageFile<P::Files>,
    /// The pages, if they are in durable memory.
    home: NewHome<P>,
}

/// Directories of a partition's files.
struct Places<D> {
    log: D,
    /// Of the pages, if it is another place.
    apart: Option<D>,
}

impl<D> Places<D> {
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
        ..LockOptions::default()
    }
}

fn identity(options: &EngineOptions) -> LogIdentity {
    LogIdentity {
        database: options.database_id,
        partition: options.partition,
    }
}

fn wal_options(options: &EngineOptions, guard: Guard) -> WalOptions {
    let usual = WalOptions::default();
    let share = (options.checkpoint_log_bytes / 4).next_multiple_of(4096);
    let shortest = segment_bytes_min(options);
    // With images the log grows many times as fast.
    let long = match guard {
        Guard::FullPageWrites => 64 << 20,
        _ => 0,
    };
    WalOptions {
        segment_bytes: share.min(usual.segment_bytes).max(shortest),
        long_segment_bytes: share.min(long),
        // The log until the next checkpoint needs the space that the last one frees.
        spare_bytes_max: options.checkpoint_log_bytes,
        ..usual
    }
}

/// On a full disk a checkpoint frees the room of one segment, so each has room for a deletion and
/// its undo.
fn segment_bytes_min(options: &EngineOptions) -> u64 {
    SEGMENT_PAGES_MIN * u64::from(options.page_bytes)
}

fn session_files_options(options: &EngineOptions) -> SessionFilesOptions {
    let central = wal_options(options, Guard::Off);
    SessionFilesOptions {
        identity: identity(options),
        access: options.access,
        // Each session has a file.
        series: WalOptions {
            segment_bytes: (central.segment_bytes / 4).max(segment_bytes_min(options)),
            // There is one of them for each session.
            spare_bytes_max: 0,
            ..central
        },
    }
}

fn nv_log_options(options: &EngineOptions, axes: PageAxes) -> NvLogOptions {
    let (rings, persist) = match axes.log {
        LogKind::Distributed => (Rings::Shared(options.rings), Persist::OnCommit),
        _ if axes.pages == PagesKind::Nvm => (Rings::PerSession, Persist::OnInsert),
        _ => (Rings::PerSession, options.persist),
    };
    let content = match axes.pages {
        PagesKind::Ssd => Content::Redo,
        PagesKind::Nvm => Content::Undo,
    };
    NvLogOptions {
        rings,
        persist,
        identity: identity(options),
        access: options.access,
        ring_bytes: options.ring_bytes,
        page_bytes: u64::from(options.page_bytes),
        content,
    }
}

pub(super) fn file_options(options: &EngineOptions, guard: Guard) -> PageFileOptions {
    PageFileOptions {
        identity: identity(options),
        access: options.access,
        guard,
    }
}

/// A new file's pages: the first map of space, and the root of an empty catalogue.
fn first_pages(page_bytes: usize) -> Result<(Vec<Vec<u8>>, PageId)> {
    let map = first_page(page_bytes);
    let catalogue = PageId(map.0 + 1);
    let tree = Tree {
        root: catalogue,
        key_words: CATALOGUE_KEY_WORDS,
    };
    let mut root = vec![0; page_bytes];
    let too_small = |_| StorageError::Unsupported("the pages are too small".to_owned());
    tree.format_root()
        .apply(&mut root, catalogue)
        .map_err(too_small)?;
    let mut pages = vec![space::first_map(page_bytes, catalogue.0 + 1)?, root];
    for page in &mut pages {
        header::seal(page);
    }
    Ok((pages, catalogue))
}

/// The archive to which a log moves records that it needs no more, if there is one. Undo records
/// are of no use after their transactions.
fn archive<P: Platform>(
    platform: &P,
    options: &EngineOptions,
    axes: PageAxes,
) -> Result<Option<Box<dyn ColdStore>>> {
    if axes.pages == PagesKind::Nvm {
        return Ok(None);
    }
    let files = platform.archive_files(options.partition)?;
    files
        .map(|files| open_store(files, identity(options), options.access))
        .transpose()
}

/// A log of which every record was looked at, and is durable then.
fn settled<L: horizon::Places + 'static>(
    log: PartitionedLog<L>,
    access: Access,
    look: &mut VisitRecord<'_>,
) -> Result<Box<dyn PageLog>> {
    log.visit(look)?;
    if access == Access::Write {
        log.settle()?;
    }
    Ok(Box::new(log))
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
        let (pages, catalogue) = first_pages(page_bytes as usize)?;
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
        let memories = platform.memories(options.partition);
        match axes.log {
            LogKind::Central | LogKind::Decentralized => {}
            LogKind::PerTransaction | LogKind::Distributed => {
                NvLog::<_, P::Files>::create(&memories, &nv_log_options(options, axes))?;
            }
            LogKind::Volatile => {
                BatchStore::create(&memories, identity(options), options.ring_bytes)?;
            }
        }
        let home = match axes.pages {
            PagesKind::Ssd => None,
            PagesKind::Nvm => {
                let bytes = page_bytes as usize;
                Some(NvPages::create(
                    &memories,
                    identity(options),
                    bytes,
                    &pages,
                )?)
            }
        };
        if let Some((source, pages)) = &home {
            master.pages = source.first().0 + pages.len() as u32;
        }
        let pages_in_file = if home.is_none() { &*pages } else { &[] };
        let places = Places::of(platform, options.partition)?;
        let options_file = file_options(options, axes.guard);
        let mut slots: Option<Box<dyn Slots>> = None;
        if axes.guard.has_slots() {
            let (identity, bytes) = (identity(options), page_bytes as usize);
            let made = NvSlots::create(&memories, identity, bytes, options.area_bytes)?;
            slots = Some(Box::new(made));
        }
        let file = PageFile::create(places.pages(), &options_file, master, pages_in_file, slots)?;
        let parts = Parts { axes, file, home };
        Self::start(platform, places, options, parts, &|_| false)
    }

    /// Opens a partition and recovers it.
    pub(super) fn open(
        platform: &P,
        options: &EngineOptions,
        axes: PageAxes,
        decide: Decide<'_>,
    ) -> Result<Self> {
        let places = Places::of(platform, options.partition)?;
        let mut file = Self::open_file(platform, places.pages(), options, axes.guard)?;
        if options.access == Access::Write {
            let start = file.master().start;
            match axes.log {
                LogKind::Central => {
                    file.secure_master(has_needless(&places.log, identity(options), start)?)?;
                }
                LogKind::Decentralized => {
                    let log = Places::of(platform, options.partition)?.log;
                    let series = session_files_options(options);
                    file.secure_master(FilesLog::has_needless(log, series, start.lsn)?)?;
                }
                LogKind::PerTransaction | LogKind::Distributed => {
                    let memories = platform.memories(options.partition);
                    let rings = nv_log_options(options, axes);
                    let is_known = NvLog::<_, P::Files>::knows(&memories, &rings, start.lsn)?;
                    file.secure_master(!is_known)?;
                    if !is_known {
                        let in_front = match archive(platform, options, axes)? {
                            Some(_) => InFront::Kept,
                            None => InFront::GivenUp,
                        };
                        NvLog::<_, P::Files>::learn(&memories, &rings, start.lsn, in_front)?;
                    }
                }
                // Nothing is removed that an older checkpoint needs: its pages are those of the
                // newest batch as well.
                LogKind::Volatile => file.secure_master(false)?,
            }
        }
        file.repair(options.access)?;
        let home = match axes.pages {
            PagesKind::Ssd => None,
            PagesKind::Nvm => {
                let memories = platform.memories(options.partition);
                let sizes = (file.page_bytes(), file.pages());
                let identity = identity(options);
                let opened = NvPages::open(&memories, identity, options.access, sizes)?;
                // The log tells which pages may be in use.
                Some((opened, Vec::new()))
            }
        };
        let parts = Parts { axes, file, home };
        Self::start(platform, places, options, parts, decide)
    }

    fn open_file(
        platform: &P,
        directory: &P::Files,
        options: &EngineOptions,
        guard: Guard,
    ) -> Result<PageFile<P::Files>> {
        let slots = &mut |page_bytes| -> Result<Option<Box<dyn Slots>>> {
            if !guard.has_slots() {
                return Ok(None);
            }
            let memories = platform.memories(options.partition);
            let (identity, access) = (identity(options), options.access);
            let slots = NvSlots::open(&memories, identity, access, page_bytes)?;
            Ok(Some(Box::new(slots)))
        };
        PageFile::open(directory, &file_options(options, guard), slots)
    }

    fn start(
        platform: &P,
        places: Places<P::Files>,
        options: &EngineOptions,
        parts: Parts<P>,
        decide: Decide<'_>,
    ) -> Result<Self> {
        let Parts {
            axes,
            mut file,
            home,
        } = parts;
        let master = file.master();
        let name = file.name().to_owned();
        let mut analysis = Analysis {
            next_txn: master.next_txn,
            ..Analysis::default()
        };
        let kind = (axes, master.start, file.pages());
        let OpenLog { log, home } =
            Self::open_log(platform, places.log, options, kind, home, &mut analysis)?;
        let is_found = analysis.records > 0;
        if is_found && options.access == Access::Read {
            return Err(StorageError::NeedsRecovery(name));
        }
        let images = file.guard() == Guard::FullPageWrites;
        let pool = match home {
            None => Pool::new(file, log, options.buffer_bytes)?,
            Some((home, pages)) => {
                file.set_pages(pages);
                Pool::in_memory(file, log, home)?
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
        let (replayed, next_txn) = (analysis.commits, analysis.next_txn);
        let is_later = |txn: &Transaction| is_for_later(txn, options.undoing, master.catalogue);
        let (undone, later) = pages.finish(analysis, decide, &is_later)?;
        let locks = LockManager::new(lock_options(options));
        let undone = undone + later.len() as u64;
        let unfinished = Unfinished::take(&pages, (&locks, master.catalogue), later)?;
        let shared = Self {
            sessions: AtomicU32::new(pages.pool.log().first_session()),
            pages,
            apart: places.apart.map(Mutex::new),
            group: Group::new(group_options(options)),
            locks,
            unfinished,
            checkpoint: Mutex::new(()),
            checkpointer: Checkpointer::default(),
            next_txn: CachePadded(AtomicU64::new(next_txn)),
            definitions: AtomicU64::new(0),
            catalogue: master.catalogue,
            log_bytes_max: options.checkpoint_log_bytes,
            replayed,
            undone,
        };
        // The log is needed until no redo is deferred.
        let can_wait =
            shared.pages.pool.is_behind() && shared.checkpoint_need() == CheckpointNeed::None;
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

    /// Opens the log and looks at its records; afterwards they are durable.
    fn open_log(
        platform: &P,
        files: P::Files,
        options: &EngineOptions,
        (axes, start, known_pages): (PageAxes, LogStart, u32),
        mut home: NewHome<P>,
        analysis: &mut Analysis,
    ) -> Result<OpenLog> {
        let (access, identity) = (options.access, identity(options));
        let mut look = |lsn: Lsn, session, bytes: &[u8]| {
            let looked = analysis.record(session, bytes);
            looked.map_err(|error| StorageError::DamagedFile {
                file: format!("the log of partition {}", options.partition),
                offset: lsn.0,
                detail: error.to_string(),
            })
        };
        let log: Box<dyn PageLog> = match axes.log {
            LogKind::Central => {
                let found = &mut |lsn, bytes: &[u8]| look(lsn, 0, bytes);
                let wal = wal_options(options, axes.guard);
                let cold = match archive(platform, options, axes)? {
                    Some(store) => {
                        let files = Places::of(platform, options.partition)?.log;
                        Some(ColdSegments::new(store, identity, files))
                    }
                    None => None,
                };
                let log = CentralLog::open(access, files, identity, wal, start, found, cold)?;
                Box::new(log)
            }
            LogKind::PerTransaction | LogKind::Distributed => {
                let memories = platform.memories(options.partition);
                let rings = nv_log_options(options, axes);
                let store = archive(platform, options, axes)?;
                let log = NvLog::open_rings(memories, files, rings, start.lsn, store)?;
                let mut given_up = 0;
                if let Some((source, pages)) = &mut home {
                    let mut has_records = false;
                    log.visit(&mut |_, _, _| {
                        has_records = true;
                        Ok(())
                    })?;
                    if pages.is_empty() {
                        let has_records = has_records && access == Access::Write;
                        *pages = source.take(known_pages, has_records)?;
                    }
                    if access == Access::Write {
                        given_up = undo_unfinished(&log, source, source.first(), pages)?;
                    }
                }
                let log = settled(log, access, &mut look)?;
                analysis.records += given_up;
                log
            }
            LogKind::Decentralized => {
                let series = session_files_options(options);
                let store = archive(platform, options, axes)?;
                let log = FilesLog::open_files(files, series, start.lsn, store)?;
                settled(log, access, &mut look)?
            }
            LogKind::Volatile => {
                let known = Known {
                    at: start.lsn,
                    pages: known_pages,
                };
                let look = &mut |session, bytes: &[u8]| look(start.lsn, session, bytes);
                let opened = Self::open_batches(platform, files, options, (home, known), look);
                let (opened, is_found) = opened?;
                analysis.records += u64::from(is_found);
                return Ok(opened);
            }
        };
        let home = home.map(|(source, pages)| in_frames(source, pages, None));
        Ok(OpenLog { log, home })
    }

    /// Opens the log of batches and hands the records of transactions that were open at the end of
    /// the newest one to `look`. Says whether anything is found.
    fn open_batches(
        platform: &P,
        files: P::Files,
        options: &EngineOptions,
        (home, known): (NewHome<P>, Known),
        look: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<(OpenLog, bool)> {
        let Some((source, pages)) = home else {
            let text = "batches are of pages in durable memory".to_owned();
            return Err(StorageError::Unsupported(text));
        };
        let (access, memories) = (options.access, platform.memories(options.partition));
        let batches = Batches {
            store: BatchStore::open(&memories, identity(options), access)?,
            source,
            pages,
        };
        batches.open(files, access, known, look)
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
        self.sync_commit(self.newest())
    }

    /// Makes a commit durable, with all records before it.
    pub(super) fn sync_commit(&self, ticket: CommitTicket) -> Result<()> {
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
