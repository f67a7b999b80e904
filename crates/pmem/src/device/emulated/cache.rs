//! The modelled last-level cache: which lines are in it, and which of them are dirty.
//!
//! Set associative with true least-recently-used replacement. A set is a row of words, the most
//! recently used first, so that a hit usually finds its line in the first words and replacement
//! takes the last. A word holds the line's name (memory and line number), whether it is dirty, and
//! the part of the database that made it so. Lines are named by pool offset and not by address:
//! where a pool is mapped changes nothing.

use super::super::Part;
use crate::error::{PmemError, Result};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bits of a [`LineName`] that number the line in its memory.
const LINE_BITS: u32 = 38;
/// Bits that number the memory.
const MEMORY_BITS: u32 = 20;
/// Memories that one emulator can tell apart.
pub(super) const MEMORIES_MAX: u32 = 1 << MEMORY_BITS;
/// Mask of the name in a word.
const NAME_MASK: u64 = (1 << (LINE_BITS + MEMORY_BITS)) - 1;
/// Position of the part in a word, three bits.
const PART_SHIFT: u32 = LINE_BITS + MEMORY_BITS;
/// Most shards of a cache, and the least sets of one.
const SHARDS_MAX: u64 = 64;
const SHARD_SETS_MIN: u64 = 16;
/// The line differs from the medium.
const DIRTY: u64 = 1 << 62;
/// The word names a line at all.
const VALID: u64 = 1 << 63;
/// Spreads memories over the sets, so that equal offsets of two memories do not always compete.
const MEMORY_SPREAD: u64 = 0x9e37_79b9;

/// A line of a memory. Lines that follow each other have names that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LineName(u64);

impl LineName {
    /// Line number `line` of memory `memory`. Lines beyond 16 TiB of a memory share names with
    /// lower ones.
    pub(super) fn new(memory: u32, line: u64) -> Self {
        Self(u64::from(memory) << LINE_BITS | line & ((1 << LINE_BITS) - 1))
    }

    /// The memory's number.
    pub(super) fn memory(self) -> u32 {
        (self.0 >> LINE_BITS) as u32
    }

    /// The line's number in its memory.
    pub(super) fn line(self) -> u64 {
        self.0 & ((1 << LINE_BITS) - 1)
    }
}

/// A dirty line that left the cache or was cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteBack {
    /// The line.
    pub(super) name: LineName,
    /// The part that stored to it last.
    pub(super) part: Part,
}

/// Result of a look-up with allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touched {
    /// The line was there.
    Hit,
    /// The line was read from the medium; its place may have been taken from a dirty line.
    Miss(Option<WriteBack>),
}

/// The modelled cache. Sets that follow each other are in one shard, each of which has a lock of
/// its own, so that threads which use different lines seldom meet.
#[derive(Debug)]
pub(super) struct Cache {
    shards: Box<[Mutex<Box<[u64]>>]>,
    ways: usize,
    set_mask: u64,
    shard_sets: u64,
}

/// The lines of a set, the most recently used first.
pub(super) struct Set<'cache>(&'cache mut [u64]);

impl Cache {
    /// A cache of `bytes` with `ways` lines of `line_bytes` a set. The number of sets has to be a
    /// power of two.
    pub(super) fn new(bytes: u64, ways: u32, line_bytes: u64) -> Result<Self> {
        let set_bytes = u64::from(ways) * line_bytes;
        let sets = bytes.checked_div(set_bytes).unwrap_or(0);
        if sets == 0 || !sets.is_power_of_two() || sets * set_bytes != bytes {
            return Err(PmemError::Unsupported(format!(
                "a modelled cache of {bytes} bytes with {ways} ways of {line_bytes} bytes has no \
                 power-of-two number of \
                 sets; take ways x {line_bytes} x a power of two, as 33554432 bytes with 16 ways"
            )));
        }
        let shard_sets = (sets / SHARDS_MAX).max(SHARD_SETS_MIN).min(sets);
        let words = || vec![0; (shard_sets * u64::from(ways)) as usize].into_boxed_slice();
        Ok(Self {
            shards: (0..sets / shard_sets)
                .map(|_| Mutex::new(words()))
                .collect(),
            ways: ways as usize,
            set_mask: sets - 1,
            shard_sets,
        })
    }

