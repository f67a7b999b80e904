//! The page cache in durable memory: a written page goes to a slot, and that copy is the page from
//! then on. It is read there, and is written home when room is needed; a newer version replaces it
//! without a write to the file.
//!
//! ```text
//! put ──► slots ── a newer version ──► hole ──► free
//!           └── a write-back batch: home, sync, cleared ──► free
//! ```
//!
//! The *space manager* is in ordinary memory: for each page its newest version, and an older one
//! that is on its way home; and which slots are free. An opening rebuilds it from the headers of
//! the slots. Pages go home in write-back batches: some versions are claimed, written and synced
//! together, and cleared. Write-back threads begin once `BATCH_AT` of the slots are in use, so that
//! a write of a page need not wait. They take the oldest versions first, but those of pages that
//! were written here more than once some turns later, and no more than needed; a thread that writes
//! pages when few slots are free sleeps a little before it latches them, longer the fewer there
//! are. Without such threads, a writer that finds no free slot writes a batch home itself.
//!
//! Invariants:
//! 1. Of all copies of a page on the medium, the one with the highest sequence is the page. Without
//!    one, the page is at home.
//! 2. A copy is never overwritten: a slot is free once it is cleared on the medium.
//! 3. The copies of a page are cleared in the order of their sequences: an older one as soon as a
//!    newer one is durable, or at the end of its batch; a version is not claimed before all older
//!    ones are cleared.
//! 4. One batch at a time has a version of a page, and it is the newest of those that have been
//!    put when it is claimed. Its slot is cleared when the home is synced, and not before.
//! 5. If a batch fails, its versions stay here, and the failed file is not written any more.
//! 6. Before the first change after an opening, and until the end of a recovery or a close, a note
//!    on the medium says that its visible content may not be durable. An opening that finds it so
//!    stores every header again, before anything relies on one.
//!
//! Order of locks: an open batch, whether the area is in use, the turn to put, the ages, the shard
//! of a page, its slot; and the list of free slots, alone or last.
//!
//! After the final scheme of the NVM-DWB thesis (sections 3.2, 3.4 and 3.5). Where we differ: it
//! flushes when the area is full, and ours earlier; its batch has the pages of a bucket, and ours
//! the oldest versions, of the pages that are written least.

use super::PageGuard;
use super::nv_slots::{FoundCopy, NewCopy, PutOrder, Slots, in_shares};
use crate::buffer::offsets::runs;
use crate::buffer::write_back::{BatchSync, WriteBack};
use crate::page::{Header, PageId};
use disk::File;
use pmem::{Access, Counters, site};
use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};
use storage::engine::{AreaCounters, PageWrites};
use storage::place::PlaceMap;
use storage::{Result, StorageError};

/// Shards of the table of pages.
const SHARDS: usize = 64;
/// Threads that bring pages home, each with a handle of the file.
pub const WRITE_BACK_THREADS: usize = 2;
/// Slots in use, of all, from which on pages go home: the longer a version waits, the more often a
/// newer one takes its place.
const BATCH_AT: (usize, usize) = (7, 8);
/// Most pages of a write-back batch, and bounds of its share of all slots. It has what there is
/// beyond [`BATCH_AT`] between these.
const BATCH_PAGES_MAX: usize = 256;
const BATCH_SHARE_MIN: usize = 32;
const BATCH_SHARE_MAX: usize = 4;
/// Most further turns that a version stays: one for each version of its page that it and those
/// before it have replaced here, or that was written home recently. Pages that were often written
/// will be written again. The second number is how many of them a batch passes at most, so that it
/// begins soon.
const CHANCES_MAX: u8 = 3;
const PASSED_BY_MAX: usize = 4096;
/// Writers of pages wait once fewer than this share of the slots is free, and at most this long for
/// a batch as long as a slot is free.
const SLOW_SHARE: usize = 16;
const SLOW_US_MAX: u64 = 2000;
/// Longest sleep of a write-back thread, and of a writer that waits for a slot.
const PAUSE: Duration = Duration::from_millis(50);
const FULL_WAIT: Duration = Duration::from_secs(30);
const NOT_WHOLE: &str = "a copy of a page is not as it was written";

