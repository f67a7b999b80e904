//! The file of pages of one partition, and its protection from torn writes.
//!
//! A write of several sectors may be torn by a power cut. The [`Guard`] (`guard`) keeps a torn page
//! from being a loss. The file grows, with its space allocated, before a page of the new part is
//! used, so that a full disk is an error of the statement that needs a page and never of a
//! write-back.

use super::guard::page_cache::{PageCache, WRITE_BACK_THREADS};
use super::guard::{DoubleWrite, NoCopies, NvDoubleWrite, PageGuard, SinglePages, Slots};
use super::master::{HEAD_BYTES, Master};
use super::offsets::{first_page, page_damage, runs};
use super::write_back::{BatchSync, WriteBack};
use crate::buffer::guard::Writes;
use crate::page::{Header, PageId};
use disk::{Directory, File};
use pmem::{Access, Counters, Site, site};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use storage::engine::{Guard, PageWrites};
use storage::log::LogIdentity;
use storage::{Result, StorageError, UNFINISHED};

/// The file grows by an eighth of itself, within these bounds.
const GROWTH_BYTES_MIN: u64 = 64 << 10;
const GROWTH_BYTES_MAX: u64 = 32 << 20;

/// Suffixes of the names of files of pages, and of unfinished ones.
const PAGES: &str = ".pages";
const UNPUBLISHED: &str = ".tmp";

/// The first master record of a new file. The second one repeats it; the third says that the file's
/// name is durable; the fourth, that the third is.
const FIRST_GENERATION: u64 = 1;
const FINISHED_GENERATION: u64 = FIRST_GENERATION + 2;
const SETTLED_GENERATION: u64 = FINISHED_GENERATION + 1;

/// Options of a file of pages.
#[derive(Clone, Copy, Debug)]
pub struct PageFileOptions {
    /// Database and partition of the file.
    pub identity: LogIdentity,
    /// Whether it may change.
    pub access: Access,
    /// How pages are written.
    pub guard: Guard,
}

/// The file of pages.
pub struct PageFile<D: Directory> {
    file: D::File,
    name: String,
    identity: LogIdentity,
    guard: Guard,
    area: Box<dyn PageGuard>,
    write_back: Arc<dyn WriteBack<D::File>>,
    page_bytes: usize,
    /// Pages that the file has room for; its readers know too.
    pages: Arc<AtomicU32>,
    /// Whether pages were written since the last sync, by this process or, as far as it knows, by
    /// another.
    unsynced: bool,
    /// Whether a write home of pages with copies in the area has failed: any of them may be torn at
    /// home, and only the copies can repair it.
    may_be_torn: bool,
    master: Master,
    /// Bytes that this handle has written.
    written: PageWrites,
}

/// The places that a guard keeps copies in, if it has some.
struct Areas<F> {
    in_file: Option<DoubleWrite<F>>,
    slots: Option<Box<dyn Slots>>,
}

impl<D: Directory> PageFile<D> {
    /// Makes the files with a master record and these pages from the first place on, all durable. A
    /// guard in durable memory has its slots already.
    pub fn create(
        directory: &D,
        options: &PageFileOptions,
        mut master: Master,
        pages: &[Vec<u8>],
        slots: Option<Box<dyn Slots>>,
    ) -> Result<Self> {
        let (name, area_name) = names(options.identity);
        let page_bytes = master.page_bytes as usize;
        let in_file = Writes::of(options.guard)
            .map(|writes| DoubleWrite::create(directory, area_name, page_bytes, writes))
            .transpose()?;
        let unpublished = format!("{name}{UNPUBLISHED}");
        let mut file = directory.create(&unpublished)?;
        let first = u64::from(first_page(page_bytes).0) * page_bytes as u64;
        let bytes = if options.guard == Guard::BeforeImages {
            // The pages are elsewhere, and counted there.
            HEAD_BYTES
        } else {
            let bytes = first + (pages.len() * page_bytes) as u64;
            let bytes = bytes.next_multiple_of(GROWTH_BYTES_MIN);
            master.pages = (bytes / page_bytes as u64) as u32;
            bytes
        };
        master.generation = FIRST_GENERATION;
        file.set_bytes(bytes)?;
        for (page, number) in pages.iter().zip(0_u64..) {
            assert_eq!(page.len(), page_bytes, "a first page has another length");
            file.write_at(first + number * page_bytes as u64, page)?;
        }
        master.write_both(options.identity, &mut file, site!("page-file.create"))?;
        directory.rename(&unpublished, &name)?;
        // The doublewrite area has its name by then as well: before the creation is finished nobody
        // looks for it.
        directory.sync(site!("page-file.name"))?;
        master.generation = FINISHED_GENERATION;
        master.write(options.identity, &mut file)?;
        file.sync(site!("page-file.finished"))?;
        // Needs no sync: that it can be read at all proves that the one before is durable.
        master.generation = SETTLED_GENERATION;
        master.write(options.identity, &mut file)?;
        let areas = Areas { in_file, slots };
        let mut created = Self::over(directory, options, (file, name), master, areas)?;
        created.unsynced = false;
        Ok(created)
    }

