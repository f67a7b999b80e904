//! The few instructions that a persistent memory needs, one file an architecture.
//!
//! Each file gives the same [`Instructions`]: a choice made once, by asking the processor, and then
//! passed around by value; `store_fence` and `order_words` need no choice. Nothing here knows about
//! pools or offsets: pointers come in checked.
//!
//! | file | write-back | fence | streaming |
//! |---|---|---|---|
//! | `x86_64.rs` | `clwb`, else `clflushopt`, else `clflush` | `sfence` | `movnti`, AVX, direct |
//! | `aarch64.rs` | `dc cvap`, else `dc cvac` | `dsb sy` | copy and write-back |
//! | `portable.rs` | none | compiler order only | copy |

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{Instructions, WRITES_BACK, order_words, prefetch, store_fence};
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
pub(crate) use portable::{Instructions, WRITES_BACK, order_words, prefetch, store_fence};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{Instructions, WRITES_BACK, order_words, prefetch, store_fence};

/// Bytes of a direct line store.
pub(crate) const DIRECT_BYTES: usize = 64;
