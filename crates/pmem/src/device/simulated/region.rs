//! A page-aligned buffer at a fixed address, which the simulated device uses as its medium.
//!
//! The whole capacity is reserved at once and takes memory only where it is touched, so growth
//! never moves it. The buffer is reached through raw copies only: a memory handle lends references
//! into it, and no `&mut` to the same bytes may exist at the same time. The regions of a memory and
//! of all its images start as private mappings of one [`Template`], so that new content is made
//! once and an image copies only the bytes that were ever stored.

use super::medium::{Content, lock};
use crate::device::LINE_BYTES;
use crate::error::{PmemError, Result};
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::Mutex;

const PAGE_BYTES: u64 = 4096;
/// Bytes of a template that are made at a time.
const FILL_BYTES: u64 = 16 * PAGE_BYTES;

/// Bytes that are noted as stored to, and cleared, together.
const GRANULE_BYTES: usize = 1024;

/// One line's bytes.
pub(super) type Line = [u8; LINE_BYTES as usize];

/// The initial content of a memory.
pub(super) struct Template {
    file: File,
    capacity: u64,
    content: Content,
    seed: u64,
    filled_bytes: Mutex<u64>,
}

impl Template {
    /// The content of a memory of up to `capacity` bytes. Nothing is filled in yet.
    pub(super) fn new(capacity: u64, content: &Content, seed: u64) -> Result<Self> {
        let capacity = capacity.next_multiple_of(PAGE_BYTES);
        let file = rustix::fs::memfd_create("simulated", MemfdFlags::CLOEXEC);
        let file = File::from(file.map_err(|error| unavailable(error.into()))?);
        file.set_len(capacity).map_err(unavailable)?;
        let filled_bytes = Mutex::new(0);
        Ok(Self {
            file,
            capacity,
            content: content.clone(),
            seed,
            filled_bytes,
        })
    }

    /// Bytes that a memory can grow to.
    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Fills in the content up to `end`. Regions see it at once, because nobody has stored there
    /// before.
    pub(super) fn fill(&self, end: u64) -> Result<()> {
        let mut filled_bytes = lock(&self.filled_bytes);
        let end = end.next_multiple_of(PAGE_BYTES);
        while *filled_bytes < end {
            let next = end.min(*filled_bytes + FILL_BYTES);
            let offsets = (*filled_bytes..next).step_by(8);
            let words = offsets.map(|offset| self.content.word(self.seed, offset).to_le_bytes());
            let bytes: Vec<u8> = words.flatten().collect();
            self.file
                .write_all_at(&bytes, *filled_bytes)
                .map_err(unavailable)?;
            *filled_bytes = next;
        }
        Ok(())
    }
}

fn unavailable(source: std::io::Error) -> PmemError {
    PmemError::Io {
        action: "reserve memory for",
        path: "a simulated device".into(),
        source,
    }
}

/// Private memory of a fixed capacity.
pub(super) struct Region {
    base: NonNull<u8>,
    capacity: usize,
    /// Whether [`Region::note_store`] reported each granule, up to the last that it reported.
    stored: Vec<bool>,
}

// SAFETY: the region owns its mapping; the address is not tied to a thread.
unsafe impl Send for Region {}

impl Region {
    /// Reserves `capacity` bytes, which must not be 0, of zeros.
    pub(super) fn zeroed(capacity: u64) -> Result<Self> {
        let capacity = capacity as usize;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::NORESERVE);
        let flags = flags | MapFlags::PRIVATE;
        let anywhere = std::ptr::null_mut();
        // SAFETY: an anonymous mapping at an address that the kernel chooses touches no existing
        // memory.
        let mapped = unsafe { rustix::mm::mmap_anonymous(anywhere, capacity, access, flags) };
        Self::mapped(mapped, capacity)
    }

    /// A private copy of a template, made page by page as it is stored to.
    pub(super) fn copied(template: &Template) -> Result<Self> {
        let capacity = template.capacity as usize;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::NORESERVE);
        let flags = flags | MapFlags::PRIVATE;
        let (anywhere, file) = (std::ptr::null_mut(), &template.file);
        // SAFETY: as in `zeroed`; the file is as long as the mapping and is never cut, so no access
        // is a bus error.
        let mapped = unsafe { rustix::mm::mmap(anywhere, capacity, access, flags, file, 0) };
        Self::mapped(mapped, capacity)
    }

    fn mapped(mapped: rustix::io::Result<*mut std::ffi::c_void>, capacity: usize) -> Result<Self> {
        let address = mapped.map_err(|error| unavailable(error.into()))?;
        let base = NonNull::new(address.cast()).expect("the kernel never maps address 0 unasked");
        let stored = Vec::new();
        Ok(Self {
            base,
            capacity,
            stored,
        })
    }

    /// Where the region starts; fixed for its life.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes reserved.
    pub(super) fn capacity(&self) -> u64 {
        self.capacity as u64
    }

    /// A copy of one line.
    pub(super) fn line(&self, line: usize) -> Line {
        let address = self.address(line * size_of::<Line>(), size_of::<Line>());
        // SAFETY: `address` has checked the range; any bytes are a valid array.
        unsafe { address.cast::<Line>().read() }
    }

    /// Replaces one line.
    pub(super) fn set_line(&mut self, line: usize, content: &Line) {
        let address = self.address(line * size_of::<Line>(), size_of::<Line>());
        // SAFETY: `address` has checked the range; the region owns the bytes.
        unsafe { address.cast::<Line>().write(*content) };
    }

    /// Notes a store of at least one byte, for [`Region::clear_stored`].
    #[inline]
    pub(super) fn note_store(&mut self, offset: usize, bytes: usize) {
        let (first, last) = (offset / GRANULE_BYTES, (offset + bytes - 1) / GRANULE_BYTES);
        if last >= self.stored.len() {
            self.stored.resize(last + 1, false);
        }
        self.stored[first] = true;
        if first < last {
            self.stored[first + 1..=last].fill(true);
        }
    }

    /// Clears the granules that were stored to. A heap touches little of each of its chunks, so
    /// that takes much less time than to clear everything up to the last store, and keeps the rest
    /// out of the processor's cache.
    pub(super) fn clear_stored(&mut self) {
        let mut stored = std::mem::take(&mut self.stored);
        for (granule, stored) in stored.iter_mut().enumerate() {
            if std::mem::take(stored) {
                let offset = granule * GRANULE_BYTES;
                let bytes = GRANULE_BYTES.min(self.capacity - offset);
                let address = self.address(offset, bytes);
                // SAFETY: `address` has checked the range; the region owns the bytes.
                unsafe { std::ptr::write_bytes(address, 0, bytes) };
            }
        }
        self.stored = stored;
    }

    fn address(&self, offset: usize, bytes: usize) -> *mut u8 {
        let inside = offset
            .checked_add(bytes)
            .is_some_and(|end| end <= self.capacity);
        assert!(
            inside,
            "{bytes} bytes at {offset} leave the simulated region"
        );
        // SAFETY: the range lies in the mapping, so the sum stays inside one allocation.
        unsafe { self.base.as_ptr().add(offset) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, is owned by `self`, and nothing uses it
        // any more. A failure would only leak it.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.capacity) };
    }
}
