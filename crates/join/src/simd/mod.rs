//! Kernels: the inner loops that use instructions beyond plain Rust, chosen at run time.
//!
//! | file | loop |
//! |---|---|
//! | `scatter` | tuples to partitions, through write-combining buffers of one line each |
//! | `probe` | lookups of several slots (linear probing) or several tuples (a slot for each key) |
//! | `sorted` | merge joins of sorted tuples, and compaction of arrays with free places |
//! | `network` | sorting and merging networks over vectors of four tuples |
//!
//! An `Isa` exists only for instructions that the processor reports, so the functions of this
//! folder are safe to call with any `Isa`. All variants of a loop give the same result; tests
//! compare them.
#![allow(
    unsafe_code,
    reason = "the kernels of this room: vector instructions, and loops without bounds checks"
)]

mod network;
mod probe;
mod scatter;
mod sorted;

pub(crate) use network::{SMALL_RUN, merge, sort_small_runs};
pub(crate) use probe::{probe_array, probe_direct, probe_linear};
pub(crate) use scatter::{Region, Staged, Staging, Stores};
pub(crate) use sorted::{compact, join_vectors};

use crate::error::{JoinError, Result};
use crate::options::Kernel;

/// Instructions that may be used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Isa(Level);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The instructions of a kernel; [`JoinError::UnsupportedKernel`] if this processor lacks them.
    pub(crate) fn detect(kernel: Kernel) -> Result<Self> {
        let unsupported = || JoinError::UnsupportedKernel {
            kernel: kernel.name(),
        };
        match kernel {
            Kernel::Auto => Ok(Self::avx512().or(Self::avx2()).unwrap_or(Self::portable())),
            Kernel::Avx512 => Self::avx512().ok_or_else(unsupported),
            Kernel::Avx2 => Self::avx2().ok_or_else(unsupported),
            Kernel::Portable => Ok(Self::portable()),
        }
    }

    pub(crate) fn portable() -> Self {
        Self(Level::Portable)
    }

    #[cfg(target_arch = "x86_64")]
    fn avx2() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(Level::Avx2))
    }

    #[cfg(target_arch = "x86_64")]
    fn avx512() -> Option<Self> {
        let found = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl");
        found.then_some(Self(Level::Avx512))
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn avx2() -> Option<Self> {
        None
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn avx512() -> Option<Self> {
        None
    }

    /// Whether eight tuples can be looked up at once, each in a place of its own.
    pub(crate) fn gathers(self) -> bool {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => true,
            _ => false,
        }
    }

    /// The kernel's name.
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            Level::Portable => Kernel::Portable.name(),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => Kernel::Avx2.name(),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => Kernel::Avx512.name(),
        }
    }
}

/// Asks for the line of `slice[index]`; any index is allowed.
#[inline(always)]
pub(crate) fn prefetch<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = slice.as_ptr().wrapping_add(index);
        // SAFETY: a prefetch reads nothing that the program sees, and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, index);
}

/// The kernels of this processor, for tests that compare them; the others are named once.
#[cfg(test)]
pub(crate) fn kernels() -> Vec<Isa> {
    static FOUND: std::sync::OnceLock<Vec<Isa>> = std::sync::OnceLock::new();
    let detect = |kernel| {
        let isa = Isa::detect(kernel);
        isa.inspect_err(|error| eprintln!("not tested: {error}"))
            .ok()
    };
    FOUND
        .get_or_init(|| Kernel::ALL.into_iter().filter_map(detect).collect())
        .clone()
}