/// The versions of a page, by their slots.
#[derive(Clone, Copy, Debug)]
struct Versions {
    newest: u32,
    sequence: u64,
    /// The one on its way home.
    going_home: Option<u32>,
    /// Older ones that are not cleared yet.
    older: u32,
    /// Times that the newest one is passed by when it is its turn.
    chances: u8,
}

impl Versions {
    fn of(copy: &FoundCopy) -> Self {
        Self {
            newest: copy.slot,
            sequence: copy.sequence,
            going_home: None,
            older: 0,
            chances: 0,
        }
    }
}

#[derive(Default)]
struct Counts {
    read: AtomicU64,
    put: AtomicU64,
    holes: AtomicU64,
    home_writes: AtomicU64,
    home_syncs: AtomicU64,
    by_writers: AtomicU64,
    slowed: AtomicU64,
}

/// Slots without a copy.
struct Free {
    slots: VecDeque<u32>,
    /// Whether threads write pages back.
    has_threads: bool,
    /// Whether they are to end.
    is_ending: bool,
}

/// A version that is claimed, or whose slot is to be cleared.
#[derive(Clone, Copy)]
struct Claim {
    page: PageId,
    slot: u32,
}

/// Versions in the order in which they go home, which is that of their sequences at first. Versions
/// that a newer one has replaced stay until a later write-back clears them.
#[derive(Default)]
struct Ages {
    copies: VecDeque<FoundCopy>,
    /// Whether they were put in their order, which those that an opening has found are once they
    /// are asked for.
    is_sorted: bool,
}

/// Versions on their way home, written and not synced.
struct WriteBackBatch<F> {
    file: F,
    claims: Vec<FoundCopy>,
}

/// The cache of one partition.
pub struct PageCache<F> {
    slots: Box<dyn Slots>,
    page_bytes: usize,
    shards: Box<[Mutex<PlaceMap<PageId, Versions>>]>,
    ages: Mutex<Ages>,
    free: Mutex<Free>,
    /// Slots have become free.
    freed: Condvar,
    /// Slots have been taken, or it is to end.
    taken: Condvar,
    next_sequence: AtomicU64,
    /// Idle handles of the file.
    homes: Mutex<Vec<F>>,
    /// A write-back batch that has not ended, where there are no write-back threads.
    open_batch: Mutex<Option<WriteBackBatch<F>>>,
    /// Whether the note on the medium says that its visible content may not be durable. Held for
    /// reading while something there is changed.
    is_in_use: RwLock<bool>,
    /// Held while versions are put.
    putting: Mutex<()>,
    /// Pages that were written home, each until another one replaces it here; 0 is none.
    written_home: Box<[AtomicU32]>,
    /// Whether a sync of the file has failed, through whichever handle: what it has of the pages
    /// that were written is unknown from then on.
    has_home_failed: AtomicBool,
    /// Pages that the file has room for.
    pages: Arc<AtomicU32>,
    counts: Counts,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The data under these locks is consistent at every moment, so a poisoned lock is safe to use.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn by_number(page: PageId) -> usize {
    page.0 as usize % SHARDS
}

impl<F: File> PageCache<F> {
    /// A cache over slots and what they have. The handles are of the file, and write nothing but
    /// pages.
    pub fn open(
        slots: Box<dyn Slots>,
        page_bytes: usize,
        access: Access,
        homes: Vec<F>,
        pages: Arc<AtomicU32>,
    ) -> Result<Self> {
        let found = slots.scan()?;
        let is_settled = slots.is_settled();
        if access == Access::Write && !is_settled {
            // An older version or a cleared slot may be what the medium has.
            slots.renew(PutOrder::CopyFirst)?;
        }
        let cache = Self {
            page_bytes,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            ages: Mutex::default(),
            free: Mutex::new(Free {
                slots: VecDeque::new(),
                has_threads: false,
                is_ending: false,
            }),
            freed: Condvar::new(),
            taken: Condvar::new(),
            next_sequence: AtomicU64::new(1),
            homes: Mutex::new(homes),
            open_batch: Mutex::new(None),
            is_in_use: RwLock::new(!is_settled),
            putting: Mutex::new(()),
            written_home: (0..slots.count()).map(|_| AtomicU32::new(0)).collect(),
            has_home_failed: AtomicBool::new(false),
            pages,
            counts: Counts::default(),
            slots,
        };
        let older = cache.admit(found)?;
        if access == Access::Write && !older.is_empty() {
            let _in_use = cache.in_use()?;
            cache.slots.clear(&older)?;
        }
        Ok(cache)
    }

