//! An arena: one pool and its heap, owned by one thread at a time.
//!
//! Reading borrows the arena and gives references into the mapping; changing it takes `&mut`, so no
//! reference is alive while bytes change. Offsets are checked for range and alignment before they
//! are followed: a stale or damaged pointer may read a wrong record, never memory outside the pool.
//! Each accessor names the bytes it reads, so the emulated device's counts and delays are complete.
//!
//! The module `cell` has the ways to change persistent bytes; blocks come from `heap`.

use crate::device::{Counters, Domain, Memory, Part, View};
use crate::error::{PmemError, Result};
use crate::heap::Heap;
use crate::plain::Plain;
use crate::pool::PoolHeader;
use crate::ptr::NvPtr;

/// One pool and its heap. `Send`, not `Sync`: the owner may hand it to another thread between
/// transactions.
pub struct Arena<M: Memory> {
    pub(crate) memory: M,
    pub(crate) header: PoolHeader,
    pub(crate) heap: Heap,
    /// Whether opening has repaired a copy of the header and no fence has waited for it.
    pub(crate) repaired: bool,
}

impl<M: Memory> Arena<M> {
    /// Reads one value in place.
    #[inline]
    pub fn get<T: Plain>(&self, ptr: NvPtr<T>) -> Result<&T> {
        let offset = ptr.offset();
        self.check(offset, size_of::<T>(), align_of::<T>())?;
        self.memory.load(offset, size_of::<T>());
        let address = self.address(offset).cast::<T>();
        // SAFETY: the range is mapped and aligned (checked), `T: Plain` is valid for any bytes, and
        // stores need `&mut self`, so nothing changes the bytes while the reference lives.
        Ok(unsafe { &*address })
    }

    /// Reads `count` values that lie one after the other, in place.
    #[inline]
    pub fn slice<T: Plain>(&self, offset: u64, count: usize) -> Result<&[T]> {
        let bytes = count
            .checked_mul(size_of::<T>())
            .ok_or_else(|| out_of_range(offset, count))?;
        self.check(offset, bytes, align_of::<T>())?;
        self.memory.load(offset, bytes);
        let address = self.address(offset).cast::<T>();
        // SAFETY: as in `get`, for each of the `count` values.
        Ok(unsafe { std::slice::from_raw_parts(address, count) })
    }

    /// Reads a range of bytes in place.
    #[inline]
    pub fn bytes(&self, offset: u64, bytes: usize) -> Result<&[u8]> {
        self.slice::<u8>(offset, bytes)
    }

    /// Reads one aligned 8-byte word.
    #[inline]
    pub fn word(&self, offset: u64) -> Result<u64> {
        self.get(NvPtr::<u64>::new(offset)).copied()
    }

    /// A range whose parts are read one by one.
    #[inline]
    pub fn window(&self, offset: u64, bytes: usize) -> Result<Window<'_, M>> {
        self.check(offset, bytes, align_of::<u64>())?;
        let address = self.address(offset);
        // SAFETY: as in `get`. Nothing is read here; `Window` names what it reads.
        let bytes = unsafe { std::slice::from_raw_parts(address, bytes) };
        Ok(Window {
            memory: &self.memory,
            offset,
            bytes,
        })
    }

    /// Prefetches the lines of a range, so that their misses overlap. Any offset is allowed.
    #[inline]
    pub fn prefetch(&self, offset: u64, bytes: usize) {
        if self.check(offset, bytes, 1).is_ok() {
            self.memory.prefetch(offset, bytes);
        }
    }

    /// Says to which part of the database the following accesses belong.
    #[inline]
    pub fn enter(&self, part: Part) {
        self.memory.enter(part);
    }

    /// Gives the device back, for another pool to be made on it.
    pub fn into_memory(self) -> M {
        self.memory
    }

    /// Size of the pool in bytes.
    pub fn pool_bytes(&self) -> u64 {
        self.memory.bytes()
    }

    /// The device's counts.
    pub fn counters(&self) -> Counters {
        self.memory.counters()
    }

    /// The persistence domain of the medium.
    pub fn domain(&self) -> Domain {
        self.memory.domain()
    }

    /// A read-only view of the pool at its present length, for another thread. The caller sees to
    /// it that nothing is stored to the blocks that the view's reader follows (see [`View`]).
    pub fn view(&self) -> Result<View> {
        self.memory.view()
    }

    /// Fails unless `bytes` at `offset` lie in the pool and `offset` is a multiple of `align`.
    #[inline]
    pub(crate) fn check(&self, offset: u64, bytes: usize, align: usize) -> Result<()> {
        let end = offset.wrapping_add(bytes as u64);
        if end <= self.memory.bytes() && end >= offset && offset.is_multiple_of(align as u64) {
            Ok(())
        } else {
            Err(out_of_range(offset, bytes))
        }
    }

    /// Where `offset` is mapped. The caller has checked the range.
    #[inline]
    fn address(&self, offset: u64) -> *const u8 {
        // SAFETY: `check` has shown that the range lies in the mapping, so the sum stays inside one
        // allocation.
        unsafe {
            self.memory
                .base()
                .as_ptr()
                .cast_const()
                .add(offset as usize)
        }
    }
}

/// A range of a pool that was checked as a whole, for readers of many of its parts: each read
/// checks its place in the range only, where [`Arena::word`] asks the memory for its base and its
/// size again.
#[derive(Clone, Copy)]
pub struct Window<'a, M: Memory> {
    memory: &'a M,
    offset: u64,
    bytes: &'a [u8],
}

impl<M: Memory> Window<'_, M> {
    /// The byte at `at`; `None` beyond the range.
    #[inline]
    pub fn byte(&self, at: usize) -> Option<u8> {
        let byte = self.bytes.get(at)?;
        self.memory.load(self.offset + at as u64, 1);
        Some(*byte)
    }

    /// The word at `at`; `None` where it is not wholly in the range.
    #[inline]
    pub fn word(&self, at: usize) -> Option<u64> {
        let word = self.bytes.get(at..at.checked_add(8)?)?;
        self.memory.load(self.offset + at as u64, 8);
        word.try_into().ok().map(u64::from_le_bytes)
    }

    /// Whether loads are counted or delayed one by one, so that only prefetched ones overlap.
    #[inline]
    pub fn counts_loads(&self) -> bool {
        self.memory.counts_loads()
    }

    /// Asks for the line with the byte at `at` ahead of its use.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        if at < self.bytes.len() {
            self.memory.prefetch(self.offset + at as u64, 1);
        }
    }
}

#[cold]
fn out_of_range(offset: u64, bytes: usize) -> PmemError {
    PmemError::corrupted(
        "pointer",
        offset,
        format!("{bytes} bytes there are outside the pool or misaligned"),
    )
}
