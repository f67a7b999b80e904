//! A second handle of a mapped memory, which reads while another thread owns it.
//!
//! A reader of an older version of copied-on-write data needs bytes that nobody changes any more,
//! while their owner stores elsewhere in the same memory. A [`View`] gives copies of such bytes and
//! never a reference, so nothing changes under a `&T`, whatever the owner does. Invariants:
//!
//! 1. The bytes stay mapped at their address while the view lives, even if the memory is closed:
//!    growth never moves the base, and the view shares the ownership of the range.
//! 2. Words are loaded whole. A reader that reads where the owner stores, which takes a damaged
//!    pointer or a broken rule of the layer above, gets words of two moments. It copies first and
//!    checks the copy, so the worst outcome is a wrong checksum.
//!
//! The layer above promises that a reader finds the bytes of its version: nothing published before
//! the view was taken is stored to until the reader has said that it is done
//! (`serial_engines/src/index/cow/limbo.rs`).

use crate::error::{PmemError, Result};
use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const WORD_BYTES: u64 = size_of::<u64>() as u64;

/// Reads a memory while its owner stores elsewhere in it.
pub struct View {
    base: NonNull<u8>,
    bytes: u64,
    /// Keeps `base..base + bytes` mapped.
    _range: Arc<dyn Any + Send + Sync>,
    /// Called at each read with its offset and its bytes.
    watch: Option<Box<Watch>>,
}

/// Notes a read.
type Watch = dyn Fn(u64, usize) + Send + Sync;

// SAFETY: the address is not tied to a thread, and what it leads to is only loaded, atomically.
unsafe impl Send for View {}
// SAFETY: as above; the view itself never changes.
unsafe impl Sync for View {}

impl View {
    /// A view of `bytes` from `base` on, which is aligned to a word and which `range` keeps mapped.
    pub(super) fn new(base: NonNull<u8>, bytes: u64, range: Arc<dyn Any + Send + Sync>) -> Self {
        debug_assert!((base.addr().get() as u64).is_multiple_of(WORD_BYTES));
        Self {
            base,
            bytes,
            _range: range,
            watch: None,
        }
    }

    /// Calls `watch` with offset and bytes before each read.
    pub(super) fn watched(self, watch: impl Fn(u64, usize) + Send + Sync + 'static) -> Self {
        Self {
            watch: Some(Box::new(watch)),
            ..self
        }
    }

    /// Bytes that can be read: as many as the memory had when the view was taken.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the memory begins.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Fills `out` with the bytes at `offset`; an error if the range leaves the view.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(out.len() as u64);
        if end.is_none_or(|end| end > self.bytes) {
            let text = format!("{} bytes there are outside the pool", out.len());
            return Err(PmemError::corrupted("pointer", offset, text));
        }
        if let Some(watch) = &self.watch {
            watch(offset, out.len());
        }
        let mut at = offset;
        let (head, rest) = out.split_at_mut(unaligned(offset, out.len()));
        at += self.copy_bytes(at, head);
        let (words, tail) = rest.as_chunks_mut::<{ WORD_BYTES as usize }>();
        for word in words {
            *word = self.word(at).to_le_bytes();
            at += WORD_BYTES;
        }
        self.copy_bytes(at, tail);
        Ok(())
    }

    fn copy_bytes(&self, offset: u64, out: &mut [u8]) -> u64 {
        for (at, byte) in (offset..).zip(&mut *out) {
            let address = self.base.as_ptr().wrapping_add(at as usize);
            // SAFETY: `read` has checked that the byte is mapped, and `_range` keeps it so.
            let shared = unsafe { AtomicU8::from_ptr(address) };
            *byte = shared.load(Ordering::Relaxed);
        }
        out.len() as u64
    }

    #[inline]
    fn word(&self, offset: u64) -> u64 {
        let address = self.base.as_ptr().wrapping_add(offset as usize).cast();
        // SAFETY: `read` has checked that the word is mapped, and `_range` keeps it so; `read`
        // skips to the first aligned word.
        let shared = unsafe { AtomicU64::from_ptr(address) };
        shared.load(Ordering::Relaxed)
    }
}

/// How many of `bytes` lie before the first whole word.
fn unaligned(offset: u64, bytes: usize) -> usize {
    let before = offset.wrapping_neg() % WORD_BYTES;
    bytes.min(before as usize)
}

#[cfg(test)]
mod tests {
    use crate::device::{Memory, NativeMemory, PageSize};

    #[test]
    fn any_range_is_read_and_no_other() {
        let mut memory = NativeMemory::volatile(8192, PageSize::Base).unwrap();
        let content: Vec<u8> = (0..64).collect();
        memory.store(100, &content);
        let view = memory.view().unwrap();
        for start in 0..20 {
            for bytes in 0..40 {
                let mut out = vec![0xee; bytes];
                view.read(100 + start as u64, &mut out).unwrap();
                assert_eq!(out, content[start..start + bytes]);
            }
        }
        let mut word = [0; 8];
        assert!(view.read(view.bytes() - 8, &mut word).is_ok());
        assert!(view.read(view.bytes() - 7, &mut word).is_err());
        assert!(view.read(u64::MAX - 3, &mut word).is_err());
    }

    #[test]
    fn it_outlives_the_memory_and_its_growth() {
        let mut memory = NativeMemory::volatile(8192, PageSize::Base).unwrap();
        memory.store_word(4096, 7);
        let view = memory.view().unwrap();
        memory.grow(1 << 20).unwrap();
        drop(memory);
        let mut word = [0; 8];
        view.read(4096, &mut word).unwrap();
        assert_eq!(u64::from_le_bytes(word), 7);
    }
}