    /// Fills the tables with the copies that an opening has found, and returns the slots that have
    /// older versions.
    fn admit(&self, found: Vec<FoundCopy>) -> Result<Vec<u32>> {
        let older = in_shares(SHARDS, found.len(), |shards| {
            Ok(self.admit_some(&found, &shards))
        });
        let older = older?.concat();
        let mut is_used = vec![false; self.count()];
        let mut next = 1;
        for copy in &found {
            is_used[copy.slot as usize] = true;
            next = next.max(copy.sequence + 1);
        }
        for &slot in &older {
            is_used[slot as usize] = false;
        }
        lock(&self.free).slots = (0..self.slots.count())
            .filter(|slot| !is_used[*slot as usize])
            .collect();
        debug_assert!(
            lock(&self.free).slots.len() + found.len() - older.len() == self.count(),
            "a slot is neither free nor in use"
        );
        self.next_sequence.store(next, Ordering::Relaxed);
        lock(&self.ages).copies = found.into();
        Ok(older)
    }

    /// Fills some shards of the table.
    fn admit_some(&self, found: &[FoundCopy], shards: &Range<u32>) -> Vec<u32> {
        for shard in shards.clone() {
            lock(&self.shards[shard as usize]).reserve(found.len() / SHARDS);
        }
        let is_ours = |copy: &&FoundCopy| shards.contains(&(by_number(copy.page) as u32));
        let mut older = Vec::new();
        for copy in found.iter().filter(is_ours) {
            let mut shard = self.shard(copy.page);
            let versions = shard.entry(copy.page).or_insert(Versions::of(copy));
            if versions.sequence < copy.sequence {
                older.push(versions.newest);
                (versions.newest, versions.sequence) = (copy.slot, copy.sequence);
            } else if versions.newest != copy.slot {
                older.push(copy.slot);
            }
        }
        older
    }

    /// Slots, used or not.
    fn count(&self) -> usize {
        self.slots.count() as usize
    }

    fn shard(&self, page: PageId) -> MutexGuard<'_, PlaceMap<PageId, Versions>> {
        lock(&self.shards[by_number(page)])
    }