    /// Shows each line of a range with its set, in order. The lock of a shard is taken once for
    /// neighbours.
    pub(super) fn each(
        &self,
        memory: u32,
        lines: Range<u64>,
        mut look: impl FnMut(&mut Set<'_>, LineName),
    ) {
        let spread = u64::from(memory).wrapping_mul(MEMORY_SPREAD);
        let mut line = lines.start;
        while line < lines.end {
            let set = line.wrapping_add(spread) & self.set_mask;
            let (shard, first) = (set / self.shard_sets, set % self.shard_sets);
            let end = lines.end.min(line + self.shard_sets - first);
            let mut words = lock(&self.shards[shard as usize]);
            let sets = words[first as usize * self.ways..].chunks_exact_mut(self.ways);
            for (line, set) in (line..end).zip(sets) {
                look(&mut Set(set), LineName::new(memory, line));
            }
            line = end;
        }
    }
}

impl Set<'_> {
    /// Looks a line up for reading, and brings it in.
    pub(super) fn read(&mut self, name: LineName) -> Touched {
        let Self(set) = self;
        if let Some(way) = find(set, name) {
            set[..=way].rotate_right(1);
            return Touched::Hit;
        }
        Touched::Miss(replace(set, VALID | name.0))
    }

    /// Looks a line up for writing, brings it in and makes it dirty for `part`.
    pub(super) fn write(&mut self, name: LineName, part: Part) -> Touched {
        let word = VALID | DIRTY | (part as u64) << PART_SHIFT | name.0;
        let Self(set) = self;
        if let Some(way) = find(set, name) {
            set[..=way].rotate_right(1);
            set[0] = word;
            return Touched::Hit;
        }
        Touched::Miss(replace(set, word))
    }

    /// Makes a line clean in place; says whether it was dirty. Its age does not change.
    pub(super) fn clean(&mut self, name: LineName) -> Option<WriteBack> {
        let Self(set) = self;
        let way = find(set, name)?;
        let dirty = write_back(set[way]);
        set[way] &= !DIRTY;
        dirty
    }

    /// Takes a line out; says whether it was dirty. The freed place becomes the next to be used.
    pub(super) fn remove(&mut self, name: LineName) -> Option<WriteBack> {
        let Self(set) = self;
        let way = find(set, name)?;
        let dirty = write_back(set[way]);
        set[way] = 0;
        set[way..].rotate_left(1);
        dirty
    }
}

fn find(set: &[u64], name: LineName) -> Option<usize> {
    set.iter()
        .position(|&word| word & (VALID | NAME_MASK) == VALID | name.0)
}

/// Puts `word` in front in place of the last of the set.
fn replace(set: &mut [u64], word: u64) -> Option<WriteBack> {
    set.rotate_right(1);
    let evicted = std::mem::replace(&mut set[0], word);
    write_back(evicted)
}

fn write_back(word: u64) -> Option<WriteBack> {
    (word & (VALID | DIRTY) == VALID | DIRTY).then(|| WriteBack {
        name: LineName(word & NAME_MASK),
        part: Part::ALL[(word >> PART_SHIFT & 7) as usize],
    })
}

