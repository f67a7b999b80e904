//! Write-back, streaming and fences of x86-64.
//!
//! The choice follows CPUID only, so that a processor or a translator (valgrind, an old hypervisor)
//! without an instruction never meets it. Write-backs and streaming stores are ordered by
//! `store_fence` alone: `clwb` and `clflushopt` are asynchronous, and `clflush`, which happens to
//! be ordered, is treated no better.

use super::DIRECT_BYTES;
use std::arch::asm;
use std::arch::x86_64::{
    __cpuid, __cpuid_count, __m256i, _MM_HINT_T0, _mm_prefetch, _mm_sfence, _mm256_loadu_si256,
    _mm256_stream_si256,
};
use std::sync::atomic::{Ordering, compiler_fence};

/// Leaf 7 EBX: the processor has `clflushopt`.
const LEAF_7_EBX_CLFLUSHOPT: u32 = 1 << 23;
/// Leaf 7 EBX: the processor has `clwb`.
const LEAF_7_EBX_CLWB: u32 = 1 << 24;
/// Leaf 7 ECX: the processor has `movdir64b`.
const LEAF_7_ECX_MOVDIR64B: u32 = 1 << 28;
/// Bytes of one AVX streaming store.
const WIDE_BYTES: usize = 32;
/// Lines from which on `clflush`, which does one after the other, takes longer than streaming them.
const SERIAL_LINES: u64 = 4;
/// Bytes of one `movnti`.
const WORD_BYTES: usize = 8;

/// Whether the `flush` domain can be given on this architecture.
pub(crate) const WRITES_BACK: bool = true;

/// The instructions that this processor has, found once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instructions {
    write_back: WriteBack,
    wide_streams: bool,
    direct_lines: bool,
}

/// How a line is written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteBack {
    /// Keeps the line in the cache.
    Clwb,
    /// Drops the line: the next access misses.
    ClflushOpt,
    /// Drops the line, and one after the other: ruinous for long ranges.
    Clflush,
}

impl Instructions {
    /// Asks the processor.
    pub(crate) fn detect() -> Self {
        let (ebx, ecx) = if __cpuid(0).eax >= 7 {
            let leaf = __cpuid_count(7, 0);
            (leaf.ebx, leaf.ecx)
        } else {
            (0, 0)
        };
        let write_back = if ebx & LEAF_7_EBX_CLWB != 0 {
            WriteBack::Clwb
        } else if ebx & LEAF_7_EBX_CLFLUSHOPT != 0 {
            WriteBack::ClflushOpt
        } else {
            WriteBack::Clflush
        };
        Self {
            write_back,
            wide_streams: std::arch::is_x86_feature_detected!("avx"),
            direct_lines: ecx & LEAF_7_ECX_MOVDIR64B != 0,
        }
    }

