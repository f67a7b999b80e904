//! Pages in a file, with a cache in volatile memory.
//!
//! A group's pages are written to free places, neighbours in one call; a sync; the master record; a
//! sync. The master is two records at fixed places, written in turn. The one with the higher
//! sequence number counts if its checksum is right, so a torn one leaves the other in force; no
//! argument rests on a write being atomic. Each place has its record twice, in neighbouring sectors
//! and by one write: a torn write was never acknowledged, and damage to one sector of an
//! acknowledged record leaves the other copy, so it cannot bring an older state back.
//!
//! After a failed sync, bytes read at an opening may be in the system's cache only. So the record
//! found is written once more, under the next number, and synced before anything else is; then a
//! *settled* one follows with the same state. A settled record proves that the state in it is
//! durable, whether it is durable itself or not, and both copies have that state: the other one can
//! be damaged without harm. Closing settles as well, so opening a closed file writes nothing.
//!
//! ```text
//! file           [master record 0, 512 bytes][the same][...][stamp of the database u64 at 2048]
//!                [...][master record 1 at 4096][the same][...][pages from 8192 or two pages on]
//! master record  magic 8 | version u32 | page bytes u32 | database u128 | partition u32
//!                | mark u32 | sequence u64 | global transaction u64, or 0
//!                | base: directory u64, chain u64, end u64, file bytes u64 | prepared: the same
//!                | crc32c u32 | 0 u32 | zeros to 512
//! mark           0 plain | 1 settled | 2 the file's creation is not finished: its name may be lost
//! ```
//!
//! A record with a global transaction is *prepared*: the base is in force, the other state follows
//! if the commit table has the transaction. The first 40 bytes keep their place in every later
//! version.

use super::cache::PageCache;
use super::file_space::{FileSpace, NewList, SpaceHead, SpaceSavepoint};
use super::limbo::Limbo;
use super::node::{PageView, checksum, damaged, word_of};
use super::snapshot::{FilePages, SnapshotStore};
use super::{Frames, Lent, PageStore, Purpose};
use disk::{Directory, DiskCounters, DiskError, File, SECTOR_BYTES};
use pmem::{Access, Memory, site};
use std::collections::BTreeSet;
use std::marker::PhantomData;
use storage::engine::GlobalTxnId;
use storage::{Result, StorageError, UNFINISHED, stamp};

const MAGIC: [u8; 8] = *b"INDCOW\x1a\x01";
const VERSION: u32 = 1;
const RECORD_BYTES: usize = SECTOR_BYTES as usize;
const CHECKED_BYTES: usize = 120;
const RECORD_AT: [u64; 2] = [0, 4096];
const _: () = assert!(stamp::COW_AT >= 2 * RECORD_BYTES);
const _: () = assert!(((stamp::COW_AT + stamp::BYTES) as u64) < RECORD_AT[1]);
const HEAD_BYTES: u64 = 8192;
/// The file grows by an eighth of itself, within these bounds.
const GROWTH_BYTES_MIN: u64 = 64 << 10;
const GROWTH_BYTES_MAX: u64 = 32 << 20;
/// Pages that are reserved for deletions.
const KEPT_PAGES: usize = 16;
/// Bytes of the cache, unless another size is asked for.
const CACHE_BYTES: usize = 512 << 20;
/// Most bytes of neighbouring pages that are written together.
const WRITE_BYTES: usize = 256 << 10;

const SYSTEM_PAGE_BYTES: usize = 4096;
const LINE_BYTES: usize = 64;

/// Database and partition of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// Identity of the database.
    pub database: u128,
    /// Number of the partition.
    pub partition: u32,
}

impl FileIdentity {
    fn name(self) -> String {
        format!("p{}.cow", self.partition)
    }
}

/// A state that a master record names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FileState {
    directory: u64,
    space: SpaceHead,
}

/// Kind of a master record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MasterKind {
    Plain,
    /// The previous record has the same state and is durable.
    Settled,
    /// The file's name is not durable yet.
    Unfinished,
}

/// Decoded master record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    page_bytes: u32,
    mark: MasterKind,
    sequence: u64,
    base: FileState,
    prepared: Option<(u64, FileState)>,
}

