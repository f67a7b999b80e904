//! Hints: where the row of a key probably lies, in DRAM, so that a look-up need not descend the
//! tree of its index, which costs a dependent miss for each of the lower levels.
//!
//! The hints of an index are a table of hashes. The upper bits of a key's hash name a bucket of one
//! line; its slots have the next bits as a tag, and the number of a block:
//!
//! ```text
//! hash    bucket | tag | ...
//! bucket  16 slots, one line
//! slot    tag | number of the block, 32 bits together; 0 where it is empty
//! ```
//!
//! 1. A hint names a row that is committed, and that the open transaction has not deleted. The
//!    tables see to it: a hint is made after the commit of its row, or when a look-up has found a
//!    row that was there before the transaction; it is taken out before its row goes.
//! 2. Tags are short, so the key in the row decides. The number is exact for the table's blocks.
//! 3. A missing hint means nothing. A full bucket loses one, a budget that is used up many, and
//!    after an opening there are none: look-ups bring them back.
//!
//! A table that fills doubles: the upper bit of each tag goes to the bucket's number, and its place
//! to that of the block, since a pool grows with its rows. Where numbers outgrow their place, tags
//! lose their lowest bit; where none can be missed, the larger table begins without hints.

use pmem::{BlockNumbers, Buffer, Buffers};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SLOTS: usize = 16;
const BUCKET_BYTES: usize = 4 * SLOTS;
/// Buckets of the first table: one page.
const BUCKET_BITS_MIN: u32 = 6;
const BUCKET_BITS_MAX: u32 = 32;
/// Fewer bits of tag would send most look-ups to rows of other keys.
const TAG_BITS_MIN: u32 = 4;
/// Hints of each bucket, on average, at which a table doubles: beyond that, full buckets are many.
const FILL_MAX: usize = 13;
/// Rows and wishes for a hint from which on an index gets a table.
const ROWS_MIN: u32 = 16;

/// Bytes that the hints of a partition may take.
#[derive(Clone, Debug)]
pub struct HintBudget {
    bytes_max: u64,
    bytes: Arc<AtomicU64>,
}

/// Part of a budget, given back when it is dropped.
struct Share {
    bytes: u64,
    of: Arc<AtomicU64>,
}

/// The hints of one index.
pub struct Hints {
    budget: HintBudget,
    /// `None` where blocks have no short numbers, or the budget is zero.
    numbers: Option<BlockNumbers>,
    table: Option<Buckets>,
    /// Hints that were wished for since the last look at the size of the index.
    wishes: u32,
}

struct Buckets {
    buffer: Buffer,
    bucket_bits: u32,
    /// Bits of a slot for the number of a block; the rest is the tag.
    number_bits: u32,
    used: usize,
    share: Share,
}

