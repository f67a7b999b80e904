//! Properties of the simulated medium: which stores need no flush, and the content of new memory.
//!
//! New memory is filled with garbage, so that a test notices where it is read before anything was
//! written there. Everything is a function of a seed, never of chance.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The stores that survive a power cut without a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Nothing surely: a store needs a flush and a fence.
    Default,
    /// Every visible store; streaming stores need the fence. A bulk store does not tear, for it is
    /// visible as a whole at the next crash point; the default profile tries its pieces.
    FlushFree,
}

/// The content of new durable memory.
#[derive(Clone, Debug)]
pub enum Content {
    /// Seeded bytes, no word of which is 0.
    Garbage,
    /// These bytes over and over, as if a used device were reused. A multiple of 8 long, not empty.
    Recycled(Arc<[u8]>),
    /// Zeros: hides reads of memory that nobody wrote, so it is for comparison only.
    Zeros,
}

impl Content {
    /// The word at `offset` of a memory whose garbage has this seed.
    pub(super) fn word(&self, seed: u64, offset: u64) -> u64 {
        match self {
            Self::Garbage => mix(seed.wrapping_add(offset)).max(1),
            Self::Recycled(bytes) => {
                let at = offset as usize % bytes.len();
                let word = bytes
                    .get(at..at + 8)
                    .expect("recycled content is whole words");
                u64::from_le_bytes(word.try_into().expect("8 bytes"))
            }
            Self::Zeros => 0,
        }
    }
}

/// Locks, also after a panic elsewhere: a test that caught it may still want to look.
pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Scatters a number over 64 bits (the finisher of `SplitMix64`): the base of garbage and hashes.
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
