//! The non-volatile B+tree with an undo log that drains at any of an operation's writes.
//!
//! The log drains by itself when many writes are pending, which may be between two writes of one
//! change of the tree. So each test begins with every possible number of other pending writes, and
//! the tree must not notice.

use super::*;
use pmem::{MemorySource, NativeOptions, NativeSource, Outcome};
use pmem::{POOL_FORMAT, PoolId, PoolIdentity, PoolKind};
use storage::engine::FenceOrder;
use storage::log::NvWriteSet;
use storage::log::nv_write_set::LOG_BYTES_MIN;

type NativeArena = Arena<<NativeSource as MemorySource>::Memory>;

const OTHER_WORDS: usize = 160;

struct Bench {
    arena: NativeArena,
    log: NvWriteSet,
    tree: NvBptree,
    other: u64,
}

impl Bench {
    fn new(node_bytes: usize) -> Self {
        let source = NativeSource::new(std::env::temp_dir(), NativeOptions::default());
        let identity = PoolIdentity {
            kind: PoolKind(0),
            pool_id: PoolId(1),
            format_version: POOL_FORMAT,
            created_seconds: 0,
            user: [0; 4],
        };
        let memory = source.volatile(4 << 20).unwrap();
        let mut arena = Arena::create(memory, &identity).unwrap();
        let owner = Owner {
            part: Part::Other,
            tag: 0,
        };
        let base = arena.reserve(LOG_BYTES_MIN, owner).unwrap();
        let mut log =
            NvWriteSet::create(&mut arena, (base, LOG_BYTES_MIN), 7, FenceOrder::Shared).unwrap();
        let other = arena.reserve(OTHER_WORDS * 8, owner).unwrap();
        let root_word = arena.reserve(64, owner).unwrap();
        for block in [base, other, root_word] {
            let change = arena.activate(block).unwrap();
            log.change(&mut arena, change).unwrap();
        }
        let shape = IndexShape {
            node_bytes,
            key_words: 1,
        };
        let tree = NvBptree::create(&mut arena, &mut log, root_word, shape, 1).unwrap();
        let mut bench = Self {
            arena,
            log,
            tree,
            other,
        };
        bench.commit();
        bench
    }

    fn commit(&mut self) {
        self.log.commit(&mut self.arena).unwrap();
        self.arena.settle(Outcome::Committed);
    }

    /// Leaves writes pending that do not concern the tree.
    fn write_elsewhere(&mut self, count: usize) {
        for index in 0..count as u64 {
            let word = self.other + index * 8;
            self.log.write(&mut self.arena, word, &[1; 8]).unwrap();
        }
    }

    fn insert(&mut self, key: u64) {
        let (arena, log) = (&mut self.arena, &mut self.log);
        assert!(self.tree.insert(arena, log, &[key], key).unwrap());
    }

    /// Inserts keys together; the number of one that is there.
    fn insert_many(&mut self, keys: &[u64]) -> Option<usize> {
        let (arena, log) = (&mut self.arena, &mut self.log);
        let entries: Vec<u64> = keys.iter().flat_map(|key| [*key, *key]).collect();
        self.tree.insert_many(arena, log, 1, &entries).unwrap()
    }

    fn remove(&mut self, key: u64) {
        let (arena, log) = (&mut self.arena, &mut self.log);
        assert_eq!(
            self.tree.remove(arena, log, &[key]).unwrap(),
            Some(key),
            "key {key}"
        );
    }

    fn expect(&mut self, keys: impl Iterator<Item = u64>) {
        let mut found = Vec::new();
        let mut damage = Vec::new();
        let mut visit = |key: &[u64], _| found.push(key[0]);
        self.tree
            .check_tree(&self.arena, &mut |_| {}, &mut visit, &mut damage);
        assert_eq!(damage, Vec::<String>::new());
        assert_eq!(found, keys.collect::<Vec<_>>());
    }
}

#[test]
fn splits_survive_a_drain_between_their_writes() {
    for node_bytes in [128, 512, 2048] {
        for pending in 0..OTHER_WORDS {
            let mut bench = Bench::new(node_bytes);
            let slots = bench.tree.shape.leaf_slots as u64;
            // Two leaves; the next key but one splits the left one below a parent that is there.
            for key in (0..=slots).chain(slots + 1..2 * slots) {
                bench.insert(4 * key);
            }
            bench.commit();
            for (at, key) in [1, 2, 3, 5, 6, 7].into_iter().enumerate() {
                bench.write_elsewhere(if at == 0 { pending } else { 0 });
                bench.insert(key);
            }
            bench.commit();
            let mut keys: Vec<u64> = (0..2 * slots).map(|key| 4 * key).collect();
            keys.extend([1, 2, 3, 5, 6, 7]);
            keys.sort_unstable();
            bench.expect(keys.into_iter());
        }
    }
}

#[test]
fn removed_leaves_survive_a_drain_between_their_writes() {
    for pending in 0..OTHER_WORDS {
        let mut bench = Bench::new(128);
        let slots = bench.tree.shape.leaf_slots as u64;
        for key in 0..8 * slots {
            bench.insert(key);
        }
        for key in 1..2 * slots {
            bench.remove(key);
        }
        bench.commit();
        bench.write_elsewhere(pending);
        bench.remove(0);
        bench.remove(2 * slots);
        bench.insert(1);
        bench.commit();
        bench.expect(std::iter::once(1).chain(2 * slots + 1..8 * slots));
    }
}

#[test]
fn many_keys_at_once_are_what_they_are_one_by_one() {
    let mut state = 5_u64;
    let mut next = |bound: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(7);
        (state >> 33) % bound
    };
    for node_bytes in [128, 512, 2048] {
        for round in 0..40 {
            let mut bench = Bench::new(node_bytes);
            let mut all = std::collections::BTreeSet::new();
            for _ in 0..6 {
                let (first, step) = (next(3000), 1 + next(3));
                let range = (first..first + 1 + next(900)).step_by(step as usize);
                let new: Vec<u64> = range.filter(|key| !all.contains(key)).collect();
                bench.write_elsewhere(next(OTHER_WORDS as u64) as usize);
                assert_eq!(bench.insert_many(&new), None);
                all.extend(new);
                let gone: Vec<u64> = all.iter().copied().filter(|_| next(7) == 0).collect();
                for key in gone {
                    bench.remove(key);
                    all.remove(&key);
                }
                if next(2) == 0 {
                    bench.commit();
                }
            }
            bench.commit();
            bench.expect(all.iter().copied());
            assert!(!all.is_empty(), "round {round}");
        }
    }
}

#[test]
fn a_key_that_is_there_is_named() {
    let mut bench = Bench::new(128);
    assert_eq!(bench.insert_many(&[2, 4, 6]), None);
    assert_eq!(bench.insert_many(&[1, 3, 4, 5]), Some(2));
    bench.log.abort(&mut bench.arena).unwrap();
    bench.arena.settle(Outcome::Aborted);
    assert_eq!(bench.insert_many(&[7, 8, 8, 9]), Some(2));
    bench.log.abort(&mut bench.arena).unwrap();
    bench.arena.settle(Outcome::Aborted);
    bench.expect(std::iter::empty());
}

#[test]
fn many_keys_build_all_levels_of_a_tree() {
    let mut bench = Bench::new(128);
    let keys: Vec<u64> = (0..4000).collect();
    assert_eq!(bench.insert_many(&keys[2000..]), None);
    bench.commit();
    assert_eq!(bench.insert_many(&keys[..2000]), None);
    bench.commit();
    bench.expect(keys.into_iter());
}
