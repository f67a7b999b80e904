//! Places of the records of slot headers, so that no line is written by each group.
//!
//! A medium wears out line by line. So records move on through a block of their own, and come back
//! to a line only after all others have had their turn.
//!
//! ```text
//! block   [slot 0][slot 1]..., a power of two of them
//! slot    word u64 | a part of a record
//! word    number (44 bits) | part (4 bits) | check (16 bits)
//! ```
//!
//! Parts are numbered one after the other, and the one with a number lies in the slot number %
//! slots. A record begins with part 0; the greatest number belongs to the newest record.
//!
//! - A word is stored whole, so one whose check is wrong is damage: it may have been the newest.
//! - A word is the last store to its line. So where a cut has left the word of part 0, the head of
//!   the record is there as well, and no other's; and where it has not, the next record has the
//!   same number and stores that line anew.
//! - The checksum of a record has its number in it. So what a record has left where another was
//!   torn never counts, whatever the word says.
//! - Older records stay whole, and are never read: what they say may be out of date. If the newest
//!   is not whole, none counts.

use pmem::{Arena, Memory, Owner, Part, PmemError, site};
use storage::Result;

/// From one slot to the next.
const SLOT_BYTES: usize = 1024;
const WORD_BYTES: usize = 8;
/// Bytes of a record in a slot.
pub(super) const PART_BYTES: usize = SLOT_BYTES - WORD_BYTES;
/// Least and most bytes of the block.
const BYTES_MIN: u64 = 32 << 10;
const BYTES_MAX: u64 = 1 << 30;
const NUMBER_BITS: u32 = 44;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;
const CHECK_SHIFT: u32 = 48;
/// The part of a slot that no record has used.
const UNUSED: u64 = 15;

/// Length of the block that is made for a budget.
fn block_bytes(budget: u64) -> usize {
    1 << budget.clamp(BYTES_MIN, BYTES_MAX).ilog2()
}

/// Allocates a block of the log; durable after the next fence.
pub(super) fn log_block<M: Memory>(arena: &mut Arena<M>, bytes: usize) -> Result<u64, PmemError> {
    let owner = Owner {
        part: Part::Log,
        tag: 0,
    };
    let block = arena.reserve(bytes, owner)?;
    let change = arena.activate(block)?;
    let word = arena.word(change.offset)?;
    arena.store_word(change.offset, change.apply(word))?;
    arena.flush(change.offset, 8, site!("slotted.create-block"))?;
    Ok(block)
}

/// The slots, and the newest record in them.
#[derive(Debug)]
pub(super) struct RecordSlots {
    base: u64,
    count: u64,
    salt: u32,
    /// The greatest number, and which part of its record it is.
    newest: (u64, u64),
}

impl RecordSlots {
    /// Makes a block for a budget, as short as there can be where the device has no room for it.
    pub(super) fn make<M: Memory>(arena: &mut Arena<M>, budget: u64, salt: u32) -> Result<Self> {
        let mut bytes = block_bytes(budget);
        let block = match log_block(arena, bytes) {
            Err(PmemError::OutOfSpace { .. }) => {
                bytes = block_bytes(0);
                log_block(arena, bytes)?
            }
            block => block?,
        };
        Self::create(arena, (block, bytes), salt)
    }

    /// Makes all words of the block, of which no record has used one; durable after the next fence.
    fn create<M: Memory>(
        arena: &mut Arena<M>,
        (base, bytes): (u64, usize),
        salt: u32,
    ) -> Result<Self> {
        let count = (bytes / SLOT_BYTES) as u64;
        let newest = (count - 1, UNUSED);
        let slots = Self {
            base,
            count,
            salt,
            newest,
        };
        for number in 0..count {
            let at = slots.place(number);
            arena.store_word(at, slots.seal(number, UNUSED))?;
            arena.flush(at, WORD_BYTES, site!("slotted.create-slot"))?;
        }
        Ok(slots)
    }