impl HintBudget {
    /// A budget of so many bytes.
    pub fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            bytes: Arc::default(),
        }
    }

    /// Bytes that are in use.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether there are no hints at all.
    pub fn is_zero(&self) -> bool {
        self.bytes_max == 0
    }

    /// Takes bytes for a table in whose place `before` are given back later. Its partition has one
    /// thread at a time, so nobody takes any in between.
    fn take(&self, bytes: u64, before: u64) -> Option<Share> {
        if self.bytes() - before + bytes > self.bytes_max {
            return None;
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Some(Share {
            bytes,
            of: Arc::clone(&self.bytes),
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Hints {
    /// Of an index whose values are offsets of blocks for `block_bytes`.
    pub fn new(budget: &HintBudget, block_bytes: usize) -> Self {
        let numbers = BlockNumbers::new(block_bytes).filter(|_| !budget.is_zero());
        Self {
            budget: budget.clone(),
            numbers,
            table: None,
            wishes: 0,
        }
    }

    /// Asks for the bucket of the key with this hash ahead of its use.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Some(table) = &self.table {
            table.buffer.prefetch(table.place(hash).0, BUCKET_BYTES);
        }
    }

    /// The blocks in one of which the row of the key with this hash may lie.
    #[inline]
    pub fn candidates(&self, hash: u64) -> impl Iterator<Item = u64> + '_ {
        let found = self.numbers.zip(self.table.as_ref());
        found.into_iter().flat_map(move |(numbers, table)| {
            let hits = table.hits(hash);
            hits.map(move |number| numbers.offset(u64::from(number)))
        })
    }

    /// Notes where the row of a key lies. `estimate` gives a guess of the number of rows, and the
    /// size of the pool is for the length of block numbers.
    #[inline]
    pub fn insert(
        &mut self,
        hash: u64,
        block: u64,
        pool_bytes: u64,
        estimate: impl FnOnce() -> u64,
    ) {
        let Some(numbers) = self.numbers else {
            return;
        };
        if self.table.is_none() {
            self.begin(numbers.end(pool_bytes), estimate);
        }
        let (Some(table), Some(number)) = (&mut self.table, numbers.number(block)) else {
            return;
        };
        if table.used >= FILL_MAX << table.bucket_bits
            && let Some(larger) = table.doubled(&self.budget, numbers.end(pool_bytes))
        {
            *table = larger;
        }
        if let Ok(number) = u32::try_from(number)
            && table.makes_room_for(number)
        {
            table.insert(hash, number);
        }
    }

    /// Makes the first table once it is worth while.
    #[cold]
    fn begin(&mut self, numbers_end: u64, estimate: impl FnOnce() -> u64) {
        self.wishes += 1;
        if self.wishes < ROWS_MIN {
            return;
        }
        self.wishes = 0;
        let rows = estimate();
        if rows < u64::from(ROWS_MIN) {
            return;
        }
        let buckets = rows.div_ceil(FILL_MAX as u64).next_power_of_two();
        let mut bits = buckets.ilog2().clamp(BUCKET_BITS_MIN, BUCKET_BITS_MAX);
        // Where the budget has no room for all rows, a smaller table has some of them.
        while self.table.is_none() && bits >= BUCKET_BITS_MIN {
            self.table = Buckets::new(&self.budget, bits, number_bits(numbers_end), 0);
            bits -= 1;
        }
    }

    /// Takes out the hint of a row.
    #[inline]
    pub fn remove(&mut self, hash: u64, block: u64) {
        if let (Some(table), Some(numbers)) = (&mut self.table, self.numbers)
            && let Some(number) = numbers.number(block)
        {
            table.remove(hash, number);
        }
    }

    /// The blocks of all hints.
    pub fn blocks(&self) -> impl Iterator<Item = u64> + '_ {
        let found = self.numbers.zip(self.table.as_ref());
        found.into_iter().flat_map(|(numbers, table)| {
            let mask = (1 << table.number_bits) - 1;
            let used = table.slots().filter(|slot| *slot != 0);
            used.map(move |slot| numbers.offset(u64::from(slot & mask)))
        })
    }
}

impl Buckets {
    /// An empty table; none if the budget or the memory has no room for it beside `before` bytes
    /// less.
    fn new(budget: &HintBudget, bucket_bits: u32, number_bits: u32, before: u64) -> Option<Self> {
        let bytes = BUCKET_BYTES << bucket_bits;
        let share = budget.take(bytes as u64, before)?;
        let buffer = Buffers::new(bytes, 1).ok()?.1.pop()?;
        Some(Self {
            buffer,
            bucket_bits,
            number_bits,
            used: 0,
            share,
        })
    }

    /// Where the bucket of a hash starts, and the tag in its place in a slot.
    #[inline]
    fn place(&self, hash: u64) -> (usize, u32) {
        let bucket = (hash >> (64 - self.bucket_bits)) as usize;
        let tag = (hash << self.bucket_bits >> 32) as u32;
        (
            bucket * BUCKET_BYTES,
            tag >> self.number_bits << self.number_bits,
        )
    }

    #[inline]
    fn bucket(&self, at: usize) -> &[[u8; 4]] {
        self.buffer.bytes()[at..at + BUCKET_BYTES].as_chunks().0
    }

    #[inline]
    fn bucket_mut(&mut self, at: usize) -> &mut [[u8; 4]] {
        let bytes = &mut self.buffer.bytes_mut()[at..at + BUCKET_BYTES];
        bytes.as_chunks_mut().0
    }

    fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        let slots = self.buffer.bytes().as_chunks().0.iter();
        slots.map(|slot| u32::from_le_bytes(*slot))
    }

    /// The block numbers with the tag of a hash, in its bucket.
    #[inline]
    fn hits(&self, hash: u64) -> impl Iterator<Item = u32> + '_ {
        let (at, tag) = self.place(hash);
        let bucket = self.bucket(at);
        let mut hits = 0_u32;
        for (slot, word) in bucket.iter().enumerate() {
            let word = u32::from_le_bytes(*word);
            let is_hit = word != 0 && (word ^ tag) >> self.number_bits == 0;
            hits |= u32::from(is_hit) << slot;
        }
        let mask = (1 << self.number_bits) - 1;
        std::iter::from_fn(move || {
            let slot = bucket.get(hits.trailing_zeros() as usize)?;
            hits &= hits - 1;
            Some(u32::from_le_bytes(*slot) & mask)
        })
    }

    /// Puts a hint into a free slot of its bucket, or over another one. It may be there already.
    #[inline]
    fn insert(&mut self, hash: u64, number: u32) {
        let (at, tag) = self.place(hash);
        self.put(at, tag | number, hash as usize % SLOTS);
    }

    fn put(&mut self, at: usize, new: u32, otherwise: usize) {
        let bucket = self.bucket_mut(at);
        let mut free = None;
        for (slot, word) in bucket.iter().enumerate() {
            match u32::from_le_bytes(*word) {
                0 => free = Some(slot),
                old if old == new => return,
                _ => {}
            }
        }
        bucket[free.unwrap_or(otherwise)] = new.to_le_bytes();
        self.used += usize::from(free.is_some());
    }

    fn remove(&mut self, hash: u64, number: u64) {
        let (at, tag) = self.place(hash);
        if number >> self.number_bits != 0 {
            return;
        }
        let old = (tag | number as u32).to_le_bytes();
        if let Some(slot) = self.bucket_mut(at).iter_mut().find(|slot| **slot == old) {
            *slot = [0; 4];
            self.used -= 1;
        }
    }

    /// Shortens tags until a block number has room; false if they are too short for that.
    #[inline]
    fn makes_room_for(&mut self, number: u32) -> bool {
        while number >> self.number_bits != 0 {
            if 32 - self.number_bits <= TAG_BITS_MIN {
                return false;
            }
            self.shorten_tags();
        }
        true
    }

    #[cold]
    fn shorten_tags(&mut self) {
        let mask = (1 << self.number_bits) - 1;
        self.number_bits += 1;
        for slot in self.buffer.bytes_mut().as_chunks_mut().0 {
            let word = u32::from_le_bytes(*slot);
            let tag = word >> self.number_bits << self.number_bits;
            *slot = (tag | word & mask).to_le_bytes();
        }
    }

    /// A table of twice the size with the same hints, or without any where tags are too short;
    /// none if the budget has no room for it.
    #[cold]
    fn doubled(&self, budget: &HintBudget, numbers_end: u64) -> Option<Self> {
        if self.bucket_bits == BUCKET_BITS_MAX {
            return None;
        }
        let keeps = 32 - self.number_bits > TAG_BITS_MIN;
        let bits = if keeps {
            self.number_bits + 1
        } else {
            number_bits(numbers_end)
        };
        let mut larger = Self::new(budget, self.bucket_bits + 1, bits, self.share.bytes)?;
        if !keeps {
            return Some(larger);
        }
        let mask = (1 << self.number_bits) - 1;
        for (place, word) in self.slots().enumerate().filter(|(_, word)| *word != 0) {
            let bucket = place / SLOTS * 2 + (word >> 31) as usize;
            let tag = (word >> self.number_bits << self.number_bits) << 1;
            larger.put(bucket * BUCKET_BYTES, tag | word & mask, 0);
        }
        Some(larger)
    }
}

/// Bits for the numbers of a pool's blocks, with one more for its growth.
fn number_bits(numbers_end: u64) -> u32 {
    (numbers_end.max(1).ilog2() + 2).min(32 - TAG_BITS_MIN)
}

#[cfg(test)]
#[path = "hints_tests.rs"]
mod tests;