/// The pages of one partition of `cow`.
pub struct FileStore<M: Memory, D: Directory> {
    directory: D,
    file: D::File,
    identity: FileIdentity,
    page_bytes: usize,
    sequence: u64,
    /// Whether both records of the master say the same, and that is durable.
    is_settled: bool,
    /// The state in force.
    base: FileState,
    space: FileSpace,
    /// State and list after the commit of the prepared group.
    next: Option<(FileState, NewList)>,
    cache: PageCache,
    limbo: Limbo,
    /// Neighbouring pages of the group that are written next, after bytes that are not written, and
    /// their offset.
    buffer: Vec<u8>,
    buffer_lead: usize,
    buffer_at: u64,
    memory: PhantomData<fn(M)>,
}

impl<M: Memory, D: Directory> FileStore<M, D> {
    /// Makes the file of a new partition, with an empty directory.
    pub fn create(directory: D, identity: FileIdentity, page_bytes: usize) -> Result<Self> {
        let name = identity.name();
        if directory.exists(&name)? {
            let reason = "another database has files here; choose an empty directory".to_owned();
            return Err(StorageError::foreign_file(name, reason));
        }
        let mut file = directory.create(&name)?;
        let first = first_page(page_bytes);
        let file_bytes = first + GROWTH_BYTES_MIN.next_multiple_of(page_bytes as u64);
        file.set_bytes(file_bytes)?;
        let base = FileState {
            directory: 0,
            space: FileSpace::head_of_new(first, file_bytes),
        };
        let space = FileSpace::new(page_bytes, base.space, file_bytes);
        let mut store = Self::new(directory, file, identity, page_bytes, 0, base, space);
        store.write_record(base, None, MasterKind::Unfinished)?;
        // A record with more than that is read only in a file whose length is durable.
        store.file.sync(site!("cow.create-file"))?;
        store.directory.sync(site!("cow.create-name"))?;
        // commit point: with a finished record the file is a complete, empty partition
        store.write_master(base, None)?;
        Ok(store)
    }

    /// Opens the file of a partition. Gives the store and whether a prepared group was undone. With
    /// [`Access::Read`] nothing is written: what is in the system's cache only is read and not made
    /// durable, and nothing is built upon it.
    pub fn open(
        directory: D,
        identity: FileIdentity,
        access: Access,
        decide: &dyn Fn(GlobalTxnId) -> bool,
    ) -> Result<(Self, bool)> {
        let name = identity.name();
        let mut file = directory.open(&name)?;
        let (record, is_whole) = read_master(&mut file, identity, &name)?;
        if record.mark == MasterKind::Unfinished {
            let reason = UNFINISHED.to_owned();
            return Err(StorageError::foreign_file(name, reason));
        }
        let file_bytes = file.bytes()?;
        let states = [record.base].into_iter();
        let states = states.chain(record.prepared.map(|(_, state)| state));
        let bytes = states.map(|state| state.space.file_bytes.max(state.space.end));
        if bytes.max().is_some_and(|least| least > file_bytes) {
            let detail = format!("it was cut to {file_bytes} bytes; restore it from a backup");
            return Err(damaged_file(&name, file_bytes, detail));
        }
        let mut base = record.base;
        let mut undone = false;
        if let Some((global, next)) = record.prepared {
            if decide(GlobalTxnId(global)) {
                base = next;
            } else {
                undone = true;
            }
        }
        let page_bytes = record.page_bytes as usize;
        let is_grown = file_bytes > base.space.file_bytes;
        let file_bytes = base.space.file_bytes / page_bytes as u64 * page_bytes as u64;
        let space = FileSpace::new(page_bytes, base.space, file_bytes);
        let sequence = record.sequence;
        let mut store = Self::new(directory, file, identity, page_bytes, sequence, base, space);
        store.is_settled = is_whole && record.mark == MasterKind::Settled;
        if access == Access::Write && !store.is_settled {
            store.write_master(base, None)?;
            store.settle_master()?;
        }
        if access == Access::Write && is_grown {
            // Growth that no group was made durable with may be in the system's cache only. It goes
            // once no record speaks of it: that of a prepared group which is undone did.
            store.file.set_bytes(base.space.file_bytes)?;
        }
        Ok((store, undone))
    }

