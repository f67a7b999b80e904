//! Byte-addressable durable memory, safely.
//!
//! This is the only room that may use `unsafe`. Everything above reads pool bytes through
//! [`Arena`], which checks range and alignment of every offset, and changes them only through the
//! stores, flushes and fences of a [`Memory`]. There is never a `&mut T` into a pool, so the borrow
//! checker sees every alias and the device sees every store.
//!
//! | module | job |
//! |---|---|
//! | [`device`] | the [`Memory`] trait and its native, emulated and simulated variants |
//! | `pool` | the pool's header: identity, size, named roots |
//! | `heap` | which blocks are free; reserve, activate, free |
//! | `arena`, `cell` | a pool and its heap, owned by one thread; how its bytes change |
//! | `ptr`, `plain` | persistent pointers, and types that may lie in a pool |
//! | `extent` | a memory as plain bytes with one owner, without a heap |
//! | `flusher` | write-backs of another thread's stores |
//! | `pages` | a memory in pages, each with its own owner |
//! | `buffers` | ordinary memory on huge pages, for the frames of a buffer pool |
//! | `process` | whether this is still the process that made something, or a forked child |
#![allow(
    unsafe_code,
    reason = "this room is the unsafe boundary of the workspace"
)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("pool offsets are 64 bits wide; 32-bit hosts are not supported");
#[cfg(not(target_endian = "little"))]
compile_error!("the medium is little-endian; big-endian hosts are not supported");

mod arena;
mod buffers;
mod cell;
pub mod device;
mod error;
mod extent;
mod flusher;
mod heap;
mod pages;
mod plain;
mod pool;
mod process;
mod ptr;

pub use arena::{Arena, Window};
pub use buffers::{Buffer, Buffers};
pub use device::{
    Access, Counters, Domain, Memory, MemorySource, Part, PartCounters, PowerFailAtomicity,
    Primitive, Site,
};
pub use device::{
    Costs, DeviceReport, Either, Medium, NativeMemory, NativeOptions, NativeSource, PageSize, View,
};
pub use error::{PmemError, Result};
pub use extent::Extent;
pub use flusher::Flusher;
pub use heap::{
    BLOCK_BYTES_MAX, Block, BlockInfo, BlockState, ClassId, EXTENT_BYTES_MAX, Fate, Footprint,
    block_bytes,
};
pub use heap::{BlockNumbers, HeapSavepoint, Outcome, Owner, WordChange};
pub use pages::{Page, PageHandle, PageMemory};
pub use plain::Plain;
pub use pool::{
    OWNER_WORD_AT, POOL_BYTES_MIN, POOL_FORMAT, POOL_FORMAT_MAX, PoolId, PoolIdentity, PoolKind,
    RootIndex,
};
pub use process::{ProcessStamp, run_forked};
pub use ptr::NvPtr;
