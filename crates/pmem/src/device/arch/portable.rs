//! Any other processor: compiler order only.
//!
//! No instruction here reaches past the cache, so this file supports the domains `process` (nothing
//! is needed) and `file` (the kernel writes the pages). `MAP_SYNC` exists only where the kernel
//! knows the processor's write-back, and on such a processor a file of its own belongs here; until
//! then the `flush` domain is refused (`WRITES_BACK`).

use super::DIRECT_BYTES;
use std::sync::atomic::{Ordering, fence};

/// Whether the `flush` domain can be given on this architecture.
pub(crate) const WRITES_BACK: bool = false;

/// The instructions that this processor has: none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instructions;

#[expect(clippy::unused_self, reason = "the interface of the sibling files")]
impl Instructions {
    /// There is nothing to ask.
    pub(crate) fn detect() -> Self {
        Self
    }

    /// All choices that this processor can execute.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        vec![Self]
    }

    /// The names of write-back, fence and streaming store.
    pub(crate) fn names(self) -> [&'static str; 3] {
        ["none", "none", "copy"]
    }

    /// No direct line store.
    pub(crate) fn direct_line_name(self) -> Option<&'static str> {
        None
    }

    /// Write-backs of many lines overlap.
    #[inline]
    pub(crate) fn rewrites(self, _lines: u64) -> bool {
        false
    }

    /// Does nothing.
    ///
    /// # Safety
    /// None is needed; the siblings want a mapped line.
    #[inline]
    pub(crate) unsafe fn write_back(self, _line: *const u8) {}

    /// Copies.
    ///
    /// # Safety
    /// `target..target + data.len()` must be mapped, writable and disjoint from `data`.
    #[inline]
    pub(crate) unsafe fn stream(self, target: *mut u8, data: &[u8]) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), target, data.len()) };
    }

    /// Copies one line.
    ///
    /// # Safety
    /// `target` must point to 64 mapped, writable bytes outside `line`.
    #[inline]
    pub(crate) unsafe fn store_line(self, target: *mut u8, line: &[u8; DIRECT_BYTES]) {
        // SAFETY: the caller's promise.
        unsafe { self.stream(target, line) }
    }
}

/// A full fence: orders all stores for other threads, and promises nothing about power.
#[inline]
pub(crate) fn store_fence() {
    fence(Ordering::SeqCst);
}

/// A full fence; see [`store_fence`].
#[inline]
pub(crate) fn order_words() {
    fence(Ordering::SeqCst);
}

/// Does nothing.
#[inline]
pub(crate) fn prefetch(_address: *const u8) {}