    fn new(
        directory: D,
        file: D::File,
        identity: FileIdentity,
        page_bytes: usize,
        sequence: u64,
        base: FileState,
        space: FileSpace,
    ) -> Self {
        // Some processors copy several times slower where the target lies a few bytes after the
        // source, apart from whole system pages. Frames start at lines, so an offset of a line into
        // a system page is far enough from all of them.
        let mut buffer: Vec<u8> = Vec::with_capacity(WRITE_BYTES + page_bytes + SYSTEM_PAGE_BYTES);
        let behind = buffer.as_ptr().addr() % SYSTEM_PAGE_BYTES;
        let buffer_lead = (SYSTEM_PAGE_BYTES + LINE_BYTES - behind) % SYSTEM_PAGE_BYTES;
        buffer.resize(buffer_lead, 0);
        Self {
            directory,
            file,
            identity,
            page_bytes,
            sequence,
            is_settled: false,
            base,
            space,
            next: None,
            cache: PageCache::new(CACHE_BYTES, page_bytes),
            limbo: Limbo::default(),
            buffer,
            buffer_lead,
            buffer_at: 0,
            memory: PhantomData,
        }
    }

    /// The same with a cache of another size, which is empty at first.
    #[must_use]
    pub fn with_cache(self, bytes: usize) -> Self {
        Self {
            cache: PageCache::new(bytes, self.page_bytes),
            ..self
        }
    }

    /// Root of the directory that is in force.
    pub fn directory(&self) -> u64 {
        self.base.directory
    }

    /// Counters of the files.
    pub fn counters(&self) -> DiskCounters {
        self.directory.counters()
    }

    /// Bytes of pages that were used once, and those that were never used.
    pub fn used_and_free_bytes(&self) -> (u64, u64) {
        let end = self.space.end();
        (end, self.space.file_bytes - end)
    }

    /// Holds the pages in use against those that are free.
    pub fn check_space(
        &mut self,
        reachable: &mut BTreeSet<u64>,
        report: &mut storage::engine::VerifyReport,
    ) {
        let file = &mut self.file;
        let mut read = |at: u64, page: &mut [u8]| Ok(file.read_at(at, page)?);
        report.blocks = reachable.len() as u64;
        self.space.collect(reachable, &mut report.damage, &mut read);
        let first = first_page(self.page_bytes);
        let all = (first..self.space.end()).step_by(self.page_bytes);
        let leaked = all.filter(|at| !reachable.contains(at));
        let leaked = leaked.map(|at| format!("the page at offset {at} is leaked"));
        report.damage.extend(leaked);
        let outside = reachable.range(self.space.end()..).next();
        let outside = outside.map(|at| format!("the page at offset {at} lies behind the end"));
        report.damage.extend(outside);
    }

    /// Writes the next master record and makes it durable.
    fn write_master(&mut self, base: FileState, prepared: Option<(u64, FileState)>) -> Result<()> {
        self.is_settled = false;
        // commit point: once this record is durable recovery finds the new directory
        self.write_record(base, prepared, MasterKind::Plain)?;
        self.file.sync(site!("cow.master"))?;
        Ok(())
    }

    /// Lets both records of the master say the same, where the newer one is durable. Without a
    /// sync: whether this one becomes durable makes no difference to what the file holds, and the
    /// next group's first sync comes before the other one is written again.
    pub fn settle_master(&mut self) -> Result<()> {
        if !self.is_settled {
            self.write_record(self.base, None, MasterKind::Settled)?;
            self.is_settled = true;
        }
        Ok(())
    }

    fn write_record(
        &mut self,
        base: FileState,
        prepared: Option<(u64, FileState)>,
        mark: MasterKind,
    ) -> Result<()> {
        let record = Record {
            page_bytes: self.page_bytes as u32,
            mark,
            sequence: self.sequence + 1,
            base,
            prepared,
        };
        let at = RECORD_AT[(record.sequence % 2) as usize];
        let bytes = encode(&record, self.identity);
        self.file.write_at(at, &[bytes, bytes].concat())?;
        self.sequence += 1;
        Ok(())
    }

    /// Makes room for `pages` and for the list of free pages.
    fn make_room(&mut self, pages: usize) -> Result<()> {
        let file = &mut self.file;
        self.space
            .fill(pages, &mut |at, page| Ok(file.read_at(at, page)?))?;
        self.grow(pages + self.space.list_pages_max())
    }