    /// The file with its guard. It has the pages that the master promises.
    fn over(
        directory: &D,
        options: &PageFileOptions,
        (file, name): (D::File, String),
        master: Master,
        Areas { in_file, slots }: Areas<D::File>,
    ) -> Result<Self> {
        let page_bytes = master.page_bytes as usize;
        let pages = Arc::new(AtomicU32::new(master.pages));
        let mut area: Box<dyn PageGuard> = Box::new(NoCopies);
        let write_back: Arc<dyn WriteBack<D::File>> = match (options.guard, slots, in_file) {
            (Guard::NvDoubleWrite, Some(slots), _) => {
                area = Box::new(NvDoubleWrite::new(slots, page_bytes));
                Arc::new(CopiesFirst)
            }
            (Guard::NvPageCache, Some(slots), _) => {
                let homes = (0..WRITE_BACK_THREADS).map(|_| Ok(directory.open(&name)?));
                let homes = homes.collect::<Result<_>>()?;
                let cache =
                    PageCache::open(slots, page_bytes, options.access, homes, Arc::clone(&pages))?;
                let cache = Arc::new(cache);
                area = Box::new(Arc::clone(&cache));
                cache
            }
            (guard, _, _) if guard.has_slots() => {
                let text = format!("the guard `{}` has no slots", guard.name());
                return Err(StorageError::Unsupported(text));
            }
            (Guard::Off, ..) => Arc::new(SinglePages::without_area(directory, &name, page_bytes)?),
            (_, _, Some(in_file)) => {
                let singles = in_file.singles(directory, &name)?;
                area = Box::new(in_file);
                match singles {
                    Some(singles) => Arc::new(singles),
                    None => Arc::new(CopiesFirst),
                }
            }
            _ if options.access == Access::Read => Arc::new(CopiesFirst),
            _ => Arc::new(SyncAhead::new(directory.open(&name)?)),
        };
        Ok(Self {
            file,
            name,
            identity: options.identity,
            guard: options.guard,
            area,
            write_back,
            written: PageWrites::default(),
            page_bytes,
            pages,
            unsynced: true,
            may_be_torn: false,
            master,
        })
    }

    /// Opens the files; the pages may need recovery. A guard in durable memory gets the page size,
    /// and gives its slots.
    pub fn open(
        directory: &D,
        options: &PageFileOptions,
        slots: &mut dyn FnMut(usize) -> Result<Option<Box<dyn Slots>>>,
    ) -> Result<Self> {
        let (name, area_name) = names(options.identity);
        let mut file = directory.open(&name)?;
        let (master, _) = Master::read(&name, options.identity, &mut file)?;
        if master.generation < FINISHED_GENERATION {
            return Err(StorageError::foreign_file(name, UNFINISHED));
        }
        if master.guard != options.guard.code() {
            return Err(StorageError::foreign_file(
                name,
                format!("its pages are guarded in another way ({})", master.guard),
            ));
        }
        let page_bytes = master.page_bytes as usize;
        let bytes = file.bytes()?;
        let pages = if options.guard == Guard::BeforeImages {
            // The memory tells how many there are.
            master.pages
        } else {
            (bytes / page_bytes as u64) as u32
        };
        if pages < master.pages {
            let detail = format!(
                "it ends here, and had {} pages of {page_bytes} bytes at the newest checkpoint",
                master.pages
            );
            return Err(page_damage(&name, bytes, &detail));
        }
        let in_file = Writes::of(options.guard)
            .map(|writes| DoubleWrite::open(directory, area_name, page_bytes, writes))
            .transpose()?;
        let areas = Areas {
            in_file,
            slots: slots(page_bytes)?,
        };
        let found = Master { pages, ..master };
        let mut opened = Self::over(directory, options, (file, name), found, areas)?;
        opened.master = master;
        Ok(opened)
    }

