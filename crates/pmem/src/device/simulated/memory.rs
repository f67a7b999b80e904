//! The handle that an engine holds: a [`Memory`] of a simulated world.
//!
//! A handle writes the live bytes itself and reports each change to the memory's state. Durable
//! memories record events; volatile ones are plain bytes, and flushes and fences on them do nothing
//! and are not counted. One owner at a time has a memory open, with handles that never touch the
//! same bytes, so nothing else writes its live bytes: images are made in closed memories only.

use super::fault::MemoryCall;
use super::lines::{Kind, MemoryState, Tears};
use super::medium::{Profile, lock};
use super::region::Region;
use super::sites::SiteKind;
use super::world::{CrashPoint, SimulatedWorld, return_region};
use crate::device::{
    Access, Counters, Domain, LINE_BYTES, Memory, MemorySource, Part, PartCounters,
    PowerFailAtomicity, Site, View,
};
use crate::error::{PmemError, Result};
use std::cell::Cell;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

/// Makes and opens the memories of a simulated world.
#[derive(Clone)]
pub struct SimulatedSource {
    world: SimulatedWorld,
    /// The prefix of each name.
    prefix: String,
}

impl SimulatedSource {
    pub(super) fn new(world: SimulatedWorld) -> Self {
        Self {
            world,
            prefix: String::new(),
        }
    }

    /// The memories of one folder: `a` there is `folder/a` here. Needs no creation.
    #[must_use]
    pub fn within(&self, folder: &str) -> Self {
        Self {
            world: self.world.clone(),
            prefix: format!("{}{folder}/", self.prefix),
        }
    }

    fn full_name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The world.
    pub fn world(&self) -> &SimulatedWorld {
        &self.world
    }
}

impl MemorySource for SimulatedSource {
    type Memory = SimulatedMemory;

    fn create(&self, name: &str, bytes: u64) -> Result<SimulatedMemory> {
        let name = &self.full_name(name);
        if self.world.find(name).is_some() {
            return Err(refused("create", name, std::io::ErrorKind::AlreadyExists));
        }
        let state = self.world.create(name, bytes)?;
        Ok(SimulatedMemory::durable(&self.world, state, Access::Write))
    }

    fn open(&self, name: &str, access: Access) -> Result<SimulatedMemory> {
        let name = &self.full_name(name);
        let found = self.world.find(name);
        let state = found.ok_or_else(|| refused("open", name, std::io::ErrorKind::NotFound))?;
        if lock(&state).handles > 0 {
            return Err(PmemError::InUse {
                path: name.as_str().into(),
            });
        }
        lock(&state).open();
        Ok(SimulatedMemory::durable(&self.world, state, access))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let name = &self.full_name(name);
        let found = self.world.find(name);
        let state = found.ok_or_else(|| refused("remove", name, std::io::ErrorKind::NotFound))?;
        if lock(&state).handles > 0 {
            return Err(PmemError::InUse {
                path: name.as_str().into(),
            });
        }
        self.world.remove(name);
        Ok(())
    }

    fn volatile(&self, bytes: u64) -> Result<SimulatedMemory> {
        let region = self.world.take_region()?;
        let base = region.base();
        let backing = Backing::Volatile {
            region: Some(region),
        };
        let mut memory = SimulatedMemory::new(&self.world, base, backing, Access::Write);
        memory.grow(bytes)?;
        Ok(memory)
    }
}

fn refused(action: &'static str, name: &str, kind: std::io::ErrorKind) -> PmemError {
    PmemError::Io {
        action,
        path: name.into(),
        source: kind.into(),
    }
}

/// A memory of a simulated world, open.
pub struct SimulatedMemory {
    base: NonNull<u8>,
    bytes: u64,
    world: SimulatedWorld,
    backing: Backing,
    /// Which of the memory's handles it is.
    handle: usize,
    access: Access,
    /// Whether the memory was watched when it was opened.
    watched: bool,
    /// Whether a fence of this handle has failed.
    poisoned: bool,
    part: Cell<Part>,
    counters: Counters,
}

enum Backing {
    Durable(Arc<Mutex<MemoryState>>),
    /// The region, which notes where stores go, goes back to the world at the end.
    Volatile {
        region: Option<Region>,
    },
}

// SAFETY: `base` points into a region that `backing` keeps alive, and is not tied to a thread.
unsafe impl Send for SimulatedMemory {}

impl SimulatedMemory {
    fn new(world: &SimulatedWorld, base: NonNull<u8>, backing: Backing, access: Access) -> Self {
        let (part, counters) = (Cell::default(), Counters::default());
        Self {
            base,
            bytes: 0,
            world: world.clone(),
            backing,
            handle: 0,
            access,
            watched: false,
            poisoned: false,
            part,
            counters,
        }
    }

    /// A handle to a memory that is marked open.
    fn durable(world: &SimulatedWorld, state: Arc<Mutex<MemoryState>>, access: Access) -> Self {
        let (base, bytes, watched) = {
            let state = lock(&state);
            (state.live.base(), state.bytes, state.watch.is_some())
        };
        let mut memory = Self::new(world, base, Backing::Durable(state), access);
        memory.bytes = bytes;
        memory.watched = watched;
        memory
    }

