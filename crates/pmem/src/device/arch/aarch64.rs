//! Write-back, streaming and fences of 64-bit Arm.
//!
//! `dc cvap` cleans a line to the point of persistence; where the kernel does not report it (HWCAP
//! `dcpop`), `dc cvac` cleans to the point of coherency, which is the medium on such machines.
//! There is no streaming store that bypasses the cache for certain, so a stream is a copy followed
//! by write-backs.

use super::DIRECT_BYTES;
use std::arch::asm;

/// HWCAP bit `dcpop`: the processor has `dc cvap` and the kernel lets programs use it.
const HWCAP_DCPOP: usize = 1 << 16;
/// Bytes between two write-backs. No Arm server has shorter lines.
const STEP_BYTES: usize = 64;

/// Whether the `flush` domain can be given on this architecture.
pub(crate) const WRITES_BACK: bool = true;

/// The instructions that this processor has, found once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instructions {
    to_persistence: bool,
}

impl Instructions {
    /// Asks the kernel.
    pub(crate) fn detect() -> Self {
        let (hwcap, _) = rustix::param::linux_hwcap();
        Self {
            to_persistence: hwcap & HWCAP_DCPOP != 0,
        }
    }

    /// All choices that this processor can execute.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        vec![
            Self::detect(),
            Self {
                to_persistence: false,
            },
        ]
    }

    /// The names of write-back, fence and streaming store.
    pub(crate) fn names(self) -> [&'static str; 3] {
        [
            if self.to_persistence {
                "dc cvap"
            } else {
                "dc cvac"
            },
            "dsb sy",
            "copy and write-back",
        ]
    }

    /// Arm's `st64b` is for devices, not for memory.
    #[expect(clippy::unused_self, reason = "the interface of the sibling files")]
    pub(crate) fn direct_line_name(self) -> Option<&'static str> {
        None
    }

    /// Write-backs of many lines overlap.
    #[inline]
    pub(crate) fn rewrites(self, _lines: u64) -> bool {
        false
    }

    /// Starts the write-back of one line.
    ///
    /// # Safety
    /// `line` must point into a mapped page.
    #[inline]
    pub(crate) unsafe fn write_back(self, line: *const u8) {
        if self.to_persistence {
            // SAFETY: `dc cvap, x`, written as `sys` because assemblers know the name only for
            // Armv8.2; it changes no value in memory.
            unsafe {
                asm!("sys #3, c7, c12, #1, {0}", in(reg) line, options(nostack, preserves_flags));
            }
        } else {
            // SAFETY: programs may clean lines of mapped pages; no value in memory changes.
            unsafe { asm!("dc cvac, {0}", in(reg) line, options(nostack, preserves_flags)) }
        }
    }

    /// Copies and starts the write-back of every line touched.
    ///
    /// # Safety
    /// `target..target + data.len()` must be mapped, writable and disjoint from `data`; `target`
    /// and the length must be multiples of 8.
    #[inline]
    pub(crate) unsafe fn stream(self, target: *mut u8, data: &[u8]) {
        // SAFETY: the caller promises a writable range outside `data`.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), target, data.len()) };
        let head = target.addr() % STEP_BYTES;
        let first = target.wrapping_sub(head);
        for step in (0..head + data.len()).step_by(STEP_BYTES) {
            // SAFETY: the line overlaps the caller's mapped range.
            unsafe { self.write_back(first.wrapping_add(step)) };
        }
    }

    /// Stores one line and starts its write-back.
    ///
    /// # Safety
    /// `target` must be a multiple of 64 and point to 64 mapped, writable bytes outside `line`.
    #[inline]
    pub(crate) unsafe fn store_line(self, target: *mut u8, line: &[u8; DIRECT_BYTES]) {
        // SAFETY: the caller's promise covers that of `stream`.
        unsafe { self.stream(target, line) }
    }
}

/// Waits until this thread's write-backs are in the persistence domain.
#[inline]
pub(crate) fn store_fence() {
    // SAFETY: a barrier changes no register and no value in memory.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) }
}

/// Keeps two stores to one line in program order on their way to the medium.
#[inline]
pub(crate) fn order_words() {
    // SAFETY: a barrier changes no register and no value in memory.
    unsafe { asm!("dmb ishst", options(nostack, preserves_flags)) }
}

/// Prefetches the line of `address`. Any address may be given: a prefetch never faults.
#[inline]
pub(crate) fn prefetch(address: *const u8) {
    // SAFETY: a hint changes no register and no value in memory.
    unsafe {
        asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
}
