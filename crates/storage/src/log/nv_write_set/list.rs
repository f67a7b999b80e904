//! The undo log as the paper has it: a linked list of entries in durable memory.
//!
//! With `FenceOrder::Paper` no record goes into a slot. The heap gives a block, which gets an
//! *entry*: a link and a record. When that is durable, one word is stored that appends it, the link
//! of the entry before or the head of the list, and made durable too. Only then do changes go in
//! place. The list is emptied by one store to the head: the transaction has committed, or is
//! undone.
//!
//! ```text
//! head          entry                entry
//! [link]  --->  [link][record]  --->  [link: none][record]
//! ```
//!
//! 1. A link leads only to an entry that is durable, so a linked one that is not whole is damage.
//!    Numbers of transactions decide nothing: an entry counts if the list leads to it.
//! 2. Blocks of entries are reserved and never activated, so nobody has to free them. A crash does,
//!    but not before recovery has read them: it allocates nothing until the list is empty.
//! 3. Recovery makes the head durable before it stores anything. A process that died may have left
//!    an empty list in a cache, and the next one builds on that transaction. Links need no such
//!    care: behind one that a power cut can still lose, nothing has changed in place.
//!
//! The head has the first line of the slots. If the heap has no room, entries lie in the spare
//! block. Ours differs from the paper in the content of an entry: words as they were before, for
//! which the transaction's number is enough, where the paper has the numbers of table and tuple,
//! and pointers.

use crate::error::Result;
use crate::log::nv_record::{LINE, Record, Tail, read_link, read_record, seal_link, sequence_at};
use pmem::{Arena, Memory, Owner, Part, PmemError, site};

/// Bytes of an entry before its record.
const LINK_BYTES: usize = 8;

/// The list of one partition.
#[derive(Debug)]
pub(super) struct UndoList {
    /// Where the offset of the first entry stands.
    head: u64,
    /// The word that the next entry is appended to.
    last: u64,
    spare_used: usize,
    head_stores: u64,
}

impl UndoList {
    /// The list with its head at `head`, which is empty or will be read.
    pub(super) fn new(head: u64) -> Self {
        Self {
            head,
            last: head,
            spare_used: 0,
            head_stores: 0,
        }
    }

    pub(super) fn head(&self) -> u64 {
        self.head
    }

    /// Stores to the head since the log was opened; no other line is stored more often.
    pub(super) fn head_stores(&self) -> u64 {
        self.head_stores
    }

    /// Makes the list empty, durably after the next fence.
    pub(super) fn empty<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        salt: u32,
    ) -> Result<(), PmemError> {
        arena.store_word(self.head, seal_link(0, salt))?;
        arena.flush(self.head, LINK_BYTES, site!("undo.list-empty"))?;
        self.head_stores += 1;
        self.last = self.head;
        self.spare_used = 0;
        Ok(())
    }

    /// Copies the records of all entries, oldest first.
    pub(super) fn read<M: Memory>(&self, arena: &Arena<M>, salt: u32) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        let mut sequence = None;
        let mut link = self.head;
        // No list is longer than the pool: a ring of links that a forger made comes to an end.
        let mut room = arena.pool_bytes() as usize;
        while let Some(entry) = read_link(arena, link, salt)? {
            let offset = entry.saturating_add(LINK_BYTES as u64);
            let number = match sequence {
                Some(number) => number,
                None => *sequence.insert(sequence_at(arena, offset)?),
            };
            let record =
                read_record(arena, Tail { offset, room }, number, salt).ok_or_else(|| {
                    PmemError::corrupted("undo entry", entry, "it is in the list and not whole")
                })?;
            room -= record.bytes;
            records.push(record);
            link = entry;
        }
        Ok(records)
    }

    /// Appends an entry with a sealed record. The caller's fence makes the link durable. `spare` is
    /// the offset of the spare block (0 for none) and its bytes. Where no block is to be had, the
    /// list is as it was.
    pub(super) fn append<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        record: &mut Vec<u8>,
        spare: (u64, usize),
        salt: u32,
    ) -> Result<(), PmemError> {
        record.splice(..0, seal_link(0, salt).to_le_bytes());
        let entry = self.reserve(arena, record.len(), spare)?;
        arena.write_through(entry, record, site!("undo.list-entry"))?;
        arena.fence(site!("undo.list-entry-fence"))?;
        arena.store_word(self.last, seal_link(entry, salt))?;
        arena.flush(self.last, LINK_BYTES, site!("undo.list-link"))?;
        self.head_stores += u64::from(self.last == self.head);
        self.last = entry;
        Ok(())
    }

    /// A block for an entry: of the heap, or a piece of the spare block if the heap has none. Few
    /// sizes, so that entries do not claim a chunk of the pool for each.
    fn reserve<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        bytes: usize,
        (spare, spare_bytes): (u64, usize),
    ) -> Result<u64, PmemError> {
        let bytes = bytes.next_power_of_two().max(LINE);
        let owner = Owner {
            part: Part::Log,
            tag: 0,
        };
        match arena.reserve(bytes, owner) {
            Err(PmemError::OutOfSpace { .. })
                if spare != 0 && self.spare_used + bytes <= spare_bytes =>
            {
                let at = spare + self.spare_used as u64;
                self.spare_used += bytes;
                Ok(at)
            }
            reserved => reserved,
        }
    }
}
