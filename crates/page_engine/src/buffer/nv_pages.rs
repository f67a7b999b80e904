//! Pages that lie in durable memory themselves: no copy of them is in DRAM, and no file has them.
//!
//! ```text
//! memory   head, as long as the space before the first page of a file | pages, each at its number
//! head     magic 8 | version u32 | page bytes u32 | database u128 | partition u32 | 0 u32
//!          | crc32c u32 | zeros to 64 | count u64 | zeros to 128
//!          | stamp of the database u64 | zeros
//! count    pages u32 that may be in use | crc32c u32 of that number and the fields before
//! ```
//!
//! A page changes by stores to some of its lines. Its before image is in the log by then, so the
//! next opening of the memory undoes a change that a crash interrupts (`paged/in_place.rs`). A page
//! that was never in use has a first line of zeros, so its LSN says so.

use super::offsets::first_page;
use super::page_access::PageAccess;
use crate::page::PageId;
use pmem::{Access, Counters, MemorySource, Page, PageHandle, PageMemory, PmemError, Site, site};
use std::ops::Range;
use std::sync::OnceLock;
use storage::log::LogIdentity;
use storage::sync::{Mutex, lock};
use storage::{Result, StorageError, stamp};

const MAGIC: [u8; 8] = *b"INDPGS\x1a\x01";
const VERSION: u32 = 1;
const HEAD_FIELDS_BYTES: usize = 40;
const COUNT_AT: usize = 64;
const _: () = assert!(stamp::NV_PAGES_AT >= COUNT_AT + 8);
/// The memory grows by an eighth of itself, within these bounds.
const GROWTH_BYTES_MIN: u64 = 64 << 10;
const GROWTH_BYTES_MAX: u64 = 32 << 20;
/// Ranges of a page that a search reads, about.
const RANGES: usize = 24;
/// Threads that account for loads at once; further ones wait for one of them.
const READERS: usize = 16;
/// Most sessions of a partition, for its life.
const SESSIONS_MAX: usize = super::horizon::SESSIONS_MAX;

/// Lines of a page that change.
pub struct Edit<'e> {
    /// The page.
    pub page: &'e mut Page,
    /// Its new content.
    pub new: &'e [u8],
    /// Ranges that differ, in whole lines.
    pub lines: &'e [Range<usize>],
}

/// The pages of one partition, whatever memory they lie in.
pub trait ResidentStore: Send + Sync {
    /// Makes room for `pages` pages, first ones included, and hands out the new ones.
    fn grow(&self, pages: u32) -> Result<Vec<Page>>;

