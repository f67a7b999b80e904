//! `fash` and `fast`: groups of transactions over slotted pages in durable memory, which change
//! where they are; and `nvwal` and `slot-header-journal`: the same pages in frames of volatile
//! memory, with a log of their changes in durable memory (`index::slotted::cached`).
//!
//! | when | what is written |
//! |---|---|
//! | operation | cells in free room of their pages, and new pages |
//! | commit | cells flushed, a fence |
//! | – then, in `fast`, if one page changed | its header, a fence |
//! | – then, in all other cases | a record of headers, a fence; then the headers in their pages |
//! | prepare | as at a commit by a record, but the record says *prepared* |
//! | abort | nothing |
//! | recovery | what the last record says, where it is newer |
//!
//! After ASPLOS 2017 (Failure-Atomic Slotted Paging). Rows lie in the leaves, as in `cow`.

use super::{
    CowEngine, DeviceOf, FRAMES_BYTES, PAGES, TreeStore, check_blocks, check_page_size, check_pool,
    reader,
};
use crate::engine::serial::driver::Serial;
use crate::engine::serial::pool::{self, FIRST_ROOT, Opened};
use crate::index::slotted::{
    CacheOptions, CachedPages, CommitKind, Geometry, HomeIdentity, SlottedPages, log_bytes,
};
use crate::table::cow::ImageRows;
use pmem::{
    Access, Arena, Memory, NativeMemory, Outcome, POOL_BYTES_MIN, PageSize, PoolIdentity, PoolKind,
    PowerFailAtomicity,
};
use std::collections::BTreeSet;
use storage::engine::{
    Decide, Engine, EngineOptions, EngineStatus, Footprint, Method, VerifyReport,
};
use storage::record::LayoutKind;
use storage::{Platform, Result, StorageError};

/// Kinds of the pools of `fash` and `fast`: with one place for records, and with slots that records
/// move on through. Programs that know the first kind only refuse the second.
const FIXED_KIND: PoolKind = PoolKind(0x736c_6f74);
const MOVING_KIND: PoolKind = PoolKind(0x736c_6f75);
/// Kind of the pools with the log of `nvwal` and `slot-header-journal`. They have one format.
const LOG_KIND: PoolKind = PoolKind(0x6e76_776c);
/// Kind of the memories with frames, which end with their process.
const FRAMES_KIND: PoolKind = PoolKind(0x6672_736c);
/// Largest page: all of them lie in runs of the heap, which the extensions of the log rely on.
const PAGE_BYTES_MAX: u32 = 8 << 10;
const LINE_BYTES: usize = 64;

/// One partition of `fash` or `fast`.
pub(in crate::engine) type Slotted<P> = Serial<CowEngine<SlottedPages<DeviceOf<P>>, ImageRows>>;
/// One partition of `nvwal` or `slot-header-journal`, whose frames are in ordinary memory on every
/// device.
pub(super) type BehindCache = Serial<CowEngine<SlottedPages<NativeMemory>, ImageRows>>;

impl<M: Memory> TreeStore for SlottedPages<M> {
    fn check_space(&mut self, reachable: &mut BTreeSet<u64>, report: &mut VerifyReport) {
        let Some(cache) = self.cache() else {
            reachable.extend(self.own_blocks());
            return check_pool(&self.arena, reachable, report);
        };
        cache.check_space(reachable, report);
        match cache.log_blocks() {
            Ok((blocks, log)) => {
                report.blocks += blocks.len() as u64;
                check_blocks(&blocks, &BTreeSet::from([log]), report);
            }
            Err(error) => report.damage.push(error.to_string()),
        }
    }

    fn footprint(&mut self) -> Result<Footprint> {
        let Some(cache) = self.cache() else {
            return Ok(pool::footprint(&self.arena.footprint()?));
        };
        let (table, free) = cache.used_and_free_bytes();
        let mut footprint = pool::footprint(&cache.log_footprint()?);
        footprint.table += table;
        footprint.other += free;
        Ok(footprint)
    }

