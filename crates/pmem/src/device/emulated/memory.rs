//! A memory behind an emulator, and the source that makes such memories.
//!
//! Bytes, growth, locks and durability are those of the wrapped memory: each operation is passed
//! on, and charged to the emulator as well. A load is charged before the caller reads. On a
//! volatile memory loads and stores are charged like any other, since the imitated machine has no
//! other memory, while flushes and fences do nothing and are not counted.

use super::emulator::{Emulator, Region};
use crate::device::{Access, Counters, Domain, LINE_BYTES, Memory, MemorySource, Part, Site, View};
use crate::error::Result;
use std::cell::Cell;
use std::ptr::NonNull;

/// A memory behind an emulator.
#[derive(Debug)]
pub struct EmulatedMemory<M: Memory> {
    inner: M,
    region: Region,
    part: Cell<Part>,
    lifetime: Lifetime,
    /// Whether this handle reports the region's counts: one of a memory's handles does.
    is_first: bool,
}

/// Whether a memory outlives its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lifetime {
    Durable,
    Volatile,
}

impl<M: Memory> EmulatedMemory<M> {
    /// Puts a durable memory behind an emulator. Its lines are not in the modelled cache at first.
    pub fn durable(inner: M, emulator: &Emulator) -> Result<Self> {
        Self::new(inner, emulator, Lifetime::Durable)
    }

    /// Puts a memory that is lost at restart behind an emulator.
    pub fn volatile(inner: M, emulator: &Emulator) -> Result<Self> {
        Self::new(inner, emulator, Lifetime::Volatile)
    }

    fn new(inner: M, emulator: &Emulator, lifetime: Lifetime) -> Result<Self> {
        let region = emulator.region()?;
        Ok(Self {
            inner,
            region,
            part: Cell::default(),
            lifetime,
            is_first: true,
        })
    }

    /// Another handle, over another one of the memory inside.
    fn beside(&self, inner: M) -> Self {
        Self {
            inner,
            region: self.region.clone(),
            part: Cell::new(self.part.get()),
            lifetime: self.lifetime,
            is_first: false,
        }
    }

    /// The memory's name in the emulator: its number there, and the emulator itself.
    pub fn region(&self) -> &Region {
        &self.region
    }

    fn check(&self, offset: u64, bytes: usize) {
        let end = offset.checked_add(bytes as u64);
        assert!(
            end.is_some_and(|end| end <= self.inner.bytes()),
            "{bytes} bytes at {offset} leave a memory of {} bytes",
            self.inner.bytes()
        );
    }
}

// SAFETY: the mapping is the wrapped memory's, which keeps the same promises; nothing here changes
// its bytes but through it.
unsafe impl<M: Memory> Memory for EmulatedMemory<M> {
    fn base(&self) -> NonNull<u8> {
        self.inner.base()
    }

    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    fn grow(&mut self, bytes: u64) -> Result<()> {
        self.inner.grow(bytes)
    }

    fn load(&self, offset: u64, bytes: usize) {
        self.check(offset, bytes);
        self.inner.load(offset, bytes);
        self.region.load(self.part.get(), offset, bytes as u64);
    }

    fn counts_loads(&self) -> bool {
        self.region.counts_loads()
    }

    fn load_each(&self, ranges: &mut dyn Iterator<Item = (u64, usize)>) {
        let checked = &mut ranges.map(|(offset, bytes)| {
            self.check(offset, bytes);
            self.inner.load(offset, bytes);
            (offset, bytes as u64)
        });
        self.region.load_each(self.part.get(), checked);
    }

    fn prefetch(&self, offset: u64, bytes: usize) {
        self.check(offset, bytes);
        self.inner.prefetch(offset, bytes);
        self.region.prefetch(self.part.get(), offset, bytes as u64);
    }

    fn store(&mut self, offset: u64, data: &[u8]) {
        self.inner.store(offset, data);
        self.region
            .store(self.part.get(), offset, data.len() as u64);
    }

    fn store_word(&mut self, offset: u64, value: u64) {
        self.inner.store_word(offset, value);
        self.region
            .store(self.part.get(), offset, size_of::<u64>() as u64);
    }

    fn stream(&mut self, offset: u64, data: &[u8], site: &'static Site) {
        self.inner.stream(offset, data, site);
        self.region
            .stream(self.part.get(), offset, data.len() as u64);
    }

    fn store_line(&mut self, offset: u64, line: &[u8; 64], site: &'static Site) {
        self.inner.store_line(offset, line, site);
        self.region.stream(self.part.get(), offset, LINE_BYTES);
    }

    /// Costs are those of a machine that does, whether or not this one does.
    fn stores_lines_at_once(&self) -> bool {
        true
    }

    fn flush(&mut self, offset: u64, bytes: usize, site: &'static Site) {
        self.inner.flush(offset, bytes, site);
        if self.lifetime == Lifetime::Durable {
            self.region.flush(self.part.get(), offset, bytes as u64);
        }
    }

    fn fence(&mut self, site: &'static Site) -> Result<()> {
        self.inner.fence(site)?;
        if self.lifetime == Lifetime::Durable {
            self.region.fence(self.part.get());
        }
        Ok(())
    }

    fn enter(&self, part: Part) {
        self.inner.enter(part);
        self.part.set(part);
    }

    fn counters(&self) -> Counters {
        if !self.is_first {
            return Counters::default();
        }
        self.region.counters()
    }

    fn domain(&self) -> Domain {
        self.inner.domain()
    }

    unsafe fn share(&self) -> Result<Self> {
        // SAFETY: the caller promises the same of the memory inside.
        let inner = unsafe { self.inner.share() }?;
        Ok(self.beside(inner))
    }

    fn share_for_flushes(&self) -> Result<Self> {
        Ok(self.beside(self.inner.share_for_flushes()?))
    }

    fn view(&self) -> Result<View> {
        self.inner.view()
    }
}

/// Makes and opens memories behind one emulator: those of one partition.
#[derive(Clone, Debug)]
pub struct EmulatedSource<S: MemorySource> {
    inner: S,
    emulator: Emulator,
}

impl<S: MemorySource> EmulatedSource<S> {
    /// The memories of `inner` behind `emulator`.
    pub fn new(inner: S, emulator: Emulator) -> Self {
        Self { inner, emulator }
    }

    /// The emulator that all memories of this source share.
    pub fn emulator(&self) -> &Emulator {
        &self.emulator
    }
}

impl<S: MemorySource> MemorySource for EmulatedSource<S> {
    type Memory = EmulatedMemory<S::Memory>;

    fn create(&self, name: &str, bytes: u64) -> Result<Self::Memory> {
        EmulatedMemory::durable(self.inner.create(name, bytes)?, &self.emulator)
    }

    fn open(&self, name: &str, access: Access) -> Result<Self::Memory> {
        EmulatedMemory::durable(self.inner.open(name, access)?, &self.emulator)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }

    fn volatile(&self, bytes: u64) -> Result<Self::Memory> {
        EmulatedMemory::volatile(self.inner.volatile(bytes)?, &self.emulator)
    }
}
