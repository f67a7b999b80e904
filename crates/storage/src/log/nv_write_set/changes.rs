//! The write set of the NVM-aware log as structures see it: what they reserve, stage and change.
//!
//! Nothing here is a commit point: a change waits in DRAM, or is drained to the log.

use super::{
    CHANGE_BYTES_MAX, Change, DRAIN_BYTES, DRAIN_CHANGES, NvWriteSet, OVERWRITE_ROOM_BYTES,
};
use super::{PREPARED, UNDO_BYTES_MAX};
use crate::error::{Result, StorageError};
use crate::log::WriteSet;
use crate::log::nv_write_set::region::SLOT_BYTES;
use crate::vocabulary::FenceOrder;
use pmem::{Arena, ClassId, Memory, Owner, PmemError, WordChange};

impl<M: Memory> WriteSet<M> for NvWriteSet {
    fn reserve(
        &mut self,
        arena: &mut Arena<M>,
        bytes: usize,
        owner: Owner,
    ) -> Result<u64, PmemError> {
        arena.reserve_after(bytes, owner, |arena| self.end_replay(arena))
    }

    fn reserve_class(&mut self, arena: &mut Arena<M>, class: ClassId) -> Result<u64, PmemError> {
        arena.reserve_class_after(class, |arena| self.end_replay(arena))
    }

    fn write(&mut self, arena: &mut Arena<M>, offset: u64, bytes: &[u8]) -> Result<()> {
        debug_assert!(!self.prepared, "{PREPARED}");
        if self.before_bytes.len() + self.pending_bytes.len() + bytes.len() > UNDO_BYTES_MAX {
            let text = "the transaction changes more than 4 GiB; split it".to_owned();
            return Err(StorageError::Unsupported(text));
        }
        for (index, piece) in bytes.chunks(CHANGE_BYTES_MAX).enumerate() {
            let data = self.pending_bytes.len() as u32;
            let offset = offset + (index * CHANGE_BYTES_MAX) as u64;
            self.pending_lines.add(offset, piece.len());
            self.pending_bytes.extend_from_slice(piece);
            self.changes.push(Change {
                offset,
                bytes: piece.len() as u32,
                data,
            });
        }
        if self.pending_bytes.len() > DRAIN_BYTES
            || self.changes.len() - self.applied > DRAIN_CHANGES
        {
            // Forgets the touched ranges. A structure is touched after its last write, so nothing
            // is lost.
            self.drain(arena)?;
        }
        Ok(())
    }

    fn change(&mut self, arena: &mut Arena<M>, change: WordChange) -> Result<()> {
        let old = match WriteSet::<M>::pending_word(self, change.offset) {
            Some(word) => word,
            None => arena.word(change.offset)?,
        };
        let new = old & !change.clear | change.set;
        self.staged.allocation(change);
        WriteSet::<M>::begin_step(self);
        self.write(arena, change.offset, &new.to_le_bytes())?;
        WriteSet::<M>::begin_step(self);
        Ok(())
    }

    #[inline]
    fn begin_step(&mut self) {
        if self.list.is_some() {
            self.steps.push(self.changes.len());
        }
    }

    fn stage(&mut self, arena: &mut Arena<M>, offset: u64, bytes: &[u8]) -> Result<()> {
        self.staged.add_open();
        self.store_staged(arena, offset, bytes)
    }

    fn stage_final(&mut self, arena: &mut Arena<M>, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.order == FenceOrder::Single && !self.logged {
            self.staged.add_final(offset, bytes);
        } else {
            self.staged.add_open();
        }
        self.store_staged(arena, offset, bytes)
    }

    /// Only where the whole transaction then still commits by one record. The two other orders are
    /// for comparison with the paper.
    fn overwrites(&self, bytes: usize) -> bool {
        self.order == FenceOrder::Single
            && !self.logged
            && self.record_bytes_max() + bytes <= SLOT_BYTES - OVERWRITE_ROOM_BYTES
    }

    fn touch(&mut self, offset: u64) {
        self.touched.push(offset);
    }

    #[inline]
    fn is_touched(&self, offset: u64) -> bool {
        self.touched.contains(&offset)
    }

    #[inline]
    fn pending_word(&self, offset: u64) -> Option<u64> {
        debug_assert!(offset.is_multiple_of(8), "a word is aligned");
        if !self.pending_lines.may_have(offset) {
            return None;
        }
        let pending = self.changes[self.applied..].iter().rev();
        let mut holders = pending.filter(|change| {
            change.offset <= offset && offset + 8 <= change.offset + u64::from(change.bytes)
        });
        let change = holders.next()?;
        let at = (u64::from(change.data) + offset - change.offset) as usize;
        let bytes = self.pending_bytes.get(at..at + 8)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }

    fn visible(&mut self, arena: &mut Arena<M>, offset: u64) -> Result<()> {
        if self.touched.contains(&offset) {
            self.drain(arena)?;
        }
        Ok(())
    }

    fn visible_all(&mut self, arena: &mut Arena<M>) -> Result<()> {
        self.drain(arena)
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