    /// All choices that this processor can execute, the best one first: tests run each.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        let best = Self::detect();
        let mut all = vec![best];
        all.push(Self {
            wide_streams: false,
            direct_lines: false,
            ..best
        });
        all.push(Self {
            write_back: WriteBack::Clflush,
            direct_lines: false,
            ..best
        });
        if best.write_back == WriteBack::Clwb {
            all.push(Self {
                write_back: WriteBack::ClflushOpt,
                ..best
            });
        }
        all
    }

    /// The names of write-back, fence and streaming store.
    pub(crate) fn names(self) -> [&'static str; 3] {
        let write_back = match self.write_back {
            WriteBack::Clwb => "clwb",
            WriteBack::ClflushOpt => "clflushopt",
            WriteBack::Clflush => "clflush",
        };
        [
            write_back,
            "sfence",
            if self.wide_streams {
                "vmovntdq"
            } else {
                "movnti"
            },
        ]
    }

    /// The name of the 64-byte direct store, if there is one.
    pub(crate) fn direct_line_name(self) -> Option<&'static str> {
        self.direct_lines.then_some("movdir64b")
    }

    /// Whether this many lines in a row are better streamed in place than written back one by one.
    #[inline]
    pub(crate) fn rewrites(self, lines: u64) -> bool {
        self.write_back == WriteBack::Clflush && lines >= SERIAL_LINES
    }

    /// Starts the write-back of one line.
    ///
    /// # Safety
    /// `line` must point into a mapped page.
    #[inline]
    pub(crate) unsafe fn write_back(self, line: *const u8) {
        match self.write_back {
            // SAFETY: CPUID has the instruction; it changes no register, no flag and no value in
            // memory.
            WriteBack::Clwb => unsafe {
                asm!("clwb [{0}]", in(reg) line, options(nostack, preserves_flags));
            },
            // SAFETY: as above.
            WriteBack::ClflushOpt => unsafe {
                asm!("clflushopt [{0}]", in(reg) line, options(nostack, preserves_flags));
            },
            // SAFETY: every x86-64 processor has it; otherwise as above.
            WriteBack::Clflush => unsafe {
                asm!("clflush [{0}]", in(reg) line, options(nostack, preserves_flags));
            },
        }
    }

    /// Stores around the cache.
    ///
    /// # Safety
    /// `target..target + data.len()` must be mapped, writable and disjoint from `data`; `target`
    /// and the length must be multiples of 8.
    #[inline]
    pub(crate) unsafe fn stream(self, target: *mut u8, data: &[u8]) {
        if self.wide_streams && data.len() >= WIDE_BYTES {
            // SAFETY: CPUID has AVX; the rest is the caller's promise.
            unsafe { stream_wide(target, data) }
        } else {
            // SAFETY: the caller's promise.
            unsafe { stream_words(target, data) }
        }
    }

    /// Stores one line around the cache, in one transfer where the processor can.
    ///
    /// # Safety
    /// `target` must be a multiple of 64 and point to 64 mapped, writable bytes outside `line`.
    #[inline]
    pub(crate) unsafe fn store_line(self, target: *mut u8, line: &[u8; DIRECT_BYTES]) {
        if self.direct_lines {
            // SAFETY: CPUID has the instruction; the caller promises an aligned and writable
            // target.
            unsafe {
                asm!("movdir64b {0}, [{1}]", in(reg) target, in(reg) line.as_ptr(),
                    options(nostack, preserves_flags));
            }
        } else {
            // SAFETY: the caller's promise covers that of `stream`.
            unsafe { self.stream(target, line) }
        }
    }
}

/// Waits until this thread's write-backs and streaming stores are in the persistence domain.
#[inline]
pub(crate) fn store_fence() {
    compiler_fence(Ordering::SeqCst);
    // SAFETY: SSE is part of x86-64.
    unsafe { _mm_sfence() }
    compiler_fence(Ordering::SeqCst);
}

/// Keeps two stores to one line in program order on their way to the medium: the processor does by
/// itself.
#[inline]
pub(crate) fn order_words() {
    compiler_fence(Ordering::SeqCst);
}

/// Prefetches the line of `address`. Any address may be given: a prefetch never faults.
#[inline]
pub(crate) fn prefetch(address: *const u8) {
    // SAFETY: SSE is part of x86-64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

/// Streams word by word.
///
/// # Safety
/// As for [`Instructions::stream`].
#[inline]
unsafe fn stream_words(target: *mut u8, data: &[u8]) {
    for (index, word) in data.as_chunks::<WORD_BYTES>().0.iter().enumerate() {
        let value = u64::from_ne_bytes(*word);
        let address = target.wrapping_add(index * WORD_BYTES);
        // SAFETY: the word lies in the caller's range, which is aligned and writable.
        unsafe {
            asm!("movnti [{0}], {1}", in(reg) address, in(reg) value,
                options(nostack, preserves_flags));
        }
    }
}

/// Streams 32 bytes at a time: words up to the first multiple of 32, whole blocks, and the rest in
/// words.
///
/// # Safety
/// As for [`Instructions::stream`], and the processor must have AVX.
#[expect(
    clippy::cast_ptr_alignment,
    reason = "the load needs none, and the head aligns the stores"
)]
#[target_feature(enable = "avx")]
unsafe fn stream_wide(target: *mut u8, data: &[u8]) {
    let head_bytes = target.align_offset(WIDE_BYTES).min(data.len());
    let (head, rest) = data.split_at(head_bytes);
    // SAFETY: the head is a part of the caller's range.
    unsafe { stream_words(target, head) };
    let mut address = target.wrapping_add(head_bytes);
    let (blocks, tail) = rest.as_chunks::<WIDE_BYTES>();
    for block in blocks {
        // SAFETY: a block has 32 readable bytes; the load needs no alignment.
        let value = unsafe { _mm256_loadu_si256(block.as_ptr().cast::<__m256i>()) };
        // SAFETY: the address is a multiple of 32 and its block lies in the caller's range.
        unsafe { _mm256_stream_si256(address.cast::<__m256i>(), value) };
        address = address.wrapping_add(WIDE_BYTES);
    }
    // SAFETY: the tail is a part of the caller's range.
    unsafe { stream_words(address, tail) };
}