    /// Makes the file longer, if `pages` more do not fit.
    fn grow(&mut self, pages: usize) -> Result<()> {
        let missing = pages.saturating_sub(self.space.room());
        if missing == 0 {
            return Ok(());
        }
        let page_bytes = self.page_bytes as u64;
        let least = missing as u64 * page_bytes;
        let step = (self.space.file_bytes / 8).clamp(GROWTH_BYTES_MIN, GROWTH_BYTES_MAX);
        let step = step.max(least).next_multiple_of(page_bytes);
        let grown = match self.file.set_bytes(self.space.file_bytes + step) {
            Err(DiskError::OutOfSpace { .. }) if step > least => {
                self.file.set_bytes(self.space.file_bytes + least)?;
                least
            }
            result => result.map(|()| step)?,
        };
        self.space.file_bytes += grown;
        Ok(())
    }

    /// Writes the list and what is left of the group's pages, and makes all of them durable.
    fn write_rest(&mut self, list: &NewList) -> Result<()> {
        for (at, image) in &list.pages {
            self.write_page(*at, image, 0)?;
        }
        self.write_buffer()?;
        self.file.sync(site!("cow.pages"))?;
        Ok(())
    }

    /// Writes a page, together with its neighbours if they come one after the other; one that
    /// stands alone is not copied first. `next` is the place of the page after it.
    fn write_page(&mut self, at: u64, image: &[u8], next: u64) -> Result<()> {
        let waiting = self.buffer.len() - self.buffer_lead;
        if self.buffer_at + waiting as u64 != at || waiting >= WRITE_BYTES {
            self.write_buffer()?;
            self.buffer_at = at;
        }
        if self.buffer.len() == self.buffer_lead && next != at + image.len() as u64 {
            return Ok(self.file.write_at(at, image)?);
        }
        self.buffer.extend_from_slice(image);
        Ok(())
    }

    fn write_buffer(&mut self) -> Result<()> {
        let waiting = &self.buffer[self.buffer_lead..];
        if !waiting.is_empty() {
            let result = self.file.write_at(self.buffer_at, waiting);
            self.buffer.truncate(self.buffer_lead);
            result?;
        }
        Ok(())
    }

    fn make_list(&self) -> Result<NewList> {
        self.space.make_list().ok_or_else(|| {
            StorageError::Unsupported("no room was kept for the list of free pages".to_owned())
        })
    }

    /// The group is durable: adopts the new list, and holds the pages that snapshots show.
    fn settle(&mut self, state: FileState, list: NewList) {
        self.base = state;
        if self.limbo.is_active() {
            let limbo = &mut self.limbo;
            self.space.taken().iter().for_each(|&at| limbo.born(at));
            let died = self.space.retired().iter().copied();
            let held: Vec<u64> = died.filter(|&at| limbo.died(at)).collect();
            self.space.hold(&held);
        }
        self.space.commit(list);
    }

    /// The pages as they are now, for a reader concurrent with the partition. The last group must
    /// be durable and nothing dirty.
    pub fn snapshot(&mut self) -> Result<SnapshotStore> {
        let pages = FilePages {
            file: self.directory.open(&self.identity.name())?,
            end: self.space.end(),
        };
        let lease = self.limbo.take();
        Ok(SnapshotStore::new(pages, self.page_bytes, lease))
    }

    /// Reads a page into the cache; gives its frame.
    #[cold]
    fn load(&mut self, frames: &mut Frames<M>, at: u64) -> Result<u64> {
        let mut page = vec![0; self.page_bytes];
        if at < HEAD_BYTES || at + self.page_bytes as u64 > self.space.end() {
            return Err(damaged(at, "no page lies there".to_owned()));
        }
        self.file.read_at(at, &mut page)?;
        if checksum(&page) != word_of(&page, 1) {
            return Err(damaged(at, "wrong checksum".to_owned()));
        }
        let frame = self.cache.frame(frames)?;
        frames.store(frame, 0, &page)?;
        self.cache.insert(at, frame);
        Ok(frame)
    }
}

impl<M: Memory, D: Directory> PageStore for FileStore<M, D> {
    type Memory = M;
    type Savepoint = SpaceSavepoint;

    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn group(&self) -> u64 {
        self.sequence + 1
    }

    #[inline]
    fn view<'a>(&'a mut self, frames: &'a mut Frames<M>, at: u64) -> Result<PageView<'a, M>> {
        let frame = match self.cache.get(at) {
            Some(frame) => frame,
            None => self.load(frames, at)?,
        };
        Ok(frames.view(frame))
    }

    #[inline]
    fn prefetch(&self, frames: &Frames<M>, at: u64, byte: usize) {
        if let Some(frame) = self.cache.peek(at) {
            frames.prefetch(frame, byte);
        }
    }

