//! Slotted pages in a cache: the stores of a group into frames before the cache logs them.
//!
//! These pages use the frames as their memory. A header is stored in its frame when the group ends;
//! the cache finds the differences from the committed content itself.

use super::super::cached::CachedPages;
use super::super::header::{self, Geometry, after};
use super::{CommitKind, Root, SlottedPages, UNKNOWN};
use pmem::{Arena, Memory, Part};
use storage::Result;

impl<M: Memory> SlottedPages<M> {
    /// The pages of a cache, whose frames are in `arena`.
    pub fn behind(cache: CachedPages, arena: Arena<M>, salt: u32, geometry: Geometry) -> Self {
        let mut pages = Self::new(arena, 0, salt, geometry, CommitKind::Record);
        let root = cache.root();
        pages.roots[0] = Root {
            now: root,
            written: root,
        };
        pages.cache = Some(Box::new(cache));
        pages
    }

    /// More bytes than all pages have.
    pub(in crate::index::slotted) fn bytes_max(&self) -> u64 {
        match &self.cache {
            None => self.arena.pool_bytes(),
            Some(cache) => cache.bytes(),
        }
    }

    /// Stores the headers of the group in the frames of their pages, and what differs there in the
    /// log; durable when it returns.
    pub(super) fn write_differences(&mut self, global: u64) -> Result<()> {
        self.arena.enter(Part::Index);
        for number in 0..self.changed.len() {
            let changed = &self.changed[number];
            if changed.is_dropped {
                continue;
            }
            if changed.is_new {
                self.stage_new_header(number)?;
                continue;
            }
            let (seal, base) = (self.seal.at(changed.page, changed.base), changed.base);
            let (sequence, image) = (after(changed.header.sequence), changed.header.image());
            header::store(&mut self.arena, seal, base, sequence, image)?;
        }
        self.staged.clear();
        let root = self.roots[0].now;
        match &mut self.cache {
            Some(cache) => cache.write(&self.arena, root, global),
            None => Ok(()),
        }
    }

    /// The group is in the log of differences, and committed.
    pub(super) fn finish_differences(&mut self) -> Result<()> {
        let given = self.cache.as_ref().map(|cache| cache.given());
        self.clean();
        for page in given.into_iter().flatten() {
            self.set_state(page, UNKNOWN);
        }
        match &mut self.cache {
            Some(cache) => cache.finish(&self.arena),
            None => Ok(()),
        }
    }

    /// The cache of the pages, if they have one.
    pub fn cache(&mut self) -> Option<&mut CachedPages> {
        self.cache.as_deref_mut()
    }

    /// As [`SlottedPages::cache`], for reading.
    pub fn behind_cache(&self) -> Option<&CachedPages> {
        self.cache.as_deref()
    }

    /// Brings the content of a log home: the pages of a cache, or the changes of the last record.
    pub fn bring_home(&mut self) -> Result<()> {
        match &mut self.cache {
            Some(cache) => cache.checkpoint(&self.arena),
            None => self.settle_record(),
        }
    }
}
