//! Buffers of one size in ordinary memory, side by side.
//!
//! They are on huge pages where the system has them, and at addresses that are known in advance, so
//! their first lines can be prefetched while the caller waits for something else. Nothing in them
//! is durable.

use crate::device::{LINE_BYTES, Memory, NativeMemory, PageSize, View, arch};
use crate::error::{PmemError, Result};
use crate::pages::{Page, PageMemory};

/// Beyond this no processor has addresses.
const BYTES_MAX: u64 = 1 << 56;

/// Where the buffers of one memory lie.
pub struct Buffers {
    view: View,
    bytes_each: usize,
}

/// One buffer, zeros at first. It stays mapped while it is owned.
pub struct Buffer(Page);

impl Buffers {
    /// `count` buffers of `bytes_each`. Memory is taken when it is touched.
    ///
    /// # Errors
    /// There are not enough addresses.
    ///
    /// # Panics
    /// If `bytes_each` is no multiple of a line.
    pub fn new(bytes_each: usize, count: usize) -> Result<(Self, Vec<Buffer>)> {
        let (each, count) = (bytes_each as u64, count as u64);
        let bytes = each.checked_mul(count).filter(|&bytes| bytes <= BYTES_MAX);
        let bytes = bytes.ok_or_else(|| PmemError::OutOfSpace {
            wanted_bytes: each.saturating_mul(count),
            limit: format!("buffers have at most {BYTES_MAX} bytes together"),
        })?;
        let memory = NativeMemory::volatile_fixed(bytes, PageSize::Huge)?;
        let view = memory.view()?;
        let pages = PageMemory::new(memory, 0, each).take(count)?;
        let buffers = Self { view, bytes_each };
        Ok((buffers, pages.into_iter().map(Buffer).collect()))
    }

    /// Asks for the first lines of a buffer ahead of their use. Any number is allowed.
    #[inline]
    pub fn prefetch(&self, number: usize, lines: usize) {
        let first = number.saturating_mul(self.bytes_each);
        if first < self.view.bytes() as usize {
            let start = self.view.base().as_ptr().wrapping_add(first);
            for line in 0..lines {
                arch::prefetch(start.wrapping_add(line * LINE_BYTES as usize));
            }
        }
    }
}

impl Buffer {
    /// The buffer.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// Asks for the lines of a range ahead of its use. Any range is allowed.
    #[inline]
    pub fn prefetch(&self, first: usize, bytes: usize) {
        let end = first.saturating_add(bytes).min(self.bytes().len());
        let start = self.bytes().as_ptr();
        for at in (first..end).step_by(LINE_BYTES as usize) {
            arch::prefetch(start.wrapping_add(at));
        }
    }

    /// The buffer, to change it.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.volatile_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::Buffers;

    #[test]
    fn buffers_are_apart_and_outlive_what_says_where_they_are() {
        let (places, mut buffers) = Buffers::new(128, 3).unwrap();
        assert_eq!(buffers.len(), 3);
        for (number, buffer) in buffers.iter_mut().enumerate() {
            assert_eq!(buffer.bytes(), [0; 128]);
            buffer.bytes_mut().fill(number as u8 + 1);
            places.prefetch(number, 2);
            buffer.prefetch(64, usize::MAX);
        }
        places.prefetch(usize::MAX, 1);
        drop(places);
        let last = buffers.pop().unwrap();
        drop(buffers);
        assert_eq!(last.bytes(), [3; 128]);
        assert!(Buffers::new(usize::MAX & !63, 2).is_err());
        assert_eq!(Buffers::new(64, 0).unwrap().1.len(), 0);
    }
}