    fn count(&self, status: &mut EngineStatus) {
        match self.behind_cache() {
            None => {
                status.memory += &self.arena.counters();
                status.log_line_writes = self.line_writes();
            }
            Some(cache) => {
                status.memory += &cache.log_counters();
                status.disk = cache.disk_counters();
            }
        }
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.bring_home()
    }

    fn close(&mut self) -> Result<()> {
        self.bring_home()
    }

    fn snapshot(&mut self, layout: LayoutKind) -> Result<Option<Box<dyn Engine>>> {
        if self.behind_cache().is_some() {
            return Ok(None);
        }
        let trees = SlottedPages::snapshot(self)?;
        reader::of_slotted(trees, layout).map(Some)
    }
}

fn commit_kind<M: Memory>(
    method: Method,
    options: &EngineOptions,
    arena: &Arena<M>,
) -> Result<CommitKind> {
    match (method, options.atomicity) {
        (Method::Fast, PowerFailAtomicity::Word) => Ok(CommitKind::Line),
        (Method::Fast, PowerFailAtomicity::Line) if arena.stores_lines_at_once() => {
            Ok(CommitKind::WholeLine)
        }
        (Method::Fast, PowerFailAtomicity::Line) => {
            let text = "headers of 64 bytes that survive whole: this takes a processor with a 64-byte direct store and memory that is written past \
                        its caches, and here one of them is missing (`indelible device` says which); leave the power-fail atomicity at 8 bytes";
            Err(StorageError::Unsupported(text.to_owned()))
        }
        _ => Ok(CommitKind::Record),
    }
}

/// The pages of a partition whose options ask for nodes of `page_bytes`. They are a line shorter
/// where that lets one more share a chunk of the heap.
fn geometry(page_bytes: usize, options: &EngineOptions) -> Geometry {
    let packed = if (1024..=8192).contains(&page_bytes) {
        page_bytes - LINE_BYTES
    } else {
        page_bytes
    };
    Geometry::new(packed, options.page_cells_max)
}

fn check_size(options: &EngineOptions) -> Result<()> {
    if options.page_bytes <= PAGE_BYTES_MAX {
        return check_page_size(options);
    }
    Err(StorageError::Unsupported(format!(
        "slotted pages of {} bytes; choose a multiple of 512 from 512 to {PAGE_BYTES_MAX}",
        options.page_bytes
    )))
}

/// Makes the pool of a partition of `fash` or `fast`.
pub(in crate::engine) fn create_slotted<P: Platform>(
    platform: &P,
    method: Method,
    options: &EngineOptions,
) -> Result<Slotted<P>> {
    check_size(options)?;
    let memories = platform.memories(options.partition);
    let rotation = options.rotation_bytes;
    let pool_kind = if rotation == 0 {
        FIXED_KIND
    } else {
        MOVING_KIND
    };
    let identity = pool::identity(pool_kind, options.page_bytes, options);
    let arena = pool::create(&memories, &identity, options)?;
    let geometry = geometry(options.page_bytes as usize, options);
    let kind = commit_kind(method, options, &arena)?;
    let salt = pool::salt(options);
    let (mut pages, master) = SlottedPages::create(arena, salt, (geometry, kind), rotation)?;
    pages.outline(options.outline_bytes);
    pages.log_headers(options.header_images);
    // commit point: a pool whose master is set is a complete, empty partition
    pages.arena.set_root(FIRST_ROOT, master)?;
    pages.arena.settle(Outcome::Committed);
    CowEngine::over(pages, options.layout, options, false)
}

