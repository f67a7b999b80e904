//! Allocations of many blocks: the changes of one word of the heap reach the write set as one.
//!
//! Blocks that are reserved one after the other lie side by side most often, so 64 of them have
//! their bits in one word.

use pmem::{Arena, Memory, WordChange};
use storage::Result;
use storage::log::WriteSet;

/// Changes of one word that the write set does not have yet.
#[derive(Default)]
pub(crate) struct Allocations {
    open: Option<WordChange>,
}

impl Allocations {
    /// Adds the change by which a block that is reserved becomes allocated.
    pub(crate) fn activate<M: Memory, W: WriteSet<M>>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        block: u64,
    ) -> Result<()> {
        let change = arena.activate(block)?;
        if let Some(open) = &mut self.open
            && open.offset == change.offset
            && open.clear == 0
            && change.clear == 0
        {
            open.set |= change.set;
            return Ok(());
        }
        match self.open.replace(change) {
            Some(before) => writes.change(arena, before),
            None => Ok(()),
        }
    }

    /// Hands the last change on.
    pub(crate) fn end<M: Memory, W: WriteSet<M>>(
        self,
        arena: &mut Arena<M>,
        writes: &mut W,
    ) -> Result<()> {
        match self.open {
            Some(change) => writes.change(arena, change),
            None => Ok(()),
        }
    }
}
