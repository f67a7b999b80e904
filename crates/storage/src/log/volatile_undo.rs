//! The write set of the engines whose tables are in volatile memory: it changes at once and keeps
//! before images in DRAM.
//!
//! Nothing here survives a restart, so nothing is flushed and nothing is deferred: a write is
//! visible when it returns. An abort, or the rollback of one statement, copies the before images
//! back, newest first. That covers tables, indexes and heap bitmaps alike, because all of them
//! change through the write set.
//!
//! Invariants: every published byte that the open transaction changed has its oldest value in
//! `before`, unless nothing is kept ([`Keep::Nothing`], for replay, where a failure throws the
//! whole arena away). Unpublished bytes have none, so slots that the transaction retired must not
//! be staged over before it ends.

use super::{WriteSet, clear};
use crate::error::Result;
use pmem::{Arena, Memory, WordChange};
use std::collections::HashMap;

/// Information that a write set keeps about its changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The before images, which an abort needs.
    BeforeImages,
    /// Nothing: the transaction cannot be aborted.
    Nothing,
}

/// A savepoint, for the rollback of one statement.
#[derive(Clone, Copy, Debug)]
pub struct VolatileSavepoint {
    changes: usize,
}

/// One change; its before image begins at `data` in `before`.
#[derive(Clone, Copy, Debug)]
struct Change {
    offset: u64,
    data: usize,
}

/// Bytes that an entry of the table of retired slots takes, at most about.
const RETIRED_BYTES: usize = 36;
/// Entries whose room the next transaction gets.
const RETIRED_KEPT: usize = 1 << 14;

/// The before images of one transaction.
#[derive(Debug)]
pub struct VolatileUndo {
    keep: Keep,
    changes: Vec<Change>,
    before: Vec<u8>,
    retired: HashMap<u64, u64>,
}

impl VolatileUndo {
    /// An empty write set.
    pub fn new(keep: Keep) -> Self {
        Self {
            keep,
            changes: Vec::new(),
            before: Vec::new(),
            retired: HashMap::new(),
        }
    }

    /// The current savepoint, for [`VolatileUndo::rollback_to`].
    pub fn savepoint(&self) -> VolatileSavepoint {
        VolatileSavepoint {
            changes: self.changes.len(),
        }
    }

    /// Undoes what was written since `savepoint`. The transaction goes on.
    pub fn rollback_to<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        savepoint: VolatileSavepoint,
    ) -> Result<()> {
        assert!(
            savepoint.changes <= self.changes.len(),
            "a savepoint is of another transaction"
        );
        while self.changes.len() > savepoint.changes {
            let Some(change) = self.changes.pop() else {
                break;
            };
            arena.store(change.offset, &self.before[change.data..])?;
            self.before.truncate(change.data);
        }
        Ok(())
    }

    /// Undoes the transaction. The caller settles the heap afterwards.
    pub fn abort<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        self.rollback_to(arena, VolatileSavepoint { changes: 0 })?;
        debug_assert!(
            self.before.is_empty(),
            "a before image belongs to no change"
        );
        self.commit();
        Ok(())
    }

    /// Bytes that the transaction holds.
    pub fn bytes(&self) -> usize {
        self.before.len()
            + self.changes.len() * size_of::<Change>()
            + self.retired.len() * RETIRED_BYTES
    }

    /// Forgets the before images. The caller settles the heap afterwards.
    pub fn commit(&mut self) {
        clear(&mut self.changes);
        clear(&mut self.before);
        if !self.retired.is_empty() {
            self.retired.clear();
            self.retired.shrink_to(RETIRED_KEPT);
        }
    }

    fn remember<M: Memory>(&mut self, arena: &Arena<M>, offset: u64, bytes: usize) -> Result<()> {
        if self.keep == Keep::BeforeImages {
            let data = self.before.len();
            self.before.extend_from_slice(arena.bytes(offset, bytes)?);
            self.changes.push(Change { offset, data });
        }
        Ok(())
    }
}

impl<M: Memory> WriteSet<M> for VolatileUndo {
    #[inline]
    fn write(&mut self, arena: &mut Arena<M>, offset: u64, bytes: &[u8]) -> Result<()> {
        self.remember(arena, offset, bytes.len())?;
        arena.store(offset, bytes)?;
        Ok(())
    }

    #[inline]
    fn change(&mut self, arena: &mut Arena<M>, change: WordChange) -> Result<()> {
        self.remember(arena, change.offset, 8)?;
        let word = arena.word(change.offset)? & !change.clear | change.set;
        arena.store_word(change.offset, word)?;
        Ok(())
    }

    #[inline]
    fn stage(&mut self, arena: &mut Arena<M>, offset: u64, bytes: &[u8]) -> Result<()> {
        arena.store(offset, bytes)?;
        Ok(())
    }

    #[inline]
    fn overwrites(&self, _bytes: usize) -> bool {
        true
    }

    #[inline]
    fn touch(&mut self, _offset: u64) {}

    #[inline]
    fn visible(&mut self, _arena: &mut Arena<M>, _offset: u64) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn visible_all(&mut self, _arena: &mut Arena<M>) -> Result<()> {
        Ok(())
    }

    fn retire(&mut self, word: u64, bits: u64) {
        *self.retired.entry(word).or_default() |= bits;
    }

    fn retired(&self, word: u64) -> u64 {
        if self.retired.is_empty() {
            0
        } else {
            self.retired.get(&word).copied().unwrap_or(0)
        }
    }
}