/// Counts are whole after any panic that can happen inside: none of the changes panics half way.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64) -> LineName {
        LineName::new(0, number)
    }

    /// Single lines, as a range of one.
    impl Cache {
        fn at<R>(&mut self, name: LineName, look: impl Fn(&mut Set<'_>) -> R) -> R {
            let (line, mut seen) = (name.line(), None);
            self.each(name.memory(), line..line + 1, |set, _| {
                seen = Some(look(set));
            });
            seen.unwrap()
        }

        fn read(&mut self, name: LineName) -> Touched {
            self.at(name, |set| set.read(name))
        }

        fn write(&mut self, name: LineName, part: Part) -> Touched {
            self.at(name, |set| set.write(name, part))
        }

        fn clean(&mut self, name: LineName) -> Option<WriteBack> {
            self.at(name, |set| set.clean(name))
        }

        fn remove(&mut self, name: LineName) -> Option<WriteBack> {
            self.at(name, |set| set.remove(name))
        }
    }

    #[test]
    fn a_range_passes_through_all_its_sets_and_shards() {
        let cache = Cache::new(256 * 64, 1, 64).unwrap();
        let read = |lines: Range<u64>| {
            let (mut names, mut misses) = (Vec::new(), 0);
            cache.each(3, lines, |set, name| {
                names.push(name.line());
                misses += u64::from(set.read(name) != Touched::Hit);
            });
            (names, misses)
        };
        assert_eq!(read(10..210), ((10..210).collect(), 200));
        assert_eq!(read(0..256), ((0..256).collect(), 56));
        assert_eq!(read(7..7), (Vec::new(), 0));
    }

    #[test]
    fn the_least_recently_used_line_leaves() {
        let mut cache = Cache::new(2 * 64, 2, 64).unwrap();
        assert_eq!(cache.read(line(1)), Touched::Miss(None));
        assert_eq!(cache.read(line(2)), Touched::Miss(None));
        assert_eq!(cache.read(line(1)), Touched::Hit);
        assert_eq!(cache.read(line(3)), Touched::Miss(None), "2 leaves, clean");
        assert_eq!(cache.read(line(1)), Touched::Hit);
        assert_eq!(cache.read(line(2)), Touched::Miss(None), "3 leaves");
        assert_eq!(cache.read(line(3)), Touched::Miss(None), "1 leaves");
    }

    #[test]
    fn a_dirty_line_that_leaves_names_its_writer() {
        let mut cache = Cache::new(64, 1, 64).unwrap();
        cache.write(line(7), Part::Log);
        let expected = WriteBack {
            name: line(7),
            part: Part::Log,
        };
        assert_eq!(cache.read(line(8)), Touched::Miss(Some(expected)));
    }

    #[test]
    fn cleaning_keeps_the_line_and_removing_does_not() {
        let mut cache = Cache::new(4 * 64, 4, 64).unwrap();
        cache.write(line(1), Part::Table);
        assert!(cache.clean(line(1)).is_some());
        assert!(cache.clean(line(1)).is_none());
        assert_eq!(cache.read(line(1)), Touched::Hit);
        cache.write(line(1), Part::Table);
        assert!(cache.remove(line(1)).is_some());
        assert_eq!(cache.read(line(1)), Touched::Miss(None));
        assert!(cache.remove(line(9)).is_none());
    }

    #[test]
    fn a_removed_line_frees_its_place() {
        let mut cache = Cache::new(2 * 64, 2, 64).unwrap();
        cache.read(line(1));
        cache.read(line(2));
        cache.remove(line(2));
        cache.read(line(3));
        assert_eq!(
            cache.read(line(1)),
            Touched::Hit,
            "the free place was used, not the oldest line's"
        );
    }

    #[test]
    fn sets_and_memories_are_apart() {
        let mut cache = Cache::new(2 * 64, 1, 64).unwrap();
        cache.read(line(0));
        cache.read(line(1));
        assert_eq!(cache.read(line(0)), Touched::Hit);
        assert_eq!(
            cache.read(LineName::new(1, 0)),
            Touched::Miss(None),
            "same offset, other memory"
        );
        let far = LineName::new(MEMORIES_MAX - 1, (1 << LINE_BITS) - 1);
        assert_eq!(
            (far.memory(), far.line()),
            (MEMORIES_MAX - 1, (1 << LINE_BITS) - 1)
        );
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for (bytes, ways) in [(0, 16), (64, 0), (3 * 64 * 16, 16), (100, 1)] {
            assert!(
                Cache::new(bytes, ways, 64).is_err(),
                "{bytes} bytes, {ways} ways"
            );
        }
        assert!(Cache::new(20 << 20, 20, 64).is_ok());
    }
}
