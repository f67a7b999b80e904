//! Scratch memory of joins: one anonymous mapping on huge pages, kept from join to join.
//!
//! The first use of fresh pages costs up to as much as a join, so a caller who joins often keeps a
//! `Scratch`. A join states its need beforehand, gets an `Arena` over the mapping and cuts its
//! buffers off the front. Invariants:
//!
//! 1. Buffers of one arena do not overlap, begin at a cache line, and live no longer than the
//!    borrow of the `Scratch`.
//! 2. Their element types have no invalid bit patterns, so old contents may be read, but mean
//!    nothing.
#![allow(
    unsafe_code,
    reason = "maps memory, and gives parts of it out as slices of integers and tuples"
)]

use crate::error::{JoinError, Result};
use crate::tuple::Plain;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// Buffers begin at multiples of this, and so do streaming stores.
pub(crate) const LINE_BYTES: usize = 64;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Memory that joins work in; reusable, and returned to the system when dropped.
#[derive(Debug, Default)]
pub struct Scratch {
    mapping: Option<Mapping>,
}

impl Scratch {
    /// Scratch memory that holds nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes that are kept for the next join.
    pub fn bytes(&self) -> u64 {
        self.mapping.as_ref().map_or(0, |kept| kept.bytes as u64)
    }

    /// Gives the memory back to the system.
    pub fn release(&mut self) {
        self.mapping = None;
    }

    /// An arena of at least `bytes` bytes, over the kept mapping if it is large enough.
    pub(crate) fn arena(&mut self, bytes: usize) -> Result<Arena<'_>> {
        if self.bytes() < bytes as u64 {
            // Unmapped first: the two together may be more than the machine has.
            self.mapping = None;
            self.mapping = Some(Mapping::new(bytes)?);
        }
        let rest = match &mut self.mapping {
            Some(mapping) => mapping.bytes_mut(),
            None => &mut [],
        };
        Ok(Arena { rest })
    }
}

/// The part of a scratch memory that is still free during one join.
#[derive(Debug)]
pub(crate) struct Arena<'a> {
    rest: &'a mut [u8],
}

impl<'a> Arena<'a> {
    /// Bytes that a buffer takes.
    pub(crate) const fn bytes_of<T>(count: usize) -> usize {
        (count * size_of::<T>()).next_multiple_of(LINE_BYTES)
    }

    /// The same memory for a while; buffers taken from it can be taken again afterwards.
    pub(crate) fn reborrow(&mut self) -> Arena<'_> {
        Arena {
            rest: &mut *self.rest,
        }
    }

    /// A buffer of `count` elements with old contents.
    pub(crate) fn take<T: Plain>(&mut self, count: usize) -> &'a mut [T] {
        let bytes = Self::bytes_of::<T>(count);
        let rest = std::mem::take(&mut self.rest);
        let (front, rest) = rest
            .split_at_mut_checked(bytes)
            .expect("the plan of the join counts every buffer");
        self.rest = rest;
        let start = front.as_mut_ptr();
        assert!(
            start.addr().is_multiple_of(LINE_BYTES),
            "buffers are whole lines"
        );
        // SAFETY: `front` is initialized memory of at least `count` elements, borrowed for 'a by
        // nobody else; `start` is a multiple of 64, which covers every `Plain` alignment; every bit
        // pattern is a value of a `Plain` type.
        unsafe { std::slice::from_raw_parts_mut(start.cast::<T>(), count) }
    }
}

impl<'a> Arena<'a> {
    /// A buffer of `count` zeros that threads change together.
    pub(crate) fn take_shared(&mut self, count: usize) -> &'a [AtomicU32] {
        let words = self.take::<u32>(count);
        words.fill(0);
        // SAFETY: an atomic word has the size and, as no larger one, the alignment of a plain one;
        // the exclusive borrow of the words is given up for the shared one, for as long.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<AtomicU32>(), count) }
    }
}

/// Private memory of this process, unmapped when dropped.
#[derive(Debug)]
struct Mapping {
    /// First byte that is used, a multiple of a huge page where the mapping is large.
    start: NonNull<u8>,
    bytes: usize,
    mapped_start: NonNull<c_void>,
    mapped_bytes: usize,
}

// SAFETY: a mapping is owned memory; it belongs to no thread.
unsafe impl Send for Mapping {}
// SAFETY: through a shared reference only sizes can be read.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(bytes: usize) -> Result<Self> {
        let refused = |source: std::io::Error| JoinError::Mapping {
            needed_bytes: bytes as u64,
            source,
        };
        let bytes_used = bytes.next_multiple_of(HUGE_PAGE_BYTES);
        let mapped_bytes = bytes_used + HUGE_PAGE_BYTES;
        // SAFETY: an anonymous private mapping at an address of the system's choice touches no
        // memory of anybody.
        let mapped = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                mapped_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let mapped = mapped.map_err(|errno| refused(errno.into()))?;
        let mapped_start =
            NonNull::new(mapped).ok_or_else(|| refused(std::io::ErrorKind::OutOfMemory.into()))?;
        let skipped = mapped.addr().next_multiple_of(HUGE_PAGE_BYTES) - mapped.addr();
        // SAFETY: `skipped` is less than a huge page, by which the mapping is longer than what is
        // used.
        let start = unsafe { mapped_start.cast::<u8>().add(skipped) };
        #[cfg(target_os = "linux")]
        {
            let from = start.as_ptr().cast();
            // SAFETY: the range lies in the mapping just made; the advice changes no content. Where
            // it is refused, pages are small.
            let _ = unsafe { rustix::mm::madvise(from, bytes_used, Advice::LinuxHugepage) };
        }
        Ok(Self {
            start,
            bytes: bytes_used,
            mapped_start,
            mapped_bytes,
        })
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `start` and `bytes` lie in the mapping, which is readable, writable and zero at
        // first; it is borrowed mutably as long as the slice lives.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly what was mapped, and no slice of it outlives `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.mapped_start.as_ptr(), self.mapped_bytes) };
        debug_assert!(unmapped.is_ok(), "the mapping was ours");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuple::{Tuple, Tuple16};

    #[test]
    fn buffers_are_apart_and_memory_is_kept() {
        let mut scratch = Scratch::new();
        assert_eq!(scratch.bytes(), 0);
        let mut arena = scratch.arena(5 << 20).unwrap();
        let words: &mut [u32] = arena.take(3);
        let tuples: &mut [Tuple16] = arena.take(100_000);
        words.fill(7);
        tuples.fill(Tuple16::new(1, 2));
        assert_eq!(words, [7; 3]);
        assert!(tuples.iter().all(|tuple| *tuple == Tuple16::new(1, 2)));
        let kept = scratch.bytes();
        assert!(kept >= 5 << 20);
        scratch.arena(1 << 20).unwrap();
        assert_eq!(scratch.bytes(), kept);
        scratch.release();
        assert_eq!(scratch.bytes(), 0);
    }

    #[test]
    #[should_panic(expected = "counts every buffer")]
    fn more_than_was_planned_is_refused() {
        let mut scratch = Scratch::new();
        let mut arena = scratch.arena(1).unwrap();
        arena.take::<u64>(1 << 20);
    }
}