    fn lend(&mut self, frames: &mut Frames<M>, from: u64, _to: u64) -> Result<Lent> {
        let frame = match self.cache.peek(from) {
            Some(frame) => frame,
            None => self.load(frames, from)?,
        };
        self.cache.remove(from);
        Ok(Lent {
            frame,
            was_cached: true,
        })
    }

    fn reserve(&mut self, purpose: Purpose) -> Result<u64> {
        let kept = match purpose {
            Purpose::Growth => KEPT_PAGES,
            Purpose::Copy | Purpose::CopyToAdd => 0,
        };
        self.make_room(1 + kept)?;
        match self.space.take() {
            Some(page) => Ok(page),
            None => Err(damaged(self.space.end(), "no page is free".to_owned())),
        }
    }

    fn retire(&mut self, at: u64) -> Result<()> {
        self.space.retire(at);
        Ok(())
    }

    fn end_operation(&mut self) -> Result<()> {
        self.make_room(0)
    }

    fn savepoint(&self) -> SpaceSavepoint {
        self.space.savepoint()
    }

    fn rollback(&mut self, savepoint: SpaceSavepoint) {
        // Drops the unwritten pages of a group that could not be prepared.
        self.buffer.truncate(self.buffer_lead);
        self.space.rollback(savepoint);
    }

    /// Its pages are changed in frames, and some numbers for each have its places.
    fn held_bytes(&self, dirty_pages: usize) -> usize {
        dirty_pages * (self.page_bytes + 4 * size_of::<u64>())
    }

    #[inline]
    fn reclaim(&mut self) {
        if self.limbo.is_active() {
            let mut released = Vec::new();
            self.limbo.reclaim(&mut |at| released.push(at));
            self.space.release(&released);
        }
    }

    fn write(&mut self, frames: &Frames<M>, frame: u64, at: u64, next: u64) -> Result<()> {
        let page = frames.view(frame).bytes(0, self.page_bytes)?;
        self.write_page(at, page, next)
    }

    fn commit(&mut self, frames: &mut Frames<M>, directory: u64) -> Result<()> {
        let list = self.make_list()?;
        self.write_rest(&list)?;
        let space = list.head;
        let state = FileState { directory, space };
        self.write_master(state, None)?;
        for index in 0..self.space.retired().len() {
            if let Some(frame) = self.cache.remove(self.space.retired()[index]) {
                frames.give(frame);
            }
        }
        self.settle(state, list);
        Ok(())
    }

    fn prepare(&mut self, directory: u64, global: GlobalTxnId) -> Result<()> {
        let list = self.make_list()?;
        self.write_rest(&list)?;
        let space = list.head;
        let state = FileState { directory, space };
        self.write_master(self.base, Some((global.0, state)))?;
        self.next = Some((state, list));
        Ok(())
    }

    fn resolve(&mut self, commit: bool) -> Result<()> {
        let next = self.next.take();
        match next.filter(|_| commit) {
            Some((state, list)) => {
                self.write_master(state, None)?;
                self.settle(state, list);
                Ok(())
            }
            None => self.write_master(self.base, None),
        }
    }

    fn adopt(&mut self, frames: &mut Frames<M>, at: u64, frame: u64) {
        if let Some(old) = self.cache.insert(at, frame) {
            frames.give(old);
        }
    }
}

/// Offset of the first page: after both master records.
fn first_page(page_bytes: usize) -> u64 {
    let page_bytes = page_bytes as u64;
    HEAD_BYTES.max(2 * page_bytes).next_multiple_of(page_bytes)
}

