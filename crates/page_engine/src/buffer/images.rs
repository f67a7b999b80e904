//! Counts of the log's bytes that are images of pages: they count less than records for the next
//! checkpoint.
//!
//! A checkpoint bounds the redo of an opening. An image adds little to that: the page is written,
//! as for its changes alone, but not read. So with images checkpoints may be further apart in
//! bytes; and they should be, since after each one every page is logged whole again when it first
//! changes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// An image counts as one byte for this many of its bytes: repeating it takes as long as records
/// that are that much shorter, so a log of images alone gets that many times as long as one of
/// records.
const SHARE: u64 = 8;

/// Bytes of images in the log since the opening.
#[derive(Default)]
pub struct Images {
    logged: AtomicU64,
    /// How many there were when the newest checkpoint began, and when the newest one did that has
    /// ended.
    newest: AtomicU64,
    ended: AtomicU64,
    /// Whether the log has some of an earlier process, which were not counted.
    has_uncounted: AtomicBool,
}

impl Images {
    /// Notes that `bytes` bytes were logged.
    #[inline]
    pub fn add(&self, bytes: usize) {
        if bytes > 0 {
            self.logged.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Notes whether the opening has found a log with images, until a checkpoint has ended.
    pub fn find(&self, has_some: bool) {
        self.has_uncounted.store(has_some, Ordering::Relaxed);
    }

    /// Notes that a checkpoint has begun.
    pub fn begin_checkpoint(&self) {
        let logged = self.logged.load(Ordering::Relaxed);
        self.newest.store(logged, Ordering::Relaxed);
    }

    /// Notes that it has ended.
    pub fn end_checkpoint(&self) {
        let newest = self.newest.load(Ordering::Relaxed);
        self.ended.store(newest, Ordering::Relaxed);
        self.has_uncounted.store(false, Ordering::Relaxed);
    }

    /// Bytes since the newest checkpoint that do not count.
    pub fn free_since_newest(&self) -> u64 {
        self.free_since(&self.newest)
    }

    /// The same since the newest checkpoint that has ended; any number if that is not known.
    pub fn free_since_ended(&self) -> u64 {
        if self.has_uncounted.load(Ordering::Relaxed) {
            return u64::MAX;
        }
        self.free_since(&self.ended)
    }

    fn free_since(&self, place: &AtomicU64) -> u64 {
        let since = place.load(Ordering::Relaxed);
        let bytes = self.logged.load(Ordering::Relaxed).saturating_sub(since);
        bytes - bytes / SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_count_from_checkpoint_to_checkpoint() {
        let images = Images::default();
        images.find(true);
        assert_eq!(images.free_since_ended(), u64::MAX);
        images.end_checkpoint();
        images.add(8000);
        assert_eq!(images.free_since_newest(), 7000);
        images.begin_checkpoint();
        images.add(800);
        assert_eq!(images.free_since_newest(), 700);
        assert_eq!(images.free_since_ended(), 7700);
        images.end_checkpoint();
        assert_eq!(images.free_since_ended(), 700);
    }
}