    /// Another handle of a durable memory.
    fn beside(&self, access: Access) -> Result<Self> {
        let Backing::Durable(state) = &self.backing else {
            let text = "a volatile memory has one owner".to_owned();
            return Err(PmemError::Unsupported(text));
        };
        let handle = lock(state).share();
        let mut memory = Self::durable(&self.world, Arc::clone(state), access);
        memory.handle = handle;
        memory.poisoned = self.poisoned;
        Ok(memory)
    }

    /// A copy of the live bytes of a range, read like any load.
    ///
    /// # Panics
    /// If the range leaves the memory.
    pub fn peek(&self, offset: u64, bytes: usize) -> Vec<u8> {
        self.load(offset, bytes);
        // SAFETY: `load` has checked the range, so the sum stays inside the region.
        let from = unsafe { self.base.as_ptr().cast_const().add(offset as usize) };
        let mut copy = vec![0; bytes];
        // SAFETY: the range is mapped, `&self` excludes stores, and `copy` is memory of its own.
        unsafe { std::ptr::copy_nonoverlapping(from, copy.as_mut_ptr(), bytes) };
        copy
    }

    #[inline]
    fn counts(&mut self) -> &mut PartCounters {
        &mut self.counters.parts[self.part.get() as usize]
    }

    #[inline]
    fn check(&self, offset: u64, bytes: usize) {
        let inside = offset
            .checked_add(bytes as u64)
            .is_some_and(|end| end <= self.bytes);
        assert!(
            inside,
            "{bytes} bytes at {offset} leave a memory of {} bytes",
            self.bytes
        );
    }

    #[inline]
    fn check_store(&self, offset: u64, bytes: usize) {
        self.check(offset, bytes);
        assert!(
            self.access == Access::Write,
            "store to a memory that is open for reading"
        );
    }

    /// Records a store, then makes it visible. Inlined, so that a word is one instruction.
    #[inline(always)]
    fn change(&mut self, offset: u64, data: &[u8], kind: Kind) {
        match &mut self.backing {
            Backing::Durable(state) => {
                self.world.before_store();
                lock(state).store(self.handle, offset, data, kind);
            }
            Backing::Volatile { region } => {
                if let Some(region) = region {
                    region.note_store(offset as usize, data.len());
                }
            }
        }
        // SAFETY: the caller has checked the range, so the sum stays inside the region.
        let to = unsafe { self.base.as_ptr().add(offset as usize) };
        // SAFETY: the range is mapped, `&mut self` excludes references into it, and so `data` lies
        // elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
    }

    /// A store that no cache keeps: certain after the next fence.
    fn store_past_the_cache(
        &mut self,
        offset: u64,
        data: &[u8],
        tears: Tears,
        site: &'static Site,
    ) {
        self.check_store(offset, data.len());
        let aligned = offset.is_multiple_of(8) && data.len().is_multiple_of(8);
        assert!(
            aligned,
            "streaming store of {} bytes at {offset} is not aligned",
            data.len()
        );
        if data.is_empty() {
            return;
        }
        self.counts().bytes_stored += data.len() as u64;
        let mut kind = Kind::Ordinary;
        if matches!(self.backing, Backing::Durable(_)) {
            let lines = lines(offset, data.len()).len() as u64;
            self.counts().bytes_streamed += data.len() as u64;
            self.counts().stores += lines;
            if self.world.execute(site, SiteKind::Stream, true) {
                kind = Kind::Stream(tears);
            }
        }
        self.change(offset, data, kind);
    }

    /// Reports a read to the watch of the memory.
    #[cold]
    fn note_load(&self, offset: u64, bytes: usize) {
        if let Backing::Durable(state) = &self.backing {
            note_load(state, offset, bytes);
        }
    }

    fn has_flush_free_domain(&self) -> bool {
        self.world.options().profile == Profile::FlushFree
    }
}

// SAFETY: the region is mapped and page-aligned for the life of `self`, growth stays inside of its
// capacity, and while the memory is open only this handle writes its live bytes.
unsafe impl Memory for SimulatedMemory {
    #[inline]
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    #[inline]
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn grow(&mut self, bytes: u64) -> Result<()> {
        if self.access == Access::Read {
            return Err(PmemError::ReadOnly);
        }
        if self.poisoned {
            return Err(PmemError::Poisoned);
        }
        match &self.backing {
            Backing::Durable(state) => self.bytes = self.world.grow(state, bytes)?,
            Backing::Volatile { region } => {
                let capacity = region.as_ref().map_or(0, Region::capacity);
                let end = bytes.next_multiple_of(LINE_BYTES).max(self.bytes);
                if end > self.bytes {
                    self.world.strike(MemoryCall::Volatile, end - self.bytes)?;
                }
                if end > capacity {
                    return Err(PmemError::OutOfSpace {
                        wanted_bytes: end - self.bytes,
                        limit: format!("a simulated volatile memory holds {capacity} bytes"),
                    });
                }
                self.bytes = end;
            }
        }
        Ok(())
    }

