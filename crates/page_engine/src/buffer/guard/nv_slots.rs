//! Slots in durable memory, each for a copy of a page.
//!
//! ```text
//! memory   head, two lines | headers of the slots, a line each | slots, a page each
//! head     magic 8 | version u32 | page bytes u32 | database u128 | partition u32 | slots u32
//!          | crc32c u32 | zeros to 64 | life u64 | zeros to 96
//!          | stamp of the database u64 | zeros to 128
//! header   mark u64: the copy's sequence below the two highest bits, which are set; 0 without a
//!          copy | page u32 | crc32c u32 of mark and page, from the salt | any content
//! slot     the copy, a sealed page
//! life     1 as long as every header that can be read is durable, else any other number
//! ```
//!
//! Headers lie together, so that an opening reads them and no copy. Each has a line of its own,
//! since several threads change neighbours, and a fence covers one thread's stores.
//!
//! Invariants, which the crash tests of the methods try to break:
//! 1. A header is written mark 0 first and mark last, all on one line (M2 of docs/medium.md): so it
//!    is the old one, or none, or the new one, and one that is neither is damage.
//! 2. A header whose mark is set counts once it is durable. With [`PutOrder::CopyFirst`] its copy
//!    is durable by then; with [`PutOrder::Together`] readers of the copy check whether it is
//!    whole.
//! 3. The headers that can be read are durable, or the life is not 1.

use crate::page::{Header, PageId};
use pmem::{Access, Counters, MemorySource, Page, PageHandle, PageMemory, PmemError, Site, site};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::Builder;
use storage::log::LogIdentity;
use storage::{Result, StorageError, stamp};

const MAGIC: [u8; 8] = *b"INDSLT\x1a\x01";
const VERSION: u32 = 1;
const LINE: usize = 64;
const FIELDS_BYTES: usize = 40;
const LIFE_AT: usize = LINE;
const _: () = assert!(stamp::SECOND_LINE_AT >= LIFE_AT + 8);
const _: () = assert!(stamp::SECOND_LINE_AT + stamp::BYTES <= HEAD_BYTES as usize);
const HEAD_BYTES: u64 = 2 * LINE as u64;
const SETTLED: u64 = 1;
const IN_USE: u64 = 2;
/// In a mark: there is a copy. Two bits, so that one that turns over does not hide it.
const LIVE: u64 = 3 << 62;
const CRC_AT: usize = 12;
const HEADER_BYTES: usize = 16;
/// Fewest slots.
pub(super) const SLOTS_MIN: u64 = 16;
/// Threads that store or account for loads at once; further ones wait for one of them.
const HANDLES: usize = 8;
/// Fewest slots for each of several threads.
const SLOTS_A_THREAD: usize = if cfg!(test) { 24 } else { 32 << 10 };
const THREADS_MAX: usize = 8;

/// A copy to put into a slot that has none which is needed.
pub struct NewCopy<'p> {
    /// The slot.
    pub slot: u32,
    /// The page's number.
    pub page: PageId,
    /// Higher than that of every other copy of the page.
    pub sequence: u64,
    /// The page, sealed.
    pub bytes: &'p [u8],
}

/// A copy that an opening has found by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundCopy {
    /// The slot.
    pub slot: u32,
    /// The page's number.
    pub page: PageId,
    /// The copy's.
    pub sequence: u64,
}

/// Order in which header and copy become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOrder {
    /// Neither: one fence. A header may be there without its copy.
    Together,
    /// The copy: two fences. A header that is there has its copy.
    CopyFirst,
}

/// Slots, whatever memory they lie in. Threads may use different slots at once.
pub trait Slots: Send + Sync {
    /// Number of slots.
    fn count(&self) -> u32;

