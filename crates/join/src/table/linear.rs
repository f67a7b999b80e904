//! Linear probing: a tuple is in the first free slot from its hash on.
//!
//! At most half of the slots are taken. Nothing wraps around: after the last slot of the hash there
//! is a tail, of which the end stays free, so that a lookup always ends and a kernel may read
//! several slots in one step. A free slot has a key of another partition, so no key is reserved.
//! Building gives up where many keys are equal, because it would walk over all of them for each of
//! them.

use super::KeyShape;
use crate::partition::Hashed;
use crate::tuple::Tuple;

/// Slots after the last hash value.
const TAIL_SLOTS: usize = 64;
/// Slots at the end that stay free; the widest kernel reads that many in one step.
const GUARD_SLOTS: usize = 8;
/// Slots passed on average by an insertion, at which building gives up; distinct keys pass half a
/// slot at most.
const PASSED_SLOTS_MAX: usize = 1;

/// One in this many insertions may meet an equal key before building gives up. A lookup of keys
/// that repeat has to continue to a free slot, which takes two to three times as long as one in
/// sorted buckets (`indelible bench join` with `--copies`).
const EQUAL_PART_MAX: usize = 8;

/// Bits of the hash for `count` tuples.
pub(crate) fn slot_bits(count: usize) -> u32 {
    (count * 2).next_power_of_two().ilog2().max(4)
}

/// Slots of a table, tail included.
pub(crate) fn slots_len(slot_bits: u32) -> usize {
    (1 << slot_bits) + TAIL_SLOTS
}

/// Whether all keys of a table differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    Distinct,
    SomeEqual,
}

/// One filled table with linear probing, or several side by side for the partitions of a relation
/// (`PARTS`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinearTable<'t, T: Tuple, const PARTS: bool> {
    pub(crate) slots: &'t [T],
    hash: Hashed,
    /// Bits of the hash inside of a part.
    slot_bits: u32,
    keys: Keys,
    free_key: T::Word,
    /// The part in which `free_key` may be a key, and the key of free slots there.
    exception: (usize, T::Word),
}

impl<'t, T: Tuple> LinearTable<'t, T, false> {
    /// A view of slots that `fill` has filled with the same shape.
    pub(crate) fn new(
        slots: &'t [T],
        slot_bits: u32,
        shape: KeyShape<T::Word>,
        keys: Keys,
    ) -> Self {
        assert_eq!(slots.len(), slots_len(slot_bits));
        Self {
            slots,
            hash: Hashed::spread(slot_bits, shape.skipped_bits),
            slot_bits,
            keys,
            free_key: shape.free_key,
            exception: (usize::MAX, shape.free_key),
        }
    }
}

impl<'t, T: Tuple> LinearTable<'t, T, true> {
    /// A view of 2^`part_bits` parts, each filled with a key of `strangers` that is not of the part
    /// as its free key.
    pub(crate) fn of_parts(
        slots: &'t [T],
        part_bits: u32,
        slot_bits: u32,
        strangers: [T::Word; 2],
        keys: Keys,
    ) -> Self {
        assert_eq!(slots.len(), slots_len(slot_bits) << part_bits);
        Self {
            slots,
            hash: Hashed::spread(part_bits + slot_bits, 0),
            slot_bits,
            keys,
            free_key: strangers[0],
            exception: (
                Hashed::spread(part_bits, 0).of_key(strangers[0]),
                strangers[1],
            ),
        }
    }
}

impl<T: Tuple, const PARTS: bool> LinearTable<'_, T, PARTS> {
    /// Whether a lookup may end at the first partner.
    #[inline(always)]
    pub(crate) fn keys_are_distinct(&self) -> bool {
        self.keys == Keys::Distinct
    }

    /// The first slot of a key, and the key that marks free slots there.
    #[inline(always)]
    pub(crate) fn start(&self, key: T::Word) -> (usize, T::Word) {
        let slot = self.hash.of_key(key);
        if !PARTS {
            return (slot, self.free_key);
        }
        let part = slot >> self.slot_bits;
        let free_key = if part == self.exception.0 {
            self.exception.1
        } else {
            self.free_key
        };
        (slot + part * TAIL_SLOTS, free_key)
    }
}

/// Fills `slots` with tuples; none if too many keys are equal.
pub(crate) fn fill<'i, T: Tuple>(
    slots: &mut [T],
    slot_bits: u32,
    shape: KeyShape<T::Word>,
    slices: impl Iterator<Item = &'i [T]>,
) -> Option<Keys> {
    assert_eq!(slots.len(), slots_len(slot_bits));
    let hash = Hashed::spread(slot_bits, shape.skipped_bits);
    let free = shape.free_key;
    slots.fill(T::new(free, T::Word::default()));
    let last = slots.len() - GUARD_SLOTS;
    let (mut equal, mut passed, mut count) = (0, 0, 0);
    for tuples in slices {
        for &tuple in tuples {
            let start = hash.of_key(tuple.key());
            let mut at = start;
            while slots[at].key() != free {
                if slots[at].key() == tuple.key() {
                    equal += 1;
                }
                at += 1;
            }
            if at >= last {
                return None;
            }
            slots[at] = tuple;
            passed += at - start;
        }
        count += tuples.len();
        // Some slack, because a few tuples say little.
        let is_long = passed > count * PASSED_SLOTS_MAX + 4096;
        if is_long || equal > count / EQUAL_PART_MAX + 256 {
            return None;
        }
    }
    Some(if equal == 0 {
        Keys::Distinct
    } else {
        Keys::SomeEqual
    })
}