    /// Changes pages, durable when it returns. One call at a time is from a session.
    fn store(&self, session: u32, edits: &mut [Edit<'_>]) -> Result<()>;

    /// Whether loads have to be accounted for; native memory does not need it.
    fn counts_loads(&self) -> bool;

    /// Accounts for a read of a page.
    fn load(&self, page: &Page, access: PageAccess<'_>);

    /// Counters of its handles.
    fn counters(&self) -> Counters;
}

/// The handle of a session.
type Handle<M> = Mutex<PageHandle<M>>;

/// Pages in one memory.
pub struct NvPages<S: MemorySource> {
    identity: LogIdentity,
    memory: Mutex<PageMemory<S::Memory>>,
    handles: Box<[OnceLock<Handle<S::Memory>>]>,
    /// Account for loads, where that is asked for: any of them will do, since waiting for a slow
    /// memory keeps other threads from it.
    readers: Vec<Handle<S::Memory>>,
    /// Counters of handles that were replaced because the memory has grown.
    before: Mutex<Counters>,
    first: PageId,
    page_bytes: u64,
    counts_loads: bool,
}

fn name(identity: LogIdentity) -> String {
    format!("p{}.nvpages", identity.partition)
}

fn head(identity: LogIdentity, page_bytes: usize) -> [u8; HEAD_FIELDS_BYTES + 4] {
    let mut head = [0; HEAD_FIELDS_BYTES + 4];
    head[..8].copy_from_slice(&MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head[12..16].copy_from_slice(&(page_bytes as u32).to_le_bytes());
    head[16..32].copy_from_slice(&identity.database.to_le_bytes());
    head[32..36].copy_from_slice(&identity.partition.to_le_bytes());
    let checksum = crc32c::crc32c(&head[..HEAD_FIELDS_BYTES]);
    head[HEAD_FIELDS_BYTES..].copy_from_slice(&checksum.to_le_bytes());
    head
}

/// The word with the number of pages that may be in use.
fn count_word(identity: LogIdentity, page_bytes: usize, pages: u64) -> u64 {
    let pages = u32::try_from(pages).expect("a page number has 32 bits");
    let salt = crc32c::crc32c(&head(identity, page_bytes));
    let checksum = crc32c::crc32c_append(salt, &pages.to_le_bytes());
    u64::from(pages) | u64::from(checksum) << 32
}

/// Bytes before the first page.
fn front(identity: LogIdentity, page_bytes: usize, pages: u64) -> Vec<u8> {
    let mut front = vec![0; first_page(page_bytes).0 as usize * page_bytes];
    front[..HEAD_FIELDS_BYTES + 4].copy_from_slice(&head(identity, page_bytes));
    let count = count_word(identity, page_bytes, pages);
    front[COUNT_AT..COUNT_AT + 8].copy_from_slice(&count.to_le_bytes());
    front
}

/// The stored count word, and its number of pages.
fn found_count(front: &[u8]) -> (u64, u64) {
    let word = front.get(COUNT_AT..COUNT_AT + 8);
    let word = word.and_then(|word| word.first_chunk().copied());
    let word = word.map_or(0, u64::from_le_bytes);
    (word, u64::from(word as u32))
}

/// Stores the lines that differ and starts their write-back.
fn store_lines<M: pmem::Memory>(
    handle: &mut PageHandle<M>,
    edit: &mut Edit<'_>,
    site: &'static Site,
) {
    for lines in edit.lines {
        debug_assert!(
            lines.start.is_multiple_of(64) && lines.len().is_multiple_of(64),
            "a change is of whole lines"
        );
        handle.store(edit.page, lines.start, &edit.new[lines.clone()], site);
    }
}

impl<S: MemorySource> NvPages<S> {
    /// Makes the memory with these pages from the first place on, all durable, and hands out its
    /// pages.
    pub fn create(
        memories: &S,
        identity: LogIdentity,
        page_bytes: usize,
        pages: &[Vec<u8>],
    ) -> Result<(Self, Vec<Page>)> {
        let first = u64::from(first_page(page_bytes).0) * page_bytes as u64;
        let bytes = first + (pages.len() * page_bytes) as u64;
        let memory = memories.create(&name(identity), bytes.next_multiple_of(GROWTH_BYTES_MIN))?;
        let mut memory = PageMemory::new(memory, first, page_bytes as u64);
        let front = front(identity, page_bytes, memory.pages());
        memory.clear(site!("nv-pages.clear"));
        memory.set_head(0, &front, site!("nv-pages.head"));
        memory.fence(site!("nv-pages.create"))?;
        let mut taken = memory.take(u64::MAX)?;
        assert!(
            taken.len() >= pages.len(),
            "a new memory has room for its first pages"
        );
        let mut handle = memory.handle()?;
        for (page, new) in taken.iter_mut().zip(pages) {
            let whole = 0..page_bytes;
            let lines = std::slice::from_ref(&whole);
            store_lines(
                &mut handle,
                &mut Edit { page, new, lines },
                site!("nv-pages.first"),
            );
        }
        // commit point: a file of masters that is there has its first pages here
        handle.fence(site!("nv-pages.made"))?;
        Ok((Self::over(memory, identity, page_bytes)?, taken))
    }

    /// Opens the memory, which had `pages` pages at the newest checkpoint.
    pub fn open(
        memories: &S,
        identity: LogIdentity,
        access: Access,
        (page_bytes, pages): (usize, u32),
    ) -> Result<Self> {
        let name = name(identity);
        let first = first_page(page_bytes);
        let head_bytes = u64::from(first.0) * page_bytes as u64;
        let memory = memories.open(&name, access)?;
        let memory = PageMemory::new(memory, head_bytes, page_bytes as u64);
        let damaged =
            |offset: u64, detail: String| StorageError::damaged_file(name.clone(), offset, detail);
        let fields = memory.head();
        let (_, used) = found_count(fields);
        let mut expected = front(identity, page_bytes, used);
        let stamp = stamp::NV_PAGES_AT..stamp::NV_PAGES_AT + stamp::BYTES;
        if let Some(found) = fields.get(stamp.clone()) {
            // The database checks it.
            expected[stamp].copy_from_slice(found);
        }
        if fields != expected {
            if fields.len() < expected.len() || fields[..8] != MAGIC {
                return Err(damaged(0, "it is no memory of pages".to_owned()));
            }
            let checksum = crc32c::crc32c(&fields[..HEAD_FIELDS_BYTES]).to_le_bytes();
            let is_same = fields[..COUNT_AT] == expected[..COUNT_AT];
            if is_same || fields[HEAD_FIELDS_BYTES..HEAD_FIELDS_BYTES + 4] != checksum {
                return Err(damaged(0, "its head is not as it was written".to_owned()));
            }
            let reason =
                "it belongs to another database, partition or version; put the right file back";
            return Err(StorageError::from(PmemError::Foreign {
                path: name.into(),
                reason: reason.to_owned(),
            }));
        }
        let found = memory.pages().min(used) + u64::from(first.0);
        if found < u64::from(pages) {
            let detail = format!(
                "it ends here, and had {pages} pages of {page_bytes} bytes at the newest checkpoint"
            );
            return Err(damaged(found * page_bytes as u64, detail));
        }
        Self::over(memory, identity, page_bytes)
    }

    /// Hands out the pages of a memory that was opened. The newest checkpoint knows of `pages`
    /// pages; `has_records` says whether the log has records after it.
    pub fn take(&self, pages: u32, has_records: bool) -> Result<Vec<Page>> {
        let mut memory = lock(&self.memory);
        let known = u64::from(pages.saturating_sub(self.first.0));
        if !has_records {
            // Nobody has used another one.
            return Ok(memory.take(known)?);
        }
        let (word, used) = found_count(memory.head());
        if used > known {
            // No checkpoint proves it: a process that has died may have left it in a cache only.
            memory.set_head_word(COUNT_AT as u64, word, site!("nv-pages.count-found"));
            memory.fence(site!("nv-pages.found"))?;
        }
        Ok(memory.take(used)?)
    }

    fn over(
        memory: PageMemory<S::Memory>,
        identity: LogIdentity,
        page_bytes: usize,
    ) -> Result<Self> {
        let count = if memory.counts_loads() { READERS } else { 0 };
        let readers = (0..count).map(|_| Ok(Mutex::new(memory.handle()?)));
        Ok(Self {
            identity,
            handles: (0..SESSIONS_MAX).map(|_| OnceLock::new()).collect(),
            readers: readers.collect::<Result<_>>()?,
            before: Mutex::default(),
            first: first_page(page_bytes),
            page_bytes: page_bytes as u64,
            counts_loads: memory.counts_loads(),
            memory: Mutex::new(memory),
        })
    }

    /// The number of the first page.
    pub fn first(&self) -> PageId {
        self.first
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes as usize
    }

    /// The handle of a session.
    fn handle(&self, session: u32) -> Result<&Handle<S::Memory>> {
        let place = self.handles.get(session as usize);
        let place = place.ok_or(StorageError::Poisoned)?;
        if let Some(handle) = place.get() {
            return Ok(handle);
        }
        let handle = lock(&self.memory).handle()?;
        Ok(place.get_or_init(|| Mutex::new(handle)))
    }
}

impl<S: MemorySource + Send + Sync> ResidentStore for NvPages<S>
where
    S::Memory: Send,
{
    fn grow(&self, pages: u32) -> Result<Vec<Page>> {
        let mut memory = lock(&self.memory);
        let first = u64::from(self.first.0);
        let wanted = u64::from(pages).saturating_sub(first);
        if wanted > memory.pages() {
            let now = memory.pages() * self.page_bytes;
            let step = (now / 8).clamp(GROWTH_BYTES_MIN, GROWTH_BYTES_MAX);
            let more = (now + step).div_ceil(self.page_bytes).max(wanted);
            match memory.grow(more) {
                // Perhaps there is space for what is needed, if not for more.
                Err(PmemError::OutOfSpace { .. }) if wanted < more => memory.grow(wanted)?,
                result => result?,
            }
        }
        assert!(
            memory.pages() >= wanted,
            "the memory has not grown as far as it says"
        );
        memory.clear(site!("nv-pages.new"));
        memory.fence(site!("nv-pages.cleared"))?;
        let count = count_word(self.identity, self.page_bytes as usize, memory.pages());
        memory.set_head_word(COUNT_AT as u64, count, site!("nv-pages.count"));
        // commit point: a page of the new part may be used
        memory.fence(site!("nv-pages.grown"))?;
        Ok(memory.take(u64::MAX)?)
    }

    fn store(&self, session: u32, edits: &mut [Edit<'_>]) -> Result<()> {
        let mut handle = lock(self.handle(session)?);
        if !edits.iter().all(|edit| handle.reaches(edit.page)) {
            let newer = lock(&self.memory).handle()?;
            let older = std::mem::replace(&mut *handle, newer);
            *lock(&self.before) += &older.counters();
        }
        debug_assert!(
            edits.iter().all(|edit| edit.new.len() == self.page_bytes()),
            "a page keeps its length"
        );
        for edit in edits {
            store_lines(&mut handle, edit, site!("nv-pages.lines"));
        }
        // commit point: the change is in its pages, and nobody else has seen them since the log has
        // what they were
        Ok(handle.fence(site!("nv-pages.change"))?)
    }

    fn counts_loads(&self) -> bool {
        self.counts_loads
    }

    fn load(&self, page: &Page, access: PageAccess<'_>) {
        let free = self
            .readers
            .iter()
            .find_map(|reader| reader.try_lock().ok());
        let Some(mut reader) = free.or_else(|| self.readers.first().map(lock)) else {
            return;
        };
        if !reader.reaches(page) {
            match lock(&self.memory).handle() {
                Ok(newer) => *reader = newer,
                // A load that cannot be counted is read all the same.
                Err(_) => return,
            }
        }
        let mut ranges = Vec::with_capacity(RANGES);
        access.ranges(page.bytes(), &mut |range| ranges.push(range));
        reader.load_each(page, &mut ranges.into_iter());
    }

    fn counters(&self) -> Counters {
        let mut counters = lock(&self.memory).counters();
        counters += &*lock(&self.before);
        let handles = self.handles.iter().filter_map(OnceLock::get);
        for handle in handles.chain(&self.readers) {
            counters += &lock(handle).counters();
        }
        counters
    }
}