    /// Puts copies into slots, durable when it returns.
    fn put(&self, copies: &[NewCopy<'_>], order: PutOrder) -> Result<()>;

    /// Takes the copies away from slots, durable when it returns.
    fn clear(&self, slots: &[u32]) -> Result<()>;

    /// Makes the current content of all slots durable, with their copies if asked for.
    fn renew(&self, order: PutOrder) -> Result<()>;

    /// Reads the copy of a slot.
    fn read(&self, slot: u32, page: &mut [u8]);

    /// Every copy by its header. Fails if one is damaged.
    fn scan(&self) -> Result<Vec<FoundCopy>>;

    /// Whether all visible content is durable.
    fn is_settled(&self) -> bool;

    /// Notes that all visible content is durable, or that it may not be from now on. Only the death
    /// of a process leaves visible content that is not durable, and then the note is visible as
    /// well: so it need not be durable itself.
    fn settle(&self, is_settled: bool);

    /// The error for a copy that is not what it must be.
    fn damage(&self, slot: u32, detail: &str) -> StorageError;

    /// Bytes of the memory.
    fn bytes(&self) -> u64;

    /// Fails if a fence has failed, after which what is durable is unknown.
    fn check_fences(&self) -> Result<()>;

    /// Counters of its handles.
    fn counters(&self) -> Counters;
}

/// A slot, behind its lock.
struct Slot {
    header: Page,
    copy: Page,
}

/// Slots in one memory.
pub struct NvSlots<S: MemorySource> {
    name: String,
    salt: u32,
    page_bytes: usize,
    memory: Mutex<PageMemory<S::Memory>>,
    handles: Vec<Mutex<PageHandle<S::Memory>>>,
    slots: Box<[RwLock<Slot>]>,
    counts_loads: bool,
    /// Whether a fence has failed. Held during each.
    has_failed: Mutex<bool>,
}

fn name(identity: LogIdentity) -> String {
    format!("p{}.slots", identity.partition)
}

fn head(identity: LogIdentity, page_bytes: usize, slots: u32) -> [u8; LINE] {
    let mut head = [0; LINE];
    head[..8].copy_from_slice(&MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head[12..16].copy_from_slice(&(page_bytes as u32).to_le_bytes());
    head[16..32].copy_from_slice(&identity.database.to_le_bytes());
    head[32..36].copy_from_slice(&identity.partition.to_le_bytes());
    head[36..FIELDS_BYTES].copy_from_slice(&slots.to_le_bytes());
    let checksum = crc32c::crc32c(&head[..FIELDS_BYTES]);
    head[FIELDS_BYTES..FIELDS_BYTES + 4].copy_from_slice(&checksum.to_le_bytes());
    head
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    word.copied().map_or(0, u64::from_le_bytes)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The data under these locks is consistent at every moment, so a poisoned lock is safe to use.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn slots_of(area_bytes: u64, page_bytes: usize) -> u64 {
    let slots = area_bytes.saturating_sub(HEAD_BYTES) / (page_bytes + LINE) as u64;
    slots.clamp(SLOTS_MIN, u64::from(u32::MAX >> 1))
}

/// Runs `work` over `0..count`, split into shares for several threads where there are many slots,
/// and returns the result of each share in order.
pub(super) fn in_shares<T: Send>(
    count: usize,
    slots: usize,
    work: impl Fn(Range<u32>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let most = THREADS_MAX.min(slots / SLOTS_A_THREAD);
    if most < 2 {
        return Ok(vec![work(0..count as u32)?]);
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(most);
    let share = count.div_ceil(threads);
    debug_assert!(
        share * threads >= count,
        "the shares do not cover all slots"
    );
    std::thread::scope(|scope| {
        let ranges = (0..threads).map(|thread| {
            let from = (thread * share).min(count) as u32;
            from..((thread + 1) * share).min(count) as u32
        });
        let work = &work;
        let done = ranges.map(|range| {
            let here = range.clone();
            let done = Builder::new().spawn_scoped(scope, move || work(range));
            (here, done)
        });
        let done: Vec<_> = done.collect();
        let done = done.into_iter().map(|(range, done)| match done {
            Ok(done) => done.join().unwrap_or(Err(StorageError::Poisoned)),
            // No thread could be started.
            Err(_) => work(range),
        });
        done.collect()
    })
}

impl<S: MemorySource> NvSlots<S> {
    /// Makes an area of about `area_bytes` bytes, without a copy and durable when it returns.
    pub fn create(
        memories: &S,
        identity: LogIdentity,
        page_bytes: usize,
        area_bytes: u64,
    ) -> Result<Self> {
        let slots = slots_of(area_bytes, page_bytes);
        let bytes = HEAD_BYTES + slots * (page_bytes + LINE) as u64;
        let memory = memories.create(&name(identity), bytes)?;
        let mut memory =
            PageMemory::new(memory, HEAD_BYTES, page_bytes as u64).with_lines(slots as u32);
        let mut front = [0; HEAD_BYTES as usize];
        front[..LINE].copy_from_slice(&head(identity, page_bytes, slots as u32));
        front[LIFE_AT..LIFE_AT + 8].copy_from_slice(&SETTLED.to_le_bytes());
        memory.set_head(0, &front, site!("nv-slots.head"));
        memory.fence(site!("nv-slots.create"))?;
        let area = Self::over(memory, identity, page_bytes)?;
        let mut handle = area.handle();
        for slot in 0..slots as u32 {
            let header = &mut area.slot_mut(slot).header;
            handle.store(header, 0, &[0; LINE], site!("nv-slots.empty"));
        }
        // commit point: a file of pages that is there has its area
        handle.fence(site!("nv-slots.created"))?;
        drop(handle);
        Ok(area)
    }

    /// Opens the area; stores nothing.
    pub fn open(
        memories: &S,
        identity: LogIdentity,
        access: Access,
        page_bytes: usize,
    ) -> Result<Self> {
        let name = name(identity);
        let memory = memories.open(&name, access)?;
        let damaged =
            |offset: u64, detail: &str| StorageError::damaged_file(name.clone(), offset, detail);
        let memory = PageMemory::new(memory, HEAD_BYTES, page_bytes as u64);
        let bytes = memory.bytes();
        let found = memory.head();
        if found.len() < HEAD_BYTES as usize || found[..8] != MAGIC {
            return Err(damaged(0, "it is no area of page copies"));
        }
        let slots = word_at(found, 32) >> 32;
        if found[..LINE] != head(identity, page_bytes, slots as u32) {
            let checksum = crc32c::crc32c(&found[..FIELDS_BYTES]).to_le_bytes();
            if found[FIELDS_BYTES..FIELDS_BYTES + 4] != checksum {
                return Err(damaged(0, "its head is not as it was written"));
            }
            let reason =
                "it belongs to another database, partition or version; put the right file back";
            return Err(StorageError::from(PmemError::Foreign {
                path: name.into(),
                reason: reason.to_owned(),
            }));
        }
        let wanted = HEAD_BYTES + slots * (page_bytes + LINE) as u64;
        if bytes < wanted {
            let detail = format!("it ends here, and had {wanted} bytes when it was made");
            return Err(damaged(bytes, &detail));
        }
        Self::over(memory.with_lines(slots as u32), identity, page_bytes)
    }

    fn over(
        mut memory: PageMemory<S::Memory>,
        identity: LogIdentity,
        page_bytes: usize,
    ) -> Result<Self> {
        let headers = memory.take_lines()?;
        let copies = memory.take(headers.len() as u64)?;
        assert_eq!(headers.len(), copies.len(), "each header has a copy");
        let slots = headers.into_iter().zip(copies);
        let slots = slots.map(|(header, copy)| RwLock::new(Slot { header, copy }));
        let handles = (0..HANDLES).map(|_| Ok(Mutex::new(memory.handle()?)));
        Ok(Self {
            name: name(identity),
            salt: crc32c::crc32c(&head(identity, page_bytes, 0)),
            page_bytes,
            slots: slots.collect(),
            handles: handles.collect::<Result<_>>()?,
            counts_loads: memory.counts_loads(),
            memory: Mutex::new(memory),
            has_failed: Mutex::new(false),
        })
    }

    /// An idle handle, or the next one that is released.
    fn handle(&self) -> MutexGuard<'_, PageHandle<S::Memory>> {
        let free = self.handles.iter().find_map(|one| one.try_lock().ok());
        free.unwrap_or_else(|| lock(&self.handles[0]))
    }

    fn slot(&self, slot: u32) -> RwLockReadGuard<'_, Slot> {
        let slot = self.slots[slot as usize].read();
        slot.unwrap_or_else(PoisonError::into_inner)
    }

    fn slot_mut(&self, slot: u32) -> RwLockWriteGuard<'_, Slot> {
        let slot = self.slots[slot as usize].write();
        slot.unwrap_or_else(PoisonError::into_inner)
    }

    /// A fence of what `handle` has stored. All handles are of one file, and only one of them gets
    /// its failure: no fence counts after a failed one.
    fn fence(&self, handle: &mut PageHandle<S::Memory>, site: &'static Site) -> Result<()> {
        let mut has_failed = lock(&self.has_failed);
        if *has_failed {
            return Err(StorageError::Poisoned);
        }
        let fenced = handle.fence(site);
        *has_failed = fenced.is_err();
        Ok(fenced?)
    }

    /// The second word of a header.
    fn page_word(&self, mark: u64, page: PageId) -> u64 {
        let crc = crc32c::crc32c_append(self.salt, &mark.to_le_bytes());
        let crc = crc32c::crc32c_append(crc, &page.0.to_le_bytes());
        u64::from(page.0) | u64::from(crc) << (8 * (CRC_AT - 8))
    }

    /// Makes the current content of some slots durable.
    fn renew_some(&self, slots: Range<u32>, order: PutOrder) -> Result<()> {
        let mut handle = self.handle();
        for number in slots {
            let mut slot = self.slot_mut(number);
            let mark = word_at(slot.header.bytes(), 0);
            if order == PutOrder::Together && mark != 0 {
                let copy = slot.copy.bytes().to_vec();
                handle.stream(&mut slot.copy, 0, &copy, site!("nv-slots.copy-again"));
            }
            // Earlier stores to the line become durable before this one.
            let header = &mut slot.header;
            handle.store_words(header, &[(0, mark)], site!("nv-slots.header-again"));
        }
        // commit point: what this process relies on is there for the next one
        self.fence(&mut handle, site!("nv-slots.renewed"))
    }

    /// The copies of some slots.
    fn scan_some(&self, slots: Range<u32>) -> Result<Vec<FoundCopy>> {
        let mut found = Vec::new();
        let handle = self.counts_loads.then(|| self.handle());
        for number in slots {
            let slot = self.slot(number);
            if let Some(handle) = &handle {
                handle.load_each(&slot.header, &mut std::iter::once(0..HEADER_BYTES));
            }
            let (mark, word) = (
                word_at(slot.header.bytes(), 0),
                word_at(slot.header.bytes(), 8),
            );
            if mark == 0 {
                continue;
            }
            let page = PageId(word as u32);
            if mark & LIVE != LIVE || word != self.page_word(mark, page) {
                let at = HEAD_BYTES + u64::from(number) * LINE as u64;
                return Err(StorageError::damaged_file(
                    self.name.clone(),
                    at,
                    "the header of a page copy is not as it was written",
                ));
            }
            found.push(FoundCopy {
                slot: number,
                page,
                sequence: mark & !LIVE,
            });
        }
        Ok(found)
    }
}

impl<S: MemorySource + Send + Sync> Slots for NvSlots<S>
where
    S::Memory: Send,
{
    fn count(&self) -> u32 {
        self.slots.len() as u32
    }

    fn put(&self, copies: &[NewCopy<'_>], order: PutOrder) -> Result<()> {
        self.check_fences()?;
        let mut handle = self.handle();
        for new in copies {
            assert_eq!(
                new.bytes.len(),
                self.page_bytes,
                "a copy has the length of its slot"
            );
            debug_assert!(
                Header(new.bytes).is_intact(new.page),
                "a page is sealed before it is copied"
            );
            let copy = &mut self.slot_mut(new.slot).copy;
            handle.stream(copy, 0, new.bytes, site!("nv-slots.copy"));
        }
        if order == PutOrder::CopyFirst {
            self.fence(&mut handle, site!("nv-slots.copied"))?;
        }
        for new in copies {
            assert!(
                new.sequence & LIVE == 0,
                "a sequence runs into the mark of a copy"
            );
            let mark = new.sequence | LIVE;
            let word = self.page_word(mark, new.page);
            let header = &mut self.slot_mut(new.slot).header;
            let words = [(0, 0), (8, word), (0, mark)];
            handle.store_words(header, &words, site!("nv-slots.header"));
        }
        // commit point: the copies outlive whatever happens to their pages at home
        self.fence(&mut handle, site!("nv-slots.put"))
    }

    fn clear(&self, slots: &[u32]) -> Result<()> {
        if slots.is_empty() {
            return Ok(());
        }
        self.check_fences()?;
        let mut handle = self.handle();
        for &slot in slots {
            let header = &mut self.slot_mut(slot).header;
            handle.store_words(header, &[(0, 0)], site!("nv-slots.clear"));
        }
        // commit point: no opening finds these copies, so newer ones may go too
        self.fence(&mut handle, site!("nv-slots.cleared"))
    }

    fn renew(&self, order: PutOrder) -> Result<()> {
        self.check_fences()?;
        let count = self.slots.len();
        in_shares(count, count, |slots| self.renew_some(slots, order))?;
        Ok(())
    }

    fn read(&self, slot: u32, page: &mut [u8]) {
        // Lock order: a handle before a slot.
        let handle = self.counts_loads.then(|| self.handle());
        let slot = self.slot(slot);
        debug_assert_eq!(
            page.len(),
            self.page_bytes,
            "a page has another length than its copy"
        );
        if let Some(handle) = handle {
            let whole = 0..self.page_bytes;
            handle.load_each(&slot.copy, &mut std::iter::once(whole));
        }
        page.copy_from_slice(slot.copy.bytes());
    }

    fn scan(&self) -> Result<Vec<FoundCopy>> {
        let count = self.slots.len();
        Ok(in_shares(count, count, |slots| self.scan_some(slots))?.concat())
    }

    fn is_settled(&self) -> bool {
        word_at(lock(&self.memory).head(), LIFE_AT) == SETTLED
    }

    fn settle(&self, is_settled: bool) {
        if is_settled && *lock(&self.has_failed) {
            return;
        }
        let life = if is_settled { SETTLED } else { IN_USE };
        lock(&self.memory).note_head_word(LIFE_AT as u64, life);
    }

    fn damage(&self, slot: u32, detail: &str) -> StorageError {
        let front = HEAD_BYTES + (self.slots.len() * LINE) as u64;
        StorageError::damaged_file(
            self.name.clone(),
            front + u64::from(slot) * self.page_bytes as u64,
            detail,
        )
    }

    fn bytes(&self) -> u64 {
        lock(&self.memory).bytes()
    }

    fn check_fences(&self) -> Result<()> {
        if *lock(&self.has_failed) {
            return Err(StorageError::Poisoned);
        }
        Ok(())
    }

    fn counters(&self) -> Counters {
        let mut counters = lock(&self.memory).counters();
        for handle in &self.handles {
            counters += &lock(handle).counters();
        }
        counters
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
mod tests {
    use super::super::test_page;
    use super::*;
    use pmem::device::simulated::{MemoryCall, MemoryFault, SimulatedWorld, WorldOptions};
    use storage::log::Lsn;

    const IDENTITY: LogIdentity = LogIdentity {
        database: 5,
        partition: 0,
    };
    const BYTES: usize = 1024;

    /// All handles are of one file: the error that one of them gets may be for the stores of
    /// another one.
    #[test]
    fn nothing_counts_behind_a_fence_that_has_failed() {
        let world = SimulatedWorld::new(WorldOptions::default());
        let slots = NvSlots::create(&world.source(), IDENTITY, BYTES, 0).unwrap();
        let bytes = test_page(PageId(9), Lsn(1), BYTES);
        let put = |slot| {
            let copy = NewCopy {
                slot,
                page: PageId(9),
                sequence: 1,
                bytes: &bytes,
            };
            slots.put(&[copy], PutOrder::CopyFirst)
        };
        slots.settle(false);
        put(0).unwrap();
        world.inject(MemoryFault {
            call: MemoryCall::Fence,
            nth: 1,
            forever: false,
            full: false,
        });
        put(1).unwrap_err();
        // The handle that has failed is taken, so the others come to another one.
        let failed = slots.handle();
        put(2).unwrap_err();
        slots.clear(&[0]).unwrap_err();
        slots.check_fences().unwrap_err();
        drop(failed);
        slots.settle(true);
        assert!(!slots.is_settled(), "what is seen need not be durable");
    }

    /// An opening of an area that several threads look through finds each copy once.
    #[test]
    fn threads_find_the_copies_of_all_slots() {
        let world = SimulatedWorld::new(WorldOptions::default());
        let area_bytes = HEAD_BYTES + (4 * SLOTS_A_THREAD * (BYTES + LINE)) as u64;
        let slots = NvSlots::create(&world.source(), IDENTITY, BYTES, area_bytes).unwrap();
        let copies = (0..slots.count()).filter(|slot| slot % 3 != 1);
        let copies = copies.map(|slot| FoundCopy {
            slot,
            page: PageId(slot * 7),
            sequence: u64::from(slot) + 1,
        });
        let copies: Vec<_> = copies.collect();
        assert!(copies.len() > 2 * SLOTS_A_THREAD);
        for copy in &copies {
            let bytes = test_page(copy.page, Lsn(1), BYTES);
            let copy = NewCopy {
                slot: copy.slot,
                page: copy.page,
                sequence: copy.sequence,
                bytes: &bytes,
            };
            slots.put(&[copy], PutOrder::CopyFirst).unwrap();
        }
        drop(slots);
        let slots = NvSlots::open(&world.source(), IDENTITY, Access::Write, BYTES).unwrap();
        assert_eq!(slots.scan().unwrap(), copies);
        slots.renew(PutOrder::CopyFirst).unwrap();
        assert_eq!(slots.scan().unwrap(), copies);
    }
}