    /// The master record in force.
    pub fn master(&self) -> Master {
        self.master
    }

    /// The guard of page writes.
    pub fn guard(&self) -> Guard {
        self.guard
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Pages that the file has room for; numbers below the first page's are never used.
    pub fn pages(&self) -> u32 {
        self.pages.load(Ordering::Acquire)
    }

    /// The file's name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the master record durable that was found, where a process that has died may have
    /// written it without knowing that it is: it is the one that ends the file's creation, or what
    /// the record before it needs has not been removed.
    pub fn secure_master(&mut self, has_needless_log: bool) -> Result<()> {
        let is_settled = self.master.generation >= SETTLED_GENERATION;
        if has_needless_log || !is_settled {
            self.master.write(self.identity, &mut self.file)?;
            self.file.sync(site!("page-file.found-master"))?;
        }
        if !is_settled {
            self.master.generation = SETTLED_GENERATION;
            self.master.write(self.identity, &mut self.file)?;
        }
        Ok(())
    }

    /// Brings home what the guard has of pages that may be torn there. With [`Access::Read`] it is
    /// an error if anything has to be written.
    pub fn repair(&mut self, access: Access) -> Result<()> {
        let Some(copies) = self.area.found()? else {
            return Ok(());
        };
        if access == Access::Read {
            return Err(StorageError::NeedsRecovery(self.name.clone()));
        }
        let replaces_older = self.area.secure()?;
        let mut home = vec![0; self.page_bytes];
        for (id, copy) in copies {
            if id.0 >= self.pages() {
                continue;
            }
            self.read(id, &mut home)?;
            let is_older = replaces_older && Header(&home).lsn() < Header(&copy).lsn();
            // A page that is intact at home need not be durable there, so it is written in any
            // case.
            let right = if Header(&home).is_intact(id) && !is_older {
                &home
            } else {
                &copy
            };
            self.file.write_at(self.offset(id), right)?;
        }
        self.file.sync(site!("page-guard.repair"))?;
        self.unsynced = false;
        self.clear_area()
    }

    /// Says that nothing is on its way home any more. Everything is synced.
    pub fn clear_area(&mut self) -> Result<()> {
        self.area.clear()
    }

    /// Bytes of pages that were written since it was opened, repairs apart, by where they went.
    pub fn written(&self) -> PageWrites {
        let mut written = self.written;
        written += self.write_back.written();
        written
    }

    /// Counters of its memories.
    pub fn memory(&self) -> Counters {
        self.area.memory()
    }

    fn offset(&self, id: PageId) -> u64 {
        u64::from(id.0) * self.page_bytes as u64
    }

    /// Readers of pages that work while this handle is in use.
    pub fn readers(&self) -> Result<PageReaders<D::File>> {
        Ok(PageReaders {
            model: Mutex::new(self.file.reader()?),
            idle: Mutex::default(),
            write_back: Arc::clone(&self.write_back),
            pages: Arc::clone(&self.pages),
            page_bytes: self.page_bytes as u64,
        })
    }

    /// Reads a page from the medium, whole or not.
    fn read(&mut self, id: PageId, page: &mut [u8]) -> Result<()> {
        Ok(self.file.read_at(self.offset(id), page)?)
    }

    /// The error for a page that is not what it must be.
    pub fn damage(&self, id: PageId, detail: &str) -> StorageError {
        page_damage(&self.name, self.offset(id), detail)
    }

    /// Writes sealed pages, in ascending order of their numbers, which lie one after the other in
    /// `bytes`. Their log records are durable. After a failed write home of pages with copies in an
    /// area, every later call fails.
    pub fn write(&mut self, mut ids: &[PageId], mut bytes: &[u8]) -> Result<()> {
        assert_eq!(
            bytes.len(),
            ids.len() * self.page_bytes,
            "each page to write has its bytes"
        );
        if self.write_back.put(ids, bytes)? {
            return Ok(());
        }
        if !self.guard.copies_first() {
            return self.write_home(ids, bytes);
        }
        while !ids.is_empty() {
            self.check_home()?;
            if self.area.room() == 0 {
                self.sync(site!("page-guard.home"))?;
            }
            let count = ids.len().min(self.area.room());
            let (now, later) = bytes.split_at(count * self.page_bytes);
            self.area.protect(&ids[..count], now)?;
            if self.guard.has_slots() {
                self.written.area_bytes += now.len() as u64;
            } else {
                self.written.copy_bytes += now.len() as u64;
            }
            let written = self.write_home(&ids[..count], now);
            self.may_be_torn = written.is_err();
            written?;
            (ids, bytes) = (&ids[count..], later);
        }
        Ok(())
    }

    /// Fails if a page may be torn at home: neither is its copy written over, nor does a sync
    /// count. The next opening repairs it.
    fn check_home(&self) -> Result<()> {
        if self.may_be_torn {
            return Err(StorageError::Poisoned);
        }
        Ok(())
    }

    /// Neighbours go in one call.
    fn write_home(&mut self, ids: &[PageId], bytes: &[u8]) -> Result<()> {
        debug_assert!(
            ids.is_sorted() && ids.last().is_none_or(|last| last.0 < self.pages()),
            "pages are written in their order, where the file has room for them"
        );
        let first = first_page(self.page_bytes);
        assert!(
            ids.first().is_none_or(|id| *id >= first),
            "a page is written over the master records"
        );
        self.unsynced = true;
        self.written.home_bytes += bytes.len() as u64;
        let writes = runs(ids, bytes, self.page_bytes);
        Ok(self.file.write_each(&writes)?)
    }

    /// Makes all pages durable that were written.
    pub fn sync(&mut self, site: &'static Site) -> Result<()> {
        self.check_home()?;
        if self.unsynced {
            let synced = self.file.sync(site);
            self.write_back.note(synced)?;
            self.unsynced = false;
        }
        self.area.note_synced();
        Ok(())
    }

    /// Puts another master record in force. All pages that it promises are written.
    pub fn checkpoint(&mut self, master: Master) -> Result<()> {
        self.sync(site!("page-file.checkpoint"))?;
        assert!(
            master.start.lsn <= master.redo,
            "the log begins after the redo of a checkpoint"
        );
        let master = Master {
            generation: self.master.generation + 1,
            pages: self.pages(),
            ..master
        };
        master.write(self.identity, &mut self.file)?;
        self.file.sync(site!("page-file.master"))?;
        // commit point: recovery begins at the new master's position
        self.master = master;
        Ok(())
    }

    /// Gives the file room for more pages, at least for `pages` in all.
    pub fn grow(&mut self, pages: u32) -> Result<()> {
        if pages <= self.pages() {
            return Ok(());
        }
        let page_bytes = self.page_bytes as u64;
        let now = u64::from(self.pages()) * page_bytes;
        let step = (now / 8).clamp(GROWTH_BYTES_MIN, GROWTH_BYTES_MAX);
        let wanted = u64::from(pages) * page_bytes;
        let bytes = wanted.max(now + step).next_multiple_of(GROWTH_BYTES_MIN);
        let grown = self.file.set_bytes(bytes).or_else(|error| {
            // Perhaps there is space for what is needed, if not for more.
            if wanted < bytes {
                self.file.set_bytes(wanted)
            } else {
                Err(error)
            }
        });
        grown?;
        // The new length is made durable before a master record promises it.
        self.unsynced = true;
        assert!(
            self.file.bytes()? >= wanted,
            "the file has not grown as far as it says"
        );
        let pages = (self.file.bytes()? / page_bytes) as u32;
        self.pages.store(pages, Ordering::Release);
        Ok(())
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> Result<u64> {
        Ok(self.file.bytes()?)
    }

    /// Frees the space after the first `pages` pages. No page there is in use, and everything is at
    /// home and before the newest checkpoint.
    pub fn cut(&mut self, pages: u32) -> Result<()> {
        if pages >= self.pages() {
            return Ok(());
        }
        self.pages.store(pages, Ordering::Release);
        // Both records say so durably first: one that promises more pages than there are would be
        // of a damaged file.
        for _ in 0..2 {
            self.checkpoint(self.master)?;
        }
        self.file
            .set_bytes(u64::from(pages) * self.page_bytes as u64)?;
        self.unsynced = true;
        Ok(())
    }

    /// Notes that there is room for `pages` pages, which are not in this file.
    pub fn set_pages(&mut self, pages: u32) {
        self.pages.store(pages, Ordering::Release);
    }

    /// One sentence for each thing outside of the pages that is not what it must be.
    pub fn check(&mut self) -> Result<Vec<String>> {
        let (_, mut wrong) = Master::read(&self.name, self.identity, &mut self.file)?;
        wrong.extend(self.area.check()?);
        Ok(wrong)
    }

    /// Bytes of the file before its pages, and of the doublewrite area.
    pub fn other_bytes(&self) -> u64 {
        u64::from(first_page(self.page_bytes).0) * self.page_bytes as u64 + self.area.bytes()
    }
}

/// Pages go home, and a handle of its own syncs them while others write some.
struct SyncAhead<F> {
    file: Mutex<F>,
    /// Whether a sync of the pages has failed, through whichever handle.
    has_failed: AtomicBool,
}

impl<F: File> SyncAhead<F> {
    /// Syncs through `file`, a handle of the file of pages.
    fn new(file: F) -> Self {
        Self {
            file: Mutex::new(file),
            has_failed: AtomicBool::new(false),
        }
    }
}

impl<F: File> WriteBack<F> for SyncAhead<F> {
    fn batch_sync(&self) -> BatchSync {
        BatchSync::Later
    }

    fn sync_ahead(&self) -> Result<()> {
        self.note(lock(&self.file).sync(site!("page-file.ahead")))
    }

    /// Another thread may have received the error of this thread's write.
    fn note(&self, outcome: disk::Result<()>) -> Result<()> {
        self.has_failed.fetch_or(outcome.is_err(), Ordering::SeqCst);
        outcome?;
        if self.has_failed.load(Ordering::SeqCst) {
            return Err(StorageError::Poisoned);
        }
        Ok(())
    }
}

/// A copy of each page is made durable before it goes home, by the file's guard; or nothing is
/// written at all.
struct CopiesFirst;

impl<F: File> WriteBack<F> for CopiesFirst {
    fn batch_sync(&self) -> BatchSync {
        BatchSync::Shared
    }
}

/// Reads pages of the file while it is written and by as many as want to, each with a handle of its
/// own.
pub struct PageReaders<F> {
    /// The handle from which further ones are made. It reads nothing itself.
    model: Mutex<F>,
    /// Idle handles.
    idle: Mutex<Vec<F>>,
    write_back: Arc<dyn WriteBack<F>>,
    pages: Arc<AtomicU32>,
    page_bytes: u64,
}

impl<F: File> PageReaders<F> {
    /// Pages that the file has room for.
    pub fn pages(&self) -> u32 {
        self.pages.load(Ordering::Acquire)
    }

    /// Whether reads bypass the operating system's cache, so that no page is read before a thread
    /// waits for it.
    pub fn are_direct(&self) -> bool {
        lock(&self.model).is_direct()
    }

    /// Says that pages are going to be read soon.
    pub fn will_read(&self, pages: impl Iterator<Item = PageId>) {
        let file = lock(&self.model);
        for id in pages.filter(|id| !self.write_back.has(*id)) {
            file.will_read(u64::from(id.0) * self.page_bytes, self.page_bytes);
        }
    }

    /// The way of dirty pages to the medium.
    pub fn write_back(&self) -> &dyn WriteBack<F> {
        &*self.write_back
    }

    /// Reads a page from the medium; returns whether it is intact. Nobody writes it meanwhile.
    pub fn read(&self, id: PageId, page: &mut [u8]) -> Result<bool> {
        debug_assert_eq!(
            page.len() as u64,
            self.page_bytes,
            "a page is read into a buffer of its length"
        );
        if self.write_back.read(id, page)? {
            // It is checked, and to do so again takes as long as to read it.
            return Ok(true);
        }
        let idle = lock(&self.idle).pop();
        let mut file = match idle {
            Some(file) => file,
            None => lock(&self.model).reader()?,
        };
        let read = file.read_at(u64::from(id.0) * self.page_bytes, page);
        lock(&self.idle).push(file);
        read?;
        Ok(Header(page).is_intact(id))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The data under these locks is consistent at every moment, so a poisoned lock is safe to use.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a file of that name is one of pages, or becomes one.
pub fn is_page_file(name: &str) -> bool {
    name.strip_suffix(UNPUBLISHED)
        .unwrap_or(name)
        .ends_with(PAGES)
}

fn names(identity: LogIdentity) -> (String, String) {
    let partition = identity.partition;
    (
        format!("p{partition}{PAGES}"),
        format!("p{partition}.doublewrite"),
    )
}