/// Opens the pool of a partition of `fash` or `fast`. With [`Access::Read`] it stores and flushes
/// nothing, and fails where recovery would have to.
pub(in crate::engine) fn open_slotted<P: Platform>(
    platform: &P,
    method: Method,
    options: &EngineOptions,
    decide: Decide<'_>,
) -> Result<Slotted<P>> {
    let memories = platform.memories(options.partition);
    let Opened {
        arena,
        name,
        layout,
        node_bytes,
        first_root: master,
    } = pool::open(&memories, &[FIXED_KIND, MOVING_KIND], PAGES, options)?;
    let geometry = geometry(node_bytes, options);
    let salt = pool::salt(options);
    let (mut pages, undone) = match options.access {
        Access::Write => {
            let kind = commit_kind(method, options, &arena)?;
            SlottedPages::open(arena, master, salt, geometry, kind, decide)?
        }
        Access::Read => {
            let found = SlottedPages::open_read_only(arena, master, salt, geometry, decide)?;
            (found.ok_or(StorageError::NeedsRecovery(name))?, false)
        }
    };
    pages.outline(options.outline_bytes);
    pages.log_headers(options.header_images);
    CowEngine::over(pages, layout, options, undone)
}

/// Makes the file and the log of a partition of `nvwal` or `slot-header-journal`.
pub(in crate::engine) fn create_behind_cache<P: Platform>(
    platform: &P,
    method: Method,
    options: &EngineOptions,
) -> Result<BehindCache> {
    check_size(options)?;
    let memories = platform.memories(options.partition);
    let log_bytes = log_bytes(options.ring_bytes);
    let mut identity = pool::identity(LOG_KIND, options.page_bytes, options);
    identity.user[3] = log_bytes;
    let arena = pool::create(&memories, &identity, options)?;
    let cache = cache_options(options, options.page_bytes as usize, log_bytes);
    let files = platform.files(options.partition)?;
    let (mut pages, block) = CachedPages::create(arena, files, &cache)?;
    // commit point: a pool whose master is set is a complete, empty partition
    pages.set_root(FIRST_ROOT, block)?;
    let frames = frames()?;
    let geometry = geometry(options.page_bytes as usize, options);
    if method == Method::SlotHeaderJournal {
        pages.log_headers_and_cells(geometry);
    }
    let pages = SlottedPages::behind(pages, frames, cache.salt, geometry);
    CowEngine::over(pages, options.layout, options, false)
}

/// Opens a partition of `nvwal` or `slot-header-journal`. Its log is applied in volatile memory,
/// page by page. With [`Access::Read`] nothing is stored, flushed or written.
pub(in crate::engine) fn open_behind_cache<P: Platform>(
    platform: &P,
    method: Method,
    options: &EngineOptions,
    decide: Decide<'_>,
) -> Result<BehindCache> {
    let memories = platform.memories(options.partition);
    let found = pool::open(&memories, &[LOG_KIND], PAGES, options)?;
    let log_bytes = log_bytes(found.arena.identity().user[3]);
    let cache = cache_options(options, found.node_bytes, log_bytes);
    let files = platform.files(options.partition)?;
    let frames = frames()?;
    let (mut pages, undone) = CachedPages::open(
        found.arena,
        found.first_root,
        files,
        &cache,
        options.access,
        &frames,
        decide,
    )?;
    let geometry = geometry(found.node_bytes, options);
    if method == Method::SlotHeaderJournal {
        pages.log_headers_and_cells(geometry);
    }
    let pages = SlottedPages::behind(pages, frames, cache.salt, geometry);
    CowEngine::over(pages, found.layout, options, undone)
}

fn cache_options(options: &EngineOptions, page_bytes: usize, log_bytes: u64) -> CacheOptions {
    let identity = HomeIdentity {
        database: options.database_id,
        partition: options.partition,
        page_bytes,
    };
    CacheOptions {
        identity,
        salt: pool::salt(options),
        cache_bytes: options.buffer_bytes,
        log_bytes,
    }
}

/// Ordinary memory for frames, which grows as they are taken.
fn frames() -> Result<Arena<NativeMemory>> {
    let bytes = FRAMES_BYTES.max(POOL_BYTES_MIN);
    let memory = NativeMemory::volatile(bytes, PageSize::Base)?;
    Ok(Arena::create(memory, &PoolIdentity::unnamed(FRAMES_KIND))?)
}