/// The newest master record that is whole, and whether nothing is missing: both copies of it are
/// there, and both of the one before.
fn read_master<F: File>(
    file: &mut F,
    identity: FileIdentity,
    name: &str,
) -> Result<(Record, bool)> {
    let file_bytes = file.bytes()?;
    if file_bytes < HEAD_BYTES {
        let detail = format!("it has {file_bytes} bytes, too few for a master record");
        return Err(damaged_file(name, file_bytes, detail));
    }
    // A record that cannot be read is not one that is damaged: another one must not take its place.
    let mut found = Vec::with_capacity(4);
    for at in RECORD_AT.into_iter().flat_map(|at| [at, at + SECTOR_BYTES]) {
        let mut bytes = [0; RECORD_BYTES];
        file.read_at(at, &mut bytes)?;
        found.push(decode(&bytes, identity, name, at));
    }
    let whole = |copy: usize| found[copy].as_ref().ok();
    let newest = (0..4).filter_map(whole).max_by_key(|one| one.sequence);
    let Some(&newest) = newest else {
        // The error of the first record says most.
        let first = found.swap_remove(0);
        return Err(first
            .err()
            .unwrap_or_else(|| damaged(0, "no record is whole".to_owned())));
    };
    let same = |one: usize| match (whole(one), whole(one + 1)) {
        (Some(one), Some(other)) if one == other => Some(*one),
        _ => None,
    };
    let is_whole = match (same(0), same(2)) {
        (Some(one), Some(other)) => {
            one.sequence.abs_diff(other.sequence) == 1 && one.base == other.base
        }
        _ => false,
    };
    Ok((newest, is_whole))
}

fn encode(record: &Record, identity: FileIdentity) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    let mut at = 0;
    let mut put = |part: &[u8]| {
        bytes[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    };
    put(&MAGIC);
    put(&VERSION.to_le_bytes());
    put(&record.page_bytes.to_le_bytes());
    put(&identity.database.to_le_bytes());
    put(&identity.partition.to_le_bytes());
    let mark: u32 = match record.mark {
        MasterKind::Plain => 0,
        MasterKind::Settled => 1,
        MasterKind::Unfinished => 2,
    };
    put(&mark.to_le_bytes());
    let (global, next) = record.prepared.unwrap_or((0, record.base));
    put(&record.sequence.to_le_bytes());
    put(&global.to_le_bytes());
    for state in [record.base, next] {
        let space = state.space;
        for word in [state.directory, space.chain, space.end, space.file_bytes] {
            put(&word.to_le_bytes());
        }
    }
    let crc = crc32c::crc32c(&bytes[..CHECKED_BYTES]);
    bytes[CHECKED_BYTES..CHECKED_BYTES + 4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn decode(
    bytes: &[u8; RECORD_BYTES],
    identity: FileIdentity,
    name: &str,
    at: u64,
) -> Result<Record> {
    let foreign = |reason: String| StorageError::foreign_file(name, reason);
    if bytes[..8] != MAGIC {
        return Err(foreign("it is no file of this method".to_owned()));
    }
    let half = |at: usize| word_of(bytes, at / 8) >> (8 * (at % 8)) & 0xffff_ffff;
    let version = half(8);
    if version > u64::from(VERSION) {
        return Err(foreign(format!(
            "written by a newer version (format {version}, this program reads up to {VERSION}); \
             upgrade the program"
        )));
    }
    let crc = crc32c::crc32c(&bytes[..CHECKED_BYTES]);
    let rest_is_zero = bytes[CHECKED_BYTES + 4..].iter().all(|&byte| byte == 0);
    if half(CHECKED_BYTES) != u64::from(crc) || !rest_is_zero {
        return Err(damaged_file(name, at, "its checksum is wrong".to_owned()));
    }
    let database = u128::from(word_of(bytes, 2)) | u128::from(word_of(bytes, 3)) << 64;
    if database != identity.database || half(32) != u64::from(identity.partition) {
        let text = "it belongs to another database or partition; put the right file back";
        return Err(foreign(text.to_owned()));
    }
    let page_bytes = half(12);
    if !(512..=64 << 10).contains(&page_bytes) || !page_bytes.is_multiple_of(512) {
        return Err(foreign(format!(
            "its pages of {page_bytes} bytes are unknown"
        )));
    }
    let mark = match half(36) {
        0 => MasterKind::Plain,
        1 => MasterKind::Settled,
        2 => MasterKind::Unfinished,
        mark => return Err(foreign(format!("its mark {mark} is unknown"))),
    };
    let state = |first: usize| FileState {
        directory: word_of(bytes, first),
        space: SpaceHead {
            chain: word_of(bytes, first + 1),
            end: word_of(bytes, first + 2),
            file_bytes: word_of(bytes, first + 3),
        },
    };
    let global = word_of(bytes, 6);
    Ok(Record {
        page_bytes: page_bytes as u32,
        mark,
        sequence: word_of(bytes, 5),
        base: state(7),
        prepared: (global != 0).then(|| (global, state(11))),
    })
}

fn damaged_file(file: &str, offset: u64, detail: String) -> StorageError {
    StorageError::damaged_file(file, offset, detail)
}