    /// Lets the caller change the medium; its note says that visible content may not be durable as
    /// long as the guard lives.
    fn in_use(&self) -> Result<RwLockReadGuard<'_, bool>> {
        loop {
            let is_in_use = self.is_in_use.read();
            let is_in_use = is_in_use.unwrap_or_else(PoisonError::into_inner);
            if *is_in_use {
                return Ok(is_in_use);
            }
            drop(is_in_use);
            let is_in_use = self.is_in_use.write();
            let mut is_in_use = is_in_use.unwrap_or_else(PoisonError::into_inner);
            if !*is_in_use {
                self.slots.settle(false);
                *is_in_use = true;
            }
        }
    }

    /// Notes on the medium that all its visible content is durable.
    pub fn settle(&self) -> Result<()> {
        self.end_open_batch(&mut lock(&self.open_batch))?;
        let is_in_use = self.is_in_use.write();
        let mut is_in_use = is_in_use.unwrap_or_else(PoisonError::into_inner);
        if *is_in_use {
            self.slots.settle(true);
            *is_in_use = false;
        }
        Ok(())
    }

    /// Lets copies go home in their turn.
    fn age(&self, copies: Vec<FoundCopy>) {
        let mut ages = lock(&self.ages);
        if ages.copies.len() + copies.len() > 2 * self.count() {
            ages.copies.retain(|copy| self.is_newest(copy));
        }
        ages.copies.extend(copies);
    }

    fn is_newest(&self, copy: &FoundCopy) -> bool {
        let shard = self.shard(copy.page);
        let versions = shard.get(&copy.page);
        versions.is_some_and(|versions| versions.sequence == copy.sequence)
    }

    /// Makes a durable copy the page's newest, and returns the one that is to be cleared at once.
    fn publish(&self, copy: &FoundCopy) -> Option<Claim> {
        let mut shard = self.shard(copy.page);
        let versions = match shard.entry(copy.page) {
            Entry::Vacant(entry) => {
                let versions = entry.insert(Versions::of(copy));
                versions.chances = u8::from(self.was_written_home(copy.page));
                return None;
            }
            Entry::Occupied(entry) => entry.into_mut(),
        };
        debug_assert!(
            versions.sequence < copy.sequence,
            "versions are put in their order"
        );
        let hole = versions.newest;
        (versions.newest, versions.sequence) = (copy.slot, copy.sequence);
        versions.chances = CHANCES_MAX.min(versions.chances + 1);
        // A version that is being written home is cleared once it is durable there.
        if versions.going_home == Some(hole) {
            return None;
        }
        versions.older += 1;
        Some(Claim {
            page: copy.page,
            slot: hole,
        })
    }

    /// The entry that remembers a recent write-back of a page.
    fn written_home(&self, page: PageId) -> &AtomicU32 {
        // Neighbours are of one table, and often written or not together.
        &self.written_home[page.0 as usize % self.written_home.len()]
    }

    /// Whether a page was written home recently.
    fn was_written_home(&self, page: PageId) -> bool {
        self.written_home(page).load(Ordering::Relaxed) == page.0
    }

    /// Clears versions that newer ones have replaced.
    fn reclaim(&self, holes: &[Claim]) -> Result<()> {
        let slots: Vec<u32> = holes.iter().map(|hole| hole.slot).collect();
        self.slots.clear(&slots)?;
        for hole in holes {
            if let Some(versions) = self.shard(hole.page).get_mut(&hole.page) {
                debug_assert_ne!(
                    versions.newest, hole.slot,
                    "the newest version of a page is cleared"
                );
                versions.older -= 1;
            }
        }
        let count = slots.len() as u64;
        self.counts.holes.fetch_add(count, Ordering::Relaxed);
        self.release(&slots);
        Ok(())
    }

    /// Lets cleared slots be taken.
    fn release(&self, slots: &[u32]) {
        if slots.is_empty() {
            return;
        }
        let mut free = lock(&self.free);
        free.slots.extend(slots);
        debug_assert!(free.slots.len() <= self.count(), "a slot is free twice");
        drop(free);
        self.freed.notify_all();
    }

    /// Takes free slots, at least one and as many as wanted if there are.
    fn take_slots(&self, wanted: usize) -> Result<Vec<u32>> {
        let start = Instant::now();
        let mut free = lock(&self.free);
        loop {
            let count = wanted.min(free.slots.len());
            if count > 0 {
                let taken = free.slots.drain(..count).collect();
                if free.has_threads && self.is_batch_due(free.slots.len()) {
                    self.taken.notify_all();
                }
                return Ok(taken);
            }
            if !free.has_threads {
                drop(free);
                self.counts.by_writers.fetch_add(1, Ordering::Relaxed);
                let has_room = self.make_room()?;
                free = lock(&self.free);
                if has_room {
                    continue;
                }
            }
            if start.elapsed() > FULL_WAIT {
                return Err(StorageError::Unsupported(
                    "no slot of the area of page copies became free for 30 seconds; give the database a larger one, or a faster disk".to_owned(),
                ));
            }
            // Others have taken all slots and put no page yet, or pages are on their way home.
            self.taken.notify_all();
            let woken = self.freed.wait_timeout(free, PAUSE);
            free = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether so few slots are free that pages are to go home.
    fn is_batch_due(&self, free: usize) -> bool {
        let (share, of) = BATCH_AT;
        (self.count() - free) * of > self.count() * share
    }

    fn batch_pages(&self) -> usize {
        let (count, (share, of)) = (self.count(), BATCH_AT);
        let used = count - lock(&self.free).slots.len();
        let least = (count / BATCH_SHARE_MIN).clamp(1, BATCH_PAGES_MAX);
        let most = (count / BATCH_SHARE_MAX).clamp(1, BATCH_PAGES_MAX);
        used.saturating_sub(count * share / of).clamp(least, most)
    }

    /// Claims versions for a write-back batch: the oldest ones, except those of pages that were
    /// often written.
    fn claim(&self) -> Vec<FoundCopy> {
        let (most, pages) = (self.batch_pages(), self.pages.load(Ordering::Acquire));
        let (mut claims, mut not_yet, mut passed_by) = (Vec::new(), Vec::new(), 0);
        let mut ages = lock(&self.ages);
        if !std::mem::replace(&mut ages.is_sorted, true) {
            let copies = ages.copies.make_contiguous();
            copies.sort_unstable_by_key(|copy| copy.sequence);
        }
        while claims.len() < most
            && let Some(copy) = ages.copies.pop_front()
        {
            let mut shard = self.shard(copy.page);
            let Some(versions) = shard.get_mut(&copy.page) else {
                continue;
            };
            if versions.sequence != copy.sequence {
                continue;
            }
            if versions.going_home.is_some() || versions.older > 0 || copy.page.0 >= pages {
                not_yet.push(copy);
                continue;
            }
            if versions.chances > 0 && passed_by < PASSED_BY_MAX {
                versions.chances -= 1;
                passed_by += 1;
                ages.copies.push_back(copy);
                continue;
            }
            debug_assert_eq!(
                versions.newest, copy.slot,
                "an older version goes home (invariant 4)"
            );
            versions.going_home = Some(copy.slot);
            claims.push(copy);
        }
        for copy in not_yet.into_iter().rev() {
            ages.copies.push_front(copy);
        }
        drop(ages);
        claims.sort_unstable_by_key(|claim| claim.page);
        claims
    }

    /// Fails if what the file has is unknown.
    fn check_home(&self) -> Result<()> {
        if self.has_home_failed.load(Ordering::SeqCst) {
            return Err(StorageError::Poisoned);
        }
        Ok(())
    }

    /// Lets versions go home that were claimed: they are written, and not synced. If it fails they
    /// stay here.
    fn begin_batch(&self) -> Result<Option<WriteBackBatch<F>>> {
        self.check_home()?;
        let Some(mut file) = lock(&self.homes).pop() else {
            return Ok(None);
        };
        let claims = self.claim();
        let written = self.write_home(&mut file, &claims);
        if let Err(error) = written {
            self.give_back(file, &claims)?;
            return Err(error);
        }
        if claims.is_empty() {
            lock(&self.homes).push(file);
            return Ok(None);
        }
        Ok(Some(WriteBackBatch { file, claims }))
    }

    /// Neighbours go in one call.
    fn write_home(&self, file: &mut F, claims: &[FoundCopy]) -> Result<()> {
        debug_assert!(
            claims.is_sorted_by(|one, next| one.page < next.page),
            "two versions of a page are written home together (invariant 4)"
        );
        let mut bytes = vec![0; claims.len() * self.page_bytes];
        for (claim, page) in claims.iter().zip(bytes.chunks_mut(self.page_bytes)) {
            self.slots.read(claim.slot, page);
            if !Header(page).is_intact(claim.page) {
                return Err(self.slots.damage(claim.slot, NOT_WHOLE));
            }
        }
        let ids: Vec<PageId> = claims.iter().map(|claim| claim.page).collect();
        file.write_each(&runs(&ids, &bytes, self.page_bytes))?;
        let count = claims.len() as u64;
        self.counts.home_writes.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }

    /// Ends a write-back batch: its pages become durable at home, and its slots free. Returns their
    /// number.
    fn end_batch(&self, mut batch: WriteBackBatch<F>) -> Result<usize> {
        let synced = batch.file.sync(site!("page-cache.home"));
        self.has_home_failed
            .fetch_or(synced.is_err(), Ordering::SeqCst);
        // Another thread may have received the error of this batch's write.
        let synced = synced.map_err(StorageError::from);
        if let Err(error) = synced.and_then(|()| self.check_home()) {
            self.give_back(batch.file, &batch.claims)?;
            return Err(error);
        }
        // commit point: the pages are at home, and their copies may go
        self.counts.home_syncs.fetch_add(1, Ordering::Relaxed);
        lock(&self.homes).push(batch.file);
        let slots: Vec<u32> = batch.claims.iter().map(|claim| claim.slot).collect();
        // It is in the table until then, so that no newer version is written home before it.
        self.slots.clear(&slots)?;
        for claim in &batch.claims {
            let mut shard = self.shard(claim.page);
            if let Some(versions) = shard.get_mut(&claim.page) {
                debug_assert_eq!(
                    versions.going_home,
                    Some(claim.slot),
                    "the end of a batch has a version that was not claimed"
                );
                versions.going_home = None;
                if versions.newest == claim.slot {
                    shard.remove(&claim.page);
                    self.written_home(claim.page)
                        .store(claim.page.0, Ordering::Relaxed);
                }
            }
        }
        self.release(&slots);
        Ok(slots.len())
    }

    /// Releases the claims of a failed write-back batch. The file ensures that it is not written
    /// through this handle again after a failed sync.
    fn give_back(&self, file: F, claims: &[FoundCopy]) -> Result<()> {
        lock(&self.homes).push(file);
        let mut holes = Vec::new();
        let mut ages = lock(&self.ages);
        for claim in claims {
            if let Some(versions) = self.shard(claim.page).get_mut(&claim.page) {
                debug_assert_eq!(
                    versions.going_home,
                    Some(claim.slot),
                    "a version is released that was not claimed"
                );
                versions.going_home = None;
                if versions.newest == claim.slot {
                    ages.copies.push_front(*claim);
                } else {
                    versions.older += 1;
                    holes.push(Claim {
                        page: claim.page,
                        slot: claim.slot,
                    });
                }
            }
        }
        drop(ages);
        self.reclaim(&holes)
    }

    fn end_open_batch(&self, open: &mut Option<WriteBackBatch<F>>) -> Result<usize> {
        let Some(batch) = open.take() else {
            return Ok(0);
        };
        let _in_use = self.in_use()?;
        self.end_batch(batch)
    }

    /// Brings some pages home; returns how many slots became free.
    fn write_back(&self) -> Result<usize> {
        let _in_use = self.in_use()?;
        match self.begin_batch()? {
            Some(batch) => self.end_batch(batch),
            None => Ok(0),
        }
    }

    /// Frees a slot, where no thread does; returns whether there is one.
    fn make_room(&self) -> Result<bool> {
        // One at a time: the others find what it has freed.
        let mut open = lock(&self.open_batch);
        if !lock(&self.free).slots.is_empty() || self.end_open_batch(&mut open)? > 0 {
            return Ok(true);
        }
        Ok(self.write_back()? > 0)
    }
}

impl<F: File> WriteBack<F> for PageCache<F> {
    fn batch_sync(&self) -> BatchSync {
        BatchSync::None
    }

    /// Waits until there is likely to be room for `pages` pages, at most for a share of the slots,
    /// where threads make some: a thread that is going to latch pages and put them waits here,
    /// where it holds up nobody. It first pauses, longer the fewer slots are free.
    fn await_room(&self, pages: usize) {
        let mut free = lock(&self.free);
        let (now, few) = (free.slots.len(), self.count() / SLOW_SHARE);
        if !free.has_threads || now >= few {
            return;
        }
        drop(free);
        self.counts.slowed.fetch_add(1, Ordering::Relaxed);
        self.taken.notify_all();
        let missing = (few - now) as u64;
        let pause = Duration::from_micros(SLOW_US_MAX * missing / few as u64);
        std::thread::sleep(pause);
        let (start, wanted) = (Instant::now(), pages.min(few / 2));
        free = lock(&self.free);
        // If this takes too long, the `put` that follows reports it.
        while free.has_threads && free.slots.len() < wanted && start.elapsed() < FULL_WAIT {
            self.taken.notify_all();
            let woken = self.freed.wait_timeout(free, PAUSE);
            free = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Makes sealed pages durable here. Their log records are durable, and nobody changes the pages
    /// meanwhile.
    fn put(&self, ids: &[PageId], bytes: &[u8]) -> Result<bool> {
        assert_eq!(
            bytes.len(),
            ids.len() * self.page_bytes,
            "each page to put has its bytes"
        );
        let mut done = 0;
        while done < ids.len() {
            let taken = self.take_slots(ids.len() - done)?;
            let _in_use = self.in_use()?;
            let _putting = lock(&self.putting);
            let from = done;
            done += taken.len();
            let pages =
                bytes[from * self.page_bytes..done * self.page_bytes].chunks(self.page_bytes);
            let count = taken.len() as u64;
            let first = self.next_sequence.fetch_add(count, Ordering::Relaxed);
            let copies = ids[from..done].iter().zip(pages).zip(&taken);
            let copies: Vec<_> = copies
                .zip(first..)
                .map(|(((&page, bytes), &slot), sequence)| NewCopy {
                    slot,
                    page,
                    sequence,
                    bytes,
                })
                .collect();
            // If it fails the slots stay out of use: their content on the medium is unknown.
            self.slots.put(&copies, PutOrder::CopyFirst)?;
            self.counts.put.fetch_add(count, Ordering::Relaxed);
            let found = copies.iter().map(|copy| FoundCopy {
                slot: copy.slot,
                page: copy.page,
                sequence: copy.sequence,
            });
            let found: Vec<FoundCopy> = found.collect();
            let holes = found.iter().filter_map(|copy| self.publish(copy));
            let holes: Vec<Claim> = holes.collect();
            self.age(found);
            self.reclaim(&holes)?;
        }
        Ok(true)
    }

    fn has(&self, id: PageId) -> bool {
        self.shard(id).contains_key(&id)
    }

    /// Reads the page if it is here, which takes no call to the file, and checks it. Its frame is
    /// latched, so nobody puts a version of it meanwhile.
    fn read(&self, id: PageId, page: &mut [u8]) -> Result<bool> {
        let shard = self.shard(id);
        let Some(versions) = shard.get(&id) else {
            return Ok(false);
        };
        let slot = versions.newest;
        // Under the lock: a slot that leaves the table may have another page a moment later.
        self.slots.read(slot, page);
        drop(shard);
        if !Header(page).is_intact(id) {
            return Err(self.slots.damage(slot, NOT_WHOLE));
        }
        self.counts.read.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Brings pages home whenever that is due, as a thread of its own, until [`PageCache::end`] or
    /// an error. A thread that needs a slot meets the error again, unless it leaves unknown which
    /// pages are durable: then it is returned, and nothing may go on.
    fn run(&self) -> Result<()> {
        let mut free = lock(&self.free);
        free.has_threads = !free.is_ending;
        drop(free);
        loop {
            let mut free = lock(&self.free);
            while !free.is_ending && !self.is_batch_due(free.slots.len()) {
                let woken = self.taken.wait_timeout(free, PAUSE);
                free = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
            if free.is_ending {
                return Ok(());
            }
            drop(free);
            match self.write_back() {
                Ok(0) => std::thread::sleep(Duration::from_millis(1)),
                Ok(_) => {}
                Err(error) => {
                    lock(&self.free).has_threads = false;
                    self.freed.notify_all();
                    let is_known = self.check_home().and_then(|()| self.slots.check_fences());
                    return is_known.map_err(|_| error);
                }
            }
        }
    }

    fn end(&self) {
        let mut free = lock(&self.free);
        free.is_ending = true;
        free.has_threads = false;
        self.taken.notify_all();
        self.freed.notify_all();
    }

    /// One step of a write-back thread: begins a batch if one is due, or ends the open one.
    fn assist(&self) -> Result<()> {
        let mut open = lock(&self.open_batch);
        if self.end_open_batch(&mut open)? > 0 || !self.is_batch_due(lock(&self.free).slots.len()) {
            return Ok(());
        }
        let _in_use = self.in_use()?;
        *open = self.begin_batch()?;
        Ok(())
    }

    fn area(&self) -> AreaCounters {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let slots = self.count() as u64;
        AreaCounters {
            pages_from_area: get(&self.counts.read),
            pages_put: get(&self.counts.put),
            holes_reclaimed: get(&self.counts.holes),
            home_writes: get(&self.counts.home_writes),
            home_syncs: get(&self.counts.home_syncs),
            flights_by_writers: get(&self.counts.by_writers),
            slowed: get(&self.counts.slowed),
            slots,
            slots_used: slots - lock(&self.free).slots.len() as u64,
        }
    }

    fn written(&self) -> PageWrites {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed) * self.page_bytes as u64;
        PageWrites {
            home_bytes: count(&self.counts.home_writes),
            area_bytes: count(&self.counts.put),
            ..PageWrites::default()
        }
    }

    fn threads(&self) -> usize {
        WRITE_BACK_THREADS
    }
}

/// The cache takes part in what the file does with copies of its pages.
impl<F: File> PageGuard for Arc<PageCache<F>> {
    fn clear(&mut self) -> Result<()> {
        self.settle()
    }

    fn check(&mut self) -> Result<Option<String>> {
        Ok(self.slots.scan().err().map(|error| error.to_string()))
    }

    fn bytes(&self) -> u64 {
        self.slots.bytes()
    }

    fn memory(&self) -> Counters {
        self.slots.counters()
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
#[path = "page_cache_tests.rs"]
mod tests;