    #[inline]
    fn load(&self, offset: u64, bytes: usize) {
        self.check(offset, bytes);
        if self.watched {
            self.note_load(offset, bytes);
        }
    }

    #[inline]
    fn prefetch(&self, _offset: u64, _bytes: usize) {}

    #[inline]
    fn store(&mut self, offset: u64, data: &[u8]) {
        self.check_store(offset, data.len());
        if data.is_empty() {
            return;
        }
        self.counts().bytes_stored += data.len() as u64;
        self.change(offset, data, Kind::Ordinary);
    }

    #[inline]
    fn store_word(&mut self, offset: u64, value: u64) {
        self.check_store(offset, 8);
        assert!(
            offset.is_multiple_of(8),
            "word store at {offset}, which is not aligned"
        );
        self.counts().bytes_stored += 8;
        self.change(offset, &value.to_le_bytes(), Kind::Ordinary);
    }

    fn stream(&mut self, offset: u64, data: &[u8], site: &'static Site) {
        self.store_past_the_cache(offset, data, Tears::AtWords, site);
    }

    fn stores_lines_at_once(&self) -> bool {
        true
    }

    fn store_line(&mut self, offset: u64, line: &[u8; 64], site: &'static Site) {
        assert!(
            offset.is_multiple_of(LINE_BYTES),
            "line store at {offset}, where no line begins"
        );
        let tears = match self.world.options().atomicity {
            PowerFailAtomicity::Word => Tears::AtWords,
            PowerFailAtomicity::Line => Tears::Never,
        };
        self.store_past_the_cache(offset, line, tears, site);
    }

    fn flush(&mut self, offset: u64, bytes: usize, site: &'static Site) {
        self.check(offset, bytes);
        let Backing::Durable(state) = &self.backing else {
            return;
        };
        if self.has_flush_free_domain() || bytes == 0 {
            return;
        }
        let lines = lines(offset, bytes);
        let flushed = lines.len() as u64;
        let mut state = lock(state);
        let useful = state.flush_is_useful(lines.clone());
        let enabled = self.world.execute(site, SiteKind::Flush, useful);
        let written = if enabled {
            state.flush(self.handle, lines)
        } else {
            0
        };
        drop(state);
        if enabled {
            let counts = self.counts();
            counts.lines_flushed += flushed;
            counts.stores += written;
        }
    }

    fn fence(&mut self, site: &'static Site) -> Result<()> {
        let Backing::Durable(state) = &self.backing else {
            return Ok(());
        };
        if self.poisoned {
            return Err(PmemError::Poisoned);
        }
        self.world.mark(CrashPoint::Fence(site));
        if let Err(error) = self.world.strike(MemoryCall::Fence, 0) {
            self.poisoned = true;
            return Err(error);
        }
        let mut state = lock(state);
        let useful = state.fence_is_useful(self.handle);
        if self.world.execute(site, SiteKind::Fence, useful) {
            state.fence(self.handle);
            self.counters.fences += 1;
        }
        Ok(())
    }

    #[inline]
    fn enter(&self, part: Part) {
        self.part.set(part);
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn domain(&self) -> Domain {
        match self.backing {
            Backing::Durable(_) => self.world.domain(),
            Backing::Volatile { .. } => Domain::Process,
        }
    }

    unsafe fn share(&self) -> Result<Self> {
        self.beside(self.access)
    }

    fn share_for_flushes(&self) -> Result<Self> {
        self.beside(Access::Read)
    }

    fn view(&self) -> Result<View> {
        match &self.backing {
            // The state owns the live bytes and never moves them.
            Backing::Durable(state) => {
                let view = View::new(self.base, self.bytes, Arc::clone(state) as _);
                let watched = Arc::clone(state);
                Ok(if self.watched {
                    view.watched(move |offset, bytes| note_load(&watched, offset, bytes))
                } else {
                    view
                })
            }
            Backing::Volatile { .. } => {
                let text = "a volatile memory cannot be read beside its owner".to_owned();
                Err(PmemError::Unsupported(text))
            }
        }
    }
}

impl Drop for SimulatedMemory {
    fn drop(&mut self) {
        match &mut self.backing {
            Backing::Durable(state) => lock(state).leave(self.handle),
            Backing::Volatile { region } => {
                if let Some(region) = region.take() {
                    return_region(region);
                }
            }
        }
    }
}

/// Reports a read to the watch of a memory, by its owner or through a view.
fn note_load(state: &Mutex<MemoryState>, offset: u64, bytes: usize) {
    let mut state = lock(state);
    let number = state.number;
    if let Some(watch) = &mut state.watch {
        watch.loaded(number, lines(offset, bytes), offset..offset + bytes as u64);
    }
}

/// The lines that a range touches.
fn lines(offset: u64, bytes: usize) -> Range<usize> {
    let end = (offset + bytes as u64).div_ceil(LINE_BYTES);
    (offset / LINE_BYTES) as usize..end as usize
}