    /// Finds the newest record in the block at `base`.
    pub(super) fn open<M: Memory>(arena: &Arena<M>, base: u64, salt: u32) -> Result<Self> {
        let bytes = arena.block(base)?.bytes;
        let mut slots = Self {
            base,
            count: bytes / SLOT_BYTES as u64,
            salt,
            newest: (0, UNUSED),
        };
        if !slots.count.is_power_of_two() {
            let text = "its length is none of a block for records";
            return Err(PmemError::corrupted("header log", base, text).into());
        }
        for slot in 0..slots.count {
            let (number, part) = slots.read_word(arena, slot)?;
            let is_newer = number.wrapping_sub(slots.newest.0) & NUMBER_MASK <= NUMBER_MASK / 2;
            if slot == 0 || is_newer {
                slots.newest = (number, part);
            }
        }
        Ok(slots)
    }

    /// The block.
    pub(super) fn block(&self) -> u64 {
        self.base
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Salt of the checksum of the newest record.
    pub(super) fn salt(&self) -> u32 {
        crc32c::crc32c_append(self.salt, &self.first().to_le_bytes())
    }

    /// Place of a part of the newest record, without its word.
    pub(super) fn part(&self, part: usize) -> u64 {
        self.place(self.first().wrapping_add(part as u64)) + WORD_BYTES as u64
    }

    /// From where to where part of a record lies, with its word.
    pub(super) fn range(&self, part: usize, bytes: usize) -> (u64, usize) {
        (self.part(part) - WORD_BYTES as u64, WORD_BYTES + bytes)
    }

    /// Moves on to a new record of so many bytes.
    pub(super) fn begin(&mut self, bytes: usize) {
        let parts = bytes.div_ceil(PART_BYTES) as u64;
        debug_assert!((1..UNUSED).contains(&parts), "a record has few parts");
        self.newest = (self.newest.0.wrapping_add(parts) & NUMBER_MASK, parts - 1);
    }

    /// Stores a part of the new record, and then its word.
    pub(super) fn store<M: Memory>(
        &self,
        arena: &mut Arena<M>,
        part: usize,
        bytes: &[u8],
    ) -> Result<()> {
        let number = self.first().wrapping_add(part as u64) & NUMBER_MASK;
        arena.store(self.part(part), bytes)?;
        Ok(arena.store_word(self.place(number), self.seal(number, part as u64))?)
    }

    /// Whether this part of the newest record is there.
    pub(super) fn has<M: Memory>(&self, arena: &Arena<M>, part: usize) -> Result<bool> {
        let number = self.first().wrapping_add(part as u64) & NUMBER_MASK;
        let found = self.read_word(arena, number % self.count)?;
        Ok(found == (number, part as u64))
    }

    /// Whether a record was begun.
    pub(super) fn is_used(&self) -> bool {
        self.newest.1 != UNUSED
    }

    /// Number of part 0 of the newest record.
    fn first(&self) -> u64 {
        self.newest.0.wrapping_sub(self.newest.1) & NUMBER_MASK
    }

    fn place(&self, number: u64) -> u64 {
        self.base + number % self.count * SLOT_BYTES as u64
    }

    /// Number and part in a slot.
    fn read_word<M: Memory>(&self, arena: &Arena<M>, slot: u64) -> Result<(u64, u64)> {
        let at = self.place(slot);
        let word = arena.word(at)?;
        let (number, part) = (word & NUMBER_MASK, word >> NUMBER_BITS & UNUSED);
        if self.seal(number, part) != word || number % self.count != slot {
            let text = "the number of a record has wrong check bits";
            return Err(PmemError::corrupted("header log", at, text).into());
        }
        Ok((number, part))
    }

    fn seal(&self, number: u64, part: u64) -> u64 {
        let content = number & NUMBER_MASK | part << NUMBER_BITS;
        let sum = crc32c::crc32c_append(self.salt, &content.to_le_bytes());
        content | u64::from((sum ^ sum >> 16) & 0xffff) << CHECK_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmem::{NativeMemory, POOL_BYTES_MIN, PageSize, PoolIdentity, PoolKind};

    fn arena() -> Arena<NativeMemory> {
        let memory = NativeMemory::volatile(POOL_BYTES_MIN.max(1 << 20), PageSize::Base).unwrap();
        Arena::create(memory, &PoolIdentity::unnamed(PoolKind(1))).unwrap()
    }

    fn write(slots: &mut RecordSlots, arena: &mut Arena<NativeMemory>, bytes: usize) -> Vec<u64> {
        slots.begin(bytes);
        let content = vec![7; bytes];
        let parts = content.chunks(PART_BYTES).enumerate();
        parts
            .map(|(part, bytes)| {
                slots.store(arena, part, bytes).unwrap();
                slots.range(part, bytes.len()).0
            })
            .collect()
    }

    #[test]
    fn records_come_back_to_a_slot_after_all_others() {
        let mut arena = arena();
        let at = (
            log_block(&mut arena, BYTES_MIN as usize).unwrap(),
            BYTES_MIN as usize,
        );
        let mut slots = RecordSlots::create(&mut arena, at, 9).unwrap();
        assert!(!RecordSlots::open(&arena, at.0, 9).unwrap().is_used());
        let mut used = vec![0_u32; slots.count() as usize];
        for round in 0..1000 {
            let bytes = 1 + round * 331 % (8 * PART_BYTES);
            for place in write(&mut slots, &mut arena, bytes) {
                used[((place - at.0) / SLOT_BYTES as u64) as usize] += 1;
            }
            let (least, most) = (used.iter().min().unwrap(), used.iter().max().unwrap());
            assert!(most - least <= 1, "{used:?}");
            let found = RecordSlots::open(&arena, at.0, 9).unwrap();
            assert_eq!(found.newest, slots.newest);
            let parts = bytes.div_ceil(PART_BYTES);
            assert!((0..parts).all(|part| found.has(&arena, part).unwrap()));
            assert!(!found.has(&arena, parts).unwrap());
        }
    }

    #[test]
    fn numbers_may_come_round() {
        let mut arena = arena();
        let at = (
            log_block(&mut arena, BYTES_MIN as usize).unwrap(),
            BYTES_MIN as usize,
        );
        let mut slots = RecordSlots::create(&mut arena, at, 9).unwrap();
        for number in NUMBER_MASK - 40..NUMBER_MASK - 8 {
            let word = slots.seal(number, 0);
            arena.store_word(slots.place(number), word).unwrap();
        }
        slots.newest = (NUMBER_MASK - 9, 0);
        for _ in 0..20 {
            write(&mut slots, &mut arena, 2000);
            let found = RecordSlots::open(&arena, at.0, 9).unwrap();
            assert_eq!(found.newest, slots.newest);
        }
        assert!(slots.newest.0 < 100);
    }

    #[test]
    fn a_flipped_bit_of_a_number_is_damage() {
        let mut arena = arena();
        let at = (
            log_block(&mut arena, BYTES_MIN as usize).unwrap(),
            BYTES_MIN as usize,
        );
        let mut slots = RecordSlots::create(&mut arena, at, 9).unwrap();
        let place = write(&mut slots, &mut arena, 100)[0];
        let word = arena.word(place).unwrap();
        for bit in 0..64 {
            arena.store_word(place, word ^ 1 << bit).unwrap();
            assert!(RecordSlots::open(&arena, at.0, 9).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_block_is_a_power_of_two() {
        assert_eq!(block_bytes(0), 32 << 10);
        assert_eq!(block_bytes(48 << 10), 32 << 10);
        assert_eq!(block_bytes(4 << 20), 4 << 20);
        assert_eq!(block_bytes(u64::MAX), 1 << 30);
    }
}
